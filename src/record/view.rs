//! A stored record, read in place.

use std::fmt;

use super::body::{RawBin, check_bin, read_bin, read_frame, read_varint};
use super::{Bins, serde_struct};
use crate::value::{CodecError, ParticleType, ValueRef, check_stored};
use crate::{Error, Result};

/// The bins of a stored record, borrowed from its bytes. Checked once, by [`RecordView::parse`];
/// copying it is free.
#[derive(Clone, Copy)]
pub struct RecordView<'a> {
    body: &'a [u8],
    /// What follows the count.
    bins: &'a [u8],
    count: u32,
}

impl<'a> RecordView<'a> {
    /// The view of a record without bins.
    pub(crate) const EMPTY: Self = Self {
        body: &[0],
        bins: &[],
        count: 0,
    };

    /// Checks the body of a stored record: all of its structure, not the elements inside lists and
    /// maps. O(bins).
    ///
    /// # Errors
    /// [`Error::Malformed`] if the bytes are not the body of a record.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        Self::each(body, check_bin).map_err(|source| Error::malformed("record", source))
    }

    /// Looks at each bin of a body with values that were checked when it was written. Fails if the
    /// bins do not end where the body does.
    #[inline]
    pub(super) fn framed(
        body: &'a [u8],
        mut look: impl FnMut(&RawBin<'a>),
    ) -> std::result::Result<Self, CodecError> {
        Self::each(body, |bin| {
            look(bin);
            Ok(())
        })
    }

    /// The error of a body with bins that do not end where it does.
    #[cold]
    pub(crate) fn malformed(body: &'a [u8]) -> Error {
        let source = Self::framed(body, |_| ()).err();
        Error::malformed("record", source.unwrap_or(CodecError::Truncated))
    }

    #[inline(always)]
    fn each(
        body: &'a [u8],
        mut look: impl FnMut(&RawBin<'a>) -> std::result::Result<(), CodecError>,
    ) -> std::result::Result<Self, CodecError> {
        let view = Self::unchecked(body)?;
        let mut rest = view.bins;
        for _ in 0..view.count {
            look(&read_bin(&mut rest)?)?;
        }
        match rest.len() {
            0 => Ok(view),
            left => Err(CodecError::TrailingBytes(left)),
        }
    }

    /// A view of a body that has been checked before.
    #[inline]
    pub(super) fn unchecked(body: &'a [u8]) -> std::result::Result<Self, CodecError> {
        let mut bins = body;
        let count = read_varint(&mut bins)?;
        Ok(Self { body, bins, count })
    }

    /// A view of a body that was checked when it was written; without bins where it is malformed
    /// all the same.
    #[inline]
    pub(super) fn of_checked(body: &'a [u8]) -> Self {
        Self::unchecked(body).unwrap_or(Self::EMPTY)
    }

    /// The bytes that are viewed.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.body
    }

    /// How many bins there are. O(1).
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there are none. O(1).
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The value of a bin. O(bins), no copy.
    #[must_use]
    #[inline]
    pub fn bin(&self, name: &str) -> Option<ValueRef<'a>> {
        let bin = self.find(name.as_bytes())?;
        ValueRef::stored(bin.kind, bin.value).ok()
    }

    /// The type and the stored bytes of a bin's value. O(bins), no copy.
    #[must_use]
    #[inline]
    pub fn particle(&self, name: &str) -> Option<(ParticleType, &'a [u8])> {
        self.find(name.as_bytes()).map(|bin| (bin.kind, bin.value))
    }

    /// Returns name, type and stored bytes of the value of every bin, in the order of
    /// [`RecordView::iter`]. No copy.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::{Bins, RecordView, bins};
    /// use spikelet::value::ParticleType;
    /// let mut body = Vec::new();
    /// Bins::try_from(bins! { "age" => 36, "name" => "Ada" })?.write_body(&mut body)?;
    /// let view = RecordView::parse(&body)?;
    /// let found: Vec<_> = view.particles().collect();
    /// assert_eq!(found, [
    ///     ("age", ParticleType::Integer, &[36][..]),
    ///     ("name", ParticleType::String, b"Ada"),
    /// ]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn particles(&self) -> impl Iterator<Item = (&'a str, ParticleType, &'a [u8])> + use<'a> {
        self.raw_bins().map_while(|bin| {
            let name = std::str::from_utf8(bin.name).ok()?;
            Some((name, bin.kind, bin.value))
        })
    }

    /// The bins in the order of their creation.
    #[must_use]
    pub const fn iter(&self) -> RecordBins<'a> {
        RecordBins {
            raw: self.raw_bins(),
        }
    }

    /// The bins, owned. O(bytes).
    ///
    /// # Errors
    /// [`Error::Malformed`] if the elements of a list or map are malformed.
    pub fn to_bins(&self) -> Result<Bins> {
        let malformed = |source| Error::malformed("bin", source);
        let mut bins = Bins::new();
        bins.reserve(self.len());
        for bin in self.raw_bins() {
            let value = ValueRef::stored(bin.kind, bin.value).map_err(malformed)?;
            bins.push_new(bin.bin_name(), value.to_value().map_err(malformed)?);
        }
        Ok(bins)
    }

    /// Decodes a struct with the bins as fields. O(bytes).
    ///
    /// # Errors
    /// [`Error::Serde`] if the bins do not fit the type.
    pub fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_struct::converted(self)
    }

    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<RawBin<'a>> {
        self.raw_bins().find(|bin| bin.name == name)
    }

    /// The bin of this name in the body of a stored record, of which nothing else is checked.
    /// O(bins before it).
    ///
    /// # Errors
    /// [`Error::Malformed`] if the bytes up to the bin are not a record's.
    #[inline(always)]
    pub(crate) fn find_in(body: &'a [u8], name: &[u8]) -> Result<Option<RawBin<'a>>> {
        let find = || {
            let view = Self::unchecked(body)?;
            let mut rest = view.bins;
            for _ in 0..view.count {
                let bin = read_bin(&mut rest)?;
                if bin.name == name {
                    return Ok(Some(bin));
                }
            }
            Ok(None)
        };
        find().map_err(|source| Error::malformed("record", source))
    }

    /// As [`RecordView::find_in`], and checks the form of the bin's value.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    #[inline]
    pub(crate) fn find_checked(body: &'a [u8], name: &[u8]) -> Result<Option<RawBin<'a>>> {
        let found = Self::find_in(body, name)?;
        if let Some(bin) = &found {
            check_stored(bin.kind, bin.value)
                .map_err(|source| Error::malformed("record", source))?;
        }
        Ok(found)
    }

    /// A bin, and the bytes of the bins before and behind it.
    #[inline]
    pub(crate) fn locate(&self, name: &[u8]) -> Option<LocatedBin<'a>> {
        let mut bins = self.raw_bins();
        let bin = bins.find(|bin| bin.name == name)?;
        let (behind, after) = (self.bins.len() - bins.rest.len(), bins.rest);
        let before = self.bins.get(..behind - bin.bytes.len())?;
        Some(LocatedBin { before, bin, after })
    }

    /// Returns the bytes of the bins before and behind the one of this name.
    #[inline]
    pub(crate) fn around(&self, name: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
        let mut rest = self.bins;
        for left in (0..self.count).rev() {
            let from = rest;
            let is_it = first_name(from)? == name;
            // The last bin ends where the record does.
            if left == 0 {
                rest = &[];
            } else {
                read_frame(&mut rest).ok()?;
            }
            if is_it {
                let before = self.bins.get(..self.bins.len() - from.len())?;
                return Some((before, rest));
            }
        }
        None
    }

    /// Name and size in bytes of the bin that takes most.
    pub(crate) fn largest_bin(&self) -> Option<(Box<str>, u64)> {
        let bin = self.raw_bins().max_by_key(|bin| bin.bytes.len())?;
        Some((bin.bin_name().as_str().into(), bin.bytes.len() as u64))
    }

    /// The bytes of all bins, without the count.
    pub(crate) const fn bin_bytes(&self) -> &'a [u8] {
        self.bins
    }

    /// The names of the bins. A value is passed over only to get to a name behind it.
    #[inline]
    pub(super) fn names(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.bins;
        (0..self.count).map_while(move |number| {
            if number > 0 {
                read_frame(&mut rest).ok()?;
            }
            first_name(rest)
        })
    }

    #[inline]
    pub(crate) const fn raw_bins(&self) -> RawBins<'a> {
        RawBins {
            left: self.count,
            rest: self.bins,
        }
    }
}

/// The name of the bin at the front of these bytes.
#[inline]
fn first_name(bins: &[u8]) -> Option<&[u8]> {
    let (&len, rest) = bins.split_first()?;
    rest.get(..usize::from(len))
}

impl fmt::Debug for RecordView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for RecordView<'a> {
    type Item = (&'a str, ValueRef<'a>);
    type IntoIter = RecordBins<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A bin and what surrounds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocatedBin<'a> {
    pub(crate) before: &'a [u8],
    pub(crate) bin: RawBin<'a>,
    pub(crate) after: &'a [u8],
}

/// Iterates over the undecoded bins of a [`RecordView`].
#[derive(Clone, Debug)]
pub(crate) struct RawBins<'a> {
    left: u32,
    rest: &'a [u8],
}

impl<'a> Iterator for RawBins<'a> {
    type Item = RawBin<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawBin<'a>> {
        self.left = self.left.checked_sub(1)?;
        read_bin(&mut self.rest).ok()
    }
}

/// Iterates over names and values of the bins of a [`RecordView`].
#[derive(Clone, Debug)]
pub struct RecordBins<'a> {
    raw: RawBins<'a>,
}

impl<'a> Iterator for RecordBins<'a> {
    type Item = (&'a str, ValueRef<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let bin = self.raw.next()?;
        let name = std::str::from_utf8(bin.name).ok()?;
        Some((name, ValueRef::stored(bin.kind, bin.value).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;
    use proptest::prelude::*;

    fn body() -> Vec<u8> {
        let mut out = Vec::new();
        let mut bins = Bins::new();
        bins.set("age", 44).unwrap();
        bins.set("name", "Ada").unwrap();
        bins.set("tags", Value::List(vec!["a".into(), 1.into()].into()))
            .unwrap();
        bins.write_body(&mut out).unwrap();
        out
    }

    #[test]
    fn bins_are_read_by_name_and_in_order() {
        let body = body();
        let view = RecordView::parse(&body).unwrap();
        assert_eq!(view.bin("age").unwrap().as_i64(), Some(44));
        assert_eq!(view.bin("name").unwrap().as_str(), Some("Ada"));
        let tags = view.bin("tags").unwrap().as_list().unwrap();
        let tags: Vec<_> = tags.iter().map(|tag| tag.unwrap()).collect();
        assert_eq!(tags, [ValueRef::String("a"), ValueRef::Int(1)]);
        assert_eq!(view.bin("nam"), None);
        let names: Vec<&str> = view.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["age", "name", "tags"]);
    }

    #[test]
    fn a_body_cut_short_or_lengthened_anywhere_is_refused() {
        let whole = body();
        for len in 0..whole.len() {
            assert!(RecordView::parse(&whole[..len]).is_err(), "{len}");
        }
        let mut longer = whole;
        longer.push(0);
        assert_eq!(RecordView::parse(&longer).unwrap_err().result_code(), 1);
    }

    #[test]
    fn what_is_around_a_bin_is_what_a_search_leaves() {
        let body = body();
        let view = RecordView::parse(&body).unwrap();
        for name in ["age", "name", "tags", "", "tag"] {
            let located = view.locate(name.as_bytes());
            let around = located.map(|located| (located.before, located.after));
            assert_eq!(view.around(name.as_bytes()), around, "{name}");
        }
        assert_eq!(RecordView::EMPTY.around(b"age"), None);
    }

    #[test]
    fn a_bin_of_a_wrong_form_is_refused() {
        let table: [(&str, &[u8]); 7] = [
            ("null", &[1, 1, b'a', 0, 0]),
            ("unknown type", &[1, 1, b'a', 99, 0]),
            ("integer of three bytes", &[1, 1, b'a', 1, 3, 0, 0, 0]),
            ("bool of two", &[1, 1, b'a', 17, 1, 2]),
            ("list that is a map", &[1, 1, b'a', 20, 1, 0x80]),
            ("long name", b"\x01\x10sixteen bytes...\x01\x01\x00"),
            ("name with NUL", &[1, 1, 0, 1, 1, 0]),
        ];
        for (what, body) in table {
            assert!(RecordView::parse(body).is_err(), "{what}");
        }
    }

    proptest! {
        #[test]
        fn hostile_bodies_are_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(view) = RecordView::parse(&bytes) {
                prop_assert_eq!(view.iter().count(), view.len());
                let _ = view.to_bins();
            }
        }
    }
}
