//! The store that is written to: hot records, writes to them, and what is found in them afterwards.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spikelet_storage::ManualClock;

use super::case::{Case, Write};
use super::held::Held;
use super::layout::Layout;
use super::ledger::{Correctness, Ledger};
use super::place::{EPOCH_2010_MS, Place};
use super::schedule::Holds;
use crate::operations::{add, get_bin, lists, put};
use crate::{
    Key, ListOrder, ListPolicy, ListReturnType, ListWriteFlags, NamespaceConfig, Operation,
    RecordSet, Result, Set, ShardedList, Store, Value, WritePolicy,
};

const RECORDS: &str = "test";
const GATES: &str = "gates";
const SET: &str = "hot";
const BIN: &str = "hot";
/// What makes the record as large as it is meant to be.
const PADDING: &str = "padding";

/// The first number of the elements that are in the lists beforehand; writes have smaller ones.
const BEFOREHAND: u64 = 1 << 31;
/// A list is cut back when it has grown by so many elements at least.
const TRIM_MIN: u32 = 100;
/// Where a virtual run begins: 2026-01-01T00:00:00Z.
const VIRTUAL_START_MS: u64 = 1_767_225_600_000 - EPOCH_2010_MS;

/// The hot records of one row, in a store of their own in memory.
#[derive(Debug)]
pub(super) struct Target {
    case: Case,
    store: Store,
    held: Held,
    policy: WritePolicy,
    list_policy: ListPolicy,
    /// The clock of a virtual run.
    clock: Option<Arc<ManualClock>>,
    /// The keys of records by hot key and shard, unless they go with the time.
    names: Vec<String>,
    payload: Vec<u8>,
    /// The lists of the hot keys, where they are to be spread while they are written.
    lists: Vec<ShardedList<Held>>,
    /// Somebody is cutting back a list.
    trimming: AtomicBool,
    trims: AtomicU64,
}

impl Target {
    /// A fresh store with the lists filled.
    ///
    /// # Errors
    /// What the store refuses.
    pub(super) fn new(case: &Case) -> Result<Self> {
        let settings = &case.settings;
        let clock = settings
            .is_virtual
            .then(|| Arc::new(ManualClock::at(VIRTUAL_START_MS)));
        let config = |name| {
            let mut config = NamespaceConfig::new(name);
            config.max_waiters = settings.limit;
            config.background = !settings.is_virtual;
            config
        };
        let has_gates = !settings.is_virtual && !settings.hold.mean.is_zero();
        let mut builder = Store::builder().namespace(config(RECORDS));
        if has_gates {
            builder = builder.namespace(config(GATES));
        }
        if let Some(clock) = &clock {
            builder = builder.clock(Arc::clone(clock) as _);
        }
        let store = builder.open()?;
        let records = store.namespace(RECORDS)?.set(SET)?;
        let gates = if has_gates {
            Some((store.namespace(GATES)?.set(SET)?, Holds::new(case)))
        } else {
            None
        };
        let names = match case.layout {
            Layout::Hashed(shards) => (0..settings.hot_keys)
                .flat_map(|key| (0..shards).map(move |shard| Place::hashed(key, shards, shard)))
                .map(|place| place.record_key())
                .collect(),
            Layout::Timed(..) => Vec::new(),
        };
        let held = Held::new(records, gates);
        let policy = WritePolicy::default().total_timeout(None);
        let lists = if case.activates() {
            (0..settings.hot_keys)
                .map(|key| ShardedList::new_with(&held, SET, list_key(key), BIN, &policy))
                .collect::<Result<_>>()?
        } else {
            Vec::new()
        };
        let target = Self {
            case: case.clone(),
            store,
            held,
            policy,
            lists,
            list_policy: ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE),
            clock,
            names,
            payload: vec![0x5a; settings.payload],
            trimming: AtomicBool::new(false),
            trims: AtomicU64::new(0),
        };
        target.fill()?;
        Ok(target)
    }

    /// Puts the elements into the lists that are to be there beforehand.
    fn fill(&self) -> Result<()> {
        let settings = &self.case.settings;
        if settings.write != Write::AddUnique {
            return Ok(());
        }
        let mut filled: HashMap<Place, Vec<Value>> = HashMap::new();
        for key in 0..settings.hot_keys {
            if !self.lists.is_empty() {
                self.fill_list(key)?;
                continue;
            }
            for id in BEFOREHAND..BEFOREHAND + u64::from(settings.elements) {
                filled
                    .entry(self.place(key, id))
                    .or_default()
                    .push(element(id));
            }
        }
        for (place, elements) in filled {
            let append = lists::append_items(&self.list_policy, BIN, elements);
            self.records()
                .operate(place.record_key().as_str(), &[append, self.padding()])?;
        }
        Ok(())
    }

    /// The same for a list that will be spread: past the gates, in no time.
    fn fill_list(&self, key: u32) -> Result<()> {
        let records = self.store.namespace(RECORDS)?;
        let list = ShardedList::new(&records, SET, list_key(key), BIN)?;
        for id in BEFOREHAND..BEFOREHAND + u64::from(self.case.settings.elements) {
            list.add(element(id))?;
        }
        Ok(())
    }

    /// The lists that are to be spread.
    pub(super) fn lists(&self) -> &[ShardedList<Held>] {
        &self.lists
    }

    fn padding(&self) -> Operation {
        put(PADDING, Value::Blob(self.payload.clone()))
    }

    fn records(&self) -> &Set {
        self.held.records()
    }

    /// The records behind their gates.
    pub(super) const fn held(&self) -> &Held {
        &self.held
    }

    /// Moves the clock of a virtual run on.
    pub(super) fn advance_to_ms(&self, since_start_ms: u64) {
        if let Some(clock) = &self.clock {
            let shown = self.records().now_ms() - VIRTUAL_START_MS;
            clock.advance_ms(since_start_ms.saturating_sub(shown));
        }
    }

    /// Which record a write goes to now.
    pub(super) fn place(&self, key: u32, id: u64) -> Place {
        let now_ms = match self.case.layout {
            Layout::Hashed(_) => 0,
            Layout::Timed(..) => self.records().now_ms(),
        };
        Place::of(self.case.layout, key, id, now_ms)
    }

    fn with_name<R>(&self, place: &Place, run: impl FnOnce(&Key<'_>) -> R) -> R {
        let shards = self.case.layout.live_shards() as usize;
        let at = place.key as usize * shards + place.shard_number() as usize;
        match self.names.get(at) {
            Some(name) => run(&Key::from(name.as_str())),
            None => run(&Key::from(place.record_key())),
        }
    }

    /// Does a write, and notes it if it is acknowledged.
    ///
    /// # Errors
    /// What the store answers.
    pub(super) fn write(&self, place: Place, id: u64, ledger: &mut Ledger) -> Result<()> {
        if let Some(list) = self.lists.get(place.key as usize) {
            let added = list.add(element(id));
            let added =
                added.inspect_err(|error| ledger.in_doubt += u64::from(error.in_doubt()))?;
            *ledger.acked.entry(place).or_default() += 1;
            // What was there already was added twice.
            if added {
                ledger.elements.push(id as u32);
            } else {
                ledger.repeated += 1;
            }
            return Ok(());
        }
        let operation = match self.case.settings.write {
            Write::Put => {
                // As many bytes as are asked for, and the write's number in the first of them.
                let mut value = self.payload.clone();
                value
                    .iter_mut()
                    .zip(id.to_le_bytes())
                    .for_each(|(byte, of_id)| *byte = of_id);
                put(BIN, Value::Blob(value))
            }
            Write::Increment => add(BIN, 1),
            Write::AddUnique => lists::append(&self.list_policy, BIN, element(id)),
        };
        let first = ledger.acked.get(&place).is_none_or(|count| *count == 0);
        let pads = first && self.case.settings.write == Write::Increment;
        let operations: &[Operation] = if pads {
            &[operation, self.padding()]
        } else {
            &[operation]
        };
        let done = self.with_name(&place, |key| {
            self.held.operate_on(&self.policy, key, operations)
        });
        let done = done.inspect_err(|error| ledger.in_doubt += u64::from(error.in_doubt()))?;
        *ledger.acked.entry(place).or_default() += 1;
        if self.case.settings.write == Write::AddUnique {
            ledger.elements.push(id as u32);
            if let Some(Value::Int(length)) = done.value(0) {
                self.trim(&place, *length as u64, ledger);
            }
        }
        Ok(())
    }

    /// Cuts a list back to the length that it is kept at, from a place that varies. It may be refused: the next one tries.
    fn trim(&self, place: &Place, length: u64, ledger: &mut Ledger) {
        let kept = self.case.settings.elements / self.case.layout.live_shards();
        let most = u64::from(kept + (kept / 10).max(TRIM_MIN));
        if self.case.settings.elements == 0
            || length < most
            || self.trimming.swap(true, Ordering::Acquire)
        {
            return;
        }
        let surplus = length - u64::from(kept);
        let turn = self.trims.fetch_add(1, Ordering::Relaxed);
        let from = turn.wrapping_mul(0x9e37_79b9) % (u64::from(kept) + 1);
        let cut =
            lists::remove_by_index_range_count(BIN, from as i64, surplus, ListReturnType::Values);
        let done = self.with_name(place, |key| {
            self.records().operate_on(&self.policy, key, &[cut])
        });
        if let Ok(done) = done
            && let Some(Value::List(removed)) = done.value(0)
        {
            ledger.trimmed.extend(removed.iter().filter_map(number));
        }
        self.trimming.store(false, Ordering::Release);
    }

    /// Reads a write back that was just acknowledged to the owner of this ledger.
    ///
    /// # Errors
    /// What the store answers.
    pub(super) fn read_back(&self, place: &Place, id: u64, ledger: &mut Ledger) -> Result<()> {
        if let Some(list) = self.lists.get(place.key as usize) {
            ledger.read_back += 1;
            ledger.unseen += u64::from(!list.contains(&element(id))?);
            return Ok(());
        }
        let read = match self.case.settings.write {
            Write::Put | Write::Increment => get_bin(BIN),
            Write::AddUnique => lists::get_by_value(BIN, element(id), ListReturnType::Count),
        };
        let found = self.with_name(place, |key| {
            self.held.operate_on(&self.policy, key, &[read])
        })?;
        ledger.read_back += 1;
        let own = ledger.acked.get(place).copied().unwrap_or_default();
        match (self.case.settings.write, found.value(0)) {
            (Write::Increment, Some(Value::Int(count))) if *count as u64 >= own => {}
            (Write::Put, Some(Value::Blob(_))) => {}
            (Write::AddUnique, Some(Value::Int(1))) => {}
            (Write::AddUnique, _) => ledger.suspects.push(id as u32),
            _ => ledger.unseen += 1,
        }
        Ok(())
    }

    /// Compares what was acknowledged with what the records hold now.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub(super) fn check(&self, ledger: &Ledger) -> Result<Correctness> {
        let mut in_lists = Vec::new();
        let mut counts: HashMap<String, u64> = HashMap::new();
        let write = self.case.settings.write;
        for list in &self.lists {
            for element in list.iter() {
                in_lists.extend(number(&element?));
            }
        }
        if !self.lists.is_empty() {
            return Ok(Correctness::of_elements(ledger, in_lists));
        }
        self.records().scan_records(&mut |record| {
            let Some(Key::String(name)) = record.key() else {
                return;
            };
            let count = match (write, record.get(BIN)) {
                (Write::Put, Some(_)) => u64::from(record.generation()),
                (Write::Increment, Some(Value::Int(count))) => count as u64,
                (Write::AddUnique, Some(Value::List(list))) => {
                    in_lists.extend(list.iter().filter_map(number));
                    0
                }
                _ => 0,
            };
            counts.insert(name.to_string(), count);
        })?;
        let count_of = |place: &Place| counts.get(&place.record_key()).copied().unwrap_or(0);
        Ok(match write {
            Write::AddUnique => Correctness::of_elements(ledger, in_lists),
            Write::Increment => Correctness::of_counts(ledger, count_of),
            Write::Put => Correctness::of_counts(ledger, |place| {
                let acked = ledger.acked.get(place).copied().unwrap_or(0);
                writes_of_generation(count_of(place), acked)
            }),
        })
    }

    /// Ends the store.
    ///
    /// # Errors
    /// If it cannot be closed.
    pub(super) fn close(self) -> Result<()> {
        self.store.close()
    }
}

fn list_key(key: u32) -> String {
    Place::hashed(key, 1, 0).record_key()
}

/// How many writes a record has seen that is at this generation: 1 to 65,535 and then 1 again, so the number that is
/// nearest to what was acknowledged.
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

/// The element of a number: different for different ones, and in no order.
fn element(id: u64) -> Value {
    Value::Int(i64::from((id as u32).wrapping_mul(0x9e37_79b1)))
}

/// The number of an element, unless it was there beforehand.
fn number(element: &Value) -> Option<u32> {
    let Value::Int(element) = element else {
        return None;
    };
    // The inverse of the factor, modulo 2^32.
    let id = (*element as u32).wrapping_mul(0x0e8b_2f51);
    (u64::from(id) < BEFOREHAND).then_some(id)
}
