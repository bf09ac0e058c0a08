//! Arithmetic on numbers inside lists and maps.

use crate::call::{CallError, CallReply, CallWriter};
use crate::value::msgpack::{Token, TokenReader, write_float, write_int};

/// A number as an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    /// Reads the number at the front of `bytes`; `None` for nil. Other types are errors.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, CallError> {
        match TokenReader::new(bytes).token().map_err(CallError::Stored)? {
            Token::Nil => Ok(None),
            Token::Int(value) => Ok(Some(Self::Int(value))),
            Token::BigInt(value) => Ok(Some(Self::Int(value.cast_signed()))),
            Token::Float(value) => Ok(Some(Self::Float(value))),
            Token::Float32(value) => Ok(Some(Self::Float(f64::from(value)))),
            _ => Err(CallError::parameter(
                "only numbers can be added to one another: element or delta is not a number",
            )),
        }
    }

    /// Adds this number to the element at the front of `bytes`. The element keeps its type;
    /// integers wrap.
    pub(super) fn added_to(self, bytes: &[u8]) -> Result<Self, CallError> {
        let not_a_number = || CallError::parameter("the element to be added to is not a number");
        Ok(match (Self::read(bytes)?.ok_or_else(not_a_number)?, self) {
            (Self::Int(value), Self::Int(by)) => Self::Int(value.wrapping_add(by)),
            (Self::Int(value), Self::Float(by)) => Self::Int(value.wrapping_add(by as i64)),
            (Self::Float(value), Self::Int(by)) => Self::Float(value + by as f64),
            (Self::Float(value), Self::Float(by)) => Self::Float(value + by),
        })
    }

    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Int(value) => Self::Int(value.wrapping_neg()),
            Self::Float(value) => Self::Float(-value),
        }
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Int(value) => write_int(out, value),
            Self::Float(value) => write_float(out, value),
        }
    }

    /// Appends the number to a call.
    pub(super) fn encode(self, out: CallWriter) -> CallWriter {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        out.encoded(1, &bytes)
    }

    pub(super) const fn reply<'a>(self) -> CallReply<'a> {
        match self {
            Self::Int(value) => CallReply::Int(value),
            Self::Float(value) => CallReply::Float(value),
        }
    }
}
