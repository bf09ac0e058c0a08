//! Counters, which only rise, gauges, and the names under which both are shown.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn count(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts by a number, such as that of a kind.
#[derive(Debug)]
pub(crate) struct Counts<const N: usize>([Counter; N]);

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl<const N: usize> Counts<N> {
    pub(crate) fn add(&self, at: usize, more: u64) {
        if let Some(counter) = self.0.get(at) {
            counter.add(more);
        }
    }

    pub(crate) fn get(&self, at: usize) -> u64 {
        self.0.get(at).map_or(0, Counter::get)
    }

    pub(crate) fn all(&self) -> [u64; N] {
        std::array::from_fn(|at| self.get(at))
    }
}

/// Names and values, as statistics show them.
#[derive(Debug, Default)]
pub(crate) struct Pairs(pub(crate) Vec<(String, String)>);

impl Pairs {
    pub(crate) fn add(&mut self, key: impl Into<String>, value: impl Display) {
        self.0.push((key.into(), value.to_string()));
    }

    pub(crate) fn add_all<K: Into<String>, V: Display>(
        &mut self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) {
        for (key, value) in pairs {
            self.add(key, value);
        }
    }

    /// `key=value` between semicolons.
    pub(crate) fn text(&self) -> String {
        let shown = self.0.iter().map(|(key, value)| format!("{key}={value}"));
        shown.collect::<Vec<_>>().join(";")
    }
}

/// How many of a kind there are at present.
#[derive(Debug, Default)]
pub(crate) struct Gauge(Arc<AtomicU64>);

/// One of them, counted while it lives.
#[derive(Debug)]
pub(crate) struct Counted(Arc<AtomicU64>);

impl Gauge {
    /// Counts one more, unless there are `most`.
    pub(crate) fn enter(&self, most: u64) -> Option<Counted> {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(Arc::clone(&self.0));
        (before < most).then_some(counted)
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
