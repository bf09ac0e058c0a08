//! Modules of functions as records of the store.

use std::time::Duration;

use spikelet::record::KeyHash;
use spikelet::server::Server;
use spikelet::{NamespaceConfig, ShardedList, Store};

use crate::functions::*;
use crate::server_client::transaction::*;
use crate::server_client::*;

#[test]
fn modules_outlive_the_server_and_a_new_text_counts_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let mut config = NamespaceConfig::new("test");
        config.key_hash = KeyHash::Ripemd160;
        config.default_time_to_live = Some(Duration::from_secs(1_000));
        Store::builder()
            .path(dir.path())
            .namespace(config)
            .open()
            .unwrap()
    };
    {
        let store = open();
        let handle = Server::builder(&store).start().unwrap();
        let mut wire = Wire::to(handle.addr());
        register(&mut wire, "m.lua", "function f() return 1 end");
        register(&mut wire, "gone.lua", "function f() return 1 end");
        assert_eq!(wire.info("udf-remove:filename=gone.lua"), ["ok"]);
        assert_eq!(wire.ask(&call(1, "m.f", &[])).int("SUCCESS"), 1);
        register(&mut wire, "m.lua", "function f() return 2 end");
        assert_eq!(wire.ask(&call(1, "m.f", &[])).int("SUCCESS"), 2);
    }
    let store = open();
    let modules = store.set("<functions").unwrap();
    let module = modules.get("m.lua").unwrap().unwrap();
    assert_eq!(module.metadata().expires_at(), None);
    let handle = Server::builder(&store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    assert_eq!(wire.ask(&call(1, "m.f", &[])).int("SUCCESS"), 2);
    assert_eq!(
        failure(&wire.ask(&call(1, "gone.f", &[]))),
        "module 'gone.lua' is not registered"
    );
}

#[test]
fn the_stored_text_is_the_served_one_where_another_namespace_refuses_a_delete() {
    let store = namespaces().open().unwrap();
    let refuses = store.namespace("test").unwrap();
    for file in ["put.lua", "gone.lua"] {
        let list = ShardedList::new(&refuses, "<functions", file, "list").unwrap();
        list.add(1).unwrap();
        list.shards().activate(2).unwrap();
    }
    let restarted = || {
        let handle = Server::builder(&store).start().unwrap();
        let wire = Wire::to(handle.addr());
        (handle, wire)
    };
    let results = |wire: &mut Wire| {
        let answers = ["put.f", "gone.f"].map(|f| wire.ask(&call(1, f, &[])));
        answers.map(|answer| (answer.code == 0).then(|| answer.int("SUCCESS")))
    };
    let (handle, mut wire) = restarted();
    for result in 1..3 {
        for file in ["put.lua", "gone.lua"] {
            let text = format!("function f() return {result} end");
            assert_ne!(register(&mut wire, file, &text), "ok");
        }
    }
    assert_ne!(wire.info("udf-remove:filename=gone.lua"), ["ok"]);
    let before = results(&mut wire);
    assert_eq!(before, [Some(2), Some(2)]);
    handle.stop();
    let (_handle, mut wire) = restarted();
    assert_eq!(results(&mut wire), before);
}

#[test]
fn a_scan_of_all_sets_passes_over_modules() {
    let (running, mut wire) = served("function f(rec) return aerospike:remove(rec) end");
    let demo = running
        .store
        .namespace("test")
        .unwrap()
        .set("demo")
        .unwrap();
    demo.put(1, [("i", 1)]).unwrap();
    let all = |message: Message| {
        let mut message = message;
        message.fields.retain(|field| field.0 != 1);
        message
    };
    assert_eq!(wire.ask_many(&all(query())).0.len(), 1);
    let jobs = with_call(all(query()), "m.f", &[])
        .field(33, &[2])
        .field(7, &9_u64.to_be_bytes());
    assert_eq!(wire.ask_many(&jobs), (vec![], 0));
    until(|| wire.info("query-show:trid=9")[0].contains("status=done(ok)"));
    assert!(demo.get(1).unwrap().is_none());
    assert_eq!(wire.ask(&call(1, "m.f", &[])).int("SUCCESS"), 1);
    let shown = &wire.info("query-show:trid=9")[0];
    assert!(shown.contains("recs-succeeded=1:recs-failed=0"), "{shown}");
}

#[test]
fn a_module_knows_the_time_while_it_is_loaded() {
    let (running, mut wire) = served(
        "local loaded = aerospike:get_current_time()
         function since(rec) return loaded end",
    );
    let demo = running.store.set("demo").unwrap();
    demo.put(1, [("i", 1)]).unwrap();
    let written = demo.get(1).unwrap().unwrap();
    let loaded = wire.ask(&call(1, "m.since", &[])).int("SUCCESS") as u64;
    let age = loaded.checked_sub(written.metadata().last_update_ms);
    assert!(age.is_some_and(|age| age < 3_600_000), "{loaded}");
}

#[test]
fn a_function_in_a_transaction_sees_its_writes_and_is_committed_with_them() {
    let (_running, mut wire) = served(
        "function add(rec, n) rec.i = rec.i + n aerospike:update(rec) return rec.i end
         function look(rec) return rec.i end
         function make(rec, n) rec.i = n return aerospike:create(rec) end
         function drop(rec) return aerospike:remove(rec) end",
    );
    wire.ask(&Message::put(1, "i", 1));
    wire.ask(&Message::put(3, "i", 3));
    let mut txn = Txn::new(7);
    // One that changes nothing is a read: the commit looks at the record again.
    let looks = call(3, "m.look", &[]);
    assert_eq!(txn.write(&mut wire, 3, looks.clone()).int("SUCCESS"), 3);
    assert_eq!(txn.reads.len(), 1);
    let adds = call(1, "m.add", &[10.into()]);
    for sum in [11, 21] {
        assert_eq!(txn.write(&mut wire, 1, adds.clone()).int("SUCCESS"), sum);
    }
    assert_eq!(
        txn.write(&mut wire, 2, call(2, "m.make", &[5.into()])).code,
        0
    );
    assert_eq!(txn.get(&mut wire, 2).int("i"), 5);
    assert_eq!(txn.write(&mut wire, 3, call(3, "m.drop", &[])).code, 0);
    assert_eq!(txn.get(&mut wire, 3).code, 2);
    // Others see nothing of it, and do not call functions for its records.
    assert_eq!(wire.ask(&Message::get(1)).int("i"), 1);
    assert_eq!(wire.ask(&adds).code, BLOCKED);
    let other = Txn::new(8);
    assert_eq!(wire.ask(&other.inside(looks)).code, BLOCKED);
    assert_eq!(txn.commit(&mut wire), 0);
    let answer = wire.ask(&Message::get(1));
    assert_eq!((answer.int("i"), answer.generation), (21, 4));
    assert_eq!(wire.ask(&Message::get(2)).int("i"), 5);
    assert_eq!(wire.ask(&Message::get(3)).code, 2);
}

#[test]
fn a_function_in_a_transaction_is_undone_with_it_and_not_called_for_a_record_that_has_changed() {
    let (_running, mut wire) =
        served("function add(rec, n) rec.i = rec.i + n aerospike:update(rec) return rec.i end");
    wire.ask(&Message::put(1, "i", 1));
    wire.ask(&Message::put(2, "i", 2));
    let mut txn = Txn::new(7);
    let adds = |key| call(key, "m.add", &[10.into()]);
    assert_eq!(txn.get(&mut wire, 2).int("i"), 2);
    wire.ask(&Message::put(2, "i", 3));
    assert_eq!(txn.write(&mut wire, 2, adds(2)).code, MISMATCH);
    assert_eq!(txn.write(&mut wire, 1, adds(1)).int("SUCCESS"), 11);
    txn.abort(&mut wire);
    assert_eq!(wire.ask(&Message::get(1)).int("i"), 1);
    assert_eq!(wire.ask(&adds(1)).int("SUCCESS"), 11);
}

#[test]
fn a_function_called_by_a_digest_alone_does_not_change_a_module() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    register(
        &mut wire,
        "m.lua",
        "function gone(rec) return aerospike:remove(rec) end",
    );
    let module = KeyHash::Ripemd160.digest("<functions", &"m.lua".into());
    let mut called = call(1, "m.gone", &[]);
    // The first namespace has the modules.
    let modules = running.store.namespaces().remove(0);
    called.fields[0].1 = modules.name().as_bytes().to_vec();
    called.fields[2].1 = module.as_bytes().to_vec();
    called.fields.remove(1);
    assert_eq!(wire.ask(&called).code, 22);
    let modules = modules.set("<functions").unwrap();
    assert!(modules.exists("m.lua").unwrap());
}

#[test]
fn servers_of_one_store_have_the_same_modules() {
    let store = namespaces().open().unwrap();
    let start = || Server::builder(&store).start().unwrap();
    let servers = [start(), start()];
    let mut wires = servers.each_ref().map(|handle| Wire::to(handle.addr()));
    register(&mut wires[0], "a.lua", "function f() return 1 end");
    register(&mut wires[1], "b.lua", "function f() return 1 end");
    for wire in &mut wires {
        for module in ["a", "b"] {
            let answer = wire.ask(&call(1, &format!("{module}.f"), &[]));
            assert_eq!(answer.int("SUCCESS"), 1, "{module}");
        }
    }
    register(&mut wires[1], "a.lua", "function f() return 2 end");
    assert_eq!(wires[0].ask(&call(1, "a.f", &[])).int("SUCCESS"), 2);
}

#[test]
fn a_later_server_has_the_modules_of_a_namespace_opened_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let config = |name: &str| {
        let mut config = NamespaceConfig::new(name);
        config.key_hash = KeyHash::Ripemd160;
        config
    };
    let open = |names: &[&str]| {
        let builder = Store::builder().path(dir.path());
        let all = names.iter();
        all.fold(builder, |builder, name| builder.namespace(config(name)))
            .open()
            .unwrap()
    };
    let register_in = |store: &Store, file: &str, text: &str| {
        let handle = Server::builder(store).start().unwrap();
        register(&mut Wire::to(handle.addr()), file, text);
        handle
    };
    {
        let store = open(&["before"]);
        drop(register_in(&store, "m.lua", "function f() return 0 end"));
        drop(register_in(&store, "n.lua", "function f() return 7 end"));
    }
    {
        let store = open(&["test"]);
        let first = register_in(&store, "m.lua", "function f() return 1 end");
        store.create_namespace(config("before")).unwrap();
        let second = Server::builder(&store).start().unwrap();
        for handle in [second, first] {
            let mut wire = Wire::to(handle.addr());
            assert_eq!(wire.ask(&call(1, "m.f", &[])).int("SUCCESS"), 1);
            assert_eq!(wire.ask(&call(1, "n.f", &[])).int("SUCCESS"), 7);
        }
    }
    // The text that was served, and not one that a namespace before it had.
    let store = open(&["before", "test"]);
    let handle = Server::builder(&store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    assert_eq!(wire.ask(&call(1, "m.f", &[])).int("SUCCESS"), 1);
}
