//! The rules of a set, each with the sentence that it finds.

use spikelet::shard::arithmetic::{SWEET_SPOT_BYTES, WRITES_PER_SECOND};

use super::{NEAR, SetFacts, THRESHOLDS, bound_text, heaviest_collection, word};
use crate::report::{bytes, count, decimal, short};
use crate::sizing::model::{RecordSizing, SetVerdict};
use crate::sizing::remedy::SizeRemedy;
use crate::sizing::set_stats::CollectionStats;
use crate::verdict::Word;

/// Builds a verdict: the number that has decided and its bound, and the remedy with the bin that it
/// is about.
fn verdict(
    level: Word,
    decided_by: &'static str,
    (value, threshold): (f64, f64),
    (remedy, bin): (SizeRemedy, Option<String>),
    sentence: String,
) -> SetVerdict {
    SetVerdict {
        level,
        decided_by,
        value,
        threshold,
        bin,
        remedy,
        sentence,
        helps: String::new(),
    }
}

/// The bound of a record, to compare with.
const BOUND: f64 = SWEET_SPOT_BYTES as f64;
/// Where nothing is to be done about any bin.
const NO_HELP: (SizeRemedy, Option<String>) = (SizeRemedy::Nothing, None);

pub(super) fn element(set: &SetFacts<'_>) -> Option<SetVerdict> {
    let (bin, found) = heaviest_collection(set.stats)?;
    let p99 = found.sizes.per_mille(990);
    let (_, obstacle) = found.obstacle.as_ref()?;
    let is_common = found.blocked * 2 > found.sizes.beyond(set.stats.shard_bytes_max);
    (p99 > SWEET_SPOT_BYTES && is_common).then(|| {
        let begins = collection_words(set, bin, found, SWEET_SPOT_BYTES);
        let sentence = format!("{begins}, and {}.", set.obstacle_words(obstacle));
        let helps = (obstacle.remedy(), Some(bin.to_owned()));
        let figures = (p99 as f64, BOUND);
        verdict(Word::Remodel, "element_bytes", figures, helps, sentence)
    })
}

/// Judges by refusals: they are measured, and need no guess of a rate.
pub(super) fn refusals(set: &SetFacts<'_>, many: u64) -> Option<SetVerdict> {
    let hot = set.contended.filter(|hot| hot.key_busy >= Some(many))?;
    let is_beyond = many == THRESHOLDS.key_busy.0;
    let level = word(is_beyond, hot.remedy.unwrap_or_default());
    Some(contended(hot, level, "key_busy", (hot.key_busy, many)))
}

pub(super) fn waits(set: &SetFacts<'_>) -> Option<SetVerdict> {
    let many = THRESHOLDS.waits;
    let hot = set.contended.filter(|hot| hot.waits >= Some(many))?;
    Some(contended(hot, Word::Watch, "waits", (hot.waits, many)))
}

fn contended(
    hot: &RecordSizing,
    level: Word,
    decided_by: &'static str,
    (value, threshold): (Option<u64>, u64),
) -> SetVerdict {
    let [refusals, waits] = [hot.key_busy, hot.waits].map(|times| count(times.unwrap_or(0)));
    let sentence = format!(
        "Writers of key {} were refused with KEY_BUSY {refusals} times, and had to wait {waits} times.",
        hot.name()
    );
    let figures = (value.unwrap_or(0) as f64, threshold as f64);
    let helps = (hot.remedy.unwrap_or_default(), hot.bin.clone());
    verdict(level, decided_by, figures, helps, sentence)
}

pub(super) fn collections(set: &SetFacts<'_>, bound: u64) -> Option<SetVerdict> {
    let (bin, found) = heaviest_collection(set.stats)?;
    let p99 = found.sizes.per_mille(990);
    if p99 <= bound {
        return None;
    }
    // Shards of one of several large bins leave the others.
    let remedy = match set.heaviest_remedy() {
        (SizeRemedy::SeveralRecords, _) => SizeRemedy::SeveralRecords,
        _ => SizeRemedy::Shard,
    };
    let begins = collection_words(set, bin, found, bound);
    let level = word(bound == SWEET_SPOT_BYTES, remedy);
    let (figures, helps) = ((p99 as f64, BOUND), (remedy, Some(bin.to_owned())));
    let sentence = format!("{begins}.{}", set.why_not(remedy));
    Some(verdict(
        level,
        "collection_bytes_p99",
        figures,
        helps,
        sentence,
    ))
}

fn collection_words(set: &SetFacts<'_>, bin: &str, found: &CollectionStats, bound: u64) -> String {
    let p99 = found.sizes.per_mille(990);
    let most = set.stats.shard_bytes_max;
    let what = if bound < SWEET_SPOT_BYTES {
        share(p99, most)
    } else {
        excess(p99, most)
    };
    let (which, or_more) = set.top_percent("list or map", found.sizes.count());
    format!(
        "{which} in bin {bin} takes {}{or_more}, {what} the {} that one record should hold",
        bytes(p99),
        bound_text(most)
    )
}

/// Writes the part of what one record should hold: `82 % of`.
fn share(size: u64, most: u64) -> String {
    let percent = size as f64 / most as f64 * 100.0;
    format!("{} % of", decimal(percent, usize::from(percent > 99.0)))
}

/// Writes how far a size is beyond what one record should hold: `1.5 times`, `beyond`.
pub(super) fn excess(size: u64, most: u64) -> String {
    match size as f64 / most as f64 {
        factor if factor < 1.05 => "beyond".to_owned(),
        factor => format!("{} times", decimal(factor, usize::from(factor < 9.95))),
    }
}

pub(super) fn records(set: &SetFacts<'_>, bound: u64) -> Option<SetVerdict> {
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
    let most = set.stats.shard_bytes_max;
    let what = if is_beyond {
        "beyond".to_owned()
    } else {
        share(p99, most)
    };
    let (which, or_more) = set.top_percent("record", judged.count());
    let sentence = format!(
        "{which} takes {}{or_more}, {what} the {} that one record should hold.",
        bytes(p99),
        bound_text(most)
    );
    let (level, figures) = (word(is_beyond, remedy), (p99 as f64, BOUND));
    let (helps, sentence) = ((remedy, bin), sentence + &set.why_not(remedy));
    Some(verdict(level, "record_bytes_p99", figures, helps, sentence))
}

pub(super) fn large_records(set: &SetFacts<'_>) -> Option<SetVerdict> {
    let judged = &set.stats.judged;
    let (p99, max) = (judged.per_mille(990), judged.max());
    if max <= THRESHOLDS.near_bytes {
        return None;
    }
    let beyond = match judged.beyond(SWEET_SPOT_BYTES) {
        0 => String::new(),
        beyond => format!("{} of them are beyond 128 KiB, and ", count(beyond)),
    };
    let (largest, most) = (set.largest("record"), set.stats.shard_bytes_max);
    let sentence = format!(
        "99 of 100 records take at most {}, but {beyond}{}{} takes {}, {} the {} that one record should hold.",
        bytes(p99),
        largest.get(..1).unwrap_or_default().to_lowercase(),
        largest.get(1..).unwrap_or_default(),
        bytes(max),
        share(max, most),
        bound_text(most)
    );
    let (level, helps) = (Word::Watch, set.heaviest_remedy());
    let (figures, sentence) = ((max as f64, BOUND), sentence + &set.why_not(helps.0));
    Some(verdict(level, "record_bytes_max", figures, helps, sentence))
}

pub(super) fn limit(set: &SetFacts<'_>, part: f64) -> Option<SetVerdict> {
    let (cap, max) = (set.max_record_bytes, set.stats.judged.max());
    let taken = max as f64 / cap.max(1) as f64;
    if taken <= part {
        return None;
    }
    let (remedy, bin) = set.heaviest_remedy();
    let sentence = format!(
        "{} takes {}, {} % of the {} that a record may have; beyond that, writes fail with code 13.{}",
        set.largest("record"),
        bytes(max),
        decimal(taken * 100.0, 0),
        bytes(cap),
        set.why_not(remedy),
    );
    let (level, helps) = (word(part >= NEAR, remedy), (remedy, bin));
    let (decided_by, figures) = ("record_bytes_max_of_limit", (max as f64, part * cap as f64));
    Some(verdict(level, decided_by, figures, helps, sentence))
}

pub(super) fn rate(set: &SetFacts<'_>, bound: f64) -> Option<SetVerdict> {
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
    let (level, figures) = (word(is_beyond, remedy), (rate, WRITES_PER_SECOND));
    let beyond = if is_beyond {
        "beyond"
    } else {
        "more than half of"
    };
    let sentence = format!(
        "Its hottest record is said to take {} writes a second, {beyond} the {WRITES_PER_SECOND} that one record takes well.",
        short(rate)
    );
    let helps = (remedy, None);
    Some(verdict(level, "writes_per_s", figures, helps, sentence))
}

/// Judges the collections that are sharded already, each by its largest shard.
pub(super) fn shards(set: &SetFacts<'_>, bound: u64) -> Option<SetVerdict> {
    // A sample holds some companions only.
    if set.is_sample() {
        return None;
    }
    let sharded = set.stats.sharded.iter();
    let ((key, bin), found) = sharded.max_by_key(|(_, found)| found.largest_bytes)?;
    let most = set.stats.shard_bytes_max;
    let is_beyond = bound == most;
    (found.largest_bytes > bound).then(|| {
        let sentence = format!(
            "The collection of key {key} is in {} shards, of which the largest takes {}, {} the {} that one record \
             should hold.",
            count(found.companions),
            bytes(found.largest_bytes),
            if is_beyond { "beyond" } else { "near" },
            bound_text(most)
        );
        let (level, helps) = (word(is_beyond, SizeRemedy::Shard), (SizeRemedy::Shard, bin.clone()));
        let figures = (found.largest_bytes as f64, most as f64);
        verdict(level, "shard_bytes_max", figures, helps, sentence)
    })
}

pub(super) fn sample(set: &SetFacts<'_>) -> Option<SetVerdict> {
    let judged = &set.stats.judged;
    set.is_sample().then(|| {
        let sentence = format!(
            "{} takes {}, but a record that was not sampled may be larger.",
            set.largest("record"),
            bytes(judged.max())
        );
        let figures = (judged.max() as f64, BOUND);
        verdict(Word::Watch, "sample", figures, NO_HELP, sentence)
    })
}

pub(super) fn fine(set: &SetFacts<'_>) -> SetVerdict {
    let judged = &set.stats.judged;
    let bound = bound_text(set.stats.shard_bytes_max);
    let sentence = if judged.count() == 0 {
        format!("All of its records are shards, and each is within {bound}.")
    } else {
        format!(
            "99 of 100 records take at most {}, and the largest {}: all are within {bound}.",
            bytes(judged.per_mille(990)),
            bytes(judged.max())
        )
    };
    let figures = (judged.max() as f64, BOUND);
    verdict(Word::Ok, "record_bytes_max", figures, NO_HELP, sentence)
}
