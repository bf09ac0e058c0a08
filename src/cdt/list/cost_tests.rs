//! The costs of list operations, counted: element visits by shape and size, and bytes copied by every write.

use super::{ListEdit, ListView, Selector, append, append_items, get, remove};
use crate::cdt::{ListReturnType as Return, ListWriteFlags as Flags, cost};
use crate::value::testing::encoded;
use crate::value::{FLAG_ORDERED, FLAG_PERSIST_INDEX, Value};

const SIZES: [usize; 3] = [10, 1_000, 100_000];

/// What the elements are: integers make an index of runs, words of many lengths one of offsets.
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

    /// A value that belongs in the middle of `size` elements and is none of them.
    fn missing(self, size: usize) -> Value {
        match self {
            Self::Integers => (size as i64 | 1).into(),
            Self::Words => format!("{:06}!", size / 2).into(),
        }
    }

    fn list(self, flags: u8, size: usize) -> Vec<u8> {
        let items: Vec<u8> = (0..size).flat_map(|i| encoded(&self.element(i))).collect();
        let (edit, _) = append_items(ListView::empty(flags), &items, Flags::empty()).unwrap();
        let mut out = Vec::new();
        edit.unwrap().write(&mut out);
        out
    }
}

/// The visits of an operation, which writes its edit, if it makes one, to the buffer that it is given.
fn visits(particle: &[u8], f: impl FnOnce(ListView<'_>, &mut Vec<u8>)) -> usize {
    let view = ListView::parse(particle).unwrap();
    let mut out = Vec::new();
    let ((), visits, copied) = cost::of(|| f(view, &mut out));
    assert!(
        copied <= out.len(),
        "a write copies what it writes, once: {copied} for {}",
        out.len()
    );
    visits
}

fn write(edit: Option<ListEdit<'_>>, out: &mut Vec<u8>) {
    edit.unwrap().write(out);
}

fn log2(size: usize) -> usize {
    size.ilog2() as usize + 1
}

/// Checks the visits of one operation against a bound for each of the three shapes: without order, ordered, ordered
/// with index.
fn check(
    operation: &str,
    bounds: [fn(usize) -> usize; 3],
    f: impl Fn(Kind, usize, ListView<'_>, &mut Vec<u8>),
) {
    let shapes = [0, FLAG_ORDERED, FLAG_ORDERED | FLAG_PERSIST_INDEX];
    for kind in [Kind::Integers, Kind::Words] {
        for size in SIZES {
            for (flags, bound) in shapes.into_iter().zip(bounds) {
                let visits = visits(&kind.list(flags, size), |view, out| {
                    f(kind, size, view, out)
                });
                let bound = bound(size);
                assert!(
                    visits <= bound,
                    "{operation}, {size} {kind:?} of shape {flags:#x}: {visits} visits, {bound} are allowed"
                );
            }
        }
    }
}

#[test]
fn five_elements_by_index_cost_five_visits_with_an_index() {
    let walk = |size: usize| size + 5;
    check(
        "get_by_index_range",
        [walk, walk, |_| 5],
        |_, size, view, _| {
            let selector = Selector::IndexRange {
                start: size as i64 / 2,
                count: 5,
            };
            get(&view, selector, Return::Values.into()).unwrap();
        },
    );
}

#[test]
fn positions_and_counts_by_index_cost_no_visits() {
    check(
        "get_by_index_range, count",
        [|_| 0; 3],
        |_, size, view, _| {
            let selector = Selector::IndexRange {
                start: size as i64 / 2,
                count: 5,
            };
            get(&view, selector, Return::Count.into()).unwrap();
            get(&view, selector, Return::Index.into()).unwrap();
        },
    );
}

#[test]
fn a_search_by_value_costs_the_logarithm_with_an_index() {
    let bounds: [fn(usize) -> usize; 3] = [
        |size| size + 1,
        |size| size + 2 * log2(size) + 1,
        |size| 2 * log2(size) + 1,
    ];
    check("get_by_value", bounds, |kind, size, view, _| {
        let value = encoded(&kind.element(size / 2));
        get(&view, Selector::Value(&value), Return::Values.into()).unwrap();
    });
}

#[test]
fn a_removal_by_value_costs_the_logarithm_with_an_index() {
    let bounds: [fn(usize) -> usize; 3] = [
        |size| size,
        |size| size + 2 * log2(size),
        |size| 2 * log2(size),
    ];
    check("remove_by_value", bounds, |kind, size, view, out| {
        let value = encoded(&kind.element(size / 2));
        write(
            remove(view, Selector::Value(&value), Return::None.into())
                .unwrap()
                .0,
            out,
        );
    });
}

#[test]
fn an_append_costs_nothing_without_order_and_the_logarithm_with_an_index() {
    let bounds: [fn(usize) -> usize; 3] = [|_| 0, |size| size + log2(size), |size| log2(size) + 1];
    check("append", bounds, |kind, size, view, out| {
        let value = encoded(&kind.missing(size));
        write(append(view, &value, Flags::empty()).unwrap().0, out);
    });
}

#[test]
fn a_unique_append_costs_one_search() {
    let bounds: [fn(usize) -> usize; 3] = [
        |size| size,
        |size| size + log2(size) + 1,
        |size| log2(size) + 2,
    ];
    check("append, unique", bounds, |kind, size, view, out| {
        let value = encoded(&kind.missing(size));
        write(append(view, &value, Flags::ADD_UNIQUE).unwrap().0, out);
    });
}
