//! Operations on the bits of a blob.
//!
//! Bit 0 is the most significant bit of the first byte; integers inside are big-endian; negative
//! offsets count from the end. A call is parsed completely (`arguments`) before the bin is read;
//! then its window is placed on the blob, and the bits are processed 64 at a time (`window`,
//! `integer`).
//!
//! * [`read`] and [`modify`] are the entry points. They take any bytes and never panic.
//! * `policy`: flags for users. `code`: the numbers of the operations.
//!
//! May import calls and the types of bins, but neither records nor names of bins.

mod arguments;
mod integer;
mod policy;
#[cfg(test)]
mod tests;
mod window;

pub(crate) mod code;

pub use policy::{BitOverflow, BitPolicy, BitResizeFlags, BitSign, BitWriteFlags};

pub(crate) use code::bit_operations;
pub(crate) use window::{load as load_bits, store as store_bits};

use self::arguments::{BitModify, BitRange, BitRead, WindowModify};
use self::window::BitWindow;
use crate::call::{CallError, CallReply, PathCall};
use crate::value::ParticleType;

/// The longest blob that an operation makes: the longest that a record can hold. A longer one is
/// refused before its memory is allocated.
const MAX_BLOB_BYTES: u64 = 8 << 20;

/// Checks a call before there is a blob: the numbers of the operation and of its arguments, and that
/// there is no path.
pub(crate) fn check(call: &PathCall<'_>, writes: bool) -> Result<(), CallError> {
    arguments::check(call, writes)
}

/// Executes a reading call. O(bits of the window); a window of whole bytes is not copied.
pub(crate) fn read<'a>(
    (kind, blob): (ParticleType, &'a [u8]),
    call: &PathCall<'_>,
) -> Result<CallReply<'a>, CallError> {
    let (place, read) = arguments::read(call)?;
    check_kind(kind)?;
    let window = place.within(blob)?;
    Ok(match read {
        BitRead::Get => CallReply::Stored(ParticleType::Blob, window::get(blob, window)),
        BitRead::Count => CallReply::Int(window::count(blob, window)),
        BitRead::LeftScan(bit) => CallReply::Int(window::left_scan(blob, window, bit)),
        BitRead::RightScan(bit) => CallReply::Int(window::right_scan(blob, window, bit)),
        BitRead::Integer(sign) => CallReply::Int(integer::get(blob, window, sign)),
    })
}

/// Executes a modifying call. `None` leaves the bin unchanged, or missing. O(bytes of the blob),
/// which is copied.
pub(crate) fn modify(
    current: Option<(ParticleType, &[u8])>,
    call: &PathCall<'_>,
) -> Result<Option<Vec<u8>>, CallError> {
    let (modify, flags) = arguments::modify(call)?;
    let no_fail = flags.contains(BitWriteFlags::NO_FAIL);
    let forgive = |error| if no_fail { Ok(None) } else { Err(error) };
    let blob = match current {
        Some(_) if flags.contains(BitWriteFlags::CREATE_ONLY) => {
            return forgive(CallError::BinExists);
        }
        Some((kind, blob)) => {
            check_kind(kind)?;
            Some(blob)
        }
        None if !modify.creates() || flags.contains(BitWriteFlags::UPDATE_ONLY) => {
            return forgive(CallError::BinNotFound);
        }
        None => None,
    };
    let partial = flags.contains(BitWriteFlags::PARTIAL);
    match modified(&modify, blob, partial)? {
        BitsModified::Changed(blob) => Ok(Some(blob)),
        BitsModified::Same => Ok(None),
        BitsModified::Refused(error) => forgive(error),
    }
}

/// The result of a modification that passed its policy.
enum BitsModified {
    Changed(Vec<u8>),
    Same,
    /// Impossible for this blob; `NO_FAIL` leaves the bin unchanged then.
    Refused(CallError),
}

fn modified(
    modify: &BitModify<'_>,
    blob: Option<&[u8]>,
    partial: bool,
) -> Result<BitsModified, CallError> {
    match modify {
        BitModify::Resize { bytes, flags } => resize(blob.unwrap_or_default(), *bytes, *flags),
        BitModify::Insert { at, bytes } => insert(at.byte(blob)?, blob.unwrap_or_default(), bytes),
        BitModify::Remove(place) => remove(*place, blob.unwrap_or_default(), partial),
        BitModify::Window(place, modify) => {
            let blob = blob.unwrap_or_default();
            let window = match place.within(blob) {
                Ok(window) => window,
                Err(error @ CallError::NotApplicable(_)) => match place.clipped(blob)? {
                    Some(window) if partial => window,
                    _ => return Ok(BitsModified::Refused(error)),
                },
                Err(error) => return Err(error),
            };
            Ok(in_window(modify, blob, window))
        }
    }
}

fn resize(blob: &[u8], bytes: u64, flags: BitResizeFlags) -> Result<BitsModified, CallError> {
    let len = checked_len(bytes)?;
    let (grows, shrinks) = (len > blob.len(), len < blob.len());
    if shrinks && flags.contains(BitResizeFlags::GROW_ONLY) {
        return Ok(BitsModified::Refused(CallError::parameter(format!(
            "GROW_ONLY: the blob has {} bytes and would shrink to {bytes}",
            blob.len()
        ))));
    }
    if grows && flags.contains(BitResizeFlags::SHRINK_ONLY) {
        return Ok(BitsModified::Refused(CallError::parameter(format!(
            "SHRINK_ONLY: the blob has {} bytes and would grow to {bytes}",
            blob.len()
        ))));
    }
    if !grows && !shrinks {
        return Ok(BitsModified::Same);
    }
    let kept = len.min(blob.len());
    let mut out = Vec::with_capacity(len);
    if flags.contains(BitResizeFlags::FROM_FRONT) {
        out.resize(len - kept, 0);
        let (_, back) = blob.split_at(blob.len() - kept);
        out.extend_from_slice(back);
    } else {
        let (front, _) = blob.split_at(kept);
        out.extend_from_slice(front);
        out.resize(len, 0);
    }
    Ok(BitsModified::Changed(out))
}

fn insert(at: u64, blob: &[u8], bytes: &[u8]) -> Result<BitsModified, CallError> {
    let end = at.max(blob.len() as u64);
    let len = checked_len(end + bytes.len() as u64)?;
    let at = at as usize;
    let (front, back) = blob.split_at(at.min(blob.len()));
    let mut out = Vec::with_capacity(len);
    out.extend_from_slice(front);
    out.resize(at, 0);
    out.extend_from_slice(bytes);
    out.extend_from_slice(back);
    Ok(BitsModified::Changed(out))
}

fn remove(place: BitRange, blob: &[u8], partial: bool) -> Result<BitsModified, CallError> {
    let window = match (place.within(blob), place.clipped(blob)?) {
        (Ok(window), _) => window,
        (Err(_), Some(window)) if partial => window,
        _ => {
            return Ok(BitsModified::Refused(CallError::parameter(
                "the bytes to remove reach beyond the end of the blob: add PARTIAL to remove the bytes before it",
            )));
        }
    };
    let (front, rest) = blob.split_at(window.offset / 8);
    let (_, back) = rest.split_at(window.size / 8);
    Ok(BitsModified::Changed([front, back].concat()))
}

fn in_window(modify: &WindowModify<'_>, blob: &[u8], window: BitWindow) -> BitsModified {
    let mut out = blob.to_vec();
    match modify {
        WindowModify::Set(bytes) => window::combine(&mut out, window, bytes, |_, new| new),
        WindowModify::Or(bytes) => window::combine(&mut out, window, bytes, |old, new| old | new),
        WindowModify::Xor(bytes) => window::combine(&mut out, window, bytes, |old, new| old ^ new),
        WindowModify::And(bytes) => window::combine(&mut out, window, bytes, |old, new| old & new),
        WindowModify::Not => window::negate(&mut out, window),
        WindowModify::LeftShift(by) => window::left_shift(&mut out, blob, window, *by),
        WindowModify::RightShift(by) => window::right_shift(&mut out, blob, window, *by),
        WindowModify::SetInteger(value) => integer::set(&mut out, window, *value),
        WindowModify::Arithmetic(arithmetic) => {
            match arithmetic.apply(integer::load(blob, window), window.size) {
                Some(value) => integer::set(&mut out, window, value),
                None => {
                    return BitsModified::Refused(CallError::NotApplicable(
                        "the sum does not fit its bits: choose to saturate or to wrap",
                    ));
                }
            }
        }
    }
    BitsModified::Changed(out)
}

/// Returns a length in bytes, if a blob may have it.
fn checked_len(bytes: u64) -> Result<usize, CallError> {
    if bytes > MAX_BLOB_BYTES {
        return Err(CallError::parameter(format!(
            "a blob of {bytes} bytes: at most {MAX_BLOB_BYTES} are possible"
        )));
    }
    Ok(bytes as usize)
}

fn check_kind(kind: ParticleType) -> Result<(), CallError> {
    if kind == ParticleType::Blob {
        return Ok(());
    }
    Err(CallError::WrongType {
        found: kind,
        operation: "a bit operation",
    })
}
