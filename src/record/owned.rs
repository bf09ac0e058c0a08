//! Records as reads return them.

use std::fmt;

use super::body::{check_bin, read_bin, read_varint, varint_len, write_varint};
use super::{Bins, Key, Metadata, RecordView};
use crate::Result;
use crate::value::{CodecError, Value, ValueRef};

/// A record that was read: its metadata, its key if it is stored, and its bins, which are decoded
/// when they are asked for.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// let users = spikelet::Store::in_memory()?.set("users")?;
/// users.put("alice", spikelet::bins! { "name" => "Alice", "age" => 42 })?;
/// let alice = users.get("alice")?.expect("was put");
/// assert_eq!(alice.get("name"), Some("Alice".into()));
/// let names: Vec<&str> = alice.bins().map(|(name, _)| name).collect();
/// assert_eq!(names, ["name", "age"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    metadata: Metadata,
    /// The stored key, if there is one, then the body: one allocation for both.
    bytes: Box<[u8]>,
    key_bytes: usize,
}

impl Record {
    /// A record of its stored key and body.
    ///
    /// # Errors
    /// [`crate::Error::Malformed`] if the bytes are not the body of a record.
    pub fn new(metadata: Metadata, stored_key: Option<&[u8]>, body: &[u8]) -> Result<Self> {
        // Values were checked when they were written, and a bin's is again when it is decoded.
        RecordView::framed(body, |_| ()).map_err(|_| RecordView::malformed(body))?;
        let key = stored_key.unwrap_or_default();
        let mut bytes = Vec::with_capacity(key.len() + body.len());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(body);
        Ok(Self {
            metadata,
            bytes: bytes.into_boxed_slice(),
            key_bytes: key.len(),
        })
    }

    /// Returns a record of its stored key and those bins of a body that are among `names`, in the
    /// body's order. Values of other bins are not looked at: O(bins + bytes of the wanted ones).
    ///
    /// # Errors
    /// [`crate::Error::Malformed`] if the bytes are not the body of a record, or a wanted bin is
    /// malformed.
    pub(crate) fn with_bins(
        metadata: Metadata,
        stored_key: Option<&[u8]>,
        body: &[u8],
        names: &[&str],
    ) -> Result<Self> {
        let key = stored_key.unwrap_or_default();
        let bytes = selected(key, body, names)
            .map_err(|source| crate::Error::malformed("record", source))?;
        Ok(Self {
            metadata,
            bytes,
            key_bytes: key.len(),
        })
    }

    /// Generation and times.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// How often the record was written since it was created, 1 to 65,535, then 1 again.
    #[must_use]
    pub const fn generation(&self) -> u16 {
        self.metadata.generation
    }

    /// The user key, if the record stores one that is a [`Key`].
    #[must_use]
    pub fn key(&self) -> Option<Key<'_>> {
        Key::from_stored(self.bytes.get(..self.key_bytes)?).ok()
    }

    /// The bins, read in place.
    #[must_use]
    pub fn view(&self) -> RecordView<'_> {
        // The body was checked by `new`.
        RecordView::of_checked(self.bytes.get(self.key_bytes..).unwrap_or_default())
    }

    /// The value of a bin, decoded. O(bins + bytes of the value). `None` if there is no such bin;
    /// also if the elements of a list or map are malformed: [`Record::into_bins`] has an error
    /// for them.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Value> {
        self.view().bin(name)?.to_value().ok()
    }

    /// Names and values of the bins, read in place.
    pub fn bins(&self) -> impl Iterator<Item = (&str, ValueRef<'_>)> {
        self.view().iter()
    }

    /// The bins, owned. O(bytes).
    ///
    /// # Errors
    /// [`crate::Error::Malformed`] if the elements of a list or map are malformed.
    pub fn into_bins(self) -> Result<Bins> {
        self.view().to_bins()
    }

    /// Decodes a struct with the bins as fields. O(bytes).
    ///
    /// # Errors
    /// [`crate::Error::Serde`] if the bins do not fit the type.
    pub fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        self.view().decode()
    }
}

/// Returns the key, then a body of the bins of `body` that are among `names`.
fn selected(key: &[u8], body: &[u8], names: &[&str]) -> std::result::Result<Box<[u8]>, CodecError> {
    let is_wanted = |name: &[u8]| names.iter().any(|wanted| wanted.as_bytes() == name);
    let mut bins = body;
    let count = read_varint(&mut bins)?;
    let (mut wanted, mut wanted_bytes, mut rest) = (0, 0, bins);
    for _ in 0..count {
        let bin = read_bin(&mut rest)?;
        if is_wanted(bin.name) {
            check_bin(&bin)?;
            wanted += 1;
            wanted_bytes += bin.bytes.len();
        }
    }
    if !rest.is_empty() {
        return Err(CodecError::TrailingBytes(rest.len()));
    }
    let mut bytes = Vec::with_capacity(key.len() + varint_len(wanted) + wanted_bytes);
    bytes.extend_from_slice(key);
    write_varint(&mut bytes, wanted);
    let (mut left, mut rest) = (wanted, bins);
    while left > 0 {
        let bin = read_bin(&mut rest)?;
        if is_wanted(bin.name) {
            bytes.extend_from_slice(bin.bytes);
            left -= 1;
        }
    }
    Ok(bytes.into_boxed_slice())
}

/// Shows the bins.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("key", &self.key())
            .field("generation", &self.metadata.generation)
            .field("void_time", &self.metadata.void_time)
            .field("last_update_ms", &self.metadata.last_update_ms)
            .field("bins", &self.view())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_decodes_its_bins_on_demand() {
        let bins = Bins::try_from(crate::bins! { "age" => 44, "name" => "Ada" }).unwrap();
        let mut body = Vec::new();
        bins.write_body(&mut body).unwrap();
        let metadata = Metadata {
            generation: 3,
            ..Metadata::default()
        };
        let mut key = Vec::new();
        Key::from("ada").write_stored(&mut key);
        let record = Record::new(metadata, Some(&key), &body).unwrap();
        assert_eq!((record.generation(), record.key()), (3, Some("ada".into())));
        assert_eq!(record.get("age"), Some(44.into()));
        assert_eq!(record.get("none"), None);
        assert_eq!(record.bins().count(), 2);
        assert_eq!(record.into_bins().unwrap(), bins);
    }

    #[test]
    fn a_record_of_some_bins_has_those_that_are_wanted_in_their_order() {
        let bins = Bins::try_from(crate::bins! { "a" => 1, "b" => "two", "c" => 3 }).unwrap();
        let mut body = Vec::new();
        bins.write_body(&mut body).unwrap();
        let view = RecordView::parse(&body).unwrap();
        for wanted in [&[][..], &["b"], &["c", "a"], &["d"], &["c", "d", "b", "a"]] {
            let record = Record::with_bins(Metadata::default(), Some(b"\x03k"), &body, wanted);
            let record = record.unwrap();
            assert_eq!(record.key(), Some("k".into()), "{wanted:?}");
            let selected = view.iter().filter(|(name, _)| wanted.contains(name));
            assert!(record.bins().eq(selected), "{wanted:?}");
        }
    }

    #[test]
    fn a_body_cut_short_or_lengthened_anywhere_gives_no_record_of_some_bins() {
        let bins = Bins::try_from(crate::bins! { "a" => 1, "b" => "two", "c" => 3 }).unwrap();
        let mut body = Vec::new();
        bins.write_body(&mut body).unwrap();
        let read = |body: &[u8]| Record::with_bins(Metadata::default(), None, body, &["b"]);
        for len in 0..body.len() {
            assert!(read(&body[..len]).is_err(), "{len}");
        }
        body.push(0);
        assert_eq!(read(&body).unwrap_err().result_code(), 1);
        // A list with malformed bytes, once it is wanted.
        assert!(read(&[1, 1, b'b', 20, 1, 0x80]).is_err());
        assert!(read(&[1, 1, b'c', 20, 1, 0x80]).is_ok());
    }

    #[test]
    fn a_record_of_malformed_bytes_is_refused() {
        let refused = Record::new(Metadata::default(), None, &[1, 2]);
        assert_eq!(refused.unwrap_err().result_code(), 1);
    }
}
