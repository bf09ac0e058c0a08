//! Values that no store has written, with checksums that hold: an opening may refuse them, and
//! nothing panics.

use crate::core::Namespace;
use crate::device::header_of_small;
use crate::device::{
    Device, DeviceState, DurableExtent, HEADER_BYTES, SMALL_BLOCK_BYTES, SimulatedDevice,
    read_state, write_state,
};
use crate::digest::Digest;
use crate::entry::Lsn;
use crate::index::IndexSlot;
use crate::location::Location;
use crate::log::block::{BlockHeader, BlockId, EndedBlock, MIRROR_AT};
use crate::log::staging::{NamespaceStaging, Tenancy};
use crate::options::{Options, Storage};
use crate::record_lock::NewVersion;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

const DEVICE_ID: u64 = 77;

fn options(storage: Storage) -> Options {
    Options {
        background: false,
        write_lanes: 1,
        max_device_bytes: HEADER_BYTES + 12 * SMALL_BLOCK_BYTES,
        ..Options::new("test", storage)
    }
}

fn put(namespace: &Namespace, record: u8) -> crate::Result<()> {
    let version = NewVersion {
        generation: 1,
        void_time: 0,
        last_update_ms: 1,
        set_id: 0,
        key: None,
        payload: &[record; 32 << 10],
    };
    let lock = namespace.lock(&Digest::new([record; Digest::LEN]), None)?;
    lock.put(&version).map(drop)
}

/// Opens a store in each way, and uses it.
fn use_all(options: impl Fn() -> Options) {
    let read = |namespace: &Namespace| {
        for record in 0..60 {
            let _ = namespace.get(&Digest::new([record; Digest::LEN]), |_| ());
        }
    };
    let _ = Namespace::verify(&options());
    let _ = Namespace::open_read_only(options()).map(|(namespace, _)| read(&namespace));
    if let Ok((namespace, _)) = Namespace::open(options()) {
        read(&namespace);
        (0..80).for_each(|record| drop(put(&namespace, record)));
        let _ = namespace.sync();
        let _ = namespace.maintain();
        let _ = namespace.close();
    }
}

#[test]
fn no_value_of_a_block_header_a_state_or_a_tenancy_panics() {
    let header = header_of_small(12);
    let device = Arc::new(SimulatedDevice::new(&header).unwrap());
    let on =
        |device: &Arc<SimulatedDevice>| options(Storage::Devices(vec![Arc::clone(device) as _]));
    let (namespace, _) = Namespace::open(on(&device)).unwrap();
    for record in 0..50 {
        put(&namespace, record).unwrap();
        if record == 45 {
            namespace.sync().unwrap();
        }
    }
    let log = &namespace.core.log;
    let mut crafts: Vec<(String, Arc<SimulatedDevice>)> = Vec::new();
    let mut craft = |what: String, change: &dyn Fn(&Arc<SimulatedDevice>)| {
        let killed = Arc::new(device.kill().unwrap());
        change(&killed);
        crafts.push((what, killed));
    };
    let blocks: Vec<_> = log
        .blocks()
        .map(|(id, block)| (id, block.incarnation()))
        .collect();
    let used: Vec<_> = blocks
        .into_iter()
        .filter(|(_, incarnation)| *incarnation != 0)
        .collect();
    assert!(used.len() > 1);
    let (open, open_incarnation) = *used.last().unwrap();
    for (id, incarnation) in [used[0], (open, open_incarnation)] {
        let ended = |units, entries, last_lsn| EndedBlock {
            units,
            entries,
            last_lsn: Lsn(last_lsn),
        };
        let ends = [
            None,
            Some(ended(1, 0, 0)),
            Some(ended(100, 3, u64::MAX)),
            Some(ended(u32::MAX, 3, u64::MAX)),
            Some(ended(100, u32::MAX, 7)),
            Some(ended(8_000, 3_000, 7)),
        ];
        for (ended, sequence) in ends.into_iter().flat_map(|end| [(end, 3), (end, u64::MAX)]) {
            let header = BlockHeader {
                index: id.index,
                incarnation,
                device_id: DEVICE_ID,
                sequence,
                ended,
                holds_copies: false,
            };
            let mirror = BlockId::new(0, id.index + 1, SMALL_BLOCK_BYTES);
            craft(format!("{header:?}"), &|device| {
                device.overwrite(id.offset_bytes(), &header.encode());
                device.overwrite(mirror.offset_bytes() + MIRROR_AT, &header.encode());
            });
        }
    }
    let state = read_state(&*device).unwrap();
    let numbers = [0, 1, 1 << 48, u64::MAX - 1, u64::MAX];
    for number in numbers {
        let states = [
            (
                "state sequence",
                DeviceState {
                    sequence: number,
                    ..state.clone()
                },
            ),
            (
                "durable number",
                DeviceState {
                    durable_lsn: number,
                    ..state.clone()
                },
            ),
            (
                "clean close",
                DeviceState {
                    clean_close: number,
                    ..state.clone()
                },
            ),
            (
                "next block",
                DeviceState {
                    next_block: number,
                    ..state.clone()
                },
            ),
        ];
        for (what, changed) in states {
            craft(format!("{what} {number}"), &|device| {
                let other = DeviceState {
                    sequence: changed.sequence ^ 1,
                    ..changed.clone()
                };
                write_state(&**device, &changed).unwrap();
                write_state(&**device, &other).unwrap();
            });
        }
        let start = number;
        craft(format!("tenancy {number}"), &|device| {
            let device: Arc<dyn Device> = Arc::clone(device) as _;
            let staging = NamespaceStaging::of(&device).unwrap();
            for number in [number, number ^ 1] {
                let tenancy = Tenancy {
                    number,
                    block: (0, open.index),
                    device_id: DEVICE_ID,
                    incarnation: open_incarnation,
                    start,
                };
                staging.begin(0, &tenancy);
            }
        });
    }
    for (durable_units, entries) in [(0, 0), (u32::MAX, 1), (100, u32::MAX), (8_000, 3_000)] {
        let extent = DurableExtent {
            device: 0,
            block: open.index,
            incarnation: open_incarnation,
            durable_units,
            entries,
        };
        let mut changed = state.clone();
        changed.open = vec![extent];
        changed.sequence += 1;
        craft(format!("{extent:?}"), &|device| {
            write_state(&**device, &changed).unwrap()
        });
    }
    for (what, device) in crafts {
        eprintln!("{what}");
        use_all(|| on(&device));
    }
}

#[test]
fn no_value_of_a_snapshot_panics() {
    let dir = tempfile::tempdir().unwrap();
    let on = || {
        options(Storage::Files {
            dir: dir.path().to_owned(),
            devices: 1,
        })
    };
    let path = dir.path().join("index.snapshot");
    let device = dir.path().join("device-0");
    let (namespace, _) = Namespace::open(on()).unwrap();
    (0..50).for_each(|record| put(&namespace, record).unwrap());
    let used = namespace.core.log.blocks();
    let incarnation = used
        .map(|(_, block)| block.incarnation())
        .find(|at| *at != 0);
    namespace.close().unwrap();
    drop(namespace);
    let (whole, of_device) = (
        std::fs::read(&path).unwrap(),
        std::fs::read(&device).unwrap(),
    );
    let end = whole.len() - 8;
    let slot = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    // The numbers of the front, of a block, and the last slot.
    let block = incarnation.unwrap().to_le_bytes();
    let block = whole.windows(8).position(|bytes| *bytes == block).unwrap();
    let of_block = [8, 16, 20, 28].map(|behind| (block + behind, u64::MAX));
    let (tag, mut last) = IndexSlot::unpack(slot(&whole, end - 16), slot(&whole, end - 8));
    last.location = Location::from_packed(0);
    let cases = [16, 24, 32]
        .into_iter()
        .flat_map(|at| [(at, u64::MAX), (at, 1 << 48), (at, 0)]);
    for (at, value) in cases.chain(of_block).chain([(end - 16, last.head(tag))]) {
        eprintln!("{value} at {at}");
        let mut bytes = whole.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let sum = xxh3_64(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(&device, &of_device).unwrap();
        std::fs::write(&path, &bytes).unwrap();
        use_all(on);
    }
}
