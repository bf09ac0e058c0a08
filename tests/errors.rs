//! A failure is a variant that can be matched, names the record or the file, and fits its cause.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::path::Path;
use std::process::Command;

use spikelet::error::{StoreHolder, WriteStop};
use spikelet::operations::{get_bin, lists};
use spikelet::policy::{GenerationPolicy, RecordExistsAction};
use spikelet::{
    Error, Expiration, Key, ListPolicy, NamespaceConfig, Set, Store, WritePolicy, expressions,
};

fn set() -> Set {
    let set = Store::in_memory().unwrap().set("users").unwrap();
    set.put("alice", [("age", 42)]).unwrap();
    set
}

/// The error names the record of this key in set `users`, in its fields and in its text.
#[track_caller]
fn names(error: &Error, key: &str) {
    let record = error.record().unwrap_or_else(|| panic!("{error:?}"));
    assert_eq!((record.set(), record.key()), ("users", &Key::from(key)));
    let named = format!("record {key:?} of set \"users\"");
    assert!(error.to_string().contains(&named), "{error}");
}

#[test]
fn an_error_of_one_record_names_its_set_and_key() {
    let set = set();
    let policy = WritePolicy::default;
    let create = policy().record_exists_action(RecordExistsAction::CreateOnly);
    let error = set.put_with(&create, "alice", [("age", 1)]).unwrap_err();
    assert!(matches!(error, Error::RecordExists { .. }));
    names(&error, "alice");

    let update = policy().record_exists_action(RecordExistsAction::UpdateOnly);
    let error = set.put_with(&update, "bob", [("age", 1)]).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }));
    names(&error, "bob");

    let error = set.operate("bob", &[get_bin("age")]).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }));
    names(&error, "bob");

    let third = policy().generation(GenerationPolicy::ExpectEqual(3));
    let error = set.delete_with(&third, "alice").unwrap_err();
    assert!(matches!(
        error,
        Error::Generation {
            expected: 3,
            found: Some(1),
            ..
        }
    ));
    names(&error, "alice");

    let young = expressions::lt(expressions::int_bin("age"), expressions::int_val(18));
    let error = set.filtered(young).unwrap().get("alice").unwrap_err();
    assert!(matches!(error, Error::FilteredOut { .. }));
    names(&error, "alice");

    let append = lists::append(&ListPolicy::default(), "age", 1);
    let error = set.operate("alice", &[append]).unwrap_err();
    assert!(matches!(error, Error::IncompatibleType { .. }));
    names(&error, "alice");

    let error = set.update("alice", |_| {
        Err::<(), _>(Error::OpNotApplicable {
            why: "not today".into(),
            record: None,
        })
    });
    names(&error.unwrap_err(), "alice");
}

#[test]
fn a_record_too_big_names_the_record_and_the_bin() {
    let set = set();
    let error = set.put("bob", [("text", "x".repeat(2 << 20))]).unwrap_err();
    names(&error, "bob");
    let Error::RecordTooBig { largest_bin, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(largest_bin.unwrap().0.as_ref(), "text");
}

#[test]
fn a_key_that_leaves_no_room_for_bins_is_named_as_the_cause() {
    let set = set();
    let key = "k".repeat(2 << 20);
    let error = set.put(&key, [("age", 1)]).unwrap_err();
    let Error::KeyTooBig { bytes, limit } = error else {
        panic!("{error}");
    };
    assert_eq!((bytes, limit), (2 << 20, 1 << 20));
    assert!(error.to_string().len() < 300, "{error}");
    assert_eq!(error.result_code(), 13);
    assert!(set.get(&key).unwrap().is_none());
    // A message shows only the beginning of a long key.
    let error = set.operate(&key, &[get_bin("age")]).unwrap_err();
    assert_eq!(error.record().unwrap().key(), &Key::from(&key));
    assert!(error.to_string().len() < 300, "{error}");
}

#[test]
fn a_record_that_is_held_is_retryable_and_named() {
    let store = Store::builder()
        .namespace(NamespaceConfig::new("test").max_waiters(0))
        .open()
        .unwrap();
    let set = store.set("users").unwrap();
    set.update("alice", |bins| {
        bins.set("age", 1)?;
        let held = std::thread::scope(|scope| {
            let put = scope.spawn(|| set.put("alice", [("age", 2)]));
            put.join().unwrap()
        });
        let error = held.unwrap_err();
        assert!(matches!(error, Error::KeyBusy { limit: 0, .. }), "{error}");
        assert!(error.is_retryable());
        names(&error, "alice");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_time_to_live_that_cannot_be_kept_is_not_retryable() {
    let set = set();
    let policy = WritePolicy::default().expiration(Expiration::After(std::time::Duration::ZERO));
    let error = set.touch_with(&policy, "alice").unwrap_err();
    assert!(matches!(error, Error::Parameter(_)), "{error}");
    assert!(!error.is_retryable());
}

#[test]
fn an_empty_path_is_refused() {
    for error in [
        Store::open("").unwrap_err(),
        Store::builder().path("").verify().unwrap_err(),
    ] {
        assert!(matches!(error, Error::Parameter(_)), "{error:?}");
        assert!(error.to_string().contains("empty"), "{error}");
    }
}

#[test]
fn a_store_that_this_process_holds_says_that_its_handles_must_go() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let set = store.set("users").unwrap();
    let refused = |what: &str| {
        let error = Store::open(dir.path()).unwrap_err();
        let Error::InUse { path, holder } = &error else {
            panic!("{what}: {error}");
        };
        assert_eq!(*holder, StoreHolder::ThisProcess, "{what}");
        assert!(path.contains("test"), "{path}");
        assert!(error.to_string().contains("drop every handle"), "{error}");
        assert!(!error.is_retryable(), "nobody else will let go of it");
    };
    refused("an open store");
    store.close().unwrap();
    refused("a closed store with handles");
    drop(store);
    refused("a set that is left");
    drop(set);
    Store::open(dir.path()).unwrap();
}

#[test]
fn a_store_that_another_process_holds_can_be_waited_for() {
    const DIR: &str = "SPIKELET_TEST_HELD_DIR";
    if let Some(dir) = std::env::var_os(DIR) {
        let error = Store::open(Path::new(&dir)).unwrap_err();
        assert!(
            matches!(
                error,
                Error::InUse {
                    holder: StoreHolder::OtherProcess,
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.to_string().contains("another process"), "{error}");
        assert!(error.is_retryable());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let _held = Store::open(dir.path()).unwrap();
    let other = Command::new(std::env::current_exe().unwrap())
        .arg("a_store_that_another_process_holds_can_be_waited_for")
        .env(DIR, dir.path())
        .output()
        .unwrap();
    assert!(other.status.success(), "{other:?}");
}

#[test]
fn what_the_system_does_not_allow_says_so() {
    // The superuser may write everywhere but into the kernel's own folders.
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("test")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o500);
    std::fs::set_permissions(dir.path().join("test"), mode).unwrap();
    let paths = [dir.path().to_owned(), "/proc/sys/kernel".into()];
    let denied = paths.into_iter().find_map(|path| match Store::open(&path) {
        Err(error @ Error::PermissionDenied { .. }) => Some((path, error)),
        _ => None,
    });
    let Some((path, error)) = denied else {
        eprintln!("nothing is denied to this process");
        return;
    };
    let text = error.to_string();
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    assert!(text.contains("right to read and write"), "{text}");
    assert!(!error.is_retryable());
}

/// Writes records of 256 KiB until one is refused.
fn filled(set: &Set) -> Error {
    let text = "x".repeat(256 << 10);
    (0..100_000)
        .find_map(|key| set.put(key, [("text", text.as_str())]).err())
        .unwrap()
}

#[test]
fn a_full_namespace_says_that_it_is_full() {
    let config = NamespaceConfig::new("test").max_device_bytes(80 << 20);
    let store = Store::builder().namespace(config).open().unwrap();
    let error = filled(&store.set("users").unwrap());
    assert!(
        matches!(
            error,
            Error::StopWrites {
                cause: WriteStop::NamespaceFull,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("namespace test") && error.to_string().contains("full"),
        "{error}"
    );
    assert!(!error.is_retryable(), "it has waited already");
}

/// A small file system of its own, if this process may make one.
struct SmallFileSystem(tempfile::TempDir);

impl SmallFileSystem {
    fn new(bytes: u64) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(dir.path())
            .output();
        match mounted {
            Ok(done) if done.status.success() => Some(Self(dir)),
            _ => None,
        }
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_file_system_is_not_taken_for_a_full_namespace() {
    let Some(small) = SmallFileSystem::new(160 << 20) else {
        eprintln!("this process may not mount a small file system");
        return;
    };
    let store = Store::open(small.0.path().join("store")).unwrap();
    let set = store.set("users").unwrap();
    let error = filled(&set);
    assert!(
        matches!(
            error,
            Error::StopWrites {
                cause: WriteStop::FileSystemFull,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.to_string().contains("file system is full"), "{error}");
    assert!(set.delete(0).unwrap().is_some(), "deletes still work");
    assert!(!error.is_retryable());
}
