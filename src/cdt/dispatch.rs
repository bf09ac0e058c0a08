//! Execution of an operation on a list or map, from an encoded call or a prepared one.

use std::borrow::Cow;

use smallvec::smallvec;

use super::action::Action;
use super::answer::TypedSelection;
use super::convert;
use super::edit::CollectionEdit;
use super::elements::find_key;
use super::encoded::Encoded;
use super::insert::{self, Items};
use super::number::Number;
use super::policy::ListWriteFlags;
use super::put::{self, check_key};
use super::range::resolve;
use super::returns::Returns;
use super::select::Selector;
use super::shape::ItemShape;
use super::splice::ItemSplice;
use super::table::{ActionKind, OpSpec, find};
use super::view::CollectionView;
use crate::call::{CallArguments, CallError, CallReply, EncodedCall, PathCall};
use crate::value::{FLAG_PERSIST_INDEX, ParticleType};

/// An operation with unparsed arguments: the bin's type is checked first, and errors come in that
/// order.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnreadCall<'a> {
    pub(super) spec: &'static OpSpec,
    arguments: CallArguments<'a>,
}

/// The result of an operation: the edited list or map, unless nothing changes, and the reply.
pub(super) type ActionResult<'a> = Result<(Option<CollectionEdit<'a>>, CallReply<'a>), CallError>;

impl<'a> UnreadCall<'a> {
    /// Finds a reading or a writing operation, and checks the number of arguments.
    pub(super) fn parse(call: &PathCall<'a>, writes: bool) -> Result<Self, CallError> {
        let spec = find(call.operation)
            .filter(|spec| spec.writes == writes)
            .ok_or_else(|| unknown(call.operation, writes))?;
        call.check_count(spec.required..=spec.allowed)?;
        Ok(Self {
            spec,
            arguments: call.arguments,
        })
    }

    /// Returns the shape that the operation works on.
    pub(super) const fn shape(&self) -> ItemShape {
        self.spec.shape
    }

    #[inline]
    pub(super) fn read(mut self) -> Result<Action<'a>, CallError> {
        let action = Action::read(self.spec, &mut self.arguments)?;
        self.arguments.end()?;
        Ok(action)
    }

    /// Executes the operation on a missing list or map: no effect, a new container, or an error.
    pub(super) fn on_nothing(self, nested: bool) -> ActionResult<'a> {
        on_nothing(self.spec, || self.read(), nested)
    }

    /// Executes the operation on a list or map. A `nested` one inside another gets no persisted
    /// index.
    #[inline]
    pub(super) fn on(self, view: CollectionView<'a>, nested: bool) -> ActionResult<'a> {
        self.read()?.on(view, nested)
    }
}

/// A prebuilt operation: its arguments are parsed and checked once, for any number of executions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PreparedCall {
    pub(super) spec: &'static OpSpec,
    pub(super) action: Action<'static>,
}

impl PreparedCall {
    /// Builds the operation with a number from its arguments, which must be those of its row.
    pub(crate) fn new(code: u8, action: Action<'static>) -> Result<Self, CallError> {
        let spec = find_built(code)?;
        Ok(Self { spec, action })
    }

    /// Builds the operation with a number that reads or removes selected items.
    pub(crate) fn selecting(
        code: u8,
        selector: Selector<'static>,
        returns: Returns,
    ) -> Result<Self, CallError> {
        let spec = find_built(code)?;
        let action = if spec.writes {
            Action::Remove(selector, returns)
        } else {
            Action::Get(selector, returns)
        };
        Ok(Self { spec, action })
    }

    /// Builds one that returns what the table fixes.
    pub(crate) fn selecting_fixed(
        code: u8,
        selector: Selector<'static>,
    ) -> Result<Self, CallError> {
        match find_built(code)?.kind {
            ActionKind::Select(_, Some(returns)) => Self::selecting(code, selector, returns),
            _ => Err(other_arguments(code)),
        }
    }

    /// Returns whether it changes a list or map.
    pub(crate) const fn writes(&self) -> bool {
        self.spec.writes
    }

    /// Returns the call as clients send it.
    pub(crate) fn encode(&self) -> EncodedCall {
        self.action.encode(self.spec)
    }

    /// Executes a reading operation: `kind` and `bin` are the type and stored value of a bin.
    #[inline(always)]
    pub(crate) fn read<'a>(
        &'a self,
        kind: ParticleType,
        bin: &'a [u8],
    ) -> Result<CallReply<'a>, CallError> {
        let view = CollectionView::of_bin(self.spec.shape, kind, bin)?;
        match &self.action {
            Action::Size => Ok(CallReply::Int(i64::from(view.count))),
            Action::Get(selector, returns) => TypedSelection::read(&view, selector, *returns),
            action => action.borrowed().on(view, false).map(|(_, reply)| reply),
        }
    }

    /// Executes a writing operation. The caller writes the returned edit.
    pub(crate) fn modify<'a>(
        &'a self,
        current: Option<(ParticleType, &'a [u8])>,
    ) -> ActionResult<'a> {
        match current {
            Some((kind, bin)) => {
                let view = CollectionView::of_bin(self.spec.shape, kind, bin)?;
                self.action.borrowed().on(view, false)
            }
            None => on_nothing(self.spec, || Ok(self.action.borrowed()), false),
        }
    }
}

/// Executes an operation on a missing list or map.
fn on_nothing<'a>(
    spec: &OpSpec,
    read: impl FnOnce() -> Result<Action<'a>, CallError>,
    nested: bool,
) -> ActionResult<'a> {
    match spec.kind {
        ActionKind::Size | ActionKind::Select(..) | ActionKind::Clear => {
            return Ok((None, CallReply::Nil));
        }
        ActionKind::Sort => {
            return Err(CallError::WrongType {
                found: ParticleType::Null,
                operation: "sorting",
            });
        }
        _ => {}
    }
    let action = read()?;
    let create = action.create_flags()?;
    let flags = if nested {
        create & !FLAG_PERSIST_INDEX
    } else {
        create
    };
    let shape = spec.shape;
    let (edit, reply) = action.on(CollectionView::empty(shape, flags), nested)?;
    let edit = edit.unwrap_or_else(|| CollectionEdit::empty(shape, flags));
    Ok((Some(edit), reply))
}

impl<'a> Action<'a> {
    fn on(self, view: CollectionView<'a>, nested: bool) -> ActionResult<'a> {
        let edit = match self {
            Action::Size => return Ok((None, CallReply::Int(i64::from(view.count)))),
            Action::Get(selector, returns) => {
                return Ok((None, TypedSelection::read(&view, &selector, returns)?));
            }
            Action::Remove(selector, returns) => return remove(view, &selector, returns),
            // Only whole bins persist an index.
            Action::SetType(flags) if nested => {
                let edit = convert::set_type(view, flags & !FLAG_PERSIST_INDEX)?;
                return Ok((edit, CallReply::Nil));
            }
            Action::SetType(flags) => return Ok((convert::set_type(view, flags)?, CallReply::Nil)),
            Action::Sort(flags) => return Ok((convert::sort(view, flags)?, CallReply::Nil)),
            Action::Clear => {
                // Lists lose their index, maps keep it (semantics.md#lists-operations).
                let flags = match view.shape {
                    ItemShape::List => view.flags & !FLAG_PERSIST_INDEX,
                    ItemShape::Map => view.flags,
                };
                return Ok((
                    Some(CollectionEdit::empty(view.shape, flags)),
                    CallReply::Nil,
                ));
            }
            Action::Set { index, item, flags } => {
                return Ok((insert::set(view, index, item, flags)?, CallReply::Nil));
            }
            Action::IncrementElement {
                index, by, flags, ..
            } => return increment_element(view, index, by, flags),
            Action::IncrementValue { key, by, .. } => return increment_value(view, key, by),
            Action::Append { items, flags, .. } => insert::append(view, items, flags)?,
            Action::Insert {
                index,
                items,
                flags,
            } => insert::insert(view, index, items, flags)?,
            Action::Put { items, flags, .. } => put::put(view, items, flags)?,
        };
        let count = edit.as_ref().map_or(view.count, CollectionEdit::count);
        Ok((edit, CallReply::Int(i64::from(count))))
    }
}

fn find_built(code: u8) -> Result<&'static OpSpec, CallError> {
    find(i64::from(code)).ok_or_else(|| other_arguments(code))
}

fn other_arguments(code: u8) -> CallError {
    CallError::parameter(format!(
        "operation {code} on lists and maps has other arguments"
    ))
}

fn unknown(operation: i64, writes: bool) -> CallError {
    let kind = if writes { "writes" } else { "reads" };
    CallError::parameter(format!(
        "{operation} is not an operation that {kind} a list or map"
    ))
}

/// Removes the selected items, and replies about them as they were.
fn remove<'a>(
    view: CollectionView<'a>,
    selector: &Selector<'_>,
    returns: Returns,
) -> ActionResult<'a> {
    let selection = TypedSelection::new(&view, selector, returns)?.located()?;
    let reply = selection.reply()?;
    let removed = selection.segments()?;
    if removed.is_empty() {
        return Ok((None, reply));
    }
    let splices = removed.into_iter().map(ItemSplice::remove).collect();
    Ok((Some(CollectionEdit::new(view, view.flags, splices)?), reply))
}

/// Adds to an element by replacing it. After the end, the delta becomes a new element.
fn increment_element<'a>(
    view: CollectionView<'a>,
    index: i64,
    by: Number,
    flags: ListWriteFlags,
) -> ActionResult<'a> {
    let at = resolve(view.count, index);
    let place = at.map(|at| view.segment(at, 1)).transpose()?;
    let number = match place {
        Some(element) => by.added_to(view.bytes(element))?,
        None => by,
    };
    let mut value = Vec::new();
    number.write(&mut value);
    let item = Items::one(Encoded::copy(&value));
    let edit = match place {
        Some(element) => insert::replace(view, element, value.into(), flags)?,
        None if view.is_ordered_list() && index >= 0 => insert::append(view, item, flags)?,
        None => insert::insert(view, index, item, flags)?,
    };
    Ok((edit, number.reply()))
}

/// Adds to the value of a key by replacing it. Without the key, the delta becomes a new entry.
fn increment_value<'a>(view: CollectionView<'a>, key: Encoded<'a>, by: Number) -> ActionResult<'a> {
    check_key(&key)?;
    let (place, number) = match find_key(&view, &key)? {
        Ok(entry) => (entry, by.added_to(view.value(entry))?),
        Err(gap) => (gap, by),
    };
    let mut entry = key.to_vec();
    number.write(&mut entry);
    let splice = ItemSplice::new(place, Cow::Owned(entry), 1);
    let edit = CollectionEdit::new(view, view.flags, smallvec![splice])?;
    Ok((Some(edit), number.reply()))
}
