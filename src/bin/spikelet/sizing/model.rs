//! The result of a sizing: the object that `--json` prints. Sizes are in bytes.

use serde::Serialize;

use super::Sample;
use super::measure::RecordMeasure;
use super::remedy::SizeRemedy;
use super::sample::Intervals;
use super::secondary_index::SecondaryIndexSizing;
use super::set_stats::ShardedStats;
use super::size_histogram::{Distribution, SizeBucket, SizeShare};
use crate::verdict::Word;
use crate::verdict::sizing::SizingHeadline;

/// The sizing of everything that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Sizing {
    /// What a person would say of it.
    pub(crate) verdict: SizingHeadline,
    /// The name of the source.
    pub(crate) source: String,
    /// `store`, `backup` or `json-lines`.
    pub(crate) source_kind: &'static str,
    /// Records in all sets.
    pub(crate) records: u64,
    /// Records of a store that are damaged on the device. They are in no other figure: their set
    /// is not known.
    pub(crate) damaged: u64,
    /// If only a sample was measured: how many records of a set at most, and by which seed.
    pub(crate) sample: Option<Sample>,
    /// The limit of a record's size that was assumed.
    pub(crate) max_record_bytes: u64,
    /// Writes a second to the hottest record of all, as given.
    pub(crate) writes_per_s: Option<f64>,
    /// Whether nothing told which set that record is in, so that the rate is in no figure.
    pub(crate) writes_per_s_unassigned: bool,
    /// The rules of the verdicts.
    pub(crate) thresholds: Thresholds,
    /// The namespaces of a store.
    pub(crate) namespaces: Vec<NamespaceSizing>,
    /// The sets, those to be acted upon first, then by bytes.
    pub(crate) sets: Vec<SetSizing>,
    /// The largest records of all sets.
    pub(crate) largest: Vec<RecordSizing>,
    /// The records with the highest generation, written most often since they were
    /// created.
    pub(crate) most_written: Vec<RecordSizing>,
    /// The records over which writers fought, of a store that was closed cleanly.
    pub(crate) contended: Vec<RecordSizing>,
    /// Further findings.
    pub(crate) lints: Vec<Lint>,
}

/// From where on a set is watched, and from where on sharded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Thresholds {
    /// What the elements of a collection take at the 99th percentile: beyond it SHARD, or REMODEL
    /// where shards do not help; beyond half of it WATCH.
    pub(crate) collection_bytes_p99: u64,
    /// A record: at its 99th percentile beyond it SHARD, beyond half of it WATCH; at its maximum
    /// beyond it WATCH.
    pub(crate) record_bytes: u64,
    /// The largest record, or the largest shard, beyond it: WATCH.
    pub(crate) near_bytes: u64,
    /// Sustained writes a second to one record: beyond it SHARD, beyond half of it WATCH.
    pub(crate) writes_per_s: f64,
    /// The part of the limit of a record's size beyond which the largest record is for SHARD, and
    /// for WATCH.
    pub(crate) of_max_record: (f64, f64),
    /// Refusals (KEY_BUSY) of one record's writers: from the first number on SHARD, from the second
    /// on WATCH.
    pub(crate) key_busy: (u64, u64),
    /// Waits of one record's writers: from there on WATCH.
    pub(crate) waits: u64,
}

/// A namespace of a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct NamespaceSizing {
    /// Its name.
    pub(crate) namespace: String,
    /// Live records.
    pub(crate) records: u64,
    /// Records that are damaged on the device.
    pub(crate) damaged: u64,
    /// The memory of its index, measured; `None` for a cluster.
    pub(crate) index_bytes: Option<u64>,
    /// Bytes of the index for each record; `None` for a cluster.
    pub(crate) index_bytes_per_record: Option<f64>,
    /// The disk space of its devices; `None` for a cluster.
    pub(crate) device_bytes: Option<u64>,
    /// Bytes of log for each byte asked for, over its life; `None` where that is not known.
    pub(crate) log_write_amplification: Option<f64>,
    /// Its secondary indexes; of one set, the indexes with records of the set.
    pub(crate) secondary_indexes: Vec<SecondaryIndexSizing>,
}

/// A set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SetSizing {
    /// Its namespace; empty for JSON lines.
    pub(crate) namespace: String,
    /// Its name; empty for "no set".
    pub(crate) set: String,
    /// Records in it.
    pub(crate) records: u64,
    /// Records that were measured.
    pub(crate) measured: u64,
    /// The judgement.
    pub(crate) verdict: SetVerdict,
    /// Writes a second to its hottest record, as given.
    pub(crate) writes_per_s: Option<f64>,
    /// What counts against the limit of a record's size: header, key, bins.
    pub(crate) bytes: Distribution,
    /// What records take on the device.
    pub(crate) stored_bytes: Distribution,
    /// The size of all records, measured or not.
    pub(crate) total_bytes: Total,
    /// How far the figures of a sample can be trusted.
    pub(crate) intervals: Option<Intervals>,
    /// Records by size.
    pub(crate) shares: Vec<SizeShare>,
    /// Records by size, in buckets that double.
    pub(crate) histogram: Vec<SizeBucket>,
    /// Its bins, the heaviest first.
    pub(crate) bins: Vec<BinSizing>,
    /// Its largest sharded collections, each as one; empty for a sample, which holds some of their
    /// records only.
    pub(crate) sharded: Vec<ShardedSizing>,
    /// How many shards.
    pub(crate) advice: Recommendation,
    /// What each number of shards would give.
    pub(crate) what_if: Vec<ShardScenario>,
    /// The memory of its index.
    pub(crate) index: IndexMemory,
    /// What a change of one element writes.
    pub(crate) rewrites: Vec<Rewrite>,
}

/// What all records of a set take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Total {
    /// The sum, or the mean of the measured records times the number of all.
    pub(crate) estimate: u64,
    /// Its interval, with a confidence of 95 in 100; `None`: it is the sum.
    pub(crate) interval: Option<(u64, u64)>,
}

/// A judgement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SetVerdict {
    /// `OK`, `WATCH`, `REMODEL` or `SHARD`.
    pub(crate) level: Word,
    /// Which rule has decided.
    pub(crate) decided_by: &'static str,
    /// The number that has decided.
    pub(crate) value: f64,
    /// The bound of that number.
    pub(crate) threshold: f64,
    /// The bin it is about.
    pub(crate) bin: Option<String>,
    /// What helps.
    pub(crate) remedy: SizeRemedy,
    /// The finding.
    pub(crate) sentence: String,
    /// What to do.
    pub(crate) helps: String,
}

/// A bin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BinSizing {
    /// Its name.
    pub(crate) bin: String,
    /// Its types, the most frequent first.
    pub(crate) types: Vec<&'static str>,
    /// The part of the records that have it, 0 to 1.
    pub(crate) presence: f64,
    /// Its part of the bytes of all bins, 0 to 1.
    pub(crate) bytes_share: f64,
    /// Its size, with its name.
    pub(crate) bytes: Distribution,
    /// Its lists and maps.
    pub(crate) collection: Option<CollectionSizing>,
}

/// The lists and maps of a bin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CollectionSizing {
    /// How many there are.
    pub(crate) collections: u64,
    /// Elements of a list, entries of a map.
    pub(crate) count: Distribution,
    /// The mean element of all.
    pub(crate) element_bytes: f64,
    /// What the elements of each take: at the 99th percentile it decides whether such a collection
    /// may live in one record.
    pub(crate) bytes: Distribution,
    /// Whether that is within 128 KiB.
    pub(crate) fits: bool,
    /// How many shards would not make small enough: an element alone is larger than a shard.
    pub(crate) blocked: u64,
    /// The obstacle in the largest of these.
    pub(crate) obstacle: Option<String>,
    /// The part of them that has a persisted index, 0 to 1.
    pub(crate) indexed: f64,
    /// What a secondary index of Aerospike's over its elements would take.
    pub(crate) aerospike_secondary_bytes: u64,
}

/// A sharded collection, its companions together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ShardedSizing {
    /// The key of its root.
    pub(crate) key: String,
    /// Its bin, where the companions name it.
    pub(crate) bin: Option<String>,
    /// Its companions together.
    #[serde(flatten)]
    pub(crate) stats: ShardedStats,
    /// How it is judged, by its largest companion.
    pub(crate) level: Word,
}

/// How many shards the largest record of a set asks for, or its largest list or map where most of
/// that record is of other types.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Recommendation {
    /// The largest record; or the elements of the largest list or map, where most of the largest
    /// record is of other types.
    pub(crate) total_bytes: u64,
    /// The fewest shards by size.
    pub(crate) shards_by_size: u64,
    /// The fewest shards by rate.
    pub(crate) shards_by_rate: u64,
    /// The larger of both.
    pub(crate) shards: u64,
    /// The next power of two: the number to make.
    pub(crate) shards_pow2: u64,
    /// What the largest of these shards is expected to take, by the spread of the hash.
    pub(crate) largest_shard_bytes: u64,
    /// What asked for that many: `size`, `rate`, or `nothing` for one.
    pub(crate) bound_by: &'static str,
    /// Shards for one at the 99th percentile.
    pub(crate) shards_p99: u64,
    /// How many elements fit into a shard of 128 KiB.
    pub(crate) elements_per_shard: Option<u64>,
    /// What helps instead, where shards do not.
    pub(crate) remedy: SizeRemedy,
    /// Buckets of time instead.
    pub(crate) time: Option<TimeRecommendation>,
    /// The median time to live of records that have one, in seconds.
    pub(crate) time_to_live_s_p50: Option<u64>,
    /// One sentence.
    pub(crate) sentence: String,
}

/// Shards by time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TimeRecommendation {
    /// `minute`, `5 minutes`, `15 minutes`, `hour`, `day` or `week`.
    pub(crate) width: &'static str,
    /// The width in seconds.
    pub(crate) width_s: u64,
    /// The size of a bucket at its 99th percentile, if every write adds an element.
    pub(crate) bucket_bytes_p99: u64,
    /// Hash shards within a bucket, since all writers are in the current one.
    pub(crate) hash_shards: u64,
    /// How many buckets there are at a time: where the retention is known, or else the number of
    /// elements.
    pub(crate) buckets: Option<u64>,
}

/// What each number of shards would give.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ShardScenario {
    /// The number of shards.
    pub(crate) shards: u64,
    /// The mean size of a shard, with its header.
    pub(crate) bytes_per_shard: u64,
    /// The expected size of the largest: in 99 of 100 cases it is no larger.
    pub(crate) largest_bytes: u64,
    /// Writes a second to each.
    pub(crate) writes_per_s: Option<f64>,
    /// Writes that fall into one window of 8 ms on average.
    pub(crate) lambda: Option<f64>,
    /// The chance that two or more do.
    pub(crate) p2: Option<f64>,
    /// How a shard would be judged.
    pub(crate) band: Word,
    /// Aerospike's index for the shards, with two copies.
    pub(crate) aerospike_index_bytes: u64,
    /// The index for them as measured here.
    pub(crate) index_bytes: Option<u64>,
    /// Records read to get the whole collection.
    pub(crate) reads: u64,
}

/// The memory of an index.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct IndexMemory {
    /// Aerospike's primary index with two copies: 64 bytes for each record and copy.
    pub(crate) aerospike_bytes: u64,
    /// The index of this store: measured for each record of the namespace, times the records of the
    /// set.
    pub(crate) bytes: Option<u64>,
}

/// What a change of one element writes, where the whole record is written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Rewrite {
    /// The bin, if it is a list or map.
    pub(crate) bin: Option<String>,
    /// What changes: the mean element, or an integer of 8 bytes.
    pub(crate) changed_bytes: f64,
    /// Bytes written for each byte changed, in a record of the median size.
    pub(crate) factor_p50: f64,
    /// That factor in a record at the 99th percentile.
    pub(crate) factor_p99: f64,
    /// Megabytes a second at the given rate, in a record at the 99th percentile.
    pub(crate) megabytes_per_s: Option<f64>,
}

/// A record worth a look: large, written often, fought over, or behind a verdict. `None`: not
/// known, or it does not apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct RecordSizing {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its set; `None`: the record is gone.
    pub(crate) set: Option<String>,
    /// Its key, escaped and shortened; that of the root where it stands for the shards of a
    /// collection. `None` if it is not stored.
    pub(crate) key: Option<String>,
    /// Its digest.
    pub(crate) digest: Option<String>,
    /// What counts against the limit of a record's size; that of all companions together.
    pub(crate) bytes: Option<u64>,
    /// Its size on the device.
    pub(crate) stored_bytes: Option<u64>,
    /// Its largest bin; where writers fought over it, the list, map or counter that they most
    /// likely meet in.
    pub(crate) bin: Option<String>,
    /// The size of its largest bin.
    pub(crate) bin_bytes: Option<u64>,
    /// Over how many records that is sharded.
    pub(crate) shards: Option<u64>,
    /// How often it was written since it was created (1 to 65,535, then 1 again).
    pub(crate) generation: Option<u64>,
    /// When it was last written, in milliseconds since 2010-01-01T00:00:00Z.
    pub(crate) last_update_ms: Option<u64>,
    /// How often a writer had to wait for it.
    pub(crate) waits: Option<u64>,
    /// How often a writer was refused.
    pub(crate) key_busy: Option<u64>,
    /// What takes writes from a record that is fought over.
    pub(crate) remedy: Option<SizeRemedy>,
}

impl RecordSizing {
    /// Returns the figures of a measured record.
    pub(crate) fn of(namespace: &str, set: &str, record: &RecordMeasure) -> Self {
        let largest = record.largest_bin();
        let known = |value: u64| (value > 0).then_some(value);
        Self {
            namespace: namespace.to_owned(),
            set: Some(set.to_owned()),
            key: Some(record.key.clone()).filter(|key| !key.is_empty()),
            digest: record.digest.clone(),
            bytes: Some(record.bytes),
            stored_bytes: Some(record.stored_bytes),
            bin: largest.map(|bin| bin.name.clone()),
            bin_bytes: largest.map(|bin| bin.bytes),
            generation: known(record.generation.into()),
            last_update_ms: known(record.last_update_ms),
            ..Self::default()
        }
    }

    /// Returns its key, or else its digest.
    pub(crate) fn name(&self) -> String {
        match (&self.key, &self.digest) {
            (Some(key), _) => key.clone(),
            (None, Some(digest)) => format!("(digest {digest})"),
            (None, None) => "(no key)".to_owned(),
        }
    }
}

/// Something worth knowing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Lint {
    /// Which rule.
    pub(crate) code: &'static str,
    /// The namespace.
    pub(crate) namespace: String,
    /// The set.
    pub(crate) set: String,
    /// The bin, if it is about one.
    pub(crate) bin: Option<String>,
    /// The number of measured records that it is about.
    pub(crate) records: u64,
    /// The finding, and the remedy.
    pub(crate) sentence: String,
}
