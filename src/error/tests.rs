//! Numbers and messages of errors.

use spikelet_storage::{DeviceError, FullCause};

use super::*;

#[test]
fn every_error_has_aerospikes_number_and_says_whether_to_retry() {
    let none = || "x".into();
    let table = [
        (Error::malformed("record", CodecError::Truncated), 1, false),
        (Error::not_storable(CodecError::DuplicateKey), 1, false),
        (Error::not_found(), 2, false),
        (
            Error::Generation {
                expected: 1,
                found: Some(2),
                record: None,
            },
            3,
            false,
        ),
        (Error::parameter("no operations"), 4, false),
        (Error::Serde(none()), 4, false),
        (Error::RecordExists { record: None }, 5, false),
        (
            Error::StopWrites {
                namespace: none(),
                cause: WriteStop::NamespaceFull,
            },
            8,
            false,
        ),
        (
            Error::Timeout {
                after: Duration::from_millis(5),
                in_doubt: false,
                record: None,
            },
            9,
            true,
        ),
        (
            Error::Timeout {
                after: Duration::from_millis(5),
                in_doubt: true,
                record: None,
            },
            9,
            false,
        ),
        (
            Error::IncompatibleType {
                bin: none(),
                found: "map",
                operation: "append",
                record: None,
            },
            12,
            false,
        ),
        (
            Error::RecordTooBig {
                size: 2,
                limit: 1,
                largest_bin: None,
                record: None,
            },
            13,
            false,
        ),
        (
            Error::KeyBusy {
                waiting: 20,
                limit: 20,
                record: None,
            },
            14,
            true,
        ),
        (
            Error::KeyTooBig {
                bytes: 2 << 20,
                limit: 1 << 20,
            },
            13,
            false,
        ),
        (
            Error::InUse {
                path: none(),
                holder: StoreHolder::OtherProcess,
            },
            1,
            true,
        ),
        (
            Error::InUse {
                path: none(),
                holder: StoreHolder::ThisProcess,
            },
            1,
            false,
        ),
        (
            StorageError::NoSpace {
                namespace: "x".to_owned(),
            }
            .into(),
            8,
            true,
        ),
        (
            StorageError::Device(DeviceError::Full {
                path: "x".to_owned(),
                len_bytes: 0,
                wanted_bytes: 1,
                cause: FullCause::Disk,
            })
            .into(),
            8,
            false,
        ),
        (Error::key_mismatch(), 19, false),
        (Error::Namespace(none()), 20, false),
        (Error::BinName(none()), 21, false),
        (Error::Forbidden("ttl".into()), 22, false),
        (
            Error::ElementNotFound {
                bin: none(),
                hint: "",
                record: None,
            },
            23,
            false,
        ),
        (
            Error::ElementExists {
                bin: none(),
                hint: "",
                record: None,
            },
            24,
            false,
        ),
        (Error::not_applicable("index".into()), 26, false),
        (
            Error::BinExists {
                bin: none(),
                record: None,
            },
            6,
            false,
        ),
        (Error::bin_not_found("x"), 17, false),
        (Error::FilteredOut { record: None }, 27, false),
        (Error::GeoJson("x".into()), 160, false),
        (
            Error::ShardMissing {
                key: none(),
                shard: 3,
            },
            1,
            false,
        ),
        (Error::ShardKeyCollision { key: none() }, 5, false),
        (Error::PastRetention { bucket: none() }, 22, false),
        (
            Error::ShardRoot {
                set: none(),
                key: none(),
                loses: ShardLoss::Now,
            },
            22,
            false,
        ),
        (
            Error::ShardCompanion {
                set: none(),
                key: none(),
            },
            22,
            false,
        ),
        (
            Error::ShardIndexed {
                bin: "tags".into(),
                index: "by_tag".into(),
                why: "it is unique",
            },
            22,
            false,
        ),
        (
            Error::ShardScheme {
                found: none(),
                why: "",
            },
            1,
            false,
        ),
    ];
    for (error, code, retryable) in table {
        assert_eq!(error.result_code(), code, "{error}");
        assert_eq!(error.is_retryable(), retryable, "{error}");
    }
}

#[test]
fn a_record_too_big_names_the_bin_to_blame() {
    let error = Error::RecordTooBig {
        size: 1_048_600,
        limit: 1_048_576,
        largest_bin: Some(("friends".into(), 1_000_000)),
        record: None,
    };
    assert!(
        error
            .to_string()
            .contains("largest bin: \"friends\", 1000000 bytes")
    );
}

#[test]
fn what_the_system_does_not_allow_is_told_from_other_failures() {
    let failed = |kind| {
        Error::from(StorageError::Device(DeviceError::Io {
            path: "/store/test".to_owned(),
            action: "create",
            source: std::io::Error::from(kind),
        }))
    };
    let denied = failed(std::io::ErrorKind::PermissionDenied);
    assert!(matches!(denied, Error::PermissionDenied { .. }), "{denied}");
    assert!(denied.to_string().contains("/store/test"), "{denied}");
    let other = failed(std::io::ErrorKind::NotFound);
    assert!(matches!(other, Error::Storage(_)), "{other}");
}
