//! User-defined functions in the background.

use std::time::Duration;

use spikelet::record::KeyHash;
use spikelet::server::Server;
use spikelet::{NamespaceConfig, Store};

use crate::functions::*;
use crate::server_client::*;

#[test]
fn a_function_is_called_for_all_records_in_the_background() {
    let (running, mut wire) = served(
        "function double(rec) if rec.i == 50 then error('fifty') end rec.i = rec.i * 2 aerospike:update(rec) end",
    );
    let demo = running
        .store
        .namespace("test")
        .unwrap()
        .set("demo")
        .unwrap();
    for key in 0..100 {
        demo.put(key, [("i", key)]).unwrap();
    }
    let job = with_call(query(), "m.double", &[])
        .field(33, &[2])
        .field(7, &9_u64.to_be_bytes());
    let (rows, code) = wire.ask_many(&job);
    assert_eq!((rows.len(), code), (0, 0));
    until(|| wire.info("query-show:trid=9")[0].contains("status=done(ok)"));
    let statistics = wire.info("namespace/test").remove(0);
    for (name, count) in [("write_success", 99), ("error", 1), ("read_success", 0)] {
        let expected = format!(";udf_sub_lang_{name}={count};");
        assert!(statistics.contains(&expected), "{expected}");
    }
    let shown = &wire.info("query-show:trid=9")[0];
    assert!(shown.contains("recs-succeeded=99:recs-failed=1"), "{shown}");
    assert!(shown.contains("job-type=background-udf"), "{shown}");
    for key in 0..100 {
        let expected = if key == 50 { 50 } else { 2 * key };
        assert_eq!(
            demo.get(key).unwrap().unwrap().get("i"),
            Some(expected.into()),
            "{key}"
        );
    }
}

#[test]
fn a_function_in_the_background_passes_over_a_record_deleted_while_it_waited() {
    let (running, mut wire) = served(
        "function f(rec) rec.n = 1 if aerospike:exists(rec) then aerospike:update(rec) else aerospike:create(rec) end end",
    );
    let demo = running.store.set("demo").unwrap();
    demo.put(1, [("i", 1)]).unwrap();
    let (go_on, paused) = std::sync::mpsc::channel::<()>();
    let (locks, locked) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let demo = &demo;
        scope.spawn(move || {
            let removed = demo.update(1, |bins| {
                locks.send(()).unwrap();
                paused.recv().unwrap();
                bins.remove("i");
                Ok(())
            });
            removed.unwrap();
        });
        locked.recv().unwrap();
        let job = with_call(query(), "m.f", &[])
            .field(33, &[2])
            .field(7, &9_u64.to_be_bytes());
        assert_eq!(wire.ask_many(&job).1, 0);
        until(|| demo.hot_record(1).is_some_and(|hot| hot.waits > 0));
        go_on.send(()).unwrap();
    });
    until(|| wire.info("query-show:trid=9")[0].contains("status=done"));
    assert!(demo.get(1).unwrap().is_none());
}

#[test]
fn a_function_in_the_background_waits_for_space_as_operations_do() {
    let mut config = NamespaceConfig::new("test").max_space_wait(Duration::from_secs(3_600));
    config.key_hash = KeyHash::Ripemd160;
    config.max_device_bytes = 64 << 20;
    let store = Store::builder().namespace(config).open().unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    let text = "function fills(rec) rec.b = string.rep('x', 102400) aerospike:update(rec) end";
    assert_eq!(register(&mut wire, "m.lua", text), "ok");
    let (set, others) = (store.set("demo").unwrap(), store.set("other").unwrap());
    for key in 0..100 {
        set.put(key, [("i", key)]).unwrap();
    }
    let payload = vec![7_u8; 100 << 10];
    let put = |key: i64| others.put(key, [("b", payload.as_slice())]);
    let count = (0..).find(|key| put(*key).is_err()).unwrap();
    let namespace = store.namespace("test").unwrap();
    let waits = namespace.stats().space_waits;
    // Deleted records give their space back when no reader can see them any more, and this one can.
    others
        .read(0, |_| {
            for key in 1..count / 2 {
                others.delete(key).unwrap();
            }
            let job = with_call(query(), "m.fills", &[])
                .field(33, &[2])
                .field(7, &9_u64.to_be_bytes());
            assert_eq!(wire.ask_many(&job).1, 0);
            let is_done =
                |wire: &mut Wire| wire.info("query-show:trid=9")[0].contains("status=done");
            until(|| namespace.stats().space_waits > waits || is_done(&mut wire));
        })
        .unwrap()
        .unwrap();
    until(|| wire.info("query-show:trid=9")[0].contains("status=done(ok)"));
    let shown = &wire.info("query-show:trid=9")[0];
    assert!(
        shown.contains("recs-succeeded=100:recs-failed=0"),
        "{shown}"
    );
}
