//! Operations on HyperLogLog sketches: counting distinct elements in a few kilobytes.
//!
//! * [`read`], [`modify`] and [`validate`] are the entry points. They take any bytes and never
//!   panic.
//! * `arguments` parses calls. `geometry`, `sketch`: the stored form, with Aerospike's layout and
//!   hash, so that sketches can be exchanged with its servers. `estimate`: counts, intersections,
//!   similarities. `policy`: flags for users. `murmur3`: the hash. `code`: the operations' numbers.
//!
//! May import calls, values and packed bits, but neither records nor names of bins.

mod arguments;
mod estimate;
mod geometry;
mod murmur3;
mod policy;
mod sketch;
#[cfg(test)]
mod tests;

pub(crate) mod code;

pub use policy::{HllPolicy, HllWriteFlags};

use std::borrow::Cow;

use self::arguments::{Bits, HllModify, HllRead};
use self::geometry::SketchGeometry;
use self::sketch::{Sketch, SketchBuffer};
use crate::call::{CallError, CallReply, PathCall};
use crate::value::msgpack::{write_array_header, write_uint};
use crate::value::{CodecError, ParticleType};

/// Fails unless the bytes are a sketch. For writes of whole bins. O(1).
pub(crate) fn validate(bytes: &[u8]) -> Result<(), CodecError> {
    Sketch::parse(bytes).map(drop)
}

/// Checks a call before there is a sketch: the operation, the number of its arguments, and that
/// there is no path.
pub(crate) fn check(call: &PathCall<'_>, writes: bool) -> Result<(), CallError> {
    if writes {
        arguments::check(call, code::INIT..=code::FOLD, "modifies")?;
    } else {
        arguments::check(call, code::GET_COUNT..=code::MAY_CONTAIN, "reads")?;
    }
    call.check_count(code::argument_counts(call.operation as u8))
}

/// The new sketch if the bin changes, and the result.
type Modified = (Option<Vec<u8>>, CallReply<'static>);

/// Executes a reading call. O(registers) for each sketch; O(1) for a description or a cached count.
pub(crate) fn read(
    current: (ParticleType, &[u8]),
    call: &PathCall<'_>,
) -> Result<CallReply<'static>, CallError> {
    arguments::check(call, code::GET_COUNT..=code::MAY_CONTAIN, "reads")?;
    let sketch = stored(current)?;
    let read = arguments::read(call)?;
    Ok(match read {
        HllRead::Count => int(estimate::count(&sketch)),
        HllRead::Union(others) => {
            let union = estimate::union(sketch, &others).into_bytes();
            CallReply::Stored(ParticleType::Hll, Cow::Owned(union))
        }
        HllRead::UnionCount(others) => int(estimate::union_count(sketch, &others)),
        HllRead::IntersectCount(others) => {
            check_comparable(&sketch, &others)?;
            int(estimate::intersect_count(sketch, &others))
        }
        HllRead::Similarity(others) => {
            check_comparable(&sketch, &others)?;
            CallReply::Float(estimate::similarity(sketch, &others))
        }
        HllRead::Describe => CallReply::Element(Cow::Owned(description(sketch.geometry()))),
        HllRead::MayContain(elements) => {
            let all = elements.iter().all(|element| sketch.may_contain(element));
            CallReply::Int(i64::from(all))
        }
    })
}

/// Executes a modifying call. O(bytes of the sketch, which is copied, and of the arguments).
pub(crate) fn modify(
    current: Option<(ParticleType, &[u8])>,
    call: &PathCall<'_>,
) -> Result<Modified, CallError> {
    arguments::check(call, code::INIT..=code::FOLD, "modifies")?;
    let sketch = current.map(stored).transpose()?;
    let (modify, flags) = arguments::modify(call)?;
    let refused = match sketch {
        Some(_) if flags.contains(HllWriteFlags::CREATE_ONLY) => Some(CallError::BinExists),
        None if flags.contains(HllWriteFlags::UPDATE_ONLY) => Some(CallError::BinNotFound),
        _ => None,
    };
    match refused {
        Some(_) if flags.contains(HllWriteFlags::NO_FAIL) => Ok((None, CallReply::Nil)),
        Some(error) => Err(error),
        None => match modify {
            HllModify::Init(bits) => init(sketch, bits),
            HllModify::Add(elements, bits) => add(sketch, &elements, bits),
            HllModify::SetUnion(others) => {
                let allow_fold = flags.contains(HllWriteFlags::ALLOW_FOLD);
                set_union(sketch, &others, allow_fold)
            }
            HllModify::RefreshCount => refresh_count(sketch.ok_or(CallError::BinNotFound)?),
            HllModify::Fold(index_bits) => fold(sketch.ok_or(CallError::BinNotFound)?, index_bits),
        },
    }
}

fn init(sketch: Option<Sketch<'_>>, bits: Bits) -> Result<Modified, CallError> {
    let geometry = match sketch.map(|sketch| sketch.geometry()) {
        Some(old) => SketchGeometry::new(
            bits.index.unwrap_or(old.index_bits()),
            bits.min_hash.unwrap_or(old.min_hash_bits()),
        )
        .ok_or(CallError::NotApplicable(
            "the bin's bits and those given are more than 64 together: give both numbers",
        ))?,
        None => new_geometry(bits)?,
    };
    changed(SketchBuffer::empty(geometry), CallReply::Nil)
}

fn add(
    sketch: Option<Sketch<'_>>,
    elements: &arguments::ScalarElements<'_>,
    bits: Bits,
) -> Result<Modified, CallError> {
    let is_new = sketch.is_none();
    let mut sketch = match sketch {
        Some(sketch) => sketch.to_buffer(),
        None => SketchBuffer::empty(new_geometry(bits)?),
    };
    let added = elements
        .iter()
        .filter(|element| sketch.add(element))
        .count();
    let result = CallReply::Int(added as i64);
    if added == 0 && !is_new {
        return Ok((None, result));
    }
    changed(sketch, result)
}

fn set_union(
    sketch: Option<Sketch<'_>>,
    others: &[Sketch<'_>],
    allow_fold: bool,
) -> Result<Modified, CallError> {
    let all: Vec<Sketch<'_>> = others.iter().copied().chain(sketch).collect();
    let Some((first, rest)) = all.split_first() else {
        return Ok((None, CallReply::Nil));
    };
    let geometry = estimate::common_geometry(first.geometry(), rest);
    if let Some(old) = sketch.map(|sketch| sketch.geometry())
        && old != geometry
        && !allow_fold
    {
        return Err(CallError::NotApplicable(
            "the union would give the bin fewer index or min-hash bits: add ALLOW_FOLD, or fold the sketches first",
        ));
    }
    changed(SketchBuffer::union(geometry, all), CallReply::Nil)
}

fn refresh_count(sketch: Sketch<'_>) -> Result<Modified, CallError> {
    let count = estimate::count(&sketch);
    if count == sketch.cached_count().unwrap_or(0) {
        return Ok((None, int(count)));
    }
    let mut buffer = sketch.to_buffer();
    buffer.set_cached_count(count);
    changed(buffer, int(count))
}

fn fold(sketch: Sketch<'_>, index_bits: Option<u8>) -> Result<Modified, CallError> {
    let old = sketch.geometry();
    let geometry = index_bits
        .filter(|bits| *bits <= old.index_bits() && old.min_hash_bits() == 0)
        .and_then(|bits| SketchGeometry::new(bits, 0))
        .ok_or(CallError::NotApplicable(
            "a sketch can be folded to fewer index bits than it has, and only without min-hash bits",
        ))?;
    if geometry == old {
        return Ok((None, CallReply::Nil));
    }
    changed(SketchBuffer::union(geometry, [sketch]), CallReply::Nil)
}

fn changed(sketch: SketchBuffer, result: CallReply<'static>) -> Result<Modified, CallError> {
    Ok((Some(sketch.into_bytes()), result))
}

/// Returns the geometry of a new sketch.
fn new_geometry(bits: Bits) -> Result<SketchGeometry, CallError> {
    bits.index
        .and_then(|index| SketchGeometry::new(index, bits.min_hash.unwrap_or(0)))
        .ok_or(CallError::NotApplicable(
            "the bin does not exist, and cannot be created without a number of index bits",
        ))
}

/// Checks that sketches can be intersected: more than two including the bin's only with equal
/// numbers of min-hash bits.
fn check_comparable(sketch: &Sketch<'_>, others: &[Sketch<'_>]) -> Result<(), CallError> {
    let bits = sketch.geometry().min_hash_bits();
    match others {
        [first, _, _, ..] if bits == 0 || bits != first.geometry().min_hash_bits() => {
            Err(CallError::NotApplicable(
                "more than two sketches can be intersected with the bin's only if it has as many min-hash bits, and not 0",
            ))
        }
        _ => Ok(()),
    }
}

fn stored((kind, bytes): (ParticleType, &[u8])) -> Result<Sketch<'_>, CallError> {
    if kind != ParticleType::Hll {
        return Err(CallError::WrongType {
            found: kind,
            operation: "a HyperLogLog operation",
        });
    }
    Sketch::parse(bytes).map_err(CallError::Stored)
}

fn int(count: u64) -> CallReply<'static> {
    // A sketch from a client may claim any count.
    CallReply::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Encodes a list of both numbers of bits.
fn description(geometry: SketchGeometry) -> Vec<u8> {
    let mut out = Vec::with_capacity(3);
    write_array_header(&mut out, 2);
    write_uint(&mut out, u64::from(geometry.index_bits()));
    write_uint(&mut out, u64::from(geometry.min_hash_bits()));
    out
}
