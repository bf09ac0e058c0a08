//! The changes of a random store beside a plain list of committed groups: each group is read once,
//! whole and in order, though records are folded and moved, and the store is synced, closed,
//! killed, or loses its power in between.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{Chance, NOW_MS, device_bytes, devices, digest, files, options, simulated, version};
use spikelet_storage::{
    Atomicity, Change, ChangeKind, ChangeReader, Delivery, Digest, Durability, Error, LoggedChange,
    Lsn, Namespace, NewVersion, Options, ReadEnd, SimulatedDevice, Truncate,
};
use std::rc::Rc;
use std::sync::Arc;

const BLOCKS: u64 = 14;
const RECORDS: u64 = 12;
/// Sets 1 and 2 are followed, set 3 is not.
const SETS: [u16; 4] = [1, 1, 2, 3];

const fn set_of(record: u64) -> u16 {
    SETS[record as usize % SETS.len()]
}

/// A change as its writer knows it. Every put has a generation of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Event {
    Put(u64, u16),
    Delete(u64),
    Truncate(Option<u16>),
}

impl Event {
    const fn is_followed(&self) -> bool {
        match self {
            Self::Put(record, _) | Self::Delete(record) => set_of(*record) != 3,
            Self::Truncate(set) => !matches!(set, Some(3)),
        }
    }
}

/// Changes that were committed at once.
#[derive(Clone, Debug)]
struct Committed {
    /// Its changes of followed sets.
    events: Vec<Event>,
    /// Its number, or an upper bound of a truncation's.
    lsn: u64,
    /// The records after it.
    records: Rc<Records>,
}

/// The payload of each record.
type Records = Vec<Option<Rc<Vec<u8>>>>;

/// Reads changes, and goes on from its position after a pause.
struct Consumer {
    delivery: Delivery,
    reader: Option<ChangeReader>,
    /// How many groups it has read.
    read: usize,
    /// Where it stood when it last noted its position, and how many groups it had read.
    noted: (Lsn, usize),
}

/// The devices of a store.
enum Medium {
    Simulated(Vec<Arc<SimulatedDevice>>),
    Files(tempfile::TempDir),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Close,
    Kill,
    PowerFailure,
}

struct Run {
    what: String,
    chance: Chance,
    medium: Medium,
    lanes: usize,
    /// `None` while it is closed.
    namespace: Option<Namespace>,
    /// Groups with changes of followed sets, oldest first.
    committed: Vec<Committed>,
    records: Records,
    generation: u16,
    consumers: Vec<Consumer>,
    /// A durable position from which on all changes are kept, and how many groups are before it.
    kept: (Lsn, usize),
}

impl Run {
    fn new(seed: u64, ends: &[End]) -> Self {
        let mut chance = Chance(seed);
        let loses_power = ends.contains(&End::PowerFailure);
        let medium = if loses_power || !chance.one_in(6) {
            Medium::Simulated(simulated(1 + chance.below(2) as u8, BLOCKS))
        } else {
            Medium::Files(tempfile::tempdir().unwrap())
        };
        let lanes = 1 + chance.below(3) as usize;
        let namespace = open(&medium, lanes);
        for (name, number) in [("a", 1), ("b", 2), ("c", 3)] {
            assert_eq!(namespace.create_set(name).unwrap(), number);
            if number < 3 {
                namespace.set_fed(number, true).unwrap();
            }
        }
        namespace.sync().unwrap();
        let start = namespace.last_lsn();
        let deliveries = [Delivery::Durable, Delivery::Published];
        let count = 1 + chance.below(2) as usize;
        let first = chance.below(2) as usize;
        let consumer = |number| Consumer {
            delivery: deliveries[(first + number) % 2],
            reader: None,
            read: 0,
            noted: (start, 0),
        };
        Self {
            what: format!("seed {seed}"),
            medium,
            lanes,
            namespace: Some(namespace),
            committed: Vec::new(),
            records: vec![None; RECORDS as usize],
            generation: 0,
            consumers: (0..count).map(consumer).collect(),
            kept: (start, 0),
            chance,
        }
    }

    fn namespace(&self) -> Namespace {
        self.namespace.clone().unwrap()
    }

    fn step(&mut self) {
        match self.chance.below(100) {
            0..45 => self.write(1),
            45..65 => {
                let members = 1 + self.chance.below(5);
                self.write(members);
            }
            65..68 => self.truncate(),
            68..76 => self.namespace().sync().unwrap(),
            76..82 => drop(self.namespace().maintain().unwrap()),
            _ => {
                let number = self.chance.below(self.consumers.len() as u64) as usize;
                self.consume(number);
            }
        }
    }

    /// The next version of a record: mostly that of a large one with a few bytes changed.
    fn payload(&mut self, record: u64) -> Vec<u8> {
        if let Some(mut edited) = self.records[record as usize]
            .as_deref()
            .filter(|now| now.len() > 1024)
            .cloned()
            && !self.chance.one_in(6)
        {
            for _ in 0..=self.chance.below(3) {
                let at = self.chance.below(edited.len() as u64) as usize;
                edited[at] = self.chance.next() as u8;
            }
            return edited;
        }
        let bytes = match self.chance.below(8) {
            0..3 => self.chance.below(200),
            3..7 => 1_100 + self.chance.below(5_000),
            _ => self.chance.below(400_000),
        };
        (0..bytes).map(|_| self.chance.next() as u8).collect()
    }

    /// Writes up to `members` records at once.
    fn write(&mut self, members: u64) {
        let mut numbers: Vec<u64> = (0..members).map(|_| self.chance.below(RECORDS)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut after = self.records.clone();
        let mut events = Vec::new();
        for number in &numbers {
            if after[*number as usize].is_some() && self.chance.one_in(6) {
                after[*number as usize] = None;
                events.push(Event::Delete(*number));
            } else {
                self.generation += 1;
                after[*number as usize] = Some(Rc::new(self.payload(*number)));
                events.push(Event::Put(*number, self.generation));
            }
        }
        let keys: Vec<[u8; 8]> = numbers.iter().map(|number| number.to_le_bytes()).collect();
        let changes = events.iter().zip(&keys).map(|(event, key)| match event {
            Event::Put(number, generation) => Change::Put(NewVersion {
                set_id: set_of(*number),
                generation: *generation,
                key: Some(key),
                ..version(after[*number as usize].as_deref().unwrap())
            }),
            _ => Change::Delete(NOW_MS),
        });
        let namespace = self.namespace();
        let lock = |number: &u64| namespace.lock(&digest(*number), None).unwrap();
        let mut changes: Vec<_> = numbers.iter().map(lock).zip(changes).collect();
        let committed = match members {
            1 => changes
                .pop()
                .map_or(Ok(None), |(mut lock, change)| lock.apply(&change)),
            _ => namespace.commit_group(changes),
        };
        match committed {
            Ok(lsn) => self.note(events, lsn.unwrap().get(), after),
            Err(Error::StopWrites { .. } | Error::NoSpace { .. }) => {}
            Err(other) => panic!("{}: {other}", self.what),
        }
    }

    fn truncate(&mut self) {
        let set = match self.chance.below(4) {
            0 => None,
            set => Some(set as u16),
        };
        let what = set.map_or(Truncate::Namespace, Truncate::Set);
        self.namespace().truncate(what, None).unwrap();
        let mut after = self.records.clone();
        for (record, payload) in (0..).zip(&mut after) {
            if set.is_none_or(|set| set_of(record) == set) {
                *payload = None;
            }
        }
        let lsn = self.namespace().last_lsn().get();
        self.note(vec![Event::Truncate(set)], lsn, after);
    }

    fn note(&mut self, mut events: Vec<Event>, lsn: u64, after: Records) {
        self.records = after;
        events.retain(Event::is_followed);
        let records = Rc::new(self.records.clone());
        if !events.is_empty() {
            self.committed.push(Committed {
                events,
                lsn,
                records,
            });
        } else if let Some(last) = self.committed.last_mut() {
            // Truncations of a set that is not followed leave the others as they are.
            last.records = records;
        }
    }

    /// Has a consumer read, and perhaps note its position, or leave and come back.
    fn consume(&mut self, number: usize) {
        let what = self.what.clone();
        let namespace = self.namespace();
        let durable = namespace.durable_lsn().get();
        let consumer = &mut self.consumers[number];
        let (noted, _) = consumer.noted;
        let namespace = &namespace;
        let reader = consumer
            .reader
            .get_or_insert_with(|| namespace.read_changes(consumer.delivery, noted));
        loop {
            let most = 1 + self.chance.below(6) as usize;
            let read = reader.read(most, |_, _| true);
            let read = read.unwrap_or_else(|error| panic!("{what}, consumer {number}: {error}"));
            assert_eq!(read.position, reader.position(), "{what}");
            for (events, lsn) in groups(&read.changes) {
                let expected = self.committed.get(consumer.read);
                let at = consumer.read;
                consumer.read += 1;
                let expected = expected.unwrap_or_else(|| panic!("{what}: {events:?} is unknown"));
                assert_eq!(
                    events, expected.events,
                    "{what}, consumer {number}, group {at}"
                );
                match events[..] {
                    [Event::Truncate(_)] => assert!(lsn <= expected.lsn, "{what}"),
                    _ => assert_eq!(lsn, expected.lsn, "{what}, group {at}"),
                }
                assert!(consumer.delivery == Delivery::Published || lsn <= durable);
            }
            if read.end == ReadEnd::Last {
                let is_due = |group: &&Committed| match consumer.delivery {
                    Delivery::Published => true,
                    Delivery::Durable => group.lsn <= durable,
                };
                let due = self.committed.iter().take_while(is_due).count();
                assert!(
                    consumer.read >= due,
                    "{what}, consumer {number}: groups are missing"
                );
                break;
            }
            if self.chance.one_in(4) {
                break;
            }
        }
        if self.chance.one_in(3) {
            consumer.noted = (reader.position(), consumer.read);
            self.need();
        }
        if self.chance.one_in(3) {
            self.consumers[number].leave();
        }
    }

    /// Has the changes kept that the consumers have not read by the positions they noted.
    fn need(&mut self) {
        let durable = self.namespace().durable_lsn();
        let groups = self.committed.iter();
        let before = groups.take_while(|group| group.lsn <= durable.get());
        self.kept = (durable, before.count());
        let consumers = self.consumers.iter().map(|consumer| consumer.noted.0);
        let needs: Vec<_> = consumers.chain([durable]).collect();
        self.namespace().need_changes_after(&needs);
    }

    fn end(&mut self, end: End) {
        self.what += &format!(", {end:?}");
        if std::env::var("TRACE").is_ok() {
            eprintln!(
                "END {end:?} durable {} last {}",
                self.namespace().durable_lsn().get(),
                self.namespace().last_lsn().get()
            );
        }
        let durable = self.namespace().durable_lsn().get();
        if end == End::Close {
            self.namespace().close().unwrap();
        }
        if let Medium::Simulated(disks) = &mut self.medium {
            let atomicity = if self.chance.one_in(3) {
                Atomicity::Page4096
            } else {
                Atomicity::Sector512
            };
            for disk in disks {
                let image = match end {
                    End::PowerFailure => disk.crash_with(self.chance.next(), atomicity),
                    End::Close | End::Kill => disk.kill(),
                };
                *disk = Arc::new(image.unwrap());
            }
        }
        self.consumers.iter_mut().for_each(Consumer::leave);
        self.namespace = None;
        self.namespace = Some(open(&self.medium, self.lanes));
        if end == End::PowerFailure {
            self.forget_what_is_lost(durable);
        }
        if self.chance.one_in(2) {
            self.need();
        }
        self.check_records();
    }

    /// After a power failure the store is as it was at one moment, which is not before the last
    /// sync.
    fn forget_what_is_lost(&mut self, durable: u64) {
        let what = &self.what;
        let (position, read) = self.kept;
        let mut reader = self.namespace().read_changes(Delivery::Published, position);
        let mut changes = Vec::new();
        loop {
            let more = reader.read(10, |_, _| true).unwrap();
            changes.extend(more.changes);
            if more.end == ReadEnd::Last {
                break;
            }
        }
        let left = groups(&changes);
        let expected = self.committed[read..].iter();
        for ((events, _), expected) in left.iter().zip(expected) {
            assert_eq!(*events, expected.events, "{what}");
        }
        let left = read + left.len();
        assert!(left <= self.committed.len(), "{what}: unknown groups");
        let is_durable = |group: &&Committed| group.lsn <= durable;
        let promised = self.committed.iter().take_while(is_durable).count();
        assert!(left >= promised, "{what}: a durable group is lost");
        self.committed.truncate(left);
        for consumer in &mut self.consumers {
            assert!(consumer.delivery == Delivery::Published || consumer.noted.1 <= left);
            consumer.noted.1 = consumer.noted.1.min(left);
            consumer.read = consumer.noted.1;
        }
        let last = self.committed.last();
        let mut records = last.map_or(vec![None; RECORDS as usize], |last| (*last.records).clone());
        for record in (0..RECORDS).filter(|record| set_of(*record) == 3) {
            let found = self
                .namespace()
                .get(&digest(record), |entry| entry.payload().to_vec());
            if let Err(e) = &found {
                eprintln!("RECORD {record} {e:?}");
            }
            records[record as usize] = found.unwrap().map(Rc::new);
        }
        self.records = records;
    }

    fn check_records(&self) {
        for (number, expected) in (0..).zip(&self.records) {
            let found = self
                .namespace()
                .get(&digest(number), |entry| entry.payload().to_vec());
            assert!(
                found.unwrap().as_ref() == expected.as_deref(),
                "{}, record {number}",
                self.what
            );
        }
    }

    /// Has every consumer read all that there is.
    fn finish(&mut self) {
        self.namespace().sync().unwrap();
        for number in 0..self.consumers.len() {
            while self.consumers[number].read < self.committed.len() {
                self.consume(number);
            }
        }
    }
}

impl Consumer {
    /// Goes on from its noted position the next time.
    fn leave(&mut self) {
        self.reader = None;
        self.read = self.noted.1;
    }
}

fn open(medium: &Medium, lanes: usize) -> Namespace {
    let storage = match medium {
        Medium::Simulated(disks) => devices(disks),
        Medium::Files(dir) => files(dir.path(), 1),
    };
    let options = Options {
        write_lanes: lanes,
        durability: Durability::Process,
        defrag_threshold_percent: 95,
        change_bytes_max: device_bytes(BLOCKS),
        ..options(storage, BLOCKS)
    };
    let (n, o) = Namespace::open(options).unwrap();
    if std::env::var("TRACE").is_ok() {
        eprintln!(
            "OPENED durable {} last {} {o:?} lanes {lanes}",
            n.durable_lsn().get(),
            n.last_lsn().get()
        );
    }
    n
}

fn record_of(found: &Digest) -> u64 {
    (0..RECORDS)
        .find(|record| digest(*record) == *found)
        .unwrap()
}

/// The groups of a read, each with its number.
fn groups(changes: &[LoggedChange]) -> Vec<(Vec<Event>, u64)> {
    let of_one = changes.chunk_by(|before, after| before.position.lsn == after.position.lsn);
    let event = |change: &LoggedChange| match change.kind {
        ChangeKind::Put => Event::Put(record_of(&change.digest), change.generation),
        ChangeKind::Delete => Event::Delete(record_of(&change.digest)),
        ChangeKind::Truncate { .. } => Event::Truncate(change.set_id),
        ChangeKind::Expire => unreachable!("nothing expires"),
    };
    let group = |changes: &[LoggedChange]| {
        assert!(changes.is_sorted_by(|before, after| before.position < after.position));
        let is_whole = changes
            .iter()
            .all(|change| change.group == changes[0].group);
        assert!(is_whole, "{changes:?}");
        (
            changes.iter().map(event).collect(),
            changes[0].position.lsn.get(),
        )
    };
    of_one.map(group).collect()
}

fn seeds(ordinary: u64) -> u64 {
    if common::long() { 10_000 } else { ordinary }
}

fn run(seed: u64, ends: &[End]) {
    let mut run = Run::new(seed, ends);
    for _ in 0..3 + run.chance.below(5) {
        for _ in 0..run.chance.below(25) {
            run.step();
        }
        let end = ends[run.chance.below(ends.len() as u64) as usize];
        run.end(end);
    }
    run.finish();
}

#[test]
fn every_group_is_read_once_whole_and_in_order_through_cleaning_kills_and_restarts() {
    for seed in 0..seeds(200) {
        run(seed, &[End::Kill, End::Close]);
    }
}

#[test]

fn after_a_power_failure_the_changes_are_those_of_one_moment() {
    // 2550: a delta is durable on one device, and its base is a version on another device, which
    // has an older state.
    for seed in (0..seeds(200)).chain([2550]) {
        run(
            seed,
            &[End::PowerFailure, End::PowerFailure, End::Kill, End::Close],
        );
    }
}
