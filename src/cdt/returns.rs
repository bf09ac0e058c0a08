//! The return types of operations on lists and maps.

macro_rules! return_types {
    ($($(#[$doc:meta])* $kind:ident = $number:literal $($(#[$list_doc:meta])* as $list:ident)?,)*) => {
        /// The result of an operation on selected elements of a list. [`ListReturnType::inverted`]
        /// selects all others instead.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ListReturnType {
            $($($(#[$list_doc])* $list,)?)*
        }

        impl ListReturnType {
            const fn return_kind(self) -> ReturnKind {
                match self {
                    $($(Self::$list => ReturnKind::$kind,)?)*
                }
            }
        }

        /// The result of an operation on selected entries of a map. [`MapReturnType::inverted`]
        /// selects all others instead.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum MapReturnType {
            $($(#[$doc])* $kind = $number,)*
        }

        impl MapReturnType {
            const fn of_number(number: u64) -> Option<Self> {
                Some(match number {
                    $($number => Self::$kind,)*
                    _ => return None,
                })
            }
        }
    };
}

// With Aerospike's numbers.
return_types! {
    /// No result at all.
    None = 0
    /// No result at all.
    as None,
    /// Their positions in the order of keys.
    Index = 1
    /// The positions of the elements.
    as Index,
    /// Their positions in the order of keys, counted from the end.
    ReverseIndex = 2
    /// Their positions, counted from the end.
    as ReverseIndex,
    /// Their positions in the order of values; keys break ties.
    Rank = 3
    /// Their positions in the order of values.
    as Rank,
    /// Their positions in the order of values, counted from the greatest.
    ReverseRank = 4
    /// Their positions in the order of values, counted from the greatest.
    as ReverseRank,
    /// Their number.
    Count = 5
    /// Their number.
    as Count,
    /// The keys of the entries.
    Key = 6,
    /// The values of the entries.
    Value = 7
    /// The elements themselves.
    as Values,
    /// Keys and values: a map with its entries in the order of the selection.
    KeyValue = 8,
    /// The first position, and their number.
    IndexRange = 9
    /// The first position, and their number.
    as IndexRange,
    /// The first position, counted from the end, and their number.
    ReverseIndexRange = 10
    /// The first position, counted from the end, and their number.
    as ReverseIndexRange,
    /// The lowest rank, and their number.
    RankRange = 11
    /// The lowest rank, and their number.
    as RankRange,
    /// The lowest rank, counted from the greatest, and their number.
    ReverseRankRange = 12
    /// The lowest rank, counted from the greatest, and their number.
    as ReverseRankRange,
    /// Whether any entry is selected.
    Exists = 13
    /// Whether any element is selected.
    as Exists,
    /// The entries, as an unordered map.
    UnorderedMap = 16,
    /// The entries, as a map ordered by key.
    OrderedMap = 17,
}

/// The kind of result of an operation on lists or maps: a map has all kinds, a list most of them.
pub(crate) type ReturnKind = MapReturnType;

impl ListReturnType {
    /// Selects all elements that are *not* selected otherwise; a removal removes these.
    #[must_use]
    pub const fn inverted(self) -> ListReturn {
        ListReturn {
            kind: self,
            inverted: true,
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
    pub(crate) kind: MapReturnType,
    pub(crate) inverted: bool,
}

/// The kind of result, about the selected items or all others.
pub(crate) type Returns = MapReturn;

impl From<MapReturnType> for MapReturn {
    fn from(kind: MapReturnType) -> Self {
        Self::new(kind)
    }
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

    /// Whether ranks are returned.
    pub(super) const fn wants_ranks(self) -> bool {
        matches!(
            self.kind,
            ReturnKind::Rank
                | ReturnKind::ReverseRank
                | ReturnKind::RankRange
                | ReturnKind::ReverseRankRange
        )
    }

    /// Whether items that are selected twice are returned twice.
    pub(super) const fn repeats_items(self) -> bool {
        matches!(
            self.kind,
            ReturnKind::Key
                | ReturnKind::Value
                | ReturnKind::KeyValue
                | ReturnKind::UnorderedMap
                | ReturnKind::OrderedMap
        ) && !self.inverted
    }

    /// Returns the encoded form: the number in the low 16 bits, inversion in the next one.
    pub(crate) const fn code(self) -> u64 {
        self.kind as u64 | if self.inverted { INVERTED } else { 0 }
    }

    /// Decodes a return type; `None` for an unknown number.
    pub(crate) fn of_code(code: u64) -> Option<Self> {
        ReturnKind::of_number(code & 0xffff).map(|kind| Self {
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
