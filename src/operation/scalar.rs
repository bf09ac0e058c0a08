//! Adding to numbers, and joining texts or bytes.

use std::borrow::Cow;

use super::bin_value::{check_bin_value, check_stored_bin_value};
use super::change::BinChange;
use crate::record::BinName;
use crate::value::{ParticleType, Value, ValueRef};
use crate::{Error, Result};

/// At which end bytes are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinEnd {
    Front,
    Back,
}

/// The operand that is added or joined to a bin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    Value(Value),
    /// A value in its stored form: the bytes of other languages have types that no [`Value`] has.
    #[cfg_attr(
        not(feature = "server"),
        expect(dead_code, reason = "only wire clients send them")
    )]
    Stored(ParticleType, Vec<u8>),
}

impl Operand {
    const fn is_nil(&self) -> bool {
        matches!(
            self,
            Self::Value(Value::Nil) | Self::Stored(ParticleType::Null, _)
        )
    }

    /// The number, if it is one.
    fn number(&self) -> Option<Value> {
        match self {
            Self::Value(number @ (Value::Int(_) | Value::Float(_))) => Some(number.clone()),
            Self::Stored(kind @ (ParticleType::Integer | ParticleType::Float), bytes) => {
                ValueRef::stored(*kind, bytes).ok()?.to_value().ok()
            }
            _ => None,
        }
    }

    /// The text or the bytes, if they can be joined to a bin of this type: to their own.
    fn joinable(&self, to: ParticleType) -> Option<&[u8]> {
        use ParticleType::{
            Blob, CSharpBlob, ErlangBlob, JavaBlob, PhpBlob, PythonBlob, RubyBlob, String, Vector,
        };
        match (self, to) {
            (Self::Value(Value::String(text)), String) => Some(text.as_bytes()),
            (Self::Value(Value::Blob(bytes)), Blob) => Some(bytes),
            (
                Self::Stored(kind, bytes),
                String | Blob | JavaBlob | CSharpBlob | PythonBlob | RubyBlob | PhpBlob
                | ErlangBlob | Vector,
            ) if *kind == to => Some(bytes),
            _ => None,
        }
    }

    /// The value, as it is sent to a cluster.
    #[cfg(feature = "cluster")]
    pub(crate) fn to_value(&self) -> Result<Cow<'_, Value>> {
        Ok(match self {
            Self::Value(value) => Cow::Borrowed(value),
            Self::Stored(kind, bytes) => Cow::Owned(ValueRef::stored(*kind, bytes)?.to_value()?),
        })
    }

    /// The change that makes it the bin's value.
    fn written(&self, bin: &BinName) -> Result<BinChange<'_>> {
        match self {
            _ if self.is_nil() => Err(nil_operand(bin)),
            Self::Value(value) => {
                check_bin_value(value)?;
                Ok(BinChange::write(value))
            }
            Self::Stored(kind, bytes) => {
                check_stored_bin_value(*kind, bytes)?;
                Ok(BinChange::Stored(*kind, bytes.clone()))
            }
        }
    }
}

/// Adds `operand` to a bin: integers wrap, floats follow IEEE 754, types never mix. A missing bin
/// becomes the operand.
pub(super) fn add<'a>(
    bin: &BinName,
    current: Option<(ParticleType, &[u8])>,
    operand: &'a Operand,
) -> Result<BinChange<'a>> {
    let Some((kind, value)) = current else {
        return operand.written(bin);
    };
    if operand.is_nil() {
        return Err(nil_operand(bin));
    }
    let value = ValueRef::stored(kind, value).map_err(|source| Error::malformed("bin", source))?;
    let sum = match (value, operand.number()) {
        (ValueRef::Int(value), Some(Value::Int(by))) => Value::Int(value.wrapping_add(by)),
        (ValueRef::Float(value), Some(Value::Float(by))) => Value::Float(value + by),
        _ => return Err(incompatible(bin, kind, "adding this operand")),
    };
    Ok(BinChange::Value(Cow::Owned(sum)))
}

/// Joins `operand` to a bin: text to text, bytes to bytes of the same type. A missing bin becomes
/// the operand.
pub(super) fn join<'a>(
    bin: &BinName,
    current: Option<(ParticleType, &'a [u8])>,
    operand: &'a Operand,
    end: JoinEnd,
) -> Result<BinChange<'a>> {
    let Some((kind, value)) = current else {
        return operand.written(bin);
    };
    let joined = match operand.joinable(kind) {
        Some(joined) => joined,
        None if operand.is_nil() => return Err(nil_operand(bin)),
        None => return Err(incompatible(bin, kind, "joining this operand")),
    };
    Ok(match end {
        JoinEnd::Front => BinChange::Joined(kind, joined, value),
        JoinEnd::Back => BinChange::Joined(kind, value, joined),
    })
}

fn nil_operand(bin: &BinName) -> Error {
    Error::parameter(format!(
        "nil cannot be added or joined to bin \"{bin}\": give a value"
    ))
}

fn incompatible(bin: &BinName, kind: ParticleType, operation: &'static str) -> Error {
    Error::IncompatibleType {
        bin: bin.as_str().into(),
        found: kind.name(),
        operation,
        record: None,
    }
}
