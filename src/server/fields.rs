//! The fields of a message: namespace, set, key and the other parameters of a request.
//!
//! ```text
//! field = size: u32 (type and data), type: u8, data
//! ```

use super::bytes::UnreadBytes;

/// The types of fields that mean something here. Others are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Namespace = 0,
    Set = 1,
    /// The user key: type and value.
    Key = 2,
    /// The version of a record that a transaction has read: 7 bytes, little-endian.
    Version = 3,
    Digest = 4,
    /// The number of a transaction over several records, little-endian.
    Transaction = 5,
    /// When a transaction ends, in seconds since 2010, little-endian.
    Deadline = 6,
    /// The number of a query.
    Query = 7,
    /// How long a query may wait for its client, in milliseconds.
    SocketTimeout = 9,
    RecordsPerSecond = 10,
    /// Partitions to be visited from their beginning.
    Partitions = 11,
    /// Partitions to be visited from behind these digests.
    Digests = 12,
    /// How many records a query may return.
    MaxRecords = 13,
    /// Values of an index behind which to go on.
    IndexValues = 15,
    IndexName = 21,
    IndexRange = 22,
    /// The path of contexts that an index is of.
    IndexContext = 23,
    IndexExpression = 24,
    /// The part of a value that the index covers.
    IndexType = 26,
    UdfPackage = 30,
    UdfFunction = 31,
    UdfArguments = 32,
    /// How a user-defined function is run: 1 aggregates, 2 runs in the background.
    UdfKind = 33,
    /// The bins that a query of an old client is to return.
    Bins = 40,
    /// The rows of a batch.
    Batch = 41,
    /// The rows of a batch, in the layout of old clients.
    OldBatch = 42,
    /// An expression that must hold.
    Filter = 43,
}

/// The shortest field: its size and type.
const FIELD_BYTES_MIN: usize = 5;

/// The fields of a message, checked: none reaches beyond its end. A look-up visits the fields up to
/// the one it wants; messages have a handful.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    /// A bit for each type that is there. Most look-ups are for types that are not.
    present: u64,
}

impl<'a> Fields<'a> {
    /// Takes `count` fields off the front of `cursor`; `None` if they are malformed.
    pub(crate) fn parse(cursor: &mut UnreadBytes<'a>, count: u16) -> Option<Self> {
        let all = cursor.0;
        if usize::from(count) > all.len() / FIELD_BYTES_MIN {
            return None;
        }
        let mut present = 0;
        for _ in 0..count {
            present |= bit_of(next(cursor)?.0);
        }
        let bytes = all.get(..all.len() - cursor.len())?;
        Some(Self { bytes, present })
    }

    /// The data of the first field of this type.
    pub(crate) fn get(&self, field: Field) -> Option<&'a [u8]> {
        self.by_number(field as u8)
    }

    /// The data of the first field of this type. Security messages have types of their own.
    pub(crate) fn by_number(&self, number: u8) -> Option<&'a [u8]> {
        if self.present & bit_of(number) == 0 {
            return None;
        }
        let mut cursor = UnreadBytes(self.bytes);
        while let Some((kind, data)) = next(&mut cursor) {
            if kind == number {
                return Some(data);
            }
        }
        None
    }

    /// True if there is a field of this type.
    pub(crate) const fn has(&self, field: Field) -> bool {
        self.present & bit_of(field as u8) != 0
    }

    /// A big-endian number of 32 bits.
    pub(crate) fn u32(&self, field: Field) -> Option<u32> {
        let data = self.get(field)?.first_chunk()?;
        Some(u32::from_be_bytes(*data))
    }

    /// A big-endian number of 64 bits.
    pub(crate) fn u64(&self, field: Field) -> Option<u64> {
        let data = self.get(field)?.first_chunk()?;
        Some(u64::from_be_bytes(*data))
    }
}

/// Appends a field.
pub(crate) fn write_field(out: &mut Vec<u8>, number: u8, data: &[u8]) {
    out.extend_from_slice(&(data.len() as u32 + 1).to_be_bytes());
    out.push(number);
    out.extend_from_slice(data);
}

/// The bit of a type. Types that mean something have numbers below 64.
const fn bit_of(number: u8) -> u64 {
    match number {
        0..64 => 1 << number,
        _ => 0,
    }
}

/// Returns type and data of the next field. The rows of a batch end with the message even if their
/// field announces a greater size: some clients count more bytes than they send.
fn next<'a>(cursor: &mut UnreadBytes<'a>) -> Option<(u8, &'a [u8])> {
    let mut size = cursor.u32()? as usize;
    let kind = cursor.0.first()?;
    if [Field::Batch, Field::OldBatch]
        .iter()
        .any(|batch| *kind == *batch as u8)
    {
        size = size.min(cursor.len());
    }
    let (kind, data) = cursor.take(size)?.split_first()?;
    Some((*kind, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_type() {
        let bytes = b"\0\0\0\x05\0test\0\0\0\x01\x01\0\0\0\x02\x63x\0\0\0\x05\x0a\0\0\0\x07rest";
        let mut cursor = UnreadBytes(bytes);
        let fields = Fields::parse(&mut cursor, 4).unwrap();
        assert_eq!(cursor.0, b"rest");
        assert_eq!(fields.get(Field::Namespace), Some(&b"test"[..]));
        assert_eq!(fields.get(Field::Set), Some(&b""[..]));
        assert_eq!(fields.get(Field::Digest), None);
        assert!(fields.has(Field::Set) && !fields.has(Field::Digest));
        assert_eq!(fields.u32(Field::RecordsPerSecond), Some(7));
        assert_eq!(fields.u64(Field::RecordsPerSecond), None);
    }

    #[test]
    fn rows_of_a_batch_end_with_the_message() {
        for kind in [Field::Batch, Field::OldBatch] {
            let bytes = [&[0, 0, 0, 99, kind as u8][..], b"rows"].concat();
            let mut cursor = UnreadBytes(&bytes);
            let fields = Fields::parse(&mut cursor, 1).unwrap();
            assert_eq!(fields.get(kind), Some(&b"rows"[..]));
            assert!(cursor.is_empty());
        }
    }

    #[test]
    fn malformed_fields_are_refused() {
        let table: [(&[u8], u16); 5] = [
            (b"", 1),
            (b"\0\0\0\0\0", 1),
            (b"\0\0\0\x06\0test", 1),
            (b"\xff\xff\xff\xff\0test", 1),
            (b"\0\0\0\x01\0", 2),
        ];
        for (bytes, count) in table {
            assert!(Fields::parse(&mut UnreadBytes(bytes), count).is_none());
        }
    }
}
