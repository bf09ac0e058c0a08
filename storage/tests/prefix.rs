//! After a power failure the store is as it was at one moment, and that is not before the last
//! sync.
//!
//! Threads transfer between accounts and write single records, in lanes of their own, beside syncs
//! and cleaning. The store after each failure must be the result of a first part of the writes, in
//! the order of their numbers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{Chance, devices, digest, get, long, options, version};
use spikelet_storage::{
    Change, Device, DeviceError, Durability, Error, Lsn, Namespace, Options, RecordChange,
    SeenRecord, SimulatedDevice,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

const BLOCKS: u64 = 12;
const ACCOUNTS: u64 = 12;
const BALANCE: u64 = 1_000;
/// Records beside the accounts, written one at a time.
const OTHERS: u64 = 6;
const DURABILITIES: [Durability; 3] = [
    Durability::Process,
    Durability::Interval(Duration::from_millis(1)),
    Durability::Commit,
];

/// What a write leaves: records and their contents, `None` for a deletion.
type Write = Vec<(u64, Option<Vec<u8>>)>;

/// How large a store's blocks and records are.
#[derive(Clone, Copy)]
struct Sizes {
    has_small_blocks: bool,
    blocks: u64,
    /// Bodies of accounts, and of other records, are smaller than this.
    account_bytes: u64,
    other_bytes: u64,
    /// One in this many new balances comes with a new body.
    new_body_one_in: u64,
    /// How many writes a life has, at least and beyond that.
    writes: (u64, u64),
}

/// A transfer fits into a block many times, and an opening appends few batches again.
const SMALL: Sizes = Sizes {
    has_small_blocks: false,
    blocks: BLOCKS,
    account_bytes: 6_000,
    other_bytes: 3_000,
    new_body_one_in: 8,
    writes: (20, 200),
};

/// A transfer may be larger than a block, and than what an opening appends again at a time.
const LARGE: Sizes = Sizes {
    has_small_blocks: true,
    blocks: 2 * BLOCKS,
    account_bytes: 500_000,
    other_bytes: 150_000,
    new_body_one_in: 2,
    writes: (8, 40),
};

/// All writes by the number of their last entry, and the highest number acknowledged when they
/// ended.
#[derive(Default)]
struct History {
    writes: Mutex<BTreeMap<Lsn, Write>>,
    /// Whether a write is acknowledged once it is durable.
    waits: bool,
    /// The highest number that was acknowledged.
    acknowledged: AtomicU64,
    /// Everything up to here was synced before the image was made.
    synced: AtomicU64,
}

impl History {
    /// Notes a write that is in the store, and that it is acknowledged once the durability is kept.
    fn add(&self, namespace: &Namespace, lsn: Lsn, write: Write) {
        self.writes.lock().unwrap().insert(lsn, write);
        if !self.waits || namespace.wait_durable(lsn).is_ok() {
            self.acknowledged.fetch_max(lsn.get(), Ordering::SeqCst);
        }
    }
}

/// Records as they are after some writes.
type State = BTreeMap<u64, Vec<u8>>;

fn apply(state: &mut State, write: &Write) {
    for (record, content) in write {
        match content {
            Some(content) => drop(state.insert(*record, content.clone())),
            None => drop(state.remove(record)),
        }
    }
}

/// A balance, and a body that makes the record large enough for edits to be written as such.
fn account(sizes: Sizes, balance: u64, chance: &mut Chance, before: Option<&[u8]>) -> Vec<u8> {
    let mut content = match before {
        Some(before) if !chance.one_in(sizes.new_body_one_in) => before.to_vec(),
        _ => vec![chance.next() as u8; 8 + chance.below(sizes.account_bytes) as usize],
    };
    content[..8].copy_from_slice(&balance.to_le_bytes());
    content
}

fn balance_of(content: &[u8]) -> u64 {
    u64::from_le_bytes(content[..8].try_into().unwrap())
}

fn look(namespace: &Namespace, record: u64) -> (SeenRecord, Option<Vec<u8>>) {
    let digest = digest(record);
    namespace.get_versioned(&digest, |version, found| {
        let content = found.unwrap().map(|entry| entry.payload().to_vec());
        (SeenRecord { digest, version }, content)
    })
}

/// Moves an amount from one account to some others. Returns false for a conflict, or if there is no
/// room.
fn transfer(namespace: &Namespace, history: &History, sizes: Sizes, chance: &mut Chance) -> bool {
    let members = 2 + chance.below(4);
    let first = chance.below(ACCOUNTS);
    let amount = chance.below(20);
    let mut writes: Vec<(SeenRecord, u64, Vec<u8>)> = Vec::new();
    for member in 0..members {
        let record = (first + member) % ACCOUNTS;
        let (seen, before) = look(namespace, record);
        let before = before.unwrap();
        let balance = match member {
            0 => balance_of(&before).checked_sub(amount * (members - 1)),
            _ => Some(balance_of(&before) + amount),
        };
        let Some(balance) = balance else { return false };
        writes.push((seen, record, account(sizes, balance, chance, Some(&before))));
    }
    writes.sort_by_key(|(seen, ..)| seen.digest);
    let changes: Vec<_> = writes
        .iter()
        .map(|(seen, _, content)| RecordChange {
            seen: *seen,
            change: Change::Put(version(content)),
        })
        .collect();
    let locked = match namespace.lock_unchanged(&[], &changes, 0, None) {
        Ok(locked) => locked,
        Err(Error::Conflict { .. }) => return false,
        Err(error) => panic!("{error}"),
    };
    match namespace.apply_group(locked) {
        Ok(lsn) => {
            let write = writes.iter();
            let write = write.map(|(_, record, content)| (*record, Some(content.clone())));
            history.add(namespace, lsn.unwrap(), write.collect());
            true
        }
        Err(Error::StopWrites { .. } | Error::ReadOnly { .. } | Error::NoSpace { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Writes or deletes one record.
fn write_one(namespace: &Namespace, history: &History, sizes: Sizes, chance: &mut Chance) {
    let record = ACCOUNTS + chance.below(OTHERS);
    let content = vec![chance.next() as u8; chance.below(sizes.other_bytes) as usize];
    let mut lock = namespace.lock(&digest(record), None).unwrap();
    let is_deletion = chance.one_in(4);
    let change = if is_deletion {
        Change::Delete(common::NOW_MS)
    } else {
        Change::Put(version(&content))
    };
    match lock.apply(&change) {
        Ok(Some(lsn)) => {
            history.add(
                namespace,
                lsn,
                vec![(record, (!is_deletion).then_some(content))],
            );
        }
        Ok(None) => {}
        Err(Error::StopWrites { .. } | Error::ReadOnly { .. } | Error::NoSpace { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

fn read_all(namespace: &Namespace, what: &str) -> State {
    let mut state = State::new();
    for record in 0..ACCOUNTS + OTHERS {
        let found =
            get(namespace, &digest(record)).unwrap_or_else(|error| panic!("{what}: {error}"));
        if let Some(content) = found {
            state.insert(record, content);
        }
    }
    state
}

/// How one image was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Power,
    Kill,
    /// A sync fails, the process is killed, and nothing else is lost.
    FailedSync,
}

struct Run {
    durability: Durability,
    lanes: usize,
    sizes: Sizes,
}

/// Opens devices, perhaps without any room, and fails the power or kills the process in the middle.
/// Returns the devices after that, unless the opening was done before. `may_refuse`: more than a
/// kill has happened to the devices.
fn open_without_power(
    run: &Run,
    disks: &[Arc<SimulatedDevice>],
    chance: &mut Chance,
    may_refuse: bool,
    what: &str,
) -> Option<Vec<Arc<SimulatedDevice>>> {
    let left = Arc::new(Mutex::new(None));
    let (all, of_hook, seed) = (disks.to_vec(), Arc::clone(&left), chance.next());
    let turn = chance.below(disks.len() as u64) as usize;
    let is_kill = chance.one_in(3);
    disks[turn].before_change(1 + chance.below(40), move || {
        let left = if is_kill {
            all.iter().map(|disk| disk.kill().unwrap()).collect()
        } else {
            SimulatedDevice::crash_all(&all, seed).unwrap()
        };
        *of_hook.lock().unwrap() = Some(left.into_iter().map(Arc::new).collect());
    });
    let is_full = chance.one_in(2);
    if is_full {
        // Room for some of the entries that are appended again, or for none.
        let room = chance.below(4) * chance.below(1 << 20);
        for disk in disks {
            disk.set_space_bytes(disk.allocated_bytes() + room);
        }
    }
    match run.try_open(disks) {
        Ok(namespace) => drop(namespace),
        Err(Error::NoSpace { .. } | Error::Device(DeviceError::Full { .. })) if may_refuse => {}
        Err(error) => panic!("{what}: {error}"),
    }
    disks[turn].before_change(u64::MAX, || {});
    let left: Option<Vec<Arc<SimulatedDevice>>> = left.lock().unwrap().take();
    let found = left.as_deref().unwrap_or(disks);
    found.iter().for_each(|disk| disk.set_space_bytes(u64::MAX));
    left
}

impl Run {
    /// New devices, with all blocks together.
    fn create(&self, count: u8) -> Vec<Arc<SimulatedDevice>> {
        let blocks = self.sizes.blocks / u64::from(count);
        let device = |index| {
            let header = if self.sizes.has_small_blocks {
                common::small_header(index, count, blocks)
            } else {
                common::header(index, count, blocks)
            };
            Arc::new(SimulatedDevice::new(&header).unwrap())
        };
        (0..count).map(device).collect()
    }

    fn open(&self, left: &[Arc<SimulatedDevice>], what: &str) -> Namespace {
        let opened = self.open_if_room(left, false, what);
        opened.unwrap_or_else(|| panic!("{what}: refused"))
    }

    /// `None`: all blocks are full, and there is no room for entries that are not known to be
    /// durable. `may_refuse`: more than a kill has happened to the devices.
    fn open_if_room(
        &self,
        left: &[Arc<SimulatedDevice>],
        may_refuse: bool,
        what: &str,
    ) -> Option<Namespace> {
        let verified = Namespace::verify(&self.options(left));
        let verified = verified.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(!verified.is_damaged(), "{what}: {verified:?}");
        match self.try_open(left) {
            Ok(namespace) => Some(namespace),
            Err(Error::NoSpace { .. }) if may_refuse => None,
            Err(error) => panic!("{what}: {error}"),
        }
    }

    fn try_open(&self, left: &[Arc<SimulatedDevice>]) -> Result<Namespace, Error> {
        Namespace::open(self.options(left)).map(|(namespace, _)| namespace)
    }

    fn options(&self, left: &[Arc<SimulatedDevice>]) -> Options {
        Options {
            durability: self.durability,
            write_lanes: self.lanes,
            defrag_threshold_percent: 90,
            max_record_bytes: 1 << 20,
            ..options(devices(left), self.sizes.blocks)
        }
    }

    /// One life of a store: returns its devices after the failure, the writes in order, and how
    /// many of them must be there.
    fn live(
        &self,
        namespace: &Namespace,
        disks: &[Arc<SimulatedDevice>],
        chance: &mut Chance,
        fault: Fault,
    ) -> (Vec<Arc<SimulatedDevice>>, History, u64) {
        let history = History {
            waits: self.durability == Durability::Commit,
            ..History::default()
        };
        let (stop, gate) = (AtomicBool::new(false), RwLock::new(()));
        let seeds: Vec<u64> = (0..=self.lanes).map(|_| chance.next()).collect();
        let mut own = Chance(seeds[0]);
        let (least, beyond) = self.sizes.writes;
        let wanted = (least + own.below(beyond)) as usize;
        let (image, needed) = std::thread::scope(|scope| {
            for seed in &seeds[1..] {
                let (history, stop, gate) = (&history, &stop, &gate);
                scope.spawn(move || {
                    let mut chance = Chance(*seed);
                    while !stop.load(Ordering::SeqCst) {
                        // Cleaning that is behind comes to its end.
                        if history.writes.lock().unwrap().len() > 3 * wanted {
                            std::thread::yield_now();
                            continue;
                        }
                        let _writing = gate.read().unwrap();
                        match chance.below(4) {
                            0 => write_one(namespace, history, self.sizes, &mut chance),
                            _ => drop(transfer(namespace, history, self.sizes, &mut chance)),
                        }
                    }
                });
            }
            let fails_at = wanted / 2;
            while history.writes.lock().unwrap().len() < wanted {
                match own.below(12) {
                    0 => {
                        let before = history.acknowledged.load(Ordering::SeqCst);
                        if namespace.sync().is_ok() {
                            history.synced.fetch_max(before, Ordering::SeqCst);
                        }
                    }
                    1 => drop(namespace.maintain()),
                    2 => disks.iter().for_each(|disk| disk.writeback(own.next())),
                    _ => std::thread::yield_now(),
                }
                let is_time = history.writes.lock().unwrap().len() >= fails_at;
                if fault == Fault::FailedSync && is_time {
                    disks[0].fail_sync(1, own.next());
                    if namespace.sync().is_err() {
                        break;
                    }
                }
            }
            // Noted before the image is made: it may hold more. No thread is in the middle of a
            // write when a process is killed here: such a write may be there or not, and the rest
            // would not be a prefix.
            let _quiet = (fault != Fault::Power).then(|| gate.write().unwrap());
            let acknowledged = history.acknowledged.load(Ordering::SeqCst);
            let synced = history.synced.load(Ordering::SeqCst);
            let image = match fault {
                Fault::Power => SimulatedDevice::crash_all(disks, own.next()).unwrap(),
                Fault::Kill | Fault::FailedSync => {
                    disks.iter().map(|disk| disk.kill().unwrap()).collect()
                }
            };
            let image = image.into_iter().map(Arc::new).collect();
            stop.store(true, Ordering::SeqCst);
            let is_acknowledged = fault != Fault::Power || self.durability == Durability::Commit;
            (
                image,
                if is_acknowledged {
                    acknowledged
                } else {
                    synced
                },
            )
        });
        (image, history, needed)
    }
}

/// The first writes that give this state, counted from `needed` on.
fn prefix_of(
    before: &State,
    writes: &BTreeMap<Lsn, Write>,
    found: &State,
    needed: u64,
) -> Option<usize> {
    let mut state = before.clone();
    let mut count = 0;
    for (lsn, write) in writes {
        if lsn.get() > needed && state == *found {
            return Some(count);
        }
        apply(&mut state, write);
        count += 1;
    }
    (state == *found).then_some(count)
}

fn campaign(fault: Fault, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut chance = Chance(seed ^ 0x7e57);
        let run = Run {
            durability: DURABILITIES[(seed % 3) as usize],
            lanes: 1 + chance.below(4) as usize,
            sizes: if seed % 4 == 3 { LARGE } else { SMALL },
        };
        let mut disks = run.create(1 + chance.below(2) as u8);
        let namespace = run.open(&disks, "new");
        let mut state = State::new();
        for record in 0..ACCOUNTS {
            let content = account(run.sizes, BALANCE, &mut chance, None);
            common::put(&namespace, &digest(record), &content).unwrap();
            state.insert(record, content);
        }
        namespace.sync().unwrap();
        drop(namespace);
        let lives = if fault == Fault::FailedSync { 1 } else { 3 };
        for life in 0..lives {
            let what = format!("seed {seed}, {fault:?}, {:?}, life {life}", run.durability);
            let namespace = run.open(&disks, &what);
            assert_eq!(read_all(&namespace, &what), state, "{what}");
            namespace.maintain().unwrap();
            let (mut image, history, mut needed) = run.live(&namespace, &disks, &mut chance, fault);
            drop(namespace);
            let mut may_refuse = fault != Fault::Kill;
            for _ in 0..chance.below(4) {
                let left = open_without_power(&run, &image, &mut chance, may_refuse, &what);
                if let Some(left) = left {
                    (image, may_refuse) = (left, true);
                    if run.durability != Durability::Commit {
                        needed = history.synced.load(Ordering::SeqCst);
                    }
                }
            }
            let Some(namespace) = run.open_if_room(&image, may_refuse, &what) else {
                break;
            };
            let found = read_all(&namespace, &what);
            let writes = history.writes.into_inner().unwrap();
            let prefix = prefix_of(&state, &writes, &found, needed);
            assert!(
                prefix.is_some(),
                "{what}: no prefix of {} writes",
                writes.len()
            );
            let accounts = found.range(..ACCOUNTS);
            let sum: u64 = accounts.map(|(_, content)| balance_of(content)).sum();
            assert_eq!(sum, ACCOUNTS * BALANCE, "{what}");
            // A power failure right after the opening takes nothing of what it found.
            let again = SimulatedDevice::crash_all(&image, seed).unwrap();
            let again: Vec<_> = again.into_iter().map(Arc::new).collect();
            drop(namespace);
            let Some(reopened) = run.open_if_room(&again, true, &what) else {
                break;
            };
            assert_eq!(read_all(&reopened, &what), found, "{what}, again");
            drop(reopened);
            state = found;
            disks = again;
        }
    }
}

/// How many stores a test tries, a third of them with each durability; each loses power three
/// times.
fn stores() -> u64 {
    if long() { 10_200 } else { 60 }
}

#[test]
fn a_power_failure_leaves_a_prefix_of_all_writes() {
    campaign(Fault::Power, 0..stores());
}

#[test]
fn a_kill_takes_nothing_that_was_acknowledged() {
    campaign(Fault::Kill, 0..stores() / 2);
}

#[test]
fn a_failed_sync_and_a_kill_take_nothing_that_can_be_read() {
    campaign(Fault::FailedSync, 0..stores() / 2);
}
