//! Syncing the devices of the log, and noting in their headers how far they are durable.

use crate::device::{DeviceResult, DurableExtent, write_state};
use crate::entry::Lsn;
use crate::error::{Error, Result};
use crate::log::block::{BlockId, BlockPhase, ENTRIES_AT};
use crate::log::directory::{SECTOR_BYTES, unit_of};
use crate::log::staging::PAGE_BYTES;
use crate::log::syncer::{SyncError, SyncResult};
use crate::log::{Log, States};
use crate::sync::atomic::Ordering;
use std::thread::Builder;

impl Log {
    /// Everything appended before this call is on stable storage when it returns, and the devices'
    /// headers say so (which the next sync makes durable).
    pub(crate) fn sync(&self) -> Result<()> {
        self.syncer
            .sync(|| self.sync_devices())
            .map_err(|error| self.not_synced(error))
    }

    /// Notes the consequence of a sync that has not succeeded for later writes.
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

    /// Lets writes try the disk again that was full, if the last sync was not refused, or the next
    /// one is not.
    pub(crate) fn retry_growth(&self) {
        if !self.syncer.is_refused() || self.sync().is_ok() {
            self.space.set_disk_full(false);
        }
    }

    /// Notes for the next opening that the bytes it reads may be in the system's memory alone. A
    /// system that cannot even keep that in memory has nothing else to read, either.
    fn note_failed_sync(&self) {
        let mut states = self.states.lock();
        if !std::mem::replace(&mut states.noted.sync_failed, true) {
            // The next opening takes writes for lost all the same, and must see that it reads pages
            // of the same life of the machine.
            states.keeps_boots = false;
            self.number_state(&mut states);
            // Every device that can be written: one of them has failed.
            for volume in &self.volumes {
                let _ = write_state(volume.device().as_ref(), &states.noted);
            }
        }
    }

    /// No entry is left that a failed sync may have cost. The next note says so.
    pub(crate) fn forget_failed_sync(&self) {
        self.states.lock().noted.sync_failed = false;
    }

    /// Writes the first page of a block without entries anew, in other disk space, if the file
    /// system may have given it up: a sync has failed, and none before it has covered a header
    /// there.
    pub(crate) fn renew_first_page(&self, id: BlockId) -> DeviceResult<()> {
        let states = self.states.lock();
        let device = states.noted.devices.get(id.device);
        let was_used = device.is_some_and(|device| id.index < device.used_blocks);
        if !states.noted.sync_failed || was_used {
            return Ok(());
        }
        let (device, offset) = (self.volume_of(id)?.device(), id.offset_bytes());
        let mut headers = [0; ENTRIES_AT as usize];
        device.read(offset, &mut headers)?;
        if headers.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        device.release(offset, PAGE_BYTES)?;
        device.write(offset, &headers)
    }

    /// Does so for all free blocks, those included of which the devices have the first page alone.
    /// By then the devices say that a sync has failed: a power failure may take the pages that are
    /// written anew.
    pub(crate) fn renew_free_blocks(&self) -> DeviceResult<()> {
        // A state that was read may be in the system's memory alone, and given up: only a new one
        // reaches the devices.
        self.write_state(&mut self.states.lock())?;
        for volume in &self.volumes {
            volume.sync()?;
            let len_bytes = volume.device().len_bytes();
            let mut free = volume.blocks().filter(|(id, block)| {
                block.phase() == BlockPhase::Free && id.offset_bytes() + PAGE_BYTES <= len_bytes
            });
            free.try_for_each(|(id, _)| self.renew_first_page(id))?;
        }
        Ok(())
    }

    /// Everything up to a number that was given is on stable storage when this returns. Writers
    /// that wait at the same time share one sync.
    pub(crate) fn sync_to(&self, lsn: Lsn) -> Result<()> {
        if lsn.0 <= self.syncer.durable_lsn() {
            return Ok(());
        }
        self.syncer
            .sync_to(lsn, || self.sync_devices())
            .map_err(|error| {
                let reason = error.to_string();
                self.not_synced(error);
                Error::InDoubt { reason }
            })
    }

    /// Flushes every lane, syncs all devices side by side, and then notes the durable numbers and
    /// extents. Returns the number up to which all is durable.
    fn sync_devices(&self) -> SyncResult<u64> {
        // A writer that drew a number before this has left its lane when that is flushed.
        let (complete, next_block) = {
            let _no_part_of_a_group = self.in_order.lock();
            // The number first: a writer that has drawn one up to it has drawn its block's sequence
            // before. A block opened and closed in between would otherwise be neither an extent nor
            // below `next_block`, and its durable numbers would count as void.
            (self.last_lsn(), self.next_block())
        };
        let used = self.used_blocks.iter();
        // Before the sync, which covers the headers of all these blocks.
        let used: Vec<u32> = used.map(|used| used.load(Ordering::SeqCst)).collect();
        // A block that is not among the extents counts as durable to its end.
        let open = self.flush_lanes()?.into_iter().map(|filled| DurableExtent {
            device: filled.id.device as u8,
            block: filled.id.index,
            incarnation: filled.incarnation,
            durable_units: unit_of(filled.end),
            entries: filled.entries as u32,
        });
        let open = open.collect();
        // A group that could not be appended whole has drawn its numbers.
        if let Some(reason) = self.syncer.failure() {
            return Err(SyncError::Failed(reason));
        }
        match self.volumes.as_slice() {
            [only] => only.sync()?,
            several => std::thread::scope(|scope| {
                let syncs: Vec<_> = several
                    .iter()
                    .map(|volume| Builder::new().spawn_scoped(scope, || volume.sync()))
                    .collect();
                let mut syncs = syncs.into_iter().zip(several);
                syncs.try_for_each(|(thread, volume)| match thread.map(|it| it.join()) {
                    Ok(Ok(done)) => Ok(done?),
                    Ok(Err(_)) => Err(SyncError::Failed(
                        "the thread that synced a device panicked".to_owned(),
                    )),
                    // The system has no thread to give.
                    Err(_) => Ok(volume.sync()?),
                })
            })?,
        }
        let mut states = self.states.lock();
        let state = &mut states.noted;
        state.durable_lsn = state.durable_lsn.max(complete);
        (state.next_block, state.open) = (next_block, open);
        let devices = state.devices.iter_mut().zip(&self.volumes);
        for ((device, volume), used) in devices.zip(used) {
            // From then on it says which first pages a sync before the failure has covered:
            // `renew_first_page` writes the others anew.
            if !state.sync_failed {
                device.used_blocks = used;
            }
            device.len_bytes = volume.synced_bytes().max(device.len_bytes);
        }
        self.write_state(&mut states)?;
        if self.syncer.is_refused() {
            self.space.set_disk_full(false);
        }
        Ok(complete)
    }

    /// Writes the state to all devices, each of which may be the only one that can be read later.
    fn write_state(&self, states: &mut States) -> DeviceResult<()> {
        self.number_state(states);
        let mut volumes = self.volumes.iter();
        let written =
            volumes.try_for_each(|volume| write_state(volume.device().as_ref(), &states.noted));
        // The next attempt must not overwrite the other copy, which is the newest.
        written.inspect_err(|_| states.noted.sequence -= 1)
    }

    fn number_state(&self, states: &mut States) {
        states.noted.sequence += 1;
        if states.keeps_boots {
            return;
        }
        for (device, volume) in states.noted.devices.iter_mut().zip(&self.volumes) {
            device.boot = volume.device().boot();
        }
    }

    /// Lets states keep the boots that an opening has found, or note the devices' own. As long as
    /// entries that a power failure has cut off are not void, an opening after this one must know
    /// of it.
    pub(crate) fn keep_boots(&self, keeps: bool) {
        self.states.lock().keeps_boots = keeps;
    }

    /// Notes whether the namespace is in use (0), or the id of the snapshot of its clean close.
    /// Every later note says the same.
    pub(crate) fn set_clean_close(&self, id: u64) -> Result<()> {
        let mut states = self.states.lock();
        states.noted.clean_close = id;
        Ok(self.write_state(&mut states)?)
    }

    /// Notes that the namespace is in use. Neither copy of the state names a snapshot afterwards.
    pub(crate) fn set_in_use(&self) -> Result<()> {
        self.set_clean_close(0)?;
        if self.states.lock().noted.encoded_bytes() > SECTOR_BYTES {
            // A state that takes several sectors may be torn: only one copy at a time.
            self.sync()?;
        }
        self.set_clean_close(0)?;
        self.sync()
    }
}
