//! Encoding of calls.

use super::CallError;
use super::payload::CALL_BELOW;
use crate::value::msgpack::{write_array_header, write_int, write_uint};
use crate::value::{CodecError, EncodePurpose, ItemShape, Value, encode};

/// An encoded call, or the reason why an argument has no encoding; executing it returns that error.
pub(crate) type EncodedCall = Result<Box<[u8]>, CallError>;

/// The most arguments that fit the one-byte header.
const MAX_ARGUMENTS: u8 = 14;

/// Encodes a call, argument by argument.
#[derive(Clone, Debug)]
pub(crate) struct CallWriter {
    out: Vec<u8>,
    elements: u8,
    error: Option<CodecError>,
}

impl CallWriter {
    /// Starts a call without arguments.
    #[inline]
    pub(crate) fn new(operation: u8) -> Self {
        let mut out = Vec::with_capacity(16);
        out.push(0x90);
        write_uint(&mut out, u64::from(operation));
        Self {
            out,
            elements: 1,
            error: None,
        }
    }

    #[inline]
    fn argument(&mut self) {
        debug_assert!(self.elements <= MAX_ARGUMENTS);
        self.elements += 1;
    }

    /// Appends an integer.
    #[inline]
    pub(crate) fn int(mut self, value: i64) -> Self {
        self.argument();
        write_int(&mut self.out, value);
        self
    }

    /// Appends a count or flags.
    #[inline]
    pub(crate) fn uint(mut self, value: u64) -> Self {
        self.argument();
        write_uint(&mut self.out, value);
        self
    }

    /// Appends a value.
    #[inline]
    pub(crate) fn value(mut self, value: &Value, purpose: EncodePurpose) -> Self {
        self.argument();
        let encoded = encode(value, purpose, &mut self.out);
        self.error = self.error.or(encoded.err());
        self
    }

    /// Appends a list of values.
    pub(crate) fn list(mut self, values: &[Value], purpose: EncodePurpose) -> Self {
        self.argument();
        match u32::try_from(values.len()) {
            Ok(count) => write_array_header(&mut self.out, count),
            Err(_) => self.error = self.error.or(Some(CodecError::TooLong)),
        }
        for value in values {
            let encoded = encode(value, purpose, &mut self.out);
            self.error = self.error.or(encoded.err());
        }
        self
    }

    /// Appends this many encoded values.
    pub(crate) fn encoded(mut self, values: u8, bytes: &[u8]) -> Self {
        self.out.extend_from_slice(bytes);
        self.elements += values;
        self
    }

    /// Appends a list or map of encoded items.
    pub(crate) fn encoded_items(mut self, shape: ItemShape, count: u32, items: &[u8]) -> Self {
        shape.write_header(&mut self.out, count);
        self.encoded(1, items)
    }

    /// Returns the finished call.
    #[inline]
    pub(crate) fn finish(mut self) -> EncodedCall {
        if let Some(first) = self.out.first_mut() {
            *first = 0x90 | self.elements;
        }
        match self.error {
            Some(error) => Err(CallError::Argument(error)),
            None => Ok(self.out.into()),
        }
    }
}

/// Returns a call on the value at a path, an encoded list of kinds and values in turn.
pub(crate) fn below(path: &[u8], call: &[u8]) -> Box<[u8]> {
    let mut out = Vec::with_capacity(path.len() + call.len() + 3);
    write_array_header(&mut out, 3);
    write_int(&mut out, CALL_BELOW);
    out.extend_from_slice(path);
    out.extend_from_slice(call);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::super::{PathCall, Trust};
    use super::*;

    #[test]
    fn what_is_put_together_can_be_taken_apart() {
        let call = CallWriter::new(70)
            .int(-3)
            .value(&"x".into(), EncodePurpose::Storage)
            .list(&[1.into(), Value::Wildcard], EncodePurpose::Lookup)
            .uint(u64::MAX)
            .finish()
            .unwrap();
        let path = [0x92, 0x22, 7];
        let below = below(&path, &call);
        for (bytes, levels) in [(&call, 0), (&below, 1)] {
            let PathCall {
                path,
                operation,
                mut arguments,
            } = PathCall::parse(bytes, Trust::Normal).unwrap();
            assert_eq!((path.levels(), operation), (levels, 70));
            assert_eq!(arguments.int(), Ok(-3));
            assert_eq!(arguments.bytes(), Ok(&b"x"[..]));
            assert_eq!(
                arguments
                    .items(EncodePurpose::Lookup, ItemShape::List)
                    .unwrap()
                    .0,
                2
            );
            assert_eq!(arguments.uint(), Ok(u64::MAX));
            assert_eq!(arguments.end(), Ok(()));
        }
    }

    #[test]
    fn an_argument_without_encoding_is_remembered() {
        let call = CallWriter::new(1)
            .value(&Value::Wildcard, EncodePurpose::Storage)
            .int(1)
            .finish();
        assert_eq!(call, Err(CallError::Argument(CodecError::NotStorable)));
    }
}
