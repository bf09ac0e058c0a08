//! One operation with its arguments, and what it makes of a list or map.

use std::borrow::Cow;

use super::answer::Selection;
use super::convert;
use super::edit::{Edit, Splice};
use super::elements::find_key;
use super::insert::{self, Items};
use super::number::Number;
use super::policy::{ListSortFlags, ListWriteFlags, MapWriteFlags};
use super::put::{self, check_key};
use super::range::resolve;
use super::returns::Returns;
use super::select::Selector;
use super::table::{By, Does, Many, Row, Sign, find};
use super::view::{Shape, View};
use crate::call::{Arguments, Call, CallError, Reply};
use crate::value::{FLAG_PERSIST_INDEX, ParticleType, Purpose};

/// An operation whose arguments are not read yet: what it is for is looked at first, and errors come in that order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Act<'a> {
    row: &'static Row,
    arguments: Arguments<'a>,
}

/// An operation with its arguments.
#[derive(Debug)]
enum What<'a> {
    SetType(u8),
    Size,
    Clear,
    Sort(ListSortFlags),
    Get(Selector<'a>, Returns),
    Remove(Selector<'a>, Returns),
    Append {
        items: Items<'a>,
        flags: ListWriteFlags,
        create: u8,
    },
    Insert {
        index: i64,
        items: Items<'a>,
        flags: ListWriteFlags,
    },
    Set {
        index: i64,
        item: Items<'a>,
        flags: ListWriteFlags,
    },
    IncrementElement {
        index: i64,
        by: Number,
        flags: ListWriteFlags,
        create: u8,
    },
    Put {
        items: Items<'a>,
        flags: MapWriteFlags,
        /// `None`: a missing map is not created.
        create: Option<u8>,
    },
    IncrementValue {
        key: Cow<'a, [u8]>,
        by: Number,
        create: u8,
    },
}

/// What an operation came to: the edited list or map, unless nothing changes, and the reply.
pub(super) type Acted<'a> = Result<(Option<Edit<'a>>, Reply<'a>), CallError>;

impl<'a> Act<'a> {
    /// Finds an operation that reads, or one that writes, and checks how many arguments it has.
    pub(super) fn parse(call: &Call<'a>, writes: bool) -> Result<Self, CallError> {
        let row = find(call.operation)
            .filter(|row| row.writes == writes)
            .ok_or_else(|| unknown(call.operation, writes))?;
        let given = call.arguments.left();
        if !(row.required..=row.allowed).contains(&given) {
            return Err(CallError::parameter(format!(
                "operation {} on lists and maps takes {} to {} arguments, {given} were given",
                call.operation, row.required, row.allowed
            )));
        }
        Ok(Self {
            row,
            arguments: call.arguments,
        })
    }

    /// What the operation is for.
    pub(super) const fn shape(&self) -> Shape {
        self.row.shape
    }

    #[inline]
    fn read(mut self) -> Result<What<'a>, CallError> {
        let what = What::read(self.row, &mut self.arguments)?;
        self.arguments.end()?;
        Ok(what)
    }

    /// What happens where there is no list or map yet: nothing, or the operation creates one, or fails.
    pub(super) fn on_nothing(self, nested: bool) -> Acted<'a> {
        match self.row.does {
            Does::Size | Does::Select(..) | Does::Clear => return Ok((None, Reply::Nil)),
            Does::Sort => {
                return Err(CallError::WrongType {
                    found: ParticleType::Null,
                    operation: "sorting",
                });
            }
            _ => {}
        }
        let what = self.read()?;
        let create = match &what {
            What::SetType(flags) => *flags,
            What::Append { create, .. }
            | What::IncrementElement { create, .. }
            | What::IncrementValue { create, .. } => *create,
            What::Put { create, .. } => create.ok_or(CallError::ElementNotFound)?,
            _ => 0,
        };
        let flags = if nested {
            create & !FLAG_PERSIST_INDEX
        } else {
            create
        };
        let shape = self.row.shape;
        let (edit, reply) = what.on(View::empty(shape, flags), nested)?;
        let edit = edit.unwrap_or_else(|| Edit::empty(shape, flags));
        Ok((Some(edit), reply))
    }

    /// What happens to a list or map; `nested` inside another one, where no index is persisted.
    #[inline]
    pub(super) fn on(self, view: View<'a>, nested: bool) -> Acted<'a> {
        self.read()?.on(view, nested)
    }
}

impl<'a> What<'a> {
    fn on(self, view: View<'a>, nested: bool) -> Acted<'a> {
        let edit = match self {
            What::Size => return Ok((None, Reply::Int(i64::from(view.count)))),
            What::Get(selector, returns) => {
                let reply = Selection::new(&view, &selector, returns)?.reply()?;
                return Ok((None, reply));
            }
            What::Remove(selector, returns) => return remove(view, &selector, returns),
            What::SetType(flags) if nested => {
                let edit = convert::set_type(view, flags & !FLAG_PERSIST_INDEX)?;
                return Ok((edit, Reply::Nil));
            }
            What::SetType(flags) => return Ok((convert::set_type(view, flags)?, Reply::Nil)),
            What::Sort(flags) => return Ok((convert::sort(view, flags)?, Reply::Nil)),
            What::Clear => {
                // Lists lose their index, maps keep it (semantics.md#lists-operations).
                let flags = match view.shape {
                    Shape::List => view.flags & !FLAG_PERSIST_INDEX,
                    Shape::Map => view.flags,
                };
                return Ok((Some(Edit::empty(view.shape, flags)), Reply::Nil));
            }
            What::Set { index, item, flags } => {
                return Ok((insert::set(view, index, item, flags)?, Reply::Nil));
            }
            What::IncrementElement {
                index, by, flags, ..
            } => return increment_element(view, index, by, flags),
            What::IncrementValue { key, by, .. } => return increment_value(view, key, by),
            What::Append { items, flags, .. } => insert::append(view, items, flags)?,
            What::Insert {
                index,
                items,
                flags,
            } => insert::insert(view, index, items, flags)?,
            What::Put { items, flags, .. } => put::put(view, items, flags)?,
        };
        let count = edit.as_ref().map_or(view.count, Edit::count);
        Ok((edit, Reply::Int(i64::from(count))))
    }
}

fn unknown(operation: i64, writes: bool) -> CallError {
    let kind = if writes { "writes" } else { "reads" };
    CallError::parameter(format!(
        "{operation} is no operation that {kind} a list or map"
    ))
}

/// Removes what is selected, and replies about it as it was.
fn remove<'a>(view: View<'a>, selector: &Selector<'_>, returns: Returns) -> Acted<'a> {
    let selection = Selection::new(&view, selector, returns)?.located()?;
    let reply = selection.reply()?;
    let removed = selection.segments()?;
    if removed.is_empty() {
        return Ok((None, reply));
    }
    let splices = removed.into_iter().map(Splice::remove).collect();
    Ok((Some(Edit::new(view, view.flags, splices)?), reply))
}

/// Adds to an element, which is a replacement; behind the end, the delta is a new element.
fn increment_element<'a>(
    view: View<'a>,
    index: i64,
    by: Number,
    flags: ListWriteFlags,
) -> Acted<'a> {
    let at = resolve(view.count, index);
    let place = at.map(|at| view.segment(at, 1)).transpose()?;
    let number = match place {
        Some(element) => by.added_to(view.bytes(element))?,
        None => by,
    };
    let mut value = Vec::new();
    number.write(&mut value);
    let item = Items::one(Cow::Owned(value));
    let edit = match place {
        Some(element) => insert::replace(view, element, item.bytes, flags)?,
        None if view.is_ordered_list() && index >= 0 => insert::append(view, item, flags)?,
        None => insert::insert(view, index, item, flags)?,
    };
    Ok((edit, number.reply()))
}

/// Adds to the value of a key, which is a replacement; where there is none, the delta is a new entry.
fn increment_value<'a>(view: View<'a>, key: Cow<'a, [u8]>, by: Number) -> Acted<'a> {
    check_key(&key)?;
    let (place, number) = match find_key(&view, &key)? {
        Ok(entry) => (entry, by.added_to(view.value(entry))?),
        Err(gap) => (gap, by),
    };
    let mut entry = key.into_owned();
    number.write(&mut entry);
    let splice = Splice::new(place, Cow::Owned(entry), 1);
    let edit = Edit::new(view, view.flags, vec![splice])?;
    Ok((Some(edit), number.reply()))
}

impl<'a> Items<'a> {
    const fn one(bytes: Cow<'a, [u8]>) -> Self {
        Self {
            bytes,
            count: 1,
            single: true,
        }
    }

    fn read(arguments: &mut Arguments<'a>, shape: Shape, many: Many) -> Result<Self, CallError> {
        if many == Many::Several {
            let (count, bytes) = arguments.items(Purpose::Storage, shape == Shape::Map)?;
            return Ok(Self {
                bytes,
                count,
                single: false,
            });
        }
        let values = if shape == Shape::Map { 2 } else { 1 };
        arguments.values(values, Purpose::Storage).map(Self::one)
    }
}

impl<'a> What<'a> {
    fn read(row: &Row, arguments: &mut Arguments<'a>) -> Result<Self, CallError> {
        let create = |arguments: &mut Arguments<'a>| {
            let flags = arguments.optional(Arguments::uint)?.unwrap_or(0);
            Ok::<u8, CallError>(row.shape.flags(flags))
        };
        let list_flags = |arguments: &mut Arguments<'a>| {
            let flags = arguments.optional(Arguments::uint)?.unwrap_or(0);
            Ok::<_, CallError>(ListWriteFlags::from_bits_truncate(flags as u32))
        };
        Ok(match row.does {
            Does::SetType => {
                let flags = arguments.uint()?;
                if flags & !u64::from(row.shape.legal_flags()) != 0 {
                    return Err(CallError::NotApplicable(
                        "the flags ask for an order that lists or maps cannot have",
                    ));
                }
                Self::SetType(row.shape.flags(flags))
            }
            Does::Size => Self::Size,
            Does::Clear => Self::Clear,
            Does::Sort => {
                let flags = arguments.optional(Arguments::uint)?.unwrap_or(0);
                Self::Sort(ListSortFlags::from_bits_truncate(flags as u32))
            }
            Does::Select(by, fixed) => {
                let returns = match fixed {
                    Some(returns) => returns,
                    None => Returns::of_code(arguments.uint()?).ok_or(CallError::NotApplicable(
                        "there is no return type of this number",
                    ))?,
                };
                let selector = read_selector(by, arguments)?;
                if row.writes {
                    Self::Remove(selector, returns)
                } else {
                    Self::Get(selector, returns)
                }
            }
            Does::Append(many) => Self::Append {
                items: Items::read(arguments, row.shape, many)?,
                create: create(arguments)?,
                flags: list_flags(arguments)?,
            },
            Does::Insert(many) => Self::Insert {
                index: arguments.int()?,
                items: Items::read(arguments, row.shape, many)?,
                flags: list_flags(arguments)?,
            },
            Does::Set => Self::Set {
                index: arguments.int()?,
                item: Items::read(arguments, row.shape, Many::One)?,
                flags: list_flags(arguments)?,
            },
            Does::IncrementElement => Self::IncrementElement {
                index: arguments.int()?,
                by: read_delta(arguments)?,
                create: create(arguments)?,
                flags: list_flags(arguments)?,
            },
            Does::Put(many, fixed) => {
                let items = Items::read(arguments, row.shape, many)?;
                let create = create(arguments)?;
                let given = arguments.optional(Arguments::uint)?.unwrap_or(0);
                Self::Put {
                    items,
                    flags: fixed.unwrap_or(MapWriteFlags::from_bits_truncate(given as u32)),
                    create: (fixed != Some(MapWriteFlags::UPDATE_ONLY)).then_some(create),
                }
            }
            Does::IncrementValue(sign) => {
                let key = arguments.value(Purpose::Storage)?;
                let delta = read_delta(arguments)?;
                Self::IncrementValue {
                    key,
                    by: match sign {
                        Sign::Plus => delta,
                        Sign::Minus => delta.negated(),
                    },
                    create: create(arguments)?,
                }
            }
        })
    }
}

/// What is added: 1, unless the argument says otherwise.
fn read_delta(arguments: &mut Arguments<'_>) -> Result<Number, CallError> {
    let delta = match arguments.optional(Arguments::element)? {
        Some(element) => Number::read(element)?,
        None => None,
    };
    Ok(delta.unwrap_or(Number::Int(1)))
}

fn read_selector<'a>(by: By, arguments: &mut Arguments<'a>) -> Result<Selector<'a>, CallError> {
    let sought = |arguments: &mut Arguments<'a>| arguments.value(Purpose::Lookup);
    let list = |arguments: &mut Arguments<'a>| {
        arguments
            .items(Purpose::Lookup, false)
            .map(|(_, items)| items)
    };
    let count = |arguments: &mut Arguments<'a>| {
        Ok::<_, CallError>(arguments.optional(Arguments::uint)?.unwrap_or(u64::MAX))
    };
    Ok(match by {
        By::Index => Selector::Index(arguments.int()?),
        By::IndexRange => Selector::IndexRange {
            start: arguments.int()?,
            count: count(arguments)?,
        },
        By::Rank => Selector::Rank(arguments.int()?),
        By::RankRange => Selector::RankRange {
            start: arguments.int()?,
            count: count(arguments)?,
        },
        By::Key => Selector::Key(sought(arguments)?),
        By::Keys => Selector::Keys(list(arguments)?),
        By::KeyInterval => {
            let begin = sought(arguments)?;
            Selector::KeyInterval(begin, arguments.optional(sought)?)
        }
        By::KeyRelative => Selector::KeyRelative {
            key: sought(arguments)?,
            index: arguments.int()?,
            count: count(arguments)?,
        },
        By::FirstValue => Selector::FirstValue(sought(arguments)?),
        By::Value => Selector::Value(sought(arguments)?),
        By::Values => Selector::Values(list(arguments)?),
        By::ValueInterval => {
            let begin = sought(arguments)?;
            Selector::ValueInterval(begin, arguments.optional(sought)?)
        }
        By::ValueRelative => Selector::ValueRelative {
            value: sought(arguments)?,
            rank: arguments.int()?,
            count: count(arguments)?,
        },
    })
}
