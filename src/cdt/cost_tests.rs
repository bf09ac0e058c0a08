//! Counts the costs of operations: item visits by shape and size, and bytes copied by every write.
//! The limits are those in the operations' documentation.

use super::testing::{Arg, Bin, call};
use super::{code, cost};
use crate::value::{FLAG_ORDERED, FLAG_PERSIST_INDEX, FLAG_VALUE_ORDERED, Value};

const SIZES: [usize; 3] = [10, 1_000, 100_000];

/// Unordered, ordered, ordered with a persisted index.
const LISTS: [u8; 3] = [0, FLAG_ORDERED, FLAG_ORDERED | FLAG_PERSIST_INDEX];

/// Ordered by key, without and with a persisted index; by key and value with a persisted index.
const MAPS: [u8; 3] = [
    FLAG_ORDERED,
    FLAG_ORDERED | FLAG_PERSIST_INDEX,
    FLAG_ORDERED | FLAG_VALUE_ORDERED | FLAG_PERSIST_INDEX,
];

/// The kinds of elements: integers give an index of runs, words of many lengths one of offsets.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Integers,
    Words,
}

impl Kind {
    fn element(self, number: usize) -> Value {
        match self {
            Self::Integers => (2 * number as i64).into(),
            Self::Words => format!("{number:06}{}", "x".repeat(number % 7)).into(),
        }
    }

    /// Returns a value that sorts into the middle of `size` elements and equals none.
    fn missing(self, size: usize) -> Value {
        match self {
            Self::Integers => (size as i64 | 1).into(),
            Self::Words => format!("{:06}!", size / 2).into(),
        }
    }

    fn list(self, flags: u8, size: usize) -> Bin {
        let items: Vec<Value> = (0..size).map(|number| self.element(number)).collect();
        Bin::list(flags, &items)
    }

    /// Keys ascend, values descend.
    fn map(self, flags: u8, size: usize) -> Bin {
        let entries: Vec<(Value, Value)> = (0..size)
            .map(|number| (self.element(number), self.element(size - 1 - number)))
            .collect();
        Bin::map(flags, &entries)
    }
}

fn log2(size: usize) -> usize {
    size.ilog2() as usize + 1
}

/// How many items a range of the tests selects.
const SELECTED: usize = 5;

/// The number of visits that is allowed, by size.
type Bound = fn(usize) -> usize;

/// An operation, its arguments, and its cost limit for each of three shapes.
struct Row {
    code: u8,
    writes: bool,
    args: fn(Kind, usize) -> Vec<Arg>,
    bounds: [Bound; 3],
}

fn check(table: &[Row], shapes: [u8; 3], make: fn(Kind, u8, usize) -> Bin) {
    for size in SIZES {
        for kind in [Kind::Integers, Kind::Words] {
            for (shape, flags) in shapes.into_iter().enumerate() {
                let bin = make(kind, flags, size);
                for row in table {
                    let mut bin = bin.clone();
                    let old_len = bin.bytes().len();
                    let call = call(row.code, &(row.args)(kind, size));
                    let (result, visits, copied) = cost::of(|| bin.run(row.writes, &call));
                    let name = format!("{} on {size} {kind:?} of flags {flags:#x}", row.code);
                    result.unwrap_or_else(|error| panic!("{name}: {error:?}"));
                    let bound = (row.bounds[shape])(size);
                    assert!(
                        visits <= bound,
                        "{name}: {visits} visits, {bound} are allowed"
                    );
                    assert!(
                        copied <= bin.bytes().len().max(old_len),
                        "{name}: a write copies what it writes, once: {copied}"
                    );
                }
            }
        }
    }
}

const NONE: Bound = |_| 0;
const ONE: Bound = |_| 1;
const FEW: Bound = |_| SELECTED;
const WALK: Bound = |size| size;
const WALK_AND_FEW: Bound = |size| size + SELECTED;
const WALK_AND_SEARCH: Bound = |size| size + 2 * log2(size) + 2 * SELECTED;
const SEARCH: Bound = |size| 2 * log2(size) + 2 * SELECTED;
const WALK_AND_SEARCHES: Bound = |size| size + SELECTED * (2 * log2(size) + 4);
const SEARCHES: Bound = |size| SELECTED * (2 * log2(size) + 4);

fn int(value: usize) -> Arg {
    Arg::Int(value as i64)
}

/// Values, ints: the return types of the tests.
const VALUES: Arg = Arg::Int(7);
const COUNT: Arg = Arg::Int(5);
const RANK: Arg = Arg::Int(3);

fn some_elements(kind: Kind, size: usize) -> Vec<Value> {
    (0..SELECTED)
        .map(|at| kind.element(at * size / SELECTED))
        .collect()
}

#[test]
fn lists_cost_what_the_table_of_lists_says() {
    let read = |code, args, bounds| Row {
        code,
        writes: false,
        args,
        bounds,
    };
    let write = |code, args, bounds| Row {
        code,
        writes: true,
        args,
        bounds,
    };
    let table = [
        read(code::LIST_SIZE, |_, _| vec![], [NONE; 3]),
        read(code::LIST_GET, |_, n| vec![int(n / 2)], [WALK, WALK, NONE]),
        read(
            code::LIST_GET_RANGE,
            |_, n| vec![int(n / 2), int(SELECTED)],
            [WALK_AND_FEW, WALK_AND_FEW, FEW],
        ),
        read(
            code::LIST_GET_BY_INDEX_RANGE,
            |_, n| vec![COUNT, int(n / 2), int(SELECTED)],
            [NONE; 3],
        ),
        read(
            code::LIST_GET_BY_INDEX_RANGE,
            |_, n| vec![Arg::Int(1), int(n / 2), int(SELECTED)],
            [NONE; 3],
        ),
        read(
            code::LIST_GET_BY_RANK,
            |_, n| vec![VALUES, int(n / 2)],
            [WALK, WALK, ONE],
        ),
        read(
            code::LIST_GET_BY_RANK_RANGE,
            |_, n| vec![VALUES, int(n / 2), int(SELECTED)],
            [WALK_AND_FEW, WALK_AND_FEW, FEW],
        ),
        read(
            code::LIST_GET_ALL_BY_VALUE,
            |k, n| vec![VALUES, Arg::Value(k.element(n / 2))],
            [WALK_AND_FEW, WALK_AND_SEARCH, SEARCH],
        ),
        read(
            code::LIST_GET_BY_VALUE_INTERVAL,
            |k, n| {
                vec![
                    VALUES,
                    Arg::Value(k.element(n / 2)),
                    Arg::Value(k.element(n / 2 + SELECTED)),
                ]
            },
            [WALK_AND_FEW, WALK_AND_SEARCH, SEARCH],
        ),
        read(
            code::LIST_GET_BY_VALUE_REL_RANK_RANGE,
            |k, n| vec![VALUES, Arg::Value(k.element(n / 2)), int(0), int(SELECTED)],
            [|n| 2 * n + SELECTED, WALK_AND_SEARCH, SEARCH],
        ),
        read(
            code::LIST_GET_BY_VALUE_LIST,
            |k, n| vec![VALUES, Arg::List(some_elements(k, n))],
            [WALK_AND_FEW, WALK_AND_SEARCHES, SEARCHES],
        ),
        write(
            code::LIST_APPEND,
            |k, n| vec![Arg::Value(k.missing(n))],
            [NONE, WALK_AND_SEARCH, SEARCH],
        ),
        write(
            code::LIST_APPEND,
            |k, n| vec![Arg::Value(k.missing(n)), int(0), int(1)],
            [WALK, WALK_AND_SEARCH, |n| log2(n) + 2],
        ),
        write(
            code::LIST_APPEND_ITEMS,
            |k, n| vec![Arg::List(vec![k.missing(n); SELECTED])],
            [NONE, WALK_AND_SEARCHES, SEARCHES],
        ),
        write(code::LIST_POP, |_, n| vec![int(n / 2)], [WALK, WALK, NONE]),
        write(
            code::LIST_TRIM,
            |_, n| vec![int(n / 2), int(SELECTED)],
            [WALK_AND_FEW, WALK_AND_FEW, NONE],
        ),
        write(code::LIST_CLEAR, |_, _| vec![], [NONE; 3]),
        write(
            code::LIST_REMOVE_ALL_BY_VALUE,
            |k, n| vec![COUNT, Arg::Value(k.element(n / 2))],
            [WALK, WALK_AND_SEARCH, SEARCH],
        ),
        write(
            code::LIST_REMOVE_BY_RANK_RANGE,
            |_, n| vec![COUNT, int(n / 2), int(SELECTED)],
            [WALK, WALK_AND_FEW, FEW],
        ),
        write(code::LIST_SORT, |_, _| vec![], [WALK, NONE, NONE]),
    ];
    check(&table, LISTS, Kind::list);
}

#[test]
fn positions_in_a_list_without_order_cost_little_with_an_index() {
    let persisted = [FLAG_PERSIST_INDEX; 3];
    let table = [
        Row {
            code: code::LIST_GET_RANGE,
            writes: false,
            args: |_, n| vec![int(n / 2), int(SELECTED)],
            bounds: [FEW; 3],
        },
        Row {
            code: code::LIST_APPEND,
            writes: true,
            args: |k, n| vec![Arg::Value(k.missing(n))],
            bounds: [ONE; 3],
        },
        Row {
            code: code::LIST_INSERT,
            writes: true,
            args: |k, n| vec![int(n / 2), Arg::Value(k.missing(n))],
            bounds: [ONE; 3],
        },
        Row {
            code: code::LIST_SET,
            writes: true,
            args: |k, n| vec![int(n / 2), Arg::Value(k.missing(n))],
            bounds: [ONE; 3],
        },
    ];
    check(&table, persisted, Kind::list);
}

#[test]
fn maps_cost_what_the_table_of_maps_says() {
    let read = |code, args, bounds| Row {
        code,
        writes: false,
        args,
        bounds,
    };
    let write = |code, args, bounds| Row {
        code,
        writes: true,
        args,
        bounds,
    };
    let table = [
        read(code::MAP_SIZE, |_, _| vec![], [NONE; 3]),
        read(
            code::MAP_GET_BY_KEY,
            |k, n| vec![VALUES, Arg::Value(k.element(n / 2))],
            [WALK, SEARCH, SEARCH],
        ),
        read(
            code::MAP_GET_BY_KEY,
            |k, n| vec![RANK, Arg::Value(k.element(n / 2))],
            [|n| 3 * n, |n| n + 2 * log2(n), SEARCH],
        ),
        read(
            code::MAP_GET_BY_INDEX,
            |_, n| vec![VALUES, int(n / 2)],
            [WALK, NONE, NONE],
        ),
        read(
            code::MAP_GET_BY_INDEX_RANGE,
            |_, n| vec![VALUES, int(n / 2), int(SELECTED)],
            [WALK_AND_FEW, FEW, FEW],
        ),
        read(
            code::MAP_GET_BY_INDEX_RANGE,
            |_, n| vec![RANK, int(n / 2), int(SELECTED)],
            [WALK_AND_FEW, WALK_AND_FEW, SEARCHES],
        ),
        read(
            code::MAP_GET_BY_RANK,
            |_, n| vec![VALUES, int(n / 2)],
            [WALK, WALK, NONE],
        ),
        read(
            code::MAP_GET_BY_RANK_RANGE,
            |_, n| vec![VALUES, int(n / 2), int(SELECTED)],
            [WALK_AND_FEW, WALK_AND_FEW, FEW],
        ),
        read(
            code::MAP_GET_BY_KEY_INTERVAL,
            |k, n| {
                vec![
                    VALUES,
                    Arg::Value(k.element(n / 2)),
                    Arg::Value(k.element(n / 2 + SELECTED)),
                ]
            },
            [WALK_AND_SEARCH, SEARCH, SEARCH],
        ),
        read(
            code::MAP_GET_BY_KEY_REL_INDEX_RANGE,
            |k, n| vec![VALUES, Arg::Value(k.element(n / 2)), int(0), int(SELECTED)],
            [WALK_AND_SEARCH, SEARCH, SEARCH],
        ),
        read(
            code::MAP_GET_BY_KEY_LIST,
            |k, n| vec![VALUES, Arg::List(some_elements(k, n))],
            [WALK_AND_SEARCHES, SEARCHES, SEARCHES],
        ),
        read(
            code::MAP_GET_ALL_BY_VALUE,
            |k, n| vec![VALUES, Arg::Value(k.element(n / 2))],
            [WALK_AND_FEW, WALK_AND_FEW, SEARCH],
        ),
        read(
            code::MAP_GET_BY_VALUE_INTERVAL,
            |k, n| {
                vec![
                    VALUES,
                    Arg::Value(k.element(n / 2)),
                    Arg::Value(k.element(n / 2 + SELECTED)),
                ]
            },
            [WALK_AND_FEW, WALK_AND_FEW, SEARCH],
        ),
        read(
            code::MAP_GET_BY_VALUE_REL_RANK_RANGE,
            |k, n| vec![VALUES, Arg::Value(k.element(n / 2)), int(0), int(SELECTED)],
            [|n| 2 * n + SELECTED, |n| 2 * n + SELECTED, SEARCH],
        ),
        read(
            code::MAP_GET_BY_VALUE_LIST,
            |k, n| vec![VALUES, Arg::List(some_elements(k, n))],
            [WALK_AND_FEW, WALK_AND_FEW, SEARCHES],
        ),
        write(
            code::MAP_PUT,
            |k, n| vec![Arg::Value(k.missing(n)), Arg::Value(k.missing(n))],
            [WALK, SEARCH, SEARCH],
        ),
        write(
            code::MAP_PUT,
            |k, n| vec![Arg::Value(k.element(n / 2)), Arg::Value(k.missing(n))],
            [WALK, SEARCH, SEARCH],
        ),
        write(
            code::MAP_PUT_ITEMS,
            |k, n| {
                vec![Arg::Map(
                    some_elements(k, n)
                        .into_iter()
                        .map(|e| (e, Value::Nil))
                        .collect(),
                )]
            },
            [WALK_AND_SEARCHES, SEARCHES, |n| {
                2 * SELECTED * (2 * log2(n) + 4)
            }],
        ),
        write(
            code::MAP_REMOVE_BY_KEY,
            |k, n| vec![COUNT, Arg::Value(k.element(n / 2))],
            [WALK, SEARCH, SEARCH],
        ),
        write(
            code::MAP_REMOVE_BY_INDEX_RANGE,
            |_, n| vec![COUNT, int(n / 2), int(SELECTED)],
            [WALK_AND_FEW, NONE, NONE],
        ),
        write(
            code::MAP_REMOVE_BY_RANK,
            |_, n| vec![COUNT, int(n / 2)],
            [WALK, WALK, NONE],
        ),
        write(code::MAP_CLEAR, |_, _| vec![], [NONE; 3]),
    ];
    check(&table, MAPS, Kind::map);
}

/// The cost of a call on a list or map, in visits.
fn visits(bin: &Bin, writes: bool, code: u8, args: &[Arg]) -> usize {
    let (result, visits, _) = cost::of(|| bin.clone().run(writes, &call(code, args)));
    result.unwrap();
    visits
}

const MANY: usize = 1_000;
/// Less than a product of two numbers of items.
const FEW_WALKS: usize = 3 * MANY;

#[test]
fn equal_items_that_must_be_unique_are_compared_with_each_element_once() {
    let equal = vec![Value::from(7); MANY];
    let add_unique = [Arg::List(equal.clone()), Arg::Int(0), Arg::Int(1 | 4 | 8)];
    let bin = Bin::list(0, &equal);
    let adding = visits(&bin, true, code::LIST_APPEND_ITEMS, &add_unique);
    assert!(adding <= FEW_WALKS, "{adding} visits");
}

#[test]
fn the_ranks_of_others_cost_each_value_of_a_list_once() {
    // Below all items, and equal to none: each value has the rank 0.
    let missing: Vec<Value> = (0..MANY).map(|at| Value::from(-1 - at as i64)).collect();
    let others = [Arg::Int(3 | 0x10000), Arg::List(missing)];
    let bin = Kind::Integers.list(0, MANY);
    let ranks = visits(&bin, false, code::LIST_GET_BY_VALUE_LIST, &others);
    assert!(ranks <= FEW_WALKS, "{ranks} visits");
}

#[test]
fn only_wildcards_of_a_list_of_values_are_compared_with_each_element() {
    let bin = Kind::Integers.list(0, MANY);
    // The encoding of the integer contains the bytes of a wildcard. The first wildcard has every
    // item, so the others are not compared.
    for value in [Value::from(0x00d4_ff00), Value::Wildcard] {
        let values = [VALUES, Arg::List(vec![value.clone(); MANY])];
        let found = visits(&bin, false, code::LIST_GET_BY_VALUE_LIST, &values);
        assert!(found <= FEW_WALKS, "{found} visits for {value:?}");
    }
}
