//! Histories of many threads, checked for serializability.
//!
//! Every record holds a list, and no two transactions append the same number, so the final lists
//! show the order of all versions. The edges of Adya's graph follow from these lists and from the
//! reads of each transaction: a write depends on the write before it, a read on the write that it
//! saw, and a read comes before the write that it did not see. The history is serializable if the
//! graph has no cycle. A further edge from each transaction to all that began after its end makes
//! the check strict.

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use spikelet::operations::{get_bin, lists};
use spikelet::{ListPolicy, TransactionSet, Value};

use super::*;

/// The reads and appends of one transaction; the times are drawn from one counter.
#[derive(Debug)]
struct Run {
    began: u64,
    ended: u64,
    reads: Vec<(usize, Vec<i64>)>,
    appends: Vec<(usize, i64)>,
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

fn list_of(value: Option<&Value>) -> Vec<i64> {
    match value {
        Some(Value::List(list)) => list.iter().map(|value| value.as_i64().unwrap()).collect(),
        _ => Vec::new(),
    }
}

fn read(set: &TransactionSet<'_>, key: usize) -> Result<Vec<i64>> {
    match set.operate(key as i64, &[get_bin("list")]) {
        Ok(result) => Ok(list_of(result.bin("list"))),
        Err(Error::NotFound { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn one_run(namespace: &Namespace, clock: &AtomicU64, random: &mut u64, keys: usize) -> Run {
    let began = clock.fetch_add(1, Ordering::SeqCst);
    let is_snapshot = next(random).is_multiple_of(4);
    let steps: Vec<(usize, bool)> = (0..1 + next(random) % 4)
        .map(|_| {
            (
                next(random) as usize % keys,
                next(random).is_multiple_of(2) && !is_snapshot,
            )
        })
        .collect();
    let (mut reads, mut appends) = (Vec::new(), Vec::new());
    let run = |tx: &spikelet::Transaction<'_>| {
        let set = tx.set("lists")?;
        (reads, appends) = (Vec::new(), Vec::new());
        for (key, writes) in &steps {
            // The transaction's own number does not count as a read of another's write.
            let own = |number: &i64| appends.contains(&(*key, *number));
            let mut found = read(&set, *key)?;
            found.retain(|number| !own(number));
            reads.push((*key, found));
            if *writes {
                let number = clock.fetch_add(1, Ordering::SeqCst) as i64;
                set.operate(
                    *key as i64,
                    &[lists::append(&ListPolicy::default(), "list", number)],
                )?;
                appends.push((*key, number));
            }
        }
        Ok(())
    };
    let outcome = if is_snapshot {
        namespace.snapshot_read_with(&patient(), run)
    } else {
        namespace.transaction_with(&patient(), run)
    };
    outcome.unwrap();
    Run {
        began,
        ended: clock.fetch_add(1, Ordering::SeqCst),
        reads,
        appends,
    }
}

/// Edges between runs, by their positions.
fn edges(runs: &[Run], lists: &[Vec<i64>]) -> Vec<Vec<usize>> {
    let mut edges = vec![Vec::new(); runs.len()];
    let mut writer = HashMap::new();
    for (run, found) in runs.iter().enumerate() {
        for (key, number) in &found.appends {
            assert!(
                lists[*key].contains(number),
                "append {number} to {key} is lost"
            );
            writer.insert(*number, run);
        }
    }
    let writer_of = |number: &i64| *writer.get(number).expect("appended by a run that failed");
    for list in lists {
        for pair in list.windows(2) {
            edges[writer_of(&pair[0])].push(writer_of(&pair[1]));
        }
    }
    for (run, found) in runs.iter().enumerate() {
        for (key, seen) in &found.reads {
            assert!(
                lists[*key].starts_with(seen),
                "{seen:?} is no prefix of {:?}",
                lists[*key]
            );
            if let Some(last) = seen.last() {
                edges[writer_of(last)].push(run);
            }
            if let Some(missed) = lists[*key].get(seen.len()) {
                edges[run].push(writer_of(missed));
            }
        }
    }
    // Real time: it is enough to go by a chain of the instants.
    let instants = runs.iter().map(|run| run.ended).max().unwrap_or(0) as usize + 2;
    let first = edges.len();
    edges.extend((0..instants).map(|instant| {
        if instant + 1 < instants {
            vec![first + instant + 1]
        } else {
            Vec::new()
        }
    }));
    for (run, found) in runs.iter().enumerate() {
        edges[run].push(first + found.ended as usize + 1);
        edges[first + found.began as usize].push(run);
    }
    edges
        .iter_mut()
        .enumerate()
        .for_each(|(from, to)| to.retain(|to| *to != from));
    edges
}

/// Whether there is a cycle: nodes without incoming edges are taken away again and again, and the
/// nodes of a cycle remain.
fn has_cycle(edges: &[Vec<usize>]) -> bool {
    let mut incoming = vec![0usize; edges.len()];
    edges.iter().flatten().for_each(|to| incoming[*to] += 1);
    let mut free: Vec<usize> = (0..edges.len())
        .filter(|node| incoming[*node] == 0)
        .collect();
    let mut taken = 0;
    while let Some(node) = free.pop() {
        taken += 1;
        for to in &edges[node] {
            incoming[*to] -= 1;
            if incoming[*to] == 0 {
                free.push(*to);
            }
        }
    }
    taken < edges.len()
}

fn check(threads: usize, each: usize, keys: usize, seed: u64) {
    let (_store, namespace, _) = store();
    let (clock, start) = (AtomicU64::new(0), Barrier::new(threads));
    let runs: Vec<Run> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let (namespace, clock, start) = (&namespace, &clock, &start);
                scope.spawn(move || {
                    let mut random = (seed + 1) * 1_000_003 + thread as u64 * 7_919 + 1;
                    start.wait();
                    (0..each)
                        .map(|_| one_run(namespace, clock, &mut random, keys))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let lists: Vec<Vec<i64>> = namespace
        .snapshot_read(|tx| {
            let set = tx.set("lists")?;
            (0..keys).map(|key| read(&set, key)).collect()
        })
        .unwrap();
    assert!(
        !has_cycle(&edges(&runs, &lists)),
        "{threads} threads, {keys} keys, seed {seed}"
    );
    let stats = namespace.transaction_stats();
    eprintln!("{threads} threads, {keys} keys: {stats:?}");
}

#[test]
fn histories_of_2_to_64_threads_are_strictly_serializable() {
    for (threads, each, keys) in [(2, 400, 3), (4, 300, 4), (16, 60, 6), (64, 20, 12)] {
        check(threads, each, keys, 1);
    }
}

#[test]
#[ignore = "long: minutes"]
fn many_histories_are_strictly_serializable() {
    for seed in 2..60 {
        for (threads, each, keys) in [(2, 3_000, 3), (4, 2_000, 4), (16, 500, 6), (64, 100, 12)] {
            check(threads, each, keys, seed);
        }
    }
}

#[test]
fn the_check_finds_write_skew_lost_updates_and_stale_reads() {
    let run = |began, ended, reads: &[(usize, &[i64])], appends: &[(usize, i64)]| Run {
        began,
        ended,
        reads: reads
            .iter()
            .map(|(key, seen)| (*key, seen.to_vec()))
            .collect(),
        appends: appends.to_vec(),
    };
    let skew = [
        run(0, 3, &[(0, &[]), (1, &[])], &[(0, 10)]),
        run(1, 4, &[(0, &[]), (1, &[])], &[(1, 11)]),
    ];
    assert!(has_cycle(&edges(&skew, &[vec![10], vec![11]])));
    let lost = [
        run(0, 3, &[(0, &[])], &[(0, 10)]),
        run(1, 4, &[(0, &[])], &[(0, 11)]),
    ];
    assert!(has_cycle(&edges(&lost, &[vec![10, 11]])));
    let half_a_group = [
        run(0, 5, &[], &[(0, 10), (1, 11)]),
        run(1, 4, &[(0, &[10]), (1, &[])], &[]),
    ];
    assert!(has_cycle(&edges(&half_a_group, &[vec![10], vec![11]])));
    let stale = [run(0, 1, &[], &[(0, 10)]), run(2, 3, &[(0, &[])], &[])];
    assert!(has_cycle(&edges(&stale, &[vec![10]])));
    let good = [
        run(0, 2, &[(0, &[])], &[(0, 10)]),
        run(1, 4, &[(0, &[10])], &[(0, 11)]),
    ];
    assert!(!has_cycle(&edges(&good, &[vec![10, 11]])));
}
