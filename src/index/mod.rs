//! Secondary indexes: what they are of, the entries of a record, and the order in which entries stand.
//!
//! * `definition`: what users declare; `key`: values as byte strings in their order.
//! * `entries`: the entries of a record; `ordered`, `directory`, `leaf`: the structure that holds those of all records.
//!
//! Pure: records come in as bytes. Which records there are, and when entries come and go, is the engine's.

mod definition;
mod directory;
mod entries;
mod key;
mod leaf;
mod ordered;

pub use definition::{IndexComponent, IndexDefinition};
pub use key::IndexType;

pub(crate) use entries::EntryReader;
pub(crate) use key::{form_of, form_of_prefix, type_of_form};
pub(crate) use ordered::{EntryList, EntryRange, OrderedEntries, end_of_prefix};
