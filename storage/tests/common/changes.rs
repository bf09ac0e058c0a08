//! What the tests of changes share: a set that is followed, and reading all there is.

use super::{digest, version};
use spikelet_storage::{ChangeReader, Delivery, LoggedChange, Lsn, Namespace, NewVersion, ReadEnd};

/// Creates a set that is followed.
pub fn fed(namespace: &Namespace) -> u16 {
    let set = namespace.create_set("users").unwrap();
    namespace.set_fed(set, true).unwrap();
    set
}

/// Puts a version with a key. Returns its number.
pub fn put(
    namespace: &Namespace,
    set_id: u16,
    number: u64,
    generation: u16,
    payload: &[u8],
) -> u64 {
    let key = number.to_le_bytes();
    let new = NewVersion {
        set_id,
        generation,
        key: Some(&key),
        ..version(payload)
    };
    let lock = namespace.lock(&digest(number), None).unwrap();
    lock.put(&new).unwrap().get()
}

/// Reads all that there is.
pub fn read_all(reader: &mut ChangeReader) -> Vec<LoggedChange> {
    let mut all = Vec::new();
    loop {
        let read = reader.read(7, |_, _| true).unwrap();
        let is_last = read.end == ReadEnd::Last;
        all.extend(read.changes);
        if is_last {
            return all;
        }
    }
}

/// Reads all changes after a position.
pub fn read_from(namespace: &Namespace, delivery: Delivery, position: u64) -> Vec<LoggedChange> {
    read_all(&mut namespace.read_changes(delivery, Lsn::new(position)))
}
