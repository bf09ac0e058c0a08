//! Stores to backups and back: everything that a record is comes back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use spikelet_storage::{Digest, ManualClock, PARTITIONS};

use super::{BackupOptions, Blobs, Restore, RestoreOptions, save};
use crate::hll::HllPolicy;
use crate::record::KeyHash;
use crate::value::testing::any_value;
use crate::{Expiration, Key, Namespace, NamespaceConfig, Store, Value, WritePolicy, operations};

const POINT: &str = r#"{"type":"Point","coordinates":[15.4,47.1]}"#;

fn store(hash: KeyHash, clock: &Arc<ManualClock>) -> Store {
    let mut config = NamespaceConfig::new("test");
    config.key_hash = hash;
    config.background = false;
    let clock = Arc::clone(clock);
    Store::builder()
        .namespace(config)
        .clock(clock)
        .open()
        .unwrap()
}

/// Set, stored key, generation, void time and body of every record.
type Content = BTreeMap<Digest, (String, Option<Vec<u8>>, u16, u32, Vec<u8>)>;

fn content(namespace: &Namespace) -> Content {
    let sets = namespace.sets();
    let mut content = Content::new();
    for partition in 0..PARTITIONS {
        for digest in namespace.digests_in(partition, None, None, |damage| panic!("{damage}")) {
            let read = namespace.read_to_save(&digest, |set, version| {
                let record = (
                    sets[usize::from(set)].name.clone(),
                    version.key.map(<[u8]>::to_vec),
                    version.generation,
                    version.void_time,
                    version.bins.as_bytes().to_vec(),
                );
                content.insert(digest, record);
                Ok(())
            });
            read.unwrap().unwrap();
        }
    }
    content
}

fn restore(path: &Path, options: RestoreOptions, store: &Store) -> super::RestoreSummary {
    let restore = Restore::prepare(path, options, &mut |_, _| {}).unwrap();
    assert_eq!(restore.damage().len(), 0, "{:?}", restore.damage());
    restore.run(store, &mut |_, _| {}).unwrap()
}

#[derive(Clone, Debug)]
struct Written {
    set: &'static str,
    key: Key<'static>,
    send_key: bool,
    times: u8,
    live_s: Option<u64>,
    bins: Vec<(&'static str, Value)>,
}

/// A value that a whole bin may hold.
fn bin_value() -> impl Strategy<Value = Value> {
    let float = any::<u64>().prop_map(f64::from_bits);
    let text = prop_oneof![".{0,20}", "[ \\n\\\\]{0,5}"];
    prop_oneof![
        any_value().prop_map(|value| match value {
            Value::Nil => Value::Bool(true),
            Value::GeoJson(_) => Value::GeoJson(POINT.to_owned()),
            Value::Hll(_) => sketch(),
            other => other,
        }),
        float
            .prop_filter("a NaN loses its payload", |value| !value.is_nan())
            .prop_map(Value::Float),
        any::<i64>().prop_map(Value::Int),
        text.prop_map(Value::String),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Blob),
    ]
}

fn sketch() -> Value {
    let set = Store::in_memory().unwrap().set("").unwrap();
    let add = operations::hll::add_with_min_hash(
        &HllPolicy::default(),
        "h",
        vec!["a".into(), 7.into()],
        6,
        4,
    );
    set.operate("k", &[add]).unwrap();
    set.get("k").unwrap().unwrap().get("h").unwrap()
}

fn written() -> impl Strategy<Value = Written> {
    let key = prop_oneof![
        any::<i64>().prop_map(Key::from),
        "[a \\n\\\\ö]{0,6}".prop_map(Key::from),
        prop::collection::vec(any::<u8>(), 0..6).prop_map(Key::from),
    ];
    let name = prop::sample::select(vec!["a", "", "b c", "\\", "l\nf", "fifteen bytes.."]);
    let bins = prop::collection::vec((name, bin_value()), 1..5);
    let set = prop::sample::select(vec!["", "users", "with space", "a\\b\nc"]);
    let live_s = prop::option::of(1..1000_u64);
    (set, key, any::<bool>(), 1..4_u8, live_s, bins).prop_map(
        |(set, key, send_key, times, live_s, bins)| Written {
            set,
            key,
            send_key,
            times,
            live_s,
            bins,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_record_comes_back_as_it_was(
        records in prop::collection::vec(written(), 0..12),
        ripemd in any::<bool>(),
        raw in any::<bool>(),
        file_bytes in prop::sample::select(vec![1_u64, 300, 1 << 20]),
        as_dir in any::<bool>(),
    ) {
        let hash = if ripemd { KeyHash::Ripemd160 } else { KeyHash::Xxh3 };
        let clock = Arc::new(ManualClock::at(500_000_000_000));
        let from = store(hash, &clock);
        for record in &records {
            let expiration = record.live_s.map_or(Expiration::Never, |live| {
                Expiration::After(Duration::from_secs(live))
            });
            let policy = WritePolicy::default()
                .send_key(record.send_key)
                .expiration(expiration);
            for _ in 0..record.times {
                let set = from.set(record.set).unwrap();
                set.put_with(&policy, &record.key, record.bins.clone()).unwrap();
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join(if as_dir { "backup" } else { "backup.asb" });
        let blobs = if raw { Blobs::Raw } else { Blobs::Base64 };
        let options = BackupOptions { blobs, file_bytes, ..BackupOptions::default() };
        let saved = save(&from, &out, &options, &mut |_| {}).unwrap();
        let before = content(&from.namespace("test").unwrap());
        prop_assert_eq!((saved.records, saved.damaged), (before.len() as u64, 0));

        let into = store(hash, &clock);
        // Records without key keep the digest of a namespace of the same kind.
        let options = RestoreOptions { trust_digests: true, ..RestoreOptions::default() };
        let restored = restore(&out, options.clone(), &into);
        prop_assert_eq!((restored.records, restored.restored), (saved.records, saved.records));
        prop_assert_eq!(content(&into.namespace("test").unwrap()), before);
        let again = restore(&out, options, &into);
        prop_assert_eq!((again.restored, again.fresher), (0, saved.records));
    }
}

#[cfg(feature = "cluster")]
#[test]
fn names_that_end_a_parameter_of_a_command_stand_for_no_index_of_a_cluster() {
    use crate::query::{IndexComponent, IndexDefinition, IndexType};
    let made = |name: &str, set: &str, bin: &str| {
        let component = IndexComponent::bin(bin).of_type(IndexType::Integer);
        super::SavedIndex::new("test", Some(set), IndexDefinition::new(name, [component]))
            .parameters()
    };
    assert_eq!(
        made("by_n", "demo", "n").as_deref(),
        Some("indexname=by_n;set=demo;bin=n;type=numeric")
    );
    for name in ["a;set=other", "a\ntruncate-namespace:namespace=test"] {
        assert_eq!(made(name, "demo", "n"), None);
        assert_eq!(made("by_n", name, "n"), None);
        assert_eq!(made("by_n", "demo", name), None);
    }
}
