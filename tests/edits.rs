//! An edit of a large list or map writes a small part of it, with elements of any kind. What would
//! wait for an edit's closure is refused within it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use spikelet::changes::{ChangeOptions, Start};
use spikelet::operations::{lists, maps};
use spikelet::query::IndexDefinition;
use spikelet::record::BinName;
use spikelet::{
    DEFAULT_NAMESPACE, Error, ListOrder, ListPolicy, ListReturnType, ListWriteFlags, MapOrder,
    MapPolicy, MapReturnType, MapWriteFlags, Operation, Set, Store, Value,
};

const ELEMENTS: u64 = 400;
const EDITS: u64 = 1_000;

/// Strings of all lengths, 8 to 27 bytes.
fn name(number: u64) -> String {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:08x}{}", hash >> 32, "-".repeat((hash % 20) as usize))
}

/// Bytes of log an edit, for a record that `first` makes and `edits` change.
fn bytes_an_edit(first: Operation, edits: impl Fn(u64) -> Operation) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let namespace = store.namespace(DEFAULT_NAMESPACE).unwrap();
    let set: Set = namespace.set("edited").unwrap();
    set.operate("one", &[first]).unwrap();
    // The first edit may bring an index with it.
    set.operate("one", &[edits(0)]).unwrap();
    let before = namespace.stats().traffic;
    for number in 1..=EDITS {
        set.operate("one", &[edits(number)]).unwrap();
    }
    let after = namespace.stats().traffic;
    (after.appended_bytes + after.moved_bytes - before.appended_bytes - before.moved_bytes) / EDITS
}

#[test]
fn an_edit_of_a_list_of_strings_of_all_lengths_takes_600_bytes_of_log() {
    let flags = ListWriteFlags::ADD_UNIQUE | ListWriteFlags::NO_FAIL;
    for policy in [
        ListPolicy::new(ListOrder::Ordered, flags).persist_index(true),
        ListPolicy::new(ListOrder::Ordered, flags),
        ListPolicy::new(ListOrder::Unordered, flags).persist_index(true),
    ] {
        let names = (0..ELEMENTS).map(|number| Value::from(name(number)));
        let first = lists::append_items(&policy, "names", names.collect());
        // One comes, one goes, in turns.
        let bytes = bytes_an_edit(first, |number| match number % 2 {
            0 => lists::append(&policy, "names", name(ELEMENTS + number)),
            _ => lists::remove_by_index(
                "names",
                (number * 37 % ELEMENTS) as i64,
                ListReturnType::None,
            ),
        });
        assert!(bytes <= 600, "{policy:?}: {bytes} bytes an edit");
    }
}

#[test]
fn an_edit_of_a_map_of_strings_takes_600_bytes_of_log() {
    let policy = MapPolicy::new(MapOrder::KeyOrdered, MapWriteFlags::default()).persist_index(true);
    let entries =
        (0..ELEMENTS).map(|number| (Value::from(name(number)), Value::from(number as i64)));
    let first = maps::put_items(&policy, "names", entries.collect());
    let bytes = bytes_an_edit(first, |number| match number % 2 {
        0 => maps::put(&policy, "names", name(ELEMENTS + number), number as i64),
        _ => maps::remove_by_index(
            "names",
            (number * 37 % ELEMENTS) as i64,
            MapReturnType::None,
        ),
    });
    assert!(bytes <= 600, "{bytes} bytes an edit");
}

#[test]
fn within_a_closure_what_would_wait_for_the_closure_itself_is_refused() {
    let store = Store::in_memory().unwrap();
    let namespace = store.namespace(DEFAULT_NAMESPACE).unwrap();
    let set = namespace.set("edited").unwrap();
    let changes = namespace.changes();
    changes.enable("edited").unwrap();
    let definition = || IndexDefinition::new("by_n", ["n"]);
    let subscribe = |name, start| changes.subscribe(name, start, ChangeOptions::default());
    let mut build = None;
    set.update("one", |bins| {
        bins.insert(BinName::new("n")?, 1.into());
        let refused = set.create_index(definition());
        assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");
        let refused = namespace.create_index(definition());
        assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");
        let refused = subscribe("late", Start::Now);
        assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");
        // These do not wait.
        subscribe("early", Start::Beginning)?;
        build = Some(set.build_index(definition())?);
        Ok(())
    })
    .unwrap();
    build.unwrap().wait().unwrap();
    assert_eq!(set.query("by_n").unwrap().eq(1).count().unwrap(), 1);
    subscribe("late", Start::Now).unwrap();
}
