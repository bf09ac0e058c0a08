//! Widths of buckets, their names, and the calendar that these follow.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Error, Result};

/// How much time one bucket holds. Buckets begin at whole minutes, at whole hours, or at midnight,
/// of UTC.
///
/// Its text is stored in the root, and read by [`TimeWidth::from_str`]: `hourly`, `daily`, or
/// `5-minute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeWidth {
    /// Some minutes, a divisor of 60: see [`TimeWidth::minutes`].
    Minutes(MinuteWidth),
    /// One hour.
    Hourly,
    /// One day.
    Daily,
}

/// A number of minutes that divides an hour evenly and is less than an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MinuteWidth(u8);

/// The years 1 to 9999, in seconds since 1970: their names have the same length.
const SECONDS: std::ops::Range<i64> = -62_135_596_800..253_402_300_800;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

#[cfg(test)]
impl MinuteWidth {
    pub(super) const FIVE: Self = Self(5);
}

impl TimeWidth {
    /// Returns a width in minutes: 1, 2, 3, 4, 5, 6, 10, 12, 15, 20 or 30.
    ///
    /// # Errors
    /// [`Error::Parameter`] for another number: buckets would not begin at the same minutes of each
    /// hour.
    pub fn minutes(minutes: u8) -> Result<Self> {
        match minutes {
            60 => Ok(Self::Hourly),
            1..60 if 60 % minutes == 0 => Ok(Self::Minutes(MinuteWidth(minutes))),
            _ => Err(Error::parameter(format!(
                "buckets of {minutes} minutes: the number must divide 60; take {}",
                match minutes {
                    0 => "1",
                    61.. => "TimeWidth::Hourly or TimeWidth::Daily",
                    _ => "1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30 or 60",
                }
            ))),
        }
    }

    pub(crate) const fn seconds(self) -> i64 {
        match self {
            Self::Minutes(MinuteWidth(minutes)) => minutes as i64 * MINUTE,
            Self::Hourly => HOUR,
            Self::Daily => DAY,
        }
    }

    /// Returns the bucket of a time.
    pub(super) const fn bucket(self, at: Micros) -> TimeBucket {
        let second = at.0.div_euclid(1_000_000);
        TimeBucket(second - second.rem_euclid(self.seconds()))
    }

    /// Returns the name of the bucket that holds a time, as in the keys of records:
    /// `2026-11-21-06-35`, `2026-11-21-06` or `2026-11-21`.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use spikelet::shard::TimeWidth;
    /// let at = UNIX_EPOCH + Duration::from_secs(1_772_373_599);
    /// assert_eq!(TimeWidth::minutes(15)?.bucket_name(at)?, "2026-03-01-13-45");
    /// assert_eq!(TimeWidth::Hourly.bucket_name(at)?, "2026-03-01-13");
    /// assert_eq!(TimeWidth::Daily.bucket_name(at)?, "2026-03-01");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Parameter`] for a time before the year 1 or after the year 9999.
    pub fn bucket_name(self, at: SystemTime) -> Result<String> {
        Ok(self.name_of(self.bucket(Micros::of(at)?)))
    }

    /// Returns how much time one bucket holds.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.seconds().unsigned_abs())
    }

    /// Returns the name of a bucket, as [`TimeWidth::bucket_name`].
    pub(super) fn name_of(self, bucket: TimeBucket) -> String {
        let day = day_name(bucket.0);
        let hour = bucket.0.rem_euclid(DAY) / HOUR;
        let minute = bucket.0.rem_euclid(HOUR) / MINUTE;
        match self {
            Self::Minutes(_) => format!("{day}-{hour:02}-{minute:02}"),
            Self::Hourly => format!("{day}-{hour:02}"),
            Self::Daily => day,
        }
    }
}

impl fmt::Display for TimeWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minutes(MinuteWidth(minutes)) => write!(f, "{minutes}-minute"),
            Self::Hourly => f.write_str("hourly"),
            Self::Daily => f.write_str("daily"),
        }
    }
}

impl FromStr for TimeWidth {
    type Err = Error;

    /// Reads `hourly`, `daily`, or a number of minutes such as `5-minute`.
    ///
    /// # Errors
    /// [`Error::Parameter`] for another text.
    fn from_str(text: &str) -> Result<Self> {
        let minutes = text.strip_suffix("-minute").map(str::parse);
        let width = match (text, minutes) {
            ("hourly", _) => Ok(Self::Hourly),
            ("daily", _) => Ok(Self::Daily),
            (_, Some(Ok(minutes))) => Self::minutes(minutes),
            _ => Err(Error::parameter(format!(
                "width {text:?}: take hourly, daily, or a number of minutes such as 5-minute"
            ))),
        };
        // One text for each width.
        width.and_then(|width| {
            if width.to_string() == text {
                Ok(width)
            } else {
                Err(Error::parameter(format!("width {text:?}: write {width}")))
            }
        })
    }
}

/// Returns the beginning of the day of a second, in seconds since 1970.
pub(super) const fn day_begin(second: i64) -> i64 {
    second - second.rem_euclid(DAY)
}

/// Returns the first second behind a day that begins here.
pub(super) const fn day_end(begin: i64) -> i64 {
    begin + DAY
}

/// Returns the beginning of the year of a second, in seconds since 1970.
pub(super) const fn year_begin(second: i64) -> i64 {
    let (year, _, _) = date(second.div_euclid(DAY));
    first_day(year) * DAY
}

/// Returns the first second behind a year that begins here.
pub(super) const fn year_end(begin: i64) -> i64 {
    let (year, _, _) = date(begin.div_euclid(DAY));
    first_day(year + 1) * DAY
}

/// Returns the name of the day of a second: `2026-11-21`.
pub(super) fn day_name(second: i64) -> String {
    let (year, month, day) = date(second.div_euclid(DAY));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns the name of the year of a second: `2026`.
pub(super) fn year_name(second: i64) -> String {
    let (year, _, _) = date(second.div_euclid(DAY));
    format!("{year:04}")
}

/// Returns the first of January of a year, in days since 1970-01-01.
const fn first_day(year: i64) -> i64 {
    /// From 0001-01-01 to 1970-01-01.
    const BEFORE_1970: i64 = 719_162;
    let before = year - 1;
    let leap_days = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    before * 365 + leap_days - BEFORE_1970
}

/// The beginning of a bucket, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TimeBucket(pub(super) i64);

impl TimeBucket {
    /// No bucket begins before this one.
    pub(super) const FIRST: Self = Self(SECONDS.start);

    /// Returns when it begins, in seconds since 1970.
    pub(crate) const fn begin(self) -> i64 {
        self.0
    }
}

/// A time in microseconds since 1970, leap seconds not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Micros(pub(super) i64);

impl Micros {
    /// No time is before this one.
    pub(super) const FIRST: Self = Self(SECONDS.start * 1_000_000);
    /// All times are before this one.
    pub(super) const END: Self = Self(SECONDS.end * 1_000_000);

    /// Returns the next microsecond.
    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// A time in whole microseconds.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a time before the year 1 or after the year 9999.
    pub(super) fn of(time: SystemTime) -> Result<Self> {
        let nanos = match time.duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_nanos().cast_signed(),
            Err(before) => -before.duration().as_nanos().cast_signed(),
        };
        i64::try_from(nanos.div_euclid(1_000))
            .ok()
            .filter(|micros| SECONDS.contains(&micros.div_euclid(1_000_000)))
            .map(Self)
            .ok_or_else(|| Error::parameter(format!("{time:?} is not within the years 1 to 9999")))
    }

    pub(super) fn time(self) -> SystemTime {
        let distance = Duration::from_micros(self.0.unsigned_abs());
        if self.0 < 0 {
            UNIX_EPOCH - distance
        } else {
            UNIX_EPOCH + distance
        }
    }
}

/// Year, month and day of a day, counted from 1970-01-01, in the Gregorian calendar. After Howard
/// Hinnant's "chrono-Compatible Low-Level Date Algorithms": years begin in March there, so that the
/// leap day is the last one, and 400 of them always have the same number of days.
const fn date(days: i64) -> (i64, i64, i64) {
    /// Days of 400, 100 and 4 years.
    const LONG: i64 = 146_097;
    const CENTURY: i64 = 36_524;
    const SHORT: i64 = 1_461;
    /// From 0000-03-01 to 1970-01-01.
    const BEFORE_1970: i64 = 719_468;
    let since = days + BEFORE_1970;
    let era = since.div_euclid(LONG);
    let day_of_era = since.rem_euclid(LONG);
    let leap_days = day_of_era / (SHORT - 1) - day_of_era / CENTURY + day_of_era / (LONG - 1);
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Five months from March or August on have 153 days.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, years) = if month_from_march < 10 {
        (month_from_march + 3, 0)
    } else {
        (month_from_march - 9, 1)
    };
    (era * 400 + year_of_era + years, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Micros {
        Micros(second * 1_000_000)
    }

    /// A day after the other by the rules that everybody knows.
    #[test]
    fn dates_are_those_of_a_calendar_that_is_turned_page_by_page() {
        let (mut year, mut month, mut day) = (1, 1, 1);
        for days in SECONDS.start / DAY..SECONDS.end / DAY {
            assert_eq!(date(days), (year, month, day), "day {days}");
            if (month, day) == (1, 1) {
                assert_eq!(first_day(year), days, "year {year}");
            }
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 if is_leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!((year, month, day), (10_000, 1, 1));
    }

    #[test]
    fn buckets_have_the_names_of_their_hours_and_days() {
        for (second, hour, day) in [
            (0, "1970-01-01-00", "1970-01-01"),
            (-1, "1969-12-31-23", "1969-12-31"),
            (951_782_399, "2000-02-28-23", "2000-02-28"),
            (951_782_400, "2000-02-29-00", "2000-02-29"),
            (951_868_799, "2000-02-29-23", "2000-02-29"),
            (951_868_800, "2000-03-01-00", "2000-03-01"),
            (1_709_251_199, "2024-02-29-23", "2024-02-29"),
            (1_709_251_200, "2024-03-01-00", "2024-03-01"),
            (4_107_542_399, "2100-02-28-23", "2100-02-28"),
            (4_107_542_400, "2100-03-01-00", "2100-03-01"),
            (1_795_240_000, "2026-11-21-05", "2026-11-21"),
            (SECONDS.start, "0001-01-01-00", "0001-01-01"),
            (SECONDS.end - 1, "9999-12-31-23", "9999-12-31"),
        ] {
            let name = |width: TimeWidth| width.name_of(width.bucket(at(second)));
            assert_eq!(name(TimeWidth::Hourly), hour, "{second}");
            assert_eq!(name(TimeWidth::Daily), day, "{second}");
        }
    }

    #[test]
    fn minutes_divide_an_hour_and_have_one_text() {
        for minutes in 0..=u8::MAX {
            let width = TimeWidth::minutes(minutes);
            let divides = minutes > 0 && 60_u8.is_multiple_of(minutes);
            assert_eq!(width.is_ok(), divides, "{minutes}");
            let Ok(width) = width else { continue };
            assert_eq!(width.seconds(), i64::from(minutes) * MINUTE);
            assert_eq!(width.to_string().parse::<TimeWidth>().unwrap(), width);
        }
        let ten = TimeWidth::minutes(10).unwrap();
        assert_eq!(ten.to_string(), "10-minute");
        let at = at(1_795_240_000 + 39 * MINUTE);
        assert_eq!(ten.name_of(ten.bucket(at)), "2026-11-21-06-20");
        for text in [
            "",
            "weekly",
            "7-minute",
            "010-minute",
            "60-minute",
            "-1-minute",
            "minute",
        ] {
            assert!(text.parse::<TimeWidth>().is_err(), "{text}");
        }
    }

    #[test]
    fn years_and_days_begin_where_the_calendar_says() {
        // The last second of 2024-02-29.
        let second = 1_709_251_199;
        assert_eq!(day_name(day_begin(second)), "2024-02-29");
        assert_eq!(day_end(day_begin(second)), second + 1);
        assert_eq!(year_begin(second), 1_704_067_200);
        assert_eq!(year_end(year_begin(second)), 1_735_689_600);
        assert_eq!(year_name(second), "2024");
        assert_eq!(year_begin(-1), -365 * DAY);
        assert_eq!(year_end(year_begin(-1)), 0);
    }

    #[test]
    fn a_bucket_holds_its_first_microsecond_and_not_the_next_ones_first() {
        for width in [
            TimeWidth::minutes(1).unwrap(),
            TimeWidth::Hourly,
            TimeWidth::Daily,
        ] {
            for start in [0, 951_782_400, -DAY] {
                let start = width.bucket(at(start));
                let first = at(start.0);
                let last = Micros(at(start.0 + width.seconds()).0 - 1);
                assert_eq!(width.bucket(first), start);
                assert_eq!(width.bucket(last), start);
                assert_ne!(width.bucket(Micros(first.0 - 1)), start);
                assert_ne!(width.bucket(Micros(last.0 + 1)), start);
            }
        }
    }

    #[test]
    fn times_come_back_to_the_microsecond() {
        for nanos in [0_u64, 1_999, 951_782_400_123_456_789] {
            let time = UNIX_EPOCH + Duration::from_nanos(nanos);
            let micros = Micros::of(time).unwrap();
            assert_eq!(micros.0, (nanos / 1_000) as i64);
            assert_eq!(
                micros.time(),
                UNIX_EPOCH + Duration::from_micros(nanos / 1_000)
            );
        }
        let before = UNIX_EPOCH - Duration::from_nanos(1);
        assert_eq!(Micros::of(before).unwrap(), Micros(-1));
        assert_eq!(Micros(-1).time(), UNIX_EPOCH - Duration::from_micros(1));
        for time in [
            UNIX_EPOCH + Duration::from_secs(SECONDS.end as u64),
            UNIX_EPOCH - Duration::from_secs(1 + SECONDS.start.unsigned_abs()),
        ] {
            assert_eq!(Micros::of(time).unwrap_err().result_code(), 4);
        }
    }
}
