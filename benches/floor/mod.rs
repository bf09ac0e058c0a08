//! A store that does what the promises of a write need, and nothing else: what instructions cannot
//! go below.
//!
//! Of one namespace in memory, with one lane: a hashed key, one owner a record with a queue behind
//! it, readers that never wait, the order of checks, a version with generation and times, a log of
//! entries with two checks each and a directory, groups that count as a whole, counts of what lives
//! in each block, of operations and of sets. It has no options, errors that name records, sharding,
//! relations, indexes, expressions or followers, and asks for none of them. It is not shared between
//! threads (`put` takes it by `&mut`), but locks, counts and numbers as if it were.

use std::hint::black_box;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use spikelet::Value;
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128};

type Digest = [u8; 20];

const PARTITIONS: usize = 4_096;
const PLACES: usize = 16;
const LOG_BYTES: usize = 64 << 20;
const BLOCK_BYTES: usize = 1 << 20;
const HEADER_BYTES: usize = 56;
const UNIT_BYTES: usize = 16;
const SET: &[u8] = b"bench";
/// A record is smaller.
const ENTRY_BYTES_MAX: usize = 4 << 10;

/// A part of the index: 24 bits of tag and 40 of location a record.
struct Partition {
    held: Mutex<Vec<Digest>>,
    slots: [AtomicU64; PLACES],
    sizes: [AtomicU64; PLACES],
}

/// A record that the writer has locked, and its place in the index.
struct Locked {
    digest: Digest,
    place: Option<usize>,
}

/// The generation of a record after a write, and the number of the write.
type Written = (u16, u64);

pub struct Floor {
    partitions: Box<[Partition]>,
    log: Vec<u8>,
    tail: usize,
    lane: Mutex<()>,
    directory: Vec<[u8; 12]>,
    live: Box<[AtomicI64]>,
    next_lsn: AtomicU64,
    /// The present epoch, and the one that the thread works in.
    epoch: AtomicU64,
    announced: AtomicU64,
    /// Below these numbers, records of the namespace and of the set are truncated.
    truncated: [AtomicU64; 2],
    operations: AtomicU64,
    set_units: AtomicI64,
    followers: AtomicU64,
}

impl Floor {
    pub fn new() -> Self {
        let partition = |_| Partition {
            held: Mutex::new(Vec::with_capacity(2)),
            slots: Default::default(),
            sizes: Default::default(),
        };
        Self {
            partitions: (0..PARTITIONS).map(partition).collect(),
            log: vec![0; LOG_BYTES],
            tail: UNIT_BYTES,
            lane: Mutex::default(),
            directory: Vec::with_capacity(BLOCK_BYTES / 64),
            live: (0..LOG_BYTES / BLOCK_BYTES)
                .map(|_| AtomicI64::new(0))
                .collect(),
            next_lsn: AtomicU64::new(1),
            epoch: AtomicU64::new(1),
            announced: AtomicU64::new(0),
            truncated: Default::default(),
            operations: AtomicU64::new(0),
            set_units: AtomicI64::new(0),
            followers: AtomicU64::new(0),
        }
    }

    /// Sets the only bin of a record, and owns its value from then on.
    pub fn put(&mut self, key: &str, bin: &str, value: Value) -> Written {
        let digest = digest_of(key);
        let Value::Blob(bytes) = value else { panic!() };
        let edit = |_, old: &[u8], out: &mut [u8]| edit_bin(old, bin, out, |_| [&bytes, &[], &[]]);
        self.write([(key, digest)], edit)[0]
    }

    /// Sets the only bins of two records, as one group.
    pub fn put_both(&mut self, keys: [&str; 2], bin: &str, values: [Value; 2]) -> Vec<Written> {
        let both = keys.map(|key| (key, digest_of(key)));
        let edit = |at: usize, old: &[u8], out: &mut [u8]| {
            let Value::Blob(bytes) = &values[at] else {
                panic!()
            };
            edit_bin(old, bin, out, |_| [bytes, &[], &[]])
        };
        Vec::from(self.write(both, edit))
    }

    /// Adds 1 to the only bin of a record.
    pub fn count(&mut self, key: &str, bin: &str) -> Written {
        let edit = |_, old: &[u8], out: &mut [u8]| {
            let (_, before, _) = around(old, bin);
            let before = before.first_chunk().copied().unwrap_or_default();
            let sum = i64::from_be_bytes(before).wrapping_add(1).to_be_bytes();
            edit_bin(old, bin, out, |_| [&sum, &[], &[]])
        };
        self.write([(key, digest_of(key))], edit)[0]
    }

    /// Adds an element to the sorted list in a bin of each of these records, unless it is there.
    /// Elements have two bytes, so that a list needs no index.
    pub fn append<const N: usize>(
        &mut self,
        keys: [&str; N],
        bins: [&str; N],
        elements: [u16; N],
    ) -> [Written; N] {
        let edit = |at: usize, old: &[u8], out: &mut [u8]| {
            let element = elements[at].to_be_bytes();
            edit_bin(old, bins[at], out, |list| {
                let (list, _) = list.as_chunks::<2>();
                let (before, new, after) = match list.binary_search(&element) {
                    Ok(_) => (list, &[][..], &[][..]),
                    Err(to) => (&list[..to], &element[..], &list[to..]),
                };
                [before.as_flattened(), new, after.as_flattened()]
            })
        };
        self.write(keys.map(|key| (key, digest_of(key))), edit)
    }

    /// Copies a record: its key and its body.
    pub fn get(&self, key: &str) -> Option<(u16, Box<[u8]>)> {
        self.read(key, |entry| {
            let generation = u16::from_le_bytes([entry[14], entry[15]]);
            (generation, entry[HEADER_BYTES + 1..].into())
        })
    }

    /// Whether an element is in the list in the only bin of a record.
    pub fn contains(&self, key: &str, bin: &str, element: u16) -> Option<bool> {
        self.read(key, |entry| {
            let (_, body) = key_and_body(entry);
            let (list, _) = around(body, bin).1.as_chunks::<2>();
            list.binary_search(&element.to_be_bytes()).is_ok()
        })
    }

    #[inline(always)]
    fn read<R>(&self, key: &str, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.operations.fetch_add(1, Ordering::Relaxed);
        let digest = digest_of(key);
        self.enter();
        let place = self.find(&digest);
        let entry = place.map(|place| self.entry(place_location(self.slot(&digest, place))));
        let entry = entry.filter(|entry| self.is_visible(entry) && void_time(entry) == 0);
        let entry = entry.filter(|entry| key_and_body(entry).0[1..] == *key.as_bytes());
        let result = entry.map(read);
        self.leave();
        result
    }

    /// Locks the records in the order of their digests, edits each once and publishes them.
    #[inline(always)]
    fn write<const N: usize>(
        &mut self,
        records: [(&str, Digest); N],
        mut edit: impl FnMut(usize, &[u8], &mut [u8]) -> usize,
    ) -> [Written; N] {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.enter();
        let in_order = |at: usize| match N {
            2 if records[0].1 > records[1].1 => 1 - at,
            _ => at,
        };
        let mut locked: [Locked; N] = std::array::from_fn(|at| self.lock(records[in_order(at)].1));
        let now_ms = now_ms();
        let mut at_byte = self.tail;
        let mut log = std::mem::take(&mut self.log);
        let lane = self.lane.lock();
        let mut sizes = [0; N];
        let first_lsn = self.next_lsn.fetch_add(N as u64, Ordering::SeqCst);
        let mut written = [(0, 0); N];
        for (at, locked) in locked.iter().enumerate() {
            let position = in_order(at);
            let key = records[position].0.as_bytes();
            // The record as it is: visible, of this key, not expired.
            let place = locked
                .place
                .map(|place| place_location(self.slot(&locked.digest, place)));
            let (before, after) = log.split_at_mut(at_byte);
            let old = place.map(|place| entry_at(before, place));
            let old = old.filter(|old| self.is_visible(old) && !expired(old, now_ms));
            let (generation, updated_ms, body) = match old {
                Some(old) => {
                    let (stored, body) = key_and_body(old);
                    assert!(stored[1..] == *key, "another key");
                    let generation = u16::from_le_bytes([old[14], old[15]]);
                    (
                        generation.wrapping_add(1).max(1),
                        u64_at(old, 16) & ((1 << 40) - 1),
                        body,
                    )
                }
                None => (1, 0, &[][..]),
            };
            let lsn = first_lsn + at as u64;
            let (head, tail) = after.split_at_mut(HEADER_BYTES);
            tail[0] = key.len() as u8 + 1;
            tail[1] = 3;
            tail[2..2 + key.len()].copy_from_slice(key);
            let key_bytes = 2 + key.len();
            let body_bytes = key_bytes + edit(position, body, &mut tail[key_bytes..]);
            assert!(body_bytes <= ENTRY_BYTES_MAX, "too large");
            let units = (HEADER_BYTES + body_bytes).div_ceil(UNIT_BYTES);
            // Zeros pad the entry to whole units.
            tail[body_bytes..units * UNIT_BYTES - HEADER_BYTES].fill(0);
            let flags = 1 | if at + 1 < N { 2 } else { 0 } | if at > 0 { 16 } else { 0 };
            let check = xxh3_64_with_seed(&tail[..body_bytes], lsn) as u32;
            let words = [
                u64::from(check) << 32,
                lsn | u64::from(generation) << 48,
                now_ms.max(updated_ms) | (body_bytes as u64) << 40,
                u64_at(&locked.digest, 0),
                u64_at(&locked.digest, 8),
                u64::from(u32_at(&locked.digest, 16)),
                units as u64 | 1 << 20 | flags << 24 | 1 << 32,
            ];
            for (target, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words) {
                *target = word.to_le_bytes();
            }
            let check = xxh3_64_with_seed(&head[4..], at_byte as u64) as u32;
            head[..4].copy_from_slice(&check.to_le_bytes());
            let mut line = [0; 12];
            line[..8].copy_from_slice(&(lsn | 1 << 48).to_le_bytes());
            line[8..].copy_from_slice(&u32_at(&locked.digest, 2).to_le_bytes());
            self.directory.push(line);
            self.live[at_byte / BLOCK_BYTES].fetch_add(units as i64, Ordering::Relaxed);
            sizes[at] = units;
            written[position] = (generation, lsn);
            at_byte += units * UNIT_BYTES;
        }
        drop(lane);
        self.log = log;
        let mut at_byte = std::mem::replace(&mut self.tail, at_byte);
        for (locked, units) in locked.iter_mut().zip(sizes) {
            self.publish(locked, at_byte, units);
            at_byte += units * UNIT_BYTES;
        }
        if self.tail % BLOCK_BYTES > BLOCK_BYTES - 4 * ENTRY_BYTES_MAX {
            self.next_block();
        }
        self.leave();
        written
    }

    /// Begins the next block, with a directory of its own. None is freed: the log is large enough.
    #[cold]
    fn next_block(&mut self) {
        self.tail = self.tail.next_multiple_of(BLOCK_BYTES);
        self.directory.clear();
    }

    #[inline(always)]
    fn lock(&self, digest: Digest) -> Locked {
        let mut held = self.partition(&digest).held.lock();
        assert!(!held.contains(&digest), "a queue would begin here");
        held.push(digest);
        let place = self.find(&digest);
        Locked { digest, place }
    }

    #[inline(always)]
    fn publish(&self, locked: &Locked, at_byte: usize, units: usize) {
        let partition = self.partition(&locked.digest);
        let slot = u64::from(tag_of(&locked.digest)) << 40 | (at_byte / UNIT_BYTES) as u64;
        let mut held = partition.held.lock();
        let place = locked.place.unwrap_or_else(|| {
            let is_free = |slot: &AtomicU64| slot.load(Ordering::Relaxed) == 0;
            partition.slots.iter().position(is_free).expect("room")
        });
        // A truncation that begins later comes by and finds the record.
        let truncated = self
            .truncated
            .iter()
            .any(|below| below.load(Ordering::SeqCst) > 1);
        assert!(!truncated, "a truncation came between");
        let old_units = partition.sizes[place].swap(units as u64, Ordering::Relaxed);
        let old = partition.slots[place].swap(slot, Ordering::Release);
        let at = held.iter().position(|held| *held == locked.digest);
        held.swap_remove(at.expect("is held"));
        drop(held);
        if self.followers.load(Ordering::SeqCst) != 0 {
            black_box(());
        }
        let old_block = place_location(old) / BLOCK_BYTES;
        self.live[old_block].fetch_sub(old_units as i64, Ordering::Relaxed);
        if old_units != units as u64 {
            let grown = units as i64 - old_units as i64;
            self.set_units.fetch_add(grown, Ordering::Relaxed);
        }
    }

    /// Says that the thread looks at blocks, which are not freed until it has left.
    #[inline(always)]
    fn enter(&self) {
        let now = self.epoch.load(Ordering::Relaxed);
        self.announced.store(now, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    #[inline(always)]
    fn leave(&self) {
        self.announced.store(0, Ordering::Release);
    }

    #[inline(always)]
    fn partition(&self, digest: &Digest) -> &Partition {
        let number = usize::from(digest[0]) | usize::from(digest[1] & 15) << 8;
        &self.partitions[number % PARTITIONS]
    }

    #[inline(always)]
    fn slot(&self, digest: &Digest, place: usize) -> u64 {
        self.partition(digest).slots[place].load(Ordering::Acquire)
    }

    /// The place of a record: its tag fits, and its entry has its digest.
    #[inline(always)]
    fn find(&self, digest: &Digest) -> Option<usize> {
        let tag = u64::from(tag_of(digest));
        self.partition(digest).slots.iter().position(|slot| {
            let slot = slot.load(Ordering::Acquire);
            slot >> 40 == tag && slot != 0 && {
                let at = place_location(slot);
                self.log[at + 24..at + 44] == *digest
            }
        })
    }

    #[inline(always)]
    fn entry(&self, at: usize) -> &[u8] {
        entry_at(&self.log, at)
    }

    #[inline(always)]
    fn is_visible(&self, entry: &[u8]) -> bool {
        let lsn = u64_at(entry, 8) & ((1 << 48) - 1);
        self.truncated
            .iter()
            .all(|below| lsn >= below.load(Ordering::SeqCst))
    }
}

#[inline(always)]
fn entry_at(log: &[u8], at: usize) -> &[u8] {
    let entry = &log[at..];
    &entry[..HEADER_BYTES + (u64_at(entry, 16) >> 40) as usize]
}

#[inline(always)]
fn place_location(slot: u64) -> usize {
    (slot & ((1 << 40) - 1)) as usize * UNIT_BYTES
}

fn tag_of(digest: &Digest) -> u32 {
    u32_at(digest, 2) & 0x00ff_ffff
}

#[inline(always)]
fn digest_of(key: &str) -> Digest {
    let mut joined = [0; 64];
    let end = SET.len() + 1 + key.len();
    joined[..SET.len()].copy_from_slice(SET);
    joined[SET.len()] = 3;
    joined[SET.len() + 1..end].copy_from_slice(key.as_bytes());
    let wide = xxh3_128(&joined[..end]);
    let halves = wide as u64 ^ (wide >> 64) as u64;
    let mut digest = [0; 20];
    digest[..16].copy_from_slice(&wide.to_le_bytes());
    digest[16..].copy_from_slice(&(halves as u32 ^ (halves >> 32) as u32).to_le_bytes());
    digest
}

#[inline(always)]
fn now_ms() -> u64 {
    let unix = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    unix.as_secs() * 1000 + u64::from(unix.subsec_millis())
}

#[inline(always)]
fn void_time(entry: &[u8]) -> u32 {
    u32_at(entry, 44)
}

#[inline(always)]
fn expired(entry: &[u8], now_ms: u64) -> bool {
    let void_time = void_time(entry);
    void_time != 0 && u64::from(void_time) < now_ms / 1000
}

#[inline(always)]
fn key_and_body(entry: &[u8]) -> (&[u8], &[u8]) {
    let rest = &entry[HEADER_BYTES..];
    rest[1..].split_at(usize::from(rest[0]))
}

/// The bins before the one of this name, its value, and the bins behind it. Values are shorter than
/// 128 bytes.
#[inline(always)]
fn around<'a>(body: &'a [u8], bin: &str) -> (&'a [u8], &'a [u8], &'a [u8]) {
    let bins = body.get(1..).unwrap_or_default();
    let mut at = 0;
    while at < bins.len() {
        let name_end = at + 1 + usize::from(bins[at]);
        let end = name_end + 2 + usize::from(bins[name_end + 1]);
        if bins[at + 1..name_end] == *bin.as_bytes() {
            return (&bins[..at], &bins[name_end + 2..end], &bins[end..]);
        }
        at = end;
    }
    (bins, &[], &[])
}

/// Writes the body of a record with this bin changed, and returns its length. Names and lengths are
/// checked.
#[inline(always)]
fn edit_bin<'v>(
    old: &'v [u8],
    bin: &str,
    out: &mut [u8],
    edit: impl FnOnce(&'v [u8]) -> [&'v [u8]; 3],
) -> usize {
    let name = bin.as_bytes();
    assert!(name.len() <= 15 && name.iter().all(|byte| (1..0x80).contains(byte)));
    let (before, value, after) = around(old, bin);
    let parts = edit(value);
    let len: usize = parts.iter().map(|part| part.len()).sum();
    assert!(len < 128, "a length of one byte");
    let is_new = value.is_empty();
    let mut at = 1;
    let mut copy = |part: &[u8]| {
        if !part.is_empty() {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
    };
    copy(before);
    copy(&[name.len() as u8]);
    copy(name);
    copy(&[4, len as u8]);
    parts.into_iter().for_each(&mut copy);
    copy(after);
    out[0] = old.first().map_or(0, |count| *count) + u8::from(is_new);
    at
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |word| u32::from_le_bytes(*word))
}
