//! The latest transitions of sharded collections that handles of this process have carried on: what
//! a monitor shows. A fixed number of them, and nothing of a write that meets no transition.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::Key;
use crate::record::ShardTransition;

/// How many transitions are remembered.
const TRANSITIONS_KEPT: usize = 64;

/// For how long a caller that is late may still report on a transition that another has ended.
const LATE_MS: u64 = 10_000;

/// The progress of a transition, as a worker on it reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransitionReport<'a> {
    /// The key of the root.
    pub key: &'a Key<'static>,
    /// The bin of the collection.
    pub bin: &'a str,
    /// What becomes of its shards.
    pub transition: ShardTransition,
    /// How many there were before; 0: it was in one record.
    pub shards: u64,
    /// Companions that are done.
    pub done: u64,
    /// Companions in all.
    pub total: u64,
    /// Whether it is at its end.
    pub ended: bool,
    /// Why it was not begun, though the collection's policy asked for it.
    pub refused: Option<&'a str>,
}

/// A transition of a sharded collection that a handle of this process has carried on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentTransition {
    /// The set of the root.
    pub set: Box<str>,
    /// The key of the root.
    pub key: Key<'static>,
    /// The bin of the collection.
    pub bin: Box<str>,
    /// What becomes of its shards.
    pub transition: ShardTransition,
    /// How many there were before; 0: it was in one record.
    pub shards: u64,
    /// Companions that are done.
    pub done: u64,
    /// Companions in all.
    pub total: u64,
    /// Whether it is at its end. A transition that its caller has left stays as it is until the
    /// next writer carries it on.
    pub ended: bool,
    /// Why it was not begun, though the collection's policy asked for it: writes go on as before,
    /// and the policy tries again.
    pub refused: Option<Box<str>>,
    /// When it was first reported, in milliseconds since 2010.
    pub began_ms: u64,
    /// When it was last reported, in milliseconds since 2010.
    pub reported_ms: u64,
}

impl RecentTransition {
    fn is_of(&self, set: &str, report: &TransitionReport<'_>) -> bool {
        *self.set == *set && self.key == *report.key && *self.bin == *report.bin
    }

    /// Whether a report that comes now is about this transition, and not about a later one of the
    /// same kind.
    fn takes(&self, report: &TransitionReport<'_>, now_ms: u64) -> bool {
        let same = self.transition == report.transition && self.shards == report.shards;
        same && (!self.ended || now_ms.saturating_sub(self.reported_ms) < LATE_MS)
    }
}

/// The latest transitions of a namespace.
#[derive(Debug, Default)]
pub(super) struct TransitionLog {
    /// The oldest first.
    recent: Mutex<VecDeque<RecentTransition>>,
}

impl TransitionLog {
    pub(super) fn note(&self, set: &str, report: &TransitionReport<'_>, now_ms: u64) {
        let mut recent = self.recent.lock();
        let mut latest = recent.iter_mut().rev();
        if let Some(known) = latest.find(|known| known.is_of(set, report))
            && known.takes(report, now_ms)
        {
            known.done = known.done.max(report.done);
            known.total = known.total.max(report.total);
            known.ended |= report.ended;
            known.refused = report.refused.map(Into::into);
            known.reported_ms = now_ms;
            return;
        }
        if recent.len() == TRANSITIONS_KEPT {
            recent.pop_front();
        }
        recent.push_back(RecentTransition {
            set: set.into(),
            key: report.key.clone(),
            bin: report.bin.into(),
            transition: report.transition,
            shards: report.shards,
            done: report.done,
            total: report.total,
            ended: report.ended,
            refused: report.refused.map(Into::into),
            began_ms: now_ms,
            reported_ms: now_ms,
        });
    }

    /// The transitions, the latest first.
    pub(super) fn latest(&self) -> Vec<RecentTransition> {
        let recent = self.recent.lock();
        recent.iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(log: &TransitionLog, key: i64, shards: u64, done: u64, ended: bool, now_ms: u64) {
        let report = TransitionReport {
            key: &Key::Integer(key),
            bin: "by",
            transition: ShardTransition::Splitting,
            shards,
            done,
            total: 4,
            ended,
            refused: None,
        };
        log.note("followers", &report, now_ms);
    }

    fn seen(log: &TransitionLog) -> Vec<(u64, u64, bool, u64)> {
        let latest = log.latest().into_iter();
        latest
            .map(|known| (known.shards, known.done, known.ended, known.began_ms))
            .collect()
    }

    #[test]
    fn reports_of_several_callers_on_one_transition_are_one_entry() {
        let log = TransitionLog::default();
        note(&log, 1, 2, 0, false, 10);
        note(&log, 1, 2, 3, false, 11);
        note(&log, 1, 2, 1, false, 12);
        note(&log, 1, 2, 4, true, 13);
        // Late ones do not begin it again.
        note(&log, 1, 2, 2, false, 14);
        assert_eq!(seen(&log), [(2, 4, true, 10)]);
        // The next one is another, and so is the same one much later.
        note(&log, 1, 4, 0, true, 15);
        note(&log, 1, 2, 1, false, 16);
        note(&log, 2, 2, 0, true, 17);
        note(&log, 2, 2, 1, false, 17 + LATE_MS);
        let later = 17 + LATE_MS;
        assert_eq!(
            seen(&log),
            [
                (2, 1, false, later),
                (2, 0, true, 17),
                (2, 1, false, 16),
                (4, 0, true, 15),
                (2, 4, true, 10)
            ]
        );
    }

    #[test]
    fn only_the_latest_are_kept() {
        let log = TransitionLog::default();
        (0..200).for_each(|key| note(&log, key, 2, 0, true, key as u64));
        let latest = log.latest();
        assert_eq!(latest.len(), TRANSITIONS_KEPT);
        assert_eq!(latest[0].key, Key::Integer(199));
    }
}
