//! The changes to be shown.

use spikelet_storage::Delivery;

use super::change::Position;
use crate::expression::Expression;
use crate::setters::setters;

/// Where to begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Start {
    /// With the changes from now on. Earlier writes are visible to readers by then, so that
    /// scanning the set after this misses nothing.
    Now,
    /// With the oldest change that is kept.
    Beginning,
    /// Behind the change with this position, and its group.
    After(Position),
}

/// The changes to be shown: of which sets, of which records, when.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct ChangeOptions {
    /// The sets. Empty: all with kept changes.
    pub sets: Vec<Box<str>>,
    /// Only changes of records for which this holds as they are now. Changes of absent records are
    /// shown.
    pub filter: Option<Expression>,
    /// Whether each change brings its record as it is now.
    pub records: bool,
    /// Which changes are shown. Default: the durable ones.
    pub delivery: Delivery,
    /// Into how many shares the records are divided, by the partitions of their digests: as many
    /// consumers can share a subscription. Fixed when it is made. Default: 1.
    pub shares: usize,
}

impl Default for ChangeOptions {
    fn default() -> Self {
        Self {
            sets: Vec::new(),
            filter: None,
            records: false,
            delivery: Delivery::default(),
            shares: 1,
        }
    }
}

impl ChangeOptions {
    /// Adds a set to [`ChangeOptions::sets`].
    #[must_use]
    pub fn set(mut self, name: &str) -> Self {
        self.sets.push(name.into());
        self
    }

    setters! {
        /// Sets [`ChangeOptions::filter`].
        filter: Expression,
    }

    setters! { const
        /// Sets [`ChangeOptions::records`]: whether each change brings its record as it is now.
        records: bool,
        /// Sets [`ChangeOptions::delivery`].
        delivery: Delivery,
        /// Sets [`ChangeOptions::shares`]: how many consumers can share the subscription.
        shares: usize,
    }
}
