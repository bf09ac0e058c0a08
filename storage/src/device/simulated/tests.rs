//! The simulated disk against a naive model of one.

use proptest::prelude::*;

use super::*;
use crate::device::BLOCK_BYTES;
use crate::device::testing::header;

/// Where the tests store, and how much is enough of it.
const FIRST: usize = (HEADER_BYTES / SECTOR_BYTES) as usize;
const SECTORS: usize = 64;

fn empty() -> SimulatedDevice {
    SimulatedDevice::new(&header(HEADER_BYTES + BLOCK_BYTES)).unwrap()
}

/// A device with room for the sectors of the tests, grown and synced.
fn device() -> SimulatedDevice {
    let device = empty();
    device.grow(end_of(SECTORS)).unwrap();
    device.sync().unwrap();
    device
}

fn end_of(sectors: usize) -> u64 {
    HEADER_BYTES + sectors as u64 * SECTOR_BYTES
}

fn fill(device: &SimulatedDevice, sector: usize, byte: u8) {
    device.store(FIRST + sector, &[byte; SECTOR_LEN]);
}

fn fill_all(device: &SimulatedDevice, byte: u8) {
    (0..SECTORS).for_each(|sector| fill(device, sector, byte));
}

/// The byte of which a sector consists, if it is one.
fn content(device: &SimulatedDevice, sector: usize) -> Option<u8> {
    let bytes = device.load(FIRST + sector);
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
        // For each sector: what is stored now, and all that a disk may hold.
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
        .for_each(|len_bytes| device.grow(*len_bytes).unwrap());
    fill(&device, 2, 7);
    let crashes: Vec<SimulatedDevice> = (0..64).map(|seed| device.crash(seed).unwrap()).collect();
    for crashed in &crashes {
        assert!(lengths.contains(&crashed.len_bytes()));
        let lost = crashed.len_bytes() < end_of(3);
        crashed.grow(end_of(3)).unwrap();
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
fn a_full_disk_refuses_growth_and_changes_nothing() {
    let device = empty();
    device.set_space_bytes(end_of(2));
    device.grow(end_of(2)).unwrap();
    match device.grow(end_of(3)) {
        Err(DeviceError::Full {
            cause,
            len_bytes,
            wanted_bytes,
            ..
        }) => {
            assert_eq!(cause, FullCause::Disk);
            assert_eq!((len_bytes, wanted_bytes), (end_of(2), end_of(3)));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(device.len_bytes(), end_of(2));
    device.set_space_bytes(end_of(4));
    device.grow(end_of(3)).unwrap();
    let error = device.grow(device.max_bytes() + 1).unwrap_err();
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
fn damage_is_in_memory_and_on_the_disk() {
    let device = device();
    fill_all(&device, 0xff);
    device.sync().unwrap();
    device.flip_bit(end_of(0) + 3, 4);
    device.zero(end_of(1) + 500..end_of(3));
    device.flip_bit(u64::MAX, 0);
    for found in [device.kill().unwrap(), device.crash(1).unwrap(), device] {
        let flipped = found.load(FIRST);
        assert_eq!((flipped[2], flipped[3], flipped[4]), (0xff, 0xef, 0xff));
        let partly = found.load(FIRST + 1);
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
    device.grow(end_of(SECTORS)).unwrap();
    let mut all: Vec<SimulatedDevice> = (0..32).map(|seed| device.crash(seed).unwrap()).collect();
    for crashed in &all {
        crashed.grow(end_of(SECTORS)).unwrap();
    }
    device.sync().unwrap();
    all.extend([device.kill().unwrap(), device.crash(1).unwrap(), device]);
    for found in all {
        assert_eq!(content(&found, 0), Some(5));
        let partly = found.load(FIRST + 1);
        assert!(partly[..100].iter().all(|byte| *byte == 5));
        assert!(partly[100..].iter().all(|byte| *byte == 0));
        assert_eq!(count(&found, 0), SECTORS - 2);
    }
}

#[test]
fn syncs_and_the_bytes_they_wrote_are_counted() {
    let device = empty();
    assert_eq!((device.syncs(), device.synced_bytes()), (0, 0));
    device.grow(end_of(4)).unwrap();
    fill(&device, 0, 1);
    fill(&device, 3, 1);
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
