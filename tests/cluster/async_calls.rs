//! The calls of async programs.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use spikelet::cluster::AsyncSet;
use spikelet::expressions::{ExpReadFlags, record_size};
use spikelet::operations as ops;
use spikelet::{Error, RecordCall, RecordSet, RecordStore, Result, ShardedList, WritePolicy};

use crate::common::Served;

/// Makes every call; any runtime may run the futures.
async fn all_calls(users: AsyncSet) {
    users.put("alice", [("n", 1)]).await.unwrap();
    let visit = [ops::add("n", 2), ops::get_bin("n")];
    let visited = users.operate("alice", &visit).await.unwrap();
    assert_eq!((visited.generation, visited.value(1)), (2, Some(&3.into())));
    // The size of the record is not asked for by itself.
    let size = ops::exp::read("size", record_size(), ExpReadFlags::EVAL_NO_FAIL);
    let sized = users.operate("alice", &[size]).await.unwrap();
    let bytes = sized.value(0).and_then(spikelet::Value::as_i64).unwrap();
    assert!(bytes > 0 && sized.record_bytes == 0, "{sized:?}");
    let read = users.get("alice").await.unwrap().unwrap();
    assert_eq!((read.get("n"), read.generation()), (Some(3.into()), 2));
    assert!(users.exists("alice").await.unwrap());
    assert!(!users.exists("bob").await.unwrap());
    assert_eq!(users.get("bob").await.unwrap().map(drop), None);
    let found = users.get_batch(["bob", "alice"]).await;
    let found: Vec<bool> = found
        .into_iter()
        .map(|read| read.unwrap().is_some())
        .collect();
    assert_eq!(found, [false, true]);
    let only_new = WritePolicy::default()
        .record_exists_action(spikelet::policy::RecordExistsAction::CreateOnly);
    let refused = users.operate_with(&only_new, "alice", &visit).await;
    assert!(
        matches!(refused, Err(Error::RecordExists { .. })),
        "{refused:?}"
    );
    let policy = WritePolicy::default();
    let calls = [1, 2, 1].map(|key: i64| RecordCall {
        policy: &policy,
        key: key.into(),
        operations: &visit,
    });
    let counts = users.operate_each(&calls).await;
    let counts: Vec<_> = counts
        .iter()
        .map(|it| it.as_ref().unwrap().value(1))
        .collect();
    assert_eq!(counts, [Some(&2.into()), Some(&2.into()), Some(&4.into())]);
    let mut seen = 0;
    let count = |record: Result<_>| {
        seen += i64::from(record.is_ok());
        ControlFlow::Continue(())
    };
    users.scan(count).await;
    assert_eq!(seen, 3);
    assert!(users.delete("alice").await.unwrap());
    assert!(!users.delete("alice").await.unwrap());
    for key in 1..3 {
        assert!(users.delete(key).await.unwrap());
    }
}

/// A runtime that knows nothing of the client's.
fn run<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
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
fn the_calls_are_futures_of_any_runtime() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let users = || cluster.async_set("users").unwrap();
    run(all_calls(users()));
    let mut single = tokio::runtime::Builder::new_current_thread();
    single.build().unwrap().block_on(all_calls(users()));
    let several = tokio::runtime::Runtime::new().unwrap();
    several.block_on(several.spawn(all_calls(users()))).unwrap();
    // Connections that one runtime has made serve after its end.
    drop(several);
    run(all_calls(users()));
    assert!(cluster.async_set(&"x".repeat(64)).is_err());
}

#[test]
fn a_cluster_works_in_the_runtime_of_its_tasks() {
    let served = Served::in_memory();
    let mut single = tokio::runtime::Builder::new_current_thread();
    let runtimes = [
        tokio::runtime::Runtime::new().unwrap(),
        single.enable_all().build().unwrap(),
    ];
    for runtime in runtimes {
        let cluster = runtime.block_on(async {
            let cluster = served.builder().connect_async().await.unwrap();
            all_calls(cluster.async_set("users").unwrap()).await;
            // It would wait for its own thread.
            let records = cluster.records("users").unwrap();
            let policy = WritePolicy::default();
            let add = [ops::add("n", 1)];
            let refused = records.operate_on(&policy, &1.into(), &add).unwrap_err();
            let names = refused.to_string();
            assert!(matches!(refused, Error::Parameter(_)), "{names}");
            assert!(names.contains("run_blocking"), "{names}");
            assert!(cluster.info("build").is_err());
            // A thread of Tokio's for blocking calls looks as a task does.
            let elsewhere = cluster.clone();
            let asked = tokio::task::spawn_blocking(move || elsewhere.info("build"));
            assert!(matches!(asked.await.unwrap(), Err(Error::Parameter(_))));
            let list = cluster.run_blocking(|cluster| {
                ShardedList::new(cluster, "users", "alice", "followers")?.add("bob")
            });
            assert!(list.await.unwrap());
            assert!(!cluster.async_set("users").unwrap().exists(1).await.unwrap());
            assert!(records.operate_on(&policy, &1.into(), &add).is_err());
            let users = cluster.async_set("users").unwrap();
            assert!(users.delete("alice").await.unwrap());
            cluster
        });
        // A thread without tasks may block while the runtime goes on.
        let (sender, receiver) = std::sync::mpsc::channel();
        let elsewhere = cluster.clone();
        let other = thread::spawn(move || sender.send(elsewhere.info("build")).unwrap());
        runtime.block_on(async {
            while receiver.try_recv().map(Result::unwrap).is_err() {
                tokio::task::yield_now().await;
            }
        });
        other.join().unwrap();
        let users = cluster.async_set("users").unwrap();
        drop(runtime);
        let ended = run(users.put(1, [("n", 1)])).unwrap_err();
        assert!(matches!(ended, Error::Cluster(_)), "{ended}");
    }
    // Outside of a runtime the client makes threads of its own.
    let cluster = run(served.builder().connect_async()).unwrap();
    run(all_calls(cluster.async_set("users").unwrap()));
    assert!(cluster.info("build").is_ok());
}

#[test]
fn many_tasks_count_one_record_together() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let set = cluster.async_set("counts").unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..32)
            .map(|_| {
                let set = set.clone();
                tokio::spawn(async move {
                    for _ in 0..50 {
                        // Others may hold the record for longer than a queue is long.
                        while let Err(error) = set.operate("n", &[ops::add("n", 1)]).await {
                            assert!(error.is_retryable() && !error.in_doubt(), "{error}");
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let read = set.get("n").await.unwrap().unwrap();
        assert_eq!(read.get("n"), Some(1_600.into()));
    });
}

#[test]
fn a_future_that_is_dropped_half_way_harms_no_other() {
    let served = Served::in_memory();
    let set = served.cluster().async_set("users").unwrap();
    let waker = Waker::noop();
    let mut dropped = 0;
    for round in 0..50 {
        let add = [ops::add("n", 1)];
        let mut call = Box::pin(set.operate(1, &add));
        let polled = call.as_mut().poll(&mut Context::from_waker(waker));
        // An answer may be there at once.
        dropped += u32::from(polled.is_pending());
        // Outside of every runtime.
        drop(call);
        run(set.put(2, [("n", round)])).unwrap();
        assert_eq!(
            run(set.get(2)).unwrap().unwrap().get("n"),
            Some(round.into())
        );
    }
    assert!(dropped > 0);
}

#[test]
fn blocking_calls_within_a_task_end_however_many_there_are() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let records = cluster.records("users").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // More than the runtime lets a task do without a pause.
    let task = runtime.spawn(async move {
        for number in 0..1_000_i64 {
            let policy = WritePolicy::default();
            let call = [ops::add("n", number)];
            records.operate_on(&policy, &1.into(), &call).unwrap();
        }
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn handles_run_in_threads_of_the_client() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let add = |number: i64| {
            cluster.run_blocking(move |cluster| {
                ShardedList::new(cluster, "users", "alice", "followers")?.add(number)
            })
        };
        for number in 0..20 {
            assert!(add(number).await.unwrap());
        }
        assert!(!add(3).await.unwrap());
        let panics = cluster.run_blocking(|_| -> Result<()> { panic!("of a caller") });
        let error = panics.await.unwrap_err();
        assert!(matches!(error, Error::Cluster(_)), "{error}");
    });
    // The last handle ends in a thread of the client's own runtime.
    let ended = cluster.run_blocking(|_| Ok(()));
    let waiting = Box::pin(ended);
    drop(waiting);
    drop(cluster);
}
