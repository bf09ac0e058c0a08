//! The requests to a simulated device up to now.

use super::SimulatedDevice;

impl SimulatedDevice {
    /// Returns how many syncs there were since the device was made, the failed ones included.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.disk.lock().counts.syncs
    }

    /// Returns how many bytes the successful syncs found dirty and wrote, in whole sectors.
    #[must_use]
    pub fn synced_bytes(&self) -> u64 {
        self.disk.lock().counts.synced_bytes
    }

    /// Returns how many writes there were since the device was made, the failed ones included.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.disk.lock().counts.writes
    }

    /// Returns how many bytes the writes stored.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.disk.lock().counts.written_bytes
    }

    /// Returns the disk space that [`reserve`](crate::device::Device::reserve) took since the
    /// device was made, in bytes; space released meanwhile is included.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.disk.lock().counts.reserved_bytes
    }

    /// Returns how many bytes [`read`](crate::device::Device::read) was asked for since the device
    /// was made.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.disk.lock().counts.read_bytes
    }
}
