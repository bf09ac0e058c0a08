//! `spikelet serve`: the store behind the Aerospike wire protocol.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use clap::Args;
#[cfg(feature = "tls")]
use spikelet::TlsIdentity;
use spikelet::monitor::Monitor;
use spikelet::server::{SecurityOptions, Server, ServerConfig};
use spikelet::{DEFAULT_NAMESPACE, Store, StoreBuilder};

use super::{CommandOutcome, first_line};
use crate::failure::{CommandFailure, Result};

/// The address that is listened on by default: Aerospike's port, of this machine only.
const LISTEN: &str = "127.0.0.1:3000";

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Keep the store in this directory. Without it, the store is in memory and gone when the
    /// server stops.
    #[arg(long, conflicts_with = "memory")]
    dir: Option<PathBuf>,
    /// Keep the store in memory (the default).
    #[arg(long)]
    memory: bool,
    /// Listen on this address; port 0 takes a free one. [default: 127.0.0.1:3000, or what the
    /// configuration says]
    #[arg(long)]
    listen: Option<String>,
    /// Serve these namespaces. [default: test, or the namespaces of the configuration]
    #[arg(long, value_delimiter = ',')]
    namespace: Vec<String>,
    /// Read this configuration file of Aerospike, as far as it applies.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Serve metrics in Prometheus' form over HTTP on this address.
    #[arg(long)]
    metrics: Option<String>,
    /// Serve hot records, shards and metrics over HTTP on this address, for a browser and for
    /// `spikelet top --host`. Port 0 takes a free one; the address is logged.
    #[arg(long, value_name = "HOST:PORT")]
    monitor: Option<String>,
    /// Let clients of the monitor read whole records, for `spikelet move`.
    #[arg(long, requires = "monitor")]
    monitor_records: bool,
    /// Rehearse contention: keep the record of every write for this many milliseconds before it is
    /// executed, so that clients that write one record at once wait, and meet KEY_BUSY (error 14)
    /// once more than transaction-pending-limit wait.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    hold_ms: Option<u64>,
    /// Report strongly consistent namespaces: some clients ask before they use transactions, which
    /// work either way.
    #[arg(long)]
    strong_consistency: bool,
    /// Behave as Aerospike's Community Edition, for tests: refuse transactions and durable deletes
    /// (code 25), bring back after a restart deleted records, and refuse lists with a persisted
    /// index in a store in memory, which end that edition's process.
    #[arg(long)]
    like_ce: bool,
    /// Keep the records of these sets only, separated by commas. `contention --host` writes to a
    /// set of its own, spikelet-contention.
    #[arg(long, value_name = "SETS", value_delimiter = ',', requires = "hold_ms")]
    hot_set: Vec<String>,
    /// Keep the changes of these sets of each namespace from now on, separated by commas, for
    /// subscriptions and `spikelet changes`. A set that keeps them goes on to do so without it.
    #[arg(long, value_name = "SETS", value_delimiter = ',')]
    keep_changes: Vec<String>,
    /// Ask clients who they are, and let each user do what its roles allow. The first user is admin
    /// with the password admin; while that is so, the server listens on this machine only.
    #[arg(long)]
    security: bool,
    /// The first line of this file is the password of admin, where the store has no users yet.
    #[arg(long, value_name = "FILE", requires = "security")]
    first_password_file: Option<PathBuf>,
    /// For how many seconds a client may open connections after a login. [default: 86400]
    #[arg(long, value_name = "N", requires = "security", value_parser = clap::value_parser!(u32).range(1..))]
    session_seconds: Option<u32>,
    /// Append logins, refusals, and changes of users to this file, instead of the log on the
    /// standard error.
    #[arg(long, value_name = "FILE", requires = "security")]
    audit_file: Option<PathBuf>,
    /// Note every request about records of these namespaces, or of sets of them, separated by
    /// commas, in the audit log.
    #[arg(
        long,
        value_name = "NAMESPACE[.SET]",
        value_delimiter = ',',
        requires = "security"
    )]
    audit_data: Vec<String>,
    /// Listen on this address, too, for encrypted connections. The certificate counts for --metrics
    /// and --monitor as well.
    #[arg(long, value_name = "HOST:PORT", requires = "tls_cert")]
    #[cfg_attr(not(feature = "tls"), arg(help_heading = WITHOUT_TLS, value_parser = without_tls::<String>))]
    tls_listen: Option<String>,
    /// The certificate (PEM) of the server, with those up to its root.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    #[cfg_attr(not(feature = "tls"), arg(help_heading = WITHOUT_TLS, value_parser = without_tls::<PathBuf>))]
    tls_cert: Option<PathBuf>,
    /// The key (PEM) of that certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    #[cfg_attr(not(feature = "tls"), arg(help_heading = WITHOUT_TLS, value_parser = without_tls::<PathBuf>))]
    tls_key: Option<PathBuf>,
    /// Refuse clients without a certificate that one of these (PEM) has signed.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    #[cfg_attr(not(feature = "tls"), arg(help_heading = WITHOUT_TLS, value_parser = without_tls::<PathBuf>))]
    tls_client_ca: Option<PathBuf>,
    /// Listen where other machines reach it though there is no --security: each of them may read,
    /// change and delete all records.
    #[arg(long, conflicts_with = "security")]
    allow_remote: bool,
}

/// The heading of options that are refused.
#[cfg(not(feature = "tls"))]
const WITHOUT_TLS: &str = "Not in this build, which lacks the feature tls";

#[cfg(not(feature = "tls"))]
fn without_tls<T>(_: &str) -> Result<T, String> {
    Err(super::not_built("encryption", "server,tls"))
}

/// Serves until the process is asked to end.
///
/// # Errors
/// A configuration that cannot be read, a store that cannot be used, an address that cannot be
/// listened on.
pub(crate) fn run(arguments: &ServeArguments) -> Result<CommandOutcome> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
    let config = configuration(arguments)?;
    let store = store(arguments, &config).open()?;
    for namespace in store.namespaces() {
        for set in &arguments.keep_changes {
            namespace.changes().enable(set)?;
        }
    }
    // From here on the signal is waited for, so that one that comes early is not lost.
    let (told, ends) = mpsc::channel();
    ctrlc::set_handler(move || {
        // Once is enough.
        let _ = told.send(());
    })
    .map_err(|error| CommandFailure::Input(format!("cannot wait for signals: {error}")))?;

    let mut server = Server::builder(&store)
        .max_batch_rows(config.max_batch_rows)
        .idle_timeout(config.idle_timeout);
    server = match (&arguments.listen, &arguments.config) {
        (Some(listen), _) => server.listen(listen)?,
        (None, Some(_)) => server.listen(config.addr())?,
        (None, None) => server.listen(LISTEN)?,
    };
    if let Some(name) = &config.cluster_name {
        server = server.cluster_name(name);
    }
    if let Some(most) = config.max_connections {
        server = server.max_connections(most);
    }
    for namespace in &config.no_expiry {
        server = server.without_expiry(namespace);
    }
    for namespace in &config.strong_consistency {
        server = server.strong_consistency(namespace);
    }
    if let Some(metrics) = &arguments.metrics {
        server = server.metrics(metrics)?;
    }
    if arguments.strong_consistency {
        let namespaces = store.namespaces().into_iter();
        server = namespaces.fold(server, |server, namespace| {
            server.strong_consistency(namespace.name())
        });
    }
    if let Some(time) = arguments.hold_ms.map(Duration::from_millis) {
        let sets: Vec<&str> = arguments.hot_set.iter().map(String::as_str).collect();
        server = server.hold_writes(time, &sets);
        let shown = match sets.as_slice() {
            [] => "all".to_owned(),
            sets => sets.join(", "),
        };
        tracing::info!(
            ?time,
            sets = shown,
            "a rehearsal: writes keep their records"
        );
    }
    if arguments.like_ce {
        server = server.like_ce();
    }
    if arguments.security {
        server = server.security(security(arguments)?);
    }
    if arguments.allow_remote {
        server = server.allow_remote_without_security();
    }
    #[cfg(feature = "tls")]
    if let Some(identity) = identity(arguments) {
        if let Some(addr) = &arguments.tls_listen {
            server = server.listen_tls(addr, identity.clone())?;
        }
        server = server.metrics_tls(identity);
    }
    let monitor = arguments.monitor.as_ref();
    let monitor = monitor.map(|addr| Monitor::builder(&store).listen(addr));
    let monitor = monitor.transpose()?;
    if let Some(monitor) = &monitor {
        server = server.beside(monitor.addr());
    }
    let handle = server.start()?;
    let mut watched = None;
    if let Some(mut monitor) = monitor {
        monitor = monitor.connections(handle.connection_count());
        if arguments.security {
            monitor = monitor.logins(handle.login_check());
        }
        #[cfg(feature = "tls")]
        if let Some(identity) = identity(arguments) {
            monitor = monitor.tls(identity);
        }
        let monitor = monitor.serve_records(arguments.monitor_records).start()?;
        tracing::info!(addr = %monitor.addr(), "monitor");
        watched = Some(monitor);
    }
    if let Some(addr) = handle.metrics_addr() {
        tracing::info!(%addr, "metrics");
    }
    ready(handle.addr()).map_err(CommandFailure::Output)?;
    // An error is no more senders, which is a signal, too.
    let _ = ends.recv();
    tracing::info!("stopping");
    drop(watched);
    handle.stop();
    store.close()?;
    Ok(CommandOutcome::Sound)
}

/// Prints the address to connect to, for the program that started this one.
fn ready(addr: SocketAddr) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "ready {addr}")?;
    out.flush()
}

/// The files by which the server shows who it is.
#[cfg(feature = "tls")]
fn identity(arguments: &ServeArguments) -> Option<TlsIdentity> {
    let (certificate, key) = (arguments.tls_cert.as_ref()?, arguments.tls_key.as_ref()?);
    let identity = TlsIdentity::new(certificate, key);
    Some(match &arguments.tls_client_ca {
        Some(ca) => identity.client_ca(ca),
        None => identity,
    })
}

/// How clients are known.
fn security(arguments: &ServeArguments) -> Result<SecurityOptions> {
    let mut options = SecurityOptions::default();
    if let Some(file) = &arguments.first_password_file {
        options = options.first_password(first_line(file)?);
    }
    if let Some(seconds) = arguments.session_seconds {
        options = options.session_time(Duration::from_secs(seconds.into()));
    }
    if let Some(file) = &arguments.audit_file {
        options = options.audit_file(file);
    }
    for place in &arguments.audit_data {
        let (namespace, set) = place.split_once('.').unwrap_or((place, ""));
        options = options.audit_data(namespace, set);
    }
    Ok(options)
}

/// Reads the configuration file, or an empty one, and notes the settings that do not apply.
fn configuration(arguments: &ServeArguments) -> Result<ServerConfig> {
    let text = arguments.config.as_ref().map(|path| {
        std::fs::read_to_string(path).map_err(|error| {
            CommandFailure::Input(format!("cannot read {}: {error}", path.display()))
        })
    });
    let config = ServerConfig::parse(&text.transpose()?.unwrap_or_default())?;
    for parameter in &config.ignored {
        tracing::info!("no meaning here: {parameter}");
    }
    for parameter in &config.unknown {
        tracing::warn!("not known and ignored: {parameter}");
    }
    Ok(config)
}

/// Opens the store to be served.
fn store(arguments: &ServeArguments, config: &ServerConfig) -> StoreBuilder {
    let mut store = Store::builder();
    if let Some(dir) = &arguments.dir {
        store = store.path(dir);
    }
    let mut namespaces = config.namespaces.clone();
    let named = arguments.namespace.iter().map(String::as_str);
    let default =
        (namespaces.is_empty() && arguments.namespace.is_empty()).then_some(DEFAULT_NAMESPACE);
    for name in named.chain(default) {
        if !namespaces.iter().any(|namespace| namespace.name == name) {
            namespaces.push(ServerConfig::namespace_of(name));
        }
    }
    namespaces.into_iter().fold(store, StoreBuilder::namespace)
}
