//! Many requests in one message.
//!
//! ```text
//! batch = count: u32, flags: u8, rows
//! row   = index: u32, digest: 20 bytes, flags: u8, then, unless it repeats the row before:
//!         info1: u8, (info2: u8, info3: u8), (info4: u8), (generation: u16), (time to live: u32),
//!         fields: u16, operations: u16, the fields, the operations
//! ```

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::bytes::UnreadBytes;
use super::command::RecordCommand;
use super::fields::{Field, Fields};
use super::frame::{close_messages, open_frame, split_frame};
use super::message::{Head, Info1, Info2, Info3, Info4, Message};
use super::ops::Ops;
use super::reply::AnswerHeader;
use super::response_buffer::ResponseBuffer;
use super::result_code;
use super::security::Access;
use super::shared::{ServerShared, TURN};
use super::transaction::part::TransactionPart;
use super::waiting::Requests;
use crate::{Digest, Expression};

/// A chunk of answers is sent once it exceeds this size.
const CHUNK_BYTES: usize = 128 << 10;

/// How many rows have the memory of their records prefetched together, before the first of them is
/// executed.
const FETCHED_AHEAD: usize = 32;

/// How long a batch may take if its client does not say: Aerospike's.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The shortest row: index, digest, flags.
const ROW_BYTES_MIN: usize = 4 + Digest::LEN + 1;

const RESPOND_ALL_KEYS: u8 = 0x04;
const SEND_FAILED_ROW: u8 = 0x08;

const ROW_REPEATS: u8 = 0x01;
const ROW_HAS_INFO: u8 = 0x02;
const ROW_HAS_GENERATION: u8 = 0x04;
const ROW_HAS_TTL: u8 = 0x08;
const ROW_HAS_INFO4: u8 = 0x10;

/// One row.
#[derive(Clone, Copy, Debug)]
struct BatchRequestRow<'a> {
    index: u32,
    digest: Digest,
    /// The next row may repeat it.
    content: Message<'a>,
}

/// The rows that are left, to be read one by one.
#[derive(Clone, Copy, Debug)]
struct Rows<'a> {
    cursor: UnreadBytes<'a>,
    left: u32,
    before: Option<Message<'a>>,
}

impl<'a> Rows<'a> {
    /// The next row; `None` if it is malformed, or there is none.
    fn next(&mut self) -> Option<BatchRequestRow<'a>> {
        self.left = self.left.checked_sub(1)?;
        let cursor = &mut self.cursor;
        let index = cursor.u32()?;
        let digest = Digest::new(*cursor.take(Digest::LEN)?.first_chunk()?);
        let flags = cursor.u8()?;
        let content = if flags & ROW_REPEATS != 0 {
            // A key belongs to one row.
            self.before
                .filter(|before| !before.fields.has(Field::Key))?
        } else {
            parse_content(cursor, flags)?
        };
        self.before = Some(content);
        Some(BatchRequestRow {
            index,
            digest,
            content,
        })
    }
}

/// Parses what follows the flags of a row.
fn parse_content<'a>(cursor: &mut UnreadBytes<'a>, flags: u8) -> Option<Message<'a>> {
    let mut head = Head {
        info1: Info1::from_bits_retain(cursor.u8()?),
        ..Head::default()
    };
    if flags & ROW_HAS_INFO != 0 {
        head.info2 = Info2::from_bits_retain(cursor.u8()?);
        head.info3 = Info3::from_bits_retain(cursor.u8()?);
    }
    if flags & ROW_HAS_INFO4 != 0 {
        head.info4 = Info4::from_bits_retain(cursor.u8()?);
    }
    if flags & ROW_HAS_GENERATION != 0 {
        head.generation = u32::from(cursor.u16()?);
    }
    if flags & ROW_HAS_TTL != 0 {
        head.ttl = cursor.u32()?;
    }
    // The namespace is there, even if it is not counted.
    let field_count = cursor.u16()?.max(1);
    let op_count = cursor.u16()?;
    let fields = Fields::parse(cursor, field_count)?;
    let ops = Ops::parse(cursor, op_count)?;
    Some(Message { head, fields, ops })
}

/// A batch under way.
pub(crate) struct Batch<'a> {
    shared: &'a ServerShared,
    access: Access,
    rows: Rows<'a>,
    /// The filter for rows that have none of their own.
    filter: Option<Expression>,
    flags: u8,
    timeout_ms: u32,
    /// The code of the last message, once no more rows are to be executed.
    pub(crate) end: Option<u8>,
    pub(crate) requests: Requests<'a>,
}

impl<'a> Batch<'a> {
    /// Checks all rows of a message before the first is executed. An error is the code of the
    /// answer to the whole message.
    pub(crate) fn start(
        shared: &'a ServerShared,
        access: Access,
        message: &Message<'a>,
    ) -> Result<Self, u8> {
        let fields = &message.fields;
        let data = fields.get(Field::Batch).or(fields.get(Field::OldBatch));
        let mut cursor = UnreadBytes(data.ok_or(result_code::PARAMETER)?);
        let head = (cursor.u32(), cursor.u8());
        let (Some(count @ 1..), Some(flags)) = head else {
            return Err(result_code::PARAMETER);
        };
        let limit = shared.limits.max_batch_rows.load(Ordering::Relaxed);
        if limit != 0 && u64::from(count) > limit {
            return Err(result_code::BATCH_TOO_LARGE);
        }
        if count as usize > cursor.len() / ROW_BYTES_MIN {
            return Err(result_code::PARAMETER);
        }
        let rows = Rows {
            cursor,
            left: count,
            before: None,
        };
        let mut checked = rows;
        while checked.left > 0 {
            checked.next().ok_or(result_code::PARAMETER)?;
        }
        Ok(Self {
            shared,
            access,
            rows,
            filter: filter_of(fields)?,
            flags,
            timeout_ms: message.head.timeout_ms,
            end: None,
            requests: Requests::new(Instant::now() + message.head.timeout(DEFAULT_TIMEOUT)),
        })
    }

    /// Executes some rows, up to one that must wait, and appends their answers to `out`. Returns
    /// false after the last row. Callers then await [`Requests::synced`] and [`Requests::wait`].
    pub(crate) fn step(&mut self, out: &mut ResponseBuffer<'_>) -> bool {
        let mut start = open_frame(out);
        let began = Instant::now();
        let mut now = began;
        while self.end.is_none() && out.len() - start <= CHUNK_BYTES && now - began <= TURN {
            if self.rows.left.is_multiple_of(FETCHED_AHEAD as u32) {
                self.fetch_ahead();
            }
            let before = self.rows;
            let Some(row) = self.rows.next() else {
                self.end = Some(result_code::OK);
                break;
            };
            let at = out.len();
            if !self.execute(&row, out) {
                self.rows = before;
                break;
            }
            start = split_frame(out, start, at);
            now = Instant::now();
            if now > self.requests.deadline && self.rows.left > 0 {
                self.end = Some(result_code::TIMEOUT);
            }
        }
        close_messages(out, start);
        let Some(code) = self.end else { return true };
        AnswerHeader::last(code).write_framed(out);
        false
    }

    /// Executes a row. Returns false if the row must wait and be executed again.
    fn execute(&mut self, row: &BatchRequestRow<'a>, out: &mut ResponseBuffer<'_>) -> bool {
        let mut message = row.content;
        message.head.timeout_ms = self.timeout_ms;
        let own = message.fields.get(Field::Filter);
        let own = own.map(|encoded| Expression::of_encoded(encoded.into()));
        let start = out.len();
        let name = message.fields.get(Field::Namespace).unwrap_or_default();
        let code = match self.shared.namespace(name) {
            Some(served) => {
                let command = RecordCommand {
                    part: TransactionPart::of(&message),
                    message,
                    digest: row.digest,
                    filter: own.as_ref().or(self.filter.as_ref()),
                    row: Some(row.index),
                    served,
                };
                let from = (&mut self.access, &**served);
                let Some(code) = self.requests.make(from, &command, out) else {
                    out.truncate(start);
                    return false;
                };
                command.count(code);
                code
            }
            None => AnswerHeader::refuse_row(row.index, result_code::NAMESPACE, out),
        };
        let failed = !matches!(
            code,
            result_code::OK | result_code::NOT_FOUND | result_code::FILTERED_OUT
        );
        if failed && self.flags & RESPOND_ALL_KEYS == 0 {
            if self.flags & SEND_FAILED_ROW == 0 {
                out.truncate(start);
            }
            self.end = Some(code);
        }
        true
    }

    /// Prefetches the memory of the next rows' records; consecutive rows of one namespace are
    /// fetched together.
    fn fetch_ahead(&self) {
        let mut ahead = self.rows;
        let rows = std::iter::from_fn(|| ahead.next()).take(FETCHED_AHEAD);
        let rows = rows.map(|row| (row.content.fields.get(Field::Namespace), row.digest));
        let rows: SmallVec<[_; FETCHED_AHEAD]> = rows.collect();
        for group in rows.chunk_by(|(one, _), (other, _)| one == other) {
            let name = group.first().and_then(|(name, _)| *name);
            if let Some(served) = self.shared.namespace(name.unwrap_or_default()) {
                let digests = group.iter().map(|(_, digest)| *digest);
                let digests: SmallVec<[_; FETCHED_AHEAD]> = digests.collect();
                served.namespace.prefetch_batch(&digests);
            }
        }
    }
}

/// Returns the filter for all records, checked before the first of them is read. An invalid filter
/// is an error: the code of the answer.
pub(crate) fn filter_of(fields: &Fields<'_>) -> Result<Option<Expression>, u8> {
    let Some(bytes) = fields.get(Field::Filter) else {
        return Ok(None);
    };
    let expression = Expression::from_bytes(bytes)
        .and_then(|expression| expression.filter().map(drop).map(|()| expression));
    expression.map(Some).map_err(|_| result_code::PARAMETER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three rows: a put, a repetition of it, and a read in the old form.
    fn rows() -> (Vec<u8>, u32) {
        let mut out = Vec::new();
        out.extend([0, 0, 0, 0]);
        out.extend([1; 20]);
        out.extend([0x0e, 0, 0x81, 0, 0, 5, 0, 0, 0, 9, 0, 1, 0, 1]);
        out.extend(b"\0\0\0\x05\0test\0\0\0\x06\x02\x03\0\x01sx");
        out.extend([0, 0, 0, 1]);
        out.extend([2; 20]);
        out.push(1);
        out.extend([0, 0, 0, 2]);
        out.extend([3; 20]);
        out.extend([0, 3, 0, 1, 0, 0]);
        out.extend(b"\0\0\0\x05\0test");
        (out, 3)
    }

    fn read(bytes: &[u8], count: u32) -> Option<Vec<BatchRequestRow<'_>>> {
        let mut rows = Rows {
            cursor: UnreadBytes(bytes),
            left: count,
            before: None,
        };
        (0..count).map(|_| rows.next()).collect()
    }

    #[test]
    fn rows_are_read_in_both_layouts_and_repeat_what_came_before() {
        let (bytes, count) = rows();
        let rows = read(&bytes, count).unwrap();
        let head = rows[0].content.head;
        assert_eq!((head.generation, head.ttl), (5, 9));
        assert_eq!(head.info2, Info2::WRITE | Info2::RESPOND_ALL_OPS);
        assert_eq!(rows[1].content.head, head);
        assert_eq!((rows[1].index, rows[1].digest), (1, Digest::new([2; 20])));
        assert_eq!(rows[2].content.head.info1, Info1::READ | Info1::GET_ALL);
        assert_eq!(rows[2].content.head.info2, Info2::empty());
    }

    #[test]
    fn malformed_rows_are_refused() {
        let (bytes, count) = rows();
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len], count).is_none(), "{len}");
        }
        // A repetition without anything before it.
        assert!(read(&bytes[59..], 1).is_none());
    }
}
