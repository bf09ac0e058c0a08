//! A random store on simulated devices beside a model of the writes it may lose, and the power
//! failures it meets.

use super::history::{History, Version, write_of};
use super::{
    Chance, NOW_MS, devices, digest, get, options, payload, simulated, simulated_unstaged, version,
};
use spikelet_storage::{
    Atomicity, Change, Durability, Error, ManualClock, Namespace, NewVersion, Opening, Options,
    Result, SimulatedDevice, Storage, Truncate,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Few, so that each is overwritten often.
const RECORDS: u64 = 24;
/// Enough for a store that fills blocks, empties them and uses them again.
const BLOCKS: u64 = 9;

/// How many images were made and read.
pub static IMAGES: AtomicU64 = AtomicU64::new(0);

/// The members of one group: record, and index of the version in its history.
type Group = Vec<(usize, usize)>;

/// The result of a power failure: the devices, the store that was opened on them, and its records.
struct Image {
    devices: Vec<Arc<SimulatedDevice>>,
    namespace: Namespace,
    found: Vec<Version>,
}

pub struct Run {
    what: String,
    pub chance: Chance,
    options: Options,
    clock: Arc<ManualClock>,
    pub devices: Vec<Arc<SimulatedDevice>>,
    namespace: Namespace,
    sets: Vec<u16>,
    records: Vec<History>,
    groups: Vec<Group>,
    writes: u64,
    /// One in `large_one_in` payloads is large.
    large_one_in: u64,
    /// How many of a hundred steps are syncs.
    sync_percent: u64,
    steps: u64,
}

impl Run {
    pub fn new(seed: u64, durability: Durability) -> Self {
        let mut chance = Chance(seed);
        let devices = 1 + chance.below(3) as u8;
        let devices = match seed % 4 {
            3 => simulated_unstaged(devices, BLOCKS),
            _ => simulated(devices, BLOCKS),
        };
        let clock = Arc::new(ManualClock::at(NOW_MS));
        let options = Options {
            durability,
            write_lanes: 1 + chance.below(3) as usize,
            clock: clock.clone(),
            ..options(Storage::Memory, BLOCKS)
        };
        let opened = Options {
            storage: super::devices(&devices),
            ..options.clone()
        };
        let (namespace, _) = Namespace::open(opened).unwrap();
        let what = format!("seed {seed}, {durability:?}, {} devices", devices.len());
        let large_one_in = 3 << (2 * chance.below(3));
        let sync_percent = [1, 6][chance.below(2) as usize];
        Self {
            what,
            chance,
            options,
            clock,
            devices,
            namespace,
            sets: vec![0],
            records: (0..RECORDS).map(|_| History::new(None)).collect(),
            groups: Vec::new(),
            writes: 0,
            large_one_in,
            sync_percent,
            steps: 0,
        }
    }

    fn what(&self) -> String {
        format!("{}, step {}", self.what, self.steps)
    }

    fn record(&mut self) -> usize {
        // Some records are written much more often than others.
        let of = if self.chance.one_in(2) { 4 } else { RECORDS };
        self.chance.below(of) as usize
    }

    /// A payload of its own; for a large record perhaps that of an edit.
    fn payload(&mut self, record: usize) -> Vec<u8> {
        self.writes += 1;
        let now = self.records[record].now().as_ref();
        if let Some(mut edited) = now.filter(|now| now.len() > 2048).cloned()
            && self.chance.one_in(2)
        {
            edited[..8].copy_from_slice(&self.writes.to_le_bytes());
            let at = 8 + self.chance.below(edited.len() as u64 - 16) as usize;
            edited.splice(at..at + 4, self.writes.to_be_bytes());
            return edited;
        }
        let large = self.chance.one_in(self.large_one_in);
        payload(self.writes, large)
    }

    /// Notes an attempted write, and whether it was promised as durable.
    fn note(&mut self, changes: &[(usize, Version)], result: Result<()>) {
        let promised = match result {
            Ok(()) => self.options.durability == Durability::Commit,
            Err(Error::InDoubt { .. }) => false,
            Err(Error::StopWrites { .. } | Error::NoSpace { .. } | Error::ReadOnly { .. }) => {
                return;
            }
            Err(other) => panic!("{}: {other}", self.what()),
        };
        let push = |(record, version): &(usize, Version)| {
            (*record, self.records[*record].push(version.clone()))
        };
        let group: Group = changes.iter().map(push).collect();
        if changes.len() > 1 {
            self.groups.push(group);
        }
        if promised {
            // The sync that a write waits for covers everything before it, too.
            self.records.iter_mut().for_each(History::synced);
        }
    }

    pub fn step(&mut self) {
        self.steps += 1;
        if self.chance.below(100) < self.sync_percent {
            return self.sync();
        }
        match self.chance.below(100) {
            0..60 => self.put(),
            60..72 => self.delete(),
            72..83 => self.group(),
            83..90 => {
                let seed = self.chance.next();
                let devices = self.devices.iter();
                devices.for_each(|device| device.writeback(seed));
            }
            90..92 => self.truncate(),
            92..94 => self.jump(),
            94 => self.create_set(),
            _ => self.maintain(),
        }
    }

    fn put(&mut self) {
        let record = self.record();
        let payload = self.payload(record);
        let set_id = self.sets[self.chance.below(self.sets.len() as u64) as usize];
        let now_ms = self.options.clock.now_ms();
        let void_time = match self.chance.below(6) {
            0 => (now_ms / 1000 + 20) as u32,
            _ => 0,
        };
        let new = NewVersion {
            set_id,
            void_time,
            last_update_ms: now_ms,
            ..version(&payload)
        };
        let lock = self.namespace.lock(&digest(record as u64), None).unwrap();
        let result = lock.put(&new);
        self.note(&[(record, Some(payload))], result.map(drop));
    }

    fn delete(&mut self) {
        let record = self.record();
        let now_ms = self.options.clock.now_ms();
        let lock = self.namespace.lock(&digest(record as u64), None).unwrap();
        match lock.delete(now_ms).map(|lsn| lsn.is_some()) {
            Ok(there) => {
                let expected = self.records[record].now().is_some();
                assert_eq!(there, expected, "{}: record {record}", self.what());
                if there {
                    self.note(&[(record, None)], Ok(()));
                }
            }
            Err(error) => self.note(&[(record, None)], Err(error)),
        }
    }

    fn group(&mut self) {
        let mut members: Vec<usize> = (0..2 + self.chance.below(4))
            .map(|_| self.record())
            .collect();
        members.sort_unstable();
        members.dedup();
        let changes: Vec<(usize, Version)> = members
            .into_iter()
            .map(|record| {
                (
                    record,
                    (!self.chance.one_in(5)).then(|| self.payload(record)),
                )
            })
            .collect();
        let namespace = self.namespace.clone();
        let now_ms = self.options.clock.now_ms();
        let locked = changes
            .iter()
            .map(|(record, payload)| {
                let lock = namespace.lock(&digest(*record as u64), None).unwrap();
                let change = match payload {
                    Some(payload) => Change::Put(version(payload)),
                    None => Change::Delete(now_ms),
                };
                (lock, change)
            })
            .collect();
        let result = namespace.commit_group(locked);
        self.note(&changes, result.map(drop));
    }

    fn create_set(&mut self) {
        let name = format!("set {}", self.sets.len());
        match self.namespace.create_set(&name) {
            Ok(set_id) => self.sets.push(set_id),
            Err(Error::NoSpace { .. } | Error::ReadOnly { .. }) => {}
            Err(other) => panic!("{}: {other}", self.what()),
        }
    }

    /// The clock jumps, also back.
    fn jump(&mut self) {
        let by = self.chance.below(60_000);
        let now_ms = self.clock_ms() + 20_000;
        self.clock.set_ms(now_ms - by);
    }

    fn clock_ms(&self) -> u64 {
        self.options.clock.now_ms()
    }

    fn truncate(&mut self) {
        let what = match self.chance.below(4) {
            0 => Truncate::Namespace,
            _ => Truncate::Set(self.sets[self.chance.below(self.sets.len() as u64) as usize]),
        };
        let before = self
            .chance
            .one_in(2)
            .then(|| self.clock_ms() - self.chance.below(20_000));
        match self.namespace.truncate(what, before) {
            Ok(_) | Err(Error::InDoubt { .. }) => {
                self.take_over(|history| history.truncated());
                if before.is_none() && matches!(what, Truncate::Namespace) {
                    assert_eq!(self.namespace.stats().records, 0, "{}", self.what());
                }
            }
            Err(Error::NoSpace { .. } | Error::ReadOnly { .. }) => {}
            Err(other) => panic!("{}: {other}", self.what()),
        }
    }

    fn maintain(&mut self) {
        match self.namespace.maintain() {
            Ok(_) | Err(Error::NoSpace { .. } | Error::ReadOnly { .. }) => {}
            Err(other) => panic!("{}: {other}", self.what()),
        }
        // Expired records are gone.
        self.take_over(|_| {});
    }

    /// Takes note of the records that are gone; no other one may have changed.
    fn take_over(&mut self, also: impl Fn(&mut History)) {
        let what = self.what();
        for (record, history) in self.records.iter_mut().enumerate() {
            also(history);
            let found = get(&self.namespace, &digest(record as u64)).unwrap();
            if found != *history.now() {
                assert_eq!(found, None, "{what}: record {record}");
                history.push(None);
            }
        }
        if self.options.durability == Durability::Commit && self.namespace.sync().is_ok() {
            self.records.iter_mut().for_each(History::synced);
        }
    }

    pub fn sync(&mut self) {
        match self.namespace.sync() {
            Ok(()) => self.records.iter_mut().for_each(History::synced),
            Err(Error::ReadOnly { .. }) => {}
            Err(other) => panic!("{}: {other}", self.what()),
        }
    }

    /// Everything reads as it was last written, in any state of the disk.
    pub fn check_now(&self) {
        for (record, history) in self.records.iter().enumerate() {
            let found = get(&self.namespace, &digest(record as u64)).unwrap();
            let (found, now) = (write_of(&found), write_of(history.now()));
            assert!(
                found == now,
                "{}: record {record} is {found:?}, not {now:?}",
                self.what()
            );
        }
    }

    /// A sync fails, and the store goes on to read.
    pub fn fail_sync(&mut self) {
        let (seed, nth) = (
            self.chance.next(),
            self.chance.below(self.devices.len() as u64),
        );
        self.devices[nth as usize].fail_sync(1, seed);
        self.sync();
        (0..4).for_each(|_| self.step());
        self.check_now();
    }

    /// The process ends, by a close or not, and the store is opened again: nothing acknowledged is
    /// lost.
    pub fn reopen(&mut self) {
        let close = self.chance.one_in(3);
        if close && self.namespace.close().is_ok() {
            self.records.iter_mut().for_each(History::synced);
        }
        let left = self
            .devices
            .iter()
            .map(|device| Arc::new(device.kill().unwrap()));
        self.devices = left.collect();
        let what = format!("{}, reopened, closed: {close}", self.what());
        let (namespace, opening) = open(&self.options, &self.devices, &what);
        assert_eq!(opening.rolled_back_groups, 0, "{what}");
        self.namespace = namespace;
        self.check_now();
    }

    /// The power fails in several ways, and the store goes on from the last of them.
    pub fn crash(&mut self) {
        for last in [false, false, true] {
            let image = self.crash_once();
            if last {
                self.devices = image.devices;
                self.namespace = image.namespace;
                self.groups.clear();
                self.records = image.found.into_iter().map(History::new).collect();
                let names = (1..self.sets.len())
                    .map_while(|number| self.namespace.set_id(&format!("set {number}")));
                self.sets = [0].into_iter().chain(names).collect();
            }
        }
    }

    /// Fails the power and opens a store from the bytes that are left.
    fn crash_once(&mut self) -> Image {
        let seed = self.chance.next();
        let atomicity = if self.chance.one_in(3) {
            Atomicity::Page4096
        } else {
            Atomicity::Sector512
        };
        let crash = |devices: &[Arc<SimulatedDevice>]| -> Vec<_> {
            IMAGES.fetch_add(1, Ordering::Relaxed);
            let seeds = (seed..).zip(devices);
            seeds
                .map(|(seed, device)| Arc::new(device.crash_with(seed, atomicity).unwrap()))
                .collect()
        };
        let mut left = crash(&self.devices);
        let what = format!("{}, crash {seed} {atomicity:?}", self.what());
        if self.chance.one_in(4) {
            // It fails again before the recovery is complete.
            let nth = 1 + self.chance.below(2);
            left.iter().for_each(|device| device.fail_sync(nth, seed));
            let options = on(&self.options, &left);
            let _ = Namespace::open(options).map(|(namespace, _)| namespace.sync());
            left = crash(&left);
        }
        let (namespace, _) = open(&self.options, &left, &what);
        let found: Vec<_> = (0..RECORDS)
            .map(|record| {
                get(&namespace, &digest(record))
                    .unwrap_or_else(|error| panic!("{what}: record {record}: {error}"))
            })
            .collect();
        let place = |(record, (found, history)): (usize, (&Version, &History))| {
            history.place(found).unwrap_or_else(|| {
                let (found, allowed) = (write_of(found), history.allowed());
                panic!("{what}: record {record} is write {found:?}, not one of {allowed:?}")
            })
        };
        let places: Vec<usize> = found
            .iter()
            .zip(&self.records)
            .enumerate()
            .map(place)
            .collect();
        self.check_groups(&found, &places, &what);
        let expected = found.iter().flatten().count();
        assert_eq!(namespace.stats().records, expected as u64, "{what}");
        assert_eq!(super::scan(&namespace), (expected, 0), "{what}");
        Image {
            devices: left,
            namespace,
            found,
        }
    }

    fn check_groups(&self, found: &[Version], places: &[usize], what: &str) {
        for group in &self.groups {
            // Two deletions look alike, so only a member that is there shows its version.
            let shows = |(record, place): &(usize, usize)| {
                found[*record].is_some() && places[*record] == *place
            };
            if group.iter().any(shows) {
                let is_there = |(record, place): &(usize, usize)| places[*record] >= *place;
                let or_truncated = |member: &(usize, usize)| {
                    is_there(member) || self.records[member.0].may_be_truncated(&found[member.0])
                };
                let whole = group.iter().all(or_truncated);
                assert!(
                    whole,
                    "{what}: of group {group:?} there is only a part: {places:?}"
                );
            }
        }
    }
}

fn on(options: &Options, left: &[Arc<SimulatedDevice>]) -> Options {
    Options {
        storage: devices(left),
        ..options.clone()
    }
}

/// Opens an undamaged store: neither opening nor `verify` finds damage.
fn open(options: &Options, left: &[Arc<SimulatedDevice>], what: &str) -> (Namespace, Opening) {
    let options = on(options, left);
    let verified = Namespace::verify(&options).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(!verified.is_damaged(), "{what}: {verified:?}");
    let (namespace, opening) =
        Namespace::open(options).unwrap_or_else(|error| panic!("{what}: {error}"));
    let damage = [
        opening.damaged_entries,
        opening.damaged_blocks,
        opening.damaged_bytes,
        opening.unknown_bytes,
    ];
    assert_eq!(damage, [0; 4], "{what}: {opening:?}");
    (namespace, opening)
}
