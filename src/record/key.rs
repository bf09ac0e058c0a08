//! User keys and their digests.

use std::borrow::Cow;
use std::fmt;

use ripemd::{Digest as _, Ripemd160};
use smallvec::SmallVec;
use spikelet_storage::Digest;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::value::{CodecError, ParticleType};

/// The key by which a user addresses a record inside a set: an integer, text, or bytes.
///
/// Keys of different types are different keys: `1` is not `"1"`, and `"a"` is not `b"a"`.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::Key;
///
/// let users = spikelet::Store::in_memory()?.set("users")?;
/// users.put(7, [("age", 42)])?;
/// assert!(users.get("7")?.is_none());
/// assert!(users.get(Key::Integer(7))?.is_some());
/// users.put(&[0xca, 0xfe][..], [("age", 42)])?; // bytes: digests of other systems, for example
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key<'a> {
    /// A signed integer of 64 bits.
    Integer(i64),
    /// Text in UTF-8.
    String(Cow<'a, str>),
    /// Bytes of any content.
    Blob(Cow<'a, [u8]>),
}

impl Key<'_> {
    /// Copies the key, if it is borrowed, so that it owns its bytes.
    #[must_use]
    pub fn into_owned(self) -> Key<'static> {
        match self {
            Self::Integer(value) => Key::Integer(value),
            Self::String(text) => Key::String(Cow::Owned(text.into_owned())),
            Self::Blob(bytes) => Key::Blob(Cow::Owned(bytes.into_owned())),
        }
    }

    /// Calls `f` with the type and the bytes that are stored and hashed: integers as 8 bytes,
    /// big-endian.
    #[inline(always)]
    fn with_bytes<R>(&self, f: impl FnOnce(ParticleType, &[u8]) -> R) -> R {
        let integer;
        let (kind, bytes): (_, &[u8]) = match self {
            Self::Integer(value) => {
                integer = value.to_be_bytes();
                (ParticleType::Integer, &integer)
            }
            Self::String(text) => (ParticleType::String, text.as_bytes()),
            Self::Blob(bytes) => (ParticleType::Blob, bytes),
        };
        f(kind, bytes)
    }

    /// Appends the stored form: the type's number, then the bytes (integers as 8 bytes,
    /// big-endian).
    pub fn write_stored(&self, out: &mut Vec<u8>) {
        self.with_bytes(|kind, bytes| {
            out.reserve(1 + bytes.len());
            out.push(kind.number());
            out.extend_from_slice(bytes);
        });
    }

    /// Returns the stored form. Up to 64 bytes take no allocation.
    #[inline(always)]
    pub(crate) fn stored(&self) -> SmallVec<[u8; 64]> {
        self.with_bytes(|kind, bytes| {
            let front = [kind.number(); 64];
            let mut stored = SmallVec::from_buf_and_len(front, front.len().min(1 + bytes.len()));
            match stored.get_mut(1..=bytes.len()) {
                Some(slot) => slot.copy_from_slice(bytes),
                None => {
                    stored.truncate(1);
                    stored.extend_from_slice(bytes);
                }
            }
            stored
        })
    }

    /// True if `stored` is the stored form of this key. Allocates nothing.
    #[inline]
    #[must_use]
    pub fn is_stored_as(&self, stored: &[u8]) -> bool {
        self.with_bytes(|kind, bytes| {
            stored
                .split_first()
                .is_some_and(|(first, rest)| *first == kind.number() && rest == bytes)
        })
    }
}

impl<'a> Key<'a> {
    /// Returns the key as messages show it between quotation marks of their own: integers in
    /// decimal, text as it is, bytes escaped where they are no ASCII.
    pub(crate) fn bare(&self) -> String {
        match self {
            Self::Integer(value) => value.to_string(),
            Self::String(text) => text.to_string(),
            Self::Blob(bytes) => bytes.escape_ascii().to_string(),
        }
    }

    /// The key of a stored form.
    ///
    /// # Errors
    /// [`CodecError`] if the bytes are not a key. Wire clients also store doubles, blobs of their
    /// own, and text that is not UTF-8: no `Key` leads to these records.
    pub fn from_stored(stored: &'a [u8]) -> Result<Self, CodecError> {
        let (&number, bytes) = stored.split_first().ok_or(CodecError::Truncated)?;
        Ok(match ParticleType::from_number(number)? {
            ParticleType::Integer => {
                let len = bytes.len();
                let bytes = bytes.try_into().map_err(|_| CodecError::Scalar {
                    what: "integer key",
                    len,
                })?;
                Self::Integer(i64::from_be_bytes(bytes))
            }
            ParticleType::String => {
                let text = std::str::from_utf8(bytes).map_err(|_| CodecError::Scalar {
                    what: "text key",
                    len: bytes.len(),
                })?;
                Self::String(Cow::Borrowed(text))
            }
            ParticleType::Blob => Self::Blob(Cow::Borrowed(bytes)),
            other => return Err(CodecError::UnknownType(other.number())),
        })
    }
}

/// Shows text in quotation marks, and bytes in hexadecimal digits.
impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::String(text) => fmt::Debug::fmt(text, f),
            Self::Blob(bytes) => {
                f.write_str("x\"")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("\"")
            }
        }
    }
}

macro_rules! from_integer {
    ($($type:ty)*) => {$(
        impl From<$type> for Key<'_> {
            fn from(value: $type) -> Self {
                Self::Integer(i64::from(value))
            }
        }
    )*};
}

from_integer!(i8 i16 i32 i64 u8 u16 u32);

impl<'a> From<&'a str> for Key<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Key<'a> {
    fn from(text: &'a String) -> Self {
        Self::String(Cow::Borrowed(text))
    }
}

impl From<String> for Key<'_> {
    fn from(text: String) -> Self {
        Self::String(Cow::Owned(text))
    }
}

impl<'a> From<&'a [u8]> for Key<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Blob(Cow::Borrowed(bytes))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Key<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Blob(Cow::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for Key<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Blob(Cow::Owned(bytes))
    }
}

impl<'a, 'b: 'a> From<&'a Key<'b>> for Key<'a> {
    fn from(key: &'a Key<'b>) -> Self {
        match key {
            Key::Integer(value) => Self::Integer(*value),
            Key::String(text) => Self::String(Cow::Borrowed(text)),
            Key::Blob(bytes) => Self::Blob(Cow::Borrowed(bytes)),
        }
    }
}

/// How a namespace turns set and user key into a digest. Fixed when the namespace is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyHash {
    /// XXH3: about 10 ns for a short key. For embedded use.
    #[default]
    Xxh3,
    /// RIPEMD-160, Aerospike's digest: about 220 ns for a short key. For namespaces that wire
    /// clients reach, since clients send digests.
    Ripemd160,
}

/// Set, type and key up to this many bytes are joined on the stack, and hashed in one go; longer
/// ones are streamed.
const JOINED_BYTES: usize = 128;

impl KeyHash {
    /// The digest of a key: the hash of the set's name, the key type's number (1 byte), and the key
    /// (integers as 8 bytes, big-endian), one after the other. Allocates nothing.
    ///
    /// XXH3 gives 16 bytes (`xxh3_128`, little-endian); the other four are the exclusive or of
    /// these, four by four.
    #[must_use]
    #[inline]
    pub fn digest(self, set: &str, key: &Key<'_>) -> Digest {
        key.with_bytes(|kind, bytes| match self {
            Self::Xxh3 => xxh3(set.as_bytes(), kind.number(), bytes),
            Self::Ripemd160 => ripemd160(set.as_bytes(), kind.number(), bytes),
        })
    }

    /// The digests of many keys of a set, in their order. For XXH3 the set's name is copied once.
    pub(crate) fn digests<'k, T>(
        self,
        set: &str,
        items: &[T],
        key: impl Fn(&T) -> &Key<'k>,
    ) -> Vec<Digest> {
        let keys = items.iter().map(key);
        if self == Self::Ripemd160 {
            return keys.map(|key| self.digest(set, key)).collect();
        }
        let mut buffer = [0; JOINED_BYTES];
        if let Some(slot) = buffer.get_mut(..set.len()) {
            slot.copy_from_slice(set.as_bytes());
        }
        let digest = |key: &Key<'_>| {
            key.with_bytes(|kind, bytes| {
                match join_behind(&mut buffer, set.len(), kind.number(), bytes) {
                    Some(joined) => xxh3_digest(xxh3_128(joined)),
                    None => xxh3(set.as_bytes(), kind.number(), bytes),
                }
            })
        };
        keys.map(digest).collect()
    }

    /// The digest of a key in its stored form, which may be text that is not UTF-8.
    #[cfg(feature = "backup")]
    pub(crate) fn digest_of_stored(self, set: &str, stored: &[u8]) -> Digest {
        let (kind, key) = stored.split_first().unwrap_or((&0, &[]));
        match self {
            Self::Xxh3 => xxh3(set.as_bytes(), *kind, key),
            Self::Ripemd160 => ripemd160(set.as_bytes(), *kind, key),
        }
    }
}

#[inline(never)]
fn ripemd160(set: &[u8], kind: u8, key: &[u8]) -> Digest {
    let mut hasher = Ripemd160::new();
    hasher.update(set);
    hasher.update([kind]);
    hasher.update(key);
    Digest::new(hasher.finalize().into())
}

#[inline]
fn xxh3(set: &[u8], kind: u8, key: &[u8]) -> Digest {
    let mut joined = [0; JOINED_BYTES];
    xxh3_digest(match join(&mut joined, set, kind, key) {
        Some(joined) => xxh3_128(joined),
        None => xxh3_of_long(set, kind, key),
    })
}

/// In a function of its own: the hasher's state is large.
#[cold]
fn xxh3_of_long(set: &[u8], kind: u8, key: &[u8]) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(set);
    hasher.update(&[kind]);
    hasher.update(key);
    hasher.digest128()
}

#[inline]
fn xxh3_digest(wide: u128) -> Digest {
    let halves = wide as u64 ^ (wide >> 64) as u64;
    let tail = (halves as u32 ^ (halves >> 32) as u32).to_le_bytes();
    let wide = wide.to_le_bytes();
    let mut digest = [0; Digest::LEN];
    let (front, back) = digest.split_at_mut(wide.len());
    front.copy_from_slice(&wide);
    back.copy_from_slice(&tail);
    Digest::new(digest)
}

/// The three parts one after the other in `buffer`, if they fit.
#[inline]
fn join<'b>(
    buffer: &'b mut [u8; JOINED_BYTES],
    set: &[u8],
    kind: u8,
    key: &[u8],
) -> Option<&'b [u8]> {
    buffer.get_mut(..set.len())?.copy_from_slice(set);
    join_behind(buffer, set.len(), kind, key)
}

/// As [`join`], with the first `set_bytes` bytes of `buffer` filled in already.
#[inline]
fn join_behind<'b>(
    buffer: &'b mut [u8; JOINED_BYTES],
    set_bytes: usize,
    kind: u8,
    key: &[u8],
) -> Option<&'b [u8]> {
    let len = set_bytes + 1 + key.len();
    let (kind_slot, key_slot) = buffer.get_mut(set_bytes..len)?.split_first_mut()?;
    *kind_slot = kind;
    key_slot.copy_from_slice(key);
    buffer.get(..len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ripemd_digests_are_aerospikes() {
        let table: [(&str, Key<'_>, &str, Option<usize>); 10] = [
            (
                "demo",
                1.into(),
                "b7f4b83889e2da67de683e1df6919a1eacc446c8",
                Some(1207),
            ),
            (
                "demo",
                (-1).into(),
                "e9d49a24c3debdc5a6d551d3e7087999a263bb97",
                Some(1257),
            ),
            (
                "demo",
                "key1".into(),
                "ec91192d4b7f8ce35d5d78d34bca65cbaaaac960",
                Some(492),
            ),
            (
                "demo",
                b"key1".into(),
                "c3d9ee7252bb75fdd6172ac69dc44cb31fbe2c2a",
                Some(2499),
            ),
            (
                "",
                "key1".into(),
                "579f05ecf9e6a9e796f4da2ab0b1323364df5c10",
                Some(3927),
            ),
            (
                "",
                0.into(),
                "b346137ba9189579da520162dfdcd61a10fe37d6",
                Some(1715),
            ),
            (
                "set",
                0.into(),
                "93d943aae37b017ad7e011b0c1d2e2143c2fb37d",
                None,
            ),
            (
                "set",
                i64::MIN.into(),
                "7185c2a47fb02c996daed26b4e01b83240aee9d4",
                None,
            ),
            (
                "set",
                "".into(),
                "2819b1ff6e346a43b4f5f6b77a88bc3eaac22a83",
                None,
            ),
            (
                "set",
                "s".into(),
                "607cddba7cd111745ef0a3d783d57f0e83c8f311",
                None,
            ),
        ];
        for (set, key, hex, partition) in table {
            let digest = KeyHash::Ripemd160.digest(set, &key);
            assert_eq!(digest.to_string(), hex, "{set} {key:?}");
            assert!(partition.is_none_or(|partition| partition == digest.partition()));
        }
    }

    #[test]
    fn xxh3_hashes_the_same_concatenation() {
        let wide = xxh3_128(b"demo\x03key1").to_le_bytes();
        let mut expected = wide.to_vec();
        let words = wide.as_chunks::<4>().0.iter();
        let tail = words.fold([0; 4], |tail, word| {
            std::array::from_fn(|at| tail[at] ^ word[at])
        });
        expected.extend_from_slice(&tail);
        assert_eq!(
            KeyHash::Xxh3.digest("demo", &"key1".into()).as_bytes()[..],
            expected[..]
        );
    }

    #[test]
    fn a_key_too_long_for_the_stack_buffer_hashes_as_if_it_fitted() {
        for len in JOINED_BYTES - 8..JOINED_BYTES + 8 {
            let text = "x".repeat(len);
            let wide = xxh3_128(format!("demo\x03{text}").as_bytes()).to_le_bytes();
            let digest = KeyHash::Xxh3.digest("demo", &text.as_str().into());
            assert_eq!(digest.as_bytes()[..16], wide, "{len}");
        }
    }

    fn any_key() -> impl Strategy<Value = Key<'static>> {
        prop_oneof![
            any::<i64>().prop_map(Key::from),
            ".{0,8}".prop_map(Key::from),
            prop::collection::vec(any::<u8>(), 0..8).prop_map(Key::from),
        ]
    }

    proptest! {
        #[test]
        fn a_stored_key_is_read_back_and_recognised(key in any_key(), other in any_key()) {
            let mut stored = Vec::new();
            key.write_stored(&mut stored);
            prop_assert_eq!(&Key::from_stored(&stored).unwrap(), &key);
            prop_assert!(key.is_stored_as(&stored));
            prop_assert_eq!(other.is_stored_as(&stored), other == key);
        }

        #[test]
        fn digests_of_many_keys_are_those_of_each(
            set in ".{0,12}",
            keys in prop::collection::vec((any_key(), 0..60_usize), 0..40),
        ) {
            let keys: Vec<Key<'_>> = keys
                .into_iter()
                .map(|(key, longer)| match key {
                    Key::String(text) => Key::from(text.into_owned() + &"x".repeat(longer)),
                    key => key,
                })
                .collect();
            for hash in [KeyHash::Xxh3, KeyHash::Ripemd160] {
                let each: Vec<_> = keys.iter().map(|key| hash.digest(&set, key)).collect();
                prop_assert_eq!(hash.digests(&set, &keys, |key| key), each);
            }
        }

        #[test]
        fn hostile_stored_keys_are_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let _ = Key::from_stored(&bytes);
        }
    }
}
