//! Verdicts: which set is to be sharded, and the number that says so.

use spikelet::shard::arithmetic::{SWEET_SPOT_BYTES, WRITES_PER_SECOND};

use super::Options;
use super::model::{Band, BinSizing, SetVerdict, Thresholds};
use super::size_histogram::Distribution;
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
    pub(super) bytes: &'a Distribution,
    pub(super) bins: &'a [BinSizing],
    /// Whether most of the largest record is a list or map.
    pub(super) largest_is_collection: bool,
}

/// Judges a set: the gravest finding decides, and of equally grave ones the first.
pub(super) fn judge(case: &VerdictInput<'_>) -> SetVerdict {
    let findings = [collections(case), records(case), limit(case), rate(case)];
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
pub(super) fn heaviest_collection(bins: &[BinSizing]) -> Option<&BinSizing> {
    let weight = |bin: &&BinSizing| bin.collection.as_ref().map_or(0, |found| found.bytes_p99);
    bins.iter()
        .filter(|bin| bin.collection.is_some())
        .max_by_key(weight)
}

fn collections(case: &VerdictInput<'_>) -> Option<SetVerdict> {
    let bin = heaviest_collection(case.bins)?;
    let found = bin.collection.as_ref()?;
    let level = match found.bytes_p99 {
        bytes if bytes > THRESHOLDS.collection_bytes_p99 => Band::Shard,
        bytes if bytes > THRESHOLDS.collection_bytes_p99 / 2 => Band::Watch,
        _ => return None,
    };
    let what = if level == Band::Shard {
        "beyond"
    } else {
        "more than half of"
    };
    Some(SetVerdict {
        level,
        decided_by: "collection_bytes_p99",
        value: found.bytes_p99 as f64,
        threshold: THRESHOLDS.collection_bytes_p99 as f64,
        sentence: format!(
            "1 in 100 collections in bin {} has {} elements or more, of {} bytes each on average: {}, {what} the 128 KiB \
             that one record should hold.",
            bin.bin,
            count(found.count.p99),
            decimal(found.element_bytes, 1),
            bytes(found.bytes_p99),
        ),
        bin: Some(bin.bin.clone()),
    })
}

fn records(case: &VerdictInput<'_>) -> Option<SetVerdict> {
    let Distribution { p99, max, .. } = *case.bytes;
    let limit = THRESHOLDS.record_bytes;
    let (p99_size, max_size) = (bytes(p99), bytes(max));
    let (level, decided_by, value, sentence) = if p99 > limit && case.largest_is_collection {
        let sentence = format!(
            "1 in 100 records takes {p99_size} or more, beyond the 128 KiB that one record should hold."
        );
        (Band::Shard, "record_bytes_p99", p99, sentence)
    } else if p99 > limit {
        let sentence = format!(
            "1 in 100 records takes {p99_size} or more, but most of it is no list or map that could be sharded: keep the \
             large value elsewhere, or cut it into pieces."
        );
        (Band::Watch, "record_bytes_p99", p99, sentence)
    } else if max > limit {
        let sentence = format!(
            "99 of 100 records take at most {p99_size}, but the largest takes {max_size}: shard the few that are beyond \
             128 KiB."
        );
        (Band::Watch, "record_bytes_max", max, sentence)
    } else if p99 > limit / 2 {
        let sentence = format!(
            "1 in 100 records takes {p99_size} or more, more than half of the 128 KiB that one record should hold."
        );
        (Band::Watch, "record_bytes_p99", p99, sentence)
    } else {
        return None;
    };
    Some(SetVerdict {
        level,
        decided_by,
        value: value as f64,
        threshold: limit as f64,
        bin: None,
        sentence,
    })
}

fn limit(case: &VerdictInput<'_>) -> Option<SetVerdict> {
    let cap = case.options.max_record_bytes;
    let part = case.bytes.max as f64 / cap.max(1) as f64;
    let (near, towards) = THRESHOLDS.of_max_record;
    let level = match part {
        part if part > near && case.largest_is_collection => Band::Shard,
        part if part > towards => Band::Watch,
        _ => return None,
    };
    Some(SetVerdict {
        level,
        decided_by: "record_bytes_max_of_limit",
        value: case.bytes.max as f64,
        threshold: (if level == Band::Shard { near } else { towards }) * cap as f64,
        bin: None,
        sentence: format!(
            "The largest record takes {}, {} % of the {} that a record may have; beyond that, writes fail with code 13.",
            bytes(case.bytes.max),
            decimal(part * 100.0, 0),
            bytes(cap)
        ),
    })
}

fn rate(case: &VerdictInput<'_>) -> Option<SetVerdict> {
    let rate = case.options.writes_per_s?;
    let level = band(0, Some(rate));
    let what = match level {
        Band::Ok => return None,
        Band::Watch => "more than half of",
        Band::Shard => "beyond",
    };
    Some(SetVerdict {
        level,
        decided_by: "writes_per_s",
        value: rate,
        threshold: THRESHOLDS.writes_per_s,
        bin: None,
        sentence: format!(
            "Its hottest record is said to take {} writes a second, {what} the {WRITES_PER_SECOND} that one record takes well.",
            decimal(rate, 1)
        ),
    })
}

fn fine(case: &VerdictInput<'_>) -> SetVerdict {
    SetVerdict {
        level: Band::Ok,
        decided_by: "record_bytes_max",
        value: case.bytes.max as f64,
        threshold: THRESHOLDS.record_bytes as f64,
        bin: None,
        sentence: format!(
            "99 of 100 records take at most {}, and the largest {}: all are within 128 KiB.",
            bytes(case.bytes.p99),
            bytes(case.bytes.max)
        ),
    }
}
