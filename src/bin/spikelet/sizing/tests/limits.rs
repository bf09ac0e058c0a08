//! Advice under a record's limit (`--max-record-bytes`) below the bound of 128 KiB.

use spikelet::shard::ShardPolicy;
use spikelet::{ShardedList, Value};
use tempfile::TempDir;

use super::known::{filled, list};
use super::verdicts::fought_over;
use super::{options, set, sized};
use crate::sizing::{SizeRemedy, Sizing};
use crate::verdict::Word;

fn limited(dir: &TempDir, max_record_bytes: u64) -> Sizing {
    let limit = options(|options| options.max_record_bytes = Some(max_record_bytes));
    sized(dir.path(), &limit)
}

#[test]
fn a_limit_below_the_bound_asks_for_shards_too_and_lists_that_are_left_out_change_no_verdict() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let put = |set: &str, key: i64, count| {
            let set = store.set(set).unwrap();
            set.put(key, [("l", list(count, 100))]).unwrap();
        };
        put("s", 1, 1_100);
        put("s", 2, 10);
        put("other", 1, 1);
        put("s", 2, 10);
    });
    let of = |top, rates: &[(Option<String>, f64)]| {
        let changed = options(|options| {
            options.max_record_bytes = Some(131_072);
            (options.top, options.writes_per_s) = (top, rates.to_vec());
        });
        sized(dir.path(), &changed)
    };
    let found = of(10, &[]);
    let said = &found.verdict.sentence;
    assert!(said.contains("84 % of the 128.0 KiB"), "{said}");
    assert!(said.contains("Hash-shard its bin l by 2"), "{said}");
    assert_eq!(found.verdict.shards, Some(2));
    for top in [0, 10] {
        let rated = of(top, &[(None, 400.0)]);
        assert!(!rated.writes_per_s_unassigned, "{top}");
        assert_eq!(set(&rated, "s").writes_per_s, Some(400.0), "{top}");
        assert_eq!(
            (rated.largest.len(), rated.most_written.len()),
            (top.min(3), top.min(1))
        );
    }
}

#[test]
fn more_shards_than_elements_are_no_remedy_for_a_record_near_its_limit() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let set = store.set("s").unwrap();
        set.put(1, [("l", list(2, 30_000))]).unwrap();
    });
    let limited = options(|options| options.max_record_bytes = Some(65_536));
    let sizing = sized(dir.path(), &limited);
    let found = set(&sizing, "s");
    assert_eq!(found.verdict.level, Word::Remodel, "{:?}", found.verdict);
    assert_eq!(found.advice.remedy, SizeRemedy::RecordPerEntry);
}

#[test]
fn a_list_beyond_the_bound_whose_elements_fit_no_shard_within_the_limit_is_remodelled() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let set = store.set("s").unwrap();
        set.put(1, [("l", list(90, 10_000))]).unwrap();
    });
    // 32 shards of at most 128 KiB do; within 13 KiB even one for each element would not.
    assert_eq!(limited(&dir, 8 << 20).verdict.shards, Some(32));
    let sizing = limited(&dir, 16 << 10);
    let found = set(&sizing, "s");
    assert_eq!(found.verdict.level, Word::Remodel, "{:?}", found.verdict);
    assert_eq!(found.verdict.remedy, SizeRemedy::RecordPerEntry);
    assert_eq!((sizing.verdict.shards, found.what_if.len()), (None, 0));
}

#[test]
fn writers_who_fight_over_elements_that_fit_no_shard_within_the_limit_get_no_shards() {
    let dir = TempDir::new().unwrap();
    fought_over(dir.path(), |store, n| {
        let set = store.set("hot")?;
        if n == 0 {
            set.put("page", [("l", list(2, 30_000))])?;
        }
        let first =
            spikelet::operations::lists::set(&Default::default(), "l", 0, "x".repeat(30_000));
        set.operate("page", &[first]).map(|_| ())
    });
    let sizing = limited(&dir, 64 << 10);
    let found = set(&sizing, "hot");
    assert_eq!(found.verdict.decided_by, "key_busy");
    assert_eq!(found.verdict.level, Word::Remodel, "{:?}", found.verdict);
    assert_eq!(found.verdict.remedy, SizeRemedy::RecordPerEntry);
    assert_eq!(limited(&dir, 8 << 20).verdict.level, Word::Shard);
}

#[test]
fn shards_that_have_outgrown_the_limit_are_split_into_as_many_as_fit_it() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let list = ShardedList::new(store, "feeds", "alice", "by")
            .unwrap()
            .policy(ShardPolicy::manual());
        list.add(0).unwrap();
        list.shards().activate(2).unwrap();
        for n in 0..120 {
            list.add(Value::from(format!("{n}-{}", "x".repeat(1_000))))
                .unwrap();
        }
    });
    // Each of the two takes some 60 KB.
    assert_eq!(limited(&dir, 8 << 20).verdict.level, Word::Ok);
    let sizing = limited(&dir, 32 << 10);
    assert_eq!(sizing.verdict.level, Word::Shard, "{:?}", sizing.verdict);
    let advised = sizing.verdict.shards.unwrap();
    filled(dir.path(), |store| {
        let list = ShardedList::new(store, "feeds", "alice", "by").unwrap();
        let list = list.policy(ShardPolicy::manual());
        while list.shards().split().unwrap().shards < advised {}
    });
    let split = limited(&dir, 32 << 10);
    assert_eq!(
        split.verdict.level,
        Word::Ok,
        "{advised}: {:?}",
        split.verdict
    );
}

#[test]
fn a_number_of_shards_that_leaves_too_large_ones_for_the_limit_is_not_called_ok() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let set = store.set("s").unwrap();
        set.put(1, [("l", list(1_000, 200))]).unwrap();
    });
    let sizing = limited(&dir, 32 << 10);
    let found = set(&sizing, "s");
    let bound = (32 << 10) / 5 * 4;
    for row in &found.what_if {
        let is_ok = row.band == Word::Ok;
        assert_eq!(is_ok, row.largest_bytes <= bound, "{row:?}");
    }
    let own = found
        .what_if
        .iter()
        .find(|row| row.shards == found.advice.shards_pow2);
    assert_eq!(own.unwrap().band, Word::Ok);
}

#[test]
fn sentences_name_what_a_record_should_hold_under_the_limit() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let put = |set: &str, count| {
            let set = store.set(set).unwrap();
            set.put(1, [("l", list(count, 100))]).unwrap();
        };
        put("small", 10);
        put("large", 700);
    });
    // 80 % of 100 KiB, of which the list of 700 x 100 bytes takes more than a half.
    let found = limited(&dir, 102_400);
    let [of_large, of_small] = ["large", "small"].map(|name| &set(&found, name).verdict.sentence);
    assert!(of_large.contains("% of the 80.0 KiB"), "{of_large}");
    assert!(of_small.ends_with("all are within 80.0 KiB."), "{of_small}");
    assert!(!found.verdict.sentence.contains("128 KiB"), "{found:?}");
    let found = limited(&dir, 409_600);
    let of_small = &set(&found, "small").verdict.sentence;
    assert!(of_small.ends_with("all are within 128 KiB."), "{of_small}");
}
