//! Times as people write them, in UTC.

use spikelet::shard::arithmetic::BucketWidth;

const DAY_MS: u64 = BucketWidth::Day.seconds() * 1000;

/// Writes a time in milliseconds since 2010-01-01T00:00:00Z as `2026-11-21 05:40`.
pub(super) fn date(since_2010_ms: u64) -> String {
    let (mut days, minutes) = (since_2010_ms / DAY_MS, since_2010_ms % DAY_MS / 60_000);
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    // 400 years have always as many days.
    let mut year = 2010 + days / 146_097 * 400;
    days %= 146_097;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
    ] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute) = (minutes / 60, minutes % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        // Unix seconds, as `date -u -d` gives them.
        let table = [
            (1_262_304_000, "2010-01-01 00:00"),
            (1_330_519_140, "2012-02-29 12:39"),
            (1_735_689_599, "2024-12-31 23:59"),
            (1_795_239_600, "2026-11-21 05:40"),
            (4_107_542_400, "2100-03-01 00:00"),
        ];
        for (unix, expected) in table {
            assert_eq!(date((unix - 1_262_304_000) * 1000), expected);
        }
        assert!(date(u64::MAX).len() > 16);
    }
}
