//! Standard output, notes and progress. What is printed is made by [`crate::report`].

use std::io::{self, Write as _};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::Failure;
use crate::report::Report;

/// Writes to standard output. A reader that has seen enough and left is no failure: the exit code
/// still says what was found.
pub(crate) fn emit(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// The version of the objects that [`emit_found`] prints: it grows when a field changes its meaning
/// or goes.
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct Versioned<'a, T> {
    schema_version: u32,
    #[serde(flatten)]
    found: &'a T,
}

/// Writes what a command has found to standard output: the object, indented, with the version of
/// its form, if it is asked for, or else the report as text.
pub(crate) fn emit_found(
    json: bool,
    object: &impl Serialize,
    report: impl FnOnce() -> Report,
) -> Result<(), Failure> {
    if !json {
        return emit(&report().to_text());
    }
    let versioned = Versioned {
        schema_version: SCHEMA_VERSION,
        found: object,
    };
    let mut text =
        serde_json::to_string_pretty(&versioned).map_err(|error| Failure::Output(error.into()))?;
    text.push('\n');
    emit(&text)
}

/// Writes a note that is not part of the result to standard error.
pub(crate) fn note(text: &str) {
    eprintln!("note: {text}");
}

/// What a progress bar counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// Records, edges, anything that is counted.
    Number,
    /// Bytes, shown as KiB, MiB, GiB.
    Bytes,
    /// Rows of a measurement, which take much longer than records.
    Rows,
}

/// Returns a progress bar on standard error, with what is done, how fast, and how long it will take.
/// It draws nothing unless that is a terminal.
pub(crate) fn progress(what: &'static str, total: u64, unit: Unit) -> ProgressBar {
    let style = ProgressStyle::with_template(match unit {
        Unit::Number => "{msg:<10} [{bar:40}] {human_pos} of {human_len}, {per_sec:.0}, {eta} left",
        Unit::Bytes => {
            "{msg:<10} [{bar:40}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left"
        }
        Unit::Rows => "{msg:<10} [{bar:40}] {pos} of {len} rows, {elapsed} so far, {eta} left",
    });
    let bar = ProgressBar::new(total).with_message(what);
    bar.set_style(
        style
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> "),
    );
    bar
}
