//! Damage to a device: every read is the true value or an error that names the damage, never an
//! older value and never a record that was deleted; opening and `verify` count it.
//!
//! A few hundred places; with `SPIKELET_LONG=1` 10,000, and every byte that holds anything.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::damage::{BLOCKS, Damage, RECORDS, Store};
use common::{Chance, devices, digest, get, options, payload_of, put, small_header};
use spikelet_storage::{
    Error, HEADER_BYTES, Namespace, Options, SMALL_BLOCK_BYTES, SimulatedDevice, Verification,
};
use std::ops::Range;
use std::sync::Arc;

/// Reads all records. Returns how many answered with an error.
fn check(namespace: &Namespace, store: &Store, what: &str) -> usize {
    let mut refused = 0;
    for record in 0..RECORDS {
        match get(namespace, &digest(record)) {
            Ok(found) => {
                let text = found.as_ref().map(|bytes| String::from_utf8_lossy(bytes));
                assert!(
                    store.allowed[record as usize].contains(&found),
                    "{what}: record {record} reads {text:.40?}"
                );
            }
            Err(Error::Damaged { .. } | Error::MaybeStale { .. }) => refused += 1,
            Err(other) => panic!("{what}: record {record}: {other}"),
        }
    }
    let (_, reported) = common::scan(namespace);
    assert!(
        reported <= refused + 1,
        "{what}: the scan reports {reported} of {refused}"
    );
    refused
}

/// Opens a damaged store to read, and verifies it. `None` if it cannot be opened.
fn read_damaged(store: &Store, what: &str) -> Option<(usize, Verification)> {
    let verified = Namespace::verify(&store.options());
    let (namespace, opening) = match Namespace::open_read_only(store.options()) {
        Ok(opened) => opened,
        Err(error @ (Error::DamagedMetadata { .. } | Error::Device(_))) => {
            assert!(verified.is_err(), "{what}: {error}, but it verifies");
            return None;
        }
        Err(other) => panic!("{what}: {other}"),
    };
    let verified = verified.unwrap();
    let refused = check(&namespace, store, what);
    if refused > 0 {
        let counted = opening.damaged_entries + opening.damaged_blocks + opening.damaged_bytes;
        assert!(counted > 0, "{what}: {refused} refused: {opening:?}");
        assert!(
            verified.is_damaged(),
            "{what}: {refused} refused: {verified:?}"
        );
    }
    Some((refused, verified))
}

/// How many seeds there are, and which: `SPIKELET_SEED=n` runs one.
fn seeds(count: u64) -> (u64, Range<u64>) {
    let wanted = std::env::var("SPIKELET_SEED").ok();
    match wanted.map(|seed| seed.parse().unwrap()) {
        Some(seed) => (1, seed..seed + 1),
        None => (count, 0..count),
    }
}

/// The results of a campaign.
#[derive(Debug, Default)]
struct Tally {
    positions: u64,
    unopened: u64,
    harmless: u64,
    refusing: u64,
    /// All records answered with an error.
    refusing_all: u64,
}

impl Tally {
    fn add(&mut self, seen: Option<&(usize, Verification)>) {
        self.positions += 1;
        match seen {
            None => self.unopened += 1,
            Some((0, _)) => self.harmless += 1,
            Some((refused, _)) => {
                self.refusing += 1;
                self.refusing_all += u64::from(*refused == RECORDS as usize);
            }
        }
    }
}

#[test]
fn nothing_stale_is_read_from_a_damaged_device() {
    for store in Store::all() {
        let used = store.used();
        let (seeds, seed) = seeds(if common::long() { 2_500 } else { 80 });
        let mut tally = Tally::default();
        for seed in seed {
            let damage = store.draw(&mut Chance(seed), &used);
            let what = format!("{store:?}, seed {seed}, {damage:?}");
            let saved = store.damage(&damage);
            tally.add(read_damaged(&store, &what).as_ref());
            store.undo(&saved);
        }
        println!("{store:?}: {tally:?}");
        assert!(tally.refusing >= seeds / 20, "{store:?}: {tally:?}");
        // Every damaged byte was put back.
        let (refused, verified) = read_damaged(&store, "undamaged").unwrap();
        assert_eq!((refused, verified.is_damaged()), (0, false), "{verified:?}");
    }
}

#[test]
fn a_block_that_fell_back_to_an_earlier_content_shows_nothing_stale() {
    for store in Store::all() {
        for (moment, number) in store
            .older
            .iter()
            .flat_map(|(moment, _)| (0..BLOCKS).map(move |number| (*moment, number)))
        {
            let damage = Damage::OlderBlock(moment, number);
            let saved = store.damage(&damage);
            let what = format!("{store:?}, {damage:?}");
            let changed = saved.iter().any(|(offset, bytes)| {
                let range = *offset..*offset + bytes.len() as u64;
                store.device.snapshot_range(range) != *bytes
            });
            let seen = read_damaged(&store, &what);
            if let Some((refused, verified)) = seen.filter(|_| changed) {
                println!("{what}: {refused} refused");
                assert!(verified.is_damaged(), "{what}: {verified:?}");
            }
            store.undo(&saved);
        }
    }
}

/// A lost record stays lost and is reported after anything that the store does next.
#[test]
fn damage_is_still_reported_after_maintenance_writes_and_reopenings() {
    for store in Store::all() {
        let used = store.used();
        for seed in seeds(if common::long() { 300 } else { 12 }).1 {
            let mut chance = Chance(seed ^ 0xda_0000);
            let damage = store.draw(&mut chance, &used);
            let what = format!("{store:?}, seed {seed}, {damage:?}");
            let saved = store.damage(&damage);
            let copy = Store {
                device: Arc::new(store.device.kill().unwrap()),
                name: store.name,
                allowed: store.allowed.clone(),
                older: Vec::new(),
            };
            store.undo(&saved);
            live_on(copy, &mut chance, &what);
        }
    }
}

fn live_on(mut store: Store, chance: &mut Chance, what: &str) {
    for life in 0..3 {
        let what = format!("{what}, life {life}");
        let device = Arc::clone(&store.device);
        let Ok((namespace, _)) = Namespace::open(options(devices(&[device]), BLOCKS)) else {
            return;
        };
        check(&namespace, &store, &what);
        for _ in 0..10 {
            let record = chance.below(RECORDS);
            let payload = format!("written anew in life {life}").into_bytes();
            match put(&namespace, &digest(record), &payload) {
                Ok(()) => store.allowed[record as usize] = vec![Some(payload)],
                Err(Error::StopWrites { .. }) => {}
                Err(other) => panic!("{what}: {other}"),
            }
        }
        for _ in 0..3 {
            match put(&namespace, &digest(1000), &vec![1; 3 << 20]) {
                Ok(()) | Err(Error::StopWrites { .. }) => {}
                Err(other) => panic!("{what}: {other}"),
            }
        }
        namespace.maintain().unwrap();
        check(&namespace, &store, &format!("{what}, maintained"));
        match chance.below(3) {
            0 => namespace.close().unwrap(),
            1 => namespace.sync().unwrap(),
            _ => {}
        }
        drop(namespace);
        store.device = Arc::new(store.device.kill().unwrap());
    }
}

#[test]
#[ignore = "takes minutes: run it by name"]
fn every_byte_of_a_small_device_may_be_inverted() {
    for store in Store::all() {
        let mut tally = Tally::default();
        for offset in store.used().into_iter().flatten() {
            let damage = Damage::InvertedBytes(vec![offset]);
            let saved = store.damage(&damage);
            let what = format!("{store:?}, {damage:?}");
            tally.add(read_damaged(&store, &what).as_ref());
            store.undo(&saved);
        }
        println!("{store:?}: {tally:?}");
    }
}

/// The rest of a staging buffer holds bytes of earlier entries, and would reach over the directory.
#[test]
fn damage_is_attributed_in_a_block_of_which_staging_memory_has_the_end() {
    const BYTES: usize = 1000;
    let origin = Arc::new(SimulatedDevice::new(&small_header(0, 1, 2 * BLOCKS)).unwrap());
    let on = |disk: &Arc<SimulatedDevice>| Options {
        max_record_bytes: 1 << 20,
        ..options(devices(std::slice::from_ref(disk)), 2 * BLOCKS)
    };
    let (namespace, _) = Namespace::open(on(&origin)).unwrap();
    let put = |record| put(&namespace, &digest(record), &payload_of(record, 0, BYTES));
    (0..4).for_each(|record| put(record).unwrap());
    namespace.sync().unwrap();
    let records = SMALL_BLOCK_BYTES / (BYTES as u64 + 100);
    (4..records).for_each(|record| put(record).unwrap());
    assert_eq!(namespace.stats().used_blocks, 1);
    let killed = Arc::new(origin.kill().unwrap());
    let bytes = killed.snapshot_range(HEADER_BYTES..HEADER_BYTES + SMALL_BLOCK_BYTES);
    let payload = payload_of(2, 0, BYTES);
    let found = bytes.windows(BYTES).position(|found| found == payload);
    let at = HEADER_BYTES + found.unwrap() as u64;
    // With its header.
    killed.zero(at - 56..at + BYTES as u64);
    let (namespace, opening) = Namespace::open(on(&killed)).unwrap();
    assert_eq!(opening.damaged_entries, 1, "{opening:?}");
    assert_eq!(opening.unknown_bytes, 0, "{opening:?}");
    for record in 0..records {
        match get(&namespace, &digest(record)) {
            Ok(found) => assert_eq!(found, Some(payload_of(record, 0, BYTES))),
            Err(error) => assert_eq!(record, 2, "{error}"),
        }
    }
}
