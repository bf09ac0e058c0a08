//! The results of calls.

use std::borrow::Cow;

use crate::value::msgpack::write_array_header;
use crate::value::{CodecError, ParticleType, Value, ValueRef, element_to_stored, write_stored};

/// MessagePack's nil.
const NIL: u8 = 0xc0;

/// The longest header of a list, in bytes.
const MAX_HEADER_BYTES: usize = 5;

/// The result of a call: borrowed from the bin where possible, and decoded only on request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallReply<'a> {
    /// No result, or nil.
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// An encoded element of a list or map, or an encoded result list or map.
    Element(Cow<'a, [u8]>),
    /// Consecutive elements of a stored list, borrowed: the result is a list of them.
    Elements {
        count: u32,
        bytes: &'a [u8],
    },
    /// A value in its stored form.
    Stored(ParticleType, Cow<'a, [u8]>),
}

impl<'a> CallReply<'a> {
    /// Returns whether it is nil, or the nil element of a list or map.
    pub(crate) fn is_nil(&self) -> bool {
        match self {
            Self::Nil => true,
            Self::Element(element) => element.first() == Some(&NIL),
            _ => false,
        }
    }

    /// Returns the owned form.
    pub(crate) fn to_value(&self) -> Result<Value, CodecError> {
        Ok(match self {
            Self::Nil => Value::Nil,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Element(element) => Value::decode_front(&mut &**element)?,
            Self::Elements { count, bytes } => Value::decode_list(*count, bytes)?,
            Self::Stored(kind, bytes) => ValueRef::stored(*kind, bytes)?.to_value()?,
        })
    }

    /// Passes the value to `look`, decoded during iteration; `None` for nil.
    ///
    /// # Errors
    /// A [`CodecError`] if the head of the value is malformed: `look` is not called then.
    pub(crate) fn lend<R>(
        self,
        look: impl FnOnce(Option<ValueRef<'_>>) -> R,
    ) -> Result<R, CodecError> {
        let scalar = match self {
            Self::Nil => None,
            Self::Bool(value) => Some(ValueRef::Bool(value)),
            Self::Int(value) => Some(ValueRef::Int(value)),
            Self::Float(value) => Some(ValueRef::Float(value)),
            reply => {
                let (kind, bytes) = reply.into_stored()?;
                return Ok(match kind {
                    ParticleType::Null => look(None),
                    kind => look(Some(ValueRef::stored(kind, &bytes)?)),
                });
            }
        };
        Ok(look(scalar))
    }

    /// Returns type and stored form, as for the value of a bin. Nil has the type
    /// [`ParticleType::Null`].
    pub(crate) fn into_stored(self) -> Result<(ParticleType, Cow<'a, [u8]>), CodecError> {
        let scalar = |value: Value| {
            let mut out = Vec::new();
            let kind = write_stored(&value, &mut out)?;
            Ok((kind, Cow::Owned(out)))
        };
        match self {
            Self::Nil => Ok((ParticleType::Null, Cow::Borrowed(&[]))),
            Self::Bool(value) => scalar(value.into()),
            Self::Int(value) => scalar(value.into()),
            Self::Float(value) => scalar(value.into()),
            Self::Element(Cow::Borrowed(element)) => element_to_stored(element),
            Self::Element(Cow::Owned(element)) => {
                let (kind, bytes) = element_to_stored(&element)?;
                Ok((kind, Cow::Owned(bytes.into_owned())))
            }
            Self::Elements { count, bytes } => {
                let mut list = Vec::with_capacity(bytes.len() + MAX_HEADER_BYTES);
                write_array_header(&mut list, count);
                list.extend_from_slice(bytes);
                Ok((ParticleType::List, Cow::Owned(list)))
            }
            Self::Stored(kind, bytes) => Ok((kind, bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{any_value, encoded};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_element_reads_the_same_in_its_stored_form(value in any_value()) {
            let element = encoded(&value);
            let reply = CallReply::Element(Cow::Borrowed(&element));
            let read = reply.to_value().unwrap();
            let lent = reply.clone().lend(|lent| lent.map(|lent| lent.to_value().unwrap()));
            let lent = lent.unwrap().unwrap_or(Value::Nil);
            prop_assert_eq!(encoded(&lent), encoded(&read));
            let (kind, stored) = reply.into_stored().unwrap();
            if kind == ParticleType::Null {
                prop_assert_eq!(read, Value::Nil);
            } else {
                let again = ValueRef::stored(kind, &stored).unwrap().to_value().unwrap();
                prop_assert_eq!(encoded(&again), encoded(&read));
            }
        }
    }
}
