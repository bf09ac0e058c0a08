//! Writes that return before they are durable, and how to wait for them.

#![allow(clippy::unwrap_used, missing_docs)]

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use spikelet::operations::{get_bin, put};
use spikelet::policy::Acknowledge;
use spikelet::{Durability, Lsn, Namespace, NamespaceConfig, Set, Store, WritePolicy};

/// A store in memory, and its namespace and a set of it.
fn open(durability: Durability, background: bool) -> (Store, Namespace, Set) {
    let mut config = NamespaceConfig::new("test");
    config.durability = durability;
    config.background = background;
    let store = Store::builder().namespace(config).open().unwrap();
    let (namespace, set) = (
        store.namespace("test").unwrap(),
        store.set("users").unwrap(),
    );
    set.put("first", [("n", 0)]).unwrap();
    namespace.sync().unwrap();
    (store, namespace, set)
}

fn applied() -> WritePolicy {
    WritePolicy::default().acknowledge(Acknowledge::Applied)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn every_write_tells_its_number_and_numbers_rise() {
    let (_store, namespace, set) = open(Durability::Process, false);
    let mut writes: Vec<Lsn> = vec![namespace.last_lsn()];
    writes.push(set.put("k", [("n", 1)]).unwrap());
    writes.push(set.add("k", [("n", 1)]).unwrap());
    writes.push(set.append("k", [("s", "b")]).unwrap());
    writes.push(set.prepend("k", [("s", "a")]).unwrap());
    writes.push(set.touch("k").unwrap());
    let bins = std::collections::BTreeMap::from([("n", 5)]);
    writes.push(set.put_as("k", &bins).unwrap());
    let both = set.operate("k", &[put("n", 2), get_bin("n")]).unwrap();
    writes.push(both.lsn.unwrap());
    set.update("k", |bins| bins.set("n", 3)).unwrap();
    writes.push(namespace.last_lsn());
    writes.push(set.delete("k").unwrap().unwrap());
    assert!(writes.is_sorted_by(|one, next| one < next), "{writes:?}");
    assert_eq!(
        set.operate("first", &[get_bin("n")]).unwrap().lsn,
        None,
        "nothing was written"
    );
    assert_eq!(
        set.delete("k").unwrap(),
        None,
        "there was nothing to delete"
    );
}

#[test]
fn a_commit_syncs_unless_the_policy_is_content_with_less() {
    let (_store, namespace, set) = open(Durability::Commit, false);
    let syncs = || namespace.stats().syncs;
    let before = syncs();
    let lsn = set.put("k", [("n", 1)]).unwrap();
    assert_eq!(
        (syncs(), namespace.durable_lsn() >= lsn),
        (before + 1, true)
    );

    set.put_with(&applied(), "k", [("n", 2)]).unwrap();
    set.operate_with(&applied(), "k", &[put("n", 3)]).unwrap();
    set.update_with(&applied(), "k", |bins| bins.set("m", 4))
        .unwrap();
    set.put_with(&applied(), "gone", [("n", 1)]).unwrap();
    let last = set.delete_with(&applied(), "gone").unwrap().unwrap();
    assert_eq!(
        (syncs(), namespace.durable_lsn() < last),
        (before + 1, true)
    );
    assert_eq!(
        set.get("k").unwrap().unwrap().get("n"),
        Some(3.into()),
        "all see it at once"
    );

    namespace.wait_durable(last).unwrap();
    namespace.wait_durable(last).unwrap();
    assert_eq!(
        (syncs(), namespace.durable_lsn() >= last),
        (before + 2, true)
    );
}

#[test]
fn any_write_can_be_waited_for_whatever_the_namespace_promises() {
    for durability in [
        Durability::Process,
        Durability::default(),
        Durability::Commit,
    ] {
        for background in [false, true] {
            let (_store, namespace, set) = open(durability, background);
            let lsn = set.put_with(&applied(), "k", [("n", 1)]).unwrap();
            block_on(namespace.durable(lsn)).unwrap();
            assert!(namespace.durable_lsn() >= lsn, "{durability:?}");
            let lsn = set.put_with(&applied(), "k", [("n", 2)]).unwrap();
            namespace.wait_durable(lsn).unwrap();
            assert!(namespace.durable_lsn() >= lsn, "{durability:?}");
        }
    }
}

#[test]
fn many_futures_share_a_sync() {
    let (_store, namespace, set) = open(Durability::Commit, true);
    let before = namespace.stats().syncs;
    let writes: Vec<Lsn> = (0..200)
        .map(|key| set.put_with(&applied(), key, [("n", key)]).unwrap())
        .collect();
    let mut futures: Vec<_> = writes
        .iter()
        .map(|lsn| Box::pin(namespace.durable(*lsn)))
        .collect();
    block_on(std::future::poll_fn(|context| {
        futures.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Ready(done) => {
                done.unwrap();
                false
            }
            Poll::Pending => true,
        });
        if futures.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    assert_eq!(namespace.stats().syncs, before + 1);
}

#[test]
fn closing_the_store_completes_what_is_waited_for() {
    let (store, namespace, set) = open(Durability::Commit, true);
    let waiting = namespace.durable(set.put_with(&applied(), "k", [("n", 1)]).unwrap());
    store.close().unwrap();
    block_on(waiting).unwrap();
}

#[test]
fn the_number_of_another_namespace_is_refused() {
    let (_store, namespace, _) = open(Durability::Commit, false);
    let beyond = Lsn::new(namespace.last_lsn().get() + 1);
    assert_eq!(namespace.wait_durable(beyond).unwrap_err().result_code(), 4);
    assert_eq!(
        block_on(namespace.durable(beyond))
            .unwrap_err()
            .result_code(),
        4
    );
}

#[test]
fn a_future_can_be_sent_to_other_threads_and_borrows_nothing() {
    let (_store, namespace, set) = open(Durability::Commit, true);
    let future = namespace.durable(set.put_with(&applied(), "k", [("n", 1)]).unwrap());
    thread::spawn(move || block_on(future).unwrap())
        .join()
        .unwrap();
}
