//! Builds the answer to a request about a record.

use super::bytes::patch;
use super::fields::{Field, write_field};
use super::frame::{MESSAGE_BYTES_MAX, close_messages, open_frame};
use super::memory_budget::NoRoom;
use super::message::{Info3, MESSAGE_HEADER_BYTES};
use super::ops::{OpIter, code};
use super::particle::write_wire;
use super::response_buffer::ResponseBuffer;
use crate::call::CallReply;
use crate::operation::{Mode, ResultSink};
use crate::record::{BinName, RecordView};
use crate::value::ParticleType;
use crate::{Error, Result};

/// The longest answer: a little less than the longest message, so that heads and frame fit.
const ANSWER_BYTES_MAX: usize = MESSAGE_BYTES_MAX - (1 << 10);

/// The most bytes before a value: size, code, type, name, and the head of GeoJSON or a number's
/// eight bytes.
const OP_HEAD_BYTES_MAX: usize = 40;

/// The header of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerHeader {
    /// Aerospike's result code.
    pub(crate) code: u8,
    pub(crate) info3: Info3,
    /// The record's generation; 0 without a record.
    pub(crate) generation: u32,
    /// When the record expires, in seconds since 2010; 0: never.
    pub(crate) void_time: u32,
    /// The row of a batch.
    pub(crate) row: u32,
}

impl AnswerHeader {
    /// An answer that is a code and nothing else.
    pub(crate) fn code(code: u8) -> Self {
        Self {
            code,
            ..Self::default()
        }
    }

    /// Appends an answer with a code alone, for this row of a batch; 0: of a single request.
    /// Returns the code.
    pub(crate) fn refuse_row(row: u32, code: u8, out: &mut ResponseBuffer<'_>) -> u8 {
        let answer = Self::code(code);
        Self { row, ..answer }.write(out);
        code
    }

    /// The end of several messages.
    pub(crate) fn last(code: u8) -> Self {
        Self {
            info3: Info3::LAST,
            ..Self::code(code)
        }
    }

    /// Appends the message that has a header only.
    pub(crate) fn write(&self, out: &mut ResponseBuffer<'_>) {
        MessageReply::begin(out).finish(self);
    }

    /// Appends the message that has a header only, in a frame of its own.
    pub(crate) fn write_framed(&self, out: &mut ResponseBuffer<'_>) {
        let at = open_frame(out);
        self.write(out);
        close_messages(out, at);
    }
}

/// A message under way at the end of a buffer.
pub(crate) struct MessageReply<'o, 'b> {
    out: &'o mut ResponseBuffer<'b>,
    at: usize,
    fields: u16,
    ops: u16,
}

impl<'o, 'b> MessageReply<'o, 'b> {
    /// Begins a message.
    pub(crate) fn begin(out: &'o mut ResponseBuffer<'b>) -> Self {
        let at = out.len();
        out.extend_from_slice(&[0; MESSAGE_HEADER_BYTES]);
        Self {
            out,
            at,
            fields: 0,
            ops: 0,
        }
    }

    /// Adds a field. All fields come before the first operation. For a large field, callers ask
    /// [`MessageReply::reserve`] first.
    pub(crate) fn field(&mut self, field: Field, data: &[u8]) {
        debug_assert_eq!(self.ops, 0);
        write_field(self.out, field as u8, data);
        self.fields += 1;
    }

    /// Makes room for `more` bytes.
    pub(crate) fn reserve(&mut self, more: usize) -> std::result::Result<(), NoRoom> {
        self.out.reserve(more)
    }

    /// Adds the value of a bin, or the result of an operation, from its stored form.
    ///
    /// # Errors
    /// [`Error::RecordTooBig`] if the message would be longer than a message may be (many
    /// operations can ask for the same large bin), or if the outbox refuses the room.
    pub(crate) fn op(
        &mut self,
        code: u8,
        name: &[u8],
        kind: ParticleType,
        stored: &[u8],
    ) -> Result<()> {
        let at = self.out.len();
        let size = at - self.at + stored.len();
        let needed = OP_HEAD_BYTES_MAX + stored.len();
        if size > ANSWER_BYTES_MAX || self.reserve(needed).is_err() {
            return Err(Error::RecordTooBig {
                size: size as u64,
                limit: ANSWER_BYTES_MAX as u64,
                largest_bin: None,
                record: None,
            });
        }
        self.out.extend_from_slice(&[0; 4]);
        self.out
            .extend_from_slice(&[code, kind.number(), 0, name.len() as u8]);
        self.out.extend_from_slice(name);
        write_wire(kind, stored, self.out)?;
        let size = (self.out.len() - at - 4) as u32;
        patch(self.out, at, &size.to_be_bytes());
        self.ops += 1;
        Ok(())
    }

    /// Adds a bin that was read, or a value like one.
    ///
    /// # Errors
    /// As for [`MessageReply::op`].
    pub(crate) fn bin(&mut self, name: &[u8], kind: ParticleType, stored: &[u8]) -> Result<()> {
        self.op(code::READ, name, kind, stored)
    }

    /// Adds all bins of a record.
    ///
    /// # Errors
    /// As for [`MessageReply::op`].
    pub(crate) fn bins(&mut self, record: RecordView<'_>) -> Result<()> {
        let mut bins = record.raw_bins();
        bins.try_for_each(|bin| self.bin(bin.name, bin.kind, bin.value))
    }

    /// Adds the bins of a record that have these names, and, if the mode asks for them, those that
    /// it does not have.
    ///
    /// # Errors
    /// As for [`MessageReply::op`]; that of a name.
    pub(crate) fn named_bins(
        &mut self,
        record: RecordView<'_>,
        names: impl Iterator<Item = Result<BinName>>,
        mode: Mode,
    ) -> Result<()> {
        for name in names {
            let name = name?;
            if let Some(bin) = record.find(name.as_bytes()) {
                self.bin(bin.name, bin.kind, bin.value)?;
            } else if mode.contains(Mode::RESPOND_ALL) {
                self.bin(name.as_bytes(), ParticleType::Null, &[])?;
            }
        }
        Ok(())
    }

    /// How many operations it has.
    pub(crate) const fn op_count(&self) -> u16 {
        self.ops
    }

    /// Removes all fields and values. Returns whether there was room for them.
    pub(crate) fn clear(&mut self) -> std::result::Result<(), NoRoom> {
        self.out.truncate(self.at + MESSAGE_HEADER_BYTES);
        (self.fields, self.ops) = (0, 0);
        self.out.take_refusal()
    }

    /// Removes the whole message. Returns whether there was room for it.
    pub(crate) fn abandon(self) -> std::result::Result<(), NoRoom> {
        self.out.truncate(self.at);
        self.out.take_refusal()
    }

    /// Ends the message.
    pub(crate) fn finish(self, answer: &AnswerHeader) {
        let mut header = [0_u8; MESSAGE_HEADER_BYTES];
        let (flags, len) = (answer.info3.bits(), MESSAGE_HEADER_BYTES as u8);
        patch(&mut header, 0, &[len, 0, 0, flags, 0, answer.code]);
        patch(&mut header, 6, &answer.generation.to_be_bytes());
        patch(&mut header, 10, &answer.void_time.to_be_bytes());
        patch(&mut header, 14, &answer.row.to_be_bytes());
        patch(&mut header, 18, &self.fields.to_be_bytes());
        patch(&mut header, 20, &self.ops.to_be_bytes());
        patch(self.out, self.at, &header);
    }
}

/// Takes results into an answer, in the order of the operations: copied from the record's bytes to
/// the client's without decoding.
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
    fn add(&mut self, operation: usize, bin: &BinName, reply: CallReply<'_>) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::memory_budget::MemoryBudget;
    use crate::server::message::Message;

    #[test]
    fn a_reply_can_be_read_as_a_message() {
        let budget = MemoryBudget::default();
        let mut out = ResponseBuffer::new(budget.share());
        out.push(1);
        let mut reply = MessageReply::begin(&mut out);
        reply.op(1, b"gone", ParticleType::Null, &[]).unwrap();
        assert_eq!(reply.clear(), Ok(()));
        reply.field(Field::Digest, &[7; 20]);
        reply.op(5, b"i", ParticleType::Integer, &[7]).unwrap();
        reply.op(1, b"n", ParticleType::Null, &[]).unwrap();
        reply.finish(&AnswerHeader {
            code: 2,
            generation: 3,
            void_time: 4,
            row: 5,
            info3: Info3::LAST,
        });
        assert_eq!(out[..7], [1, 22, 0, 0, 1, 0, 2]);
        let message = Message::parse(&out[1..]).unwrap();
        let head = message.head;
        assert_eq!((head.generation, head.ttl, head.timeout_ms), (3, 4, 5));
        assert_eq!(message.fields.get(Field::Digest), Some(&[7; 20][..]));
        let ops: Vec<_> = message.ops.iter().collect();
        assert_eq!(
            (ops[0].code, ops[0].value),
            (5, &[0, 0, 0, 0, 0, 0, 0, 7][..])
        );
        assert_eq!((ops[1].kind, ops[1].value), (0, &[][..]));
        assert_eq!(MessageReply::begin(&mut out).abandon(), Ok(()));
        assert_eq!(out.len(), 1 + 22 + 25 + 17 + 9);
    }
}
