//! What each request needs, and quotas, allowlists and the audit log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spikelet::Key;
use spikelet::record::KeyHash;
use spikelet::server::{SecurityOptions, Server};
use spikelet::storage::ManualClock;

use crate::security::{connected, secured};
use crate::server_client::admin::*;
use crate::server_client::transaction;
use crate::server_client::*;

const READER: (u8, &str, &str) = (10, "", "");
const WRITER: (u8, &str, &str) = (13, "", "");
const BOTH: (u8, &str, &str) = (11, "", "");
const CALLER: (u8, &str, &str) = (12, "", "");

/// A user for each of these privileges, named by its place.
fn with_users(running: &Running, all: &[&[(u8, &str, &str)]]) -> Vec<Wire> {
    let mut admin = connected(running, "admin");
    let mut wires = Vec::new();
    for (at, privileges) in all.iter().enumerate() {
        let name = format!("user{at}");
        admin.create(&name, privileges);
        wires.push(connected(running, &name));
    }
    wires
}

fn background() -> Message {
    Message::new(0, WRITE, 0)
        .field(0, b"test")
        .field(1, b"demo")
        .op(5, 1, "i", &1_i64.to_be_bytes())
}

fn call(message: Message) -> Message {
    message.field(30, b"m").field(31, b"f").field(32, &[0x90])
}

/// A message about a record of another set of `test`.
fn elsewhere(message: &Message, set: &str) -> Message {
    let mut message = message.clone();
    message.fields[1].1 = set.as_bytes().to_vec();
    message
}

#[test]
fn every_request_about_records_needs_its_privilege() {
    let running = secured();
    let mut users = with_users(
        &running,
        &[&[READER], &[WRITER], &[BOTH], &[CALLER], &[(0, "", "")]],
    );
    assert_eq!(users[2].ask(&Message::put(1, "i", 7)).code, 0);
    let operate = Message::about(READ, WRITE, 0, 1)
        .op(5, 1, "i", &1_i64.to_be_bytes())
        .op(1, 0, "i", &[]);
    let delete = Message::about(0, WRITE | DELETE, 0, 9);
    let exists = Message::about(READ | NO_BINS, 0, 0, 1);
    let function = call(Message::about(0, WRITE, 0, 1));
    // Who may: the reader, the writer, both, the caller of functions, the administrator.
    let table = [
        ("get", Message::get(1), [true, false, true, true, false]),
        ("exists", exists, [true, false, true, true, false]),
        (
            "put",
            Message::put(1, "i", 7),
            [false, true, true, true, false],
        ),
        ("operate", operate, [false, false, true, true, false]),
        ("delete", delete, [false, true, true, true, false]),
        ("function", function, [false, false, false, true, false]),
        ("query", query(), [true, false, true, true, false]),
        (
            "aggregation",
            call(query()).field(33, &[1]),
            [false, false, false, true, false],
        ),
        (
            "background",
            background().field(7, &[1; 8]),
            [false, true, true, true, false],
        ),
        (
            "background call",
            call(query()).field(33, &[2]).field(7, &[2; 8]),
            [false, false, false, true, false],
        ),
    ];
    for (what, message, may) in &table {
        for (user, may) in users.iter_mut().zip(may) {
            let code = match *what {
                "query" | "aggregation" if *may => user.ask_many(message).1,
                _ => user.ask(message).code,
            };
            assert_eq!(code != 81, *may, "{what}: {code}");
        }
    }
}

#[test]
fn rows_of_a_batch_are_refused_one_by_one() {
    let running = secured();
    let mut users = with_users(&running, &[&[(11, "test", "demo")]]);
    let put = |set: &str| {
        let mut row = row(0, WRITE | RESPOND_ALL_OPS).op(2, 1, "i", &[0; 8]);
        row.fields[1].1 = set.as_bytes().to_vec();
        row
    };
    let rows = [
        (digest(1), put("demo")),
        (digest(2), put("other")),
        (digest(3), row(READ | GET_ALL, 0)),
        (digest(4), call(row(0, WRITE))),
    ];
    let (answers, code) = users[0].ask_many(&batch(0x0c, &rows));
    let codes: Vec<u8> = answers.iter().map(|answer| answer.code).collect();
    assert_eq!((codes, code), (vec![0, 81, 2, 81], 0));
}

#[test]
fn privileges_for_a_set_or_namespace_count_there_alone() {
    let running = secured();
    let mut users = with_users(
        &running,
        &[&[(11, "test", "demo")], &[(11, "test", "")], &[BOTH]],
    );
    let namespace = |message: &Message, name: &str| {
        let mut message = message.clone();
        message.fields[0].1 = name.as_bytes().to_vec();
        message
    };
    for (key, (what, place, may)) in (0..).zip([
        ("its set", ("test", "demo"), [true, true, true]),
        ("another set", ("test", "other"), [false, true, true]),
        ("no set", ("test", ""), [false, true, true]),
        ("another namespace", ("bar", "demo"), [false, false, true]),
    ]) {
        for (user, may) in users.iter_mut().zip(may) {
            for message in [Message::get(key), Message::put(key, "i", 1), query()] {
                let message = namespace(&elsewhere(&message, place.1), place.0);
                let is_query = !message.fields.iter().any(|field| field.0 == 4);
                let code = if is_query && may {
                    user.ask_many(&message).1
                } else {
                    user.ask(&message).code
                };
                assert_eq!(code != 81, may, "{what}: {code}");
            }
        }
    }
}

#[test]
fn a_digest_does_not_reach_into_another_set_than_the_message_names() {
    let running = secured();
    let mut users = with_users(&running, &[&[(11, "test", "demo")], &[BOTH]]);
    // The second user's record is of set "other", under a digest that the first one knows.
    assert_eq!(
        users[1]
            .ask(&elsewhere(&Message::put(1, "i", 7), "other"))
            .code,
        0
    );
    for message in [
        Message::get(1),
        Message::put(1, "i", 8),
        Message::about(0, WRITE | DELETE, 0, 1),
    ] {
        assert_eq!(users[0].ask(&message).code, 4);
    }
    let (rows, _) = users[0].ask_many(&batch(0x0c, &[(digest(1), row(READ | GET_ALL, 0))]));
    assert_eq!(rows[0].code, 4);
    assert_eq!(
        users[1].ask(&elsewhere(&Message::get(1), "other")).int("i"),
        7
    );
}

#[test]
fn info_commands_need_the_privileges_of_what_they_change() {
    let running = secured();
    let mut users = with_users(
        &running,
        &[
            &[BOTH],
            &[(1, "", "")],
            &[(2, "", "")],
            &[(3, "", "")],
            &[(4, "", "")],
            &[(14, "test", "demo")],
        ],
    );
    // Who may: a writer, the administrators of system, data, functions, indexes, who truncates a
    // set.
    let table = [
        (
            "set-config:context=service;proto-fd-max=9000",
            [false, true, false, false, false, false],
        ),
        ("query-abort-all:", [false, true, true, false, false, false]),
        (
            "udf-put:filename=m.lua;content=eA==",
            [false, true, true, true, false, false],
        ),
        (
            "udf-remove:filename=m.lua",
            [false, true, true, true, false, false],
        ),
        (
            "sindex-create:namespace=test;set=demo;indexname=i;bin=i;type=numeric",
            [false, true, true, false, true, false],
        ),
        (
            "sindex-delete:namespace=test;indexname=i",
            [false, true, true, false, true, false],
        ),
        (
            "truncate:namespace=test;set=demo",
            [false, true, true, false, false, true],
        ),
        (
            "truncate:namespace=test;set=other",
            [false, true, true, false, false, false],
        ),
        (
            "truncate-namespace:namespace=test",
            [false, true, true, false, false, false],
        ),
        ("statistics", [true; 6]),
        ("udf-list", [true; 6]),
        ("namespace/test", [true; 6]),
    ];
    for (command, may) in table {
        for (user, may) in users.iter_mut().zip(may) {
            let value = &user.info(&format!("{command}\n"))[0];
            assert_eq!(
                value != "ERROR:81:role violation",
                may,
                "{command}: {value}"
            );
        }
    }
}

#[test]
fn transactions_need_what_their_writes_need() {
    let running = secured();
    let mut users = with_users(
        &running,
        &[
            &[(11, "test", "demo")],
            &[READER],
            &[(11, "bar", "")],
            &[(11, "test", "other")],
        ],
    );
    assert_eq!(users[0].ask(&Message::put(2, "i", 7)).code, 0);
    let begin = transaction::operate(7, true, &[1, 2]);
    for at in [1, 2] {
        assert_eq!(users[at].ask(&begin).code, 81);
    }
    assert_eq!(users[0].ask(&begin).code, 0);
    let number = 7_i64.to_le_bytes();
    let write = Message::put(1, "i", 7).field(transaction::TRANSACTION, &number);
    assert_eq!(users[1].ask(&write).code, 81);
    assert_eq!(users[0].ask(&write).code, 0);
    // A roll in the name of the monitor's set needs what any roll needs.
    for set in ["demo", "<ERO~MRT"] {
        let mut roll = elsewhere(&Message::about(0, WRITE, 0, 1), set);
        roll.info[3] = transaction::ROLL_BACK;
        let roll = roll.field(transaction::TRANSACTION, &number);
        assert_eq!(users[3].ask(&roll).code, 81, "{set}");
    }
    let delete = Message::about(0, WRITE | DELETE, 0, 2);
    let delete = delete.field(transaction::TRANSACTION, &number);
    assert_eq!(users[0].ask(&delete).code, 0);
    // Nor does a set of one's own help with the record of another one, written or deleted.
    for key in [1, 2] {
        let mut roll = elsewhere(&Message::about(0, WRITE, 0, key), "other");
        roll.info[3] = transaction::ROLL_BACK;
        let roll = roll.field(transaction::TRANSACTION, &number);
        assert_eq!(users[3].ask(&roll).code, 4, "{key}");
    }
    let commit = transaction::monitor(7, 0, WRITE).op(2, 17, "fwd", &[1]);
    assert_eq!(users[1].ask(&commit).code, 81);
    assert_eq!(users[0].ask(&commit).code, 0);
    assert_eq!(users[1].ask(&Message::get(1)).int("i"), 7);
}

#[test]
fn texts_of_functions_are_not_written_as_records() {
    let running = secured();
    let mut users = with_users(&running, &[&[READER], &[BOTH], &[BOTH, (3, "", "")]]);
    let open = serve();
    users.push(Wire::to(open.handle.addr()));
    users[2].info("udf-put:filename=m.lua;content=eD0x\n");
    users[3].info("udf-put:filename=m.lua;content=eD0x\n");
    let first = open.store.namespaces()[0].name().to_owned();
    let module = KeyHash::Ripemd160.digest("<functions", &Key::from("m.lua"));
    for (user, code) in users.iter_mut().zip([81, 22, 22, 22]) {
        let put = elsewhere(&Message::put(1, "i", 7), "<functions");
        let delete = Message::about(0, WRITE | DELETE, 0, 1);
        for mut message in [put, elsewhere(&delete, "<functions")] {
            assert_eq!(user.ask(&message).code, code);
            message.fields[0].1 = first.as_bytes().to_vec();
            message.fields[2].1 = module.as_bytes().to_vec();
            assert_eq!(user.ask(&message).code, code);
            // The name of another set does not help: the record is not of that set.
            for set in ["demo", ""] {
                let answer = user.ask(&elsewhere(&message, set));
                assert!([4, 22, 81].contains(&answer.code), "{set:?}: {answer:?}");
            }
        }
        let rows = [(digest(1), {
            let mut row = row(0, WRITE).op(2, 1, "i", &[0; 8]);
            row.fields[1].1 = b"<functions".to_vec();
            row
        })];
        assert_eq!(user.ask_many(&batch(0x0c, &rows)).0[0].code, code);
        assert!(user.info("udf-list\n")[0].contains("m.lua"));
    }
    for running in [running, open] {
        let modules = running.store.namespaces().remove(0);
        let modules = modules.set("<functions").unwrap();
        assert!(modules.get("m.lua").unwrap().unwrap().get("i").is_none());
    }
}

#[test]
fn sets_of_the_store_itself_are_not_truncated_over_the_wire() {
    let (secured, open) = (secured(), serve());
    let mut users = with_users(&secured, &[&[(14, "", "")], &[(2, "", "")]]);
    users.push(Wire::to(open.handle.addr()));
    for user in &mut users[1..] {
        let stored = user.info("udf-put:filename=m.lua;content=eD0x\n");
        assert_eq!(stored, ["ok"]);
    }
    let kept = |running: &Running| {
        let first = running.store.namespaces().remove(0);
        let modules = first.set("<functions").unwrap();
        modules
            .get("m.lua")
            .unwrap()
            .map(|record| record.generation())
    };
    for user in &mut users {
        for set in ["<functions", "<relations", "<tokens", "<ERO~MRT", "<other"] {
            for namespace in ["test", "bar"] {
                let command = format!("truncate:namespace={namespace};set={set}\n");
                let value = user.info(&command).remove(0);
                assert!(value.starts_with("ERROR:22:"), "{set}: {value}");
            }
        }
        assert_eq!(user.info("truncate:namespace=test;set=demo\n"), ["ok"]);
    }
    assert_eq!((kept(&secured), kept(&open)), (Some(1), Some(1)));
    // A truncation of everything keeps what only `udf-remove` removes, and who may truncate may
    // not.
    for user in [0, 2] {
        for namespace in ["test", "bar"] {
            let command = format!("truncate-namespace:namespace={namespace}\n");
            assert_eq!(users[user].info(&command), ["ok"]);
        }
    }
    assert_eq!((kept(&secured), kept(&open)), (Some(1), Some(1)));
    let value = users[0].info("udf-remove:filename=m.lua\n");
    assert_eq!(value, ["ERROR:81:role violation"]);
    assert_eq!(users[2].info("udf-remove:filename=m.lua\n"), ["ok"]);
    assert_eq!(users[2].info("truncate-namespace:namespace=test\n"), ["ok"]);
    assert_eq!(kept(&open), None);
}

#[test]
fn quotas_count_reads_and_writes_of_a_second() {
    let clock = Arc::new(ManualClock::at(509_760_000_000));
    let store = namespaces().clock(clock.clone()).open().unwrap();
    let options = SecurityOptions::default();
    let handle = Server::builder(&store).security(options).start().unwrap();
    let running = Running { store, handle };
    let mut admin = connected(&running, "admin");
    admin.create("ann", &[BOTH]);
    let quotas = [
        (ROLE, &b"ann"[..]),
        (READ_QUOTA, &[0, 0, 0, 3]),
        (WRITE_QUOTA, &[0, 0, 0, 2]),
    ];
    assert_eq!(admin.administer(SET_QUOTAS, &quotas), 0);
    let (mut one, mut other) = (connected(&running, "ann"), connected(&running, "ann"));
    for _ in 0..2 {
        assert_eq!(one.ask(&Message::put(1, "i", 7)).code, 0);
        assert_eq!(other.ask(&Message::get(1)).code, 0);
        assert_eq!(one.ask(&Message::put(1, "i", 7)).code, 0);
        assert_eq!(other.ask(&Message::put(1, "i", 7)).code, 83);
        assert_eq!(other.ask(&transaction::operate(7, true, &[1])).code, 83);
        let rows = [1, 2, 3].map(|key| (digest(key), row(READ | GET_ALL, 0)));
        let (rows, _) = one.ask_many(&batch(0x04, &rows));
        let codes: Vec<u8> = rows.iter().map(|row| row.code).collect();
        assert_eq!(codes, [0, 2, 83]);
        clock.advance_ms(1000);
    }
}

#[test]
fn queries_of_a_user_share_its_quota() {
    let running = secured();
    let mut admin = connected(&running, "admin");
    admin.create("ann", &[BOTH]);
    let mut ann = connected(&running, "ann");
    for key in 0..30 {
        assert_eq!(ann.ask(&Message::put(key, "i", key)).code, 0);
    }
    let quota = [(ROLE, &b"ann"[..]), (READ_QUOTA, &[0, 0, 0, 100])];
    assert_eq!(admin.administer(SET_QUOTAS, &quota), 0);
    let began = Instant::now();
    let mut wires = [connected(&running, "ann"), connected(&running, "ann")];
    for (wire, number) in wires.iter_mut().zip([1, 2]) {
        wire.send(&query().field(7, &[number; 8]).frame());
    }
    for wire in &mut wires {
        assert_eq!(wire.receive_many().0.len(), 30);
    }
    // 60 records at 100 a second.
    let took = began.elapsed();
    assert!(took > Duration::from_millis(570), "{took:?}");
}

#[test]
fn users_come_from_the_addresses_of_their_roles() {
    let running = secured();
    let mut admin = connected(&running, "admin");
    admin.create("ann", &[BOTH]);
    let mut ann = connected(&running, "ann");
    assert_eq!(ann.ask(&Message::get(1)).code, 2);
    let mut allow = |list: &[u8]| {
        let fields = [(ROLE, &b"ann"[..]), (ALLOWLIST, list)];
        assert_eq!(admin.administer(SET_ALLOWLIST, &fields), 0);
    };
    allow(b"10.0.0.0/8,192.0.2.1");
    assert_eq!(ann.ask(&Message::get(1)).code, 82);
    assert_eq!(ann.info("namespaces\n")[0], "ERROR:82:not on the allowlist");
    let mut late = Wire::to(running.handle.addr());
    assert_eq!(late.log_in("ann", &hash("ann")).0, 82);
    allow(b"127.0.0.0/8");
    assert_eq!(ann.ask(&Message::get(1)).code, 2);
    assert_eq!(late.log_in("ann", &hash("ann")).0, 0);
}

#[test]
fn the_audit_log_has_logins_refusals_and_changes_and_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.log");
    let options = SecurityOptions::default()
        .audit_file(&file)
        .audit_data("test", "demo");
    let running = serve_with(|server| server.security(options));
    let mut admin = connected(&running, "admin");
    admin.create("ann\n\"x", &[READER]);
    let mut ann = connected(&running, "ann\n\"x");
    assert_eq!(ann.ask(&Message::get(1)).code, 2);
    assert_eq!(ann.ask(&Message::put(1, "i", 7)).code, 81);
    assert_eq!(
        ann.info("truncate:namespace=test;set=demo\n")[0],
        "ERROR:81:role violation"
    );
    assert_eq!(ann.ask(&elsewhere(&Message::get(1), "other")).code, 2);
    assert_eq!(
        Wire::to(running.handle.addr())
            .log_in("bob", &hash("secret"))
            .0,
        65
    );
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.split_once(' ').unwrap().1)
        .collect();
    let digest = digest(1);
    let expected = [
        r#"user "admin" from 127.0.0.1: login "admin": ok"#.to_owned(),
        r#"user "admin" from 127.0.0.1: create role "ann\n\"x": ok"#.to_owned(),
        r#"user "admin" from 127.0.0.1: create user "ann\n\"x": ok"#.to_owned(),
        r#"user "ann\n\"x" from 127.0.0.1: login "ann\n\"x": ok"#.to_owned(),
        format!(r#"user "ann\n\"x" from 127.0.0.1: read {digest} of test.demo: ok"#),
        format!(r#"user "ann\n\"x" from 127.0.0.1: write {digest} of test.demo: refused (81)"#),
        r#"user "ann\n\"x" from 127.0.0.1: info truncate test.demo: refused (81)"#.to_owned(),
        r#"user "-" from 127.0.0.1: login "bob": refused (65)"#.to_owned(),
    ];
    assert_eq!(lines, expected);
    assert!(!text.contains("$2a$"));
}
