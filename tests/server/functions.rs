//! User-defined functions of records and of streams; their sandbox.

use spikelet::Value;

use crate::server_client::*;

pub(super) const UDF: u8 = 100;

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |chunk: &[u8]| {
        let bits = chunk
            .iter()
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        let digit = |at: usize| char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]);
        let of = |at| if at <= chunk.len() { digit(at) } else { '=' };
        [of(0), of(1), of(2), of(3)]
    };
    bytes.chunks(3).flat_map(digits).collect()
}

pub(super) fn register(wire: &mut Wire, file: &str, text: &str) -> String {
    let content = base64(text.as_bytes());
    let command = format!(
        "udf-put:filename={file};content={content};content-len={};udf-type=LUA",
        content.len()
    );
    wire.info(&command).remove(0)
}

/// Arguments as MessagePack: small integers and short text.
fn arguments(values: &[Value]) -> Vec<u8> {
    let mut out = vec![0x90 + values.len() as u8];
    for value in values {
        match value {
            Value::Int(number) => out.push(u8::try_from(*number).unwrap()),
            Value::String(text) => {
                out.extend([0xa0 + 1 + text.len() as u8, 3]);
                out.extend(text.as_bytes());
            }
            _ => unreachable!(),
        }
    }
    out
}

pub(super) fn with_call(message: Message, function: &str, values: &[Value]) -> Message {
    let (module, function) = function.split_once('.').unwrap();
    message
        .field(30, module.as_bytes())
        .field(31, function.as_bytes())
        .field(32, &arguments(values))
}

pub(super) fn call(key: i64, function: &str, values: &[Value]) -> Message {
    with_call(Message::about(0, WRITE, 0, key), function, values)
}

/// The bin of an answer, `SUCCESS` or `FAILURE`.
pub(super) fn told<'a>(answer: &'a Answer, name: &str) -> &'a Op {
    let [op] = &answer.ops[..] else {
        panic!("{answer:?}")
    };
    assert_eq!(op.name, name, "{answer:?}");
    op
}

pub(super) fn failure(answer: &Answer) -> String {
    assert_eq!(answer.code, UDF, "{answer:?}");
    String::from_utf8(told(answer, "FAILURE").value.clone()).unwrap()
}

pub(super) fn served(text: &str) -> (Running, Wire) {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    assert_eq!(register(&mut wire, "m.lua", text), "ok");
    (running, wire)
}

#[test]
fn a_function_creates_changes_and_removes_its_record() {
    let (running, mut wire) = served(
        "function add(rec, bin, n)
           rec[bin] = (rec[bin] or 0) + n
           if aerospike:exists(rec) then aerospike:update(rec) else aerospike:create(rec) end
           return rec[bin]
         end
         function drop(rec, bin) rec[bin] = nil return aerospike:update(rec) end
         function gone(rec) return aerospike:remove(rec) end
         function forgets(rec) rec.i = 99 end
         function again(rec) aerospike:remove(rec) rec.other = 'new' return aerospike:create(rec) end
         function facts(rec) return list{record.gen(rec), record.numbins(rec), record.setname(rec)} end",
    );
    let demo = running
        .store
        .namespace("test")
        .unwrap()
        .set("demo")
        .unwrap();
    let bin = |n: i64| [Value::from("i"), n.into()];
    let answer = wire.ask(&call(1, "m.add", &bin(5)));
    assert_eq!(
        (answer.code, answer.generation, answer.int("SUCCESS")),
        (0, 1, 5)
    );
    let answer = wire.ask(&call(1, "m.add", &bin(2)));
    assert_eq!((answer.generation, answer.int("SUCCESS")), (2, 7));
    assert_eq!(demo.get(1).unwrap().unwrap().get("i"), Some(7.into()));
    // Set, but not updated.
    assert_eq!(
        told(&wire.ask(&call(1, "m.forgets", &[])), "SUCCESS").kind,
        0
    );
    assert_eq!(demo.get(1).unwrap().unwrap().get("i"), Some(7.into()));
    let answer = wire.ask(&call(1, "m.facts", &[]));
    assert_eq!(told(&answer, "SUCCESS").value, b"\x93\x02\x01\xa5\x03demo");
    assert_eq!(wire.ask(&call(1, "m.again", &[])).code, 0);
    let record = demo.get(1).unwrap().unwrap();
    assert_eq!(
        (record.get("i"), record.get("other")),
        (None, Some("new".into()))
    );
    assert_eq!(wire.ask(&call(1, "m.gone", &[])).int("SUCCESS"), 0);
    assert!(demo.get(1).unwrap().is_none());
    assert_eq!(wire.ask(&call(1, "m.gone", &[])).int("SUCCESS"), 1);
    // A record that is left without bins is gone.
    wire.ask(&call(2, "m.add", &bin(1)));
    assert_eq!(wire.ask(&call(2, "m.drop", &["i".into()])).code, 0);
    assert!(demo.get(2).unwrap().is_none());
}

#[test]
fn values_of_all_types_come_and_go() {
    let (running, mut wire) = served(
        "function copy(rec)
           for _, name in ipairs(record.bin_names(rec)) do rec[name .. '2'] = rec[name] end
           aerospike:update(rec)
         end
         function collections(rec)
           local l = rec.l
           list.append(l, nil) list.prepend(l, 'first') list.insert(l, 2, 7)
           l[1] = l[1] .. '!' list.remove(l, 3)
           local m = map{a = 1}
           m[5] = l m['gone'] = 1 map.remove(m, 'gone')
           local b = bytes(4)
           bytes.append_int16(b, 258) bytes.append_string(b, 'xy') b[1] = 9
           m.b = b
           rec.m = m
           aerospike:update(rec)
           return tostring(l) .. #l .. map.size(m) .. bytes.size(b) .. type(l)
         end
         function shares(rec)
           local l = rec.l
           rec.l = l
           aerospike:update(rec)
           list.append(l, 'later')
         end",
    );
    let demo = running
        .store
        .namespace("test")
        .unwrap()
        .set("demo")
        .unwrap();
    let values: [(&str, Value); 8] = [
        ("i", i64::MIN.into()),
        ("f", 2.0.into()),
        ("s", "text".into()),
        ("t", true.into()),
        ("b", Value::Blob(vec![0, 255])),
        (
            "g",
            Value::GeoJson(r#"{"type":"Point","coordinates":[1.0,2.0]}"#.into()),
        ),
        ("l", Value::from(vec![Value::Nil, 1.into()])),
        (
            "m",
            Value::from(
                vec![("a", vec![1, 2]), ("b", vec![])]
                    .into_iter()
                    .collect::<std::collections::BTreeMap<_, _>>(),
            ),
        ),
    ];
    demo.put(1, values.clone()).unwrap();
    assert_eq!(wire.ask(&call(1, "m.copy", &[])).code, 0);
    let record = demo.get(1).unwrap().unwrap();
    for (name, value) in &values {
        assert_eq!(
            record.get(&format!("{name}2")).as_ref(),
            Some(value),
            "{name}"
        );
    }
    demo.put(2, [("l", Value::from(vec![1, 2]))]).unwrap();
    let answer = wire.ask(&call(2, "m.collections", &[]));
    let text = String::from_utf8(told(&answer, "SUCCESS").value.clone()).unwrap();
    assert_eq!(text, "List(\"first!\", 7, 2, nil)434userdata");
    let stored = demo.get(2).unwrap().unwrap().get("m").unwrap();
    let expected = vec!["first!".into(), 7.into(), 2.into(), Value::Nil];
    let stored = stored.as_map().unwrap();
    assert_eq!(stored.get(&5.into()), Some(&Value::from(expected)));
    assert_eq!(
        stored.get(&"b".into()),
        Some(&Value::Blob(vec![9, 2, b'x', b'y']))
    );
    // A list that changes after the update is stored as it was.
    assert_eq!(wire.ask(&call(2, "m.shares", &[])).code, 0);
    assert_eq!(
        demo.get(2).unwrap().unwrap().get("l"),
        Some(Value::from(vec![1, 2]))
    );
}

#[test]
fn arguments_may_hold_what_no_record_may() {
    let (_running, mut wire) = served(
        "function put(rec, value)
           rec.v = value
           if aerospike:exists(rec) then aerospike:update(rec) else rec.i = 1 aerospike:create(rec) end
           return rec.v
         end
         function count(rec, m)
           local seen = 0
           for key in map.pairs(m) do seen = seen + 1 end
           return list{m, seen, map.size(m)}
         end",
    );
    let with = |function: &str, arguments: &[u8]| {
        Message::about(0, WRITE, 0, 1)
            .field(30, b"m")
            .field(31, function.as_bytes())
            .field(32, arguments)
    };
    // Nil, wildcard, infinity: the bin goes.
    for value in [
        &[0x91, 0xc0][..],
        &[0x91, 0xd4, 0xff, 0],
        &[0x91, 0xd4, 0xff, 1],
    ] {
        wire.ask(&with("put", &[0x91, 5]));
        let answer = wire.ask(&with("put", value));
        assert_eq!(
            (answer.code, told(&answer, "SUCCESS").kind),
            (0, 0),
            "{value:?}"
        );
        assert_eq!(wire.ask(&Message::get(1)).ops.len(), 1, "{value:?}");
    }
    // A map with the key nil comes back as it went. A loop passes over that key.
    let answer = wire.ask(&with("count", &[0x91, 0x82, 0xc0, 7, 1, 8]));
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(
        told(&answer, "SUCCESS").value,
        [0x93, 0x82, 0xc0, 7, 1, 8, 1, 2]
    );
    // No record holds it.
    assert_ne!(wire.ask(&with("put", &[0x91, 0x81, 0xc0, 7])).code, 0);
    assert!(wire.is_alive());
}

#[test]
fn a_name_that_no_bin_can_have_fails_the_update_and_not_the_call() {
    let (_running, mut wire) = served(
        "function bad(rec, known)
           rec.i = 1
           if not known then rec.name_of_16_bytes = 2 end
           local first = aerospike:create(rec)
           rec.i = 3
           rec.another_long_name = 4
           local second = aerospike:update(rec)
           rec.i = 5
           return list{first, second, aerospike:update(rec)}
         end",
    );
    let refused = wire.ask(&call(1, "m.bad", &[]));
    assert_eq!(told(&refused, "SUCCESS").value, b"\x93\xff\xfe\xfe");
    assert_eq!(wire.ask(&Message::get(1)).code, 2);
    let done = wire.ask(&call(1, "m.bad", &[Value::Int(1)]));
    assert_eq!(told(&done, "SUCCESS").value, b"\x93\x00\xff\x00");
    assert_eq!(wire.ask(&Message::get(1)).int("i"), 5);
}

#[test]
fn a_function_that_fails_says_where_and_changes_nothing() {
    let (running, mut wire) = served(
        "function fails(rec)
           rec.i = 2
           aerospike:update(rec)
           error('no more')
         end
         function plain(rec) rec.i = {1, 2} aerospike:update(rec) end
         function deep(rec)
           local l = list() list.append(l, l) list.append(l, l)
           return l
         end
         local function hidden(rec) return 1 end",
    );
    let demo = running
        .store
        .namespace("test")
        .unwrap()
        .set("demo")
        .unwrap();
    demo.put(1, [("i", 1)]).unwrap();
    let mut text = |function: &str| failure(&wire.ask(&call(1, function, &[])));
    assert_eq!(text("m.fails"), "m.lua:4: no more");
    assert!(
        text("m.plain").contains("can't set bin i: unsupported type"),
        "{}",
        text("m.plain")
    );
    assert!(text("m.deep").contains("levels"));
    assert_eq!(text("m.hidden"), "function not found");
    assert_eq!(text("m.error"), "function not found");
    assert_eq!(text("absent.f"), "module 'absent.lua' is not registered");
    let record = demo.get(1).unwrap().unwrap();
    assert_eq!((record.get("i"), record.generation()), (Some(1.into()), 1));
    let refused = register(&mut wire, "bad.lua", "function f(\n\n 1)");
    assert!(
        refused.starts_with("error=compile_error;file=bad.lua;line=3;message="),
        "{refused}"
    );
    assert_eq!(wire.info("udf-get:filename=bad.lua"), ["error=not_found"]);
}

#[test]
fn a_function_reaches_nothing_outside() {
    let (_running, mut wire) = served(
        "function names(rec)
           local found = list()
           for _, name in ipairs{'io', 'package', 'load', 'loadstring', 'loadfile', 'dofile', 'coroutine', 'collectgarbage'} do
             if _G[name] ~= nil then list.append(found, name) end
           end
           for name in pairs(os) do
             if not ({clock = 1, date = 1, difftime = 1, time = 1})[name] then list.append(found, 'os.' .. name) end
           end
           if string.dump then list.append(found, 'string.dump') end
           if type(debug) ~= 'function' then list.append(found, 'debug') end
           return tostring(found)
         end
         function other(rec) return require('lib').twice(21) end",
    );
    let answer = wire.ask(&call(1, "m.names", &[]));
    assert_eq!(told(&answer, "SUCCESS").value, b"List()");
    let text = failure(&wire.ask(&call(1, "m.other", &[])));
    assert_eq!(text, "module 'lib.lua' is not registered");
    register(
        &mut wire,
        "lib.lua",
        "return { twice = function(n) return 2 * n end }",
    );
    assert_eq!(wire.ask(&call(1, "m.other", &[])).int("SUCCESS"), 42);
}

#[test]
fn functions_and_writers_of_the_process_lose_no_change_of_each_other() {
    const EACH: i64 = 200;
    let (running, _) = served(
        "function add(rec) rec.i = (rec.i or 0) + 1
           if aerospike:exists(rec) then aerospike:update(rec) else aerospike:create(rec) end end",
    );
    let demo = running
        .store
        .namespace("test")
        .unwrap()
        .set("demo")
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut wire = Wire::to(running.handle.addr());
                let message = Message {
                    timeout_ms: 60_000,
                    ..call(1, "m.add", &[])
                };
                for _ in 0..EACH {
                    let answer = wire.ask(&message);
                    assert_eq!(answer.code, 0, "{answer:?}");
                }
            });
        }
        for _ in 0..EACH {
            demo.add(1, [("i", 1)]).unwrap();
        }
    });
    assert_eq!(
        demo.get(1).unwrap().unwrap().get("i"),
        Some((5 * EACH).into())
    );
}

#[test]
fn rows_of_a_batch_call_functions() {
    let (running, mut wire) =
        served("function add(rec, n) rec.i = rec.i + n aerospike:update(rec) return rec.i end");
    let demo = running
        .store
        .namespace("test")
        .unwrap()
        .set("demo")
        .unwrap();
    demo.put(1, [("i", 1)]).unwrap();
    demo.put(3, [("i", 3)]).unwrap();
    let rows: Vec<_> = (1..=3)
        .map(|key| (digest(key), with_call(row(0, WRITE), "m.add", &[10.into()])))
        .collect();
    // All rows, in spite of failures.
    let (rows, code) = wire.ask_many(&batch(0x04, &rows));
    let codes: Vec<_> = rows.iter().map(|row| (row.row, row.code)).collect();
    assert_eq!((codes, code), (vec![(0, 0), (1, UDF), (2, 0)], 0));
    assert_eq!((rows[0].int("SUCCESS"), rows[2].int("SUCCESS")), (11, 13));
    assert!(failure(&rows[1]).contains("arithmetic"), "{:?}", rows[1]);
}

#[test]
fn a_stream_filters_maps_aggregates_and_reduces() {
    let (running, mut wire) = served(
        "local function one() return 1 end
         local function add(a, b) return a + b end
         function count(s) return s : map(one) : reduce(add) : map(function(n) return -n end) end
         function large(s, least)
           return s : filter(function(rec) return rec.i >= least end) : map(function(rec) return rec.i end)
         end
         function sums(s)
           return s : aggregate(map(), function(m, rec) m[rec.i % 2] = (m[rec.i % 2] or 0) + rec.i return m end)
                    : reduce(function(a, b) return map.merge(a, b, add) end)
         end
         function groups(s) return s : groupby(function(rec) return rec.i % 2 end) end
         function fails(s) return s : map(function(rec) return rec.i + nil end) end
         function clocks(s)
           local begun, clock = aerospike:get_current_time(), function() return aerospike:get_current_time() end
           return s : filter(function() return false end) : aggregate(list{begun}, clock) : map(function(l) list.append(l, clock()) return l end)
         end",
    );
    let demo = running
        .store
        .namespace("test")
        .unwrap()
        .set("demo")
        .unwrap();
    let stream =
        |function: &str, values: &[Value]| with_call(query(), function, values).field(33, &[1]);
    // Without a record a reduction has no result, and an aggregation has its first value.
    demo.put(100, [("i", 1)]).unwrap();
    demo.delete(100).unwrap();
    assert_eq!(wire.ask_many(&stream("m.count", &[])), (vec![], 0));
    for key in 0..100 {
        demo.put(key, [("i", key)]).unwrap();
    }
    let (rows, code) = wire.ask_many(&stream("m.count", &[]));
    assert_eq!((rows[0].int("SUCCESS"), rows.len(), code), (100, 1, 0));
    let (rows, _) = wire.ask_many(&stream("m.large", &[98.into()]));
    let mut large: Vec<_> = rows.iter().map(|row| row.int("SUCCESS")).collect();
    large.sort_unstable();
    assert_eq!(large, [98, 99]);
    let (rows, _) = wire.ask_many(&stream("m.sums", &[]));
    assert_eq!(
        told(&rows[0], "SUCCESS").value,
        b"\x82\x00\xcd\x09\x92\x01\xcd\x09\xc4"
    );
    // The clock goes at the beginning and at the end, too: two numbers of 8 bytes.
    let (rows, _) = wire.ask_many(&stream("m.clocks", &[]));
    assert_eq!(told(&rows[0], "SUCCESS").value.len(), 1 + 2 * 9);
    // A set that was never written is missed before an index.
    let bound = |value: i64| [&8_u32.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let range = [&[1, 1, b'i', 1][..], &bound(4), &bound(7)].concat();
    let mut nowhere = stream("m.count", &[]).field(22, &range);
    assert_eq!(wire.ask(&nowhere).code, 201);
    nowhere.fields[1].1 = b"nowhere".to_vec();
    assert_eq!(wire.ask(&nowhere).code, 2);
    let (rows, code) = wire.ask_many(&stream("m.fails", &[]));
    let text = told(&rows[0], "FAILURE");
    assert!(
        String::from_utf8_lossy(&text.value).contains("m.lua:12: attempt to perform arithmetic"),
        "{rows:?}"
    );
    assert_eq!(code, 1);
    assert!(wire.is_alive());
}

#[test]
fn a_call_whose_time_ends_while_it_waits_for_its_record_is_not_made() {
    let (running, mut wire) = served("function reads(rec) return 1 end");
    let demo = running.store.set("demo").unwrap();
    demo.put(1, [("i", 1)]).unwrap();
    let impatient = Message {
        timeout_ms: 20,
        ..call(1, "m.reads", &[])
    };
    crate::waits::with_record_locked(&running.store, || {
        let answer = wire.ask(&impatient);
        assert_eq!((answer.code, answer.ops.len()), (9, 0));
    });
    assert_eq!(wire.ask(&call(1, "m.reads", &[])).code, 0);
}
