//! The page that a command writes beside what it prints.

use std::path::Path;

use spikelet::backup::is_within;

use super::Failure;
use crate::report::Report;

/// Refuses a place where a page would cost what the command reads: one of the inputs, or inside a
/// directory among them.
///
/// # Errors
/// The place, and which input it would harm.
pub(crate) fn check_place(page: &Path, inputs: &[&Path]) -> Result<(), Failure> {
    match inputs.iter().find(|input| is_within(page, input)) {
        None => Ok(()),
        Some(input) => Err(Failure::Input(format!(
            "--html {}: this is, or is inside, {}, which is read: name another place",
            page.display(),
            input.display()
        ))),
    }
}

/// Writes a page over what is there, unless that is one of the inputs.
///
/// # Errors
/// As for [`check_place`]; a file that cannot be written.
pub(crate) fn write_page(page: &Path, inputs: &[&Path], report: &Report) -> Result<(), Failure> {
    check_place(page, inputs)?;
    std::fs::write(page, report.to_html())
        .map_err(|error| Failure::Input(format!("cannot write {}: {error}", page.display())))
}
