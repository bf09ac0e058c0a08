//! Helpers of the targets: a set in memory, and access to its bins.

#![allow(dead_code)]

use spikelet::value::ParticleType;
use spikelet::{Error, Operation, Set, Store, Value, operations};

pub const BIN: &str = "bin";

thread_local! {
    static SET: Set = Store::in_memory()
        .and_then(|store| store.set("fuzz"))
        .expect("a store in memory opens");
}

/// Runs `body` with a set that has no record "k".
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

/// A bin, decoded; every bin that could be written can be read.
pub fn read(set: &Set, bin: &str) -> Option<Value> {
    let record = set.get("k").expect("reads")?;
    let bins = record.into_bins().expect("what is stored can be decoded");
    bins.get(bin).cloned()
}

/// Checks that a list or map is in normal form: written by a client, it is accepted and unchanged.
/// So ordered lists are sorted, maps have each key once, and nothing is malformed.
pub fn check_stored(set: &Set, bin: &str) {
    let particle = set.read("k", |view| {
        view.particle(bin)
            .map(|(kind, bytes)| (kind, bytes.to_vec()))
    });
    let Some((kind, bytes)) = particle.expect("reads").flatten() else {
        return;
    };
    if matches!(kind, ParticleType::List | ParticleType::Map) {
        put_encoded(set, COPY, kind, &bytes).expect("what is stored can be written");
        // Compared as text: a NaN equals nothing, not even itself.
        assert_eq!(
            format!("{:?}", read(set, COPY)),
            format!("{:?}", read(set, bin))
        );
        run(set, operations::delete_bin(COPY)).expect("removes");
    } else {
        read(set, bin);
    }
}

const COPY: &str = "copy";

/// The code of an error, or the result.
pub fn run(set: &Set, operation: Operation) -> Result<Option<Value>, u8> {
    let done = set.operate("k", &[operation]);
    done.map(|done| done.value(0).cloned())
        .map_err(|error| error.result_code())
}

/// Splits off a piece; the first byte gives its length.
pub fn piece<'a>(data: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = data.split_first()?;
    let (piece, rest) = rest.split_at(rest.len().min(usize::from(*len)));
    *data = rest;
    Some(piece)
}
