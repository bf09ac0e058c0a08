//! Unpacks the stores of `data/`: the drawing is in `main.rs`.

use crate::BLOCKS;
use crate::common::header;
use spikelet_storage::{Device, SimulatedDevice};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const UNIT: usize = 16;

/// Takes so many bytes off the front.
fn take<'a>(packed: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = packed.split_at(count);
    *packed = rest;
    taken
}

fn u32_of(packed: &mut &[u8]) -> usize {
    u32::from_le_bytes(take(packed, 4).try_into().unwrap()) as usize
}

/// A file of a store: name, length, and the parts that are not zero with their offsets.
struct Unpacked<'a> {
    name: &'a str,
    len_bytes: u64,
    parts: Vec<(u64, &'a [u8])>,
}

fn unpack(mut packed: &[u8]) -> Vec<Unpacked<'_>> {
    let mut unpacked = Vec::new();
    while let [name_bytes, rest @ ..] = packed {
        packed = rest;
        let name = str::from_utf8(take(&mut packed, usize::from(*name_bytes))).unwrap();
        let len_bytes = u64::from_le_bytes(take(&mut packed, 8).try_into().unwrap());
        let mut parts = Vec::new();
        for _ in 0..u32_of(&mut packed) {
            let (first, units) = (u32_of(&mut packed), u32_of(&mut packed));
            let from = (first * UNIT) as u64;
            let bytes = ((units * UNIT) as u64).min(len_bytes - from);
            parts.push((from, take(&mut packed, bytes as usize)));
        }
        unpacked.push(Unpacked {
            name,
            len_bytes,
            parts,
        });
    }
    unpacked
}

/// Unpacks a store into a directory.
pub fn unpack_into(dir: &Path, packed: &[u8]) {
    for unpacked in unpack(packed) {
        let file = File::create(dir.join(unpacked.name)).unwrap();
        file.set_len(unpacked.len_bytes).unwrap();
        for (at, part) in unpacked.parts {
            file.write_all_at(part, at).unwrap();
        }
    }
}

/// Unpacks the device of a store into a simulated one.
pub fn unpack_device(packed: &[u8]) -> Arc<SimulatedDevice> {
    let device = SimulatedDevice::new(&header(0, 1, BLOCKS)).unwrap();
    let unpacked = &unpack(packed)[0];
    device.extend(unpacked.len_bytes).unwrap();
    // A device of format 1 has one copy of its static header.
    device.zero(12_288..12_416);
    for (at, part) in &unpacked.parts {
        device.overwrite(*at, part);
    }
    // Both states of the new device are gone: its second copy was never written.
    device.sync().unwrap();
    Arc::new(device)
}
