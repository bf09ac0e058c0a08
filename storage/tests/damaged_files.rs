//! Damage to the bytes of a store: nothing panics, nothing wrong is read, and one flipped bit costs
//! one record at most.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::small::{BLOCKS, Small, check, expected, fill};
use common::{Chance, delete, devices, digest, get, options, put, simulated};
use spikelet_storage::{BLOCK_BYTES, Error, HEADER_BYTES, Namespace};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The offset of the first entry.
const ENTRIES: u64 = HEADER_BYTES + 1024;
/// One in `sample` bits of some regions, about a hundred times as many at length: all of them where
/// opening is cheap.
fn bits(regions: Vec<Range<u64>>, sample: u64, seed: u64) -> impl Iterator<Item = (u64, u32)> {
    let sample = if common::long() { sample / 96 } else { sample };
    let mut chance = Chance(seed);
    let all = regions
        .into_iter()
        .flatten()
        .flat_map(|offset| (0..8).map(move |bit| (offset, bit)));
    all.filter(move |_| chance.one_in(sample))
}

fn flip_bits_and_read(close: bool, seed: u64) {
    let small = Small::new(close);
    let mut damaged = 0;
    for (offset, bit) in bits(small.regions(), 96, seed) {
        let what = format!("bit {bit} of byte {offset} flipped");
        small.flip(offset, bit);
        let (namespace, opening) = Namespace::open_read_only(small.options()).unwrap();
        assert_eq!(opening.from_snapshot, close, "{what}");
        let lost = check(&namespace, &what);
        drop(namespace);
        let verified = Namespace::verify(&small.options()).unwrap();
        if !(ENTRIES..HEADER_BYTES + BLOCK_BYTES).contains(&offset) {
            assert_eq!(lost, [], "{what}");
            assert_eq!(verified.damaged_headers, 1, "{what}: {verified:?}");
        }
        assert!(lost.len() <= 1, "{what} costs records {lost:?}");
        assert!(
            verified.is_damaged() || lost.is_empty(),
            "{what} goes unnoticed"
        );
        damaged += lost.len();
        small.write(offset, &[small.byte(offset)]);
    }
    assert!(damaged > 0, "some of the flips must have met a record");
}

#[test]
fn one_flipped_bit_of_a_closed_store_costs_one_record_at_most() {
    flip_bits_and_read(true, 1);
}

#[test]
fn one_flipped_bit_of_a_store_that_was_not_closed_costs_one_record_at_most() {
    flip_bits_and_read(false, 2);
}

#[test]
fn a_store_with_a_flipped_bit_can_be_written_to_and_its_headers_are_mended() {
    for close in [true, false] {
        let small = Small::with_blocks(close, 12);
        for (offset, bit) in bits(small.regions(), 500, 3) {
            let what = format!("bit {bit} of byte {offset} flipped, closed: {close}");
            small.flip(offset, bit);
            let (namespace, _) = Namespace::open(small.options()).unwrap();
            let lost = check(&namespace, &what);
            assert!(lost.len() <= 1, "{what} costs records {lost:?}");
            for number in &lost {
                put(&namespace, &digest(*number), b"restored").unwrap();
            }
            put(&namespace, &digest(11), b"new").unwrap();
            namespace.sync().unwrap();
            namespace.maintain().unwrap();
            namespace.close().unwrap();
            drop(namespace);
            let verified = Namespace::verify(&small.options()).unwrap();
            assert_eq!(verified.damaged_headers, 0, "{what}: {verified:?}");
            std::fs::remove_file(small.snapshot()).unwrap();
            for _ in ["from the log", "from the snapshot"] {
                let (namespace, _) = Namespace::open(small.options()).unwrap();
                for (number, expected) in expected() {
                    let expected = if lost.contains(&number) {
                        Some(b"restored".to_vec())
                    } else {
                        expected
                    };
                    assert_eq!(
                        get(&namespace, &digest(number)).unwrap(),
                        expected,
                        "record {number}, {what}"
                    );
                }
                assert_eq!(
                    get(&namespace, &digest(11)).unwrap().unwrap(),
                    b"new",
                    "{what}"
                );
                namespace.close().unwrap();
            }
            small.restore();
        }
    }
}

#[test]
fn a_damaged_record_can_be_deleted() {
    let small = Small::new(true);
    let at = find(&small.start, b"the only version");
    small.flip(at, 0);
    let (namespace, _) = Namespace::open(small.options()).unwrap();
    assert_eq!(check(&namespace, "the only version damaged"), [1]);
    let lock = namespace.lock(&digest(1), None).unwrap();
    match lock.entry() {
        Err(Error::Damaged { device: 0, offset }) => assert!((ENTRIES..at).contains(&offset)),
        other => panic!("{other:?}"),
    }
    drop(lock);
    assert!(delete(&namespace, &digest(1)).unwrap());
    assert_eq!(get(&namespace, &digest(1)).unwrap(), None);
    drop(namespace);
    let (namespace, _) = Namespace::open(small.options()).unwrap();
    assert_eq!(
        get(&namespace, &digest(1)).unwrap(),
        None,
        "after a restart, too"
    );
}

fn find(bytes: &[u8], needle: &[u8]) -> u64 {
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
        .unwrap() as u64
}

#[test]
fn flipped_bits_after_a_power_failure_cost_one_record_at_most() {
    let origin = simulated(1, BLOCKS);
    let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
    fill(&namespace);
    // Never synced: they may be there or not.
    put(&namespace, &digest(20), b"unsynced").unwrap();
    let crashed = Arc::new(origin[0].crash(4).unwrap());
    let options = options(devices(&[Arc::clone(&crashed)]), BLOCKS);
    for (offset, bit) in bits(
        vec![0..128, 4096..4160, 8192..8256, ENTRIES..ENTRIES + 2000],
        64,
        4,
    ) {
        crashed.flip_bit(offset, bit);
        let what = format!("bit {bit} of byte {offset} flipped");
        let (namespace, _) = Namespace::open_read_only(options.clone()).unwrap();
        let lost = check(&namespace, &what);
        assert!(lost.len() <= 1, "{what} costs records {lost:?}");
        crashed.flip_bit(offset, bit);
    }
}

#[test]
fn zeroed_sectors_of_a_closed_store_are_noticed_by_every_record_they_held() {
    let small = Small::new(true);
    let regions = small.regions();
    let entries = regions.last().unwrap();
    let mut chance = Chance(5);
    for _ in 0..if common::long() { 2_000 } else { 60 } {
        let from = entries.start + 64 + chance.below(entries.end - entries.start);
        let bytes = 1 + chance.below(600);
        small.write(from, &vec![0; bytes as usize]);
        let (namespace, opening) = Namespace::open_read_only(small.options()).unwrap();
        assert!(opening.from_snapshot);
        check(&namespace, &format!("{bytes} bytes from {from} zeroed"));
        drop(namespace);
        small.restore();
    }
}

#[test]
fn a_damaged_snapshot_is_not_believed() {
    let small = Small::new(true);
    let snapshot = small.snapshot.clone().unwrap();
    let mut variants: Vec<(String, Vec<u8>)> =
        vec![0, 1, 7, 8, 20, snapshot.len() / 2, snapshot.len() - 1]
            .into_iter()
            .map(|length| {
                (
                    format!("cut to {length} bytes"),
                    snapshot[..length].to_vec(),
                )
            })
            .collect();
    variants.push(("foreign".into(), b"not a snapshot at all".to_vec()));
    let regions = [0..400, 400..snapshot.len() as u64];
    for (offset, bit) in
        bits(vec![regions[0].clone()], 100, 6).chain(bits(vec![regions[1].clone()], 4000, 7))
    {
        let mut flipped = snapshot.clone();
        flipped[offset as usize] ^= 1 << bit;
        variants.push((
            format!("bit {bit} of byte {offset} of the snapshot flipped"),
            flipped,
        ));
    }
    for (what, content) in variants {
        std::fs::write(small.snapshot(), content).unwrap();
        let (namespace, opening) = Namespace::open_read_only(small.options()).unwrap();
        assert!(!opening.from_snapshot, "{what}");
        assert_eq!(check(&namespace, &what), [], "{what}");
        drop(namespace);
        assert!(
            Namespace::verify(&small.options()).unwrap().is_damaged(),
            "{what}"
        );
    }
}

#[test]
fn the_snapshot_of_an_earlier_close_is_not_believed() {
    let small = Small::new(true);
    let (namespace, _) = Namespace::open(small.options()).unwrap();
    put(&namespace, &digest(1), b"after the snapshot").unwrap();
    namespace.close().unwrap();
    drop(namespace);
    std::fs::write(small.snapshot(), small.snapshot.as_ref().unwrap()).unwrap();
    let (namespace, opening) = Namespace::open(small.options()).unwrap();
    assert!(!opening.from_snapshot);
    assert_eq!(
        get(&namespace, &digest(1)).unwrap().unwrap(),
        b"after the snapshot"
    );
}

#[test]
fn both_copies_of_the_state_lost_do_not_bring_the_snapshot_of_an_earlier_close_back() {
    let small = Small::new(true);
    let (namespace, _) = Namespace::open(small.options()).unwrap();
    put(&namespace, &digest(1), b"after the snapshot").unwrap();
    drop(namespace);
    for zeroed in [vec![4096], vec![8192], vec![4096, 8192]] {
        let before = zeroed
            .iter()
            .map(|offset| small.read(*offset, 64))
            .collect::<Vec<_>>();
        for offset in &zeroed {
            small.write(*offset, &[0; 64]);
        }
        let opened = Namespace::open_read_only(small.options());
        if zeroed.len() == 2 {
            // Without its state the store cannot know which writes were durable, so it must not
            // open as if nothing were lost.
            let refused = opened.unwrap_err().to_string();
            assert!(refused.contains("both copies of its state"), "{refused}");
            continue;
        }
        let (namespace, opening) = opened.unwrap();
        assert!(!opening.from_snapshot, "{zeroed:?}");
        assert_eq!(
            get(&namespace, &digest(1)).unwrap().unwrap(),
            b"after the snapshot",
            "{zeroed:?}"
        );
        small.write(zeroed[0], &before[0]);
    }
}
#[test]
fn verify_counts_the_remains_of_superseded_versions_apart_from_damage() {
    // A version that newer ones have superseded, and the newest of its record; whether that is
    // damage.
    for (body, is_damage) in [
        (b"the second version".as_slice(), false),
        (b"the third version".as_slice(), true),
    ] {
        let small = Small::new(false);
        let found = small
            .start
            .windows(body.len())
            .rposition(|window| window == body)
            .unwrap();
        small.write(found as u64, b"TORN");
        let verified = Namespace::verify(&small.options()).unwrap();
        let counts = (verified.leftover_entries, verified.damaged_entries);
        let expected = if is_damage { (0, 1) } else { (1, 0) };
        assert_eq!(counts, expected, "{verified:?}");
        assert_eq!(verified.is_damaged(), is_damage, "{verified:?}");
        let listed = verified.places.iter();
        let listed = listed.filter(|place| place.what.contains("changed since it was written"));
        assert_eq!(listed.count() as u64, verified.damaged_entries);
        let (namespace, opening) = Namespace::open_read_only(small.options()).unwrap();
        assert_eq!(opening.damaged_entries, 1);
        let lost = check(&namespace, "a torn version");
        assert_eq!(lost.len() as u64, verified.damaged_entries);
    }
}

#[test]
fn a_block_whose_header_is_lost_with_its_mirror_is_reported_and_never_used_again() {
    let small = Small::with_blocks(false, 12);
    small.write(HEADER_BYTES + 8, &[0x55; 16]);
    small.write(HEADER_BYTES + BLOCK_BYTES + 512 + 8, &[0x55; 16]);
    let block = |small: &Small| {
        let mut bytes = vec![0; BLOCK_BYTES as usize];
        File::open(small.device())
            .unwrap()
            .read_exact_at(&mut bytes, HEADER_BYTES)
            .unwrap();
        bytes
    };
    let before = block(&small);
    for close in [true, true, false] {
        let (namespace, opening) = Namespace::open(small.options()).unwrap();
        assert!(
            opening.from_snapshot || opening.damaged_blocks == 1,
            "{opening:?}"
        );
        for _ in 0..40 {
            match put(&namespace, &digest(2), &vec![2; 1 << 20]) {
                Ok(()) => namespace.sync().unwrap(),
                Err(Error::StopWrites { .. }) => drop(namespace.maintain().unwrap()),
                Err(other) => panic!("{other}"),
            }
        }
        if close {
            namespace.close().unwrap();
        }
        let now = block(&small);
        let differs = (0..before.len()).filter(|at| before[*at] != now[*at]);
        assert_eq!(
            differs.take(20).collect::<Vec<_>>(),
            [],
            "the block was written to, closed: {close}"
        );
        drop(namespace);
        let verified = Namespace::verify(&small.options()).unwrap();
        assert_eq!(verified.damaged_headers, 1, "{verified:?}");
    }
}

#[test]
fn a_static_header_that_is_lost_is_read_from_its_copy_reported_and_mended() {
    let mut chance = Chance(9);
    for (close, at) in [(true, 0), (false, 0), (true, 12_288), (false, 12_288)] {
        let random: Vec<u8> = (0..512).map(|_| chance.next() as u8).collect();
        for (what, bytes) in [("zeroed", vec![0; 4096]), ("overwritten", random)] {
            let what = format!("header at {at} {what}, closed: {close}");
            let small = Small::with_blocks(close, 12);
            small.write(at, &bytes);
            let (namespace, opening) = Namespace::open_read_only(small.options()).unwrap();
            assert_eq!(opening.damaged_headers, 1, "{what}");
            assert_eq!(check(&namespace, &what), []);
            drop(namespace);
            let verified = Namespace::verify(&small.options()).unwrap();
            assert_eq!(verified.damaged_headers, 1, "{what}: {verified:?}");
            let (namespace, opening) = Namespace::open(small.options()).unwrap();
            assert_eq!(opening.damaged_headers, 1, "{what}");
            put(&namespace, &digest(11), b"new").unwrap();
            namespace.close().unwrap();
            drop(namespace);
            let verified = Namespace::verify(&small.options()).unwrap();
            assert!(!verified.is_damaged(), "{what}: {verified:?}");
            let (namespace, opening) = Namespace::open(small.options()).unwrap();
            assert_eq!(opening.damaged_headers, 0, "{what}");
            assert_eq!(check(&namespace, &what), []);
        }
    }
}

#[test]
fn a_changed_sector_of_a_directory_is_counted_by_verify() {
    for close in [true, false] {
        let small = Small::new(close);
        // The directory grows from the end of the block downwards; the first sector is the last of
        // the block.
        let sector = HEADER_BYTES + BLOCK_BYTES - 512;
        assert!(small.byte(sector) != 0 || small.byte(sector + 1) != 0);
        let verified = Namespace::verify(&small.options()).unwrap();
        assert!(!verified.is_damaged(), "{verified:?}");
        let damages: [(&str, u64, Vec<u8>); 3] = [
            ("zeroed", sector, vec![0; 512]),
            ("a line", sector + 30, vec![!small.byte(sector + 30)]),
            ("the check", sector, vec![!small.byte(sector)]),
        ];
        for (what, at, bytes) in damages {
            let what = format!("{what}, closed: {close}");
            small.write(at, &bytes);
            let verified = Namespace::verify(&small.options()).unwrap();
            assert_eq!(verified.damaged_headers, 1, "{what}: {verified:?}");
            let listed = verified.places.iter().filter(|place| {
                place.offset == sector && place.what.contains("directory of block 0")
            });
            assert_eq!(listed.count(), 1, "{what}: {verified:?}");
            let (namespace, _) = Namespace::open_read_only(small.options()).unwrap();
            assert_eq!(check(&namespace, &what), []);
            small.restore();
        }
    }
}
