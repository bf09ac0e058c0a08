//! Queries by partition, in the foreground and behind it.

use std::path::Path;
use std::time::{Duration, Instant};

use spikelet::expressions::{ExpType, eq, list_bin, lists, val};
use spikelet::query::IndexDefinition;
use spikelet::server::Server;
use spikelet::{Digest, ListReturnType, Store, bins};

use crate::server_client::*;

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
    let (records, _) = wire.ask_many(&paced(200, 7));
    assert_eq!(records.len(), 100);
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
    assert!(!shown.contains(":recs-throttled=0:"), "{shown}");
    assert_eq!(wire.info("query-show:id=8\n"), ["ERROR:2:job not found"]);

    let mut other = Wire::to(addr);
    other.send(&paced(10, 9).frame());
    until(|| wire.info("query-show:id=9\n")[0].contains("status=active(ok)"));
    assert_eq!(wire.info("query-abort:id=9\n"), ["ok"]);
    let (records, code) = other.receive_many();
    assert!(code == 15 && records.len() < 100);
    assert!(wire.info("query-show:trid=9\n")[0].contains("status=done(user-aborted)"));
    assert_eq!(wire.info("query-abort:id=9\n"), ["ERROR:2:job not found"]);
    assert!(other.is_alive());
}

#[test]
fn a_query_that_finds_nothing_ends_when_its_client_has_gone() {
    let running = serve();
    let set = running.store.set("demo").unwrap();
    let numbers: Vec<_> = (0..20_000).map(|number| number ^ 0x2a5a).collect();
    for key in 0..400 {
        set.put(key, [("l", numbers.clone())]).unwrap();
    }
    // The element of rank 5: all of them are compared.
    let (value, list) = (ListReturnType::Values, list_bin("l"));
    let element = lists::get_by_rank(value, ExpType::Int, 5, list, &[]);
    let nothing = eq(element, val(-1)).to_bytes().unwrap();
    let nothing = query().field(43, &nothing).field(7, &9_u64.to_be_bytes());
    let mut wire = Wire::to(running.handle.addr());
    let mut gone = Wire::to(running.handle.addr());
    gone.send(&nothing.frame());
    let mut shown = || wire.info("query-show:id=9\n").remove(0);
    until(|| shown().contains("status=active"));
    drop(gone);
    until(|| shown().contains("status=done"));
    let shown = shown();
    assert!(
        shown.contains("status=done(abandoned-response-error)"),
        "{shown}"
    );
}

#[test]
fn a_short_query_ends_in_time_and_is_not_told_of() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let short = |timeout_ms| {
        let mut query = query().field(7, &5_u64.to_be_bytes());
        query.info[0] |= SHORT_QUERY;
        query.timeout_ms = timeout_ms;
        query
    };
    // More than fits into the buffers of a connection.
    for key in 0..40 {
        let put = Message::about(0, WRITE, 0, key).op(2, 4, "b", &vec![7; 900 << 10]);
        assert_eq!(wire.ask(&put).code, 0);
    }
    let (records, code) = wire.ask_many(&short(60_000));
    assert_eq!((records.len(), code), (40, 0));
    let mut slow = Wire::to(running.handle.addr());
    slow.send(&short(1).frame());
    let sent = Instant::now();
    until(|| sent.elapsed() > Duration::from_millis(2));
    let (records, code) = slow.receive_many();
    assert!(records.len() < 40 && code == 9, "{} {code}", records.len());
    assert_eq!(wire.info("query-show\n"), [""]);
    assert_eq!(wire.info("query-abort:id=5\n"), ["ERROR:2:job not found"]);
    let statistics = wire.info("namespace/test\n").remove(0);
    for counted in ["complete=1", "timeout=1", "error=0"] {
        assert!(statistics.contains(&format!(";pi_query_short_basic_{counted};")));
    }
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
    until(|| wire.info("query-show:id=5\n")[0].contains("status=done(ok)"));
    let shown = wire.info("query-show:id=5\n").remove(0);
    assert!(
        shown.contains("recs-succeeded=10") && shown.contains("recs-filtered-bins=40"),
        "{shown}"
    );
    // A number counts once while it is remembered.
    assert_eq!(wire.ask(&add(background(5))).code, 4);
    assert_eq!(wire.ask(&Message::get(39)).int("i"), 39);
    assert_eq!(wire.ask(&Message::get(40)).int("i"), 1040);
    assert_eq!(wire.ask(&background(6).op(1, 0, "i", &[])).code, 4);
    let mut nobody = add(background(6));
    nobody.fields[1].1 = b"nobody".to_vec();
    assert_eq!(wire.ask(&nobody).code, 2);
    // The set is looked for before the index.
    let range = [
        &[1, 1, b'i', 1, 0, 0, 0, 8][..],
        &[0; 8],
        &[0, 0, 0, 8],
        &[0; 8],
    ]
    .concat();
    assert_eq!(wire.ask(&nobody.field(22, &range)).code, 2);
    assert_eq!(wire.ask(&add(background(7)).field(22, &range)).code, 201);
}

#[test]
fn a_background_query_that_replaces_takes_no_operation_that_needs_the_bins_before() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let both = |key| Message::put(key, "i", key).op(2, 1, "j", &[0; 8]);
    for key in 0..3 {
        wire.ask(&both(key));
    }
    let replace = |id: u64| {
        Message::new(0, WRITE, REPLACE_ONLY)
            .field(0, b"test")
            .field(1, b"demo")
            .field(7, &id.to_be_bytes())
    };
    let touch = replace(1).op(11, 0, "", &[]);
    let add = replace(2).op(5, 1, "i", &1_i64.to_be_bytes());
    assert_eq!(wire.ask(&touch).code, 4);
    assert_eq!(wire.ask(&add).code, 4);
    for key in 0..3 {
        let record = wire.ask(&Message::get(key));
        assert_eq!((record.int("i"), record.int("j")), (key, 0));
    }
    let put = replace(3).op(2, 1, "i", &7_i64.to_be_bytes());
    assert_eq!(wire.ask_many(&put).1, 0);
    until(|| wire.info("query-show:id=3\n")[0].contains("status=done(ok)"));
    for key in 0..3 {
        let record = wire.ask(&Message::get(key));
        assert_eq!((record.int("i"), record.ops.len()), (7, 1));
    }
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
fn a_query_misses_an_index_that_was_dropped_meanwhile() {
    const RECORDS: usize = 4000;
    let running = serve();
    let set = running.store.set("demo").unwrap();
    set.create_index(IndexDefinition::new("by_i", ["i"]))
        .unwrap();
    // More than the connection takes before its client reads.
    for key in 0..RECORDS as i64 {
        set.put(key, bins! { "i" => key, "b" => vec![0_u8; 16 << 10] })
            .unwrap();
    }
    let bound = |value: i64| [&8_u32.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let range = [&[1, 1, b'i', 1][..], &bound(0), &bound(i64::MAX)].concat();
    let all = query().field(22, &range).field(7, &9_u64.to_be_bytes());
    let mut wire = Wire::to(running.handle.addr());
    let mut other = Wire::to(running.handle.addr());
    other.send(&all.frame());
    until(|| wire.info("query-show:id=9\n")[0].contains("status=active(ok)"));
    set.drop_index("by_i").unwrap();
    let (records, code) = other.receive_many();
    assert_eq!(code, 201);
    assert!(records.len() < RECORDS, "{}", records.len());
}

/// A store with these records in set `demo`, one of which had a byte inverted before this opening.
pub fn damaged(dir: &Path, keys: &[i64], key: i64) -> Store {
    let open = || namespaces().path(dir).open().unwrap();
    let store = open();
    let set = store.set("demo").unwrap();
    for key in keys {
        set.put(*key, [("t", format!("the text of {key}, found again"))])
            .unwrap();
    }
    store.close().unwrap();
    drop((store, set));
    let device = dir.join("test/device-0");
    let mut bytes = std::fs::read(&device).unwrap();
    let text = format!("the text of {key}, ");
    let found = bytes
        .windows(text.len())
        .position(|window| window == text.as_bytes());
    bytes[found.unwrap()] ^= 0xff;
    std::fs::write(&device, bytes).unwrap();
    open()
}

#[test]
fn a_page_behind_a_record_does_not_count_the_damage_of_its_partition_again() {
    let first = digest(0);
    let same = (1..).filter(|key| digest(*key).partition() == first.partition());
    let keys: Vec<i64> = std::iter::once(0).chain(same.take(2)).collect();
    let dir = tempfile::tempdir().unwrap();
    let store = damaged(dir.path(), &keys, keys[2]);
    let handle = Server::builder(&store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    let partition = (first.partition() as u16).to_le_bytes();
    let mut page = |id: u64, behind: Option<Digest>| {
        let mut page = query().field(7, &id.to_be_bytes());
        page.fields[2].1 = match behind {
            Some(digest) => {
                page = page.field(12, digest.as_bytes());
                Vec::new()
            }
            None => partition.to_vec(),
        };
        let (records, code) = wire.ask_many(&page);
        let shown = wire.info(&format!("query-show:id={id}\n")).remove(0);
        let failed = shown
            .split(':')
            .find_map(|it| it.strip_prefix("recs-failed="));
        (records, code, failed.unwrap().to_owned())
    };
    let (records, code, failed) = page(1, None);
    assert_eq!((records.len(), code, &*failed), (2, 0, "1"));
    let last = records[0].field(4).try_into().unwrap();
    let (records, code, failed) = page(2, Some(Digest::new(last)));
    assert_eq!((records.len(), code, &*failed), (1, 0, "0"));
}
