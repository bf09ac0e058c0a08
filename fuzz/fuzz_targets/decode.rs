//! Whole bins of any bytes: refused, or stored in normal form and read back as they are.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use spikelet::RecordView;
use spikelet::value::ParticleType;
use support::{BIN, check_stored, put_encoded, with_set};

const KINDS: [ParticleType; 8] = [
    ParticleType::List,
    ParticleType::Map,
    ParticleType::Hll,
    ParticleType::GeoJson,
    ParticleType::Integer,
    ParticleType::Float,
    ParticleType::Bool,
    ParticleType::String,
];

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else {
        return;
    };
    if let Some(kind) = KINDS.get(usize::from(*kind)) {
        with_set(|set| {
            if put_encoded(set, BIN, *kind, bytes).is_ok() {
                check_stored(set, BIN);
            }
        });
    } else if let Ok(view) = RecordView::parse(bytes) {
        // The body of a record, as from a damaged device: an error or a value, never a panic.
        let _ = view.to_bins();
    }
});
