use super::*;
use crate::draw::{Random, value};

fn parent(number: u64) -> Parent {
    crate::queries::parent(number)
}

fn every_store(check: impl Fn(StoreName, &dyn QueryStore)) {
    for name in TAKE_PART {
        let dir = tempfile::tempdir().unwrap();
        let store = name.open_queries(dir.path()).unwrap();
        let mut random = Random::new(1, 2, 3);
        let children: Vec<Child> = (0..30)
            .map(|number| Child {
                number,
                parent: parent(number % 3),
                body: value(number, &mut random),
            })
            .collect();
        store.load(&children[..20]).unwrap();
        store.load(&children[20..]).unwrap();
        check(name, store.as_ref());
    }
}

/// What a query lends: parents and numbers, sorted, since order within a parent is the store's own.
fn lent(query: impl FnOnce(&mut Lend<'_>) -> Result<()>) -> Vec<(Vec<u8>, u64)> {
    let mut lent = Vec::new();
    query(&mut |parent, body| {
        assert_eq!(body.len(), VALUE_BYTES);
        lent.push((parent.to_vec(), number_of(body)));
    })
    .unwrap();
    lent.sort_unstable();
    lent
}

fn expected(numbers: impl IntoIterator<Item = u64>) -> Vec<(Vec<u8>, u64)> {
    let mut expected: Vec<_> = numbers
        .into_iter()
        .map(|number| (parent(number % 3).to_vec(), number))
        .collect();
    expected.sort_unstable();
    expected
}

#[test]
fn a_parent_has_its_records_and_no_others() {
    every_store(|name, store| {
        let found = lent(|lend| store.of_parent(&parent(1), 50, lend));
        assert_eq!(found, expected((1..30).step_by(3)), "{name:?}");
        let none = lent(|lend| store.of_parent(&parent(3), 50, lend));
        assert_eq!(none, [], "{name:?}");
        let four = lent(|lend| store.of_parent(&parent(1), 4, lend));
        assert_eq!(four.len(), 4, "{name:?}");
    });
}

#[test]
fn a_range_begins_at_its_parent_and_goes_on_to_the_next() {
    every_store(|name, store| {
        let found = lent(|lend| store.range_from(&parent(1), 50, lend));
        let of_two = (0..30).filter(|number| number % 3 > 0);
        assert_eq!(found, expected(of_two), "{name:?}");
        let first = lent(|lend| store.range_from(&parent(1), 10, lend));
        assert_eq!(first, expected((1..30).step_by(3)), "{name:?}");
    });
}

#[test]
fn a_scan_finds_those_below_and_no_others() {
    every_store(|name, store| {
        let found = lent(|lend| store.scan(7, lend));
        assert_eq!(found, expected(0..7), "{name:?}");
    });
}

#[test]
fn another_parent_moves_a_record_from_one_query_to_the_other() {
    every_store(|name, store| {
        store.set_parent(4, &parent(2)).unwrap();
        let before = lent(|lend| store.of_parent(&parent(1), 50, lend));
        let stayed = (1..30).step_by(3).filter(|number| *number != 4);
        assert_eq!(before, expected(stayed), "{name:?}");
        let now = lent(|lend| store.of_parent(&parent(2), 50, lend));
        let mut moved = expected((2..30).step_by(3));
        moved.push((parent(2).to_vec(), 4));
        moved.sort_unstable();
        assert_eq!(now, moved, "{name:?}");
        assert!(store.set_parent(99, &parent(2)).is_err(), "{name:?}");
        store.sync().unwrap();
    });
}
