//! Values of the arguments of `contention`: series of numbers, times, conditions.

use crate::failure::{CommandFailure, Result};

/// More rows would take a day.
pub(super) const ROWS_MAX: usize = 1_000;
pub(super) fn positive(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number > 0.0)
        .ok_or_else(|| "expected a number above 0".to_owned())
}

/// Parses a list of numbers and ranges; `next` returns what follows a number in a range without
/// steps.
pub(super) fn series(option: &str, text: &str, next: fn(f64) -> f64) -> Result<Vec<f64>> {
    let wrong = |part: &str, why: &str| {
        CommandFailure::Input(format!("--{option} {text:?}: {part:?} {why}"))
    };
    let example = match option {
        "writers" => "4..64 or 4..64:4",
        _ => "10..400 or 10..400:30",
    };
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| {
            let number: Option<f64> = text.trim().parse().ok();
            number
                .filter(|number| number.is_finite() && *number > 0.0)
                .ok_or_else(|| {
                    let why = format!("is no number above 0, and no range such as {example}");
                    wrong(part, &why)
                })
        };
        let Some((from, rest)) = part.split_once("..") else {
            numbers.push(number(part)?);
            continue;
        };
        let (to, step) = match rest.split_once(':') {
            Some((to, step)) => (number(to)?, Some(number(step)?)),
            None => (number(rest)?, None),
        };
        let mut at = number(from)?;
        if at > to {
            let why = format!("ends below its beginning: write {to}..{at}");
            return Err(wrong(part, &why));
        }
        while at < to {
            numbers.push(at);
            if numbers.len() > ROWS_MAX {
                return Err(too_many(numbers.len()));
            }
            at = step.map_or_else(|| next(at), |step| at + step);
        }
        numbers.push(to);
    }
    Ok(numbers)
}

pub(super) fn too_many(rows: usize) -> CommandFailure {
    CommandFailure::Input(format!(
        "{rows} rows or more: {ROWS_MAX} are possible, so ask for fewer rates, writers or shards"
    ))
}

/// Returns the next of 1, 2, 5, 10, 20, 50, 100 ..
pub(super) fn next_rate(after: f64) -> f64 {
    let decade = 10_f64.powf(after.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0].map(|step| step * decade);
    let beyond = steps.into_iter().find(|step| *step > after * 1.001);
    beyond.unwrap_or(after * 2.0)
}

/// Splits a text into conditions by spaces and commas, unless it is one condition with spaces
/// around its comparison.
pub(super) fn conditions(text: &str) -> Vec<String> {
    let separators = |c: char| c == ',' || c.is_whitespace();
    let parts: Vec<&str> = text
        .split(separators)
        .filter(|part| !part.is_empty())
        .collect();
    let whole = |part: &&str| part.contains(['<', '>', '=', '!']);
    if parts.iter().all(whole) && !parts.is_empty() {
        parts.into_iter().map(str::to_owned).collect()
    } else {
        vec![text.to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(text: &str) -> Option<Vec<f64>> {
        series("rate", text, next_rate).ok()
    }

    #[test]
    fn lists_and_ranges_are_read() {
        for (text, expected) in [
            ("50", vec![50.0]),
            ("25,50", vec![25.0, 50.0]),
            ("10..400", vec![10.0, 20.0, 50.0, 100.0, 200.0, 400.0]),
            ("12.5..60", vec![12.5, 20.0, 50.0, 60.0]),
            ("10..400:130", vec![10.0, 140.0, 270.0, 400.0]),
            ("5,10..20,400", vec![5.0, 10.0, 20.0, 400.0]),
            ("7..7", vec![7.0]),
        ] {
            assert_eq!(rates(text), Some(expected), "{text}");
        }
        let writers = series("writers", "1,2,4..64", |writers| writers * 2.0).unwrap();
        assert_eq!(writers, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
        for text in [
            "", "0", "-1", "a", "10..", "..10", "40..10", "1..2:0", "1..1e9:1", "nan", "inf",
        ] {
            assert_eq!(rates(text), None, "{text}");
        }
    }

    #[test]
    fn conditions_are_separated_by_spaces_or_commas() {
        assert_eq!(conditions("p99<30ms lost==0"), ["p99<30ms", "lost==0"]);
        assert_eq!(conditions("p99<30ms,lost==0"), ["p99<30ms", "lost==0"]);
        assert_eq!(conditions("key_busy > 0.1 %"), ["key_busy > 0.1 %"]);
    }
}
