//! Writers of one list of a served store, in one record and in shards: a rehearsal of KEY_BUSY.
//!
//! Serve a store whose writes keep their record for 8 ms, and write to it:
//!
//! ```sh
//! spikelet serve --memory --hold-ms 8 --hot-set feed --monitor 127.0.0.1:9146
//! cargo run --example rehearsal --features cluster -- 127.0.0.1:3000        # in one record
//! cargo run --example rehearsal --features cluster -- 127.0.0.1:3000 8      # in 8 shards
//! spikelet top --host 127.0.0.1:9146
//! ```
//!
//! Arguments: address, shards (1), writers (40), writes a second of all of them (200), seconds (20).
//! Latencies count from the time at which a write was due.

use std::time::{Duration, Instant};

use spikelet::cluster::{Cluster, ClusterSet};
use spikelet::shard::ShardPolicy;
use spikelet::{Error, ShardedList};

/// What one writer saw.
#[derive(Default)]
struct Seen {
    acked: Vec<Duration>,
    refused: u64,
}

/// Adds an element each `pace` until the end. Who is late does not wait for the next time.
fn write(
    list: &ShardedList<ClusterSet>,
    writer: u64,
    pace: Duration,
    length: Duration,
) -> spikelet::Result<Seen> {
    let mut seen = Seen::default();
    let begun = Instant::now();
    let run = u64::from(std::process::id());
    for number in 0.. {
        let due = begun + pace * number;
        if due.duration_since(begun) >= length {
            return Ok(seen);
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let element = format!("{run}-{writer}-{number}");
        match list.add(element.as_str()) {
            Ok(_) => seen.acked.push(due.elapsed()),
            Err(Error::KeyBusy { .. }) => seen.refused += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(seen)
}

fn main() -> spikelet::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        let given = arguments.get(at).and_then(|text| text.parse().ok());
        given.unwrap_or(default)
    };
    let address = arguments.first().map_or("127.0.0.1:3000", String::as_str);
    let (shards, writers) = (number(1, 1), number(2, 40).max(1));
    let pace = Duration::from_secs_f64(writers as f64 / number(3, 200).max(1) as f64);
    let length = Duration::from_secs(number(4, 20));

    let cluster = Cluster::builder(address).namespace("test").connect()?;
    let list =
        ShardedList::new(&cluster, "feed", "front-page", "by")?.policy(ShardPolicy::manual());
    if shards > 1 {
        list.shards().activate(shards)?;
    }
    let before = list.len()?;
    let mut all = Seen::default();
    std::thread::scope(|scope| {
        let list = &list;
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                // They do not all begin at once.
                std::thread::sleep(pace / writers as u32);
                scope.spawn(move || write(list, writer, pace, length))
            })
            .collect();
        for thread in threads {
            let seen = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            all.acked.extend(seen.acked);
            all.refused += seen.refused;
        }
        Ok::<_, Error>(())
    })?;
    all.acked.sort_unstable();
    let at = |quantile: f64| {
        let place = (all.acked.len().saturating_sub(1) as f64 * quantile) as usize;
        all.acked
            .get(place)
            .copied()
            .unwrap_or_default()
            .as_secs_f64()
            * 1e3
    };
    let acked = all.acked.len() as u64;
    println!(
        "{shards} shards: {:.0} writes/s acknowledged, KEY_BUSY {:.1} %, p50 {:.0} ms, p99 {:.0} ms",
        acked as f64 / length.as_secs_f64(),
        all.refused as f64 * 100.0 / (acked + all.refused).max(1) as f64,
        at(0.5),
        at(0.99),
    );
    let found = list.len()? - before;
    println!("{acked} acknowledged, {found} found");
    Ok(())
}
