//! The store: its namespaces, and where they are.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use spikelet_storage::{
    Clock, Damage, DeviceError, FileDevice, OpeningProgress, OpeningStep, Storage, SystemClock,
    Verification, read_header,
};

use crate::setters::setters;
use crate::{Error, Result};

use super::config::{NamespaceConfig, key_hash_of};
use super::namespace::Namespace;
use super::open_dirs::name_holder;
use super::set::Set;

/// The namespace that a store has when none is named: Aerospike's.
pub const DEFAULT_NAMESPACE: &str = "test";

/// A store of records, in a directory or in memory. Cheap to clone; all clones are the same store.
///
/// Dropping the last handle ends the store without ceremony: nothing acknowledged is lost, and the
/// next opening reads the log. [`Store::close`] leaves an index snapshot, so that the next opening
/// does not need to.
#[derive(Clone)]
pub struct Store {
    core: Arc<StoreCore>,
}

struct StoreCore {
    dir: Option<PathBuf>,
    clock: Arc<dyn Clock>,
    progress: OpeningProgress,
    read_only: bool,
    /// `None`: there are several, and none of them was named first, or is called `test`.
    default: Option<String>,
    /// The default namespace, once it is open: calls on the store name no other.
    open_default: OnceLock<Namespace>,
    namespaces: RwLock<BTreeMap<String, Namespace>>,
    /// What the servers of this store share.
    #[cfg(feature = "server")]
    served: parking_lot::Mutex<Vec<std::sync::Weak<dyn std::any::Any + Send + Sync>>>,
}

/// How a store is opened. From [`Store::builder`].
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::{DEFAULT_NAMESPACE, Durability, NamespaceConfig, Store};
///
/// let dir = std::env::temp_dir().join(format!("spikelet-builder-{}", std::process::id()));
/// let config = NamespaceConfig::new(DEFAULT_NAMESPACE).durability(Durability::Commit);
/// let store = Store::builder().path(&dir).namespace(config).open()?;
/// store.set("users")?.put("alice", [("age", 42)])?; // on the disk when it returns
/// store.close()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StoreBuilder {
    dir: Option<PathBuf>,
    namespaces: Vec<NamespaceConfig>,
    clock: Arc<dyn Clock>,
    progress: OpeningProgress,
    read_only: bool,
}

impl StoreBuilder {
    setters! { in
        /// Keeps the store in this directory, which is created if need be: a folder for each
        /// namespace. Without it the store is in memory.
        path(dir: impl Into<PathBuf>) => dir = Some(dir.into()),
    }

    /// Opens, or creates, this namespace. The first one named is the store's default. Namespaces
    /// that are in the directory and are not named are opened with the default configuration.
    #[must_use]
    pub fn namespace(mut self, config: NamespaceConfig) -> Self {
        self.namespaces.push(config);
        self
    }

    setters! {
        /// Takes the time from here.
        clock: Arc<dyn Clock>,
        /// Whether existing namespaces are opened for reading only: nothing in the directory
        /// changes, and writes are refused. Default: false.
        read_only: bool,
    }

    /// Reports the progress of opening and closing: `(step, done, total)`, from several threads.
    #[must_use]
    pub fn progress(
        mut self,
        callback: impl Fn(OpeningStep, u64, u64) + Send + Sync + 'static,
    ) -> Self {
        self.progress = OpeningProgress::new(callback);
        self
    }

    /// Opens the store.
    ///
    /// # Errors
    /// [`Error::InUse`] if the store is open already, [`Error::PermissionDenied`], and
    /// [`Error::Storage`] for a directory or file that cannot be used or is not one of ours; each
    /// says which. [`Error::Parameter`]: a configuration that cannot be.
    pub fn open(mut self) -> Result<Store> {
        check_dir(self.dir.as_deref())?;
        let named = self.namespaces.first().map(|config| config.name.clone());
        for name in self.dir.as_deref().map(namespaces_in).unwrap_or_default() {
            if !self.namespaces.iter().any(|config| config.name == name) {
                self.namespaces.push(NamespaceConfig::new(&name));
            }
        }
        if self.namespaces.is_empty() {
            if let Some(dir) = self.dir.as_deref().filter(|_| self.read_only) {
                return Err(no_namespace(dir));
            }
            self.namespaces
                .push(NamespaceConfig::new(DEFAULT_NAMESPACE));
        }
        let default = named.or_else(|| match self.namespaces.as_slice() {
            [only] => Some(only.name.clone()),
            several => several
                .iter()
                .find(|config| config.name == DEFAULT_NAMESPACE)
                .map(|config| config.name.clone()),
        });
        let store = Store {
            core: Arc::new(StoreCore {
                dir: self.dir,
                clock: self.clock,
                progress: self.progress,
                read_only: self.read_only,
                default,
                open_default: OnceLock::new(),
                namespaces: RwLock::default(),
                #[cfg(feature = "server")]
                served: parking_lot::Mutex::default(),
            }),
        };
        for config in self.namespaces {
            store.create_namespace(config)?;
        }
        Ok(store)
    }

    /// Checks the files of all namespaces in the directory instead of opening them, and changes
    /// nothing. No process may have them open. Returns the findings, by the namespaces' names.
    /// Reads everything; takes the memory of two indexes.
    ///
    /// # Errors
    /// [`Error::Parameter`] without a directory, or with one that holds no namespace.
    /// [`Error::Storage`]: a file is in use, or cannot be read at all. A file too damaged to be
    /// opened is no error, but a finding.
    pub fn verify(self) -> Result<Vec<(String, Verification)>> {
        check_dir(self.dir.as_deref())?;
        let dir = self.dir.ok_or_else(|| {
            Error::parameter("a store in memory has no files to verify: name its path")
        })?;
        let names = namespaces_in(&dir);
        if names.is_empty() {
            return Err(no_namespace(&dir));
        }
        let verify = |name: &str| {
            let mut config = NamespaceConfig::new(name);
            let dir = dir.join(name);
            adopt_fixed(&dir, &mut config)?;
            let storage = Storage::Files {
                dir: dir.clone(),
                devices: config.devices,
            };
            let options = config.options(storage, &self.clock, &self.progress);
            spikelet_storage::Namespace::verify(&options)
                .map_err(|error| name_holder(error.into(), &dir))
        };
        let find = |name: String| {
            let found = verify(&name).or_else(too_damaged_to_open)?;
            Ok((name, found))
        };
        names.into_iter().map(find).collect()
    }
}

/// The findings in a namespace that damage keeps from being opened; other errors stay errors.
fn too_damaged_to_open(error: Error) -> Result<Verification> {
    use DeviceError::{DamagedHeader, NotADevice, Truncated};
    let is_damaged = |found: &spikelet_storage::Error| {
        matches!(
            found,
            spikelet_storage::Error::Device(
                DamagedHeader { .. } | NotADevice { .. } | Truncated { .. }
            )
        )
    };
    match &error {
        Error::Storage(found) if is_damaged(found) => {}
        _ => return Err(error),
    }
    let place = Damage {
        device: 0,
        offset: 0,
        bytes: 0,
        what: error.to_string(),
    };
    Ok(Verification {
        damaged_headers: 1,
        places: vec![place],
        ..Verification::default()
    })
}

/// Refuses the empty path, which would be the folder that the process happens to work in.
fn check_dir(dir: Option<&Path>) -> Result<()> {
    if dir.is_some_and(|dir| dir.as_os_str().is_empty()) {
        return Err(Error::parameter(
            "the path of the store is empty: name a folder, \".\" for the current one",
        ));
    }
    Ok(())
}

fn no_namespace(dir: &Path) -> Error {
    let why = match dir.metadata() {
        Ok(found) if found.is_dir() => "check the path",
        Ok(_) => "it is a file, and a store is a directory",
        Err(_) => "there is no such directory",
    };
    Error::parameter(format!("{} holds no namespace: {why}", dir.display()))
}

impl Store {
    /// Opens the store in a directory, or creates it there, with the namespaces that it has, or
    /// with one named `test`.
    ///
    /// # Errors
    /// As for [`StoreBuilder::open`].
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self> {
        Self::builder().path(dir).open()
    }

    /// Returns whether a directory holds a store, or the remains of one. Opens nothing. A directory
    /// that cannot be read holds none.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use spikelet::Store;
    /// let dir = tempfile::tempdir()?;
    /// assert!(!Store::exists(dir.path()));
    /// Store::open(dir.path())?.close()?;
    /// assert!(Store::exists(dir.path()));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn exists(dir: impl AsRef<Path>) -> bool {
        !namespaces_in(dir.as_ref()).is_empty()
    }

    /// A store in memory, with one namespace named `test`. The same code as on disk; it is gone
    /// with its last handle.
    ///
    /// # Errors
    /// [`Error::Storage`] if there is no address space for it.
    pub fn in_memory() -> Result<Self> {
        Self::builder().open()
    }

    /// For stores that should differ.
    #[must_use]
    pub fn builder() -> StoreBuilder {
        StoreBuilder {
            dir: None,
            namespaces: Vec::new(),
            clock: Arc::new(SystemClock),
            progress: OpeningProgress::default(),
            read_only: false,
        }
    }

    /// A set of the default namespace: the first that the builder named, or else `test`, or else
    /// the only one.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name that is not allowed, or if there are several namespaces and
    /// none is the default.
    pub fn set(&self, name: &str) -> Result<Set> {
        self.default_namespace()?.set(name)
    }

    /// The namespace that is meant where none is named.
    #[inline]
    pub(crate) fn default_namespace(&self) -> Result<&Namespace> {
        match self.core.open_default.get() {
            Some(open) => Ok(open),
            None => self.find_default(),
        }
    }

    #[cold]
    fn find_default(&self) -> Result<&Namespace> {
        let Some(default) = &self.core.default else {
            return Err(Error::parameter(
                "the store has several namespaces and none is named test: name the default to the builder, or use namespace(..)",
            ));
        };
        let open = self.namespace(default)?;
        Ok(self.core.open_default.get_or_init(|| open))
    }

    /// A namespace.
    ///
    /// # Errors
    /// [`Error::Namespace`] if there is none of this name.
    pub fn namespace(&self, name: &str) -> Result<Namespace> {
        let namespaces = self.core.namespaces.read();
        namespaces
            .get(name)
            .cloned()
            .ok_or_else(|| Error::Namespace(name.into()))
    }

    /// The namespaces, by name.
    #[must_use]
    pub fn namespaces(&self) -> Vec<Namespace> {
        let namespaces = self.core.namespaces.read();
        let mut all: Vec<_> = namespaces.values().cloned().collect();
        all.sort_by(|one, other| one.name().cmp(other.name()));
        all
    }

    /// Returns the one value of this type that all servers of the store share, made by `make` if
    /// none has it.
    ///
    /// # Errors
    /// The errors of `make`.
    #[cfg(feature = "server")]
    pub(crate) fn shared_by_servers<T: Send + Sync + 'static>(
        &self,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let mut served = self.core.served.lock();
        served.retain(|value| value.strong_count() > 0);
        let mut known = served.iter().filter_map(std::sync::Weak::upgrade);
        if let Some(known) = known.find_map(|value| value.downcast().ok()) {
            return Ok(known);
        }
        let made = Arc::new(make()?);
        let weak = Arc::downgrade(&made);
        served.push(weak);
        Ok(made)
    }

    /// Opens or creates a namespace while the store is open. One that is open already is returned
    /// as it is.
    ///
    /// # Errors
    /// As for [`StoreBuilder::open`].
    pub fn create_namespace(&self, mut config: NamespaceConfig) -> Result<Namespace> {
        config.check()?;
        let mut namespaces = self.core.namespaces.write();
        if let Some(open) = namespaces.get(&config.name) {
            return Ok(open.clone());
        }
        let storage = match &self.core.dir {
            None => Storage::Memory,
            Some(dir) => {
                let dir = dir.join(&config.name);
                adopt_fixed(&dir, &mut config)?;
                Storage::Files {
                    dir,
                    devices: config.devices,
                }
            }
        };
        let options = config.options(storage, &self.core.clock, &self.core.progress);
        let namespace = Namespace::open(&config, options, self.core.read_only)?;
        namespaces.insert(config.name, namespace.clone());
        Ok(namespace)
    }

    /// Where the store is; `None`: in memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.core.dir.as_deref()
    }

    /// Closes all namespaces, which stay locked against other openers until the last handle of this
    /// store is gone: waits for writers that hold a record, syncs, and writes the index snapshots.
    /// Writes through other handles are refused from now on.
    ///
    /// # Errors
    /// [`Error::Storage`], the first that occurs; all namespaces are closed all the same.
    pub fn close(&self) -> Result<()> {
        let closed: Vec<Result<()>> = self.namespaces().iter().map(Namespace::close).collect();
        closed.into_iter().collect()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.core.dir)
            .field("read_only", &self.core.read_only)
            .field("namespaces", &self.namespaces())
            .finish()
    }
}

/// The folders of a store that hold a namespace, or the remains of one.
fn namespaces_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok())
        .filter(|entry| !files_of(&entry.path()).is_empty())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Devices and the index snapshot in a namespace's folder, by name.
fn files_of(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let ours = |name: &String| name.starts_with("device-") || name == "index.snapshot";
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(ours).collect()
}

/// Options fixed at the namespace's creation come from its first device.
fn adopt_fixed(dir: &Path, config: &mut NamespaceConfig) -> Result<()> {
    let path = dir.join("device-0");
    if !path.is_file() {
        if let Some(other) = files_of(dir).first() {
            return Err(Error::parameter(format!(
                "{} is missing, but {other} is beside it: restore it, or move the folder away to begin anew",
                path.display()
            )));
        }
        return Ok(());
    }
    let header = match FileDevice::open_read_only(&path) {
        Ok(device) => read_header(&device).map_err(spikelet_storage::Error::from)?,
        // An interrupted creation: it is done again.
        Err(DeviceError::NotADevice { .. }) => return Ok(()),
        Err(other) => {
            return Err(name_holder(
                spikelet_storage::Error::from(other).into(),
                dir,
            ));
        }
    };
    config.devices = usize::from(header.member.count);
    config.max_device_bytes = header.max_bytes;
    config.key_hash = key_hash_of(header.member.key_hash)?;
    Ok(())
}
