//! The header's layout byte by byte, and what becomes of it when it is damaged.

use super::*;
use crate::device::SimulatedDevice;
use crate::device::state::*;

/// The offset of the second copy of the static header.
const SECOND: u64 = 12_288;

fn header() -> Header {
    Header {
        device_id: 0x0807_0605_0403_0201,
        member: Member {
            namespace: "users".into(),
            index: 1,
            count: 2,
            key_hash: 3,
        },
        max_bytes: 1 << 30,
        block_bytes: BLOCK_BYTES,
        created_unix_ms: 0x0199_0000_0000,
    }
}

fn decode(bytes: &[u8; STATIC_BYTES]) -> Result<Header, DeviceError> {
    Header::decode([Ok(*bytes), Ok([0; STATIC_BYTES])], HEADER_BYTES, "here")
}

/// The bytes of `header()` with a change, and the checksum that goes with it.
fn with(at: usize, value: &[u8]) -> [u8; STATIC_BYTES] {
    let mut bytes = header().encode();
    put(&mut bytes, at, value);
    let checksum = static_checksum(&bytes);
    put(&mut bytes, CHECKSUM_AT, &checksum);
    bytes
}

#[test]
fn the_static_header_is_laid_out_byte_for_byte() {
    let mut expected = Vec::new();
    expected.extend(b"SPIKELET");
    expected.extend([2, 0, 0, 0]); // version
    expected.extend([0, 0, 0x80, 0]); // block size
    expected.extend([1, 2, 3, 4, 5, 6, 7, 8]); // device id
    expected.extend([0, 0, 0, 0x40, 0, 0, 0, 0]); // maximum size
    expected.extend([0, 0, 0, 0, 0x99, 1, 0, 0]); // creation
    expected.extend([3, 1, 2, 5]); // key hash, index, count, length of the name
    expected.extend(b"users");
    expected.resize(120, 0);
    expected.extend(VECTOR_CHECKSUM.to_le_bytes());
    assert_eq!(header().encode().as_slice(), expected);
    assert_eq!(decode(&header().encode()).unwrap(), header());
}

const VECTOR_CHECKSUM: u64 = 0x3e0b_2b91_1606_fced;

fn state(sequence: u64, extents: u32) -> DeviceState {
    let extent = |index| DurableExtent {
        device: (index % 15) as u8,
        block: index * 3,
        incarnation: 1_u64 << (index % 64),
        durable_units: 1000 - index,
        entries: 17 * index,
    };
    let device = DeviceReach {
        len_bytes: HEADER_BYTES,
        boot: 99,
        used_blocks: 4,
        id: 5,
    };
    DeviceState {
        sequence,
        durable_lsn: sequence * 10,
        clean_close: sequence % 2,
        next_block: 12,
        sync_failed: false,
        devices: vec![device; DEVICES_MAX],
        open: (0..extents).map(extent).collect(),
    }
}

/// The bytes, and zeros behind them.
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    all[..bytes.len()].copy_from_slice(bytes);
    all
}

/// A copy of the state with this content.
fn page(content: &[u8]) -> StateBytes {
    padded(content)
}

#[test]
fn the_state_is_laid_out_byte_for_byte() {
    let state = DeviceState {
        sequence: 2,
        durable_lsn: 0x0102,
        clean_close: 7,
        next_block: 5,
        sync_failed: true,
        devices: vec![
            DeviceReach {
                len_bytes: 0x0304_0000,
                boot: 0x0102_0304_0506_0708,
                used_blocks: 0x0605,
                id: 0x0a09_0807,
            },
            DeviceReach {
                len_bytes: 1,
                boot: 2,
                used_blocks: 3,
                id: 4,
            },
        ],
        open: vec![
            DurableExtent {
                device: 1,
                block: 3,
                incarnation: 0x0900,
                durable_units: 0x080000,
                entries: 0x0201,
            },
            DurableExtent {
                device: 0,
                block: 4,
                incarnation: 1,
                durable_units: 2,
                entries: 9,
            },
        ],
    };
    let mut expected = Vec::from(VECTOR_STATE_CHECKSUM.to_le_bytes());
    expected.extend([2, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
    expected.extend([7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend([1, 2, 2, 0, 0, 0, 0, 0]);
    expected.extend([0, 0, 4, 3, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
    expected.extend([5, 6, 0, 0, 7, 8, 9, 10]);
    expected.extend([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend([3, 0, 0, 0, 4, 0, 0, 0]);
    expected.extend([3, 0, 0, 0, 0, 0, 8, 0, 0, 9, 0, 0, 0, 0, 0, 0]);
    expected.extend([1, 2, 0, 0, 1, 0, 0, 0]);
    expected.extend([4, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend([9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(state.encode(), expected);
    assert_eq!(DeviceState::decode_exactly(&page(&expected)), Some(state));
}

const VECTOR_STATE_CHECKSUM: u64 = 0x4915_cd0e_9fdd_8057;

#[test]
fn every_flipped_bit_of_the_static_header_is_damage_and_the_other_copy_counts() {
    for bit in 0..STATIC_BYTES * 8 {
        let mut bytes = header().encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let copies = [Ok(bytes), Ok(header().encode())];
        let decoded = Header::decode(copies, HEADER_BYTES, "here");
        assert_eq!(decoded.unwrap(), header(), "bit {bit}");
        assert!(matches!(
            decode(&bytes),
            Err(DeviceError::DamagedHeader { .. })
        ));
        bytes[VERSION_AT + (bit + 11) % 112] ^= 2;
        let error = decode(&bytes).unwrap_err();
        match error {
            DeviceError::DamagedHeader { .. } => {}
            // Without its magic number and its checksum, it cannot be distinguished from a foreign
            // file.
            DeviceError::NotADevice { .. } if bit < VERSION_AT * 8 => {}
            other => panic!("bit {bit}: {other}"),
        }
    }
}

#[test]
fn every_flipped_bit_of_a_state_is_seen() {
    let state = state(4, 3);
    let own_bytes = state.encode().len();
    for bit in 0..own_bytes * 8 {
        // An older and longer state lay here before.
        let mut bytes = [0xa5; STATE_BYTES_MAX];
        put(&mut bytes, 0, &state.encode());
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(DeviceState::decode_exactly(&bytes), None, "bit {bit}");
    }
    assert_eq!(DeviceState::decode_exactly(&[0; STATE_BYTES_MAX]), None);
}

#[test]
fn a_state_lists_an_open_block_for_each_lane_and_not_more() {
    let device = SimulatedDevice::new(&header()).unwrap();
    let full = state(1, OPEN_EXTENTS_MAX as u32);
    write_state(&device, &full).unwrap();
    assert_eq!(read_state(&device), Some(full));
    let error = write_state(&device, &state(2, OPEN_EXTENTS_MAX as u32 + 1)).unwrap_err();
    assert!(matches!(error, DeviceError::BadOption { .. }), "{error}");
}

#[test]
fn a_torn_state_leaves_the_one_before() {
    for seed in 0..200 {
        let device = SimulatedDevice::new(&header()).unwrap();
        for sequence in 1..5 {
            write_state(&device, &state(sequence, 65)).unwrap();
            device.sync().unwrap();
        }
        write_state(&device, &state(5, 40)).unwrap();
        let found = read_state(&device.crash(seed).unwrap()).unwrap();
        assert!(
            found == state(4, 65) || found == state(5, 40),
            "seed {seed}: {found:?}"
        );
    }
}

#[test]
fn sectors_that_cannot_be_read_are_errors_or_damage() {
    let device = SimulatedDevice::new(&header()).unwrap();
    write_state(&device, &state(1, 1)).unwrap();
    device.fail_read(STATE_AT[1]..STATE_AT[1] + 1);
    assert_eq!(read_state(&device), Some(DeviceState::default()));
    let unreadable = (8192, STATE_BYTES_MAX as u64, "state of the device");
    assert_eq!(damaged_parts(&device), [unreadable]);
    device.fail_read(100..101);
    assert_eq!(read_header(&device).unwrap(), header(), "the second copy");
    assert_eq!(
        damaged_parts(&device),
        [(0, 128, "device header"), unreadable]
    );
    device.fail_read(SECOND..SECOND + 1);
    let error = read_header(&device).unwrap_err();
    assert!(
        matches!(error, DeviceError::Io { action: "read", .. }),
        "{error}"
    );
    device.fail_read(STATE_AT[0]..STATE_AT[0] + 1);
    assert_eq!(read_state(&device), None);
}

#[test]
fn what_is_not_a_device_is_said_to_be_none() {
    let cases: [(&[u8], u64, &str); 3] = [
        (b"", 0, "it is empty"),
        (b"", 1 << 20, "it begins with zeros"),
        (b"#!/bin/sh\n", 10, "it begins with something else"),
    ];
    for (content, len_bytes, expected) in cases {
        let copies = [Ok(padded(content)), Ok([0; STATIC_BYTES])];
        match Header::decode(copies, len_bytes, "here") {
            Err(DeviceError::NotADevice { found, path }) => {
                assert_eq!((found, path.as_str()), (expected, "here"));
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn a_device_shorter_than_its_header_is_cut_off() {
    for len_bytes in [8, 100, 128, HEADER_BYTES - 1] {
        let bytes = header().encode();
        let left: [u8; STATIC_BYTES] = padded(&bytes[..STATIC_BYTES.min(len_bytes as usize)]);
        match Header::decode([Ok(left), Ok([0; STATIC_BYTES])], len_bytes, "here") {
            Err(DeviceError::Truncated {
                len_bytes: found,
                expected_bytes,
                ..
            }) => {
                assert_eq!((found, expected_bytes), (len_bytes, HEADER_BYTES));
            }
            other => panic!("{len_bytes}: {other:?}"),
        }
    }
}

#[test]
fn another_format_version_is_refused_and_named() {
    for version in [0, 1, 3] {
        let error = decode(&with(VERSION_AT, &[version])).unwrap_err();
        let found = u32::from(version);
        assert!(
            matches!(error, DeviceError::UnsupportedVersion { found: named, .. } if named == found),
            "{error}"
        );
        let text = format!("version {version}, this program reads version 2");
        assert!(error.to_string().contains(&text), "{error}");
    }
}

#[test]
fn values_that_cannot_be_are_damage_even_with_a_matching_checksum() {
    let cases: [(usize, &[u8]); 7] = [
        (12, &[1]),       // block size
        (24, &[0; 8]),    // maximum size
        (24, &[0xff; 8]), // maximum size
        (41, &[2]),       // index = count
        (42, &[16]),      // count
        (43, &[32]),      // length of the name
        (NAMESPACE_AT, b"\xff"),
    ];
    for (at, value) in cases {
        let error = decode(&with(at, value)).unwrap_err();
        assert!(
            matches!(error, DeviceError::DamagedHeader { .. }),
            "{at} {value:?}: {error}"
        );
    }
}

#[test]
fn a_device_cannot_be_created_with_values_out_of_range() {
    type Change = fn(&mut Header);
    let cases: [(&str, Change); 6] = [
        ("namespace", |header| header.member.namespace.clear()),
        ("namespace", |header| {
            header.member.namespace = "n".repeat(32)
        }),
        ("device index", |header| header.member.index = 2),
        ("device count", |header| header.member.count = 17),
        ("max size", |header| {
            header.max_bytes = HEADER_BYTES + BLOCK_BYTES - 1
        }),
        ("max size", |header| header.max_bytes = DEVICE_BYTES_MAX + 1),
    ];
    for (expected, change) in cases {
        let mut header = header();
        change(&mut header);
        match SimulatedDevice::new(&header) {
            Err(DeviceError::BadOption { option, .. }) => assert_eq!(option, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn a_device_of_another_place_is_refused() {
    let check = |change: fn(&mut Member)| {
        let mut expected = header().member;
        change(&mut expected);
        header().check_member(&expected, "here")
    };
    assert!(check(|_| ()).is_ok());
    let changes: [fn(&mut Member); 4] = [
        |member| member.namespace = "orders".into(),
        |member| member.index = 0,
        |member| member.count = 3,
        |member| member.key_hash = 1,
    ];
    for change in changes {
        let error = check(change).unwrap_err();
        assert!(matches!(error, DeviceError::WrongMember { .. }), "{error}");
    }
}

#[test]
fn the_newest_state_wins_and_a_torn_one_falls_back_to_the_one_before() {
    let device = SimulatedDevice::new(&header()).unwrap();
    assert_eq!(read_state(&device), Some(DeviceState::default()));
    let mut before = DeviceState::default();
    for sequence in 1..=4 {
        let state = state(sequence, 5 - sequence as u32);
        write_state(&device, &state).unwrap();
        assert_eq!(read_state(&device), Some(state.clone()));
        let at = STATE_AT[(sequence % 2) as usize];
        device.flip_bit(at + 9, 3);
        assert_eq!(
            read_state(&device),
            Some(before.clone()),
            "state {sequence} torn"
        );
        device.flip_bit(at + 9, 3);
        before = state;
    }
    for at in STATE_AT {
        device.zero(at..at + 32);
    }
    assert_eq!(read_state(&device), None, "both damaged");
}

#[test]
fn the_headers_of_a_device_are_read_back_and_their_damage_is_found() {
    let device = SimulatedDevice::new(&header()).unwrap();
    assert_eq!(read_header(&device).unwrap(), header());
    assert_eq!(damaged_parts(&device), []);
    device.flip_bit(20, 1);
    device.flip_bit(4096, 0);
    let parts = [
        (0, 128, "device header"),
        (4096, STATE_BYTES_MAX as u64, "state of the device"),
    ];
    assert_eq!(damaged_parts(&device), parts);
    assert_eq!(read_header(&device).unwrap(), header());
    repair_copies(&device, &header()).unwrap();
    assert_eq!(damaged_parts(&device), parts[1..]);
    for copy in STATIC_AT {
        device.flip_bit(copy + 20, 1);
    }
    assert!(matches!(
        read_header(&device),
        Err(DeviceError::DamagedHeader { .. })
    ));
    device.zero(0..STATIC_BYTES as u64);
    assert!(matches!(
        read_header(&device),
        Err(DeviceError::NotADevice { .. })
    ));
    device.truncate(100);
    assert!(matches!(
        read_header(&device),
        Err(DeviceError::NotADevice { .. })
    ));
    assert!(matches!(
        write_state(&device, &DeviceState::default()),
        Err(DeviceError::Truncated { len_bytes: 100, .. })
    ));
}

#[test]
fn either_copy_of_the_static_header_may_be_lost_and_is_written_again() {
    for copy in STATIC_AT {
        let device = SimulatedDevice::new(&header()).unwrap();
        device.extend(HEADER_BYTES + BLOCK_BYTES).unwrap();
        assert_eq!(damaged_parts(&device), []);
        let damages: [&dyn Fn(); 3] = [
            &|| device.zero(copy..copy + STATIC_BYTES as u64),
            &|| device.overwrite(copy, &[0xa5; STATIC_BYTES]),
            &|| device.overwrite(copy + 16, &[1; 8]),
        ];
        for damage in damages {
            damage();
            let found = read_header(&device).unwrap();
            assert_eq!(found, header());
            let parts = [(copy, STATIC_BYTES as u64, "device header")];
            assert_eq!(damaged_parts(&device), parts);
            let header = read_header(&device).unwrap();
            assert_eq!(damaged_copies(&device, &header).len(), 1);
            repair_copies(&device, &found).unwrap();
            assert_eq!(damaged_parts(&device), []);
        }
    }
}

#[test]
fn another_version_is_refused_whichever_copy_names_it() {
    for version in [FORMAT_VERSION - 1, FORMAT_VERSION + 1] {
        let bytes = with(VERSION_AT, &version.to_le_bytes());
        for copies in [[bytes, [0; STATIC_BYTES]], [[0; STATIC_BYTES], bytes]] {
            let error = Header::decode(copies.map(Ok), HEADER_BYTES, "here").unwrap_err();
            assert!(
                matches!(error, DeviceError::UnsupportedVersion { found, .. } if found == version),
                "{error}"
            );
        }
    }
}

#[test]
fn device_ids_differ() {
    let ids: std::collections::HashSet<u64> = (0..100).map(|_| new_device_id()).collect();
    assert_eq!(ids.len(), 100);
}
