//! Verdicts: which set needs something done, and the number that says so.

use spikelet::shard::arithmetic::{SWEET_SPOT_BYTES, WRITES_PER_SECOND};

use super::Options;
use super::measure::RecordMeasure;
use super::model::{Band, ContendedRecord, SetVerdict, Thresholds};
use super::remedy::Remedy;
use super::set_stats::{CollectionStats, SetStats};
use crate::report::{bytes, count, decimal};

/// Beyond this part of the limit of a record's size the next growth may be refused.
const NEAR_LIMIT: f64 = 0.8;
/// Beyond this part of it there is time, but not for ever.
const TOWARDS_LIMIT: f64 = 0.5;

/// The rules.
pub(super) const THRESHOLDS: Thresholds = Thresholds {
    collection_bytes_p99: SWEET_SPOT_BYTES,
    record_bytes: SWEET_SPOT_BYTES,
    writes_per_s: WRITES_PER_SECOND,
    of_max_record: (NEAR_LIMIT, TOWARDS_LIMIT),
    key_busy: (100, 1),
    waits: 1_000,
};

/// Returns how a record of this size at this rate is judged.
pub(super) fn band(bytes: u64, writes_per_s: Option<f64>) -> Band {
    let rate = writes_per_s.unwrap_or(0.0);
    if bytes > SWEET_SPOT_BYTES || rate > WRITES_PER_SECOND {
        Band::Shard
    } else if bytes > SWEET_SPOT_BYTES / 2 || rate > WRITES_PER_SECOND / 2.0 {
        Band::Watch
    } else {
        Band::Ok
    }
}

/// The figures of a set by which it is judged.
pub(super) struct VerdictInput<'a> {
    pub(super) options: &'a Options,
    pub(super) stats: &'a SetStats,
    /// Writes a second to its hottest record.
    pub(super) writes_per_s: Option<f64>,
    /// Its record over which writers fought most.
    pub(super) contended: Option<&'a ContendedRecord>,
}

/// Judges a set: the gravest finding decides, and of equally grave ones the first.
pub(super) fn judge(case: &VerdictInput<'_>) -> SetVerdict {
    let findings = [
        measured(case),
        collections(case),
        records(case),
        limit(case),
        rate(case),
        shards(case),
    ];
    let mut findings = findings.into_iter().flatten();
    let first = findings.next();
    findings
        .fold(first, |gravest, finding| match gravest {
            Some(gravest) if gravest.level >= finding.level => Some(gravest),
            _ => Some(finding),
        })
        .unwrap_or_else(|| fine(case))
}

/// Returns the bin whose collections are heaviest at their 99th percentile.
pub(super) fn heaviest_collection(stats: &SetStats) -> Option<(&str, &CollectionStats)> {
    stats
        .bins
        .iter()
        .map(|(name, bin)| (name.as_str(), &bin.collections))
        .filter(|(_, found)| found.counts.count() > 0)
        .max_by_key(|(_, found)| (found.sizes.per_mille(990), found.sizes.max()))
}

/// Returns the band of something that is too large or too hot, by what helps it.
const fn acted_upon(remedy: Remedy) -> Band {
    match remedy {
        Remedy::Shard => Band::Shard,
        _ => Band::Remodel,
    }
}

/// Judges by what writers have met: refusals and waits are measured, and need no guess of a rate.
fn measured(case: &VerdictInput<'_>) -> Option<SetVerdict> {
    let hot = case.contended?;
    let (many, any) = THRESHOLDS.key_busy;
    let (level, decided_by, value, threshold) = if hot.key_busy >= many {
        (acted_upon(hot.remedy), "key_busy", hot.key_busy, many)
    } else if hot.key_busy >= any {
        (Band::Watch, "key_busy", hot.key_busy, any)
    } else if hot.waits >= THRESHOLDS.waits {
        (Band::Watch, "waits", hot.waits, THRESHOLDS.waits)
    } else {
        return None;
    };
    Some(SetVerdict {
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
    })
}

fn collections(case: &VerdictInput<'_>) -> Option<SetVerdict> {
    let (bin, found) = heaviest_collection(case.stats)?;
    let limit = THRESHOLDS.collection_bytes_p99;
    let p99 = found.sizes.per_mille(990);
    let beyond = found.sizes.beyond(limit);
    let (level, remedy) = match (p99, &found.obstacle) {
        (p99, Some((_, obstacle))) if p99 > limit && found.blocked * 2 > beyond => {
            (Band::Remodel, obstacle.remedy())
        }
        (p99, _) if p99 > limit => (Band::Shard, Remedy::Shard),
        (p99, _) if p99 > limit / 2 => (Band::Watch, Remedy::Shard),
        _ => return None,
    };
    let what = if p99 > limit {
        format!("{} times", times(p99, limit))
    } else {
        "more than half of".to_owned()
    };
    let which = match found.sizes.count() {
        1 => format!("The only list or map in bin {bin} takes {}", bytes(p99)),
        few if few < 100 => {
            format!("The largest list or map in bin {bin} takes {}", bytes(p99))
        }
        _ => format!(
            "1 in 100 lists or maps in bin {bin} takes {} or more",
            bytes(p99)
        ),
    };
    let obstacle = found.obstacle.as_ref().filter(|_| level == Band::Remodel);
    let why = obstacle.map_or_else(String::new, |(_, obstacle)| {
        format!(", and {}", obstacle.words())
    });
    Some(SetVerdict {
        level,
        decided_by: "collection_bytes_p99",
        value: p99 as f64,
        threshold: limit as f64,
        remedy,
        sentence: format!("{which}, {what} the 128 KiB that one record should hold{why}."),
        helps: String::new(),
        bin: Some(bin.to_owned()),
    })
}

/// Writes how many times larger a size is, with a decimal where that says more.
fn times(size: u64, limit: u64) -> String {
    let factor = size as f64 / limit as f64;
    decimal(factor, usize::from(factor < 9.95))
}

/// Returns what helps most of the records beyond 128 KiB.
fn common_remedy(stats: &SetStats) -> Remedy {
    let most = stats.remedies.iter().max_by_key(|(_, records)| **records);
    most.map_or(Remedy::Nothing, |(remedy, _)| *remedy)
}

/// Returns what helps the largest record, and its largest bin.
fn heaviest_remedy(stats: &SetStats) -> (Remedy, Option<String>) {
    let heaviest = stats.heaviest.as_ref();
    let remedy = heaviest.and_then(RecordMeasure::remedy);
    let bin = heaviest.and_then(RecordMeasure::largest_bin);
    (
        remedy.unwrap_or(Remedy::Nothing),
        bin.map(|bin| bin.name.clone()),
    )
}

/// Says why shards do not help a record, as a sentence of its own; empty where they do.
fn why_not(stats: &SetStats, remedy: Remedy) -> String {
    let Some(heaviest) = &stats.heaviest else {
        return String::new();
    };
    let largest = heaviest.largest_bin();
    match remedy {
        Remedy::Nothing | Remedy::Shard => String::new(),
        Remedy::StoreElsewhere => {
            " Most of it is no list or map, and nothing else is sharded.".to_owned()
        }
        Remedy::SeveralRecords => format!(
            " It has {} bins, of which none takes more than {}.",
            count(heaviest.bins.len() as u64),
            bytes(largest.map_or(0, |bin| bin.bytes))
        ),
        Remedy::RecordPerEntry | Remedy::NestedToOwnBin => {
            let collection = largest.and_then(|bin| bin.collection.as_ref());
            let obstacle = collection.and_then(|found| found.obstacle.as_ref());
            obstacle.map_or_else(String::new, |found| {
                format!(" In the largest, {}.", found.words())
            })
        }
    }
}

fn records(case: &VerdictInput<'_>) -> Option<SetVerdict> {
    let judged = &case.stats.judged;
    let (p99, max) = (judged.per_mille(990), judged.max());
    let limit = THRESHOLDS.record_bytes;
    let (p99_size, max_size) = (bytes(p99), bytes(max));
    let (common, (heaviest, bin)) = (common_remedy(case.stats), heaviest_remedy(case.stats));
    let (level, decided_by, value, remedy, sentence) = if p99 > limit {
        let which = match judged.count() {
            1 => format!("The only record takes {p99_size}"),
            few if few < 100 => format!("The largest record takes {max_size}"),
            _ => format!("1 in 100 records takes {p99_size} or more"),
        };
        let sentence = format!("{which}, beyond the 128 KiB that one record should hold.");
        (
            acted_upon(common),
            "record_bytes_p99",
            p99,
            common,
            sentence,
        )
    } else if max > limit {
        let sentence = format!(
            "99 of 100 records take at most {p99_size}, but {} of them are beyond 128 KiB, and the largest takes {max_size}.",
            count(judged.beyond(limit)),
        );
        (Band::Watch, "record_bytes_max", max, heaviest, sentence)
    } else if p99 > limit / 2 {
        let sentence = format!(
            "1 in 100 records takes {p99_size} or more, more than half of the 128 KiB that one record should hold."
        );
        (Band::Watch, "record_bytes_p99", p99, heaviest, sentence)
    } else {
        return None;
    };
    Some(SetVerdict {
        level,
        decided_by,
        value: value as f64,
        threshold: limit as f64,
        bin,
        remedy,
        sentence: sentence + &why_not(case.stats, remedy),
        helps: String::new(),
    })
}

fn limit(case: &VerdictInput<'_>) -> Option<SetVerdict> {
    let (cap, max) = (case.options.max_record_bytes, case.stats.judged.max());
    let part = max as f64 / cap.max(1) as f64;
    let (near, towards) = THRESHOLDS.of_max_record;
    let (remedy, bin) = heaviest_remedy(case.stats);
    let (level, threshold) = match part {
        part if part > near => (acted_upon(remedy), near),
        part if part > towards => (Band::Watch, towards),
        _ => return None,
    };
    Some(SetVerdict {
        level,
        decided_by: "record_bytes_max_of_limit",
        value: max as f64,
        threshold: threshold * cap as f64,
        bin,
        remedy,
        sentence: format!(
            "The largest record takes {}, {} % of the {} that a record may have; beyond that, writes fail with code 13.{}",
            bytes(max),
            decimal(part * 100.0, 0),
            bytes(cap),
            why_not(case.stats, remedy),
        ),
        helps: String::new(),
    })
}

fn rate(case: &VerdictInput<'_>) -> Option<SetVerdict> {
    let rate = case.writes_per_s?;
    let what = match band(0, Some(rate)) {
        Band::Ok => return None,
        Band::Watch => "more than half of",
        Band::Remodel | Band::Shard => "beyond",
    };
    let remedy = remedy_for_rate(case);
    Some(SetVerdict {
        level: match band(0, Some(rate)) {
            Band::Shard => acted_upon(remedy),
            calmer => calmer,
        },
        decided_by: "writes_per_s",
        value: rate,
        threshold: THRESHOLDS.writes_per_s,
        bin: None,
        remedy,
        sentence: format!(
            "Its hottest record is said to take {} writes a second, {what} the {WRITES_PER_SECOND} that one record takes well.",
            decimal(rate, 1)
        ),
        helps: String::new(),
    })
}

/// Returns what takes writes from the hottest record: the contended one, or else the largest.
pub(super) fn remedy_for_rate(case: &VerdictInput<'_>) -> Remedy {
    match (case.contended, &case.stats.heaviest) {
        (Some(hot), _) => hot.remedy,
        (None, Some(heaviest)) => heaviest.remedy_for_rate(),
        // Nothing but companions.
        (None, None) => Remedy::Shard,
    }
}

/// Judges the collections that are sharded already, each by its largest shard.
fn shards(case: &VerdictInput<'_>) -> Option<SetVerdict> {
    // A sample holds some companions only.
    if case.options.sample.is_some() {
        return None;
    }
    let sharded = case.stats.sharded.iter();
    let ((key, bin), found) = sharded.max_by_key(|(_, found)| found.largest_bytes)?;
    let limit = THRESHOLDS.record_bytes;
    (found.largest_bytes > limit).then(|| SetVerdict {
        level: Band::Shard,
        decided_by: "shard_bytes_max",
        value: found.largest_bytes as f64,
        threshold: limit as f64,
        bin: bin.clone(),
        remedy: Remedy::Shard,
        sentence: format!(
            "The collection of key {key} is in {} shards, of which the largest takes {}, beyond the 128 KiB that one record \
             should hold.",
            count(found.companions),
            bytes(found.largest_bytes)
        ),
        helps: String::new(),
    })
}

fn fine(case: &VerdictInput<'_>) -> SetVerdict {
    let judged = &case.stats.judged;
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
        level: Band::Ok,
        decided_by: "record_bytes_max",
        value: judged.max() as f64,
        threshold: THRESHOLDS.record_bytes as f64,
        bin: None,
        remedy: Remedy::Nothing,
        sentence,
        helps: String::new(),
    }
}
