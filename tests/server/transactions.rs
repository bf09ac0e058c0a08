//! Transactions over several records: which writes each client sees, which requests are refused
//! with which code, and how a transaction ends.

use std::sync::Arc;

use crate::queries::damaged;
use crate::server_client::transaction::*;
use crate::server_client::*;
use spikelet::query::IndexDefinition;
use spikelet::server::Server;
use spikelet::storage::ManualClock;

/// Key, value, generation of what a client without a transaction sees; `None`: nothing.
pub fn seen(wire: &mut Wire, key: i64) -> Option<(i64, u32)> {
    let answer = wire.ask(&Message::get(key));
    match answer.code {
        0 => Some((answer.int("i"), answer.generation)),
        2 => None,
        code => panic!("{code}"),
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// The messages of the C client, byte by byte.
#[test]
fn a_transaction_is_answered_with_these_bytes() {
    let clock = Arc::new(ManualClock::at(509_760_000_000));
    let store = namespaces().clock(Arc::clone(&clock) as _).open().unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    wire.ask(&Message::put(1, "i", 7));
    // Its version is the store's to choose.
    let version = Txn::new(1).get(&mut wire, 1).field(VERSION).to_vec();
    let version: String = version.iter().map(|byte| format!("{byte:02x}")).collect();
    let version = format!("00000008 03 {version}");
    let ns = "00000005 00 74657374";
    let (set, monitors) = ("00000005 01 64656d6f", "00000009 01 3c45524f7e4d5254");
    let id = "00000009 05 8877665544332211";
    let (a, b, m) = (
        "00000015 04 b7f4b83889e2da67de683e1df6919a1eacc446c8",
        "00000015 04 ae6a515f37de4adacc4496e2da1fea848c3a9270",
        "00000015 04 d297550848879b2069e5382d25e0648eecfa331a",
    );
    // Ten seconds later.
    let deadline = "00000005 06 0a52621e";
    let head = "00000000 00000000 000003e8";
    let mut ask = |what: &str, request: String, expected: String| {
        wire.send(&frame(3, &hex(&request)));
        let (_, body) = wire.receive().unwrap();
        assert_eq!(body, hex(&expected), "{what}");
        body
    };
    let read = format!("16 03 00 00 00 00 {head} 0004 0000 {ns} {set} {a} {id}");
    ask(
        "a read",
        read,
        format!(
            "16 00 00 00 00 00 00000001 00000000 00000000 0001 0001 {version} 0000000d 01 01 00 01 69 0000000000000007"
        ),
    );
    ask(
        "the first key",
        format!(
            "16 00 01 00 00 00 {head} 0003 0002 {ns} {monitors} {m} 0000000e 02 01 00 02 6964 1122334455667788 00000023 04 04 00 05 6b65796473 9401b504ae6a515f37de4adacc4496e2da1fea848c3a9270010d"
        ),
        format!(
            "16 00 00 00 00 00 00000001 00000000 00000000 0001 0001 {deadline} 00000011 04 01 00 05 6b65796473 0000000000000001"
        ),
    );
    ask(
        "a put",
        format!(
            "16 00 01 00 00 00 {head} 0005 0001 {ns} {set} {b} {id} {deadline} 0000000d 02 01 00 01 69 0000000000000009"
        ),
        "16 00 00 00 00 00 00000001 00000000 00000000 0000 0000".to_owned(),
    );
    ask(
        "a blocked put",
        format!(
            "16 00 01 00 00 00 {head} 0003 0001 {ns} {set} {b} 0000000d 02 01 00 01 69 0000000000000009"
        ),
        "16 00 00 00 00 78 00000000 00000000 00000000 0000 0000".to_owned(),
    );
    ask(
        "a verification",
        format!("16 21 00 40 01 00 {head} 0004 0000 {ns} {set} {a} {version}"),
        "16 00 00 00 00 00 00000000 00000000 00000000 0000 0000".to_owned(),
    );
    ask(
        "the mark",
        format!(
            "16 00 01 00 00 00 {head} 0003 0001 {ns} {monitors} {m} 00000008 02 11 00 03 667764 01"
        ),
        "16 00 00 00 00 00 00000002 1e625458 00000000 0000 0000".to_owned(),
    );
    for (what, code) in [("a roll", "00"), ("a repeated roll", "00")] {
        ask(
            what,
            format!("16 00 11 00 02 00 {head} 0004 0000 {ns} {set} {b} {id}"),
            format!("16 00 00 00 00 {code} 00000000 00000000 00000000 0000 0000"),
        );
    }
    for (what, code) in [("the end", "00"), ("a repeated end", "02")] {
        ask(
            what,
            format!("16 00 13 00 00 00 {head} 0003 0000 {ns} {monitors} {m}"),
            format!("16 00 00 00 00 {code} 00000000 00000000 00000000 0000 0000"),
        );
    }
    assert_eq!(seen(&mut wire, 2), Some((9, 2)));
}

#[test]
fn writes_are_seen_inside_and_by_nobody_else_before_the_commit() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    let mut txn = Txn::new(7);
    assert_eq!(txn.get(&mut wire, 1).int("i"), 1);
    // An existing record, a new one, and a second write of it: an addition that reads.
    assert_eq!(txn.put(&mut wire, 1, 10).generation, 2);
    assert_eq!(txn.put(&mut wire, 2, 20).generation, 1);
    let add = Message::about(READ, WRITE | RESPOND_ALL_OPS, 0, 2)
        .op(5, 1, "i", &1_i64.to_be_bytes())
        .op(1, 0, "i", &[]);
    let added = txn.write(&mut wire, 2, add);
    assert_eq!((added.generation, added.ops[1].value[7]), (2, 21));
    let inside = txn.get(&mut wire, 2);
    assert_eq!((inside.int("i"), inside.generation), (21, 2));
    // The answer has no version: the client must not verify the transaction's own write.
    assert!(inside.fields.is_empty() && txn.reads.is_empty());
    assert_eq!(seen(&mut wire, 1), Some((1, 1)));
    assert_eq!(seen(&mut wire, 2), None);
    let (scanned, _) = wire.ask_many(&query());
    assert_eq!(scanned.len(), 1);
    assert_eq!(scanned[0].int("i"), 1);
    assert_eq!(txn.commit(&mut wire), 0);
    // The commit counts once more.
    assert_eq!(seen(&mut wire, 1), Some((10, 3)));
    assert_eq!(seen(&mut wire, 2), Some((21, 3)));
    assert_eq!(wire.ask(&monitor(7, READ | GET_ALL, 0)).code, 2);
}

#[test]
fn an_aborted_transaction_leaves_everything_as_it_was() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    wire.ask(&Message::put(2, "i", 2));
    let mut txn = Txn::new(7);
    txn.put(&mut wire, 1, 10);
    assert_eq!(txn.delete(&mut wire, 2).code, 0);
    txn.put(&mut wire, 3, 30);
    // A record that the transaction has deleted is gone for the transaction only.
    assert_eq!(txn.delete(&mut wire, 2).code, 2);
    assert_eq!(txn.get(&mut wire, 2).code, 2);
    assert_eq!(seen(&mut wire, 2), Some((2, 1)));
    txn.abort(&mut wire);
    let all = [1, 2, 3].map(|key| seen(&mut wire, key));
    assert_eq!(all, [Some((1, 1)), Some((2, 1)), None]);
    // A late write of it comes to nothing.
    assert_eq!(wire.ask(&txn.inside(Message::put(1, "i", 9))).code, EXPIRED);
    assert_eq!(wire.ask(&Message::put(1, "i", 3)).code, 0);
}

#[test]
fn a_committed_deletion_deletes_and_one_of_nothing_does_nothing() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    let mut txn = Txn::new(7);
    txn.delete(&mut wire, 1);
    txn.put(&mut wire, 2, 2);
    txn.delete(&mut wire, 2);
    assert_eq!(txn.commit(&mut wire), 0);
    assert_eq!([1, 2].map(|key| seen(&mut wire, key)), [None, None]);
}

#[test]
fn a_locked_record_refuses_everybody_else_and_no_plain_read() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    let (mut txn, mut other) = (Txn::new(7), Txn::new(8));
    txn.put(&mut wire, 1, 10);
    let table = [
        ("a put", Message::put(1, "i", 2)),
        (
            "a creation",
            Message::about(0, WRITE | CREATE_ONLY, 0, 1).op(2, 1, "i", &[0; 8]),
        ),
        ("a touch", Message::about(0, WRITE, 0, 1).op(11, 0, "", &[])),
        ("a deletion", Message::about(0, WRITE | DELETE, 0, 1)),
        (
            "a function",
            Message::about(0, WRITE, 0, 1)
                .field(30, b"m")
                .field(31, b"f")
                .field(32, &[0x90]),
        ),
    ];
    let bare = Answer {
        code: BLOCKED,
        ..Answer::default()
    };
    for (what, message) in table {
        assert_eq!(wire.ask(&message), bare, "{what}");
        assert_eq!(
            other.write(&mut wire, 1, message),
            bare,
            "{what} of another transaction"
        );
    }
    assert_eq!(other.get(&mut wire, 1), bare);
    let rows = [
        (digest(1), row(0, WRITE).op(2, 1, "i", &[0; 8])),
        (digest(1), row(READ | GET_ALL, 0)),
    ];
    let (answers, _) = wire.ask_many(&batch(0x0d, &rows));
    assert_eq!((answers[0].code, answers[1].int("i")), (BLOCKED, 1));
    // Nothing that a refusal has told is verified later.
    assert_eq!(other.commit(&mut wire), 0);
    assert_eq!(txn.commit(&mut wire), 0);
    assert_eq!(seen(&mut wire, 1), Some((10, 3)));
    let told = wire.info("namespace/test\n").remove(0);
    assert!(told.contains("fail_mrt_blocked=12;"), "{told}");
    assert!(
        told.contains("mrt_provisionals=0;mrt_monitors=0;"),
        "{told}"
    );
}

#[test]
fn what_was_read_must_still_be_so() {
    type Change = fn(&mut Wire);
    let put: Change = |wire| drop(wire.ask(&Message::put(1, "i", 2)));
    let delete: Change = |wire| drop(wire.ask(&Message::about(0, WRITE | DELETE, 0, 1)));
    let create: Change = |wire| drop(wire.ask(&Message::put(9, "i", 1)));
    let table: [(&str, Change, u8); 7] = [
        ("nothing happens", |_| (), 0),
        (
            "another record is written",
            |wire| drop(wire.ask(&Message::put(5, "i", 2))),
            0,
        ),
        ("it is written", put, MISMATCH),
        ("it is deleted", delete, MISMATCH),
        (
            "it is made again",
            |wire| {
                wire.ask(&Message::about(0, WRITE | DELETE, 0, 1));
                wire.ask(&Message::put(1, "i", 1));
            },
            MISMATCH,
        ),
        ("what was not there is created", create, MISMATCH),
        (
            "another transaction has it locked",
            |wire| drop(Txn::new(99).put(wire, 1, 5)),
            MISMATCH,
        ),
    ];
    for (what, change, code) in table {
        let running = serve();
        let mut wire = Wire::to(running.handle.addr());
        wire.ask(&Message::put(1, "i", 1));
        let mut txn = Txn::new(7);
        assert_eq!(txn.get(&mut wire, 1).int("i"), 1);
        assert_eq!(txn.get(&mut wire, 9).code, 2);
        txn.put(&mut wire, 2, 20);
        change(&mut wire);
        // One by one, and in a batch.
        let rows = txn.reads.iter().map(|(key, version)| {
            let row = row(READ | NO_BINS, 0).info4(VERIFY);
            (digest(*key), row.field(VERSION, version))
        });
        let (answers, _) = wire.ask_many(&batch(0x0d, &rows.collect::<Vec<_>>()));
        let worst = answers.iter().map(|answer| answer.code).max();
        assert_eq!(worst, Some(code), "{what}");
        assert_eq!(txn.commit(&mut wire), code, "{what}");
        let expected = (code == 0).then_some((20, 2));
        assert_eq!(seen(&mut wire, 2), expected, "{what}");
    }
}

#[test]
fn a_record_that_has_changed_since_it_was_read_is_not_written() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    let mut txn = Txn::new(7);
    txn.get(&mut wire, 1);
    txn.put(&mut wire, 2, 20);
    wire.ask(&Message::put(1, "i", 2));
    assert_eq!(txn.put(&mut wire, 1, 10).code, MISMATCH);
    assert_eq!(txn.commit(&mut wire), MISMATCH);
    assert_eq!(seen(&mut wire, 1), Some((2, 2)));
    assert_eq!(seen(&mut wire, 2), None);
}

#[test]
fn a_filter_that_does_not_hold_tells_what_is_to_be_verified() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    let mut txn = Txn::new(7);
    let filtered = Message::get(1).field(43, &[0x93, 1, 0x93, 0x51, 2, 0xa1, b'i', 5]);
    assert_eq!(txn.read(&mut wire, 1, filtered).code, 27);
    assert_eq!(txn.reads.len(), 1);
    wire.ask(&Message::put(1, "i", 5));
    assert_eq!(txn.verify(&mut wire), MISMATCH);
}

#[test]
fn a_lock_that_must_be_new_is_refused_the_second_time() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let mut txn = Txn::new(7);
    let put = || Message::put(1, "i", 1).info4(ON_LOCKING_ONLY);
    assert_eq!(txn.write(&mut wire, 1, put()).code, 0);
    assert_eq!(txn.write(&mut wire, 1, put()).code, LOCKED_ALREADY);
    assert_eq!(txn.put(&mut wire, 1, 2).code, 0);
    assert_eq!(txn.commit(&mut wire), 0);
    assert_eq!(seen(&mut wire, 1), Some((2, 3)));
}

#[test]
fn malformed_requests_of_a_transaction_are_refused() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    Txn::new(7).put(&mut wire, 2, 2);
    let roll = Message::about(0, WRITE, 0, 2).info4(ROLL_FORWARD);
    let table = [
        (
            "a number of 7 bytes",
            Message::get(1).field(TRANSACTION, &[1; 7]),
        ),
        ("the number 0", Message::get(1).field(TRANSACTION, &[0; 8])),
        ("a roll of no transaction", roll.clone()),
        ("a roll forward before the mark", Txn::new(7).inside(roll)),
        (
            "a verification without a version",
            Message::get(1).info4(VERIFY),
        ),
        (
            "a version of 8 bytes",
            Message::get(1).info4(VERIFY).field(VERSION, &[1; 8]),
        ),
        (
            "a monitor with a bin of its own",
            mark(7).op(2, 1, "own", &[0; 8]),
        ),
        (
            "a monitor of another number",
            monitor(9, 0, WRITE).op(2, 1, "id", &[1; 8]),
        ),
    ];
    for (what, message) in table {
        assert_eq!(wire.ask(&message).code, 4, "{what}");
    }
}

#[test]
fn what_a_write_was_refused_for_must_hold_until_the_commit() {
    let create = |key| Message::about(0, WRITE | CREATE_ONLY, 0, key).op(2, 1, "i", &[0; 8]);
    let delete = |key| Message::about(0, WRITE | DELETE | 0x10, 0, key);
    let touch = |key| Message::about(0, WRITE, 8, key).op(11, 0, "", &[]);
    // The refused write, its code, and the write of another client that it did not reckon with.
    let table = [
        (create(1), 5, delete(1)),
        (delete(9), 2, Message::put(9, "i", 1)),
        (touch(9), 2, Message::put(9, "i", 1)),
    ];
    for (refused, code, change) in table {
        for changed in [false, true] {
            let running = serve();
            let mut wire = Wire::to(running.handle.addr());
            wire.ask(&Message::put(1, "i", 1));
            let mut txn = Txn::new(7);
            assert_eq!(txn.put(&mut wire, 2, 20).code, 0);
            let key = if code == 5 { 1 } else { 9 };
            assert_eq!(txn.write(&mut wire, key, refused.clone()).code, code);
            if changed {
                assert_eq!(wire.ask(&change).code, 0);
            }
            let ended = txn.commit(&mut wire);
            assert_eq!(ended == 0, !changed, "code {code}: {ended}");
            assert_eq!(seen(&mut wire, 2).is_some(), !changed);
        }
    }
}

#[test]
fn writers_of_the_process_overrule_a_client() {
    type Act = fn(&spikelet::Namespace);
    let table: [(&str, Act, u8); 6] = [
        ("nothing", |_| (), 0),
        (
            "a put",
            |namespace| {
                let set = namespace.set("demo").unwrap();
                set.put(1, [("i", 5)]).unwrap();
            },
            ABORTED,
        ),
        (
            "a transaction that has read it",
            |namespace| {
                let run = |tx: &spikelet::Transaction<'_>| {
                    let set = tx.set("demo")?;
                    set.get(1)?;
                    set.put(3, [("i", 5)])
                };
                namespace.transaction(run).unwrap();
            },
            ABORTED,
        ),
        (
            "a snapshot",
            |namespace| {
                let read = |tx: &spikelet::Transaction<'_>| tx.set("demo")?.get(1);
                assert!(namespace.snapshot_read(read).unwrap().is_some());
            },
            ABORTED,
        ),
        (
            "a put and a delete of what it creates",
            |namespace| {
                let set = namespace.set("demo").unwrap();
                set.put(2, [("i", 5)]).unwrap();
                assert!(set.delete(2).unwrap().is_some());
            },
            ABORTED,
        ),
        (
            "a truncation of another set",
            |namespace| {
                let set = namespace.set("other").unwrap();
                set.put(2, [("i", 5)]).unwrap();
                set.truncate(None).unwrap();
            },
            0,
        ),
    ];
    for (what, act, code) in table {
        let running = serve();
        let mut wire = Wire::to(running.handle.addr());
        wire.ask(&Message::put(1, "i", 1));
        let mut txn = Txn::new(7);
        txn.put(&mut wire, 1, 10);
        txn.put(&mut wire, 2, 20);
        act(&running.store.namespace("test").unwrap());
        assert_eq!(txn.commit(&mut wire), code, "{what}");
        assert_eq!(seen(&mut wire, 2).is_some(), code == 0, "{what}");
    }
}

#[test]
fn a_namespace_says_that_it_is_strongly_consistent_if_it_is_told_to() {
    let running = serve_with(|server| server.strong_consistency("bar"));
    let mut wire = Wire::to(running.handle.addr());
    for (namespace, told) in [("test", "false"), ("bar", "true")] {
        let config = wire.info(&format!("namespace/{namespace}\n")).remove(0);
        assert!(
            config.contains(&format!("strong-consistency={told};")),
            "{config}"
        );
        assert!(config.contains("mrt-duration=10;"), "{config}");
    }
    let replicas = wire.info("replicas\n").remove(0);
    assert!(
        replicas.starts_with("bar:1,1,") && replicas.contains(";test:0,1,"),
        "{replicas}"
    );
    let relaxed = |namespace: &[u8]| {
        let partitions: Vec<u8> = (0..4096_u16).flat_map(u16::to_le_bytes).collect();
        Message::new(READ, 0x40, PARTITIONS)
            .field(0, namespace)
            .field(11, &partitions)
    };
    assert_eq!(wire.ask_many(&relaxed(b"test")).1, 0);
    assert_eq!(wire.ask(&relaxed(b"bar")).code, 4);
}

#[test]
fn a_background_query_passes_over_locked_records() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    for key in 0..3 {
        wire.ask(&Message::put(key, "i", key));
    }
    let mut txn = Txn::new(7);
    txn.put(&mut wire, 1, 10);
    let add = Message::new(0, WRITE, 0)
        .field(0, b"test")
        .field(1, b"demo")
        .field(7, &5_u64.to_be_bytes())
        .op(5, 1, "i", &100_i64.to_be_bytes());
    assert_eq!(wire.ask_many(&add).1, 0);
    until(|| wire.info("query-show:trid=5\n")[0].contains("status=done"));
    let told = wire.info("query-show:trid=5\n").remove(0);
    assert!(told.contains("recs-succeeded=2:recs-failed=1:"), "{told}");
    let values = [0, 1, 2].map(|key| seen(&mut wire, key));
    assert_eq!(values, [Some((100, 2)), Some((1, 1)), Some((102, 2))]);
    assert_eq!(txn.commit(&mut wire), 0);
    assert_eq!(seen(&mut wire, 1), Some((10, 3)));
}

#[test]
fn indexes_follow_the_commit() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    let namespace = running.store.namespace("test").unwrap();
    let set = namespace.set("demo").unwrap();
    set.create_index(IndexDefinition::new("by_i", ["i"]))
        .unwrap();
    let counts = || {
        let count = |value: i64| set.query("by_i").unwrap().eq(value).count().unwrap();
        [1, 10, 20].map(count)
    };
    let mut txn = Txn::new(7);
    txn.put(&mut wire, 1, 10);
    txn.put(&mut wire, 2, 20);
    assert_eq!(counts(), [1, 0, 0]);
    assert_eq!(txn.commit(&mut wire), 0);
    assert_eq!(counts(), [0, 1, 1]);
}

#[test]
fn a_record_that_expires_or_is_truncated_has_changed() {
    type Act = fn(&mut Wire, &ManualClock);
    let expire: Act = |_, clock| clock.advance_ms(6_000);
    let truncate: Act = |wire, _| {
        assert_eq!(wire.info("truncate:namespace=test;set=demo\n"), ["ok"]);
    };
    for (what, act) in [("expired", expire), ("truncated", truncate)] {
        let clock = Arc::new(ManualClock::at(1_000_000_000));
        let store = namespaces().clock(Arc::clone(&clock) as _).open().unwrap();
        let handle = Server::builder(&store).start().unwrap();
        let mut wire = Wire::to(handle.addr());
        wire.ask(&Message::put(1, "i", 1).ttl(5));
        let (mut reader, mut writer) = (Txn::new(7), Txn::new(8));
        reader.get(&mut wire, 1);
        reader.put(&mut wire, 2, 20);
        writer.put(&mut wire, 3, 30);
        let add = Message::about(0, WRITE, 0, 1).op(5, 1, "i", &1_i64.to_be_bytes());
        assert_eq!(writer.write(&mut wire, 1, add).code, 0);
        act(&mut wire, &clock);
        assert_eq!(writer.commit(&mut wire), ABORTED, "{what}");
        assert_eq!(reader.commit(&mut wire), MISMATCH, "{what}");
        // Who comes afterwards sees that it is gone, and may rely on it.
        let mut late = Txn::new(9);
        assert_eq!(late.get(&mut wire, 1).code, 2, "{what}");
        late.put(&mut wire, 2, 2);
        assert_eq!(late.commit(&mut wire), 0, "{what}");
        assert_eq!(seen(&mut wire, 3), None, "{what}");
    }
}

#[test]
fn a_damaged_record_is_replaced_and_deleted_in_a_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let store = damaged(dir.path(), &[1, 2], 1);
    let handle = Server::builder(&store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    assert_eq!(wire.ask(&Message::get(1)).code, 1);
    let replace =
        Message::about(0, WRITE, CREATE_OR_REPLACE, 1).op(2, 1, "i", &7_i64.to_be_bytes());
    let mut txn = Txn::new(1);
    assert_eq!(txn.announce(&mut wire, &[1]), 0);
    assert_eq!(txn.write(&mut wire, 1, replace).code, 0);
    assert_eq!(txn.commit(&mut wire), 0);
    assert_eq!(wire.ask(&Message::get(1)).int("i"), 7);
    drop((wire, handle, store));

    let dir = tempfile::tempdir().unwrap();
    let store = damaged(dir.path(), &[1, 2], 1);
    let handle = Server::builder(&store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    let mut txn = Txn::new(1);
    assert_eq!(txn.announce(&mut wire, &[1]), 0);
    assert_eq!(txn.delete(&mut wire, 1).code, 0);
    assert_eq!(txn.commit(&mut wire), 0);
    assert_eq!(wire.ask(&Message::get(1)).code, 2);
}
