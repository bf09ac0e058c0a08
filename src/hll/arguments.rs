//! Parsing of calls on sketches.

use std::borrow::Cow;

use super::code;
use super::geometry::{self, SketchGeometry};
use super::policy::HllWriteFlags;
use super::sketch::Sketch;
use crate::call::{CallArguments, CallError, PathCall};
use crate::value::msgpack::{Token, TokenReader};
use crate::value::{Container, EncodePurpose, ItemShape};

/// The numbers of bits in a call. The bin's geometry supplies missing ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    pub(super) index: Option<u8>,
    pub(super) min_hash: Option<u8>,
}

/// Encoded scalars, concatenated; at least one.
#[derive(Clone, Debug)]
pub(super) struct ScalarElements<'a>(Cow<'a, [u8]>);

/// A reading call.
#[derive(Clone, Debug)]
pub(super) enum HllRead<'a> {
    Count,
    Union(Vec<Sketch<'a>>),
    UnionCount(Vec<Sketch<'a>>),
    IntersectCount(Vec<Sketch<'a>>),
    Similarity(Vec<Sketch<'a>>),
    Describe,
    MayContain(ScalarElements<'a>),
}

/// A modifying call.
#[derive(Clone, Debug)]
pub(super) enum HllModify<'a> {
    Init(Bits),
    Add(ScalarElements<'a>, Bits),
    SetUnion(Vec<Sketch<'a>>),
    RefreshCount,
    /// The number of index bits to fold to.
    Fold(Option<u8>),
}

impl ScalarElements<'_> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = TokenReader::new(&self.0);
        std::iter::from_fn(move || rest.element().ok())
    }
}

/// Fails unless the call has no path and a number in `numbers`.
pub(super) fn check(
    call: &PathCall<'_>,
    numbers: std::ops::RangeInclusive<u8>,
    does: &str,
) -> Result<(), CallError> {
    if call.path.levels() > 0 {
        return Err(CallError::parameter(
            "operations on sketches work on whole bins: a context cannot be given",
        ));
    }
    match u8::try_from(call.operation) {
        Ok(number) if numbers.contains(&number) => Ok(()),
        _ => Err(CallError::parameter(format!(
            "{} is not the number of a sketch operation that {does}",
            call.operation
        ))),
    }
}

/// Parses a reading call. Its number has been checked.
pub(super) fn read<'a>(call: &PathCall<'a>) -> Result<HllRead<'a>, CallError> {
    let mut arguments = call.arguments;
    let arguments = &mut arguments;
    let read = match call.operation as u8 {
        code::GET_COUNT => HllRead::Count,
        code::GET_UNION => HllRead::Union(sketches(arguments)?),
        code::GET_UNION_COUNT => HllRead::UnionCount(sketches(arguments)?),
        code::GET_INTERSECT_COUNT => HllRead::IntersectCount(comparable_sketches(arguments)?),
        code::GET_SIMILARITY => HllRead::Similarity(comparable_sketches(arguments)?),
        code::DESCRIBE => HllRead::Describe,
        _ => HllRead::MayContain(elements(arguments)?),
    };
    arguments.end()?;
    Ok(read)
}

/// Parses a modifying call. Its number has been checked.
pub(super) fn modify<'a>(call: &PathCall<'a>) -> Result<(HllModify<'a>, HllWriteFlags), CallError> {
    let mut arguments = call.arguments;
    let arguments = &mut arguments;
    let none = HllWriteFlags::empty();
    let (modify, allowed) = match call.operation as u8 {
        code::INIT => {
            let allowed =
                HllWriteFlags::CREATE_ONLY | HllWriteFlags::UPDATE_ONLY | HllWriteFlags::NO_FAIL;
            (HllModify::Init(bits(arguments)?), allowed)
        }
        code::ADD => {
            let elements = elements(arguments)?;
            let allowed = HllWriteFlags::CREATE_ONLY | HllWriteFlags::NO_FAIL;
            (HllModify::Add(elements, bits(arguments)?), allowed)
        }
        code::SET_UNION => (
            HllModify::SetUnion(sketches(arguments)?),
            HllWriteFlags::all(),
        ),
        code::REFRESH_COUNT => (HllModify::RefreshCount, none),
        _ => (HllModify::Fold(index_bits(arguments)?), none),
    };
    let flags = if allowed.is_empty() {
        none
    } else {
        let both = HllWriteFlags::CREATE_ONLY | HllWriteFlags::UPDATE_ONLY;
        arguments.flags(allowed, both)?
    };
    arguments.end()?;
    Ok((modify, flags))
}

/// Takes both numbers of bits; -1 means that one is left out.
fn bits(arguments: &mut CallArguments<'_>) -> Result<Bits, CallError> {
    let index = arguments.optional(index_bits)?.flatten();
    let min_hash = arguments.optional(min_hash_bits)?.flatten();
    if let (Some(index), Some(min_hash)) = (index, min_hash) {
        SketchGeometry::new(index, min_hash).ok_or_else(|| {
            CallError::parameter(format!(
                "{index} index bits and {min_hash} min-hash bits: at most 64 together"
            ))
        })?;
    }
    Ok(Bits { index, min_hash })
}

fn index_bits(arguments: &mut CallArguments<'_>) -> Result<Option<u8>, CallError> {
    number_of_bits(arguments, geometry::are_index_bits, "index bits: 4 to 16")
}

fn min_hash_bits(arguments: &mut CallArguments<'_>) -> Result<Option<u8>, CallError> {
    let allowed = "min-hash bits: none, or 4 to 51";
    number_of_bits(arguments, geometry::are_min_hash_bits, allowed)
}

fn number_of_bits(
    arguments: &mut CallArguments<'_>,
    valid: impl FnOnce(u8) -> bool,
    what: &str,
) -> Result<Option<u8>, CallError> {
    match arguments.int()? {
        -1 => Ok(None),
        number => u8::try_from(number)
            .ok()
            .filter(|bits| valid(*bits))
            .map(Some)
            .ok_or_else(|| CallError::parameter(format!("{number} {what} are possible"))),
    }
}

fn elements<'a>(arguments: &mut CallArguments<'a>) -> Result<ScalarElements<'a>, CallError> {
    let (count, elements) = arguments.items(EncodePurpose::Lookup, ItemShape::List)?;
    not_empty(count)?;
    let mut rest = TokenReader::new(&elements);
    for _ in 0..count {
        let element = rest.element().map_err(CallError::Argument)?;
        if let Ok(Token::Array(_) | Token::Map(_)) = TokenReader::new(element).token() {
            return Err(CallError::parameter(
                "a list or map cannot be added to a sketch: add scalars",
            ));
        }
    }
    Ok(ScalarElements(elements))
}

/// Takes a list of sketches, or a single one.
fn sketches<'a>(arguments: &mut CallArguments<'a>) -> Result<Vec<Sketch<'a>>, CallError> {
    let argument = arguments.element()?;
    let is_list = matches!(TokenReader::new(argument).token(), Ok(Token::Array(_)));
    let (count, content) = if is_list {
        let list = Container::list(argument).map_err(CallError::Argument)?;
        (list.count, list.content)
    } else {
        (1, argument)
    };
    not_empty(count)?;
    let mut rest = TokenReader::new(content);
    let mut sketches = Vec::new();
    for _ in 0..count {
        let Token::Raw([_, sketch @ ..]) = rest.token().map_err(CallError::Argument)? else {
            return Err(CallError::parameter("an argument is not a sketch"));
        };
        sketches.push(Sketch::parse(sketch).map_err(CallError::Argument)?);
    }
    Ok(sketches)
}

/// Takes sketches that can be compared: more than two only with equal numbers of min-hash bits.
fn comparable_sketches<'a>(
    arguments: &mut CallArguments<'a>,
) -> Result<Vec<Sketch<'a>>, CallError> {
    let sketches = sketches(arguments)?;
    if let [first, _, _, ..] = &*sketches {
        let bits = first.geometry().min_hash_bits();
        let comparable = |sketch: &Sketch<'_>| sketch.geometry().min_hash_bits() == bits;
        if bits == 0 || !sketches.iter().all(comparable) {
            return Err(CallError::parameter(
                "more than two sketches can be intersected only if all have the same number of min-hash bits, and not 0",
            ));
        }
    }
    Ok(sketches)
}

fn not_empty(count: u32) -> Result<(), CallError> {
    match count {
        0 => Err(CallError::parameter(
            "an empty list: give at least one item",
        )),
        _ => Ok(()),
    }
}
