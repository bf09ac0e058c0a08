//! Sizes and times as people write them: `4096`, `16KiB`, `1M`; `500ms`, `90m`, `30d`.

use std::time::Duration;

/// The longest time, in seconds: 95 years. In nanoseconds it fits 64 bits.
const SECONDS_MAX: f64 = 3e9;

/// Parses a time: `5`, `5s`, `500ms`, `2m`, `12h`, `30d`, `4w`.
///
/// # Errors
/// The expected forms, in words.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let seconds = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        _ => f64::NAN,
    };
    let seconds = number.parse().map(|number: f64| number * seconds);
    let seconds = seconds.ok().filter(|s| (0.0..=SECONDS_MAX).contains(s));
    let time = seconds.map(Duration::from_secs_f64);
    time.ok_or_else(|| "expected a time such as 5s, 500ms, 2m, 12h or 30d".to_owned())
}

/// Parses a size into bytes. Units are powers of 1,024, as in Aerospike's configuration, with or
/// without `iB`.
///
/// # Errors
/// The expected forms, in words.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("{text:?} is no size: write bytes, or 16KiB, 1MiB, 2GiB");
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("{text:?} is more than can be counted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, expected) in [
            ("0", 0),
            ("4096", 4096),
            ("16KiB", 16 << 10),
            ("16k", 16 << 10),
            ("1 MiB", 1 << 20),
            ("2G", 2 << 30),
            ("7B", 7),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for wrong in [
            "",
            "KiB",
            "-1",
            "1.5M",
            "16 KiBs",
            "99999999999G",
            "99999999999999999999",
        ] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_read_with_their_units() {
        for (text, millis) in [
            ("5", 5_000),
            ("5s", 5_000),
            ("0.5", 500),
            ("500ms", 500),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "5x", "-5", "1e99"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
