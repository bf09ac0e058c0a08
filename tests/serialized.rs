//! Records and counters as JSON, by serde.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use serde::{Deserialize, Serialize};
use serde_json::json;
use spikelet::operations::hll::{self, HllPolicy};
use spikelet::query::{IndexComponent, IndexDefinition, IndexType};
use spikelet::value::List;
use spikelet::{Error, Key, ListOrder, Store, Value, bins};

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

/// Some bins of a user.
#[derive(Debug, Serialize, Deserialize)]
struct Contact {
    mail: Option<String>,
    phone: Option<u64>,
    calls: u64,
}

#[test]
fn an_update_as_a_struct_keeps_other_bins_and_removes_fields_that_are_none() {
    let set = Store::in_memory().unwrap().set("users").unwrap();
    set.put(
        "alice",
        bins! { "age" => 42, "phone" => 5551, "calls" => 1 },
    )
    .unwrap();
    let before = set.update_as("alice", |contact: &mut Contact| {
        let before = contact.phone.take();
        assert_eq!(contact.mail.replace("a@example.org".into()), None);
        contact.calls += 1;
        Ok(before)
    });
    assert_eq!(before.unwrap(), Some(Some(5551)));
    let alice = set.get("alice").unwrap().unwrap();
    let expected = bins! { "age" => 42, "calls" => 2, "mail" => "a@example.org" };
    assert_eq!(alice.into_bins().unwrap(), expected.try_into().unwrap());
}

#[test]
fn an_update_as_a_struct_writes_nothing_where_it_is_refused() {
    let set = Store::in_memory().unwrap().set("users").unwrap();
    let add_call = |contact: &mut Contact| {
        contact.calls += 1;
        Ok(())
    };
    assert_eq!(set.update_as("alice", add_call).unwrap(), None);
    assert!(!set.exists("alice").unwrap());
    set.put("alice", [("calls", "none")]).unwrap();
    let refused = set.update_as("alice", add_call);
    assert!(matches!(refused, Err(Error::Serde(_))), "{refused:?}");
    set.put("alice", [("calls", 1)]).unwrap();
    let failed = set.update_as("alice", |contact: &mut Contact| {
        contact.calls += 1;
        Err::<(), _>(Error::NotFound { record: None })
    });
    assert!(matches!(failed, Err(Error::NotFound { .. })), "{failed:?}");
    let alice = set.get("alice").unwrap().unwrap();
    assert_eq!(
        (alice.get("calls"), alice.generation()),
        (Some(1.into()), 2)
    );
}

#[derive(Serialize, Deserialize)]
struct Shop {
    name: String,
    place: String,
    days: Vec<i64>,
    visitors: Value,
    rating: f32,
    #[serde(default)]
    visits: i64,
}

#[test]
fn an_update_as_a_struct_may_mend_a_default_that_cannot_be_stored() {
    #[derive(Serialize, Deserialize)]
    struct Limited {
        #[serde(default = "unlimited")]
        limit: u64,
    }
    const fn unlimited() -> u64 {
        u64::MAX
    }
    let set = Store::in_memory().unwrap().set("shops").unwrap();
    set.put("bakery", [("name", "Brot")]).unwrap();
    let edited = set.update_as("bakery", |limited: &mut Limited| {
        limited.limit = 5;
        Ok(())
    });
    assert_eq!(edited.unwrap(), Some(()));
    let bakery = set.get("bakery").unwrap().unwrap();
    assert_eq!(bakery.get("limit"), Some(5.into()));
}

/// A field has one form, and several types of bins are read as it.
#[test]
fn an_update_as_a_struct_keeps_the_types_of_bins_that_it_does_not_change() {
    let set = Store::in_memory().unwrap().set("shops").unwrap();
    let place = IndexComponent::bin("place").of_type(IndexType::GeoJson);
    set.create_index(IndexDefinition::new("by_place", [place]))
        .unwrap();
    let point = r#"{"type":"Point","coordinates":[13.4,52.5]}"#;
    let circle = r#"{"type":"AeroCircle","coordinates":[[13.4,52.5],1000]}"#;
    let days = List::new(vec![1.into(), 2.into()], ListOrder::Ordered);
    set.put(
        "bakery",
        bins! { "name" => "Brot", "place" => Value::GeoJson(point.into()), "days" => days, "rating" => 0.1 },
    )
    .unwrap();
    let add = hll::add_with_index_bits(&HllPolicy::default(), "visitors", vec!["ada".into()], 8);
    set.operate("bakery", &[add]).unwrap();
    let before = set.get("bakery").unwrap().unwrap().into_bins().unwrap();
    set.update_as("bakery", |shop: &mut Shop| {
        shop.name = "Kuchen".into();
        Ok(())
    })
    .unwrap();
    let mut expected = before;
    expected.set("name", "Kuchen").unwrap();
    // A field that the record did not have.
    expected.set("visits", 0).unwrap();
    let bakery = set.get("bakery").unwrap().unwrap().into_bins().unwrap();
    assert_eq!(bakery, expected);
    let within = set.query("by_place").unwrap().within(circle);
    assert_eq!(within.count().unwrap(), 1);
}
