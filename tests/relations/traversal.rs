use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;

use proptest::prelude::*;
use spikelet::relation::{ManyToMany, TraversalEnd};
use spikelet::shard::ShardPolicy;
use spikelet::{Key, RecordStore, Store};

use crate::watched::{Calls, Watched};

fn follows<S: RecordStore>(store: S) -> ManyToMany<S> {
    ManyToMany::new(
        store,
        "follows",
        ("users", "following"),
        ("users", "followers"),
    )
}

#[test]
fn two_hops_are_a_read_and_a_batch_and_end_early() {
    let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
    let follows = follows(Watched::new(&store, &calls));
    for id in 1..=100 {
        follows.link(0, id).unwrap();
        follows.link(id, 1_000 + id % 7).unwrap();
    }
    calls.take();
    let ranked = follows.targets(0).traverse().at_distance_two(3).unwrap();
    assert_eq!(
        ranked,
        [(1_001.into(), 15), (1_002.into(), 15), (1_000.into(), 14)]
    );
    assert_eq!(calls.take(), (1, 1));
    let mut seen = 0;
    let ended = follows.targets(0).traverse().breadth_first(|_, _, _| {
        seen += 1;
        if seen == 5 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!((ended.unwrap(), seen), (TraversalEnd::Stopped, 5));
    assert_eq!(calls.take(), (1, 0), "the batch is not read");
    let bounded = follows.targets(0).traverse().records_max(50);
    let ended = bounded
        .breadth_first(|_, _, _| ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(ended, TraversalEnd::Bounded);
}

#[test]
fn a_traversal_of_any_depth_ends_behind_the_last_record() {
    let store = Store::in_memory().unwrap();
    let follows = follows(&store);
    follows.link(0, 1).unwrap();
    let traversal = follows.targets(0).traverse().depth_max(u32::MAX);
    let ended = traversal.breadth_first(|_, _, _| ControlFlow::Continue(()));
    assert_eq!(ended.unwrap(), TraversalEnd::Complete);
    assert_eq!(traversal.shortest_path(2).unwrap(), None);
}

#[test]
fn a_traversal_that_leaves_edges_out_is_not_complete() {
    let store = Store::in_memory().unwrap();
    let follows = follows(&store);
    for id in 1..=3 {
        follows.link(0, id).unwrap();
    }
    for (edges_max, seen, end) in [
        (2, 2, TraversalEnd::Bounded),
        (3, 3, TraversalEnd::Complete),
        (u64::MAX, 3, TraversalEnd::Complete),
    ] {
        let mut found = 0;
        let traversal = follows.targets(0).traverse().edges_max(edges_max);
        let ended = traversal.breadth_first(|_, _, _| {
            found += 1;
            ControlFlow::Continue(())
        });
        assert_eq!((ended.unwrap(), found), (end, seen));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn distances_are_those_of_a_naive_model(edges in prop::collection::btree_set((0..25_i64, 0..25_i64), 0..60), depth in 1..6_u32) {
        let store = Store::in_memory().unwrap();
        let follows = follows(&store).shard_policy(ShardPolicy::manual().record_bytes_max(250));
        let mut model: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
        for (from, to) in edges {
            follows.link(from, to).unwrap();
            model.entry(from).or_default().insert(to);
        }
        let mut distances = BTreeMap::from([(0_i64, 0_u32)]);
        let mut queue = VecDeque::from([0_i64]);
        while let Some(from) = queue.pop_front() {
            let next = distances[&from] + 1;
            for to in model.get(&from).into_iter().flatten() {
                if next <= depth && !distances.contains_key(to) {
                    distances.insert(*to, next);
                    queue.push_back(*to);
                }
            }
        }
        let mut found = BTreeMap::from([(Key::from(0), 0)]);
        follows.targets(0).traverse().depth_max(depth).breadth_first(|key, distance, _| {
            assert!(found.insert(key.clone(), distance).is_none());
            ControlFlow::Continue(())
        }).unwrap();
        let expected: BTreeMap<Key<'_>, u32> = distances.iter().map(|(id, distance)| ((*id).into(), *distance)).collect();
        prop_assert_eq!(found, expected);
        for id in 0..25 {
            let path = follows.targets(0).traverse().depth_max(depth).shortest_path(id).unwrap();
            prop_assert_eq!(path.as_ref().map(|path| path.len() as u32 - 1), distances.get(&id).copied());
            for pair in path.unwrap_or_default().windows(2) {
                prop_assert!(follows.contains(&pair[0], &pair[1]).unwrap());
            }
        }
    }
}
