//! Work that several threads share, waiting that can be ended, and Ctrl-C, which ends it: a command
//! ends in order, with its results so far; interrupted again, it ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::failure::{self, CommandFailure};

/// How often a sleeper looks whether it is to end.
const NAP: Duration = Duration::from_millis(50);

/// Sleeps until a time; false, soon, if `stop` is or becomes true before.
pub(crate) fn sleep_until(time: Instant, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = time.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NAP));
    }
    false
}

/// Runs `work` on this many threads, each with its number, and returns what they return, in their
/// order. A panic goes on in the caller.
///
/// # Errors
/// The first error, by the numbers of the threads, after all have ended.
pub(crate) fn on_threads<T: Send, E: Send>(
    threads: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        running
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    })
}

/// Calls `work` for every item, dealt one by one to this many threads, and returns what it returns,
/// in no order. The first error ends the work.
///
/// # Errors
/// An error of `work`.
pub(crate) fn for_each<I: Sync, T: Send, E: Send>(
    items: &[I],
    threads: usize,
    work: impl Fn(&I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let done = on_threads(threads, |_| {
        let mut done = Vec::new();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = work(item);
            done.push(result.inspect_err(|_| next.store(items.len(), Ordering::Relaxed))?);
        }
        Ok(done)
    })?;
    Ok(done.into_iter().flatten().collect())
}

/// The exit code of a command that was interrupted, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Returns a flag that becomes true when the process is asked to end, by Ctrl-C or a signal. `then`
/// describes the reaction of the command.
///
/// # Errors
/// If signals cannot be waited for.
pub(crate) fn on_interrupt(then: &'static str) -> failure::Result<Arc<AtomicBool>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once() {
        for count in [0, 1, 64, 1_000] {
            let items: Vec<usize> = (0..count).collect();
            let mut done = for_each(&items, 3, |item| Ok::<_, ()>(*item)).unwrap();
            done.sort_unstable();
            assert_eq!(done, items);
        }
    }

    #[test]
    fn an_error_ends_the_work_and_is_returned() {
        let items: Vec<usize> = (0..1_000).collect();
        let fails_at = |item: &usize| if *item == 500 { Err("full") } else { Ok(()) };
        assert_eq!(for_each(&items, 2, fails_at), Err("full"));
        let worked = AtomicUsize::new(0);
        let counted = for_each(&items, 1, |item| {
            worked.fetch_add(1, Ordering::Relaxed);
            fails_at(item)
        });
        assert_eq!(
            (counted, worked.into_inner()),
            (Err("full"), 501),
            "none is worked on behind it"
        );
    }
}
