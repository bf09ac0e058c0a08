//! The client's operations on maps, by number.

use aerospike::operations::Operation as Theirs;
use aerospike::operations::maps::{self as theirs, MapOrder};
use aerospike::{MapPolicy, MapReturnType, MapWriteFlags, Value as TheirValue};

use super::arguments::{PositionalArguments, unknown};
use crate::Result;
use crate::cdt::code as c;
use crate::value;

/// Returns the policy of these flags of a new map and of the write. A persisted index is left out: see
/// [`super::operation`].
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
    match code {
        ..=75 => write(bin, code, a),
        76..=95 => remove(bin, code, a),
        _ => read(bin, code, a),
    }
}

fn write(bin: &str, code: i64, a: &PositionalArguments) -> Result<Theirs> {
    Ok(match u8::try_from(code).unwrap_or(u8::MAX) {
        c::MAP_SET_TYPE => theirs::set_policy(&policy(a.flags(0)?, 0), bin, Vec::new()),
        c::MAP_PUT => put(bin, a)?,
        c::MAP_PUT_ITEMS => {
            theirs::put_items(&policy(a.flags(1)?, a.flags(2)?), bin, a.entries(0)?)
        }
        c::MAP_INCREMENT => {
            theirs::increment_value(&policy(a.flags(2)?, 0), bin, a.value(0)?, amount(a)?)
        }
        c::MAP_DECREMENT => {
            theirs::decrement_value(&policy(a.flags(2)?, 0), bin, a.value(0)?, amount(a)?)
        }
        c::MAP_CLEAR => theirs::clear(bin),
        _ => return Err(unknown(bin, "maps", code)),
    })
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

fn remove(bin: &str, code: i64, a: &PositionalArguments) -> Result<Theirs> {
    let returns = || a.int(0).map(MapReturnType::from_bits);
    Ok(match u8::try_from(code).unwrap_or(u8::MAX) {
        c::MAP_REMOVE_BY_KEY => theirs::remove_by_key(bin, a.value(1)?, returns()?),
        c::MAP_REMOVE_BY_INDEX => theirs::remove_by_index(bin, a.int(1)?, returns()?),
        c::MAP_REMOVE_BY_RANK => theirs::remove_by_rank(bin, a.int(1)?, returns()?),
        c::MAP_REMOVE_BY_KEY_LIST => theirs::remove_by_key_list(bin, a.values(1)?, returns()?),
        c::MAP_REMOVE_ALL_BY_VALUE => theirs::remove_by_value(bin, a.value(1)?, returns()?),
        c::MAP_REMOVE_BY_VALUE_LIST => theirs::remove_by_value_list(bin, a.values(1)?, returns()?),
        c::MAP_REMOVE_BY_KEY_INTERVAL => {
            theirs::remove_by_key_range(bin, a.value(1)?, a.end(2)?, returns()?)
        }
        c::MAP_REMOVE_BY_INDEX_RANGE if a.len() > 2 => {
            theirs::remove_by_index_range(bin, a.int(1)?, a.int(2)?, returns()?)
        }
        c::MAP_REMOVE_BY_INDEX_RANGE => {
            theirs::remove_by_index_range_from(bin, a.int(1)?, returns()?)
        }
        c::MAP_REMOVE_BY_VALUE_INTERVAL => {
            theirs::remove_by_value_range(bin, a.value(1)?, a.end(2)?, returns()?)
        }
        c::MAP_REMOVE_BY_RANK_RANGE if a.len() > 2 => {
            theirs::remove_by_rank_range(bin, a.int(1)?, a.int(2)?, returns()?)
        }
        c::MAP_REMOVE_BY_RANK_RANGE => {
            theirs::remove_by_rank_range_from(bin, a.int(1)?, returns()?)
        }
        c::MAP_REMOVE_BY_KEY_REL_INDEX_RANGE if a.len() > 3 => {
            theirs::remove_by_key_relative_index_range_count(
                bin,
                a.value(1)?,
                a.int(2)?,
                a.int(3)?,
                returns()?,
            )
        }
        c::MAP_REMOVE_BY_KEY_REL_INDEX_RANGE => {
            theirs::remove_by_key_relative_index_range(bin, a.value(1)?, a.int(2)?, returns()?)
        }
        c::MAP_REMOVE_BY_VALUE_REL_RANK_RANGE if a.len() > 3 => {
            theirs::remove_by_value_relative_rank_range_count(
                bin,
                a.value(1)?,
                a.int(2)?,
                a.int(3)?,
                returns()?,
            )
        }
        c::MAP_REMOVE_BY_VALUE_REL_RANK_RANGE => {
            theirs::remove_by_value_relative_rank_range(bin, a.value(1)?, a.int(2)?, returns()?)
        }
        _ => return Err(unknown(bin, "maps", code)),
    })
}

fn read(bin: &str, code: i64, a: &PositionalArguments) -> Result<Theirs> {
    let returns = || a.int(0).map(MapReturnType::from_bits);
    Ok(match u8::try_from(code).unwrap_or(u8::MAX) {
        c::MAP_SIZE => theirs::size(bin),
        c::MAP_GET_BY_KEY => theirs::get_by_key(bin, a.value(1)?, returns()?),
        c::MAP_GET_BY_INDEX => theirs::get_by_index(bin, a.int(1)?, returns()?),
        c::MAP_GET_BY_RANK => theirs::get_by_rank(bin, a.int(1)?, returns()?),
        c::MAP_GET_ALL_BY_VALUE => theirs::get_by_value(bin, a.value(1)?, returns()?),
        c::MAP_GET_BY_KEY_INTERVAL => {
            theirs::get_by_key_range(bin, a.value(1)?, a.end(2)?, returns()?)
        }
        c::MAP_GET_BY_INDEX_RANGE if a.len() > 2 => {
            theirs::get_by_index_range(bin, a.int(1)?, a.int(2)?, returns()?)
        }
        c::MAP_GET_BY_INDEX_RANGE => theirs::get_by_index_range_from(bin, a.int(1)?, returns()?),
        c::MAP_GET_BY_VALUE_INTERVAL => {
            theirs::get_by_value_range(bin, a.value(1)?, a.end(2)?, returns()?)
        }
        c::MAP_GET_BY_RANK_RANGE if a.len() > 2 => {
            theirs::get_by_rank_range(bin, a.int(1)?, a.int(2)?, returns()?)
        }
        c::MAP_GET_BY_RANK_RANGE => theirs::get_by_rank_range_from(bin, a.int(1)?, returns()?),
        c::MAP_GET_BY_KEY_LIST => theirs::get_by_key_list(bin, a.values(1)?, returns()?),
        c::MAP_GET_BY_VALUE_LIST => theirs::get_by_value_list(bin, a.values(1)?, returns()?),
        c::MAP_GET_BY_KEY_REL_INDEX_RANGE if a.len() > 3 => {
            theirs::get_by_key_relative_index_range_count(
                bin,
                a.value(1)?,
                a.int(2)?,
                a.int(3)?,
                returns()?,
            )
        }
        c::MAP_GET_BY_KEY_REL_INDEX_RANGE => {
            theirs::get_by_key_relative_index_range(bin, a.value(1)?, a.int(2)?, returns()?)
        }
        c::MAP_GET_BY_VALUE_REL_RANK_RANGE if a.len() > 3 => {
            theirs::get_by_value_relative_rank_range_count(
                bin,
                a.value(1)?,
                a.int(2)?,
                a.int(3)?,
                returns()?,
            )
        }
        c::MAP_GET_BY_VALUE_REL_RANK_RANGE => {
            theirs::get_by_value_relative_rank_range(bin, a.value(1)?, a.int(2)?, returns()?)
        }
        _ => return Err(unknown(bin, "maps", code)),
    })
}
