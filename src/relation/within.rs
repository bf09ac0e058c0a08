//! `Within`: a part of a relation, and the store in which it is read and written.

use std::ops::Deref;

/// A part of a relation in a store.
pub(super) struct Within<'a, T, S> {
    pub(super) part: &'a T,
    pub(super) store: &'a S,
}

/// Returns a part of a relation in a store.
pub(super) const fn within<'a, T, S>(part: &'a T, store: &'a S) -> Within<'a, T, S> {
    Within { part, store }
}

impl<T, S> Deref for Within<'_, T, S> {
    type Target = T;

    fn deref(&self) -> &T {
        self.part
    }
}
