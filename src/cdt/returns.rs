//! The return types of operations on lists and maps.

/// The result of an operation on selected elements of a list. [`ListReturnType::inverted`] selects
/// all others instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ListReturnType {
    /// No result at all.
    None,
    /// The positions of the elements.
    Index,
    /// Their positions, counted from the end.
    ReverseIndex,
    /// Their positions in the order of values.
    Rank,
    /// Their positions in the order of values, counted from the greatest.
    ReverseRank,
    /// Their number.
    Count,
    /// The elements themselves.
    Values,
    /// The first position, and their number.
    IndexRange,
    /// The first position, counted from the end, and their number.
    ReverseIndexRange,
    /// The lowest rank, and their number.
    RankRange,
    /// The lowest rank, counted from the greatest, and their number.
    ReverseRankRange,
    /// Whether any element is selected.
    Exists,
}

/// The result of an operation on selected entries of a map. [`MapReturnType::inverted`] selects all
/// others instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MapReturnType {
    /// No result at all.
    None,
    /// Their positions in the order of keys.
    Index,
    /// Their positions in the order of keys, counted from the end.
    ReverseIndex,
    /// Their positions in the order of values; keys break ties.
    Rank,
    /// Their positions in the order of values, counted from the greatest.
    ReverseRank,
    /// Their number.
    Count,
    /// The keys of the entries.
    Key,
    /// The values of the entries.
    Value,
    /// Keys and values: a map with its entries in the order of the selection.
    KeyValue,
    /// The first position, and their number.
    IndexRange,
    /// The first position, counted from the end, and their number.
    ReverseIndexRange,
    /// The lowest rank, and their number.
    RankRange,
    /// The lowest rank, counted from the greatest, and their number.
    ReverseRankRange,
    /// Whether any entry is selected.
    Exists,
    /// The entries, as an unordered map.
    UnorderedMap,
    /// The entries, as a map ordered by key.
    OrderedMap,
}

impl ListReturnType {
    /// Selects all elements that are *not* selected otherwise; a removal removes these.
    #[must_use]
    pub const fn inverted(self) -> ListReturn {
        ListReturn {
            kind: self,
            inverted: true,
        }
    }

    const fn return_kind(self) -> ReturnKind {
        match self {
            Self::None => ReturnKind::None,
            Self::Index => ReturnKind::Index,
            Self::ReverseIndex => ReturnKind::ReverseIndex,
            Self::Rank => ReturnKind::Rank,
            Self::ReverseRank => ReturnKind::ReverseRank,
            Self::Count => ReturnKind::Count,
            Self::Values => ReturnKind::Value,
            Self::IndexRange => ReturnKind::IndexRange,
            Self::ReverseIndexRange => ReturnKind::ReverseIndexRange,
            Self::RankRange => ReturnKind::RankRange,
            Self::ReverseRankRange => ReturnKind::ReverseRankRange,
            Self::Exists => ReturnKind::Exists,
        }
    }
}

impl MapReturnType {
    /// Selects all entries that are *not* selected otherwise; a removal removes these.
    #[must_use]
    pub const fn inverted(self) -> MapReturn {
        MapReturn {
            kind: self,
            inverted: true,
        }
    }

    const fn return_kind(self) -> ReturnKind {
        match self {
            Self::None => ReturnKind::None,
            Self::Index => ReturnKind::Index,
            Self::ReverseIndex => ReturnKind::ReverseIndex,
            Self::Rank => ReturnKind::Rank,
            Self::ReverseRank => ReturnKind::ReverseRank,
            Self::Count => ReturnKind::Count,
            Self::Key => ReturnKind::Key,
            Self::Value => ReturnKind::Value,
            Self::KeyValue => ReturnKind::KeyValue,
            Self::IndexRange => ReturnKind::IndexRange,
            Self::ReverseIndexRange => ReturnKind::ReverseIndexRange,
            Self::RankRange => ReturnKind::RankRange,
            Self::ReverseRankRange => ReturnKind::ReverseRankRange,
            Self::Exists => ReturnKind::Exists,
            Self::UnorderedMap => ReturnKind::UnorderedMap,
            Self::OrderedMap => ReturnKind::OrderedMap,
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

/// The kind of result, with Aerospike's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ReturnKind {
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

/// The kind of result, about the selected items or all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Returns {
    pub(crate) kind: ReturnKind,
    pub(crate) inverted: bool,
}

/// The bit of an encoded return type that inverts the selection.
const INVERTED: u64 = 0x1_0000;

impl Returns {
    /// Returns nothing.
    pub(crate) const NOTHING: Self = Self::new(ReturnKind::None);

    pub(crate) const fn new(kind: ReturnKind) -> Self {
        Self {
            kind,
            inverted: false,
        }
    }

    /// Returns the encoded form: the number in the low 16 bits, inversion in the next one.
    pub(crate) const fn code(self) -> u64 {
        self.kind as u64 | if self.inverted { INVERTED } else { 0 }
    }

    /// Decodes a return type; `None` for an unknown number.
    pub(crate) const fn of_code(code: u64) -> Option<Self> {
        let kind = match code & 0xffff {
            0 => ReturnKind::None,
            1 => ReturnKind::Index,
            2 => ReturnKind::ReverseIndex,
            3 => ReturnKind::Rank,
            4 => ReturnKind::ReverseRank,
            5 => ReturnKind::Count,
            6 => ReturnKind::Key,
            7 => ReturnKind::Value,
            8 => ReturnKind::KeyValue,
            9 => ReturnKind::IndexRange,
            10 => ReturnKind::ReverseIndexRange,
            11 => ReturnKind::RankRange,
            12 => ReturnKind::ReverseRankRange,
            13 => ReturnKind::Exists,
            16 => ReturnKind::UnorderedMap,
            17 => ReturnKind::OrderedMap,
            _ => return None,
        };
        Some(Self {
            kind,
            inverted: code & INVERTED != 0,
        })
    }
}

impl From<ListReturn> for Returns {
    fn from(ListReturn { kind, inverted }: ListReturn) -> Self {
        Self {
            kind: kind.return_kind(),
            inverted,
        }
    }
}

impl From<MapReturn> for Returns {
    fn from(MapReturn { kind, inverted }: MapReturn) -> Self {
        Self {
            kind: kind.return_kind(),
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
