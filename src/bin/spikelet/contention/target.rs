//! The written store: hot records, writes to them, and their content afterwards.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spikelet::operations::{add, get_bin, lists, put};
use spikelet::storage::ManualClock;
use spikelet::{
    Error, Key, ListOrder, ListPolicy, ListReturnType, ListWriteFlags, NamespaceConfig, Operation,
    RecordSet, Store, Value, WritePolicy,
};

use super::case::{Case, Write};
use super::collection::HotCollection;
use super::hold::HoldingSet;
use super::journal::{Journal, WriteState};
use super::layout::RowLayout;
use super::ledger::{Correctness, InitialElements, Ledger};
use super::put_history;
use super::routing::{EPOCH_2010_MS, HotRoute, number};
use super::schedule::Holds;
#[cfg(feature = "cluster")]
use super::scratch::{self, ScratchSet};
use crate::failure::Result;

/// Where rows run.
#[derive(Clone, Debug)]
pub(crate) enum RowPlace {
    /// In this process: each row in a store of its own.
    Embedded,
    /// Against a cluster: one row after the other in a set of its own.
    #[cfg(feature = "cluster")]
    Cluster(Arc<ScratchSet>),
}

const RECORDS: &str = "test";
const GATES: &str = "gates";
const SET: &str = "hot";
const BIN: &str = "hot";
/// A bin that gives the record its size.
const PADDING: &str = "padding";

/// A list is cut back when it has grown by this many elements, or more.
const TRIM_MIN: u32 = 100;
/// How elements are put in all at once.
const LIST_POLICY: ListPolicy = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE);
/// Where a virtual run begins: 2026-01-01T00:00:00Z.
const VIRTUAL_START_MS: u64 = 1_767_225_600_000 - EPOCH_2010_MS;

/// The hot records of one row, in a store of their own.
pub(super) struct HotTarget {
    case: Case,
    /// The store of the row alone; `None` on a cluster.
    store: Option<Store>,
    #[cfg(feature = "cluster")]
    scratch: Option<Arc<ScratchSet>>,
    pub(super) held: HoldingSet,
    policy: WritePolicy,
    /// The clock of a virtual run.
    clock: Option<Arc<ManualClock>>,
    payload: Vec<u8>,
    /// The hot keys as the library's handles have them; empty where the operation has no handle of
    /// its own.
    pub(super) collections: Vec<HotCollection>,
    /// How long each list is, by hot key and shard: of the current bucket, where time plays a part.
    lengths: Vec<AtomicU64>,
    /// Whether a thread is cutting back a list.
    trimming: AtomicBool,
    trims: AtomicU64,
    puts: put_history::PutHistories,
    /// The ledger of a store on disk.
    journal: Option<Journal>,
}

impl HotTarget {
    /// Creates a fresh store, or uses the set of a cluster, with the collections sharded and
    /// filled.
    ///
    /// # Errors
    /// What the store refuses.
    pub(super) fn new(case: &Case, place: &RowPlace) -> Result<Self> {
        let dir = case
            .settings
            .dir
            .as_ref()
            .map(|dir| dir.join(case.file_name()));
        let mut target = match place {
            RowPlace::Embedded => Self::open(case, dir.as_deref(), false)?,
            #[cfg(feature = "cluster")]
            RowPlace::Cluster(scratch) => Self {
                scratch: Some(Arc::clone(scratch)),
                ..Self::with(
                    case,
                    HoldingSet::new(scratch.records.clone(), None),
                    scratch::policy(),
                )?
            },
        };
        let shards = case.layout.live_shards();
        if shards > 1 && !case.activates() {
            for collection in &target.collections {
                collection.activate(shards)?;
            }
        }
        target.fill()?;
        if let Some(dir) = dir {
            target.journal = Some(Journal::create(&dir, case)?);
        }
        target.held.begin();
        Ok(target)
    }

    /// Opens the store of a row, in memory or in this directory, without waiting for holds.
    ///
    /// # Errors
    /// What the store refuses.
    pub(super) fn open(case: &Case, dir: Option<&Path>, read_only: bool) -> Result<Self> {
        let settings = &case.settings;
        let clock = settings
            .is_virtual
            .then(|| Arc::new(ManualClock::at(VIRTUAL_START_MS)));
        let config = |name| {
            let mut config = NamespaceConfig::new(name);
            config.max_waiters = settings.max_waiters().unwrap_or(usize::MAX);
            config.background = !settings.is_virtual;
            config
        };
        let has_gates = !settings.is_virtual && !settings.hold.mean.is_zero();
        let builder = Store::builder().read_only(read_only);
        let mut builder = builder.namespace(config(RECORDS));
        if has_gates {
            builder = builder.namespace(config(GATES));
        }
        if let Some(clock) = &clock {
            builder = builder.clock(Arc::clone(clock) as _);
        }
        if let Some(dir) = dir {
            builder = builder.path(dir);
        }
        let store = builder.open()?;
        let records = store.namespace(RECORDS)?.set(SET)?;
        let gates = if has_gates {
            Some((store.namespace(GATES)?.set(SET)?, Holds::new(case)))
        } else {
            None
        };
        // Elements that are there beforehand are written past the handles.
        let policy = WritePolicy::default()
            .total_timeout(None)
            .override_shards(true);
        Ok(Self {
            store: Some(store),
            clock,
            ..Self::with(case, HoldingSet::new(records, gates), policy)?
        })
    }

    fn with(case: &Case, held: HoldingSet, policy: WritePolicy) -> Result<Self> {
        let settings = &case.settings;
        let collections = (0..settings.hot_keys)
            .filter_map(|key| HotCollection::new(case, &held, [SET, BIN], key, &policy).transpose())
            .collect::<spikelet::Result<_>>()?;
        let lists = settings.hot_keys as usize * case.layout.live_shards() as usize;
        Ok(Self {
            case: case.clone(),
            store: None,
            #[cfg(feature = "cluster")]
            scratch: None,
            policy,
            collections,
            clock: None,
            payload: vec![0x5a; settings.payload],
            lengths: (0..lists).map(|_| AtomicU64::new(0)).collect(),
            trimming: AtomicBool::new(false),
            trims: AtomicU64::new(0),
            puts: put_history::PutHistories::default(),
            journal: None,
            held,
        })
    }

    /// Puts the initial elements and the payload into the records of the collections.
    fn fill(&self) -> Result<()> {
        // Collections that will be activated begin in one record.
        let begins = if self.case.activates() {
            RowLayout::Hashed(1)
        } else {
            self.case.layout
        };
        for (key, collection) in (0..).zip(&self.collections) {
            let mut of_places: HashMap<HotRoute, Vec<u64>> = HashMap::new();
            for id in InitialElements::of(&self.case.settings).numbers() {
                let route = HotRoute::of(begins, key, id, self.records().now_ms());
                of_places.entry(route).or_default().push(id);
            }
            for (route, ids) in &of_places {
                // The handle makes the list. The other elements are put beside its first one all at
                // once.
                let Some((first, rest)) = ids.split_first() else {
                    continue;
                };
                collection.write(route, *first)?;
                let rest = rest.iter().map(|id| route.child(*id)).collect();
                let append = lists::append_items(&LIST_POLICY, BIN, rest);
                let key = Key::from(route.record_key());
                self.records().operate_on(&self.policy, &key, &[append])?;
                if let Some(length) = self.length(route) {
                    length.store(ids.len() as u64, Ordering::Relaxed);
                }
            }
            // The payload is put beside that, as far as the records exist.
            let padded: Vec<HotRoute> = match begins {
                _ if self.payload.is_empty() => Vec::new(),
                RowLayout::Hashed(shards) => HotRoute::all_of(key, shards).collect(),
                RowLayout::Timed(..) => of_places.into_keys().collect(),
            };
            for route in padded {
                let padding = [self.padding()];
                let key = Key::from(route.record_key());
                self.records().operate_on(&self.policy, &key, &padding)?;
            }
        }
        Ok(())
    }

    fn padding(&self) -> Operation {
        put(PADDING, Value::Blob(self.payload.clone()))
    }

    fn records(&self) -> &dyn RecordSet {
        self.held.records()
    }

    /// Moves the clock of a virtual run on.
    pub(super) fn advance_to_ms(&self, since_start_ms: u64) {
        if let Some(clock) = &self.clock {
            let shown = self.records().now_ms() - VIRTUAL_START_MS;
            clock.advance_ms(since_start_ms.saturating_sub(shown));
        }
    }

    /// Returns the record that a write goes to now. Counters choose among their shards themselves:
    /// on a virtual clock this is the queue of a random one.
    pub(super) fn route(&self, key: u32, id: u64) -> HotRoute {
        HotRoute::of(self.case.layout, key, id, self.records().now_ms())
    }

    fn length(&self, route: &HotRoute) -> Option<&AtomicU64> {
        let shards = self.case.layout.live_shards() as usize;
        let place = route.key as usize * shards + route.shard_number() as usize;
        self.lengths.get(place)
    }

    /// Does a write, and notes it if it is acknowledged.
    ///
    /// # Errors
    /// What the store answers.
    pub(super) fn write(&self, route: HotRoute, id: u64, ledger: &mut Ledger) -> Result<()> {
        self.note(WriteState::Sent, &route, id)?;
        let sent = self.puts.now();
        let done = match self.collections.get(route.key as usize) {
            Some(collection) => collection.write(&route, id),
            None => self.write_record(&route, id, ledger),
        };
        match done {
            Ok(true) => {
                self.note(WriteState::Acknowledged, &route, id)?;
                ledger.acknowledge(&self.case, route, id);
                match self.case.settings.write {
                    Write::AddUnique => self.trim(&route, ledger),
                    Write::Put => self.puts.acknowledge(route, id, sent),
                    Write::Increment => {}
                }
                Ok(())
            }
            // An element that existed was added twice.
            Ok(false) => {
                ledger.repeated += 1;
                Ok(())
            }
            Err(error) => {
                if error.in_doubt() {
                    ledger.in_doubt.push(id);
                } else {
                    self.note(WriteState::Refused, &route, id)?;
                }
                Err(error.into())
            }
        }
    }

    fn note(&self, known: WriteState, route: &HotRoute, id: u64) -> Result<()> {
        self.journal
            .as_ref()
            .map_or(Ok(()), |journal| journal.note(known, route, id))
    }

    /// Writes to a plain record, where the library has no handle.
    fn write_record(&self, route: &HotRoute, id: u64, ledger: &Ledger) -> spikelet::Result<bool> {
        let mut operations = Vec::with_capacity(2);
        if self.case.settings.write == Write::Put {
            operations.push(put(BIN, put_history::value(&self.payload, id)));
        } else {
            operations.push(add(BIN, 1));
            if !ledger.acked.contains_key(route) {
                operations.push(self.padding());
            }
        }
        let key = Key::from(route.record_key());
        self.held.operate_on(&self.policy, &key, &operations)?;
        Ok(true)
    }

    /// Cuts a list back to its length once it is too long, at a position that varies: past the
    /// handles, which have no call for that. If it is refused, the next writer tries.
    fn trim(&self, route: &HotRoute, ledger: &mut Ledger) {
        let Some(length) = self.length(route) else {
            return;
        };
        let grown = length.fetch_add(1, Ordering::Relaxed) + 1;
        let kept = self.case.settings.elements / self.case.layout.live_shards();
        let most = u64::from(kept + (kept / 10).max(TRIM_MIN));
        // A moving list is left alone, and so is one with a ledger that is kept
        // for later.
        if self.case.settings.elements == 0
            || self.case.activates()
            || self.journal.is_some()
            || grown < most
            || self.trimming.swap(true, Ordering::Acquire)
        {
            return;
        }
        let turn = self.trims.fetch_add(1, Ordering::Relaxed);
        let from = turn.wrapping_mul(0x9e37_79b9) % (u64::from(kept) + 1);
        let surplus = grown - u64::from(kept);
        let cut =
            lists::remove_by_index_range_count(BIN, from as i64, surplus, ListReturnType::Values);
        let key = Key::from(route.record_key());
        let operations = [cut, lists::size(BIN)];
        let done = self.records().operate_on(&self.policy, &key, &operations);
        if let Ok(done) = done
            && let (Some(Value::List(removed)), Some(Value::Int(left))) =
                (done.value(0), done.value(1))
        {
            let removed = removed.iter().map(|element| (route.key, number(element)));
            ledger.trimmed.extend(removed);
            // In a new bucket of time the list is another one.
            length.store(*left as u64, Ordering::Relaxed);
        }
        self.trimming.store(false, Ordering::Release);
    }

    /// Reads a write back that was just acknowledged to the owner of this ledger.
    ///
    /// # Errors
    /// What the store answers.
    pub(super) fn read_back(&self, route: &HotRoute, id: u64, ledger: &mut Ledger) -> Result<()> {
        ledger.read_back += 1;
        let own = |route: &HotRoute| ledger.acked.get(route).copied().unwrap_or_default();
        let Some(collection) = self.collections.get(route.key as usize) else {
            let known = self.puts.of(route);
            let key = Key::from(route.record_key());
            let read = [get_bin(BIN)];
            let found = self.held.operate_on(&self.policy, &key, &read)?;
            let is_seen = match found.value(0) {
                Some(Value::Int(count)) => *count as u64 >= own(route),
                Some(value @ Value::Blob(_)) => put_history::number(value)
                    .zip(known)
                    .is_none_or(|(id, known)| !known.is_replaced(id)),
                _ => false,
            };
            ledger.unseen += u64::from(!is_seen);
            return Ok(());
        };
        if !collection.seen(route, id)? {
            match self.case.settings.write {
                Write::AddUnique => ledger.suspects.push(id as u32),
                Write::Put | Write::Increment => ledger.unseen += 1,
            }
        }
        Ok(())
    }

    /// Compares the acknowledged writes with the present content of collections or records.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn check(&self, ledger: &Ledger) -> Result<Correctness> {
        match (self.case.settings.write, self.collections.is_empty()) {
            (Write::AddUnique, _) => {
                let mut found = Vec::new();
                for (key, collection) in (0..).zip(&self.collections) {
                    let numbers = collection.numbers()?;
                    found.extend(numbers.into_iter().map(|id| (key, id)));
                }
                let beforehand = InitialElements::of(&self.case.settings);
                Ok(Correctness::of_elements(ledger, found, beforehand))
            }
            (_, false) => {
                let sums = self.collections.iter().map(HotCollection::sum);
                let sums: Vec<u64> = sums.collect::<spikelet::Result<_>>()?;
                let sum = |route: &HotRoute| sums.get(route.key as usize).copied().unwrap_or(0);
                Ok(Correctness::of_counts(ledger, sum))
            }
            (_, true) => self.check_records(ledger),
        }
    }

    /// Compares plain records: the sums of increments, or how often and by which put each was
    /// replaced.
    fn check_records(&self, ledger: &Ledger) -> Result<Correctness> {
        let (mut counts, mut replaced) = (HashMap::new(), 0);
        for (route, acked) in &ledger.acked {
            let key = Key::from(route.record_key());
            let read = [get_bin(BIN)];
            let found = match self.records().operate_on(&self.policy, &key, &read) {
                Err(Error::NotFound { .. }) => continue,
                found => found?,
            };
            let count = match found.value(0) {
                Some(Value::Int(count)) => *count as u64,
                Some(_) => writes_of_generation(found.generation.into(), *acked),
                None => 0,
            };
            counts.insert(*route, count);
            // A payload without room for its write's number says nothing.
            let is_put = self.case.settings.write == Write::Put && count > 0;
            if is_put && self.payload.len() >= put_history::NUMBER_BYTES {
                let known = ledger.puts.get(route).cloned();
                let known = known.or_else(|| self.puts.of(route)).unwrap_or_default();
                let last = found.value(0).and_then(put_history::number);
                let may_be = last
                    .is_some_and(|last| known.may_be_last(last) || ledger.in_doubt.contains(&last));
                replaced += u64::from(!may_be);
            }
        }
        let count = |route: &HotRoute| counts.get(route).copied().unwrap_or(0);
        Ok(Correctness::of_counts(ledger, count).with_replaced(replaced))
    }

    /// Closes the store, or leaves the set of a cluster as it was before the row.
    ///
    /// # Errors
    /// If it cannot be closed or cleared.
    pub(super) fn close(self) -> Result<()> {
        if let Some(store) = self.store {
            store.close()?;
        }
        #[cfg(feature = "cluster")]
        if let Some(scratch) = self.scratch {
            let keys = 0..self.case.settings.hot_keys;
            match self.case.layout {
                RowLayout::Hashed(shards) => {
                    let of_key =
                        |key| HotRoute::all_of(key, 1).chain(HotRoute::all_of(key, shards));
                    scratch.delete(keys.flat_map(of_key).map(|route| route.record_key()))?;
                }
                RowLayout::Timed(..) => scratch.sweep()?,
            }
        }
        Ok(())
    }
}

/// Returns how many writes a record at this generation has seen. Generations go from 1 to 65,535
/// and then to 1 again, so it is the possible number nearest to the acknowledged one.
fn writes_of_generation(generation: u64, acked: u64) -> u64 {
    const ROUND: u64 = u16::MAX as u64;
    if generation == 0 {
        return 0;
    }
    let below = acked / ROUND * ROUND + generation;
    [below.saturating_sub(ROUND), below, below + ROUND]
        .into_iter()
        .filter(|writes| *writes > 0)
        .min_by_key(|writes| writes.abs_diff(acked))
        .unwrap_or(below)
}

#[cfg(test)]
mod tests;
