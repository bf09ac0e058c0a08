//! Further advice about a set: habits that cost later.

use spikelet::record::{BinName, MAX_BINS};
use spikelet::shard::arithmetic::SWEET_SPOT_FROM_BYTES;

use super::model::{Lint, NamespaceSizing};
use super::set_stats::SetStats;
use crate::report::{bytes, count};

/// Collections with this many elements at their 99th percentile are worth a persisted index.
const INDEX_FROM: u64 = 1000;

/// Returns the findings about a namespace that belong to no set.
pub(super) fn damage(namespace: &NamespaceSizing) -> Option<Lint> {
    (namespace.damaged > 0).then(|| Lint {
        code: "damaged",
        namespace: namespace.namespace.clone(),
        set: None,
        bin: None,
        records: namespace.damaged,
        sentence: "Damaged on the device: they could not be read and are in no other figure here. `spikelet verify` shows \
                   where they are; restore them from a backup."
            .to_owned(),
    })
}

/// Returns the findings about a set.
pub(super) fn lints(
    cap: u64,
    (namespace, set): (&str, &str),
    stats: &SetStats,
    knows_indexes: bool,
) -> Vec<Lint> {
    let measured = stats.counted.count();
    let mut lints = Vec::new();
    let mut lint = |code, bin: Option<&str>, records: u64, sentence: String| {
        if records > 0 {
            lints.push(Lint {
                code,
                namespace: namespace.to_owned(),
                set: Some(set.to_owned()),
                bin: bin.map(str::to_owned),
                records,
                sentence,
            });
        }
    };
    let beyond: u64 = stats
        .counted
        .iter()
        .filter(|(size, _)| *size > cap)
        .map(|(_, n)| n)
        .sum();
    lint(
        "record_too_big",
        None,
        beyond,
        format!(
            "Larger than a record may be by default or as given ({}): a write of it fails with code 13.",
            bytes(cap)
        ),
    );
    lint(
        "bin_name_too_long",
        None,
        stats.long_names,
        format!(
            "A bin's name is longer than {} bytes: the write fails with code 21. Shorten it.",
            BinName::MAX_BYTES
        ),
    );
    lint(
        "too_many_bins",
        None,
        stats.too_many_bins,
        format!(
            "More than {} bins: the write fails. Use a map bin.",
            count(MAX_BINS as u64)
        ),
    );
    for (name, bin) in &stats.bins {
        let found = &bin.collections;
        lint(
            "map_key_type",
            Some(name),
            found.with_odd_keys,
            "Keys of the map are no integers, text or bytes, which servers refuse since 7.1. Use one of these.".to_owned(),
        );
        let p99 = found.counts.per_mille(990);
        let unindexed = found.counts.count() - found.indexed;
        if knows_indexes && p99 >= INDEX_FROM {
            lint(
                "large_collection_without_index",
                Some(name),
                unindexed,
                format!(
                    "Collections of up to {} elements (99 of 100) without a persisted index: every look-up reads the whole \
                     collection. Create them ordered and with a persisted index.",
                    count(p99)
                ),
            );
        }
    }
    lint(
        "expiry_without_nsup",
        None,
        stats.expiring,
        "They expire. On an Aerospike server such writes fail with code 22 unless nsup-period is set; here they need nothing."
            .to_owned(),
    );
    lint(
        "colon_in_key",
        None,
        stats.colon_in_key,
        "The key holds ':', which separates the keys of shards: a key like `alice:3` may meet a shard of `alice`. \
         Another separator is safer."
            .to_owned(),
    );
    lint(
        "repeated_key",
        None,
        stats.repeated_keys,
        "An earlier line has the same set and key: each line is counted as a record here, but a store would keep the last."
            .to_owned(),
    );
    lint(
        "key_not_stored",
        None,
        stats.without_key,
        "The key is not stored with the record, so reports, backups and repairs can name it by its digest only.".to_owned(),
    );
    let small: u64 = stats
        .counted
        .iter()
        .filter(|(size, _)| *size < SWEET_SPOT_FROM_BYTES)
        .map(|(_, n)| n)
        .sum();
    if small * 2 > measured && measured >= INDEX_FROM {
        lint(
            "mostly_below_1_kib",
            None,
            small,
            "Most records are smaller than 1 KiB, so that index and header weigh much. If they are read together, keep \
             them together: as a list or map in one record."
                .to_owned(),
        );
    }
    lint(
        "shards",
        None,
        stats.companions,
        "Shards of larger collections: the collection is judged as one, by its largest shard."
            .to_owned(),
    );
    lints
}
