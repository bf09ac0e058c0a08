//! What the root of time shards says, and the companions that hold their buckets.
//!
//! Root: `subkeys` = `["time-shards", "hourly" or "daily"]`, the number of shards of a bucket behind it if it has more than
//! one, and `"deleting"` at the end while it is being deleted; `subkeys_epoch` and `subkeys_bin` as for hash shards;
//! `subkeys_span` = `[first, last]`, the beginnings of the first and the last bucket that may have been written, in seconds
//! since 1970. Companion: `shard_of` = `[key, shards of a bucket, number of this one, epoch, beginning of the bucket]`.

use super::calendar::{Bucket, TimeWidth};
use crate::expression::ExpType;
use crate::expressions::{and, eq, int_bin, list_bin, lists, lt};
use crate::shard::arithmetic::SHARDS_MAX;
use crate::shard::route::suffixed_key;
use crate::shard::scheme::{Epoch, SHARD_OF, SUBKEYS, SUBKEYS_EPOCH, key_value};
use crate::value::{List, ListOrder, Value};
use crate::{Error, Expression, Key, ListReturnType, Result};

pub(super) use super::super::scheme::SUBKEYS_SPAN;

const TIME_SHARDS: &str = "time-shards";
const DELETING: &str = "deleting";

/// How a collection is spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) width: TimeWidth,
    /// How many shards each bucket has: a power of two.
    pub(super) shards: u64,
}

/// Whether it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Active,
    Deleting,
}

impl Layout {
    /// The value of the bin `subkeys`.
    pub(super) fn value(self, phase: Phase) -> Value {
        let mut items = vec![TIME_SHARDS.into(), self.width.name().into()];
        if self.shards > 1 {
            items.push(int(self.shards));
        }
        if phase == Phase::Deleting {
            items.push(DELETING.into());
        }
        list(items)
    }

    /// What a bin `subkeys` says, for a handle of this layout.
    ///
    /// # Errors
    /// [`Error::ShardScheme`] for anything but this layout.
    pub(super) fn parse(self, value: &Value) -> Result<Phase> {
        for phase in [Phase::Active, Phase::Deleting] {
            if *value == self.value(phase) {
                return Ok(phase);
            }
        }
        let why = match value {
            Value::List(items) if items.first() == Some(&TIME_SHARDS.into()) => {
                "its buckets have another width or another number of shards: use the same in all handles"
            }
            _ => "it is not sharded by time: use a sharded list, map or counter",
        };
        Err(Error::ShardScheme {
            found: format!("{value:?}").into(),
            why,
        })
    }

    /// The filter of a step on the root at this epoch.
    pub(super) fn is_at(self, phase: Phase, epoch: Epoch) -> Expression {
        and([
            eq(list_bin(SUBKEYS), self.value(phase)),
            eq(int_bin(SUBKEYS_EPOCH), epoch.value()),
        ])
    }

    /// The buckets from one to another, both included.
    pub(super) fn buckets(self, from: Bucket, to: Bucket) -> impl Iterator<Item = Bucket> {
        let width = self.width.seconds();
        let count = (to.0 - from.0).div_euclid(width) + 1;
        (0..count).map(move |number| Bucket(from.0 + number * width))
    }

    /// The parts of a bucket.
    pub(super) fn parts(self, bucket: Bucket) -> impl Iterator<Item = Part> {
        (0..self.shards).map(move |shard| Part { bucket, shard })
    }

    /// The key of a companion.
    pub(super) fn key(self, root: &Key<'_>, part: Part) -> Key<'static> {
        let mut behind = self.width.name_of(part.bucket);
        if self.shards > 1 {
            behind.push_str(&format!(":{}", part.shard));
        }
        suffixed_key(root, &behind)
    }

    /// The value of the bin `shard_of`.
    pub(super) fn shard_of(self, root: &Key<'_>, part: Part, epoch: Epoch) -> Value {
        list(vec![
            key_value(root),
            int(self.shards),
            int(part.shard),
            epoch.value(),
            Value::Int(part.bucket.0),
        ])
    }
}

/// The first and the last bucket that may have been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: Bucket,
    pub(super) last: Bucket,
}

impl Span {
    pub(super) const fn only(bucket: Bucket) -> Self {
        Self {
            first: bucket,
            last: bucket,
        }
    }

    pub(super) fn contains(self, bucket: Bucket) -> bool {
        (self.first..=self.last).contains(&bucket)
    }

    /// The span with this bucket, too.
    pub(super) fn with(self, bucket: Bucket) -> Self {
        Self {
            first: self.first.min(bucket),
            last: self.last.max(bucket),
        }
    }

    /// What both have; `None` if that is nothing.
    pub(super) fn cut(self, first: Bucket, last: Bucket) -> Option<Self> {
        let first = self.first.max(first);
        let last = self.last.min(last);
        (first <= last).then_some(Self { first, last })
    }

    pub(super) fn value(self) -> Value {
        list(vec![Value::Int(self.first.0), Value::Int(self.last.0)])
    }

    /// What a bin `subkeys_span` says.
    ///
    /// # Errors
    /// [`Error::ShardScheme`] for what is no span.
    pub(super) fn parse(value: Option<&Value>) -> Result<Self> {
        if let Some(Value::List(items)) = value
            && let [Value::Int(first), Value::Int(last)] = items[..]
            && first <= last
        {
            return Ok(Self {
                first: Bucket(first),
                last: Bucket(last),
            });
        }
        Err(Error::ShardScheme {
            found: format!("{value:?}").into(),
            why: "the bin subkeys_span does not hold a first and a last bucket",
        })
    }
}

/// One record of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) bucket: Bucket,
    pub(super) shard: u64,
}

impl Part {
    /// The epoch of a bin `shard_of`, if it is that of this part of this root.
    pub(super) fn epoch_in(self, value: &Value, root: &Key<'_>) -> Option<Epoch> {
        let Value::List(items) = value else {
            return None;
        };
        match &items[..] {
            [key, Value::Int(_), shard, epoch, Value::Int(bucket)]
                if *key == key_value(root)
                    && *shard == int(self.shard)
                    && *bucket == self.bucket.0 =>
            {
                Epoch::of(epoch)
            }
            _ => None,
        }
    }

    /// The filter of a step on this part, if it is of an earlier epoch.
    pub(super) fn is_before(self, root: &Key<'_>, epoch: Epoch) -> Expression {
        let own = |index, kind| {
            let value = ListReturnType::Values;
            lists::get_by_index(value, kind, index, list_bin(SHARD_OF), &[])
        };
        let key_type = match root {
            Key::Integer(_) => ExpType::Int,
            Key::String(_) => ExpType::String,
            Key::Blob(_) => ExpType::Blob,
        };
        and([
            eq(own(0, key_type), key_value(root)),
            eq(own(2, ExpType::Int), int(self.shard)),
            lt(own(3, ExpType::Int), epoch.value()),
            eq(own(4, ExpType::Int), self.bucket.0),
        ])
    }
}

/// As many shards as were asked for, rounded up to what there can be.
pub(super) fn rounded(shards: u64) -> u64 {
    shards.clamp(1, SHARDS_MAX).next_power_of_two()
}

const fn int(number: u64) -> Value {
    Value::Int(number as i64)
}

fn list(items: Vec<Value>) -> Value {
    Value::List(List::new(items, ListOrder::Unordered))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOURLY: Layout = Layout {
        width: TimeWidth::Hourly,
        shards: 1,
    };
    const DAILY_8: Layout = Layout {
        width: TimeWidth::Daily,
        shards: 8,
    };

    fn words(words: &str) -> Value {
        let items = words.split(' ').map(|word| match word.parse::<i64>() {
            Ok(number) => Value::Int(number),
            Err(_) => word.into(),
        });
        list(items.collect())
    }

    #[test]
    fn the_root_says_what_is_documented() {
        for (layout, phase, form) in [
            (HOURLY, Phase::Active, "time-shards hourly"),
            (HOURLY, Phase::Deleting, "time-shards hourly deleting"),
            (DAILY_8, Phase::Active, "time-shards daily 8"),
            (DAILY_8, Phase::Deleting, "time-shards daily 8 deleting"),
        ] {
            assert_eq!(layout.value(phase), words(form));
            assert_eq!(layout.parse(&words(form)).unwrap(), phase, "{form}");
        }
        for other in [
            "time-shards daily",
            "time-shards hourly 8",
            "time-shards hourly resting",
            "time-shards hourly 1",
            "hash-shards 8",
            "time-shards",
        ] {
            let error = HOURLY.parse(&words(other)).unwrap_err();
            assert!(matches!(error, Error::ShardScheme { .. }), "{other}");
        }
    }

    #[test]
    fn companions_have_the_documented_keys() {
        let part = Part {
            bucket: Bucket(1_795_240_800),
            shard: 3,
        };
        for (layout, root, key) in [
            (HOURLY, Key::from("chat"), Key::from("chat:2026-11-21-06")),
            (HOURLY, (-5).into(), "-5:2026-11-21-06".into()),
            (DAILY_8, "chat".into(), "chat:2026-11-21:3".into()),
            (DAILY_8, b"\xff".into(), b"\xff:2026-11-21:3".into()),
        ] {
            assert_eq!(layout.key(&root, part), key);
        }
    }

    #[test]
    fn a_companion_knows_its_own_description_from_anothers() {
        let part = Part {
            bucket: Bucket(86_400),
            shard: 3,
        };
        let root = Key::from("chat");
        let described = DAILY_8.shard_of(&root, part, Epoch(7));
        assert_eq!(part.epoch_in(&described, &root), Some(Epoch(7)));
        assert_eq!(part.epoch_in(&described, &"other".into()), None);
        assert_eq!(part.epoch_in(&words("chat 8 3 7"), &root), None);
        for other in [
            Part { shard: 2, ..part },
            Part {
                bucket: Bucket(0),
                ..part
            },
        ] {
            assert_eq!(other.epoch_in(&described, &root), None);
        }
    }

    #[test]
    fn a_span_is_widened_and_cut() {
        let span = Span::only(Bucket(10)).with(Bucket(30)).with(Bucket(20));
        assert_eq!(Span::parse(Some(&span.value())).unwrap(), span);
        assert_eq!(span.value(), words("10 30"));
        assert!(span.contains(Bucket(10)) && span.contains(Bucket(30)));
        assert!(!span.contains(Bucket(9)) && !span.contains(Bucket(31)));
        let cut = Span {
            first: Bucket(15),
            last: Bucket(30),
        };
        assert_eq!(span.cut(Bucket(15), Bucket(40)), Some(cut));
        assert_eq!(span.cut(Bucket(31), Bucket(40)), None);
        for not_understood in [None, Some(words("1")), Some(words("2 1")), Some(1.into())] {
            assert!(Span::parse(not_understood.as_ref()).is_err());
        }
    }

    #[test]
    fn buckets_are_counted_from_the_first_to_the_last() {
        let days = |from: i64, to: i64| {
            let buckets = DAILY_8.buckets(Bucket(from * 86_400), Bucket(to * 86_400));
            buckets.map(|bucket| bucket.0 / 86_400).collect::<Vec<_>>()
        };
        assert_eq!(days(-1, 2), [-1, 0, 1, 2]);
        assert_eq!(days(3, 3), [3]);
        assert!(days(4, 3).is_empty());
    }

    #[test]
    fn a_number_of_shards_is_rounded_up() {
        for (asked, made) in [(0, 1), (1, 1), (8, 8), (35, 64), (u64::MAX, SHARDS_MAX)] {
            assert_eq!(rounded(asked), made);
        }
    }
}
