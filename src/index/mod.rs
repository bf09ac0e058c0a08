//! Secondary indexes: their components, the entries of a record, and the order of entries.
//!
//! * `definition`: what users declare; `client_form`: what Aerospike's clients and backups declare; `key`: values as byte
//!   strings in their order.
//! * `selection`: what a query asks for.
//! * `entries`: the entries of a record; `ordered`, `directory`, `leaf`: the structure that holds the entries of all records.
//!
//! `guards` are the guards that the model check takes away one by one.
//!
//! Pure: records come in as bytes. Which records there are, and when entries come and go, is the engine's.

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

#[cfg(feature = "server")]
pub(crate) use client_form::VALUE_BYTES_MAX;
#[cfg(any(feature = "server", feature = "backup"))]
pub(crate) use definition::{IndexPart, IndexSource};
pub(crate) use entries::EntryReader;
pub(crate) use guards::{GUARDS, Guard};
pub(crate) use key::{GeometryKey, form_len, form_of, form_of_prefix, geometry_key, type_of_form};
#[cfg(feature = "server")]
pub(crate) use key::{order_of_form, write_stored};
pub(crate) use ordered::{EntryList, EntryRange, OrderedEntries, end_of_prefix};
pub(crate) use selection::{AskedGeometry, EntryRanges, EntrySelection};
