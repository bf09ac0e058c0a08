//! Finding 8: the child of a fork cannot write to the store that its parent has open, and does it
//! no harm.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{delete, digest, files, get, options, put};
use spikelet_storage::{Error, Namespace, Truncate};

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

fn is_refused<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Forked { .. }))
}

#[test]
fn a_child_is_refused_and_its_parent_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = || options(files(dir.path(), 1), 9);
    let (namespace, _) = Namespace::open(wanted()).unwrap();
    for number in 0..1_000 {
        put(&namespace, &digest(number), b"before the fork").unwrap();
    }
    // SAFETY: the other threads of this process hold no lock that the child needs: the namespace
    // has none of its own, and the child ends by `_exit`.
    let child = unsafe { fork() };
    assert!(child >= 0);
    if child == 0 {
        let attempts = [
            is_refused(put(&namespace, &digest(1), b"by the child")),
            is_refused(delete(&namespace, &digest(2))),
            is_refused(namespace.truncate(Truncate::Namespace, None)),
            is_refused(namespace.create_set("of the child")),
            is_refused(namespace.maintain()),
            is_refused(namespace.sync()),
            is_refused(namespace.wait_durable(namespace.last_lsn())),
            is_refused(namespace.close()),
        ];
        let failed = attempts.iter().position(|refused| !refused);
        // SAFETY: ends the child at once.
        unsafe { _exit(failed.map_or(0, |attempt| 1 + attempt as i32)) };
    }
    for number in 0..1_000 {
        put(&namespace, &digest(number), b"after the fork").unwrap();
    }
    let mut status = -1;
    // SAFETY: `status` is valid for a write.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(
        status,
        0,
        "attempt {} of the child was not refused",
        status >> 8
    );
    namespace.sync().unwrap();
    drop(namespace);
    let verified = Namespace::verify(&wanted()).unwrap();
    assert!(!verified.is_damaged(), "{verified:?}");
    let (namespace, _) = Namespace::open(wanted()).unwrap();
    for number in 0..1_000 {
        assert_eq!(
            get(&namespace, &digest(number)).unwrap(),
            Some(b"after the fork".to_vec())
        );
    }
}
