//! Invalid keys, sets and requests, and the answers to them.

use std::time::Duration;

use spikelet::record::KeyHash;
use spikelet::server::Server;
use spikelet::{NamespaceConfig, Store};

use crate::server_client::*;

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
        (
            "nothing in a transaction",
            get(b"test").field(5, &[1; 8]),
            2,
        ),
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
    // A function of a module that was never registered.
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
    // A body that cannot be inflated ends the connection.
    body.truncate(100);
    wire.send(&frame(4, &body));
    assert_eq!(wire.receive(), None);
}

#[test]
fn a_write_that_waits_for_space_is_refused_within_the_clients_own_limit() {
    let mut config = NamespaceConfig::new("test").max_space_wait(Duration::from_secs(600));
    config.key_hash = KeyHash::Ripemd160;
    config.max_device_bytes = 64 << 20;
    let store = Store::builder().namespace(config).open().unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let set = store.set("s").unwrap();
    let payload = vec![7_u8; 100 << 10];
    let count = (0_i64..)
        .find(|key| set.put(*key, [("b", payload.as_slice())]).is_err())
        .unwrap();
    let answers = set.read(0, |_| {
        // The space of these comes back when no reader can see them any more, which this one
        // prevents.
        for key in 1..count / 2 {
            set.delete(key).unwrap();
        }
        let mut wire = Wire::to(handle.addr());
        let mut put = Message::about(0, WRITE, 0, 1).op(2, 4, "b", &payload);
        put.timeout_ms = 300;
        // Some fit into blocks that are open.
        let answers = (0..200).map(|_| wire.ask(&put).code);
        answers.take_while(|code| *code == 0).count()
    });
    let written = answers.unwrap().unwrap();
    assert!(written < 200, "nothing was refused");
    let stats = store.namespace("test").unwrap().stats();
    assert!(stats.space_waits > 0, "no write has waited: {stats:?}");
    // It waits no more once the reader has gone.
    let mut wire = Wire::to(handle.addr());
    let put = Message::about(0, WRITE, 0, 1).op(2, 4, "b", &payload);
    until(|| wire.ask(&put).code == 0);
}

#[test]
fn what_aerospike_lets_through_is_stored() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    // Header and end mark, the count of bins, the bin; Aerospike counts the set, too.
    let most = (1 << 20) - (35 + 4) - 1 - (1 + 1 + 5);
    let put = |bytes: usize| Message::about(0, WRITE, 0, 1).op(2, 4, "b", &vec![7; bytes]);
    assert_eq!(wire.ask(&put(most)).code, 0);
    assert_eq!(wire.ask(&put(most + 1)).code, 13);
}
