//! List operations on one bin.

use super::change::Change;
use crate::cdt::list::{self, ListEdit, ListView, Selector};
use crate::cdt::{CdtError, ListPolicy, ListReturn, MAX_ARGUMENT_ITEMS};
use crate::record::BinName;
use crate::value::{ParticleType, Purpose, Value, encode};
use crate::{Error, Result};

/// An operation on a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ListOperation {
    /// Order and persisted index of the policy.
    SetType(ListPolicy),
    Append(Value, ListPolicy),
    AppendItems(Vec<Value>, ListPolicy),
    Size,
    Get(ListSelector, ListReturn),
    Remove(ListSelector, ListReturn),
}

/// Which elements an operation is about.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ListSelector {
    IndexRange { start: i64, count: u64 },
    Value(Value),
}

impl ListOperation {
    pub(super) const fn is_write(&self) -> bool {
        !matches!(self, Self::Size | Self::Get(..))
    }

    /// Appends the arguments of the operation, encoded, to `arguments`.
    pub(super) fn encode_arguments(&self, bin: &BinName, arguments: &mut Vec<u8>) -> Result<()> {
        let encoded = match self {
            Self::Append(value, _) => encode(value, Purpose::Storage, arguments),
            Self::AppendItems(values, _) => {
                if values.len() > MAX_ARGUMENT_ITEMS {
                    return Err(Error::parameter(format!(
                        "{} items in one operation, the limit is {MAX_ARGUMENT_ITEMS}: split them",
                        values.len()
                    )));
                }
                values
                    .iter()
                    .try_for_each(|value| encode(value, Purpose::Storage, arguments))
            }
            Self::Get(ListSelector::Value(value), _)
            | Self::Remove(ListSelector::Value(value), _) => {
                encode(value, Purpose::Lookup, arguments)
            }
            Self::SetType(_) | Self::Size | Self::Get(..) | Self::Remove(..) => Ok(()),
        };
        encoded.map_err(|error| CdtError::Argument(error).in_bin(bin.as_str()))
    }
}

impl ListSelector {
    const fn with<'v>(&self, value: &'v [u8]) -> Selector<'v> {
        match self {
            Self::IndexRange { start, count } => Selector::IndexRange {
                start: *start,
                count: *count,
            },
            Self::Value(_) => Selector::Value(value),
        }
    }
}

/// Executes an operation that reads a list. `None`: it asked for nothing.
pub(super) fn read(
    operation: &ListOperation,
    bin: &BinName,
    kind: ParticleType,
    value: &[u8],
) -> Result<Option<Value>> {
    check_kind(bin, kind)?;
    let mut arguments = Vec::new();
    operation.encode_arguments(bin, &mut arguments)?;
    let read = ListView::parse(value).and_then(|view| match operation {
        ListOperation::Get(selector, returns) => {
            list::get(&view, selector.with(&arguments), *returns)
        }
        _ => Ok(Some(view.count.into())),
    });
    read.map_err(|error| error.in_bin(bin.as_str()))
}

/// Executes an operation that changes a list, with its arguments encoded beforehand.
pub(super) fn write<'a>(
    operation: &ListOperation,
    bin: &BinName,
    current: Option<(ParticleType, &'a [u8])>,
    arguments: &'a [u8],
) -> Result<(Change<'a>, Option<Value>)> {
    let written = match current {
        Some((kind, value)) => {
            check_kind(bin, kind)?;
            ListView::parse(value).and_then(|view| edit(operation, view, arguments))
        }
        None => create(operation, arguments),
    };
    written.map_err(|error| error.in_bin(bin.as_str()))
}

fn check_kind(bin: &BinName, kind: ParticleType) -> Result<()> {
    if kind == ParticleType::List {
        return Ok(());
    }
    Err(Error::IncompatibleType {
        bin: bin.as_str().into(),
        found: kind.name(),
        operation: "a list operation",
    })
}

/// The change that an operation makes, and its result.
type Written<'a> = std::result::Result<(Change<'a>, Option<Value>), CdtError>;

/// An operation on a list that is there.
fn edit<'a>(operation: &ListOperation, view: ListView<'a>, arguments: &'a [u8]) -> Written<'a> {
    let (edit, result) = match operation {
        ListOperation::SetType(policy) => (list::set_type(view, policy.create_flags())?, None),
        ListOperation::Append(_, policy) => {
            let (edit, count) = list::append(view, arguments, policy.write_flags())?;
            (edit, Some(count.into()))
        }
        ListOperation::AppendItems(_, policy) => {
            let (edit, count) = list::append_items(view, arguments, policy.write_flags())?;
            (edit, Some(count.into()))
        }
        ListOperation::Remove(selector, returns) => {
            list::remove(view, selector.with(arguments), *returns)?
        }
        ListOperation::Size | ListOperation::Get(..) => (None, None),
    };
    Ok((edit.map_or(Change::None, Change::List), result))
}

/// An operation on a missing bin: removals do nothing, everything else creates the list, if only an empty one.
fn create<'a>(operation: &ListOperation, arguments: &'a [u8]) -> Written<'a> {
    let flags = match operation {
        ListOperation::SetType(policy)
        | ListOperation::Append(_, policy)
        | ListOperation::AppendItems(_, policy) => policy.create_flags(),
        ListOperation::Size | ListOperation::Get(..) | ListOperation::Remove(..) => {
            return Ok((Change::None, None));
        }
    };
    let (change, result) = edit(operation, ListView::empty(flags), arguments)?;
    let change = match change {
        Change::None => Change::List(ListEdit::empty(flags)),
        change => change,
    };
    Ok((change, result))
}
