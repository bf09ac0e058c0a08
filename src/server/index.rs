//! Secondary indexes under Aerospike's names, and indexes that were declared for namespaces this server does not have.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::result_code;
use crate::index::{CLIENT_TYPES, IndexPart, VALUE_BYTES_MAX};
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
    let [one] = definition.components.as_slice() else {
        return None;
    };
    let is_known = |kind| CLIENT_TYPES.name(kind).is_some();
    let is_asked_by = one.part != IndexPart::Entries && one.kind.is_none_or(is_known);
    is_asked_by.then_some(one)
}

/// The component of an index that has every record with a value of this type.
pub(crate) fn component_for(
    definition: &IndexDefinition,
    kind: IndexType,
) -> Option<&IndexComponent> {
    let limit = definition.value_bytes_max;
    let has_long = limit.is_none_or(|bytes| bytes >= VALUE_BYTES_MAX)
        || matches!(kind, IndexType::Integer | IndexType::GeoJson);
    component_of(definition).filter(|component| {
        let has_kind = match component.kind {
            Some(own) => own == kind,
            None => kind != IndexType::GeoJson,
        };
        has_long && has_kind
    })
}

/// Index builds under way, and the ones that failed.
#[derive(Default)]
pub(crate) struct Builds(Mutex<BuildTable>);

/// By the names of the indexes.
#[derive(Default)]
struct BuildTable {
    under_way: Vec<(String, IndexBuild)>,
    /// The error of the last build; `INDEXES_MAX` at most.
    failed: BTreeMap<String, String>,
}

impl Builds {
    /// Takes a build over, whose end [`Builds::note_ended`] notes.
    pub(crate) fn begin(&self, name: &str, build: IndexBuild) {
        // The failure of an earlier build of this name is logged.
        self.note_ended();
        let mut table = self.0.lock();
        table.failed.remove(name);
        table.under_way.retain(|(known, _)| known != name);
        table.under_way.push((name.to_owned(), build));
    }

    /// Notes the builds that have ended.
    pub(crate) fn note_ended(&self) {
        let BuildTable { under_way, failed } = &mut *self.0.lock();
        for (index, build) in under_way.extract_if(.., |(_, build)| build.is_finished()) {
            let Err(error) = build.wait() else { continue };
            tracing::warn!(%index, %error, "an index could not be built and is dropped");
            if failed.len() >= INDEXES_MAX {
                failed.pop_first();
            }
            failed.insert(index, error.to_string());
        }
    }

    /// Returns the error of the last build of an index, if it failed.
    pub(crate) fn failure(&self, name: &str) -> Option<String> {
        self.note_ended();
        self.0.lock().failed.get(name).cloned()
    }
}

/// Indexes of namespaces that this server does not have, by the namespace. In Aerospike a declaration holds in the
/// whole cluster, and an index takes a name there even if no node has its namespace.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    /// Each with its set. They hold nothing.
    namespaces: Mutex<BTreeMap<String, Vec<(String, IndexDefinition)>>>,
}

impl Elsewhere {
    /// Declares an index; once more is no error. One of the same definition gets the new name. An error is the code of the answer.
    pub(crate) fn declare(
        &self,
        namespace: &str,
        set: &str,
        definition: IndexDefinition,
    ) -> Result<(), u8> {
        let mut namespaces = self.namespaces.lock();
        if !namespaces.contains_key(namespace) && namespaces.len() >= NAMESPACES_MAX {
            return Err(result_code::TOO_MANY_INDEXES);
        }
        let declared = namespaces.entry(namespace.to_owned()).or_default();
        let is_same = |(other, known): &(String, IndexDefinition)| {
            other == set && known.is_same_but_name(&definition)
        };
        let has_name = |(_, known): &&(String, IndexDefinition)| known.name == definition.name;
        if let Some(named) = declared.iter().find(has_name) {
            return match is_same(named) {
                true => Ok(()),
                false => Err(result_code::INDEX_FOUND),
            };
        }
        declared.retain(|known| !is_same(known));
        if declared.len() >= INDEXES_MAX {
            return Err(result_code::TOO_MANY_INDEXES);
        }
        declared.push((set.to_owned(), definition));
        Ok(())
    }

    /// Forgets an index. One that is not there is no error.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        let mut namespaces = self.namespaces.lock();
        if let Some(declared) = namespaces.get_mut(namespace) {
            declared.retain(|(_, known)| &*known.name != name);
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
        assert_eq!(declare("a", "y"), Err(result_code::INDEX_FOUND));
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
        assert_eq!(more, Err(result_code::TOO_MANY_INDEXES));
        elsewhere.forget("n0", "i");
        for number in 0..INDEXES_MAX {
            let name = format!("i{number}");
            assert_eq!(elsewhere.declare("more", &name, index(&name, "x")), Ok(()));
        }
        let more = elsewhere.declare("more", "s", index("i", "x"));
        assert_eq!(more, Err(result_code::TOO_MANY_INDEXES));
    }
}
