use super::*;
use xxhash_rust::xxh3::xxh3_64;

fn header(incarnation: u64, sequence: u64) -> BlockHeader {
    BlockHeader {
        index: 3,
        incarnation,
        device_id: 5,
        sequence,
        ended: None,
        holds_copies: incarnation == 9,
    }
}

fn intact(header: BlockHeader) -> HeaderCopy {
    HeaderCopy::Header(header)
}

#[test]
fn a_block_header_is_laid_out_byte_for_byte() {
    let header = BlockHeader {
        index: 0x0403_0201,
        incarnation: 0x1817_1615_1413_1211,
        device_id: 0x2827_2625_2423_2221,
        sequence: 0x0605_0403_0201,
        ended: Some(EndedBlock {
            units: 0x3433_3231,
            entries: 0x3837_3635,
            last_lsn: Lsn(0x4645_4443_4241),
        }),
        holds_copies: true,
    };
    let mut expected = b"SPK2\x01\x02\x03\x04".to_vec();
    expected.extend(0x11..=0x18);
    expected.extend(0x21..=0x28);
    expected.extend([1, 2, 3, 4, 5, 6, 0, 0]);
    expected.extend(0x31..=0x38);
    expected.extend([0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0, 0]);
    expected.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    let check = xxh3_64(&expected);
    expected.extend(check.to_le_bytes());
    assert_eq!(header.encode().as_slice(), expected);
}

#[test]
fn a_block_header_comes_back_and_every_flipped_bit_is_seen() {
    let header = header(77, 99);
    let raw = header.encode();
    assert_eq!(HeaderCopy::read(&raw, 5, 3, BLOCK_BYTES), intact(header));
    for bit in 0..raw.len() * 8 {
        let mut flipped = raw;
        flipped[bit / 8] ^= 1 << (bit % 8);
        let lost = HeaderCopy::read(&flipped, 5, 3, BLOCK_BYTES);
        assert_eq!(lost, HeaderCopy::Unreadable, "bit {bit}");
    }
}

#[test]
fn a_block_header_of_another_device_or_block_is_not_believed() {
    let raw = header(77, 99).encode();
    assert_eq!(
        HeaderCopy::read(&raw, 9, 3, BLOCK_BYTES),
        HeaderCopy::Unreadable
    );
    assert_eq!(
        HeaderCopy::read(&raw, 5, 12, BLOCK_BYTES),
        HeaderCopy::Unreadable
    );
}

#[test]
fn a_lost_header_is_told_by_its_mirror() {
    let (blank, lost) = (HeaderCopy::Blank, HeaderCopy::Unreadable);
    let used = |header, intact| BlockUse::Used { header, intact };
    let (old, new, free) = (header(7, 10), header(9, 20), header(0, 15));
    let cases = [
        // own copy, mirror, next block, known to be used, expected
        (intact(new), intact(new), 30, true, used(new, true)),
        (lost, intact(new), 30, true, used(new, false)),
        (blank, intact(new), 30, true, used(new, false)),
        (intact(new), lost, 30, true, used(new, false)),
        (blank, blank, 30, true, BlockUse::Unreadable),
        (blank, blank, 30, false, BlockUse::Free),
        (lost, blank, 30, true, BlockUse::Unreadable),
        (lost, lost, 0, false, BlockUse::Unreadable),
        // A flaw where nothing was ever written.
        (lost, blank, 0, false, BlockUse::Free),
        // The block fell back to an earlier life, after its next life was durable.
        (intact(old), intact(new), 30, true, used(new, false)),
        (intact(free), intact(new), 30, true, used(new, false)),
        // A power failure took one of two copies that were not durable yet.
        (intact(old), intact(new), 20, true, used(old, true)),
        (intact(new), intact(old), 20, true, used(new, true)),
        (intact(free), intact(old), 15, true, BlockUse::Free),
        (blank, intact(new), 20, false, BlockUse::Free),
    ];
    for (case, (own, mirror, next, known, expected)) in cases.into_iter().enumerate() {
        let judged = BlockUse::judge(own, mirror, next, known);
        assert_eq!(judged, expected, "case {case}");
    }
}
