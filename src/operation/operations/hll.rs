//! Operations on HyperLogLog bins: counting distinct elements, and comparing sets, in a few
//! kilobytes.
//!
//! A sketch has 2^(index bits) registers, with 4 to 16 index bits: counts are off by about 1.04 /
//! sqrt(registers), that is by 0.8 % with 14. Each register takes 6 bits, and as many min-hash bits
//! as the sketch is given, none or 4 to 51: with them, intersections and similarities are estimated
//! much better, and of any number of sketches.
//!
//! A write copies the sketch once. Reads of a missing bin give no result. Sketches as arguments are
//! [`Value::Hll`], as read from other bins.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::operations::hll::{self, HllPolicy};
//!
//! let pages = spikelet::Store::in_memory()?.set("pages")?;
//! let visitors = (0..1_000).map(spikelet::Value::from).collect();
//! let result = pages.operate("home", &[
//!     hll::add_with_index_bits(&HllPolicy::default(), "visitors", visitors, 14),
//!     hll::get_count("visitors"),
//! ])?;
//! let count = result.value(1).and_then(|count| count.as_i64()).expect("a count");
//! assert!((970..1_030).contains(&count));
//! # Ok(())
//! # }
//! ```

pub use crate::hll::{HllPolicy, HllWriteFlags};

use super::super::Operation;
use crate::call::CallSystem;
use crate::call::CallWriter;
use crate::hll::code;
use crate::value::{EncodePurpose, Value};

/// Stands for a number of bits that is not given.
const UNSET: i64 = -1;

fn with_policy(call: CallWriter, policy: &HllPolicy) -> CallWriter {
    call.uint(u64::from(policy.write_flags().bits()))
}

/// Begins a call with a list as first argument.
fn with_values(code: u8, values: &[Value]) -> CallWriter {
    CallWriter::new(code).list(values, EncodePurpose::Storage)
}

fn write(bin: &str, call: CallWriter) -> Operation {
    Operation::on_call(bin, CallSystem::Hll, true, call.finish())
}

fn read(bin: &str, call: CallWriter) -> Operation {
    Operation::on_call(bin, CallSystem::Hll, false, call.finish())
}

fn add_with(
    policy: &HllPolicy,
    bin: &str,
    values: &[Value],
    (index_bits, min_hash_bits): (i64, i64),
) -> Operation {
    let call = with_values(code::ADD, values).int(index_bits);
    write(bin, with_policy(call.int(min_hash_bits), policy))
}

/// Makes the bin an empty sketch. An existing one is emptied, and keeps its min-hash bits. No
/// result. O(registers).
#[must_use]
pub fn init(policy: &HllPolicy, bin: &str, index_bits: u8) -> Operation {
    let call = CallWriter::new(code::INIT).int(i64::from(index_bits));
    write(bin, with_policy(call.int(UNSET), policy))
}

/// Makes the bin an empty sketch with min-hash bits. No result. O(registers).
#[must_use]
pub fn init_with_min_hash(
    policy: &HllPolicy,
    bin: &str,
    index_bits: u8,
    min_hash_bits: u8,
) -> Operation {
    let call = CallWriter::new(code::INIT).int(i64::from(index_bits));
    write(bin, with_policy(call.int(i64::from(min_hash_bits)), policy))
}

/// Adds scalars to an existing sketch. Result: how many registers changed, at most one for each.
/// O(1) each.
#[must_use]
pub fn add(policy: &HllPolicy, bin: &str, values: Vec<Value>) -> Operation {
    add_with(policy, bin, &values, (UNSET, UNSET))
}

/// Adds scalars to a sketch; a missing one is created with `index_bits`. Result and cost as
/// [`add`].
#[must_use]
pub fn add_with_index_bits(
    policy: &HllPolicy,
    bin: &str,
    values: Vec<Value>,
    index_bits: u8,
) -> Operation {
    add_with(policy, bin, &values, (i64::from(index_bits), UNSET))
}

/// Adds scalars to a sketch; a missing one is created with these numbers of bits. Result and cost
/// as [`add`].
#[must_use]
pub fn add_with_min_hash(
    policy: &HllPolicy,
    bin: &str,
    values: Vec<Value>,
    index_bits: u8,
    min_hash_bits: u8,
) -> Operation {
    let bits = (i64::from(index_bits), i64::from(min_hash_bits));
    add_with(policy, bin, &values, bits)
}

/// Makes the bin the union of itself, if it exists, and other sketches. Others with more index bits
/// are folded; the bin itself gets fewer index bits, or loses its min-hash bits, only with
/// `ALLOW_FOLD`. No result. O(registers) each.
#[must_use]
pub fn set_union(policy: &HllPolicy, bin: &str, sketches: Vec<Value>) -> Operation {
    let call = with_values(code::SET_UNION, &sketches);
    write(bin, with_policy(call, policy))
}

/// Estimates the count and keeps it in the sketch until something is added. Result: the count.
/// O(registers).
#[must_use]
pub fn refresh_count(bin: &str) -> Operation {
    write(bin, CallWriter::new(code::REFRESH_COUNT))
}

/// Folds a sketch without min-hash bits to fewer index bits. No result. O(registers).
#[must_use]
pub fn fold(bin: &str, index_bits: u8) -> Operation {
    write(bin, CallWriter::new(code::FOLD).int(i64::from(index_bits)))
}

/// How many distinct elements were added, about. O(registers); O(1) after [`refresh_count`].
#[must_use]
pub fn get_count(bin: &str) -> Operation {
    read(bin, CallWriter::new(code::GET_COUNT))
}

/// The union of the bin and other sketches, with the fewest index bits of all. O(registers) each.
#[must_use]
pub fn get_union(bin: &str, sketches: Vec<Value>) -> Operation {
    read(bin, with_values(code::GET_UNION, &sketches))
}

/// How many distinct elements were added to the bin or to any of the sketches, about. O(registers)
/// each.
#[must_use]
pub fn get_union_count(bin: &str, sketches: Vec<Value>) -> Operation {
    read(bin, with_values(code::GET_UNION_COUNT, &sketches))
}

/// How many distinct elements were added to the bin and to all of the sketches, about; more than
/// two sketches need min-hash bits, the same number in all. O(registers) each.
#[must_use]
pub fn get_intersect_count(bin: &str, sketches: Vec<Value>) -> Operation {
    read(bin, with_values(code::GET_INTERSECT_COUNT, &sketches))
}

/// The share of distinct elements in the bin or any of the sketches that are in all of them, about:
/// 0 to 1, not a number if all are empty. More than two sketches need min-hash bits, the same
/// number in all. O(registers) each.
#[must_use]
pub fn get_similarity(bin: &str, sketches: Vec<Value>) -> Operation {
    read(bin, with_values(code::GET_SIMILARITY, &sketches))
}

/// Index bits and min-hash bits, as a list. O(1).
#[must_use]
pub fn describe(bin: &str) -> Operation {
    read(bin, CallWriter::new(code::DESCRIBE))
}

/// Whether all of some scalars may have been added: 1, or 0 if one of them certainly was not. O(1)
/// each.
#[must_use]
pub fn may_contain(bin: &str, values: Vec<Value>) -> Operation {
    read(bin, with_values(code::MAY_CONTAIN, &values))
}
