//! A store on files that lives long at 85 % full: two writers, overwrites, small edits, deletes,
//! expiry, and a reopening each few minutes. Contents are compared with a model all the time, and
//! all of them at each reopening. Tells minute by minute what it costs.
//!
//! `cargo bench -p spikelet-storage --bench soak -- [--minutes 1] [--dir DIR] [--seed 1]
//! [--writes-per-s 4000] [--reopen-s 180] [--device-mib 1024] [--svg FILE]`
//!
//! The lines of CSV go to the standard output, everything else to standard error. A record that is
//! wrong, lost or back from the dead ends the run with its number and seed, and the store stays
//! where it is; so do writes that were refused, at the end. `--writes-per-s 0`: as fast as it goes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![allow(missing_docs)]

#[path = "../../tests/common/chance.rs"]
mod chance;
mod chart;
mod expected;
mod latencies;
#[path = "../support/mod.rs"]
mod support;
mod writer;

use chart::Minute;
use latencies::Latencies;
use spikelet_storage::{
    BLOCK_BYTES, Durability, HEADER_BYTES, Namespace, Options, PARTITIONS, Storage, Traffic,
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{argument, number};
use writer::{Shared, Writer, now_s};

const DEVICES: u64 = 2;
const WRITERS: u64 = 2;
const FILL_PERCENT: u64 = 85;

/// Numbers of records, one for so many bytes of the devices: more than there is room for.
const BYTES_A_NUMBER: u64 = 3000;
/// How often the monitor looks around.
const LOOK: Duration = Duration::from_millis(50);
const MINUTE: Duration = Duration::from_secs(60);

/// What is wrong, or that a thread was told to stop early because another has found something.
type Outcome<T = ()> = Result<T, String>;

/// What has been counted so far, for the difference between two moments.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    device_bytes_written: u64,
    asked_bytes: u64,
    log_bytes: u64,
    puts: u64,
    refused: u64,
    waits: u64,
    checks: u64,
    compared: u64,
    reopenings: u64,
}

/// A soak: a store, who writes to it, and what was seen.
struct Soak {
    dir: PathBuf,
    device_bytes: u64,
    writers: Vec<Writer>,
    seed: u64,
    shared: Arc<Shared>,
    /// Of openings that have ended.
    earlier: Counts,
    /// The traffic of the namespace when this opening began.
    opened_with: Traffic,
    /// At the last line.
    noted: Counts,
    noted_at: Instant,
    minutes: Vec<Minute>,
}

impl Soak {
    fn new(dir: &Path) -> Self {
        let device_bytes = (number("--device-mib", 1024.0) as u64) << 20;
        let records = DEVICES * device_bytes / BYTES_A_NUMBER / WRITERS;
        let seed = number("--seed", 1.0) as u64;
        let writes_per_s = number("--writes-per-s", 4000.0);
        let pace = if writes_per_s > 0.0 {
            Duration::from_secs_f64(WRITERS as f64 / writes_per_s)
        } else {
            Duration::ZERO
        };
        Self {
            dir: dir.to_owned(),
            device_bytes,
            writers: (0..WRITERS)
                .map(|number| Writer::new(number, seed, records))
                .collect(),
            seed,
            shared: Arc::new(Shared {
                latencies: Latencies::new(),
                puts: AtomicU64::new(0),
                checks: AtomicU64::new(0),
                refused: AtomicU64::new(0),
                live_bytes: AtomicU64::new(0),
                stop: AtomicBool::new(false),
                live_bytes_max: AtomicU64::new(0),
                pace,
            }),
            earlier: Counts::default(),
            opened_with: Traffic::default(),
            noted: Counts::default(),
            noted_at: Instant::now(),
            minutes: Vec::new(),
        }
    }

    /// Opens the store; nothing may be damaged. `was_closed`: there must be a snapshot.
    fn open(&mut self, was_closed: Option<bool>) -> Outcome<Namespace> {
        let options = Options {
            max_device_bytes: HEADER_BYTES + self.device_bytes,
            durability: Durability::Interval(Duration::from_millis(100)),
            expiry_period: Duration::from_secs(10),
            ..Options::new(
                "soak",
                Storage::Files {
                    dir: self.dir.clone(),
                    devices: DEVICES as usize,
                },
            )
        };
        let begun = Instant::now();
        let (namespace, opening) = Namespace::open(options).map_err(|error| error.to_string())?;
        let damage = opening.damaged_entries
            + opening.damaged_blocks
            + opening.damaged_bytes
            + opening.unknown_bytes;
        let is_expected = was_closed.is_none_or(|closed| closed == opening.from_snapshot);
        if damage > 0 || !is_expected {
            return Err(format!("closed: {was_closed:?}, but opened: {opening:?}"));
        }
        if let Some(closed) = was_closed {
            let how = if closed { "closed" } else { "dropped" };
            eprintln!(
                "{how} and opened in {:.1?}, {} entries read",
                begun.elapsed(),
                opening.entries
            );
        }
        self.opened_with = namespace.stats().traffic;
        Ok(namespace)
    }

    fn counts(&self, namespace: &Namespace) -> Counts {
        let stats = namespace.stats();
        let (now, before) = (stats.traffic, self.opened_with);
        let log = |traffic: Traffic| traffic.appended_bytes + traffic.moved_bytes;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            device_bytes_written: device_bytes_written(),
            asked_bytes: self.earlier.asked_bytes + now.requested_bytes - before.requested_bytes,
            log_bytes: self.earlier.log_bytes + log(now) - log(before),
            puts: load(&self.shared.puts),
            refused: load(&self.shared.refused),
            waits: self.earlier.waits + stats.space_waits,
            checks: load(&self.shared.checks),
            ..self.earlier
        }
    }

    /// Notes what the minute has shown that ends now, and prints it.
    fn note(&mut self, namespace: &Namespace, begun: Instant) {
        let (now, before) = (self.counts(namespace), self.noted);
        let stats = namespace.stats();
        let seconds = self.noted_at.elapsed().as_secs_f64();
        let asked = (now.asked_bytes - before.asked_bytes).max(1) as f64;
        let (resident_mib, shared_mib) = resident_mib();
        let minute = Minute {
            minutes: begun.elapsed().as_secs_f64() / 60.0,
            puts_per_s: (now.puts - before.puts) as f64 / seconds,
            amplification: (now.device_bytes_written - before.device_bytes_written) as f64 / asked,
            log_amplification: (now.log_bytes - before.log_bytes) as f64 / asked,
            live_mib: stats.live_bytes >> 20,
            disk_mib: stats.device_bytes >> 20,
            resident_mib,
            anonymous_mib: resident_mib - shared_mib,
            put: self.shared.latencies.take(),
            refused: now.refused - before.refused,
            waits: now.waits - before.waits,
            checks: now.checks - before.checks,
            compared: now.compared - before.compared,
            reopenings: now.reopenings - before.reopenings,
        };
        println!("{}", minute.csv());
        self.minutes.push(minute);
        self.noted = now;
        self.noted_at = Instant::now();
    }

    /// Runs every writer on a thread of its own, and `look` beside them, until they have ended.
    fn with_writers(
        &mut self,
        write: impl Fn(&mut Writer, &Shared) -> Outcome + Sync,
        mut look: impl FnMut(&mut Self),
    ) -> Outcome {
        let mut writers = std::mem::take(&mut self.writers);
        let shared = Arc::clone(&self.shared);
        let (write, shared) = (&write, &shared);
        let ended = std::thread::scope(|scope| {
            let threads: Vec<_> = writers
                .iter_mut()
                .map(|writer| {
                    scope.spawn(move || {
                        let ended = write(writer, shared);
                        if ended.is_err() {
                            shared.stop.store(true, Ordering::Relaxed);
                        }
                        ended
                    })
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                std::thread::sleep(LOOK);
                look(self);
            }
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap())
        });
        self.writers = writers;
        ended
    }

    fn look_at_live_bytes(&self, namespace: &Namespace) {
        let live = namespace.stats().live_bytes;
        self.shared.live_bytes.store(live, Ordering::Relaxed);
    }

    /// Fills the store, unpaced and unmeasured.
    fn fill(&mut self, namespace: &Namespace) -> Outcome {
        let stats = namespace.stats();
        // Blocks that are open hold little: one of each writer, one of defragmentation.
        let usable = stats.available_blocks - stats.reserve_blocks - WRITERS - 1;
        let live_bytes_max = usable * BLOCK_BYTES * FILL_PERCENT / 100;
        let begun = Instant::now();
        self.shared
            .live_bytes_max
            .store(live_bytes_max, Ordering::Relaxed);
        self.with_writers(
            |writer, shared| writer.fill(namespace, shared),
            |soak| soak.look_at_live_bytes(namespace),
        )?;
        eprintln!(
            "filled to {} MiB of {} in {:.1?}",
            live_bytes_max >> 20,
            (stats.available_blocks * BLOCK_BYTES) >> 20,
            begun.elapsed()
        );
        self.shared.latencies.take();
        self.noted = self.counts(namespace);
        self.noted_at = Instant::now();
        Ok(())
    }

    /// Writes until `until`, and notes each minute.
    fn live(&mut self, namespace: &Namespace, begun: Instant, until: Instant) -> Outcome {
        self.shared.stop.store(false, Ordering::Relaxed);
        self.with_writers(
            |writer, shared| writer.run(namespace, shared),
            |soak| {
                soak.look_at_live_bytes(namespace);
                if soak.noted_at.elapsed() >= MINUTE {
                    soak.note(namespace, begun);
                }
                if Instant::now() >= until {
                    soak.shared.stop.store(true, Ordering::Relaxed);
                }
            },
        )
    }

    /// Compares all records, those that are absent among them, with the model and with a scan.
    fn check_all(&mut self, namespace: &Namespace) -> Outcome {
        let begun = Instant::now();
        let there: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .writers
                .iter_mut()
                .map(|writer| scope.spawn(move || writer.check_all(namespace)))
                .collect();
            let mut threads = threads.into_iter();
            threads.try_fold(0, |sum, thread| {
                Ok::<_, String>(sum + thread.join().unwrap()?)
            })
        })?;
        let mut scanned = 0;
        for partition in 0..PARTITIONS {
            let end = namespace.scan_partition(partition, |entry| match entry {
                Ok(_) => {
                    scanned += 1;
                    ControlFlow::Continue(())
                }
                Err(_) => ControlFlow::Break(()),
            });
            if end.is_break() {
                return Err("the scan meets a damaged record".into());
            }
        }
        // Expiry may have taken some in between.
        let records = self.writers.iter().flat_map(|writer| &writer.records);
        let over = records.filter(|expected| expected.is_over(now_s())).count() as u64;
        if scanned > there || scanned + over < there {
            return Err(format!(
                "{there} records are right, but a scan finds {scanned}"
            ));
        }
        self.earlier.compared += self
            .writers
            .iter()
            .map(|writer| writer.records.len() as u64)
            .sum::<u64>();
        eprintln!("{there} records are right, in {:.1?}", begun.elapsed());
        Ok(())
    }

    /// Ends an opening.
    fn end(&mut self, namespace: Namespace, close: bool) -> Outcome {
        if close {
            namespace.close().map_err(|error| error.to_string())?;
        }
        // The bytes of this opening stay in the sums; the process counts those of the devices.
        self.earlier = self.counts(&namespace);
        self.earlier.reopenings += 1;
        drop(namespace);
        Ok(())
    }

    fn run(&mut self) -> Outcome {
        let minutes = number("--minutes", 1.0);
        let whole = Duration::from_secs_f64(minutes * 60.0);
        let reopen_s = number("--reopen-s", 180.0);
        // At least two reopenings in a short run, one of each kind.
        let reopen = Duration::from_secs_f64(reopen_s).min(whole / 3);
        let mut namespace = self.open(None)?;
        self.fill(&namespace)?;
        println!("{}", chart::CSV_HEADER);
        let begun = Instant::now();
        for close in [true, false].into_iter().cycle() {
            let until = (Instant::now() + reopen).min(begun + whole);
            self.live(&namespace, begun, until)?;
            self.end(namespace, close)?;
            namespace = self.open(Some(close))?;
            self.check_all(&namespace)?;
            if begun.elapsed() >= whole {
                break;
            }
        }
        if self.noted_at.elapsed() > MINUTE / 4 {
            self.note(&namespace, begun);
        }
        namespace.close().map_err(|error| error.to_string())
    }
}

/// Bytes that this process has given to devices since it began.
fn device_bytes_written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok())
        .unwrap_or_default()
}

/// Resident memory of this process, and what of it belongs to mapped files, in MiB.
fn resident_mib() -> (u64, u64) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = statm
        .split_whitespace()
        .map(|count| (count.parse().unwrap_or(0_u64) * rustix::param::page_size() as u64) >> 20);
    (
        pages.nth(1).unwrap_or_default(),
        pages.next().unwrap_or_default(),
    )
}

fn main() -> ExitCode {
    let parent = argument("--dir").map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = parent.join(format!("soak-{}", std::process::id()));
    let mut soak = Soak::new(&dir);
    let ended = soak.run();
    eprintln!("{}", chart::table(&soak.minutes, 12));
    if let Some(file) = argument("--svg") {
        std::fs::write(file, chart::svg(&soak.minutes)).unwrap();
    }
    let refused = soak.shared.refused.load(Ordering::Relaxed);
    match ended {
        Ok(()) => std::fs::remove_dir_all(&dir).unwrap(),
        Err(wrong) => {
            eprintln!("seed {}: {wrong}; the store: {}", soak.seed, dir.display());
            return ExitCode::FAILURE;
        }
    }
    match refused {
        0 => ExitCode::SUCCESS,
        _ => {
            eprintln!("{refused} writes were refused");
            ExitCode::FAILURE
        }
    }
}
