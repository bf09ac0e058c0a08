//! Namespaces over a simulated disk that loses power, for tests.

use std::sync::Arc;

use spikelet_storage::{
    BLOCK_BYTES, Device, Durability, HEADER_BYTES, Header, ManualClock, Member, Options,
    SimulatedDevice, Storage,
};

use super::config::NamespaceConfig;
use super::namespace::Namespace;

/// A sequence of numbers by chance; the same for the same seed, which is not 0.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 3) % bound
    }
}

/// Returns an empty disk of this number of blocks for a namespace.
pub(crate) fn new_device(blocks: u64) -> Arc<SimulatedDevice> {
    let header = Header {
        device_id: 7,
        member: Member {
            namespace: "test".into(),
            index: 0,
            count: 1,
            key_hash: 0,
        },
        max_bytes: HEADER_BYTES + blocks * BLOCK_BYTES,
        block_bytes: BLOCK_BYTES,
        created_unix_ms: 1,
    };
    Arc::new(SimulatedDevice::new(&header).unwrap())
}

/// Opens the namespace of a disk. It syncs when it is asked to, and has no threads of its own.
pub(crate) fn open(device: &Arc<SimulatedDevice>, blocks: u64) -> crate::Result<Namespace> {
    open_at(device, blocks, Arc::new(ManualClock::at(500_000_000_000)))
}

/// Opens the namespace of a disk, as [`open`] does, with this clock.
pub(crate) fn open_at(
    device: &Arc<SimulatedDevice>,
    blocks: u64,
    clock: Arc<ManualClock>,
) -> crate::Result<Namespace> {
    let storage = Storage::Devices(vec![Arc::clone(device) as Arc<dyn Device>]);
    let options = Options {
        background: false,
        write_lanes: 1,
        durability: Durability::Process,
        max_device_bytes: HEADER_BYTES + blocks * BLOCK_BYTES,
        clock,
        ..Options::new("test", storage)
    };
    Namespace::open(&NamespaceConfig::new("test"), options, false)
}
