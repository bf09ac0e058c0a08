//! The simulated disk against a naive model of one.

use proptest::prelude::*;

use super::disk::PAGE_LEN;
use super::*;
use crate::device::BLOCK_BYTES;
use crate::device::testing::{get, header};

/// How much the tests write behind the header.
const SECTORS: usize = 64;
const SECTOR_LEN: usize = SECTOR_BYTES as usize;

fn empty() -> SimulatedDevice {
    SimulatedDevice::new(&header(HEADER_BYTES + BLOCK_BYTES)).unwrap()
}

/// A device with room for the sectors of the tests, grown and synced.
fn device() -> SimulatedDevice {
    let device = empty();
    device.extend(end_of(SECTORS)).unwrap();
    device.sync().unwrap();
    device
}

fn end_of(sectors: usize) -> u64 {
    HEADER_BYTES + sectors as u64 * SECTOR_BYTES
}

fn fill(device: &SimulatedDevice, sector: usize, byte: u8) {
    device.write(end_of(sector), &[byte; SECTOR_LEN]).unwrap();
}

fn sector(device: &SimulatedDevice, sector: usize) -> Vec<u8> {
    get(device, end_of(sector), SECTOR_LEN)
}

fn fill_all(device: &SimulatedDevice, byte: u8) {
    (0..SECTORS).for_each(|sector| fill(device, sector, byte));
}

/// The byte of which a sector consists, if it is one.
fn content(device: &SimulatedDevice, sector: usize) -> Option<u8> {
    let bytes = self::sector(device, sector);
    bytes
        .iter()
        .all(|byte| *byte == bytes[0])
        .then_some(bytes[0])
}

fn count(device: &SimulatedDevice, byte: u8) -> usize {
    (0..SECTORS)
        .filter(|sector| content(device, *sector) == Some(byte))
        .count()
}

#[derive(Clone, Debug)]
enum Step {
    Fill(usize, u8),
    Sync,
    FailedSync(u64),
    Writeback(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..SECTORS, any::<u8>()).prop_map(|(sector, byte)| Step::Fill(sector, byte)),
        1 => Just(Step::Sync),
        1 => any::<u64>().prop_map(Step::FailedSync),
        2 => any::<u64>().prop_map(Step::Writeback),
    ]
}

proptest! {
    #[test]
    fn after_a_crash_every_sector_is_synced_or_a_later_store_and_never_torn(
        steps in prop::collection::vec(step(), 1..200),
        seed in any::<u64>(),
    ) {
        let device = device();
        // For each sector: the value stored now, and all values that a disk may hold.
        let mut now = [0; SECTORS];
        let mut possible = vec![vec![0]; SECTORS];
        let mut failed = false;
        for step in steps {
            match step {
                Step::Fill(sector, byte) => {
                    fill(&device, sector, byte);
                    now[sector] = byte;
                    possible[sector].push(byte);
                }
                Step::Sync => {
                    device.sync().unwrap();
                    if !failed {
                        (0..SECTORS).for_each(|sector| possible[sector] = vec![now[sector]]);
                    }
                }
                Step::FailedSync(seed) => {
                    device.fail_sync(1, seed);
                    prop_assert!(device.sync().is_err());
                    failed = true;
                }
                Step::Writeback(seed) => device.writeback(seed),
            }
        }
        let killed = device.kill().unwrap();
        let crashed = device.crash(seed).unwrap();
        for sector in 0..SECTORS {
            prop_assert_eq!(content(&device, sector), Some(now[sector]), "the device goes on");
            prop_assert_eq!(content(&killed, sector), Some(now[sector]), "a kill loses nothing");
            let found = content(&crashed, sector);
            prop_assert!(found.is_some_and(|byte| possible[sector].contains(&byte)),
                "sector {}: {:?} is none of {:?}", sector, found, possible[sector]);
        }
        let again = crashed.crash(seed).unwrap();
        prop_assert!((0..SECTORS).all(|sector| content(&again, sector) == content(&crashed, sector)));
    }
}

#[test]
fn a_crash_loses_all_some_or_none_of_the_changed_sectors_by_its_seed() {
    let device = device();
    fill_all(&device, 1);
    let kept: Vec<usize> = (0..64)
        .map(|seed| count(&device.crash(seed).unwrap(), 1))
        .collect();
    assert!(kept.contains(&0) && kept.contains(&SECTORS), "{kept:?}");
    assert!(
        kept.iter().any(|kept| (1..SECTORS).contains(kept)),
        "{kept:?}"
    );
    let again: Vec<usize> = (0..64)
        .map(|seed| count(&device.crash(seed).unwrap(), 1))
        .collect();
    assert_eq!(kept, again);
}

#[test]
fn writeback_reaches_the_disk_before_a_sync() {
    let device = device();
    fill_all(&device, 1);
    let kept_by_all = |device: &SimulatedDevice| {
        (0..64)
            .map(|seed| count(&device.crash(seed).unwrap(), 1))
            .min()
            .unwrap()
    };
    assert_eq!(kept_by_all(&device), 0);
    (0..9).for_each(|seed| device.writeback(seed));
    assert!(kept_by_all(&device) > SECTORS / 2);
}

#[test]
fn growth_that_was_not_synced_may_be_lost() {
    let device = empty();
    let lengths = [end_of(0), end_of(1), end_of(2), end_of(3)];
    lengths
        .iter()
        .for_each(|len_bytes| device.extend(*len_bytes).unwrap());
    fill(&device, 2, 7);
    let crashes: Vec<SimulatedDevice> = (0..64).map(|seed| device.crash(seed).unwrap()).collect();
    for crashed in &crashes {
        assert!(lengths.contains(&crashed.len_bytes()));
        let lost = crashed.len_bytes() < end_of(3);
        crashed.extend(end_of(3)).unwrap();
        let found = content(crashed, 2);
        assert!(
            found == Some(0) || (found == Some(7) && !lost),
            "{found:?}, lost: {lost}"
        );
    }
    for len_bytes in lengths {
        let survived = |seed| device.crash(seed).unwrap().len_bytes() == len_bytes;
        assert!((0..64).any(survived), "{len_bytes} never survives");
    }
    device.sync().unwrap();
    assert!((0..64).all(|seed| device.crash(seed).unwrap().len_bytes() == end_of(3)));
    assert_eq!(device.kill().unwrap().len_bytes(), end_of(3));
}

#[test]
fn what_a_failed_sync_gave_up_is_not_written_by_the_next_one() {
    let device = device();
    fill_all(&device, 1);
    device.fail_sync(2, 1);
    device.sync().unwrap();
    fill_all(&device, 2);
    assert!(matches!(
        device.sync(),
        Err(DeviceError::Io { action: "sync", .. })
    ));
    device.sync().unwrap();
    let crashed = device.crash(0).unwrap();
    let (old, new) = (count(&crashed, 1), count(&crashed, 2));
    assert!(
        old > 0 && new > 0 && old + new == SECTORS,
        "{old} old, {new} new"
    );
    for byte in [3, 2] {
        fill_all(&device, byte);
        device.sync().unwrap();
        assert_eq!(
            count(&device.crash(0).unwrap(), byte),
            SECTORS,
            "changed again, written again"
        );
    }
}

#[test]
fn a_full_disk_refuses_reservations_and_writes_but_no_extension() {
    let device = device();
    let taken = device.allocated_bytes();
    device.set_space_bytes(taken + 2 * PAGE_BYTES);
    device.reserve(end_of(0), PAGE_BYTES).unwrap();
    assert_eq!(device.allocated_bytes(), taken + PAGE_BYTES);
    match device.reserve(end_of(0), 3 * PAGE_BYTES) {
        Err(DeviceError::Full {
            cause,
            len_bytes,
            wanted_bytes,
            ..
        }) => {
            assert_eq!(cause, FullCause::Disk);
            assert_eq!((len_bytes, wanted_bytes), (end_of(0), end_of(24)));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(device.reserved_bytes(), PAGE_BYTES);
    let error = device.write(end_of(0), &[1; 3 * PAGE_LEN]).unwrap_err();
    assert!(matches!(error, DeviceError::Full { .. }), "{error}");
    assert_eq!(count(&device, 1), 16, "what there was space for");
    device.write(end_of(3), &[2; SECTOR_LEN]).unwrap();
    assert!(device.reserve_staging(0, 1).is_err());
    device.release(end_of(8), PAGE_BYTES).unwrap();
    device.reserve_staging(0, 1).unwrap();
    assert_eq!(device.allocated_bytes(), taken + 2 * PAGE_BYTES);
    assert!(device.reserve(end_of(8), 1).is_err());
    device.extend(device.max_bytes()).unwrap();
    let error = device.extend(device.max_bytes() + 1).unwrap_err();
    assert!(
        matches!(
            error,
            DeviceError::Full {
                cause: FullCause::DeviceMaximum,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn released_pages_are_zero_at_once_and_old_or_zero_after_a_crash() {
    let device = device();
    fill_all(&device, 1);
    device.sync().unwrap();
    device.release(end_of(1), end_of(33) - end_of(1)).unwrap();
    assert_eq!(count(&device, 0), 32);
    assert_eq!(count(&device.kill().unwrap(), 0), 32);
    for seed in 0..32 {
        let crashed = device.crash(seed).unwrap();
        for page in 1..4 {
            let zeros = (8 * page..8 * page + 8)
                .filter(|sector| content(&crashed, *sector) == Some(0))
                .count();
            assert!(zeros == 0 || zeros == 8, "seed {seed}: {zeros} of a page");
        }
        assert_eq!(count(&crashed, 0) + count(&crashed, 1), SECTORS);
    }
    fill(&device, 9, 2);
    device.sync().unwrap();
    let crashed = device.crash(3).unwrap();
    assert_eq!((count(&crashed, 0), count(&crashed, 2)), (31, 1));
    assert_eq!(crashed.allocated_bytes(), device.allocated_bytes());
}

#[test]
fn a_crash_leaves_whole_pages_where_the_disk_writes_pages() {
    let device = device();
    fill_all(&device, 1);
    let torn = |atomicity| {
        (0..64).any(|seed| {
            let crashed = device.crash_with(seed, atomicity).unwrap();
            (0..SECTORS / 8).any(|page| {
                let kept = (8 * page..8 * page + 8)
                    .filter(|sector| content(&crashed, *sector) == Some(1))
                    .count();
                kept != 0 && kept != 8
            })
        })
    };
    assert!(torn(Atomicity::Sector512));
    assert!(!torn(Atomicity::Page4096));
}

#[test]
fn a_rewrite_with_equal_bytes_reaches_the_disk_that_a_failed_sync_kept_them_from() {
    let device = device();
    fill_all(&device, 1);
    device.fail_sync(1, 1);
    device.sync().unwrap_err();
    device.sync().unwrap();
    assert!(count(&device.crash(0).unwrap(), 1) < SECTORS);
    let reopened = device.kill().unwrap();
    fill_all(&reopened, 1);
    reopened.sync().unwrap();
    assert_eq!(count(&reopened.crash(0).unwrap(), 1), SECTORS);
}

#[test]
fn a_preallocated_page_whose_first_write_back_failed_is_zero_after_a_crash_whatever_is_written() {
    let all = |device: &SimulatedDevice, byte| {
        fill_all(device, byte);
        device.sync().unwrap();
    };
    let device = device();
    let bytes = end_of(SECTORS) - end_of(0);
    device.reserve(end_of(0), bytes).unwrap();
    device.sync().unwrap();
    fill_all(&device, 1);
    device.fail_sync_for_good(1, 1);
    device.sync().unwrap_err();
    let stranded = count(&device.crash(0).unwrap(), 0);
    assert!((1..SECTORS).contains(&stranded), "{stranded}");
    let reopened = device.kill().unwrap();
    for device in [&device, &reopened] {
        all(device, 2);
        assert_eq!(count(device, 2), SECTORS, "as long as the system runs");
        let crashed = device.crash(0).unwrap();
        assert_eq!(
            (count(&crashed, 0), count(&crashed, 2)),
            (stranded, SECTORS - stranded)
        );
        all(&crashed, 3);
        assert_eq!(count(&crashed.crash(0).unwrap(), 3), SECTORS);
    }
    device.release(end_of(0), bytes).unwrap();
    all(&device, 4);
    assert_eq!(count(&device.crash(0).unwrap(), 4), SECTORS);
    // Pages that were written before are only overwritten.
    fill_all(&device, 5);
    device.fail_sync_for_good(1, 1);
    device.sync().unwrap_err();
    all(&device, 6);
    assert_eq!(count(&device.crash(0).unwrap(), 6), SECTORS);
}

#[test]
fn a_failed_write_stores_a_beginning_of_its_bytes() {
    let mut kept = BTreeSet::new();
    for sectors in 1..=SECTORS {
        let device = device();
        device.fail_write(2);
        fill(&device, 0, 9);
        let error = device
            .write(end_of(0), &vec![1; sectors * SECTOR_LEN])
            .unwrap_err();
        assert!(
            matches!(
                error,
                DeviceError::Io {
                    action: "write",
                    ..
                }
            ),
            "{error}"
        );
        let all = get(&device, end_of(0), sectors * SECTOR_LEN);
        let ones = all.iter().take_while(|byte| **byte == 1).count();
        assert!(all[ones..].iter().all(|byte| *byte != 1));
        assert_eq!(device.written_bytes(), (SECTOR_LEN + ones) as u64);
        kept.insert(ones * 4 / all.len());
        fill(&device, 0, 7);
        assert_eq!(device.writes(), 3);
    }
    assert!(kept.len() >= 4, "{kept:?}");
}

#[test]
fn unreadable_sectors_are_errors_of_reads_until_they_are_mended() {
    let device = device();
    fill_all(&device, 3);
    device.fail_read(end_of(2)..end_of(3));
    let mut bytes = [0; SECTOR_LEN];
    device.read(end_of(1), &mut bytes).unwrap();
    device.read(end_of(3), &mut bytes).unwrap();
    for found in [&device, &device.kill().unwrap()] {
        let error = found.read(end_of(1) + 1, &mut bytes).unwrap_err();
        assert!(
            matches!(error, DeviceError::Io { action: "read", .. }),
            "{error}"
        );
        assert_eq!(content(found, 2), Some(3), "the mapping keeps the bytes");
    }
    device.mend_reads();
    device.read(end_of(2), &mut bytes).unwrap();
    assert_eq!(bytes, [3; SECTOR_LEN]);
    assert!(matches!(
        device.read(end_of(SECTORS) - 1, &mut bytes),
        Err(DeviceError::Truncated { .. })
    ));
}

fn store_staging(device: &SimulatedDevice, byte: u8) {
    // SAFETY: the first two pages have been reserved, and no other thread has the device.
    unsafe {
        device.staging().unwrap().write_bytes(byte, 2 * PAGE_LEN);
    }
}

fn staging_sectors(device: &SimulatedDevice) -> Vec<u8> {
    let mut bytes = vec![0; 2 * PAGE_LEN];
    load(device.staging.as_ref().unwrap(), 0, &mut bytes);
    bytes
        .chunks(SECTOR_LEN)
        .map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]));
            sector[0]
        })
        .collect()
}

#[test]
fn staging_survives_a_kill_and_not_a_crash() {
    let device = device();
    device.reserve_staging(0, 2 * PAGE_BYTES).unwrap();
    store_staging(&device, 1);
    (0..20).for_each(|seed| device.writeback(seed));
    store_staging(&device, 2);
    let killed = device.kill().unwrap();
    assert_eq!(staging_sectors(&killed), [2; 16]);
    assert_eq!(killed.boot(), device.boot());
    let mut found = BTreeSet::new();
    for seed in 0..64 {
        let crashed = device.crash(seed).unwrap();
        assert_ne!(crashed.boot(), device.boot());
        let sectors = staging_sectors(&crashed);
        assert_eq!(staging_sectors(&device.crash(seed).unwrap()), sectors);
        let pages = device.crash_with(seed, Atomicity::Page4096).unwrap();
        let (first, second) = (staging_sectors(&pages), staging_sectors(&pages));
        assert!(first[..8].iter().all(|byte| *byte == first[0]));
        assert!(second[8..].iter().all(|byte| *byte == second[8]));
        found.extend(sectors);
    }
    assert_eq!(found, BTreeSet::from([0, 1, 2]));
}

#[test]
fn a_device_may_have_no_staging() {
    let device = SimulatedDevice::without_staging(&header(HEADER_BYTES + BLOCK_BYTES)).unwrap();
    let found = [device.kill().unwrap(), device.crash(0).unwrap(), device];
    for device in found {
        assert!(device.staging().is_none());
        assert!(device.reserve_staging(0, 1).is_err());
    }
    let device = empty();
    assert!(device.staging().is_some());
    assert!(device.reserve_staging(STAGING_BYTES, 1).is_err());
}

#[test]
fn bytes_are_inverted_overwritten_and_sectors_swapped_in_memory_and_on_the_disk() {
    let device = device();
    fill_all(&device, 1);
    fill(&device, 1, 2);
    device.sync().unwrap();
    device.invert_byte(end_of(2));
    let number = |sector| end_of(sector) / SECTOR_BYTES;
    device.swap_sectors(number(0), number(1));
    device.overwrite(end_of(3) + 5, b"over");
    device.overwrite(device.len_bytes() - 1, b"the end");
    for found in [device.kill().unwrap(), device.crash(1).unwrap(), device] {
        assert_eq!((content(&found, 0), content(&found, 1)), (Some(2), Some(1)));
        assert_eq!(sector(&found, 2)[..2], [0xfe, 1]);
        assert_eq!(sector(&found, 3)[4..10], *b"\x01over\x01");
        assert_eq!(
            found.snapshot_range(end_of(SECTORS) - 2..u64::MAX),
            b"\x01t"
        );
    }
}

#[test]
fn damage_is_in_memory_and_on_the_disk() {
    let device = device();
    fill_all(&device, 0xff);
    device.sync().unwrap();
    device.flip_bit(end_of(0) + 3, 4);
    device.zero(end_of(1) + 500..end_of(3));
    device.flip_bit(u64::MAX, 0);
    for found in [device.kill().unwrap(), device.crash(1).unwrap(), device] {
        let flipped = sector(&found, 0);
        assert_eq!((flipped[2], flipped[3], flipped[4]), (0xff, 0xef, 0xff));
        let partly = sector(&found, 1);
        assert!(partly[..500].iter().all(|byte| *byte == 0xff));
        assert!(partly[500..].iter().all(|byte| *byte == 0));
        assert_eq!(
            (content(&found, 2), content(&found, 3)),
            (Some(0), Some(0xff))
        );
    }
}

#[test]
fn what_was_cut_off_is_gone_for_good() {
    let device = device();
    fill_all(&device, 5);
    device.sync().unwrap();
    device.truncate(end_of(1) + 100);
    device.truncate(u64::MAX);
    device.truncate(end_of(2));
    assert_eq!(
        device.len_bytes(),
        end_of(1) + 100,
        "a longer length cuts nothing"
    );
    device.extend(end_of(SECTORS)).unwrap();
    let mut all: Vec<SimulatedDevice> = (0..32).map(|seed| device.crash(seed).unwrap()).collect();
    for crashed in &all {
        crashed.extend(end_of(SECTORS)).unwrap();
    }
    device.sync().unwrap();
    all.extend([device.kill().unwrap(), device.crash(1).unwrap(), device]);
    for found in all {
        assert_eq!(content(&found, 0), Some(5));
        let partly = sector(&found, 1);
        assert!(partly[..100].iter().all(|byte| *byte == 5));
        assert!(partly[100..].iter().all(|byte| *byte == 0));
        assert_eq!(count(&found, 0), SECTORS - 2);
    }
}

#[test]
fn syncs_and_the_bytes_they_wrote_are_counted() {
    let device = empty();
    assert_eq!((device.syncs(), device.synced_bytes()), (0, 0));
    device.extend(end_of(4)).unwrap();
    fill(&device, 0, 1);
    fill(&device, 3, 0);
    device.sync().unwrap();
    assert_eq!(
        (device.syncs(), device.synced_bytes()),
        (1, 2 * SECTOR_BYTES)
    );
    device.sync().unwrap();
    device.fail_sync(1, 0);
    assert!(device.sync().is_err());
    assert_eq!(
        (device.syncs(), device.synced_bytes()),
        (3, 2 * SECTOR_BYTES)
    );
}

#[test]
fn a_sync_runs_while_other_threads_store() {
    let device = device();
    std::thread::scope(|scope| {
        for thread in 0..2_usize {
            let device = &device;
            scope.spawn(move || {
                for round in 1..=50 {
                    (thread..SECTORS)
                        .step_by(2)
                        .for_each(|sector| fill(device, sector, round));
                }
            });
        }
        (0..20).for_each(|_| device.sync().unwrap());
    });
    device.sync().unwrap();
    assert_eq!(count(&device.crash(9).unwrap(), 50), SECTORS);
}
