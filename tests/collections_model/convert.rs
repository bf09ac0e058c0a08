//! The model's calls as operations of the public API.

use spikelet::operations::ctx::{self, Context, ListPad};
use spikelet::operations::lists::{ListReturn, ListSortFlags};
use spikelet::operations::maps::MapReturn;
use spikelet::operations::{lists, maps};
use spikelet::{
    ListOrder, ListReturnType, ListWriteFlags, MapReturnType, MapWriteFlags, Operation,
};

use super::model::call::{
    Call, ListCreation, ListOperation, ListPolicy, ListSelector, MapOperation, MapPolicy,
    MapSelector, Operation as Asked, Return, ReturnKind, Step,
};

pub fn operation(bin: &str, call: &Call) -> Operation {
    let operation = match &call.operation {
        Asked::List(operation) => list_operation(bin, operation.clone()),
        Asked::Map(operation) => map_operation(bin, operation.clone()),
    };
    if call.path.is_empty() {
        operation
    } else {
        operation.in_context(call.path.iter().map(context))
    }
}

fn context(step: &Step) -> Context {
    match step.clone() {
        Step::ListIndex(index, None) => ctx::list_index(index),
        Step::ListIndex(index, Some(creation)) => {
            let (order, pad) = match creation {
                ListCreation::Unordered => (ListOrder::Unordered, ListPad::Bounded),
                ListCreation::Padded => (ListOrder::Unordered, ListPad::Padded),
                ListCreation::Ordered => (ListOrder::Ordered, ListPad::Bounded),
            };
            ctx::list_index_create(index, order, pad)
        }
        Step::ListRank(rank) => ctx::list_rank(rank),
        Step::ListValue(value) => ctx::list_value(value),
        Step::MapIndex(index) => ctx::map_index(index),
        Step::MapRank(rank) => ctx::map_rank(rank),
        Step::MapKey(key, None) => ctx::map_key(key),
        Step::MapKey(key, Some(order)) => ctx::map_key_create(key, order),
        Step::MapValue(value) => ctx::map_value(value),
    }
}

fn list_policy(policy: ListPolicy) -> spikelet::ListPolicy {
    let flags = ListWriteFlags::from_bits_truncate(policy.flags.into());
    let own = spikelet::ListPolicy::new(policy.order, flags);
    if policy.persist {
        own.persist_index(true)
    } else {
        own
    }
}

fn map_policy(policy: MapPolicy) -> spikelet::MapPolicy {
    let flags = MapWriteFlags::from_bits_truncate(policy.flags.into());
    let own = spikelet::MapPolicy::new(policy.order, flags);
    if policy.persist {
        own.persist_index(true)
    } else {
        own
    }
}

fn list_operation(bin: &str, operation: ListOperation) -> Operation {
    use ListOperation as L;
    match operation {
        L::SetType {
            order,
            persist: false,
        } => lists::set_order(bin, order),
        L::SetType {
            order,
            persist: true,
        } => lists::create_persistent(bin, order),
        L::Append(policy, value) => lists::append(&list_policy(policy), bin, value),
        L::AppendItems(policy, values) => lists::append_items(&list_policy(policy), bin, values),
        L::Insert(policy, index, value) => lists::insert(&list_policy(policy), bin, index, value),
        L::InsertItems(policy, index, values) => {
            lists::insert_items(&list_policy(policy), bin, index, values)
        }
        L::Pop(index) => lists::pop(bin, index),
        L::PopRange(index, u64::MAX) => lists::pop_range_from(bin, index),
        L::PopRange(index, count) => lists::pop_range(bin, index, count),
        L::Remove(index) => lists::remove(bin, index),
        L::RemoveRange(index, u64::MAX) => lists::remove_range_from(bin, index),
        L::RemoveRange(index, count) => lists::remove_range(bin, index, count),
        L::Set(policy, index, value) => lists::set(&list_policy(policy), bin, index, value),
        L::Trim(index, count) => lists::trim(bin, index, count),
        L::Clear => lists::clear(bin),
        L::Increment(policy, index, delta) => {
            lists::increment(&list_policy(policy), bin, index, delta)
        }
        L::Sort(flags) => lists::sort(bin, ListSortFlags::from_bits_truncate(flags.into())),
        L::Size => lists::size(bin),
        L::Get(index) => lists::get(bin, index),
        L::GetRange(index, u64::MAX) => lists::get_range_from(bin, index),
        L::GetRange(index, count) => lists::get_range(bin, index, count),
        L::GetBy(selector, returns) => list_get(bin, selector, list_return(returns)),
        L::RemoveBy(selector, returns) => list_remove(bin, selector, list_return(returns)),
    }
}

fn list_get(bin: &str, selector: ListSelector, returns: ListReturn) -> Operation {
    use ListSelector as S;
    match selector {
        S::Index(i) => lists::get_by_index(bin, i, returns),
        S::IndexRange(i, u64::MAX) => lists::get_by_index_range(bin, i, returns),
        S::IndexRange(i, count) => lists::get_by_index_range_count(bin, i, count, returns),
        S::Rank(rank) => lists::get_by_rank(bin, rank, returns),
        S::RankRange(rank, u64::MAX) => lists::get_by_rank_range(bin, rank, returns),
        S::RankRange(rank, count) => lists::get_by_rank_range_count(bin, rank, count, returns),
        S::Value(value) => lists::get_by_value(bin, value, returns),
        S::ValueList(values) => lists::get_by_value_list(bin, values, returns),
        S::ValueRange(begin, end) => lists::get_by_value_range(bin, begin, end, returns),
        S::ValueRelativeRankRange(value, rank, u64::MAX) => {
            lists::get_by_value_relative_rank_range(bin, value, rank, returns)
        }
        S::ValueRelativeRankRange(value, rank, count) => {
            lists::get_by_value_relative_rank_range_count(bin, value, rank, count, returns)
        }
    }
}

fn list_remove(bin: &str, selector: ListSelector, returns: ListReturn) -> Operation {
    use ListSelector as S;
    match selector {
        S::Index(i) => lists::remove_by_index(bin, i, returns),
        S::IndexRange(i, u64::MAX) => lists::remove_by_index_range(bin, i, returns),
        S::IndexRange(i, count) => lists::remove_by_index_range_count(bin, i, count, returns),
        S::Rank(rank) => lists::remove_by_rank(bin, rank, returns),
        S::RankRange(rank, u64::MAX) => lists::remove_by_rank_range(bin, rank, returns),
        S::RankRange(rank, count) => lists::remove_by_rank_range_count(bin, rank, count, returns),
        S::Value(value) => lists::remove_by_value(bin, value, returns),
        S::ValueList(values) => lists::remove_by_value_list(bin, values, returns),
        S::ValueRange(begin, end) => lists::remove_by_value_range(bin, begin, end, returns),
        S::ValueRelativeRankRange(value, rank, u64::MAX) => {
            lists::remove_by_value_relative_rank_range(bin, value, rank, returns)
        }
        S::ValueRelativeRankRange(value, rank, count) => {
            lists::remove_by_value_relative_rank_range_count(bin, value, rank, count, returns)
        }
    }
}

fn map_operation(bin: &str, operation: MapOperation) -> Operation {
    use MapOperation as M;
    match operation {
        M::SetType {
            order,
            persist: false,
        } => maps::set_order(bin, order),
        M::SetType {
            order,
            persist: true,
        } => maps::create_persistent(bin, order),
        M::Put(policy, key, value) => maps::put(&map_policy(policy), bin, key, value),
        M::PutItems(policy, entries) => maps::put_items(&map_policy(policy), bin, entries),
        M::Increment(policy, key, delta) => {
            maps::increment_value(&map_policy(policy), bin, key, delta)
        }
        M::Decrement(policy, key, delta) => {
            maps::decrement_value(&map_policy(policy), bin, key, delta)
        }
        M::Clear => maps::clear(bin),
        M::Size => maps::size(bin),
        M::GetBy(selector, returns) => map_get(bin, selector, map_return(returns)),
        M::RemoveBy(selector, returns) => map_remove(bin, selector, map_return(returns)),
    }
}

fn map_get(bin: &str, selector: MapSelector, returns: MapReturn) -> Operation {
    use MapSelector as S;
    match selector {
        S::Key(key) => maps::get_by_key(bin, key, returns),
        S::KeyList(keys) => maps::get_by_key_list(bin, keys, returns),
        S::KeyRange(begin, end) => maps::get_by_key_range(bin, begin, end, returns),
        S::KeyRelativeIndexRange(key, i, u64::MAX) => {
            maps::get_by_key_relative_index_range(bin, key, i, returns)
        }
        S::KeyRelativeIndexRange(key, i, count) => {
            maps::get_by_key_relative_index_range_count(bin, key, i, count, returns)
        }
        S::Index(i) => maps::get_by_index(bin, i, returns),
        S::IndexRange(i, u64::MAX) => maps::get_by_index_range(bin, i, returns),
        S::IndexRange(i, count) => maps::get_by_index_range_count(bin, i, count, returns),
        S::Rank(rank) => maps::get_by_rank(bin, rank, returns),
        S::RankRange(rank, u64::MAX) => maps::get_by_rank_range(bin, rank, returns),
        S::RankRange(rank, count) => maps::get_by_rank_range_count(bin, rank, count, returns),
        S::Value(value) => maps::get_by_value(bin, value, returns),
        S::ValueList(values) => maps::get_by_value_list(bin, values, returns),
        S::ValueRange(begin, end) => maps::get_by_value_range(bin, begin, end, returns),
        S::ValueRelativeRankRange(value, rank, u64::MAX) => {
            maps::get_by_value_relative_rank_range(bin, value, rank, returns)
        }
        S::ValueRelativeRankRange(value, rank, count) => {
            maps::get_by_value_relative_rank_range_count(bin, value, rank, count, returns)
        }
    }
}

fn map_remove(bin: &str, selector: MapSelector, returns: MapReturn) -> Operation {
    use MapSelector as S;
    match selector {
        S::Key(key) => maps::remove_by_key(bin, key, returns),
        S::KeyList(keys) => maps::remove_by_key_list(bin, keys, returns),
        S::KeyRange(begin, end) => maps::remove_by_key_range(bin, begin, end, returns),
        S::KeyRelativeIndexRange(key, i, u64::MAX) => {
            maps::remove_by_key_relative_index_range(bin, key, i, returns)
        }
        S::KeyRelativeIndexRange(key, i, count) => {
            maps::remove_by_key_relative_index_range_count(bin, key, i, count, returns)
        }
        S::Index(i) => maps::remove_by_index(bin, i, returns),
        S::IndexRange(i, u64::MAX) => maps::remove_by_index_range(bin, i, returns),
        S::IndexRange(i, count) => maps::remove_by_index_range_count(bin, i, count, returns),
        S::Rank(rank) => maps::remove_by_rank(bin, rank, returns),
        S::RankRange(rank, u64::MAX) => maps::remove_by_rank_range(bin, rank, returns),
        S::RankRange(rank, count) => maps::remove_by_rank_range_count(bin, rank, count, returns),
        S::Value(value) => maps::remove_by_value(bin, value, returns),
        S::ValueList(values) => maps::remove_by_value_list(bin, values, returns),
        S::ValueRange(begin, end) => maps::remove_by_value_range(bin, begin, end, returns),
        S::ValueRelativeRankRange(value, rank, u64::MAX) => {
            maps::remove_by_value_relative_rank_range(bin, value, rank, returns)
        }
        S::ValueRelativeRankRange(value, rank, count) => {
            maps::remove_by_value_relative_rank_range_count(bin, value, rank, count, returns)
        }
    }
}

fn list_return(returns: Return) -> ListReturn {
    use ReturnKind as K;
    let kind = match returns.kind {
        K::None => ListReturnType::None,
        K::Index => ListReturnType::Index,
        K::ReverseIndex => ListReturnType::ReverseIndex,
        K::Rank => ListReturnType::Rank,
        K::ReverseRank => ListReturnType::ReverseRank,
        K::Count => ListReturnType::Count,
        K::Value => ListReturnType::Values,
        K::IndexRange => ListReturnType::IndexRange,
        K::ReverseIndexRange => ListReturnType::ReverseIndexRange,
        K::RankRange => ListReturnType::RankRange,
        K::ReverseRankRange => ListReturnType::ReverseRankRange,
        K::Exists => ListReturnType::Exists,
        K::Key | K::KeyValue | K::UnorderedMap | K::OrderedMap => {
            unreachable!("the API has no {:?} for lists", returns.kind)
        }
    };
    if returns.inverted {
        kind.inverted()
    } else {
        kind.into()
    }
}

fn map_return(returns: Return) -> MapReturn {
    use ReturnKind as K;
    let kind = match returns.kind {
        K::None => MapReturnType::None,
        K::Index => MapReturnType::Index,
        K::ReverseIndex => MapReturnType::ReverseIndex,
        K::Rank => MapReturnType::Rank,
        K::ReverseRank => MapReturnType::ReverseRank,
        K::Count => MapReturnType::Count,
        K::Key => MapReturnType::Key,
        K::Value => MapReturnType::Value,
        K::KeyValue => MapReturnType::KeyValue,
        K::IndexRange => MapReturnType::IndexRange,
        K::ReverseIndexRange => MapReturnType::ReverseIndexRange,
        K::RankRange => MapReturnType::RankRange,
        K::ReverseRankRange => MapReturnType::ReverseRankRange,
        K::Exists => MapReturnType::Exists,
        K::UnorderedMap => MapReturnType::UnorderedMap,
        K::OrderedMap => MapReturnType::OrderedMap,
    };
    if returns.inverted {
        kind.inverted()
    } else {
        kind.into()
    }
}
