//! Work in several threads at once.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use spikelet_storage::PARTITIONS;

/// Repeats a step in this many threads, the caller's among them, until it returns `None` or breaks
/// off in one of them. Returns the value with which the first one has broken off. Each thread has a
/// state of its own.
pub(super) fn in_threads<S, B: Send>(
    threads: usize,
    state: impl Fn() -> S + Sync,
    step: impl Fn(&mut S) -> Option<ControlFlow<B>> + Sync,
) -> ControlFlow<B> {
    let (is_ended, with) = (AtomicBool::new(false), Mutex::new(None));
    let work = || {
        let mut state = state();
        while !is_ended.load(Ordering::Relaxed) {
            match step(&mut state) {
                None => return,
                Some(ControlFlow::Continue(())) => {}
                Some(ControlFlow::Break(broken)) => {
                    is_ended.store(true, Ordering::Relaxed);
                    with.lock().get_or_insert(broken);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Where the system refuses a thread, the caller's does its work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    with.into_inner()
        .map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Visits all partitions in this many threads, until a visit breaks off.
pub(super) fn each_partition<B: Send>(
    threads: usize,
    visit: impl Fn(usize) -> ControlFlow<B> + Sync,
) -> ControlFlow<B> {
    let next = AtomicUsize::new(0);
    let step = |(): &mut ()| {
        let partition = next.fetch_add(1, Ordering::Relaxed);
        (partition < PARTITIONS).then(|| visit(partition))
    };
    in_threads(threads, || (), step)
}

/// As many threads as there are processors.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
