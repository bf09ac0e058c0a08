//! Times as people write them, in UTC.

use std::time::{Duration, UNIX_EPOCH};

use spikelet::shard::TimeWidth;

/// From 1970 to 2010, where a store's time begins.
const TO_2010: Duration = Duration::from_secs(1_262_304_000);

/// Writes a time in milliseconds since 2010-01-01T00:00:00Z as `2026-11-21 05:40`.
pub(super) fn date(since_2010_ms: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(since_2010_ms) + TO_2010);
    let minute = at.and_then(|at| TimeWidth::minutes(1).ok()?.bucket_name(at).ok());
    let minute = minute.unwrap_or_default();
    match minute.rsplitn(3, '-').collect::<Vec<_>>().as_slice() {
        [minute, hour, day] => format!("{day} {hour}:{minute}"),
        _ => "after the year 9999".to_owned(),
    }
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
