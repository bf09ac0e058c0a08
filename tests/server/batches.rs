//! Batches: every row is answered, or none is executed.

use spikelet::Store;
use spikelet::server::{Server, ServerConfig};

use crate::server_client::*;

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
fn a_batch_may_say_that_its_rows_are_longer_than_its_message() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    let rows = [(digest(1), row(READ | GET_ALL, 0))];
    let is_one = [0x93, 1, 0x93, 0x51, 2, 0xa1, b'i', 1];
    let mut message = batch(0x0d, &rows);
    message.fields.insert(0, (43, is_one.to_vec()));
    let mut body = message.body();
    let rows_at = body.len() - message.fields[1].1.len() - 5;
    let size = u32::from_be_bytes(body[rows_at..][..4].try_into().unwrap());
    body[rows_at..][..4].copy_from_slice(&(size + is_one.len() as u32).to_be_bytes());
    wire.send(&frame(3, &body));
    let (answers, code) = wire.receive_many();
    assert_eq!((answers.len(), answers[0].code, code), (1, 0, 0));
    // The answer to a malformed batch is a last message, too.
    body[rows_at + 5 + 3] = 9;
    wire.send(&frame(3, &body));
    assert_eq!(wire.receive_many(), (vec![], 4));
    let mut cut = message.body();
    cut.truncate(25);
    wire.send(&frame(3, &cut));
    assert_eq!(wire.receive_many(), (vec![], 4));
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
fn no_frame_is_longer_than_a_message_may_be() {
    let config = ServerConfig::namespace_of("test");
    let store = Store::builder().namespace(config.max_record_bytes(8 << 20));
    let store = store.open().unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let set = store.set("demo").unwrap();
    // Together they are longer, and each row is not.
    for (key, bytes) in [(1, 120_000), (2, 8_384_000)] {
        set.put(key, [("b", vec![7_u8; bytes])]).unwrap();
    }
    let read = |times| (0..times).fold(row(READ, 0), |row, _| row.op(1, 0, "b", &[]));
    let rows = [(digest(1), read(1)), (digest(2), read(16))];
    let mut batch = Message {
        timeout_ms: 3_600_000,
        ..batch(0x04, &rows)
    };
    let mut wire = Wire::to(handle.addr());
    wire.send(&batch.frame());
    let mut told = Vec::new();
    while told.len() < 3 {
        let (kind, body) = wire.receive().unwrap();
        assert!(kind == 3 && body.len() <= 128 << 20, "{}", body.len());
        told.extend(answers(&body));
    }
    let counts: Vec<_> = told.iter().map(|row| (row.code, row.ops.len())).collect();
    assert_eq!(counts, [(0, 1), (0, 16), (0, 0)]);
    assert_eq!(told[2].info3, LAST);
    batch.info[0] |= COMPRESS_RESPONSE;
    wire.send(&batch.frame());
    for _ in 0..2 {
        let (kind, body) = wire.receive().unwrap();
        assert!(kind == 4 && body.len() < 1 << 20, "{}", body.len());
    }
    let (_, last) = wire.receive().unwrap();
    assert_eq!(answers(&last)[0].info3, LAST);

    // A query: a short record, and a long one soon behind it.
    set.delete(1).unwrap();
    let long = digest(2).partition();
    let is_before = |key: &i64| (long - 9..long).contains(&digest(*key).partition());
    let short = (3..).find(is_before).unwrap();
    set.put(short, [("b", vec![7_u8; 10_000])]).unwrap();
    let query = (0..16).fold(query(), |query, _| query.op(1, 0, "b", &[]));
    wire.send(&query.frame());
    for frame in ["short", "long", "last"] {
        let (_, body) = wire.receive().unwrap();
        assert!(body.len() <= 128 << 20, "{frame}: {}", body.len());
    }
}
