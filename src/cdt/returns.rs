//! What an operation on a list or map returns about what it selects.

/// What to return about selected elements of a list. [`ListReturnType::inverted`] selects all the others instead.
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

/// What to return about selected entries of a map. [`MapReturnType::inverted`] selects all the others instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MapReturnType {
    /// Nothing.
    None,
    /// Their positions in the order of keys.
    Index,
    /// Their positions in the order of keys, counted from the end.
    ReverseIndex,
    /// Their positions in the order of values; equal values go by key.
    Rank,
    /// Their positions in the order of values, counted from the greatest.
    ReverseRank,
    /// How many there are.
    Count,
    /// The keys.
    Key,
    /// The values.
    Value,
    /// Keys and values: a map whose entries stand in the order of the selection.
    KeyValue,
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
    /// The entries, as a map without order.
    UnorderedMap,
    /// The entries, as a map ordered by key.
    OrderedMap,
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

    const fn what(self) -> What {
        match self {
            Self::None => What::None,
            Self::Index => What::Index,
            Self::ReverseIndex => What::ReverseIndex,
            Self::Rank => What::Rank,
            Self::ReverseRank => What::ReverseRank,
            Self::Count => What::Count,
            Self::Values => What::Value,
            Self::IndexRange => What::IndexRange,
            Self::ReverseIndexRange => What::ReverseIndexRange,
            Self::RankRange => What::RankRange,
            Self::ReverseRankRange => What::ReverseRankRange,
            Self::Exists => What::Exists,
        }
    }
}

impl MapReturnType {
    /// The same about all entries that are not selected; a removal removes those.
    #[must_use]
    pub const fn inverted(self) -> MapReturn {
        MapReturn {
            kind: self,
            inverted: true,
        }
    }

    const fn what(self) -> What {
        match self {
            Self::None => What::None,
            Self::Index => What::Index,
            Self::ReverseIndex => What::ReverseIndex,
            Self::Rank => What::Rank,
            Self::ReverseRank => What::ReverseRank,
            Self::Count => What::Count,
            Self::Key => What::Key,
            Self::Value => What::Value,
            Self::KeyValue => What::KeyValue,
            Self::IndexRange => What::IndexRange,
            Self::ReverseIndexRange => What::ReverseIndexRange,
            Self::RankRange => What::RankRange,
            Self::ReverseRankRange => What::ReverseRankRange,
            Self::Exists => What::Exists,
            Self::UnorderedMap => What::UnorderedMap,
            Self::OrderedMap => What::OrderedMap,
        }
    }
}

/// A [`ListReturnType`], inverted or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListReturn {
    kind: ListReturnType,
    inverted: bool,
}

impl From<ListReturnType> for ListReturn {
    fn from(kind: ListReturnType) -> Self {
        Self {
            kind,
            inverted: false,
        }
    }
}

/// A [`MapReturnType`], inverted or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MapReturn {
    kind: MapReturnType,
    inverted: bool,
}

impl From<MapReturnType> for MapReturn {
    fn from(kind: MapReturnType) -> Self {
        Self {
            kind,
            inverted: false,
        }
    }
}

/// What is returned, by Aerospike's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum What {
    None = 0,
    Index = 1,
    ReverseIndex = 2,
    Rank = 3,
    ReverseRank = 4,
    Count = 5,
    Key = 6,
    Value = 7,
    KeyValue = 8,
    IndexRange = 9,
    ReverseIndexRange = 10,
    RankRange = 11,
    ReverseRankRange = 12,
    Exists = 13,
    UnorderedMap = 16,
    OrderedMap = 17,
}

/// What is returned about what was selected, or about everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Returns {
    pub(crate) what: What,
    pub(crate) inverted: bool,
}

/// The bit of an encoded return type that selects everything else.
const INVERTED: u64 = 0x1_0000;

impl Returns {
    pub(crate) const fn new(what: What) -> Self {
        Self {
            what,
            inverted: false,
        }
    }

    /// The encoded form: the number in the low 16 bits, inversion in the next one.
    pub(crate) const fn code(self) -> u64 {
        self.what as u64 | if self.inverted { INVERTED } else { 0 }
    }

    /// What an encoded return type means; `None` for a number without a meaning.
    pub(crate) const fn of_code(code: u64) -> Option<Self> {
        let what = match code & 0xffff {
            0 => What::None,
            1 => What::Index,
            2 => What::ReverseIndex,
            3 => What::Rank,
            4 => What::ReverseRank,
            5 => What::Count,
            6 => What::Key,
            7 => What::Value,
            8 => What::KeyValue,
            9 => What::IndexRange,
            10 => What::ReverseIndexRange,
            11 => What::RankRange,
            12 => What::ReverseRankRange,
            13 => What::Exists,
            16 => What::UnorderedMap,
            17 => What::OrderedMap,
            _ => return None,
        };
        Some(Self {
            what,
            inverted: code & INVERTED != 0,
        })
    }
}

impl From<ListReturn> for Returns {
    fn from(ListReturn { kind, inverted }: ListReturn) -> Self {
        Self {
            what: kind.what(),
            inverted,
        }
    }
}

impl From<MapReturn> for Returns {
    fn from(MapReturn { kind, inverted }: MapReturn) -> Self {
        Self {
            what: kind.what(),
            inverted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_means_what_it_was_made_from() {
        let codes: Vec<u64> = (0..20)
            .filter_map(Returns::of_code)
            .map(Returns::code)
            .collect();
        assert_eq!(
            codes,
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17]
        );
        let inverted = Returns::from(MapReturnType::Key.inverted());
        assert_eq!(inverted.code(), 0x1_0006);
        assert_eq!(Returns::of_code(0x1_0006), Some(inverted));
    }
}
