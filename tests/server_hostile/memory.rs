//! The memory of all messages under way has a limit, and no few clients take all of it.

use std::io::Write;

use crate::beside_others;
use crate::server_client::*;

/// The memory of all messages under way.
fn held(wire: &mut Wire) -> u64 {
    let statistics = wire.info("statistics\n").remove(0);
    let held = statistics
        .split(';')
        .find_map(|pair| pair.strip_prefix("message_memory_bytes="));
    held.unwrap().parse().unwrap()
}

#[test]
fn uploads_that_never_end_leave_room_for_others() {
    let _memory = beside_others();
    let running = serve();
    let addr = running.handle.addr();
    let whole = (2_u64 << 56 | 3 << 48 | 128 << 20).to_be_bytes();
    let half = [&whole[..], &vec![0; 13 << 20]].concat();
    let uploads: Vec<_> = (0..80)
        .map(|_| {
            let mut wire = Wire::to(addr);
            // The server closes the ones that it has no room for.
            let _ = wire.stream.write_all(&half);
            wire
        })
        .collect();
    let mut wire = Wire::to(addr);
    until(|| held(&mut wire) >= 900 << 20);
    let blob = vec![7; 1_000_000];
    let put = |key| Message::about(0, WRITE, 0, key).op(2, 4, "blob", &blob);
    assert_eq!(wire.ask(&put(1)).code, 0);
    let row = row(0, WRITE | RESPOND_ALL_OPS).op(2, 4, "blob", &blob);
    let rows: Vec<_> = (1..=8).map(|key| (digest(key), row.clone())).collect();
    let (rows, code) = wire.ask_many(&batch(0x0d, &rows));
    assert_eq!((rows.len(), code), (8, 0));
    let get = Message::about(READ, 0, 0, 1);
    let all = (0..8).fold(get, |get, _| get.op(1, 0, "blob", &[]));
    assert_eq!(wire.ask(&all).code, 0);
    drop(uploads);
    until(|| held(&mut wire) == 0);
}

#[test]
fn answers_that_nobody_reads_share_a_budget() {
    let _memory = beside_others();
    let running = serve();
    let addr = running.handle.addr();
    let mut wire = Wire::to(addr);
    let put = Message::about(0, WRITE, 0, 1).op(2, 4, "blob", &vec![7; 1_000_000]);
    assert_eq!(wire.ask(&put).code, 0);
    // A hundred times the same megabyte, asked for by many who do not read it.
    let get = Message::about(READ, 0, 0, 1);
    let hundred = (0..100).fold(get, |get, _| get.op(1, 0, "blob", &[]));
    let mut silent: Vec<Wire> = (0..24).map(|_| Wire::to(addr)).collect();
    for wire in &mut silent {
        wire.send(&hundred.frame());
    }
    until(|| held(&mut wire) >= 610 << 20);
    // Other large requests are refused with code 18, and small requests are answered as ever.
    let more = (0..20).fold(hundred.clone(), |get, _| get.op(1, 0, "blob", &[]));
    assert_eq!(wire.ask(&more).code, 18);
    assert!(held(&mut wire) <= 1 << 30);
    assert_eq!(wire.ask(&Message::put(2, "i", 2)).code, 0);
    let (records, code) = wire.ask_many(&query());
    assert!(code == 18 || records.len() == 2);
    drop(silent);
    until(|| held(&mut wire) == 0);
    let answer = wire.ask(&hundred);
    assert_eq!((answer.code, answer.ops.len()), (0, 100));
}
