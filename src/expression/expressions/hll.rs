//! Calls on HyperLogLog sketches. What modifies has the modified sketch as its value, and stores nothing. Meanings and
//! costs are those of [`operations::hll`](crate::operations::hll); what fails there is unknown here. Sketches as arguments
//! are a list of them.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::expressions::{gt, hll, hll_bin};
//! use spikelet::operations::hll::{HllPolicy, add_with_index_bits};
//!
//! let pages = spikelet::Store::in_memory()?.set("pages")?;
//! let visitors = (0..500).map(spikelet::Value::from).collect();
//! pages.operate("home", &[add_with_index_bits(&HllPolicy::default(), "visitors", visitors, 12)])?;
//! let busy = gt(hll::get_count(hll_bin("visitors")), 100);
//! assert!(pages.filtered(busy)?.get("home")?.is_some());
//! # Ok(())
//! # }
//! ```

use super::super::code::CALL_MODIFIES;
use super::super::{ExpType, Expression};
use super::call::Call;
use crate::hll::{HllPolicy, code};

const SKETCHES: i64 = 2;
/// Stands for a number of bits that is not given.
const UNSET: i64 = -1;

fn with_policy(call: Call, policy: &HllPolicy) -> Call {
    call.uint(u64::from(policy.write_flags().bits()))
}

fn modify(call: Call, sketch: impl Into<Expression>) -> Expression {
    call.of(SKETCHES | CALL_MODIFIES, ExpType::Hll, sketch, &[])
}

/// An empty sketch.
#[must_use]
pub fn init(policy: &HllPolicy, index_bits: u8, sketch: impl Into<Expression>) -> Expression {
    modify(
        with_policy(
            Call::new(code::INIT)
                .with(i64::from(index_bits))
                .with(UNSET),
            policy,
        ),
        sketch,
    )
}

/// An empty sketch with min-hash bits.
#[must_use]
pub fn init_with_min_hash(
    policy: &HllPolicy,
    index_bits: u8,
    min_hash_bits: u8,
    sketch: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(
            Call::new(code::INIT)
                .with(i64::from(index_bits))
                .with(i64::from(min_hash_bits)),
            policy,
        ),
        sketch,
    )
}

/// The sketch with the elements of a list added.
#[must_use]
pub fn add(
    policy: &HllPolicy,
    values: impl Into<Expression>,
    sketch: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(
            Call::new(code::ADD).with(values).with(UNSET).with(UNSET),
            policy,
        ),
        sketch,
    )
}

/// The sketch with others united with it.
#[must_use]
pub fn set_union(
    policy: &HllPolicy,
    sketches: impl Into<Expression>,
    sketch: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(Call::new(code::SET_UNION).with(sketches), policy),
        sketch,
    )
}

/// The sketch with fewer index bits.
#[must_use]
pub fn fold(index_bits: u8, sketch: impl Into<Expression>) -> Expression {
    modify(Call::new(code::FOLD).with(i64::from(index_bits)), sketch)
}

/// About how many elements were added.
#[must_use]
pub fn get_count(sketch: impl Into<Expression>) -> Expression {
    Call::new(code::GET_COUNT).of(SKETCHES, ExpType::Int, sketch, &[])
}

/// The union with others.
#[must_use]
pub fn get_union(sketches: impl Into<Expression>, sketch: impl Into<Expression>) -> Expression {
    Call::new(code::GET_UNION)
        .with(sketches)
        .of(SKETCHES, ExpType::Hll, sketch, &[])
}

/// About how many elements the union with others has.
#[must_use]
pub fn get_union_count(
    sketches: impl Into<Expression>,
    sketch: impl Into<Expression>,
) -> Expression {
    Call::new(code::GET_UNION_COUNT)
        .with(sketches)
        .of(SKETCHES, ExpType::Int, sketch, &[])
}

/// About how many elements the intersection with others has.
#[must_use]
pub fn get_intersect_count(
    sketches: impl Into<Expression>,
    sketch: impl Into<Expression>,
) -> Expression {
    Call::new(code::GET_INTERSECT_COUNT)
        .with(sketches)
        .of(SKETCHES, ExpType::Int, sketch, &[])
}

/// How much of the union with others is their intersection, 0 to 1.
#[must_use]
pub fn get_similarity(
    sketches: impl Into<Expression>,
    sketch: impl Into<Expression>,
) -> Expression {
    Call::new(code::GET_SIMILARITY)
        .with(sketches)
        .of(SKETCHES, ExpType::Float, sketch, &[])
}

/// Index bits and min-hash bits, as a list.
#[must_use]
pub fn describe(sketch: impl Into<Expression>) -> Expression {
    Call::new(code::DESCRIBE).of(SKETCHES, ExpType::List, sketch, &[])
}

/// 1 if all elements of a list may have been added, 0 if one of them was not.
#[must_use]
pub fn may_contain(values: impl Into<Expression>, sketch: impl Into<Expression>) -> Expression {
    Call::new(code::MAY_CONTAIN)
        .with(values)
        .of(SKETCHES, ExpType::Int, sketch, &[])
}
