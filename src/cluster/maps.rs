//! The client's operations on maps, by number.

use aerospike::operations::Operation as Theirs;
use aerospike::operations::maps::{self as theirs, MapOrder};
use aerospike::{MapPolicy, MapWriteFlags, Value as TheirValue};

use super::arguments::{PositionalArguments, selections, unknown};
use crate::cdt::code as c;
use crate::value;
use crate::{Error, Result};

/// Returns the policy of these flags of a new map and of the write. A persisted index is left out:
/// see [`super::operation`].
fn policy(created: u8, write: u8) -> MapPolicy {
    let order = match value::MapOrder::of_flags(created) {
        value::MapOrder::Unordered => MapOrder::Unordered,
        value::MapOrder::KeyOrdered => MapOrder::KeyOrdered,
        value::MapOrder::KeyValueOrdered => MapOrder::KeyValueOrdered,
    };
    MapPolicy {
        order,
        flags: MapWriteFlags::from_bits(write),
        persist_index: false,
    }
}

/// The operation of this number.
pub(super) fn operation(bin: &str, code: i64, a: &PositionalArguments) -> Result<Theirs> {
    let created = |position| Ok::<_, Error>(policy(a.flags(position)?, 0));
    Ok(match u8::try_from(code).unwrap_or(u8::MAX) {
        c::MAP_SET_TYPE => theirs::set_policy(&created(0)?, bin, Vec::new()),
        c::MAP_PUT => put(bin, a)?,
        c::MAP_PUT_ITEMS => {
            theirs::put_items(&policy(a.flags(1)?, a.flags(2)?), bin, a.entries(0)?)
        }
        c::MAP_INCREMENT => theirs::increment_value(&created(2)?, bin, a.value(0)?, amount(a)?),
        c::MAP_DECREMENT => theirs::decrement_value(&created(2)?, bin, a.value(0)?, amount(a)?),
        _ => return selection(bin, code, a),
    })
}

selections! {
    "maps";
    MAP_CLEAR clear();
    MAP_REMOVE_BY_KEY remove_by_key(value 1, map_return 0);
    MAP_REMOVE_BY_INDEX remove_by_index(int 1, map_return 0);
    MAP_REMOVE_BY_RANK remove_by_rank(int 1, map_return 0);
    MAP_REMOVE_BY_KEY_LIST remove_by_key_list(values 1, map_return 0);
    MAP_REMOVE_ALL_BY_VALUE remove_by_value(value 1, map_return 0);
    MAP_REMOVE_BY_VALUE_LIST remove_by_value_list(values 1, map_return 0);
    MAP_REMOVE_BY_KEY_INTERVAL remove_by_key_range(value 1, end 2, map_return 0);
    MAP_REMOVE_BY_INDEX_RANGE / 3 remove_by_index_range(int 1, int 2, map_return 0);
    MAP_REMOVE_BY_INDEX_RANGE remove_by_index_range_from(int 1, map_return 0);
    MAP_REMOVE_BY_VALUE_INTERVAL remove_by_value_range(value 1, end 2, map_return 0);
    MAP_REMOVE_BY_RANK_RANGE / 3 remove_by_rank_range(int 1, int 2, map_return 0);
    MAP_REMOVE_BY_RANK_RANGE remove_by_rank_range_from(int 1, map_return 0);
    MAP_REMOVE_BY_KEY_REL_INDEX_RANGE / 4 remove_by_key_relative_index_range_count(value 1, int 2, int 3, map_return 0);
    MAP_REMOVE_BY_KEY_REL_INDEX_RANGE remove_by_key_relative_index_range(value 1, int 2, map_return 0);
    MAP_REMOVE_BY_VALUE_REL_RANK_RANGE / 4 remove_by_value_relative_rank_range_count(value 1, int 2, int 3, map_return 0);
    MAP_REMOVE_BY_VALUE_REL_RANK_RANGE remove_by_value_relative_rank_range(value 1, int 2, map_return 0);
    MAP_SIZE size();
    MAP_GET_BY_KEY get_by_key(value 1, map_return 0);
    MAP_GET_BY_INDEX get_by_index(int 1, map_return 0);
    MAP_GET_BY_RANK get_by_rank(int 1, map_return 0);
    MAP_GET_ALL_BY_VALUE get_by_value(value 1, map_return 0);
    MAP_GET_BY_KEY_INTERVAL get_by_key_range(value 1, end 2, map_return 0);
    MAP_GET_BY_INDEX_RANGE / 3 get_by_index_range(int 1, int 2, map_return 0);
    MAP_GET_BY_INDEX_RANGE get_by_index_range_from(int 1, map_return 0);
    MAP_GET_BY_VALUE_INTERVAL get_by_value_range(value 1, end 2, map_return 0);
    MAP_GET_BY_RANK_RANGE / 3 get_by_rank_range(int 1, int 2, map_return 0);
    MAP_GET_BY_RANK_RANGE get_by_rank_range_from(int 1, map_return 0);
    MAP_GET_BY_KEY_LIST get_by_key_list(values 1, map_return 0);
    MAP_GET_BY_VALUE_LIST get_by_value_list(values 1, map_return 0);
    MAP_GET_BY_KEY_REL_INDEX_RANGE / 4 get_by_key_relative_index_range_count(value 1, int 2, int 3, map_return 0);
    MAP_GET_BY_KEY_REL_INDEX_RANGE get_by_key_relative_index_range(value 1, int 2, map_return 0);
    MAP_GET_BY_VALUE_REL_RANK_RANGE / 4 get_by_value_relative_rank_range_count(value 1, int 2, int 3, map_return 0);
    MAP_GET_BY_VALUE_REL_RANK_RANGE get_by_value_relative_rank_range(value 1, int 2, map_return 0);
}

/// The client leaves out a value that is nil unless there are flags; with entries it does not.
fn put(bin: &str, a: &PositionalArguments) -> Result<Theirs> {
    let policy = policy(a.flags(2)?, a.flags(3)?);
    let (key, value) = (a.value(0)?, a.value(1)?);
    if value.is_nil() && policy.flags == MapWriteFlags::DEFAULT && key.is_valid_map_key() {
        let entry = aerospike::IndexMap::from([(key, value)]);
        return Ok(theirs::put_items(&policy, bin, entry));
    }
    Ok(theirs::put(&policy, bin, key, value))
}

/// By how much a value is changed; 1 where that is left out.
fn amount(a: &PositionalArguments) -> Result<TheirValue> {
    if a.len() > 1 {
        a.value(1)
    } else {
        Ok(TheirValue::Int(1))
    }
}
