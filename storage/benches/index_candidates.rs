//! Candidates for the primary index, side by side: memory, build, hit, dependent hit, miss, two
//! threads, longest stall.
//!
//! `cargo bench -p spikelet-storage --bench index_candidates -- --records 1000000 [--rounds 3] [--only NAME,NAME]`
//! `cargo bench -p spikelet-storage --bench index_candidates -- --growth`: how long the longest
//! insert of ours takes.
//!
//! Every candidate answers the same question: the entry of a digest in a simulated log, found and
//! compared there. Each run is a process of its own, so that memory is its own; rounds are
//! interleaved, and the table shows medians.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![allow(dead_code, unused_imports, missing_docs)]

#[path = "../src/bytes.rs"]
mod bytes;
#[path = "../src/digest.rs"]
mod digest;
#[path = "../src/epoch.rs"]
mod epoch;
#[path = "../src/index/mod.rs"]
mod index;
#[path = "../src/location.rs"]
mod location;
#[path = "../src/sync.rs"]
mod sync;

/// Record locks are beside the point here; only their size counts.
mod lock {
    #[derive(Debug, Default)]
    pub(crate) struct HeldLocks([u64; 4]);
}

use digest::{Digest, PARTITIONS};
use hashbrown::HashTable;
use index::{DigestIndex as Index, IndexSlot as Slot};
use location::{Location, UNIT_BYTES};
use parking_lot::RwLock;
use std::alloc::{GlobalAlloc, Layout, System};
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Bytes that are allocated and not freed.
struct Counting;
static ALLOCATED: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator; only a counter is beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn digest_of(number: u64) -> Digest {
    let one = mix(number);
    let other = mix(one ^ 0xd6e8_feb8_6659_fd93);
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&one.to_le_bytes());
    bytes[8..16].copy_from_slice(&other.to_le_bytes());
    bytes[16..].copy_from_slice(&(number as u32).to_le_bytes());
    Digest::new(bytes)
}

/// What the candidates hash by: bits of the digest that the partition does not use. One aligned
/// word: a load that spans two stores that were just made would wait for them, which is about this
/// bench and not about the index.
fn hash_of(digest: &Digest) -> u64 {
    u64::from_le_bytes(digest.as_bytes()[8..16].try_into().unwrap())
}

/// The log: one line an entry, digest and number in it. Entry n is at unit n + 1.
struct Log(memmap2::MmapMut);

const ENTRY_BYTES: usize = 64;

impl Log {
    fn new(records: u64) -> Self {
        let mut bytes = memmap2::MmapMut::map_anon(records as usize * ENTRY_BYTES).unwrap();
        for (number, entry) in (0..).zip(bytes.chunks_exact_mut(ENTRY_BYTES)) {
            entry[24..44].copy_from_slice(digest_of(number).as_bytes());
            entry[44..52].copy_from_slice(&number.to_le_bytes());
        }
        Self(bytes)
    }

    /// The number that the entry at a unit holds, if it has this digest.
    #[inline]
    fn check(&self, unit: u64, digest: &Digest) -> Option<u64> {
        let start = (unit - 1) as usize * ENTRY_BYTES;
        let entry = &self.0[start..start + ENTRY_BYTES];
        (entry[24..44] == *digest.as_bytes())
            .then(|| u64::from_le_bytes(entry[44..52].try_into().unwrap()))
    }
}

const TAIL: u64 = 0x0001_2345_6789_0001;

/// A design to be measured.
trait Design: Sync {
    fn insert(&self, digest: &Digest, unit: u64);
    fn get(&self, digest: &Digest, log: &Log) -> Option<u64>;
    fn own_figure(&self) -> Option<u64> {
        None
    }
}

/// Digests are hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        if let Some(bytes) = bytes.get(8..16) {
            self.0 = u64::from_le_bytes(bytes.try_into().unwrap());
        }
    }
    fn write_usize(&mut self, _length: usize) {}
}

struct Dash(dashmap::DashMap<Digest, [u64; 2], BuildHasherDefault<Identity>>);

impl Design for Dash {
    fn insert(&self, digest: &Digest, unit: u64) {
        self.0.insert(*digest, [unit, TAIL]);
    }
    fn get(&self, digest: &Digest, log: &Log) -> Option<u64> {
        let unit = self.0.get(digest)?[0];
        log.check(unit, digest)
    }
}

/// Shards of `hashbrown` with 64 bits of the digest in the entry.
struct Shards24(Vec<RwLock<HashTable<[u64; 3]>>>);

impl Design for Shards24 {
    fn insert(&self, digest: &Digest, unit: u64) {
        let hash = hash_of(digest);
        self.0[digest.partition()]
            .write()
            .insert_unique(hash, [hash, unit, TAIL], |it| it[0]);
    }
    fn get(&self, digest: &Digest, log: &Log) -> Option<u64> {
        let hash = hash_of(digest);
        let unit = self.0[digest.partition()]
            .read()
            .find(hash, |it| it[0] == hash)?[1];
        log.check(unit, digest)
    }
}

/// Shards of `hashbrown` with 16-byte entries: only 24 bits are left to hash by.
struct Shards16(Vec<RwLock<HashTable<[u64; 2]>>>);

fn hash_of_tag(tag: u64) -> u64 {
    tag.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Design for Shards16 {
    fn insert(&self, digest: &Digest, unit: u64) {
        let tag = u64::from(digest.tag());
        self.0[digest.partition()].write().insert_unique(
            hash_of_tag(tag),
            [(tag << 40) | unit, TAIL],
            |it| hash_of_tag(it[0] >> 40),
        );
    }
    fn get(&self, digest: &Digest, log: &Log) -> Option<u64> {
        let tag = u64::from(digest.tag());
        let shard = self.0[digest.partition()].read();
        let mut found = None;
        shard.find(hash_of_tag(tag), |it| {
            if it[0] >> 40 == tag {
                found = log.check(it[0] & ((1 << 39) - 1), digest);
            }
            found.is_some()
        });
        found
    }
}

/// Cache lines of four 16-byte entries, two lines a record can be in, and a stash; grown by 1.15.
struct Buckets16(Vec<RwLock<Lines>>);

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line([[u64; 2]; 4]);

struct Lines {
    lines: Vec<Line>,
    stash: Vec<[u64; 2]>,
    records: usize,
}

impl Lines {
    fn sized(lines: usize) -> Self {
        Self {
            lines: vec![Line([[0; 2]; 4]); lines],
            stash: Vec::new(),
            records: 0,
        }
    }

    fn places(&self, tag: u64) -> [usize; 2] {
        let lines = self.lines.len() as u64;
        let other = (hash_of_tag(tag) >> 32) * lines;
        [((tag * lines) >> 24) as usize, (other >> 32) as usize]
    }

    fn put(&mut self, entry: [u64; 2]) -> bool {
        let [one, other] = self.places(entry[0] >> 40);
        let used = |at: usize| self.lines[at].0.iter().filter(|it| it[0] != 0).count();
        let at = if used(other) < used(one) { other } else { one };
        if let Some(free) = self.lines[at].0.iter_mut().find(|it| it[0] == 0) {
            *free = entry;
            return true;
        }
        // One displacement: somebody in these lines who can live in his other line.
        for at in [one, other] {
            for place in 0..4 {
                let resident = self.lines[at].0[place];
                let [a, b] = self.places(resident[0] >> 40);
                let elsewhere = if a == at { b } else { a };
                if let Some(free) = self.lines[elsewhere].0.iter_mut().find(|it| it[0] == 0) {
                    *free = resident;
                    self.lines[at].0[place] = entry;
                    return true;
                }
            }
        }
        if self.stash.len() < 8 {
            self.stash.push(entry);
            return true;
        }
        false
    }

    fn insert(&mut self, entry: [u64; 2]) {
        let full = self.records * 100 >= self.lines.len() * 4 * 92;
        if full || !self.put(entry) {
            let mut size = self.lines.len();
            'larger: loop {
                size += (size * 15 / 100).max(1);
                let mut larger = Self::sized(size);
                for line in &self.lines {
                    for old in line.0.iter().filter(|it| it[0] != 0) {
                        if !larger.put(*old) {
                            continue 'larger;
                        }
                    }
                }
                for old in self.stash.iter().chain([&entry]) {
                    if !larger.put(*old) {
                        continue 'larger;
                    }
                }
                larger.records = self.records;
                *self = larger;
                break;
            }
        }
        self.records += 1;
    }
}

impl Design for Buckets16 {
    fn insert(&self, digest: &Digest, unit: u64) {
        let head = (u64::from(digest.tag()) << 40) | unit;
        self.0[digest.partition()].write().insert([head, TAIL]);
    }
    fn get(&self, digest: &Digest, log: &Log) -> Option<u64> {
        let tag = u64::from(digest.tag());
        let shard = self.0[digest.partition()].read();
        let [one, other] = shard.places(tag);
        let lines = shard.lines[one].0.iter().chain(&shard.lines[other].0);
        lines
            .chain(&shard.stash)
            .filter(|it| it[0] != 0 && it[0] >> 40 == tag)
            .find_map(|it| log.check(it[0] & ((1 << 39) - 1), digest))
    }
}

fn slot_at(unit: u64) -> Slot {
    Slot {
        location: Location::new(0, unit * UNIT_BYTES),
        unverified: false,
        size_units: 9,
        void_time: 0,
        tombstone: false,
        set_id: 1,
    }
}

/// The one in `src/index`.
struct Ours(Index);

impl Design for Ours {
    fn insert(&self, digest: &Digest, unit: u64) {
        self.0.lock(digest).insert(digest.tag(), slot_at(unit));
    }
    fn get(&self, digest: &Digest, log: &Log) -> Option<u64> {
        let guard = epoch::pin();
        self.0.at(digest).lookup(&guard, |candidate| {
            log.check(candidate.location.offset_bytes() / UNIT_BYTES, digest)
        })
    }
    fn own_figure(&self) -> Option<u64> {
        Some(self.0.memory_bytes())
    }
}

const NAMES: [&str; 6] = [
    "dashmap",
    "hashbrown-24",
    "hashbrown-16",
    "buckets-16",
    "buckets-16-presized",
    "sorted-16",
];

fn design(name: &str, records: u64) -> Box<dyn Design> {
    let shard_lines =
        |records: u64| (records as f64 / PARTITIONS as f64 / 4.0 / 0.86).ceil() as usize + 1;
    let buckets = |base: usize| {
        let stagger = |n: usize| base + (base as f64 * 0.15 * (n as f64 * 0.618).fract()) as usize;
        Buckets16(
            (0..PARTITIONS)
                .map(|n| RwLock::new(Lines::sized(stagger(n))))
                .collect(),
        )
    };
    match name {
        "dashmap" => Box::new(Dash(dashmap::DashMap::with_hasher_and_shard_amount(
            BuildHasherDefault::default(),
            PARTITIONS,
        ))),
        "hashbrown-24" => Box::new(Shards24(
            (0..PARTITIONS).map(|_| RwLock::default()).collect(),
        )),
        "hashbrown-16" => Box::new(Shards16(
            (0..PARTITIONS).map(|_| RwLock::default()).collect(),
        )),
        "buckets-16" => Box::new(buckets(7)),
        "buckets-16-presized" => Box::new(buckets(shard_lines(records))),
        "sorted-16" => Box::new(Ours(Index::new())),
        other => panic!("no candidate {other:?}; there are {NAMES:?}"),
    }
}

/// Nanoseconds of processor time an operation: the median of 32 pieces of the work.
fn nanoseconds(count: u64, mut work: impl FnMut(std::ops::Range<u64>)) -> f64 {
    let piece = count / 32;
    let mut figures: Vec<_> = (0..32)
        .map(|at| {
            let start = thread_time_us();
            work(at * piece..(at + 1) * piece);
            (thread_time_us() - start) * 1e3 / piece as f64
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    figures[16]
}

fn thread_time_us() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

const COLUMNS: [&str; 9] = [
    "B/record",
    "B resident",
    "build ns",
    "hit ns",
    "dep. hit ns",
    "miss ns",
    "2 threads M/s",
    "insert p99.999 us",
    "max us",
];

/// All figures of one candidate, in this process.
fn measure(name: &str, records: u64) -> [f64; COLUMNS.len()] {
    let log = Log::new(records);
    let (allocated, resident) = (ALLOCATED.load(Ordering::Relaxed), resident_bytes());
    let table = design(name, records);
    let start = thread_time_us();
    for number in 0..records {
        table.insert(&digest_of(number), number + 1);
    }
    let build = (thread_time_us() - start) * 1e3 / records as f64;
    let allocated = ALLOCATED.load(Ordering::Relaxed) - allocated;
    let resident = resident_bytes() - resident;
    let allocated = table.own_figure().unwrap_or(allocated);

    let lookups = 4_000_000u64;
    let hits = |seed: u64| {
        let (table, log) = (&table, &log);
        move |range: std::ops::Range<u64>| {
            for at in range {
                let number = mix(seed + at) % records;
                assert_eq!(black_box(table.get(&digest_of(number), log)), Some(number));
            }
        }
    };
    let hit = nanoseconds(lookups, hits(1 << 40));
    let mut number = 0;
    let dependent = nanoseconds(lookups / 2, |range| {
        for at in range {
            number = mix(number ^ at) % records;
            number = table.get(&digest_of(number), &log).unwrap();
        }
    });
    let miss = nanoseconds(lookups, |range| {
        for at in range {
            assert_eq!(black_box(table.get(&digest_of((1 << 50) + at), &log)), None);
        }
    });
    let two: f64 = std::thread::scope(|scope| {
        let threads =
            [1 << 42, 1 << 43].map(|seed| scope.spawn(move || nanoseconds(lookups, hits(seed))));
        threads
            .into_iter()
            .map(|thread| 1e3 / thread.join().unwrap())
            .sum()
    });
    drop(table);

    // Once more, each insert timed by the processor time of this thread: other work on the machine
    // is no stall.
    let table = design(name, records);
    let mut times = Vec::with_capacity(records as usize);
    let mut before = thread_time_us();
    for number in 0..records {
        table.insert(&digest_of(number), number + 1);
        let now = thread_time_us();
        times.push((now - before) as f32);
        before = now;
    }
    times.sort_by(f32::total_cmp);
    let worst = |nth: usize| f64::from(times[times.len() - nth]);
    [
        allocated as f64 / records as f64,
        resident as f64 / records as f64,
        build,
        hit,
        dependent,
        miss,
        two,
        worst((records as usize / 100_000).max(1)),
        worst(1),
    ]
}

/// The longest insert into one growing partition of ours. The same records 15 times, and of each
/// insert the quickest: what is left is not the machine's doing.
fn growth() {
    const ROUNDS: usize = 15;
    println!("| records | a partition | longest insert us |");
    println!("|---|---|---|");
    for total in [1_000_000usize, 10_000_000, 100_000_000, 1_000_000_000] {
        let count = total / PARTITIONS;
        let mut quickest = vec![f64::MAX; count];
        for _ in 0..ROUNDS {
            let index = Index::new();
            epoch::advance();
            for (number, quickest) in (0..).zip(&mut quickest) {
                let tag = (mix(number) >> 40) as u32;
                let slot = slot_at(number + 1);
                let start = Instant::now();
                index.lock_partition(0).insert(tag, slot);
                *quickest = quickest.min(start.elapsed().as_nanos() as f64 / 1e3);
            }
        }
        let longest = quickest.into_iter().fold(0.0, f64::max);
        println!("| {total} | {count} | {longest:.1} |");
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|it| it == name)?;
        arguments.get(at + 1).cloned()
    };
    if arguments.iter().any(|it| it == "--growth") {
        return growth();
    }
    let records: u64 = option("--records").map_or(1_000_000, |it| it.parse().unwrap());
    if let Some(name) = option("--run") {
        let figures = measure(&name, records).map(|it| it.to_string());
        println!("{}", figures.join(" "));
        return;
    }
    let rounds: usize = option("--rounds").map_or(3, |it| it.parse().unwrap());
    let only = option("--only");
    let names: Vec<_> = NAMES
        .into_iter()
        .filter(|name| {
            only.as_ref()
                .is_none_or(|only| only.split(',').any(|it| it == *name))
        })
        .collect();
    let mut results = vec![vec![Vec::new(); COLUMNS.len()]; names.len()];
    for _ in 0..rounds {
        for (name, result) in names.iter().zip(&mut results) {
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--run", name, "--records", &records.to_string()])
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            for (figure, values) in text.split_whitespace().zip(result) {
                values.push(figure.parse::<f64>().unwrap());
            }
        }
    }
    println!("{records} records, medians of {rounds} rounds");
    println!("| design | {} |", COLUMNS.join(" | "));
    println!("|---|{}", "---|".repeat(COLUMNS.len()));
    for (name, result) in names.iter().zip(results) {
        let row: Vec<_> = result
            .into_iter()
            .map(|mut values| {
                values.sort_by(f64::total_cmp);
                values
                    .get(values.len() / 2)
                    .map_or("-".into(), |it| format!("{it:.1}"))
            })
            .collect();
        println!("| {name} | {} |", row.join(" | "));
    }
}
