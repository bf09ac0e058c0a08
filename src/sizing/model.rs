//! What a sizing comes to: the object that `--json` prints. Sizes are in bytes.

use serde::Serialize;

use super::sample::Intervals;
use super::tally::{Bucket, Distribution, Share};

/// The sizing of everything that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Sizing {
    /// What was looked at.
    pub source: String,
    /// `store`, `backup` or `json-lines`.
    pub source_kind: &'static str,
    /// Records in all sets.
    pub records: u64,
    /// Records of a store that are damaged on the device. They are in no other figure: nobody knows which set they are of.
    pub damaged: u64,
    /// If only a sample was measured: how many records of a set at most, and by which seed.
    pub sample: Option<SampleNote>,
    /// The limit of a record's size that was assumed.
    pub max_record_bytes: u64,
    /// Writes a second to the hottest record of a set, as given.
    pub writes_per_s: Option<f64>,
    /// The rules of the verdicts.
    pub thresholds: Thresholds,
    /// The namespaces of a store.
    pub namespaces: Vec<NamespaceSizing>,
    /// The sets, those to be acted upon first, then by bytes.
    pub sets: Vec<SetSizing>,
    /// The largest records of all sets.
    pub largest: Vec<RecordSizing>,
    /// The records with the highest generation: those that were written most often since they were created.
    pub most_written: Vec<RecordSizing>,
    /// The records over which writers fought, of a store that was closed cleanly.
    pub contended: Vec<Contended>,
    /// What else is worth knowing.
    pub lints: Vec<Lint>,
}

/// How a sample was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SampleNote {
    /// So many records of each set at most.
    pub records_per_set: usize,
    /// The seed.
    pub seed: u64,
}

/// From where on a set is watched, and from where on sharded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Thresholds {
    /// A collection's count at its 99th percentile times its mean element: beyond it SHARD, beyond half of it WATCH.
    pub collection_bytes_p99: u64,
    /// A record: at its 99th percentile beyond it SHARD, beyond half of it WATCH; at its maximum beyond it WATCH.
    pub record_bytes: u64,
    /// Sustained writes a second to one record: beyond it SHARD, beyond half of it WATCH.
    pub writes_per_s: f64,
    /// The part of the limit of a record's size beyond which the largest record is for SHARD, and for WATCH.
    pub of_max_record: (f64, f64),
}

/// A namespace of a store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamespaceSizing {
    /// Its name.
    pub namespace: String,
    /// Live records.
    pub records: u64,
    /// Those of them that are damaged on the device.
    pub damaged: u64,
    /// The memory of its index, measured.
    pub index_bytes: u64,
    /// The same for each record.
    pub index_bytes_per_record: f64,
    /// What its devices have allocated.
    pub device_bytes: u64,
    /// Bytes of log for each byte asked for, over its life; `None` where that is not known.
    pub log_write_amplification: Option<f64>,
}

/// A set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetSizing {
    /// Its namespace; empty for JSON lines.
    pub namespace: String,
    /// Its name; empty for "no set".
    pub set: String,
    /// Records in it.
    pub records: u64,
    /// Records that were measured.
    pub measured: u64,
    /// The judgement.
    pub verdict: VerdictOf,
    /// What counts against the limit of a record's size: header, key, bins.
    pub bytes: Distribution,
    /// What records take on the device.
    pub stored_bytes: Distribution,
    /// How far the figures of a sample can be trusted.
    pub intervals: Option<Intervals>,
    /// Records by size.
    pub shares: Vec<Share>,
    /// Records by size, in buckets that double.
    pub histogram: Vec<Bucket>,
    /// Its bins, the heaviest first.
    pub bins: Vec<BinSizing>,
    /// How many shards.
    pub advice: Advice,
    /// What would be with so many shards.
    pub what_if: Vec<WhatIf>,
    /// What its index takes.
    pub index: IndexMemory,
    /// What a change of one element writes.
    pub rewrites: Vec<Rewrite>,
}

/// A judgement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerdictOf {
    /// `OK`, `WATCH` or `SHARD`.
    pub level: Band,
    /// Which rule has decided.
    pub decided_by: &'static str,
    /// The number that has decided.
    pub value: f64,
    /// What it was compared with.
    pub threshold: f64,
    /// The bin it is about.
    pub bin: Option<String>,
    /// One sentence.
    pub sentence: String,
}

/// How something is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Band {
    /// Leave it as it is.
    Ok,
    /// Look again when it has grown.
    Watch,
    /// Shard it.
    Shard,
}

impl Band {
    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Watch => "WATCH",
            Self::Shard => "SHARD",
        }
    }
}

/// A bin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BinSizing {
    /// Its name.
    pub bin: String,
    /// Its types, the most frequent first.
    pub types: Vec<&'static str>,
    /// The part of the records that have it, 0 to 1.
    pub presence: f64,
    /// Its part of the bytes of all bins, 0 to 1.
    pub bytes_share: f64,
    /// What it takes, with its name.
    pub bytes: Distribution,
    /// Its lists and maps.
    pub collection: Option<CollectionSizing>,
}

/// The lists and maps of a bin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CollectionSizing {
    /// How many there are.
    pub collections: u64,
    /// Elements of a list, entries of a map.
    pub count: Distribution,
    /// The mean element.
    pub element_bytes: f64,
    /// `count.p99` times `element_bytes`, rounded: the number that decides whether it may live in one record.
    pub bytes_p99: u64,
    /// Whether that is within 128 KiB.
    pub fits: bool,
    /// The part of them that has a persisted index, 0 to 1.
    pub indexed: f64,
    /// What a secondary index of Aerospike's over its elements would take.
    pub aerospike_secondary_bytes: u64,
}

/// How many shards the largest record of a set asks for, or its largest list or map where most of that record is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The largest record; or the elements of the largest list or map, where most of the largest record is none.
    pub total_bytes: u64,
    /// The fewest shards by size.
    pub shards_by_size: u64,
    /// The fewest shards by rate.
    pub shards_by_rate: u64,
    /// The larger of both.
    pub shards: u64,
    /// The next power of two, which is what is made.
    pub shards_pow2: u64,
    /// What asked for that many: `size`, `rate`, or `nothing` for one.
    pub bound_by: &'static str,
    /// Shards for one at the 99th percentile.
    pub shards_p99: u64,
    /// How many elements fit into a shard of 128 KiB.
    pub elements_per_shard: Option<u64>,
    /// Buckets of time instead.
    pub time: Option<TimeAdvice>,
    /// The median time to live of records that have one, in seconds.
    pub time_to_live_s_p50: Option<u64>,
    /// One sentence.
    pub sentence: String,
}

/// Shards by time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeAdvice {
    /// `hour`, `day` or `week`.
    pub width: &'static str,
    /// What a bucket takes at its 99th percentile, if every write adds an element.
    pub bucket_bytes_p99: u64,
    /// So many hash shards within a bucket, since all writers are in the current one.
    pub hash_shards: u64,
}

/// What would be with so many shards.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// So many shards.
    pub shards: u64,
    /// What each takes.
    pub bytes_per_shard: u64,
    /// Writes a second to each.
    pub writes_per_s: Option<f64>,
    /// Writes that fall into one window of 8 ms on average.
    pub lambda: Option<f64>,
    /// The chance that two or more do.
    pub p2: Option<f64>,
    /// How a shard would be judged.
    pub band: Band,
    /// Aerospike's index for the shards, with two copies.
    pub aerospike_index_bytes: u64,
    /// The index for them as measured here.
    pub index_bytes: Option<u64>,
    /// Records read to get the whole collection.
    pub reads: u64,
}

/// What an index takes in memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IndexMemory {
    /// Aerospike's primary index with two copies: 64 bytes for each record and copy.
    pub aerospike_bytes: u64,
    /// The index of this store: measured for each record of the namespace, times the records of the set.
    pub bytes: Option<u64>,
}

/// What a change of one element writes, where the whole record is written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rewrite {
    /// The bin, if it is a list or map.
    pub bin: Option<String>,
    /// What changes: the mean element, or an integer of 8 bytes.
    pub changed_bytes: f64,
    /// Bytes written for each byte changed, in a record of the median size.
    pub factor_p50: f64,
    /// The same in a record at the 99th percentile.
    pub factor_p99: f64,
    /// Megabytes a second at the given rate, in a record at the 99th percentile.
    pub megabytes_per_s: Option<f64>,
}

/// A record worth a look.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordSizing {
    /// Its namespace.
    pub namespace: String,
    /// Its set.
    pub set: String,
    /// Its key, escaped and shortened; `None` if it is not stored.
    pub key: Option<String>,
    /// Its digest, where it is known.
    pub digest: Option<String>,
    /// What counts against the limit of a record's size.
    pub bytes: u64,
    /// What it takes on the device.
    pub stored_bytes: u64,
    /// The bin that takes most, and what it takes.
    pub largest_bin: Option<(String, u64)>,
    /// How often it was written since it was created (1 to 65,535, then 1 again); `None`: not known.
    pub generation: Option<u16>,
    /// When it was last written, in milliseconds since 2010-01-01T00:00:00Z; `None`: not known.
    pub last_update_ms: Option<u64>,
}

/// A record over which writers fought.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contended {
    /// Its namespace.
    pub namespace: String,
    /// Its key; `None` if it is not stored.
    pub key: Option<String>,
    /// Its digest.
    pub digest: String,
    /// How often a writer had to wait.
    pub waits: u64,
    /// How often a writer was refused.
    pub key_busy: u64,
}

/// Something worth knowing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lint {
    /// Which rule.
    pub code: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The set; `None`: nobody knows.
    pub set: Option<String>,
    /// The bin, if it is about one.
    pub bin: Option<String>,
    /// How many records (of those measured) it is about.
    pub records: u64,
    /// What it is, and what to do.
    pub sentence: String,
}
