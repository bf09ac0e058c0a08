//! Parsing of calls.
//!
//! ```text
//! [operation, argument ..]                            a plain call
//! [0xff, [kind, value ..], [operation, argument ..]]  a call on what a path of contexts leads to
//! [0xfe, [kind, value ..], flags (, expression)]      a selection of many elements, by contexts that match several
//! 00 operation [argument ..]                          the form of old clients: two bytes, then the arguments
//! ```

use std::borrow::Cow;
use std::ops::RangeInclusive;

use bitflags::Flags;

use super::{CallError, MAX_ARGUMENT_ITEMS};
use crate::value::msgpack::{Token, TokenReader};
use crate::value::{Container, EncodePurpose, ItemShape, normalize_element};

/// The number in front of a call below a path.
pub(crate) const CALL_BELOW: i64 = 0xff;
/// The number in front of a selection.
pub(crate) const CALL_SELECT: i64 = 0xfe;

/// The origin of an encoded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Our own encoder: values are in normal form.
    Normal,
    /// A client: values are normalized when read.
    Foreign,
}

/// A parsed call or selection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload<'a> {
    /// A call, perhaps below a path.
    Call(PathCall<'a>),
    /// A selection of elements by a path that may match several at each level.
    Select {
        path: Path<'a>,
        flags: i64,
        /// The encoded expression to apply to the selected elements.
        apply: Option<&'a [u8]>,
    },
}

/// A call on a bin, or on the value that a path leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathCall<'a> {
    /// Empty for the bin itself.
    pub(crate) path: Path<'a>,
    /// The number of the operation.
    pub(crate) operation: i64,
    pub(crate) arguments: CallArguments<'a>,
}

impl PathCall<'_> {
    /// Fails unless it has a number of arguments that its operation takes.
    pub(crate) fn check_count(&self, allowed: RangeInclusive<u32>) -> Result<(), CallError> {
        let given = self.arguments.left();
        if allowed.contains(&given) {
            return Ok(());
        }
        Err(CallError::parameter(format!(
            "operation {} takes {} to {} arguments, {given} were given",
            self.operation,
            allowed.start(),
            allowed.end()
        )))
    }
}

/// A path of contexts: kinds and values, in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'a> {
    elements: CallArguments<'a>,
}

/// The arguments of a call. Each method takes the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallArguments<'a> {
    left: u32,
    trust: Trust,
    rest: TokenReader<'a>,
}

impl<'a> Payload<'a> {
    /// Parses an encoded call or selection. O(1), no allocation.
    pub(crate) fn parse(bytes: &'a [u8], trust: Trust) -> Result<Self, CallError> {
        // A call of an old client. No list begins with 0, so the forms cannot be confused.
        if let [0, operation, rest @ ..] = bytes {
            let arguments = match rest {
                [] => CallArguments::none(trust),
                _ => CallArguments::parse(rest, trust)?,
            };
            return Ok(Self::Call(PathCall {
                path: Path::none(trust),
                operation: i64::from(*operation),
                arguments,
            }));
        }
        let mut arguments = CallArguments::parse(bytes, trust)?;
        match arguments.int()? {
            CALL_SELECT => {
                let path = Path::parse(arguments.element()?, trust)?;
                let flags = arguments.int()?;
                let apply = arguments.optional(CallArguments::element)?;
                arguments.end()?;
                Ok(Self::Select { path, flags, apply })
            }
            CALL_BELOW => {
                let path = Path::parse(arguments.element()?, trust)?;
                let call = arguments.element()?;
                arguments.end()?;
                let mut arguments = CallArguments::parse(call, trust)?;
                Ok(Self::Call(PathCall {
                    path,
                    operation: arguments.int()?,
                    arguments,
                }))
            }
            operation => Ok(Self::Call(PathCall {
                path: Path::none(trust),
                operation,
                arguments,
            })),
        }
    }
}

#[cfg(test)]
impl<'a> PathCall<'a> {
    /// Parses an encoded call; fails for a selection.
    pub(crate) fn parse(bytes: &'a [u8], trust: Trust) -> Result<Self, CallError> {
        match Payload::parse(bytes, trust)? {
            Payload::Call(call) => Ok(call),
            Payload::Select { .. } => Err(CallError::parameter(
                "a selection by a path where a single call is needed",
            )),
        }
    }
}

impl<'a> Path<'a> {
    const fn none(trust: Trust) -> Self {
        Self {
            elements: CallArguments::none(trust),
        }
    }

    fn parse(bytes: &'a [u8], trust: Trust) -> Result<Self, CallError> {
        let elements = CallArguments::parse(bytes, trust)?;
        if elements.left == 0 || elements.left % 2 != 0 {
            return Err(CallError::parameter(format!(
                "a context path has {} elements: it needs pairs of a kind and a value, at least one",
                elements.left
            )));
        }
        Ok(Self { elements })
    }

    /// Returns the number of remaining levels.
    pub(crate) const fn levels(&self) -> u32 {
        self.elements.left / 2
    }

    /// Returns whether its values are in normal form already.
    pub(crate) const fn trust(&self) -> Trust {
        self.elements.trust
    }

    /// Takes the first level: its kind, and the bytes of its value as received.
    pub(crate) fn next(&mut self) -> Result<Option<(i64, &'a [u8])>, CallError> {
        self.elements
            .optional(|elements| Ok((elements.int()?, elements.element()?)))
    }
}

impl<'a> CallArguments<'a> {
    const fn none(trust: Trust) -> Self {
        Self {
            left: 0,
            trust,
            rest: TokenReader::new(&[]),
        }
    }

    /// Begins at the first element of the list in `bytes`.
    #[inline]
    fn parse(bytes: &'a [u8], trust: Trust) -> Result<Self, CallError> {
        let mut rest = TokenReader::new(bytes);
        match rest.token().map_err(CallError::Argument)? {
            Token::Array(left) => Ok(Self { left, trust, rest }),
            _ => Err(CallError::parameter(
                "a call must be a list of an operation's number and its arguments",
            )),
        }
    }

    /// Returns the number of remaining arguments.
    pub(crate) const fn left(&self) -> u32 {
        self.left
    }

    /// Fails unless all arguments were taken and nothing follows them.
    pub(crate) fn end(&self) -> Result<(), CallError> {
        if self.left > 0 {
            return Err(CallError::parameter(format!(
                "{} arguments too many for this operation",
                self.left
            )));
        }
        self.rest.end().map_err(CallError::Argument)
    }

    /// Takes the next argument with `read`; `None` if no argument remains.
    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CallError>,
    ) -> Result<Option<T>, CallError> {
        if self.left == 0 {
            return Ok(None);
        }
        read(self).map(Some)
    }

    #[inline]
    fn take_one(&mut self) -> Result<(), CallError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            CallError::parameter("a call has fewer arguments than its operation needs")
        })?;
        Ok(())
    }

    /// Takes an integer: an index, a rank, a delta of bits.
    #[inline]
    pub(crate) fn int(&mut self) -> Result<i64, CallError> {
        self.take_one()?;
        match self.rest.token().map_err(CallError::Argument)? {
            Token::Int(value) => Ok(value),
            Token::BigInt(value) => Ok(value.cast_signed()),
            _ => Err(CallError::parameter(
                "an argument of a call is not the integer that belongs there",
            )),
        }
    }

    /// Takes an unsigned integer for counts and flags; a negative one wraps to a huge one, as in
    /// Aerospike.
    pub(crate) fn uint(&mut self) -> Result<u64, CallError> {
        self.int().map(i64::cast_unsigned)
    }

    /// Takes an unsigned integer; 0 if no argument remains.
    pub(crate) fn uint_or_zero(&mut self) -> Result<u64, CallError> {
        if self.left == 0 {
            return Ok(0);
        }
        self.uint()
    }

    /// Takes flags out of `allowed`, but not all of `exclusive` together. None if no argument
    /// remains.
    pub(crate) fn flags<F: Flags<Bits = u32> + Copy>(
        &mut self,
        allowed: F,
        exclusive: F,
    ) -> Result<F, CallError> {
        let bits = self.uint_or_zero()?;
        u32::try_from(bits)
            .ok()
            .and_then(F::from_bits)
            .filter(|flags| allowed.contains(*flags) && !flags.contains(exclusive))
            .ok_or_else(|| {
                CallError::parameter(format!(
                    "flags {bits:#x} are not allowed for this operation"
                ))
            })
    }

    /// Takes one element, and returns its first token.
    fn scalar(&mut self) -> Result<Token<'a>, CallError> {
        let element = TokenReader::new(self.element()?).token();
        element.map_err(CallError::Argument)
    }

    /// Takes a truth value.
    pub(crate) fn bool(&mut self) -> Result<bool, CallError> {
        match self.scalar()? {
            Token::Bool(value) => Ok(value),
            Token::Int(value) => Ok(value != 0),
            _ => Err(CallError::parameter("an argument is not a truth value")),
        }
    }

    /// Takes the bytes of a string or blob, without the subtype byte.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], CallError> {
        match self.scalar()? {
            Token::Raw([_, rest @ ..]) => Ok(rest),
            Token::Raw([]) => Ok(&[]),
            _ => Err(CallError::parameter("an argument is not a blob")),
        }
    }

    /// Takes one element as received.
    #[inline]
    pub(crate) fn element(&mut self) -> Result<&'a [u8], CallError> {
        self.take_one()?;
        self.rest.element().map_err(CallError::Argument)
    }

    /// Takes a value, in normal form.
    pub(crate) fn value(&mut self, purpose: EncodePurpose) -> Result<Cow<'a, [u8]>, CallError> {
        let bytes = self.element()?;
        normal(bytes, purpose, self.trust)
    }

    /// Takes several values, in normal form, concatenated.
    pub(crate) fn values(
        &mut self,
        count: u32,
        purpose: EncodePurpose,
    ) -> Result<Cow<'a, [u8]>, CallError> {
        let start = self.rest.rest();
        let mut normal_form = Vec::new();
        for _ in 0..count {
            let bytes = self.element()?;
            if self.trust == Trust::Foreign {
                normalize_element(bytes, purpose, &mut normal_form).map_err(CallError::Argument)?;
            }
        }
        Ok(match self.trust {
            Trust::Foreign => Cow::Owned(normal_form),
            Trust::Normal => {
                let len = start.len() - self.rest.rest().len();
                Cow::Borrowed(start.get(..len).unwrap_or_default())
            }
        })
    }

    /// Returns whether any remaining argument nests deeper than `levels`. O(bytes), no recursion.
    pub(crate) fn nests_deeper_than(&self, levels: u32) -> bool {
        nest_deeper_than(self.rest.rest(), levels)
    }

    /// Takes the items of a list, or the keys and values of a map in turn, in normal form, and the
    /// number of items or entries. The caller chooses between list and map.
    pub(crate) fn items(
        &mut self,
        purpose: EncodePurpose,
        shape: ItemShape,
    ) -> Result<(u32, Cow<'a, [u8]>), CallError> {
        let value = self.value(purpose)?;
        let head = |bytes: &'_ [u8]| {
            let head = Container::of(shape, bytes);
            head.map(|head| (head.count, bytes.len() - head.content.len()))
        };
        let (count, start) = head(&value).map_err(CallError::Argument)?;
        if count as usize > MAX_ARGUMENT_ITEMS {
            return Err(CallError::parameter(format!(
                "{count} items in one operation, the limit is {MAX_ARGUMENT_ITEMS}: split them"
            )));
        }
        let content = match value {
            Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(start..).unwrap_or_default()),
            Cow::Owned(mut bytes) => {
                bytes.drain(..start);
                Cow::Owned(bytes)
            }
        };
        Ok((count, content))
    }
}

/// Returns whether any of the concatenated elements in `bytes` nests deeper than `levels`.
/// O(bytes), no recursion.
pub(crate) fn nest_deeper_than(bytes: &[u8], levels: u32) -> bool {
    let mut reader = TokenReader::new(bytes);
    let mut pending: Vec<u64> = Vec::new();
    while let Ok(token) = reader.token() {
        let children = match token {
            Token::Array(count) => u64::from(count),
            Token::Map(count) => 2 * u64::from(count),
            _ => 0,
        };
        while pending.pop_if(|left| *left == 0).is_some() {}
        if let Some(left) = pending.last_mut() {
            *left -= 1;
        }
        if matches!(token, Token::Array(_) | Token::Map(_)) {
            pending.push(children);
            if pending.len() as u32 > levels {
                return true;
            }
        }
    }
    false
}

/// Returns an argument's value in normal form.
pub(crate) fn normal(
    bytes: &[u8],
    purpose: EncodePurpose,
    trust: Trust,
) -> Result<Cow<'_, [u8]>, CallError> {
    match trust {
        Trust::Normal => Ok(Cow::Borrowed(bytes)),
        Trust::Foreign => {
            let mut out = Vec::with_capacity(bytes.len());
            normalize_element(bytes, purpose, &mut out).map_err(CallError::Argument)?;
            Ok(Cow::Owned(out))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(bytes: &[u8]) -> Result<PathCall<'_>, CallError> {
        PathCall::parse(bytes, Trust::Foreign)
    }

    #[test]
    fn a_plain_call_is_a_list_of_number_and_arguments() {
        let mut call = call(&[0x93, 16, 5, 0xff]).unwrap();
        assert_eq!((call.operation, call.path.levels()), (16, 0));
        assert_eq!(call.arguments.int(), Ok(5));
        assert_eq!(call.arguments.uint(), Ok(u64::MAX));
        assert_eq!(call.arguments.end(), Ok(()));
        assert!(call.arguments.int().is_err());
    }

    #[test]
    fn a_call_below_a_path_has_levels() {
        let bytes = [0x93, 0xcc, 0xff, 0x92, 0x10, 0xff, 0x91, 16];
        let mut call = call(&bytes).unwrap();
        assert_eq!((call.operation, call.path.levels()), (16, 1));
        assert_eq!(call.path.next(), Ok(Some((0x10, &[0xff][..]))));
        assert_eq!(call.path.next(), Ok(None));
    }

    #[test]
    fn the_form_of_old_clients_is_read() {
        let mut with = call(&[0, 17, 0x91, 3]).unwrap();
        assert_eq!((with.operation, with.arguments.int()), (17, Ok(3)));
        let without = call(&[0, 16]).unwrap();
        assert_eq!((without.operation, without.arguments.left()), (16, 0));
    }

    #[test]
    fn values_are_brought_into_normal_form() {
        let mut call = call(&[0x92, 1, 0xd1, 0, 7]).unwrap();
        assert_eq!(
            &*call.arguments.value(EncodePurpose::Storage).unwrap(),
            &[7]
        );
    }

    #[test]
    fn malformed_calls_are_refused() {
        let table: [&[u8]; 9] = [
            &[],
            &[0x90],
            &[0x80],
            &[0x91, 0xa0],
            &[0x92, 0xcc, 0xff, 0x90],
            &[0x93, 0xcc, 0xff, 0x90, 0x91, 16],
            &[0x93, 0xcc, 0xff, 0x91, 0x10, 0x91, 16],
            &[0x94, 0xcc, 0xff, 0x92, 0x10, 0, 0x91, 16, 1],
            &[0xdd, 0xff, 0xff, 0xff, 0xff],
        ];
        for bytes in table {
            assert!(call(bytes).is_err(), "{bytes:x?}");
        }
    }
}
