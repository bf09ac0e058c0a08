//! A process that links, unlinks and deletes from several threads is killed in the middle of it, 50
//! times: no edge is left that one of its ends alone has.

use std::ops::ControlFlow;
use std::thread;

use spikelet::Store;
use spikelet::relation::{ManyToMany, OnDelete, Repair};
use spikelet::shard::ShardPolicy;

use crate::kill::{child_dir, killed_after, tell_progress};

const KILLS: usize = 50;
const THREADS: u64 = 3;
const USERS: u64 = 40;

fn follows(store: &Store) -> ManyToMany<&Store> {
    // Some sides are sharded, others not.
    ManyToMany::new(
        store,
        "follows",
        ("users", "following"),
        ("users", "followers"),
    )
    .shard_policy(ShardPolicy::manual().record_bytes_max(400))
}

/// A small generator of numbers that look random.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn write_for_ever(store: &Store, seed: u64) {
    let follows = follows(store);
    let mut state = seed;
    for turn in 0_u64.. {
        let (a, b) = (next(&mut state) % USERS, next(&mut state) % USERS);
        let (a, b) = (a as i64, b as i64);
        let done = match next(&mut state) % 50 {
            0 => follows.delete_with_edges(a, OnDelete::Detach, |_| ControlFlow::Continue(())),
            1..15 => follows.unlink(a, b),
            _ => follows.link(a, b),
        };
        match done {
            Ok(_) => {}
            // Others were faster, time and again.
            Err(error) if error.is_retryable() || error.result_code() == 121 => {}
            Err(error) => panic!("{error}"),
        }
        if turn % 16 == 0 {
            tell_progress();
        }
    }
}

#[test]
fn child() {
    let Some(dir) = child_dir() else {
        return;
    };
    let store = Store::open(&dir).unwrap();
    thread::scope(|scope| {
        for thread in 1..=THREADS {
            let (store, seed) = (&store, u64::from(std::process::id()) * 8 + thread);
            scope.spawn(move || write_for_ever(store, seed));
        }
    });
}

#[test]
fn kills_leave_no_edge_that_one_end_alone_has() {
    let dir = tempfile::tempdir().unwrap();
    let mut edges = 0;
    for kill in 0..KILLS {
        killed_after(10 + kill % 7, "killed::child", dir.path());
        let store = Store::open(dir.path()).unwrap();
        let audit = follows(&store)
            .verify(Repair::No, |_| ControlFlow::Continue(()))
            .unwrap();
        assert!(audit.is_sound(), "kill {kill}: {:?}", audit.faults);
        edges = edges.max(audit.edges);
        store.close().unwrap();
    }
    assert!(edges > 100, "{edges} edges are too few to say much");
}
