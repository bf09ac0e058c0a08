//! The operations on lists and maps with their arguments: parsed from a call or built, and encoded
//! again.

use super::encoded::Encoded;
use super::insert::Items;
use super::number::Number;
use super::policy::{ListSortFlags, ListWriteFlags, MapWriteFlags};
use super::returns::Returns;
use super::select::Selector;
use super::shape::{ItemShape, item_lens};
use super::table::{ActionKind, Arity, OpSpec, SelectorKind, Sign};
use crate::call::{CallArguments, CallError, CallWriter, EncodedCall};
use crate::value::EncodePurpose;

/// An operation with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action<'a> {
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
        /// The flags to create a missing map with; `None` does not create it.
        create: Option<u8>,
    },
    IncrementValue {
        key: Encoded<'a>,
        by: Number,
        create: u8,
    },
}

impl<'a> Items<'a> {
    /// Wraps one encoded value for a list, or a key and its value for a map.
    pub(crate) const fn one(bytes: Encoded<'a>) -> Self {
        Self {
            bytes,
            count: 1,
            single: true,
        }
    }

    /// Wraps encoded items, concatenated.
    pub(crate) fn of_several(count: u32, bytes: Vec<u8>) -> Items<'static> {
        Items {
            bytes: Encoded::Long(bytes.into()),
            count,
            single: false,
        }
    }

    fn borrowed(&self) -> Items<'_> {
        Items {
            bytes: self.bytes.borrowed(),
            count: self.count,
            single: self.single,
        }
    }

    fn encode(&self, out: CallWriter, shape: ItemShape) -> CallWriter {
        match (self.single, shape) {
            (true, ItemShape::List) => out.encoded(1, &self.bytes),
            (true, ItemShape::Map) => out.encoded(2, &self.bytes),
            (false, shape) => out.encoded_items(shape, self.count, &self.bytes),
        }
    }

    fn read(
        arguments: &mut CallArguments<'a>,
        shape: ItemShape,
        many: Arity,
    ) -> Result<Self, CallError> {
        if many == Arity::Several {
            let (count, bytes) = arguments.items(EncodePurpose::Storage, shape)?;
            return Ok(Self {
                bytes: bytes.into(),
                count,
                single: false,
            });
        }
        let values = if shape == ItemShape::Map { 2 } else { 1 };
        arguments
            .values(values, EncodePurpose::Storage)
            .map(|bytes| Self::one(bytes.into()))
    }
}

impl<'a> Action<'a> {
    /// Borrows the arguments, so that an execution copies a value only into the record.
    pub(super) fn borrowed(&self) -> Action<'_> {
        match self {
            Self::SetType(flags) => Action::SetType(*flags),
            Self::Size => Action::Size,
            Self::Clear => Action::Clear,
            Self::Sort(flags) => Action::Sort(*flags),
            Self::Get(selector, returns) => Action::Get(selector.borrowed(), *returns),
            Self::Remove(selector, returns) => Action::Remove(selector.borrowed(), *returns),
            Self::Append {
                items,
                flags,
                create,
            } => Action::Append {
                items: items.borrowed(),
                flags: *flags,
                create: *create,
            },
            Self::Insert {
                index,
                items,
                flags,
            } => Action::Insert {
                index: *index,
                items: items.borrowed(),
                flags: *flags,
            },
            Self::Set { index, item, flags } => Action::Set {
                index: *index,
                item: item.borrowed(),
                flags: *flags,
            },
            Self::IncrementElement {
                index,
                by,
                flags,
                create,
            } => Action::IncrementElement {
                index: *index,
                by: *by,
                flags: *flags,
                create: *create,
            },
            Self::Put {
                items,
                flags,
                create,
            } => Action::Put {
                items: items.borrowed(),
                flags: *flags,
                create: *create,
            },
            Self::IncrementValue { key, by, create } => Action::IncrementValue {
                key: key.borrowed(),
                by: *by,
                create: *create,
            },
        }
    }

    /// Returns the flags of the list or map that the operation creates.
    pub(super) fn create_flags(&self) -> Result<u8, CallError> {
        Ok(match self {
            Self::SetType(flags) => *flags,
            Self::Append { create, .. }
            | Self::IncrementElement { create, .. }
            | Self::IncrementValue { create, .. } => *create,
            Self::Put { create, .. } => create.ok_or(CallError::ElementNotFound)?,
            _ => 0,
        })
    }

    /// Returns the call as clients send it.
    pub(super) fn encode(&self, spec: &OpSpec) -> EncodedCall {
        let out = CallWriter::new(spec.code);
        // In the order in which `read` takes the arguments.
        let out = match self {
            Self::SetType(flags) => out.uint(u64::from(*flags)),
            Self::Size | Self::Clear => out,
            Self::Sort(flags) => out.uint(u64::from(flags.bits())),
            Self::Get(selector, returns) | Self::Remove(selector, returns) => {
                let out = match spec.kind {
                    ActionKind::Select(_, None) => out.uint(returns.code()),
                    _ => out,
                };
                selector.encode(out, spec.required < spec.allowed)
            }
            Self::Append {
                items,
                flags,
                create,
            } => items
                .encode(out, ItemShape::List)
                .uint(u64::from(*create))
                .uint(u64::from(flags.bits())),
            Self::Insert {
                index,
                items,
                flags,
            }
            | Self::Set {
                index,
                item: items,
                flags,
            } => items
                .encode(out.int(*index), ItemShape::List)
                .uint(u64::from(flags.bits())),
            Self::IncrementElement {
                index,
                by,
                flags,
                create,
            } => by
                .encode(out.int(*index))
                .uint(u64::from(*create))
                .uint(u64::from(flags.bits())),
            Self::Put {
                items,
                flags,
                create,
            } => {
                let out = items.encode(out, ItemShape::Map);
                let out = match create {
                    Some(create) => out.uint(u64::from(*create)),
                    None => out,
                };
                match spec.kind {
                    ActionKind::Put(_, None) => out.uint(u64::from(flags.bits())),
                    _ => out,
                }
            }
            Self::IncrementValue { key, by, create } => {
                let minus = matches!(spec.kind, ActionKind::IncrementValue(Sign::Minus));
                let by = if minus { by.negated() } else { *by };
                by.encode(out.encoded(1, key)).uint(u64::from(*create))
            }
        };
        out.finish()
    }

    /// Parses the arguments of an operation.
    pub(super) fn read(
        spec: &OpSpec,
        arguments: &mut CallArguments<'a>,
    ) -> Result<Self, CallError> {
        let create = |arguments: &mut CallArguments<'a>| {
            let flags = arguments.uint_or_zero()?;
            Ok::<u8, CallError>(spec.shape.flags(flags))
        };
        let list_flags = |arguments: &mut CallArguments<'a>| {
            let flags = arguments.uint_or_zero()?;
            Ok::<_, CallError>(ListWriteFlags::from_bits_truncate(flags as u32))
        };
        // Fields are evaluated as written: their order is the order of the encoded arguments.
        Ok(match spec.kind {
            ActionKind::SetType => {
                let flags = arguments.uint()?;
                if flags & !u64::from(spec.shape.legal_flags()) != 0 {
                    return Err(CallError::NotApplicable(
                        "the flags ask for an order that lists or maps cannot have",
                    ));
                }
                Self::SetType(spec.shape.flags(flags))
            }
            ActionKind::Size => Self::Size,
            ActionKind::Clear => Self::Clear,
            ActionKind::Sort => {
                let flags = arguments.uint_or_zero()?;
                Self::Sort(ListSortFlags::from_bits_truncate(flags as u32))
            }
            ActionKind::Select(by, fixed) => {
                let returns = match fixed {
                    Some(returns) => returns,
                    None => Returns::of_code(arguments.uint()?).ok_or(CallError::NotApplicable(
                        "there is no return type of this number",
                    ))?,
                };
                let selector = read_selector(by, arguments)?;
                if spec.writes {
                    Self::Remove(selector, returns)
                } else {
                    Self::Get(selector, returns)
                }
            }
            ActionKind::Append(many) => Self::Append {
                items: Items::read(arguments, spec.shape, many)?,
                create: create(arguments)?,
                flags: list_flags(arguments)?,
            },
            ActionKind::Insert(many) => Self::Insert {
                index: arguments.int()?,
                items: Items::read(arguments, spec.shape, many)?,
                flags: list_flags(arguments)?,
            },
            ActionKind::Set => Self::Set {
                index: arguments.int()?,
                item: Items::read(arguments, spec.shape, Arity::One)?,
                flags: list_flags(arguments)?,
            },
            ActionKind::IncrementElement => Self::IncrementElement {
                index: arguments.int()?,
                by: read_delta(arguments)?,
                create: create(arguments)?,
                flags: list_flags(arguments)?,
            },
            ActionKind::Put(many, fixed) => {
                let items = Items::read(arguments, spec.shape, many)?;
                let create = create(arguments)?;
                let given = arguments.uint_or_zero()?;
                Self::Put {
                    items,
                    flags: fixed.unwrap_or(MapWriteFlags::from_bits_truncate(given as u32)),
                    // An update of entries that exist creates no map, even with flags for a new one.
                    create: (fixed != Some(MapWriteFlags::UPDATE_ONLY)).then_some(create),
                }
            }
            ActionKind::IncrementValue(sign) => {
                let key = arguments.value(EncodePurpose::Storage)?.into();
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

/// Reads the number to add; 1 if the argument is left out.
fn read_delta(arguments: &mut CallArguments<'_>) -> Result<Number, CallError> {
    let delta = match arguments.optional(CallArguments::element)? {
        Some(element) => Number::read(element)?,
        None => None,
    };
    Ok(delta.unwrap_or(Number::Int(1)))
}

fn read_selector<'a>(
    by: SelectorKind,
    arguments: &mut CallArguments<'a>,
) -> Result<Selector<'a>, CallError> {
    let sought = |arguments: &mut CallArguments<'a>| {
        arguments.value(EncodePurpose::Lookup).map(Encoded::from)
    };
    let list = |arguments: &mut CallArguments<'a>| {
        arguments
            .items(EncodePurpose::Lookup, ItemShape::List)
            .map(|(_, items)| Encoded::from(items))
    };
    let count = |arguments: &mut CallArguments<'a>| {
        Ok::<_, CallError>(arguments.optional(CallArguments::uint)?.unwrap_or(u64::MAX))
    };
    Ok(match by {
        SelectorKind::Index => Selector::Index(arguments.int()?),
        SelectorKind::IndexRange => Selector::IndexRange {
            start: arguments.int()?,
            count: count(arguments)?,
        },
        SelectorKind::Rank => Selector::Rank(arguments.int()?),
        SelectorKind::RankRange => Selector::RankRange {
            start: arguments.int()?,
            count: count(arguments)?,
        },
        SelectorKind::Key => Selector::Key(sought(arguments)?),
        SelectorKind::Keys => Selector::Keys(list(arguments)?),
        SelectorKind::KeyInterval => {
            let begin = sought(arguments)?;
            Selector::KeyInterval(begin, arguments.optional(sought)?)
        }
        SelectorKind::KeyRelative => Selector::KeyRelative {
            key: sought(arguments)?,
            index: arguments.int()?,
            count: count(arguments)?,
        },
        SelectorKind::FirstValue => Selector::FirstValue(sought(arguments)?),
        SelectorKind::Value => Selector::Value(sought(arguments)?),
        SelectorKind::Values => Selector::Values(list(arguments)?),
        SelectorKind::ValueInterval => {
            let begin = sought(arguments)?;
            Selector::ValueInterval(begin, arguments.optional(sought)?)
        }
        SelectorKind::ValueRelative => Selector::ValueRelative {
            value: sought(arguments)?,
            rank: arguments.int()?,
            count: count(arguments)?,
        },
    })
}

impl Selector<'_> {
    /// Borrows the values to search for.
    fn borrowed(&self) -> Selector<'_> {
        match self {
            Self::Index(index) => Selector::Index(*index),
            Self::IndexRange { start, count } => Selector::IndexRange {
                start: *start,
                count: *count,
            },
            Self::Key(key) => Selector::Key(key.borrowed()),
            Self::Keys(keys) => Selector::Keys(keys.borrowed()),
            Self::KeyInterval(begin, end) => {
                Selector::KeyInterval(begin.borrowed(), end.as_ref().map(Encoded::borrowed))
            }
            Self::KeyRelative { key, index, count } => Selector::KeyRelative {
                key: key.borrowed(),
                index: *index,
                count: *count,
            },
            Self::Rank(rank) => Selector::Rank(*rank),
            Self::RankRange { start, count } => Selector::RankRange {
                start: *start,
                count: *count,
            },
            Self::FirstValue(value) => Selector::FirstValue(value.borrowed()),
            Self::Value(value) => Selector::Value(value.borrowed()),
            Self::Values(values) => Selector::Values(values.borrowed()),
            Self::ValueInterval(begin, end) => {
                Selector::ValueInterval(begin.borrowed(), end.as_ref().map(Encoded::borrowed))
            }
            Self::ValueRelative { value, rank, count } => Selector::ValueRelative {
                value: value.borrowed(),
                rank: *rank,
                count: *count,
            },
        }
    }

    fn encode(&self, out: CallWriter, optional: bool) -> CallWriter {
        // No limit needs no argument where it is optional.
        let limited = |out: CallWriter, count: u64| {
            if count == u64::MAX && optional {
                out
            } else {
                out.uint(count)
            }
        };
        match self {
            Self::Index(at) | Self::Rank(at) => out.int(*at),
            Self::IndexRange { start, count } | Self::RankRange { start, count } => {
                limited(out.int(*start), *count)
            }
            Self::Key(sought) | Self::FirstValue(sought) | Self::Value(sought) => {
                out.encoded(1, sought)
            }
            Self::Keys(sought) | Self::Values(sought) => {
                let count = item_lens(ItemShape::List, sought).count();
                out.encoded_items(ItemShape::List, count as u32, sought)
            }
            Self::KeyInterval(begin, end) | Self::ValueInterval(begin, end) => {
                let out = out.encoded(1, begin);
                match end {
                    Some(end) => out.encoded(1, end),
                    None => out,
                }
            }
            Self::KeyRelative {
                key: base,
                index: start,
                count,
            }
            | Self::ValueRelative {
                value: base,
                rank: start,
                count,
            } => limited(out.encoded(1, base).int(*start), *count),
        }
    }
}
