//! Adding to numbers, and joining texts or bytes.

use std::borrow::Cow;

use super::change::Change;
use super::whole::check_whole;
use crate::record::BinName;
use crate::value::{ParticleType, Value, ValueRef};
use crate::{Error, Result};

/// At which end bytes are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

/// Adds `operand` to a bin: integers wrap, floats follow IEEE 754, types never mix. A missing bin becomes the operand.
pub(super) fn add<'a>(
    bin: &BinName,
    current: Option<(ParticleType, &[u8])>,
    operand: &'a Value,
) -> Result<Change<'a>> {
    let Some((kind, value)) = current else {
        return written(bin, operand);
    };
    let value = ValueRef::stored(kind, value).map_err(|source| Error::malformed("bin", source))?;
    let sum = match (value, operand) {
        (_, Value::Nil) => return Err(nil_operand(bin)),
        (ValueRef::Int(value), Value::Int(by)) => Value::Int(value.wrapping_add(*by)),
        (ValueRef::Float(value), Value::Float(by)) => Value::Float(value + by),
        _ => return Err(incompatible(bin, kind, "adding this operand")),
    };
    Ok(Change::Value(Cow::Owned(sum)))
}

/// Joins `operand` to a bin: text to text, bytes to bytes of the same type. A missing bin becomes the operand.
pub(super) fn join<'a>(
    bin: &BinName,
    current: Option<(ParticleType, &'a [u8])>,
    operand: &'a Value,
    end: End,
) -> Result<Change<'a>> {
    let Some((kind, value)) = current else {
        return written(bin, operand);
    };
    let joined = match operand {
        Value::Nil => return Err(nil_operand(bin)),
        Value::String(text) if kind == ParticleType::String => text.as_bytes(),
        Value::Blob(bytes) if kind == ParticleType::Blob => bytes.as_slice(),
        _ => return Err(incompatible(bin, kind, "joining this operand")),
    };
    Ok(match end {
        End::Front => Change::Joined(kind, joined, value),
        End::Back => Change::Joined(kind, value, joined),
    })
}

fn written<'a>(bin: &BinName, operand: &'a Value) -> Result<Change<'a>> {
    if *operand == Value::Nil {
        Err(nil_operand(bin))
    } else {
        check_whole(operand)?;
        Ok(Change::write(operand))
    }
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
    }
}
