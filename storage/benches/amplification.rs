//! What cleaning costs: bytes written for each byte of uniform overwrites, by the fill of the device, beside the formula of
//! a greedy cleaner, `a / (a + W(-a e^-a))` with a = 1 / fill (W: Lambert's).
//!
//! `cargo bench -p spikelet-storage --bench amplification -- [--mib 4096] [--volumes 3]`
//!
//! Records of 1 KiB in a namespace in memory; the second half of the volumes counts. Live entries over the device's blocks
//! are the fill. Refused writes are counted: there should be none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![allow(missing_docs)]

mod support;

use spikelet_storage::{
    BLOCK_BYTES, Durability, HEADER_BYTES, Namespace, NewVersion, Options, Storage,
};
use support::{digest, number};

const PAYLOAD_BYTES: usize = 1024 - 64;

/// The amplification of greedy cleaning at this fill: bytes written for each byte of the user's.
fn greedy(fill: f64) -> f64 {
    // The share of live entries in a block when it is cleaned, u, solves u = e^(-(1 - u) / fill); beside u = 1, which is not
    // meant. Each cleaned block of 1 frees 1 - u.
    let mut u = 0.5;
    for _ in 0..10_000 {
        u = f64::exp(-(1.0 - u) / fill);
    }
    1.0 / (1.0 - u)
}

fn main() {
    let device_bytes = number("--mib", 4096) << 20;
    let volumes = number("--volumes", 3);
    println!(
        "device {} MiB, {volumes} volumes written",
        device_bytes >> 20
    );
    println!("| fill | written / asked | formula | ratio | waits | refused |");
    println!("|---|---|---|---|---|---|");
    for percent in [70, 80, 85, 90] {
        let blocks = device_bytes / BLOCK_BYTES;
        let options = Options {
            max_device_bytes: HEADER_BYTES + blocks * BLOCK_BYTES,
            durability: Durability::Process,
            write_lanes: 1,
            ..Options::new("amplification", Storage::Memory)
        };
        let (namespace, _) = Namespace::open(options).unwrap();
        let payload = vec![7; PAYLOAD_BYTES];
        let mut refused = 0;
        let mut put = |record: u64| {
            let version = NewVersion {
                generation: 1,
                void_time: 0,
                last_update_ms: 1,
                set_id: 0,
                key: None,
                payload: &payload,
            };
            let lock = namespace.lock(&digest(record), None).unwrap();
            refused += u64::from(lock.put(&version).is_err());
        };
        let records = blocks * BLOCK_BYTES / 1024 * percent / 100;
        (0..records).for_each(&mut put);
        let writes = volumes * blocks * BLOCK_BYTES / 1024;
        let mut random = 88_172_645_463_325_252_u64;
        let mut overwrite = |count: u64| {
            for _ in 0..count {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                put(random % records);
            }
        };
        overwrite(writes / 2);
        let before = namespace.stats().traffic;
        overwrite(writes - writes / 2);
        let stats = namespace.stats();
        let asked = (stats.traffic.appended_bytes - before.appended_bytes) as f64;
        let moved = (stats.traffic.moved_bytes - before.moved_bytes) as f64;
        let (measured, formula) = ((asked + moved) / asked, greedy(percent as f64 / 100.0));
        println!(
            "| {percent} % | {measured:.2} | {formula:.2} | {:.2} | {} | {refused} |",
            measured / formula,
            stats.space_waits
        );
    }
}
