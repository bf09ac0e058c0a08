//! The client's operations on lists, by number.

use aerospike::operations::Operation as Theirs;
use aerospike::operations::lists as theirs;
use aerospike::{ListOrderType, ListPolicy, ListReturnType, ListSortFlags, ListWriteFlags};

use super::arguments::{PositionalArguments, unknown};
use crate::cdt::code as c;
use crate::value::FLAG_ORDERED;
use crate::{Error, Result};

const fn order(flags: u8) -> ListOrderType {
    if flags & FLAG_ORDERED == 0 {
        ListOrderType::Unordered
    } else {
        ListOrderType::Ordered
    }
}

/// Returns the policy of these flags of a new list and of the write. A persisted index is left out: see
/// [`super::operation`].
const fn policy(created: u8, write: u8) -> ListPolicy {
    ListPolicy::new(order(created), ListWriteFlags::from_bits(write))
}

/// The operation of this number.
pub(super) fn operation(bin: &str, code: i64, a: &PositionalArguments) -> Result<Theirs> {
    match code {
        16..=27 => read(bin, code, a),
        32.. => remove(bin, code, a),
        _ => write(bin, code, a),
    }
}

fn write(bin: &str, code: i64, a: &PositionalArguments) -> Result<Theirs> {
    let has_count = a.len() > 1;
    Ok(match u8::try_from(code).unwrap_or(u8::MAX) {
        c::LIST_SET_TYPE => theirs::set_order(bin, order(a.flags(0)?)),
        c::LIST_APPEND => theirs::append(&policy(a.flags(1)?, a.flags(2)?), bin, a.value(0)?),
        c::LIST_APPEND_ITEMS => {
            theirs::append_items(&policy(a.flags(1)?, a.flags(2)?), bin, a.values(0)?)
        }
        c::LIST_INSERT => theirs::insert(&policy(0, a.flags(2)?), bin, a.int(0)?, a.value(1)?),
        c::LIST_INSERT_ITEMS => {
            theirs::insert_items(&policy(0, a.flags(2)?), bin, a.int(0)?, a.values(1)?)
        }
        c::LIST_POP => theirs::pop(bin, a.int(0)?),
        c::LIST_POP_RANGE if has_count => theirs::pop_range(bin, a.int(0)?, a.int(1)?),
        c::LIST_POP_RANGE => theirs::pop_range_from(bin, a.int(0)?),
        c::LIST_REMOVE => theirs::remove(bin, a.int(0)?),
        c::LIST_REMOVE_RANGE if has_count => theirs::remove_range(bin, a.int(0)?, a.int(1)?),
        c::LIST_REMOVE_RANGE => theirs::remove_range_from(bin, a.int(0)?),
        c::LIST_SET => {
            theirs::set_with_policy(&policy(0, a.flags(2)?), bin, a.int(0)?, a.value(1)?)
        }
        c::LIST_TRIM => theirs::trim(bin, a.int(0)?, a.int(1)?),
        c::LIST_CLEAR => theirs::clear(bin),
        c::LIST_INCREMENT => increment(bin, a)?,
        c::LIST_SORT => theirs::sort(bin, ListSortFlags::from_bits(a.flags(0)?)),
        _ => return Err(unknown(bin, "lists", code)),
    })
}

/// The client sends flags of an increment by another amount than 1 in the place of the list's order.
fn increment(bin: &str, a: &PositionalArguments) -> Result<Theirs> {
    let (created, write) = (a.flags(2)?, a.flags(3)?);
    if a.len() == 1 {
        return Ok(theirs::increment_by_one(bin, a.int(0)?));
    }
    match (a.int(1), created | write) {
        (Ok(1), _) => Ok(theirs::increment_by_one_with_policy(
            &policy(created, write),
            bin,
            a.int(0)?,
        )),
        (Ok(by), 0) => Ok(theirs::increment(&policy(0, 0), bin, a.int(0)?, by)),
        _ => Err(Error::parameter(format!(
            "an element of a list cannot be incremented over a cluster by a float, nor by another amount than 1 with flags: the client for it has no form for that (bin \"{bin}\")"
        ))),
    }
}

fn read(bin: &str, code: i64, a: &PositionalArguments) -> Result<Theirs> {
    let returns = || a.int(0).map(ListReturnType::from_bits);
    Ok(match u8::try_from(code).unwrap_or(u8::MAX) {
        c::LIST_SIZE => theirs::size(bin),
        c::LIST_GET => theirs::get(bin, a.int(0)?),
        c::LIST_GET_RANGE if a.len() > 1 => theirs::get_range(bin, a.int(0)?, a.int(1)?),
        c::LIST_GET_RANGE => theirs::get_range_from(bin, a.int(0)?),
        c::LIST_GET_BY_INDEX => theirs::get_by_index(bin, a.int(1)?, returns()?),
        c::LIST_GET_BY_RANK => theirs::get_by_rank(bin, a.int(1)?, returns()?),
        c::LIST_GET_ALL_BY_VALUE => theirs::get_by_value(bin, a.value(1)?, returns()?),
        c::LIST_GET_BY_VALUE_LIST => theirs::get_by_value_list(bin, a.values(1)?, returns()?),
        c::LIST_GET_BY_INDEX_RANGE if a.len() > 2 => {
            theirs::get_by_index_range_count(bin, a.int(1)?, a.int(2)?, returns()?)
        }
        c::LIST_GET_BY_INDEX_RANGE => theirs::get_by_index_range(bin, a.int(1)?, returns()?),
        c::LIST_GET_BY_VALUE_INTERVAL => {
            theirs::get_by_value_range(bin, a.value(1)?, a.end(2)?, returns()?)
        }
        c::LIST_GET_BY_RANK_RANGE if a.len() > 2 => {
            theirs::get_by_rank_range_count(bin, a.int(1)?, a.int(2)?, returns()?)
        }
        c::LIST_GET_BY_RANK_RANGE => theirs::get_by_rank_range(bin, a.int(1)?, returns()?),
        c::LIST_GET_BY_VALUE_REL_RANK_RANGE if a.len() > 3 => {
            theirs::get_by_value_relative_rank_range_count(
                bin,
                a.value(1)?,
                a.int(2)?,
                a.int(3)?,
                returns()?,
            )
        }
        c::LIST_GET_BY_VALUE_REL_RANK_RANGE => {
            theirs::get_by_value_relative_rank_range(bin, a.value(1)?, a.int(2)?, returns()?)
        }
        _ => return Err(unknown(bin, "lists", code)),
    })
}

fn remove(bin: &str, code: i64, a: &PositionalArguments) -> Result<Theirs> {
    let returns = || a.int(0).map(ListReturnType::from_bits);
    Ok(match u8::try_from(code).unwrap_or(u8::MAX) {
        c::LIST_REMOVE_BY_INDEX => theirs::remove_by_index(bin, a.int(1)?, returns()?),
        c::LIST_REMOVE_BY_RANK => theirs::remove_by_rank(bin, a.int(1)?, returns()?),
        c::LIST_REMOVE_ALL_BY_VALUE => theirs::remove_by_value(bin, a.value(1)?, returns()?),
        c::LIST_REMOVE_BY_VALUE_LIST => theirs::remove_by_value_list(bin, a.values(1)?, returns()?),
        c::LIST_REMOVE_BY_INDEX_RANGE if a.len() > 2 => {
            theirs::remove_by_index_range_count(bin, a.int(1)?, a.int(2)?, returns()?)
        }
        c::LIST_REMOVE_BY_INDEX_RANGE => theirs::remove_by_index_range(bin, a.int(1)?, returns()?),
        c::LIST_REMOVE_BY_VALUE_INTERVAL => {
            theirs::remove_by_value_range(bin, returns()?, a.value(1)?, a.end(2)?)
        }
        c::LIST_REMOVE_BY_RANK_RANGE if a.len() > 2 => {
            theirs::remove_by_rank_range_count(bin, a.int(1)?, a.int(2)?, returns()?)
        }
        c::LIST_REMOVE_BY_RANK_RANGE => theirs::remove_by_rank_range(bin, a.int(1)?, returns()?),
        c::LIST_REMOVE_BY_VALUE_REL_RANK_RANGE if a.len() > 3 => {
            theirs::remove_by_value_relative_rank_range_count(
                bin,
                returns()?,
                a.value(1)?,
                a.int(2)?,
                a.int(3)?,
            )
        }
        c::LIST_REMOVE_BY_VALUE_REL_RANK_RANGE => {
            theirs::remove_by_value_relative_rank_range(bin, returns()?, a.value(1)?, a.int(2)?)
        }
        _ => return Err(unknown(bin, "lists", code)),
    })
}
