//! The value of an expression.

use std::borrow::Cow;

use super::types::ExpType;
use crate::call::CallReply;
use crate::cdt::ItemShape;
use crate::value::msgpack::{write_float, write_int};
use crate::value::{ParticleType, ValueRef, accessors, stored_to_element};

/// A value, borrowed from the record or the expression where possible.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExpValue<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Text, bytes, list, map, GeoJSON or sketch, in stored form.
    Bytes(ExpType, Cow<'a, [u8]>),
    /// The marker for removing the element that a path has reached. Not a value.
    Remove,
}

impl<'a> ExpValue<'a> {
    /// Reads a bin; `None` if its type is unknown to expressions or its bytes are malformed.
    pub(super) fn of_stored(kind: ParticleType, bytes: Cow<'a, [u8]>) -> Option<Self> {
        Some(match ExpType::of_particle(kind)? {
            ExpType::Nil => Self::Nil,
            ExpType::Bool => match ValueRef::stored(kind, &bytes) {
                Ok(ValueRef::Bool(value)) => Self::Bool(value),
                _ => return None,
            },
            ExpType::Int => Self::Int(ValueRef::stored(kind, &bytes).ok()?.as_i64()?),
            ExpType::Float => Self::Float(ValueRef::stored(kind, &bytes).ok()?.as_f64()?),
            kind => Self::Bytes(kind, bytes),
        })
    }

    /// Returns the value in a call's reply.
    pub(super) fn of_reply(reply: CallReply<'a>) -> Option<Self> {
        Some(match reply {
            CallReply::Nil => Self::Nil,
            CallReply::Bool(value) => Self::Bool(value),
            CallReply::Int(value) => Self::Int(value),
            CallReply::Float(value) => Self::Float(value),
            // An encoded list or map is its own stored form: moved, not copied.
            CallReply::Element(Cow::Owned(element)) if kind_of_container(&element).is_some() => {
                Self::Bytes(kind_of_container(&element)?, Cow::Owned(element))
            }
            reply => {
                let (kind, bytes) = reply.into_stored().ok()?;
                // Elements that are the blobs of clients read as blobs.
                let kind = ExpType::of_particle(kind).unwrap_or(ExpType::Blob);
                Self::of_stored(kind.particle(), bytes)?
            }
        })
    }

    /// Returns the value of an encoded element of a list or map.
    pub(super) fn of_element(element: &'a [u8]) -> Option<Self> {
        Self::of_reply(CallReply::Element(Cow::Borrowed(element)))
    }

    /// Returns the type; `None` for the removal marker.
    pub(super) const fn kind(&self) -> Option<ExpType> {
        Some(match self {
            Self::Nil => ExpType::Nil,
            Self::Bool(_) => ExpType::Bool,
            Self::Int(_) => ExpType::Int,
            Self::Float(_) => ExpType::Float,
            Self::Bytes(kind, _) => *kind,
            Self::Remove => return None,
        })
    }

    /// Returns the value if it has this type.
    pub(super) fn only(self, kind: ExpType) -> Option<Self> {
        (self.kind() == Some(kind)).then_some(self)
    }

    accessors! {
        pub(super) as_bool -> bool = Bool(value) *value;
        pub(super) as_i64 -> i64 = Int(value) *value;
        pub(super) as_f64 -> f64 = Float(value) *value;
    }

    /// Returns the bytes if the value has this type.
    pub(super) fn bytes_of(&self, wanted: ExpType) -> Option<&[u8]> {
        match self {
            Self::Bytes(kind, bytes) if *kind == wanted => Some(bytes),
            _ => None,
        }
    }

    /// Returns the value with its bytes owned.
    pub(super) fn into_owned(self) -> ExpValue<'static> {
        match self {
            Self::Nil => ExpValue::Nil,
            Self::Bool(value) => ExpValue::Bool(value),
            Self::Int(value) => ExpValue::Int(value),
            Self::Float(value) => ExpValue::Float(value),
            Self::Bytes(kind, bytes) => ExpValue::Bytes(kind, Cow::Owned(bytes.into_owned())),
            Self::Remove => ExpValue::Remove,
        }
    }

    /// Returns the value, borrowing from this one.
    pub(super) fn reborrow(&self) -> ExpValue<'_> {
        match self {
            Self::Bytes(kind, bytes) => ExpValue::Bytes(*kind, Cow::Borrowed(bytes)),
            Self::Nil => ExpValue::Nil,
            Self::Bool(value) => ExpValue::Bool(*value),
            Self::Int(value) => ExpValue::Int(*value),
            Self::Float(value) => ExpValue::Float(*value),
            Self::Remove => ExpValue::Remove,
        }
    }

    /// Returns the value as the result of an operation; the removal marker becomes nil.
    pub(super) fn into_reply(self) -> CallReply<'a> {
        match self {
            Self::Nil | Self::Remove => CallReply::Nil,
            Self::Bool(value) => CallReply::Bool(value),
            Self::Int(value) => CallReply::Int(value),
            Self::Float(value) => CallReply::Float(value),
            Self::Bytes(kind, bytes) => CallReply::Stored(kind.particle(), bytes),
        }
    }

    /// Appends the value as an element of a list or map; `None` for the removal marker.
    pub(super) fn write_element(&self, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Nil => out.push(0xc0),
            Self::Bool(value) => out.push(0xc2 + u8::from(*value)),
            Self::Int(value) => write_int(out, *value),
            Self::Float(value) => write_float(out, *value),
            Self::Bytes(kind, bytes) => stored_to_element(kind.particle(), bytes, out).ok()?,
            Self::Remove => return None,
        }
        Some(())
    }
}

/// Returns the type of an encoded element that is a list or a map.
fn kind_of_container(element: &[u8]) -> Option<ExpType> {
    ExpType::of_particle(ItemShape::of_element(element)?.kind())
}
