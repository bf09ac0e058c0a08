//! Counters for the costs of operations on collections, in tests: they enforce the documented table
//! of costs. Outside tests the counting compiles to nothing.

#[cfg(test)]
use std::cell::Cell;

#[cfg(test)]
thread_local! {
    static VISITS: Cell<usize> = const { Cell::new(0) };
    static COPIED: Cell<usize> = const { Cell::new(0) };
}

/// Counts one element visit: an element skipped, compared or read.
#[inline]
pub(super) fn visit() {
    visits(1);
}

/// Counts several element visits.
#[inline]
pub(super) fn visits(_elements: u32) {
    #[cfg(test)]
    VISITS.set(VISITS.get() + _elements as usize);
}

/// Counts bytes of elements and index copied from the old collection to the new one.
#[inline]
pub(super) fn copy(_bytes: usize) {
    #[cfg(test)]
    COPIED.set(COPIED.get() + _bytes);
}

/// Returns the counts of this thread during `f`: element visits, bytes copied.
#[cfg(test)]
pub(super) fn of<R>(f: impl FnOnce() -> R) -> (R, usize, usize) {
    let before = (VISITS.get(), COPIED.get());
    let result = f();
    (result, VISITS.get() - before.0, COPIED.get() - before.1)
}
