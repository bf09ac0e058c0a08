//! Which list or map an operation is for (semantics.md#collections-the-bin-and-its-type), and the
//! way there (semantics.md#contexts-what-they-find).

use spikelet::{ListOrder, MapOrder, Value};

use super::call::{Call, ListCreation, Operation, Step};
use super::lists::List;
use super::maps::{Map, check_key};
use super::order::equal;
use super::reply::single;
use super::{Bin, Code, NOT_APPLICABLE, PARAMETER, WRONG_TYPE};

/// Executes a call: the bin afterwards, and the result. No result for a read of a missing bin; nil
/// if the operation has nothing to say.
pub fn apply(bin: &Bin, call: &Call) -> Result<(Bin, Option<Value>), Code> {
    if let Operation::Map(operation) = &call.operation {
        operation.check_encoding()?;
    }
    let container = match &bin.value {
        None => None,
        Some(Value::List(list)) => Some(Container::List(List {
            persist: bin.persist,
            ..List::of(list.clone())
        })),
        Some(Value::Map(map)) => Some(Container::Map(Map {
            persist: bin.persist,
            ..Map::of(map.clone())
        })),
        Some(_) if call.path.is_empty() => return Err(WRONG_TYPE),
        Some(_) => return Err(PARAMETER),
    };
    if call.is_read() {
        let result = container.map(|container| read(container, &call.path, &call.operation));
        return Ok((bin.clone(), result.transpose()?));
    }
    let (after, result) = match container {
        Some(container) => {
            let (after, result) = modify(container, &call.path, &call.operation)?;
            (Some(after), result)
        }
        None => make(&call.path, &call.operation, true)?,
    };
    let persist = after.as_ref().is_some_and(Container::persist);
    let value = after.map(Container::into_value);
    Ok((Bin { value, persist }, Some(result)))
}

impl Call {
    pub fn is_read(&self) -> bool {
        match &self.operation {
            Operation::List(operation) => operation.is_read(),
            Operation::Map(operation) => operation.is_read(),
        }
    }
}

/// A list or map on the way.
#[derive(Clone, Debug)]
enum Container {
    List(List),
    Map(Map),
}

impl Container {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::List(list) => Some(Self::List(List::of(list.clone()))),
            Value::Map(map) => Some(Self::Map(Map::of(map.clone()))),
            _ => None,
        }
    }

    fn into_value(self) -> Value {
        match self {
            Self::List(list) => list.into_value(),
            Self::Map(map) => map.into_value(),
        }
    }

    fn persist(&self) -> bool {
        match self {
            Self::List(list) => list.persist,
            Self::Map(map) => map.persist,
        }
    }

    fn child(&self, place: usize) -> &Value {
        match self {
            Self::List(list) => &list.items[place],
            Self::Map(map) => &map.entries[place].1,
        }
    }

    /// Puts a changed child in its place; an ordered list moves it to where it belongs.
    fn replace_child(&mut self, place: usize, child: Value) {
        match self {
            Self::List(list) => {
                list.items[place] = child;
                list.keep_order();
            }
            Self::Map(map) => map.entries[place].1 = child,
        }
    }

    /// The position of the element that a step leads to.
    fn find(&self, step: &Step) -> Result<Option<usize>, Code> {
        Ok(match (self, step) {
            (Self::List(list), Step::ListIndex(index, _)) => single(*index, list.items.len()).ok(),
            (Self::List(list), Step::ListRank(rank)) => {
                let by_rank = list.content().by_rank();
                single(*rank, by_rank.len()).ok().map(|rank| by_rank[rank])
            }
            (Self::List(list), Step::ListValue(value)) => {
                list.items.iter().position(|item| equal(item, value))
            }
            (Self::Map(map), Step::MapIndex(index)) => single(*index, map.entries.len()).ok(),
            (Self::Map(map), Step::MapRank(rank)) => {
                let by_rank = map.content().by_rank();
                single(*rank, by_rank.len()).ok().map(|rank| by_rank[rank])
            }
            (Self::Map(map), Step::MapKey(key, _)) => map.find(key),
            (Self::Map(map), Step::MapValue(value)) => {
                let mut places: Vec<usize> = (0..map.entries.len()).collect();
                if map.by_value_order() {
                    places = map.content().by_rank();
                }
                places
                    .into_iter()
                    .find(|place| equal(&map.entries[*place].1, value))
            }
            // A step for lists in a map, or the other way round.
            _ => return Err(NOT_APPLICABLE),
        })
    }
}

fn read(container: Container, path: &[Step], operation: &Operation) -> Result<Value, Code> {
    let Some((step, rest)) = path.split_first() else {
        return match (operation, &container) {
            (Operation::List(operation), Container::List(list)) => operation.read(list),
            (Operation::Map(operation), Container::Map(map)) => operation.read(map),
            _ => Err(WRONG_TYPE),
        };
    };
    let place = container.find(step)?.ok_or(NOT_APPLICABLE)?;
    read(child(&container, place, rest)?, rest, operation)
}

/// The list or map at a position: the path goes on in it, or it is the operation's.
fn child(container: &Container, place: usize, rest: &[Step]) -> Result<Container, Code> {
    let wrong = if rest.is_empty() {
        WRONG_TYPE
    } else {
        NOT_APPLICABLE
    };
    Container::of(container.child(place)).ok_or(wrong)
}

/// Changes what the path leads to.
fn modify(
    mut container: Container,
    path: &[Step],
    operation: &Operation,
) -> Result<(Container, Value), Code> {
    let Some((step, rest)) = path.split_first() else {
        let result = match (operation, &mut container) {
            (Operation::List(operation), Container::List(list)) => {
                operation.check()?;
                operation.modify(list)?
            }
            (Operation::Map(operation), Container::Map(map)) => {
                operation.check()?;
                operation.modify(map)?
            }
            _ => return Err(WRONG_TYPE),
        };
        return Ok((container, result));
    };
    if let Some(place) = container.find(step)? {
        let (after, result) = modify(child(&container, place, rest)?, rest, operation)?;
        container.replace_child(place, after.into_value());
        return Ok((container, result));
    }
    // Any create bit will do to make an element in a container that exists.
    match (&mut container, step) {
        (Container::List(list), Step::ListIndex(index, Some(creation))) => {
            let place = place_of_new(list, *index, *creation)?;
            let (Some(made), result) = make(rest, operation, false)? else {
                return Ok((container, Value::Nil));
            };
            put_new(list, place, made.into_value());
            Ok((container, result))
        }
        (Container::Map(map), Step::MapKey(key, Some(_))) => {
            check_key(key)?;
            let (Some(made), result) = make(rest, operation, false)? else {
                return Ok((container, Value::Nil));
            };
            map.store(key, made.into_value());
            Ok((container, result))
        }
        _ => Err(NOT_APPLICABLE),
    }
}

/// Where a new element goes in a list that has none at this index.
fn place_of_new(list: &List, index: i64, creation: ListCreation) -> Result<usize, Code> {
    let n = list.items.len();
    if n == 0 && index == -1 {
        Ok(0)
    } else if index == n as i64 || list.is_ordered() {
        Ok(n)
    } else if creation == ListCreation::Padded {
        usize::try_from(index).map_err(|_| NOT_APPLICABLE)
    } else {
        Err(NOT_APPLICABLE)
    }
}

/// Puts a new element behind all others, at this place or at the one it has by its value.
fn put_new(list: &mut List, place: usize, value: Value) {
    while list.items.len() < place {
        list.items.push(Value::Nil);
    }
    list.items.push(value);
    list.keep_order();
}

/// Makes the list or map that the path begins with, and all that follows; nothing if the operation
/// only removes.
fn make(
    path: &[Step],
    operation: &Operation,
    is_bin: bool,
) -> Result<(Option<Container>, Value), Code> {
    let Some((step, rest)) = path.split_first() else {
        return match operation {
            Operation::List(operation) if operation.only_removes() => Ok((None, Value::Nil)),
            Operation::List(operation) => {
                operation.check()?;
                let mut list = operation.created()?;
                let result = operation.modify(&mut list)?;
                Ok((Some(Container::List(list)), result))
            }
            Operation::Map(operation) if operation.only_removes() => Ok((None, Value::Nil)),
            Operation::Map(operation) => {
                operation.check()?;
                let mut map = operation.created()?;
                let result = operation.modify(&mut map)?;
                Ok((Some(Container::Map(map)), result))
            }
        };
    };
    match step {
        Step::ListIndex(index, creation) => {
            let mut list = List::new(ListOrder::Unordered, false);
            let place = match (creation, *index) {
                // Only below the first level.
                (None, -1 | 0) if !is_bin => 0,
                (None, _) => return Err(NOT_APPLICABLE),
                (Some(_), ..-1) => return Err(NOT_APPLICABLE),
                (Some(creation), index) => {
                    if *creation == ListCreation::Ordered {
                        list.order = ListOrder::Ordered;
                    }
                    match (creation, index) {
                        (ListCreation::Ordered, _) | (_, ..=0) => 0,
                        (ListCreation::Padded, index) => index as usize,
                        (ListCreation::Unordered, _) => return Err(NOT_APPLICABLE),
                    }
                }
            };
            let (Some(made), result) = make(rest, operation, false)? else {
                return Ok((None, Value::Nil));
            };
            put_new(&mut list, place, made.into_value());
            Ok((Some(Container::List(list)), result))
        }
        // Only below the first level.
        Step::MapKey(_, None) if is_bin => Err(NOT_APPLICABLE),
        Step::MapKey(key, order) => {
            check_key(key)?;
            let (Some(made), result) = make(rest, operation, false)? else {
                return Ok((None, Value::Nil));
            };
            let mut map = Map::new(order.unwrap_or(MapOrder::Unordered), false);
            map.store(key, made.into_value());
            Ok((Some(Container::Map(map)), result))
        }
        Step::MapIndex(_)
        | Step::MapRank(_)
        | Step::MapValue(_)
        | Step::ListRank(_)
        | Step::ListValue(_) => Err(NOT_APPLICABLE),
    }
}
