//! Secondary indexes under Aerospike's names, and indexes that were declared for namespaces this
//! server does not have.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::index::{CLIENT_TYPES, IndexPart, VALUE_BYTES_MAX};
use crate::query::{IndexBuild, IndexComponent, IndexDefinition, IndexType};

/// The most indexes of a namespace: Aerospike's limit.
const INDEXES_MAX: usize = 256;

/// By a name in letters of any case. `integer` is what newer clients say.
pub(crate) fn type_of_name(name: &str) -> Option<IndexType> {
    if name.eq_ignore_ascii_case("integer") {
        Some(IndexType::Integer)
    } else {
        CLIENT_TYPES.by_name(name)
    }
}

/// The one component of an index that clients can ask by. Values of a component without a type are
/// of all of them.
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

/// The most indexes of namespaces that this server does not have. Further ones are not kept.
const ELSEWHERE_MAX: usize = 4096;

/// Indexes of namespaces that this server does not have, by namespace and name, each with its set.
/// In Aerospike a declaration holds in the whole cluster, and an index takes a name there even if
/// no node has its namespace. They hold nothing.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere(Mutex<BTreeMap<[String; 2], (String, IndexDefinition)>>);

impl Elsewhere {
    /// Declares an index; once more is no error. False: one of another definition has the name.
    pub(crate) fn declare(&self, namespace: &str, set: &str, definition: IndexDefinition) -> bool {
        let mut declared = self.0.lock();
        let name = [namespace.to_owned(), definition.name().to_owned()];
        if let Some((known_set, known)) = declared.get(&name) {
            return known_set == set && known.is_same_but_name(&definition);
        }
        if declared.len() < ELSEWHERE_MAX {
            declared.insert(name, (set.to_owned(), definition));
        }
        true
    }

    /// Forgets an index, if it is there.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        let name = [namespace, name].map(str::to_owned);
        self.0.lock().remove(&name);
    }
}
