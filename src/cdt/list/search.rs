//! Elements by position, and positions by value.

use super::index::Index;
use super::view::{ListView, Segment};
use crate::cdt::{CdtError, cost};
use crate::value::msgpack::{element_len, front_int};
use crate::value::order::{compare, compare_total};

/// Random access to the elements of a list.
#[derive(Debug)]
pub(super) struct Elements<'a> {
    content: &'a [u8],
    count: u32,
    starts: Starts<'a>,
}

#[derive(Debug)]
enum Starts<'a> {
    Index(Index<'a>),
    Walked(Vec<u32>),
}

impl<'a> Elements<'a> {
    pub(super) fn of(view: &ListView<'a>) -> Result<Self, CdtError> {
        let starts = match view.index {
            Index::None => {
                let mut starts = Vec::with_capacity(view.count as usize);
                for element in view.walk() {
                    starts.push(element?.start as u32);
                }
                Starts::Walked(starts)
            }
            index => Starts::Index(index),
        };
        Ok(Self {
            content: view.content,
            count: view.count,
            starts,
        })
    }

    /// Where the element at a position begins; the position behind the last one is the end.
    #[inline]
    pub(super) fn start_of(&self, at: u32) -> usize {
        if at >= self.count {
            return self.content.len();
        }
        match &self.starts {
            Starts::Index(index) => index.start_of(at).unwrap_or(self.content.len()),
            Starts::Walked(starts) => starts
                .get(at as usize)
                .map_or(self.content.len(), |start| *start as usize),
        }
    }

    /// The content from the element at a position on. Comparisons look at the front element only.
    #[inline]
    pub(super) fn from(&self, at: u32) -> &'a [u8] {
        cost::visit();
        self.content.get(self.start_of(at)..).unwrap_or_default()
    }

    /// The bytes of consecutive elements.
    pub(super) fn segment(&self, at: u32, count: u32) -> Segment {
        Segment {
            at,
            count,
            start: self.start_of(at),
            end: self.start_of(at + count),
        }
    }

    /// In an ordered list: the first position, from `from` on, whose element is not less than `value`. O(log N).
    #[inline]
    pub(super) fn lower_bound(&self, value: &[u8], from: u32) -> u32 {
        self.partition(from, |element| compare_total(element, value).is_lt())
    }

    /// In an ordered list: the first position, from `from` on, whose element is greater than `value`. O(log N).
    #[inline]
    pub(super) fn upper_bound(&self, value: &[u8], from: u32) -> u32 {
        self.partition(from, |element| compare_total(element, value).is_le())
    }

    /// The first position, from `from` on, at which `before` no longer holds.
    #[inline]
    fn partition(&self, from: u32, before: impl Fn(&[u8]) -> bool) -> u32 {
        let (mut low, mut high) = (from, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.from(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// In an ordered list: the position of an element equal to `value`, or the one at which it belongs. O(log N).
    #[inline]
    pub(super) fn find(&self, value: &[u8]) -> Result<u32, u32> {
        let at = self.lower_bound(value, 0);
        if at < self.count && compare(self.from(at), value).is_eq() {
            Ok(at)
        } else {
            Err(at)
        }
    }
}

/// Finds elements equal to one value in a list without order.
///
/// Stored text, bytes, nil and truth values have one encoding each, so equal bytes are all there is to compare; integers
/// compare as such; the other types (and wildcards) take the comparison proper.
#[derive(Clone, Copy, Debug)]
pub(super) enum Matcher<'v> {
    Integer(i64),
    Bytes(&'v [u8]),
    Any(&'v [u8]),
}

impl<'v> Matcher<'v> {
    pub(super) fn new(value: &'v [u8]) -> Self {
        match (front_int(value), value.first()) {
            (Some(value), _) => Self::Integer(value),
            (None, Some(0xa0..=0xc3 | 0xd9..=0xdb)) => Self::Bytes(value),
            _ => Self::Any(value),
        }
    }

    #[inline]
    pub(super) fn matches(&self, element: &[u8]) -> bool {
        match self {
            Self::Integer(value) => front_int(element) == Some(*value),
            _ => self.matches_other(element),
        }
    }

    /// Apart, so that the comparison of integers is inlined.
    #[inline(never)]
    fn matches_other(&self, element: &[u8]) -> bool {
        match self {
            Self::Bytes(value) => element == *value,
            Self::Integer(_) => false,
            Self::Any(value) => compare(element, value).is_eq(),
        }
    }
}

/// The encoded elements one after the other in `bytes`, taken apart.
pub(super) fn split(mut bytes: &[u8]) -> Result<Vec<&[u8]>, CdtError> {
    let mut elements = Vec::new();
    while !bytes.is_empty() {
        let len = element_len(bytes).map_err(CdtError::Argument)?;
        let (element, rest) = bytes.split_at_checked(len).unwrap_or((bytes, &[]));
        elements.push(element);
        bytes = rest;
    }
    Ok(elements)
}
