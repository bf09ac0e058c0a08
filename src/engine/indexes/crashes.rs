//! Secondary indexes over a simulated disk that loses power and rots: after each opening, and while
//! the store is used on, every index agrees with a scan, and what it cannot hold because the record
//! is damaged is counted.
//!
//! `SPIKELET_LONG=1` runs a hundred times as many seeds, `SPIKELET_SEED=n` runs one.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use spikelet_storage::{BLOCK_BYTES, Device, Digest, HEADER_BYTES, SimulatedDevice};

use crate::engine::simulated::{Chance, new_device, open};
use crate::index::{EntryList, EntryRange};
use crate::query::{IndexComponent, IndexDefinition};
use crate::{Error, Namespace, Value};

const BLOCKS: u64 = 8;
const IDS: u64 = 60;
const GROUPS: u64 = 5;

fn definitions() -> [IndexDefinition; 3] {
    [
        IndexDefinition::new("by_group", ["group"]),
        IndexDefinition::new("by_both", ["group", "n"]),
        IndexDefinition::new("by_tag", [IndexComponent::bin("tags").elements()]),
    ]
}

struct Run {
    device: Arc<SimulatedDevice>,
    namespace: Namespace,
    chance: Chance,
}

impl Run {
    fn new(seed: u64) -> Self {
        let device = new_device(BLOCKS);
        let namespace = open(&device, BLOCKS).unwrap();
        for definition in definitions() {
            namespace
                .set("things")
                .unwrap()
                .create_index(definition)
                .unwrap();
        }
        namespace.sync().unwrap();
        Self {
            device,
            namespace,
            chance: Chance(seed * 2 + 1),
        }
    }

    fn step(&mut self) {
        let things = self.namespace.set("things").unwrap();
        let id = self.chance.below(IDS) as i64;
        let group = self.chance.below(GROUPS) as i64;
        let tags: Vec<Value> = (0..self.chance.below(3))
            .map(|tag| (tag as i64).into())
            .collect();
        let bins = [
            ("group", Value::from(group)),
            ("n", id.into()),
            ("tags", Value::List(tags.into())),
            // Edits of it are deltas; others are whole entries, and some go to the block at once.
            (
                "filler",
                Value::Blob(vec![7; self.chance.below(4) as usize * 3_000]),
            ),
        ];
        let done = match self.chance.below(12) {
            0 => things.delete(id).map(drop),
            1 => self.namespace.sync(),
            2 => things.add(id, [("n", 1_i64)]).map(drop),
            3 => self.namespace.maintain().map(drop),
            4 => {
                let other = self.chance.below(IDS) as i64;
                // Both or neither.
                self.namespace.transaction(|tx| {
                    let things = tx.set("things")?;
                    things.put(id, [("group", group), ("n", other)])?;
                    things.put(other, [("group", group), ("n", id)])
                })
            }
            _ => things.put(id, bins).map(drop),
        };
        match done {
            Ok(()) => {}
            // Damaged blocks are not used again.
            Err(Error::StopWrites { .. }) => {}
            // Damaged records say so.
            Err(error) if error.is_damage() => drop(things.put(id, [("group", group)])),
            Err(error) => panic!("{error}"),
        }
    }

    /// The entries that records should have, by the index, and how many records are damaged.
    fn expected(&self) -> (BTreeMap<Box<str>, Vec<Vec<u8>>>, u64) {
        let core = &self.namespace.core;
        let (mut expected, mut damaged) = (BTreeMap::new(), 0);
        let all = core.indexes.all();
        let _ = self.namespace.scan(|record| {
            let Ok(record) = record else {
                damaged += 1;
                return ControlFlow::<()>::Continue(());
            };
            for index in all.iter().filter(|index| index.is_of(record.set_id)) {
                let entries = core.storage.get(&record.digest, |stored| {
                    let facts = core.facts(&stored, "things", 0);
                    let mut entries = EntryList::default();
                    index.entries_of(record.view, &facts, &mut entries).unwrap();
                    entries.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()
                });
                let of_index: &mut Vec<Vec<u8>> =
                    expected.entry(index.name().as_ref().into()).or_default();
                of_index.extend(entries.unwrap().unwrap());
            }
            ControlFlow::Continue(())
        });
        (expected, damaged)
    }

    /// Compares each index with a scan. `is_new`: it was filled by the opening, and nothing was
    /// written since.
    fn check(&self, is_new: bool, what: &str) -> u64 {
        let (mut expected, damaged) = self.expected();
        for index in self.namespace.core.indexes.all().iter() {
            let mut wanted = expected.remove(index.name().as_ref()).unwrap_or_default();
            wanted.sort_unstable();
            let mut found = EntryList::default();
            let all = EntryRange::with_prefix(&[]);
            index.entries.copy(&all, false, usize::MAX, &mut found);
            let found: Vec<Vec<u8>> = found.iter().map(<[u8]>::to_vec).collect();
            if is_new || damaged == 0 {
                assert_eq!(found, wanted, "{what}: {}", index.name());
            } else {
                // Entries of records that have rotted meanwhile are left.
                let missing = wanted.iter().find(|entry| !found.contains(entry));
                assert_eq!(missing, None, "{what}: {}", index.name());
            }
            if is_new {
                assert_eq!(
                    index.stats().unreadable,
                    damaged,
                    "{what}: {}",
                    index.name()
                );
            }
        }
        self.check_queries(what);
        damaged
    }

    /// Queries find what a scan finds, and say which of their records are damaged.
    fn check_queries(&self, what: &str) {
        let things = self.namespace.set("things").unwrap();
        for group in 0..GROUPS as i64 {
            let mut wanted: Vec<Digest> = Vec::new();
            let _ = things.scan(|record| {
                if let Ok(record) = record
                    && record.view.bin("group").and_then(|bin| bin.as_i64()) == Some(group)
                {
                    wanted.push(record.digest);
                }
                ControlFlow::<()>::Continue(())
            });
            let page = things.query("by_group").unwrap().eq(group).keys().unwrap();
            let mut found: Vec<Digest> = Vec::new();
            for result in page.iter() {
                match result {
                    Ok(key) => found.push(key.digest),
                    Err(error) => assert!(error.is_damage(), "{what}: {error}"),
                }
            }
            wanted.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, wanted, "{what}: group {group}");
        }
    }

    fn crash(&mut self) {
        let seed = self.chance.below(u64::MAX);
        self.device = Arc::new(self.device.crash(seed).unwrap());
        self.namespace = open(&self.device, BLOCKS).unwrap();
    }

    fn kill(&mut self) {
        self.device = Arc::new(self.device.kill().unwrap());
        self.namespace = open(&self.device, BLOCKS).unwrap();
    }

    /// Rots some bytes of the blocks and opens again. False: it cannot be opened.
    fn damage(&mut self) -> bool {
        self.namespace.sync().unwrap();
        let device = Arc::new(self.device.kill().unwrap());
        for _ in 0..=self.chance.below(6) {
            let block = HEADER_BYTES + self.chance.below(2) * BLOCK_BYTES;
            let start = block + self.chance.below(200_000);
            let bytes = [1, 60, 4_000][self.chance.below(3) as usize];
            (start..start + bytes)
                .filter(|at| *at < device.len_bytes())
                .for_each(|at| device.invert_byte(at));
        }
        match open(&device, BLOCKS) {
            Ok(namespace) => {
                (self.device, self.namespace) = (device, namespace);
                true
            }
            // The declarations are in metadata, which is kept three times; the device's header may
            // be hit.
            Err(error) => {
                assert!(
                    error.is_damage() || matches!(error, Error::Storage(_)),
                    "{error}"
                );
                false
            }
        }
    }
}

fn seeds(count: u64) -> Range<u64> {
    let wanted = std::env::var("SPIKELET_SEED").ok();
    match wanted.map(|seed| seed.parse().unwrap()) {
        Some(seed) => seed..seed + 1,
        None if std::env::var_os("SPIKELET_LONG").is_some() => 0..count * 100,
        None => 0..count,
    }
}

#[test]
fn indexes_agree_with_scans_after_power_failures_and_kills() {
    for seed in seeds(4) {
        let mut run = Run::new(seed);
        for round in 0..4 {
            (0..run.chance.below(150)).for_each(|_| run.step());
            run.check(false, &format!("seed {seed}, round {round}, before"));
            match run.chance.below(3) {
                0 => run.kill(),
                _ => run.crash(),
            }
            let what = format!("seed {seed}, round {round}");
            assert_eq!(run.namespace.indexes().len(), 3, "{what}");
            assert_eq!(run.check(true, &what), 0, "{what}");
        }
    }
}

#[test]
fn indexes_of_damaged_stores_agree_with_scans_and_count_what_they_lack() {
    let mut damaged = 0;
    for seed in seeds(6) {
        let mut run = Run::new(seed + 1_000_000);
        for round in 0..4 {
            (0..50 + run.chance.below(150)).for_each(|_| run.step());
            let what = format!("seed {seed}, round {round}");
            if run.damage() {
                damaged += run.check(true, &what);
                // Records that are written anew are in the indexes again.
                (0..run.chance.below(100)).for_each(|_| run.step());
                run.check(false, &format!("{what}, written on"));
            }
        }
    }
    assert!(damaged > 0, "no seed has damaged a record");
}
