//! Full devices and disks: writes are refused, deletes and cleaning go on, and space comes back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::changes::{fed, read_from};
use common::turns::alone;
use common::{
    NOW_MS, delete, devices, digest, fill, get, options, payload_of, put, simulated, version,
};
use spikelet_storage::{
    BLOCK_BYTES, Change, Delivery, Digest, Error, HEADER_BYTES, Header, Namespace, NewVersion,
    Options, SMALL_BLOCK_BYTES, SimulatedDevice, Storage, Truncate,
};
use std::sync::Arc;

const BLOCKS: u64 = 10;
/// So large that a small device is full after few writes.
const LARGE: usize = 100 << 10;

fn memory(blocks: u64) -> Namespace {
    Namespace::open(options(Storage::Memory, blocks)).unwrap().0
}

#[test]
fn a_full_namespace_says_so_reads_and_deletes_go_on_and_space_comes_back() {
    let _turn = alone();
    let namespace = memory(BLOCKS);
    let count = fill(&namespace, LARGE);
    // All but the reserve is used.
    let stats = namespace.stats();
    assert!(stats.stop_writes && stats.available_blocks == stats.reserve_blocks);
    assert!(count * (LARGE as u64) > (BLOCKS - stats.reserve_blocks - 2) * BLOCK_BYTES);
    let error = put(&namespace, &digest(0), b"small").unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, Error::StopWrites { free_blocks, .. } if free_blocks == stats.reserve_blocks)
    );
    assert!(
        text.contains("namespace test is full") && text.contains("delete records"),
        "{text}"
    );
    for record in 0..count {
        assert_eq!(
            get(&namespace, &digest(record)).unwrap(),
            Some(payload_of(record, 0, LARGE))
        );
    }
    for record in (0..count).step_by(2) {
        assert!(delete(&namespace, &digest(record)).unwrap());
    }
    assert!(matches!(
        put(&namespace, &digest(0), b"small"),
        Err(Error::StopWrites { .. })
    ));
    let done = namespace.maintain().unwrap();
    assert!(done.freed_blocks >= 3, "{done:?}");
    // All but the ones with versions in the block that is being filled.
    assert!(done.dropped_tombstones >= count / 2 - 50, "{done:?}");
    assert!(!namespace.stats().stop_writes);
    put(&namespace, &digest(0), b"new").unwrap();
    for record in 1..count {
        let expected = (record % 2 == 1).then(|| payload_of(record, 0, LARGE));
        assert_eq!(get(&namespace, &digest(record)).unwrap(), expected);
    }
    assert_eq!(get(&namespace, &digest(0)).unwrap(), Some(b"new".to_vec()));
}

#[test]
fn a_group_that_deletes_and_makes_no_record_larger_goes_on_in_a_full_namespace() {
    let _turn = alone();
    let namespace = memory(BLOCKS);
    let list = digest(u64::MAX);
    put(&namespace, &list, &[7; 20]).unwrap();
    let count = fill(&namespace, LARGE);
    let group = |put: &Digest, bytes: usize, deleted: Option<u64>| {
        let payload = vec![7; bytes];
        let change = Change::Put(version(&payload));
        let mut members = vec![(namespace.lock(put, None).unwrap(), change)];
        members.extend(deleted.map(|record| {
            let lock = namespace.lock(&digest(record), None).unwrap();
            (lock, Change::Delete(NOW_MS))
        }));
        namespace.commit_group(members).map(drop)
    };
    group(&list, 19, Some(0)).unwrap();
    group(&list, 19, Some(1)).unwrap();
    for refused in [
        group(&list, 20, Some(2)),
        group(&digest(count), 1, Some(2)),
        group(&list, 1, None),
    ] {
        assert!(
            matches!(refused, Err(Error::StopWrites { .. })),
            "{refused:?}"
        );
    }
    let lengths = [list, digest(0), digest(1), digest(2)].map(|digest| {
        get(&namespace, &digest)
            .unwrap()
            .map(|payload| payload.len())
    });
    assert_eq!(lengths, [Some(19), None, None, Some(LARGE)]);
    // Large versions use up a block of the reserve, and the next one is for deletes alone.
    let written = (3..count - 3)
        .step_by(2)
        .map(|record| group(&digest(record + 1), LARGE, Some(record)))
        .take_while(Result::is_ok)
        .count();
    assert!((1..count as usize / 2 - 3).contains(&written), "{written}");
    delete(&namespace, &digest(count - 1)).unwrap();
    delete(&namespace, &digest(count - 2)).unwrap();
}

#[test]
fn deletes_of_many_lanes_share_the_reserve_of_a_full_namespace() {
    const LANES: u64 = 6;
    let _turn = alone();
    let options = Options {
        write_lanes: LANES as usize,
        max_device_bytes: HEADER_BYTES + 30 * SMALL_BLOCK_BYTES,
        max_record_bytes: 1 << 20,
        ..options(Storage::Memory, 30)
    };
    let (namespace, _) = Namespace::open(options).unwrap();
    let of_thread = |thread: u64, record: u64| digest((thread << 32) | record);
    // How many records each thread finds room for, and how many it can delete then.
    let in_threads = |work: &(dyn Fn(u64, u64) -> bool + Sync)| -> u64 {
        std::thread::scope(|scope| {
            let threads = (0..LANES).map(|thread| {
                scope.spawn(move || (0..).take_while(|record| work(thread, *record)).count())
            });
            let threads: Vec<_> = threads.collect();
            let counts = threads.into_iter().map(|thread| thread.join().unwrap());
            counts.sum::<usize>() as u64
        })
    };
    let written = in_threads(&|thread, record| {
        put(&namespace, &of_thread(thread, record), &[7; 200]).is_ok()
    });
    let stats = namespace.stats();
    assert!(
        stats.stop_writes && stats.reserve_blocks < LANES,
        "{stats:?}"
    );
    let deleted = in_threads(
        &|thread, record| match delete(&namespace, &of_thread(thread, record)) {
            Ok(was_there) => was_there,
            Err(Error::NoSpace { .. }) => false,
            Err(error) => panic!("{error}"),
        },
    );
    // A block of the reserve is theirs.
    assert!(
        deleted * 64 > SMALL_BLOCK_BYTES * 9 / 10,
        "{deleted} of {written}"
    );
    namespace.maintain().unwrap();
    let stats = namespace.stats();
    assert!(
        !stats.stop_writes && stats.records == written - deleted,
        "{stats:?}"
    );
}

#[test]
fn a_namespace_that_was_full_and_emptied_is_as_good_as_new() {
    let _turn = alone();
    let namespace = memory(BLOCKS);
    for round in 0..3 {
        let count = fill(&namespace, LARGE);
        if round == 1 {
            assert_eq!(
                namespace.truncate(Truncate::Namespace, None).unwrap(),
                count
            );
            break;
        }
        for record in 0..count {
            assert!(delete(&namespace, &digest(record)).unwrap());
        }
        namespace.maintain().unwrap();
        let stats = namespace.stats();
        // A lane and defragmentation have a block each. Its entries stay until it is full, with
        // their tombstones.
        assert!(stats.available_blocks >= BLOCKS - 2, "{stats:?}");
        assert!(stats.records == 0 && stats.index_entries < 80, "{stats:?}");
        assert_eq!(stats.live_bytes, stats.index_entries * 64);
    }
    namespace.maintain().unwrap();
    let stats = namespace.stats();
    assert_eq!((stats.records, stats.index_entries), (0, 0));
    assert!(stats.available_blocks >= BLOCKS - 2, "{stats:?}");
}

#[test]
fn a_full_disk_leaves_what_deletes_and_defragmentation_need() {
    let _turn = alone();
    let disks = simulated(1, 40);
    disks[0].set_space_bytes(common::device_bytes(11));
    let (namespace, _) = Namespace::open(options(devices(&disks), 40)).unwrap();
    let count = fill(&namespace, 1 << 20);
    assert!(count > 40, "{count}");
    for record in 0..count {
        if record % 4 > 0 {
            let there = delete(&namespace, &digest(record));
            assert!(there.unwrap_or_else(|error| panic!("record {record} of {count}: {error}")));
        }
    }
    let done = namespace.maintain().unwrap();
    assert!(done.freed_blocks >= 4, "{done:?}");
    put(&namespace, &digest(1), b"there is room").unwrap();
    // Room that others make on the disk is found.
    let more = fill(&namespace, 1 << 20);
    disks[0].set_space_bytes(common::device_bytes(40));
    namespace.maintain().unwrap();
    assert!(fill(&namespace, 1 << 20) > more + 100);
}

#[test]
fn a_full_disk_leaves_what_deletes_and_defragmentation_need_to_a_later_opening() {
    let _turn = alone();
    for (bytes, is_kill) in [
        (1 << 20, true),
        (1 << 20, false),
        (4_000, true),
        (4_000, false),
    ] {
        let what = format!("records of {bytes} bytes, killed: {is_kill}");
        let disks = simulated(1, 40);
        disks[0].set_space_bytes(common::device_bytes(11));
        let (namespace, _) = Namespace::open(options(devices(&disks), 40)).unwrap();
        let mut count = fill(&namespace, bytes);
        for round in 0..3 {
            // Blocks that were in use are free by then.
            for record in round * count / 4..(round + 1) * count / 4 {
                delete(&namespace, &digest(record)).unwrap();
            }
            namespace.maintain().unwrap();
            count = count.max(fill(&namespace, bytes));
        }
        if !is_kill {
            namespace.close().unwrap();
        }
        let left = [Arc::new(disks[0].kill().unwrap())];
        drop(namespace);
        let (namespace, _) = Namespace::open(options(devices(&left), 40)).unwrap();
        for record in 0..count {
            if record % 4 > 0 {
                let done = delete(&namespace, &digest(record));
                done.unwrap_or_else(|error| panic!("{what}, record {record}: {error}"));
            }
        }
        let done = namespace.maintain().unwrap();
        assert!(done.freed_blocks >= 4, "{what}: {done:?}");
        put(&namespace, &digest(1), b"there is room").unwrap();
    }
}

#[test]
fn a_full_disk_takes_the_deletes_of_small_records_in_any_order() {
    let _turn = alone();
    for (newest_first, maintained) in [(false, false), (true, false), (false, true), (true, true)] {
        let disks = simulated(1, 40);
        disks[0].set_space_bytes(common::device_bytes(11));
        let (namespace, _) = Namespace::open(options(devices(&disks), 40)).unwrap();
        let count = fill(&namespace, 4_000);
        assert!(count > 10_000, "{count}");
        if maintained {
            let _ = namespace.maintain();
        }
        for at in 0..count {
            let record = if newest_first { count - 1 - at } else { at };
            let there = delete(&namespace, &digest(record));
            assert!(there.unwrap_or_else(|error| {
                panic!("newest first {newest_first}, maintained {maintained}: delete {at} of {count}: {error}")
            }));
            if maintained && at % 500 == 0 {
                // There may be nothing yet that could be won.
                let _ = namespace.maintain();
            }
        }
        namespace.maintain().unwrap();
        put(&namespace, &digest(1), b"there is room").unwrap();
    }
}

#[test]
fn a_full_disk_takes_deletes_that_leave_something_of_every_block() {
    let _turn = alone();
    let header = Header {
        max_bytes: HEADER_BYTES + 40 * SMALL_BLOCK_BYTES,
        block_bytes: SMALL_BLOCK_BYTES,
        ..common::header(0, 1, 40)
    };
    let disk = Arc::new(SimulatedDevice::new(&header).unwrap());
    disk.set_space_bytes(HEADER_BYTES + 16 * SMALL_BLOCK_BYTES);
    let options = Options {
        write_lanes: 1,
        max_record_bytes: 1 << 20,
        ..options(devices(std::slice::from_ref(&disk)), 40)
    };
    let (namespace, _) = Namespace::open(options).unwrap();
    // Tombstones take half as much as these records.
    let count = fill(&namespace, 100);
    assert!(count > 50_000, "{count}");
    let mut refused = 0;
    for at in 0..count {
        // A stride through all of them: each block has lost as much as any other.
        let record = digest(at * 7_919 % count);
        if delete(&namespace, &record).is_err() {
            refused += 1;
            println!("{at}: {:?} {:?}", namespace.maintain(), namespace.stats());
            delete(&namespace, &record).unwrap_or_else(|error| panic!("{at} of {count}: {error}"));
        }
    }
    println!("{refused} of {count} deletes waited for cleaning");
    namespace.maintain().unwrap();
    put(&namespace, &digest(1), b"there is room").unwrap();
}

/// Has as many lanes open a block each: every one is asked for in the middle of a write that holds
/// the one before.
fn open_lanes(namespace: &Arc<Namespace>, disk: &Arc<SimulatedDevice>, lanes: u64) {
    let record = |part: u64| digest(u64::MAX - 2 * lanes - part);
    put(namespace, &record(0), &[7; 100]).unwrap();
    if lanes == 1 {
        return;
    }
    let (of_hook, device) = (Arc::clone(namespace), Arc::clone(disk));
    disk.before_change(1, move || {
        let next = std::thread::spawn(move || open_lanes(&of_hook, &device, lanes - 1));
        next.join().unwrap();
    });
    // Too large to be staged.
    put(namespace, &record(1), &[7; 200 << 10]).unwrap();
}

/// How many small records can be deleted on a device and a disk that are full, with as many lanes.
fn deletes_when_full(lanes: u64) -> u64 {
    let header = Header {
        max_bytes: HEADER_BYTES + 12 * SMALL_BLOCK_BYTES,
        block_bytes: SMALL_BLOCK_BYTES,
        ..common::header(0, 1, 12)
    };
    let disk = Arc::new(SimulatedDevice::new(&header).unwrap());
    let options = Options {
        write_lanes: lanes as usize,
        max_record_bytes: 1 << 20,
        ..options(devices(std::slice::from_ref(&disk)), 12)
    };
    let namespace = Arc::new(Namespace::open(options).unwrap().0);
    open_lanes(&namespace, &disk, lanes);
    assert_eq!(namespace.stats().used_blocks, lanes);
    let count = fill(&namespace, 100);
    disk.set_space_bytes(0);
    for record in 0..count {
        match delete(&namespace, &digest(record)) {
            Ok(was_there) => assert!(was_there),
            Err(Error::NoSpace { .. }) => return record,
            Err(error) => panic!("{lanes} lanes, delete {record} of {count}: {error}"),
        }
    }
    panic!("there was room for all deletes");
}

#[test]
fn deletes_on_a_full_disk_and_device_go_to_every_lane_that_has_room() {
    let _turn = alone();
    let deleted: Vec<u64> = (1..4).map(deletes_when_full).collect();
    // New versions leave some disk space behind every open block.
    let rises = deleted.windows(2).all(|pair| pair[1] > pair[0] + 250);
    assert!(rises, "{deleted:?}");
}

#[test]
fn a_delete_that_finds_no_block_is_a_change_like_any_other() {
    let _turn = alone();
    let options = Options {
        max_device_bytes: HEADER_BYTES + 12 * SMALL_BLOCK_BYTES,
        max_record_bytes: 1 << 20,
        ..options(Storage::Memory, 12)
    };
    let (namespace, _) = Namespace::open(options).unwrap();
    let set = fed(&namespace);
    let fill = |first: u64| {
        let lock = |number| namespace.lock(&digest(number), None).unwrap();
        let new = NewVersion {
            set_id: set,
            ..version(&[7; 30])
        };
        (first..)
            .find(|number| lock(*number).put(&new).is_err())
            .unwrap()
    };
    let delete = |number: u64| {
        namespace
            .lock(&digest(number), None)
            .unwrap()
            .delete(NOW_MS)
    };
    let written = fill(0);
    // Cleaning gets a block for the other half, with room in it.
    for number in (0..written).step_by(2) {
        if delete(number).is_err() {
            namespace.maintain().unwrap();
            delete(number).unwrap();
        }
    }
    namespace.maintain().unwrap();
    let count = fill(written);
    let start = namespace.last_lsn().get();
    let left = (written..count).chain((1..written).step_by(2));
    let deletes = left.clone().map_while(|number| match delete(number) {
        Ok(lsn) => Some((digest(number), lsn.unwrap().get())),
        Err(Error::NoSpace { .. }) => None,
        Err(error) => panic!("{error}"),
    });
    let deleted: Vec<_> = deletes.collect();
    assert!(
        deleted.len() < left.count(),
        "there was room for all deletes"
    );
    let read = read_from(&namespace, Delivery::Published, start);
    let read: Vec<_> = read
        .iter()
        .map(|change| (change.digest, change.position.lsn.get()))
        .collect();
    assert!(
        read == deleted,
        "{} of {} deletes",
        read.len(),
        deleted.len()
    );
}
