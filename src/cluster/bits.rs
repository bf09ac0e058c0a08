//! The client's operations on the bits of blobs, by number.

use aerospike::operations::Operation as Theirs;
use aerospike::operations::bitwise::{
    self as theirs, BitPolicy, BitwiseOverflowActions, BitwiseResizeFlags, BitwiseWriteFlags,
};

use super::arguments::{PositionalArguments, operations, unknown};
use crate::bits::code as c;
use crate::{Error, Result};

operations! {
    "bits", [];
    RESIZE resize(int 0, resize_flags 2; &bit_policy 1);
    INSERT insert(int 0, value 1; &bit_policy 2);
    REMOVE remove(int 0, int 1; &bit_policy 2);
    SET set(int 0, int 1, value 2; &bit_policy 3);
    OR or(int 0, int 1, value 2; &bit_policy 3);
    XOR xor(int 0, int 1, value 2; &bit_policy 3);
    AND and(int 0, int 1, value 2; &bit_policy 3);
    NOT not(int 0, int 1; &bit_policy 2);
    LSHIFT lshift(int 0, int 1, int 2; &bit_policy 3);
    RSHIFT rshift(int 0, int 1, int 2; &bit_policy 3);
    ADD add(int 0, int 1, int 2, flag 4, overflow 4; &bit_policy 3);
    SUBTRACT subtract(int 0, int 1, int 2, flag 4, overflow 4; &bit_policy 3);
    SET_INT set_int(int 0, int 1, int 2; &bit_policy 3);
    GET get(int 0, int 1);
    COUNT count(int 0, int 1);
    LSCAN lscan(int 0, int 1, flag 2);
    RSCAN rscan(int 0, int 1, flag 2);
    GET_INT get_int(int 0, int 1, flag 2);
}

impl PositionalArguments {
    fn bit_policy(&self, position: usize) -> Result<BitPolicy> {
        let flags = self.flags(position)?;
        Ok(BitPolicy::new(BitwiseWriteFlags::from_bits(flags)))
    }

    fn resize_flags(&self, position: usize) -> Result<BitwiseResizeFlags> {
        self.flags(position).map(BitwiseResizeFlags::from_bits)
    }

    /// A truth value, or whether an integer has a sign: the lowest flag.
    fn flag(&self, position: usize) -> Result<bool> {
        Ok(self.flags(position)? & 1 != 0)
    }

    /// The action on an overflow: the flags above the lowest.
    fn overflow(&self, position: usize) -> Result<BitwiseOverflowActions> {
        match self.flags(position)? & !1 {
            0 => Ok(BitwiseOverflowActions::Fail),
            2 => Ok(BitwiseOverflowActions::Saturate),
            4 => Ok(BitwiseOverflowActions::Wrap),
            other => Err(Error::parameter(format!(
                "an overflow of bits has no action {other}: it fails, saturates or wraps"
            ))),
        }
    }
}
