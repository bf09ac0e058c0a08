//! The roles of a record in the declared relations, and the edges that it has by each.

use std::collections::HashSet;

use crate::engine::RelationGuard;
use crate::engine::declaration::{
    DeclaredSide, OnDelete, RelationDeclaration, RelationKind, SideForm,
};
use crate::index::VALUE_BYTES_MAX;
use crate::query::{IndexComponent, IndexDefinition, IndexType};
use crate::record::Record;
use crate::relation::address::Address;
use crate::relation::graph::{edge_keys, source_index, target_index, target_text};
use crate::relation::keys::{BATCH, check_index, element_of, pages_of_index};
use crate::relation::side::RelationSide;
use crate::{IndexedRecordSet, Key, RecordSet, RecordStore, Result, Transaction, Value};

/// An edge set and the records of edges: a graph that keeps further maps is a cluster's. It has no
/// index by which the edges of a node are found here, and its handle deletes them.
const GUARDED_GRAPH_SIDES: usize = 2;

/// The role of a record in a relation.
pub(super) struct RelationRole<'d> {
    pub(super) relation: &'d RelationDeclaration,
    pub(super) rule: OnDelete,
    pub(super) record: &'d Address,
    pub(super) kind: RoleKind<'d>,
}

pub(super) enum RoleKind<'d> {
    /// It has keys, and the records of these keys have its own.
    Pair {
        own: RelationSide,
        back: RelationSide,
    },
    /// It has links to records of any sets.
    Linking { own: RelationSide },
    /// It lists records of a set that belong to it.
    Listing { own: RelationSide, to: Listed<'d> },
    /// It contains what belongs to it.
    Containing { own: RelationSide },
    /// Records of a set refer to it by a bin, and an index finds them.
    ReferredBy { children: &'d DeclaredSide },
    /// The record of this key lists it.
    Listed {
        list: RelationSide,
        owner: Key<'static>,
    },
    /// The record that it names in this bin lists it.
    ChildOf { bin: &'d str, list: RelationSide },
    /// It is a node of a graph.
    Node {
        edge_set: RelationSide,
        edges: &'d str,
    },
    /// It is the record of an edge, and listed in the edge set of the node where that begins.
    EdgeRecord { edge_set: RelationSide },
}

/// Records that another one lists.
#[derive(Clone, Copy)]
pub(super) struct Listed<'d> {
    set: &'d str,
    /// The bin in which each names the record that lists it.
    named: Option<&'d str>,
}

/// An edge of a record that is being deleted.
pub(super) enum RemovedEdge {
    /// To this key, with the other end in the side that the relation has there.
    Key(Key<'static>),
    /// A link, as it is stored.
    Link(Value),
    /// A record that is deleted, too: a child, or the record of an edge.
    Record(Address),
    /// A record that is listed, and names another one as its parent.
    Foreign(Address),
}

impl RemovedEdge {
    /// Removes the edge at the record with this role.
    pub(super) fn remove_from_own(
        &self,
        role: &RelationRole<'_>,
        transaction: &Transaction<'_>,
    ) -> Result<()> {
        let key = &role.record.key;
        match (self, &role.kind) {
            (Self::Key(other), RoleKind::Pair { own, .. }) => {
                own.at(transaction, key).remove(other)?;
            }
            (Self::Link(link), RoleKind::Linking { own }) => {
                own.at(transaction, key).remove_element(link)?;
            }
            // Another writer may have put it back to this record since.
            (Self::Foreign(other), _) if !role.goes_with(transaction, other)? => {
                role.strike(transaction, other)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the roles of a record in all relations, with their rules.
pub(super) fn roles_of<'d>(
    declarations: &'d [RelationDeclaration],
    rule_of: impl Fn(&RelationDeclaration) -> OnDelete,
    record: &'d Address,
) -> Vec<RelationRole<'d>> {
    let mut roles = Vec::new();
    for relation in declarations {
        let mut add = |kind| {
            roles.push(RelationRole {
                relation,
                rule: rule_of(relation),
                record,
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
            let (Some(one), Some(other)) =
                (RelationSide::of(first), second.and_then(RelationSide::of))
            else {
                return;
            };
            // Both ends of a symmetrical relation are in one bin.
            let ends = if one.is_same(&other) { 1 } else { 2 };
            for (own, back) in [(&one, &other), (&other, &one)].into_iter().take(ends) {
                if is_in(&own.set) {
                    let (own, back) = (own.clone(), back.clone());
                    add(RoleKind::Pair { own, back });
                }
            }
        }
        RelationKind::Links => {
            let here = sides.iter().filter(|side| is_in(&side.set));
            here.filter_map(RelationSide::of)
                .for_each(|own| add(RoleKind::Linking { own }));
        }
        RelationKind::Members => {
            let (Some(list), Some(owner), Some(to)) = (
                RelationSide::of(first),
                relation.owner(),
                first.to.as_deref(),
            ) else {
                return;
            };
            if is_in(&list.set) && record.key == owner {
                let (own, named) = (list.clone(), None);
                let to = Listed { set: to, named };
                add(RoleKind::Listing { own, to });
            } else if leads_here {
                add(RoleKind::Listed { list, owner });
            }
        }
        RelationKind::OneToMany => {
            match (RelationSide::of(first), first.to.as_deref()) {
                (Some(own), _) if is_in(&own.set) && first.form == SideForm::Map => {
                    add(RoleKind::Containing { own });
                }
                (Some(own), Some(set)) if is_in(&own.set) => {
                    let named = second.and_then(|named| named.bin.as_deref());
                    let to = Listed { set, named };
                    add(RoleKind::Listing { own, to });
                }
                (None, _) if leads_here => add(RoleKind::ReferredBy { children: first }),
                _ => {}
            }
            let named = second.filter(|named| is_in(&named.set));
            if let (Some(list), Some(bin)) = (
                RelationSide::of(first),
                named.and_then(|named| named.bin.as_deref()),
            ) {
                add(RoleKind::ChildOf { bin, list });
            }
        }
        RelationKind::Graph => {
            let (Some(edge_set), Some(edges)) = (RelationSide::of(first), sides.last()) else {
                return;
            };
            if is_in(&edges.set) {
                add(RoleKind::EdgeRecord { edge_set });
            } else if is_in(&edge_set.set) && sides.len() == GUARDED_GRAPH_SIDES {
                let edges = &edges.set;
                add(RoleKind::Node { edge_set, edges });
            }
        }
        _ => {}
    }
}

/// Whether the collection in a bin of the record belongs to one of its roles.
pub(super) fn have_own(roles: &[RelationRole<'_>], bin: &str) -> bool {
    let mut own = roles.iter().filter_map(RelationRole::own);
    own.any(|own| *own.bin == *bin)
}

impl RelationRole<'_> {
    /// The collection in the record itself.
    pub(super) const fn own(&self) -> Option<&RelationSide> {
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

    /// Takes a record that is gone off the list of this one, where it may have been listed without
    /// being there. Returns whether it was listed.
    pub(super) fn strike<S: RecordStore>(&self, store: &S, gone: &Address) -> Result<bool> {
        let key = &self.record.key;
        match &self.kind {
            RoleKind::Listing { own, to } if *to.set == *gone.set => {
                own.at(store, key).remove(&gone.key)
            }
            RoleKind::Node { edge_set, edges } if **edges == *gone.set => {
                let (source, target) = edge_keys()?.parse(&gone.key)?;
                if Key::from(source) == *key {
                    edge_set.at(store, key).remove(&target.into())
                } else {
                    Ok(false)
                }
            }
            _ => Ok(false),
        }
    }

    /// Returns whether another record, which was found to go with this one, still does.
    pub(super) fn goes_with<S: RecordStore<Records: IndexedRecordSet>>(
        &self,
        store: &S,
        part: &Address,
    ) -> Result<bool> {
        let key = &self.record.key;
        match &self.kind {
            RoleKind::Listing { own, to }
                if *to.set == *part.set && self.rule == OnDelete::Cascade =>
            {
                let is_listed = own.at(store, key).get(&part.key)?.is_some();
                Ok(is_listed
                    && to
                        .which(store, key, vec![part.key.clone()])?
                        .contains(&true))
            }
            RoleKind::ReferredBy { children } if children.set == part.set => {
                let mut found = Vec::new();
                let keys = vec![part.key.clone()];
                RoleSearch::children(store, children, key)?.keep(store, keys, &mut found)?;
                Ok(!found.is_empty())
            }
            RoleKind::Node { edges, .. } => Ok(**edges == *part.set),
            _ => Ok(false),
        }
    }

    /// Returns whether other records, of which none is in `done`, lead to this one without its own
    /// bins saying so.
    pub(super) fn is_referred_to<S: RecordStore<Records: IndexedRecordSet>>(
        &self,
        store: &S,
        done: &HashSet<Address>,
    ) -> Result<bool> {
        match &self.kind {
            RoleKind::Listed { list, owner } => {
                Ok(list.at(store, owner).get(&self.record.key)?.is_some())
            }
            RoleKind::ReferredBy { .. } | RoleKind::Node { .. } => {
                let edges = self.some_edges(store, done.len() + 1)?;
                let is_done = |edge: &RemovedEdge| matches!(edge, RemovedEdge::Record(other) if done.contains(other));
                Ok(!edges.iter().all(is_done))
            }
            _ => Ok(false),
        }
    }

    /// Counts the edges that keep the record from being deleted. Of edges that an index finds, it
    /// counts one page.
    pub(super) fn count<S: RecordStore<Records: IndexedRecordSet>>(
        &self,
        store: &S,
    ) -> Result<u64> {
        match &self.kind {
            RoleKind::ReferredBy { .. } | RoleKind::Node { .. } => {
                let found = self.some_edges(store, BATCH as usize)?;
                Ok(found.len() as u64)
            }
            _ => self
                .own()
                .map_or(Ok(0), |own| own.at(store, &self.record.key).len()),
        }
    }

    /// Returns at most `limit` edges that go with the record.
    pub(super) fn some_edges<S: RecordStore<Records: IndexedRecordSet>>(
        &self,
        store: &S,
        limit: usize,
    ) -> Result<Vec<RemovedEdge>> {
        let key = &self.record.key;
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
                let page = own.at(store, key).page_after(None, limit as u64)?;
                Ok(page
                    .into_iter()
                    .map(|(key, _)| RemovedEdge::Key(key))
                    .collect())
            }
            RoleKind::Linking { own } => {
                use std::ops::Bound::Unbounded;
                let links = own.at(store, key).list()?;
                let links = links.range(Unbounded, Unbounded, limit as u64)?;
                Ok(links.into_iter().map(RemovedEdge::Link).collect())
            }
            RoleKind::Listing { own, to } if self.rule == OnDelete::Cascade => {
                let page = own.at(store, key).page_after(None, limit as u64)?;
                let keys: Vec<Key<'static>> = page.into_iter().map(|(key, _)| key).collect();
                let belong = to.which(store, key, keys.clone())?;
                // A listed record that names another parent is no child: it stays, off this list.
                let edge = |(key, belongs): (Key<'static>, bool)| {
                    let record = Address::new(to.set, &key);
                    if belongs {
                        RemovedEdge::Record(record)
                    } else {
                        RemovedEdge::Foreign(record)
                    }
                };
                Ok(keys.into_iter().zip(belong).map(edge).collect())
            }
            RoleKind::ReferredBy { children } => {
                let found = RoleSearch::children(store, children, key)?.run(store, limit)?;
                Ok(found.into_iter().map(record(&children.set)).collect())
            }
            RoleKind::Node { edge_set, edges } => {
                let found = edges_of_node(store, self.relation, (edge_set, edges), key, limit)?;
                Ok(found.into_iter().map(record(edges)).collect())
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// The keys of at most `limit` edges from and to a node of a graph, by its edge set and by indexes.
pub(in crate::relation) fn edges_of_node<S: RecordStore<Records: IndexedRecordSet>>(
    store: &S,
    relation: &RelationDeclaration,
    (edge_set, edges): (&RelationSide, &str),
    key: &Key<'_>,
    limit: usize,
) -> Result<Vec<Key<'static>>> {
    let Key::String(node) = key else {
        return Ok(Vec::new());
    };
    let keys = edge_keys()?;
    let listed = edge_set.at(store, key).page_after(None, limit as u64)?;
    let mut found: Vec<Key<'static>> = listed
        .into_iter()
        .filter_map(|(target, _)| match target {
            Key::String(target) => Some(keys.key((node.to_string(), target.to_string()))),
            _ => None,
        })
        .collect();
    let graph = &relation.name;
    let targets = relation.edge_types.iter();
    let targets: Vec<String> = targets
        .map(|edge_type| target_text(edge_type, node))
        .collect();
    let (source, target) = (source_index(graph), target_index(graph, 0));
    for index in [&source, &target] {
        check_index(store, edges, index)?;
    }
    let from = [(source.name().to_owned(), Value::String(node.to_string()))];
    let to = targets
        .iter()
        .map(|text| (target.name().to_owned(), Value::String(text.clone())));
    let search = RoleSearch {
        set: edges,
        indexes: from.into_iter().chain(to).collect(),
        bin: None,
        // The key of an edge says from where and to where it goes.
        is_edge: Box::new(|edge, _| {
            keys.parse(edge)
                .is_ok_and(|(source, target)| *source == **node || targets.contains(&target))
        }),
    };
    for edge in search.run(store, limit)? {
        if !found.contains(&edge) {
            found.push(edge);
        }
    }
    found.truncate(limit);
    Ok(found)
}

impl Listed<'_> {
    /// Whether the records of keys, in their order, belong to the one that lists them. One batch,
    /// where they name their parents.
    fn which<S: RecordStore>(
        &self,
        store: &S,
        owner: &Key<'_>,
        keys: Vec<Key<'static>>,
    ) -> Result<Vec<bool>> {
        let Some(bin) = self.named else {
            return Ok(vec![true; keys.len()]);
        };
        let owner = element_of(owner);
        let found = store.records(self.set)?.read_each(&keys, Some(&[bin]));
        let belongs = |found: Result<Option<Record>>| {
            let named = found?.and_then(|record| record.get(bin));
            // A missing one, and one without a parent, belongs to the owner of the list.
            Ok(named.is_none_or(|named| named == owner))
        };
        found.into_iter().map(belongs).collect()
    }
}

/// Returns the name of the index that finds the children of a parent: the declared one. Where a
/// handle of a cluster has declared the relation, there are two in its place, of integers and of
/// texts. `None`: neither has this parent.
///
/// # Errors
/// [`Error::IndexNotFound`] where there is none, or another index has the declared name.
fn index_of(
    guard: &RelationGuard<'_>,
    (children, bin): (&DeclaredSide, &str),
    parent: &Key<'_>,
) -> Result<Option<String>> {
    let declared = children.index.as_deref().unwrap_or_default();
    let namespace = guard.namespace();
    let kind = match parent {
        Key::Integer(_) => IndexType::Integer,
        _ => IndexType::String,
    };
    let typed = || namespace.index_over(&children.set, &IndexComponent::bin(bin).of_type(kind));
    let has_parent = match parent {
        Key::Integer(_) => true,
        Key::String(text) => text.len() <= VALUE_BYTES_MAX as usize,
        Key::Blob(_) => false,
    };
    let wanted = IndexDefinition::new(declared, [bin]);
    match namespace.check_index(&children.set, &wanted) {
        Ok(()) => Ok(Some(declared.to_owned())),
        Err(missing) => match typed() {
            Some(index) => Ok(has_parent.then(|| index.as_ref().to_owned())),
            None => Err(missing),
        },
    }
}

/// Whether a record, by its key and bins, leads to the one that a search is for.
type IsEdge<'s> = dyn Fn(&Key<'_>, &Record) -> bool + 's;

/// A search for records that lead to another one.
struct RoleSearch<'s> {
    set: &'s str,
    /// The indexes that find them, each with the value that they are found by. None: a scan finds
    /// them.
    indexes: Vec<(String, Value)>,
    /// The bin that `is_edge` looks at.
    bin: Option<&'s str>,
    is_edge: Box<IsEdge<'s>>,
}

impl<'s> RoleSearch<'s> {
    fn children<S: RecordStore>(
        store: &S,
        children: &'s DeclaredSide,
        parent: &Key<'_>,
    ) -> Result<Self> {
        let bin = children.bin.as_deref().unwrap_or_default();
        let guard = store.relation_guard()?;
        let index = match guard {
            Some(guard) => index_of(&guard, (children, bin), parent)?,
            None => None,
        };
        let parent = element_of(parent);
        Ok(Self {
            set: &children.set,
            indexes: index.into_iter().map(|it| (it, parent.clone())).collect(),
            bin: Some(bin),
            is_edge: Box::new(move |_, child| child.get(bin).as_ref() == Some(&parent)),
        })
    }

    /// Returns the keys of at most `limit` records. An index has committed records: returns the
    /// ones that still lead here, and the ones that a transaction has written besides.
    fn run<S: RecordStore<Records: IndexedRecordSet>>(
        &self,
        store: &S,
        limit: usize,
    ) -> Result<Vec<Key<'static>>> {
        let mut found = Vec::new();
        let transaction = store
            .relation_guard()?
            .and_then(|guard| guard.transaction());
        if let Some(transaction) = transaction {
            self.keep(store, transaction.written_keys(self.set), &mut found)?;
        }
        let records = store.records(self.set)?;
        for (index, equal) in &self.indexes {
            let mut pages = pages_of_index(&records, index, equal, limit);
            while found.len() < limit
                && let Some(page) = pages.next()
            {
                self.keep(store, page?, &mut found)?;
            }
        }
        if self.indexes.is_empty() {
            let mut scanned = Vec::new();
            records.scan_records(&mut |record| {
                let key = record.key().map(Key::into_owned);
                scanned.extend(key.filter(|key| (self.is_edge)(key, record)));
            })?;
            self.keep(store, scanned, &mut found)?;
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Appends the keys of records that lead here, as the store has them.
    fn keep<S: RecordStore>(
        &self,
        store: &S,
        keys: Vec<Key<'static>>,
        found: &mut Vec<Key<'static>>,
    ) -> Result<()> {
        let read = store
            .records(self.set)?
            .read_each(&keys, Some(self.bin.as_slice()));
        for (key, record) in keys.into_iter().zip(read) {
            let is_edge = record?.is_some_and(|record| (self.is_edge)(&key, &record));
            if is_edge && !found.contains(&key) {
                found.push(key);
            }
        }
        Ok(())
    }
}
