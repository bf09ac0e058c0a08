//! Syncing the devices of the log, and noting in their headers how far they are durable.

use crate::device::{DeviceError, DurableExtent, State, write_state};
use crate::entry::Lsn;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::log::block::{BlockId, ENTRIES_AT, Phase};
use crate::log::block_life::no_device;
use crate::log::directory::unit_of;
use crate::log::lane::PAGE_BYTES;
use crate::log::states::{Reach, States};
use crate::log::syncer::{Horizon, SyncError};
use crate::sync::atomic::Ordering;

impl Log {
    /// Everything appended before this call is on stable storage when it returns, and the devices' headers say so (which
    /// the next sync makes durable).
    pub(crate) fn sync(&self) -> Result<()> {
        self.syncer
            .sync(|| self.horizon(), |at| self.sync_devices(at))
            .map_err(|error| self.not_synced(error))
    }

    /// Notes what a sync that has not succeeded means for the writes to come.
    #[cold]
    fn not_synced(&self, error: SyncError) -> Error {
        match error {
            SyncError::Full(_) => {
                self.space.set_disk_full(true);
                self.stop_writes()
            }
            SyncError::Failed(reason) => {
                self.note_failed_sync();
                Error::ReadOnly {
                    namespace: self.namespace.clone(),
                    reason,
                }
            }
        }
    }

    /// Lets writes try the disk again that was full, if the last sync was not refused, or the next one is not.
    pub(crate) fn retry_growth(&self) {
        if !self.syncer.is_refused() || self.sync().is_ok() {
            self.space.set_disk_full(false);
        }
    }

    /// Notes for the next opening that what it reads may be in the system's memory alone. A system that
    /// cannot even keep that in memory has nothing else to read, either.
    fn note_failed_sync(&self) {
        let mut states = self.states.lock();
        if states.noted.iter().all(|state| !state.sync_failed) {
            states
                .noted
                .iter_mut()
                .for_each(|state| state.sync_failed = true);
            // Each that can be written: the others may be on the device that has failed.
            for (state, volume) in states.noted.iter_mut().zip(&self.volumes) {
                state.boot = volume.device().boot();
                state.sequence += 1;
                let _ = write_state(volume.device().as_ref(), state);
            }
        }
    }

    /// Nothing is left of what a failed sync may have cost. The next note says so.
    pub(crate) fn forget_failed_sync(&self) {
        let mut states = self.states.lock();
        states
            .noted
            .iter_mut()
            .for_each(|state| state.sync_failed = false);
    }

    /// Writes the first page of a block without entries anew, in other disk space, if the file system may have given it up: a
    /// sync has failed, and none before it has covered a header there.
    pub(crate) fn renew_first_page(&self, id: BlockId) -> std::result::Result<(), DeviceError> {
        let states = self.states.lock();
        let is_given_up = |state: &State| state.sync_failed && id.index >= state.used_blocks;
        if !states.noted.get(id.device).is_some_and(is_given_up) {
            return Ok(());
        }
        let (device, offset) = (self.volume_of(id)?.device(), id.offset_bytes());
        let mut headers = [0; ENTRIES_AT as usize];
        device.read(offset, &mut headers)?;
        if headers.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        device.release(offset, PAGE_BYTES)?;
        device.write(offset, &[&headers])
    }

    /// Does so for all free blocks, those included of which the devices have the first page alone. By then the devices say
    /// that a sync has failed: a power failure may take what is being written anew.
    pub(crate) fn renew_free_blocks(&self) -> std::result::Result<(), DeviceError> {
        for volume in &self.volumes {
            volume.sync()?;
            let blocks = (0..=volume.reachable_blocks()).zip(volume.blocks());
            let free = blocks.filter(|(_, block)| block.phase() == Phase::Free);
            let mut free = free.map(|(index, _)| volume.block_id(index));
            let len_bytes = volume.device().len_bytes();
            free.try_for_each(|id| match id.offset_bytes() + PAGE_BYTES <= len_bytes {
                true => self.renew_first_page(id),
                false => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Everything up to a number that was given is on stable storage when this returns. Writers that wait at the same time
    /// share one sync.
    pub(crate) fn sync_to(&self, lsn: Lsn) -> Result<()> {
        if lsn.0 <= self.syncer.durable_lsn() {
            return Ok(());
        }
        self.syncer
            .sync_to(lsn, || self.horizon(), |at| self.sync_devices(at))
            .map_err(|error| {
                let reason = error.to_string();
                self.not_synced(error);
                Error::InDoubt { reason }
            })
    }

    /// Flushes every lane and notes how far each has come. Whoever drew a number before has left its lane.
    fn horizon(&self) -> std::result::Result<Horizon, SyncError> {
        let complete = self.last_lsn();
        let next_block = self.next_block();
        let mut devices: Vec<(u32, Vec<DurableExtent>)> = self
            .used_blocks
            .iter()
            .map(|used| (used.load(Ordering::SeqCst), Vec::new()))
            .collect();
        for filled in self.flush_lanes()? {
            // A block that is not among the extents counts as durable to its end.
            let device = devices.get_mut(filled.id.device);
            let (_, extents) = device.ok_or_else(|| no_device(filled.id.device))?;
            extents.push(DurableExtent {
                block: filled.id.index,
                incarnation: filled.incarnation,
                durable_units: unit_of(filled.end),
                entries: filled.entries as u32,
            });
        }
        // A group that could not be appended whole has drawn its numbers.
        if let Some(reason) = self.syncer.failure() {
            return Err(SyncError::Failed(reason));
        }
        self.states.lock().syncing = Reach {
            next_block,
            devices,
        };
        Ok(Horizon { complete })
    }

    /// Syncs all devices side by side, then notes what has become durable.
    fn sync_devices(&self, at: Horizon) -> std::result::Result<(), SyncError> {
        match self.volumes.as_slice() {
            [only] => only.sync()?,
            several => std::thread::scope(|scope| {
                let syncs: Vec<_> = several
                    .iter()
                    .map(|volume| scope.spawn(move || volume.sync()))
                    .collect();
                syncs.into_iter().try_for_each(|sync| match sync.join() {
                    Ok(done) => Ok(done?),
                    Err(_) => Err(SyncError::Failed(
                        "the thread that synced a device panicked".to_owned(),
                    )),
                })
            })?,
        }
        let mut states = self.states.lock();
        let Reach {
            next_block,
            devices,
        } = std::mem::take(&mut states.syncing);
        debug_assert_eq!(
            devices.len(),
            self.volumes.len(),
            "a sync without its horizon"
        );
        for ((state, volume), (used, open)) in
            states.noted.iter_mut().zip(&self.volumes).zip(devices)
        {
            state.durable_lsn = state.durable_lsn.max(at.complete);
            state.next_block = next_block;
            if !state.sync_failed {
                state.used_blocks = used;
            }
            state.open = open;
            state.len_bytes = volume.synced_bytes().max(state.len_bytes);
        }
        self.write_states(&mut states)?;
        if self.syncer.is_refused() {
            self.space.set_disk_full(false);
        }
        Ok(())
    }

    fn write_states(&self, states: &mut States) -> std::result::Result<(), DeviceError> {
        for (state, volume) in states.noted.iter_mut().zip(&self.volumes) {
            state.boot = volume.device().boot();
            state.sequence += 1;
            // The next attempt must not overwrite the other copy, which is the newest.
            write_state(volume.device().as_ref(), state).inspect_err(|_| state.sequence -= 1)?;
        }
        Ok(())
    }

    /// Notes whether the namespace is in use (0), or the id of the snapshot of its clean close. Every later note says the same.
    pub(crate) fn set_clean_close(&self, id: u64) -> Result<()> {
        let mut states = self.states.lock();
        states
            .noted
            .iter_mut()
            .for_each(|state| state.clean_close = id);
        self.write_states(&mut states).map_err(Error::Device)
    }
}
