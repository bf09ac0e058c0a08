//! Where a collection is (its entry in the root's bin `subkeys`), and the state of a companion (bin
//! `shard_of`).
//!
//! `docs/format.md` has the forms. A form that is not understood is an error: a guess could lose
//! data.

use std::fmt;

use super::arithmetic::SHARDS_MAX;
use crate::value::{List, ListOrder, Value};
use crate::{Error, Key, Result};

pub(crate) use crate::record::{DESCRIPTION_BINS, SHARD_OF, SUBKEYS, SUBKEYS_BIN, SUBKEYS_EPOCH};

/// Companion: there while writes are refused. 0: frozen with its content; otherwise the token of
/// the caller that is making it.
pub(crate) const FROZEN: &str = "frozen";

/// Refuses the names of bins that describe shards.
///
/// # Errors
/// [`Error::Parameter`].
pub(crate) fn check_bin(bin: &str) -> Result<()> {
    if DESCRIPTION_BINS.contains(&bin) || [SHARD_OF, FROZEN].contains(&bin) {
        return Err(Error::parameter(format!(
            "bin {bin:?} describes the shards: give the collection another one"
        )));
    }
    Ok(())
}

const HASH_SHARDS: &str = "hash-shards";
/// The first word of an entry of a collection that is sharded by time.
pub(crate) const TIME_SHARDS: &str = "time-shards";
const SPLITTING: &str = "splitting";
const MERGING: &str = "merging";
/// The last word of an entry of a collection that is being deleted.
pub(crate) const DELETING: &str = "deleting";

/// The number of a transition: it only rises, and marks the work of late callers. 0: there was
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Epoch(pub(crate) u64);

impl Epoch {
    /// The epoch of a transition that begins at this time.
    pub(crate) fn after(self, now_us: u64) -> Self {
        Self(now_us.max(self.0 + 1))
    }

    pub(crate) fn value(self) -> Value {
        Value::Int(self.0 as i64)
    }

    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Int(epoch) => u64::try_from(*epoch).ok().map(Self),
            _ => None,
        }
    }
}

/// The state of a collection: unsharded, sharded, or in a transition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    /// Unsharded, in the root.
    #[default]
    Unsharded,
    /// In the root, which is not written any more; companions are being made.
    Activating {
        /// How many there will be.
        shards: u64,
    },
    /// In companions, and not in transition.
    Active {
        /// How many companions there are.
        shards: u64,
    },
    /// In this many companions and, for those at the new epoch, the new ones of their pairs.
    Splitting {
        /// How many there were; there will be twice as many.
        from: u64,
    },
    /// In companions; those at the new epoch have absorbed the other one of their pair.
    Merging {
        /// How many there were; there will be half as many.
        from: u64,
    },
    /// In the one companion or, once it has its bin, in the root.
    Deactivating,
    /// Being deleted.
    Deleting {
        /// How many companions there were.
        shards: u64,
    },
}

impl Scheme {
    /// The value of the bin `subkeys`; `None`: it is absent.
    pub(crate) fn value(self) -> Option<Value> {
        let (shards, rest): (u64, Vec<Value>) = match self {
            Self::Unsharded => return None,
            Self::Active { shards } => (shards, Vec::new()),
            Self::Activating { shards } => (shards, vec![SPLITTING.into()]),
            Self::Splitting { from } => (from, vec![SPLITTING.into(), count(from * 2)]),
            Self::Merging { from } => (from, vec![MERGING.into(), count(from / 2)]),
            Self::Deactivating => (1, vec![MERGING.into(), count(0)]),
            Self::Deleting { shards } => (shards, vec![DELETING.into()]),
        };
        let mut items = vec![Value::from(HASH_SHARDS), count(shards)];
        items.extend(rest);
        Some(list(items))
    }

    /// The content of a bin `subkeys`.
    ///
    /// # Errors
    /// [`Error::ShardScheme`] for a form that is not understood.
    pub(crate) fn parse(value: Option<&Value>) -> Result<Self> {
        let Some(value) = value else {
            return Ok(Self::Unsharded);
        };
        Self::understood(value).ok_or_else(|| {
            let why = match value {
                Value::List(items) if items.first() == Some(&TIME_SHARDS.into()) => {
                    "it is sharded by time: use time shards"
                }
                _ => "it is none of the forms of hash shards: another program, or a newer version, made it",
            };
            not_understood(Some(value), why)
        })
    }

    /// What an entry of the bin `subkeys` says; `None` for anything but hash shards.
    pub(crate) fn understood(value: &Value) -> Option<Self> {
        let Value::List(items) = value else {
            return None;
        };
        let shards = shards_of(items.get(1)?)?;
        let pair = (shards < SHARDS_MAX).then_some(Self::Splitting { from: shards });
        let merged = match shards {
            1 => Self::Deactivating,
            from => Self::Merging { from },
        };
        let schemes = [
            Self::Active { shards },
            Self::Activating { shards },
            Self::Deleting { shards },
            merged,
        ];
        let mut schemes = schemes.into_iter().chain(pair);
        schemes.find(|scheme| scheme.value().as_ref() == Some(value))
    }

    /// Returns how many pairs of companions a split or a merge goes through; 1 for everything else.
    pub(crate) const fn pairs(self) -> u64 {
        match self {
            Self::Splitting { from } => from,
            Self::Merging { from } => from / 2,
            _ => 1,
        }
    }

    /// Whether a transition is under way, or was left.
    pub(crate) const fn is_transition(self) -> bool {
        !matches!(self, Self::Unsharded | Self::Active { .. })
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsharded => write!(f, "in one record"),
            Self::Activating { shards } => write!(f, "activating {shards} shards"),
            Self::Active { shards } => write!(f, "in {shards} shards"),
            Self::Splitting { from } => write!(f, "splitting {from} shards to {}", from * 2),
            Self::Merging { from } => write!(f, "merging {from} shards to {}", from / 2),
            Self::Deactivating => write!(f, "deactivating 1 shard"),
            Self::Deleting { shards } => write!(f, "deleting {shards} shards"),
        }
    }
}

/// The error for bins of a root that are not understood.
pub(crate) fn not_understood(found: Option<&Value>, why: &'static str) -> Error {
    let found = match found {
        Some(value) => value.to_string(),
        None => "nothing".to_owned(),
    };
    Error::ShardScheme {
        found: found.into(),
        why,
    }
}

fn count(shards: u64) -> Value {
    Value::Int(shards as i64)
}

pub(crate) fn list(items: Vec<Value>) -> Value {
    Value::List(List::new(items, ListOrder::Unordered))
}

/// A number of shards: a power of two.
pub(crate) fn shards_of(value: &Value) -> Option<u64> {
    match value {
        Value::Int(shards) => u64::try_from(*shards)
            .ok()
            .filter(|shards| shards.is_power_of_two() && *shards <= SHARDS_MAX),
        _ => None,
    }
}

/// The number of shards and the epoch that a companion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Companion {
    /// How many shards there were, or will be, at its epoch.
    pub(crate) shards: u64,
    /// The transition that made it.
    pub(crate) epoch: Epoch,
}

/// Returns the value as a key; `Err` with the value if it cannot be one.
pub(crate) fn key_in(value: Value) -> std::result::Result<Key<'static>, Value> {
    match value {
        Value::Int(number) => Ok(Key::Integer(number)),
        Value::String(text) => Ok(text.into()),
        Value::Blob(bytes) => Ok(bytes.into()),
        other => Err(other),
    }
}

/// A key as a value.
pub(crate) fn key_value(key: &Key<'_>) -> Value {
    match key {
        Key::Integer(value) => Value::Int(*value),
        Key::String(text) => Value::String(text.to_string()),
        Key::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_is_read_back_from_its_documented_form() {
        let words = |words: &str| {
            let items = words.split(' ').map(|word| match word.parse::<i64>() {
                Ok(number) => Value::Int(number),
                Err(_) => word.into(),
            });
            list(items.collect())
        };
        for (scheme, form) in [
            (Scheme::Active { shards: 64 }, "hash-shards 64"),
            (Scheme::Activating { shards: 8 }, "hash-shards 8 splitting"),
            (Scheme::Splitting { from: 8 }, "hash-shards 8 splitting 16"),
            (Scheme::Merging { from: 8 }, "hash-shards 8 merging 4"),
            (Scheme::Deactivating, "hash-shards 1 merging 0"),
            (Scheme::Deleting { shards: 8 }, "hash-shards 8 deleting"),
        ] {
            assert_eq!(scheme.value(), Some(words(form)));
            assert_eq!(Scheme::parse(Some(&words(form))).unwrap(), scheme, "{form}");
        }
        assert_eq!(Scheme::parse(None).unwrap(), Scheme::Unsharded);
        for not_understood in [
            "hash-shards",
            "hash-shards 35",
            "hash-shards 0",
            "hash-shards 8192",
            "hash-shards 8 splitting 32",
            "hash-shards 8 merging 0",
            "hash-shards 8 resting",
            "hash-shards 8 splitting 16 17",
            "time-shards hourly",
            "other 8",
        ] {
            let error = Scheme::parse(Some(&words(not_understood))).unwrap_err();
            assert!(
                matches!(error, Error::ShardScheme { .. }),
                "{not_understood}"
            );
        }
        assert!(Scheme::parse(Some(&1.into())).is_err());
    }

    #[test]
    fn an_epoch_rises_even_while_the_clock_stands_still() {
        assert_eq!(Epoch(0).after(1_000), Epoch(1_000));
        assert_eq!(Epoch(1_000).after(1_000), Epoch(1_001));
        assert_eq!(Epoch(2_000).after(1_000), Epoch(2_001));
    }
}
