//! The staging file as it is created, left behind by a kill, copied and emptied.

use super::super::FileDevice;
use super::*;
use crate::device::{
    BLOCK_BYTES, Device, DeviceState, HEADER_BYTES, STAGING_LANE_BYTES, read_state, testing,
    write_state,
};

fn create(path: &Path) -> FileDevice {
    FileDevice::create(path, &testing::header(HEADER_BYTES + BLOCK_BYTES)).unwrap()
}

fn staging_file(path: &Path) -> PathBuf {
    path.with_extension("staging")
}

fn store(device: &FileDevice, offset: u64, bytes: &[u8]) {
    // SAFETY: the tests have reserved the range, and no other thread has the device.
    unsafe {
        let to = device.staging().unwrap().add(offset as usize);
        to.copy_from(NonNull::from(bytes).cast(), bytes.len());
    }
}

fn found(device: &FileDevice, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    // SAFETY: the range is inside the staging memory, and no thread stores.
    unsafe {
        let from = device.staging().unwrap().add(offset as usize);
        from.copy_to(NonNull::from(bytes.as_mut_slice()).cast(), len);
    }
    bytes
}

#[test]
fn what_was_stored_is_there_for_those_who_open_the_device_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    {
        let device = create(&path);
        let at = 3 * STAGING_LANE_BYTES;
        device.reserve_staging(at, 8192).unwrap();
        store(&device, at + 5000, b"entry");
    }
    let reader = FileDevice::open_read_only(&path).unwrap();
    assert_eq!(
        found(&reader, 3 * STAGING_LANE_BYTES + 4999, 7),
        b"\0entry\0"
    );
    reader.reserve_staging(0, 4096).unwrap();
    store(&reader, 0, b"seen by this reader alone");
    drop(reader);
    let device = FileDevice::open(&path).unwrap();
    assert_eq!(found(&device, 3 * STAGING_LANE_BYTES + 5000, 5), b"entry");
    assert_eq!(found(&device, 0, 4), [0; 4]);
    assert_eq!(found(&device, STAGING_BYTES - 4, 4), [0; 4]);
}

#[test]
fn staging_takes_disk_space_where_it_is_reserved() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    let device = create(&path);
    let fresh = device.allocated_bytes();
    assert!(fresh <= 20 << 10, "{fresh}");
    device.reserve_staging(0, STAGING_LANE_BYTES).unwrap();
    device.reserve_staging(0, 0).unwrap();
    device.reserve_staging(0, STAGING_LANE_BYTES).unwrap();
    let reserved = device.allocated_bytes() - fresh;
    assert!(
        (STAGING_LANE_BYTES - 4096..STAGING_LANE_BYTES + (64 << 10)).contains(&reserved),
        "{reserved}"
    );
    for (offset, len) in [(STAGING_BYTES, 1), (u64::MAX, 2)] {
        assert!(device.reserve_staging(offset, len).is_err());
    }
}

#[test]
fn a_new_device_does_not_find_what_another_of_its_name_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    {
        let device = create(&path);
        device.reserve_staging(0, 4096).unwrap();
        store(&device, 0, b"old");
    }
    std::fs::remove_file(&path).unwrap();
    let device = create(&path);
    assert_eq!(found(&device, 0, 3), [0; 3]);
}

#[test]
fn a_missing_or_short_staging_file_is_made_whole_and_read_as_far_as_it_goes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    drop(create(&path));
    std::fs::remove_file(staging_file(&path)).unwrap();
    let reader = FileDevice::open_read_only(&path).unwrap();
    assert!(reader.staging().is_none());
    assert!(reader.reserve_staging(0, 1).is_err());
    drop(reader);
    assert!(!staging_file(&path).exists(), "a reader creates nothing");
    drop(FileDevice::open(&path).unwrap());
    std::fs::write(staging_file(&path), b"short").unwrap();
    let reader = FileDevice::open_read_only(&path).unwrap();
    assert_eq!(found(&reader, 0, 7), b"short\0\0");
    drop(reader);
    let device = FileDevice::open(&path).unwrap();
    assert_eq!(found(&device, 0, 7), b"short\0\0");
    assert_eq!(
        std::fs::metadata(staging_file(&path)).unwrap().len(),
        STAGING_BYTES
    );
}

#[test]
fn a_device_opened_by_a_link_has_the_staging_of_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    let link = directory.path().join("link");
    {
        let device = create(&path);
        device.reserve_staging(0, 4096).unwrap();
        store(&device, 0, b"entry");
    }
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let device = FileDevice::open(&link).unwrap();
    assert_eq!(found(&device, 0, 5), b"entry");
}

#[test]
fn what_a_clean_close_left_is_kept_where_files_stay_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("device");
    {
        let device = create(&path);
        device.reserve_staging(0, 4096).unwrap();
        store(&device, 0, b"entry");
        let closed = DeviceState {
            sequence: 1,
            clean_close: 9,
            ..DeviceState::default()
        };
        write_state(&device, &closed).unwrap();
    }
    let device = FileDevice::open(&path).unwrap();
    assert_eq!(read_state(&device).unwrap().clean_close, 9);
    assert_eq!(found(&device, 0, 5), b"entry");
}
