//! Results of operations on their way into an answer: copied from the record's bytes to the client's without decoding.

use super::ops::{OpIter, code};
use super::reply::MessageReply;
use crate::operation::ResultSink;
use crate::record::BinName;
use crate::{Result, call};

/// Takes results into an answer, in the order of the operations.
#[derive(Debug)]
pub(crate) struct WireResults<'r, 'o, 'b> {
    reply: &'r mut MessageReply<'o, 'b>,
    /// The operations that have no results yet, if the answer names each operation's code.
    ops: Option<OpIter<'r>>,
    /// How many operations were passed.
    passed: usize,
    /// The code of the last of them.
    code: u8,
}

impl<'r, 'o, 'b> WireResults<'r, 'o, 'b> {
    /// Results say by which operation they came if `ops` are given, or else that they were read.
    pub(crate) const fn new(reply: &'r mut MessageReply<'o, 'b>, ops: Option<OpIter<'r>>) -> Self {
        Self {
            reply,
            ops,
            passed: 0,
            code: code::READ,
        }
    }
}

impl ResultSink for WireResults<'_, '_, '_> {
    fn add(&mut self, operation: usize, bin: &BinName, reply: call::CallReply<'_>) -> Result<()> {
        if let Some(ops) = &mut self.ops {
            // An operation may have several results, or none.
            for op in ops.take((operation + 1).saturating_sub(self.passed)) {
                self.passed += 1;
                self.code = op.code;
            }
        }
        let (kind, stored) = reply.into_stored()?;
        self.reply.op(self.code, bin.as_bytes(), kind, &stored)
    }
}
