//! `Includes`: a read that returns the records that its records refer to.

use std::collections::{BTreeMap, BTreeSet};

use super::address::Address;
use super::reference_path::{COLLECTION_FORMS, ReferencePath};
use crate::record::Record;
use crate::{Key, RecordSet, RecordStore, Result};

/// Paths of references, and the sets that they lead to: records are read with the records that they
/// refer to.
///
/// A path is a bin, then keys of maps; `[]` means all elements of a list, or all values of a map,
/// and `{}` all keys of a map: `assignee`, `author.id`, `comments[].user`, `modified_by{}`.
///
/// Documents: RavenDB, *Reference by ID* (includes); Aerospike, *parent-held list of child keys*.
/// Cost: one batch for the records asked for, and one for each set that they refer to. Choose a
/// duplicated field where one or two fields are always shown and seldom change.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::relation::Includes;
/// use spikelet::{Store, bins};
///
/// let store = Store::in_memory()?;
/// store.set("users")?.put("users/1-A", bins! { "name" => "H. Simpson" })?;
/// store.set("items")?.put(1, bins! { "title" => "Malfunction", "assignee" => "users/1-A" })?;
/// let list = Includes::new().path("assignee", "users")?;
/// let read = list.read(&store, "items", [1.into()])?;
/// let assignee = read.get("users", "users/1-A").and_then(|user| user.get("name"));
/// assert_eq!(assignee, Some("H. Simpson".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Includes {
    paths: Vec<IncludePath>,
    /// The bins that are read of a set's records; of other sets all.
    bins: BTreeMap<Box<str>, Vec<Box<str>>>,
}

#[derive(Clone, Debug)]
struct IncludePath {
    path: ReferencePath,
    set: Box<str>,
}

/// Records, and the records that they refer to.
#[derive(Clone, Debug, Default)]
pub struct Included {
    /// The records that were asked for, in the order of their keys; `None` where there is none.
    pub records: Vec<Option<Record>>,
    /// The records that they refer to, each once.
    pub related: BTreeMap<Address, Record>,
    /// References to records that are not there.
    pub dangling: Vec<Address>,
}

impl Included {
    /// Returns a record that was referred to; `None` if no reference led to it, or it is not there.
    pub fn get<'k>(&self, set: &str, key: impl Into<Key<'k>>) -> Option<&Record> {
        self.related.get(&Address::new(set, key))
    }
}

impl Includes {
    /// Returns no paths yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a path, and the set of the records that it leads to.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for a path that cannot be read.
    pub fn path(mut self, path: &str, set: &str) -> Result<Self> {
        self.paths.push(IncludePath {
            path: ReferencePath::parse(path)?,
            set: set.into(),
        });
        Ok(self)
    }

    /// Reads only these bins of the records of a set: of referenced records, and of the wanted
    /// ones, which have the bins of the paths besides.
    #[must_use]
    pub fn only<'b>(mut self, set: &str, bins: impl IntoIterator<Item = &'b str>) -> Self {
        self.bins
            .insert(set.into(), bins.into_iter().map(Into::into).collect());
        self
    }

    /// The bins to read of a set's records; `None`: all.
    fn bins_of(&self, set: &str, with_paths: bool) -> Option<Vec<&str>> {
        let mut bins: Vec<&str> = self.bins.get(set)?.iter().map(|bin| &**bin).collect();
        if with_paths {
            let paths = self.paths.iter().map(|path| &*path.path.bin);
            for bin in paths.chain(COLLECTION_FORMS) {
                if !bins.contains(&bin) {
                    bins.push(bin);
                }
            }
        }
        Some(bins)
    }

    /// Reads the records of these keys, and the records that they refer to. One batch, and one for
    /// each set that is referred to.
    ///
    /// # Errors
    /// The first error of reading a record; [`Error::Parameter`](crate::Error::Parameter) for a
    /// reference that is not a key, and for a path into a collection that is sharded.
    pub fn read<'k, S: RecordStore>(
        &self,
        store: &S,
        set: &str,
        keys: impl IntoIterator<Item = Key<'k>>,
    ) -> Result<Included> {
        let keys: Vec<Key<'k>> = keys.into_iter().collect();
        let bins = self.bins_of(set, true);
        let found = store.records(set)?.read_each(&keys, bins.as_deref());
        let mut included = Included {
            records: found.into_iter().collect::<Result<_>>()?,
            ..Included::default()
        };
        let mut wanted: BTreeMap<&str, BTreeSet<Key<'static>>> = BTreeMap::new();
        for record in included.records.iter().flatten() {
            for path in &self.paths {
                path.path
                    .collect(record, wanted.entry(&path.set).or_default())?;
            }
        }
        for (set, keys) in wanted {
            let keys: Vec<Key<'static>> = keys.into_iter().collect();
            let bins = self.bins_of(set, false);
            let related = store.records(set)?.read_each(&keys, bins.as_deref());
            for (key, record) in keys.into_iter().zip(related) {
                let address = Address::new(set, key);
                match record? {
                    Some(record) => {
                        included.related.insert(address, record);
                    }
                    None => included.dangling.push(address),
                }
            }
        }
        Ok(included)
    }
}
