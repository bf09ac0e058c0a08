//! Secondary indexes under Aerospike's names, and indexes that were declared for namespaces this server does not have.

use std::collections::BTreeMap;

use parking_lot::RwLock;

use crate::index::{CLIENT_TYPES, IndexPart, IndexSource, VALUE_BYTES_MAX};
use crate::query::{IndexBuild, IndexComponent, IndexDefinition, IndexType};

/// The most indexes of a namespace: Aerospike's limit.
const INDEXES_MAX: usize = 256;

/// The most namespaces of a cluster: Aerospike's limit.
const NAMESPACES_MAX: usize = 32;

/// By a name in letters of any case. `integer` is what newer clients say.
pub(crate) fn type_of_name(name: &str) -> Option<IndexType> {
    match name.eq_ignore_ascii_case("integer") {
        true => Some(IndexType::Integer),
        false => CLIENT_TYPES.by_name(name),
    }
}

/// The one component of an index that clients can ask by. Values of a component without a type are of all of them.
pub(crate) fn component_of(definition: &IndexDefinition) -> Option<&IndexComponent> {
    match definition.components.as_slice() {
        [one] if one.part == IndexPart::Entries => None,
        [one]
            if one
                .kind
                .is_none_or(|kind| CLIENT_TYPES.name(kind).is_some()) =>
        {
            Some(one)
        }
        _ => None,
    }
}

/// Whether an index has every record with such a value.
pub(crate) fn is_of(
    definition: &IndexDefinition,
    source: &IndexSource,
    part: IndexPart,
    kind: IndexType,
) -> bool {
    let has_long = definition
        .value_bytes_max
        .is_none_or(|bytes| bytes >= VALUE_BYTES_MAX)
        || matches!(kind, IndexType::Integer | IndexType::GeoJson);
    has_long
        && component_of(definition).is_some_and(|component| {
            let has_kind = component.kind == Some(kind)
                || component.kind.is_none() && kind != IndexType::GeoJson;
            component.source == *source && component.part == part && has_kind
        })
}

/// Index builds under way, and builds that failed.
#[derive(Debug, Default)]
pub(crate) struct Builds {
    state: RwLock<BuildStates>,
}

#[derive(Debug, Default)]
struct BuildStates {
    under_way: Vec<(String, IndexBuild)>,
    /// The error of each failed build, by the index's name; `INDEXES_MAX` at most.
    failed: BTreeMap<String, String>,
}

impl Builds {
    /// Notes a build.
    pub(crate) fn begin(&self, name: &str, build: IndexBuild) {
        let mut state = self.state.write();
        state.note_finished();
        state.failed.remove(name);
        state.under_way.push((name.to_owned(), build));
    }

    /// Returns the error of the last build of an index, if it failed.
    pub(crate) fn failure(&self, name: &str) -> Option<String> {
        let mut state = self.state.write();
        state.note_finished();
        state.failed.get(name).cloned()
    }
}

impl BuildStates {
    fn note_finished(&mut self) {
        let is_finished = |(_, build): &mut (String, IndexBuild)| build.is_finished();
        let finished: Vec<_> = self.under_way.extract_if(.., is_finished).collect();
        for (name, build) in finished {
            if let Err(error) = build.wait() {
                tracing::warn!(index = %name, %error, "an index could not be built and is dropped");
                if self.failed.len() >= INDEXES_MAX {
                    self.failed.pop_first();
                }
                self.failed.insert(name, error.to_string());
            }
        }
    }
}

/// Why an index cannot be declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CannotDeclare {
    /// Another index has the name.
    NameTaken,
    TooMany,
}

/// An index that is declared and holds nothing.
#[derive(Debug)]
struct EmptyIndex {
    set: String,
    definition: IndexDefinition,
}

/// Indexes of namespaces that this server does not have, by the namespace. In Aerospike a declaration holds in the
/// whole cluster, and an index takes a name there even if no node has its namespace.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    namespaces: RwLock<BTreeMap<String, Vec<EmptyIndex>>>,
}

impl Elsewhere {
    /// Declares an index; once more is no error. One of the same definition gets the new name.
    pub(crate) fn declare(
        &self,
        namespace: &str,
        set: &str,
        definition: IndexDefinition,
    ) -> Result<(), CannotDeclare> {
        let mut namespaces = self.namespaces.write();
        if !namespaces.contains_key(namespace) && namespaces.len() >= NAMESPACES_MAX {
            return Err(CannotDeclare::TooMany);
        }
        let declared = namespaces.entry(namespace.to_owned()).or_default();
        let is_same =
            |known: &EmptyIndex| known.set == set && known.definition.is_same_but_name(&definition);
        if let Some(named) = declared
            .iter()
            .find(|known| known.definition.name == definition.name)
        {
            return match is_same(named) {
                true => Ok(()),
                false => Err(CannotDeclare::NameTaken),
            };
        }
        declared.retain(|known| !is_same(known));
        if declared.len() >= INDEXES_MAX {
            return Err(CannotDeclare::TooMany);
        }
        declared.push(EmptyIndex {
            set: set.to_owned(),
            definition,
        });
        Ok(())
    }

    /// Forgets an index. One that is not there is no error.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        let mut namespaces = self.namespaces.write();
        if let Some(declared) = namespaces.get_mut(namespace) {
            declared.retain(|known| &*known.definition.name != name);
            if declared.is_empty() {
                namespaces.remove(namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(name: &str, bin: &str) -> IndexDefinition {
        IndexDefinition::new(name, [bin])
    }

    #[test]
    fn an_index_elsewhere_is_declared_once_renamed_and_forgotten() {
        let elsewhere = Elsewhere::default();
        let declare = |name: &str, bin: &str| elsewhere.declare("n", "s", index(name, bin));
        assert_eq!(declare("a", "x"), Ok(()));
        assert_eq!(declare("a", "x"), Ok(()));
        assert_eq!(declare("a", "y"), Err(CannotDeclare::NameTaken));
        assert_eq!(declare("b", "x"), Ok(()));
        // The name is free again.
        assert_eq!(declare("a", "y"), Ok(()));
        elsewhere.forget("n", "b");
        assert_eq!(declare("b", "z"), Ok(()));
    }

    #[test]
    fn there_are_limits_to_what_is_declared_elsewhere() {
        let elsewhere = Elsewhere::default();
        for number in 0..NAMESPACES_MAX {
            let namespace = format!("n{number}");
            assert_eq!(elsewhere.declare(&namespace, "", index("i", "x")), Ok(()));
        }
        let more = elsewhere.declare("more", "", index("i", "x"));
        assert_eq!(more, Err(CannotDeclare::TooMany));
        elsewhere.forget("n0", "i");
        for number in 0..INDEXES_MAX {
            let name = format!("i{number}");
            assert_eq!(elsewhere.declare("more", &name, index(&name, "x")), Ok(()));
        }
        let more = elsewhere.declare("more", "s", index("i", "x"));
        assert_eq!(more, Err(CannotDeclare::TooMany));
    }
}
