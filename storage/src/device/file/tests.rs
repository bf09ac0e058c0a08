//! Files as they are created, opened again, copied, cut off and locked.

use super::*;
use crate::device::header::STATIC_AT;
use crate::device::testing::{self, get};
use crate::device::{BLOCK_BYTES, DeviceState, FullCause, read_header, read_state, write_state};

fn header() -> Header {
    testing::header(HEADER_BYTES + 4 * BLOCK_BYTES)
}

#[test]
fn what_was_stored_is_there_after_reopening_and_growing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    let end = HEADER_BYTES + BLOCK_BYTES;
    {
        let device = FileDevice::create(&path, &header()).unwrap();
        assert_eq!(
            (device.len_bytes(), device.max_bytes()),
            (HEADER_BYTES, header().max_bytes)
        );
        device.extend(end).unwrap();
        device.populate(HEADER_BYTES, BLOCK_BYTES);
        device.write(end - 5, b"hello").unwrap();
        write_state(
            &device,
            &DeviceState {
                sequence: 1,
                durable_lsn: 9,
                ..DeviceState::default()
            },
        )
        .unwrap();
        device.sync().unwrap();
    }
    let device = FileDevice::open(&path).unwrap();
    assert_eq!(read_header(&device).unwrap(), header());
    assert_eq!(read_state(&device).unwrap().durable_lsn, 9);
    assert_eq!(device.len_bytes(), end);
    let base = device.base();
    device.extend(header().max_bytes).unwrap();
    device.extend(end).unwrap();
    assert_eq!(
        (device.len_bytes(), device.base()),
        (header().max_bytes, base),
        "never shrinks"
    );
    assert_eq!(get(&device, end - 5, 6), b"hello\0");
    assert_eq!(device.describe(), path.display().to_string());
}

#[test]
fn only_what_is_written_or_reserved_takes_disk_space() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    let device = FileDevice::create(&path, &header()).unwrap();
    device.extend(HEADER_BYTES + BLOCK_BYTES).unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().len(),
        HEADER_BYTES + BLOCK_BYTES
    );
    let fresh = device.allocated_bytes();
    // Four pages of headers, and the first of the staging file.
    assert!(fresh <= 20 << 10, "{fresh}");
    device.reserve(HEADER_BYTES, 1 << 20).unwrap();
    device.reserve(HEADER_BYTES, 0).unwrap();
    let reserved = device.allocated_bytes();
    assert!(reserved >= fresh + (1 << 20), "{reserved}");
    device.write(HEADER_BYTES, &[7; 1 << 16]).unwrap();
    device.sync().unwrap();
    assert!(device.allocated_bytes() < reserved + (64 << 10));
    device.release(HEADER_BYTES + 10, (1 << 20) - 10).unwrap();
    device.release(HEADER_BYTES, 0).unwrap();
    assert!(device.allocated_bytes() <= fresh + (64 << 10));
    assert_eq!(get(&device, HEADER_BYTES + 8, 4), [7, 7, 0, 0]);
    assert_eq!(get(&device, HEADER_BYTES + (1 << 16) - 1, 2), [0, 0]);
}

#[test]
fn a_write_is_seen_by_reads_and_in_the_mapping() {
    let directory = tempfile::tempdir().unwrap();
    let device = FileDevice::create(&directory.path().join("device"), &header()).unwrap();
    device.extend(HEADER_BYTES + BLOCK_BYTES).unwrap();
    let expected: Vec<u8> = (0..90_000_u32).map(|at| (at / 999) as u8).collect();
    device.write(HEADER_BYTES + 3, &expected).unwrap();
    device.write(HEADER_BYTES + 3, &[]).unwrap();
    assert_eq!(get(&device, HEADER_BYTES + 3, expected.len()), expected);
    let mut read = vec![0; expected.len()];
    device.read(HEADER_BYTES + 3, &mut read).unwrap();
    assert_eq!(read, expected);
    device.populate(0, u64::MAX);
    device.prefetch(HEADER_BYTES, u64::MAX);
}

#[test]
fn ranges_beyond_the_end_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let device = FileDevice::create(&directory.path().join("device"), &header()).unwrap();
    let attempts = [
        device.write(HEADER_BYTES - 1, b"ab"),
        device.read(HEADER_BYTES - 1, &mut [0; 2]),
        device.reserve(HEADER_BYTES, 1),
        device.release(u64::MAX, 2),
    ];
    for attempt in attempts {
        let error = attempt.unwrap_err();
        assert!(matches!(error, DeviceError::Truncated { .. }), "{error}");
    }
    assert_eq!(device.file.metadata().unwrap().len(), HEADER_BYTES);
}

#[test]
fn a_file_cut_off_underneath_is_an_error_of_reads() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    let device = FileDevice::create(&path, &header()).unwrap();
    device.extend(HEADER_BYTES + BLOCK_BYTES).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(HEADER_BYTES).unwrap();
    let error = device.read(HEADER_BYTES, &mut [0; 8]).unwrap_err();
    assert!(
        matches!(error, DeviceError::Io { action: "read", .. }),
        "{error}"
    );
}

#[test]
fn a_file_does_not_grow_past_its_maximum() {
    let directory = tempfile::tempdir().unwrap();
    let device = FileDevice::create(&directory.path().join("device"), &header()).unwrap();
    let error = device.extend(header().max_bytes + 1).unwrap_err();
    assert!(
        matches!(
            error,
            DeviceError::Full {
                cause: FullCause::DeviceMaximum,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(device.len_bytes(), HEADER_BYTES);
}

#[test]
fn a_second_opener_is_told_which_file_is_locked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    let device = FileDevice::create(&path, &header()).unwrap();
    let attempts = [
        FileDevice::open(&path),
        FileDevice::open_read_only(&path),
        FileDevice::create(&path, &header()),
    ];
    for attempt in attempts {
        let error = attempt.unwrap_err();
        assert!(matches!(error, DeviceError::Locked { .. }), "{error}");
        assert!(
            error.to_string().contains(&path.display().to_string()),
            "{error}"
        );
    }
    drop(device);
    FileDevice::open(&path).unwrap();
}

#[test]
fn readers_share_a_device_and_keep_writers_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    drop(FileDevice::create(&path, &header()).unwrap());
    let readers = [
        FileDevice::open_read_only(&path),
        FileDevice::open_read_only(&path),
    ];
    assert!(readers.iter().all(Result::is_ok), "{readers:?}");
    assert!(matches!(
        FileDevice::open(&path),
        Err(DeviceError::Locked { .. })
    ));
    drop(readers);
    FileDevice::open(&path).unwrap();
}

#[test]
fn a_read_only_device_never_changes_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    drop(FileDevice::create(&path, &header()).unwrap());
    let before = std::fs::read(&path).unwrap();
    {
        let device = FileDevice::open_read_only(&path).unwrap();
        assert_eq!(read_header(&device).unwrap(), header());
        assert_eq!(device.max_bytes(), HEADER_BYTES);
        device.populate(0, HEADER_BYTES);
        let refused = [
            device.extend(HEADER_BYTES + BLOCK_BYTES),
            device.reserve(0, 1),
            device.release(0, 1),
            device.write(4096, &[0xff; 64]),
            device.sync(),
        ];
        for attempt in refused {
            assert!(
                matches!(attempt, Err(DeviceError::ReadOnly { .. })),
                "{attempt:?}"
            );
        }
    }
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn a_file_with_content_is_not_created_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    let zeros = vec![0; HEADER_BYTES as usize + 1];
    for content in [b"precious".as_slice(), &zeros] {
        std::fs::write(&path, content).unwrap();
        let error = FileDevice::create(&path, &header()).unwrap_err();
        assert!(
            matches!(error, DeviceError::AlreadyExists { .. }),
            "{error}"
        );
        assert!(std::fs::read(&path).unwrap() == content);
    }
}

#[test]
fn an_interrupted_creation_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    for len in [0, 100, HEADER_BYTES as usize] {
        let path = directory.path().join(len.to_string());
        std::fs::write(&path, vec![0; len]).unwrap();
        let error = FileDevice::open(&path).unwrap_err();
        assert!(matches!(error, DeviceError::NotADevice { .. }), "{error}");
        let device = FileDevice::create(&path, &header()).unwrap();
        assert_eq!(read_header(&device).unwrap(), header());
        assert_eq!(device.len_bytes(), HEADER_BYTES);
    }
}

#[test]
fn foreign_cut_off_and_missing_files_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    let open = |content: &[u8]| {
        std::fs::write(&path, content).unwrap();
        let error = FileDevice::open(&path).unwrap_err();
        assert_eq!(
            error.to_string(),
            FileDevice::open_read_only(&path).unwrap_err().to_string()
        );
        assert_eq!(std::fs::read(&path).unwrap(), content, "left alone");
        error
    };
    assert!(matches!(open(b"foreign"), DeviceError::NotADevice { .. }));
    assert!(matches!(
        open(&[7; 1 << 17]),
        DeviceError::NotADevice { .. }
    ));
    assert!(matches!(
        open(b""),
        DeviceError::NotADevice {
            found: "it is empty",
            ..
        }
    ));

    let other = directory.path().join("other");
    drop(FileDevice::create(&other, &header()).unwrap());
    let mut content = std::fs::read(&other).unwrap();
    assert!(matches!(
        open(&content[..50]),
        DeviceError::Truncated { len_bytes: 50, .. }
    ));
    assert!(matches!(
        open(&content[..5000]),
        DeviceError::Truncated {
            len_bytes: 5000,
            ..
        }
    ));
    for copy in STATIC_AT {
        content[copy as usize + 50] ^= 1;
        content[copy as usize + 60] ^= 1;
    }
    assert!(matches!(open(&content), DeviceError::DamagedHeader { .. }));

    let error = FileDevice::open_read_only(directory.path()).unwrap_err();
    assert!(matches!(error, DeviceError::NotADevice { .. }), "{error}");
    match FileDevice::open(&directory.path().join("missing")) {
        Err(DeviceError::Io {
            action: "open",
            source,
            ..
        }) => {
            assert_eq!(source.kind(), io::ErrorKind::NotFound);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_disk_and_a_used_up_quota_are_errors_of_their_own() {
    let refused = |kind: io::ErrorKind| refused("here", "write", 1, 2)(kind.into());
    assert!(matches!(
        refused(io::ErrorKind::StorageFull),
        DeviceError::Full {
            cause: FullCause::Disk,
            len_bytes: 1,
            wanted_bytes: 2,
            ..
        }
    ));
    assert!(matches!(
        refused(io::ErrorKind::QuotaExceeded),
        DeviceError::Full {
            cause: FullCause::Quota,
            ..
        }
    ));
    assert!(matches!(
        refused(io::ErrorKind::Other),
        DeviceError::Io { .. }
    ));
}
