//! Relations between records: the patterns of key-value modeling as handles.
//!
//! | handle | relates |
//! |---|---|
//! | [`KeyPattern`] | records by the parts of their keys |
//! | [`KeyCorrespondence`] | records of one key in several sets or namespaces |
//! | [`Members`] | a set with the keys of its records |
//! | [`OneToMany`] | parents with children that belong to one of them |
//! | [`ManyToMany`] | records of two sets, or of one, with both ends known |
//! | [`Links`] | records of any sets by tags, and walks along them |
//! | [`Graph`] | nodes and edges of declared types, with sort keys and edge sets |
//! | [`Includes`] | records with the records that they refer to, in one read |
//! | [`Joined`] | records with fields of the records that they refer to, kept in a set of their own and current by the changes |
//! | [`Propagate`] | records with copies of fields of the records that they refer to, kept current by the changes or on demand |
//!
//! All are written against [`RecordStore`](crate::RecordStore): a [`Store`](crate::Store), a
//! [`Namespace`](crate::Namespace), a transaction, or another place that keeps records. What
//! changes several records goes through
//! [`RecordStore::atomically`](crate::RecordStore::atomically); each handle says in which order it
//! writes where there are no transactions, and what `verify` finds and repairs then.
//!
//! Which pattern when: `docs/relations.md`. Each handle states its costs.

// * `keys`: keys as elements of collections, and reading the records behind them. `key_set`: sets
//   of keys, for traversals. `side`: a collection of keys in each record of a set, which every
//   handle with two ends is made of; `side_reader`: its reads. `listed`: records that such a
//   collection lists by their keys. `ends`: changes of both ends of an edge. `bulk`: many of them
//   at once. `audit`: what audits report. `edge_remover`: deletes of records with their edges, for
//   every declared relation. `record_delete`: the same by a handle, for stores without guards, too.
//   `reference_path`: the places of keys in a record. `updater`: follows changes. `writes`: writes
//   of one record. `declared`, `stats`: the declarations of a store's relations, and their counts.
// * one file a handle; `many_to_many/` has its reads and its audit.

mod address;
mod audit;
mod bulk;
mod declared;
mod edge_remover;
mod ends;
mod graph;
mod includes;
mod joined;
mod key_correspondence;
mod key_pattern;
mod key_set;
mod keys;
mod links;
mod listed;
mod many_to_many;
mod members;
#[cfg(test)]
mod model;
mod one_to_many;
mod propagate;
mod record_delete;
mod reference_path;
mod side;
mod side_reader;
mod stats;
mod together;
mod traversal;
mod updater;
mod within;
mod writes;

pub use crate::engine::RelationGuard;
pub use crate::engine::declaration::{
    DECLARATION_SET, DeclaredSide, OnDelete, RelationDeclaration, RelationKind, SideForm,
};
pub use address::{Address, TaggedLink};
pub use audit::{RelationAudit, RelationFault, RelationProgress, Repair};
pub use declared::{declared_relations, forget_relation};
pub(crate) use edge_remover::delete_with_edges;
pub use graph::{EdgeQuery, EdgeType, EdgesQuery, Graph, GraphNode, GraphPage, NodeEdge, NodeId};
pub use includes::{Included, Includes};
pub use joined::Joined;
pub use key_correspondence::KeyCorrespondence;
pub use key_pattern::{KeyPart, KeyParts, KeyPattern};
pub use keys::{Related, sweep_removed};
pub use links::{LinkWalk, Links, WalkStep};
pub use many_to_many::{ManyToMany, Neighbors};
pub use members::Members;
pub use one_to_many::{
    CONSOLIDATED_BYTES_MAX, Child, ChildPage, KEY_LIST_CHILDREN_MAX, Layout, LayoutAdvice,
    LayoutKind, OneToMany, suggest_layout,
};
pub use propagate::{Propagate, PropagateReport};
pub use stats::SideStats;
pub use traversal::{Traversal, TraversalEnd};
pub use updater::{RunningUpdater, UpdateFailure, UpdateProgress, Updater};
