//! Records with chains of edits of which the newest cannot be read: they are deleted or written
//! anew, and no other record suffers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::turns::alone;
use common::{delete, devices, digest, files, get, options, payload_of, put, simulated};
use spikelet_storage::{Device, Error, HEADER_BYTES, Namespace, Options, ReadMode, Storage};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

const BLOCKS: u64 = 10;
const BYTES: usize = 100_000;
/// The record with an edit that is damaged.
const EDITED: u64 = 1;
/// As large as that record, and the only live one in the block of the edit.
const NEIGHBOUR: u64 = 83;
const MARK: &[u8] = b"the edit that cannot be read";

/// The image of a record goes with the next edit of another one.
fn small_images(storage: Storage) -> Options {
    Options {
        image_bytes_max: 1,
        ..options(storage, BLOCKS)
    }
}

/// A block that is full of live records, one with edits; a block with the newest of these, and the
/// neighbour.
fn fill(namespace: &Namespace) {
    let put_one = |record| put(namespace, &digest(record), &payload_of(record, 0, BYTES)).unwrap();
    let edit = |record: u64, mark: &[u8]| {
        let mut edited = payload_of(record, 0, BYTES);
        edited[5_000..5_000 + mark.len()].copy_from_slice(mark);
        put(namespace, &digest(record), &edited).unwrap();
    };
    (0..=NEIGHBOUR).for_each(put_one);
    // No live entry shares a sector with the edit.
    let space = || put(namespace, &digest(NEIGHBOUR + 1), &[1; 2_000]).unwrap();
    space();
    edit(EDITED, MARK);
    space();
    put_one(NEIGHBOUR + 1);
    put_one(NEIGHBOUR + 2);
    for mark in [b"one", b"two"] {
        edit(NEIGHBOUR + 1, mark);
        edit(NEIGHBOUR + 2, mark);
    }
    (NEIGHBOUR + 3..200).for_each(put_one);
    for record in NEIGHBOUR + 1..200 {
        assert!(delete(namespace, &digest(record)).unwrap());
    }
}

/// Where the edit begins, and where its mark does.
fn edit_in(device: &[u8]) -> (usize, usize) {
    let mark = device.windows(MARK.len()).position(|bytes| bytes == MARK);
    let mark = mark.unwrap();
    let of_edited = digest(EDITED);
    let mut units = (mark - 200..mark).rev().filter(|at| at % 16 == 0);
    let begin = units.find(|at| device[at + 24..at + 44] == of_edited.as_bytes()[..]);
    (begin.unwrap(), mark)
}

fn is_damaged(namespace: &Namespace, record: u64) -> bool {
    matches!(get(namespace, &digest(record)), Err(Error::Damaged { .. }))
}

fn check(namespace: &Namespace) {
    for record in 0..200 {
        let is_there = record <= NEIGHBOUR && record != EDITED;
        let expected = is_there.then(|| payload_of(record, 0, BYTES));
        let found = get(namespace, &digest(record)).unwrap();
        assert!(found == expected, "record {record}");
    }
}

#[test]
fn a_record_with_a_damaged_edit_can_be_deleted_and_no_other_goes_with_it() {
    let _turn = alone();
    for damages_header in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let wanted = options(files(dir.path(), 1), BLOCKS);
        let (namespace, _) = Namespace::open(wanted.clone()).unwrap();
        fill(&namespace);
        namespace.close().unwrap();
        drop(namespace);
        let path = dir.path().join("device-0");
        let device = std::fs::read(&path).unwrap();
        let (begin, mark) = edit_in(&device);
        let at = if damages_header { begin + 8 } else { mark };
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_at(&[device[at] ^ 1], at as u64).unwrap();
        let (namespace, opening) = Namespace::open(wanted.clone()).unwrap();
        assert!(opening.from_snapshot && is_damaged(&namespace, EDITED));
        assert!(delete(&namespace, &digest(EDITED)).unwrap());
        namespace.maintain().unwrap();
        check(&namespace);
        // The block with the tombstone is used again, if that is forgotten.
        for record in 200..400 {
            put(&namespace, &digest(record), &[1; BYTES]).unwrap();
            assert!(delete(&namespace, &digest(record)).unwrap());
        }
        namespace.maintain().unwrap();
        // As after a kill: the log is read, not a snapshot.
        drop(namespace);
        let (namespace, opening) = Namespace::open(wanted).unwrap();
        assert!(!opening.from_snapshot);
        check(&namespace);
    }
}

#[test]
fn a_record_with_an_unreadable_edit_can_be_deleted_and_no_other_goes_with_it() {
    let _turn = alone();
    let device = simulated(1, BLOCKS).remove(0);
    let (namespace, _) = Namespace::open(Options {
        read_mode: ReadMode::Copied,
        ..small_images(devices(std::slice::from_ref(&device)))
    })
    .unwrap();
    fill(&namespace);
    namespace.sync().unwrap();
    let (begin, _) = edit_in(&device.snapshot_range(0..device.len_bytes()));
    let page = begin as u64 / 512 * 512;
    assert!(page > HEADER_BYTES);
    device.fail_read(page..page + 512);
    assert!(is_damaged(&namespace, EDITED));
    assert!(delete(&namespace, &digest(EDITED)).unwrap());
    namespace.maintain().unwrap();
    check(&namespace);
}
