//! Ctrl-C: a command ends in order, with its results so far; interrupted again, it ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{CommandFailure, Result};

/// The exit code of a command that was interrupted, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Returns a flag that becomes true when the process is asked to end, by Ctrl-C or a signal. `then`
/// describes the reaction of the command.
///
/// # Errors
/// If signals cannot be waited for.
pub(crate) fn on_interrupt(then: &'static str) -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if asked.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        eprintln!("\ninterrupted: {then}; interrupt again to end at once");
    })
    .map_err(|error| CommandFailure::Input(format!("cannot wait for signals: {error}")))?;
    Ok(stop)
}
