//! Edits and reads of encoded lists, against lists of owned values that are edited in the plainest way.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::index::Index;
use super::{ListEdit, ListView, Selector, append, append_items, get, remove, set_type};
use crate::cdt::range::clip;
use crate::cdt::{CdtError, ListReturn, ListReturnType as Return, ListWriteFlags as Flags};
use crate::value::testing::{any_value, decode, encoded};
use crate::value::{FLAG_ORDERED, FLAG_PERSIST_INDEX, Value};

const ORDERED: u8 = FLAG_ORDERED;
const PERSISTED: u8 = FLAG_PERSIST_INDEX;
const SHAPES: [u8; 4] = [0, ORDERED, PERSISTED, ORDERED | PERSISTED];

fn order(a: &Value, b: &Value) -> Ordering {
    crate::value::order::compare(&encoded(a), &encoded(b))
}

fn written(edit: &ListEdit<'_>) -> Vec<u8> {
    let mut out = vec![0xaa];
    edit.write(&mut out);
    assert_eq!(
        out.len(),
        1 + edit.encoded_len(),
        "the length is known beforehand"
    );
    out.split_off(1)
}

fn items_of(particle: &[u8]) -> Vec<Value> {
    let Ok(Value::List(list)) = decode(particle) else {
        panic!("no list: {particle:x?}")
    };
    list.into_items()
}

/// An encoded list.
#[derive(Clone, Debug)]
struct Encoded(Vec<u8>);

impl Encoded {
    fn new(flags: u8, items: &[Value]) -> Self {
        let mut list = Self(written(&ListEdit::empty(flags)));
        list.append_items(items, Flags::empty()).unwrap();
        list
    }

    fn view(&self) -> ListView<'_> {
        ListView::parse(&self.0).unwrap()
    }

    fn ints(flags: u8, items: &[i64]) -> Self {
        Self::new(
            flags,
            &items
                .iter()
                .map(|item| Value::Int(*item))
                .collect::<Vec<_>>(),
        )
    }

    fn append(&mut self, value: &Value, flags: Flags) -> Result<u32, CdtError> {
        let value = encoded(value);
        let (edit, count) = append(self.view(), &value, flags)?;
        if let Some(edit) = edit.map(|edit| written(&edit)) {
            self.0 = edit;
        }
        Ok(count)
    }

    fn append_items(&mut self, items: &[Value], flags: Flags) -> Result<u32, CdtError> {
        let items: Vec<u8> = items.iter().flat_map(encoded).collect();
        let (edit, count) = append_items(self.view(), &items, flags)?;
        if let Some(edit) = edit.map(|edit| written(&edit)) {
            self.0 = edit;
        }
        Ok(count)
    }

    fn remove(
        &mut self,
        selector: Selector<'_>,
        returns: ListReturn,
    ) -> Result<Option<Value>, CdtError> {
        let (edit, result) = remove(self.view(), selector, returns)?;
        if let Some(edit) = edit.map(|edit| written(&edit)) {
            self.0 = edit;
        }
        Ok(result)
    }

    fn set_type(&mut self, flags: u8) {
        let edit = set_type(self.view(), flags).unwrap();
        if let Some(edit) = edit.map(|edit| written(&edit)) {
            self.0 = edit;
        }
    }

    /// Checks that the index says what a walk finds.
    fn check_index(&self) {
        let view = self.view();
        let persisted = view.flags & PERSISTED != 0 && view.count > 1;
        assert_eq!(
            matches!(view.index, Index::None),
            !persisted,
            "an index where one should be"
        );
        for element in view.walk() {
            let element = element.unwrap();
            let start = view.start_of(element.at);
            assert_eq!(
                start,
                Some(element.start).filter(|_| persisted || element.at == 0)
            );
        }
        assert_eq!(view.segment(0, view.count).unwrap().end, view.content.len());
    }
}

/// The same list, owned.
#[derive(Clone, Debug)]
struct Model {
    items: Vec<Value>,
    ordered: bool,
}

impl Model {
    fn has(&self, value: &Value) -> bool {
        self.items.iter().any(|item| order(item, value).is_eq())
    }

    fn insert(&mut self, value: Value) {
        let behind = self
            .items
            .iter()
            .position(|item| order(item, &value).is_gt());
        match behind {
            Some(at) if self.ordered => self.items.insert(at, value),
            _ => self.items.push(value),
        }
    }

    fn append_items(
        &mut self,
        items: &[Value],
        flags: Flags,
        single: bool,
    ) -> Result<(), CdtError> {
        let mut fresh: Vec<Value> = Vec::new();
        for item in items {
            let exists = self.has(item);
            let repeated = fresh.iter().any(|other| order(other, item).is_eq());
            if flags.contains(Flags::ADD_UNIQUE) && (exists || repeated) {
                if !flags.contains(Flags::NO_FAIL) {
                    return Err(if exists {
                        CdtError::ElementExists
                    } else {
                        REPEATED
                    });
                }
                if !flags.contains(Flags::DO_PARTIAL) || single {
                    return Ok(());
                }
            } else {
                fresh.push(item.clone());
            }
        }
        fresh.into_iter().for_each(|item| self.insert(item));
        Ok(())
    }

    fn set_ordered(&mut self, ordered: bool) {
        self.ordered = ordered;
        if ordered {
            self.items.sort_by(order);
        }
    }

    /// The positions that a selector means, ascending.
    fn select(&self, selector: &Selection) -> Vec<u32> {
        let len = self.items.len() as u32;
        match selector {
            Selection::Range(start, count) => {
                let (at, count) = clip(len, *start, *count);
                (at..at + count).collect()
            }
            Selection::Value(value) => (0..len)
                .filter(|at| order(&self.items[*at as usize], value).is_eq())
                .collect(),
        }
    }

    fn rank(&self, value: &Value) -> u32 {
        self.items
            .iter()
            .filter(|item| order(item, value).is_lt())
            .count() as u32
    }

    /// What is returned, by the rules of 5.5 and 5.11. `Err`: not applicable.
    fn result(&self, selector: &Selection, returns: ListReturn) -> Result<Option<Value>, ()> {
        let len = self.items.len() as u32;
        let chosen = self.select(selector);
        let by_value = matches!(selector, Selection::Value(_));
        let range = self.ordered || !by_value;
        let inverted = returns.inverted;
        let selected: Vec<u32> = (0..len)
            .filter(|at| chosen.contains(at) != inverted)
            .collect();
        let first = match selector {
            Selection::Range(start, count) => clip(len, *start, *count).0,
            Selection::Value(value) => self.rank(value),
        };
        let count = chosen.len() as u32;
        let ranks: Vec<u32> = if selected.len() as u32 == len {
            (0..len).collect()
        } else if by_value || self.ordered {
            (0..len)
                .filter(|rank| (first..first + count).contains(rank) != inverted)
                .collect()
        } else {
            selected
                .iter()
                .map(|at| self.rank(&self.items[*at as usize]))
                .collect()
        };
        let list = |numbers: Vec<u32>| {
            Some(
                numbers
                    .into_iter()
                    .map(Value::from)
                    .collect::<Vec<_>>()
                    .into(),
            )
        };
        let mirrored = |numbers: Vec<u32>, ascending: bool| {
            let mut numbers: Vec<u32> = numbers.into_iter().map(|n| len - 1 - n).collect();
            if ascending {
                numbers.reverse();
            }
            list(numbers)
        };
        let all = selected.len() as u32 == len;
        Ok(match returns.kind {
            Return::None => None,
            Return::Count => Some((selected.len() as u32).into()),
            Return::Exists if inverted && by_value => Some(chosen.is_empty().into()),
            Return::Exists => Some((!selected.is_empty()).into()),
            Return::Values => {
                let values: Vec<Value> = selected
                    .iter()
                    .map(|at| self.items[*at as usize].clone())
                    .collect();
                Some(values.into())
            }
            Return::Index => list(selected),
            Return::ReverseIndex => mirrored(selected, range && !inverted),
            Return::Rank => list(ranks),
            Return::ReverseRank => mirrored(ranks, (by_value || self.ordered) && !inverted || all),
            _ if inverted => return Err(()),
            Return::IndexRange if range => list(vec![first, count]),
            Return::ReverseIndexRange if range => list(vec![len - first - count, count]),
            Return::RankRange if by_value || self.ordered => list(vec![first, count]),
            Return::ReverseRankRange if by_value || self.ordered => {
                list(vec![len - first - count, count])
            }
            _ => return Err(()),
        })
    }
}

const REPEATED: CdtError = CdtError::NotApplicable(
    "the items to be appended repeat one another, and elements must be unique",
);

const RETURNS: [Return; 12] = [
    Return::None,
    Return::Index,
    Return::ReverseIndex,
    Return::Rank,
    Return::ReverseRank,
    Return::Count,
    Return::Values,
    Return::IndexRange,
    Return::ReverseIndexRange,
    Return::RankRange,
    Return::ReverseRankRange,
    Return::Exists,
];

#[derive(Clone, Debug)]
enum Selection {
    Range(i64, u64),
    Value(Value),
}

#[derive(Clone, Debug)]
enum Step {
    Append(Value, Flags),
    AppendItems(Vec<Value>, Flags),
    Get(Selection, ListReturn),
    Remove(Selection, ListReturn),
    SetType(u8),
}

/// Elements that often equal one another, and are of all encoded lengths.
fn element() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (0..6_i64).prop_map(Value::Int),
        2 => (0..400_i64).prop_map(Value::Int),
        2 => (0..40_usize).prop_map(|len| "x".repeat(len).into()),
        1 => any_value(),
        1 => (250..400_usize).prop_map(|len| "y".repeat(len).into()),
    ]
}

fn flags() -> impl Strategy<Value = Flags> {
    (0..16_u32).prop_map(Flags::from_bits_truncate)
}

fn returns() -> impl Strategy<Value = ListReturn> {
    (prop::sample::select(RETURNS.to_vec()), any::<bool>())
        .prop_map(|(kind, inverted)| ListReturn { kind, inverted })
}

fn selection() -> impl Strategy<Value = Selection> {
    prop_oneof![
        (-30..30_i64, prop_oneof![0..20_u64, Just(u64::MAX)])
            .prop_map(|(start, count)| Selection::Range(start, count)),
        element().prop_map(Selection::Value),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (element(), flags()).prop_map(|(value, flags)| Step::Append(value, flags)),
        3 => (prop::collection::vec(element(), 0..30), flags())
            .prop_map(|(items, flags)| Step::AppendItems(items, flags)),
        3 => (selection(), returns()).prop_map(|(selection, returns)| Step::Get(selection, returns)),
        3 => (selection(), returns()).prop_map(|(selection, returns)| Step::Remove(selection, returns)),
        1 => prop::sample::select(SHAPES.to_vec()).prop_map(Step::SetType),
    ]
}

fn with_selector<R>(selection: &Selection, f: impl FnOnce(Selector<'_>) -> R) -> R {
    match selection {
        Selection::Range(start, count) => f(Selector::IndexRange {
            start: *start,
            count: *count,
        }),
        Selection::Value(value) => f(Selector::Value(&encoded(value))),
    }
}

fn same(a: &Option<Value>, b: &Option<Value>) -> bool {
    a.as_ref().map(encoded) == b.as_ref().map(encoded)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_encoded_list_does_what_a_list_of_values_does(
        shape in prop::sample::select(SHAPES.to_vec()),
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let mut list = Encoded::new(shape, &[]);
        let mut model = Model { items: Vec::new(), ordered: shape & ORDERED != 0 };
        for step in steps {
            let len = model.items.len() as u32;
            match step {
                Step::Append(value, flags) => {
                    let result = list.append(&value, flags);
                    let expected = model.append_items(&[value], flags, true);
                    prop_assert_eq!(result, expected.map(|()| model.items.len() as u32));
                }
                Step::AppendItems(items, flags) => {
                    let result = list.append_items(&items, flags);
                    let expected = model.append_items(&items, flags, false);
                    prop_assert_eq!(result, expected.map(|()| model.items.len() as u32));
                }
                Step::Get(selection, returns) => {
                    let result = with_selector(&selection, |s| get(&list.view(), s, returns));
                    match model.result(&selection, returns) {
                        Ok(expected) => prop_assert!(same(result.as_ref().unwrap(), &expected), "{:?} {:?}: {:?} for {:?}", selection, returns, result, expected),
                        Err(()) => prop_assert!(matches!(result, Err(CdtError::NotApplicable(_)))),
                    }
                }
                Step::Remove(selection, returns) => {
                    let result = with_selector(&selection, |s| list.remove(s, returns));
                    match model.result(&selection, returns) {
                        Ok(expected) => {
                            prop_assert!(same(result.as_ref().unwrap(), &expected));
                            let chosen = model.select(&selection);
                            let mut at = 0..len;
                            model.items.retain(|_| chosen.contains(&at.next().unwrap()) == returns.inverted);
                        }
                        Err(()) => prop_assert!(matches!(result, Err(CdtError::NotApplicable(_)))),
                    }
                }
                Step::SetType(flags) => {
                    list.set_type(flags);
                    model.set_ordered(flags & ORDERED != 0);
                    prop_assert_eq!(list.view().flags, flags);
                }
            }
            list.check_index();
            let items: Vec<Vec<u8>> = items_of(&list.0).iter().map(encoded).collect();
            let expected: Vec<Vec<u8>> = model.items.iter().map(encoded).collect();
            prop_assert_eq!(items, expected);
        }
    }

    #[test]
    fn hostile_lists_are_an_error_and_never_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..48),
        value in element(),
        returns in returns(),
    ) {
        hostile(&bytes, &value, returns);
        // The same behind a head that says "ordered, with index data".
        for form in [0, 1, 2, 4] {
            let mut headed = vec![0x95, 0xc7, 5, ORDERED | PERSISTED, form];
            headed.extend_from_slice(&bytes);
            hostile(&headed, &value, returns);
        }
    }
}

fn hostile(bytes: &[u8], value: &Value, returns: ListReturn) {
    let Ok(view) = ListView::parse(bytes) else {
        return;
    };
    let value = encoded(value);
    for selector in [
        Selector::Value(&value),
        Selector::IndexRange { start: 1, count: 2 },
    ] {
        let _ = get(&view, selector, returns);
        if let Ok((Some(edit), _)) = remove(view, selector, returns) {
            edit.write(&mut Vec::new());
        }
    }
    for flags in [Flags::empty(), Flags::ADD_UNIQUE] {
        if let Ok((Some(edit), _)) = append(view, &value, flags) {
            edit.write(&mut Vec::new());
        }
    }
    if let Ok(Some(edit)) = set_type(view, 0) {
        edit.write(&mut Vec::new());
    }
}

#[test]
fn unique_elements_follow_the_matrix_of_5_8() {
    let unique = Flags::ADD_UNIQUE;
    let no_fail = unique | Flags::NO_FAIL;
    let partial = no_fail | Flags::DO_PARTIAL;
    let exists = Err(CdtError::ElementExists);
    let repeated = Err(REPEATED);
    // (items, result with unique, with no-fail too, with partial too) on a list of 0, 4, 5.
    type Row = (&'static [i64], [Result<u32, CdtError>; 3]);
    let table: [Row; 6] = [
        (&[4], [exists, Ok(3), Ok(3)]),
        (&[9, 4, 11], [exists, Ok(3), Ok(5)]),
        (&[9, 11, 9], [repeated, Ok(3), Ok(5)]),
        (&[0, 4], [exists, Ok(3), Ok(3)]),
        (&[9, 9, 4], [repeated, Ok(3), Ok(4)]),
        (&[4, 9, 9], [exists, Ok(3), Ok(4)]),
    ];
    for shape in SHAPES {
        for (items, results) in table {
            let items: Vec<Value> = items.iter().map(|item| (*item).into()).collect();
            for (flags, expected) in [unique, no_fail, partial].into_iter().zip(results) {
                let mut list = Encoded::ints(shape, &[0, 4, 5]);
                assert_eq!(
                    list.append_items(&items, flags),
                    expected,
                    "{items:?} {flags:?}"
                );
                assert_eq!(list.view().count, expected.unwrap_or(3));
            }
        }
        let mut list = Encoded::ints(shape, &[0, 4, 5]);
        assert_eq!(list.append(&4.into(), unique), exists);
        assert_eq!(list.append(&4.into(), no_fail), Ok(3));
        assert_eq!(list.append(&4.into(), Flags::empty()), Ok(4));
        assert_eq!(list.append(&6.into(), unique), Ok(5));
        assert_eq!(list.append(&6.into(), Flags::DO_PARTIAL | unique), exists);
    }
}

#[test]
fn a_wildcard_finds_all_lists_that_begin_alike() {
    let list =
        |items: &[i64]| Value::from(items.iter().map(|i| Value::Int(*i)).collect::<Vec<_>>());
    let items = [
        list(&[1]),
        list(&[1, 1]),
        list(&[1, 2, 3]),
        list(&[2, 1]),
        1.into(),
    ];
    let wanted = Value::from(vec![1.into(), Value::Wildcard]);
    for shape in SHAPES {
        let stored = Encoded::new(shape, &items);
        for (value, count) in [(&wanted, 2), (&Value::Wildcard, 5), (&list(&[1]), 1)] {
            let found = get(
                &stored.view(),
                Selector::Value(&encoded(value)),
                Return::Count.into(),
            );
            assert_eq!(found, Ok(Some(count.into())), "{value:?}");
        }
    }
}

#[test]
fn integers_of_all_lengths_keep_an_index_of_a_few_bytes() {
    let mut list = Encoded::ints(ORDERED | PERSISTED, &[]);
    for power in 0..63 {
        for value in [1_i64 << power, -(1 << power), (1 << power) + 1] {
            list.append(&value.into(), Flags::empty()).unwrap();
        }
    }
    let Index::Runs(runs) = list.view().index else {
        panic!("no runs")
    };
    assert!(runs.len() <= 10, "{runs:?}");
    list.check_index();
}

#[test]
fn an_index_has_these_bytes() {
    let list = Encoded::ints(ORDERED | PERSISTED, &[1, 2, 300]);
    let expected = [
        &[0x94, 0xc7, 17, 0x11, 0][..],
        &[2, 0, 0, 0, 1, 0, 0, 0],
        &[1, 0, 0, 0, 3, 0, 0, 0],
        &[1, 2, 0xcd, 1, 44],
    ];
    assert_eq!(list.0, expected.concat());

    let words: Vec<Value> = (0..20).map(|i| "x".repeat(i % 2).into()).collect();
    let list = Encoded::new(PERSISTED, &words);
    let offsets: Vec<u8> = (0..20).map(|i| i / 2 * 5 + i % 2 * 2).collect();
    assert_eq!(list.0[..8], [0xdc, 0, 21, 0xc7, 21, 0x10, 1, 0]);
    assert_eq!(list.0[7..27], offsets);
}

#[test]
fn a_list_that_a_client_wrote_gets_its_index_when_it_is_edited() {
    let mut list = Encoded(vec![0x94, 0xc7, 0, ORDERED | PERSISTED, 1, 2, 3]);
    assert!(matches!(list.view().index, Index::None));
    list.append(&2.into(), Flags::empty()).unwrap();
    list.check_index();
    assert_eq!(items_of(&list.0), [1, 2, 2, 3].map(Value::Int));
}
