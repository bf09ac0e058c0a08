//! Arguments of operations on lists and maps, in the form in which they are executed, shared by
//! their constructors.

use std::cell::RefCell;

use super::super::Operation;
use crate::call::{CallError, CallSystem, CallWriter, MAX_ARGUMENT_ITEMS};
use crate::cdt::{Action, Encoded, Items, MapPolicy, Number, PreparedCall, Returns, Selector};
use crate::value::msgpack::EncodedInt;
use crate::value::{Container, EncodePurpose, Map, MapOrder, Value, encode};

/// No limit to the items of a range.
pub(super) const ALL: u64 = u64::MAX;

pub(super) type Argument<T> = Result<T, CallError>;

/// A buffer that has grown beyond this is not kept.
const ENCODED_BYTES_KEPT: usize = 4096;

thread_local! {
    /// Where values are encoded that are then copied.
    static ENCODED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// An operation on a list or map.
pub(super) fn collection(bin: &str, code: u8, action: Argument<Action<'static>>) -> Operation {
    let call = action.and_then(|action| PreparedCall::new(code, action));
    Operation::on_collection(bin, code, call)
}

/// Returns an operation that reads or removes the selected items.
#[inline]
pub(super) fn select(
    bin: &str,
    code: u8,
    selector: Argument<Selector<'static>>,
    returns: Returns,
) -> Operation {
    let call = selector.and_then(|selector| PreparedCall::selecting(code, selector, returns));
    Operation::on_collection(bin, code, call)
}

/// Returns an operation that reads or removes the selected items, and returns what the table fixes.
pub(super) fn fixed(bin: &str, code: u8, selector: Argument<Selector<'static>>) -> Operation {
    let call = selector.and_then(|selector| PreparedCall::selecting_fixed(code, selector));
    Operation::on_collection(bin, code, call)
}

fn encoded<const N: usize>(
    values: [&Value; N],
    purpose: EncodePurpose,
) -> Argument<Encoded<'static>> {
    if let [Value::Int(value)] = values.as_slice() {
        return Ok(Encoded::copy(&EncodedInt::of(*value)));
    }
    // A thread that is ending has no buffer any more.
    let mut out = ENCODED.try_with(RefCell::take).unwrap_or_default();
    out.clear();
    let mut values = values.into_iter();
    let encoded = values.try_for_each(|value| encode(value, purpose, &mut out));
    let encoded = encoded.map(|()| Encoded::copy(&out));
    if out.capacity() <= ENCODED_BYTES_KEPT {
        let _ = ENCODED.try_with(|kept| kept.replace(out));
    }
    encoded.map_err(CallError::Argument)
}

fn encoded_several(values: &[Value], purpose: EncodePurpose) -> Argument<Vec<u8>> {
    if values.len() > MAX_ARGUMENT_ITEMS {
        return Err(too_many(values.len()));
    }
    // Most are short.
    let mut out = Vec::with_capacity(8 * values.len());
    for value in values {
        encode(value, purpose, &mut out).map_err(CallError::Argument)?;
    }
    Ok(out)
}

fn too_many(items: usize) -> CallError {
    CallError::parameter(format!(
        "{items} items in one operation, the limit is {MAX_ARGUMENT_ITEMS}: split them"
    ))
}

/// A value that is looked for.
pub(super) fn sought(value: impl Into<Value>) -> Argument<Encoded<'static>> {
    encoded([&value.into()], EncodePurpose::Lookup)
}

/// Several values that are looked for.
pub(super) fn sought_several(values: &[Value]) -> Argument<Encoded<'static>> {
    encoded_several(values, EncodePurpose::Lookup).map(|values| Encoded::Long(values.into()))
}

/// Begin and end of an interval, both of them open if they are missing.
pub(super) fn interval(
    begin: Option<Value>,
    end: Option<Value>,
) -> Argument<(Encoded<'static>, Option<Encoded<'static>>)> {
    Ok((
        sought(begin.unwrap_or(Value::Nil))?,
        end.map(sought).transpose()?,
    ))
}

/// A value that will be an element of a list.
pub(super) fn stored(value: impl Into<Value>) -> Argument<Items<'static>> {
    encoded([&value.into()], EncodePurpose::Storage).map(Items::one)
}

/// Several values that will be elements of a list.
pub(super) fn stored_several(values: &[Value]) -> Argument<Items<'static>> {
    let bytes = encoded_several(values, EncodePurpose::Storage)?;
    Ok(Items::of_several(values.len() as u32, bytes))
}

/// A key and a value that will be an entry of a map.
pub(super) fn stored_entry(
    key: impl Into<Value>,
    value: impl Into<Value>,
) -> Argument<Items<'static>> {
    encoded([&key.into(), &value.into()], EncodePurpose::Storage).map(Items::one)
}

/// Keys and values that will be entries of a map, in the order of the keys.
pub(super) fn stored_entries(entries: Vec<(Value, Value)>) -> Argument<Items<'static>> {
    if entries.len() > MAX_ARGUMENT_ITEMS {
        return Err(too_many(entries.len()));
    }
    let map = Value::Map(Map::new(entries, MapOrder::Unordered));
    let mut bytes = encoded_several(&[map], EncodePurpose::Storage)?;
    let head = Container::map(&bytes).map_err(CallError::Argument)?;
    let (count, start) = (head.count, bytes.len() - head.content.len());
    bytes.drain(..start);
    Ok(Items::of_several(count, bytes))
}

/// A number that is added; nil is 1, as in Aerospike. `None` for anything else, which is refused
/// when it is executed.
pub(super) const fn number(delta: &Value) -> Option<Number> {
    match delta {
        Value::Nil => Some(Number::Int(1)),
        Value::Int(delta) => Some(Number::Int(*delta)),
        Value::Float(delta) => Some(Number::Float(*delta)),
        _ => None,
    }
}

/// Returns an operation on a list or map that parses its arguments when it is executed.
pub(super) fn unread(bin: &str, call: CallWriter) -> Operation {
    Operation::on_call(bin, CallSystem::Collections, true, call.finish())
}

/// Adds to the value of a key, or subtracts from it.
pub(super) fn increment(
    policy: &MapPolicy,
    bin: &str,
    code: u8,
    key: &Value,
    (delta, by): (&Value, Option<Number>),
) -> Operation {
    let create = policy.create_flags();
    let Some(by) = by else {
        let call = CallWriter::new(code).value(key, EncodePurpose::Storage);
        let call = call.value(delta, EncodePurpose::Storage);
        return unread(bin, call.uint(u64::from(create)));
    };
    let key = encoded([key], EncodePurpose::Storage);
    let action = key.map(|key| Action::IncrementValue { key, by, create });
    collection(bin, code, action)
}

/// Returns the type of a selection's argument.
macro_rules! argument {
    (count) => { u64 };
    (key) => { impl Into<Value> };
    (value) => { impl Into<Value> };
    (keys) => { Vec<Value> };
    (values) => { Vec<Value> };
    (begin) => { Option<Value> };
    (end) => { Option<Value> };
    ($position:ident) => { i64 };
}

/// Returns the selector with these arguments. Without a count, it selects all items to the end.
macro_rules! selector {
    (Index $index:ident) => { Ok(Selector::Index($index)) };
    (IndexRange $start:ident) => { selector!(IndexRange $start ALL) };
    (IndexRange $start:ident $count:ident) => { Ok(Selector::IndexRange { start: $start, count: $count }) };
    (Rank $rank:ident) => { Ok(Selector::Rank($rank)) };
    (RankRange $start:ident) => { selector!(RankRange $start ALL) };
    (RankRange $start:ident $count:ident) => { Ok(Selector::RankRange { start: $start, count: $count }) };
    (Key $key:ident) => { sought($key).map(Selector::Key) };
    (Keys $keys:ident) => { sought_several(&$keys).map(Selector::Keys) };
    (KeyInterval $begin:ident $end:ident) => { interval($begin, $end).map(|(begin, end)| Selector::KeyInterval(begin, end)) };
    (KeyRelative $key:ident $index:ident) => { selector!(KeyRelative $key $index ALL) };
    (KeyRelative $key:ident $index:ident $count:ident) => { sought($key).map(|key| Selector::KeyRelative { key, index: $index, count: $count }) };
    (Value $value:ident) => { sought($value).map(Selector::Value) };
    (Values $values:ident) => { sought_several(&$values).map(Selector::Values) };
    (ValueInterval $begin:ident $end:ident) => { interval($begin, $end).map(|(begin, end)| Selector::ValueInterval(begin, end)) };
    (ValueRelative $value:ident $rank:ident) => { selector!(ValueRelative $value $rank ALL) };
    (ValueRelative $value:ident $rank:ident $count:ident) => { sought($value).map(|value| Selector::ValueRelative { value, rank: $rank, count: $count }) };
}

/// Defines a function that reads or removes the selected items.
macro_rules! selecting {
    ($name:ident $code:ident $returns:ident $selector:ident($($argument:ident),*) $doc:expr) => {
        #[doc = $doc]
        #[must_use]
        pub fn $name(bin: &str, $($argument: argument!($argument),)* returns: impl Into<$returns>) -> Operation {
            let returns: $returns = returns.into();
            let selector = selector!($selector $($argument)*);
            arguments::select(bin, code::$code, selector, returns.into())
        }
    };
}

/// Defines a function that reads the selected items, and one that removes them, for each row.
/// `$returns`: the return type.
macro_rules! reading_and_removing {
    ($returns:ident; $($get:ident $get_code:ident, $remove:ident $remove_code:ident, $selector:ident $arguments:tt, $what:literal, $costs:literal;)*) => {
        $(
            selecting! {
                $get $get_code $returns $selector $arguments
                concat!("Selects ", $what, "; `returns` says what the result holds. ", $costs)
            }
            selecting! {
                $remove $remove_code $returns $selector $arguments
                concat!(
                    "Removes ", $what, "; `returns` says what the result holds about them, as they were before. Costs as [`",
                    stringify!($get), "`]."
                )
            }
        )*
    };
}

pub(super) use {argument, reading_and_removing, selecting, selector};
