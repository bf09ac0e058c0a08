//! The arguments of an encoded call, decoded: the client's operations are built of values.

use aerospike::{ListReturnType, MapReturnType, Value as Theirs};

use super::value;
use crate::call::{CallArguments as Encoded, CallError};
use crate::value::CodecError;
use crate::value::msgpack::{Token, TokenReader};
use crate::{Error, Result, Value};

/// The arguments of a call, by position. One with an integer above `i64::MAX` in it is here as that
/// integer alone: decoded, it would be a negative one.
#[derive(Debug)]
pub(super) struct PositionalArguments {
    values: Vec<Value>,
}

impl PositionalArguments {
    pub(super) fn decode(mut encoded: Encoded<'_>) -> std::result::Result<Self, CallError> {
        let mut values = Vec::with_capacity(encoded.left() as usize);
        while encoded.left() > 0 {
            let mut bytes = encoded.element()?;
            let value = match integer_above_max(bytes) {
                Ok(Some(integer)) => Ok(Value::BigInt(integer)),
                Ok(None) => Value::decode_front(&mut bytes),
                Err(error) => Err(error),
            };
            values.push(value.map_err(CallError::Argument)?);
        }
        Ok(Self { values })
    }

    pub(super) const fn len(&self) -> usize {
        self.values.len()
    }

    fn at(&self, position: usize) -> Result<&Value> {
        self.values
            .get(position)
            .ok_or_else(|| Error::parameter(format!("argument {position} of a call is missing")))
    }

    /// An integer; a count above `i64::MAX` is a negative one on the wire.
    pub(super) fn int(&self, position: usize) -> Result<i64> {
        match self.at(position)? {
            Value::Int(value) => Ok(*value),
            Value::BigInt(value) => Ok(value.cast_signed()),
            Value::Bool(value) => Ok(i64::from(*value)),
            other => Err(not(position, other, "an integer")),
        }
    }

    /// Flags; none where the argument is left out.
    pub(super) fn flags(&self, position: usize) -> Result<u8> {
        if position >= self.len() {
            return Ok(0);
        }
        let flags = self.int(position)?;
        u8::try_from(flags)
            .map_err(|_| Error::parameter(format!("flags {flags:#x} of a call are unknown")))
    }

    pub(super) fn list_return(&self, position: usize) -> Result<ListReturnType> {
        self.int(position).map(ListReturnType::from_bits)
    }

    pub(super) fn map_return(&self, position: usize) -> Result<MapReturnType> {
        self.int(position).map(MapReturnType::from_bits)
    }

    pub(super) fn value(&self, position: usize) -> Result<Theirs> {
        value::element(self.at(position)?)
    }

    /// The end of an interval: nil where it is open, which the client leaves out.
    pub(super) fn end(&self, position: usize) -> Result<Theirs> {
        match self.values.get(position) {
            None => Ok(Theirs::Nil),
            Some(Value::Nil) => Err(Error::parameter(
                "an interval that ends at nil cannot be sent to a cluster: nothing is below nil",
            )),
            Some(end) => value::element(end),
        }
    }

    pub(super) fn values(&self, position: usize) -> Result<Vec<Theirs>> {
        match self.at(position)? {
            Value::List(list) => value::elements(list),
            other => Err(not(position, other, "a list")),
        }
    }

    pub(super) fn entries(&self, position: usize) -> Result<aerospike::IndexMap<Theirs, Theirs>> {
        match self.at(position)? {
            Value::Map(map) => value::entries(map),
            other => Err(not(position, other, "a map")),
        }
    }
}

/// Returns the first integer above `i64::MAX` in an encoded value, at any depth.
pub(super) fn integer_above_max(bytes: &[u8]) -> std::result::Result<Option<u64>, CodecError> {
    let mut tokens = TokenReader::new(bytes);
    while !tokens.rest().is_empty() {
        if let Token::BigInt(integer) = tokens.token()? {
            return Ok(Some(integer));
        }
    }
    Ok(None)
}

fn not(position: usize, value: &Value, kind: &str) -> Error {
    match value {
        Value::BigInt(_) => value::above_max(),
        _ => Error::parameter(format!(
            "argument {position} of a call is {value:?}, not {kind}"
        )),
    }
}

/// Generates the function that finds the client's function for a number and calls it. One row a
/// function: the number (`/ n`: where the call has at least `n` arguments), the client's name, and
/// arguments of the call by kind and position: a policy before the bin, what follows the bin, and a
/// policy at the end. Those in brackets have functions of their own; those in braces are reads and
/// removals with the same arguments, then the type of the result.
macro_rules! operations {
    (
        $system:literal, [$($own:ident => $name:ident),*];
        $($code:ident $(/ $least:literal)? $function:ident(
            $(&$first:ident $first_at:literal;)? $($kind:ident $at:literal),* $(; &$last:ident $last_at:literal)?
        );)*
        $(=> $returns:ident {$(
            $get:ident $getting:ident, $remove:ident $removing:ident $(/ $pair_least:literal)?
            ($($pair_kind:ident $pair_at:literal),*);
        )*})?
    ) => {
        /// Returns the operation of this number.
        pub(super) fn operation(bin: &str, code: i64, a: &PositionalArguments) -> Result<Theirs> {
            Ok(match u8::try_from(code).unwrap_or(u8::MAX) {
                $(c::$own => $name(bin, a)?,)*
                $(c::$code $(if a.len() >= $least)? => theirs::$function(
                    $(&a.$first($first_at)?,)? bin, $(a.$kind($at)?,)* $(&a.$last($last_at)?)?
                ),)*
                $($(
                    c::$get $(if a.len() >= $pair_least)? => theirs::$getting(bin, $(a.$pair_kind($pair_at)?,)* a.$returns(0)?),
                    c::$remove $(if a.len() >= $pair_least)? => theirs::$removing(bin, $(a.$pair_kind($pair_at)?,)* a.$returns(0)?),
                )*)?
                _ => return Err(unknown(bin, $system, code)),
            })
        }
    };
}

pub(super) use operations;

/// An operation that the client has no function for.
pub(super) fn unknown(bin: &str, system: &str, operation: i64) -> Error {
    Error::parameter(format!(
        "operation {operation} on {system} cannot be sent to a cluster: the client for it does not know it (bin \"{bin}\")"
    ))
}
