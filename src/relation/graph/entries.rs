//! The record of an edge, and its entries in maps at both ends.

use super::schema::{EdgeMap, EdgeType, NodeEdge, NodeId, Schema, sort_bin};
use crate::error::{ConflictCause, RecordId};
use crate::expression::Expression;
use crate::expressions::{and, eq, string_bin};
use crate::policy::{GenerationPolicy, RecordExistsAction};
use crate::record::Record;
use crate::relation::keys::{REMOVED, is_removed, read_one};
use crate::relation::side::check_exists;
use crate::relation::writes::{delete_member, delete_with, puts, replacing};
use crate::{Bins, Error, Key, RecordSet, RecordStore, Result, Value, WritePolicy};

/// An entry of an edge in a map at one of its ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EdgeEntry {
    pub(super) map: EdgeMap,
    /// The node that has it.
    pub(super) node: Key<'static>,
    pub(super) element: Key<'static>,
    value: Value,
}

impl EdgeEntry {
    /// Returns the entry in this place, without a value.
    pub(super) fn at(map: EdgeMap, node: &Key<'static>, element: Key<'static>) -> Self {
        Self {
            map,
            node: node.clone(),
            element,
            value: Value::Nil,
        }
    }

    fn has_place_of(&self, other: &Self) -> bool {
        (self.map, &self.node, &self.element) == (other.map, &other.node, &other.element)
    }

    /// Whether one of these is in the same place.
    pub(super) fn is_among(&self, entries: &[Self]) -> bool {
        entries.iter().any(|entry| entry.has_place_of(self))
    }

    /// Whether the map has it, with its value.
    pub(super) fn is_there<S: RecordStore>(&self, schema: &Schema, store: &S) -> Result<bool> {
        let side = schema.side(self.map);
        let found = side.at(store, &self.node).get(&self.element)?;
        Ok(found.as_ref() == Some(&self.value))
    }

    fn add<S: RecordStore>(&self, schema: &Schema, store: &S) -> Result<bool> {
        let side = schema.side(self.map);
        side.at(store, &self.node).add(&self.element, &self.value)
    }

    fn remove<S: RecordStore>(&self, schema: &Schema, store: &S) -> Result<bool> {
        let side = schema.side(self.map);
        side.at(store, &self.node).remove(&self.element)
    }
}

/// An edge, by its type and the nodes at its ends.
pub(super) struct Edge<'g> {
    pub(super) schema: &'g Schema,
    pub(super) edge_type: &'g EdgeType,
    /// The key of the node that it begins at.
    pub(super) source: Key<'static>,
    /// The key of the node that it leads to.
    pub(super) target: Key<'static>,
    /// What the edge set of the source has as its key.
    pub(super) element: Key<'static>,
    /// The key of its record.
    pub(super) key: Key<'static>,
}

impl Edge<'_> {
    /// The entries of an edge with these sort keys.
    pub(super) fn entries(&self, sort_keys: &[String]) -> Vec<EdgeEntry> {
        let entry = |map, node: &Key<'static>, element, value| EdgeEntry {
            map,
            node: node.clone(),
            element,
            value,
        };
        let first = sort_keys.first().cloned().unwrap_or_default();
        let from = |map| {
            entry(
                map,
                &self.source,
                self.element.clone(),
                first.clone().into(),
            )
        };
        let mut entries = Vec::new();
        if self.edge_type.is_in_edge_set() {
            entries.push(from(EdgeMap::EdgeSet));
        }
        if !self.schema.keeps_edge_maps {
            return entries;
        }
        if !self.edge_type.is_in_edge_set() {
            entries.push(from(EdgeMap::Omitted));
        }
        for (at, sort_key) in sort_keys.iter().enumerate() {
            let prefix = incoming_prefix(self.edge_type.name(), at, sort_key);
            let element = format!("{prefix}{END_OF_SORT_KEY}{}", text_of(&self.source));
            let incoming = EdgeMap::Incoming;
            entries.push(entry(incoming, &self.target, element.into(), Value::Nil));
        }
        entries
    }

    /// The entries that go with this record of the edge; none of a removed one.
    pub(super) fn entries_of(&self, record: &Record) -> Vec<EdgeEntry> {
        if is_removed(record) {
            return Vec::new();
        }
        let sort_key = |at| {
            let found = record.get(&sort_bin(at));
            let text = found.as_ref().and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let sort_keys: Vec<String> = (0..self.edge_type.sort_keys()).map(sort_key).collect();
        self.entries(&sort_keys)
    }

    /// The edge's record as it is now, with its sort keys. One read.
    fn read<S: RecordStore>(&self, store: &S) -> Result<Option<Record>> {
        let records = store.records(&self.schema.edges)?;
        let bins = self.schema.sort_bins();
        let bins: Vec<&str> = bins.iter().map(String::as_str).chain([REMOVED]).collect();
        read_one(&records, &self.key, Some(&bins))
    }

    /// The entries that the edge should have, by its record as it is now; none if it has no record.
    /// One read.
    pub(super) fn present_entries<S: RecordStore>(&self, store: &S) -> Result<Vec<EdgeEntry>> {
        let found = self.read(store)?;
        Ok(found.map_or_else(Vec::new, |record| self.entries_of(&record)))
    }

    /// Writes or deletes the edge's record by `change`, which gets its present entries, and a
    /// policy that refuses the write if another writer has changed them since. Then it is called
    /// again: entries of unseen sort keys would stay. In a transaction no other writer comes
    /// between. Returns whether the record was there, and its entries.
    ///
    /// # Errors
    /// [`Error::Conflict`] if others were first in every attempt.
    fn change<S: RecordStore>(
        &self,
        store: &S,
        mut change: impl FnMut(&[EdgeEntry], &WritePolicy) -> Result<()>,
    ) -> Result<(bool, Vec<EdgeEntry>)> {
        for _ in 0..CHANGES_MAX {
            let found = self.read(store)?;
            let entries = found
                .as_ref()
                .map_or_else(Vec::new, |record| self.entries_of(record));
            let policy = replacing();
            let policy = match &found {
                None => policy.record_exists_action(RecordExistsAction::CreateOnly),
                Some(record) => policy
                    .record_exists_action(RecordExistsAction::ReplaceOnly)
                    .generation(GenerationPolicy::ExpectEqual(
                        record.metadata().generation.into(),
                    ))
                    .filter(self.has_sort_keys_of(record)),
            };
            match change(&entries, &policy) {
                Err(
                    Error::NotFound { .. }
                    | Error::RecordExists { .. }
                    | Error::Generation { .. }
                    | Error::FilteredOut { .. },
                ) => {}
                changed => return changed.map(|()| (!entries.is_empty(), entries)),
            }
        }
        Err(Error::Conflict {
            cause: ConflictCause::Changed,
            attempts: CHANGES_MAX,
            record: Some(Box::new(RecordId::new(&self.schema.edges, &self.key))),
        })
    }

    /// The condition that the record has the sort keys of this version. Generations alone begin
    /// anew where an edge is removed and added again.
    fn has_sort_keys_of(&self, record: &Record) -> Option<Expression> {
        let sort_keys = (0..self.edge_type.sort_keys()).filter_map(|at| {
            let bin = sort_bin(at);
            match record.get(&bin)? {
                Value::String(sort_key) => Some(eq(string_bin(&bin), sort_key)),
                _ => None,
            }
        });
        sort_keys.reduce(|all, one| and([all, one]))
    }
}

/// How often a change of an edge is made again because another writer was first.
const CHANGES_MAX: u32 = 64;

/// Ends a sort key in the key of an entry. It is less than all text that may follow, so shorter
/// sort keys come first.
const END_OF_SORT_KEY: &str = "\0\0";

/// What the keys of entries begin with by which the edges of a type with a sort key are found.
fn incoming_prefix(edge_type: &str, at: usize, sort_key: &str) -> String {
    format!("{edge_type}-{at}-{}", sort_key.replace('\0', "\0\u{1}"))
}

fn text_of(key: &Key<'_>) -> String {
    match key {
        Key::String(text) => text.to_string(),
        other => other.to_string(),
    }
}

/// Returns the least text above all that begin with this one.
pub(super) fn behind(prefix: &str) -> String {
    let mut rest = prefix.to_owned();
    while let Some(last) = rest.pop() {
        // Surrogates are no characters.
        if let Some(next) = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32) {
            rest.push(next);
            break;
        }
    }
    rest
}

impl Schema {
    /// The edge of this type between two nodes.
    pub(super) fn edge<'g>(
        &'g self,
        source: &NodeId,
        edge_type: &str,
        target: &NodeId,
    ) -> Result<Edge<'g>> {
        let edge_type = self.edge_type(edge_type)?;
        Ok(Edge {
            schema: self,
            edge_type,
            source: self.node_key(source)?,
            target: self.node_key(target)?,
            element: self.target_key(edge_type, target)?,
            key: self.edge_key(source, edge_type, target)?,
        })
    }

    /// The edge that has a record with this key.
    pub(super) fn edge_at(&self, key: &Key<'_>) -> Result<Edge<'_>> {
        let (source, edge_type, target) = self.parse_edge_key(key)?;
        self.edge(&source, &edge_type, &target)
    }

    /// The edge that a map of a node has an entry for.
    pub(super) fn edge_of(
        &self,
        map: EdgeMap,
        node: &Key<'_>,
        element: &Key<'_>,
    ) -> Result<Edge<'_>> {
        let (node, element) = (text_of(node), text_of(element));
        let foreign = || self.foreign(&Key::from(element.as_str()));
        let node = NodeId::parse(&node).ok_or_else(foreign)?;
        match map {
            EdgeMap::Incoming => {
                let edge_type = element.split_once('-').ok_or_else(foreign)?.0;
                let source = self.source_in(&element)?;
                self.edge(&source, edge_type, &node)
            }
            EdgeMap::EdgeSet | EdgeMap::Omitted => {
                let (edge_type, target) = self.parse_target(&element)?;
                self.edge(&node, &edge_type, &target)
            }
        }
    }

    /// Returns the source of the edge that an incoming entry names.
    pub(super) fn source_in(&self, element: &str) -> Result<NodeId> {
        let source = element.split_once(END_OF_SORT_KEY);
        source
            .and_then(|(_, source)| NodeId::parse(source))
            .ok_or_else(|| self.foreign(&element.into()))
    }

    /// The edges that entries of an edge set, or of omitted types, stand for.
    pub(super) fn edges_in(&self, entries: Vec<(Value, Value)>) -> Result<Vec<NodeEdge>> {
        let edge = |(target, sort_key): (Value, Value)| {
            let target = target.as_str().unwrap_or_default();
            let (edge_type, target) = self.parse_target(target)?;
            Ok(NodeEdge {
                edge_type: edge_type.into(),
                target,
                sort_key: sort_key.as_str().unwrap_or_default().into(),
            })
        };
        entries.into_iter().map(edge).collect()
    }
}

/// The keys of incoming entries of one type, by sort keys: from the first one to the bound behind
/// the last.
pub(super) struct IncomingRange<'q> {
    pub(super) edge_type: &'q str,
    /// Which sort key.
    pub(super) at: usize,
}

impl IncomingRange<'_> {
    /// Where the edges with this sort key begin.
    pub(super) fn first_of(&self, sort_key: &str) -> String {
        incoming_prefix(self.edge_type, self.at, sort_key)
    }

    /// Where the edges with greater sort keys than this begin.
    pub(super) fn behind_all_of(&self, sort_key: &str) -> String {
        format!("{}\0\u{1}", self.first_of(sort_key))
    }
}

impl Edge<'_> {
    /// The bins of the record of an edge with these attributes.
    pub(super) fn bins(&self, attributes: &Bins) -> Result<Bins> {
        let (source, element) = (&self.source, &self.element);
        (self.schema).edge_bins(self.edge_type, source, element, attributes)
    }

    /// Returns a node of the edge that is not there; `None`: both are.
    pub(super) fn missing_end<S: RecordStore>(&self, store: &S) -> Result<Option<Key<'static>>> {
        let nodes = [self.source.clone(), self.target.clone()];
        let records = store.records(&self.schema.nodes)?;
        for (node, found) in nodes.iter().zip(records.read_each(&nodes, Some(&[]))) {
            if found?.is_none() {
                return Ok(Some(node.clone()));
            }
        }
        Ok(None)
    }

    /// Writes the record, then the entries. One that dies in between is finished by the same call.
    pub(super) fn put<S: RecordStore>(&self, store: &S, attributes: &Bins) -> Result<bool> {
        let schema = self.schema;
        if schema.ends_must_exist {
            check_exists(store, &schema.nodes, &self.source)?;
            check_exists(store, &schema.nodes, &self.target)?;
        }
        let entries = self.entries(&self.edge_type.derive(attributes));
        let (records, puts) = (store.records(&schema.edges)?, puts(&self.bins(attributes)?));
        let put = |policy: &WritePolicy| records.operate_on(policy, &self.key, &puts).map(drop);
        let before = if schema.keeps_edge_maps {
            self.change(store, |_, policy| put(policy))?.1
        } else {
            put(&replacing())?;
            Vec::new()
        };
        for entry in &entries {
            entry.add(schema, store)?;
        }
        for entry in before.iter().filter(|entry| !entry.is_among(&entries)) {
            entry.remove(schema, store)?;
        }
        self.settle(store, entries)?;
        Ok(true)
    }

    /// Removes the entries, the ones in `met` too, then the record. Returns whether it was there.
    pub(super) fn remove<S: RecordStore>(&self, store: &S, met: &[EdgeEntry]) -> Result<bool> {
        let schema = self.schema;
        let records = store.records(&schema.edges)?;
        let remove_entries = |present: &[EdgeEntry]| -> Result<()> {
            for entry in present.iter().chain(met) {
                entry.remove(schema, store)?;
            }
            Ok(())
        };
        if !schema.keeps_edge_maps {
            remove_entries(&self.entries(&[]))?;
            return delete_with(&records, &WritePolicy::default(), &self.key);
        }
        let (removed, _) = self.change(store, |present, policy| {
            remove_entries(present)?;
            if present.is_empty() {
                return Ok(());
            }
            let policy = policy
                .clone()
                .record_exists_action(RecordExistsAction::UpdateOnly);
            let was_there = delete_member(&records, &policy, &self.key, None)?;
            was_there.then_some(()).ok_or_else(Error::not_found)
        })?;
        self.settle(store, Vec::new())?;
        Ok(removed)
    }

    /// Looks whether another writer has changed the edge since, where that is possible and this
    /// process has written entries. The last of several writers sees the edge as it stays.
    fn settle<S: RecordStore>(&self, store: &S, entries: Vec<EdgeEntry>) -> Result<()> {
        if self.schema.keeps_edge_maps && !store.is_transaction() {
            self.follow_record(store, entries)?;
        }
        Ok(())
    }

    /// Makes the entries agree with the record. `there`: the entries that are there, as far as that
    /// is known. Returns whether one was changed.
    pub(super) fn follow_record<S: RecordStore>(
        &self,
        store: &S,
        mut there: Vec<EdgeEntry>,
    ) -> Result<bool> {
        let (schema, mut changed) = (self.schema, false);
        // Until the edge says the same before and after.
        loop {
            let wanted = self.present_entries(store)?;
            if wanted == there {
                return Ok(changed);
            }
            for entry in there.iter().filter(|entry| !entry.is_among(&wanted)) {
                changed |= entry.remove(schema, store)?;
            }
            for entry in wanted.iter().filter(|entry| !there.contains(entry)) {
                if !entry.is_there(schema, store)? {
                    entry.add(schema, store)?;
                    changed = true;
                }
            }
            there = wanted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_entries_are_in_the_order_of_sort_keys_whatever_these_are() {
        let range = IncomingRange {
            edge_type: "E",
            at: 0,
        };
        let mut sort_keys = [
            "",
            "\0",
            "\0\0",
            "\0a",
            "a",
            "a\0",
            "a\0b",
            "a\u{1}",
            "aa",
            "b",
            "\u{d7ff}",
            "\u{10ffff}",
        ];
        sort_keys.sort_unstable();
        let key = |sort: &str| format!("{}{END_OF_SORT_KEY}N-1", range.first_of(sort));
        assert!(sort_keys.map(key).is_sorted());
        for one in sort_keys {
            for other in sort_keys {
                let (one_key, what) = (key(one), format!("{one:?}, {other:?}"));
                let is_in = |(from, to): (String, String)| from <= one_key && one_key < to;
                let equal = (range.first_of(other), range.behind_all_of(other));
                assert_eq!(is_in(equal), one == other, "{what}");
                let end = match &*behind(other) {
                    "" => behind(&range.first_of("")),
                    end => range.first_of(end),
                };
                let with_prefix = (range.first_of(other), end);
                assert_eq!(is_in(with_prefix), one.starts_with(other), "{what}");
                assert_eq!(one_key >= range.first_of(other), one >= other, "{what}");
                assert_eq!(one_key >= range.behind_all_of(other), one > other, "{what}");
            }
        }
    }
}
