//! Queries by an index: which records they return, in which order and pages, and the info commands
//! about indexes and modules.
#![cfg(feature = "server")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod pages;
#[path = "../server_client/mod.rs"]
mod server_client;

use server_client::*;
use spikelet::query::{BackgroundPolicy, IndexComponent, IndexDefinition};
use spikelet::{Set, ShardedList, Value, WritePolicy, operations};

/// A range of integers.
fn integers(bin: &str, first: i64, last: i64) -> Vec<u8> {
    let mut range = vec![1, bin.len() as u8];
    range.extend(bin.as_bytes());
    range.push(1);
    for bound in [first, last] {
        range.extend(8_u32.to_be_bytes());
        range.extend(bound.to_be_bytes());
    }
    range
}

/// What equals a text, a blob or, for GeoJSON, matches it.
fn value(bin: &str, kind: u8, value: &[u8]) -> Vec<u8> {
    let mut range = vec![1, bin.len() as u8];
    range.extend(bin.as_bytes());
    range.push(kind);
    for _ in 0..2 {
        range.extend((value.len() as u32).to_be_bytes());
        range.extend(value);
    }
    range
}

/// Ten records: integers, texts, lists, maps, nested lists and places.
fn fill(set: &Set) {
    for number in 0..10_i64 {
        let list: Vec<Value> = vec![number.into(), format!("e{number}").as_str().into()];
        let map = [("n", Value::from(number)), ("t", "same".into())];
        let map: spikelet::value::Map = map
            .into_iter()
            .map(|(key, value)| (Value::from(key), value))
            .collect();
        let place = format!(r#"{{"type":"Point","coordinates":[{number}.5,0.5]}}"#);
        let bins = [
            ("i", Value::from(number)),
            ("s", format!("text{}", number % 3).as_str().into()),
            ("b", (&[number as u8 / 5][..]).into()),
            ("l", Value::List(list.clone().into())),
            ("m", Value::Map(map)),
            ("deep", Value::List(vec![Value::List(list.into())].into())),
            ("geo", Value::GeoJson(place)),
        ];
        set.put(number, bins).unwrap();
    }
    // In no index: nothing, or values of other types.
    set.put("other", [("i", "3"), ("s", "none")]).unwrap();
}

/// Creates indexes, and waits until they are complete.
fn create(wire: &mut Wire, commands: &str) {
    let told = wire.info(commands);
    assert!(told.iter().all(|answer| answer == "ok"), "{told:?}");
    until(|| !wire.info("sindex-list\n")[0].contains("state=WO"));
}

/// The integers of the records that a query returns, in order, or the code that it ends with.
fn found(wire: &mut Wire, message: &Message) -> Result<Vec<i64>, u8> {
    wire.send(&message.frame());
    let (_, body) = wire.receive().unwrap();
    let first = answers(&body);
    if first[0].code != 0 {
        return Err(first[0].code);
    }
    let mut numbers: Vec<i64> = Vec::new();
    let mut pieces = first;
    loop {
        for answer in pieces {
            if answer.info3 & LAST != 0 {
                numbers.sort_unstable();
                return Ok(numbers);
            }
            // Clients go on behind this value.
            assert_eq!(answer.field(15).len(), 8);
            numbers.push(answer.int("i"));
        }
        pieces = answers(&wire.receive().unwrap().1);
    }
}

const TRIANGLE: &[u8] =
    br#"{"type":"Polygon","coordinates":[[[2.0,0.0],[5.0,0.0],[5.0,1.0],[2.0,1.0],[2.0,0.0]]]}"#;

#[test]
fn a_query_by_an_index_returns_the_records_in_its_range() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    fill(&running.store.set("demo").unwrap());
    create(
        &mut wire,
        "sindex-create:namespace=test;set=demo;indexname=i;bin=i;type=numeric\n\
         sindex-create:ns=test;set=demo;indexname=s;indexdata=s,STRING\n\
         sindex-create:namespace=test;set=demo;indexname=b;bin=b;type=blob\n\
         sindex-create:namespace=test;set=demo;indexname=ln;indextype=list;bin=l;type=numeric\n\
         sindex-create:namespace=test;set=demo;indexname=ls;indextype=list;bin=l;type=string\n\
         sindex-create:namespace=test;indexname=mk;indextype=mapkeys;bin=m;type=string\n\
         sindex-create:namespace=test;indexname=mv;indextype=mapvalues;bin=m;type=numeric\n\
         sindex-create:namespace=test;set=demo;indexname=geo;bin=geo;type=geo2dsphere\n\
         sindex-create:namespace=test;set=demo;indexname=deep;bin=deep;context=lBAAEAA=;type=numeric\n\
         sindex-create:namespace=test;set=demo;indexname=exp;exp=kxSTUQKhaQo=;type=numeric\n",
    );
    let all: Vec<i64> = (0..10).collect();
    let table: [(&str, Message, &[i64]); 12] = [
        (
            "integers",
            query().field(22, &integers("i", 3, 5)),
            &[3, 4, 5],
        ),
        (
            "text",
            query().field(22, &value("s", 3, b"text1")),
            &[1, 4, 7],
        ),
        (
            "blob",
            query().field(22, &value("b", 4, &[1])),
            &[5, 6, 7, 8, 9],
        ),
        (
            "elements of a list",
            query().field(26, &[1]).field(22, &integers("l", 8, 90)),
            &[8, 9],
        ),
        (
            "texts in a list",
            query().field(26, &[1]).field(22, &value("l", 3, b"e7")),
            &[7],
        ),
        (
            "keys of a map",
            query().field(26, &[2]).field(22, &value("m", 3, b"n")),
            &all,
        ),
        (
            "values of a map",
            query().field(26, &[3]).field(22, &integers("m", 0, 1)),
            &[0, 1],
        ),
        (
            "points in a region",
            query().field(22, &value("geo", 23, TRIANGLE)),
            &[2, 3, 4],
        ),
        (
            "inside a list",
            query()
                .field(22, &integers("deep", 6, 6))
                .field(23, &[0x94, 0x10, 0, 0x10, 0]),
            &[6],
        ),
        (
            "the value of an expression",
            query()
                .field(22, &integers("", 12, 13))
                .field(24, &[0x93, 0x14, 0x93, 0x51, 2, 0xa1, b'i', 10]),
            &[2, 3],
        ),
        (
            "by the name of the index",
            query().field(21, b"i").field(22, &integers("", 9, 20)),
            &[9],
        ),
        (
            "and a filter",
            query()
                .field(22, &integers("i", 3, 5))
                .field(43, &[0x93, 3, 0x93, 0x51, 2, 0xa1, b'i', 4]),
            &[5],
        ),
    ];
    for (what, message, expected) in table {
        assert_eq!(
            found(&mut wire, &message).as_deref(),
            Ok(expected),
            "{what}"
        );
    }
    let refused = [
        (
            "a type that no index has",
            query().field(22, &value("i", 3, b"x")),
            201,
        ),
        (
            "a bin without an index",
            query().field(22, &integers("x", 1, 2)),
            201,
        ),
        (
            "no such index",
            query().field(21, b"z").field(22, &integers("", 1, 2)),
            201,
        ),
        (
            "a path without an index",
            query()
                .field(22, &integers("i", 1, 2))
                .field(23, &[0x92, 0x10, 0]),
            201,
        ),
        (
            "another part",
            query().field(26, &[1]).field(22, &integers("i", 1, 2)),
            201,
        ),
        ("an empty range", query().field(22, &integers("i", 2, 1)), 4),
        (
            "bin and index",
            query().field(21, b"i").field(22, &integers("i", 1, 2)),
            4,
        ),
        ("no range", query().field(21, b"i"), 4),
        (
            "digests without values",
            query()
                .field(22, &integers("i", 1, 2))
                .field(12, digest(1).as_bytes()),
            4,
        ),
    ];
    for (what, message, code) in refused {
        assert_eq!(found(&mut wire, &message), Err(code), "{what}");
    }
}

#[test]
fn an_index_is_counted_renamed_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let store = namespaces().path(dir.path()).open().unwrap();
        let handle = spikelet::server::Server::builder(&store).start().unwrap();
        Running { store, handle }
    };
    let running = open();
    let mut wire = Wire::to(running.handle.addr());
    let set = running.store.set("demo").unwrap();
    for number in 0..1000_i64 {
        let elements = vec![Value::from(number % 10), (number % 10 + 10).into()];
        set.put(number, [("l", Value::List(elements.into()))])
            .unwrap();
    }
    let one = "sindex-create:namespace=test;set=demo;indexname=";
    create(
        &mut wire,
        &format!("{one}a;bin=l;indextype=list;type=numeric\n{one}all;indextype=set\n"),
    );
    let told = wire
        .info("sindex-stat:namespace=test;indexname=a\n")
        .remove(0);
    assert!(told.starts_with("entries=2000;used_bytes="), "{told}");
    assert!(told.contains(";entries_per_bval=1"), "{told}");
    assert!(
        told.contains(";entries_per_rec=2;load_pct=100;load_time="),
        "{told}"
    );
    // The same index under another name is that index with another name.
    create(
        &mut wire,
        &format!("{one}b;bin=l;indextype=list;type=integer\n"),
    );
    let told = wire.info("sindex-exists:ns=test;indexname=a\nsindex-exists:ns=test;indexname=b\n");
    assert_eq!(told, ["false", "true"]);
    assert_eq!(running.store.namespace("test").unwrap().indexes().len(), 2);
    let asked = query().field(26, &[1]).field(22, &integers("l", 12, 12));
    assert_eq!(wire.ask_many(&asked).0.len(), 100);
    drop(set);
    running.handle.stop();
    running.store.close().unwrap();
    drop(running.store);
    let running = open();
    let mut wire = Wire::to(running.handle.addr());
    let told = wire.info("sindex-list:ns=test\n").remove(0);
    let lines = "ns=test:indexname=b:set=demo:bin=l:type=numeric:indextype=list:context=null:exp=null:state=RW;\
                 ns=test:indexname=all:set=demo:indextype=set";
    assert_eq!(told, lines);
    assert_eq!(wire.ask_many(&asked).0.len(), 100);
}

#[test]
fn an_index_that_was_declared_by_the_application_serves_clients() {
    use spikelet::query::{IndexComponent, IndexDefinition};
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let set = running.store.set("demo").unwrap();
    fill(&set);
    set.create_index(IndexDefinition::new("by_i", ["i"]))
        .unwrap();
    set.create_index(IndexDefinition::new("by_both", ["s", "i"]))
        .unwrap();
    let short = IndexDefinition::new("short", [IndexComponent::bin("b")]).ignoring_longer_than(4);
    set.create_index(short).unwrap();
    assert_eq!(
        found(&mut wire, &query().field(22, &integers("i", 8, 20))),
        Ok(vec![8, 9])
    );
    // One of two components lacks records that lack the second, and one of short values lacks long
    // ones.
    for range in [value("s", 3, b"text1"), value("b", 4, &[1])] {
        assert_eq!(found(&mut wire, &query().field(22, &range)), Err(201));
    }
    let told = wire
        .info("sindex-stat:ns=test;indexname=by_both\n")
        .remove(0);
    assert!(told.starts_with("entries=11;"), "{told}");
}

/// A query in the background under the number 9.
fn background_query() -> Message {
    Message::new(0, WRITE, 0)
        .field(0, b"test")
        .field(1, b"demo")
        .field(7, &9_u64.to_be_bytes())
}

#[test]
fn a_background_query_meets_no_record_twice() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let set = running.store.set("demo").unwrap();
    for number in 0..500_i64 {
        set.put(number, [("i", number)]).unwrap();
    }
    create(
        &mut wire,
        "sindex-create:namespace=test;indexname=i;bin=i;type=numeric\n",
    );
    // Each one moves to where the query has not been yet.
    let job = background_query().field(22, &integers("i", 0, 100_000)).op(
        5,
        1,
        "i",
        &100_i64.to_be_bytes(),
    );
    assert_eq!(wire.ask(&job).code, 0);
    until(|| wire.info("query-show:id=9\n")[0].contains("status=done"));
    for number in 0..500_i64 {
        let record = set.get(number).unwrap().unwrap();
        assert_eq!(record.get("i").unwrap(), (number + 100).into());
    }
}

#[test]
fn a_background_query_changes_the_records_of_an_index() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let set = running.store.set("demo").unwrap();
    fill(&set);
    create(
        &mut wire,
        "sindex-create:namespace=test;indexname=i;bin=i;type=numeric\n",
    );
    let job = background_query().field(22, &integers("i", 3, 5)).op(
        2,
        1,
        "seen",
        &[0, 0, 0, 0, 0, 0, 0, 1],
    );
    assert_eq!(wire.ask(&job).code, 0);
    until(|| wire.info("query-show:id=9\n")[0].contains("status=done"));
    assert!(wire.info("query-show:id=9\n")[0].contains(":sindex-name=i:"));
    for number in 0..10_i64 {
        let record = set.get(number).unwrap().unwrap();
        let seen = record.into_bins().unwrap().get("seen").is_some();
        assert_eq!(seen, (3..=5).contains(&number), "{number}");
    }
}

#[test]
fn indexes_are_told_and_forgotten() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let create = "sindex-create:namespace=test;set=demo;indexname=i";
    let table = [
        (format!("{create};bin=i;type=numeric"), "ok"),
        (format!("{create};bin=i;type=numeric"), "ok"),
        (format!("{create};bin=j;type=numeric"), "ERROR:200:"),
        (format!("{create};bin=i;type=float"), "ERROR:4:"),
        (format!("{create};bin=i"), "ERROR:4:"),
        (format!("{create};type=string"), "ERROR:4:"),
        (
            format!("{create};bin=i;type=string;indextype=tree"),
            "ERROR:4:",
        ),
        (
            format!("{create};bin=i;type=string;context=%%%"),
            "ERROR:4:",
        ),
        (
            format!("{create};bin=i;type=string;context=kA=="),
            "ERROR:4:",
        ),
        (format!("{create};exp=wQ==;type=string"), "ERROR:4:"),
        (format!("{create};exp=kxSTUQKhaQo=;type=string"), "ERROR:4:"),
        (
            format!("{create}{};bin=i;type=string", "i".repeat(64)),
            "ERROR:4:",
        ),
        (
            format!(
                "sindex-create:namespace={};indexname=i;bin=i;type=blob",
                "n".repeat(32)
            ),
            "ERROR:20:",
        ),
        (
            "sindex-create:namespace=test;bin=i;type=blob".into(),
            "ERROR:4:",
        ),
    ];
    for (command, answer) in table {
        let told = wire.info(&format!("{command}\n")).remove(0);
        assert!(told.starts_with(answer), "{command}: {told}");
    }
    until(|| wire.info("sindex/test\n")[0].ends_with("state=RW"));
    let line = "ns=test:indexname=i:set=demo:bin=i:type=numeric:indextype=default:context=null:exp=null:state=RW";
    let told = wire.info("sindex\nsindex/test\nsindex-list:namespace=bar\nsindex-exists:namespace=test;indexname=i\n");
    assert_eq!(told, [line, line, "", "true"]);
    for command in [
        "sindex/test/i\n",
        "sindex-stat:namespace=test;indexname=i\n",
    ] {
        until(|| wire.info(command)[0].contains(";load_pct=100;"));
    }
    let delete = "sindex-delete:namespace=test;indexname=i\n";
    assert_eq!(wire.info(delete), ["ok"]);
    assert_eq!(wire.info(delete), ["ok"]);
    assert_eq!(wire.info("sindex/test/i\n"), ["ERROR:201:no index"]);
}

#[test]
fn an_index_of_a_set_is_of_its_records() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    fill(&running.store.set("demo").unwrap());
    let create = "sindex-create:namespace=test;indexname=all;indextype=set";
    let table = [
        (create.to_owned(), "ERROR:4:"),
        (format!("{create};set=demo;bin=i"), "ERROR:4:bin"),
        (format!("{create};set=demo;type=numeric"), "ERROR:4:type"),
        (format!("{create};set=demo;context=kA=="), "ERROR:4:context"),
        (format!("{create};set=demo"), "ok"),
        (format!("{create};set=demo"), "ok"),
        (format!("{create};set=other"), "ERROR:200:"),
        (
            "sindex-create:namespace=nope;indexname=all;indextype=set;set=demo".into(),
            "ERROR:4:",
        ),
    ];
    for (command, answer) in table {
        let told = wire.info(&format!("{command}\n")).remove(0);
        assert!(told.starts_with(answer), "{command}: {told}");
    }
    let told = wire.info("sindex-list\nsindex-stat:namespace=test;indexname=all\n");
    let line = "ns=test:indexname=all:set=demo:indextype=set";
    assert_eq!(told, [line, "entries=11;used_bytes=0;load_pct=100"]);
    // It is of no values, so no query can ask by it.
    let by_name = query().field(21, b"all").field(22, &integers("", 1, 2));
    assert_eq!(found(&mut wire, &by_name), Err(201));
    let delete = "sindex-delete:namespace=test;set=demo;indexname=all\nsindex-list\n";
    assert_eq!(wire.info(delete), ["ok", ""]);
}

#[test]
fn an_index_of_a_namespace_elsewhere_takes_its_name() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let create = "sindex-create:namespace=nope;indexname=i;type=numeric";
    assert_eq!(wire.info(&format!("{create};bin=i\n")), ["ok"]);
    assert_eq!(wire.info(&format!("{create};bin=i\n")), ["ok"]);
    let other = wire.info(&format!("{create};bin=j\n"));
    assert!(other[0].starts_with("ERROR:200:"), "{other:?}");
    // A client that waits for the index learns that the namespace does not exist.
    for command in ["sindex-stat", "sindex-exists", "sindex-list"] {
        let told = wire.info(&format!("{command}:namespace=nope;indexname=i\n"));
        assert!(told[0].starts_with("ERROR:20:"), "{told:?}");
    }
    let delete = "sindex-delete:namespace=nope;indexname=i\n";
    assert_eq!(wire.info(delete), ["ok"]);
    assert_eq!(wire.info(&format!("{create};bin=j\n")), ["ok"]);
}

#[test]
fn modules_are_kept_and_a_call_is_checked_before_it_runs() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let put = "udf-put:filename=m.lua;content=LS0geA==;content-len=8;udf-type=LUA;";
    assert_eq!(wire.info(&format!("{put}\n")), ["ok"]);
    let told = wire.info("udf-list\nudf-get:filename=m.lua\nudf-get:filename=n.lua\n");
    assert!(told[0].starts_with("filename=m.lua,hash=") && told[0].ends_with(",type=LUA;"));
    assert_eq!(told[1..], ["type=LUA;content=LS0geA==;", "error=not_found"]);
    for bad in [
        "udf-put:content=LS0geA==",
        "udf-put:filename=a/b.lua;content=LS0geA==",
        "udf-put:filename=m.lua;content=%",
        "udf-put:filename=m.lua",
        "udf-put:filename=m.lua;content=LS0geA==;udf-type=PY",
    ] {
        assert!(
            wire.info(&format!("{bad}\n"))[0].starts_with("error="),
            "{bad}"
        );
    }
    let apply = Message::about(0, WRITE, 0, 1)
        .field(30, b"m")
        .field(31, b"f")
        .field(32, &[0x90]);
    let answer = wire.ask(&apply);
    assert_eq!((answer.code, answer.ops[0].name.as_str()), (100, "FAILURE"));
    // A call without a function's name, or for a record that the filter refuses, does not reach the
    // function.
    let mut unnamed = apply.clone();
    unnamed.fields.retain(|field| field.0 != 31);
    assert_eq!(wire.ask(&unnamed).code, 4);
    let filtered = apply.field(43, &[0x93, 3, 0x93, 0x51, 2, 0xa1, b'i', 4]);
    assert_eq!(wire.ask(&filtered).code, 100);
    wire.ask(&Message::put(1, "i", 4));
    assert_eq!(wire.ask(&filtered).code, 27);
    wire.ask(&Message::put(1, "i", 5));
    assert_eq!(wire.ask(&filtered).code, 100);
    assert_eq!(
        wire.info("udf-remove:filename=m.lua\nudf-list\n"),
        ["ok", ""]
    );
}

#[test]
fn a_query_finds_the_root_of_a_sharded_list_and_a_scan_shows_its_companions() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let set = running.store.set("demo").unwrap();
    for number in 0..5_i64 {
        set.put(number, [("i", number)]).unwrap();
    }
    let list = ShardedList::new(&running.store, "demo", 3_i64, "l").unwrap();
    for element in 0..60_i64 {
        list.add(element).unwrap();
    }
    create(
        &mut wire,
        "sindex-create:namespace=test;set=demo;indexname=l;indextype=list;bin=l;type=numeric\n",
    );
    let element = |first, last| {
        query()
            .field(22, &integers("l", first, last))
            .field(26, &[1])
    };
    for shards in [0, 4, 8] {
        match shards {
            0 => {}
            4 => drop(list.shards().activate(4).unwrap()),
            _ => drop(list.shards().split().unwrap()),
        }
        for (first, last) in [(7, 7), (10, 50), (59, 80)] {
            let found = found(&mut wire, &element(first, last));
            assert_eq!(found, Ok(vec![3]), "{shards}: {first} to {last}");
        }
        assert_eq!(found(&mut wire, &element(60, 99)), Ok(vec![]));
        let (records, code) = wire.ask_many(&query());
        assert_eq!((records.len(), code), (5 + shards, 0));
        assert_eq!(set.len(), 5);
    }
}

#[test]
fn an_operation_in_the_background_meets_roots_that_store_keys_of_a_client() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let set = running.store.set("demo").unwrap();
    let elements = [IndexComponent::bin("l").elements()];
    let index = IndexDefinition::new("l", elements);
    set.create_index(index).unwrap();
    let policy = WritePolicy::default().send_key(false);
    // An object of Java, and the key of another digest.
    for (key, stored) in [(3, b"\x07object"), (4, b"\x03object")] {
        let list = ShardedList::new_with(&running.store, "demo", key, "l", &policy).unwrap();
        assert!((0..60_i64).all(|element| list.add(element).unwrap()));
        list.shards().activate(4).unwrap();
        let keyed = Message::put(key, "i", 1).field(2, stored);
        assert_eq!(wire.ask(&keyed).code, 0);
    }
    let seen = [operations::put("seen", true)];
    let query = set.query("l").unwrap().eq(7);
    let operated = query.operate(&BackgroundPolicy::default(), seen);
    let done = operated.unwrap().wait().unwrap();
    assert_eq!((done.written, done.passed_over), (2, 0), "{done:?}");
}
