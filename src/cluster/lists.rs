//! The client's operations on lists, by number.

use aerospike::operations::Operation as Theirs;
use aerospike::operations::lists as theirs;
use aerospike::{ListOrderType, ListPolicy, ListSortFlags, ListWriteFlags};

use super::arguments::{PositionalArguments, operations, unknown};
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

/// Returns the policy of these flags of a new list and of the write. A persisted index is left out:
/// see [`super::operation`].
const fn policy(created: u8, write: u8) -> ListPolicy {
    ListPolicy::new(order(created), ListWriteFlags::from_bits(write))
}

impl PositionalArguments {
    fn list_order(&self, position: usize) -> Result<ListOrderType> {
        self.flags(position).map(order)
    }

    /// The policy of a write that may make the list, and says how.
    fn list_policy(&self, position: usize) -> Result<ListPolicy> {
        Ok(policy(self.flags(position)?, self.flags(position + 1)?))
    }

    fn list_write(&self, position: usize) -> Result<ListPolicy> {
        Ok(policy(0, self.flags(position)?))
    }

    fn sort_flags(&self, position: usize) -> Result<ListSortFlags> {
        self.flags(position).map(ListSortFlags::from_bits)
    }
}

operations! {
    "lists", [LIST_INCREMENT => increment];
    LIST_SET_TYPE set_order(list_order 0);
    LIST_APPEND append(&list_policy 1; value 0);
    LIST_APPEND_ITEMS append_items(&list_policy 1; values 0);
    LIST_INSERT insert(&list_write 2; int 0, value 1);
    LIST_INSERT_ITEMS insert_items(&list_write 2; int 0, values 1);
    LIST_SET set_with_policy(&list_write 2; int 0, value 1);
    LIST_SORT sort(sort_flags 0);
    LIST_POP pop(int 0);
    LIST_POP_RANGE / 2 pop_range(int 0, int 1);
    LIST_POP_RANGE pop_range_from(int 0);
    LIST_REMOVE remove(int 0);
    LIST_REMOVE_RANGE / 2 remove_range(int 0, int 1);
    LIST_REMOVE_RANGE remove_range_from(int 0);
    LIST_TRIM trim(int 0, int 1);
    LIST_CLEAR clear();
    LIST_SIZE size();
    LIST_GET get(int 0);
    LIST_GET_RANGE / 2 get_range(int 0, int 1);
    LIST_GET_RANGE get_range_from(int 0);
    LIST_GET_BY_VALUE_INTERVAL get_by_value_range(value 1, end 2, list_return 0);
    LIST_GET_BY_VALUE_REL_RANK_RANGE / 4 get_by_value_relative_rank_range_count(value 1, int 2, int 3, list_return 0);
    LIST_GET_BY_VALUE_REL_RANK_RANGE get_by_value_relative_rank_range(value 1, int 2, list_return 0);
    LIST_REMOVE_BY_VALUE_INTERVAL remove_by_value_range(list_return 0, value 1, end 2);
    LIST_REMOVE_BY_VALUE_REL_RANK_RANGE / 4 remove_by_value_relative_rank_range_count(list_return 0, value 1, int 2, int 3);
    LIST_REMOVE_BY_VALUE_REL_RANK_RANGE remove_by_value_relative_rank_range(list_return 0, value 1, int 2);
    => list_return {
        LIST_GET_BY_INDEX get_by_index, LIST_REMOVE_BY_INDEX remove_by_index (int 1);
        LIST_GET_BY_RANK get_by_rank, LIST_REMOVE_BY_RANK remove_by_rank (int 1);
        LIST_GET_ALL_BY_VALUE get_by_value, LIST_REMOVE_ALL_BY_VALUE remove_by_value (value 1);
        LIST_GET_BY_VALUE_LIST get_by_value_list, LIST_REMOVE_BY_VALUE_LIST remove_by_value_list (values 1);
        LIST_GET_BY_INDEX_RANGE get_by_index_range_count, LIST_REMOVE_BY_INDEX_RANGE remove_by_index_range_count / 3 (int 1, int 2);
        LIST_GET_BY_INDEX_RANGE get_by_index_range, LIST_REMOVE_BY_INDEX_RANGE remove_by_index_range (int 1);
        LIST_GET_BY_RANK_RANGE get_by_rank_range_count, LIST_REMOVE_BY_RANK_RANGE remove_by_rank_range_count / 3 (int 1, int 2);
        LIST_GET_BY_RANK_RANGE get_by_rank_range, LIST_REMOVE_BY_RANK_RANGE remove_by_rank_range (int 1);
    }
}

/// The client sends flags of an increment by another amount than 1 in the place of the list's
/// order.
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
