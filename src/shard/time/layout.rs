//! Where a time-sharded collection keeps what: its entry in the root's `subkeys`, the records of
//! its buckets, and the directory of the buckets in use. `docs/format.md` has the forms.
//!
//! The directory is a tree of pages, each a record with an ordered list of beginnings: of the years
//! in use, of the buckets (or, for buckets of minutes, the days) of a year, of the buckets of a
//! day. No page ever has more than 10,000 entries.

use super::calendar::{
    TimeBucket, TimeWidth, day_begin, day_end, day_name, year_begin, year_end, year_name,
};
use crate::Result;
use crate::record::BinName;
use crate::shard::arithmetic::SHARDS_MAX;
use crate::shard::protocol::CollectionRoot;
use crate::shard::scheme::{Companion, DELETING, Epoch, Scheme, TIME_SHARDS, list, not_understood};
use crate::value::Value;

/// The text behind the last colon of a page's key.
const PAGE: &str = "buckets";

/// How a collection is sharded by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimeLayout {
    pub(crate) width: TimeWidth,
    /// The number of shards of each bucket: a power of two.
    pub(crate) shards: u64,
}

/// A record of the collection beside its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum CollectionPart {
    /// A shard of a bucket.
    Shard(TimeBucket, u64),
    Page(DirectoryPage),
}

/// A page of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum DirectoryPage {
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

impl TimeLayout {
    /// Returns the state of a collection in use: of this many shards in each bucket.
    pub(super) const fn active(self) -> Scheme {
        Scheme::Active {
            shards: self.shards,
        }
    }

    /// Returns the state of a collection that is being deleted.
    pub(super) const fn deleting(self) -> Scheme {
        Scheme::Deleting {
            shards: self.shards,
        }
    }

    /// Returns the collection's entry in the bin `subkeys`.
    pub(super) fn value(self, scheme: Scheme) -> Value {
        let mut items = vec![TIME_SHARDS.into(), self.width.to_string().into()];
        if self.shards > 1 {
            items.push(Value::Int(self.shards as i64));
        }
        if scheme == self.deleting() {
            items.push(DELETING.into());
        }
        list(items)
    }

    /// Returns the layout that an entry of `subkeys` describes; `None` for one of another form.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        let Value::List(items) = value else {
            return None;
        };
        let [_, Value::String(width), rest @ ..] = &items[..] else {
            return None;
        };
        let shards = match rest.first() {
            Some(Value::Int(shards)) => u64::try_from(*shards).ok()?,
            _ => 1,
        };
        let width = width.parse().ok()?;
        let layout = Self { width, shards };
        layout.parse(value).is_ok().then_some(layout)
    }

    /// Reads an entry of `subkeys`, for a handle of this layout.
    ///
    /// # Errors
    /// [`crate::Error::ShardScheme`] for anything but this layout.
    pub(super) fn parse(self, value: &Value) -> Result<Scheme> {
        for scheme in [self.active(), self.deleting()] {
            if *value == self.value(scheme) {
                return Ok(scheme);
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

    /// Returns a root of which the description was read, with the state of the collection in this
    /// bin.
    ///
    /// # Errors
    /// As for [`TimeLayout::parse`].
    pub(super) fn read(self, root: CollectionRoot, bin: BinName) -> Result<CollectionRoot> {
        let Some(entry) = root.description.of(bin) else {
            return Ok(root);
        };
        let (scheme, epoch) = (self.parse(&entry.form.value())?, entry.epoch);
        Ok(CollectionRoot {
            scheme,
            epoch,
            ..root
        })
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

    /// Returns the first second behind all times of a part, in seconds since 1970; `None` for the
    /// top page, which has no end.
    pub(super) const fn end(self, part: CollectionPart) -> Option<i64> {
        match part {
            CollectionPart::Shard(bucket, _) => Some(bucket.0 + self.width.seconds()),
            CollectionPart::Page(DirectoryPage::Day(day)) => Some(day_end(day)),
            CollectionPart::Page(DirectoryPage::Year(year)) => Some(year_end(year)),
            CollectionPart::Page(DirectoryPage::Top) => None,
        }
    }

    /// Returns the name of a part among the parts of the collection.
    pub(crate) fn name(self, part: CollectionPart) -> String {
        match part {
            CollectionPart::Shard(bucket, _) if self.shards == 1 => self.width.name_of(bucket),
            CollectionPart::Shard(bucket, shard) => {
                format!("{}:{shard}", self.width.name_of(bucket))
            }
            CollectionPart::Page(DirectoryPage::Top) => PAGE.to_owned(),
            CollectionPart::Page(DirectoryPage::Year(year)) => {
                format!("{}:{PAGE}", year_name(year))
            }
            CollectionPart::Page(DirectoryPage::Day(day)) => format!("{}:{PAGE}", day_name(day)),
        }
    }

    /// Returns the state of a part that is made at this epoch. Pages have no shards.
    pub(super) const fn companion(self, part: CollectionPart, epoch: Epoch) -> Companion {
        let shards = if part.is_page() { 0 } else { self.shards };
        Companion { shards, epoch }
    }
}

impl CollectionPart {
    /// Returns the part with this number and beginning; `None` if there is no such part.
    pub(crate) const fn of(is_page: bool, number: u64, begin: i64) -> Option<Self> {
        match (is_page, number) {
            (false, shard) => Some(Self::Shard(TimeBucket(begin), shard)),
            (true, 0) => Some(Self::Page(DirectoryPage::Top)),
            (true, 1) => Some(Self::Page(DirectoryPage::Year(begin))),
            (true, 2) => Some(Self::Page(DirectoryPage::Day(begin))),
            _ => None,
        }
    }

    /// Returns the number of the record, and its beginning.
    pub(crate) const fn numbers(self) -> (i64, i64) {
        match self {
            Self::Shard(bucket, shard) => (shard as i64, bucket.0),
            Self::Page(DirectoryPage::Top) => (0, 0),
            Self::Page(DirectoryPage::Year(year)) => (1, year),
            Self::Page(DirectoryPage::Day(day)) => (2, day),
        }
    }

    pub(crate) const fn is_page(self) -> bool {
        matches!(self, Self::Page(_))
    }
}

/// Returns the requested number of shards, rounded up to a possible one.
pub(super) fn rounded(shards: u64) -> u64 {
    shards.clamp(1, SHARDS_MAX).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::companion_key::KeyForm;
    use crate::shard::record_name::RecordName;
    use crate::shard::route::RecordRef;
    use crate::shard::time::calendar::MinuteWidth;
    use crate::{Error, Key};

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
        for (layout, scheme, form) in [
            (HOURLY, HOURLY.active(), "time-shards hourly"),
            (HOURLY, HOURLY.deleting(), "time-shards hourly deleting"),
            (MINUTES, MINUTES.active(), "time-shards 5-minute"),
            (DAILY_8, DAILY_8.active(), "time-shards daily 8"),
            (DAILY_8, DAILY_8.deleting(), "time-shards daily 8 deleting"),
        ] {
            assert_eq!(layout.value(scheme), words(form));
            assert_eq!(layout.parse(&words(form)).unwrap(), scheme, "{form}");
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

    fn named<'a>(
        layout: TimeLayout,
        root: &'a Key<'a>,
        keys: KeyForm,
        part: CollectionPart,
    ) -> RecordName<'a> {
        RecordName {
            root,
            bin: BinName::new("said").unwrap(),
            place: RecordRef::Timed(keys, layout, part),
        }
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
            assert_eq!(named(layout, &root, KeyForm::Plain, part).key(), key);
        }
        let root = Key::from("chat");
        let by_bin = |part| named(DAILY_8, &root, KeyForm::ByBin, part).key();
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
            for part in parts {
                let companion = DAILY_8.companion(part, Epoch(7));
                let described = named(DAILY_8, &root, keys, part).value(companion);
                for other in parts {
                    let read = named(DAILY_8, &root, keys, other).parse(&described);
                    assert_eq!(
                        read,
                        (part == other).then_some(companion),
                        "{part:?} as {other:?}"
                    );
                }
                let other = Key::from("other");
                assert_eq!(named(DAILY_8, &other, keys, part).parse(&described), None);
                let others = [KeyForm::Plain, KeyForm::ByBin]
                    .into_iter()
                    .find(|it| *it != keys);
                let by_others = named(DAILY_8, &root, others.unwrap(), part);
                assert_eq!(by_others.parse(&described), None);
            }
        }
        let top = CollectionPart::Page(DirectoryPage::Top);
        let top = named(DAILY_8, &root, KeyForm::Plain, top);
        assert_eq!(top.parse(&words("chat 8 3 7")), None);
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
