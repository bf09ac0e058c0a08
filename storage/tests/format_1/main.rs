//! Stores of format 1 open, and are converted as they are written.
//!
//! `data/` holds two of them, written by the last storage engine of format 1 (commit 3bcf7d4): one
//! that was closed, with its snapshot, and one whose process was killed. Both went through this:
//!
//! 1. Records 0 to 149 in sets "", "users", "posts" and "old" (the number modulo 4), with a key if
//!    the number is a multiple of 5; synced.
//! 2. A second version of 0 to 47, some deleted, some of these written again; 80 to 87 rewritten
//!    in recycled slots; a group of 300, 301, 304 and the deletion of 302; synced.
//! 3. A third version of 301; set "old" truncated; 3, 7 and 11 of it written again; synced.
//! 4. Records of zeros, a MiB each, which take no room in the packed file: 400 to 423, then most of
//!    them deleted, maintenance, which freed two blocks, and 424 to 426; synced.
//! 5. 500 to 511, a seventh version of 20 to 27, 33 deleted, a group of 310, 311 and the deletion
//!    of 34. Never synced, except by the close.
//!
//! Beside each lies what the old program read of it, a line for each record.
//!
//! ```text
//! packed: for each file: u8 name length | name | u64 length of the file | u32 runs
//!         each run: u32 first unit | u32 units | their bytes; units of 16 bytes, the rest is zero
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "../common/mod.rs"]
mod common;
mod expected;
mod packed;

use common::{Chance, NOW_MS, digest, long};
use expected::{
    LATER_MS, Record, Records, check, check_sound, check_undamaged, content, delete, expected, key,
    killed_copy, maintain, old_blocks, old_blocks_of, on, payload, put, put_at, store_of,
    version_of,
};
use packed::{unpack_device, unpack_into};
use spikelet_storage::{
    BLOCK_BYTES, Change, Device, Error, HEADER_BYTES, Namespace, SimulatedDevice, Truncate,
    read_header,
};
use std::sync::Arc;

const CLOSED: (&[u8], &str) = (
    include_bytes!("../data/format-1-closed.packed"),
    include_str!("../data/format-1-closed.txt"),
);
const KILLED: (&[u8], &str) = (
    include_bytes!("../data/format-1-killed.packed"),
    include_str!("../data/format-1-killed.txt"),
);

/// The blocks that each device may have.
const BLOCKS: u64 = 12;
/// Records of zeros.
const LARGE: std::ops::Range<u64> = 400..500;

/// Opens the device three times, writes each time, and compares what it holds before and after.
fn check_openings(device: &Arc<SimulatedDevice>, records: &mut Records) {
    for round in 0..3 {
        let what = format!("opening {round}");
        let (namespace, opening) = Namespace::open(on(device)).unwrap();
        check_undamaged(&opening, &what);
        check(&namespace, records, &what);
        put(&namespace, records, 600);
        namespace.sync().unwrap();
        drop(namespace);
        check_sound(&on(device), &what);
    }
}

#[test]
fn a_store_of_format_1_is_read_and_verified_without_being_changed() {
    for (packed, text) in [CLOSED, KILLED] {
        let dir = tempfile::tempdir().unwrap();
        unpack_into(dir.path(), packed);
        let before = std::fs::read(dir.path().join("device-0")).unwrap();
        let expected = expected(text);
        let (namespace, opening) = Namespace::open_read_only(store_of(dir.path())).unwrap();
        check_undamaged(&opening, "read-only");
        assert_eq!(opening.blocks, 2);
        check(&namespace, &expected, "read-only");
        drop(namespace);
        let verified = check_sound(&store_of(dir.path()), "as it was");
        assert_eq!(verified.records, expected.len() as u64);
        assert!(before == std::fs::read(dir.path().join("device-0")).unwrap());
        assert_eq!(version_of(dir.path()), 1);
    }
}

#[test]
fn a_store_of_format_1_is_converted_as_it_is_written() {
    for (number, (packed, text)) in [CLOSED, KILLED].into_iter().enumerate() {
        let what = ["closed", "killed"][number];
        let mut dir = tempfile::tempdir().unwrap();
        unpack_into(dir.path(), packed);
        let mut records = expected(text);
        let (namespace, opening) = Namespace::open(store_of(dir.path())).unwrap();
        check_undamaged(&opening, what);
        assert_eq!(version_of(dir.path()), 2, "{what}");
        check(&namespace, &records, what);
        for number in (0..60).step_by(3).chain(500..505).chain(600..640) {
            put(&namespace, &mut records, number);
        }
        for number in [1, 4, 310, 402] {
            delete(&namespace, &mut records, number);
        }
        check(&namespace, &records, what);
        // Killed, three times, with some writes in between.
        let mut namespace = namespace;
        for round in 0..3 {
            let copy = killed_copy(dir.path());
            drop(namespace);
            dir = copy;
            let what = format!("{what}, kill {round}");
            let (reopened, opening) = Namespace::open(store_of(dir.path())).unwrap();
            namespace = reopened;
            check_undamaged(&opening, &what);
            check(&namespace, &records, &what);
            put(&namespace, &mut records, 700 + round);
            put(&namespace, &mut records, 20 + round);
            delete(&namespace, &mut records, 600 + round);
        }
        namespace.close().unwrap();
        drop(namespace);
        check_sound(&store_of(dir.path()), what);
        assert_eq!(old_blocks_of(dir.path()), 2, "{what}");
        let (namespace, opening) = Namespace::open(store_of(dir.path())).unwrap();
        assert!(opening.from_snapshot, "{what}");
        check(&namespace, &records, what);
    }
}

#[test]
fn maintenance_empties_old_blocks_into_new_ones() {
    for (number, (packed, text)) in [CLOSED, KILLED].into_iter().enumerate() {
        let what = ["closed", "killed"][number];
        let mut dir = tempfile::tempdir().unwrap();
        unpack_into(dir.path(), packed);
        let mut records = expected(text);
        let (mut namespace, _) = Namespace::open(store_of(dir.path())).unwrap();
        let mut left = Vec::new();
        for round in 0..4 {
            // The large records are what keeps the old blocks in use.
            for large in [[400, 401, 402], [403, 404, 440], [421, 422, 423]]
                .get(round)
                .into_iter()
                .flatten()
            {
                delete(&namespace, &mut records, *large);
            }
            maintain(&namespace, &mut records);
            let what = format!("{what}, round {round}");
            check(&namespace, &records, &what);
            left.push(old_blocks_of(dir.path()));
            if round % 2 == 0 {
                let copy = killed_copy(dir.path());
                drop(namespace);
                dir = copy;
            } else {
                namespace.close().unwrap();
                drop(namespace);
            }
            check_sound(&store_of(dir.path()), &what);
            let (reopened, opening) = Namespace::open(store_of(dir.path())).unwrap();
            check_undamaged(&opening, &what);
            check(&reopened, &records, &what);
            namespace = reopened;
            put(&namespace, &mut records, 30 + round as u64);
        }
        assert_eq!(left.last(), Some(&0), "{what}: {left:?}");
        // Enough for every block to have a life of format 2.
        for round in 0..60 {
            if namespace.stats().stop_writes {
                maintain(&namespace, &mut records);
            }
            put(&namespace, &mut records, 450 + round % 3);
        }
        check(&namespace, &records, what);
        let copy = killed_copy(dir.path());
        check_sound(&store_of(copy.path()), what);
    }
}

#[test]
fn a_truncation_of_format_1_hides_what_was_there_and_nothing_that_is_written_later() {
    let dir = tempfile::tempdir().unwrap();
    unpack_into(dir.path(), KILLED.0);
    let mut records = expected(KILLED.1);
    let (namespace, _) = Namespace::open(store_of(dir.path())).unwrap();
    // The clock has gone back to before the truncation.
    for number in [15, 19, 603, 607] {
        assert!(!records.contains_key(&number));
        put_at(&namespace, &mut records, number, NOW_MS);
    }
    check(&namespace, &records, "written");
    let copy = killed_copy(dir.path());
    drop(namespace);
    for round in 0..2 {
        let (namespace, _) = Namespace::open(store_of(copy.path())).unwrap();
        check(&namespace, &records, "reopened");
        assert!(namespace.get(&digest(23), |_| ()).unwrap().is_some());
        assert!(namespace.get(&digest(107), |_| ()).unwrap().is_none());
        if round == 1 {
            let old = namespace.set_id("old").unwrap();
            namespace.truncate(Truncate::Set(old), None).unwrap();
            records.retain(|_, record| record.set != "old");
            check(&namespace, &records, "truncated again");
        }
        namespace.close().unwrap();
    }
    let (namespace, _) = Namespace::open(store_of(copy.path())).unwrap();
    check(&namespace, &records, "at the end");
}

/// Where the newest entry with this content begins in a device, and where its body.
fn entry_of(device: &SimulatedDevice, number: u64, generation: u16) -> (u64, u64) {
    let payload = payload(number, generation);
    let bytes = device.snapshot_range(0..device.len_bytes());
    let is_it = |at: &usize| {
        let header = &bytes[at - 56 - key(number).map_or(0, |key| key.len() + 1)..];
        &header[24..44] == digest(number).as_bytes()
            && header[14..16] == generation.to_le_bytes()
            && bytes[*at..].starts_with(&payload)
    };
    let body = (HEADER_BYTES as usize + 200..bytes.len() - payload.len())
        .rev()
        .filter(|at| bytes[*at] == payload[0])
        .find(is_it)
        .unwrap();
    let head = body - 56 - key(number).map_or(0, |key| key.len() + 1);
    (head as u64, body as u64)
}

#[test]
fn an_entry_that_a_power_failure_has_torn_is_no_damage_after_the_conversion_either() {
    // Never synced: a new record, a new version, and the header of a third.
    let device = unpack_device(KILLED.0);
    let mut records = expected(KILLED.1);
    let (_, body) = entry_of(&device, 501, 1);
    device.invert_byte(body + 3);
    records.remove(&501);
    let (_, body) = entry_of(&device, 21, 7);
    device.zero(body..body + 5);
    let earlier = Record {
        generation: 2,
        last_update_ms: NOW_MS + 1000,
        payload: payload(21, 2),
        ..records[&21].clone()
    };
    records.insert(21, earlier);
    let (head, _) = entry_of(&device, 502, 1);
    device.zero(head..head + 20);
    records.remove(&502);
    check_sound(&on(&device), "torn");
    check_openings(&device, &mut records);
}

#[test]
fn damage_to_a_synced_record_is_told_before_and_after_the_conversion() {
    let mut records = expected(KILLED.1);
    let damaged = records.remove(&90).unwrap();
    // One byte of the body; one bit of the header.
    for what in ["body", "header"] {
        let device = unpack_device(KILLED.0);
        let (head, body) = entry_of(&device, 90, damaged.generation);
        match what {
            "body" => device.invert_byte(body + 1),
            _ => device.flip_bit(head + 20, 3),
        }
        let verified = Namespace::verify(&on(&device)).unwrap();
        assert_eq!(verified.damaged_entries, 1, "{what}");
        for round in 0..3 {
            let (namespace, opening) = Namespace::open(on(&device)).unwrap();
            assert_eq!(opening.damaged_entries, 1, "{what}, opening {round}");
            for (number, record) in records.iter().filter(|(_, record)| !record.is_expired()) {
                let found = namespace.get(&digest(*number), |entry| entry.payload().to_vec());
                assert!(found.unwrap().as_ref() == Some(&record.payload), "{number}");
            }
            let found = namespace.get(&digest(90), |_| ());
            assert!(matches!(found, Err(Error::Damaged { .. })), "{what}");
            namespace.sync().unwrap();
            namespace.maintain().unwrap();
        }
        let (namespace, _) = Namespace::open(on(&device)).unwrap();
        let mut healed = Records::from([(90, damaged.clone())]);
        put(&namespace, &mut healed, 90);
        let found = namespace.get(&digest(90), |entry| entry.payload().to_vec());
        assert_eq!(found.unwrap().unwrap(), healed[&90].payload, "{what}");
    }
}

#[test]
fn a_store_of_format_1_with_an_unreadable_sector_is_converted_and_its_header_is_copied() {
    let device = unpack_device(KILLED.0);
    let records = expected(KILLED.1);
    let (offset, _) = entry_of(&device, 90, records[&90].generation);
    let page = offset / 4096 * 4096;
    device.fail_read(page..page + 4096);
    let (namespace, opening) = Namespace::open(on(&device)).unwrap();
    assert_eq!(opening.damaged_headers, 0, "format 1 had no copy");
    // What lay in the sector cannot be read, or an older version shows: format 1 cannot tell. All others are there.
    let is_there = |(number, record): &(&u64, &Record)| {
        let found = namespace.get(&digest(**number), |entry| entry.payload().to_vec());
        matches!(found, Ok(Some(found)) if found == record.payload)
    };
    let found = records.iter().filter(is_there).count();
    assert!(
        found < records.len() && found > records.len() - 40,
        "{found}"
    );
    namespace.close().unwrap();
    drop(namespace);
    device.mend_reads();
    device.zero(0..4096);
    let (_, opening) = Namespace::open(on(&device)).unwrap();
    assert_eq!(opening.damaged_headers, 1, "{opening:?}");
}

/// One run: a converted store that loses power at some moment of some writes.
fn lose_power_while_converting(seed: u64) {
    let mut chance = Chance(seed);
    let (packed, text) = [CLOSED, KILLED][chance.below(2) as usize];
    let mut device = unpack_device(packed);
    let mut records = expected(text);
    for round in 0..3 {
        let what = format!("seed {seed}, round {round}");
        let (namespace, opening) = Namespace::open(on(&device)).unwrap();
        check_undamaged(&opening, &what);
        check(&namespace, &records, &what);
        for _ in 0..chance.below(40) {
            let number = match chance.below(4) {
                0 => 400 + chance.below(27),
                1 => 600 + chance.below(20),
                _ => chance.below(150),
            };
            match chance.below(3) {
                0 => delete(&namespace, &mut records, number),
                _ => put(&namespace, &mut records, number),
            }
        }
        // Expired records are to be gone before the sync.
        maintain(&namespace, &mut records);
        namespace.sync().unwrap();
        let promised = records.clone();
        // What follows may be lost, in any part.
        for _ in 0..chance.below(12) {
            let number = 800 + chance.below(100);
            put(&namespace, &mut records, number);
        }
        if chance.one_in(3) {
            namespace.maintain().unwrap();
        }
        if chance.one_in(2) {
            device.writeback(chance.next());
        }
        let found = Arc::new(device.crash(chance.next()).unwrap());
        drop(namespace);
        check_sound(&on(&found), &what);
        let (namespace, opening) = Namespace::open(on(&found)).unwrap();
        check_undamaged(&opening, &what);
        let is_promised = |number: &u64| *number < 800;
        let content = content(&namespace).unwrap();
        let numbers = content.keys().copied().filter(is_promised);
        let promised_numbers = promised.keys().copied().filter(is_promised);
        assert!(numbers.eq(promised_numbers), "{what}");
        for (number, record) in &content {
            let known = promised.get(number) == Some(record)
                || (*number >= 800 && record.payload == payload(*number, record.generation));
            assert!(known, "{what}: record {number}");
        }
        records = content;
        drop(namespace);
        device = found;
    }
}

#[test]
fn a_power_failure_while_a_store_is_converted_costs_nothing_that_was_synced() {
    for seed in 0..if long() { 400 } else { 24 } {
        lose_power_while_converting(seed);
    }
}

#[test]
fn a_power_failure_at_any_write_of_the_first_opening_costs_nothing() {
    for (packed, text) in [CLOSED, KILLED] {
        let records = expected(text);
        for write in 1..60 {
            let device = unpack_device(packed);
            device.fail_write(write);
            let opened = Namespace::open(on(&device));
            let done = opened.is_ok();
            drop(opened);
            let found = Arc::new(device.crash(write).unwrap());
            let what = format!("write {write}");
            let (namespace, opening) = Namespace::open(on(&found)).unwrap();
            check_undamaged(&opening, &what);
            check(&namespace, &records, &what);
            if done {
                break;
            }
            assert!(write < 59, "the opening does not end");
        }
    }
}

#[test]
fn a_group_that_was_whole_stays_so_when_its_commit_entry_moves_to_a_new_block() {
    let device = unpack_device(KILLED.0);
    let mut records = expected(KILLED.1);
    assert!(
        records.contains_key(&300) && records.contains_key(&304) && records[&310].generation == 1
    );
    let (namespace, _) = Namespace::open(on(&device)).unwrap();
    for number in LARGE {
        if records.contains_key(&number) {
            delete(&namespace, &mut records, number);
        }
    }
    maintain(&namespace, &mut records);
    namespace.sync().unwrap();
    let changes = vec![(
        namespace.lock(&digest(300), None).unwrap(),
        Change::Delete(LATER_MS),
    )];
    namespace.commit_group(changes).unwrap();
    records.remove(&300);
    namespace.sync().unwrap();
    let found = Arc::new(device.crash(5).unwrap());
    drop(namespace);
    let (namespace, opening) = Namespace::open(on(&found)).unwrap();
    check_undamaged(&opening, "moved");
    check(&namespace, &records, "moved");
    let left = old_blocks(|at, into| {
        let bytes = found.snapshot_range(at..at + into.len() as u64);
        into.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    });
    assert_eq!(left, 0);
    assert_eq!(read_header(found.as_ref()).unwrap().version, 2);
}

#[test]
fn a_block_that_format_1_never_used_is_not_taken_for_a_lost_one() {
    let device = unpack_device(KILLED.0);
    let mut records = expected(KILLED.1);
    // Nothing was ever written to blocks 1 and 2, which lie before one in use.
    for block in [1, 2] {
        let offset = HEADER_BYTES + block * BLOCK_BYTES;
        device.zero(offset..offset + 4096);
    }
    check_openings(&device, &mut records);
}

#[test]
fn a_block_that_falls_back_to_its_life_of_format_1_is_told_from_one_that_was_not_converted() {
    let device = unpack_device(KILLED.0);
    let mut records = expected(KILLED.1);
    let at = HEADER_BYTES;
    let life = device.snapshot_range(at..at + BLOCK_BYTES);
    let (namespace, _) = Namespace::open(on(&device)).unwrap();
    for number in LARGE {
        if records.contains_key(&number) {
            delete(&namespace, &mut records, number);
        }
    }
    maintain(&namespace, &mut records);
    let is_used_again = || {
        let header = device.snapshot_range(at..at + 16);
        header.starts_with(b"SPK2") && header[8..] != [0; 8]
    };
    for number in (450..500).take_while(|_| !is_used_again()) {
        put(&namespace, &mut records, number);
    }
    assert!(is_used_again());
    put(&namespace, &mut records, 0);
    namespace.sync().unwrap();
    drop(namespace);
    check_sound(&on(&device), "converted");
    // All that was written to the block since is lost, but not what was written elsewhere.
    device.overwrite(at, &life[..512]);
    device.overwrite(at + 1024, &life[1024..]);
    let verified = Namespace::verify(&on(&device)).unwrap();
    assert!(verified.is_damaged(), "{verified:?}");
    let (namespace, _) = Namespace::open(on(&device)).unwrap();
    for number in 0..1000 {
        match namespace.get(&digest(number), |entry| entry.generation()) {
            Ok(found) => {
                let known = records.get(&number).map(|record| record.generation);
                assert_eq!(found, known, "record {number}");
            }
            Err(Error::Damaged { .. } | Error::MaybeStale { .. }) => {}
            Err(other) => panic!("{number}: {other}"),
        }
    }
}
