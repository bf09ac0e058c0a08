//! The client's operations on the bits of blobs, by number.

use aerospike::operations::Operation as Theirs;
use aerospike::operations::bitwise::{
    self as theirs, BitPolicy, BitwiseOverflowActions, BitwiseResizeFlags, BitwiseWriteFlags,
};

use super::arguments::{PositionalArguments, unknown};
use crate::bits::code as c;
use crate::{Error, Result};

/// The operation of this number.
pub(super) fn operation(bin: &str, code: i64, a: &PositionalArguments) -> Result<Theirs> {
    let policy = |position| {
        let flags = a.flags(position)?;
        Ok::<_, Error>(BitPolicy::new(BitwiseWriteFlags::from_bits(flags)))
    };
    let window = || Ok::<_, Error>((a.int(0)?, a.int(1)?));
    if c::GET as i64 <= code {
        return read(bin, code, a);
    }
    if code == i64::from(c::RESIZE) {
        let flags = BitwiseResizeFlags::from_bits(a.flags(2)?);
        return Ok(theirs::resize(bin, a.int(0)?, flags, &policy(1)?));
    }
    if code == i64::from(c::INSERT) {
        return Ok(theirs::insert(bin, a.int(0)?, a.value(1)?, &policy(2)?));
    }
    let (at, size) = window()?;
    Ok(match u8::try_from(code).unwrap_or(u8::MAX) {
        c::REMOVE => theirs::remove(bin, at, size, &policy(2)?),
        c::SET => theirs::set(bin, at, size, a.value(2)?, &policy(3)?),
        c::OR => theirs::or(bin, at, size, a.value(2)?, &policy(3)?),
        c::XOR => theirs::xor(bin, at, size, a.value(2)?, &policy(3)?),
        c::AND => theirs::and(bin, at, size, a.value(2)?, &policy(3)?),
        c::NOT => theirs::not(bin, at, size, &policy(2)?),
        c::LSHIFT => theirs::lshift(bin, at, size, a.int(2)?, &policy(3)?),
        c::RSHIFT => theirs::rshift(bin, at, size, a.int(2)?, &policy(3)?),
        c::ADD => {
            let (signed, overflow) = arithmetic(a)?;
            theirs::add(bin, at, size, a.int(2)?, signed, overflow, &policy(3)?)
        }
        c::SUBTRACT => {
            let (signed, overflow) = arithmetic(a)?;
            theirs::subtract(bin, at, size, a.int(2)?, signed, overflow, &policy(3)?)
        }
        c::SET_INT => theirs::set_int(bin, at, size, a.int(2)?, &policy(3)?),
        _ => return Err(unknown(bin, "bits", code)),
    })
}

/// Returns whether the integer has a sign, and the action on an overflow.
fn arithmetic(a: &PositionalArguments) -> Result<(bool, BitwiseOverflowActions)> {
    let flags = a.flags(4)?;
    let overflow = match flags & !1 {
        0 => BitwiseOverflowActions::Fail,
        2 => BitwiseOverflowActions::Saturate,
        4 => BitwiseOverflowActions::Wrap,
        other => {
            return Err(Error::parameter(format!(
                "an overflow of bits has no action {other}: it fails, saturates or wraps"
            )));
        }
    };
    Ok((flags & 1 != 0, overflow))
}

fn read(bin: &str, code: i64, a: &PositionalArguments) -> Result<Theirs> {
    let (at, size) = (a.int(0)?, a.int(1)?);
    Ok(match u8::try_from(code).unwrap_or(u8::MAX) {
        c::GET => theirs::get(bin, at, size),
        c::COUNT => theirs::count(bin, at, size),
        c::LSCAN => theirs::lscan(bin, at, size, a.int(2)? != 0),
        c::RSCAN => theirs::rscan(bin, at, size, a.int(2)? != 0),
        c::GET_INT => theirs::get_int(bin, at, size, a.flags(2)? != 0),
        _ => return Err(unknown(bin, "bits", code)),
    })
}
