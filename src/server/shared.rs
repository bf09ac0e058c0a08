//! What all connections share: the store, its namespaces with their counters, who this server is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use xxhash_rust::xxh3::xxh3_64;

use super::counters::{Counters, Latency};
use super::hold::{HeldRecords, HoldConfig};
use super::index::{Elsewhere, Indexes};
use super::job::Jobs;
use super::memory_budget::MemoryBudget;
use super::modules::Modules;
use super::served::ServedNamespace;
use crate::record::KeyHash;
use crate::{Error, Namespace, Result, Store};

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_connections: usize,
    /// How long a connection may be silent between requests; `None`: as long as it likes.
    pub(crate) idle_timeout: Option<Duration>,
    /// The most rows of a batch; 0: as many as fit.
    pub(crate) max_batch_rows: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 15_000,
            idle_timeout: None,
            max_batch_rows: 0,
        }
    }
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) namespaces: Box<[ServedNamespace]>,
    /// The node's name: up to 16 hexadecimal digits.
    pub(crate) node: String,
    pub(crate) cluster_name: Option<String>,
    /// A number for the state of the cluster of one node.
    pub(crate) cluster_key: u64,
    /// The port of the listener.
    pub(crate) port: u16,
    pub(crate) limits: Limits,
    pub(crate) started: Instant,
    pub(crate) connections: Connections,
    pub(crate) jobs: Jobs,
    /// Indexes of namespaces that are not served.
    pub(crate) elsewhere: Elsewhere,
    pub(crate) modules: Modules,
    pub(crate) batches: Latency,
    /// Memory for large messages.
    pub(crate) budget: MemoryBudget,
    /// No more requests are begun.
    pub(crate) closing: AtomicBool,
}

/// Counts of connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    pub(crate) open: AtomicU64,
    pub(crate) opened: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Shared {
    /// Takes the store's namespaces under service.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a namespace whose digests are not those that clients compute.
    pub(crate) fn new(
        store: &Store,
        no_expiry: &[String],
        port: u16,
        cluster_name: Option<String>,
        limits: Limits,
        hold: Option<&HoldConfig>,
    ) -> Result<Self> {
        let serve = |namespace: Namespace| {
            if namespace.key_hash() != KeyHash::Ripemd160 {
                return Err(Error::parameter(format!(
                    "namespace \"{}\" hashes keys by XXH3, clients by RIPEMD-160: serve a namespace that was created with KeyHash::Ripemd160",
                    namespace.name()
                )));
            }
            let name = namespace.name();
            Ok(ServedNamespace {
                expires: !no_expiry.iter().any(|off| off == name),
                namespace,
                indexes: Indexes::default(),
                counters: Counters::default(),
                reads: Latency::default(),
                writes: Latency::default(),
                queries: Latency::default(),
                held: hold.cloned().map(HeldRecords::new),
            })
        };
        let namespaces: Result<Box<[ServedNamespace]>> =
            store.namespaces().into_iter().map(serve).collect();
        let seed = seed(port);
        Ok(Self {
            namespaces: namespaces?,
            // Real nodes take it from their port and network card; clients ask that it is stable and not another's.
            node: format!("BB9{:012X}", seed & 0xffff_ffff_ffff),
            cluster_name,
            cluster_key: seed.rotate_left(17),
            port,
            limits,
            started: Instant::now(),
            connections: Connections::default(),
            jobs: Jobs::default(),
            elsewhere: Elsewhere::default(),
            modules: Modules::default(),
            batches: Latency::default(),
            budget: MemoryBudget::default(),
            closing: AtomicBool::new(false),
        })
    }

    /// The namespace of this name.
    pub(crate) fn namespace(&self, name: &[u8]) -> Option<&ServedNamespace> {
        self.namespaces
            .iter()
            .find(|served| served.namespace.name().as_bytes() == name)
    }

    /// Whether the server is being stopped.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }
}

/// A number that another server, or this one at another time, does not have.
fn seed(port: u16) -> u64 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let mut bytes = now.as_nanos().to_le_bytes().to_vec();
    bytes.extend(std::process::id().to_le_bytes());
    bytes.extend(port.to_le_bytes());
    xxh3_64(&bytes)
}
