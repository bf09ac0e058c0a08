//! The verdict of each set that `sizing` looks at, and the headline of all of them.

use serde::Serialize;
use spikelet::shard::arithmetic::{SHARDS_MAX, SWEET_SPOT_BYTES, WRITES_PER_SECOND};

use super::{Rule, Word, first};
use crate::report::{bytes, count, decimal};
use crate::sizing::bucket;
use crate::sizing::measure::RecordMeasure;
use crate::sizing::model::{ContendedRecord, SetSizing, SetVerdict, Thresholds};
use crate::sizing::remedy::Remedy;
use crate::sizing::set_stats::{CollectionStats, SetStats};

/// Beyond this part of a bound the next growth may cross it.
const NEAR: f64 = 0.8;
/// Beyond this part of a record's limit there is time, but not for ever.
const TOWARDS: f64 = 0.5;
/// How many of the keys behind the headline are named.
const KEYS_SHOWN: usize = 3;

/// The bounds that the rules compare with.
pub(crate) const THRESHOLDS: Thresholds = Thresholds {
    collection_bytes_p99: SWEET_SPOT_BYTES,
    record_bytes: SWEET_SPOT_BYTES,
    near_bytes: near(SWEET_SPOT_BYTES),
    writes_per_s: WRITES_PER_SECOND,
    of_max_record: (NEAR, TOWARDS),
    key_busy: (100, 1),
    waits: 1_000,
};

/// Returns the size from which on a record is near a bound.
const fn near(bytes: u64) -> u64 {
    bytes / 5 * 4
}

/// Judges a shard of this size at this rate.
pub(crate) fn shard_word(bytes: u64, writes_per_s: Option<f64>) -> Word {
    if bytes > SWEET_SPOT_BYTES || writes_per_s.is_some_and(|rate| rate > WRITES_PER_SECOND) {
        Word::Shard
    } else if bytes > THRESHOLDS.near_bytes {
        Word::Watch
    } else {
        Word::Ok
    }
}

/// The figures of a set by which it is judged.
pub(crate) struct SetFacts<'a> {
    pub(crate) stats: &'a SetStats,
    /// The largest record that is allowed, in bytes.
    pub(crate) max_record_bytes: u64,
    /// Writes a second to its hottest record.
    pub(crate) writes_per_s: Option<f64>,
    /// Its record over which writers fought most.
    pub(crate) contended: Option<&'a ContendedRecord>,
}

/// The rules in their order: what asks for shards or another form, then what is worth watching.
pub(crate) fn rules<'a>() -> [Rule<SetFacts<'a>, SetVerdict>; 14] {
    let rule = |name, words, when, find| Rule {
        name,
        words,
        when,
        find,
    };
    [
        rule(
            "element_bytes",
            "REMODEL",
            "the 99th percentile list or map of a bin takes more than 128 KiB, and one of its elements alone is larger than that",
            |set| element(set),
        ),
        rule(
            "key_busy",
            "SHARD",
            "writers of one record were refused (KEY_BUSY) 100 times or more",
            |set| refusals(set, THRESHOLDS.key_busy.0),
        ),
        rule(
            "collection_bytes_p99",
            "SHARD",
            "the 99th percentile list or map of a bin takes more than 128 KiB",
            |set| collections(set, SWEET_SPOT_BYTES),
        ),
        rule(
            "record_bytes_p99",
            "SHARD",
            "the 99th percentile record takes more than 128 KiB",
            |set| records(set, SWEET_SPOT_BYTES),
        ),
        rule(
            "record_bytes_max_of_limit",
            "SHARD",
            "the largest record takes more than 80 % of what a record may have",
            |set| limit(set, NEAR),
        ),
        rule(
            "writes_per_s",
            "SHARD",
            "more than 50 writes a second to one record (--writes-per-s)",
            |set| rate(set, WRITES_PER_SECOND),
        ),
        rule(
            "shard_bytes_max",
            "SHARD",
            "the largest shard of a collection that is sharded takes more than 128 KiB",
            |set| shards(set, SWEET_SPOT_BYTES),
        ),
        rule(
            "key_busy",
            "WATCH",
            "one refusal, or 1,000 waits, of one record's writers",
            |set| refusals(set, THRESHOLDS.key_busy.1).or_else(|| waits(set)),
        ),
        rule(
            "collection_bytes_p99",
            "WATCH",
            "the 99th percentile list or map takes more than 64 KiB",
            |set| collections(set, SWEET_SPOT_BYTES / 2),
        ),
        rule(
            "record_bytes_max",
            "WATCH",
            "the 99th percentile record takes more than 64 KiB, or the largest one more than 102 KiB",
            |set| large_records(set).or_else(|| records(set, SWEET_SPOT_BYTES / 2)),
        ),
        rule(
            "record_bytes_max_of_limit",
            "WATCH",
            "the largest record takes more than half of what a record may have",
            |set| limit(set, TOWARDS),
        ),
        rule(
            "writes_per_s",
            "WATCH",
            "more than 25 writes a second to one record (--writes-per-s)",
            |set| rate(set, WRITES_PER_SECOND / 2.0),
        ),
        rule(
            "shard_bytes_max",
            "WATCH",
            "the largest shard of a sharded collection takes more than 102 KiB",
            |set| shards(set, THRESHOLDS.near_bytes),
        ),
        rule(
            "sample",
            "WATCH",
            "nothing of that, but only some of the records were measured",
            sample,
        ),
    ]
}

/// Judges a set: the first rule that applies decides.
pub(crate) fn judge(set: &SetFacts<'_>) -> SetVerdict {
    first(&rules(), set).map_or_else(|| fine(set), |(_, found)| found)
}

/// Returns the bin whose collections are heaviest at their 99th percentile.
pub(crate) fn heaviest_collection(stats: &SetStats) -> Option<(&str, &CollectionStats)> {
    stats
        .bins
        .iter()
        .map(|(name, bin)| (name.as_str(), &bin.collections))
        .filter(|(_, found)| found.counts.count() > 0)
        .max_by_key(|(_, found)| (found.sizes.per_mille(990), found.sizes.max()))
}

/// Returns the word for something beyond a bound, or only beyond one that is worth watching.
fn word(is_beyond: bool, remedy: Remedy) -> Word {
    match remedy {
        _ if !is_beyond => Word::Watch,
        Remedy::Shard => Word::Shard,
        _ => Word::Remodel,
    }
}

impl SetFacts<'_> {
    /// Returns whether only some of the records were measured.
    fn is_sample(&self) -> bool {
        self.stats.counted.count() < self.stats.records
    }

    /// Names the largest of the records or collections.
    fn largest(&self, what: &str) -> String {
        if self.is_sample() {
            let (measured, all) = (self.stats.counted.count(), self.stats.records);
            format!(
                "The largest {what} of the {} records sampled of {}",
                count(measured),
                count(all)
            )
        } else if self.stats.judged.count() == 1 {
            format!("The only {what}")
        } else {
            format!("The largest {what}")
        }
    }

    /// Names those at the 99th percentile.
    fn top_percent(&self, what: &str, number: u64) -> (String, &'static str) {
        if number < 100 {
            (self.largest(what), "")
        } else {
            (format!("1 in 100 {what}s"), " or more")
        }
    }

    /// Returns what helps the largest record, and its largest bin.
    fn heaviest_remedy(&self) -> (Remedy, Option<String>) {
        let heaviest = self.stats.heaviest.as_ref();
        let remedy = heaviest.and_then(RecordMeasure::remedy);
        let bin = heaviest.and_then(RecordMeasure::largest_bin);
        (
            remedy.unwrap_or(Remedy::Nothing),
            bin.map(|bin| bin.name.clone()),
        )
    }

    /// Returns what takes writes from the hottest record: the contended one, or else the largest.
    pub(crate) fn remedy_for_rate(&self) -> Remedy {
        match (self.contended, &self.stats.heaviest) {
            (Some(hot), _) => hot.remedy,
            (None, Some(heaviest)) => heaviest.remedy_for_rate(),
            // Nothing but companions.
            (None, None) => Remedy::Shard,
        }
    }

    /// Says why shards do not help the largest record; empty where they do.
    fn why_not(&self, remedy: Remedy) -> String {
        let Some(heaviest) = &self.stats.heaviest else {
            return String::new();
        };
        match remedy {
            Remedy::Nothing | Remedy::Shard => String::new(),
            Remedy::StoreElsewhere => {
                " Most of it is no list or map, and nothing else is sharded.".to_owned()
            }
            Remedy::SeveralRecords => format!(
                " Several of its {} bins make it large: {}.",
                count(heaviest.bins.len() as u64),
                heaviest.bin_shares().join(", ")
            ),
            Remedy::RecordPerEntry | Remedy::NestedToOwnBin => {
                let collection = heaviest
                    .largest_bin()
                    .and_then(|bin| bin.collection.as_ref());
                let obstacle = collection.and_then(|found| found.obstacle.as_ref());
                obstacle.map_or_else(String::new, |found| {
                    format!(" In the largest, {}.", found.words())
                })
            }
        }
    }
}

fn element(set: &SetFacts<'_>) -> Option<SetVerdict> {
    let (bin, found) = heaviest_collection(set.stats)?;
    let p99 = found.sizes.per_mille(990);
    let (_, obstacle) = found.obstacle.as_ref()?;
    let is_common = found.blocked * 2 > found.sizes.beyond(SWEET_SPOT_BYTES);
    (p99 > SWEET_SPOT_BYTES && is_common).then(|| SetVerdict {
        level: Word::Remodel,
        decided_by: "element_bytes",
        value: p99 as f64,
        threshold: SWEET_SPOT_BYTES as f64,
        bin: Some(bin.to_owned()),
        remedy: obstacle.remedy(),
        sentence: format!(
            "{}, and {}.",
            collection_words(set, bin, found, SWEET_SPOT_BYTES),
            obstacle.words()
        ),
        helps: String::new(),
    })
}

/// Judges by what writers have met: refusals are measured, and need no guess of a rate.
fn refusals(set: &SetFacts<'_>, many: u64) -> Option<SetVerdict> {
    let hot = set.contended.filter(|hot| hot.key_busy >= many)?;
    let is_beyond = many == THRESHOLDS.key_busy.0;
    Some(contended(
        hot,
        word(is_beyond, hot.remedy),
        "key_busy",
        (hot.key_busy, many),
    ))
}

fn waits(set: &SetFacts<'_>) -> Option<SetVerdict> {
    let hot = set.contended.filter(|hot| hot.waits >= THRESHOLDS.waits)?;
    Some(contended(
        hot,
        Word::Watch,
        "waits",
        (hot.waits, THRESHOLDS.waits),
    ))
}

fn contended(
    hot: &ContendedRecord,
    level: Word,
    decided_by: &'static str,
    (value, threshold): (u64, u64),
) -> SetVerdict {
    SetVerdict {
        level,
        decided_by,
        value: value as f64,
        threshold: threshold as f64,
        bin: hot.bin.clone(),
        remedy: hot.remedy,
        sentence: format!(
            "Writers of key {} were refused with KEY_BUSY {} times, and had to wait {} times.",
            hot.name(),
            count(hot.key_busy),
            count(hot.waits)
        ),
        helps: String::new(),
    }
}

fn collections(set: &SetFacts<'_>, bound: u64) -> Option<SetVerdict> {
    let (bin, found) = heaviest_collection(set.stats)?;
    let p99 = found.sizes.per_mille(990);
    if p99 <= bound {
        return None;
    }
    // Shards of one of several large bins leave the others.
    let remedy = match set.heaviest_remedy() {
        (Remedy::SeveralRecords, _) => Remedy::SeveralRecords,
        _ => Remedy::Shard,
    };
    Some(SetVerdict {
        level: word(bound == SWEET_SPOT_BYTES, remedy),
        decided_by: "collection_bytes_p99",
        value: p99 as f64,
        threshold: SWEET_SPOT_BYTES as f64,
        remedy,
        sentence: format!(
            "{}.{}",
            collection_words(set, bin, found, bound),
            set.why_not(remedy)
        ),
        helps: String::new(),
        bin: Some(bin.to_owned()),
    })
}

fn collection_words(set: &SetFacts<'_>, bin: &str, found: &CollectionStats, bound: u64) -> String {
    let p99 = found.sizes.per_mille(990);
    let what = if bound < SWEET_SPOT_BYTES {
        format!("{} of", share(p99))
    } else {
        format!("{} times", times(p99, SWEET_SPOT_BYTES))
    };
    let (which, or_more) = set.top_percent("list or map", found.sizes.count());
    format!(
        "{which} in bin {bin} takes {}{or_more}, {what} the 128 KiB that one record should hold",
        bytes(p99)
    )
}

/// Writes the part of the bound of a record.
fn share(size: u64) -> String {
    let percent = size as f64 / SWEET_SPOT_BYTES as f64 * 100.0;
    format!("{} %", decimal(percent, usize::from(percent > 99.0)))
}

/// Writes how many times larger a size is, with a decimal where that says more.
fn times(size: u64, bound: u64) -> String {
    let factor = size as f64 / bound as f64;
    decimal(factor, usize::from(factor < 9.95))
}

fn records(set: &SetFacts<'_>, bound: u64) -> Option<SetVerdict> {
    let judged = &set.stats.judged;
    let p99 = judged.per_mille(990);
    if p99 <= bound {
        return None;
    }
    let is_beyond = bound == SWEET_SPOT_BYTES;
    let common = set
        .stats
        .remedies
        .iter()
        .max_by_key(|(_, records)| **records);
    let (heaviest, bin) = set.heaviest_remedy();
    let remedy = common
        .filter(|_| is_beyond)
        .map_or(heaviest, |(remedy, _)| *remedy);
    let what = if is_beyond {
        "beyond".to_owned()
    } else {
        format!("{} of", share(p99))
    };
    let (which, or_more) = set.top_percent("record", judged.count());
    let sentence = format!(
        "{which} takes {}{or_more}, {what} the 128 KiB that one record should hold.",
        bytes(p99)
    );
    Some(record_verdict(
        set,
        "record_bytes_p99",
        p99,
        (remedy, bin),
        is_beyond,
        sentence,
    ))
}

fn large_records(set: &SetFacts<'_>) -> Option<SetVerdict> {
    let judged = &set.stats.judged;
    let (p99, max) = (judged.per_mille(990), judged.max());
    if max <= THRESHOLDS.near_bytes {
        return None;
    }
    let beyond = match judged.beyond(SWEET_SPOT_BYTES) {
        0 => String::new(),
        beyond => format!("{} of them are beyond 128 KiB, and ", count(beyond)),
    };
    let largest = set.largest("record");
    let sentence = format!(
        "99 of 100 records take at most {}, but {beyond}{}{} takes {}, {} of the 128 KiB that one record should hold.",
        bytes(p99),
        largest.get(..1).unwrap_or_default().to_lowercase(),
        largest.get(1..).unwrap_or_default(),
        bytes(max),
        share(max)
    );
    let remedy = set.heaviest_remedy();
    Some(record_verdict(
        set,
        "record_bytes_max",
        max,
        remedy,
        false,
        sentence,
    ))
}

fn record_verdict(
    set: &SetFacts<'_>,
    decided_by: &'static str,
    value: u64,
    (remedy, bin): (Remedy, Option<String>),
    is_beyond: bool,
    sentence: String,
) -> SetVerdict {
    SetVerdict {
        level: word(is_beyond, remedy),
        decided_by,
        value: value as f64,
        threshold: SWEET_SPOT_BYTES as f64,
        bin,
        remedy,
        sentence: sentence + &set.why_not(remedy),
        helps: String::new(),
    }
}

fn limit(set: &SetFacts<'_>, part: f64) -> Option<SetVerdict> {
    let (cap, max) = (set.max_record_bytes, set.stats.judged.max());
    let taken = max as f64 / cap.max(1) as f64;
    if taken <= part {
        return None;
    }
    let (remedy, bin) = set.heaviest_remedy();
    Some(SetVerdict {
        level: word(part >= NEAR, remedy),
        decided_by: "record_bytes_max_of_limit",
        value: max as f64,
        threshold: part * cap as f64,
        bin,
        remedy,
        sentence: format!(
            "{} takes {}, {} % of the {} that a record may have; beyond that, writes fail with code 13.{}",
            set.largest("record"),
            bytes(max),
            decimal(taken * 100.0, 0),
            bytes(cap),
            set.why_not(remedy),
        ),
        helps: String::new(),
    })
}

fn rate(set: &SetFacts<'_>, bound: f64) -> Option<SetVerdict> {
    let all = set.writes_per_s?;
    // Each shard of a sharded collection takes its part.
    let hottest = set.contended.and_then(|hot| hot.shards);
    let hottest = hottest.or_else(|| {
        set.stats
            .heaviest
            .is_none()
            .then(|| set.stats.shards_max())?
    });
    let rate = all / hottest.unwrap_or(1) as f64;
    let is_beyond = bound >= WRITES_PER_SECOND;
    // Shards are made for up to 50 writes a second each.
    if rate <= bound || (hottest.is_some() && !is_beyond) {
        return None;
    }
    let remedy = set.remedy_for_rate();
    Some(SetVerdict {
        level: word(is_beyond, remedy),
        decided_by: "writes_per_s",
        value: rate,
        threshold: WRITES_PER_SECOND,
        bin: None,
        remedy,
        sentence: format!(
            "Its hottest record is said to take {} writes a second, {} the {WRITES_PER_SECOND} that one record takes well.",
            decimal(rate, 1),
            if is_beyond {
                "beyond"
            } else {
                "more than half of"
            }
        ),
        helps: String::new(),
    })
}

/// Judges the collections that are sharded already, each by its largest shard.
fn shards(set: &SetFacts<'_>, bound: u64) -> Option<SetVerdict> {
    // A sample holds some companions only.
    if set.is_sample() {
        return None;
    }
    let sharded = set.stats.sharded.iter();
    let ((key, bin), found) = sharded.max_by_key(|(_, found)| found.largest_bytes)?;
    let is_beyond = bound == SWEET_SPOT_BYTES;
    (found.largest_bytes > bound).then(|| SetVerdict {
        level: word(is_beyond, Remedy::Shard),
        decided_by: "shard_bytes_max",
        value: found.largest_bytes as f64,
        threshold: SWEET_SPOT_BYTES as f64,
        bin: bin.clone(),
        remedy: Remedy::Shard,
        sentence: format!(
            "The collection of key {key} is in {} shards, of which the largest takes {}, {} the 128 KiB that one record \
             should hold.",
            count(found.companions),
            bytes(found.largest_bytes),
            if is_beyond { "beyond" } else { "near" }
        ),
        helps: String::new(),
    })
}

fn sample(set: &SetFacts<'_>) -> Option<SetVerdict> {
    let judged = &set.stats.judged;
    set.is_sample().then(|| SetVerdict {
        level: Word::Watch,
        decided_by: "sample",
        value: judged.max() as f64,
        threshold: SWEET_SPOT_BYTES as f64,
        bin: None,
        remedy: Remedy::Nothing,
        sentence: format!(
            "{} takes {}, but a record that was not sampled may be larger.",
            set.largest("record"),
            bytes(judged.max())
        ),
        helps: String::new(),
    })
}

fn fine(set: &SetFacts<'_>) -> SetVerdict {
    let judged = &set.stats.judged;
    let sentence = if judged.count() == 0 {
        "All of its records are shards, and each is within 128 KiB.".to_owned()
    } else {
        format!(
            "99 of 100 records take at most {}, and the largest {}: all are within 128 KiB.",
            bytes(judged.per_mille(990)),
            bytes(judged.max())
        )
    };
    SetVerdict {
        level: Word::Ok,
        decided_by: "record_bytes_max",
        value: judged.max() as f64,
        threshold: SWEET_SPOT_BYTES as f64,
        bin: None,
        remedy: Remedy::Nothing,
        sentence,
        helps: String::new(),
    }
}

/// The gravest verdict of all sets, and the records behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Headline {
    /// The gravest verdict of all sets.
    pub(crate) level: Word,
    /// What is so, and what to do.
    pub(crate) sentence: String,
    /// The namespace of the set it is about; `None`: there is no record.
    pub(crate) namespace: Option<String>,
    /// That set.
    pub(crate) set: Option<String>,
    /// The advised number of shards; `None`: shards are not needed, or do not help.
    pub(crate) shards: Option<u64>,
    /// The keys it is about, the one to begin with first; empty if they are not known.
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
    /// Returns the headline of the first set, the one to be acted upon first.
    pub(crate) fn new(sets: &[(SetSizing, SetStats)], contended: &[ContendedRecord]) -> Self {
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
        let of_set = |hot: &&ContendedRecord| {
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
        let is_sharded = set.verdict.level == Word::Shard && set.advice.shards_pow2 > 1;
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

/// Returns the keys of the records that the verdict of a set is about, where they are known.
fn keys(set: &SetSizing, stats: &SetStats, contended: &[&ContendedRecord]) -> Vec<HeadlineKey> {
    let share = |size: u64| size as f64 / set.total_bytes.estimate.max(1) as f64;
    let verdict = &set.verdict;
    if ["key_busy", "waits"].contains(&verdict.decided_by) {
        let of = |hot: &&ContendedRecord| HeadlineKey {
            key: hot.name(),
            bytes: hot.bytes,
            bytes_share: hot.bytes.map(share),
            bin: hot.bin.clone(),
            key_busy: Some(hot.key_busy),
        };
        return contended.iter().take(KEYS_SHOWN).map(of).collect();
    }
    if verdict.decided_by == "shard_bytes_max" {
        let of = |found: &crate::sizing::model::ShardedSizing| HeadlineKey {
            key: found.key.clone(),
            bytes: Some(found.bytes),
            bytes_share: Some(share(found.bytes)),
            bin: found.bin.clone(),
            key_busy: None,
        };
        return set.sharded.iter().take(KEYS_SHOWN).map(of).collect();
    }
    let is_by_rate = verdict.decided_by == "writes_per_s";
    let is_by_bin = ["collection_bytes_p99", "element_bytes"].contains(&verdict.decided_by);
    let records = if is_by_rate {
        &stats.most_written
    } else {
        &stats.largest
    };
    // A verdict on the collections of a bin is about records that have a large one.
    let is_meant = |record: &&RecordMeasure| {
        let of_bin = |bin: &&str| {
            record
                .bin(bin)
                .is_some_and(|bin| bin.bytes as f64 >= verdict.value)
        };
        record.companion.is_none()
            && (!is_by_bin || verdict.bin.as_deref().as_ref().is_some_and(of_bin))
    };
    let of = |record: &RecordMeasure| HeadlineKey {
        key: match (record.key.as_str(), &record.digest) {
            ("", Some(digest)) => format!("(digest {digest})"),
            ("", None) => "(no key)".to_owned(),
            (key, _) => key.to_owned(),
        },
        bytes: Some(record.bytes),
        bytes_share: Some(share(record.bytes)),
        bin: record.largest_bin().map(|bin| bin.name.clone()),
        key_busy: None,
    };
    records
        .iter()
        .filter(is_meant)
        .take(KEYS_SHOWN)
        .map(of)
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
        Word::Shard => {
            let largest = key.and_then(|key| Some((key, key.bytes?)));
            let begins = match largest {
                Some((key, size)) if is_about_size(verdict.decided_by) => format!(
                    "Key {} of {place} takes {}{}.",
                    key.key,
                    bytes(size),
                    match size {
                        size if size > SWEET_SPOT_BYTES => format!(
                            ", {} times the 128 KiB that one record should hold",
                            times(size, SWEET_SPOT_BYTES)
                        ),
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
        Word::Remodel => format!(
            "Sharding does not help {place}. {} {}",
            verdict.sentence, verdict.helps
        ),
        Word::Watch => format!(
            "Nothing has to be sharded yet, but watch {place}. {}",
            verdict.sentence
        ),
        _ => format!(
            "Nothing needs sharding: the largest of {} records in {place} takes {} of the 128 KiB that one record should hold.",
            count(set.records),
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

/// Says what to do about a set, from its verdict and the number of shards advised for it.
pub(crate) fn helps(set: &SetSizing) -> String {
    let (verdict, advice) = (&set.verdict, &set.advice);
    if verdict.level == Word::Ok {
        return String::new();
    }
    if verdict.decided_by == "sample" {
        return "Size all of them to know.".to_owned();
    }
    if verdict.remedy != Remedy::Shard {
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
    let by_time = match verdict.decided_by {
        "key_busy" => " Time shards alone do not help: all writers are in the current bucket.",
        _ if is_hot => " Time shards alone do not help: all writers are in the current bucket.",
        _ => "",
    };
    match advice.shards_pow2 {
        _ if verdict.decided_by == "shard_bytes_max" => {
            let most = set.sharded.first().map_or(1, |found| found.shards);
            format!("Split it into {} shards.", count(most * 2))
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
