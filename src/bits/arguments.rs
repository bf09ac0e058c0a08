//! Parsing of bit operations: the operation and its range.

use super::code;
use super::integer::{Arithmetic, MAX_INTEGER_BITS};
use super::policy::{BitOverflow, BitResizeFlags, BitSign, BitWriteFlags};
use super::window::BitWindow;
use crate::call::{CallArguments, CallError, PathCall};

/// Offsets and sizes beyond this many bytes are refused for every blob: Aerospike's limit of a
/// message.
const MAX_BYTES: u64 = 128 << 20;

/// A range of bits as in a call: the offset may count from the end, and the blob may be too short
/// for the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BitRange {
    /// In bits, at most [`MAX_BYTES`] from 0.
    offset: i64,
    /// In bits, more than 0.
    size: u64,
}

/// A byte offset as in a call: a negative one counts from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteOffset(i64);

/// An operation that reads its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BitRead {
    Get,
    Count,
    LeftScan(bool),
    RightScan(bool),
    Integer(BitSign),
}

/// An operation that changes a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BitModify<'a> {
    Resize { bytes: u64, flags: BitResizeFlags },
    Insert { at: ByteOffset, bytes: &'a [u8] },
    Remove(BitRange),
    Window(BitRange, WindowModify<'a>),
}

/// An operation that changes the bits of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowModify<'a> {
    // The bytes of these four cover the call's window at least.
    Set(&'a [u8]),
    Or(&'a [u8]),
    Xor(&'a [u8]),
    And(&'a [u8]),
    Not,
    LeftShift(usize),
    RightShift(usize),
    Arithmetic(Arithmetic),
    SetInteger(u64),
}

impl BitModify<'_> {
    /// Returns whether the operation creates a missing bin.
    pub(super) const fn creates(&self) -> bool {
        matches!(self, Self::Resize { .. } | Self::Insert { .. })
    }
}

impl BitRange {
    /// Returns the first bit, counted from the front of a blob of `len` bits.
    fn start(self, len: u64) -> Result<u64, CallError> {
        let start = if self.offset < 0 {
            len.checked_sub(self.offset.unsigned_abs())
        } else {
            Some(self.offset.unsigned_abs())
        };
        start.ok_or_else(|| {
            CallError::parameter(format!(
                "offset {} is before the front of a blob of {len} bits",
                self.offset
            ))
        })
    }

    /// Returns the window on a blob, or [`CallError::NotApplicable`] if it reaches beyond the blob.
    pub(super) fn within(self, blob: &[u8]) -> Result<BitWindow, CallError> {
        let len = blob.len() as u64 * 8;
        let start = self.start(len)?;
        if start + self.size > len {
            return Err(CallError::NotApplicable(
                "the bits reach beyond the end of the blob: resize it first, or add PARTIAL where that is allowed",
            ));
        }
        Ok(BitWindow {
            offset: start as usize,
            size: self.size as usize,
        })
    }

    /// Returns the part of the window inside the blob, if there is any.
    pub(super) fn clipped(self, blob: &[u8]) -> Result<Option<BitWindow>, CallError> {
        let len = blob.len() as u64 * 8;
        let start = self.start(len)?;
        Ok((start < len).then(|| BitWindow {
            offset: start as usize,
            size: self.size.min(len - start) as usize,
        }))
    }
}

impl ByteOffset {
    /// Returns the byte offset from the front. Without a blob, an offset from the end is refused.
    pub(super) fn byte(self, blob: Option<&[u8]>) -> Result<u64, CallError> {
        match blob {
            None if self.0 < 0 => Err(CallError::parameter(
                "a negative offset counts from the end, and the bin does not exist",
            )),
            blob => BitRange {
                offset: self.0 * 8,
                size: 8,
            }
            .start(blob.map_or(0, |blob| blob.len() as u64 * 8))
            .map(|bit| bit / 8),
        }
    }
}

/// Fails unless the call has no path, the number of an operation that reads or `writes`, and as
/// many arguments as that takes.
pub(super) fn check(call: &PathCall<'_>, writes: bool) -> Result<(), CallError> {
    let (operation, _) = begin(call)?;
    let does = if writes { "modifies" } else { "reads" };
    let counts = code::argument_counts(operation, writes);
    call.check_count(counts.ok_or_else(|| unknown(call.operation, does))?)
}

/// Parses a reading call.
pub(super) fn read(call: &PathCall<'_>) -> Result<(BitRange, BitRead), CallError> {
    let (operation, mut arguments) = begin(call)?;
    let arguments = &mut arguments;
    let (place, read) = match operation {
        code::GET => (bit_place(arguments)?, BitRead::Get),
        code::COUNT => (bit_place(arguments)?, BitRead::Count),
        code::LSCAN => (bit_place(arguments)?, BitRead::LeftScan(arguments.bool()?)),
        code::RSCAN => (bit_place(arguments)?, BitRead::RightScan(arguments.bool()?)),
        code::GET_INT => {
            let place = integer_place(arguments)?;
            let flags = arguments.uint_or_zero()?;
            let sign = BitSign::from_bits(flags).ok_or_else(|| bad_flags("get_int", flags))?;
            (place, BitRead::Integer(sign))
        }
        _ => return Err(unknown(call.operation, "reads")),
    };
    arguments.end()?;
    Ok((place, read))
}

/// Parses a modifying call.
pub(super) fn modify<'a>(call: &PathCall<'a>) -> Result<(BitModify<'a>, BitWriteFlags), CallError> {
    let (operation, mut arguments) = begin(call)?;
    let arguments = &mut arguments;
    let create = BitWriteFlags::CREATE_ONLY | BitWriteFlags::UPDATE_ONLY | BitWriteFlags::NO_FAIL;
    let partial = BitWriteFlags::UPDATE_ONLY | BitWriteFlags::NO_FAIL | BitWriteFlags::PARTIAL;
    let whole = BitWriteFlags::UPDATE_ONLY | BitWriteFlags::NO_FAIL;
    // Every arm reads its arguments in the order of the encoding, so flags come after the operands.
    let (mut modify, allowed) = match operation {
        code::RESIZE => {
            let (bytes, flags) = (byte_size(arguments)?, BitResizeFlags::empty());
            (BitModify::Resize { bytes, flags }, create)
        }
        code::INSERT => {
            let at = ByteOffset(offset(arguments, 1)?);
            let bytes = blob(arguments, 0)?;
            (BitModify::Insert { at, bytes }, create)
        }
        code::REMOVE => {
            let offset = offset(arguments, 1)? * 8;
            let size = not_empty(byte_size(arguments)?)? * 8;
            (BitModify::Remove(BitRange { offset, size }), partial)
        }
        code::ADD | code::SUBTRACT | code::SET_INT => {
            let place = integer_place(arguments)?;
            let value = arguments.uint()?;
            let modify = match operation {
                code::SET_INT => WindowModify::SetInteger(value),
                _ => WindowModify::Arithmetic(Arithmetic {
                    value,
                    subtract: operation == code::SUBTRACT,
                    sign: BitSign::default(),
                    overflow: BitOverflow::default(),
                }),
            };
            (BitModify::Window(place, modify), whole)
        }
        code::SET | code::OR | code::XOR | code::AND => {
            let place = bit_place(arguments)?;
            let bytes = blob(arguments, place.size)?;
            let modify = match operation {
                code::SET => WindowModify::Set(bytes),
                code::OR => WindowModify::Or(bytes),
                code::XOR => WindowModify::Xor(bytes),
                _ => WindowModify::And(bytes),
            };
            (BitModify::Window(place, modify), partial)
        }
        code::NOT => {
            let place = bit_place(arguments)?;
            (BitModify::Window(place, WindowModify::Not), partial)
        }
        code::LSHIFT | code::RSHIFT => {
            let place = bit_place(arguments)?;
            let by = at_most(arguments.uint()?, MAX_BYTES * 8, "shift by")? as usize;
            let modify = match operation {
                code::LSHIFT => WindowModify::LeftShift(by),
                _ => WindowModify::RightShift(by),
            };
            (BitModify::Window(place, modify), partial)
        }
        _ => return Err(unknown(call.operation, "modifies")),
    };
    let both = BitWriteFlags::CREATE_ONLY | BitWriteFlags::UPDATE_ONLY;
    let write_flags = arguments.flags(allowed, both)?;
    // Arguments of single operations come after the flags of the write.
    match &mut modify {
        BitModify::Resize { flags, .. } => {
            let both = BitResizeFlags::GROW_ONLY | BitResizeFlags::SHRINK_ONLY;
            *flags = arguments.flags(BitResizeFlags::all(), both)?;
        }
        BitModify::Window(_, WindowModify::Arithmetic(arithmetic)) => {
            let bits = arguments.uint_or_zero()?;
            (arithmetic.sign, arithmetic.overflow) = BitOverflow::with_sign_from_bits(bits)
                .ok_or_else(|| bad_flags("add and subtract", bits))?;
        }
        _ => {}
    }
    arguments.end()?;
    Ok((modify, write_flags))
}

/// Returns number and arguments of a call without a path; an unknown number becomes the greatest
/// one.
fn begin<'a>(call: &PathCall<'a>) -> Result<(u8, CallArguments<'a>), CallError> {
    if call.path.levels() > 0 {
        return Err(CallError::parameter(
            "bit operations work on whole bins: a context cannot be given",
        ));
    }
    let operation = u8::try_from(call.operation).unwrap_or(u8::MAX);
    Ok((operation, call.arguments))
}

fn unknown(operation: i64, does: &str) -> CallError {
    CallError::parameter(format!(
        "{operation} is not the number of a bit operation that {does}"
    ))
}

fn bad_flags(operation: &str, flags: u64) -> CallError {
    CallError::parameter(format!("flags {flags:#x} are not allowed for {operation}"))
}

fn at_most(value: u64, limit: u64, what: &str) -> Result<u64, CallError> {
    if value > limit {
        return Err(CallError::parameter(format!(
            "{what} {value}: at most {limit}"
        )));
    }
    Ok(value)
}

fn not_empty(size: u64) -> Result<u64, CallError> {
    match size {
        0 => Err(CallError::parameter("a size of 0: at least 1")),
        size => Ok(size),
    }
}

/// Takes an offset in units of which a byte has `in_byte`.
fn offset(arguments: &mut CallArguments<'_>, in_byte: u64) -> Result<i64, CallError> {
    let offset = arguments.int()?;
    at_most(offset.unsigned_abs(), MAX_BYTES * in_byte, "an offset of")?;
    Ok(offset)
}

fn byte_size(arguments: &mut CallArguments<'_>) -> Result<u64, CallError> {
    at_most(arguments.uint()?, MAX_BYTES, "a size in bytes of")
}

fn bit_place(arguments: &mut CallArguments<'_>) -> Result<BitRange, CallError> {
    let offset = offset(arguments, 8)?;
    let size = at_most(arguments.uint()?, MAX_BYTES * 8, "a size in bits of")?;
    Ok(BitRange {
        offset,
        size: not_empty(size)?,
    })
}

fn integer_place(arguments: &mut CallArguments<'_>) -> Result<BitRange, CallError> {
    let place = bit_place(arguments)?;
    at_most(
        place.size,
        MAX_INTEGER_BITS,
        "the size in bits of an integer is",
    )?;
    Ok(place)
}

/// Takes a blob that is not empty and has at least `bits` bits.
fn blob<'a>(arguments: &mut CallArguments<'a>, bits: u64) -> Result<&'a [u8], CallError> {
    let bytes = arguments.bytes()?;
    if bytes.is_empty() {
        return Err(CallError::parameter("an empty blob where bits are needed"));
    }
    if (bytes.len() as u64) * 8 < bits {
        return Err(CallError::parameter(format!(
            "a blob of {} bytes for {bits} bits: give all of them",
            bytes.len()
        )));
    }
    Ok(bytes)
}
