//! What wire clients ask an index for, and how they name places in it.

use std::ops::Bound;

use spikelet_storage::Digest;
use xxhash_rust::xxh3::xxh3_64;

use super::geometry::matching;
use crate::geo::Geometry;
use crate::index::{
    EntryRange, EntryRanges, EntrySelection, GeometryKey, end_of_prefix, form_of, geometry_key,
    order_of_form, write_stored,
};
use crate::value::{ParticleType, Value};

/// What a wire query asks the one component of an index for.
#[derive(Clone, Debug)]
pub(crate) enum IndexBound {
    /// Integers from the first to the last.
    Integers(i64, i64),
    /// A text, which need not be UTF-8.
    Text(Box<[u8]>),
    Blob(Box<[u8]>),
    /// Points in a region, or regions around a point.
    Geometry(Box<Geometry>),
}

/// How values stand for their place in the index on the wire.
#[derive(Debug)]
pub(super) enum ValueOrder {
    /// By themselves.
    Integers,
    /// By the cells of geometries.
    Cells(GeometryKey),
    /// One value is asked for: its form, and a number for it.
    One { form: Box<[u8]>, number: i64 },
}

impl IndexBound {
    pub(super) fn values(&self) -> ValueOrder {
        let one = |kind, stored: &[u8]| {
            let mut form = Vec::new();
            // Texts and blobs have one.
            write_stored(kind, stored, &mut form);
            ValueOrder::One {
                form: form.into(),
                // 0 means "nothing yet".
                number: (xxh3_64(stored) | 1).cast_signed(),
            }
        };
        match self {
            Self::Integers(..) => ValueOrder::Integers,
            Self::Text(text) => one(ParticleType::String, text),
            Self::Blob(bytes) => one(ParticleType::Blob, bytes),
            Self::Geometry(geometry) => ValueOrder::Cells(match **geometry {
                Geometry::Point(_) => GeometryKey::Region,
                Geometry::Region(_) => GeometryKey::Point,
            }),
        }
    }

    /// The entries that fit.
    pub(super) fn selection(&self) -> EntrySelection {
        match (self, self.values()) {
            (Self::Geometry(geometry), _) => matching(&[], 0, (**geometry).clone()),
            (_, ValueOrder::One { form, .. }) => EntryRange::with_prefix(&form).into(),
            (Self::Integers(first, last), _) => EntryRange {
                start: Bound::Included(integer_form(*first).into()),
                end: end_of_prefix(&integer_form(*last)),
            }
            .into(),
            (Self::Text(_) | Self::Blob(_), _) => EntryRanges::new(Vec::new()).into(),
        }
    }
}

impl ValueOrder {
    /// The number that represents the value of a key.
    pub(super) fn number(&self, key: &[u8]) -> i64 {
        let order = || order_of_form(key).unwrap_or_default();
        match self {
            Self::Integers => (order() ^ 1 << 63).cast_signed(),
            Self::Cells(_) => order().cast_signed(),
            Self::One { number, .. } => *number,
        }
    }

    /// Numbers of places are in the order of entries.
    pub(super) fn place(&self, number: i64, digest: Digest) -> (u64, Digest) {
        match self {
            Self::Integers => (number.cast_unsigned() ^ 1 << 63, digest),
            Self::Cells(_) => (number.cast_unsigned(), digest),
            Self::One { .. } => (0, digest),
        }
    }

    pub(super) fn entry(&self, (order, digest): (u64, Digest)) -> Vec<u8> {
        let key = match self {
            Self::Integers => integer_form((order ^ 1 << 63).cast_signed()),
            Self::Cells(kind) => geometry_key(*kind, order),
            Self::One { form, .. } => form.to_vec(),
        };
        [key.as_slice(), digest.as_bytes()].concat()
    }
}

fn integer_form(value: i64) -> Vec<u8> {
    form_of(&Value::Int(value)).unwrap_or_default()
}
