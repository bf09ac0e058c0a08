//! The part of the metadata that serves followers of changes (`docs/format.md`).

use crate::reader::FieldReader;

/// Truncations that are kept; beyond it, the oldest count as lost.
const TRUNCATIONS_MAX: usize = 1_000;

/// Stands for all sets.
const ALL_SETS: u16 = u16::MAX;

/// A set with followed changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FedSet {
    pub(crate) number: u16,
    pub(crate) since: u64,
}

/// A truncation that a follower may not have read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TruncationEvent {
    pub(crate) lsn: u64,
    /// `None`: all sets.
    pub(crate) set: Option<u16>,
    pub(crate) before_ms: Option<u64>,
    /// The truncation is durable once this number is. 0: it is, since the namespace was opened
    /// after it.
    pub(crate) noted: u64,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Feed {
    pub(crate) lost_to: u64,
    pub(crate) sets: Vec<FedSet>,
    pub(crate) truncations: Vec<TruncationEvent>,
}

impl Feed {
    pub(crate) fn has(&self, set: u16) -> bool {
        self.sets.iter().any(|fed| fed.number == set)
    }

    /// Whether a change of a set can be followed.
    pub(crate) fn covers(&self, set: u16, lsn: u64) -> bool {
        let mut sets = self.sets.iter();
        sets.any(|fed| fed.number == set && lsn > fed.since)
    }

    /// Whether a truncation concerns a followed set.
    pub(crate) fn covers_truncation(&self, event: &TruncationEvent) -> bool {
        match event.set {
            Some(set) => self.covers(set, event.lsn),
            None => self.sets.iter().any(|fed| event.lsn > fed.since),
        }
    }

    pub(crate) fn note_truncation(&mut self, event: TruncationEvent) {
        if !self.covers_truncation(&event) {
            return;
        }
        self.truncations.push(event);
        if self.truncations.len() > TRUNCATIONS_MAX {
            let oldest = self.truncations.remove(0);
            self.lost_to = self.lost_to.max(oldest.lsn);
        }
    }

    pub(crate) fn set_noted(&mut self, lsn: u64, noted: u64) {
        if let Some(event) = self.truncations.iter_mut().find(|event| event.lsn == lsn) {
            event.noted = noted;
        }
    }

    /// Changes up to a number may be lost from now on.
    pub(crate) fn lose_to(&mut self, lsn: u64) {
        self.lost_to = self.lost_to.max(lsn);
        let lost_to = self.lost_to;
        self.truncations.retain(|event| event.lsn > lost_to);
    }

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.lost_to.to_le_bytes());
        bytes.extend((self.sets.len() as u16).to_le_bytes());
        for set in &self.sets {
            bytes.extend(set.number.to_le_bytes());
            bytes.extend(set.since.to_le_bytes());
        }
        bytes.extend((self.truncations.len() as u16).to_le_bytes());
        for event in &self.truncations {
            bytes.extend(event.lsn.to_le_bytes());
            bytes.extend(event.set.unwrap_or(ALL_SETS).to_le_bytes());
            bytes.extend(event.before_ms.unwrap_or_default().to_le_bytes());
        }
    }

    pub(crate) fn decode(reader: &mut FieldReader<'_>) -> Option<Self> {
        let lost_to = reader.u64()?;
        let sets = (0..reader.u16()?)
            .map(|_| {
                Some(FedSet {
                    number: reader.u16()?,
                    since: reader.u64()?,
                })
            })
            .collect::<Option<_>>()?;
        let truncations = (0..reader.u16()?)
            .map(|_| {
                Some(TruncationEvent {
                    lsn: reader.u64()?,
                    set: Some(reader.u16()?).filter(|set| *set != ALL_SETS),
                    before_ms: Some(reader.u64()?).filter(|time| *time != 0),
                    noted: 0,
                })
            })
            .collect::<Option<_>>()?;
        Some(Self {
            lost_to,
            sets,
            truncations,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_survives_its_stored_form() {
        let mut feed = Feed {
            lost_to: 7,
            sets: vec![FedSet {
                number: 3,
                since: 10,
            }],
            truncations: Vec::new(),
        };
        let event = |lsn, set, before_ms| TruncationEvent {
            lsn,
            set,
            before_ms,
            noted: 0,
        };
        feed.note_truncation(event(12, Some(3), Some(99)));
        feed.note_truncation(event(13, Some(4), None));
        feed.note_truncation(event(14, None, None));
        assert_eq!(feed.truncations.len(), 2, "that of set 4 concerns nobody");
        let mut bytes = Vec::new();
        feed.encode(&mut bytes);
        assert_eq!(Feed::decode(&mut FieldReader(&bytes)), Some(feed.clone()));
        for length in 0..bytes.len() {
            assert_eq!(Feed::decode(&mut FieldReader(&bytes[..length])), None);
        }
        feed.lose_to(12);
        assert_eq!((feed.lost_to, feed.truncations.len()), (12, 1));
    }

    #[test]
    fn truncations_beyond_the_limit_count_as_lost() {
        let mut feed = Feed {
            sets: vec![FedSet {
                number: 1,
                since: 0,
            }],
            ..Feed::default()
        };
        for lsn in 1..=TRUNCATIONS_MAX as u64 + 2 {
            feed.note_truncation(TruncationEvent {
                lsn,
                set: Some(1),
                before_ms: None,
                noted: 0,
            });
        }
        assert_eq!((feed.lost_to, feed.truncations.len()), (2, TRUNCATIONS_MAX));
    }
}
