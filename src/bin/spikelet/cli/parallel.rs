//! Work dealt to threads, chunk by chunk.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use indicatif::ProgressBar;

/// How many items a thread takes at once, of many. Few, so that the threads stay close together in
/// the order of the items and meet at the same records; enough that the dealing costs nothing.
const CHUNK: usize = 64;

/// How often a thread takes items at least, so that few large ones are dealt evenly.
const CHUNKS_A_THREAD: usize = 8;

/// Calls `work` for every item from `threads` threads, each with a state of its own, and returns
/// the states. The first error ends the work.
pub(crate) fn for_each<T: Sync, S: Send, E: Send>(
    items: &[T],
    threads: usize,
    progress: &ProgressBar,
    state: impl Fn(usize) -> S + Sync,
    work: impl Fn(&mut S, &T) -> Result<(), E> + Sync,
) -> Result<Vec<S>, E> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let chunk = (items.len() / (threads * CHUNKS_A_THREAD)).clamp(1, CHUNK);
    let run = |number| {
        let mut own = state(number);
        while !failed.load(Ordering::Relaxed) {
            let start = next.fetch_add(chunk, Ordering::Relaxed);
            let Some(rest) = items.get(start..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            let dealt = rest.get(..chunk).unwrap_or(rest);
            if let Err(error) = dealt.iter().try_for_each(|item| work(&mut own, item)) {
                failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
            progress.inc(dealt.len() as u64);
        }
        Ok(own)
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || run(number)))
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use spikelet::Error;

    #[test]
    fn every_item_is_worked_on_once() {
        for count in [0, 1, CHUNK, CHUNK + 1, 1_000] {
            let items: Vec<usize> = (0..count).collect();
            let bar = ProgressBar::hidden();
            let done = for_each(
                &items,
                3,
                &bar,
                |_| Vec::new(),
                |own, item| {
                    own.push(*item);
                    Ok::<_, Error>(())
                },
            );
            let mut all = done.unwrap().concat();
            all.sort_unstable();
            assert_eq!(all, items);
            assert_eq!(bar.position(), count as u64);
        }
    }

    #[test]
    fn an_error_ends_the_work_and_is_returned() {
        let items: Vec<usize> = (0..1_000).collect();
        let done = for_each(
            &items,
            2,
            &ProgressBar::hidden(),
            |_| (),
            |(), item| {
                if *item == 500 {
                    Err(Error::NotFound { record: None })
                } else {
                    Ok(())
                }
            },
        );
        assert!(matches!(done, Err(Error::NotFound { .. })));
    }
}
