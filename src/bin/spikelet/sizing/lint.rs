//! Further advice about a set: habits that cost later.

use spikelet::record::{BinName, MAX_BINS};
use spikelet::shard::arithmetic::SWEET_SPOT_FROM_BYTES;

use super::model::Lint;
use super::set_stats::{CollectionStats, SetStats};
use crate::report::{bytes, count};

/// Collections with this many elements at their 99th percentile are worth a persisted index.
const INDEX_FROM: u64 = 1000;

/// Returns the rules in their order: the name of each, and what to say of the records that it finds;
/// `{}` stands for its figure.
pub(super) fn rules() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("lints.txt").lines();
    lines.filter_map(|line| line.split_once(": "))
}

/// Returns the findings about a set: those of the set, then those of its bins.
pub(super) fn lints(
    cap: u64,
    (namespace, set): (&str, &str),
    stats: &SetStats,
    knows_indexes: bool,
) -> Vec<Lint> {
    let lint = |bin: Option<&String>, (code, says): (&'static str, &str), found: (u64, String)| {
        let (records, figure) = found;
        (records > 0).then(|| Lint {
            code,
            namespace: namespace.to_owned(),
            set: set.to_owned(),
            bin: bin.cloned(),
            records,
            sentence: says.replace("{}", &figure),
        })
    };
    let of_set = rules().filter_map(|rule| lint(None, rule, of_set(rule.0, cap, stats)));
    let of_bins = stats.bins.iter().flat_map(|(name, bin)| {
        let of_rule = |code| of_bin(code, &bin.collections, knows_indexes);
        rules().filter_map(move |rule| lint(Some(name), rule, of_rule(rule.0)))
    });
    of_set.chain(of_bins).collect()
}

/// Returns how many records of a set a rule finds, and the figure of its sentence.
fn of_set(rule: &str, cap: u64, stats: &SetStats) -> (u64, String) {
    let noted = stats.noted.get(rule).copied().unwrap_or(0);
    match rule {
        "record_too_big" => (stats.counted.beyond(cap), bytes(cap)),
        "bin_name_too_long" => (noted, count(BinName::MAX_BYTES as u64)),
        "too_many_bins" => (noted, count(MAX_BINS as u64)),
        "mostly_below_1_kib" => {
            let measured = stats.counted.count();
            let small = measured - stats.counted.beyond(SWEET_SPOT_FROM_BYTES - 1);
            let is_most = small * 2 > measured && measured >= INDEX_FROM;
            (if is_most { small } else { 0 }, String::new())
        }
        _ => (noted, String::new()),
    }
}

/// Returns how many collections of a bin a rule finds, and the figure of its sentence.
fn of_bin(rule: &str, found: &CollectionStats, knows_indexes: bool) -> (u64, String) {
    match rule {
        "map_key_type" => (found.with_odd_keys, String::new()),
        "large_collection_without_index" if knows_indexes => {
            let p99 = found.counts.per_mille(990);
            let unindexed = found.counts.count() - found.indexed;
            (if p99 >= INDEX_FROM { unindexed } else { 0 }, count(p99))
        }
        _ => (0, String::new()),
    }
}
