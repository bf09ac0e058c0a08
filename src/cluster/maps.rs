//! The client's operations on maps, by number.

use aerospike::operations::Operation as Theirs;
use aerospike::operations::maps::{self as theirs, MapOrder};
use aerospike::{MapPolicy, MapWriteFlags, Value as TheirValue};

use super::arguments::{PositionalArguments, operations, unknown};
use crate::Result;
use crate::cdt::code as c;
use crate::value;

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

impl PositionalArguments {
    /// The policy of a write that may make the map, and says how.
    fn map_policy(&self, position: usize) -> Result<MapPolicy> {
        Ok(policy(self.flags(position)?, self.flags(position + 1)?))
    }

    fn new_map(&self, position: usize) -> Result<MapPolicy> {
        Ok(policy(self.flags(position)?, 0))
    }

    /// By how much a value is changed; 1 where that is left out.
    fn amount(&self, position: usize) -> Result<TheirValue> {
        if self.len() > position {
            self.value(position)
        } else {
            Ok(TheirValue::Int(1))
        }
    }
}

operations! {
    "maps", [MAP_SET_TYPE => set_type, MAP_PUT => put];
    MAP_PUT_ITEMS put_items(&map_policy 1; entries 0);
    MAP_INCREMENT increment_value(&new_map 2; value 0, amount 1);
    MAP_DECREMENT decrement_value(&new_map 2; value 0, amount 1);
    MAP_CLEAR clear();
    MAP_SIZE size();
    => map_return {
        MAP_GET_BY_KEY get_by_key, MAP_REMOVE_BY_KEY remove_by_key (value 1);
        MAP_GET_BY_INDEX get_by_index, MAP_REMOVE_BY_INDEX remove_by_index (int 1);
        MAP_GET_BY_RANK get_by_rank, MAP_REMOVE_BY_RANK remove_by_rank (int 1);
        MAP_GET_ALL_BY_VALUE get_by_value, MAP_REMOVE_ALL_BY_VALUE remove_by_value (value 1);
        MAP_GET_BY_KEY_INTERVAL get_by_key_range, MAP_REMOVE_BY_KEY_INTERVAL remove_by_key_range (value 1, end 2);
        MAP_GET_BY_INDEX_RANGE get_by_index_range, MAP_REMOVE_BY_INDEX_RANGE remove_by_index_range / 3 (int 1, int 2);
        MAP_GET_BY_INDEX_RANGE get_by_index_range_from, MAP_REMOVE_BY_INDEX_RANGE remove_by_index_range_from (int 1);
        MAP_GET_BY_VALUE_INTERVAL get_by_value_range, MAP_REMOVE_BY_VALUE_INTERVAL remove_by_value_range (value 1, end 2);
        MAP_GET_BY_RANK_RANGE get_by_rank_range, MAP_REMOVE_BY_RANK_RANGE remove_by_rank_range / 3 (int 1, int 2);
        MAP_GET_BY_RANK_RANGE get_by_rank_range_from, MAP_REMOVE_BY_RANK_RANGE remove_by_rank_range_from (int 1);
        MAP_GET_BY_KEY_LIST get_by_key_list, MAP_REMOVE_BY_KEY_LIST remove_by_key_list (values 1);
        MAP_GET_BY_VALUE_LIST get_by_value_list, MAP_REMOVE_BY_VALUE_LIST remove_by_value_list (values 1);
        MAP_GET_BY_KEY_REL_INDEX_RANGE get_by_key_relative_index_range_count,
        MAP_REMOVE_BY_KEY_REL_INDEX_RANGE remove_by_key_relative_index_range_count / 4 (value 1, int 2, int 3);
        MAP_GET_BY_KEY_REL_INDEX_RANGE get_by_key_relative_index_range,
        MAP_REMOVE_BY_KEY_REL_INDEX_RANGE remove_by_key_relative_index_range (value 1, int 2);
        MAP_GET_BY_VALUE_REL_RANK_RANGE get_by_value_relative_rank_range_count,
        MAP_REMOVE_BY_VALUE_REL_RANK_RANGE remove_by_value_relative_rank_range_count / 4 (value 1, int 2, int 3);
        MAP_GET_BY_VALUE_REL_RANK_RANGE get_by_value_relative_rank_range,
        MAP_REMOVE_BY_VALUE_REL_RANK_RANGE remove_by_value_relative_rank_range (value 1, int 2);
    }
}

fn set_type(bin: &str, a: &PositionalArguments) -> Result<Theirs> {
    Ok(theirs::set_policy(&a.new_map(0)?, bin, Vec::new()))
}

/// The client leaves out a value that is nil unless there are flags; with entries it does not.
fn put(bin: &str, a: &PositionalArguments) -> Result<Theirs> {
    let policy = a.map_policy(2)?;
    let (key, value) = (a.value(0)?, a.value(1)?);
    if value.is_nil() && policy.flags == MapWriteFlags::DEFAULT && key.is_valid_map_key() {
        let entry = aerospike::IndexMap::from([(key, value)]);
        return Ok(theirs::put_items(&policy, bin, entry));
    }
    Ok(theirs::put(&policy, bin, key, value))
}
