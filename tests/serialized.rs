//! Records and counters as JSON, by serde.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use serde_json::json;
use spikelet::{Key, Store, bins};

#[test]
fn a_record_is_its_key_its_metadata_and_its_bins() {
    let set = Store::in_memory().unwrap().set("users").unwrap();
    set.put(
        "alice",
        bins! { "name" => "Alice", "age" => 42, "tags" => ["a", "b"], "visits" => [("home", 3)] },
    )
    .unwrap();
    let alice = set.get("alice").unwrap().unwrap();
    let json = serde_json::to_value(&alice).unwrap();
    assert_eq!(json["key"], json!("alice"));
    assert_eq!(json["generation"], json!(1));
    assert_eq!(json["void_time"], json!(0));
    assert_eq!(
        json["last_update_ms"],
        json!(alice.metadata().last_update_ms)
    );
    let bins = json!({ "name": "Alice", "age": 42, "tags": ["a", "b"], "visits": { "home": 3 } });
    assert_eq!(json["bins"], bins);
}

#[test]
fn keys_are_what_they_hold() {
    for (key, json) in [
        (Key::from(7), json!(7)),
        (Key::from("a"), json!("a")),
        (Key::from(b"a"), json!([97])),
    ] {
        assert_eq!(serde_json::to_value(&key).unwrap(), json);
    }
}

#[test]
fn counters_and_usage_are_named_by_their_fields() {
    let store = Store::in_memory().unwrap();
    let set = store.set("users").unwrap();
    set.put("alice", [("age", 42)]).unwrap();
    let namespace = store.namespace("test").unwrap();
    let stats = serde_json::to_value(namespace.stats()).unwrap();
    assert_eq!(stats["records"], json!(1));
    assert_eq!(stats["read_only"], json!(null));
    assert!(stats["traffic"]["requested_bytes"].as_u64().unwrap() > 0);
    let sets = serde_json::to_value(namespace.sets()).unwrap();
    assert_eq!(sets[1]["name"], json!("users"));
    let report = serde_json::to_value(namespace.maintain().unwrap()).unwrap();
    assert_eq!(report["expired"], json!(0));
}
