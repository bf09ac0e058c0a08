//! The selections of list elements and map entries, as rows: the names and numbers of the functions
//! that read and remove them, the selector and its arguments, the selected items, and the cost. The
//! functions of `operations` and `expressions` are generated from these rows.

/// Calls a macro with the selections of list elements.
macro_rules! list_selections {
    ($generate:ident $($kinds:tt)*) => {
        $generate! {
            $($kinds)*;
            get_by_index LIST_GET_BY_INDEX, remove_by_index LIST_REMOVE_BY_INDEX, Index(index),
            "the element at a position",
            "O(index), O(N) for its rank in a list without order; O(1) with order and index.";

            get_by_index_range LIST_GET_BY_INDEX_RANGE, remove_by_index_range LIST_REMOVE_BY_INDEX_RANGE, IndexRange(start),
            "the elements from a position to the end",
            "O(M) for M elements with index, O(N) without; their ranks in a list without order O(N log N).";

            get_by_index_range_count LIST_GET_BY_INDEX_RANGE,
            remove_by_index_range_count LIST_REMOVE_BY_INDEX_RANGE, IndexRange(start, count),
            "at most `count` elements from a position on",
            "Costs as [`get_by_index_range`].";

            get_by_rank LIST_GET_BY_RANK, remove_by_rank LIST_REMOVE_BY_RANK, Rank(rank),
            "the element of a rank",
            "Rank -1 is the greatest. O(N); O(1) with order and index.";

            get_by_rank_range LIST_GET_BY_RANK_RANGE, remove_by_rank_range LIST_REMOVE_BY_RANK_RANGE, RankRange(start),
            "the elements from a rank to the greatest",
            "O(N + M log M) without order, whose values come in descending order where the range lies in the lower half; \
             O(M) with order and index.";

            get_by_rank_range_count LIST_GET_BY_RANK_RANGE,
            remove_by_rank_range_count LIST_REMOVE_BY_RANK_RANGE, RankRange(start, count),
            "at most `count` elements from a rank on",
            "Costs and order as [`get_by_rank_range`].";

            get_by_value LIST_GET_ALL_BY_VALUE, remove_by_value LIST_REMOVE_ALL_BY_VALUE, Value(value),
            "all elements equal to a value",
            "O(N); O(log N + M) with order and index.";

            get_by_value_list LIST_GET_BY_VALUE_LIST, remove_by_value_list LIST_REMOVE_BY_VALUE_LIST, Values(values),
            "all elements equal to one of several values",
            "O((M + N) log M) for M values; O(M log N) with order and index, and then in the order of the values.";

            get_by_value_range LIST_GET_BY_VALUE_INTERVAL,
            remove_by_value_range LIST_REMOVE_BY_VALUE_INTERVAL, ValueInterval(begin, end),
            "all elements from `begin` (`None`: the lowest) up to, not including, `end` (`None`: the greatest included)",
            "O(N); O(log N + M) with order and index.";

            get_by_value_relative_rank_range LIST_GET_BY_VALUE_REL_RANK_RANGE,
            remove_by_value_relative_rank_range LIST_REMOVE_BY_VALUE_REL_RANK_RANGE, ValueRelative(value, rank),
            "the elements from a rank on, which is counted from that of the first element not less than `value`",
            "Costs and order as [`get_by_rank_range`], and a search.";

            get_by_value_relative_rank_range_count LIST_GET_BY_VALUE_REL_RANK_RANGE,
            remove_by_value_relative_rank_range_count LIST_REMOVE_BY_VALUE_REL_RANK_RANGE, ValueRelative(value, rank, count),
            "at most `count` elements from a rank on, which is counted from that of the first element not less than `value`",
            "Costs and order as [`get_by_rank_range_count`], and a search.";
        }
    };
}

/// Calls a macro with the selections of map entries.
macro_rules! map_selections {
    ($generate:ident $($kinds:tt)*) => {
        $generate! {
            $($kinds)*;
            get_by_key MAP_GET_BY_KEY, remove_by_key MAP_REMOVE_BY_KEY, Key(key),
            "the entry of a key",
            "O(N); O(log N) with index; its rank costs O(N) more, O(log N) with an index of values.";

            get_by_key_list MAP_GET_BY_KEY_LIST, remove_by_key_list MAP_REMOVE_BY_KEY_LIST, Keys(keys),
            "the entries of several keys",
            "O(M log M + N); O(M log N) with index.";

            get_by_key_range MAP_GET_BY_KEY_INTERVAL, remove_by_key_range MAP_REMOVE_BY_KEY_INTERVAL, KeyInterval(begin, end),
            "the entries with keys not less than `begin` (`None`: all), and less than `end` (`None`: all)",
            "O(N); O(log N + M) with index.";

            get_by_key_relative_index_range MAP_GET_BY_KEY_REL_INDEX_RANGE,
            remove_by_key_relative_index_range MAP_REMOVE_BY_KEY_REL_INDEX_RANGE, KeyRelative(key, index),
            "the entries from an index on, which is counted from that of the first key not less than `key`",
            "O(N); O(log N + M) with index.";

            get_by_key_relative_index_range_count MAP_GET_BY_KEY_REL_INDEX_RANGE,
            remove_by_key_relative_index_range_count MAP_REMOVE_BY_KEY_REL_INDEX_RANGE, KeyRelative(key, index, count),
            "at most `count` entries from an index on, which is counted from that of the first key not less than `key`",
            "O(N); O(log N + M) with index.";

            get_by_index MAP_GET_BY_INDEX, remove_by_index MAP_REMOVE_BY_INDEX, Index(index),
            "the entry at an index",
            "O(index); O(1) with index.";

            get_by_index_range MAP_GET_BY_INDEX_RANGE, remove_by_index_range MAP_REMOVE_BY_INDEX_RANGE, IndexRange(start),
            "the entries from an index to the end",
            "O(N); O(M) with index; ranks O(N log N), O(M log N) with an index of values.";

            get_by_index_range_count MAP_GET_BY_INDEX_RANGE,
            remove_by_index_range_count MAP_REMOVE_BY_INDEX_RANGE, IndexRange(start, count),
            "at most `count` entries from an index on",
            "O(index + M); O(M) with index; ranks O(N log N), O(M log N) with an index of values.";

            get_by_rank MAP_GET_BY_RANK, remove_by_rank MAP_REMOVE_BY_RANK, Rank(rank),
            "the entry of a rank",
            "Rank -1 has the greatest value. O(N); O(1) with an index of values.";

            get_by_rank_range MAP_GET_BY_RANK_RANGE, remove_by_rank_range MAP_REMOVE_BY_RANK_RANGE, RankRange(start),
            "the entries from a rank to the greatest value, by rank",
            "O(N + M log M); O(M) with an index of values.";

            get_by_rank_range_count MAP_GET_BY_RANK_RANGE,
            remove_by_rank_range_count MAP_REMOVE_BY_RANK_RANGE, RankRange(start, count),
            "at most `count` entries from a rank on, by rank",
            "O(N + M log M); O(M) with an index of values.";

            get_by_value MAP_GET_ALL_BY_VALUE, remove_by_value MAP_REMOVE_ALL_BY_VALUE, Value(value),
            "all entries with the given value",
            "O(N); O(log N + M) with an index of values.";

            get_by_value_list MAP_GET_BY_VALUE_LIST, remove_by_value_list MAP_REMOVE_BY_VALUE_LIST, Values(values),
            "all entries with one of several values",
            "O((M + N) log M) for M values; O(M log N) with an index of values, and then in the order of the values given.";

            get_by_value_range MAP_GET_BY_VALUE_INTERVAL,
            remove_by_value_range MAP_REMOVE_BY_VALUE_INTERVAL, ValueInterval(begin, end),
            "the entries with values not less than `begin` (`None`: all), and less than `end` (`None`: all)",
            "O(N); O(log N + M) with an index of values, and then by rank.";

            get_by_value_relative_rank_range MAP_GET_BY_VALUE_REL_RANK_RANGE,
            remove_by_value_relative_rank_range MAP_REMOVE_BY_VALUE_REL_RANK_RANGE, ValueRelative(value, rank),
            "the entries from a rank on, which is counted from that of the first value not less than `value`",
            "O(N + M log M); O(log N + M) with an index of values.";

            get_by_value_relative_rank_range_count MAP_GET_BY_VALUE_REL_RANK_RANGE,
            remove_by_value_relative_rank_range_count MAP_REMOVE_BY_VALUE_REL_RANK_RANGE, ValueRelative(value, rank, count),
            "at most `count` entries from a rank on, which is counted from that of the first value not less than `value`",
            "O(N + M log M); O(log N + M) with an index of values.";
        }
    };
}

pub(crate) use {list_selections, map_selections};
