//! Consumers beside damaged records, and positions that cannot be gone to.

use std::collections::BTreeMap;
use std::fs;
use std::task::{Context, Poll, Waker};

use spikelet::changes::{ChangeOptions, Start, Subscription};
use spikelet::expressions::{eq, string_bin, string_val};
use spikelet::{Error, NamespaceConfig, ShardedList, Store};

use crate::{NOW, keys, memory, published, put, subscribe};

#[test]
fn changes_beside_a_damaged_record_come_again_once_it_is_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let config = NamespaceConfig::new("test").background(false);
        let store = Store::builder().path(dir.path()).namespace(config);
        store.open().unwrap()
    };
    let store = open();
    let options = ChangeOptions::default().records(true);
    subscribe(&store.namespace("test").unwrap(), options);
    let users = store.set("users").unwrap();
    for name in ["alice", "bob", "carol"] {
        users.put(name, [("text", "first")]).unwrap();
    }
    let text = "a text that nobody else has";
    users.put("bob", [("text", text)]).unwrap();
    store.close().unwrap();
    drop((store, users));

    let device = dir.path().join("test/device-0");
    let mut bytes = fs::read(&device).unwrap();
    let mut windows = bytes.windows(text.len());
    let found = windows.position(|window| window == text.as_bytes());
    bytes[found.unwrap()] ^= 0xff;
    fs::write(&device, bytes).unwrap();

    let store = open();
    let namespace = store.namespace("test").unwrap();
    let subscription = namespace.changes().subscription("test").unwrap();
    let mut consumer = subscription.consumer().unwrap();
    let batch = consumer.next_batch(2, NOW).unwrap();
    assert_eq!(keys(&batch), ["\"alice\""]);
    consumer.ack(&batch).unwrap();
    for _ in 0..2 {
        let refused = consumer.next_batch(2, NOW).unwrap_err();
        assert!(refused.is_damage(), "{refused}");
        let record = refused.record().unwrap();
        assert_eq!((record.set(), record.key()), ("users", &"bob".into()));
    }
    drop(consumer);
    let mut consumer = subscription.consumer().unwrap();
    let anew = BTreeMap::from([("text", "anew")]);
    let users = store.set("users").unwrap();
    users.put_as("bob", &anew).unwrap();
    let batch = consumer.next_batch(2, NOW).unwrap();
    assert_eq!(keys(&batch), ["\"bob\"", "\"carol\""]);
    let bob = batch[0].record.as_ref().unwrap();
    assert_eq!(bob.get("text"), Some("anew".into()));
}

#[test]
fn a_refused_seek_acknowledges_nothing() {
    let (store, namespace) = memory();
    let options = ChangeOptions::default().set("users");
    let mut consumer = subscribe(&namespace, options).consumer().unwrap();
    let acknowledged = || namespace.changes().subscriptions().remove(0).acknowledged;
    let before = acknowledged();
    put(&store, "alice", 42);
    namespace.changes().disable("users").unwrap();
    consumer.seek(Start::Now).unwrap_err();
    assert_eq!(acknowledged(), before);
}

#[test]
fn a_consumer_of_a_removed_subscription_acknowledges_nothing_of_the_next_one() {
    let (store, namespace) = memory();
    put(&store, "alice", 42);
    let options = || published().set("users");
    let mut former = subscribe(&namespace, options()).consumer().unwrap();
    put(&store, "bob", 12);
    let batch = former.next_batch(9, NOW).unwrap();
    let changes = namespace.changes();
    changes.unsubscribe("test").unwrap();
    let subscription = changes.subscribe("test", Start::Beginning, options());
    let subscription = subscription.unwrap();
    let refused = former.ack(&batch).unwrap_err();
    assert!(refused.to_string().contains("no subscription \"test\""));
    // Its end leaves the share to the next consumer.
    let mut consumer = subscription.consumer().unwrap();
    drop(former);
    assert_eq!(keys(&consumer.next_batch(9, NOW).unwrap()), ["\"bob\""]);
    subscription.consumer().unwrap_err();
}

#[test]
fn a_handle_of_a_removed_subscription_consumes_nothing_of_the_next_one() {
    let (store, namespace) = memory();
    let changes = namespace.changes();
    for set in ["users", "posts"] {
        changes.enable(set).unwrap();
    }
    let subscribe = |set| {
        let options = published().set(set);
        changes.subscribe("test", Start::Now, options).unwrap()
    };
    // With the options of the next one, and with others.
    for set in ["posts", "users"] {
        let former = subscribe(set);
        changes.unsubscribe("test").unwrap();
        let next = subscribe("posts");
        store.set("posts").unwrap().put(1, [("n", 1)]).unwrap();
        put(&store, 1, 42);
        let refused = former.consumer().unwrap_err();
        assert!(matches!(refused, Error::Parameter(_)), "{refused}");
        let batch = next.consumer().unwrap().next_batch(9, NOW).unwrap();
        assert_eq!(keys(&batch), ["1"], "{set}");
        changes.unsubscribe("test").unwrap();
    }
}

#[test]
fn a_consumer_learns_of_changes_that_were_not_kept_meanwhile() {
    let (store, namespace) = memory();
    let changes = namespace.changes();
    // Of which changes are kept all the time.
    changes.enable("posts").unwrap();
    let mut consumer = subscribe(&namespace, published().set("users"))
        .consumer()
        .unwrap();
    changes.disable("users").unwrap();
    let lost = |read| matches!(read, Err(Error::ChangesLost { .. }));
    assert!(lost(consumer.next_batch(9, NOW)));
    put(&store, 1, 42);
    changes.enable("users").unwrap();
    put(&store, 2, 42);
    let polled = consumer.poll_batch(9, &mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled.map(lost), Poll::Ready(true)));
    for _ in 0..2 {
        assert!(lost(consumer.next_batch(9, NOW)));
    }
    // Behind which the changes are still missing.
    let refused = consumer.seek(Start::Beginning);
    assert!(matches!(refused, Err(Error::ChangesLost { .. })));
    consumer.seek(Start::Now).unwrap();
    put(&store, 3, 42);
    assert_eq!(keys(&consumer.next_batch(9, NOW).unwrap()), ["3"]);
}

#[test]
fn the_largest_subscription_leaves_room_for_what_is_noted_later() {
    let subscribe = |bytes: usize| -> Result<(Store, Subscription), Error> {
        let (store, namespace) = memory();
        let changes = namespace.changes();
        changes.enable("users").unwrap();
        let literal = string_val("x".repeat(bytes));
        let options = published().filter(eq(string_bin("text"), literal));
        let subscription = changes.subscribe("test", Start::Now, options)?;
        Ok((store, subscription))
    };
    let (mut taken, mut refused) = (0, 512 << 10);
    while refused - taken > 1 {
        let middle = usize::midpoint(taken, refused);
        match subscribe(middle) {
            Ok(_) => taken = middle,
            Err(_) => refused = middle,
        }
    }
    let told = subscribe(refused).err().unwrap().to_string();
    assert!(told.contains("512 KiB"), "{told}");
    let (store, subscription) = subscribe(taken).unwrap();
    // That the set has companions is noted beside it.
    let votes = ShardedList::new(&store, "users", "alice", "votes").unwrap();
    votes.add(1).unwrap();
    votes.shards().activate(2).unwrap();
    let mut consumer = subscription.consumer().unwrap();
    consumer.seek(Start::Now).unwrap();
    let changes = store.namespace("test").unwrap().changes();
    assert!(changes.unsubscribe("test").unwrap());
    changes.subscribe("test", Start::Now, published()).unwrap();
}
