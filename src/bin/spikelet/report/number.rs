//! Numbers as people read them, and the keys of records.

use std::time::{Duration, UNIX_EPOCH};

use indicatif::HumanCount;
use spikelet::Key;
use spikelet::shard::TimeWidth;

/// Longer keys are shortened to this many characters.
const KEY_CHARS: usize = 64;

/// Writes `1234567` as `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Writes `1234567` as `1.2 MiB`; below 1,024 as `123 B`.
pub(crate) fn bytes(number: u64) -> String {
    if number < 1024 {
        return format!("{number} B");
    }
    let mut value = number as f64;
    let mut name = "";
    for unit in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        // What would be rounded to a whole step belongs to the next unit.
        if !name.is_empty() && value < 1024.0 - 0.05 {
            break;
        }
        value /= 1024.0;
        name = unit;
    }
    format!("{value:.1} {name}")
}

/// Writes a number with this many decimals, grouped by thousands; `-` for NaN and infinities.
pub(crate) fn decimal(number: f64, decimals: usize) -> String {
    if !number.is_finite() {
        return "-".to_owned();
    }
    let text = format!("{:.decimals$}", number.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), count);
    let sign = if number < 0.0 && text.bytes().any(|digit| matches!(digit, b'1'..=b'9')) {
        "-"
    } else {
        ""
    };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// Writes a time in the unit that fits, with three digits: `7.5 us`, `28.1 ms`, `2 s`.
pub(crate) fn duration(time: Duration) -> String {
    micros(time.as_secs_f64() * 1e6)
}

/// Writes a key: text escaped so that it cannot break a line, bytes as hexadecimal digits;
/// shortened if it is long.
pub(crate) fn key(key: &Key<'_>) -> String {
    let text = match key {
        Key::Integer(value) => return value.to_string(),
        Key::String(text) => text
            .chars()
            .flat_map(char::escape_debug)
            .collect::<String>(),
        Key::Blob(bytes) => bytes
            .iter()
            .fold("0x".to_owned(), |hex, byte| format!("{hex}{byte:02x}")),
    };
    shortened(text, KEY_CHARS)
}

/// Cuts a text to this many characters, with three dots behind them.
pub(crate) fn shortened(text: String, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text,
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
    }
}

/// Writes a part of one in percent with this many decimals. Only 0 is shown as 0.
pub(crate) fn percent(part: f64, decimals: usize) -> String {
    let least = 10_f64.powi(-(decimals as i32));
    match part * 100.0 {
        0.0 => "0 %".to_owned(),
        percent if percent > 0.0 && percent < least => format!("<{least} %"),
        percent => format!("{} %", decimal(percent, decimals)),
    }
}

/// Writes a number with all its decimals, up to six of them.
pub(crate) fn exact(number: f64) -> String {
    let is_whole = |places: &usize| {
        let scaled = number * 10_f64.powi(*places as i32);
        (scaled - scaled.round()).abs() < 1e-6
    };
    decimal(number, (0..6).find(is_whole).unwrap_or(6))
}

/// Writes a number with as few decimals as leave three digits: `1234`, `12.3`, `0.0012`.
pub(crate) fn short(number: f64) -> String {
    let size = number.abs();
    let decimals = match size {
        _ if size >= 100.0 || size == 0.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => (2 - size.log10().floor() as i32).clamp(0, 9) as usize,
    };
    let text = decimal(number, decimals);
    if text.contains('.') {
        let text = text.trim_end_matches('0');
        return text.trim_end_matches('.').to_owned();
    }
    text
}

/// Writes microseconds in the unit that fits.
pub(crate) fn micros(number: f64) -> String {
    match number {
        _ if number >= 1e6 => format!("{} s", short(number / 1e6)),
        _ if number >= 1e3 => format!("{} ms", short(number / 1e3)),
        _ => format!("{} us", short(number)),
    }
}

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

/// Returns the number of decimals with which microseconds are shown as milliseconds: more for short
/// times.
pub(crate) fn millis_decimals(micros: f64) -> usize {
    match micros {
        _ if micros >= 10_000.0 => 1,
        _ if micros >= 100.0 => 2,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn sizes_stand_in_the_unit_that_fits() {
        for (number, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (131_072, "128.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn decimals_are_grouped_and_nonsense_is_a_dash() {
        for (number, decimals, text) in [
            (1234.567, 1, "1,234.6"),
            (-1234.0, 0, "-1,234"),
            (-0.001, 1, "0.0"),
            (f64::NAN, 1, "-"),
            (f64::INFINITY, 1, "-"),
        ] {
            assert_eq!(decimal(number, decimals), text);
        }
    }

    #[test]
    fn a_share_is_0_only_if_it_is() {
        for (part, text) in [
            (0.0, "0 %"),
            (1e-9, "<0.001 %"),
            (0.000_01, "0.001 %"),
            (0.373_84, "37.384 %"),
            (1.0, "100.000 %"),
        ] {
            assert_eq!(percent(part, 3), text);
        }
    }

    #[test]
    fn numbers_have_the_decimals_that_they_need() {
        for (number, text) in [(50.0, "50"), (50.04, "50.04"), (1e3 / 3.0, "333.333333")] {
            assert_eq!(exact(number), text);
        }
    }

    #[test]
    fn short_numbers_keep_three_digits() {
        for (number, text) in [
            (0.0, "0"),
            (1234.5, "1,234"),
            (12.34, "12.3"),
            (2.0, "2"),
            (0.00123, "0.00123"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn times_stand_in_the_unit_that_fits() {
        for (nanos, text) in [
            (0, "0 us"),
            (90, "0.09 us"),
            (7_500, "7.5 us"),
            (28_100_000, "28.1 ms"),
            (2_000_000_000, "2 s"),
        ] {
            assert_eq!(duration(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn keys_are_shown_so_that_they_cannot_break_a_line() {
        let table = [
            (Key::from(-7), "-7".to_owned()),
            ("ada".into(), "ada".to_owned()),
            ("a\nb\u{1b}".into(), "a\\nb\\u{1b}".to_owned()),
            (vec![0u8, 255].into(), "0x00ff".to_owned()),
            ("ö".repeat(80).into(), format!("{}...", "ö".repeat(64))),
        ];
        for (one, text) in table {
            assert_eq!(key(&one), text);
        }
    }

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
