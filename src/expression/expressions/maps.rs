//! Calls on maps. A modifying call returns the modified map and stores nothing. Meanings and costs
//! as for [`operations::maps`](crate::operations::maps); an error there is an unknown value here.
//! `map` is a map bin, a literal, or another call.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::MapReturnType;
//! use spikelet::expressions::{ExpType, ge, map_bin, maps};
//! use spikelet::operations::maps as map_operations;
//!
//! let games = spikelet::Store::in_memory()?.set("games")?;
//! let score = map_operations::put(&Default::default(), "scores", "ada", 310);
//! games.operate("chess", &[score])?;
//! let ada = maps::get_by_key(MapReturnType::Value, ExpType::Int, "ada", map_bin("scores"), &[]);
//! assert!(games.filtered(ge(ada, 300))?.get("chess")?.is_some());
//! # Ok(())
//! # }
//! ```

use super::super::{ExpType, Expression};
use super::call::{
    CallExpression, argument, changing, kind_of_many, kind_of_one, reading_and_removing, removing,
    selecting,
};
use crate::call::Context;
use crate::cdt::{MapPolicy, MapReturn, Returns, code, map_selections};

fn with_order(call: CallExpression, policy: &MapPolicy) -> CallExpression {
    call.uint(u64::from(policy.create_flags()))
}

fn with_policy(call: CallExpression, policy: &MapPolicy) -> CallExpression {
    with_order(call, policy).uint(u64::from(policy.write_flags().bits()))
}

changing! {
    Map map MapPolicy;

    /// Returns the map with a value put under a key.
    put MAP_PUT(key, value) with_policy;

    /// Returns the map with the entries of another map put into it.
    put_items MAP_PUT_ITEMS(entries) with_policy;

    /// Returns the map with the number under a key increased.
    increment MAP_INCREMENT(key, delta) with_order;
}

/// Returns the map without its entries.
#[must_use]
pub fn clear(map: impl Into<Expression>, contexts: &[Context]) -> Expression {
    CallExpression::new(code::MAP_CLEAR).modify(ExpType::Map, map, contexts)
}

/// Returns the number of entries.
#[must_use]
pub fn size(map: impl Into<Expression>, contexts: &[Context]) -> Expression {
    CallExpression::new(code::MAP_SIZE).read(ExpType::Int, map, contexts)
}

map_selections!(reading_and_removing "map" Map MapReturn);
