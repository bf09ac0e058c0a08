//! Counters of what operations on collections cost, in tests: the table of costs is a promise, and this is how it is
//! held. Outside tests the counting compiles to nothing.

#[cfg(test)]
use std::cell::Cell;

#[cfg(test)]
thread_local! {
    static VISITS: Cell<usize> = const { Cell::new(0) };
    static COPIED: Cell<usize> = const { Cell::new(0) };
}

/// Element looks: one for each element that is stepped over, compared with, or read.
#[inline]
pub(super) fn visit() {
    visits(1);
}

/// Several of them.
#[inline]
pub(super) fn visits(_elements: u32) {
    #[cfg(test)]
    VISITS.set(VISITS.get() + _elements as usize);
}

/// Bytes of elements and index copied from the old collection to the new one.
#[inline]
pub(super) fn copy(_bytes: usize) {
    #[cfg(test)]
    COPIED.set(COPIED.get() + _bytes);
}

/// What was counted on this thread while `f` ran: element visits, bytes copied.
#[cfg(test)]
pub(super) fn of<R>(f: impl FnOnce() -> R) -> (R, usize, usize) {
    let before = (VISITS.get(), COPIED.get());
    let result = f();
    (result, VISITS.get() - before.0, COPIED.get() - before.1)
}
