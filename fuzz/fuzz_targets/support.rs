//! What the targets share: a set in memory, and how its bins are looked at.

#![allow(dead_code)]

use spikelet::{Error, Operation, ParticleType, Set, Store, Value, operations};

pub const BIN: &str = "bin";

thread_local! {
    static SET: Set = Store::in_memory()
        .and_then(|store| store.set("fuzz"))
        .expect("a store in memory opens");
}

/// Runs `body` with a set whose record "k" does not exist.
pub fn with_set<R>(body: impl FnOnce(&Set) -> R) -> R {
    SET.with(|set| {
        set.delete("k").expect("deletes");
        body(set)
    })
}

/// Writes a bin of a client's encoding.
pub fn put_encoded(set: &Set, bin: &str, kind: ParticleType, bytes: &[u8]) -> Result<(), Error> {
    set.operate("k", &[operations::put_encoded(bin, kind, bytes)])
        .map(drop)
}

/// A bin, decoded; every bin that could be written can be read. `None` if there is none, and for extension values, which
/// clients may store, but for which there is no [`Value`].
pub fn read(set: &Set, bin: &str) -> Option<Value> {
    let record = set.get("k").expect("reads")?;
    match record.view().bin(bin)?.to_value() {
        Ok(value) => Some(value),
        Err(error) => {
            let extension = format!("{error:?}").contains("UnknownExtension");
            assert!(extension, "what is stored can be decoded: {error}");
            None
        }
    }
}

/// The bin is as it would be if it were written anew: ordered lists are sorted, maps have each key once.
pub fn check_stored(set: &Set, bin: &str) {
    if let Some(value) = read(set, bin) {
        set.put("k", [(COPY, value.clone())])
            .expect("what was read can be written");
        let copy = read(set, COPY);
        // Compared as text: a NaN equals nothing, not even itself.
        assert_eq!(format!("{copy:?}"), format!("{:?}", Some(value)));
        set.operate("k", &[operations::delete_bin(COPY)])
            .expect("removes");
    }
}

const COPY: &str = "copy";

/// The code of an error, or the result.
pub fn run(set: &Set, operation: Operation) -> Result<Option<Value>, u8> {
    let done = set.operate("k", &[operation]);
    done.map(|done| done.value(0).cloned())
        .map_err(|error| error.result_code())
}

/// Splits off a piece whose length is in the first byte.
pub fn piece<'a>(data: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = data.split_first()?;
    let (piece, rest) = rest.split_at(rest.len().min(usize::from(*len)));
    *data = rest;
    Some(piece)
}
