//! An encoded list, its head parsed.

use super::index::Index;
use super::search::Elements;
use crate::cdt::{CdtError, cost};
use crate::value::msgpack::element_len;
use crate::value::{CodecError, Container, FLAG_ORDERED};

/// An encoded list at the top level of a bin. Copying it is free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListView<'a> {
    /// How many elements there are.
    pub(crate) count: u32,
    /// Order, and whether the index is persisted.
    pub(crate) flags: u8,
    pub(super) index: Index<'a>,
    /// The encoded elements, and nothing else.
    pub(super) content: &'a [u8],
}

/// Consecutive elements: their positions and their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) at: u32,
    pub(super) count: u32,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl<'a> ListView<'a> {
    /// Reads the head of a list. O(1).
    pub(crate) fn parse(particle: &'a [u8]) -> Result<Self, CdtError> {
        let head = Container::list(particle).map_err(CdtError::Stored)?;
        if head.count as usize > head.content.len() {
            return Err(CdtError::Stored(CodecError::Truncated));
        }
        let index =
            Index::parse(head.index, head.count, head.content.len()).map_err(CdtError::Stored)?;
        Ok(Self {
            count: head.count,
            flags: head.flags,
            index,
            content: head.content,
        })
    }

    /// A list without elements.
    pub(crate) const fn empty(flags: u8) -> Self {
        Self {
            count: 0,
            flags,
            index: Index::None,
            content: &[],
        }
    }

    pub(crate) const fn is_ordered(&self) -> bool {
        self.flags & FLAG_ORDERED != 0
    }

    /// The elements with their positions and bytes, front to back.
    pub(super) fn walk(&self) -> Walk<'a> {
        Walk {
            content: self.content,
            at: 0,
            count: self.count,
            start: 0,
        }
    }

    /// Random access to the elements: O(1) with an index, one walk over all of them without.
    pub(super) fn elements(&self) -> Result<Elements<'a>, CdtError> {
        Elements::of(self)
    }

    /// The bytes of `count` elements from position `at`, both in range. O(1) with an index, O(at + count) without.
    pub(super) fn segment(&self, at: u32, count: u32) -> Result<Segment, CdtError> {
        let end_at = at.saturating_add(count);
        let (start, end) = match (self.start_of(at), self.start_of(end_at)) {
            (Some(start), Some(end)) => (start, end),
            (start, _) => {
                let mut walk = self.walk();
                let start = match start {
                    Some(start) => walk.jump(at, start),
                    None => walk.skip_to(at)?,
                };
                (start, walk.skip_to(end_at)?)
            }
        };
        if start <= end && end <= self.content.len() {
            Ok(Segment {
                at,
                count,
                start,
                end,
            })
        } else {
            Err(CdtError::Stored(CodecError::BadIndex))
        }
    }

    /// Where an element begins, if that is known without walking. The position behind the last one is the end.
    #[inline]
    pub(super) fn start_of(&self, at: u32) -> Option<usize> {
        if at == 0 {
            Some(0)
        } else if at >= self.count {
            Some(self.content.len())
        } else {
            self.index.start_of(at)
        }
    }

    /// The bytes of a segment.
    pub(super) fn bytes(&self, segment: Segment) -> &'a [u8] {
        self.content
            .get(segment.start..segment.end)
            .unwrap_or_default()
    }
}

/// Walks over the elements of a list. Ends after an element that cannot be read.
#[derive(Clone, Debug)]
pub(super) struct Walk<'a> {
    content: &'a [u8],
    at: u32,
    count: u32,
    start: usize,
}

impl Walk<'_> {
    /// Continues at an element whose place is known, and returns that place.
    const fn jump(&mut self, at: u32, start: usize) -> usize {
        self.at = at;
        self.start = start;
        start
    }

    /// Walks to a position and returns where its element begins.
    fn skip_to(&mut self, at: u32) -> Result<usize, CdtError> {
        while self.at < at.min(self.count) {
            self.step()?;
        }
        Ok(self.start)
    }

    #[inline]
    fn step(&mut self) -> Result<Segment, CdtError> {
        cost::visit();
        let start = self.start;
        let rest = self.content.get(start..).unwrap_or_default();
        let len = element_len(rest).map_err(CdtError::Stored)?;
        let segment = Segment {
            at: self.at,
            count: 1,
            start,
            end: start + len,
        };
        self.at += 1;
        self.start = segment.end;
        Ok(segment)
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Segment, CdtError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.count {
            return None;
        }
        let item = self.step();
        if item.is_err() {
            self.at = self.count;
        }
        Some(item)
    }
}
