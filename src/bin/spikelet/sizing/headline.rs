//! What a person would say of a sizing, in a sentence or two.

use serde::Serialize;

use super::bucket;
use super::model::{Band, ContendedRecord, SetSizing};
use super::remedy::Remedy;
use super::set_stats::SetStats;
use crate::report::{bytes, count, decimal};

/// How many of the keys behind the sentence are named.
const KEYS_SHOWN: usize = 3;

/// What a person would say, and the records it is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Headline {
    /// The gravest verdict of all sets.
    pub(crate) level: Band,
    /// The sentence.
    pub(crate) sentence: String,
    /// The namespace of the set it is about; `None`: there is no record.
    pub(crate) namespace: Option<String>,
    /// That set.
    pub(crate) set: Option<String>,
    /// Into how many shards; `None`: shards are not needed, or do not help.
    pub(crate) shards: Option<u64>,
    /// The keys it is about, the one to begin with first.
    pub(crate) keys: Vec<HeadlineKey>,
}

/// A key that a headline is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HeadlineKey {
    /// The key, or else the digest.
    pub(crate) key: String,
    /// What its record takes; `None`: the record is gone.
    pub(crate) bytes: Option<u64>,
    /// The part of the bytes of its set, 0 to 1.
    pub(crate) bytes_share: Option<f64>,
    /// The bin that takes most of it.
    pub(crate) bin: Option<String>,
    /// How often its writers were refused.
    pub(crate) key_busy: Option<u64>,
}

impl Headline {
    /// Says what is so of the set that comes first, the one to be acted upon first.
    pub(super) fn new(sets: &[(SetSizing, SetStats)], contended: &[ContendedRecord]) -> Self {
        let Some((set, stats)) = sets.first() else {
            return Self {
                level: Band::Ok,
                sentence: "There is no record, so there is nothing to say.".to_owned(),
                namespace: None,
                set: None,
                shards: None,
                keys: Vec::new(),
            };
        };
        let of_set = |hot: &&ContendedRecord| {
            hot.namespace == set.namespace && hot.set.as_ref() == Some(&set.set)
        };
        let contended: Vec<_> = contended.iter().filter(of_set).collect();
        let keys = keys(set, stats, &contended);
        let others = sets
            .iter()
            .skip(1)
            .filter(|(other, _)| other.verdict.level > Band::Watch)
            .count();
        let more = match others {
            0 => String::new(),
            1 => " 1 more set needs something done.".to_owned(),
            others => format!(" {others} more sets need something done."),
        };
        let is_sharded = set.verdict.level == Band::Shard;
        Self {
            level: set.verdict.level,
            sentence: sentence(set, keys.first()) + &more,
            namespace: Some(set.namespace.clone()),
            set: Some(set.set.clone()),
            shards: is_sharded.then_some(set.advice.shards_pow2),
            keys,
        }
    }
}

fn keys(set: &SetSizing, stats: &SetStats, contended: &[&ContendedRecord]) -> Vec<HeadlineKey> {
    let share = |size: u64| size as f64 / set.bytes.total.max(1) as f64;
    let named = |record: &crate::sizing::measure::RecordMeasure| {
        let digest = record.digest.as_deref();
        match (record.key.as_str(), digest) {
            ("", Some(digest)) => format!("(digest {digest})"),
            ("", None) => "(no key)".to_owned(),
            (key, _) => key.to_owned(),
        }
    };
    if ["key_busy", "waits"].contains(&set.verdict.decided_by) {
        let of = |hot: &&ContendedRecord| HeadlineKey {
            key: hot.name(),
            bytes: hot.bytes,
            bytes_share: hot.bytes.map(share),
            bin: hot.bin.clone(),
            key_busy: Some(hot.key_busy),
        };
        return contended.iter().take(KEYS_SHOWN).map(of).collect();
    }
    if set.verdict.decided_by == "shard_bytes_max" {
        let of = |found: &crate::sizing::model::ShardedSizing| HeadlineKey {
            key: found.key.clone(),
            bytes: Some(found.bytes),
            bytes_share: Some(share(found.bytes)),
            bin: found.bin.clone(),
            key_busy: None,
        };
        return set.sharded.iter().take(KEYS_SHOWN).map(of).collect();
    }
    let is_by_rate =
        set.verdict.decided_by == "writes_per_s" && stats.most_written.iter().count() > 0;
    let records = if is_by_rate {
        &stats.most_written
    } else {
        &stats.largest
    };
    records
        .iter()
        .filter(|record| record.companion.is_none())
        .take(KEYS_SHOWN)
        .map(|record| HeadlineKey {
            key: named(record),
            bytes: Some(record.bytes),
            bytes_share: Some(share(record.bytes)),
            bin: record.largest_bin().map(|bin| bin.name.clone()),
            key_busy: None,
        })
        .collect()
}

/// Returns a set as a sentence names it.
fn set_name(set: &SetSizing) -> String {
    match set.set.as_str() {
        "" => "the records without a set".to_owned(),
        name => format!("set {name}"),
    }
}

fn sentence(set: &SetSizing, key: Option<&HeadlineKey>) -> String {
    let (verdict, place) = (&set.verdict, set_name(set));
    match verdict.level {
        Band::Ok => format!(
            "Nothing needs sharding: the largest of {} records in {place} takes {} of the 128 KiB that one record should hold.",
            count(set.records),
            bytes(set.bytes.max)
        ),
        Band::Watch => format!(
            "Nothing has to be sharded yet, but watch {place}. {}",
            verdict.sentence
        ),
        Band::Remodel => format!(
            "Sharding does not help {place}. {} {}",
            verdict.sentence, verdict.helps
        ),
        Band::Shard => {
            let largest = key.and_then(|key| Some((key, key.bytes?)));
            let begins = match largest {
                Some((key, size)) if is_about_size(verdict.decided_by) => format!(
                    "Key {} of {place} takes {}{}.",
                    key.key,
                    bytes(size),
                    match size as f64 / verdict.threshold {
                        factor
                            if factor > 1.0
                                && verdict.decided_by != "record_bytes_max_of_limit" =>
                        {
                            format!(
                                ", {} times the 128 KiB that one record should hold",
                                decimal(factor, usize::from(factor < 9.95))
                            )
                        }
                        _ => String::new(),
                    }
                ),
                Some((key, _)) if verdict.decided_by == "writes_per_s" => format!(
                    "The hottest record of {place}, most likely key {}, is said to take {} writes a second, beyond the {} that \
                     one record takes well.",
                    key.key,
                    decimal(verdict.value, 0),
                    decimal(verdict.threshold, 0)
                ),
                _ => format!("{}: {}", capital(&place), verdict.sentence),
            };
            format!("{begins} {}", verdict.helps)
        }
    }
}

fn is_about_size(decided_by: &str) -> bool {
    [
        "collection_bytes_p99",
        "record_bytes_p99",
        "record_bytes_max_of_limit",
    ]
    .contains(&decided_by)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Says what to do about a set, from its verdict and the number of shards advised for it.
pub(super) fn helps(set: &SetSizing) -> String {
    let (verdict, advice) = (&set.verdict, &set.advice);
    if verdict.level == Band::Ok {
        return String::new();
    }
    if verdict.remedy != Remedy::Shard {
        return verdict.remedy.instruction(verdict.bin.as_deref());
    }
    if verdict.level == Band::Watch {
        return "Look again when it has grown, or let a shard policy watch it.".to_owned();
    }
    let bin = verdict
        .bin
        .as_ref()
        .map_or_else(String::new, |bin| format!(" its bin {bin}"));
    let by_time = match set.writes_per_s {
        Some(rate) if rate > spikelet::shard::arithmetic::WRITES_PER_SECOND => {
            " Time shards alone do not help: all writers are in the current bucket."
        }
        _ if verdict.decided_by == "key_busy" => {
            " Time shards alone do not help: all writers are in the current bucket."
        }
        _ => "",
    };
    match advice.shards_pow2 {
        _ if verdict.decided_by == "shard_bytes_max" => {
            let most = set.sharded.first().map_or(1, |found| found.shards);
            format!("Split it into {} shards.", count(most * 2))
        }
        1 => format!("Hash-shard{bin}: into how many, its rate says (--writes-per-s).{by_time}"),
        shards if shards > spikelet::shard::arithmetic::SHARDS_MAX => {
            let time = advice.time.as_ref().map(bucket::sentence);
            time.map_or_else(
                || advice.sentence.clone(),
                |time| format!("Shard{bin} by time: {time}."),
            )
        }
        shards => format!(
            "Hash-shard{bin} by {}: {} a shard, and a read of all of it costs {} gets.{by_time}",
            count(shards),
            bytes(advice.total_bytes.div_ceil(shards)),
            count(shards)
        ),
    }
}
