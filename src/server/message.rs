//! A message about records: header, fields, operations.

use std::time::Duration;

use bitflags::bitflags;

use super::bytes::UnreadBytes;
use super::fields::Fields;
use super::ops::Ops;
use crate::operation::Mode;

/// The length of a message's header in bytes.
pub(crate) const MESSAGE_HEADER_BYTES: usize = 22;

bitflags! {
    /// How to read. Bits without a name mean nothing here.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Info1: u8 {
        const READ = 0x01;
        const GET_ALL = 0x02;
        const SHORT_QUERY = 0x04;
        const BATCH = 0x08;
        const NO_BINS = 0x20;
        const COMPRESS_RESPONSE = 0x80;
        const _ = !0;
    }

    /// How to write.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Info2: u8 {
        const WRITE = 0x01;
        const DELETE = 0x02;
        const GENERATION_EQUAL = 0x04;
        const GENERATION_GREATER = 0x08;
        const DURABLE_DELETE = 0x10;
        const CREATE_ONLY = 0x20;
        /// In long queries: the answer may lack some records.
        const RELAXED_LONG_QUERY = 0x40;
        const RESPOND_ALL_OPS = 0x80;
        const _ = !0;
    }

    /// The role of a request in a transaction over several records.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Info4: u8 {
        const VERIFY_READ = 0x01;
        const ROLL_FORWARD = 0x02;
        const ROLL_BACK = 0x04;
        /// Refused if the transaction has the record locked.
        const ON_LOCKING_ONLY = 0x10;
        const _ = !0;
    }

    /// Further flags of requests and responses.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Info3: u8 {
        /// In responses: the last of several.
        const LAST = 0x01;
        /// A query by partitions.
        const PARTITIONS = 0x04;
        const UPDATE_ONLY = 0x08;
        const CREATE_OR_REPLACE = 0x10;
        const REPLACE_ONLY = 0x20;
        const _ = !0;
    }
}

/// The header of a message or of a row of a batch, before fields and operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) info1: Info1,
    pub(crate) info2: Info2,
    pub(crate) info3: Info3,
    pub(crate) info4: Info4,
    pub(crate) generation: u32,
    pub(crate) ttl: u32,
    /// How long the server may take, in milliseconds; 0: as it likes.
    pub(crate) timeout_ms: u32,
}

/// What kind of request about a record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    Write,
    Delete,
    /// A call of a user-defined function.
    Function,
}

impl Head {
    /// The kind of request, if it calls no function.
    pub(crate) const fn verb(&self) -> Verb {
        if !self.info2.contains(Info2::WRITE) {
            Verb::Read
        } else if self.info2.contains(Info2::DELETE) {
            Verb::Delete
        } else {
            Verb::Write
        }
    }

    /// How long the request may take; `default` if its client does not say.
    pub(crate) const fn timeout(&self, default: Duration) -> Duration {
        match self.timeout_ms {
            0 => default,
            ms => Duration::from_millis(ms as u64),
        }
    }

    /// How results are to be returned.
    pub(crate) fn mode(&self) -> Mode {
        let mut mode = Mode::empty();
        let responds = self.info2.contains(Info2::RESPOND_ALL_OPS);
        mode.set(Mode::RESPOND_ALL, responds);
        mode
    }
}

/// A message, checked: fields and operations fill it exactly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) head: Head,
    pub(crate) fields: Fields<'a>,
    pub(crate) ops: Ops<'a>,
}

impl<'a> Message<'a> {
    /// Parses the body of a frame; `None` if it is malformed.
    pub(crate) fn parse(body: &'a [u8]) -> Option<Self> {
        let mut cursor = UnreadBytes(body);
        let _header_len = cursor.u8()?;
        let mut head = Head {
            info1: Info1::from_bits_retain(cursor.u8()?),
            info2: Info2::from_bits_retain(cursor.u8()?),
            info3: Info3::from_bits_retain(cursor.u8()?),
            info4: Info4::from_bits_retain(cursor.u8()?),
            ..Head::default()
        };
        let _result_code = cursor.u8()?;
        (head.generation, head.ttl) = (cursor.u32()?, cursor.u32()?);
        head.timeout_ms = cursor.u32()?;
        let (field_count, op_count) = (cursor.u16()?, cursor.u16()?);
        let fields = Fields::parse(&mut cursor, field_count)?;
        let ops = Ops::parse(&mut cursor, op_count)?;
        cursor.is_empty().then_some(Self { head, fields, ops })
    }

    /// Whether the body of a frame, which may be malformed, begins as that of a batch.
    pub(crate) fn asks_for_many(body: &[u8]) -> bool {
        body.get(1)
            .is_some_and(|info1| Info1::from_bits_retain(*info1).contains(Info1::BATCH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::fields::Field;
    use proptest::prelude::*;

    /// A put of `i` = 7 with generation 3, a time to live of 100 s and a timeout of a second.
    fn put() -> Vec<u8> {
        let mut body = vec![22, 0, 5, 8, 0, 0];
        body.extend([0, 0, 0, 3, 0, 0, 0, 100, 0, 0, 3, 0xe8, 0, 1, 0, 1]);
        body.extend(b"\0\0\0\x05\0test\0\0\0\x0d\x02\x01\0\x01i\0\0\0\0\0\0\0\x07");
        body
    }

    #[test]
    fn a_put_is_read_whole() {
        let body = put();
        let message = Message::parse(&body).unwrap();
        let head = message.head;
        assert_eq!(head.info2, Info2::WRITE | Info2::GENERATION_EQUAL);
        assert_eq!(head.info3, Info3::UPDATE_ONLY);
        assert_eq!((head.generation, head.ttl, head.timeout_ms), (3, 100, 1000));
        assert_eq!(message.fields.get(Field::Namespace), Some(&b"test"[..]));
        assert_eq!(message.ops.iter().next().unwrap().name, b"i");
    }

    #[test]
    fn a_message_cut_short_or_lengthened_is_refused() {
        let body = put();
        for len in 0..body.len() {
            assert!(Message::parse(&body[..len]).is_none(), "{len}");
        }
        let longer = [&body[..], &[0]].concat();
        assert!(Message::parse(&longer).is_none());
    }

    proptest! {
        #[test]
        fn hostile_messages_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..128), at in 0_usize..200, byte: u8) {
            let _ = Message::parse(&bytes);
            let mut body = put();
            if let Some(slot) = body.get_mut(at) {
                *slot = byte;
            }
            if let Some(message) = Message::parse(&body) {
                let _ = message.ops.iter().count();
                let _ = message.fields.get(Field::Filter);
            }
        }
    }
}
