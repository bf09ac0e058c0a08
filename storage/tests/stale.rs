//! Records that may be stale, since entries are lost together with the list of their records: a
//! record written anew is right again, now and after every later opening.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{devices, digest, get, options, put, simulated, version};
use spikelet_storage::{
    BLOCK_BYTES, Error, HEADER_BYTES, Namespace, NewVersion, Options, SimulatedDevice, Truncate,
};
use std::sync::Arc;

const BLOCKS: u64 = 12;
const RECORDS: u64 = 300;

fn on(device: &Arc<SimulatedDevice>) -> Options {
    options(devices(&[Arc::clone(device)]), BLOCKS)
}

fn may_be_stale(namespace: &Namespace, record: u64) -> bool {
    match get(namespace, &digest(record)) {
        Err(Error::MaybeStale { .. }) => true,
        Ok(_) | Err(Error::Damaged { .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn what_is_written_after_a_loss_stays_right_through_later_openings() {
    for closes in [true, false] {
        let device = simulated(1, BLOCKS).remove(0);
        let (namespace, _) = Namespace::open(on(&device)).unwrap();
        for record in 0..RECORDS {
            put(&namespace, &digest(record), &[record as u8; 500]).unwrap();
        }
        if closes {
            namespace.close().unwrap()
        } else {
            namespace.sync().unwrap()
        }
        drop(namespace);
        let mut device = Arc::new(device.kill().unwrap());
        // Some entries, and all of the directory.
        device.zero(HEADER_BYTES + 20_000..HEADER_BYTES + 30_000);
        device.zero(HEADER_BYTES + BLOCK_BYTES - (64 << 10)..HEADER_BYTES + BLOCK_BYTES);
        for opening in 0..4u64 {
            let (namespace, found) = Namespace::open(on(&device)).unwrap();
            let what = format!("closed: {closes}, opening {opening}");
            assert!(found.unknown_bytes > 0, "{what}: {found:?}");
            // Records that were not written since may have had newer versions, whether they are
            // there or not.
            for record in [0, 35, RECORDS - 1, RECORDS + 100] {
                assert!(may_be_stale(&namespace, record), "{what}: record {record}");
            }
            for written in 1..=opening {
                let found = get(&namespace, &digest(written)).unwrap();
                assert_eq!(found, Some(b"written anew".to_vec()), "{what}: {written}");
            }
            put(&namespace, &digest(opening + 1), b"written anew").unwrap();
            namespace.sync().unwrap();
            namespace.maintain().unwrap();
            if opening == 1 {
                namespace.close().unwrap();
            }
            drop(namespace);
            device = Arc::new(device.kill().unwrap());
        }
    }
}

/// Older names and truncations do not replace the newest: records truncated after them would come
/// back.
#[test]
fn a_store_whose_newest_truncation_is_damaged_in_both_copies_is_refused() {
    for (syncs, copies) in [(true, 2), (false, 2), (true, 1), (false, 1)] {
        let device = simulated(1, BLOCKS).remove(0);
        let (namespace, _) = Namespace::open(on(&device)).unwrap();
        let set_id = namespace.create_set("users").unwrap();
        for record in 0..20 {
            let new = NewVersion {
                set_id,
                ..version(b"secret")
            };
            let lock = namespace.lock(&digest(record), None).unwrap();
            lock.put(&new).unwrap();
        }
        (0..2).for_each(|_| namespace.sync().unwrap());
        namespace.truncate(Truncate::Set(set_id), None).unwrap();
        if syncs {
            (0..2).for_each(|_| namespace.sync().unwrap());
        }
        // A kill leaves entries that were not synced in staging memory: this opening writes them to
        // the block.
        let device = Arc::new(device.kill().unwrap());
        drop(Namespace::open(on(&device)).unwrap());
        let device = Arc::new(device.kill().unwrap());
        let from = HEADER_BYTES;
        let bytes = device.snapshot_range(from..from + 2 * BLOCK_BYTES);
        let names = (0..)
            .zip(bytes.windows(5))
            .filter(|(_, at)| *at == b"users");
        let names: Vec<u64> = names.map(|(at, _)| from + at).collect();
        assert!(names.len() >= 4, "{names:?}");
        for newest in names.iter().rev().take(copies) {
            device.invert_byte(*newest);
        }
        let opened = Namespace::open(on(&device));
        if copies == 1 {
            // The other copy is the same: nothing comes back.
            let (namespace, _) = opened.unwrap();
            assert!((0..20).all(|record| get(&namespace, &digest(record)).unwrap().is_none()));
            continue;
        }
        let opened = opened.map(|_| ());
        let refused = matches!(opened, Err(Error::DamagedMetadata { .. }));
        assert!(refused, "synced: {syncs}, {opened:?}");
    }
}
