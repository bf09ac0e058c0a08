//! Records, one at a time: the effect of a write, the result of a read, and the order in which
//! flags decide.

use crate::server_client::*;
use spikelet::{ShardedList, operations};

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
    // What a write finds (0: nothing, else a generation), its flags, the generation it expects, the
    // code.
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
            // A refusal has the generation of the record that was found.
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

/// A wire client is not refused what would orphan companions, as by Aerospike; but what handles of
/// this process write afterwards is where everybody looks.
#[test]
fn handles_notice_that_a_client_has_taken_the_root_of_a_sharded_list_away() {
    const REPLACE: u8 = 0x10;
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let namespace = running.store.namespace("test").unwrap();
    let list = || ShardedList::new(&namespace, "demo", 1, "followers").unwrap();
    let handle = list();
    let replace = Message::about(0, WRITE, REPLACE, 1).op(2, 1, "i", &[7]);
    let delete = Message::about(0, WRITE | DELETE, 0, 1);
    for (element, message) in (0..).zip([replace, delete]) {
        assert!(handle.add(element).unwrap());
        handle.shards().activate(2).unwrap();
        assert!(handle.contains(&element.into()).unwrap());
        assert_eq!(wire.ask(&message).code, 0);
        assert!(handle.is_empty().unwrap());
        assert!(handle.add(element + 100).unwrap());
        assert!(list().contains(&(element + 100).into()).unwrap());
        handle.delete().unwrap();
    }
}
