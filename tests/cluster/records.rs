//! Policies, batches, scans and errors of a cluster.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use spikelet::cluster::{Cluster, TlsFiles};
use spikelet::policy::{GenerationPolicy, RecordExistsAction};
use spikelet::{
    Error, Expiration, Expression, Key, ListOrder, OperateResult, Operation, RecordCall, RecordSet,
    RecordStore, Value, WritePolicy, expressions, operations as ops,
};

use crate::common::{Both, ROW_HEADER, Served, answering};

fn policy() -> WritePolicy {
    WritePolicy::default()
}

#[test]
fn policies_hold_as_they_do_embedded() {
    let both = Both::new();
    let write = [ops::put("n", 1)];
    let actions = [
        RecordExistsAction::Update,
        RecordExistsAction::UpdateOnly,
        RecordExistsAction::Replace,
        RecordExistsAction::ReplaceOnly,
        RecordExistsAction::CreateOnly,
    ];
    for action in actions {
        for key in ["there", "missing"] {
            both.agree("start", "there", &[ops::put("old", 1)]);
            let policy = policy().record_exists_action(action);
            both.agree_with(&format!("{action:?}"), &policy, key, &write);
            both.same_record(&format!("{action:?}"), key);
            both.agree("end", key, &[ops::delete_all_bins()]);
        }
    }
    both.agree("start", "a", &write);
    let generations = [
        GenerationPolicy::ExpectEqual(1),
        GenerationPolicy::ExpectEqual(1),
        GenerationPolicy::ExpectEqual(2),
        GenerationPolicy::ExpectGreater(3),
        GenerationPolicy::ExpectGreater(9),
    ];
    for generation in generations {
        let policy = policy().generation(generation);
        both.agree_with(&format!("{generation:?}"), &policy, "a", &write);
    }
    let positive: Expression = expressions::gt(expressions::int_bin("n"), 0);
    let negative: Expression = expressions::lt(expressions::int_bin("n"), 0);
    for filter in [positive, negative] {
        let policy = policy().filter(filter);
        both.agree_with("filtered write", &policy, "a", &write);
        both.agree_with("filtered read", &policy, "a", &[ops::get_bin("n")]);
        both.agree_with("filtered creation", &policy, "new", &write);
        both.agree("end", "new", &[ops::delete_all_bins()]);
    }
}

#[test]
fn more_rows_than_a_server_takes_in_one_batch_are_sent_in_several() {
    const KEYS: i64 = 6_000;
    let served = Served::in_memory();
    let cluster = served.cluster();
    // What Aerospike's servers refuse unless they are configured otherwise.
    let limit = "set-config:context=service;batch-max-requests=5000";
    assert_eq!(cluster.info(limit).unwrap(), "ok");
    let records = cluster.records("many").unwrap();
    let write = [ops::put("n", 1)];
    let read = [ops::get_bin("n")];
    let policy = policy();
    for operations in [&write, &read] {
        let call = |key: i64| RecordCall {
            policy: &policy,
            key: Key::from(key),
            operations,
        };
        let calls: Vec<RecordCall<'_>> = (0..KEYS).map(call).collect();
        let results = records.operate_on_each(&calls);
        assert_eq!(results.len(), calls.len());
        let refused = results.iter().filter_map(|result| result.as_ref().err());
        assert_eq!(refused.map(Error::to_string).next(), None);
    }
}

#[test]
fn a_bin_with_the_name_of_the_size_is_a_bin() {
    let served = Served::in_memory();
    let records = served.cluster().records("sized").unwrap();
    let policy = policy();
    let put = [ops::put("record_size", "own")];
    records.operate_on(&policy, &1.into(), &put).unwrap();
    let put = [ops::put("other", "own")];
    records.operate_on(&policy, &2.into(), &put).unwrap();
    let reads = ["none", "other", "record_size"].map(ops::get_bin);
    let call = |key: i64| RecordCall {
        policy: &policy,
        key: Key::from(key),
        operations: &reads,
    };
    let found = records.operate_on_each(&[call(1), call(2)]);
    let [one, two] = found.try_into().unwrap();
    let values = |found: OperateResult| [0, 1, 2].map(|at| found.value(at).cloned());
    let own = || Some(Value::from("own"));
    assert_eq!(values(one.unwrap()), [None, None, own()]);
    assert_eq!(values(two.unwrap()), [None, own(), None]);
}

#[test]
fn a_write_that_a_clients_transaction_blocks_may_be_tried_again() {
    let served = Served::with(&["--memory"]);
    let records = served.cluster().records("locked").unwrap();
    let write = || records.operate_on(&policy(), &"a".into(), &[ops::put("n", 1)]);
    write().unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let options = aerospike::ClientPolicy::default();
        let client = aerospike::Client::new(&options, &served.addr).await;
        let client = client.unwrap();
        let transaction = Arc::new(aerospike::Txn::new());
        let mut policy = aerospike::WritePolicy::default();
        policy.base_policy.txn = Some(Arc::clone(&transaction));
        let key = aerospike::Key::new("test", "locked", aerospike::Value::from("a")).unwrap();
        let bin = aerospike::Bin::new("n", aerospike::Value::Int(2));
        client.put(&policy, &key, &[bin]).await.unwrap();
        let blocked = write().unwrap_err();
        assert_eq!(blocked.result_code(), 120, "{blocked}");
        assert!(blocked.is_retryable() && !blocked.in_doubt(), "{blocked}");
        client.abort(&transaction).await.unwrap();
        write().unwrap();
    });
}

#[test]
fn generation_expiry_and_size_come_back() {
    let served = Served::in_memory();
    let records = served.cluster().records("sizes").unwrap();
    let put = |policy: &WritePolicy, bytes: usize| {
        let write = [ops::put("b", Value::Blob(vec![7; bytes]))];
        records.operate_on(policy, &"a".into(), &write).unwrap()
    };
    let hour = policy().expiration(Expiration::After(Duration::from_secs(3_600)));
    let first = put(&hour, 10);
    let expected = records.now_ms() / 1_000 + 3_600;
    assert!(
        u64::from(first.void_time).abs_diff(expected) < 60,
        "{first:?}"
    );
    assert_eq!(
        (first.generation, first.lsn, first.queued_behind),
        (1, None, None)
    );
    let kept = policy().expiration(Expiration::DontUpdate);
    assert_eq!(put(&kept, 10).void_time, first.void_time);
    assert_eq!(
        put(&policy().expiration(Expiration::Never), 10_000).void_time,
        0
    );
    let read = [ops::get_bin("none")];
    let read = records.operate_on(&policy(), &"a".into(), &read).unwrap();
    assert_eq!((read.generation, read.results.len()), (3, 0));
    assert!((10_000..10_200).contains(&read.record_bytes), "{read:?}");
    assert_eq!(records.max_record_bytes(), Some(1 << 20));
    let deleted = records.operate_on(&policy(), &"a".into(), &[ops::delete_all_bins()]);
    assert_eq!(deleted.unwrap().record_bytes, 0);
}

#[test]
fn a_batch_answers_each_call_for_itself() {
    let served = Served::in_memory();
    let records = served.cluster().records("batch").unwrap();
    for number in 0..20 {
        let write = [ops::put("n", number)];
        records
            .operate_on(&policy(), &number.into(), &write)
            .unwrap();
    }
    let read = [ops::get_bin("none"), ops::get_bin("n"), ops::get_bin("n")];
    let add = [ops::add("n", 100), ops::get_bin("n")];
    let wrong = [ops::append("n", "x")];
    let only = policy().filter(expressions::lt(expressions::int_bin("n"), 10));
    let call = |number: i64| {
        let operations: &[Operation] = match number % 3 {
            0 => &read,
            1 => &add,
            _ => &wrong,
        };
        let policy = &only;
        let key = Key::from(number);
        RecordCall {
            policy,
            key,
            operations,
        }
    };
    let calls: Vec<RecordCall<'_>> = (0..21).map(call).collect();
    let results = records.operate_on_each(&calls);
    assert_eq!(results.len(), calls.len());
    for (number, result) in (0..).zip(results) {
        let error = |result: spikelet::Result<_>| -> Error {
            let error = result.unwrap_err();
            assert_eq!(error.record().unwrap().key(), &Key::from(number));
            assert_eq!(error.record().unwrap().set(), "batch");
            error
        };
        match (number, number % 3) {
            (20, _) => assert!(result.is_ok(), "a text where there was no record"),
            (10.., _) => assert!(
                matches!(error(result), Error::FilteredOut { .. }),
                "{number}"
            ),
            (_, 0) => {
                let result = result.unwrap();
                assert_eq!(result.value(0), None);
                assert_eq!(result.value(1), Some(&number.into()));
                assert_eq!(result.value(2), Some(&number.into()));
            }
            (_, 1) => assert_eq!(result.unwrap().value(1), Some(&(number + 100).into())),
            _ => assert!(
                matches!(error(result), Error::IncompatibleType { .. }),
                "{number}"
            ),
        }
    }
    // The same record twice: one after the other.
    let one = policy();
    let twice = [1, 1].map(|number| RecordCall {
        policy: &one,
        key: Key::from(number),
        operations: &add,
    });
    let values: Vec<_> = records
        .operate_on_each(&twice)
        .into_iter()
        .map(|result| result.unwrap().value(1).cloned())
        .collect();
    assert_eq!(values, [Some(201.into()), Some(301.into())]);
}

#[test]
fn a_scan_shows_every_record_and_can_be_broken_off() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let records = cluster.records("scanned").unwrap();
    let other = cluster.records("other").unwrap();
    for number in 0..1_000 {
        let write = [ops::put("n", number)];
        records
            .operate_on(&policy(), &number.into(), &write)
            .unwrap();
    }
    let write = [ops::put("n", 1)];
    other.operate_on(&policy(), &"x".into(), &write).unwrap();
    let mut seen = Vec::new();
    records
        .scan_records(&mut |record| {
            let Some(Key::Integer(key)) = record.key() else {
                panic!("{record:?} has no key");
            };
            assert_eq!(record.get("n"), Some(key.into()));
            assert_eq!(record.generation(), 1);
            seen.push(key);
        })
        .unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (0..1_000).collect::<Vec<i64>>());
    let mut count = 0;
    records.scan_each(&mut |record| {
        record.unwrap();
        count += 1;
        if count == 10 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!(count, 10);
}

#[test]
fn errors_name_the_record_and_say_what_to_do() {
    let both = Both::new();
    let records = &both.cluster;
    let call = |policy: &WritePolicy, operations: &[Operation]| {
        let error = records.operate_on(policy, &"alice".into(), operations);
        let error = error.unwrap_err();
        assert_eq!(error.record().unwrap().key(), &Key::from("alice"));
        assert!(!error.in_doubt() && !error.is_retryable(), "{error:?}");
        error
    };
    let missing = call(&policy(), &[ops::get_bin("n")]);
    assert!(matches!(missing, Error::NotFound { .. }));
    let write = [ops::put("n", 1), ops::put("text", "x")];
    records
        .operate_on(&policy(), &"alice".into(), &write)
        .unwrap();
    let third = policy().generation(GenerationPolicy::ExpectEqual(3));
    let error = call(&third, &write);
    assert!(matches!(
        error,
        Error::Generation {
            expected: 3,
            found: None,
            ..
        }
    ));
    assert!(error.to_string().contains("another one"), "{error}");
    let new = policy().record_exists_action(RecordExistsAction::CreateOnly);
    assert!(matches!(call(&new, &write), Error::RecordExists { .. }));
    let error = call(&policy(), &[ops::add("text", 1)]);
    assert!(
        matches!(&error, Error::IncompatibleType { bin, .. } if &**bin == "text"),
        "{error}"
    );
    let large = [ops::put("b", Value::Blob(vec![0; 2 << 20]))];
    let error = call(&policy(), &large);
    assert!(matches!(
        error,
        Error::RecordTooBig {
            size: 0,
            limit: 1_048_576,
            ..
        }
    ));
    assert!(
        error.to_string().contains("more than 1048576 bytes"),
        "{error}"
    );
    let unique =
        spikelet::ListPolicy::new(ListOrder::Unordered, spikelet::ListWriteFlags::ADD_UNIQUE);
    let add = [ops::lists::append(&unique, "l", 1)];
    records
        .operate_on(&policy(), &"alice".into(), &add)
        .unwrap();
    assert!(matches!(call(&policy(), &add), Error::ElementExists { bin, .. } if &*bin == "l"));
    let long = "a bin name that is far too long";
    assert!(matches!(
        records.operate_on(&policy(), &"alice".into(), &[ops::get_bin(long)]),
        Err(Error::BinName(_))
    ));
}

#[test]
fn a_write_without_an_answer_is_in_doubt_and_a_read_is_not() {
    let served = Served::in_memory();
    let records = served.cluster().records("doubt").unwrap();
    let short = policy().total_timeout(Some(Duration::from_millis(200)));
    let write = [ops::add("n", 1)];
    records.operate_on(&policy(), &"a".into(), &write).unwrap();
    served.stop();
    let error = records.operate_on(&short, &"a".into(), &write).unwrap_err();
    assert!(
        matches!(error, Error::Timeout { in_doubt: true, .. }),
        "{error:?}"
    );
    assert!(error.in_doubt() && !error.is_retryable());
    assert_eq!(error.record().unwrap().key(), &Key::from("a"));
    let read = [ops::get_bin("n")];
    let error = records.operate_on(&short, &"a".into(), &read).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Timeout {
                in_doubt: false,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.is_retryable());
    let calls = ["a", "b"].map(|key| RecordCall {
        policy: &short,
        key: key.into(),
        operations: &write,
    });
    for result in records.operate_on_each(&calls) {
        assert!(result.unwrap_err().in_doubt());
    }
    served.go_on();
    let read = records.operate_on(&policy(), &"a".into(), &read).unwrap();
    assert!(matches!(read.value(0), Some(Value::Int(1..=3))));
}

/// A served store that answers, once `gives_up` is set, each row of a batch with the result code of
/// a server that has given up.
fn giving_up(served: &str, gives_up: &'static AtomicBool) -> String {
    const TIMEOUT: u8 = 9;
    answering(served, |body| {
        if !gives_up.load(Ordering::Relaxed) || body.len() <= 2 * ROW_HEADER {
            return;
        }
        let mut at = 0;
        while at < body.len() {
            let row = &mut body[at..];
            // The last row is the end of the answer.
            if row[3] & 1 == 0 {
                row[5] = TIMEOUT;
            }
            let parts =
                u16::from_be_bytes([row[18], row[19]]) + u16::from_be_bytes([row[20], row[21]]);
            let mut end = ROW_HEADER;
            for _ in 0..parts {
                let bytes: [u8; 4] = row[end..end + 4].try_into().unwrap();
                end += 4 + u32::from_be_bytes(bytes) as usize;
            }
            at += end;
        }
    })
}

#[test]
fn a_row_of_a_batch_that_the_server_gives_up_is_in_doubt_if_it_writes() {
    static GIVES_UP: AtomicBool = AtomicBool::new(false);
    let served = Served::in_memory();
    let addr = giving_up(&served.addr, &GIVES_UP);
    let cluster = Cluster::builder(&addr).namespace("test").connect().unwrap();
    let records = cluster.records("doubt").unwrap();
    let batch = |operation: Operation| {
        let (policy, operations) = (policy(), [operation]);
        let calls = ["a", "b"].map(|key| RecordCall {
            policy: &policy,
            key: key.into(),
            operations: &operations,
        });
        records.operate_on_each(&calls)
    };
    for result in batch(ops::add("n", 1)) {
        result.unwrap();
    }
    GIVES_UP.store(true, Ordering::Relaxed);
    for (operation, is_write) in [(ops::add("n", 1), true), (ops::get_bin("n"), false)] {
        for result in batch(operation) {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
            assert_eq!(
                (error.in_doubt(), error.is_retryable()),
                (is_write, !is_write)
            );
        }
    }
}

#[test]
fn a_server_that_is_gone_is_told_and_may_be_tried_again() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let records = cluster.records("gone").unwrap();
    let write = [ops::put("n", 1)];
    records.operate_on(&policy(), &"a".into(), &write).unwrap();
    let addr = served.addr.clone();
    drop(served);
    let error = records
        .operate_on(&policy(), &"a".into(), &write)
        .unwrap_err();
    // The connection was open, so the write may have arrived. The next ones find no connection.
    assert!(error.in_doubt() || error.is_retryable(), "{error:?}");
    let read = [ops::get_bin("n")];
    let error = records
        .operate_on(&policy(), &"a".into(), &read)
        .unwrap_err();
    assert!(error.is_retryable() && !error.in_doubt(), "{error:?}");
    let refused = Cluster::connect(&addr).unwrap_err();
    assert!(matches!(refused, Error::Cluster(_)), "{refused:?}");
}

#[test]
fn writers_that_a_busy_record_refuses_may_try_again_and_need_not_read_before() {
    let served = Served::with(&["--memory", "--hold-ms", "20"]);
    let cluster = Cluster::builder(&served.addr).error_rate_max(0);
    let records = cluster.connect().unwrap().records("busy").unwrap();
    let add = [ops::add("n", 1)];
    let (patient, start) = (policy().total_timeout(None), Barrier::new(60));
    let writers: Vec<_> = std::thread::scope(|scope| {
        let write = || {
            start.wait();
            records.operate_on(&patient, &"a".into(), &add)
        };
        let threads: Vec<_> = (0..60).map(|_| scope.spawn(write)).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let refused = writers.iter().filter_map(|written| written.as_ref().err());
    let mut count = 0;
    for error in refused {
        assert!(matches!(error, Error::KeyBusy { .. }), "{error:?}");
        assert!(error.is_retryable() && !error.in_doubt(), "{error:?}");
        count += 1;
    }
    assert!(count > 0, "21 may wait, and 60 come at once");
    let read = records.operate_on(&policy(), &"a".into(), &[ops::get_bin("n")]);
    assert_eq!(read.unwrap().value(0), Some(&(60 - count).into()));
}

#[test]
fn a_cluster_is_connected_to_with_what_it_asks_for() {
    let served = Served::with(&["--memory"]);
    assert_eq!(Cluster::connect(&served.addr).unwrap().namespace(), "test");
    let other = Cluster::builder(&served.addr).namespace("none").connect();
    assert!(matches!(other, Err(Error::Namespace(name)) if &*name == "none"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    let with_file = || {
        let files = TlsFiles::new(&file);
        Cluster::builder(&served.addr)
            .tls(files)
            .connect()
            .unwrap_err()
    };
    assert!(with_file().to_string().contains("ca.pem"));
    std::fs::write(&file, "nothing").unwrap();
    assert!(with_file().to_string().contains("no certificate"));
    let builder = Cluster::builder("localhost").login("user", "secret");
    assert!(!format!("{builder:?}").contains("secret"));
}

#[test]
fn a_host_whose_port_is_none_is_refused_by_its_name() {
    let wrong = " a:x a: a:0 a:65536 a:-1 a:1:2:3 [::1]:x a:name:3000";
    for host in wrong.split(' ') {
        let hosts = format!("127.0.0.1:1,{host}");
        let refused = Cluster::connect(&hosts).unwrap_err();
        let is_named = refused.to_string().contains(&format!("\"{host}\""));
        assert!(
            is_named && matches!(refused, Error::Parameter(_)),
            "{host}: {refused}"
        );
    }
    // With TLS, a last part other than a number is the name in the certificate.
    for (host, is_node) in [("a:x", true), ("a:x:1", true), ("a:x:y", false)] {
        let builder = Cluster::builder(host).tls(TlsFiles::new("ca.pem"));
        let refused = builder.connect().unwrap_err().to_string();
        assert_eq!(refused.contains("ca.pem"), is_node, "{host}: {refused}");
    }
}

#[test]
fn calls_may_come_from_threads_that_run_tasks() {
    let served = Served::in_memory();
    let addr = served.addr.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let read = runtime.block_on(async move {
        let cluster = Cluster::connect(&addr).unwrap();
        let records = cluster.records("tasks").unwrap();
        let call = [ops::put("n", 1), ops::get_bin("n")];
        records.operate_on(&policy(), &"a".into(), &call).unwrap()
    });
    assert_eq!(read.value(1), Some(&1.into()));
}
