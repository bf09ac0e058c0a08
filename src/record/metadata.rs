//! What a record knows about itself besides its bins.

use std::time::{Duration, SystemTime};

/// The time from which void times and last update times count, 2010-01-01T00:00:00Z, after the Unix
/// epoch.
const EPOCH_AFTER_UNIX: Duration = Duration::from_secs(spikelet_storage::EPOCH_UNIX_SECONDS);

/// Generation and times of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Metadata {
    /// How often the record was written since it was created, 1 to 65,535, then 1 again.
    pub generation: u16,
    /// The second, since 2010-01-01T00:00:00Z, after which the record has expired; 0: never.
    pub void_time: u32,
    /// When the record was last written, in milliseconds since 2010-01-01T00:00:00Z.
    pub last_update_ms: u64,
}

impl Metadata {
    /// When the record expires; `None`: never.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        (self.void_time != 0).then(|| at(Duration::from_secs(u64::from(self.void_time))))
    }

    /// When the record was last written.
    #[must_use]
    pub fn last_update(&self) -> SystemTime {
        at(Duration::from_millis(self.last_update_ms))
    }
}

fn at(since_epoch: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + EPOCH_AFTER_UNIX.saturating_add(since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_the_year_2010() {
        let unix = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let metadata = Metadata {
            generation: 1,
            void_time: 10,
            last_update_ms: 5_000,
        };
        assert_eq!(metadata.expires_at(), Some(unix(1_262_304_010)));
        assert_eq!(metadata.last_update(), unix(1_262_304_005));
        assert_eq!(Metadata::default().expires_at(), None);
    }
}
