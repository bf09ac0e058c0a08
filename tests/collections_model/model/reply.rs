//! The elements that an operation picks (semantics.md#index-rank-and-count), and its reply about
//! them (semantics.md#return-types).

use spikelet::value::Map;
use spikelet::{MapOrder, Value};

use super::call::{Return, ReturnKind};
use super::order::compare;
use super::{Code, NOT_APPLICABLE};

/// The elements of a list, or the entries of a map, that were picked.
#[derive(Clone, Debug, PartialEq)]
pub struct Picked {
    /// One result, not a list of results.
    pub single: bool,
    pub by: By,
    /// Positions, in the order of the returned values; a position may occur more than once.
    pub places: Vec<usize>,
    pub indexes: Numbers,
    pub ranks: Numbers,
}

/// How elements were picked; INVERTED depends on it.
#[derive(Clone, Debug, PartialEq)]
pub enum By {
    /// By index or key.
    Place,
    /// By a value, an interval of values, or ranks.
    Value,
    /// By several values.
    Values,
    /// By ranks that leave others in a row, too: INVERTED picks these as if they had been asked
    /// for.
    Ranks { others: Box<Picked> },
}

/// Indexes or ranks of the picked elements.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// These in a row: the first, and how many.
    Row(i64, usize),
    /// One row for each parameter.
    Rows(Vec<(i64, usize)>),
    /// Each for itself.
    Each(Vec<i64>),
    /// As many as there are elements, counted through, whichever end they are counted from.
    All,
    /// None, and not even a place where they would be.
    Nowhere,
    /// They cannot be asked for.
    Refused,
}

impl Numbers {
    /// Each of some positions.
    pub fn each(places: &[usize]) -> Self {
        Self::Each(places.iter().map(|place| *place as i64).collect())
    }

    /// The same, each number only once, and each for itself.
    pub fn once(self) -> Self {
        let mut all: Vec<i64> = Vec::new();
        for number in self.list(false, 0).unwrap_or_default() {
            if !all.contains(&number) {
                all.push(number);
            }
        }
        Self::Each(all)
    }

    /// One after the other; counted from the end, a row ascends as well.
    fn list(&self, reverse: bool, n: usize) -> Result<Vec<i64>, Code> {
        let last = n as i64 - 1;
        match self {
            Self::Row(start, count) => {
                let count = *count as i64;
                let start = if reverse {
                    n as i64 - start - count
                } else {
                    *start
                };
                Ok((start..start + count).collect())
            }
            Self::Rows(rows) => {
                let list = |row: &(i64, usize)| Self::Row(row.0, row.1).list(reverse, n);
                Ok(rows
                    .iter()
                    .map(list)
                    .collect::<Result<Vec<_>, _>>()?
                    .concat())
            }
            Self::Each(numbers) if reverse => Ok(numbers.iter().map(|i| last - i).collect()),
            Self::Each(numbers) => Ok(numbers.clone()),
            Self::All => Ok((0..n as i64).collect()),
            Self::Nowhere => Ok(Vec::new()),
            Self::Refused => Err(NOT_APPLICABLE),
        }
    }

    fn row(&self, reverse: bool, n: usize) -> Result<Value, Code> {
        let (start, count) = match *self {
            Self::Row(start, count) => (start, count as i64),
            Self::Nowhere => return Ok(vec![Value::Int(-1), Value::Int(0)].into()),
            Self::Rows(_) | Self::Each(_) | Self::All | Self::Refused => {
                return Err(NOT_APPLICABLE);
            }
        };
        // [start, 0] if there are none, also counted from the end.
        let start = if reverse && count > 0 {
            n as i64 - start - count
        } else {
            start
        };
        Ok(vec![Value::Int(start), Value::Int(count)].into())
    }
}

/// A container's elements, as far as a reply can return them.
pub struct Content<'a> {
    /// None for a list.
    pub keys: Option<Vec<&'a Value>>,
    /// An ordered list, where every element's rank is its index.
    pub sorted: bool,
    pub values: Vec<&'a Value>,
}

impl Content<'_> {
    fn n(&self) -> usize {
        self.values.len()
    }

    /// The reply, and the positions that a removal takes away.
    pub fn reply(&self, picked: &Picked, returns: Return) -> Result<(Value, Vec<usize>), Code> {
        use ReturnKind as R;
        let (by, was_empty) = (picked.by.clone(), picked.places.is_empty());
        let mut picked = picked.clone();
        if returns.inverted {
            let ranges = [
                R::IndexRange,
                R::ReverseIndexRange,
                R::RankRange,
                R::ReverseRankRange,
            ];
            if picked.single || ranges.contains(&returns.kind) {
                return Err(NOT_APPLICABLE);
            }
            picked = self.all_but(&picked);
        }
        let mut taken = picked.places.clone();
        taken.sort_unstable();
        taken.dedup();
        let value = match returns.kind {
            // QUIRK (semantics.md#return-types): by value or rank, an inverted EXISTS is true if no
            // element was picked.
            R::Exists if returns.inverted && by == By::Value => was_empty.into(),
            R::Exists => (!taken.is_empty()).into(),
            R::Count => (taken.len() as i64).into(),
            kind => self.value(&picked, kind)?,
        };
        Ok((value, taken))
    }

    fn value(&self, picked: &Picked, kind: ReturnKind) -> Result<Value, Code> {
        use ReturnKind as R;
        let n = self.n();
        let numbers = |numbers: &Numbers, reverse| {
            let list = numbers.list(reverse, n)?;
            if picked.single {
                // Not found: -1, counted from either end.
                return Ok(list.first().map_or(-1, |number| *number).into());
            }
            Ok(values(list.into_iter().map(Value::Int)))
        };
        let elements = |of: &[&Value]| {
            if picked.single {
                return picked.places.first().map_or(Value::Nil, |i| of[*i].clone());
            }
            values(picked.places.iter().map(|i| of[*i].clone()))
        };
        let keys = || self.keys.as_ref().ok_or(NOT_APPLICABLE);
        let map = |order| {
            let keys = keys()?;
            let entry = |i: &usize| (keys[*i].clone(), self.values[*i].clone());
            let mut entries: Vec<(Value, Value)> = picked.places.iter().map(entry).collect();
            if order == MapOrder::KeyOrdered {
                entries.sort_by(|(a, _), (b, _)| compare(a, b));
                // A list of values may pick an entry more than once; a map has it once.
                entries.dedup_by(|(a, _), (b, _)| a == b);
            }
            Ok(Map::new(entries, order).into())
        };
        match kind {
            R::None => Ok(Value::Nil),
            R::Index => numbers(&picked.indexes, false),
            R::ReverseIndex => numbers(&picked.indexes, true),
            R::Rank => numbers(&picked.ranks, false),
            R::ReverseRank => numbers(&picked.ranks, true),
            R::Key => Ok(elements(keys()?)),
            R::Value => Ok(elements(&self.values)),
            R::KeyValue | R::UnorderedMap => map(MapOrder::Unordered),
            R::OrderedMap => map(MapOrder::KeyOrdered),
            R::IndexRange => picked.indexes.row(false, n),
            R::ReverseIndexRange => picked.indexes.row(true, n),
            R::RankRange => picked.ranks.row(false, n),
            R::ReverseRankRange => picked.ranks.row(true, n),
            R::Count | R::Exists => unreachable!("told by the caller"),
        }
    }

    /// The elements that were not picked, in the order of their positions.
    fn all_but(&self, picked: &Picked) -> Picked {
        if let By::Ranks { others } = &picked.by {
            return (**others).clone();
        }
        let n = self.n();
        let others = |of: &[usize]| -> Vec<usize> { (0..n).filter(|i| !of.contains(i)).collect() };
        let places = others(&picked.places);
        let ranks = match &picked.ranks {
            Numbers::Refused => Numbers::Refused,
            // One for each element, in the order of positions.
            _ if picked.by == By::Place => match self.ranks_of(&places) {
                Numbers::All => Numbers::each(&places),
                ranks => ranks,
            },
            // The other ranks, ascending.
            _ => {
                let by_rank = self.by_rank();
                let rank = |i: &usize| by_rank.iter().position(|j| j == i).unwrap() as i64;
                let mut ranks: Vec<i64> = places.iter().map(rank).collect();
                ranks.sort_unstable();
                Numbers::Each(ranks)
            }
        };
        Picked {
            single: false,
            by: picked.by.clone(),
            indexes: Numbers::each(&places),
            places,
            ranks,
        }
    }

    /// The positions in the order of values; equal values in the order of their positions.
    pub fn by_rank(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.n()).collect();
        places.sort_by(|a, b| compare(self.values[*a], self.values[*b]));
        places
    }

    /// The rank of each of these positions. Among equal values, a map goes by index, and a list has
    /// the lowest for all (semantics.md#index-rank-and-count). QUIRK: if they are all there are,
    /// they are counted through.
    pub fn ranks_of(&self, places: &[usize]) -> Numbers {
        let by_rank = self.by_rank();
        let rank = |place: &usize| {
            if self.keys.is_some() {
                by_rank.iter().position(|i| i == place).unwrap() as i64
            } else if self.sorted {
                *place as i64
            } else {
                self.below(self.values[*place]) as i64
            }
        };
        if self.keys.is_none() && !self.sorted && places.len() == self.n() {
            Numbers::All
        } else {
            Numbers::Each(places.iter().map(rank).collect())
        }
    }

    /// How many values are less than this one: its rank.
    pub fn below(&self, value: &Value) -> usize {
        below(&self.values, value)
    }
}

/// How many of these are less than a value.
pub fn below(values: &[&Value], value: &Value) -> usize {
    values.iter().filter(|v| compare(v, value).is_lt()).count()
}

/// Those between two bounds: positions, ascending. Where the order is known, bounds that wildcards
/// make equal have nothing between them.
pub fn between(
    values: &[&Value],
    begin: Option<&Value>,
    end: Option<&Value>,
    searched: bool,
) -> Vec<usize> {
    let within = |value: &Value| {
        begin.is_none_or(|begin| compare(value, begin).is_ge())
            && end.is_none_or(|end| compare(value, end).is_lt())
    };
    if let (Some(begin), Some(end)) = (begin, end)
        && searched
        && compare(begin, end).is_ge()
    {
        return Vec::new();
    }
    (0..values.len()).filter(|i| within(values[*i])).collect()
}

/// The position that an index or rank means; negative ones count from the end.
pub fn single(index: i64, n: usize) -> Result<usize, Code> {
    let place = i128::from(index) + if index < 0 { n as i128 } else { 0 };
    usize::try_from(place)
        .ok()
        .filter(|place| *place < n)
        .ok_or(NOT_APPLICABLE)
}

/// The first of a range and how many it has (semantics.md#index-rank-and-count).
pub fn range(start: i64, count: u64, n: usize) -> (usize, usize) {
    let start = i128::from(start) + if start < 0 { n as i128 } else { 0 };
    cut(start, count, n)
}

/// The same, counted from the first element that is not less than a value.
pub fn relative(base: usize, offset: i64, count: u64, n: usize) -> (usize, usize) {
    cut(base as i128 + i128::from(offset), count, n)
}

/// Cuts a range to the `n` elements that there are.
fn cut(start: i128, count: u64, n: usize) -> (usize, usize) {
    let end = (start + i128::from(count)).clamp(0, n as i128) as usize;
    let start = start.clamp(0, n as i128) as usize;
    (start, end.saturating_sub(start))
}

/// A list of values.
pub fn values(values: impl Iterator<Item = Value>) -> Value {
    values.collect::<Vec<Value>>().into()
}
