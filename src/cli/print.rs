//! Text for people: numbers, rows, progress; and standard output.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use spikelet::Key;

use super::Failure;

/// Where the values of rows begin.
const LABEL_COLUMNS: usize = 24;

/// Longer keys are shortened to so many characters.
const KEY_CHARS: usize = 32;

/// A report: titles, rows and tables, at most 100 columns wide.
#[derive(Debug, Default)]
pub(crate) struct Report {
    text: String,
}

impl Report {
    /// A title, with an empty line before it unless it is the first line.
    pub(crate) fn title(&mut self, title: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.text, "{gap}{title}");
    }

    pub(crate) fn row(&mut self, label: &str, value: impl AsRef<str>) {
        // A long label pushes its value to the right, two spaces away.
        let label = format!("{label}  ");
        let _ = writeln!(self.text, "  {label:<LABEL_COLUMNS$}{}", value.as_ref());
    }

    /// A table under a heading: the first column to the left, the others, which are numbers, to the right.
    pub(crate) fn table<const N: usize>(&mut self, heading: [&str; N], rows: &[[String; N]]) {
        let heading = heading.map(str::to_owned);
        let lines = || std::iter::once(&heading).chain(rows);
        let mut widths = [0; N];
        for line in lines() {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = cell.chars().count().max(*width);
            }
        }
        for line in lines() {
            self.text.push_str("   ");
            for (column, (width, cell)) in widths.iter().zip(line).enumerate() {
                let _ = match column {
                    0 => write!(self.text, " {cell:<width$}"),
                    _ => write!(self.text, "  {cell:>width$}"),
                };
            }
            self.text.truncate(self.text.trim_end().len());
            self.text.push('\n');
        }
    }

    /// Writes the report to standard output.
    pub(crate) fn emit(&self) -> Result<(), Failure> {
        emit(&self.text)
    }
}

/// Writes an object as JSON to standard output.
pub(crate) fn emit_json(object: &impl Serialize) -> Result<(), Failure> {
    let mut text =
        serde_json::to_string_pretty(object).map_err(|error| Failure::Output(error.into()))?;
    text.push('\n');
    emit(&text)
}

/// A reader that has seen enough and left is no failure: the exit code still says what was found.
fn emit(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// Something worth knowing that is not part of the result.
pub(crate) fn note(text: &str) {
    eprintln!("note: {text}");
}

/// `1234567` as `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1234567` as `1,234,567 bytes (1.2 MiB)`.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scaled = number as f64;
    let mut name = None;
    for unit in UNITS {
        // What would be rounded to 1024.0 belongs to the next unit.
        if scaled < 1023.95 {
            break;
        }
        scaled /= 1024.0;
        name = Some(unit);
    }
    let size = name.map_or_else(String::new, |unit| format!(" ({scaled:.1} {unit})"));
    format!("{} bytes{size}", count(number))
}

pub(crate) fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A key as people write it; text and bytes are escaped, and shortened if they are long.
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
    match text.char_indices().nth(KEY_CHARS) {
        None => text,
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
    }
}

/// A progress bar on standard error; it draws nothing unless that is a terminal.
pub(crate) fn progress(what: &'static str, total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{msg:<10} [{bar:40}] {human_pos} of {human_len}, {per_sec}, {eta} left",
    );
    let bar = ProgressBar::new(total).with_message(what);
    bar.set_style(
        style
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> "),
    );
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let table = [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ];
        for (number, text) in table {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn sizes_are_told_in_bytes_and_in_the_unit_that_fits() {
        let table = [
            (0, "0 bytes"),
            (1_023, "1,023 bytes"),
            (1_024, "1,024 bytes (1.0 KiB)"),
            (1_048_575, "1,048,575 bytes (1.0 MiB)"),
            (1_572_864, "1,572,864 bytes (1.5 MiB)"),
            (64 << 30, "68,719,476,736 bytes (64.0 GiB)"),
            (u64::MAX, "18,446,744,073,709,551,615 bytes (16384.0 PiB)"),
        ];
        for (number, text) in table {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn keys_are_shown_so_that_they_cannot_break_a_line() {
        let table = [
            (Key::from(-7), "-7".to_owned()),
            ("ada".into(), "ada".to_owned()),
            ("a\nb\u{1b}".into(), "a\\nb\\u{1b}".to_owned()),
            (vec![0u8, 255].into(), "0x00ff".to_owned()),
            ("ö".repeat(40).into(), format!("{}...", "ö".repeat(32))),
        ];
        for (one, text) in table {
            assert_eq!(key(&one), text);
        }
    }

    #[test]
    fn a_table_is_aligned() {
        let mut report = Report::default();
        report.title("People");
        report.row("how many", count(2));
        report.row("how many of those that are here", "1");
        report.table(
            ["key", "bytes"],
            &[
                ["ö".into(), "12".into()],
                ["long key".into(), "3,000".into()],
            ],
        );
        let expected = "People\n  how many                2\n  \
            how many of those that are here  1\n    key       bytes\n    ö            12\n    long key  3,000\n";
        assert_eq!(report.text, expected);
    }
}
