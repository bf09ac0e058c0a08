//! The operations of a message as bytes.
//!
//! ```text
//! operation = size: u32 (all that follows), code: u8, value type: u8, flags: u8, name length: u8, name,
//!             (time: u64, if flag 1), value
//! ```

use super::bytes::UnreadBytes;

/// The codes of operations.
pub(crate) mod code {
    pub(crate) const READ: u8 = 1;
    pub(crate) const WRITE: u8 = 2;
    pub(crate) const CDT_READ: u8 = 3;
    pub(crate) const CDT_MODIFY: u8 = 4;
    pub(crate) const ADD: u8 = 5;
    pub(crate) const EXP_READ: u8 = 7;
    pub(crate) const EXP_MODIFY: u8 = 8;
    pub(crate) const APPEND: u8 = 9;
    pub(crate) const PREPEND: u8 = 10;
    pub(crate) const TOUCH: u8 = 11;
    pub(crate) const BITS_READ: u8 = 12;
    pub(crate) const BITS_MODIFY: u8 = 13;
    pub(crate) const DELETE_ALL: u8 = 14;
    pub(crate) const HLL_READ: u8 = 15;
    pub(crate) const HLL_MODIFY: u8 = 16;

    /// Whether an operation of this code reads.
    pub(crate) const fn reads(code: u8) -> bool {
        matches!(code, READ | CDT_READ | EXP_READ | BITS_READ | HLL_READ)
    }
}

/// The shortest operation: its size, code, type, flags and name length.
const OP_BYTES_MIN: usize = 8;

/// A time follows the name; only replicas send it.
const FLAG_HAS_TIME: u8 = 1;

/// One operation as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireOp<'a> {
    pub(crate) code: u8,
    /// The number of the value's type.
    pub(crate) kind: u8,
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// The operations of a message, checked: none reaches beyond its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ops<'a> {
    bytes: &'a [u8],
    count: u16,
}

impl<'a> Ops<'a> {
    /// Takes `count` operations off the front of `cursor`; `None` if they are malformed.
    pub(crate) fn parse(cursor: &mut UnreadBytes<'a>, count: u16) -> Option<Self> {
        let all = cursor.0;
        if usize::from(count) > all.len() / OP_BYTES_MIN {
            return None;
        }
        for _ in 0..count {
            next(cursor)?;
        }
        let bytes = all.get(..all.len() - cursor.len())?;
        Some(Self { bytes, count })
    }

    /// True if there are none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The operations, in their order.
    pub(crate) const fn iter(&self) -> OpIter<'a> {
        OpIter(UnreadBytes(self.bytes))
    }
}

/// Iterates over [`Ops`].
#[derive(Clone, Debug)]
pub(crate) struct OpIter<'a>(UnreadBytes<'a>);

impl<'a> Iterator for OpIter<'a> {
    type Item = WireOp<'a>;

    fn next(&mut self) -> Option<WireOp<'a>> {
        next(&mut self.0)
    }
}

/// The next operation.
fn next<'a>(cursor: &mut UnreadBytes<'a>) -> Option<WireOp<'a>> {
    let mut rest = UnreadBytes(cursor.long()?);
    let (code, kind, flags) = (rest.u8()?, rest.u8()?, rest.u8()?);
    let name = rest.short()?;
    if flags & FLAG_HAS_TIME != 0 {
        rest.u64()?;
    }
    Some(WireOp {
        code,
        kind,
        name,
        value: rest.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_in_their_order() {
        let bytes = b"\0\0\0\x05\x01\0\0\x01i\0\0\0\x06\x02\x03\0\x01sx\0\0\0\x0e\x02\x03\x01\x01s........x";
        let mut cursor = UnreadBytes(bytes);
        let ops = Ops::parse(&mut cursor, 3).unwrap();
        assert!(cursor.is_empty());
        let read = WireOp {
            code: code::READ,
            kind: 0,
            name: b"i",
            value: b"",
        };
        let write = WireOp {
            code: code::WRITE,
            kind: 3,
            name: b"s",
            value: b"x",
        };
        assert!(ops.iter().eq([read, write, write]));
    }

    #[test]
    fn malformed_operations_are_refused() {
        let table: [&[u8]; 5] = [
            b"\0\0\0\x03\x01\0\0\0",
            b"\0\0\0\x05\x01\0\0\x02i",
            b"\0\0\0\x06\x01\0\0\x01i",
            b"\0\0\0\x05\x01\0\x01\x01i",
            b"\0\0",
        ];
        for bytes in table {
            assert!(Ops::parse(&mut UnreadBytes(bytes), 1).is_none());
        }
    }
}
