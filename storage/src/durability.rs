//! [`Durability`]: when a write is acknowledged, and how often the background syncs.

use std::time::Duration;

/// The cost of a power failure. After one, the store is as it was at one moment, not before the
/// last sync. A process that is killed loses nothing acknowledged under any of them: it is in a
/// shared mapping, which belongs to the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Writes are synced every 30 s, and when defragmentation needs it. A power failure costs at
    /// most the writes since.
    Process,
    /// Writes are synced in the background once an interval. A power failure costs at most the last
    /// two intervals.
    Interval(Duration),
    /// A write is acknowledged after the sync that covers it; writers that wait at the same time
    /// share one sync.
    Commit,
}

impl Durability {
    /// The period of the background sync of [`Durability::Process`]: that of the kernel's own
    /// write-back of old pages.
    pub(crate) const PROCESS_PERIOD: Duration = Duration::from_secs(30);

    /// How often the background syncs; `Commit` has nothing left to do but what defragmentation
    /// moved.
    pub(crate) const fn period(self) -> Duration {
        match self {
            Self::Process | Self::Commit => Self::PROCESS_PERIOD,
            Self::Interval(period) => period,
        }
    }
}

impl Default for Durability {
    fn default() -> Self {
        Self::Interval(Duration::from_millis(100))
    }
}
