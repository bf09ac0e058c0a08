//! The sets of a namespace: names, numbers, counts, and truncations.
//!
//! Stored as one metadata entry of the log, written anew at each change (`docs/format.md`).
//!
//! A truncation is a point in the log: a later write is never hidden, at any time of the clock.

pub(crate) mod feed;

use crate::entry::Lsn;
use crate::error::{Error, Result};
use crate::location::UNIT_BYTES;
use crate::reader::FieldReader;
use crate::sets::feed::{Feed, TruncationEvent};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU64, Ordering};
use std::collections::HashMap;

/// Set numbers have 12 bits and 0 is "no set", as in Aerospike.
#[cfg(not(shuttle))]
pub const SETS_MAX: usize = 4095;
/// Few, so that the model checker need not make thousands at each run.
#[cfg(shuttle)]
pub const SETS_MAX: usize = 2;
/// Bytes in the name of a set.
pub const SET_NAME_BYTES_MAX: usize = 63;

const VERSION: u8 = 4;

/// The most bytes of a catalog: 512 KiB. All sets and truncations fit into a small block beside it.
pub const CATALOG_BYTES_MAX: usize = 512 << 10;

/// The truncation of a set, or of the namespace.
#[derive(Debug, Default)]
struct Truncation {
    /// Everything with a lower log sequence number.
    below_lsn: AtomicU64,
    /// With a lower number than this, records last updated before `timed_ms`.
    timed_lsn: AtomicU64,
    timed_ms: AtomicU64,
}

/// The stored form of a [`Truncation`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Truncated {
    below_lsn: u64,
    timed_lsn: u64,
    timed_ms: u64,
}

impl Truncation {
    fn hides(&self, lsn: Lsn, last_update_ms: u64) -> bool {
        lsn.0 < self.below_lsn.load(Ordering::SeqCst)
            || (lsn.0 < self.timed_lsn.load(Ordering::SeqCst)
                && last_update_ms < self.timed_ms.load(Ordering::SeqCst))
    }

    fn load(&self) -> Truncated {
        Truncated {
            below_lsn: self.below_lsn.load(Ordering::SeqCst),
            timed_lsn: self.timed_lsn.load(Ordering::SeqCst),
            timed_ms: self.timed_ms.load(Ordering::SeqCst),
        }
    }

    fn store(&self, truncated: Truncated) {
        self.below_lsn.store(truncated.below_lsn, Ordering::SeqCst);
        // No reader may see the new time with the old number: it would hide too much.
        if truncated.timed_ms != self.timed_ms.load(Ordering::SeqCst) {
            self.timed_lsn.store(0, Ordering::SeqCst);
            self.timed_ms.store(truncated.timed_ms, Ordering::SeqCst);
        }
        self.timed_lsn.store(truncated.timed_lsn, Ordering::SeqCst);
    }
}

impl Truncated {
    /// After a truncation at this point of the log; `before_ms`: of records last updated before
    /// that. `None`: nothing more is hidden by it.
    fn and(self, lsn: u64, before_ms: Option<u64>) -> Option<Self> {
        let Some(before_ms) = before_ms else {
            return Some(Self {
                below_lsn: lsn,
                ..Self::default()
            });
        };
        let is_over = self.timed_lsn <= self.below_lsn;
        // No record is older than time 0, and followers take 0 for no time.
        let hidden_ms = if is_over { 0 } else { self.timed_ms };
        (before_ms > hidden_ms).then_some(Self {
            timed_lsn: lsn,
            timed_ms: before_ms,
            ..self
        })
    }

    fn encode(self) -> impl Iterator<Item = u8> {
        let words = [self.below_lsn, self.timed_lsn, self.timed_ms];
        words.into_iter().flat_map(u64::to_le_bytes)
    }

    fn decode(reader: &mut FieldReader<'_>) -> Option<Self> {
        Some(Self {
            below_lsn: reader.u64()?,
            timed_lsn: reader.u64()?,
            timed_ms: reader.u64()?,
        })
    }
}

#[derive(Debug, Default)]
struct SetState {
    truncation: Truncation,
    records: AtomicI64,
    units: AtomicI64,
    /// Whether its changes can be followed.
    is_fed: AtomicBool,
}

impl SetState {
    fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed).max(0) as u64
    }

    fn stored_bytes(&self) -> u64 {
        self.units.load(Ordering::Relaxed).max(0) as u64 * UNIT_BYTES
    }
}

#[derive(Debug, Default)]
struct SetNames {
    by_name: HashMap<String, u16>,
    in_order: Vec<String>,
    catalog: Vec<u8>,
    feed: Feed,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sets {
    names: Mutex<SetNames>,
    states: Box<[SetState]>,
    truncation: Truncation,
    any_truncated: AtomicBool,
    any_fed: AtomicBool,
    /// The highest number that may be used.
    last_number: AtomicU16,
}

/// The usage of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SetUsage {
    /// The set's name; empty for records without a set.
    pub name: String,
    /// Live records. Expired records count until the expiry pass has met them.
    pub records: u64,
    /// Bytes of live records in the log, with headers and padding.
    pub stored_bytes: u64,
}

/// What to truncate: everything, or one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncate {
    /// The whole namespace.
    Namespace,
    /// The set with this number.
    Set(u16),
}

impl Sets {
    pub(crate) fn new() -> Self {
        Self {
            names: Mutex::default(),
            states: (0..=SETS_MAX).map(|_| SetState::default()).collect(),
            truncation: Truncation::default(),
            any_truncated: AtomicBool::new(false),
            any_fed: AtomicBool::new(false),
            last_number: AtomicU16::new(0),
        }
    }

    pub(crate) fn number_of(&self, name: &str) -> Option<u16> {
        if name.is_empty() {
            return Some(0);
        }
        self.names.lock().by_name.get(name).copied()
    }

    pub(crate) fn name_of(&self, number: u16) -> Option<String> {
        if number == 0 {
            return Some(String::new());
        }
        self.names
            .lock()
            .in_order
            .get(usize::from(number) - 1)
            .cloned()
    }

    /// The highest number given to a set; 0 = there is none.
    pub(crate) fn last_number(&self) -> u16 {
        self.last_number.load(Ordering::Acquire)
    }

    /// The number of a set, created if need be: `persist` must have stored the metadata before the
    /// number is used.
    pub(crate) fn create(
        &self,
        name: &str,
        persist: impl FnOnce(Vec<u8>) -> Result<()>,
    ) -> Result<u16> {
        if name.is_empty() {
            return Ok(0);
        }
        check_name(name)?;
        let mut names = self.names.lock();
        if let Some(number) = names.by_name.get(name) {
            return Ok(*number);
        }
        if names.in_order.len() >= SETS_MAX {
            return Err(Error::TooManySets {
                name: name.to_owned(),
                limit: SETS_MAX,
            });
        }
        names.in_order.push(name.to_owned());
        persist(self.encode(&names, None)).inspect_err(|_| drop(names.in_order.pop()))?;
        let number = names.in_order.len() as u16;
        names.by_name.insert(name.to_owned(), number);
        self.last_number.store(number, Ordering::Release);
        Ok(number)
    }

    /// Hides entries below a point of the log, or of these the ones last updated before
    /// `before_ms`, from now on and after every restart. `draw` gives the point, and `last_lsn` the
    /// last number once the truncation is in the log.
    pub(crate) fn truncate(
        &self,
        what: Truncate,
        draw: impl FnOnce() -> Result<u64>,
        before_ms: Option<u64>,
        persist: impl FnOnce(Vec<u8>) -> Result<()>,
        last_lsn: impl FnOnce() -> u64,
    ) -> Result<()> {
        let mut names = self.names.lock();
        // Under the lock: a reader of changes up to a number finds the truncations below it noted.
        let lsn = draw()?;
        let target = match what {
            Truncate::Namespace => &self.truncation,
            Truncate::Set(number) => match self.states.get(usize::from(number)) {
                Some(state) if usize::from(number) <= names.in_order.len() => &state.truncation,
                _ => return Ok(()),
            },
        };
        let Some(truncated) = target.load().and(lsn, before_ms) else {
            return Ok(());
        };
        let event = TruncationEvent {
            lsn,
            set: match what {
                Truncate::Namespace => None,
                Truncate::Set(number) => Some(number),
            },
            before_ms,
            noted: 0,
        };
        let before = names.feed.clone();
        names.feed.note_truncation(event);
        persist(self.encode(&names, Some((target, truncated))))
            .inspect_err(|_| names.feed = before)?;
        names.feed.set_noted(lsn, last_lsn());
        target.store(truncated);
        self.any_truncated.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Whether there was ever a truncation.
    pub(crate) fn any_truncated(&self) -> bool {
        self.any_truncated.load(Ordering::SeqCst)
    }

    /// Whether a truncation hides an entry of this set.
    #[inline]
    pub(crate) fn hides(&self, set: u16, lsn: Lsn, last_update_ms: u64) -> bool {
        self.any_truncated.load(Ordering::Relaxed) && self.is_hidden(set, lsn, last_update_ms)
    }

    /// Whether a truncation of the namespace hides an entry.
    pub(crate) fn hides_from_all(&self, lsn: Lsn, last_update_ms: u64) -> bool {
        self.truncation.hides(lsn, last_update_ms)
    }

    fn is_hidden(&self, set: u16, lsn: Lsn, last_update_ms: u64) -> bool {
        let of_set = self.states.get(usize::from(set));
        self.truncation.hides(lsn, last_update_ms)
            || of_set.is_some_and(|state| state.truncation.hides(lsn, last_update_ms))
    }

    /// Counts records and 16-byte units that a set has gained or lost.
    pub(crate) fn count(&self, set: u16, records: i64, units: i64) {
        if let Some(state) = self.states.get(usize::from(set)) {
            if records != 0 {
                state.records.fetch_add(records, Ordering::Relaxed);
            }
            if units != 0 {
                state.units.fetch_add(units, Ordering::Relaxed);
            }
        }
    }

    /// Returns how many records all sets hold together.
    pub(crate) fn records(&self) -> u64 {
        self.states.iter().map(SetState::records).sum()
    }

    pub(crate) fn usage(&self) -> Vec<SetUsage> {
        let names = self.names.lock();
        std::iter::once("")
            .chain(names.in_order.iter().map(String::as_str))
            .zip(&self.states)
            .map(|(name, state)| SetUsage {
                name: name.to_owned(),
                records: state.records(),
                stored_bytes: state.stored_bytes(),
            })
            .collect()
    }

    pub(crate) fn usage_of(&self, number: u16) -> (u64, u64) {
        let state = self.states.get(usize::from(number));
        state.map_or((0, 0), |state| (state.records(), state.stored_bytes()))
    }

    /// `changed`: a truncation that is not there yet.
    fn encode(&self, names: &SetNames, changed: Option<(&Truncation, Truncated)>) -> Vec<u8> {
        let stored = |of: &Truncation| match changed {
            Some((target, truncated)) if std::ptr::eq(target, of) => truncated.encode(),
            _ => of.load().encode(),
        };
        let mut bytes = vec![VERSION];
        bytes.extend(stored(&self.truncation));
        let unnamed = self.states.first().map(|state| stored(&state.truncation));
        debug_assert!(unnamed.is_some(), "the records without a set have a state");
        bytes.extend(unnamed.into_iter().flatten());
        bytes.extend((names.in_order.len() as u16).to_le_bytes());
        for (name, state) in names.in_order.iter().zip(self.states.iter().skip(1)) {
            bytes.push(name.len() as u8);
            bytes.extend(name.as_bytes());
            bytes.extend(stored(&state.truncation));
        }
        bytes.extend((names.catalog.len() as u32).to_le_bytes());
        bytes.extend(&names.catalog);
        names.feed.encode(&mut bytes);
        bytes
    }

    /// Shows the data kept for followers of the changes. No truncation is under way meanwhile.
    pub(crate) fn feed<R>(&self, show: impl FnOnce(&Feed) -> R) -> R {
        show(&self.names.lock().feed)
    }

    /// Changes the data kept for followers of the changes: `persist` must have stored the metadata
    /// before it counts.
    pub(crate) fn change_feed(
        &self,
        change: impl FnOnce(&mut Feed),
        persist: impl FnOnce(Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let mut names = self.names.lock();
        let before = names.feed.clone();
        change(&mut names.feed);
        persist(self.encode(&names, None)).inspect_err(|_| names.feed = before)?;
        self.note_fed(&names.feed);
        Ok(())
    }

    fn note_fed(&self, feed: &Feed) {
        for (number, state) in (0..).zip(&self.states) {
            state.is_fed.store(feed.has(number), Ordering::SeqCst);
        }
        self.any_fed.store(!feed.sets.is_empty(), Ordering::SeqCst);
    }

    /// Whether the changes of any set can be followed.
    #[inline]
    pub(crate) fn any_fed(&self) -> bool {
        self.any_fed.load(Ordering::SeqCst)
    }

    /// Whether the changes of a set can be followed.
    pub(crate) fn is_fed(&self, set: u16) -> bool {
        let state = self.states.get(usize::from(set));
        self.any_fed() && state.is_some_and(|state| state.is_fed.load(Ordering::SeqCst))
    }

    pub(crate) fn catalog(&self) -> Vec<u8> {
        self.names.lock().catalog.clone()
    }

    /// Keeps another catalog: `persist` must have stored the metadata before it is seen.
    pub(crate) fn set_catalog(
        &self,
        catalog: &[u8],
        persist: impl FnOnce(Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        if catalog.len() > CATALOG_BYTES_MAX {
            return Err(Error::BadOption {
                option: "catalog",
                value: format!("{} bytes", catalog.len()),
                rule: "at most 512 KiB",
            });
        }
        let mut names = self.names.lock();
        let before = std::mem::replace(&mut names.catalog, catalog.to_vec());
        persist(self.encode(&names, None)).inspect_err(|_| names.catalog = before)
    }

    pub(crate) fn encoded(&self) -> Vec<u8> {
        self.encode(&self.names.lock(), None)
    }

    /// Takes over the stored sets (at opening, before any other thread looks).
    pub(crate) fn restore(&self, stored: &[u8]) -> std::result::Result<(), String> {
        let mut reader = FieldReader(stored);
        let version = reader.u8().ok_or("it is empty")?;
        if version != VERSION {
            return Err(format!("version {version}, this build reads {VERSION}"));
        }
        let short = "it ends early";
        let mut names = self.names.lock();
        let mut any_truncated = false;
        let mut restore = |truncation: &Truncation, reader: &mut FieldReader<'_>| {
            let truncated = Truncated::decode(reader).ok_or(short)?;
            any_truncated |= truncated != Truncated::default();
            truncation.store(truncated);
            Ok::<(), &str>(())
        };
        restore(&self.truncation, &mut reader)?;
        if let Some(unnamed) = self.states.first() {
            restore(&unnamed.truncation, &mut reader)?;
        }
        let count = reader.u16().ok_or(short)?;
        for (number, state) in (1..=count).zip(self.states.iter().skip(1)) {
            let length = reader.u8().ok_or(short)?;
            let name = reader.take(usize::from(length)).ok_or(short)?;
            let name = String::from_utf8(name.to_vec()).map_err(|_| "a set's name is not UTF-8")?;
            restore(&state.truncation, &mut reader)?;
            names.by_name.insert(name.clone(), number);
            names.in_order.push(name);
        }
        let length = reader.u32().ok_or(short)?;
        let catalog = reader.take(length as usize).ok_or(short)?;
        names.catalog = catalog.to_vec();
        names.feed = Feed::decode(&mut reader).ok_or(short)?;
        self.note_fed(&names.feed);
        self.last_number
            .store(names.in_order.len() as u16, Ordering::Release);
        self.any_truncated.store(any_truncated, Ordering::SeqCst);
        Ok(())
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.len() <= SET_NAME_BYTES_MAX && !name.contains('\0') {
        return Ok(());
    }
    Err(Error::BadName {
        what: "set",
        name: name.to_owned(),
        rule: "a set's name has 1 to 63 bytes and no NUL byte",
    })
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::device::SMALL_BLOCK_BYTES;
    use crate::entry::ENTRY_HEADER_BYTES;
    use crate::log::block::entry_units_max;

    #[test]
    fn names_numbers_and_truncations_survive_their_stored_form() {
        let sets = Sets::new();
        let stored = std::cell::RefCell::new(Vec::new());
        let keep = |bytes| {
            *stored.borrow_mut() = bytes;
            Ok(())
        };
        assert_eq!(sets.create("users", keep).unwrap(), 1);
        assert_eq!(sets.create("posts", keep).unwrap(), 2);
        assert_eq!(sets.create("users", keep).unwrap(), 1);
        sets.truncate(Truncate::Set(2), || Ok(50), Some(1234), keep, || 51)
            .unwrap();
        sets.truncate(Truncate::Set(1), || Ok(40), None, keep, || 41)
            .unwrap();
        let again = Sets::new();
        again.restore(&stored.borrow()).unwrap();
        assert_eq!(again.number_of("posts"), Some(2));
        assert_eq!(again.name_of(1).as_deref(), Some("users"));
        assert!(again.hides(2, Lsn(49), 1233) && !again.hides(2, Lsn(49), 1234));
        assert!(!again.hides(2, Lsn(50), 0), "written after the truncation");
        assert!(again.hides(1, Lsn(39), u64::MAX) && !again.hides(1, Lsn(40), 0));
        assert!(again.catalog().is_empty());
        again.set_catalog(b"indexes", keep).unwrap();
        let refused = again.set_catalog(&vec![0; CATALOG_BYTES_MAX + 1], keep);
        assert!(matches!(refused, Err(Error::BadOption { .. })));
        let third = Sets::new();
        third.restore(&stored.borrow()).unwrap();
        assert_eq!(third.catalog(), b"indexes");
        assert_eq!(third.number_of("posts"), Some(2));
    }

    #[test]
    fn what_could_not_be_stored_stays_as_it_was() {
        let sets = Sets::new();
        let refuse = |_| {
            Err(Error::NoSpace {
                namespace: "test".into(),
            })
        };
        let feed_all = |feed: &mut Feed| {
            feed.sets.push(feed::FedSet {
                number: 1,
                since: 0,
            })
        };
        let refused = [
            sets.create("users", refuse).map(drop),
            sets.set_catalog(b"indexes", refuse),
            sets.change_feed(feed_all, refuse),
            sets.truncate(Truncate::Namespace, || Ok(5), None, refuse, || 5),
        ];
        assert!(refused.iter().all(Result::is_err));
        assert_eq!(sets.encoded(), Sets::new().encoded());
        assert_eq!(sets.number_of("users"), None);
        assert!(!sets.any_fed() && !sets.any_truncated());
        assert_eq!(sets.create("posts", |_| Ok(())).unwrap(), 1);
    }

    #[test]
    fn the_largest_metadata_fits_into_a_small_block() {
        let sets = Sets::new();
        for number in 0..SETS_MAX {
            sets.create(&format!("{number:063}"), |_| Ok(())).unwrap();
        }
        let follow_all = |feed: &mut Feed| {
            let (numbers, since) = (1..=SETS_MAX as u16, 0);
            feed.sets = numbers
                .map(|number| feed::FedSet { number, since })
                .collect();
            for lsn in 1..=1_000 {
                let (set, before_ms, noted) = (None, None, 0);
                feed.note_truncation(feed::TruncationEvent {
                    lsn,
                    set,
                    before_ms,
                    noted,
                });
            }
        };
        sets.change_feed(follow_all, |_| Ok(())).unwrap();
        sets.set_catalog(&[0; CATALOG_BYTES_MAX], |_| Ok(()))
            .unwrap();
        let bytes = (ENTRY_HEADER_BYTES + sets.encoded().len()) as u64;
        let room = u64::from(entry_units_max(SMALL_BLOCK_BYTES)) * UNIT_BYTES;
        assert!(bytes <= room, "{bytes}");
    }

    #[test]
    fn cut_metadata_is_refused() {
        let sets = Sets::new();
        sets.create("users", |_| Ok(())).unwrap();
        let whole = sets.encoded();
        for length in 0..whole.len() {
            assert!(Sets::new().restore(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn names_that_are_too_long_or_hold_nul_are_refused() {
        for name in ["x".repeat(64), "a\0b".into()] {
            assert!(matches!(
                Sets::new().create(&name, |_| Ok(())),
                Err(Error::BadName { .. })
            ));
        }
    }
}
