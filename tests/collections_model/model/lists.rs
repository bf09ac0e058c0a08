//! Lists (semantics.md#lists-operations).

use spikelet::{ListOrder, Value};

use super::call::{
    ADD_UNIQUE, DESCENDING, DO_PARTIAL, DROP_DUPLICATES, INSERT_BOUNDED, ListOperation,
    ListSelector, NO_FAIL,
};
use super::order::{compare, equal};
use super::reply::{By, Content, Numbers, Picked, between, range, relative, single, values};
use super::{Code, NOT_APPLICABLE, PARAMETER, THERE, WRONG_TYPE};

/// A list under way.
#[derive(Clone, Debug)]
pub struct List {
    pub items: Vec<Value>,
    pub order: ListOrder,
    pub persist: bool,
}

impl List {
    pub fn new(order: ListOrder, persist: bool) -> Self {
        Self {
            items: Vec::new(),
            order,
            persist,
        }
    }

    /// A list as it is stored.
    pub fn of(list: spikelet::value::List) -> Self {
        let mut own = Self::new(list.order(), false);
        own.items = list.into_items().into_iter().map(super::normal).collect();
        own.keep_order();
        own
    }

    pub fn into_value(self) -> Value {
        spikelet::value::List::new(self.items, self.order).into()
    }

    /// Elements of ordered lists are always sorted.
    pub fn keep_order(&mut self) {
        if self.is_ordered() {
            self.items.sort_by(compare);
        }
    }

    pub fn is_ordered(&self) -> bool {
        self.order == ListOrder::Ordered
    }

    fn count(&self) -> Value {
        (self.items.len() as i64).into()
    }

    pub fn content(&self) -> Content<'_> {
        Content {
            keys: None,
            sorted: self.is_ordered(),
            values: self.items.iter().collect(),
        }
    }
}

impl ListOperation {
    /// Whether the operation only reads.
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            Self::Size | Self::Get(_) | Self::GetRange(..) | Self::GetBy(..)
        )
    }

    /// Whether the operation does nothing if there is no list, as operations do that only remove
    /// (semantics.md#lists-operations).
    pub fn only_removes(&self) -> bool {
        matches!(
            self,
            Self::Pop(_)
                | Self::PopRange(..)
                | Self::Remove(_)
                | Self::RemoveRange(..)
                | Self::Trim(..)
                | Self::Clear
                | Self::RemoveBy(..)
        )
    }

    /// Whether the arguments are in order.
    pub fn check(&self) -> Result<(), Code> {
        match self {
            Self::Increment(_, _, delta) => add(None, delta).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// The list that is made if there is none.
    pub fn created(&self) -> Result<List, Code> {
        match self {
            Self::SetType { order, persist } => Ok(List::new(*order, *persist)),
            Self::Append(policy, _)
            | Self::AppendItems(policy, _)
            | Self::Increment(policy, ..) => Ok(List::new(policy.order, policy.persist)),
            Self::Insert(..) | Self::InsertItems(..) | Self::Set(..) => {
                Ok(List::new(ListOrder::Unordered, false))
            }
            Self::Sort(_) => Err(WRONG_TYPE),
            other => unreachable!("{other:?} makes no list"),
        }
    }

    pub fn read(&self, list: &List) -> Result<Value, Code> {
        let n = list.items.len();
        match self {
            Self::Size => Ok(list.count()),
            Self::Get(index) => Ok(list.items[single(*index, n)?].clone()),
            Self::GetRange(index, count) => {
                let (start, count) = range(*index, *count, n);
                Ok(values(list.items[start..start + count].iter().cloned()))
            }
            Self::GetBy(selector, returns) => {
                let picked = selector.pick(list)?;
                Ok(list.content().reply(&picked, *returns)?.0)
            }
            other => unreachable!("{other:?} does not read"),
        }
    }

    /// Changes a list. The result is nil if there is none.
    pub fn modify(&self, list: &mut List) -> Result<Value, Code> {
        let n = list.items.len();
        match self {
            Self::SetType { order, persist } => {
                (list.order, list.persist) = (*order, *persist);
                list.keep_order();
                Ok(Value::Nil)
            }
            Self::Append(policy, value) => append(list, std::slice::from_ref(value), policy.flags),
            Self::AppendItems(policy, items) => append(list, items, policy.flags),
            Self::Insert(policy, index, value) => {
                let value = std::slice::from_ref(value);
                insert(list, *index, value, policy.flags)?;
                Ok(list.count())
            }
            Self::InsertItems(policy, index, items) => {
                insert(list, *index, items, policy.flags)?;
                Ok(list.count())
            }
            Self::Set(policy, index, value) => {
                set(list, *index, value, policy.flags)?;
                Ok(Value::Nil)
            }
            Self::Pop(index) => Ok(list.items.remove(single(*index, n)?)),
            Self::PopRange(index, count) => {
                let (start, count) = range(*index, *count, n);
                Ok(values(list.items.drain(start..start + count)))
            }
            Self::Remove(index) => {
                list.items.remove(single(*index, n)?);
                Ok(1.into())
            }
            Self::RemoveRange(index, count) => {
                let (start, count) = range(*index, *count, n);
                list.items.drain(start..start + count);
                Ok((count as i64).into())
            }
            Self::Trim(index, count) => {
                let (start, count) = range(*index, *count, n);
                list.items = list.items[start..start + count].to_vec();
                Ok(((n - count) as i64).into())
            }
            Self::Clear => {
                // QUIRK: the persisted index is lost.
                *list = List::new(list.order, false);
                Ok(Value::Nil)
            }
            Self::Increment(policy, index, delta) => increment(list, *index, delta, policy.flags),
            Self::Sort(flags) => sort(list, *flags),
            Self::RemoveBy(selector, returns) => {
                let picked = selector.pick(list)?;
                let (value, taken) = list.content().reply(&picked, *returns)?;
                let mut place = 0..;
                list.items
                    .retain(|_| !taken.contains(&place.next().unwrap()));
                Ok(value)
            }
            other => unreachable!("{other:?} does not modify"),
        }
    }
}

/// The table of ADD_UNIQUE (semantics.md#lists-unique-elements): which of these may go into a list.
fn admitted(list: &[Value], items: &[Value], flags: u8) -> Result<Vec<Value>, Code> {
    let items = items.iter().cloned().map(super::normal);
    if flags & ADD_UNIQUE == 0 {
        return Ok(items.collect());
    }
    let mut admitted: Vec<Value> = Vec::new();
    for item in items {
        let violation = if list.iter().any(|other| equal(other, &item)) {
            THERE
        } else if admitted.iter().any(|other| equal(other, &item)) {
            NOT_APPLICABLE
        } else {
            admitted.push(item);
            continue;
        };
        match (flags & NO_FAIL != 0, flags & DO_PARTIAL != 0) {
            (false, _) => return Err(violation),
            (true, false) => return Ok(Vec::new()),
            (true, true) => {}
        }
    }
    Ok(admitted)
}

fn append(list: &mut List, items: &[Value], flags: u8) -> Result<Value, Code> {
    let admitted = admitted(&list.items, items, flags)?;
    list.items.extend(admitted);
    list.keep_order();
    Ok(list.count())
}

/// The index rules of INSERT (semantics.md#lists-insert-and-set). True if the items went in.
fn insert(list: &mut List, index: i64, items: &[Value], flags: u8) -> Result<bool, Code> {
    if list.is_ordered() {
        return Err(NOT_APPLICABLE);
    }
    let n = list.items.len() as i64;
    if index < -n || index > i64::from(i32::MAX) {
        return Err(NOT_APPLICABLE);
    }
    let place = if index < 0 { index + n } else { index };
    if place > n && flags & INSERT_BOUNDED != 0 {
        return if flags & NO_FAIL != 0 {
            Ok(false)
        } else {
            Err(NOT_APPLICABLE)
        };
    }
    let admitted = admitted(&list.items, items, flags)?;
    if admitted.is_empty() {
        return Ok(false);
    }
    let place = place as usize;
    while list.items.len() < place {
        list.items.push(Value::Nil);
    }
    list.items.splice(place..place, admitted);
    Ok(true)
}

/// SET (semantics.md#lists-insert-and-set). True if the value was set.
fn set(list: &mut List, index: i64, value: &Value, flags: u8) -> Result<bool, Code> {
    if list.is_ordered() {
        return Err(NOT_APPLICABLE);
    }
    let n = list.items.len();
    if index >= n as i64 {
        return insert(list, index, std::slice::from_ref(value), flags);
    }
    let place = single(index, n)?;
    if !replaces(list, place, value, flags)? {
        return Ok(false);
    }
    list.items[place] = super::normal(value.clone());
    Ok(true)
}

/// Whether a value may stand in the place of another: with ADD_UNIQUE, no element elsewhere equals
/// it.
fn replaces(list: &List, place: usize, value: &Value, flags: u8) -> Result<bool, Code> {
    let mut others = list.items.clone();
    others.remove(place);
    if flags & ADD_UNIQUE == 0 || !others.iter().any(|other| equal(other, value)) {
        Ok(true)
    } else if flags & NO_FAIL == 0 {
        Err(THERE)
    } else {
        Ok(false)
    }
}

/// semantics.md#increments.
fn increment(list: &mut List, index: i64, delta: &Value, flags: u8) -> Result<Value, Code> {
    let n = list.items.len();
    let old = if index >= n as i64 {
        None
    } else {
        Some(single(index, n)?)
    };
    let sum = add(old.map(|place| &list.items[place]), delta)?;
    match old {
        None => {
            if list.is_ordered() {
                append(list, std::slice::from_ref(&sum), flags)?;
            } else {
                insert(list, index, std::slice::from_ref(&sum), flags)?;
            }
        }
        Some(place) => {
            // With NO_FAIL the old element stays; the result is the sum all the same.
            if replaces(list, place, &sum, flags)? {
                list.items[place] = sum.clone();
                list.keep_order();
            }
        }
    }
    Ok(sum)
}

/// The sum of a number and a delta, in the type of the number (semantics.md#increments). Without a
/// number, the delta.
pub fn add(number: Option<&Value>, delta: &Value) -> Result<Value, Code> {
    let delta = match delta {
        Value::Nil => Value::Int(1),
        Value::Int(_) | Value::Float(_) => delta.clone(),
        _ => return Err(PARAMETER),
    };
    match (number, delta) {
        (None, delta) => Ok(delta),
        (Some(Value::Int(number)), Value::Int(delta)) => Ok(number.wrapping_add(delta).into()),
        (Some(Value::Int(number)), Value::Float(delta)) => {
            Ok(number.wrapping_add(delta as i64).into())
        }
        (Some(Value::Float(number)), Value::Float(delta)) => Ok((number + delta).into()),
        (Some(Value::Float(number)), Value::Int(delta)) => Ok((number + delta as f64).into()),
        _ => Err(PARAMETER),
    }
}

/// semantics.md#lists-sort.
fn sort(list: &mut List, flags: u8) -> Result<Value, Code> {
    let mut items = list.items.clone();
    items.sort_by(compare);
    let mut distinct = items.clone();
    distinct.dedup_by(|a, b| equal(a, b));
    let descending = flags & DESCENDING != 0 && !list.is_ordered();
    if flags & DROP_DUPLICATES != 0 {
        if descending && distinct.len() > 1 {
            return Err(PARAMETER); // QUIRK (semantics.md#lists-sort)
        }
        items = distinct;
    } else if descending {
        items.sort_by(|a, b| compare(b, a));
    }
    list.items = items;
    Ok(Value::Nil)
}

impl ListSelector {
    fn pick(&self, list: &List) -> Result<Picked, Code> {
        let content = list.content();
        let n = content.values.len();
        let ordered = list.is_ordered();
        // In an ordered list, consecutive indexes have consecutive ranks, and the other way round.
        let row = |start: usize, count: usize| Numbers::Row(start as i64, count);
        Ok(match self {
            Self::Index(index) => {
                let place = single(*index, n)?;
                let ranks = if ordered {
                    row(place, 1)
                } else {
                    Numbers::each(&[content.below(content.values[place])])
                };
                Picked {
                    single: true,
                    by: By::Place,
                    places: vec![place],
                    indexes: row(place, 1),
                    ranks,
                }
            }
            Self::IndexRange(index, count) => {
                let (start, count) = range(*index, *count, n);
                let places: Vec<usize> = (start..start + count).collect();
                let ranks = if ordered {
                    row(start, count)
                } else {
                    content.ranks_of(&places)
                };
                Picked {
                    single: false,
                    by: By::Place,
                    places,
                    indexes: row(start, count),
                    ranks,
                }
            }
            Self::Rank(rank) => {
                let rank = single(*rank, n)?;
                let place = content.by_rank()[rank];
                Picked {
                    single: true,
                    by: By::Value,
                    places: vec![place],
                    indexes: if ordered {
                        row(place, 1)
                    } else {
                        Numbers::each(&[place])
                    },
                    ranks: row(rank, 1),
                }
            }
            Self::RankRange(rank, count) => {
                let (start, count) = range(*rank, *count, n);
                ranks_in_a_row(list, start, count)
            }
            Self::ValueRelativeRankRange(value, rank, count) => {
                let (start, count) = relative(content.below(value), *rank, *count, n);
                ranks_in_a_row(list, start, count)
            }
            Self::Value(value) => {
                let equal = |i: &usize| equal(content.values[*i], value);
                let places: Vec<usize> = (0..n).filter(equal).collect();
                values_in_a_row(list, content.below(value), places)
            }
            Self::ValueRange(begin, end) => {
                let first = begin.as_ref().map_or(0, |begin| content.below(begin));
                let places = between(
                    &content.values,
                    begin.as_ref(),
                    end.as_ref(),
                    content.sorted,
                );
                values_in_a_row(list, first, places)
            }
            Self::ValueList(wanted) => {
                let matches = |value: &Value| -> Vec<usize> {
                    (0..n)
                        .filter(|i| equal(content.values[*i], value))
                        .collect()
                };
                // By parameter: the ranks of equal elements stand in a row.
                let row = |value| (content.below(value) as i64, matches(value).len());
                let mut ranks = Numbers::Rows(wanted.iter().map(row).collect());
                let mut places: Vec<usize> = wanted.iter().flat_map(matches).collect();
                if !ordered {
                    places.sort_unstable();
                    places.dedup();
                    ranks = ranks.once();
                }
                Picked {
                    single: false,
                    by: By::Values,
                    indexes: if ordered {
                        ranks.clone()
                    } else {
                        Numbers::each(&places)
                    },
                    places,
                    ranks,
                }
            }
        })
    }
}

/// Elements picked by rank (semantics.md#lists-order-of-results-by-rank).
fn ranks_in_a_row(list: &List, start: usize, count: usize) -> Picked {
    let n = list.items.len();
    let mut places = list.content().by_rank()[start..start + count].to_vec();
    let indexes = if list.is_ordered() {
        Numbers::Row(start as i64, count)
    } else {
        let mut ascending = places.clone();
        ascending.sort_unstable();
        // QUIRK: the values come in descending order, unless the list has fewer elements above them
        // than below.
        if start <= n - start - count {
            places.reverse();
        }
        Numbers::each(&ascending)
    };
    Picked {
        single: false,
        by: By::Value,
        places,
        indexes,
        ranks: Numbers::Row(start as i64, count),
    }
}

/// Elements picked by value, the least of them being of this rank.
fn values_in_a_row(list: &List, first: usize, places: Vec<usize>) -> Picked {
    let ranks = Numbers::Row(first as i64, places.len());
    let indexes = if list.is_ordered() {
        ranks.clone()
    } else {
        Numbers::each(&places)
    };
    Picked {
        single: false,
        by: By::Value,
        places,
        indexes,
        ranks,
    }
}
