use super::*;

fn place() -> EntryPlace {
    EntryPlace {
        device_id: 7,
        incarnation: 9,
        offset: 4096,
    }
}

fn header(body: &[u8]) -> EntryHeader {
    EntryHeader {
        kind: EntryKind::Record,
        flags: 0,
        span_units: EntryHeader::span_for(body.len()),
        lsn: Lsn(0x0000_1234_5678_9abc),
        generation: 65_535,
        last_update_ms: LUT_MASK - 1,
        void_time: u32::MAX,
        set_id: 4095,
        digest: Digest::new([0xa5; 20]),
        body_bytes: body.len() as u32,
    }
}

#[test]
fn a_header_is_laid_out_byte_for_byte() {
    let header = EntryHeader {
        kind: EntryKind::Tombstone,
        flags: FLAG_HAS_NEXT,
        span_units: 0x1_0203,
        lsn: Lsn(0x0605_0403_0201),
        generation: 0x0807,
        last_update_ms: 0x05_0403_0201,
        void_time: 0x0403_0201,
        set_id: 0x0201,
        digest: Digest::new([0xa5; 20]),
        body_bytes: 3,
    };
    let mut expected = Vec::new();
    expected.extend(VECTOR_HEAD_CHECK.to_le_bytes());
    expected.extend(VECTOR_BODY_CHECK.to_le_bytes());
    expected.extend([1, 2, 3, 4, 5, 6, 7, 8]); // sequence number, generation
    expected.extend([1, 2, 3, 4, 5, 3, 0, 0]); // last-update time, body length
    expected.extend([0xa5; 20]);
    expected.extend([1, 2, 3, 4]); // void-time
    expected.extend([3, 2, 0x21, 2]); // span, kind, flags
    expected.extend([1, 2, 0, 0]); // set
    assert_eq!(header.encode(place(), b"abc").as_slice(), expected);
}

const VECTOR_HEAD_CHECK: u32 = 0x3fc2_d2ee;
const VECTOR_BODY_CHECK: u32 = 0xe8af_6ad4;

#[test]
fn a_header_comes_back_as_it_was_written() {
    let body = b"some bins";
    let raw = header(body).encode(place(), body);
    let read = EntryHeader::decode_checked(&raw, place()).unwrap();
    assert_eq!(read, header(body));
    assert!(read.body_holds(&raw, body));
    assert!(!read.body_holds(&raw, b"some bonS"));
}

#[test]
fn a_header_is_valid_only_at_its_place() {
    let raw = header(b"").encode(place(), b"");
    for other in [
        EntryPlace {
            offset: 4112,
            ..place()
        },
        EntryPlace {
            incarnation: 10,
            ..place()
        },
        EntryPlace {
            device_id: 8,
            ..place()
        },
    ] {
        assert_eq!(EntryHeader::decode_checked(&raw, other), None);
    }
}

#[test]
fn every_flipped_bit_is_detected() {
    let raw = header(b"x").encode(place(), b"x");
    for bit in 0..ENTRY_HEADER_BYTES * 8 {
        let mut flipped = raw;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            EntryHeader::decode_checked(&flipped, place()),
            None,
            "bit {bit}"
        );
    }
}
