//! Elements that others have put into a list more than once: nothing of it is lost, and nothing is
//! hidden by them.

use std::ops::{Bound, ControlFlow};

use spikelet::operations::{get_bin, lists};
use spikelet::shard::ShardPolicy;
use spikelet::{Error, ListOrder, ListPolicy, RecordSet, Set, ShardedList, Store, Value};

use crate::common::by_force;
use crate::watched::{Calls, Watched};

fn list(store: &Store, key: &str) -> ShardedList<Set> {
    ShardedList::new(store, "x", key, "b").unwrap()
}

/// A list of 0 to `count` - 1 that stays as it is.
fn filled(store: &Store, count: i64) -> ShardedList<Set> {
    let list = list(store, "k").policy(ShardPolicy::manual());
    for id in 0..count {
        list.add(id).unwrap();
    }
    list
}

fn ints(numbers: impl IntoIterator<Item = i64>) -> Vec<Value> {
    numbers.into_iter().map(Value::Int).collect()
}

/// Appends as other programs do, without a look at the list.
fn append(store: &Store, key: &str, element: i64) {
    let append = lists::append(&ListPolicy::default(), "b", element);
    let set = store.set("x").unwrap();
    set.operate_with(&by_force(), key, &[append]).unwrap();
}

/// The elements of a shard.
fn companion(store: &Store, shard: u64) -> Vec<i64> {
    let set = store.set("x").unwrap();
    let key = format!("k:{shard}");
    match set.operate(&*key, &[get_bin("b")]).unwrap().value(0) {
        Some(Value::List(items)) => {
            let number = |item: &Value| match item {
                Value::Int(number) => *number,
                other => panic!("{other:?}"),
            };
            items.iter().map(number).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// All elements, by pages of `limit` that each begin behind the last element of the one before.
fn by_cursor(list: &ShardedList<impl RecordSet>, limit: u64) -> Vec<Value> {
    let mut seen: Vec<Value> = Vec::new();
    loop {
        let page = list.page_after(seen.last(), limit).unwrap();
        if page.is_empty() {
            return seen;
        }
        assert!(page.len() as u64 <= limit);
        seen.extend(page);
    }
}

#[test]
fn repeats_in_one_record_hide_nothing() {
    for order in [ListOrder::Unordered, ListOrder::Ordered] {
        for copies in [1, 2, 3, 7, 30] {
            let store = Store::in_memory().unwrap();
            let set = store.set("x").unwrap();
            set.operate("k", &[lists::create("b", order)]).unwrap();
            let elements = || std::iter::repeat_n(1, copies).chain(2..40);
            elements()
                .rev()
                .for_each(|element| append(&store, "k", element));
            let list = list(&store, "k");
            assert_eq!(list.len().unwrap(), 38 + copies as u64);
            for limit in [1, 2, 3, 4, 5, 8, 30, 100] {
                let behind = ints((2..40).take(limit as usize));
                let case = format!("{order:?} {copies} {limit}");
                assert_eq!(
                    list.page_after(Some(&1.into()), limit).unwrap(),
                    behind,
                    "{case}"
                );
                let (from, to) = (Value::Int(1), Value::Int(39));
                let bounds = (Bound::Excluded(&from), Bound::Included(&to));
                assert_eq!(
                    list.range(bounds.0, bounds.1, limit).unwrap(),
                    behind,
                    "{case}"
                );
                let all = ints(elements().take(limit as usize));
                assert_eq!(list.page(0, limit).unwrap(), all, "{case}");
                let mut seen = by_cursor(&list, limit);
                seen.dedup();
                assert_eq!(seen, ints(1..40), "{case}");
            }
        }
    }
}

#[test]
fn repeats_in_one_shard_hide_nothing_in_the_others() {
    for copies in [1, 2, 8, 30] {
        let store = Store::in_memory().unwrap();
        let list = filled(&store, 100);
        list.shards().activate(2).unwrap();
        let repeated = companion(&store, 0)[3];
        (1..copies).for_each(|_| append(&store, "k:0", repeated));
        let cursor = Value::Int(repeated);
        for limit in [1, 2, 3, 4, 8, 10, 30, 200] {
            let behind = ints((repeated + 1..100).take(limit as usize));
            let page = list.page_after(Some(&cursor), limit).unwrap();
            assert_eq!(page, behind, "{copies} {limit}");
            let to = Value::Int(60);
            let bounds = (Bound::Excluded(&cursor), Bound::Excluded(&to));
            let behind = ints((repeated + 1..60).take(limit as usize));
            let range = list.range(bounds.0, bounds.1, limit).unwrap();
            assert_eq!(range, behind, "{copies} {limit}");
            let mut seen = by_cursor(&list, limit);
            seen.dedup();
            assert_eq!(seen, ints(0..100), "{copies} {limit}");
        }
    }
}

/// Between the look at the list and the beginning of its transition, others may put an element
/// there more than once.
#[test]
fn pages_show_everything_while_repeats_are_moved() {
    let store = Store::in_memory().unwrap();
    let list = filled(&store, 100);
    let mut left = 3;
    let check = |list: &ShardedList<Set>| {
        for limit in [1, 2, 3, 4, 5, 6, 8, 10] {
            let mut seen = by_cursor(list, limit);
            seen.dedup();
            assert_eq!(seen, ints(0..100), "pages of {limit}");
        }
    };
    list.shards()
        .on_progress(|_| {
            (0..std::mem::take(&mut left)).for_each(|_| append(&store, "k", 7));
            check(&list);
            ControlFlow::Continue(())
        })
        .activate(2)
        .unwrap();
    check(&list);
    list.shards().split().unwrap();
    check(&list);
    assert_eq!(list.len().unwrap(), 103);
}

#[test]
fn only_pages_behind_repeats_cost_more() {
    let noted = Calls::default();
    let store = Store::in_memory().unwrap();
    let watched = Watched::new(Store::clone(&store), &noted);
    let list = ShardedList::new(&watched, "x", "k", "b").unwrap();
    let list = list.policy(ShardPolicy::manual());
    for id in 0..200 {
        list.add(id).unwrap();
    }
    let cost = |after: i64| {
        noted.take();
        let page = list.page_after(Some(&after.into()), 5).unwrap();
        assert_eq!(page, ints(after + 1..after + 6));
        noted.take()
    };
    assert_eq!(cost(50), ["k"]);
    list.shards().activate(4).unwrap();
    // A view is the root and what it leads to.
    let all = cost(50);
    let repeated = companion(&store, 2)[9];
    assert_eq!(cost(repeated), all);
    append(&store, "k:2", repeated);
    let twice = cost(repeated);
    assert_eq!(twice, [&all[..], &["k:2".to_owned()]].concat());
    (0..30).for_each(|_| append(&store, "k:2", repeated));
    // 6 of 32, then 17, then 39.
    let often = cost(repeated);
    assert_eq!(
        often,
        [&all[..], &["k:2".to_owned(), "k:2".to_owned()]].concat()
    );
    assert_eq!(cost(repeated + 1), all);
}

#[test]
fn elements_that_others_have_put_there_twice_do_not_hold_an_iteration_up() {
    let store = Store::in_memory().unwrap();
    let set = store.set("x").unwrap();
    for id in [1, 3, 3, 3, 5] {
        set.operate("k", &[lists::append(&ListPolicy::default(), "b", id)])
            .unwrap();
    }
    let list = list(&store, "k");
    let all: Vec<_> = list.iter().take(100).collect::<Result<_, _>>().unwrap();
    assert_eq!(all, [1, 3, 3, 3, 5].map(Value::Int));
    assert_eq!(
        list.page_after(Some(&1.into()), 4).unwrap(),
        [3, 3, 3, 5].map(Value::Int)
    );
    assert_eq!(
        list.page_after(Some(&3.into()), 4).unwrap(),
        [Value::Int(5)]
    );
    assert_eq!(
        list.page_after(Some(&3.into()), 1).unwrap(),
        [Value::Int(5)]
    );
}

#[test]
fn a_list_with_an_element_twice_is_not_spread_until_that_is_mended() {
    let store = Store::in_memory().unwrap();
    let set = store.set("x").unwrap();
    let append = |id: i64| {
        let append = lists::append(&ListPolicy::default(), "b", id);
        set.operate("k", &[append]).unwrap();
    };
    [5, 3, 1, 3].into_iter().for_each(append);
    let by_count = list(&store, "k").policy(ShardPolicy::manual().elements_max(3));
    let before = set.get("k").unwrap().unwrap();
    let error = by_count.shards().activate(2).unwrap_err();
    assert!(
        matches!(&error, Error::OpNotApplicable { why, .. } if why.contains('3')),
        "{error}"
    );
    let after = set.get("k").unwrap().unwrap();
    assert_eq!(
        (after.generation(), after.get("b"), set.len()),
        (before.generation(), before.get("b"), 1)
    );
    // Nor is it sharded of its own accord; writes go on.
    assert!(by_count.add(7).unwrap());
    assert_eq!(
        (
            by_count.shards().state().unwrap().shards,
            by_count.len().unwrap()
        ),
        (0, 5)
    );
    assert!(by_count.remove(&3.into()).unwrap() && by_count.add(3).unwrap());
    by_count.shards().activate(2).unwrap();
    let all: Vec<_> = by_count.iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(all, [1, 3, 5, 7].map(Value::Int));
}

/// Between the look at the list and the beginning of its transition, others may put an element
/// there a second time.
#[test]
fn an_element_that_comes_twice_at_the_last_moment_is_moved_as_often() {
    let store = Store::in_memory().unwrap();
    let set = store.set("x").unwrap();
    let list = list(&store, "k");
    for id in 0..20 {
        list.add(id).unwrap();
    }
    let mut twice = Some(lists::append(&ListPolicy::default(), "b", 7));
    list.shards()
        .on_progress(|_| {
            if let Some(append) = twice.take() {
                set.operate_with(&by_force(), "k", &[append]).unwrap();
            }
            ControlFlow::Continue(())
        })
        .activate(2)
        .unwrap();
    type Change = fn(&ShardedList<Set>) -> spikelet::Result<spikelet::shard::ShardState>;
    let changes: [Change; 4] = [
        |list| list.shards().state(),
        |list| list.shards().split(),
        |list| list.shards().merge(),
        |list| list.shards().deactivate(),
    ];
    for change in changes {
        let state = change(&list).unwrap();
        assert_eq!(list.len().unwrap(), 21, "{state:?}");
        let sevens = list.page(7, 2).unwrap();
        assert_eq!(sevens, [7, 7].map(Value::Int), "{state:?}");
    }
    assert!(list.remove(&7.into()).unwrap());
    assert_eq!(list.len().unwrap(), 19);
}

/// Programs that follow the documented pattern make companions themselves, perhaps without order.
#[test]
fn companions_that_others_made_without_order_are_read_in_order() {
    type Element = fn(i64) -> Value;
    let kinds: [Element; 3] = [
        Value::Int,
        |id| format!("{id:04}").into(),
        |id| Value::Blob(id.to_be_bytes().to_vec()),
    ];
    for element in kinds {
        let store = Store::in_memory().unwrap();
        let set = store.set("x").unwrap();
        let list = list(&store, "k").policy(ShardPolicy::manual());
        for id in 0..2_000 {
            list.add(element(id)).unwrap();
        }
        list.shards().activate(2).unwrap();
        for key in ["k:0", "k:1"] {
            let Some(Value::List(items)) = set.get(key).unwrap().unwrap().get("b") else {
                panic!("{key} holds no list");
            };
            let mut items = items.into_items();
            items.reverse();
            items.swap(0, 100);
            let unordered = Value::List(items.into());
            set.put_with(&by_force(), key, [("b", unordered)]).unwrap();
        }
        let all: Vec<_> = (0..2_000).map(element).collect();
        // One more than there are: it has to end.
        let read: Vec<_> = list.iter().take(2_001).collect::<Result<_, _>>().unwrap();
        assert_eq!(read, all);
        assert_eq!(list.page(990, 20).unwrap(), all[990..1_010]);
        assert_eq!(list.page_after(Some(&all[700]), 3).unwrap(), all[701..704]);
        assert_eq!(by_cursor(&list, 7), all);
    }
}
