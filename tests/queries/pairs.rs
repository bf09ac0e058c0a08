//! Indexes beside edits of collections, pages, and operations in the background.

use spikelet::operations::{ctx, lists, maps, put};
use spikelet::policy::RecordExistsAction;
use spikelet::query::{BackgroundPolicy, IndexComponent, IndexDefinition, IndexType};
use spikelet::{MapReturnType, Set, Store, Value, WritePolicy, bins};

use crate::namespace;

fn store_and_set() -> (Store, Set) {
    let store = Store::in_memory().unwrap();
    let set = store.set("things").unwrap();
    (store, set)
}

#[test]
fn an_edit_that_only_reorders_a_list_changes_no_entry() {
    let (store, set) = store_and_set();
    set.create_index(IndexDefinition::new(
        "by_tag",
        [IndexComponent::bin("t").elements()],
    ))
    .unwrap();
    set.put(1, [("t", Value::from(vec![3, 1, 2, 1]))]).unwrap();
    let stats = || namespace(&store).indexes().remove(0);
    assert_eq!(stats().entries, 3);
    set.operate(1, &[lists::sort("t", lists::ListSortFlags::empty())])
        .unwrap();
    assert_eq!((stats().entries, stats().added, stats().removed), (3, 3, 0));
    set.put(1, [("t", "text")]).unwrap();
    assert_eq!(stats().entries, 0);
    set.put(1, [("t", Value::from(vec![3]))]).unwrap();
    assert_eq!(set.query("by_tag").unwrap().eq(3).count().unwrap(), 1);
}

#[test]
fn pages_go_on_over_records_that_move_or_go() {
    let (_store, set) = store_and_set();
    set.create_index(IndexDefinition::new("by_n", ["n"]))
        .unwrap();
    for i in 0..20 {
        set.put(i, [("n", i)]).unwrap();
    }
    let q = set.query("by_n").unwrap().limit(5);
    let p = q.keys().unwrap();
    let c = p.cursor().unwrap().clone();
    // The record of the cursor goes; others move across.
    set.delete(4).unwrap();
    set.put(0, [("n", 100)]).unwrap();
    set.put(10, [("n", -1)]).unwrap();
    let mut left: Vec<i64> = set
        .query("by_n")
        .unwrap()
        .after(&c)
        .iter()
        .map(|r| r.unwrap().record.get("n").unwrap().as_i64().unwrap())
        .collect();
    left.sort();
    let mut expected: Vec<i64> = (5..20).filter(|n| *n != 10).collect();
    expected.push(100);
    assert_eq!(left, expected);
}

#[test]
fn an_operation_in_the_background_leaves_a_unique_key_to_one_record() {
    let (store, set) = store_and_set();
    set.create_index(IndexDefinition::new("u", ["u"]).unique(true))
        .unwrap();
    for i in 0..5 {
        set.put(i, bins! {"u" => i, "n" => 1}).unwrap();
    }
    let done = set
        .query_all()
        .operate(&BackgroundPolicy::default(), [put("u", 7)])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!((done.written, done.failed), (1, 4));
    assert_eq!(namespace(&store).indexes().remove(0).entries, 5);
    // Each record may be replaced with the key that it has.
    let replace = WritePolicy::default().record_exists_action(RecordExistsAction::Replace);
    for i in 0..5 {
        let u = set.get(i).unwrap().unwrap().get("u").unwrap();
        set.put_with(&replace, i, [("u", u)]).unwrap();
    }
    assert_eq!(namespace(&store).indexes().remove(0).entries, 5);
}

#[test]
fn entries_follow_values_that_change_their_type() {
    let (store, set) = store_and_set();
    let at = IndexComponent::bin("m").at([ctx::map_key("a"), ctx::list_index(0)]);
    set.create_index(IndexDefinition::new("p", [at])).unwrap();
    let geo = IndexComponent::bin("g")
        .elements()
        .of_type(IndexType::GeoJson);
    set.create_index(IndexDefinition::new("g", [geo])).unwrap();
    let count = |v: i64| set.query("p").unwrap().eq(v).count().unwrap();
    let map = |v: Value| Value::Map([(Value::from("a"), v)].into_iter().collect());
    set.put(1, [("m", map(vec![5, 6].into()))]).unwrap();
    assert_eq!(count(5), 1);
    set.put(1, [("m", map(5.into()))]).unwrap();
    assert_eq!(count(5), 0);
    set.put(1, [("m", 5)]).unwrap();
    set.put(1, [("m", map(vec![9].into()))]).unwrap();
    assert_eq!(count(9), 1);
    set.operate(1, &[maps::remove_by_key("m", "a", MapReturnType::None)])
        .unwrap();
    assert_eq!(count(9), 0);
    let entries: u64 = store
        .namespace("test")
        .unwrap()
        .indexes()
        .iter()
        .map(|i| i.entries)
        .sum();
    assert_eq!(entries, 0);
}
