//! What a phase costs beside time: processor time and bytes for the disk.

use crate::Result;
use crate::disk::Traffic;
use crate::memory;
use crate::stores::{LogBytes, Metered};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::time::Duration;

/// What a phase cost, a sync at its end included; the time of that sync is not in the rates.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The divisor of the costs: the operations of the phase, its warm-up included.
    pub operations: u64,
    /// Bytes, seen from outside.
    pub traffic: Traffic,
    /// Bytes of log, as the store counts them.
    pub log: Option<LogBytes>,
    /// User and system time of all threads of the process, the store's own threads included.
    pub processor: Duration,
    /// Bytes that the files of the store have allocated at the end.
    pub disk_bytes: u64,
    /// Anonymous memory of the process that came on top during the phase, in bytes.
    pub memory_bytes: u64,
}

/// The counters at the start of a phase.
#[derive(Debug)]
pub struct Meter {
    traffic: Traffic,
    log: Option<LogBytes>,
    memory_bytes: u64,
    processor: Duration,
}

impl Meter {
    /// Reads the counters of this process and of `store`, which lives in `dir`.
    pub fn start(store: &dyn Metered, dir: &Path) -> Result<Self> {
        Ok(Self {
            traffic: Traffic::now(dir)?,
            log: store.log_bytes(),
            memory_bytes: memory::anonymous_bytes()?,
            processor: processor_time(),
        })
    }

    /// Syncs the store, reads the counters again and returns the costs of `operations`.
    pub fn stop(self, store: &dyn Metered, dir: &Path, operations: u64) -> Result<Cost> {
        store.sync()?;
        let processor = processor_time().saturating_sub(self.processor);
        let log = store.log_bytes().zip(self.log);
        let traffic = Traffic::now(dir)?;
        Ok(Cost {
            operations,
            traffic: traffic.since(self.traffic),
            log: log.map(|(after, before)| after.since(before)),
            processor,
            disk_bytes: traffic.allocated,
            memory_bytes: memory::anonymous_bytes()?.saturating_sub(self.memory_bytes),
        })
    }
}

/// User and system time of this process: the sum that `getrusage` gives, in nanoseconds.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::tests::written_stores;
    use crate::stores::{Commit, StoreName};

    #[test]
    fn overwrites_cost_every_store_processor_time_and_all_but_dashmap_disk() {
        for name in written_stores() {
            let dir = tempfile::tempdir().unwrap();
            let store = name.open(dir.path(), Commit::Unsynced).unwrap();
            let meter = Meter::start(store.as_ref(), dir.path()).unwrap();
            for round in 0..100 {
                store.put(&[7; 20], &[round; 100]).unwrap();
            }
            let cost = meter.stop(store.as_ref(), dir.path(), 100).unwrap();
            assert!(!cost.processor.is_zero(), "{name:?} {cost:?}");
            if name != StoreName::Dashmap {
                assert!(cost.traffic.dirtied > 0, "{name:?} {cost:?}");
                assert!(cost.disk_bytes > 0, "{name:?} {cost:?}");
            }
        }
    }

    #[test]
    fn processor_time_is_that_of_all_threads() {
        let before = processor_time();
        let spin = || {
            let own = || clock_gettime(ClockId::ThreadCPUTime);
            while own().tv_nsec < 20_000_000 {}
        };
        std::thread::scope(|scope| {
            scope.spawn(spin);
            scope.spawn(spin);
        });
        assert!(processor_time() - before >= Duration::from_millis(40));
    }
}
