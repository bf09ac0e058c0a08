//! Secondary indexes, as far as this server has them: declarations of what queries may ask by.
//!
//! An index holds no data. A query by one visits all records of the set and looks at each (`condition`), so an index is
//! complete as soon as it is declared, and costs writes nothing. Declarations last as long as the server runs.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::record::BinName;

/// The most indexes of a namespace: Aerospike's limit.
const INDEXES_MAX: usize = 256;

/// The most namespaces of a cluster: Aerospike's limit.
const NAMESPACES_MAX: usize = 32;

/// What values an index is of. Values of other types are not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexKind {
    Numeric = 1,
    String = 3,
    Blob = 4,
    Geo = 23,
}

/// What of a value is in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexPart {
    /// The value itself.
    Whole = 0,
    /// The elements of a list.
    Elements = 1,
    /// The keys of a map.
    Keys = 2,
    /// The values of a map.
    Values = 3,
    /// Not a value but the record: an index of a set.
    Record = 4,
}

/// Where the value is found in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IndexSubject {
    /// In a bin, or in what an encoded path of contexts leads to in it; the path is empty for the bin itself.
    Bin { name: BinName, path: Box<[u8]> },
    /// It is the value of an expression, in its encoded form.
    Expression(Box<[u8]>),
    /// There is none: the index is of the set's records. Queries of the set use it without naming it.
    Record,
}

/// What an index is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// Empty: the records of all sets.
    pub(crate) set: String,
    pub(crate) subject: IndexSubject,
    pub(crate) part: IndexPart,
    /// `None` for an index of records.
    pub(crate) kind: Option<IndexKind>,
}

/// A declared index.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) name: String,
    pub(crate) definition: Definition,
    /// Path or expression in the form in which it was declared.
    pub(crate) base64: String,
}

/// Why an index cannot be declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CannotDeclare {
    /// Its name is that of another one.
    NameTaken,
    TooMany,
}

/// The indexes of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    declared: RwLock<Vec<Arc<Index>>>,
}

/// Indexes of namespaces that this server does not have, by the namespace. In Aerospike what is declared holds in the whole
/// cluster, and an index of a namespace that no node has takes a name there.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    namespaces: RwLock<BTreeMap<String, Arc<Indexes>>>,
}

impl Elsewhere {
    /// The indexes of a namespace; `None` if there are too many namespaces to remember another.
    pub(crate) fn of(&self, namespace: &str) -> Option<Arc<Indexes>> {
        let mut namespaces = self
            .namespaces
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if !namespaces.contains_key(namespace) && namespaces.len() >= NAMESPACES_MAX {
            return None;
        }
        let indexes = namespaces.entry(namespace.to_owned()).or_default();
        Some(Arc::clone(indexes))
    }

    /// Forgets an index.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        let mut namespaces = self
            .namespaces
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(indexes) = namespaces.get(namespace) {
            indexes.forget(name);
            if indexes.all().is_empty() {
                namespaces.remove(namespace);
            }
        }
    }
}

impl IndexKind {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Numeric, "numeric"),
        (Self::String, "string"),
        (Self::Blob, "blob"),
        (Self::Geo, "geo2dsphere"),
    ];

    /// The name in info commands.
    pub(crate) fn name(self) -> &'static str {
        name_in(&Self::ALL, self)
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        by_name(&Self::ALL, name)
    }

    /// By the number of the value's type.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        let mut all = Self::ALL.iter().map(|(kind, _)| *kind);
        all.find(|kind| *kind as u8 == number)
    }
}

impl IndexPart {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Whole, "default"),
        (Self::Elements, "list"),
        (Self::Keys, "mapkeys"),
        (Self::Values, "mapvalues"),
        (Self::Record, "set"),
    ];

    /// The name in info commands.
    pub(crate) fn name(self) -> &'static str {
        name_in(&Self::ALL, self)
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        by_name(&Self::ALL, name)
    }

    /// By the number that queries give it.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        let mut all = Self::ALL.iter().map(|(part, _)| *part);
        all.find(|part| *part as u8 == number)
    }
}

fn name_in<T: Copy + PartialEq>(table: &[(T, &'static str)], wanted: T) -> &'static str {
    let found = table.iter().find(|(known, _)| *known == wanted);
    found.map_or("", |(_, name)| name)
}

fn by_name<T: Copy>(table: &[(T, &'static str)], wanted: &str) -> Option<T> {
    let found = table
        .iter()
        .find(|(_, name)| name.eq_ignore_ascii_case(wanted));
    found.map(|(known, _)| *known)
}

impl Indexes {
    /// Declares an index; once more is no error. One of the same definition gets the new name.
    pub(crate) fn declare(&self, index: Index) -> Result<(), CannotDeclare> {
        let mut declared = self
            .declared
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(named) = declared.iter().find(|known| known.name == index.name) {
            return if named.definition == index.definition {
                Ok(())
            } else {
                Err(CannotDeclare::NameTaken)
            };
        }
        let same = declared
            .iter_mut()
            .find(|known| known.definition == index.definition);
        if let Some(same) = same {
            *same = Arc::new(index);
        } else if declared.len() < INDEXES_MAX {
            declared.push(Arc::new(index));
        } else {
            return Err(CannotDeclare::TooMany);
        }
        Ok(())
    }

    /// Forgets an index. One that is not there is no error.
    pub(crate) fn forget(&self, name: &str) {
        let mut declared = self
            .declared
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        declared.retain(|index| index.name != name);
    }

    /// All indexes, in the order in which they were declared.
    pub(crate) fn all(&self) -> Vec<Arc<Index>> {
        let declared = self.declared.read().unwrap_or_else(PoisonError::into_inner);
        declared.clone()
    }

    /// The index of a name.
    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<Index>> {
        self.all().into_iter().find(|index| index.name == name)
    }

    /// The index of a definition, or the one for all sets that has everything else in common with it.
    pub(crate) fn by_definition(&self, wanted: &Definition) -> Option<Arc<Index>> {
        let all = self.all();
        let find = |set: &str| {
            let found = all.iter().find(|index| {
                let known = &index.definition;
                known.set == set
                    && known.subject == wanted.subject
                    && (known.part, known.kind) == (wanted.part, wanted.kind)
            });
            found.cloned()
        };
        find(&wanted.set).or_else(|| find(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(name: &str, set: &str, bin: &str) -> Index {
        Index {
            name: name.into(),
            definition: Definition {
                set: set.into(),
                subject: IndexSubject::Bin {
                    name: BinName::from_utf8(bin.as_bytes()).unwrap(),
                    path: Box::default(),
                },
                part: IndexPart::Whole,
                kind: Some(IndexKind::Numeric),
            },
            base64: String::new(),
        }
    }

    #[test]
    fn an_index_is_declared_once_renamed_and_forgotten() {
        let indexes = Indexes::default();
        assert_eq!(indexes.declare(index("a", "s", "x")), Ok(()));
        assert_eq!(indexes.declare(index("a", "s", "x")), Ok(()));
        let other = indexes.declare(index("a", "s", "y"));
        assert_eq!(other, Err(CannotDeclare::NameTaken));
        assert_eq!(indexes.declare(index("b", "s", "x")), Ok(()));
        assert_eq!(indexes.all().len(), 1);
        assert!(indexes.by_name("a").is_none());
        assert!(indexes.by_name("b").is_some());
        indexes.forget("b");
        assert!(indexes.all().is_empty());
    }

    #[test]
    fn an_index_for_all_sets_serves_each() {
        let indexes = Indexes::default();
        indexes.declare(index("all", "", "x")).unwrap();
        let of_set = index("", "s", "x").definition;
        assert_eq!(indexes.by_definition(&of_set).unwrap().name, "all");
        indexes.declare(index("one", "s", "x")).unwrap();
        assert_eq!(indexes.by_definition(&of_set).unwrap().name, "one");
        let other = index("", "t", "y").definition;
        assert!(indexes.by_definition(&other).is_none());
    }

    #[test]
    fn there_is_a_limit_to_namespaces_elsewhere() {
        let elsewhere = Elsewhere::default();
        for number in 0..NAMESPACES_MAX {
            let indexes = elsewhere.of(&format!("n{number}")).unwrap();
            indexes.declare(index("i", "", "x")).unwrap();
        }
        assert!(elsewhere.of("more").is_none());
        assert!(elsewhere.of("n0").is_some());
        elsewhere.forget("n0", "i");
        assert!(elsewhere.of("more").is_some());
    }

    #[test]
    fn there_is_a_limit_to_indexes() {
        let indexes = Indexes::default();
        for number in 0..INDEXES_MAX {
            let name = format!("i{number}");
            assert_eq!(indexes.declare(index(&name, &name, "x")), Ok(()));
        }
        let more = indexes.declare(index("more", "more", "x"));
        assert_eq!(more, Err(CannotDeclare::TooMany));
    }
}
