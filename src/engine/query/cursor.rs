//! Where a page has ended, as text that outlives the process.

use std::fmt;
use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Result, base64};

const VERSION: u8 = 1;

/// The place behind the last record of a page: text that can be given to clients and taken back,
/// also after a restart.
///
/// It names the last entry, and holds nothing in the store. Everything behind that entry comes on
/// the next page, whether the record is still there or not. [`fmt::Display`] gives the text,
/// [`str::parse`] takes it back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// Distinguishes it from cursors of other queries.
    of: u32,
    place: Box<[u8]>,
}

impl Cursor {
    /// `of`: distinguishes queries, such as the definition of an index.
    pub(super) fn new(of: &str, place: &[u8]) -> Self {
        Self {
            of: check(of),
            place: place.into(),
        }
    }

    /// The last entry, if the cursor is of such a query.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a cursor of another one.
    pub(super) fn place(&self, of: &str) -> Result<&[u8]> {
        if self.of == check(of) {
            Ok(&self.place)
        } else {
            Err(Error::parameter(
                "the cursor is of a query of another set, by another index, or in another order: begin anew, or use the query that it came from",
            ))
        }
    }
}

fn check(of: &str) -> u32 {
    xxh3_64(of.as_bytes()) as u32
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.of.to_le_bytes());
        bytes.extend_from_slice(&self.place);
        let hash = xxh3_64(&bytes) as u32;
        bytes.extend_from_slice(&hash.to_le_bytes());
        // Fit for a URL as it is.
        let text = base64::encode(&bytes).replace('+', "-").replace('/', "_");
        f.write_str(text.trim_end_matches('='))
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut padded = text.replace('-', "+").replace('_', "/");
        while !padded.len().is_multiple_of(4) {
            padded.push('=');
        }
        let refuse = || {
            Error::parameter(format!(
                "{text:?} is no cursor: pass on the text that a page has given"
            ))
        };
        let bytes = base64::decode(padded.as_bytes()).ok_or_else(refuse)?;
        let (body, hash) = bytes.split_last_chunk::<4>().ok_or_else(refuse)?;
        let is_whole = xxh3_64(body) as u32 == u32::from_le_bytes(*hash);
        match body {
            [VERSION, of0, of1, of2, of3, place @ ..] if is_whole => Ok(Self {
                of: u32::from_le_bytes([*of0, *of1, *of2, *of3]),
                place: place.into(),
            }),
            _ => Err(refuse()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cursor_survives_its_text(place in prop::collection::vec(any::<u8>(), 0..60)) {
            let cursor = Cursor::new("by_role", &place);
            let text = cursor.to_string();
            prop_assert!(text.bytes().all(|sign| sign.is_ascii_alphanumeric() || b"-_".contains(&sign)));
            let again: Cursor = text.parse().unwrap();
            prop_assert_eq!(&again, &cursor);
            prop_assert_eq!(again.place("by_role").unwrap(), &place[..]);
            prop_assert!(again.place("by_name").is_err());
            let mut cut = text.clone();
            cut.pop();
            prop_assert!(cut.parse::<Cursor>().is_err());
        }
    }
}
