//! Modules of functions as records of the store.

use std::time::Duration;

use spikelet::record::KeyHash;
use spikelet::server::Server;
use spikelet::{NamespaceConfig, Store};

use crate::functions::*;
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
