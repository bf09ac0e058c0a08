//! Consumers that wait for changes, in a thread and in a task.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use spikelet::changes::{ChangeBatch, ChangeOptions, Start};

use crate::{LONG, NOW, memory, open, published, put, subscribe};

#[test]
fn a_consumer_waits_blocking_and_in_a_task() {
    for options in [published(), ChangeOptions::default()] {
        let dir = tempfile::tempdir().unwrap();
        let (store, namespace) = open(dir.path());
        let subscription = subscribe(&namespace, options);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..200).for_each(|key| put(&store, key, 1)));
            let mut consumer = subscription.consumer().unwrap();
            let mut seen = 0;
            while seen < 200 {
                let batch = consumer.next_batch(7, LONG).unwrap();
                assert!(!batch.is_empty());
                seen += batch.len();
                consumer.ack(&batch).unwrap();
            }
            writer.join().unwrap();
        });
        let mut consumer = subscription.consumer().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let writer = store.clone();
        let seen = runtime.block_on(async move {
            tokio::spawn(async move { (0..200).for_each(|key| put(&writer, key, 2)) });
            let mut seen = 0;
            while seen < 200 {
                let batch = consumer.batch(9).await.unwrap();
                seen += batch.len();
                consumer.ack(&batch).unwrap();
            }
            seen
        });
        assert_eq!(seen, 200);
        // As an iterator.
        put(&store, "iterated", 3);
        let mut consumer = subscription.consumer().unwrap();
        let batch = consumer.next().unwrap().unwrap();
        assert_eq!(batch.len(), 1);
    }
}

#[test]
fn a_dropped_future_of_a_stream_loses_no_changes() {
    fn poll(mut next: impl Future<Output = spikelet::Result<ChangeBatch>> + Send + Unpin) -> usize {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(&mut next).poll(&mut context) {
            Poll::Ready(batch) => batch.unwrap().len(),
            Poll::Pending => 0,
        }
    }
    let (store, namespace) = memory();
    namespace.changes().enable("users").unwrap();
    let mut stream = namespace.changes().read(Start::Now, published()).unwrap();
    assert_eq!(poll(stream.batch(2)), 0);
    (1..=3).for_each(|key| put(&store, key, 1));
    drop(stream.batch(2));
    assert_eq!(poll(stream.batch(2)), 2);
    assert_eq!(poll(stream.batch(2)), 1);
    assert_eq!(poll(stream.batch(2)), 0);
}

#[test]
fn a_consumer_that_waits_is_told_that_the_store_was_closed() {
    for options in [published(), ChangeOptions::default()] {
        let (store, namespace) = memory();
        let subscription = subscribe(&namespace, options);
        let mut consumer = subscription.consumer().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                let seen = consumer.next_batch(10, LONG).unwrap().len();
                let ended = consumer.next_batch(10, LONG).unwrap_err();
                let none = consumer.next_batch(10, NOW).unwrap();
                (seen, ended.to_string(), none.is_empty())
            });
            put(&store, "a", 1);
            store.close().unwrap();
            let (seen, ended, has_none) = waiting.join().unwrap();
            assert_eq!((seen, has_none), (1, true));
            assert!(ended.contains("was closed"), "{ended}");
        });
    }
}
