//! Further advice about a set: habits that cost later.

use spikelet::record::{BinName, MAX_BINS};
use spikelet::shard::arithmetic::SWEET_SPOT_FROM_BYTES;

use super::model::Lint;
use super::set_stats::SetStats;
use crate::report::{bytes, count};

/// Collections with this many elements at their 99th percentile are worth a persisted index.
const INDEX_FROM: u64 = 1000;

/// A rule, the bin that it is about, the number of records that it finds, and what to say of them.
type LintRow<'s> = (&'static str, Option<&'s str>, u64, String);

/// Returns the findings about a set: those of the set, then those of its bins.
pub(super) fn lints(
    cap: u64,
    (namespace, set): (&str, &str),
    stats: &SetStats,
    knows_indexes: bool,
) -> Vec<Lint> {
    let of_bins = || bin_rows(stats, knows_indexes);
    let rows = set_rows(cap, stats).into_iter().chain(of_bins());
    let found = rows.filter(|(.., records, _)| *records > 0);
    let lint = |(code, bin, records, sentence): LintRow<'_>| Lint {
        code,
        namespace: namespace.to_owned(),
        set: set.to_owned(),
        bin: bin.map(str::to_owned),
        records,
        sentence,
    };
    found.map(lint).collect()
}

fn set_rows(cap: u64, stats: &SetStats) -> Vec<LintRow<'_>> {
    let measured = stats.counted.count();
    let small = measured - stats.counted.beyond(SWEET_SPOT_FROM_BYTES - 1);
    let is_mostly_small = small * 2 > measured && measured >= INDEX_FROM;
    let row = |code, records, sentence: &str| (code, None, records, sentence.to_owned());
    vec![
        row(
            "record_too_big",
            stats.counted.beyond(cap),
            &format!(
                "Larger than a record may be by default or as given ({}): a write of it fails with code 13.",
                bytes(cap)
            ),
        ),
        row(
            "bin_name_too_long",
            stats.long_names,
            &format!(
                "A bin's name is longer than {} bytes: the write fails with code 21. Shorten it.",
                BinName::MAX_BYTES
            ),
        ),
        row(
            "too_many_bins",
            stats.too_many_bins,
            &format!(
                "More than {} bins: the write fails. Use a map bin.",
                count(MAX_BINS as u64)
            ),
        ),
        row(
            "expiry_without_nsup",
            stats.expiring,
            "They expire. On an Aerospike server such writes fail with code 22 unless nsup-period is set; here they need nothing.",
        ),
        row(
            "colon_in_key",
            stats.colon_in_key,
            "The key holds ':', which separates the keys of shards: a key like `alice:3` may meet a shard of `alice`. \
             Another separator is safer.",
        ),
        row(
            "repeated_key",
            stats.repeated_keys,
            "An earlier line has the same set and key: each line is counted as a record here, but a store would keep the last.",
        ),
        row(
            "key_not_stored",
            stats.without_key,
            "The key is not stored with the record, so reports, backups and repairs can name it by its digest only.",
        ),
        row(
            "mostly_below_1_kib",
            if is_mostly_small { small } else { 0 },
            "Most records are smaller than 1 KiB, so that index and header weigh much. If they are read together, keep \
             them together: as a list or map in one record.",
        ),
        row(
            "shards",
            stats.companions,
            "Shards of larger collections: the collection is judged as one, by its largest shard.",
        ),
    ]
}

fn bin_rows(stats: &SetStats, knows_indexes: bool) -> impl Iterator<Item = LintRow<'_>> {
    stats.bins.iter().flat_map(move |(name, bin)| {
        let found = &bin.collections;
        let p99 = found.counts.per_mille(990);
        let is_indexable = knows_indexes && p99 >= INDEX_FROM;
        let unindexed = found.counts.count() - found.indexed;
        [
            (
                "map_key_type",
                Some(name.as_str()),
                found.with_odd_keys,
                "Keys of the map are no integers, text or bytes, which servers refuse since 7.1. Use one of these.".to_owned(),
            ),
            (
                "large_collection_without_index",
                Some(name.as_str()),
                if is_indexable { unindexed } else { 0 },
                format!(
                    "Collections of up to {} elements (99 of 100) without a persisted index: every look-up reads the whole \
                     collection. Create them ordered and with a persisted index.",
                    count(p99)
                ),
            ),
        ]
    })
}
