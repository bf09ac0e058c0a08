//! Records: keys and their digests, names of bins, and the forms in which a record is read and
//! written.
//!
//! A record is addressed by a [`Key`]. A put takes [`Bins`]; a read returns a [`Record`], or lends
//! a [`RecordView`] in place, with the [`Metadata`]: generation, void-time, last update.
//! [`to_bins`] and [`from_bins`] go by serde.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! let users = spikelet::Store::in_memory()?.set("users")?;
//! users.put("alice", spikelet::bins! { "name" => "Alice", "age" => 42 })?;
//! let alice = users.get("alice")?.expect("was put");
//! assert_eq!(alice.get("age"), Some(42.into()));
//! let length = users.read("alice", |record| record.bin("name").and_then(|name| Some(name.as_str()?.len())))?;
//! assert_eq!(length.flatten(), Some(5));
//! # Ok(())
//! # }
//! ```

// * `Key`, `KeyHash`: what users address a record by, and the 20 bytes that storage knows it by.
// * `BinName`, `Bins`: the owned form of a record's content.
// * `RecordView` and the writers of `body`: the stored form, read and written in place.
// * `Record`, `Metadata`: what a read returns.
// * `to_bins`, `from_bins`: `serde`, a struct's fields being bins.
//
// Data comes in as bytes of a device or as users' values, and goes out as bytes or values; nothing
// here does I/O.

mod bins;
mod key;
mod metadata;
mod name;
mod owned;
mod owned_bins;
mod serde;
mod serde_struct;
mod shard_role;
mod view;

pub(crate) mod body;
pub(crate) mod companion_key;

pub use bins::Bins;
pub use key::{Key, KeyHash};
pub use metadata::Metadata;
pub use name::BinName;
pub use owned::Record;
pub(crate) use owned_bins::{OwnedBin, OwnedBins, REMOVED, Replacer};
pub(crate) use serde_struct::converted;
pub use serde_struct::{from_bins, to_bins};
pub(crate) use shard_role::{
    APART, DESCRIPTION_BINS, HashShards, SHARD_OF, SUBKEYS, SUBKEYS_BIN, SUBKEYS_EPOCH, ShardRole,
    changes_sharded_bin, describes_collection, hash_shards, is_by_hash, keeps_description,
    named_root, parse_with_role, sharded_bins,
};
pub use shard_role::{CompanionName, ShardTransition, companion_name};
#[cfg(feature = "backup")]
pub(crate) use shard_role::{describes_shards, transitions};
pub use view::{RecordBins, RecordView};

/// The most bins a record may have: Aerospike's limit, 15 bits.
pub const MAX_BINS: usize = 0x7fff;

/// The longest set name in bytes: Aerospike's limit, a 64-byte buffer with its end mark.
pub const MAX_SET_NAME_BYTES: usize = spikelet_storage::SET_NAME_BYTES_MAX;

/// Refuses a name that no set can have, by a text.
#[inline]
pub(crate) fn check_set_name(name: &str) -> std::result::Result<(), String> {
    if name.len() > MAX_SET_NAME_BYTES || name.contains('\0') {
        // Of a name from the wire, which can have 127 MiB, the message shows the beginning.
        let begin: String = name.chars().take(MAX_SET_NAME_BYTES).collect();
        let bytes = name.len();
        return Err(format!(
            "set {begin:?} of {bytes} bytes: a name has at most {MAX_SET_NAME_BYTES} bytes and no NUL byte"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_of_a_set_is_shown_by_its_beginning() {
        let why = check_set_name(&"\u{7f}".repeat(1 << 20)).unwrap_err();
        assert!(why.len() < 1024, "{} bytes", why.len());
        assert!(why.contains("of 1048576 bytes"), "{why}");
        assert!(check_set_name("a\0").is_err());
        assert_eq!(check_set_name(&"n".repeat(MAX_SET_NAME_BYTES)), Ok(()));
    }
}
