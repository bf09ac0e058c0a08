//! What cleaning costs: bytes written for each byte of uniform overwrites, by the fill of the
//! device, beside the formula of a greedy cleaner, `a / (a + W(-a e^-a))` with a = 1 / fill (W:
//! Lambert's).
//!
//! `cargo bench -p spikelet-storage --bench amplification -- [--mib 4096] [--volumes 3] [--writers 1] [--lanes 1]`
//!
//! Records of 1 KiB in a namespace in memory; the second half of the volumes counts. Live entries
//! over the device's blocks are the fill. Refused writes are counted: there should be none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![allow(missing_docs)]

mod support;

use spikelet_storage::{
    Durability, HEADER_BYTES, Namespace, NewVersion, Options, Storage, block_bytes_for,
};
use std::sync::atomic::{AtomicU64, Ordering};
use support::{digest, number};

const PAYLOAD_BYTES: usize = 1024 - 64;

/// The amplification of greedy cleaning at this fill: bytes written for each byte of the user's.
fn greedy(fill: f64) -> f64 {
    // The share of live entries in a block when it is cleaned, u, solves u = e^(-(1 - u) / fill);
    // beside u = 1, which is not meant. Each cleaned block of 1 frees 1 - u.
    let mut u = 0.5;
    for _ in 0..10_000 {
        u = f64::exp(-(1.0 - u) / fill);
    }
    1.0 / (1.0 - u)
}

/// Overwrites random records.
fn overwrite(put: &(impl Fn(u64) + Sync), seed: u64, count: u64, records: u64) {
    let mut random = 88_172_645_463_325_252_u64 ^ seed;
    for _ in 0..count {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        put(random % records);
    }
}

fn main() {
    let device_bytes = number("--mib", 4096) << 20;
    let (volumes, writers) = (number("--volumes", 3), number("--writers", 1));
    println!(
        "device {} MiB, {volumes} volumes written, {writers} writers",
        device_bytes >> 20
    );
    println!("| fill | written / asked | formula | ratio | waits | refused |");
    println!("|---|---|---|---|---|---|");
    for percent in [70, 80, 85, 90] {
        let options = Options {
            max_device_bytes: device_bytes,
            durability: Durability::Process,
            write_lanes: number("--lanes", 1) as usize,
            ..Options::new("amplification", Storage::Memory)
        };
        let block_bytes = block_bytes_for(device_bytes, options.max_record_bytes);
        let entry_bytes = (device_bytes - HEADER_BYTES) / block_bytes * block_bytes;
        let (namespace, _) = Namespace::open(options).unwrap();
        let payload = vec![7; PAYLOAD_BYTES];
        let refused = AtomicU64::new(0);
        let put = |record: u64| {
            let version = NewVersion {
                generation: 1,
                void_time: 0,
                last_update_ms: 1,
                set_id: 0,
                key: None,
                payload: &payload,
            };
            let lock = namespace.lock(&digest(record), None).unwrap();
            let is_refused = lock.put(&version).is_err();
            refused.fetch_add(u64::from(is_refused), Ordering::Relaxed);
        };
        let records = entry_bytes / 1024 * percent / 100;
        (0..records).for_each(&put);
        let half = volumes * entry_bytes / 1024 / 2;
        let by_all = |round: u64| {
            std::thread::scope(|scope| {
                for writer in 0..writers {
                    let seed = (round * writers + writer) << 40;
                    let put = &put;
                    scope.spawn(move || overwrite(put, seed, half / writers, records));
                }
            });
        };
        by_all(0);
        let before = namespace.stats().traffic;
        by_all(1);
        let stats = namespace.stats();
        let asked = (stats.traffic.appended_bytes - before.appended_bytes) as f64;
        let moved = (stats.traffic.moved_bytes - before.moved_bytes) as f64;
        let (measured, formula) = ((asked + moved) / asked, greedy(percent as f64 / 100.0));
        println!(
            "| {percent} % | {measured:.2} | {formula:.2} | {:.2} | {} | {} |",
            measured / formula,
            stats.space_waits,
            refused.into_inner()
        );
    }
}
