//! Further advice about a set: habits that cost later.

use spikelet::record::{BinName, MAX_BINS};
use spikelet::shard::arithmetic::SWEET_SPOT_FROM_BYTES;

use super::model::Lint;
use super::set_stats::{CollectionStats, SetStats};
use crate::report::{bytes, count};

/// Collections with this many elements at their 99th percentile are worth a persisted index.
const INDEX_FROM: u64 = 1000;

/// What to say of the records that a rule finds, a line a rule; `{}` stands for its figure.
const SENTENCES: &str = include_str!("lints.txt");

/// A rule, the number of records that it finds, and the figure of its sentence, if it has one.
type LintRow = (&'static str, u64, String);

/// Returns the findings about a set: those of the set, then those of its bins.
pub(super) fn lints(
    cap: u64,
    (namespace, set): (&str, &str),
    stats: &SetStats,
    knows_indexes: bool,
) -> Vec<Lint> {
    let lint = |bin: Option<&String>, (code, records, figure): LintRow| Lint {
        code,
        namespace: namespace.to_owned(),
        set: set.to_owned(),
        bin: bin.cloned(),
        records,
        sentence: sentence(code).replace("{}", &figure),
    };
    let of_set = set_rows(cap, stats).map(|row| lint(None, row));
    let of_bins = stats.bins.iter().flat_map(|(name, bin)| {
        let rows = bin_rows(&bin.collections, knows_indexes);
        rows.map(|row| lint(Some(name), row))
    });
    let found = of_set.into_iter().chain(of_bins);
    found.filter(|lint| lint.records > 0).collect()
}

/// Returns the sentence of a rule.
fn sentence(code: &str) -> &'static str {
    let mut rules = SENTENCES.lines().filter_map(|line| line.split_once(": "));
    rules
        .find_map(|(rule, says)| (rule == code).then_some(says))
        .unwrap_or_default()
}

fn set_rows(cap: u64, stats: &SetStats) -> [LintRow; 9] {
    let measured = stats.counted.count();
    let small = measured - stats.counted.beyond(SWEET_SPOT_FROM_BYTES - 1);
    let is_mostly_small = small * 2 > measured && measured >= INDEX_FROM;
    let mostly_small = if is_mostly_small { small } else { 0 };
    let too_big = stats.counted.beyond(cap);
    let [name_bytes, bins] = [BinName::MAX_BYTES, MAX_BINS].map(|most| count(most as u64));
    let none = String::new;
    [
        ("record_too_big", too_big, bytes(cap)),
        ("bin_name_too_long", stats.long_names, name_bytes),
        ("too_many_bins", stats.too_many_bins, bins),
        ("expiry_without_nsup", stats.expiring, none()),
        ("colon_in_key", stats.colon_in_key, none()),
        ("repeated_key", stats.repeated_keys, none()),
        ("key_not_stored", stats.without_key, none()),
        ("mostly_below_1_kib", mostly_small, none()),
        ("shards", stats.companions, none()),
    ]
}

fn bin_rows(found: &CollectionStats, knows_indexes: bool) -> [LintRow; 2] {
    let p99 = found.counts.per_mille(990);
    let is_indexable = knows_indexes && p99 >= INDEX_FROM;
    let unindexed = is_indexable.then(|| found.counts.count() - found.indexed);
    [
        ("map_key_type", found.with_odd_keys, String::new()),
        (
            "large_collection_without_index",
            unindexed.unwrap_or(0),
            count(p99),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_sentence_and_every_sentence_a_rule() {
        let stats = SetStats::default();
        let collections = CollectionStats::default();
        let of_set = set_rows(1 << 20, &stats).map(|(code, ..)| code);
        let of_bins = bin_rows(&collections, true).map(|(code, ..)| code);
        let rules: Vec<&str> = of_set.into_iter().chain(of_bins).collect();
        let named = SENTENCES.lines().filter_map(|line| line.split_once(": "));
        assert_eq!(rules, named.map(|(rule, _)| rule).collect::<Vec<_>>());
    }
}
