//! A served store, asked byte by byte.
#![cfg(feature = "server")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod server_client;

use std::time::{Duration, Instant, SystemTime};

use server_client::*;
use spikelet::{NamespaceConfig, Server, Store, operations};

const NOW_AFTER_2010: u64 = 1_262_304_000;

fn seconds_since_2010() -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    now.as_secs() - NOW_AFTER_2010
}

#[test]
fn a_client_finds_its_cluster_of_one_node() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let port = running.handle.addr().port();
    let values =
        wire.info("node\npartition-generation\nbuild\ncluster-name\npeers-generation\nfeatures\n");
    assert!(values[0].starts_with("BB9") && values[0].len() <= 16);
    assert_eq!(values[1..5], ["1", "8.1.2.0", "null", "0"]);
    assert!(values[5].contains("pscans") && values[5].contains("batch-any"));
    let values = wire.info("peers-clear-std\npartition-generation\nreplicas\n");
    assert_eq!(values[0], format!("0,{port},[]"));
    let maps: Vec<&str> = values[2].split(';').collect();
    assert_eq!(maps.len(), 2);
    for (map, name) in maps.iter().zip(["bar", "test"]) {
        let map = map.strip_prefix(&format!("{name}:0,1,")).unwrap();
        // 512 bytes of ones.
        assert_eq!(map, format!("{}8=", "/".repeat(682)));
    }
    assert_eq!(
        wire.info("service-clear-std\n"),
        [format!("127.0.0.1:{port}")]
    );
    let agent = "user-agent-set:value=MSxweXRob24tMTkuMy4wLG5vdC1zZXQ=\n";
    assert_eq!(wire.info(agent), ["ok"]);
    assert_eq!(wire.info(agent), ["ERROR:4:already set"]);
    assert_eq!(
        wire.info("wibble:x=1\nracks:\n"),
        ["ERROR:4:unrecognized command", "ERROR:25:enterprise only"]
    );
    // An unterminated command, and none at all.
    assert_eq!(wire.info("status"), ["ok"]);
    assert!(wire.info("").len() > 5);
}

#[test]
fn a_put_is_answered_with_these_bytes() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.send(&Message::put(1, "i", 7).frame());
    let (_, body) = wire.receive().unwrap();
    let mut expected = [0; 22];
    (expected[0], expected[9]) = (22, 1);
    assert_eq!(body, expected);
    wire.send(&Message::get(1).frame());
    let (_, body) = wire.receive().unwrap();
    expected[21] = 1;
    assert_eq!(body[..22], expected);
    assert_eq!(body[22..], *b"\0\0\0\x0d\x01\x01\0\x01i\0\0\0\0\0\0\0\x07");
}

#[test]
fn what_a_client_writes_the_store_reads_and_the_other_way_round() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    assert_eq!(wire.ask(&Message::put(1, "i", 7)).code, 0);
    let set = running
        .store
        .namespace("test")
        .unwrap()
        .set("demo")
        .unwrap();
    let record = set.get(1).unwrap().unwrap();
    assert_eq!(record.get("i"), Some(7.into()));
    set.operate(1, &[operations::add("i", 3)]).unwrap();
    let answer = wire.ask(&Message::get(1));
    assert_eq!((answer.generation, answer.int("i")), (2, 10));
}

#[test]
fn values_of_all_types_come_back_as_they_were() {
    let table: [(u8, &[u8]); 10] = [
        (1, &[0xff; 8]),
        (2, &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0]),
        (3, "h\u{e9}".as_bytes()),
        // Text need not be UTF-8.
        (3, &[0xff, 0xfe]),
        (4, &[1, 2, 3]),
        (9, b"pickled"),
        (17, &[1]),
        (19, &[0x81, 0xa2, 3, b'x', 1]),
        (20, &[0x92, 1, 0xa2, 3, b'a']),
        (23, b"\0\0\0{\"type\":\"Point\",\"coordinates\":[1.0,2.0]}"),
    ];
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    for (at, (kind, value)) in (0..).zip(table) {
        let put = Message::about(0, WRITE, 0, at).op(2, kind, "v", value);
        assert_eq!(wire.ask(&put).code, 0, "{kind}");
        for get in [
            Message::get(at),
            Message::about(READ, 0, 0, at).op(1, 0, "v", &[]),
        ] {
            let answer = wire.ask(&get);
            let op = &answer.ops[0];
            assert_eq!((op.kind, &op.value[..]), (kind, value));
        }
    }
}

#[test]
fn existence_and_generation_decide_in_this_order() {
    // What a write finds (0: nothing, else a generation), its flags, the generation it expects, the code.
    let table: [(u32, u8, u8, u32, u8); 21] = [
        (0, 0, 0, 0, 0),
        (0, 0, UPDATE_ONLY, 0, 2),
        (0, 0, REPLACE_ONLY, 0, 2),
        (0, 0, CREATE_OR_REPLACE, 0, 0),
        (0, CREATE_ONLY, 0, 0, 0),
        (2, 0, 0, 0, 0),
        (2, 0, UPDATE_ONLY, 0, 0),
        (2, 0, REPLACE_ONLY, 0, 0),
        (2, 0, CREATE_OR_REPLACE, 0, 0),
        (2, CREATE_ONLY, 0, 0, 5),
        (2, GENERATION_EQUAL, 0, 2, 0),
        (2, GENERATION_EQUAL, 0, 1, 3),
        (2, GENERATION_EQUAL, 0, 65_538, 3),
        (0, GENERATION_EQUAL, 0, 0, 0),
        (0, GENERATION_EQUAL, 0, 1, 3),
        (2, GENERATION_GREATER, 0, 3, 0),
        (2, GENERATION_GREATER, 0, 2, 3),
        (2, GENERATION_GREATER, 0, 70_000, 0),
        (0, GENERATION_GREATER, 0, 1, 0),
        (0, GENERATION_EQUAL, UPDATE_ONLY, 7, 2),
        (2, CREATE_ONLY | GENERATION_EQUAL, 0, 7, 5),
    ];
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    for (key, (found, info2, info3, expected, code)) in (0..).zip(table) {
        for _ in 0..found {
            wire.ask(&Message::put(key, "old", 1));
        }
        let write = Message::about(0, WRITE | info2, info3, key)
            .op(2, 1, "new", &[0; 8])
            .generation(expected);
        let answer = wire.ask(&write);
        assert_eq!(answer.code, code, "row {key}");
        if code == 0 {
            assert_eq!(answer.generation, found + 1, "row {key}");
            let replaced = info3 & (CREATE_OR_REPLACE | REPLACE_ONLY) != 0;
            let bins = wire.ask(&Message::get(key)).ops.len();
            assert_eq!(bins, 1 + usize::from(found > 0 && !replaced), "row {key}");
        } else if found > 0 {
            // A refusal tells what was found.
            assert_eq!(answer.generation, found, "row {key}");
        }
    }
}

#[test]
fn reads_answer_by_their_flags() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let put = Message::put(1, "a", 1).op(2, 1, "b", &2_i64.to_be_bytes());
    wire.ask(&put);
    let names =
        |answer: &Answer| -> Vec<String> { answer.ops.iter().map(|op| op.name.clone()).collect() };
    let read = |info1, bins: &[&str]| {
        bins.iter()
            .fold(Message::about(info1, 0, 0, 1), |message, bin| {
                message.op(1, 0, bin, &[])
            })
    };
    assert_eq!(names(&wire.ask(&Message::get(1))), ["a", "b"]);
    assert_eq!(names(&wire.ask(&read(READ, &["b", "zz", "a"]))), ["b", "a"]);
    let exists = wire.ask(&read(READ | NO_BINS, &[""]));
    assert_eq!(
        (exists.code, exists.generation, exists.ops.len()),
        (0, 1, 0)
    );
    let mut all = read(READ, &["zz", "a"]);
    all.info[1] = RESPOND_ALL_OPS;
    let answer = wire.ask(&all);
    assert_eq!(names(&answer), ["zz", "a"]);
    assert_eq!((answer.ops[0].kind, answer.ops[0].value.len()), (0, 0));
    // Neither bins nor operations; nothing at all; no record; a name that is too long.
    assert_eq!(wire.ask(&read(READ, &[])).code, 4);
    assert_eq!(wire.ask(&read(0, &["a"])).code, 4);
    assert_eq!(wire.ask(&Message::get(2)).code, 2);
    assert_eq!(wire.ask(&read(READ, &["sixteen bytes..."])).code, 21);
}

#[test]
fn reads_and_writes_in_one_request_answer_in_their_order() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 7));
    let operate = |info1, info2| {
        Message::about(info1, WRITE | info2, 0, 1)
            .op(5, 1, "i", &3_i64.to_be_bytes())
            .op(1, 0, "i", &[])
    };
    let answer = wire.ask(&operate(READ, 0));
    assert_eq!((answer.ops.len(), answer.int("i")), (1, 10));
    let answer = wire.ask(&operate(READ, RESPOND_ALL_OPS));
    let codes: Vec<_> = answer.ops.iter().map(|op| (op.code, op.kind)).collect();
    assert_eq!(codes, [(5, 0), (1, 1)]);
    // Reads must be announced; all bins must be asked for at one place.
    assert_eq!(wire.ask(&operate(0, 0)).code, 4);
    assert_eq!(wire.ask(&operate(READ | GET_ALL, 0)).code, 4);
    let all = Message::about(READ | GET_ALL, WRITE, 0, 1)
        .op(5, 1, "i", &1_i64.to_be_bytes())
        .op(1, 0, "", &[]);
    assert_eq!(wire.ask(&all).int("i"), 14);
    // A failing operation takes the others back.
    let failing = operate(READ, 0).op(9, 3, "i", b"text");
    assert_eq!(wire.ask(&failing).code, 12);
    assert_eq!(wire.ask(&Message::get(1)).int("i"), 14);
    // Removing the last bin removes the record.
    let remove = Message::about(0, WRITE, 0, 1).op(2, 0, "i", &[]);
    let answer = wire.ask(&remove);
    assert_eq!(
        (answer.code, answer.generation, answer.void_time),
        (0, 0, 0)
    );
    assert_eq!(wire.ask(&remove).code, 2);
    assert_eq!(wire.ask(&Message::get(1)).code, 2);
}

#[test]
fn lists_are_edited_by_calls() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    // Append 7 to an ordered list without duplicates.
    let append = Message::about(0, WRITE, 0, 1).op(4, 4, "l", &[0x94, 1, 7, 1, 1]);
    let answer = wire.ask(&append);
    assert_eq!((answer.ops[0].code, answer.int("l")), (4, 1));
    assert_eq!(wire.ask(&append).code, 24);
    let size = Message::about(READ, RESPOND_ALL_OPS, 0, 1).op(3, 4, "l", &[0x91, 16]);
    let answer = wire.ask(&size);
    assert_eq!((answer.ops[0].code, answer.int("l")), (3, 1));
    let malformed = Message::about(READ, 0, 0, 1).op(3, 4, "l", &[0x93, 16]);
    assert_eq!(wire.ask(&malformed).code, 4);
}

#[test]
fn results_keep_the_form_that_they_have_in_the_record() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let map = [0x82, 0xa2, 3, b'a', 3, 0xa2, 3, b'b', 1];
    let put = Message::about(0, WRITE, 0, 1)
        .op(2, 19, "m", &map)
        .op(2, 9, "python", b"pickled")
        .op(2, 3, "text", &[0xff, 0xfe]);
    assert_eq!(wire.ask(&put).code, 0);
    // Pairs by value come as a map that says that its order counts (flag 8).
    let pairs = [0x94, 106, 8, 0, 2];
    let operate = |info2| {
        Message::about(READ, info2, 0, 1)
            .op(3, 4, "m", &pairs)
            .op(1, 0, "python", &[])
            .op(1, 0, "text", &[])
    };
    let reads = operate(RESPOND_ALL_OPS);
    let writes = operate(WRITE).op(2, 1, "i", &[0; 8]);
    for request in [reads, writes] {
        let answer = wire.ask(&request);
        let found: Vec<_> = answer
            .ops
            .iter()
            .map(|op| (op.code, op.kind, &op.value[..]))
            .collect();
        let ordered = [0x83, 0xc7, 0, 8, 0xc0, 0xa2, 3, b'b', 1, 0xa2, 3, b'a', 3];
        assert_eq!(
            found,
            [
                (3, 19, &ordered[..]),
                (1, 9, b"pickled"),
                (1, 3, &[0xff, 0xfe])
            ]
        );
    }
}

#[test]
fn filters_and_expressions_are_evaluated() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 7));
    // i > 3, i > 8, and something that is no expression.
    let greater = |than: u8| [0x93, 3, 0x93, 0x51, 2, 0xa1, b'i', than];
    let get = |filter: &[u8]| Message::get(1).field(43, filter);
    assert_eq!(wire.ask(&get(&greater(3))).code, 0);
    assert_eq!(wire.ask(&get(&greater(8))).code, 27);
    assert_eq!(wire.ask(&get(&[0xc1])).code, 4);
    // Nobody asks a filter about a record that does not exist.
    assert_eq!(wire.ask(&Message::get(2).field(43, &[0xc1])).code, 2);
    let put = |key, filter: &[u8]| Message::put(key, "i", 9).field(43, filter);
    assert_eq!(wire.ask(&put(1, &greater(8))).code, 27);
    assert_eq!(wire.ask(&put(3, &greater(100))).code, 0);
    assert_eq!(wire.ask(&Message::get(1)).int("i"), 7);
    let delete = Message::about(0, WRITE | DELETE, 0, 1).field(43, &greater(8));
    assert_eq!(wire.ask(&delete).code, 27);
    // res = i + 1
    let sum = [0x92, 0x93, 0x14, 0x93, 0x51, 2, 0xa1, b'i', 1, 0];
    let read = Message::about(READ, RESPOND_ALL_OPS, 0, 1).op(7, 4, "res", &sum);
    let answer = wire.ask(&read);
    assert_eq!((answer.ops[0].code, answer.int("res")), (7, 8));
}

#[test]
fn records_live_as_long_as_they_are_told_to() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let mut put = |ttl: u32| {
        let answer = wire.ask(&Message::put(1, "i", 1).ttl(ttl));
        (answer.code, u64::from(answer.void_time))
    };
    assert_eq!(put(0), (0, 0));
    let (code, void_time) = put(100);
    let expected = seconds_since_2010() + 100;
    assert!(code == 0 && (expected - 2..=expected).contains(&void_time));
    assert_eq!(put(u32::MAX - 1), (0, void_time));
    assert_eq!(put(315_360_001).0, 4);
    assert_eq!(put(u32::MAX - 2).0, 4);
    assert_eq!(put(u32::MAX), (0, 0));
    let touch = Message::about(0, WRITE, 0, 1).op(11, 0, "", &[]).ttl(50);
    let answer = wire.ask(&touch);
    assert!(answer.code == 0 && answer.ops.is_empty() && answer.void_time > 0);
    // A read-touch percentage above 100, of a record that can expire.
    assert_eq!(wire.ask(&Message::get(1).ttl(101)).code, 4);
    assert_eq!(wire.ask(&Message::get(1).ttl(100)).code, 0);
    let missing = Message::about(0, WRITE, 0, 2).op(11, 0, "", &[]);
    assert_eq!(wire.ask(&missing).code, 2);
}

#[test]
fn a_read_renews_a_record_that_has_lived_long_enough() {
    let clock = std::sync::Arc::new(spikelet::ManualClock::at(1_000_000_000));
    let store = namespaces()
        .clock(std::sync::Arc::clone(&clock) as _)
        .open()
        .unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    wire.ask(&Message::put(1, "i", 1).ttl(100));
    clock.advance_ms(30_000);
    // At 80 % of what is left to live it is not due, at 80 % of what has passed it is.
    assert_eq!(wire.ask(&Message::get(1).ttl(60)).void_time, 1_000_100);
    assert_eq!(wire.ask(&Message::get(1).ttl(80)).void_time, 1_000_100);
    let renewed = wire.ask(&Message::get(1));
    assert_eq!((renewed.void_time, renewed.generation), (1_000_130, 1));
    clock.advance_ms(101_000);
    assert_eq!(wire.ask(&Message::get(1)).code, 2);
}

#[test]
fn keys_are_stored_when_they_are_sent_and_compared_from_then_on() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let key = [&[1][..], &1_i64.to_be_bytes()].concat();
    let other = [&[1][..], &2_i64.to_be_bytes()].concat();
    wire.ask(&Message::put(1, "i", 1).field(2, &key));
    // Writers without it keep it.
    wire.ask(&Message::put(1, "i", 2));
    let (records, _) = wire.ask_many(&query());
    assert_eq!(records[0].field(2), key);
    assert_eq!(wire.ask(&Message::get(1).field(2, &key)).code, 0);
    for request in [
        Message::get(1),
        Message::put(1, "i", 3),
        Message::about(0, WRITE | DELETE, 0, 1),
    ] {
        assert_eq!(wire.ask(&request.clone().field(2, &other)).code, 19);
        assert_eq!(wire.ask(&request.field(2, &[1, 2])).code, 16);
    }
}

#[test]
fn a_digest_belongs_to_one_set() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    let about = |info1, info2, set: Option<&[u8]>| {
        let message = Message::new(info1, info2, 0)
            .field(0, b"test")
            .field(4, digest(1).as_bytes());
        set.into_iter()
            .fold(message, |message, set| message.field(1, set))
    };
    let read = |set| about(READ | GET_ALL, 0, set);
    assert_eq!(wire.ask(&read(None)).code, 0);
    assert_eq!(wire.ask(&read(Some(b"other"))).code, 4);
    for set in [None, Some(&b"other"[..])] {
        let put = about(0, WRITE, set).op(2, 1, "i", &[0; 8]);
        assert_eq!(wire.ask(&put).code, 4);
    }
    assert_eq!(wire.ask(&about(0, WRITE | DELETE, Some(b"other"))).code, 4);
    assert_eq!(wire.ask(&about(0, WRITE | DELETE, None)).code, 0);
    assert_eq!(wire.ask(&about(0, WRITE | DELETE, None)).code, 2);
}

#[test]
fn requests_that_cannot_be_answered_say_why() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let get = |namespace: &[u8]| {
        Message::new(READ | GET_ALL, 0, 0)
            .field(0, namespace)
            .field(4, digest(1).as_bytes())
    };
    let put = |kind: u8, value: &[u8]| Message::about(0, WRITE, 0, 9).op(2, kind, "v", value);
    let table = [
        ("unknown namespace", get(b"nope"), 20),
        ("no namespace", Message::new(READ, 0, 0), 20),
        (
            "short digest",
            Message::new(READ, 0, 0)
                .field(0, b"test")
                .field(4, &[1; 19]),
            4,
        ),
        ("transaction", get(b"test").field(5, &[1; 8]), 25),
        (
            "no digest, no partitions",
            Message::new(READ, 0, 0).field(0, b"test"),
            16,
        ),
        ("integer of three bytes", put(1, &[0; 3]), 4),
        ("truth value of 2", put(17, &[2]), 4),
        ("unknown type", put(99, &[]), 4),
        ("malformed list", put(20, &[0x92, 1]), 1),
        (
            "unknown operation",
            Message::about(0, WRITE, 0, 9).op(17, 1, "v", &[]),
            4,
        ),
        (
            "write without operations",
            Message::about(0, WRITE, 0, 9),
            4,
        ),
        (
            "set name with NUL",
            Message::new(READ | GET_ALL, 0, 0)
                .field(0, b"test")
                .field(1, b"a\0")
                .field(4, &[1; 20]),
            4,
        ),
        ("too big", put(4, &vec![0; 2 << 20]), 13),
    ];
    for (what, message, code) in table {
        assert_eq!(wire.ask(&message).code, code, "{what}");
    }
    // A function that nobody has registered.
    let apply = Message::about(0, WRITE, 0, 9)
        .field(30, b"module")
        .field(31, b"function")
        .field(32, &[0x90]);
    let answer = wire.ask(&apply);
    assert_eq!((answer.code, answer.ops[0].name.as_str()), (100, "FAILURE"));
    // A query by an index.
    let range = [
        &[1, 1, b'i', 1, 0, 0, 0, 8][..],
        &[0; 8],
        &[0, 0, 0, 8],
        &[0; 8],
    ]
    .concat();
    assert_eq!(wire.ask(&query().field(22, &range)).code, 201);
    // Users and roles.
    wire.send(&frame(2, &[0; 16]));
    let (kind, body) = wire.receive().unwrap();
    assert_eq!((kind, body.len(), body[1]), (2, 16, 51));
    assert!(wire.is_alive());
}

#[test]
fn a_batch_answers_each_row() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    for key in 0..3 {
        wire.ask(&Message::put(key, "i", key));
    }
    let rows = [
        (digest(0), row(READ | GET_ALL, 0)),
        (digest(1), row(READ, 0).op(1, 0, "i", &[])),
        (digest(9), row(READ | GET_ALL, 0)),
        (
            digest(2),
            row(0, WRITE | RESPOND_ALL_OPS).op(5, 1, "i", &[0, 0, 0, 0, 0, 0, 0, 5]),
        ),
        (digest(2), row(0, WRITE | DELETE)),
        (digest(0), row(READ, 0).op(3, 4, "i", &[0x91, 16])),
        (digest(0), row(READ | NO_BINS, 0)),
        (digest(0), Message::new(READ, 0, 0).field(0, b"nope")),
        (
            digest(1),
            row(READ | GET_ALL, 0).field(43, &[0x93, 3, 0x93, 0x51, 2, 0xa1, b'i', 8]),
        ),
    ];
    let (answers, code) = wire.ask_many(&batch(0x0d, &rows));
    assert_eq!(code, 0);
    let codes: Vec<_> = answers
        .iter()
        .map(|answer| (answer.row, answer.code))
        .collect();
    assert_eq!(
        codes,
        [
            (0, 0),
            (1, 0),
            (2, 2),
            (3, 0),
            (4, 0),
            (5, 12),
            (6, 0),
            (7, 20),
            (8, 27)
        ]
    );
    assert_eq!((answers[1].int("i"), answers[3].generation), (1, 2));
    assert_eq!(answers[3].ops.len(), 1);
    assert!(answers[6].ops.is_empty() && answers[6].generation == 1);
    // Without "respond to all keys" the first failing row is the last.
    for (flags, rows_answered) in [(0x09, 6), (0x01, 5)] {
        let (answers, code) = wire.ask_many(&batch(flags, &rows));
        assert_eq!((answers.len(), code), (rows_answered, 12));
    }
    // A filter for all rows.
    let filtered = batch(0x0d, &rows[..2]).field(43, &[0x93, 3, 0x93, 0x51, 2, 0xa1, b'i', 0]);
    let (answers, _) = wire.ask_many(&filtered);
    assert_eq!((answers[0].code, answers[1].code), (27, 0));
    let malformed = batch(0x0d, &rows[..1]).field(43, &[0xc1]);
    assert_eq!(wire.ask(&malformed).code, 4);
}

#[test]
fn malformed_batches_change_nothing() {
    let running = serve_with(|server| server.max_batch_rows(10));
    let mut wire = Wire::to(running.handle.addr());
    let write = |key| (digest(key), row(0, WRITE).op(2, 1, "i", &[0; 8]));
    let whole = batch(0x0d, &[write(1), write(2)]);
    for cut in 1..whole.fields[0].1.len() {
        let mut message = whole.clone();
        message.fields[0].1.truncate(cut);
        let answer = wire.ask(&message);
        assert_eq!((answer.code, answer.info3), (4, LAST), "{cut}");
    }
    assert_eq!(wire.ask(&Message::get(1)).code, 2);
    let many: Vec<_> = (0..11).map(write).collect();
    assert_eq!(wire.ask(&batch(0x0d, &many)).code, 151);
    assert_eq!(wire.ask_many(&batch(0x0d, &many[..10])).0.len(), 10);
}

#[test]
fn a_large_batch_comes_in_several_pieces() {
    const ROWS: i64 = 5000;
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let writes: Vec<_> = (0..ROWS)
        .map(|key| (digest(key), row(0, WRITE).op(2, 1, "i", &key.to_be_bytes())))
        .collect();
    let (answers, code) = wire.ask_many(&batch(0x0d, &writes));
    assert_eq!((answers.len() as i64, code), (ROWS, 0));
    let reads: Vec<_> = (0..ROWS)
        .map(|key| (digest(key), row(READ | GET_ALL, 0)))
        .collect();
    let (answers, _) = wire.ask_many(&batch(0x0d, &reads));
    for answer in &answers {
        assert_eq!(answer.int("i"), i64::from(answer.row));
    }
    assert_eq!(answers.len() as i64, ROWS);
}

#[test]
fn a_query_returns_each_record_once_page_by_page() {
    const RECORDS: i64 = 3000;
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    for key in 0..RECORDS {
        wire.send(&Message::put(key, "i", key).frame());
    }
    for _ in 0..RECORDS {
        wire.receive().unwrap();
    }
    let (all, code) = wire.ask_many(&query());
    assert_eq!((all.len() as i64, code), (RECORDS, 0));
    assert_eq!(all[0].field(0), b"test");
    assert_eq!(all[0].field(1), b"demo");
    // In each partition by digest.
    let digests: Vec<&[u8]> = all.iter().map(|record| record.field(4)).collect();
    let partition = |digest: &[u8]| usize::from(digest[0]) | usize::from(digest[1] & 15) << 8;
    assert!(digests.is_sorted_by_key(|digest| (partition(digest), *digest)));

    let mut seen = Vec::new();
    let mut last: Option<Vec<u8>> = None;
    loop {
        let first = last.as_ref().map_or(0, |digest| partition(digest) + 1);
        let rest: Vec<u8> = (first as u16..4096).flat_map(u16::to_le_bytes).collect();
        let mut page = query().field(13, &700_u64.to_be_bytes());
        page.fields[2].1 = rest;
        if let Some(digest) = &last {
            page = page.field(12, digest);
        }
        let (records, code) = wire.ask_many(&page);
        assert!(code == 0 && records.len() <= 700);
        seen.extend(records.iter().map(|record| record.int("i")));
        if records.len() < 700 {
            break;
        }
        last = records.last().map(|record| record.field(4).to_vec());
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..RECORDS));
}

#[test]
fn queries_choose_what_they_return() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    for key in 0..20 {
        let bin = if key % 2 == 0 { "even" } else { "odd" };
        wire.ask(&Message::put(key, bin, key).op(2, 1, "all", &key.to_be_bytes()));
    }
    let count = |wire: &mut Wire, message: &Message| {
        let (records, code) = wire.ask_many(message);
        assert_eq!(code, 0);
        (
            records.len(),
            records.iter().map(|record| record.ops.len()).sum::<usize>(),
        )
    };
    assert_eq!(count(&mut wire, &query()), (20, 40));
    // A record without any of the bins is left out.
    assert_eq!(count(&mut wire, &query().op(1, 0, "odd", &[])), (10, 10));
    let mut header = query();
    header.info[0] |= NO_BINS;
    assert_eq!(count(&mut wire, &header), (20, 0));
    let filter = [0x93, 3, 0x93, 0x51, 2, 0xa3, b'a', b'l', b'l', 14];
    assert_eq!(count(&mut wire, &query().field(43, &filter)), (5, 10));
    let limited = query().field(43, &filter).field(13, &3_u64.to_be_bytes());
    assert_eq!(count(&mut wire, &limited), (3, 6));
    let sum = [
        0x92, 0x93, 0x14, 0x93, 0x51, 2, 0xa3, b'a', b'l', b'l', 1, 0,
    ];
    assert_eq!(count(&mut wire, &query().op(7, 4, "sum", &sum)), (20, 20));
    let mut unknown_set = query();
    unknown_set.fields[1].1 = b"nobody".to_vec();
    assert_eq!(count(&mut wire, &unknown_set), (0, 0));
    let mut all_sets = query();
    all_sets.fields.remove(1);
    assert_eq!(count(&mut wire, &all_sets), (20, 40));

    let mut twice = query();
    twice.fields[2].1 = [7_u16, 7].into_iter().flat_map(u16::to_le_bytes).collect();
    assert_eq!(wire.ask(&twice).code, 4);
    let mut beyond = query();
    beyond.fields[2].1 = 4096_u16.to_le_bytes().to_vec();
    assert_eq!(wire.ask(&beyond).code, 4);
    assert_eq!(wire.ask(&query().op(2, 1, "all", &[0; 8])).code, 4);
}

#[test]
fn a_query_keeps_to_its_pace_and_can_be_aborted() {
    let running = serve();
    let addr = running.handle.addr();
    let mut wire = Wire::to(addr);
    for key in 0..100 {
        wire.ask(&Message::put(key, "i", key));
    }
    let paced = |per_second: u32, id: u64| {
        query()
            .field(10, &per_second.to_be_bytes())
            .field(7, &id.to_be_bytes())
    };
    let began = Instant::now();
    let (records, _) = wire.ask_many(&paced(200, 7));
    assert_eq!(records.len(), 100);
    assert!(
        began.elapsed() > Duration::from_millis(400),
        "{:?}",
        began.elapsed()
    );
    let shown = wire.info("query-show:id=7\n").remove(0);
    assert!(shown.starts_with("trid=7:ns=test:set=demo:"), "{shown}");
    for part in [
        "status=done(ok)",
        "job-progress=100.00",
        "recs-succeeded=100",
        "rps=200",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    assert_eq!(wire.info("query-show:id=8\n"), ["ERROR:2:job not found"]);

    let mut other = Wire::to(addr);
    other.send(&paced(10, 9).frame());
    while !wire.info("query-show:id=9\n")[0].contains("status=active(ok)") {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(wire.info("query-abort:id=9\n"), ["ok"]);
    let (records, code) = other.receive_many();
    assert!(code == 15 && records.len() < 100);
    assert!(wire.info("query-show:trid=9\n")[0].contains("status=done(user-aborted)"));
    assert_eq!(wire.info("query-abort:id=9\n"), ["ERROR:2:job not found"]);
    assert!(other.is_alive());
}

#[test]
fn a_background_query_changes_the_records_of_a_set() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    for key in 0..50 {
        wire.ask(&Message::put(key, "i", key));
    }
    let background = |id: u64| {
        Message::new(0, WRITE, 0)
            .field(0, b"test")
            .field(1, b"demo")
            .field(7, &id.to_be_bytes())
    };
    let add = |message: Message| message.op(5, 1, "i", &1000_i64.to_be_bytes());
    let filter = [0x93, 3, 0x93, 0x51, 2, 0xa1, b'i', 39];
    let (_, code) = wire.ask_many(&add(background(5).field(43, &filter)));
    assert_eq!(code, 0);
    while !wire.info("query-show:id=5\n")[0].contains("status=done(ok)") {
        std::thread::sleep(Duration::from_millis(5));
    }
    let shown = wire.info("query-show:id=5\n").remove(0);
    assert!(
        shown.contains("recs-succeeded=10") && shown.contains("recs-filtered-bins=40"),
        "{shown}"
    );
    assert_eq!(wire.ask(&Message::get(39)).int("i"), 39);
    assert_eq!(wire.ask(&Message::get(40)).int("i"), 1040);
    assert_eq!(wire.ask(&background(6).op(1, 0, "i", &[])).code, 4);
    let mut nobody = add(background(6));
    nobody.fields[1].1 = b"nobody".to_vec();
    assert_eq!(wire.ask(&nobody).code, 2);
}

#[test]
fn compressed_requests_are_understood_and_answers_compressed_if_asked() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let put = Message::about(0, WRITE, 0, 1).op(2, 3, "text", &[b'x'; 5000]);
    let plain = put.frame();
    // A zlib stream of one stored block.
    let mut body = (plain.len() as u64).to_be_bytes().to_vec();
    body.extend([0x78, 1, 1]);
    body.extend((plain.len() as u16).to_le_bytes());
    body.extend((!(plain.len() as u16)).to_le_bytes());
    body.extend(&plain);
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in &plain {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    body.extend((high << 16 | low).to_be_bytes());
    wire.send(&frame(4, &body));
    let (kind, answer) = wire.receive().unwrap();
    assert_eq!((kind, answers(&answer)[0].code), (3, 0));
    let mut get = Message::get(1);
    get.info[0] |= COMPRESS_RESPONSE;
    wire.send(&get.frame());
    let (kind, answer) = wire.receive().unwrap();
    assert!(kind == 4 && answer.len() < 500);
    // What is no stream ends the connection.
    body.truncate(100);
    wire.send(&frame(4, &body));
    assert_eq!(wire.receive(), None);
}

#[test]
fn a_truncated_set_is_empty() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    for key in 0..10 {
        wire.ask(&Message::put(key, "i", key));
    }
    let sets = wire.info("sets/test/demo\n").remove(0);
    assert!(sets.starts_with("ns=test:set=demo:objects=10:"), "{sets}");
    let table = [
        ("truncate:namespace=test;set=demo;lut=1\n", "ERROR:4"),
        ("truncate:namespace=test;set=demo;lut=x\n", "ERROR:4"),
        (
            "truncate:namespace=test;set=demo;lut=9000000000000000000\n",
            "ERROR:4",
        ),
        ("truncate:namespace=test\n", "ERROR:4"),
        ("truncate-namespace:namespace=test;set=demo\n", "ERROR:4"),
        ("truncate:namespace=nope;set=demo\n", "ok"),
        ("truncate:namespace=test;set=nobody\n", "ok"),
    ];
    for (command, value) in table {
        let answer = wire.info(command).remove(0);
        assert!(answer.starts_with(value), "{command}: {answer}");
    }
    assert_eq!(wire.ask_many(&query()).0.len(), 10);
    assert_eq!(wire.info("truncate:namespace=test;set=demo\n"), ["ok"]);
    assert_eq!(wire.ask_many(&query()).0.len(), 0);
    assert_eq!(wire.ask(&Message::put(1, "i", 1)).generation, 1);
    assert_eq!(wire.info("truncate-namespace:namespace=test\n"), ["ok"]);
    assert_eq!(wire.ask(&Message::get(1)).code, 2);
}

#[test]
fn what_it_holds_is_told_by_info() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1).ttl(1000));
    wire.ask(&Message::get(1));
    wire.ask(&Message::get(2));
    let holds = |text: &str, parts: &[&str]| {
        for part in parts {
            assert!(
                text.split(';').any(|pair| pair == *part),
                "{part} in {text}"
            );
        }
    };
    holds(&wire.info("namespaces\n")[0], &["test", "bar"]);
    holds(
        &wire.info("statistics\n")[0],
        &["cluster_size=1", "objects=1", "client_connections=1"],
    );
    holds(
        &wire.info("namespace/test\n")[0],
        &[
            "objects=1",
            "nsup-period=120",
            "strong-consistency=false",
            "client_read_success=1",
            "client_read_not_found=1",
            "client_write_success=1",
        ],
    );
    holds(
        &wire.info("get-config:context=namespace;id=test\n")[0],
        &[
            "nsup-period=120",
            "default-ttl=0",
            "max-record-size=1048576",
        ],
    );
    assert_eq!(wire.info("namespace/nope\n"), ["type=unknown"]);
    assert!(wire.info("get-config:context=xdr\n")[0].starts_with("ERROR"));
    let latency = wire.info("latencies:hist={test}-read\n").remove(0);
    assert!(latency.starts_with("{test}-read:msec,") && latency.split(',').count() == 19);
    assert_eq!(wire.info("latencies:hist={bar}-read\n"), ["{bar}-read:"]);
    let sizes = wire
        .info("histogram:namespace=test;type=object-size\n")
        .remove(0);
    assert_eq!(sizes, "units=bytes:[64-128)=1");
    let lives = wire.info("histogram:namespace=test;type=ttl\n").remove(0);
    let (head, buckets) = lives.split_once(":buckets=").unwrap();
    assert!(head.starts_with("units=seconds:hist-width="), "{head}");
    let records: u64 = buckets
        .split(',')
        .map(|count| count.parse::<u64>().unwrap())
        .sum();
    assert_eq!((buckets.split(',').count(), records), (100, 1));
    assert_eq!(
        wire.info("sindex-list:\nudf-list\nsindex-exists:namespace=test;indexname=i\nsindex-stat:namespace=test;indexname=i\n"),
        ["", "", "false", "ERROR:201:no index"]
    );
}

#[test]
fn metrics_have_the_names_that_dashboards_know() {
    use std::io::{Read, Write};
    let running = serve_with(|server| server.metrics("127.0.0.1:0").unwrap());
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    let scrape = |path: &str| {
        let mut stream =
            std::net::TcpStream::connect(running.handle.metrics_addr().unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let text = scrape("/metrics");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"));
    for (name, labels, value) in [
        ("aerospike_node_up", "build=\"8.1.2.0\"", "1"),
        ("aerospike_namespace_master_objects", "ns=\"test\"", "1"),
        (
            "aerospike_namespace_client_write_success",
            "ns=\"test\"",
            "1",
        ),
        ("aerospike_sets_objects", "set=\"demo\"", "1"),
        (
            "aerospike_node_stats_client_connections",
            "cluster_name=\"null\"",
            "1",
        ),
        ("aerospike_latencies_write_ms_bucket", "le=\"+Inf\"", "1"),
        ("spikelet_appended_bytes", "ns=\"bar\"", "0"),
    ] {
        let found = text.lines().any(|line| {
            line.starts_with(&format!("{name}{{"))
                && line.contains(labels)
                && line.ends_with(&format!(" {value}"))
        });
        assert!(found, "{name} {labels} {value} in\n{text}");
    }
    // Each metric is announced once.
    let mut types: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("# TYPE"))
        .collect();
    let all = types.len();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types.len(), all);
    assert!(scrape("/else").starts_with("HTTP/1.1 404"));
}

#[test]
fn several_servers_run_side_by_side_and_stop_by_themselves() {
    let one = serve();
    let other = serve();
    let mut to_one = Wire::to(one.handle.addr());
    let mut to_other = Wire::to(other.handle.addr());
    assert_ne!(to_one.info("node\n"), to_other.info("node\n"));
    to_one.ask(&Message::put(1, "i", 1));
    assert_eq!(to_other.ask(&Message::get(1)).code, 2);
    let began = Instant::now();
    one.handle.stop();
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(to_one.receive(), None);
    assert!(to_other.is_alive());
    // The store outlives its server, and can be served again.
    let handle = Server::builder(&one.store).start().unwrap();
    assert_eq!(Wire::to(handle.addr()).ask(&Message::get(1)).code, 0);
}

#[test]
fn a_store_whose_digests_clients_do_not_know_is_refused() {
    let store = Store::builder()
        .namespace(NamespaceConfig::new("test"))
        .open()
        .unwrap();
    let error = Server::builder(&store).start().unwrap_err().to_string();
    assert!(error.contains("KeyHash::Ripemd160"), "{error}");
}

#[test]
fn a_namespace_without_expiry_refuses_times_to_live() {
    let running = serve_with(|server| server.without_expiry("test"));
    let mut wire = Wire::to(running.handle.addr());
    assert_eq!(wire.ask(&Message::put(1, "i", 1).ttl(10)).code, 22);
    assert_eq!(wire.ask(&Message::put(1, "i", 1).ttl(u32::MAX)).code, 0);
    assert!(wire.info("namespace/test\n")[0].contains("nsup-period=0"));
}
