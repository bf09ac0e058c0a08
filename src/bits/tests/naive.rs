//! The rules (semantics.md#bits), bit by bit.

use super::*;

pub(super) fn bits(bytes: &[u8]) -> Vec<bool> {
    bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1))
        .collect()
}

pub(super) fn bytes(bits: &[bool]) -> Vec<u8> {
    bits.chunks(8)
        .map(|bits| {
            let byte = bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
            byte << (8 - bits.len())
        })
        .collect()
}

fn unsigned(bits: &[bool]) -> u64 {
    bits.iter()
        .fold(0, |value, bit| value << 1 | u64::from(*bit))
}

fn signed(bits: &[bool]) -> i128 {
    let value = i128::from(unsigned(bits));
    if bits[0] {
        value - (1 << bits.len())
    } else {
        value
    }
}

fn of_integer(value: i128, len: usize) -> Vec<bool> {
    (0..len).rev().map(|bit| value >> bit & 1 == 1).collect()
}

/// The window, or the code of the error if it is outside the blob.
fn place(len: usize, offset: i64, size: u64, partial: bool) -> Result<(usize, usize), u8> {
    let start = if offset < 0 {
        len as i64 + offset
    } else {
        offset
    };
    if start < 0 {
        return Err(4);
    }
    let (start, size) = (start as usize, size as usize);
    if start >= len || (start + size > len && !partial) {
        return Err(26);
    }
    Ok((start, size.min(len - start)))
}

pub(super) fn read(
    blob: &[u8],
    operation: u8,
    offset: i64,
    size: u64,
    argument: bool,
) -> Result<Value, u8> {
    let all = bits(blob);
    let (start, size) = place(all.len(), offset, size, false)?;
    let window = &all[start..start + size];
    let found = |at: Option<usize>| Value::Int(at.map_or(-1, |at| at as i64));
    Ok(match operation {
        code::GET => Value::Blob(bytes(window)),
        code::COUNT => Value::Int(window.iter().filter(|bit| **bit).count() as i64),
        code::LSCAN => found(window.iter().position(|bit| *bit == argument)),
        code::RSCAN => found(window.iter().rposition(|bit| *bit == argument)),
        code::GET_INT if argument => Value::Int(signed(window) as i64),
        _ => Value::Int(unsigned(window).cast_signed()),
    })
}

/// The new bits of a window: `given` are the bits of an argument, `operand` is an integer or a
/// distance.
fn changed(
    old: &[bool],
    operation: u8,
    given: &[bool],
    operand: i64,
    subflags: u64,
) -> Option<Vec<bool>> {
    let each = |combine: fn(bool, bool) -> bool| {
        old.iter()
            .zip(given)
            .map(|(old, new)| combine(*old, *new))
            .collect()
    };
    let len = old.len();
    Some(match operation {
        code::SET => each(|_, new| new),
        code::OR => each(|old, new| old | new),
        code::XOR => each(|old, new| old ^ new),
        code::AND => each(|old, new| old & new),
        code::NOT => old.iter().map(|bit| !bit).collect(),
        code::LSHIFT => (0..len)
            .map(|at| old.get(at + operand as usize).copied().unwrap_or(false))
            .collect(),
        code::RSHIFT => (0..len)
            .map(|at| at.checked_sub(operand as usize).is_some_and(|at| old[at]))
            .collect(),
        code::SET_INT => of_integer(operand.into(), len),
        _ => return sum(old, operation, operand, subflags),
    })
}

fn sum(old: &[bool], operation: u8, operand: i64, subflags: u64) -> Option<Vec<bool>> {
    let len = old.len();
    let subtract = operation == code::SUBTRACT;
    let operand_bits = of_integer(operand.into(), len);
    let (exact, least, most) = if subflags & 1 == 0 {
        let operand = i128::from(unsigned(&operand_bits));
        let old = i128::from(unsigned(old));
        let exact = if subtract {
            old - operand
        } else {
            old + operand
        };
        (exact, 0, (1_i128 << len) - 1)
    } else {
        let operand = signed(&operand_bits);
        let negated = signed(&of_integer(-operand, len));
        let exact = signed(old) + if subtract { negated } else { operand };
        let half = 1_i128 << (len - 1);
        // Exactly twice the least value wraps to 0, which Aerospike does not notice.
        if exact == -2 * half {
            return Some(of_integer(exact, len));
        }
        (exact, -half, half - 1)
    };
    let fits = (least..=most).contains(&exact);
    match subflags & !1 {
        0 if !fits => None,
        2 => Some(of_integer(exact.clamp(least, most), len)),
        _ => Some(of_integer(exact, len)),
    }
}

/// A modification of the bits of a window.
pub(super) fn modify(
    blob: &[u8],
    operation: u8,
    (offset, size): (i64, u64),
    (given, operand): (&[u8], i64),
    (flags, subflags): (u64, u64),
) -> Result<Option<Vec<u8>>, u8> {
    let forgiven = |code| if flags & N == 0 { Err(code) } else { Ok(None) };
    let all = bits(blob);
    let (start, size) = match place(all.len(), offset, size, flags & P != 0) {
        Ok(window) => window,
        Err(26) => return forgiven(26),
        Err(code) => return Err(code),
    };
    let window = &all[start..start + size];
    match changed(window, operation, &bits(given), operand, subflags) {
        Some(new) => Ok(Some(bytes(
            &[&all[..start], &new, &all[start + size..]].concat(),
        ))),
        None => forgiven(26),
    }
}
