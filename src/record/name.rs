//! The name of a bin.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::{Error, Result};

/// The name of a bin: at most 15 bytes of UTF-8 without NUL, kept in place, 16 bytes in all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BinName {
    /// The length, then the bytes. Those past the length are zero, so equal names have equal
    /// fields.
    bytes: [u8; 1 + Self::MAX_BYTES],
}

impl BinName {
    /// The longest name in bytes, as in Aerospike.
    pub const MAX_BYTES: usize = 15;

    /// The empty name.
    pub(crate) const EMPTY: Self = Self {
        bytes: [0; 1 + Self::MAX_BYTES],
    };

    /// A name.
    ///
    /// # Errors
    /// [`Error::BinName`] if `name` is longer than [`BinName::MAX_BYTES`] or contains NUL.
    #[inline]
    pub fn new(name: &str) -> Result<Self> {
        Self::from_utf8(name.as_bytes()).ok_or_else(|| Error::BinName(name.into()))
    }

    /// The name of these bytes, if they are one.
    #[inline]
    pub(crate) fn from_utf8(name: &[u8]) -> Option<Self> {
        if !Self::is_legal(name) {
            return None;
        }
        let mut bytes = [0; 1 + Self::MAX_BYTES];
        let (len, bytes_of_name) = bytes.split_first_mut()?;
        *len = name.len() as u8;
        bytes_of_name.get_mut(..name.len())?.copy_from_slice(name);
        Some(Self { bytes })
    }

    /// True if these bytes are a name.
    #[inline]
    pub(crate) fn is_legal(name: &[u8]) -> bool {
        // Nearly all names are plain ASCII, which takes a look at each byte and no call.
        let plain = |byte: &u8| (1..0x80).contains(byte);
        name.len() <= Self::MAX_BYTES
            && (name.iter().all(plain) || (!name.contains(&0) && std::str::from_utf8(name).is_ok()))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The name's bytes.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        let [len, bytes @ ..] = &self.bytes;
        bytes.get(..usize::from(*len)).unwrap_or_default()
    }

    /// The length in one byte, then the name's bytes, padded.
    #[inline]
    pub(super) const fn with_length(&self) -> &[u8; 1 + Self::MAX_BYTES] {
        &self.bytes
    }
}

impl TryFrom<&str> for BinName {
    type Error = Error;

    fn try_from(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl AsRef<str> for BinName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for BinName {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for BinName {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl PartialOrd for BinName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for BinName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for BinName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for BinName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for BinName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_at_most_fifteen_bytes_and_no_nul() {
        for name in ["", "a", "fifteen bytes..", "süß"] {
            assert_eq!(BinName::new(name).unwrap().as_str(), name);
        }
        for name in ["sixteen bytes...", "a\0", "\0"] {
            assert_eq!(
                BinName::new(name).unwrap_err().result_code(),
                21,
                "{name:?}"
            );
        }
        assert!(BinName::from_utf8(&[0xff]).is_none());
    }
}
