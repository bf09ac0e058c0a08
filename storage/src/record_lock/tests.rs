//! Writes that meet a truncation between their parts.

use super::*;
use crate::core::Namespace;
use crate::options::{Options, Storage};
use crate::sets::Truncate;
use std::path::Path;

const DIGEST: Digest = Digest::new([7; Digest::LEN]);

fn open(dir: &Path) -> Namespace {
    let storage = Storage::Files {
        dir: dir.to_owned(),
        devices: 1,
    };
    let options = Options {
        background: false,
        ..Options::new("test", storage)
    };
    Namespace::open(options).unwrap().0
}

const fn version(payload: &[u8], last_update_ms: u64) -> NewVersion<'_> {
    NewVersion {
        generation: 1,
        void_time: 0,
        last_update_ms,
        set_id: 0,
        key: None,
        payload,
    }
}

fn payload(namespace: &Namespace) -> Option<Vec<u8>> {
    let found = namespace.get(&DIGEST, |entry| entry.payload().to_vec());
    found.unwrap()
}

#[test]
fn an_edit_behind_a_truncation_of_what_it_edits_is_there_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = open(dir.path());
    let lock = || namespace.lock(&DIGEST, None).unwrap();
    lock().put(&version(&[1; 4_000], 1)).unwrap();
    let mut edited = vec![1; 4_000];
    edited[2_000..2_004].fill(2);
    let (version, mut locked) = (version(&edited, 2), lock());
    let edit = locked.edited(&version).unwrap();
    namespace.truncate(Truncate::Namespace, None).unwrap();
    let log = &namespace.core.log;
    let appended = log.append(SpacePurpose::Write, edit.entry()).unwrap();
    locked.publish_delta(&version, &edit, &appended);
    drop(locked);
    assert!(payload(&namespace).as_ref() == Some(&edited));
    assert_eq!(namespace.stats().records, 1);
    drop(namespace);
    let namespace = open(dir.path());
    assert!(payload(&namespace) == Some(edited));
}

#[test]
fn an_edit_behind_a_truncation_that_buries_what_it_edits_is_no_tombstone() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = open(dir.path());
    let set_id = namespace.create_set("other").unwrap();
    let lock = || namespace.lock(&DIGEST, None).unwrap();
    lock().put(&version(b"of no set", 1)).unwrap();
    lock().delete(1).unwrap();
    let in_set = |payload| NewVersion {
        set_id,
        ..version(payload, 2)
    };
    lock().put(&in_set(&[1; 4_000])).unwrap();
    let mut edited = vec![1; 4_000];
    edited[2_000..2_004].fill(2);
    let (version, mut locked) = (in_set(&edited), lock());
    let edit = locked.edited(&version).unwrap();
    namespace.truncate(Truncate::Set(set_id), None).unwrap();
    let log = &namespace.core.log;
    let appended = log.append(SpacePurpose::Write, edit.entry()).unwrap();
    locked.publish_delta(&version, &edit, &appended);
    drop(locked);
    assert_eq!(namespace.stats().records, 1);
    assert!(lock().entry().unwrap().is_some());
    namespace.maintain().unwrap();
    assert!(payload(&namespace) == Some(edited));
}

#[test]
fn a_version_with_an_earlier_time_than_the_one_before_has_its_time_for_a_truncation_too() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = open(dir.path());
    let lock = || namespace.lock(&DIGEST, None).unwrap();
    lock().put(&version(b"before", 1_000)).unwrap();
    let (change, mut locked) = (Change::Put(version(b"later", 500)), lock());
    let log = &namespace.core.log;
    let entry = locked.entry_of(&change);
    let appended = log.append(SpacePurpose::Write, entry).unwrap();
    namespace.truncate(Truncate::Namespace, Some(800)).unwrap();
    locked.publish(&change, &appended);
    drop(locked);
    assert_eq!(payload(&namespace), Some(b"later".to_vec()));
    drop(namespace);
    let namespace = open(dir.path());
    assert_eq!(payload(&namespace), Some(b"later".to_vec()));
}

#[test]
fn a_lock_makes_one_change_and_refuses_a_second_one() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = open(dir.path());
    let mut lock = namespace.lock(&DIGEST, None).unwrap();
    lock.apply(&Change::Put(version(b"first", 1))).unwrap();
    let refused = lock.apply(&Change::Put(version(b"second", 2)));
    assert!(matches!(
        refused,
        Err(Error::BadOption { option: "lock", .. })
    ));
    assert_eq!(payload(&namespace), Some(b"first".to_vec()));
}
