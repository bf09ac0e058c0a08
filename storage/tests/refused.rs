//! Invalid files are refused with a clear error, and nothing is changed in them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::small::{BLOCKS, Small, check, fill};
use common::{digest, files, get, options, put};
use spikelet_storage::{
    BLOCK_BYTES, DeviceError, Error, FileDevice, HEADER_BYTES, Member, Namespace, Options,
};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

/// Opening fails in every way to open, and changes nothing.
fn refused(options: &Options, paths: &[PathBuf]) -> DeviceError {
    let read = |path: &PathBuf| std::fs::read(path).ok();
    let before: Vec<_> = paths.iter().map(read).collect();
    let attempts = [
        Namespace::open(options.clone()).map(|_| ()),
        Namespace::open_read_only(options.clone()).map(|_| ()),
        Namespace::verify(options).map(|_| ()),
    ];
    let mut errors: Vec<DeviceError> = attempts
        .into_iter()
        .map(|attempt| match attempt.unwrap_err() {
            Error::Device(error) => error,
            other => panic!("{other}"),
        })
        .collect();
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    assert!(
        before == paths.iter().map(read).collect::<Vec<_>>(),
        "files changed by a failed opening"
    );
    errors.remove(0)
}

#[test]
fn a_device_that_was_cut_off_is_refused_with_both_lengths() {
    for close in [true, false] {
        let small = Small::new(close);
        let whole = std::fs::metadata(small.device()).unwrap().len();
        assert!(whole > HEADER_BYTES + BLOCK_BYTES);
        let content = std::fs::read(small.device()).unwrap();
        for length in [
            8,
            128,
            5000,
            HEADER_BYTES - 1,
            HEADER_BYTES,
            HEADER_BYTES + 100,
            BLOCK_BYTES,
            whole - 1,
        ] {
            OpenOptions::new()
                .write(true)
                .open(small.device())
                .unwrap()
                .set_len(length)
                .unwrap();
            match refused(&small.options(), &[small.device()]) {
                DeviceError::Truncated {
                    len_bytes,
                    expected_bytes,
                    path,
                } => {
                    assert_eq!(len_bytes, length);
                    assert_eq!(
                        expected_bytes,
                        if length < HEADER_BYTES {
                            HEADER_BYTES
                        } else {
                            whole
                        }
                    );
                    assert_eq!(path, small.device().display().to_string());
                }
                other => panic!("cut to {length}: {other}"),
            }
            std::fs::write(small.device(), &content).unwrap();
        }
        let (namespace, _) = Namespace::open(small.options()).unwrap();
        assert_eq!(check(&namespace, "whole again"), []);
    }
}

#[test]
fn zeroed_empty_and_foreign_files_are_refused() {
    let small = Small::new(true);
    let zeroed_start = {
        let mut content = small.start.clone();
        content[..HEADER_BYTES as usize].fill(0);
        content
    };
    let mut doubly_damaged = small.start.clone();
    for copy in [0, 12_288] {
        doubly_damaged[copy + 20] ^= 1;
        doubly_damaged[copy + 30] ^= 1;
    }
    let contents: [(&[u8], &str); 6] = [
        (b"", "it is empty"),
        (&[0; 100_000], "it begins with zeros"),
        (&zeroed_start, "it begins with zeros"),
        (b"name,city\nalice,Bern\n", "it begins with something else"),
        (&[0xff; 100_000], "it begins with something else"),
        (&doubly_damaged, "its checksum does not match"),
    ];
    for (content, expected) in contents {
        std::fs::write(small.device(), content).unwrap();
        let error = refused(&small.options(), &[small.device()]);
        let (DeviceError::NotADevice { found: reason, .. }
        | DeviceError::DamagedHeader { reason, .. }) = error
        else {
            panic!("{expected}: {error}");
        };
        assert_eq!(reason, expected);
    }
    std::fs::remove_file(small.device()).unwrap();
    std::fs::create_dir(small.device()).unwrap();
    let error = Namespace::open_read_only(small.options()).unwrap_err();
    assert!(
        matches!(error, Error::Device(DeviceError::NotADevice { .. })),
        "{error}"
    );
}

/// Where a refused device belongs, and where it was to be opened.
fn members_of(error: DeviceError) -> (Member, Member) {
    match error {
        DeviceError::WrongMember {
            found, expected, ..
        } => (found, expected),
        other => panic!("{other}"),
    }
}

fn striped(dir: &Path) -> (Options, Vec<PathBuf>) {
    let options = options(files(dir, 2), BLOCKS);
    let (namespace, _) = Namespace::open(options.clone()).unwrap();
    fill(&namespace);
    namespace.close().unwrap();
    let paths = vec![
        dir.join("device-0"),
        dir.join("device-1"),
        dir.join("index.snapshot"),
    ];
    (options, paths)
}

#[test]
fn swapped_missing_and_surplus_devices_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (both, paths) = striped(dir.path());
    let aside = dir.path().join("aside");

    std::fs::rename(&paths[0], &aside).unwrap();
    std::fs::rename(&paths[1], &paths[0]).unwrap();
    std::fs::rename(&aside, &paths[1]).unwrap();
    let error = refused(&both, &paths);
    let (found, expected) = members_of(error);
    assert_eq!((found.index, expected.index), (1, 0));
    std::fs::rename(&paths[0], &aside).unwrap();
    std::fs::rename(&paths[1], &paths[0]).unwrap();
    std::fs::rename(&aside, &paths[1]).unwrap();

    let error = refused(&options(files(dir.path(), 1), BLOCKS), &paths);
    let (found, expected) = members_of(error);
    assert_eq!((found.count, expected.count), (2, 1));
    let error = refused(&options(files(dir.path(), 3), BLOCKS), &paths);
    assert!(
        matches!(error, DeviceError::Io { action: "open", .. }),
        "{error}"
    );

    for missing in &paths[..2] {
        std::fs::rename(missing, &aside).unwrap();
        let error = refused(&both, &paths);
        assert!(
            error.to_string().contains(&missing.display().to_string()),
            "{error}"
        );
        assert!(
            !missing.exists(),
            "a lost device is not made up for by an empty one"
        );
        std::fs::rename(&aside, missing).unwrap();
    }
    let (namespace, opening) = Namespace::open(both).unwrap();
    assert!(opening.from_snapshot && !opening.created);
    assert_eq!(check(&namespace, "all devices in their places"), []);
}

#[test]
fn a_creation_that_was_interrupted_between_two_devices_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let first = dir.path().join("device-0");
    drop(FileDevice::create(&first, &common::header(0, 2, BLOCKS)).unwrap());
    let both = options(files(dir.path(), 2), BLOCKS);
    let error = Namespace::open_read_only(both.clone()).unwrap_err();
    assert!(
        matches!(error, Error::Device(DeviceError::Io { action: "open", .. })),
        "{error}"
    );
    let (namespace, opening) = Namespace::open(both).unwrap();
    assert!(opening.created);
    put(&namespace, &digest(1), b"first").unwrap();
}

#[test]
fn another_namespace_or_key_hash_is_refused() {
    let small = Small::new(true);
    let other = Options {
        name: "other".into(),
        ..small.options()
    };
    let error = refused(&other, &[small.device()]);
    let (found, expected) = members_of(error);
    assert_eq!(
        (&*found.namespace, &*expected.namespace),
        (common::NAME, "other")
    );
    let other = Options {
        key_hash: 1,
        ..small.options()
    };
    let error = refused(&other, &[small.device()]);
    let (found, expected) = members_of(error);
    assert_eq!((found.key_hash, expected.key_hash), (0, 1));
}

#[test]
fn a_second_opener_is_refused_and_readers_share() {
    let small = Small::new(true);
    let (namespace, _) = Namespace::open(small.options()).unwrap();
    let error = refused(&small.options(), &[small.device()]);
    assert!(matches!(error, DeviceError::Locked { .. }), "{error}");
    namespace.close().unwrap();
    drop(namespace);
    let (first, _) = Namespace::open_read_only(small.options()).unwrap();
    let (second, _) = Namespace::open_read_only(small.options()).unwrap();
    assert_eq!(check(&first, "two readers"), []);
    assert_eq!(check(&second, "two readers"), []);
    let error = Namespace::open(small.options()).unwrap_err();
    assert!(
        matches!(error, Error::Device(DeviceError::Locked { .. })),
        "{error}"
    );
}

#[test]
fn a_device_of_another_store_is_refused_whichever_was_written_last() {
    for (closed, later) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let stores = places.each_ref().map(|place| {
            let options = options(files(place.path(), 2), BLOCKS);
            let (namespace, _) = Namespace::open(options.clone()).unwrap();
            put(&namespace, &digest(1), b"of this store").unwrap();
            namespace.sync().unwrap();
            if closed {
                namespace.close().unwrap();
            }
            options
        });
        let (namespace, _) = Namespace::open(stores[later].clone()).unwrap();
        (0..9).for_each(|_| namespace.sync().unwrap());
        drop(namespace);
        for name in ["device-0", "device-1"] {
            let own = std::fs::read(places[0].path().join(name)).unwrap();
            std::fs::copy(places[1].path().join(name), places[0].path().join(name)).unwrap();
            let paths = [0, 1].map(|number| places[0].path().join(format!("device-{number}")));
            let error = refused(&stores[0], &paths);
            assert!(
                matches!(&error, DeviceError::OtherStore { path }
                    if paths.iter().any(|known| known.to_str() == Some(path))),
                "{closed} {later} {name}: {error}"
            );
            std::fs::write(places[0].path().join(name), own).unwrap();
        }
        let (namespace, _) = Namespace::open(stores[0].clone()).unwrap();
        assert_eq!(
            get(&namespace, &digest(1)).unwrap().unwrap(),
            b"of this store"
        );
    }
}

#[test]
fn a_device_cut_to_nothing_is_refused_though_its_store_was_not_closed() {
    let small = Small::new(false);
    if !small.device().with_extension("staging").exists() {
        return;
    }
    for length in [0, HEADER_BYTES] {
        std::fs::write(small.device(), vec![0; length as usize]).unwrap();
        let error = refused(&small.options(), &[small.device()]);
        assert!(matches!(error, DeviceError::NotADevice { .. }), "{error}");
    }
}

#[test]
fn a_sync_of_a_reader_is_refused_and_is_no_failed_sync() {
    let small = Small::new(false);
    let (namespace, _) = Namespace::open(small.options()).unwrap();
    put(&namespace, &digest(1), b"not synced").unwrap();
    drop(namespace);
    let (namespace, _) = Namespace::open_read_only(small.options()).unwrap();
    let last = namespace.last_lsn();
    for refused in [namespace.sync(), namespace.wait_durable(last)] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::OpenedForReading { .. }), "{error}");
    }
    namespace.wait_durable(namespace.durable_lsn()).unwrap();
    assert_eq!(namespace.stats().read_only, None);
}
