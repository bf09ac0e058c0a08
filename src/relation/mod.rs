//! Relations between records: the patterns of key-value modeling as handles.
//!
//! | handle | relates |
//! |---|---|
//! | [`KeyPattern`] | records by the parts of their keys |
//! | [`KeyCorrespondence`] | records of one key in several sets or namespaces |
//! | [`ManyToMany`] | records of two sets, or of one, with both ends known |
//!
//! All are written against [`RecordStore`](crate::RecordStore): a [`Store`](crate::Store), a
//! [`Namespace`](crate::Namespace), a transaction, or another place that keeps records. What changes several records goes
//! through [`RecordStore::atomically`](crate::RecordStore::atomically); each handle says in which order it writes where there are
//! no transactions, and what `verify` finds and repairs then.
//!
//! Which pattern when, with its cost: `docs/relations.md`.

// * `keys`: keys as elements of collections, and reading the records behind them. `side`: a collection of keys in each record
//   of a set, which every handle with two ends is made of. `audit`: what audits report.
// * one file a handle; `many_to_many/` has what is read of it, and its audit, apart.

mod audit;
mod key_correspondence;
mod key_pattern;
mod keys;
mod many_to_many;
mod side;

pub use audit::{RelationAudit, RelationFault, RelationProgress, Repair};
pub use key_correspondence::KeyCorrespondence;
pub use key_pattern::{KeyPart, KeyParts, KeyPattern};
pub use keys::Related;
pub use many_to_many::{ManyToMany, Neighbors, OnDelete};
