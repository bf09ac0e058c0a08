//! Causes within errors.

use std::fmt;

/// The place in a relation where a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelationPlace {
    /// The name of the relation.
    pub relation: Box<str>,
    /// The side, by its set and bin.
    pub side: Box<str>,
}

/// The space limit that stops writes to a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteStop {
    /// The namespace is full: its devices have reached their maximum size.
    NamespaceFull,
    /// The file system below the namespace is full, or a quota is used up.
    FileSystemFull,
}

impl fmt::Display for WriteStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NamespaceFull => {
                "it is full; delete records, or raise its maximum size (a new namespace with a larger max_device_bytes)"
            }
            Self::FileSystemFull => {
                "the file system is full, or its quota is used up; make room there, or delete records"
            }
        })
    }
}

/// The way in which a write would damage a root's description of its companions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardLoss {
    /// It deletes the record, or drops or changes the bins with the description.
    Now,
    /// It lets the record expire.
    Later,
    /// It removes some records of the collection and leaves others: a truncation by time.
    Part,
    /// It writes the bin of a sharded collection. The elements are in companions, so the written
    /// value would not be part of the collection.
    Beside,
}

impl fmt::Display for ShardLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = match self {
            Self::Now => {
                "this write drops or changes the bins that describe it, which would orphan its companions"
            }
            Self::Later => "this write lets it expire, which would orphan its companions",
            Self::Part => {
                "this truncation by time would remove some of the collection's records and leave others"
            }
            Self::Beside => {
                "this write changes the bin of a sharded collection, whose elements are in companion records: use a handle of it"
            }
        };
        let remedy = match self {
            Self::Part => {
                "give a time before or after the last updates of all its records; or bring it back to one record by Shards::deactivate, an update of that record"
            }
            _ => {
                "change other bins only; or delete the collection by its handle first, or bring it back to one record; or allow it by WritePolicy::override_shards"
            }
        };
        write!(f, "{lost}: {remedy}")
    }
}

/// The process that has the files of a namespace open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreHolder {
    /// This process, through another [`Store`](crate::Store).
    ThisProcess,
    /// Another process has it open.
    OtherProcess,
}

impl fmt::Display for StoreHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ThisProcess => {
                "this process has the store open; use that store, or drop every handle of it (Store, Namespace and Set; closing it is not enough)"
            }
            Self::OtherProcess => "another process has the store open; end that process first",
        })
    }
}
