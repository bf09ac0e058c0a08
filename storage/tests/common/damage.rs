//! Damage that can be undone, and a store of every kind of entry to do it to.

use super::{Chance, NOW_MS, delete, devices, digest, options, put, simulated, version};
use spikelet_storage::{
    BLOCK_BYTES, Change, HEADER_BYTES, Namespace, NewVersion, Options, SECTOR_BYTES,
    SimulatedDevice, Truncate,
};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub const BLOCKS: u64 = 8;
/// Records 0..40 are in no set; 40..50 are in a set that is truncated, and partly written anew.
pub const RECORDS: u64 = 50;
const PAGE_BYTES: u64 = 4096;

/// Damage to the bytes of a device.
#[derive(Clone, Debug)]
pub enum Damage {
    InvertedBytes(Vec<u64>),
    FlippedBits(Vec<(u64, u32)>),
    Zeroed(Vec<Range<u64>>),
    SwappedSectors(u64, u64),
    /// Bytes that lay here earlier are put back: of which moment, block.
    OlderBlock(&'static str, u64),
}

/// The content of every block at some moment.
pub type Blocks = Vec<Vec<u8>>;

/// A store on one device, and the versions that its records may have.
pub struct Store {
    pub name: &'static str,
    pub device: Arc<SimulatedDevice>,
    /// For each record the versions that reading may show.
    pub allowed: Vec<Vec<Option<Vec<u8>>>>,
    pub older: Vec<(&'static str, Blocks)>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

fn block(number: u64) -> Range<u64> {
    HEADER_BYTES + number * BLOCK_BYTES..HEADER_BYTES + (number + 1) * BLOCK_BYTES
}

fn blocks_of(device: &SimulatedDevice) -> Blocks {
    (0..BLOCKS)
        .map(|number| device.snapshot_range(block(number)))
        .collect()
}

fn payload(record: u64, round: u64) -> Vec<u8> {
    let text = format!("record {record} round {round} ");
    let mut bytes = text.repeat(1 + (record % 7) as usize).into_bytes();
    if record == 7 {
        bytes = text.repeat(200).into_bytes();
    }
    bytes
}

impl Store {
    pub fn options(&self) -> Options {
        options(devices(&[Arc::clone(&self.device)]), BLOCKS)
    }

    fn of(name: &'static str, device: SimulatedDevice, from: &Writer) -> Self {
        Self {
            name,
            device: Arc::new(device),
            allowed: from
                .now
                .iter()
                .map(|version| vec![version.clone()])
                .collect(),
            older: from.older.clone(),
        }
    }

    /// The same store as it is found after a sync and a kill, after more writes that were not
    /// synced and a kill, after a power failure, and after a clean close.
    pub fn all() -> Vec<Self> {
        let mut writer = Writer::new();
        writer.write();
        let synced = Self::of("synced", writer.device.kill().unwrap(), &writer);
        // Twice: the second sync makes the notes of the first durable.
        writer.namespace.sync().unwrap();
        writer.namespace.sync().unwrap();
        let crashed = Self::of(
            "after a power failure",
            writer.device.crash(7).unwrap(),
            &writer,
        );
        let before = writer.now.clone();
        for record in (0..RECORDS).step_by(5) {
            writer.put(record, 9);
        }
        writer.delete(11);
        let mut killed = Self::of("killed", writer.device.kill().unwrap(), &writer);
        for (allowed, before) in killed.allowed.iter_mut().zip(before) {
            allowed.push(before);
        }
        writer.namespace.close().unwrap();
        let closed = Self::of("closed", writer.device.kill().unwrap(), &writer);
        vec![synced, crashed, killed, closed]
    }

    /// The ranges of the device that are not zero.
    pub fn used(&self) -> Vec<Range<u64>> {
        let len_bytes = HEADER_BYTES + BLOCKS * BLOCK_BYTES;
        let mut used: Vec<Range<u64>> = Vec::new();
        for from in (0..len_bytes).step_by(PAGE_BYTES as usize) {
            let page = self.device.snapshot_range(from..from + PAGE_BYTES);
            for (at, unit) in (from..).step_by(16).zip(page.chunks(16)) {
                if unit.iter().all(|byte| *byte == 0) {
                    continue;
                }
                match used.last_mut() {
                    Some(last) if last.end + 64 >= at => last.end = at + 16,
                    _ => used.push(at..at + 16),
                }
            }
        }
        used
    }

    /// Does damage; returns what undoes it.
    pub fn damage(&self, damage: &Damage) -> Vec<(u64, Vec<u8>)> {
        let device = &self.device;
        let save = |range: Range<u64>| (range.start, device.snapshot_range(range));
        match damage {
            Damage::InvertedBytes(offsets) => {
                let saved = offsets.iter().map(|at| save(*at..at + 1)).collect();
                offsets.iter().for_each(|at| device.invert_byte(*at));
                saved
            }
            Damage::FlippedBits(bits) => {
                let saved = bits.iter().map(|(at, _)| save(*at..at + 1)).collect();
                bits.iter().for_each(|(at, bit)| device.flip_bit(*at, *bit));
                saved
            }
            Damage::Zeroed(ranges) => {
                let saved = ranges.iter().cloned().map(save).collect();
                ranges.iter().cloned().for_each(|range| device.zero(range));
                saved
            }
            Damage::SwappedSectors(a, b) => {
                let range = |sector: &u64| sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
                let saved = [a, b]
                    .into_iter()
                    .map(|sector| save(range(sector)))
                    .collect();
                device.swap_sectors(*a, *b);
                saved
            }
            Damage::OlderBlock(moment, number) => {
                let saved = save(block(*number));
                let (_, blocks) = self.older.iter().find(|(name, _)| name == moment).unwrap();
                device.overwrite(saved.0, &blocks[*number as usize]);
                vec![saved]
            }
        }
    }

    pub fn undo(&self, saved: &[(u64, Vec<u8>)]) {
        for (offset, bytes) in saved.iter().rev() {
            self.device.overwrite(*offset, bytes);
        }
    }

    /// Damage of some kind at a place that holds something.
    pub fn draw(&self, chance: &mut Chance, used: &[Range<u64>]) -> Damage {
        let of = |chance: &mut Chance| {
            // The header of the device has no copy: seldom.
            let skip = usize::from(!chance.one_in(40));
            let used = &used[skip..];
            let range = &used[chance.below(used.len() as u64) as usize];
            // Both ends of a range hold small entries; large ones are between them.
            let len = range.end - range.start;
            match chance.below(4) {
                0 => range.start + chance.below(len),
                1 => range.start + chance.below(len.min(600)),
                _ => range.end - 1 - chance.below(len.min(6_000)),
            }
        };
        let page = |at: u64| at / PAGE_BYTES * PAGE_BYTES..(at / PAGE_BYTES + 1) * PAGE_BYTES;
        let sector =
            |at: u64| at / SECTOR_BYTES * SECTOR_BYTES..(at / SECTOR_BYTES + 1) * SECTOR_BYTES;
        match chance.below(20) {
            0..9 => Damage::InvertedBytes(vec![of(chance)]),
            9..12 => {
                let first = of(chance);
                let second = if chance.one_in(3) {
                    of(chance)
                } else {
                    first + chance.below(60)
                };
                let bit = |chance: &mut Chance, at| (at, chance.below(8) as u32);
                Damage::FlippedBits(vec![bit(chance, first), bit(chance, second)])
            }
            12..14 => Damage::Zeroed(vec![sector(of(chance))]),
            14..16 => Damage::Zeroed(vec![page(of(chance))]),
            16 => Damage::Zeroed((0..3).map(|_| page(of(chance))).collect()),
            17 => Damage::InvertedBytes((0..20).map(|_| of(chance)).collect()),
            _ => Damage::SwappedSectors(of(chance) / SECTOR_BYTES, of(chance) / SECTOR_BYTES),
        }
    }
}

/// Writes the store.
struct Writer {
    device: Arc<SimulatedDevice>,
    namespace: Namespace,
    set_id: u16,
    now: Vec<Option<Vec<u8>>>,
    older: Vec<(&'static str, Blocks)>,
}

impl Writer {
    fn new() -> Self {
        let device = simulated(1, BLOCKS).remove(0);
        let storage = devices(&[Arc::clone(&device)]);
        let (namespace, _) = Namespace::open(options(storage, BLOCKS)).unwrap();
        let set_id = namespace.create_set("truncated").unwrap();
        Self {
            device,
            namespace,
            set_id,
            now: vec![None; RECORDS as usize],
            older: Vec::new(),
        }
    }

    fn put(&mut self, record: u64, round: u64) {
        let payload = payload(record, round);
        let new = NewVersion {
            set_id: if record < 40 { 0 } else { self.set_id },
            ..version(&payload)
        };
        let lock = self.namespace.lock(&digest(record), None).unwrap();
        lock.put(&new).unwrap();
        self.now[record as usize] = Some(payload);
    }

    fn delete(&mut self, record: u64) {
        assert!(delete(&self.namespace, &digest(record)).unwrap());
        self.now[record as usize] = None;
    }

    /// Entries that fill blocks and die with the next of them.
    fn ballast(&self, count: u64) {
        for _ in 0..count {
            put(&self.namespace, &digest(1000), &vec![0x5a; 3 << 20]).unwrap();
        }
        put(&self.namespace, &digest(1000), b"no ballast").unwrap();
    }

    fn group(&mut self, puts: Range<u64>, deleted: u64) {
        let namespace = self.namespace.clone();
        let lock = |record: u64| namespace.lock(&digest(record), None).unwrap();
        let payloads: Vec<_> = puts.clone().map(|record| payload(record, 5)).collect();
        let changes = puts.clone().zip(&payloads);
        let mut changes: Vec<_> = changes
            .map(|(record, payload)| (lock(record), Change::Put(version(payload))))
            .collect();
        changes.push((lock(deleted), Change::Delete(NOW_MS)));
        namespace.commit_group(changes).unwrap();
        for (record, payload) in puts.zip(payloads) {
            self.now[record as usize] = Some(payload);
        }
        self.now[deleted as usize] = None;
    }

    fn write(&mut self) {
        (0..RECORDS).for_each(|record| self.put(record, 1));
        self.namespace.sync().unwrap();
        self.ballast(4);
        (0..RECORDS)
            .step_by(2)
            .for_each(|record| self.put(record, 2));
        self.namespace.sync().unwrap();
        self.older
            .push(("an earlier life", blocks_of(&self.device)));
        self.namespace.maintain().unwrap();
        self.ballast(4);
        (0..RECORDS)
            .step_by(3)
            .for_each(|record| self.put(record, 3));
        self.namespace.sync().unwrap();
        self.older.push(("the same life", blocks_of(&self.device)));
        (0..RECORDS)
            .step_by(4)
            .for_each(|record| self.put(record, 4));
        [1, 2, 3, 4, 5, 6]
            .into_iter()
            .for_each(|record| self.delete(record));
        self.group(20..23, 23);
        self.group(24..26, 26);
        let what = Truncate::Set(self.set_id);
        self.namespace.truncate(what, None).unwrap();
        (40..50).for_each(|record| self.now[record] = None);
        self.namespace.sync().unwrap();
        (44..47).for_each(|record| self.put(record, 6));
        self.put(4, 6);
        self.put(21, 6);
        self.namespace.sync().unwrap();
    }
}
