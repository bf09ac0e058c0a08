//! A process that deletes large hubs, by plain calls and by a handle, is killed in the middle of
//! it: no edge is left that one of its ends alone has, and the same delete finishes what it began.

use std::ops::ControlFlow;

use spikelet::Store;
use spikelet::relation::{ManyToMany, OnDelete, RelationProgress, Repair};
use spikelet::shard::ShardPolicy;

use super::go_on;
use crate::kill::{child_dir, killed_after, tell_progress};

const KILLS: usize = 12;
const EDGES: i64 = 600;
const HUBS: i64 = 2;

fn relations(store: &Store) -> [ManyToMany<&Store>; 2] {
    let users = |bin| ("users", bin);
    let policy = ShardPolicy::manual().record_bytes_max(1_500);
    [
        ("follows", "following", "followers"),
        ("likes", "likes", "liked_by"),
    ]
    .map(|(name, to, from)| {
        ManyToMany::new(store, name, users(to), users(from))
            .on_delete(OnDelete::Detach)
            .shard_policy(policy)
    })
}

fn hub(turn: i64) -> i64 {
    -1 - turn % HUBS
}

#[test]
fn child() {
    let Some(dir) = child_dir() else {
        return;
    };
    let store = Store::open(&dir).unwrap();
    let relations = relations(&store);
    let users = store.set("users").unwrap();
    for turn in 0_i64.. {
        for id in 0..EDGES {
            relations[0].link(hub(turn), id).unwrap();
            relations[1].link(id, hub(turn)).unwrap();
            if id % 200 == 0 {
                tell_progress();
            }
        }
        if turn % 2 == 1 {
            users.delete(hub(turn)).unwrap();
            continue;
        }
        // The same steps, which say how far they are.
        let observe = |progress: RelationProgress| {
            if progress.edges.is_multiple_of(100) {
                tell_progress();
            }
            ControlFlow::Continue(())
        };
        relations[0]
            .delete_with_edges(hub(turn), OnDelete::Detach, observe)
            .unwrap();
    }
}

#[test]
fn kills_in_the_middle_of_large_deletes_leave_what_the_same_delete_finishes() {
    let dir = tempfile::tempdir().unwrap();
    let mut partial = 0;
    for kill in 0..KILLS {
        // The first three lines are of the links, the next ones of the delete.
        killed_after(4 + kill % 6, "guarded_kills::child", dir.path());
        let store = Store::open(dir.path()).unwrap();
        for relation in relations(&store) {
            let audit = relation.verify(Repair::No, go_on).unwrap();
            assert!(audit.is_sound(), "kill {kill}: {:?}", audit.faults);
            partial += usize::from(audit.edges % EDGES as u64 != 0);
        }
        if kill % 4 == 3 {
            let users = store.set("users").unwrap();
            for turn in 0..HUBS {
                users.delete(hub(turn)).unwrap();
            }
            assert_eq!(users.with_companions().len(), 0, "kill {kill}");
        }
        store.close().unwrap();
    }
    assert!(partial > 0, "no kill came in the middle of a delete");
}
