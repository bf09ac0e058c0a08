//! What an operation on a list returns about the elements that it selects.

/// What to return about selected elements. [`ListReturnType::inverted`] selects all the others instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ListReturnType {
    /// Nothing.
    None,
    /// Their positions.
    Index,
    /// Their positions, counted from the end.
    ReverseIndex,
    /// Their positions in the order of values.
    Rank,
    /// Their positions in the order of values, counted from the greatest.
    ReverseRank,
    /// How many there are.
    Count,
    /// The elements.
    Values,
    /// The first position, and how many there are.
    IndexRange,
    /// The same, counted from the end.
    ReverseIndexRange,
    /// The lowest rank, and how many there are.
    RankRange,
    /// The same, counted from the greatest.
    ReverseRankRange,
    /// Whether there are any.
    Exists,
}

impl ListReturnType {
    /// The same about all elements that are not selected; a removal removes those.
    #[must_use]
    pub const fn inverted(self) -> ListReturn {
        ListReturn {
            kind: self,
            inverted: true,
        }
    }
}

/// A [`ListReturnType`], inverted or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListReturn {
    pub(crate) kind: ListReturnType,
    pub(crate) inverted: bool,
}

impl From<ListReturnType> for ListReturn {
    fn from(kind: ListReturnType) -> Self {
        Self {
            kind,
            inverted: false,
        }
    }
}
