//! What a record is to the declared relations, and the edges that it has by each.

use crate::engine::declaration::{
    DeclaredSide, OnDelete, RelationDeclaration, RelationKind, SideForm,
};
use crate::relation::address::Address;
use crate::relation::graph::{source_index, target_index, target_text};
use crate::relation::key_pattern::KeyPattern;
use crate::relation::keys::{BATCH, element_of};
use crate::relation::side::Side;
use crate::{IndexQuery, IndexRange, IndexedRecordSet, Key, RecordStore, Result, Value};

/// What a record is to a relation.
pub(super) struct Role<'d> {
    pub(super) relation: &'d RelationDeclaration,
    pub(super) rule: OnDelete,
    /// The set of the record.
    pub(super) set: &'d str,
    pub(super) kind: RoleKind<'d>,
}

pub(super) enum RoleKind<'d> {
    /// It has keys, and the records of these keys have its own.
    Pair { own: Side, back: Side },
    /// It has links to records of any sets.
    Linking { own: Side },
    /// It lists records of this set that belong to it.
    Listing { own: Side, to: &'d str },
    /// It contains what belongs to it.
    Containing { own: Side },
    /// Records of a set refer to it by a bin, and an index finds them.
    ReferredBy { children: &'d DeclaredSide },
    /// The record of this key lists it.
    Listed { list: Side, owner: Key<'static> },
    /// The record that it names in this bin lists it.
    ChildOf { bin: &'d str, list: Side },
    /// It is a node of a graph.
    Node { edge_set: Side, edges: &'d str },
    /// It is the record of an edge, and listed in the edge set of the node where that begins.
    EdgeRecord { edge_set: Side },
}

/// An edge of a record that is being deleted.
pub(super) enum RemovedEdge {
    /// To this key, with the other end in the side that the relation has there.
    Key(Key<'static>),
    /// A link, as it is stored.
    Link(Value),
    /// A record that is deleted, too: a child, or the record of an edge.
    Record(Address),
}

/// What a record is to each of the relations, which have these rules.
pub(super) fn roles_of<'d>(
    declarations: &'d [RelationDeclaration],
    rule_of: impl Fn(&RelationDeclaration) -> OnDelete,
    record: &'d Address,
) -> Vec<Role<'d>> {
    let mut roles = Vec::new();
    for relation in declarations {
        let mut add = |kind| {
            roles.push(Role {
                relation,
                rule: rule_of(relation),
                set: &record.set,
                kind,
            });
        };
        for sides in [&relation.sides, &relation.former] {
            kinds_of(relation, sides, record, &mut add);
        }
    }
    roles
}

fn kinds_of<'d>(
    relation: &'d RelationDeclaration,
    sides: &'d [DeclaredSide],
    record: &Address,
    add: &mut impl FnMut(RoleKind<'d>),
) {
    let Some(first) = sides.first() else { return };
    let second = sides.get(1);
    let is_in = |set: &str| *record.set == *set;
    let leads_here = first.to.as_deref().is_some_and(is_in);
    match relation.kind {
        RelationKind::ManyToMany => {
            let (Some(one), Some(other)) = (Side::of(first), second.and_then(Side::of)) else {
                return;
            };
            for (own, back) in [(&one, &other), (&other, &one)] {
                if is_in(&own.set) {
                    let (own, back) = (own.clone(), back.clone());
                    add(RoleKind::Pair { own, back });
                }
            }
        }
        RelationKind::Links => {
            let here = sides.iter().filter(|side| is_in(&side.set));
            here.filter_map(Side::of)
                .for_each(|own| add(RoleKind::Linking { own }));
        }
        RelationKind::Members => {
            let (Some(list), Some(owner), Some(to)) =
                (Side::of(first), relation.owner(), first.to.as_deref())
            else {
                return;
            };
            if is_in(&list.set) && record.key == owner {
                let own = list.clone();
                add(RoleKind::Listing { own, to });
            } else if leads_here {
                add(RoleKind::Listed { list, owner });
            }
        }
        RelationKind::OneToMany => {
            match (Side::of(first), first.to.as_deref()) {
                (Some(own), _) if is_in(&own.set) && first.form == SideForm::Map => {
                    add(RoleKind::Containing { own });
                }
                (Some(own), Some(to)) if is_in(&own.set) => add(RoleKind::Listing { own, to }),
                (None, _) if leads_here => add(RoleKind::ReferredBy { children: first }),
                _ => {}
            }
            let named = second.filter(|named| is_in(&named.set));
            if let (Some(list), Some(bin)) = (
                Side::of(first),
                named.and_then(|named| named.bin.as_deref()),
            ) {
                add(RoleKind::ChildOf { bin, list });
            }
        }
        RelationKind::Graph => {
            let (Some(edge_set), Some(edges)) = (Side::of(first), second) else {
                return;
            };
            if is_in(&edges.set) {
                add(RoleKind::EdgeRecord { edge_set });
            } else if is_in(&edge_set.set) {
                let edges = &edges.set;
                add(RoleKind::Node { edge_set, edges });
            }
        }
        _ => {}
    }
}

impl Role<'_> {
    /// The collection in the record itself.
    pub(super) const fn own(&self) -> Option<&Side> {
        match &self.kind {
            RoleKind::Pair { own, .. }
            | RoleKind::Linking { own }
            | RoleKind::Listing { own, .. }
            | RoleKind::Containing { own }
            | RoleKind::Node { edge_set: own, .. } => Some(own),
            _ => None,
        }
    }

    /// Whether an index finds its edges, which may be there without the record.
    pub(super) const fn is_found_by_index(&self) -> bool {
        matches!(
            self.kind,
            RoleKind::ReferredBy { .. } | RoleKind::Node { .. }
        )
    }

    /// The collection in the record itself, where nothing at other records goes with its elements.
    pub(super) fn holds_alone(&self) -> Option<&Side> {
        match &self.kind {
            RoleKind::Listing { own, .. } if self.rule != OnDelete::Cascade => Some(own),
            RoleKind::Containing { own } => Some(own),
            _ => None,
        }
    }

    /// Takes what the record lists of another one, which is gone, off its list: it may have been listed without being there.
    pub(super) fn strike<S: RecordStore>(
        &self,
        store: &S,
        key: &Key<'_>,
        gone: &Key<'_>,
    ) -> Result<()> {
        match &self.kind {
            RoleKind::Listing { own, .. } => own.remove(store, key, gone).map(drop),
            RoleKind::Node { edge_set, .. } => {
                let (source, target) = edge_keys()?.parse(gone)?;
                match Key::from(source) == *key {
                    true => edge_set.remove(store, key, &target.into()).map(drop),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// How many edges keep the record from being deleted; of those that an index finds, as many as one page has.
    pub(super) fn count<S: RecordStore<Records: IndexedRecordSet>>(
        &self,
        store: &S,
        key: &Key<'_>,
    ) -> Result<u64> {
        match &self.kind {
            RoleKind::ReferredBy { .. } | RoleKind::Node { .. } => {
                let found = self.some_edges(store, key, BATCH as usize)?;
                Ok(found.len() as u64)
            }
            _ => self.own().map_or(Ok(0), |own| own.len(store, key)),
        }
    }

    /// Returns at most `limit` edges that go with the record.
    pub(super) fn some_edges<S: RecordStore<Records: IndexedRecordSet>>(
        &self,
        store: &S,
        key: &Key<'_>,
        limit: usize,
    ) -> Result<Vec<RemovedEdge>> {
        let record = |set: &str| {
            let set: Box<str> = set.into();
            move |key| {
                RemovedEdge::Record(Address {
                    set: set.clone(),
                    key,
                })
            }
        };
        match &self.kind {
            RoleKind::Pair { own, .. } => {
                let page = own.page_after(store, key, None, limit as u64)?;
                Ok(page
                    .into_iter()
                    .map(|(key, _)| RemovedEdge::Key(key))
                    .collect())
            }
            RoleKind::Linking { own } => {
                use std::ops::Bound::Unbounded;
                let links = own.list(store, key)?;
                let links = links.range(Unbounded, Unbounded, limit as u64)?;
                Ok(links.into_iter().map(RemovedEdge::Link).collect())
            }
            RoleKind::Listing { own, to } if self.rule == OnDelete::Cascade => {
                let page = own.page_after(store, key, None, limit as u64)?;
                Ok(page
                    .into_iter()
                    .map(|(key, _)| key)
                    .map(record(to))
                    .collect())
            }
            RoleKind::ReferredBy { children } => {
                let index = children.index.as_deref().unwrap_or_default();
                let found = keys_of(store, &children.set, (index, element_of(key)), limit)?;
                Ok(found.into_iter().map(record(&children.set)).collect())
            }
            RoleKind::Node { edge_set, edges } => {
                let found = self.edges_of_node(store, (edge_set, edges), key, limit)?;
                Ok(found.into_iter().map(record(edges)).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The keys of edges from and to a node. An index sees what is committed, an edge set also what the transaction has written.
    fn edges_of_node<S: RecordStore<Records: IndexedRecordSet>>(
        &self,
        store: &S,
        (edge_set, edges): (&Side, &str),
        key: &Key<'_>,
        limit: usize,
    ) -> Result<Vec<Key<'static>>> {
        let Key::String(node) = key else {
            return Ok(Vec::new());
        };
        let keys = edge_keys()?;
        let listed = edge_set.page_after(store, key, None, limit as u64)?;
        let mut found: Vec<Key<'static>> = listed
            .into_iter()
            .filter_map(|(target, _)| match target {
                Key::String(target) => Some(keys.key((node.to_string(), target.to_string()))),
                _ => None,
            })
            .collect();
        let graph = &self.relation.name;
        let from = [(source_index(graph), Value::String(node.to_string()))];
        let to = self.relation.edge_types.iter().map(|edge_type| {
            let text = target_text(edge_type, node);
            (target_index(graph, 0), Value::String(text))
        });
        for (index, equal) in from.into_iter().chain(to) {
            for edge in keys_of(store, edges, (&index, equal), limit)? {
                if !found.contains(&edge) {
                    found.push(edge);
                }
            }
        }
        found.truncate(limit);
        Ok(found)
    }
}

/// The keys of the edges of a graph, by source and target.
fn edge_keys() -> Result<KeyPattern<(String, String)>> {
    KeyPattern::new("{source}|{target}")
}

/// The keys of some records that an index has under this value.
fn keys_of<S: RecordStore<Records: IndexedRecordSet>>(
    store: &S,
    set: &str,
    (index, equal): (&str, Value),
    limit: usize,
) -> Result<Vec<Key<'static>>> {
    let page = store.records(set)?.query_keys(&IndexQuery {
        index,
        equal: &[equal],
        range: IndexRange::Any,
        limit,
        after: None,
    })?;
    Ok(page.keys)
}
