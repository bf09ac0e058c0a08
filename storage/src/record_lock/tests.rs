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
    let log = &namespace.core.log;
    let appended = log.append(SpacePurpose::Write, edit.entry()).unwrap();
    namespace.truncate(Truncate::Namespace, Some(2)).unwrap();
    locked.publish_delta(&version, &edit, &appended).unwrap();
    drop(locked);
    assert!(payload(&namespace).as_ref() == Some(&edited));
    assert_eq!(namespace.stats().records, 1);
    drop(namespace);
    let namespace = open(dir.path());
    assert!(payload(&namespace) == Some(edited));
}

/// The truncation leaves the edit, which is newer, and takes the version before.
#[cfg(feature = "simulated")]
#[test]
fn an_edit_that_cannot_be_written_whole_beside_a_truncation_is_in_doubt() {
    let header = crate::device::header_of_small(32);
    let device = std::sync::Arc::new(crate::device::SimulatedDevice::new(&header).unwrap());
    let options = Options {
        background: false,
        ..Options::new("test", Storage::Devices(vec![device.clone() as _]))
    };
    let namespace = Namespace::open(options).unwrap().0;
    let lock = || namespace.lock(&DIGEST, None).unwrap();
    lock().put(&version(&[1; 4_000], 1)).unwrap();
    let mut edited = vec![1; 4_000];
    edited[2_000..2_004].fill(2);
    let (version, mut locked) = (version(&edited, 2), lock());
    let edit = locked.edited(&version).unwrap();
    let log = &namespace.core.log;
    let appended = log.append(SpacePurpose::Write, edit.entry()).unwrap();
    namespace.truncate(Truncate::Namespace, Some(2)).unwrap();
    device.fail_sync(1, 0);
    let published = locked.publish_delta(&version, &edit, &appended);
    assert!(matches!(published, Err(Error::InDoubt { .. })));
    drop(locked);
    assert!(payload(&namespace).is_none());
}

#[test]
fn an_edit_behind_a_truncation_that_buries_what_it_edits_is_no_tombstone() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = open(dir.path());
    let set_id = namespace.create_set("other").unwrap();
    let lock = || namespace.lock(&DIGEST, None).unwrap();
    lock().put(&version(b"of no set", 1)).unwrap();
    lock().delete(1).unwrap();
    let in_set = |payload, last_update_ms| NewVersion {
        set_id,
        ..version(payload, last_update_ms)
    };
    lock().put(&in_set(&[1; 4_000], 2)).unwrap();
    let mut edited = vec![1; 4_000];
    edited[2_000..2_004].fill(2);
    let (version, mut locked) = (in_set(&edited, 3), lock());
    let edit = locked.edited(&version).unwrap();
    let log = &namespace.core.log;
    let appended = log.append(SpacePurpose::Write, edit.entry()).unwrap();
    namespace.truncate(Truncate::Set(set_id), Some(3)).unwrap();
    locked.publish_delta(&version, &edit, &appended).unwrap();
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
fn a_version_made_of_a_truncated_one_goes_with_it_and_a_later_one_stays() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = open(dir.path());
    let lock = || namespace.lock(&DIGEST, None).unwrap();
    let truncate = |before_ms| namespace.truncate(Truncate::Namespace, before_ms);
    for size in [10, 4_000] {
        lock().put(&version(&vec![1; size], 1)).unwrap();
        let (edited, mut seen) = (vec![2; size], lock());
        assert!(seen.entry().unwrap().is_some());
        truncate(None).unwrap();
        let before = namespace.last_lsn();
        let put = seen.apply(&Change::Put(version(&edited, 2))).unwrap();
        assert_eq!(put, Some(before));
        assert_eq!(payload(&namespace), None);
        // The lock is free again.
        let late = lock();
        truncate(None).unwrap();
        // Its owner looks behind the truncation.
        assert!(late.entry().unwrap().is_none());
        late.put(&version(&edited, 2)).unwrap();
        assert_eq!(payload(&namespace).as_ref(), Some(&edited));
        let seen = lock();
        assert!(seen.entry().unwrap().is_some());
        // With a time it leaves later updates.
        truncate(Some(3)).unwrap();
        assert_eq!(payload(&namespace), None);
        seen.put(&version(&edited, 3)).unwrap();
        assert_eq!(payload(&namespace).as_ref(), Some(&edited));
    }
}

#[test]
fn a_group_beside_a_truncation_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = open(dir.path());
    for size in [10, 100 << 10] {
        let others = [1, 2].map(|record| Digest::new([record; Digest::LEN]));
        let payload = vec![1; size];
        let changes = others.map(|digest| {
            let lock = namespace.lock(&digest, None).unwrap();
            (lock, Change::Put(version(&payload, 1)))
        });
        namespace.truncate(Truncate::Namespace, None).unwrap();
        let refused = namespace.commit_group(changes.into());
        assert!(matches!(refused, Err(Error::Conflict { .. })));
        assert_eq!(namespace.stats().records, 0);
    }
    let lock = namespace.lock(&DIGEST, None).unwrap();
    let change = Change::Put(version(b"later", 1));
    namespace.commit_group(vec![(lock, change)]).unwrap();
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
