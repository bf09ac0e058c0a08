//! Opening and closing a namespace.

use crate::core::followers::Followers;
use crate::core::removals::Removals;
use crate::core::{Core, CoreCounters, METADATA_COPIES, Namespace};
use crate::device::{
    Device, DeviceError, DeviceState, FileDevice, ForkGuard, HEADER_BYTES, Header, Member,
    MemoryDevice, block_bytes_for, damaged_copies, new_device_id, newest_state, read_header,
    read_state, repair_copies,
};
use crate::digest::PARTITIONS;
use crate::error::{Error, Result};
use crate::index::DigestIndex;
use crate::location::UNIT_BYTES;
use crate::log::Log;
use crate::log::block::entry_units_max;
use crate::log::staging::NamespaceStaging;
use crate::log::volume::Volume;
use crate::maintenance::background;
use crate::options::{Opening, Options, Storage};
use crate::recovery::{KnownState, chains, count_chains, count_live, recover, snapshot};
use crate::sets::Sets;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The devices of a namespace, in their order.
type Devices = Vec<Arc<dyn Device>>;

/// How long a close waits for writers that hold a record; after that there is no snapshot, and the
/// next opening reads the log.
const WRITERS_LEAVE: Duration = Duration::from_secs(5);

impl Namespace {
    /// Opens an existing namespace for reading: nothing on the devices changes, writes get
    /// [`Error::OpenedForReading`].
    ///
    /// # Errors
    /// As for [`Namespace::open`].
    pub fn open_read_only(options: Options) -> Result<(Self, Opening)> {
        options.check()?;
        let (devices, damaged_headers) = open_read_only(&options)?;
        let (core, mut opening) = Core::load(
            Options {
                background: false,
                ..options
            },
            devices,
            Undurable::Read,
        )?;
        opening.damaged_headers = damaged_headers;
        core.closed.store(true, Ordering::SeqCst);
        *core.close_done.lock() = true;
        Ok((Self::of(core)?, opening))
    }

    /// Opens a namespace, or creates it. Without a snapshot of a clean close the log is read, in
    /// parallel.
    ///
    /// # Errors
    /// Options that cannot be used; devices that are locked, foreign, damaged in their headers or
    /// of another namespace; I/O. Nothing is changed then.
    pub fn open(options: Options) -> Result<(Self, Opening)> {
        options.check()?;
        let (devices, created, damaged_headers) = open_devices(&options)?;
        let appended = Core::load(options.clone(), devices.clone(), Undurable::Append);
        let (core, mut opening) = match appended {
            Err(Error::NoSpace { .. } | Error::StopWrites { .. }) => {
                // Anew: the attempt before has noted ends of blocks, and may have given some back.
                Core::load(options, devices, Undurable::Adopt)?
            }
            done => done?,
        };
        opening.created = created;
        opening.damaged_headers = damaged_headers;
        // From here on the snapshot is out of date.
        core.log.set_in_use()?;
        core.log.renew_backed(opening.from_snapshot)?;
        core.complete_metadata()?;
        if core.options.background {
            // What fails shows in the next write.
            let _ = core.tidy_at_opening();
        }
        Ok((Self::of(core)?, opening))
    }

    /// The first handle, with the background threads that the options ask for.
    fn of(core: Core) -> Result<Self> {
        let core = Arc::new(core);
        let start = "start the background threads of";
        let background = background::start(&core).map_err(DeviceError::io(&core.name, start))?;
        Ok(Self {
            core,
            background: Arc::new(background),
        })
    }
}

/// The way an opening treats entries that count and were not durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Undurable {
    /// Reads them where they are. Nothing is written.
    Read,
    /// Appends them again.
    Append,
    /// Makes them durable where they are.
    Adopt,
}

impl Core {
    /// Brings a namespace into memory.
    pub(crate) fn load(
        options: Options,
        devices: Devices,
        undurable: Undurable,
    ) -> Result<(Self, Opening)> {
        let (log, mut known) = log_of(devices, &options)?;
        let mut index = DigestIndex::new();
        let mut sets = Sets::new();
        let snapshot = match snapshot_dir(&options.storage) {
            Some(dir) if known.state.clean_close != 0 => {
                let id = known.state.clean_close;
                snapshot::read(&dir, id, &log, &index, &sets, &options.progress)?
            }
            _ => None,
        };
        let mut recovered = match snapshot {
            Some(recovered) => {
                if let Some(observer) = &options.observer {
                    observer.restore(&recovered.notes);
                }
                known.state.durable_lsn = known.state.durable_lsn.max(recovered.durable_lsn);
                recovered
            }
            None => {
                // An unreadable snapshot may have left something behind.
                (index, sets) = (DigestIndex::new(), Sets::new());
                recover(&log, &index, &sets, &known, &options.progress)?
            }
        };
        let state = DeviceState {
            // Not in another life of the machine: its memory is gone.
            sync_failed: known.sync_failed,
            ..known.state
        };
        log.start(recovered.last_lsn, recovered.next_block, state);
        if undurable == Undurable::Read {
            recovered.enter_young(&log, &index);
        } else {
            log.keep_boots(known.may_have_lost);
            // Before the first sync: its state calls every header durable in both copies that is
            // older than its next block.
            for header in &recovered.headers {
                let is_its = |volume: &&Volume| volume.device_id() == header.device_id;
                if let Some(volume) = log.volumes().iter().find(is_its) {
                    volume.write_block_header(header)?;
                }
            }
            if undurable == Undurable::Append {
                recovered.rescue(&log, &index)?;
            } else {
                recovered.adopt(&log, &index, known.may_have_lost)?;
            }
            // Not before the entries are durable in their new places: an opening that follows a
            // death up to here must take them for lost again.
            log.forget_failed_sync();
            log.keep_boots(false);
            if known.may_have_lost {
                // The next sync makes the numbers durable that were skipped, before any is given
                // out.
                log.sync()?;
            }
        }
        recovered.enter_lost(&log, &index);
        let chains =
            (recovered.chains.take()).unwrap_or_else(|| chains(&log, &index, &recovered.deltas));
        count_live(&log, &index, &sets);
        count_chains(&log, &index, &sets, &chains);
        for place in &recovered.metadata {
            log.count_live(place.location, place.units);
        }
        let opening = recovered.report;
        let core = Self {
            name: options.name.clone(),
            fork: ForkGuard::new(),
            options,
            log,
            index,
            sets,
            any_deltas: AtomicBool::new(!chains.is_empty() || opening.damaged_entries > 0),
            counts_dead: AtomicBool::new(false),
            unknown_below_lsn: recovered.unknown_lsn,
            followers: Followers::default(),
            removals: Removals::default(),
            counters: CoreCounters::default(),
            metadata: Mutex::new(recovered.metadata),
            defrag: Mutex::default(),
            earlier_traffic: recovered.traffic,
            closed: AtomicBool::new(false),
            opened_for_reading: undurable == Undurable::Read,
            close_done: Mutex::new(false),
        };
        core.find_changes();
        // A snapshot is never taken between a truncation and the removal of its records.
        if !opening.from_snapshot {
            core.remove_all_truncated();
        }
        Ok((core, opening))
    }

    /// Writes the metadata anew if only one copy of it was found.
    fn complete_metadata(&self) -> Result<()> {
        let copies = self.metadata.lock().len();
        if copies == 0 || copies >= METADATA_COPIES {
            return Ok(());
        }
        match self.store_metadata(&self.sets.encoded()) {
            // One copy is enough to go on with; the next change writes both.
            Err(Error::NoSpace { .. }) => Ok(()),
            done => done,
        }
    }

    /// The last act of a namespace. `closed` is set, so no writer begins any more.
    pub(crate) fn close(&self) -> Result<()> {
        // A change of the metadata under way ends first; a later one is refused.
        drop(self.metadata.lock());
        let writers_left = self.wait_for_writers();
        self.log.close_lanes()?;
        self.log.sync()?;
        // Stale versions must be found stale again: a snapshot would make them true.
        let may_note = writers_left && self.unknown_below_lsn == 0;
        let mut clean_close = 0;
        if let Some(dir) = snapshot_dir(&self.options.storage).filter(|_| may_note) {
            let id = new_device_id().max(1);
            snapshot::write(self, &dir, id).map_err(DeviceError::io(
                &dir.display().to_string(),
                "write the index snapshot in",
            ))?;
            clean_close = id;
        }
        // Behind the snapshot, which is on stable storage by now: a state that names it must find
        // it.
        self.log.set_clean_close(clean_close)?;
        self.log.sync()
    }

    fn wait_for_writers(&self) -> bool {
        let until = Instant::now() + WRITERS_LEAVE;
        (0..PARTITIONS).all(|partition| {
            loop {
                if self
                    .index
                    .lock_partition(partition)
                    .held()
                    .digests()
                    .is_empty()
                {
                    return true;
                }
                if Instant::now() >= until {
                    return false;
                }
                std::thread::yield_now();
            }
        })
    }
}

/// A log over devices that is not started yet, and their state.
pub(crate) fn log_of(devices: Devices, options: &Options) -> Result<(Log, KnownState)> {
    // That of the first device serves for all.
    let staging = devices.first().and_then(NamespaceStaging::of).map(Arc::new);
    let newest = newest_state(devices.iter().map(Arc::as_ref));
    let mut volumes = Vec::with_capacity(devices.len());
    for (number, device) in devices.into_iter().enumerate() {
        let header = read_header(device.as_ref())?;
        let reach = newest.as_ref().and_then(|state| state.devices.get(number));
        let reach = reach.copied().unwrap_or_default();
        if reach.id != 0 && reach.id != header.device_id as u32 {
            return Err(Error::Device(DeviceError::OtherStore {
                path: device.describe(),
            }));
        }
        let (len_bytes, expected_bytes) = (device.len_bytes(), reach.len_bytes);
        if len_bytes < expected_bytes {
            return Err(Error::Device(DeviceError::Truncated {
                path: device.describe(),
                len_bytes,
                expected_bytes,
            }));
        }
        // The creation of a device without a block may have been cut short. Any other one had a
        // state: without it, recovery cannot distinguish a lost entry from one that was never
        // durable.
        if newest.is_none() && len_bytes > HEADER_BYTES {
            return Err(Error::Device(DeviceError::DamagedHeader {
                path: device.describe(),
                reason: "both copies of its state are lost",
            }));
        }
        let staging = staging.clone();
        volumes.push(Volume::new(
            device,
            number,
            &header,
            staging,
            options.read_mode,
        ));
    }
    let state = newest.unwrap_or_default();
    let is_same_life = |volume: &Volume| {
        let reach = state.devices.get(volume.number());
        let boot = reach.map_or(0, |reach| reach.boot);
        boot != 0 && boot == volume.device().boot()
    };
    let known = KnownState {
        sync_failed: state.sync_failed && volumes.iter().any(is_same_life),
        may_have_lost: state.sync_failed || !volumes.iter().all(is_same_life),
        state,
    };
    let log = Log::new(
        options.name.clone(),
        volumes,
        staging,
        options.write_lanes,
        options.image_bytes_max,
    );
    Ok((log, known))
}

fn snapshot_dir(storage: &Storage) -> Option<PathBuf> {
    match storage {
        Storage::Files { dir, .. } => Some(dir.clone()),
        Storage::Memory | Storage::Devices(_) => None,
    }
}

/// The file of a device in a namespace's directory.
pub(crate) fn device_path(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("device-{number}"))
}

fn member(options: &Options, number: usize, count: usize) -> Member {
    Member {
        namespace: options.name.clone(),
        index: number as u8,
        count: count as u8,
        key_hash: options.key_hash,
    }
}

/// Checks that these are all devices of the namespace, in their order. Returns their headers, and
/// the number of damaged copies.
fn check_devices(options: &Options, devices: &[Arc<dyn Device>]) -> Result<(Vec<Header>, u64)> {
    let mut damaged = 0;
    let mut headers = Vec::with_capacity(devices.len());
    for (number, device) in devices.iter().enumerate() {
        let header = read_header(device.as_ref())?;
        header.check_member(&member(options, number, devices.len()), &device.describe())?;
        damaged += damaged_copies(device.as_ref(), &header).len() as u64;
        headers.push(header);
    }
    let sizes = headers.iter().map(|header: &Header| header.block_bytes);
    if let (Some(least), Some(most)) = (sizes.clone().min(), sizes.max())
        && least != most
    {
        return Err(Error::BadOption {
            option: "storage",
            value: format!("blocks of {least} and {most} bytes"),
            rule: "the devices of a namespace have blocks of one size",
        });
    }
    Ok((headers, damaged))
}

/// Opens the devices of a namespace to read. Returns how many copies of their headers are damaged,
/// too.
pub(crate) fn open_read_only(options: &Options) -> Result<(Devices, u64)> {
    let devices = match &options.storage {
        Storage::Memory => Vec::new(),
        Storage::Devices(devices) => devices.clone(),
        Storage::Files { dir, devices } => {
            let mut opened: Devices = Vec::with_capacity(*devices);
            for number in 0..*devices {
                opened.push(Arc::new(FileDevice::open_read_only(&device_path(
                    dir, number,
                ))?));
            }
            opened
        }
    };
    let (_, damaged) = check_devices(options, &devices)?;
    Ok((devices, damaged))
}

/// Whether a file is empty, or is no longer than a device's header and holds nothing but zeros, and
/// was never in use.
fn is_blank(path: &Path) -> bool {
    let length = path.metadata().map_or(u64::MAX, |file| file.len());
    length <= HEADER_BYTES
        && std::fs::read(path).is_ok_and(|bytes| bytes.iter().all(|byte| *byte == 0))
        && !FileDevice::was_in_use(path)
}

/// Creates a directory and those above it, so that they outlive a power failure.
fn create_durably(dir: &Path) -> std::io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        create_durably(parent)?;
    }
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    std::fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Opens or creates the devices of a namespace to write. Returns, too, whether the namespace is
/// new, and how many copies of static headers were not as they were written.
fn open_devices(options: &Options) -> Result<(Devices, bool, u64)> {
    let header = |number: usize, count: usize| Header {
        device_id: new_device_id(),
        member: member(options, number, count),
        max_bytes: options.max_device_bytes,
        block_bytes: block_bytes_for(options.max_device_bytes, options.max_record_bytes),
        created_unix_ms: options
            .clock
            .now_ms()
            .saturating_add(crate::clock::EPOCH_UNIX_SECONDS * 1000),
    };
    let (devices, created): (Devices, bool) = match &options.storage {
        Storage::Memory => (vec![Arc::new(MemoryDevice::new(&header(0, 1))?)], true),
        Storage::Devices(devices) => (devices.clone(), false),
        Storage::Files { dir, devices } => {
            create_durably(dir).map_err(DeviceError::io(&dir.display().to_string(), "create"))?;
            let paths: Vec<PathBuf> = (0..*devices)
                .map(|number| device_path(dir, number))
                .collect();
            let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
            let was_closed = dir.join(snapshot::FILE_NAME).exists();
            let mut opened: Vec<Option<Arc<dyn Device>>> = Vec::with_capacity(*devices);
            for path in paths.iter() {
                opened.push(match is_there(path).then(|| FileDevice::open(path)) {
                    None => None,
                    // A creation that was interrupted, or found the disk full: it is done again,
                    // over nothing but zeros.
                    Some(Err(DeviceError::NotADevice { .. })) if !was_closed && is_blank(path) => {
                        None
                    }
                    Some(device) => Some(Arc::new(device?)),
                });
            }
            let used = |device: &Arc<dyn Device>| {
                read_state(device.as_ref()).is_none_or(|state| state.sequence > 0)
            };
            let in_use = opened.iter().flatten().any(used);
            let mut all = Vec::with_capacity(*devices);
            for ((number, path), device) in paths.iter().enumerate().zip(opened) {
                all.push(match device {
                    Some(device) => device,
                    // Of a namespace in use, a missing device is a loss and must not be made up for
                    // by an empty one.
                    None if in_use => Arc::new(FileDevice::open(path)?),
                    None => Arc::new(FileDevice::create(path, &header(number, *devices))?),
                });
            }
            (all, !in_use)
        }
    };
    let (headers, damaged_headers) = check_devices(options, &devices)?;
    let room = headers
        .first()
        .map(|header| entry_units_max(header.block_bytes));
    if room.is_some_and(|units| u64::from(units) * UNIT_BYTES < options.max_record_bytes) {
        return Err(Error::BadOption {
            option: "max_record_bytes",
            value: options.max_record_bytes.to_string(),
            rule: "the blocks of this namespace hold records of up to 1 MiB: set no more, or restore a backup of it into a new namespace",
        });
    }
    for (device, header) in devices.iter().zip(headers) {
        repair_copies(device.as_ref(), &header)?;
    }
    Ok((devices, created, damaged_headers))
}
