//! Secondary indexes: their components, the entries of a record, and the order of entries.
//!
//! * `definition`: definitions of users; `client_form`: of Aerospike's clients and backups; `key`:
//!   values as byte strings that sort like them.
//! * `selection`: the entries and conditions of a query.
//! * `entries`: the entries of a record; `ordered`, `directory`, `leaf`: the sorted entries of all
//!   records.
//!
//! The model check disables `guards` one by one.
//!
//! Pure: records come in as bytes. The engine decides which records exist, and when entries come
//! and go.

#[cfg(any(feature = "server", feature = "backup"))]
mod client_form;
mod definition;
mod directory;
mod entries;
mod guards;
mod key;
mod leaf;
mod ordered;
mod selection;

pub use definition::{IndexComponent, IndexDefinition};
pub use key::IndexType;

#[cfg(any(feature = "server", feature = "backup"))]
pub(crate) use client_form::{CLIENT_PARTS, CLIENT_TYPES};
#[cfg(any(feature = "server", feature = "cluster"))]
pub(crate) use definition::IndexPart;
#[cfg(any(feature = "server", feature = "backup", feature = "cluster"))]
pub(crate) use definition::IndexSource;
pub(crate) use definition::VALUE_BYTES_MAX;
pub(crate) use entries::EntryReader;
pub(crate) use guards::{GUARDS, IndexRule};
pub(crate) use key::{GeometryKey, form_of, form_of_prefix, forms_len, geometry_key, type_of_form};
#[cfg(feature = "server")]
pub(crate) use key::{order_of_form, write_stored};
pub(crate) use ordered::{EntryList, EntryRange, OrderedEntries, end_of_prefix};
pub(crate) use selection::{AskedGeometry, EntryRanges, EntrySelection};
