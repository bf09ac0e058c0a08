//! Records that may be stale, since entries are lost together with the list of whose they were: what is written anew is
//! right again, now and after every later opening.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{devices, digest, get, options, put, simulated};
use spikelet_storage::{BLOCK_BYTES, Error, HEADER_BYTES, Namespace, Options, SimulatedDevice};
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
        match closes {
            true => namespace.close().unwrap(),
            false => namespace.sync().unwrap(),
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
            // Records that were not written since may have had newer versions, whether they are there or not.
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
