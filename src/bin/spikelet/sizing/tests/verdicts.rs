//! What decides about a set, and what is said to help.

use std::path::Path;

use spikelet::shard::ShardPolicy;
use spikelet::value::Map;
use spikelet::{MapOrder, NamespaceConfig, ShardedList, Store, Value};
use tempfile::TempDir;

use super::known::{filled, list};
use super::{options, set, sized};
use crate::sizing::{Band, Remedy};

#[test]
fn a_collection_is_judged_by_what_it_takes_and_not_by_the_mean_element_of_others() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let set = store.set("s").unwrap();
        // Lists of 26 KB with 1,733 small elements, and one with 20 large ones: a p99 count times
        // the mean element of all made half a megabyte of it.
        for n in 0..400_i64 {
            set.put(n, [("l", list(1_733, 15))]).unwrap();
        }
        for n in 400..404_i64 {
            set.put(n, [("l", list(20, 6_000))]).unwrap();
        }
    });
    let sizing = sized(dir.path(), &options(|_| {}));
    let found = set(&sizing, "s");
    let collection = found.bins[0].collection.as_ref().unwrap();
    assert_eq!(
        (collection.bytes.p50, collection.bytes.p99),
        (25_995, 25_995)
    );
    assert_eq!(collection.bytes.max, 120_000);
    assert_eq!(found.verdict.level, Band::Ok, "{}", found.verdict.sentence);
}

#[test]
fn what_cannot_be_spread_is_remodelled_and_not_sharded() {
    let entry = |n: i64| (Value::from(format!("k{n}")), Value::from(n));
    let small_map = || {
        Value::Map(Map::new(
            (0..1_200).map(entry).collect(),
            MapOrder::KeyOrdered,
        ))
    };
    let events = Value::Map(Map::new(
        vec![("events".into(), Value::List((0..100_000).collect()))],
        MapOrder::KeyOrdered,
    ));
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let put = |set: &str, bins: Vec<(String, Value)>| {
            let set = store.set(set).unwrap();
            set.put(
                1,
                bins.iter()
                    .map(|(name, value)| (name.as_str(), value.clone())),
            )
            .unwrap();
        };
        let bin = |name: &str, value: Value| vec![(name.to_owned(), value)];
        let large = Value::List(vec!["x".repeat(700_000).into()].into());
        put("element", bin("l", large));
        put("nested", bin("m", events));
        let maps = (0..60).map(|n| (format!("m{n}"), small_map()));
        put("maps", maps.collect());
        put("text", bin("t", "x".repeat(700_000).into()));
        put("list", bin("l", list(10_000, 40)));
    });
    let sizing = sized(
        dir.path(),
        &options(|options| options.max_record_bytes = 8 << 20),
    );
    for (name, level, remedy, words) in [
        (
            "element",
            Band::Remodel,
            Remedy::RecordPerEntry,
            "a record of its own",
        ),
        (
            "nested",
            Band::Remodel,
            Remedy::NestedToOwnBin,
            "a bin of its own",
        ),
        (
            "maps",
            Band::Remodel,
            Remedy::SeveralRecords,
            "several records",
        ),
        ("text", Band::Remodel, Remedy::StoreElsewhere, "elsewhere"),
        (
            "list",
            Band::Shard,
            Remedy::Shard,
            "Hash-shard its bin l by 4",
        ),
    ] {
        let found = set(&sizing, name);
        let verdict = &found.verdict;
        assert_eq!(
            (verdict.level, verdict.remedy),
            (level, remedy),
            "{name}: {verdict:?}"
        );
        assert!(verdict.helps.contains(words), "{name}: {}", verdict.helps);
        let is_sharded = level == Band::Shard;
        assert_eq!(
            found.advice.shards_pow2 > 1,
            is_sharded,
            "{name}: {:?}",
            found.advice
        );
        assert_eq!(!found.what_if.is_empty(), is_sharded, "{name}");
    }
    assert!(
        sizing
            .verdict
            .sentence
            .starts_with("Key 1 of set list takes 390"),
        "{:?}",
        sizing.verdict
    );
    assert_eq!(sizing.verdict.shards, Some(4));
    let alone = sized(
        dir.path(),
        &options(|options| options.set = Some("nested".into())),
    );
    let said = &alone.verdict.sentence;
    assert!(
        said.starts_with("Sharding does not help set nested.")
            && said.contains("the list at \"events\""),
        "{said}"
    );
}

/// Lets writers of one record be refused, and closes the store.
fn fought_over(dir: &Path, write: impl Fn(&Store, i64) -> spikelet::Result<()> + Sync) {
    let mut config = NamespaceConfig::new("test");
    config.max_waiters = 0;
    config.background = false;
    let store = Store::builder().path(dir).namespace(config).open().unwrap();
    store.set("calm").unwrap().put(1, [("n", 1)]).unwrap();
    store.set("calm").unwrap().put(1, [("n", 2)]).unwrap();
    let namespace = store.namespace("test").unwrap();
    // A quick machine reaches the refusals before a lane has come far.
    (0..7).for_each(|n| write(&store, n).unwrap());
    let refused = || namespace.stats().key_busy;
    std::thread::scope(|scope| {
        for lane in 0..4_i64 {
            let (store, write, refused) = (&store, &write, &refused);
            scope.spawn(move || {
                for n in 0_i64.. {
                    match write(store, lane * 10_000_000 + n) {
                        Ok(()) | Err(spikelet::Error::KeyBusy { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    if refused() >= 400 {
                        return;
                    }
                }
            });
        }
    });
    store.close().unwrap();
}

#[test]
fn measured_refusals_decide_and_a_rate_is_of_the_hottest_record() {
    let dir = TempDir::new().unwrap();
    fought_over(dir.path(), |store, _| {
        let add = spikelet::operations::add("hits", 1);
        store.set("hot")?.operate("page", &[add]).map(|_| ())
    });
    let sizing = sized(
        dir.path(),
        &options(|options| options.writes_per_s = Some(400.0)),
    );
    let found = set(&sizing, "hot");
    assert_eq!(found.verdict.decided_by, "key_busy");
    assert_eq!(found.verdict.level, Band::Shard, "{:?}", found.verdict);
    assert_eq!(
        (found.writes_per_s, found.advice.shards_pow2),
        (Some(400.0), 8)
    );
    let hot = &sizing.contended[0];
    assert_eq!(
        (hot.set.as_deref(), hot.key.as_deref()),
        (Some("hot"), Some("page"))
    );
    let said = &sizing.verdict.sentence;
    assert!(
        said.contains("Writers of key page were refused with KEY_BUSY"),
        "{said}"
    );
    assert!(said.contains("Hash-shard its bin hits by 8"), "{said}");
    assert!(said.contains("Time shards alone do not help"), "{said}");
    // The rate is not that of every set.
    let calm = set(&sizing, "calm");
    assert_eq!((calm.verdict.level, calm.writes_per_s), (Band::Ok, None));
    let named = vec![("calm".to_owned(), 400.0)];
    let sizing = sized(
        dir.path(),
        &options(|options| options.writes_per_s_of = named),
    );
    assert_eq!(set(&sizing, "calm").verdict.decided_by, "writes_per_s");
    assert_eq!(set(&sizing, "hot").writes_per_s, None);
    assert!(!sizing.writes_per_s_unassigned);
}

#[test]
fn a_sharded_collection_is_judged_as_one() {
    let dir = TempDir::new().unwrap();
    fought_over(dir.path(), |store, n| {
        let list = ShardedList::new(store, "feeds", "alice", "by")?;
        if list.add(0).is_ok() {
            list.shards().activate(2).map(|_| ())?;
        }
        list.add(n % 7).map(|_| ())
    });
    let sizing = sized(dir.path(), &options(|_| {}));
    let feeds = set(&sizing, "feeds");
    let one = &feeds.sharded[0];
    assert_eq!(
        (one.key.as_str(), one.shards, one.companions),
        ("alice", 2, 2)
    );
    assert_eq!((one.elements, feeds.sharded.len()), (7, 1));
    let hot: Vec<_> = sizing
        .contended
        .iter()
        .filter(|hot| hot.shards.is_some())
        .collect();
    assert!(
        hot.iter().all(|hot| hot.key.as_deref() == Some("alice")),
        "{hot:?}"
    );
    assert!(hot.len() <= 1, "{hot:?}");
}

#[test]
fn shards_that_have_grown_too_large_ask_for_more() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let list = ShardedList::new(store, "feeds", "alice", "by")
            .unwrap()
            .policy(ShardPolicy::manual());
        list.add(0).unwrap();
        list.shards().activate(2).unwrap();
        let texts = (0..400).map(|n| Value::from(format!("{n}-{}", "x".repeat(1_000))));
        for text in texts {
            list.add(text).unwrap();
        }
    });
    let sizing = sized(dir.path(), &options(|_| {}));
    let found = set(&sizing, "feeds");
    assert_eq!(
        found.verdict.decided_by, "shard_bytes_max",
        "{:?}",
        found.verdict
    );
    assert_eq!(found.verdict.helps, "Split it into 4 shards.");
    assert_eq!(
        (found.sharded[0].elements, found.sharded[0].shards),
        (401, 2)
    );
    assert!(found.sharded[0].bytes > 400_000);
}

#[test]
fn a_rate_of_no_known_record_is_in_no_figure_and_this_is_told() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("two.jsonl");
    let line = |set: &str| format!("{{\"set\":\"{set}\",\"key\":1,\"bins\":{{\"a\":[1]}}}}\n");
    std::fs::write(&file, line("a") + &line("b")).unwrap();
    let sizing = sized(
        &file,
        &options(|options| options.writes_per_s = Some(400.0)),
    );
    assert!(sizing.writes_per_s_unassigned);
    assert!(sizing.sets.iter().all(|set| set.verdict.level == Band::Ok));
    let text = sizing.to_report().to_text();
    assert!(text.contains("--writes-per-s SET=W"), "{text}");
}
