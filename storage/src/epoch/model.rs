//! The promise of guards in a few lines, for the model checker.

use super::WatchedBlock;
use std::collections::BTreeSet;

use crate::sync::Mutex;

type Deferred = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    next_id: u64,
    live: BTreeSet<u64>,
    /// Each with the id of the first guard it does *not* wait for.
    deferred: Vec<(u64, Deferred)>,
}

shuttle::lazy_static! {
    static ref STATE: Mutex<State> = Mutex::new(State::default());
}

/// Protects what its holder reads, until it is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    id: u64,
    /// As in `crossbeam-epoch`, a guard stays on its thread.
    _not_send: std::marker::PhantomData<*const ()>,
}

pub(crate) fn pin() -> Guard {
    let mut state = STATE.lock();
    let id = state.next_id;
    state.next_id += 1;
    state.live.insert(id);
    Guard {
        id,
        _not_send: std::marker::PhantomData,
    }
}

/// The model does not ask which thread has a guard.
pub(crate) fn is_pinned() -> bool {
    false
}

/// The epoch alone decides in the model.
pub(crate) fn is_unseen(_block: WatchedBlock) -> bool {
    false
}

/// Runs `f` while these guards protect nothing.
pub(crate) fn without_guards<R>(guards: &mut [&mut Guard], f: impl FnOnce() -> R) -> R {
    for guard in guards {
        drop(std::mem::replace(*guard, pin()));
    }
    // The new guards have been there all the while: the model is stricter than the promise.
    f()
}

impl Guard {
    pub(crate) fn narrow(&self, _block: WatchedBlock) {}

    /// Runs `f` once every guard that exists now, this one included, has been dropped.
    pub(crate) fn defer<R>(&self, f: impl FnOnce() -> R + Send + 'static) {
        let mut state = STATE.lock();
        let waits_below = state.next_id;
        state
            .deferred
            .push((waits_below, Box::new(move || drop(f()))));
    }

    /// Nothing to do: the model keeps nothing back.
    pub(crate) fn flush(&self) {}
}

impl Drop for Guard {
    fn drop(&mut self) {
        let due = {
            let mut state = STATE.lock();
            state.live.remove(&self.id);
            let oldest = state.live.first().copied().unwrap_or(u64::MAX);
            let (due, waiting) = std::mem::take(&mut state.deferred)
                .into_iter()
                .partition::<Vec<_>, _>(|(waits_below, _)| *waits_below <= oldest);
            state.deferred = waiting;
            due
        };
        for (_, f) in due {
            f();
        }
    }
}
