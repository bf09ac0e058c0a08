//! What all connections share: the store, its namespaces with their counters, who this server is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep_until;

use super::builder::ServerBuilder;
use super::community::CommunityEdition;
use super::counters::{Gauge, Latency, NodeCounters, RequestCounters};
use super::index::{Builds, Elsewhere};
use super::job::Jobs;
use super::lua::Functions;
use super::memory_budget::MemoryBudget;
use super::modules::Modules;
use super::security::Security;
use super::served::ServedNamespace;
use super::transaction::table::Transactions;
use crate::record::KeyHash;
use crate::{Error, Namespace, Result};

/// Aerospike's default of `query-threads-limit`.
const QUERIES_MAX: u64 = 128;

/// Aerospike's default of `query-max-done`.
const DONE_QUERIES_MAX: u64 = 100;

/// Aerospike's default of `background-query-max-rps`.
const BACKGROUND_RPS_MAX: u64 = 10_000;

/// How long a message may keep a thread of the runtime before other connections have their turn.
pub(crate) const TURN: Duration = Duration::from_millis(2);

/// The limits of a running server; `set-config` changes them. Each is looked at alone.
pub(crate) struct LiveLimits {
    pub(crate) max_connections: AtomicU64,
    /// 0: connections may be silent as long as they like. They take it over with their next
    /// request.
    pub(crate) idle_timeout_ms: AtomicU64,
    /// The most rows of a batch; 0: as many as fit.
    pub(crate) max_batch_rows: AtomicU64,
    /// The most queries at once.
    pub(crate) max_queries: AtomicU64,
    /// How many queries that have ended are remembered.
    pub(crate) max_done_queries: AtomicU64,
}

impl LiveLimits {
    fn new(options: &ServerBuilder) -> Self {
        let idle_ms = options.idle_timeout.map_or(0, |limit| {
            // A limit of less than a millisecond is still a limit.
            limit.as_millis().clamp(1, u128::from(u64::MAX)) as u64
        });
        Self {
            max_connections: (options.max_connections as u64).into(),
            idle_timeout_ms: idle_ms.into(),
            max_batch_rows: u64::from(options.max_batch_rows).into(),
            max_queries: QUERIES_MAX.into(),
            max_done_queries: DONE_QUERIES_MAX.into(),
        }
    }

    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        let ms = self.idle_timeout_ms.load(Ordering::Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    }
}

/// What all connections share.
pub(crate) struct ServerShared {
    pub(crate) namespaces: Box<[Arc<ServedNamespace>]>,
    /// The node's name: up to 16 hexadecimal digits.
    pub(crate) node: String,
    cluster_name: Option<String>,
    /// A number for the state of the cluster of one node.
    pub(crate) cluster_key: u64,
    /// The port of the listener.
    pub(crate) port: u16,
    pub(crate) limits: LiveLimits,
    pub(crate) started: Instant,
    pub(crate) jobs: Jobs,
    /// Indexes of namespaces that are not served.
    pub(crate) elsewhere: Elsewhere,
    pub(crate) functions: Arc<Functions>,
    pub(crate) batches: Latency,
    pub(crate) counters: NodeCounters,
    /// Memory for large messages.
    pub(crate) budget: MemoryBudget,
    /// `None`: every client may do everything.
    pub(crate) security: Option<Arc<Security>>,
    /// When the server was told to stop. No more requests are begun since.
    closing: OnceLock<Instant>,
    /// Wakes all who wait for that.
    told: Notify,
}

impl ServerShared {
    /// Takes the store's namespaces under service.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a namespace that does not hash keys as clients do.
    pub(crate) fn new(
        options: &ServerBuilder,
        port: u16,
        security: Option<Security>,
    ) -> Result<Self> {
        let store = &options.store;
        let modules = Modules::open(store)?;
        let functions = Arc::new(Functions::new(modules));
        let serve = |namespace: Namespace| {
            if namespace.key_hash() != KeyHash::Ripemd160 {
                return Err(Error::parameter(format!(
                    "namespace \"{}\" hashes keys by XXH3, clients by RIPEMD-160: serve a namespace that was created with KeyHash::Ripemd160",
                    namespace.name()
                )));
            }
            let name = namespace.name();
            let community = || CommunityEdition::start(&namespace, store.path());
            Ok(Arc::new(ServedNamespace {
                community: options.like_ce.then(community).transpose()?,
                expires: !options.no_expiry.iter().any(|off| off == name),
                is_strongly_consistent: options.strongly_consistent.iter().any(|on| on == name),
                transactions: Transactions::new(namespace.clone()),
                namespace,
                builds: Builds::default(),
                counters: RequestCounters::default(),
                reads: Latency::default(),
                writes: Latency::default(),
                queries: Latency::default(),
                hold: options.hold.clone(),
                functions: Arc::clone(&functions),
                calls: Gauge::default(),
                max_background_rps: BACKGROUND_RPS_MAX.into(),
            }))
        };
        let namespaces: Result<Box<[Arc<ServedNamespace>]>> =
            store.namespaces().into_iter().map(serve).collect();
        // Another server, or this one at another time, has another.
        let seed = getrandom::u64()
            .map_err(|error| Error::parameter(format!("no random numbers: {error}")))?;
        Ok(Self {
            namespaces: namespaces?,
            // Real nodes take it from their port and network card; clients ask that it is stable
            // and not another's.
            node: format!("BB9{:012X}", seed & 0xffff_ffff_ffff),
            cluster_name: options.cluster_name.clone(),
            cluster_key: seed.rotate_left(17),
            port,
            limits: LiveLimits::new(options),
            started: Instant::now(),
            jobs: Jobs::default(),
            elsewhere: Elsewhere::default(),
            functions,
            batches: Latency::default(),
            counters: NodeCounters::default(),
            budget: MemoryBudget::default(),
            security: security.map(Arc::new),
            closing: OnceLock::new(),
            told: Notify::new(),
        })
    }

    /// The namespace of this name.
    pub(crate) fn namespace(&self, name: &[u8]) -> Option<&Arc<ServedNamespace>> {
        self.namespaces
            .iter()
            .find(|served| served.namespace.name().as_bytes() == name)
    }

    /// The name of the cluster, as clients are told it.
    pub(crate) fn cluster_name(&self) -> &str {
        self.cluster_name.as_deref().unwrap_or("null")
    }

    /// Whether the server is being stopped.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get().is_some()
    }

    /// Begins to stop.
    pub(crate) fn close(&self) {
        self.closing.get_or_init(Instant::now);
        self.told.notify_waiters();
    }

    /// Waits until the server stops.
    pub(crate) async fn told_to_stop(&self) {
        // Before the look: a notice that comes after it is not missed.
        let told = self.told.notified();
        if !self.is_closing() {
            told.await;
        }
    }

    /// Waits until the server has been stopping for this long.
    pub(crate) async fn stopping_for(&self, grace: Duration) {
        self.told_to_stop().await;
        if let Some(told) = self.closing.get()
            && !grace.is_zero()
        {
            sleep_until((*told + grace).into()).await;
        }
    }
}
