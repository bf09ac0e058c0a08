//! Backups: a store as text, in the format of Aerospike's backup tools (`.asb`, version 3.1; 3.0
//! and 3.2 are read, too).
//!
//! * [`Reader`], [`SavedRecord`], [`SavedIndex`], [`Writer`]: records and indexes as text, one
//!   after another.
//! * [`save`] writes a store to files. [`Restore`] checks files and writes them to a store.
//!   [`files_of`] lists a backup's files.
//!
//! ```text
//! Version 3.1                      first line
//! # namespace NAME                 then # first-file, in the first file of a backup
//! * i ..                           an index: `backup/index.rs`
//! * u ..                           a module of functions, which is passed over
//! + k I|D|S|B[!] KEY               optional; S and B carry a length
//! + n NAMESPACE   + d DIGEST       base64 of 20 bytes
//! + s SET                          left out if there is none
//! + g GENERATION  + t EXPIRY       seconds since 2010-01-01T00:00:00Z, 0: never
//! + b BINS                         then so many lines of bins
//! - N NAME                         no value        - Z NAME T|F     - I NAME INTEGER   - D NAME FLOAT (%.17g)
//! - S|G NAME LENGTH BYTES          text, GeoJSON
//! - B|J|C|P|R|H|E|Y|M|L[!] NAME LENGTH BYTES       base64, and its length, unless there is a '!'
//! ```
//!
//! A backslash in a name escapes a space, line feed or backslash. Lists and maps are MessagePack as
//! on the wire: with their order, without persisted indexes.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use spikelet::{Store, backup};
//! # let dir = tempfile::tempdir()?;
//! # let file = dir.path().join("people.asb");
//! let store = Store::in_memory()?;
//! store.set("people")?.put("ada", [("age", 36)])?;
//! backup::save(&store, &file, &backup::BackupOptions::default(), &mut |_| {})?;
//!
//! let other = Store::in_memory()?;
//! let checked = backup::Restore::prepare(&file, backup::RestoreOptions::default(), &mut |_, _| {})?;
//! let done = checked.run(&other, &mut |_, _| {})?;
//! assert_eq!(done.restored, 1);
//! assert!(other.set("people")?.exists("ada")?);
//! # Ok(())
//! # }
//! ```

mod collection;
mod error;
mod files;
mod float;
mod index;
mod label;
mod piece;
mod reader;
mod record;
mod restore;
mod save;
mod scanner;
#[cfg(test)]
mod tests;
mod writer;

pub use error::{BackupError, ReadError};
pub use files::{files_of, is_within};
pub use index::SavedIndex;
pub use piece::{Piece, PieceStart, digest_of, piece, piece_of};
pub use reader::{Reader, Skipped};
pub use record::SavedRecord;
pub use restore::{Restore, RestoreOptions, RestoreSummary};
pub use save::{BackupOptions, BackupSummary, OwnIndex, SavedNamespace, save};
pub use writer::{Blobs, Writer};
