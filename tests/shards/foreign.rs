//! Programs that know nothing of shards write the bin of a collection that is sharded: nothing of
//! either is lost unasked.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};

use spikelet::storage::HotRecord;
use spikelet::value::ParticleType;
use spikelet::{
    Error, Key, OperateResult, Operation, Record, RecordSet, RecordStore, Result, Set, ShardedList,
    ShardedMap, Store, Value, WritePolicy, operations,
};

fn list<S: RecordStore>(store: &S) -> ShardedList<S::Records> {
    ShardedList::new(store, "set", "key", "bin").unwrap()
}

/// Ten elements over `shards` shards.
fn sharded(store: &Store, shards: u64) -> ShardedList<Set> {
    let list = list(store);
    for id in 0..10 {
        list.add(id).unwrap();
    }
    list.shards().activate(shards).unwrap();
    list
}

/// Writes as an old program does that knows no shards.
fn put_foreign(set: &Set) {
    let by_force = WritePolicy::default().override_shards(true);
    set.put_with(&by_force, "key", [("bin", foreign())])
        .unwrap();
}

fn foreign() -> Value {
    Value::List(vec![Value::Int(100)].into())
}

fn all<R: RecordSet>(list: &ShardedList<R>) -> Vec<Value> {
    list.iter().collect::<Result<_>>().unwrap()
}

fn ten() -> Vec<Value> {
    (0..10).map(Value::Int).collect()
}

#[test]
fn a_collection_is_not_brought_back_over_the_bin_of_another_program() {
    for shards in [1, 4] {
        let store = Store::in_memory().unwrap();
        let set = store.set("set").unwrap();
        let list = sharded(&store, shards);
        put_foreign(&set);
        let before = (
            list.shards().state().unwrap(),
            set.get("key").unwrap().unwrap(),
        );
        let refused = list.shards().deactivate().unwrap_err();
        assert!(
            matches!(&refused, Error::OpNotApplicable { why, .. } if why.contains("\"bin\"")),
            "{refused}"
        );
        // Nothing was changed.
        let after = set.get("key").unwrap().unwrap();
        assert_eq!(list.shards().state().unwrap(), before.0);
        assert_eq!(after.generation(), before.1.generation());
        assert_eq!((all(&list), after.get("bin")), (ten(), Some(foreign())));
        // The way out.
        set.operate("key", &[operations::delete_bin("bin")])
            .unwrap();
        assert_eq!(list.shards().deactivate().unwrap().shards, 0);
        assert_eq!((all(&list), set.len()), (ten(), 1));
    }
}

#[test]
fn the_bin_of_another_program_stays_through_splits_and_merges() {
    let store = Store::in_memory().unwrap();
    let set = store.set("set").unwrap();
    let list = sharded(&store, 2);
    put_foreign(&set);
    for shards in [
        list.shards().split(),
        list.shards().merge(),
        list.shards().merge(),
    ] {
        shards.unwrap();
        let root = set.get("key").unwrap().unwrap();
        assert_eq!((all(&list), root.get("bin")), (ten(), Some(foreign())));
    }
    assert_eq!(list.shards().state().unwrap().shards, 1);
}

/// A store in which another program writes before the call of this number.
struct Meddled<T> {
    inner: T,
    calls_before: Cell<Option<usize>>,
}

impl RecordStore for Meddled<Store> {
    type Records = Meddled<Set>;
    type Atomic<'a> = Self;

    fn records(&self, set: &str) -> Result<Meddled<Set>> {
        Ok(Meddled {
            inner: self.inner.records(set)?,
            calls_before: self.calls_before.clone(),
        })
    }

    fn atomically<T>(&self, mut make: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        make(self)
    }
}

impl RecordSet for Meddled<Set> {
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        if self.calls_before.get() == Some(0) {
            put_foreign(&self.inner);
        }
        let left = self.calls_before.get().and_then(|left| left.checked_sub(1));
        self.calls_before.set(left);
        self.inner.operate_on(policy, key, operations)
    }

    fn scan_each(&self, each: &mut dyn FnMut(Result<Record>) -> ControlFlow<()>) {
        self.inner.scan_each(each);
    }

    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    fn contention_on(&self, key: &Key<'_>) -> Option<HotRecord> {
        self.inner.contention_on(key)
    }
}

/// How many calls there are before the root says that the collection is on its way back.
fn calls_before_the_mark() -> usize {
    let calls = crate::watched::Calls::default();
    let watched = crate::watched::Watched::new(Store::in_memory().unwrap(), &calls);
    let list = list(&watched);
    list.add(1).unwrap();
    list.shards().activate(1).unwrap();
    calls.take();
    list.shards()
        .on_progress(|_| std::ops::ControlFlow::Break(()))
        .deactivate()
        .unwrap();
    // Not counted: the mark, the read after it, and the returned state.
    calls.take().len() - 3
}

#[test]
fn nor_over_one_that_comes_at_the_last_moment() {
    let moments = calls_before_the_mark();
    assert!(moments > 1, "{moments}");
    for calls_before in 0..=moments {
        let store = Store::in_memory().unwrap();
        sharded(&store, 1);
        let meddled = Meddled {
            inner: store,
            calls_before: Cell::new(Some(calls_before)),
        };
        let refused = list(&meddled).shards().deactivate().unwrap_err();
        assert!(
            matches!(refused, Error::OpNotApplicable { .. }),
            "{calls_before}: {refused}"
        );
        let root = meddled.inner.set("set").unwrap().get("key").unwrap();
        assert_eq!(root.unwrap().get("bin"), Some(foreign()));
        assert_eq!(all(&list(&meddled.inner)), ten(), "{calls_before}");
    }
}

/// A list of this many client blobs, of integers above the signed ones, or of texts that are not
/// UTF-8: elements that are read as other values.
fn undecodable(kind: u8, count: u16) -> Vec<u8> {
    let mut list = vec![0xdc];
    list.extend(count.to_be_bytes());
    for number in 0..count {
        match kind {
            1 => list.extend([0xcf, 0xff, 0, 0, 0, 0, 0]),
            3 => list.extend([0xa4, 3, 0xff]),
            kind => list.extend([0xa3, kind]),
        }
        list.extend(number.to_be_bytes());
    }
    list
}

/// The end of an iteration: how many elements there were before an error, and the error.
fn seen<T: std::fmt::Debug>(
    elements: impl Iterator<Item = Result<T>>,
) -> (usize, Option<spikelet::Error>) {
    let (mut count, mut error) = (0, None);
    for element in elements.take(2_000) {
        match element {
            Ok(_) => count += 1,
            Err(found) => error = Some(found),
        }
    }
    (count, error)
}

#[test]
fn elements_that_are_read_as_other_values_end_an_iteration_that_cannot_go_on() {
    let store = Store::in_memory().unwrap();
    let set = store.set("set").unwrap();
    for kind in [1, 3, 9] {
        let bytes = undecodable(kind, 600);
        let put = operations::put_encoded("bin", ParticleType::List, bytes.clone());
        set.operate("key", &[put]).unwrap();
        let list = list(&store);
        let (count, error) = seen(list.iter());
        assert!(
            count == 600 || matches!(error, Some(Error::Parameter(_))),
            "{kind}: {count}"
        );
        // All of them in one page.
        assert_eq!(list.page(0, 1_000).unwrap().len(), 600, "{kind}");
        let page = list
            .range(Bound::Unbounded, Bound::Unbounded, 1_000)
            .unwrap();
        assert_eq!(page.len(), 600, "{kind}");
        match list.page_after(page.get(9), 10) {
            Err(Error::Parameter(why)) => assert!(why.contains("another program"), "{why}"),
            // Sought as another value, it cannot be known.
            Ok(next) => assert_eq!((kind, next.len()), (3, 0)),
            other => panic!("{kind}: {other:?}"),
        }
    }
    // 600 keys of a map, each with the value 1.
    let keys = undecodable(1, 600);
    let mut map = vec![0xde, 2, 0x58];
    for key in keys[3..].chunks(9) {
        map.extend_from_slice(key);
        map.push(1);
    }
    let put = operations::put_encoded("map", ParticleType::Map, map);
    set.operate("key", &[put]).unwrap();
    let map = ShardedMap::new(&store, "set", "key", "map").unwrap();
    let (count, error) = seen(map.iter());
    assert!(
        matches!(error, Some(Error::Parameter(_))),
        "{count}: {error:?}"
    );
    assert!(count <= 600, "{count}");
    let whole = map.page(0, 1_000).unwrap();
    assert_eq!(whole.len(), 600);
    for refused in [map.page(0, 10), map.page_after(Some(&whole[9].0), 10)] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.result_code(), 4, "{refused}");
    }
}

#[test]
fn elements_that_are_read_as_they_are_do_not_end_an_iteration() {
    let store = Store::in_memory().unwrap();
    let list = list(&store);
    for number in 0..700_u32 {
        list.add(-1 - i64::from(number)).unwrap();
        list.add(number.to_be_bytes().to_vec()).unwrap();
        list.add(Value::List(
            vec![number.to_be_bytes().to_vec().into()].into(),
        ))
        .unwrap();
    }
    for shards in [0, 4] {
        if shards > 0 {
            list.shards().activate(shards).unwrap();
        }
        assert_eq!(list.iter().filter(Result::is_ok).count(), 2_100);
    }
}

#[test]
fn a_collection_of_values_that_a_move_would_change_is_not_sharded() {
    let store = Store::in_memory().unwrap();
    let set = store.set("set").unwrap();
    let table: [(ParticleType, &[u8]); 8] = [
        // A Python blob, a text that is not UTF-8, an integer above the signed ones; below another.
        (ParticleType::List, &[0x92, 1, 0xa2, 9, b'p']),
        (ParticleType::List, &[0x92, 1, 0xa2, 3, 0xff]),
        (
            ParticleType::List,
            &[0x92, 1, 0xcf, 0xff, 0, 0, 0, 0, 0, 0, 0],
        ),
        (ParticleType::List, &[0x92, 1, 0x91, 0xa2, 9, b'p']),
        // As a value, and as a key.
        (
            ParticleType::Map,
            &[0x82, 1, 0xa2, 9, b'p', 2, 0xa2, 4, b'p'],
        ),
        (ParticleType::Map, &[0x82, 1, 1, 0xa2, 3, 0xff, 2]),
        // A text and a blob that are read as the same key.
        (
            ParticleType::Map,
            &[0x82, 0xa2, 3, 0xff, 1, 0xa2, 4, 0xff, 2],
        ),
        (
            ParticleType::Map,
            &[0x81, 0xcf, 0xff, 0, 0, 0, 0, 0, 0, 0, 1],
        ),
    ];
    for (kind, bytes) in table {
        set.operate("key", &[operations::put_encoded("bin", kind, bytes)])
            .unwrap();
        let before = set.get("key").unwrap().unwrap();
        let refused = match kind {
            ParticleType::List => list(&store).shards().activate(2),
            _ => map(&store).shards().activate(2),
        };
        let refused = refused.unwrap_err();
        assert!(
            refused.to_string().contains("another program"),
            "{bytes:x?}: {refused}"
        );
        let after = set.get("key").unwrap().unwrap();
        assert_eq!(after.generation(), before.generation(), "{bytes:x?}");
        assert_eq!(
            after.view().as_bytes(),
            before.view().as_bytes(),
            "{bytes:x?}"
        );
        // Writers go on.
        match kind {
            ParticleType::List => assert!(list(&store).add(7).unwrap()),
            _ => assert!(map(&store).put(7, 7).unwrap()),
        }
    }
    // What is equal to what is read moves: a NaN as a value, a short float, nested lists.
    let bytes = [
        0x83, 1, 0xca, 0x3f, 0xc0, 0, 0, 2, 0x91, 0xa2, 4, b'p', 3, 0xcb, 0x7f, 0xf8, 0, 0, 0, 0,
        0, 0,
    ];
    let put = operations::put_encoded("bin", ParticleType::Map, bytes);
    set.operate("key", &[put]).unwrap();
    assert_eq!(map(&store).shards().activate(2).unwrap().shards, 2);
    assert_eq!(map(&store).len().unwrap(), 3);
}

fn map(store: &Store) -> ShardedMap<Set> {
    ShardedMap::new(store, "set", "key", "bin").unwrap()
}
