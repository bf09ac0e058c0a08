//! Frames of any bytes, plain and compressed: taken apart or refused, and no memory that the bytes
//! do not account for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spikelet::fuzzing::FuzzTarget;

fuzz_target!(|data: &[u8]| {
    let _ = FuzzTarget::frames(data);
});
