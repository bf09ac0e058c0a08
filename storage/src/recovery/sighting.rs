//! The items of a block that a scan meets, entries and damage, and chains of entries.

use crate::device::DeviceState;
use crate::digest::Digest;
use crate::entry::{EntryHeader, EntryView};
use crate::image::ChainPart;
use crate::log::block::{BlockHeader, BlockId};
use crate::log::block_walk::BlockLife;
use crate::log::directory::DirectoryLine;
use crate::log::volume::Volume;

/// A record with a delta as newest version, and its entries.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) digest: Digest,
    pub(crate) parts: Vec<ChainPart>,
}

/// An item of a block. Offsets are of the device.
#[derive(Debug)]
pub(crate) enum Sighting<'a> {
    /// A whole entry, of any kind but a filler.
    Entry {
        offset: u64,
        header: &'a EntryHeader,
        entry: EntryView<'a>,
    },
    Damage(Flaw),
}

/// Damage of a block. Offsets are of the device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flaw {
    /// An entry that was whole once and has changed since. The header is as it was.
    Entry { offset: u64, header: EntryHeader },
    /// An entry that was whole once and cannot be made out any more; the directory names it. The
    /// offset is in the damaged bytes and is this entry's alone.
    Lost { offset: u64, line: DirectoryLine },
    /// Bytes that held entries once. `unknown`: the directory does not name their records.
    Bytes {
        offset: u64,
        bytes: u64,
        unknown: bool,
    },
    /// A copy of the block's header. `lost`: the other one, too, and with them the block.
    Header { offset: u64, lost: bool },
}

impl Flaw {
    pub(crate) const fn offset(&self) -> u64 {
        match self {
            Self::Entry { offset, .. }
            | Self::Lost { offset, .. }
            | Self::Bytes { offset, .. }
            | Self::Header { offset, .. } => *offset,
        }
    }
}

/// The state of the devices before their blocks are read.
#[derive(Debug)]
pub(crate) struct KnownState {
    /// The state as it is before this opening.
    pub(crate) state: DeviceState,
    /// The devices may have lost writes that were not durable: the machine has been started again
    /// since, a sync has failed, or the files are copies.
    pub(crate) may_have_lost: bool,
    /// A sync has failed in the same life of the machine: readable bytes may not be on the devices.
    pub(crate) sync_failed: bool,
}

/// A block in use, as known before it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsedBlock {
    pub(crate) id: BlockId,
    pub(crate) header: BlockHeader,
    /// Up to here, in bytes from its start, it was durable.
    pub(crate) durable_to: u64,
    /// How many entries that has; `None` if the whole block was durable, and closed.
    pub(crate) durable_entries: Option<u32>,
    /// The lane with a staging buffer that may continue it, and where the buffer begins in the
    /// block.
    pub(crate) staged: Option<(usize, u64)>,
}

impl UsedBlock {
    pub(crate) const fn life<'a>(&self, volume: &'a Volume) -> BlockLife<'a> {
        BlockLife {
            volume,
            id: self.id,
            incarnation: self.header.incarnation,
        }
    }

    /// Whether all of it was durable.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable_to >= self.id.bytes()
    }
}

/// How a block ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockEnd {
    /// The first byte behind its entries.
    pub(crate) end: u64,
    /// From here on the entries were found in staging memory alone.
    pub(crate) staged_from: Option<u64>,
    /// Entries of unknown owners are lost.
    pub(crate) unknown: bool,
    /// No entry has a higher number. 0: nothing says so.
    pub(crate) last_lsn: u64,
    /// For each entry its line, and the unit in which it begins.
    pub(crate) lines: Vec<(DirectoryLine, u32)>,
}
