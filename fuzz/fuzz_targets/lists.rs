//! Calls on lists as a client sends them, on a list with and one without persisted index: both do
//! the same, and stored lists are always in normal form.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use spikelet::operations::lists;
use spikelet::value::ParticleType;
use spikelet::{ListOrder, Value, fuzzing};
use support::{BIN, check_stored, piece, put_encoded, read, run, with_set};

const INDEXED: &str = "indexed";

fuzz_target!(|data: &[u8]| {
    let mut data = data;
    let Some(start) = piece(&mut data) else {
        return;
    };
    with_set(|set| {
        for bin in [BIN, INDEXED] {
            if put_encoded(set, bin, ParticleType::List, start).is_err() {
                run(set, lists::create(bin, ListOrder::Ordered)).expect("creates");
            }
        }
        let order = match read(set, INDEXED) {
            Some(Value::List(list)) => list.order(),
            other => panic!("{other:?} is no list"),
        };
        run(set, lists::create_persistent(INDEXED, order)).expect("gets an index");
        while let Some(call) = piece(&mut data) {
            for writes in [false, true] {
                let plain = run(set, fuzzing::collection_call(BIN, writes, call));
                let indexed = run(set, fuzzing::collection_call(INDEXED, writes, call));
                assert_eq!(format!("{plain:?}"), format!("{indexed:?}"));
                let (plain, indexed) = (read(set, BIN), read(set, INDEXED));
                assert_eq!(format!("{plain:?}"), format!("{indexed:?}"));
                check_stored(set, INDEXED);
            }
        }
    });
});
