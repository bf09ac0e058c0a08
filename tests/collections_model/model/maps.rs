//! Maps (semantics.md#maps-operations).

use spikelet::{MapOrder, Value};

use super::call::{
    CREATE_ONLY, DO_PARTIAL, MapOperation, MapPolicy, MapSelector, NO_FAIL, UPDATE_ONLY,
};
use super::lists::add;
use super::order::{compare, equal};
use super::reply::{By, Content, Numbers, Picked, between, range, relative, single};
use super::{Code, NOT_THERE, PARAMETER, THERE};

/// A map under way. Its entries are always in the order of their keys, also without order
/// (semantics.md#maps-keys-and-order).
#[derive(Clone, Debug)]
pub struct Map {
    pub entries: Vec<(Value, Value)>,
    pub order: MapOrder,
    pub persist: bool,
}

impl Map {
    pub fn new(order: MapOrder, persist: bool) -> Self {
        Self {
            entries: Vec::new(),
            order,
            persist,
        }
    }

    /// A map as it is stored.
    pub fn of(map: spikelet::value::Map) -> Self {
        let mut own = Self::new(map.order(), false);
        for (key, value) in map.into_entries() {
            own.entries.push((key, super::normal(value)));
        }
        own.entries.sort_by(|(a, _), (b, _)| compare(a, b));
        own
    }

    pub fn into_value(self) -> Value {
        spikelet::value::Map::new(self.entries, self.order).into()
    }

    /// Whether selections by value go by the persisted order of values
    /// (semantics.md#persisted-index), which there is from two entries on.
    pub fn by_value_order(&self) -> bool {
        self.persist && self.order == MapOrder::KeyValueOrdered && self.entries.len() > 1
    }

    pub fn find(&self, key: &Value) -> Option<usize> {
        self.entries.iter().position(|(k, _)| equal(k, key))
    }

    /// Sets the value of a key, new or not.
    pub fn store(&mut self, key: &Value, value: Value) {
        match self.find(key) {
            Some(place) => self.entries[place].1 = value,
            None => {
                self.entries.push((key.clone(), value));
                self.entries.sort_by(|(a, _), (b, _)| compare(a, b));
            }
        }
    }

    fn count(&self) -> Value {
        (self.entries.len() as i64).into()
    }

    pub fn content(&self) -> Content<'_> {
        Content {
            keys: Some(self.entries.iter().map(|(key, _)| key).collect()),
            sorted: false,
            values: self.entries.iter().map(|(_, value)| value).collect(),
        }
    }
}

/// Refuses a value that cannot be a key (semantics.md#maps-keys-and-order).
pub fn check_key(key: &Value) -> Result<(), Code> {
    match key {
        Value::Int(_) | Value::String(_) | Value::Blob(_) => Ok(()),
        _ => Err(PARAMETER),
    }
}

impl MapOperation {
    /// Whether the operation only reads.
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Size | Self::GetBy(..))
    }

    /// Whether the operation does nothing if there is no map (semantics.md#maps-operations).
    pub fn only_removes(&self) -> bool {
        matches!(self, Self::Clear | Self::RemoveBy(..))
    }

    /// Whether the call can be put together at all: a map has no encoding unless its keys may be
    /// stored, none of them twice (semantics.md#normal-form).
    pub fn check_encoding(&self) -> Result<(), Code> {
        let Self::PutItems(_, entries) = self else {
            return Ok(());
        };
        let mut keys: Vec<&Value> = entries.iter().map(|(key, _)| key).collect();
        keys.sort_by(|a, b| compare(a, b));
        if keys.windows(2).any(|pair| equal(pair[0], pair[1])) {
            return Err(PARAMETER);
        }
        keys.into_iter().try_for_each(check_key)
    }

    /// Whether the arguments are in order: a key that may be stored, a number to add.
    pub fn check(&self) -> Result<(), Code> {
        match self {
            Self::Put(_, key, _) => check_key(key),
            Self::Increment(_, key, delta) | Self::Decrement(_, key, delta) => {
                check_key(key)?;
                add(None, delta).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// The map that is made if there is none.
    pub fn created(&self) -> Result<Map, Code> {
        match self {
            Self::SetType { order, persist } => Ok(Map::new(*order, *persist)),
            Self::Put(policy, ..)
            | Self::PutItems(policy, _)
            | Self::Increment(policy, ..)
            | Self::Decrement(policy, ..) => Ok(Map::new(policy.order, policy.persist)),
            other => unreachable!("{other:?} makes no map"),
        }
    }

    pub fn read(&self, map: &Map) -> Result<Value, Code> {
        match self {
            Self::Size => Ok(map.count()),
            Self::GetBy(selector, returns) => {
                let picked = selector.pick(map)?;
                Ok(map.content().reply(&picked, *returns)?.0)
            }
            other => unreachable!("{other:?} does not read"),
        }
    }

    /// Changes a map. The result is nil if there is none.
    pub fn modify(&self, map: &mut Map) -> Result<Value, Code> {
        match self {
            Self::SetType { order, persist } => {
                (map.order, map.persist) = (*order, *persist);
                Ok(Value::Nil)
            }
            Self::Put(policy, key, value) => {
                put(map, &[(key.clone(), value.clone())], policy, false)
            }
            Self::PutItems(policy, entries) => put(map, entries, policy, true),
            Self::Increment(_, key, delta) => increment(map, key, delta),
            Self::Decrement(_, key, delta) => {
                let negative = match add(None, delta)? {
                    Value::Int(delta) => delta.wrapping_neg().into(),
                    Value::Float(delta) => (-delta).into(),
                    other => unreachable!("{other:?} is no number"),
                };
                increment(map, key, &negative)
            }
            Self::Clear => {
                map.entries.clear();
                Ok(Value::Nil)
            }
            Self::RemoveBy(selector, returns) => {
                let picked = selector.pick(map)?;
                let (value, taken) = map.content().reply(&picked, *returns)?;
                let mut place = 0..;
                map.entries
                    .retain(|_| !taken.contains(&place.next().unwrap()));
                Ok(value)
            }
            other => unreachable!("{other:?} does not modify"),
        }
    }
}

/// semantics.md#maps-write-flags.
fn put(
    map: &mut Map,
    entries: &[(Value, Value)],
    policy: &MapPolicy,
    items: bool,
) -> Result<Value, Code> {
    let mut entries = entries.to_vec();
    entries.sort_by(|(a, _), (b, _)| compare(a, b));
    let has = |flag: u8| policy.flags & flag != 0;
    let mut after = map.clone();
    for (key, value) in entries {
        let violation = match map.find(&key) {
            Some(_) if has(CREATE_ONLY) => THERE,
            // QUIRK: PUT_ITEMS with these flags stores everything in an empty map.
            None if items
                && map.entries.is_empty()
                && !has(CREATE_ONLY)
                && has(UPDATE_ONLY)
                && has(NO_FAIL)
                && has(DO_PARTIAL) =>
            {
                after.store(&key, super::normal(value));
                continue;
            }
            None if has(UPDATE_ONLY) => NOT_THERE,
            _ => {
                after.store(&key, super::normal(value));
                continue;
            }
        };
        match (has(NO_FAIL), items && has(DO_PARTIAL)) {
            (false, _) => return Err(violation),
            (true, false) => return Ok(map.count()),
            (true, true) => {}
        }
    }
    *map = after;
    Ok(map.count())
}

/// semantics.md#increments.
fn increment(map: &mut Map, key: &Value, delta: &Value) -> Result<Value, Code> {
    let old = map.find(key).map(|place| &map.entries[place].1);
    let sum = add(old, delta)?;
    map.store(key, sum.clone());
    Ok(sum)
}

impl MapSelector {
    fn pick(&self, map: &Map) -> Result<Picked, Code> {
        let content = map.content();
        let n = map.entries.len();
        let keys = content.keys.clone().unwrap_or_default();
        Ok(match self {
            Self::Key(key) => one(&content, map.find(key)),
            Self::Index(index) => one(&content, Some(single(*index, n)?)),
            Self::Rank(rank) => {
                let rank = single(*rank, n)?;
                Picked {
                    single: true,
                    ..by_value(vec![content.by_rank()[rank]], Numbers::Row(rank as i64, 1))
                }
            }
            Self::IndexRange(index, count) => {
                let (start, count) = range(*index, *count, n);
                keys_in_a_row(&content, start, count)
            }
            Self::KeyRelativeIndexRange(key, index, count) => {
                let base = super::reply::below(&keys, key);
                let (start, count) = relative(base, *index, *count, n);
                keys_in_a_row(&content, start, count)
            }
            Self::KeyRange(begin, end) => {
                let places = between(&keys, begin.as_ref(), end.as_ref(), true);
                let start = begin
                    .as_ref()
                    .map_or(0, |begin| super::reply::below(&keys, begin));
                keys_in_a_row(&content, start, places.len())
            }
            Self::KeyList(wanted) => {
                let is_wanted = |i: &usize| wanted.iter().any(|key| equal(key, keys[*i]));
                let places: Vec<usize> = (0..n).filter(is_wanted).collect();
                Picked {
                    single: false,
                    by: By::Place,
                    indexes: Numbers::each(&places),
                    places,
                    ranks: Numbers::Refused,
                }
            }
            Self::RankRange(rank, count) => {
                let (start, count) = range(*rank, *count, n);
                ranks_in_a_row(&content, start, count)
            }
            // Of an empty map, by value, the first rank is -1 (semantics.md#return-types).
            Self::Value(_) | Self::ValueRange(..) if n == 0 => {
                by_value(Vec::new(), Numbers::Nowhere)
            }
            Self::ValueRelativeRankRange(value, rank, count) => {
                let (start, count) = relative(content.below(value), *rank, *count, n);
                ranks_in_a_row(&content, start, count)
            }
            Self::Value(value) => {
                let first = content.below(value) as i64;
                let places = matches(map, value);
                let count = places.len();
                by_value(places, Numbers::Row(first, count))
            }
            Self::ValueRange(begin, end) => {
                let first = begin.as_ref().map_or(0, |begin| content.below(begin)) as i64;
                let mut places = between(
                    &content.values,
                    begin.as_ref(),
                    end.as_ref(),
                    map.by_value_order(),
                );
                if map.by_value_order() {
                    places = in_value_order(&content, &places);
                }
                let count = places.len();
                by_value(places, Numbers::Row(first, count))
            }
            Self::ValueList(wanted) => {
                let mut places: Vec<usize> = wanted
                    .iter()
                    .flat_map(|value| matches(map, value))
                    .collect();
                // Ranks by parameter, as of lists (semantics.md#selecting-by-value); the entries
                // only with an index of values.
                let row = |value| (content.below(value) as i64, matches(map, value).len());
                let rows = wanted.iter().map(row).collect();
                let mut ranks = Numbers::Rows(rows);
                if !map.by_value_order() {
                    places.sort_unstable();
                    places.dedup();
                    ranks = ranks.once();
                }
                Picked {
                    by: By::Values,
                    ..by_value(places, ranks)
                }
            }
        })
    }
}

/// The entries with a value equal to this one (a wildcard may equal several), in the order of keys,
/// or of values.
fn matches(map: &Map, value: &Value) -> Vec<usize> {
    let all: Vec<usize> = (0..map.entries.len())
        .filter(|i| equal(&map.entries[*i].1, value))
        .collect();
    if map.by_value_order() {
        in_value_order(&map.content(), &all)
    } else {
        all
    }
}

/// Positions in the order of their values.
fn in_value_order(content: &Content<'_>, places: &[usize]) -> Vec<usize> {
    content
        .by_rank()
        .into_iter()
        .filter(|i| places.contains(i))
        .collect()
}

/// At most one entry, picked by index or key.
fn one(content: &Content<'_>, place: Option<usize>) -> Picked {
    let places: Vec<usize> = place.into_iter().collect();
    Picked {
        single: true,
        by: By::Place,
        indexes: place.map_or(Numbers::Nowhere, |place| Numbers::Row(place as i64, 1)),
        ranks: content.ranks_of(&places),
        places,
    }
}

/// Entries picked by index or key, without a gap.
fn keys_in_a_row(content: &Content<'_>, start: usize, count: usize) -> Picked {
    let places: Vec<usize> = (start..start + count).collect();
    Picked {
        single: false,
        by: By::Place,
        indexes: Numbers::Row(start as i64, count),
        ranks: content.ranks_of(&places),
        places,
    }
}

/// Entries picked by rank, without a gap.
fn ranks_in_a_row(content: &Content<'_>, start: usize, count: usize) -> Picked {
    let by_rank = content.by_rank();
    let row = |start: usize, count: usize| {
        by_value(
            by_rank[start..start + count].to_vec(),
            Numbers::Row(start as i64, count),
        )
    };
    // The others have consecutive ranks, too, if all are above, if all are below, or if no entry
    // was picked.
    let others = match (start, by_rank.len() - start - count) {
        (_, _) if count == 0 => row(0, by_rank.len()),
        (0, above) => row(count, above),
        (below, 0) => row(0, below),
        _ => return row(start, count),
    };
    let others = Box::new(others);
    Picked {
        by: By::Ranks { others },
        ..row(start, count)
    }
}

/// Entries picked by value or rank.
fn by_value(places: Vec<usize>, ranks: Numbers) -> Picked {
    Picked {
        single: false,
        by: By::Value,
        indexes: Numbers::each(&places),
        places,
        ranks,
    }
}
