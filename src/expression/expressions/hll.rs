//! Calls on HyperLogLog sketches. A modifying call returns the modified sketch and stores nothing.
//! Meanings and costs as for [`operations::hll`](crate::operations::hll); an error there is an
//! unknown value here. Arguments that are sketches come as a list.
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
use super::call::CallExpression;
use crate::hll::{HllPolicy, code};

const SKETCHES: i64 = 2;
/// The encoding of a number of bits that is left out.
const UNSET: i64 = -1;

fn with_policy(call: CallExpression, policy: &HllPolicy) -> CallExpression {
    call.uint(u64::from(policy.write_flags().bits()))
}

fn modify(call: CallExpression, sketch: impl Into<Expression>) -> Expression {
    call.of(SKETCHES | CALL_MODIFIES, ExpType::Hll, sketch, &[])
}

fn init_with(
    policy: &HllPolicy,
    (index_bits, min_hash_bits): (u8, i64),
    sketch: impl Into<Expression>,
) -> Expression {
    let call = CallExpression::new(code::INIT).with(i64::from(index_bits));
    modify(with_policy(call.with(min_hash_bits), policy), sketch)
}

/// Returns an empty sketch.
#[must_use]
pub fn init(policy: &HllPolicy, index_bits: u8, sketch: impl Into<Expression>) -> Expression {
    init_with(policy, (index_bits, UNSET), sketch)
}

/// Returns an empty sketch with min-hash bits.
#[must_use]
pub fn init_with_min_hash(
    policy: &HllPolicy,
    index_bits: u8,
    min_hash_bits: u8,
    sketch: impl Into<Expression>,
) -> Expression {
    init_with(policy, (index_bits, i64::from(min_hash_bits)), sketch)
}

/// Returns the sketch with the elements of a list added.
#[must_use]
pub fn add(
    policy: &HllPolicy,
    values: impl Into<Expression>,
    sketch: impl Into<Expression>,
) -> Expression {
    let call = CallExpression::new(code::ADD).with(values);
    modify(with_policy(call.with(UNSET).with(UNSET), policy), sketch)
}

/// Returns the sketch united with others.
#[must_use]
pub fn set_union(
    policy: &HllPolicy,
    sketches: impl Into<Expression>,
    sketch: impl Into<Expression>,
) -> Expression {
    let call = CallExpression::new(code::SET_UNION).with(sketches);
    modify(with_policy(call, policy), sketch)
}

/// Returns the sketch folded to fewer index bits.
#[must_use]
pub fn fold(index_bits: u8, sketch: impl Into<Expression>) -> Expression {
    let call = CallExpression::new(code::FOLD).with(i64::from(index_bits));
    modify(call, sketch)
}

/// Defines functions that read a sketch. A row has the function, its argument, the number, and the
/// type of the result.
macro_rules! reading {
    ($($(#[$doc:meta])* $name:ident($($argument:ident)?) $code:ident $kind:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(
            $($argument: impl Into<Expression>,)?
            sketch: impl Into<Expression>,
        ) -> Expression {
            let call = CallExpression::new(code::$code)$(.with($argument))?;
            call.of(SKETCHES, ExpType::$kind, sketch, &[])
        }
    )*};
}

reading! {
    /// Estimates the number of distinct elements added.
    get_count() GET_COUNT Int;

    /// Returns the union with other sketches.
    get_union(sketches) GET_UNION Hll;

    /// Estimates the number of elements in the union with other sketches.
    get_union_count(sketches) GET_UNION_COUNT Int;

    /// Estimates the number of elements in the intersection with other sketches.
    get_intersect_count(sketches) GET_INTERSECT_COUNT Int;

    /// Estimates the similarity: the intersection's share of the union, 0 to 1.
    get_similarity(sketches) GET_SIMILARITY Float;

    /// Returns the numbers of index bits and min-hash bits, as a list.
    describe() DESCRIBE List;

    /// Returns 1 if all elements of a list may have been added, 0 if one of them was not.
    may_contain(values) MAY_CONTAIN Int;
}
