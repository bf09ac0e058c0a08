//! Operations on map bins. The costs name visits of entries, for N entries, M of them selected or
//! given; beside them a write copies the bin once. "With index" means a persisted one: see
//! [`MapPolicy::persist_index`]; an index of values is part of it in maps ordered by key and value.
//!
//! Reads of a missing bin give no result; removals from one do nothing; what puts entries creates
//! it. The index of an entry is its position in the order of keys, its rank that in the order of
//! values (equal ones by key); negative ones count from the end. An index or rank that does not
//! exist is an error, a range is clipped to the map.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::operations::maps;
//! use spikelet::{MapOrder, MapPolicy, MapReturnType, MapWriteFlags};
//!
//! let games = spikelet::Store::in_memory()?.set("games")?;
//! let by_name = MapPolicy::new(MapOrder::KeyOrdered, MapWriteFlags::empty());
//! let result = games.operate("chess", &[
//!     maps::put(&by_name, "scores", "ada", 310),
//!     maps::put(&by_name, "scores", "bob", 120),
//!     maps::increment_value(&by_name, "scores", "bob", 250),
//!     maps::get_by_rank("scores", -1, MapReturnType::Key),
//!     maps::get_by_key("scores", "ada", MapReturnType::Rank),
//! ])?;
//! assert_eq!(result.value(2), Some(&370.into()));
//! assert_eq!(result.value(3), Some(&"bob".into()));
//! assert_eq!(result.value(4), Some(&0.into()));
//! # Ok(())
//! # }
//! ```

pub use crate::cdt::MapReturn;

use super::super::Operation;
use super::arguments::{
    self, ALL, Argument, argument, collection, increment, interval, number, reading_and_removing,
    selecting, selector, sought, sought_several, stored_entries, stored_entry,
};
use crate::call::context::create_bits;
use crate::cdt::{Action, Items, MapPolicy, MapWriteFlags, Number, Selector, code, map_selections};
use crate::value::{MapOrder, Value};

fn puts(policy: &MapPolicy, bin: &str, code: u8, items: Argument<Items<'static>>) -> Operation {
    let action = items.map(|items| Action::Put {
        items,
        flags: policy.write_flags(),
        create: Some(policy.create_flags()),
    });
    collection(bin, code, action)
}

/// Makes the bin a map of this order, empty if it is missing; an existing map is converted, and
/// loses a persisted index. Below a context, the value that the last one names is created if it is
/// missing. No result. O(1).
#[must_use]
pub fn create(bin: &str, order: MapOrder) -> Operation {
    set_order(bin, order).creating(create_bits(order))
}

/// Makes the bin a map as [`create`] does, with a persisted index: see
/// [`MapPolicy::persist_index`]. O(N), O(N log N) for an index of values.
#[must_use]
pub fn create_persistent(bin: &str, order: MapOrder) -> Operation {
    let policy = MapPolicy::new(order, MapWriteFlags::empty()).persist_index(true);
    let action = Ok(Action::SetType(policy.create_flags()));
    collection(bin, code::MAP_SET_TYPE, action).creating(create_bits(order))
}

/// Gives an existing map another order; a missing one is created. It loses a persisted index. No
/// result. O(1).
#[must_use]
pub fn set_order(bin: &str, order: MapOrder) -> Operation {
    collection(bin, code::MAP_SET_TYPE, Ok(Action::SetType(order.flags())))
}

/// Writes the value of a key. Result: the number of entries afterwards. O(N); O(log N) with index.
#[must_use]
pub fn put(
    policy: &MapPolicy,
    bin: &str,
    key: impl Into<Value>,
    value: impl Into<Value>,
) -> Operation {
    puts(policy, bin, code::MAP_PUT, stored_entry(key, value))
}

/// Writes the values of several keys, none of them given twice. Result: the number of entries
/// afterwards. O(M log M + N); O(M log N) with index.
#[must_use]
pub fn put_items(policy: &MapPolicy, bin: &str, entries: Vec<(Value, Value)>) -> Operation {
    puts(policy, bin, code::MAP_PUT_ITEMS, stored_entries(entries))
}

/// Adds to the number of a key; a missing one begins with `delta`. The kind of number stays:
/// integers wrap. Result: the new number. O(N); O(log N) with index.
#[must_use]
pub fn increment_value(
    policy: &MapPolicy,
    bin: &str,
    key: impl Into<Value>,
    delta: impl Into<Value>,
) -> Operation {
    let delta = delta.into();
    let by = number(&delta);
    increment(policy, bin, code::MAP_INCREMENT, &key.into(), (&delta, by))
}

/// Subtracts from the number of a key; a missing one begins with `-delta`. Otherwise as
/// [`increment_value`].
#[must_use]
pub fn decrement_value(
    policy: &MapPolicy,
    bin: &str,
    key: impl Into<Value>,
    delta: impl Into<Value>,
) -> Operation {
    let delta = delta.into();
    let by = number(&delta).map(Number::negated);
    increment(policy, bin, code::MAP_DECREMENT, &key.into(), (&delta, by))
}

/// Removes all entries. The map keeps its order and its persisted index. No result. O(1).
#[must_use]
pub fn clear(bin: &str) -> Operation {
    collection(bin, code::MAP_CLEAR, Ok(Action::Clear))
}

/// How many entries there are. O(1).
#[must_use]
pub fn size(bin: &str) -> Operation {
    collection(bin, code::MAP_SIZE, Ok(Action::Size))
}

map_selections!(reading_and_removing MapReturn);
