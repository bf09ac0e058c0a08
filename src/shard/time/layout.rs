//! Where a time-sharded collection keeps what: its entry in the root's `subkeys`, the records of its buckets, and the
//! directory of the buckets in use. The forms are those of `docs/format.md`.
//!
//! The directory is a tree of pages, each a record with an ordered list of beginnings: of the years in use, of the buckets
//! (or, for buckets of minutes, the days) of a year, of the buckets of a day. No page ever has more than 10,000 entries.

use super::calendar::{
    TimeBucket, TimeWidth, day_begin, day_end, day_name, year_begin, year_end, year_name,
};
use crate::record::BinName;
use crate::record::companion_key::KeyForm;
use crate::record::companion_key::suffixed_key;
use crate::shard::arithmetic::SHARDS_MAX;
use crate::shard::scheme::{Epoch, TIME_SHARDS, is_older, key_value, not_understood};
use crate::value::{List, ListOrder, Value};
use crate::{Expression, Key, Result};

const DELETING: &str = "deleting";

/// The text behind the last colon of a page's key.
const PAGE: &str = "buckets";

/// How a collection is sharded by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TimeLayout {
    pub(super) width: TimeWidth,
    /// The number of shards of each bucket: a power of two.
    pub(super) shards: u64,
}

/// Whether the collection is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CollectionUse {
    Active,
    Deleting,
}

/// A record of the collection beside its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum CollectionPart {
    /// A shard of a bucket.
    Shard(TimeBucket, u64),
    Page(DirectoryPage),
}

/// A page of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum DirectoryPage {
    /// Lists the years in use.
    Top,
    /// Lists the parts in use of the year that begins here.
    Year(i64),
    /// Lists the buckets in use of the day that begins here.
    Day(i64),
}

/// The meaning of an entry of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageEntry {
    Page(DirectoryPage),
    Bucket(TimeBucket),
}

/// Where the companions of one generation of the collection are: what a handle remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TimeRoute {
    pub(super) epoch: Epoch,
    pub(super) keys: KeyForm,
}

/// The root of the companions.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompanionRoot<'a> {
    pub(super) root: &'a Key<'a>,
    pub(super) bin: BinName,
}

impl TimeLayout {
    /// Returns the collection's entry in the bin `subkeys`.
    pub(super) fn value(self, phase: CollectionUse) -> Value {
        let mut items = vec![TIME_SHARDS.into(), self.width.to_string().into()];
        if self.shards > 1 {
            items.push(int(self.shards));
        }
        if phase == CollectionUse::Deleting {
            items.push(DELETING.into());
        }
        list(items)
    }

    /// Reads an entry of `subkeys`, for a handle of this layout.
    ///
    /// # Errors
    /// [`crate::Error::ShardScheme`] for anything but this layout.
    pub(super) fn parse(self, value: &Value) -> Result<CollectionUse> {
        for phase in [CollectionUse::Active, CollectionUse::Deleting] {
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
        Err(not_understood(Some(value), why))
    }

    /// Returns the shards of a bucket.
    pub(super) fn parts(self, bucket: TimeBucket) -> impl Iterator<Item = CollectionPart> {
        (0..self.shards).map(move |shard| CollectionPart::Shard(bucket, shard))
    }

    /// Returns the page that lists a part, and the entry by which it does; `None` for the top page.
    pub(super) const fn listing(self, part: CollectionPart) -> Option<(DirectoryPage, i64)> {
        match (part, self.width) {
            (CollectionPart::Shard(bucket, _), TimeWidth::Minutes(_)) => {
                Some((DirectoryPage::Day(day_begin(bucket.0)), bucket.0))
            }
            (CollectionPart::Shard(bucket, _), _) => {
                Some((DirectoryPage::Year(year_begin(bucket.0)), bucket.0))
            }
            (CollectionPart::Page(DirectoryPage::Day(day)), _) => {
                Some((DirectoryPage::Year(year_begin(day)), day))
            }
            (CollectionPart::Page(DirectoryPage::Year(year)), _) => {
                Some((DirectoryPage::Top, year))
            }
            (CollectionPart::Page(DirectoryPage::Top), _) => None,
        }
    }

    /// Returns the entry of a page of this kind under which a bucket is found.
    pub(super) const fn entry(self, page: DirectoryPage, bucket: TimeBucket) -> i64 {
        match (page, self.width) {
            (DirectoryPage::Top, _) => year_begin(bucket.0),
            (DirectoryPage::Year(_), TimeWidth::Minutes(_)) => day_begin(bucket.0),
            (DirectoryPage::Year(_) | DirectoryPage::Day(_), _) => bucket.0,
        }
    }

    /// Returns the meaning of an entry of a page.
    pub(super) const fn child(self, page: DirectoryPage, entry: i64) -> PageEntry {
        match (page, self.width) {
            (DirectoryPage::Top, _) => PageEntry::Page(DirectoryPage::Year(entry)),
            (DirectoryPage::Year(_), TimeWidth::Minutes(_)) => {
                PageEntry::Page(DirectoryPage::Day(entry))
            }
            (DirectoryPage::Year(_) | DirectoryPage::Day(_), _) => {
                PageEntry::Bucket(TimeBucket(entry))
            }
        }
    }

    /// Returns the first second behind all times of a part, in seconds since 1970; `None` for the top page, which has no end.
    pub(super) const fn end(self, part: CollectionPart) -> Option<i64> {
        match part {
            CollectionPart::Shard(bucket, _) => Some(bucket.0 + self.width.seconds()),
            CollectionPart::Page(DirectoryPage::Day(day)) => Some(day_end(day)),
            CollectionPart::Page(DirectoryPage::Year(year)) => Some(year_end(year)),
            CollectionPart::Page(DirectoryPage::Top) => None,
        }
    }

    /// Returns the key of a part.
    pub(super) fn key(
        self,
        owner: CompanionRoot<'_>,
        keys: KeyForm,
        part: CollectionPart,
    ) -> Key<'static> {
        let name = match part {
            CollectionPart::Shard(bucket, _) if self.shards == 1 => self.width.name_of(bucket),
            CollectionPart::Shard(bucket, shard) => {
                format!("{}:{shard}", self.width.name_of(bucket))
            }
            CollectionPart::Page(DirectoryPage::Top) => PAGE.to_owned(),
            CollectionPart::Page(DirectoryPage::Year(year)) => {
                format!("{}:{PAGE}", year_name(year))
            }
            CollectionPart::Page(DirectoryPage::Day(day)) => format!("{}:{PAGE}", day_name(day)),
        };
        if keys.by_bin() {
            suffixed_key(owner.root, &format!("{}:{name}", owner.bin.as_str()))
        } else {
            suffixed_key(owner.root, &name)
        }
    }

    /// Returns the value of a part's bin `shard_of`.
    pub(super) fn shard_of(
        self,
        owner: CompanionRoot<'_>,
        route: TimeRoute,
        part: CollectionPart,
    ) -> Value {
        let [shards, number, begin] = part.numbers(self);
        let mut items = vec![
            key_value(owner.root),
            Value::Int(shards),
            Value::Int(number),
            route.epoch.value(),
            Value::Int(begin),
        ];
        if route.keys.by_bin() {
            items.push(owner.bin.as_str().into());
        }
        list(items)
    }
}

impl CollectionPart {
    /// Returns the `shard_of` of a part: the shards of its bucket (0: it is a page), its number, its beginning.
    const fn numbers(self, layout: TimeLayout) -> [i64; 3] {
        match self {
            Self::Shard(bucket, shard) => [layout.shards as i64, shard as i64, bucket.0],
            Self::Page(DirectoryPage::Top) => [0, 0, 0],
            Self::Page(DirectoryPage::Year(year)) => [0, 1, year],
            Self::Page(DirectoryPage::Day(day)) => [0, 2, day],
        }
    }

    /// Reads the epoch of a bin `shard_of`; `None` if that is not of this part.
    pub(super) fn epoch_in(
        self,
        value: &Value,
        layout: TimeLayout,
        owner: CompanionRoot<'_>,
        keys: KeyForm,
    ) -> Option<Epoch> {
        let Value::List(items) = value else {
            return None;
        };
        let own = match (keys.by_bin(), &items[..]) {
            (false, own) => own,
            (true, [own @ .., Value::String(bin)]) if owner.bin == bin.as_str() => own,
            _ => return None,
        };
        let [
            key,
            Value::Int(shards),
            Value::Int(number),
            epoch,
            Value::Int(begin),
        ] = own
        else {
            return None;
        };
        let numbers = self.numbers(layout);
        // The root says whether buckets have another number of shards.
        let is_of_kind = (*shards == 0) == (numbers[0] == 0);
        let is_own =
            is_of_kind && [*number, *begin] == numbers[1..] && *key == key_value(owner.root);
        is_own.then(|| Epoch::of(epoch)).flatten()
    }

    /// Returns the filter of a step on this part if it is of an earlier epoch.
    pub(super) fn is_before(
        self,
        layout: TimeLayout,
        owner: CompanionRoot<'_>,
        route: TimeRoute,
    ) -> Expression {
        let [shards, number, begin] = self.numbers(layout);
        let mut numbers = vec![(2, number), (4, begin)];
        if shards == 0 {
            numbers.push((1, 0));
        }
        let bin = route.keys.by_bin().then_some(owner.bin);
        is_older(owner.root, bin, 5, &numbers, route.epoch)
    }
}

/// Returns the requested number of shards, rounded up to a possible one.
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
    use crate::Error;
    use crate::shard::time::calendar::MinuteWidth;

    const HOURLY: TimeLayout = TimeLayout {
        width: TimeWidth::Hourly,
        shards: 1,
    };
    const MINUTES: TimeLayout = TimeLayout {
        width: TimeWidth::Minutes(MinuteWidth::FIVE),
        shards: 1,
    };
    const DAILY_8: TimeLayout = TimeLayout {
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
            (HOURLY, CollectionUse::Active, "time-shards hourly"),
            (
                HOURLY,
                CollectionUse::Deleting,
                "time-shards hourly deleting",
            ),
            (MINUTES, CollectionUse::Active, "time-shards 5-minute"),
            (DAILY_8, CollectionUse::Active, "time-shards daily 8"),
            (
                DAILY_8,
                CollectionUse::Deleting,
                "time-shards daily 8 deleting",
            ),
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

    fn owner<'a>(root: &'a Key<'a>) -> CompanionRoot<'a> {
        let bin = BinName::new("said").unwrap();
        CompanionRoot { root, bin }
    }

    #[test]
    fn companions_have_the_documented_keys() {
        let shard = CollectionPart::Shard(TimeBucket(1_795_240_800), 3);
        let year = CollectionPart::Page(DirectoryPage::Year(year_begin(1_795_240_800)));
        let day = CollectionPart::Page(DirectoryPage::Day(day_begin(1_795_240_800)));
        let top = CollectionPart::Page(DirectoryPage::Top);
        let cases = [
            (
                HOURLY,
                Key::from("chat"),
                shard,
                Key::from("chat:2026-11-21-06"),
            ),
            (
                MINUTES,
                "chat".into(),
                shard,
                "chat:2026-11-21-06-00".into(),
            ),
            (HOURLY, (-5).into(), shard, "-5:2026-11-21-06".into()),
            (DAILY_8, "chat".into(), shard, "chat:2026-11-21:3".into()),
            (DAILY_8, b"\xff".into(), shard, b"\xff:2026-11-21:3".into()),
            (DAILY_8, "chat".into(), top, "chat:buckets".into()),
            (DAILY_8, "chat".into(), year, "chat:2026:buckets".into()),
            (
                MINUTES,
                "chat".into(),
                day,
                "chat:2026-11-21:buckets".into(),
            ),
        ];
        for (layout, root, part, key) in cases {
            assert_eq!(layout.key(owner(&root), KeyForm::Plain, part), key);
        }
        let root = Key::from("chat");
        let by_bin = |part| DAILY_8.key(owner(&root), KeyForm::ByBin, part);
        assert_eq!(by_bin(shard), Key::from("chat:said:2026-11-21:3"));
        assert_eq!(by_bin(year), Key::from("chat:said:2026:buckets"));
    }

    #[test]
    fn a_companion_knows_its_own_description_from_anothers() {
        let root = Key::from("chat");
        let parts = [
            CollectionPart::Shard(TimeBucket(0), 3),
            CollectionPart::Shard(TimeBucket(86_400), 2),
            CollectionPart::Shard(TimeBucket(86_400), 3),
            CollectionPart::Page(DirectoryPage::Top),
            CollectionPart::Page(DirectoryPage::Year(0)),
            CollectionPart::Page(DirectoryPage::Day(0)),
        ];
        for keys in [KeyForm::Plain, KeyForm::ByBin] {
            let epoch = Epoch(7);
            for part in parts {
                let described = DAILY_8.shard_of(owner(&root), TimeRoute { epoch, keys }, part);
                for other in parts {
                    let read = other.epoch_in(&described, DAILY_8, owner(&root), keys);
                    assert_eq!(
                        read,
                        (part == other).then_some(epoch),
                        "{part:?} as {other:?}"
                    );
                }
                let other = Key::from("other");
                assert_eq!(
                    part.epoch_in(&described, DAILY_8, owner(&other), keys),
                    None
                );
                let others = [KeyForm::Plain, KeyForm::ByBin]
                    .into_iter()
                    .find(|it| *it != keys);
                assert_eq!(
                    part.epoch_in(&described, DAILY_8, owner(&root), others.unwrap()),
                    None
                );
            }
        }
        let top = CollectionPart::Page(DirectoryPage::Top);
        assert_eq!(
            top.epoch_in(&words("chat 8 3 7"), DAILY_8, owner(&root), KeyForm::Plain),
            None
        );
    }

    #[test]
    fn each_part_is_listed_where_it_is_looked_for() {
        let bucket = TimeBucket(1_795_240_800);
        for (layout, depth) in [(HOURLY, 2), (DAILY_8, 2), (MINUTES, 3)] {
            let bucket = TimeBucket(bucket.0 - bucket.0.rem_euclid(layout.width.seconds()));
            let mut part = CollectionPart::Shard(bucket, 0);
            let mut pages = 0;
            while let Some((page, entry)) = layout.listing(part) {
                assert_eq!(layout.entry(page, bucket), entry);
                let child = match part {
                    CollectionPart::Shard(bucket, _) => PageEntry::Bucket(bucket),
                    CollectionPart::Page(page) => PageEntry::Page(page),
                };
                assert_eq!(layout.child(page, entry), child);
                assert!(
                    layout.end(part) <= layout.end(CollectionPart::Page(page))
                        || page == DirectoryPage::Top
                );
                part = CollectionPart::Page(page);
                pages += 1;
            }
            assert_eq!(
                (part, pages),
                (CollectionPart::Page(DirectoryPage::Top), depth)
            );
        }
    }

    #[test]
    fn a_number_of_shards_is_rounded_up() {
        for (asked, made) in [(0, 1), (1, 1), (8, 8), (35, 64), (u64::MAX, SHARDS_MAX)] {
            assert_eq!(rounded(asked), made);
        }
    }
}
