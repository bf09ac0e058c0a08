//! The gravest verdict of all sets, and what to do about each.

use serde::Serialize;
use spikelet::shard::arithmetic::{SHARDS_MAX, SWEET_SPOT_BYTES, WRITES_PER_SECOND};

use super::findings::excess;
use super::{bound_text, watched_from};
use crate::report::{bytes, count, decimal};
use crate::sizing::bucket;
use crate::sizing::measure::RecordMeasure;
use crate::sizing::model::{RecordSizing, SetSizing, ShardedSizing};
use crate::sizing::recommendation::shards_within;
use crate::sizing::remedy::SizeRemedy;
use crate::sizing::set_stats::SetStats;
use crate::verdict::Word;

/// How many of the keys behind the headline are named.
const KEYS_SHOWN: usize = 3;

/// The gravest verdict of all sets, and the records behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SizingHeadline {
    /// The gravest verdict of all sets.
    pub(crate) level: Word,
    /// The finding, and the remedy.
    pub(crate) sentence: String,
    /// The namespace of the set it is about; `None`: there is no record.
    pub(crate) namespace: Option<String>,
    /// That set.
    pub(crate) set: Option<String>,
    /// The advised number of shards; `None`: shards are not needed, or do not help.
    pub(crate) shards: Option<u64>,
    /// The records it is about, the one to begin with first; empty if they are not known.
    pub(crate) keys: Vec<RecordSizing>,
}

impl SizingHeadline {
    /// Returns the headline of the first set, the one to be acted upon first. Damage decides the
    /// exit code. `is_unassigned`: the given rate is in no figure.
    pub(crate) fn new(
        sets: &[(SetSizing, SetStats)],
        contended: &[RecordSizing],
        is_unassigned: bool,
        damaged: u64,
    ) -> Self {
        let mut headline = Self::of_first(sets, contended);
        if is_unassigned {
            headline.sentence += " The given rate is in no figure, since nothing says which set has the hottest record: name it, by \
                --writes-per-s SET=W.";
        }
        if damaged > 0 {
            headline.sentence = format!(
                "Unreadable, and in no figure here: {} of the records. `spikelet verify` shows where; restore from a backup. \
                 {}: {}",
                count(damaged),
                headline.level.text(),
                headline.sentence
            );
            headline.level = Word::Damaged;
        }
        headline
    }

    fn of_first(sets: &[(SetSizing, SetStats)], contended: &[RecordSizing]) -> Self {
        let Some((set, stats)) = sets.first() else {
            return Self {
                level: Word::Ok,
                sentence: "There is no record, so there is nothing to say.".to_owned(),
                namespace: None,
                set: None,
                shards: None,
                keys: Vec::new(),
            };
        };
        let of_set = |hot: &&RecordSizing| {
            hot.namespace == set.namespace && hot.set.as_ref() == Some(&set.set)
        };
        let contended: Vec<_> = contended.iter().filter(of_set).collect();
        let keys = keys(set, stats, &contended);
        let others = sets
            .iter()
            .skip(1)
            .filter(|(other, _)| other.verdict.level > Word::Watch)
            .count();
        let more = match others {
            0 => String::new(),
            1 => " 1 more set needs something done.".to_owned(),
            others => format!(" {others} more sets need something done."),
        };
        let shards = advised(set, stats);
        let is_sharded = set.verdict.level == Word::Shard && shards > 1;
        Self {
            level: set.verdict.level,
            sentence: sentence(set, stats.shard_bytes_max, keys.first()) + &more,
            namespace: Some(set.namespace.clone()),
            set: Some(set.set.clone()),
            shards: is_sharded.then_some(shards),
            keys,
        }
    }
}

/// Returns the keys of the records that the verdict of a set is about, where they are known.
fn keys(set: &SetSizing, stats: &SetStats, contended: &[&RecordSizing]) -> Vec<RecordSizing> {
    let verdict = &set.verdict;
    // A verdict on the collections of a bin is about records that have a large one.
    let bin = verdict.bin.as_deref();
    let bin =
        bin.filter(|_| ["collection_bytes_p99", "element_bytes"].contains(&verdict.decided_by));
    let is_meant = |record: &&RecordMeasure| {
        let is_large = |bin: &str| {
            let found = record.bin(bin);
            found.is_some_and(|found| found.bytes as f64 >= verdict.value)
        };
        record.companion.is_none() && bin.is_none_or(is_large)
    };
    let of = |record: &RecordMeasure| RecordSizing::of(&set.namespace, &set.set, record);
    let of_sharded = |found: &ShardedSizing| RecordSizing {
        namespace: set.namespace.clone(),
        set: Some(set.set.clone()),
        key: Some(found.key.clone()),
        bytes: Some(found.stats.bytes),
        bin: found.bin.clone(),
        shards: Some(found.stats.shards),
        ..RecordSizing::default()
    };
    let mut keys: Vec<RecordSizing> = match verdict.decided_by {
        "key_busy" | "waits" => contended.iter().map(|hot| (*hot).clone()).collect(),
        "shard_bytes_max" => set.sharded.iter().map(of_sharded).collect(),
        "writes_per_s" => stats.most_written.iter().filter(is_meant).map(of).collect(),
        _ => stats.largest.iter().filter(is_meant).map(of).collect(),
    };
    keys.truncate(KEYS_SHOWN);
    keys
}

/// Returns a set as a sentence names it.
fn set_name(set: &SetSizing) -> String {
    match set.set.as_str() {
        "" => "the records without a set".to_owned(),
        name => format!("set {name}"),
    }
}

/// Says what the verdict of a set is. `most`: the most that one record should hold, in bytes.
fn sentence(set: &SetSizing, most: u64, key: Option<&RecordSizing>) -> String {
    let (verdict, place, bound) = (&set.verdict, set_name(set), bound_text(most));
    match verdict.level {
        Word::Shard => {
            let largest = key.and_then(|key| Some((key, key.bytes?)));
            let begins = match largest {
                Some((key, size))
                    if is_about_size(verdict.decided_by) && size > SWEET_SPOT_BYTES =>
                {
                    format!(
                        "Key {} of {place} takes {}, {} the {bound} that one record should hold.",
                        key.name(),
                        bytes(size),
                        excess(size, most)
                    )
                }
                Some((key, _)) if verdict.decided_by == "writes_per_s" => format!(
                    "The hottest record of {place}, most likely key {}, is said to take {} writes a second, beyond the {} that \
                     one record takes well.",
                    key.name(),
                    decimal(verdict.value, 0),
                    decimal(verdict.threshold, 0)
                ),
                _ => format!("{}: {}", capital(&place), verdict.sentence),
            };
            format!("{begins} {}", verdict.helps)
        }
        Word::Remodel => format!(
            "Sharding does not help {place}. {} {}",
            verdict.sentence, verdict.helps
        ),
        Word::Watch => format!(
            "Nothing has to be sharded yet, but watch {place}. {}",
            verdict.sentence
        ),
        _ => format!(
            "Nothing needs sharding: the {} takes {} of the {bound} that one record should hold.",
            match (set.records, set.set.as_str()) {
                (1, "") => "only record, without a set,".to_owned(),
                (1, set) => format!("only record in set {set}"),
                (records, "") => format!("largest of {} records without a set", count(records)),
                (records, set) => format!("largest of {} records in set {set}", count(records)),
            },
            bytes(set.bytes.max)
        ),
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

/// Returns the number of shards to make: of the sharded collection with the largest shard of all,
/// more than it has; 1 if it is sharded by time, which keeps the layout of its buckets.
fn advised(set: &SetSizing, stats: &SetStats) -> u64 {
    if set.verdict.decided_by != "shard_bytes_max" {
        return set.advice.shards_pow2;
    }
    let sharded = stats.sharded.values();
    let found = sharded.max_by_key(|found| found.largest_bytes);
    found.filter(|found| !found.by_time).map_or(1, |found| {
        let total_bytes = found.largest_bytes * found.shards;
        let element_bytes = found.bytes as f64 / found.elements.max(1) as f64;
        let bound = watched_from(set.verdict.threshold as u64);
        shards_within(bound, total_bytes, element_bytes, found.shards * 2)
    })
}

/// Says what to do about a set, from its verdict and the number of shards advised for it.
pub(crate) fn helps(set: &SetSizing, stats: &SetStats) -> String {
    let (verdict, advice) = (&set.verdict, &set.advice);
    if verdict.level == Word::Ok {
        return String::new();
    }
    if verdict.decided_by == "sample" {
        return "Size all of them to know.".to_owned();
    }
    if verdict.remedy != SizeRemedy::Shard {
        return verdict.remedy.instruction(verdict.bin.as_deref());
    }
    if verdict.level == Word::Watch {
        return "Look again when it has grown, or let a shard policy watch it.".to_owned();
    }
    let bin = verdict
        .bin
        .as_ref()
        .map_or_else(String::new, |bin| format!(" its bin {bin}"));
    let is_hot = set
        .writes_per_s
        .is_some_and(|rate| rate > WRITES_PER_SECOND);
    let by_time = if is_hot || verdict.decided_by == "key_busy" {
        " Time shards alone do not help: all writers are in the current bucket."
    } else {
        ""
    };
    match advised(set, stats) {
        1 if verdict.decided_by == "shard_bytes_max" => {
            "Its buckets stay as they are: put further elements into a new collection, with narrower buckets or more shards in each \
             (TimeShards::hashed)."
                .to_owned()
        }
        shards if verdict.decided_by == "shard_bytes_max" => {
            format!("Split it into {} shards.", count(shards))
        }
        1 => format!("Hash-shard{bin}: into how many, its rate says (--writes-per-s).{by_time}"),
        shards if shards > SHARDS_MAX => {
            let time = advice.time.as_ref().map(bucket::sentence);
            time.map_or_else(
                || advice.sentence.clone(),
                |time| format!("Shard{bin} by time: {time}."),
            )
        }
        shards => format!(
            "Hash-shard{bin} by {}: {} in the largest shard, and a read of all of it costs {} gets.{by_time}",
            count(shards),
            bytes(advice.largest_shard_bytes),
            count(shards)
        ),
    }
}
