//! What many records cost: index bytes, stalls while the index grows, opening with and without a
//! snapshot, a pass over tombstones, memory and disk. Times are those of the clock; in brackets
//! that of the processors, which other programs do not change.
//!
//! `cargo bench -p spikelet-storage --bench capacity -- [--records 20000000] [--dir DIR]`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![allow(missing_docs)]

mod support;

use spikelet_storage::{Durability, Namespace, NewVersion, Options, Storage};
use std::time::{Duration, Instant};
use support::{argument, digest, number};

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or_default() >> 10
}

/// A stretch of time.
struct Stopwatch {
    begun: Instant,
    processor: Duration,
}

impl Stopwatch {
    fn start() -> Self {
        Self {
            begun: Instant::now(),
            processor: processor_time(),
        }
    }

    /// Says how long it was, by the clock and in processor time.
    fn read(&self) -> String {
        let processor = processor_time() - self.processor;
        format!("{:.1?} [{processor:.1?}]", self.begun.elapsed())
    }
}

/// What all threads of this process have used so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() {
    let records: u64 = number("--records", 1_000_000);
    let dir = argument("--dir").map_or_else(std::env::temp_dir, Into::into);
    let dir = dir.join(format!("capacity-{}", std::process::id()));
    let options = || Options {
        durability: Durability::Process,
        ..Options::new(
            "capacity",
            Storage::Files {
                dir: dir.clone(),
                devices: 1,
            },
        )
    };
    let payload = [7; 100];
    let (namespace, _) = Namespace::open(options()).unwrap();
    let version = NewVersion {
        generation: 1,
        void_time: 0,
        last_update_ms: 1,
        set_id: 0,
        key: None,
        payload: &payload,
    };
    let (begun, mut longest, mut slow) = (Stopwatch::start(), Duration::ZERO, 0);
    for record in 0..records {
        let lock = namespace.lock(&digest(record), None).unwrap();
        let one = Instant::now();
        lock.put(&version).unwrap();
        let took = one.elapsed();
        longest = longest.max(took);
        slow += u64::from(took > Duration::from_millis(1));
    }
    let stats = namespace.stats();
    println!(
        "load: {records} records, {}, longest put {longest:.1?}, {slow} above 1 ms",
        begun.read()
    );
    println!(
        "index {:.1} B a record, anonymous memory {} MiB, disk {:.1} B a record",
        stats.index_bytes_per_record(),
        resident_mib(),
        stats.device_bytes as f64 / records as f64
    );
    let begun = Stopwatch::start();
    namespace.sync().unwrap();
    println!("sync {}", begun.read());
    drop(namespace);
    let begun = Stopwatch::start();
    let (namespace, opening) = Namespace::open(options()).unwrap();
    println!(
        "opening, the log read: {} ({} entries)",
        begun.read(),
        opening.entries
    );
    let begun = Stopwatch::start();
    namespace.close().unwrap();
    drop(namespace);
    let snapshot = std::fs::metadata(dir.join("index.snapshot")).unwrap().len();
    println!(
        "clean close: {}, snapshot {:.1} B a record",
        begun.read(),
        snapshot as f64 / records as f64
    );
    let begun = Stopwatch::start();
    let (namespace, opening) = Namespace::open(options()).unwrap();
    println!(
        "opening by snapshot ({}): {}",
        opening.from_snapshot,
        begun.read()
    );
    let begun = Stopwatch::start();
    namespace.maintain().unwrap();
    println!("maintenance with nothing to do: {}", begun.read());
    let deleted = records / 100;
    for record in 0..deleted {
        namespace
            .lock(&digest(record), None)
            .unwrap()
            .delete(2)
            .unwrap();
    }
    let begun = Stopwatch::start();
    let done = namespace.maintain().unwrap();
    println!(
        "maintenance after {deleted} deletes: {} ({} tombstones forgotten, {} blocks freed)",
        begun.read(),
        done.dropped_tombstones,
        done.freed_blocks
    );
    drop(namespace);
    std::fs::remove_dir_all(&dir).unwrap();
}
