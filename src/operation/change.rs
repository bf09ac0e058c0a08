//! The new value of a bin, not yet written.

use std::borrow::Cow;

use crate::Result;
use crate::cdt::CollectionEdit;
use crate::error::Error;
use crate::expression::CallChange;
use crate::record::BinName;
use crate::record::body::{checked_len, write_bin, write_bin_head, write_raw_bin};
use crate::value::{CodecError, ParticleType, Value, write_stored};

/// The change that an operation makes to a bin. It writes itself in one pass, into the new record
/// where possible.
#[derive(Debug)]
pub(super) enum BinChange<'a> {
    /// The bin stays as it is.
    None,
    /// The bin goes.
    Remove,
    /// A value, not nil.
    Value(Cow<'a, Value>),
    /// A value in its stored form.
    Stored(ParticleType, Vec<u8>),
    /// Bytes behind bytes.
    Joined(ParticleType, &'a [u8], &'a [u8]),
    /// An edited list or map.
    Collection(CollectionEdit<'a>),
}

impl<'a> From<CallChange<'a>> for BinChange<'a> {
    fn from(change: CallChange<'a>) -> Self {
        match change {
            CallChange::None => Self::None,
            CallChange::Edited(edit) => Self::Collection(edit),
            CallChange::Value(kind, value) => Self::Stored(kind, value),
        }
    }
}

impl<'a> BinChange<'a> {
    /// The change that writes a value.
    pub(super) fn write(value: &'a Value) -> Self {
        if *value == Value::Nil {
            Self::Remove
        } else {
            Self::Value(Cow::Borrowed(value))
        }
    }

    /// Appends the bin to `out`. Not for [`BinChange::None`] and [`BinChange::Remove`], which
    /// append nothing.
    pub(super) fn write_bin(&self, name: &BinName, out: &mut Vec<u8>) -> Result<()> {
        let written = match self {
            Self::None | Self::Remove => Ok(()),
            Self::Value(value) => write_bin(out, name, value),
            Self::Stored(kind, bytes) => write_raw_bin(out, name, *kind, bytes),
            Self::Joined(kind, front, back) => checked_len(front.len() + back.len()).map(|len| {
                write_bin_head(out, name, *kind, len);
                out.extend_from_slice(front);
                out.extend_from_slice(back);
            }),
            Self::Collection(edit) => checked_len(edit.encoded_len()).map(|len| {
                write_bin_head(out, name, edit.kind(), len);
                edit.write(out);
            }),
        };
        written.map_err(not_storable)
    }

    /// The change, written out, so that it borrows no more from the bin that it changes.
    pub(super) fn settle(self) -> Result<SettledChange> {
        let mut out = Vec::new();
        let kind = match self {
            Self::None => return Ok(SettledChange::Same),
            Self::Remove => return Ok(SettledChange::Removed),
            Self::Value(value) => write_stored(&value, &mut out).map_err(not_storable)?,
            Self::Stored(kind, bytes) => {
                out = bytes;
                kind
            }
            Self::Joined(kind, front, back) => {
                out = [front, back].concat();
                kind
            }
            Self::Collection(edit) => {
                edit.write(&mut out);
                edit.kind()
            }
        };
        Ok(SettledChange::Value(kind, out))
    }
}

/// A [`BinChange`], written out.
#[derive(Debug)]
pub(super) enum SettledChange {
    /// The bin stays as it is.
    Same,
    /// The bin goes.
    Removed,
    /// The bin has a new type and stored value.
    Value(ParticleType, Vec<u8>),
}

/// A value of a whole bin that cannot be stored: code 1, as in Aerospike.
pub(super) const fn not_storable(source: CodecError) -> Error {
    Error::not_storable(source)
}
