//! Calls on maps as a client sends them, on a map with and one without persisted index: both become
//! the same, and stored maps are always in normal form.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use spikelet::operations::maps;
use spikelet::value::ParticleType;
use spikelet::{MapOrder, Value, fuzzing};
use support::{BIN, check_stored, piece, put_encoded, read, run, with_set};

const INDEXED: &str = "indexed";

fuzz_target!(|data: &[u8]| {
    let mut data = data;
    let Some(start) = piece(&mut data) else {
        return;
    };
    with_set(|set| {
        for bin in [BIN, INDEXED] {
            if put_encoded(set, bin, ParticleType::Map, start).is_err() {
                run(set, maps::create(bin, MapOrder::KeyValueOrdered)).expect("creates");
            }
        }
        run(set, maps::create_persistent(INDEXED, order(set))).expect("gets an index");
        while let Some(call) = piece(&mut data) {
            // An order of values changes the order of replies, and the choice of a path among equal
            // values.
            let by_value = order(set) == MapOrder::KeyValueOrdered;
            for writes in [false, true] {
                let plain = run(set, fuzzing::collection_call(BIN, writes, call));
                let indexed = run(set, fuzzing::collection_call(INDEXED, writes, call));
                if by_value {
                    assert_eq!(plain.is_err(), indexed.is_err());
                } else {
                    assert_eq!(format!("{plain:?}"), format!("{indexed:?}"));
                    let (plain, indexed) = (read(set, BIN), read(set, INDEXED));
                    assert_eq!(format!("{plain:?}"), format!("{indexed:?}"));
                }
                check_stored(set, INDEXED);
                if by_value && read(set, BIN) != read(set, INDEXED) {
                    return;
                }
            }
        }
    });
});

fn order(set: &spikelet::Set) -> MapOrder {
    match read(set, INDEXED) {
        Some(Value::Map(map)) => map.order(),
        other => panic!("{other:?} is no map"),
    }
}
