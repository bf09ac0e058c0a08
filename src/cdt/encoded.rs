//! The encoded values of an operation.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// Values up to this length in bytes are stored inline: integers, and most keys.
const SHORT_BYTES: usize = 22;

/// An encoded value, or several, one after the other: borrowed from a call, or owned by an
/// operation.
#[derive(Clone)]
pub(crate) enum Encoded<'a> {
    Lent(&'a [u8]),
    Short { len: u8, bytes: [u8; SHORT_BYTES] },
    Long(Box<[u8]>),
}

impl Encoded<'_> {
    /// Copies an encoded value.
    #[inline]
    pub(crate) fn copy(value: &[u8]) -> Encoded<'static> {
        let mut bytes = [0; SHORT_BYTES];
        match bytes.get_mut(..value.len()) {
            Some(short) => {
                short.copy_from_slice(value);
                Encoded::Short {
                    len: value.len() as u8,
                    bytes,
                }
            }
            None => Encoded::Long(value.into()),
        }
    }

    /// Returns the value, borrowed.
    pub(super) fn borrowed(&self) -> Encoded<'_> {
        Encoded::Lent(self)
    }
}

impl<'a> From<Encoded<'a>> for Cow<'a, [u8]> {
    #[inline]
    fn from(value: Encoded<'a>) -> Self {
        match value {
            Encoded::Lent(value) => Self::Borrowed(value),
            Encoded::Long(value) => Self::Owned(value.into()),
            short @ Encoded::Short { .. } => Self::Owned(short.to_vec()),
        }
    }
}

impl<'a> From<Cow<'a, [u8]>> for Encoded<'a> {
    fn from(value: Cow<'a, [u8]>) -> Self {
        match value {
            Cow::Borrowed(value) => Self::Lent(value),
            Cow::Owned(value) => Self::Long(value.into()),
        }
    }
}

impl Deref for Encoded<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Lent(value) => value,
            Self::Short { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or(bytes),
            Self::Long(value) => value,
        }
    }
}

impl PartialEq for Encoded<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_bytes_of_its_value_whatever_their_number() {
        for len in 0..64 {
            let value: Vec<u8> = (0..len).collect();
            let copy = Encoded::copy(&value);
            assert_eq!(*copy, *value);
            assert_eq!(copy, copy.borrowed());
            assert_eq!(copy, Encoded::from(Cow::Owned(value)));
        }
    }
}
