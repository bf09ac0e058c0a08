//! Openings that end in the middle: the next one shows the store as it was at one moment, and so do
//! all after it, and `verify` finds no damage.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{devices, digest, get, options, put, small_header, version};
use spikelet_storage::{
    Change, HEADER_BYTES, Namespace, Options, SMALL_BLOCK_BYTES, SimulatedDevice, read_state,
    write_state,
};
use std::sync::{Arc, Mutex};

const BLOCKS: u64 = 16;

fn on(disk: &Arc<SimulatedDevice>) -> Options {
    Options {
        max_record_bytes: 1 << 20,
        write_lanes: 2,
        ..options(devices(std::slice::from_ref(disk)), BLOCKS)
    }
}

/// Puts a record in another thread before a change of the disk, by another lane than the one that
/// this thread has locked then. Returns the disk as a kill leaves it behind the put.
fn put_beside(
    namespace: &Namespace,
    disk: &Arc<SimulatedDevice>,
    (change, record): (u64, u64),
) -> Arc<Mutex<Option<SimulatedDevice>>> {
    let left = Arc::new(Mutex::new(None));
    let (namespace, device, of_hook) = (namespace.clone(), Arc::clone(disk), Arc::clone(&left));
    disk.before_change(change, move || {
        let put = move || put(&namespace, &digest(record), b"beside");
        std::thread::spawn(put).join().unwrap().unwrap();
        *of_hook.lock().unwrap() = Some(device.kill().unwrap());
    });
    left
}

/// An opening without room begins to keep an entry where it is, behind the numbers of a group that
/// a kill has cut. A power failure in the middle of it cuts the entry off.
#[test]
fn what_is_cut_off_stays_away_where_an_opening_had_begun_to_keep_it() {
    let (mut kept, mut cut) = (0, 0);
    // Changes of the disk in the middle of the group.
    for change in 30..36 {
        let origin = Arc::new(SimulatedDevice::new(&small_header(0, 1, BLOCKS)).unwrap());
        let (namespace, _) = Namespace::open(on(&origin)).unwrap();
        let large = vec![1; 100 << 10];
        put(&namespace, &digest(0), &large).unwrap();
        put_beside(&namespace, &origin, (1, 1));
        put(&namespace, &digest(3), &large).unwrap();
        assert_eq!(namespace.stats().used_blocks, 2, "one a lane");
        namespace.sync().unwrap();
        let left = put_beside(&namespace, &origin, (change, 2));
        let mut members: Vec<_> = (10..30).map(digest).collect();
        members.sort_unstable();
        let lock = |digest| namespace.lock(digest, None).unwrap();
        let puts = members
            .iter()
            .map(|digest| (lock(digest), Change::Put(version(&large))));
        namespace.commit_group(puts.collect()).unwrap();
        let left = left.lock().unwrap().take().unwrap();
        for moment in 30..60 {
            let full = Arc::new(left.kill().unwrap());
            full.set_space_bytes(0);
            let image = Arc::new(Mutex::new(None));
            let (device, of_hook) = (Arc::clone(&full), Arc::clone(&image));
            full.before_change(moment, move || {
                *of_hook.lock().unwrap() = Some(device.crash(moment).unwrap());
            });
            Namespace::open(on(&full)).unwrap();
            let Some(image) = image.lock().unwrap().take().map(Arc::new) else {
                break;
            };
            image.set_space_bytes(u64::MAX);
            let (namespace, _) = Namespace::open(on(&image)).unwrap();
            let found = get(&namespace, &digest(2)).unwrap();
            match found {
                Some(_) => kept += 1,
                None => cut += 1,
            }
            let image = Arc::new(image.kill().unwrap());
            let (namespace, _) = Namespace::open(on(&image)).unwrap();
            let again = get(&namespace, &digest(2)).unwrap();
            assert_eq!(again, found, "changes {change} and {moment}");
        }
    }
    assert!(kept > 5 && cut > 5, "kept {kept} times, cut off {cut}");
}

/// A sync calls a block closed that has been filled since the sync began. An opening without room
/// keeps the entries of that block where they are; a power failure in the middle of it leaves the
/// block's directory as it was.
#[test]
fn the_directory_of_a_closed_block_stays_where_an_opening_keeps_its_entries() {
    let origin = Arc::new(SimulatedDevice::new(&small_header(0, 1, BLOCKS)).unwrap());
    let (namespace, _) = Namespace::open(on(&origin)).unwrap();
    put(&namespace, &digest(0), b"first").unwrap();
    put_beside(&namespace, &origin, (1, 1));
    namespace.sync().unwrap();
    assert_eq!(namespace.stats().used_blocks, 2, "one a lane");
    put(&namespace, &digest(0), b"second").unwrap();
    let beside = namespace.clone();
    origin.before_change(1, move || {
        let fill = move || {
            for record in 2..14 {
                put(&beside, &digest(record), &vec![1; 100 << 10]).unwrap();
            }
        };
        std::thread::spawn(fill).join().unwrap();
    });
    namespace.sync().unwrap();
    assert_eq!(namespace.stats().used_blocks, 3, "one was filled");
    let left = origin.kill().unwrap();
    // Changes of the disk from the first header that names an end to the sync behind the last.
    let images = verify_interrupted(&left, 8..24, &(0..16).map(Some).collect::<Vec<_>>());
    assert!(images > 100, "{images} images");
}

/// Opens this disk without room, kills it or fails its power (by a seed) before some changes of the
/// opening, and verifies the images. Returns how many there are.
fn verify_interrupted(
    left: &SimulatedDevice,
    moments: std::ops::Range<u64>,
    ends: &[Option<u64>],
) -> usize {
    let mut images = 0;
    for (moment, end) in moments.flat_map(|moment| ends.iter().map(move |end| (moment, *end))) {
        let full = Arc::new(left.kill().unwrap());
        full.set_space_bytes(0);
        let image = Arc::new(Mutex::new(None));
        let (device, of_hook) = (Arc::clone(&full), Arc::clone(&image));
        full.before_change(moment, move || {
            let image = match end {
                Some(seed) => device.crash(seed),
                None => device.kill(),
            };
            *of_hook.lock().unwrap() = Some(image.unwrap());
        });
        Namespace::open(on(&full)).unwrap();
        let Some(image) = image.lock().unwrap().take().map(Arc::new) else {
            continue;
        };
        image.set_space_bytes(u64::MAX);
        let verified = Namespace::verify(&on(&image)).unwrap();
        assert!(!verified.is_damaged(), "{moment}, {end:?}: {verified:?}");
        images += 1;
    }
    images
}

/// An opening without room moves the end of a block before the durable extent that a state names,
/// since a power failure has cut the numbers there. As long as that state counts, the directory has
/// the lines of the whole extent.
#[test]
fn a_directory_keeps_the_lines_of_a_durable_extent_that_an_opening_cuts() {
    let disk = Arc::new(SimulatedDevice::new(&small_header(0, 1, BLOCKS)).unwrap());
    let (namespace, _) = Namespace::open(on(&disk)).unwrap();
    let large = vec![1; 100 << 10];
    put(&namespace, &digest(0), &large).unwrap();
    put_beside(&namespace, &disk, (1, 1));
    put(&namespace, &digest(2), &large).unwrap();
    assert_eq!(namespace.stats().used_blocks, 2, "one a lane");
    namespace.sync().unwrap();
    let durable = namespace.last_lsn().get();
    (3..10).for_each(|record| put(&namespace, &digest(record), b"counted").unwrap());
    put_beside(&namespace, &disk, (1, 10));
    put(&namespace, &digest(11), &large).unwrap();
    (12..30).for_each(|record| put(&namespace, &digest(record), b"cut off").unwrap());
    namespace.sync().unwrap();
    let left = disk.kill().unwrap();
    // As if the sync had taken its number before record 3, and flushed the other lane before record
    // 10, which the power failure takes.
    let mut state = read_state(&left).unwrap();
    (state.durable_lsn, state.sequence) = (durable, state.sequence + 1);
    let beside = state.open.iter_mut().min_by_key(|extent| extent.entries);
    let beside = beside.unwrap();
    let block = HEADER_BYTES + u64::from(beside.block) * SMALL_BLOCK_BYTES;
    let end = block + u64::from(beside.durable_units) * 16;
    left.zero(end - 64..end);
    (beside.durable_units, beside.entries) = (beside.durable_units - 4, beside.entries - 1);
    write_state(&left, &state).unwrap();
    let mut images = 0;
    for seed in 0..40 {
        let crashed = left.crash(seed).unwrap();
        let keeps_state = read_state(&crashed).unwrap().sequence == state.sequence;
        let copy = Arc::new(crashed.kill().unwrap());
        if keeps_state && !Namespace::verify(&on(&copy)).unwrap().is_damaged() {
            images += verify_interrupted(&crashed, 6..16, &[None, Some(seed)]);
        }
    }
    assert!(images > 50, "{images} images");
}
