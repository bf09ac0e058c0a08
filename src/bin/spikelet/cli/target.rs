//! What a command looks into: a store on disk, or the cluster that `--host` names.

use std::path::{Path, PathBuf};

use clap::Args;
#[cfg(feature = "cluster")]
use spikelet::cluster::{Cluster, ClusterBuilder, TlsFiles};
use spikelet::{Namespace, Store};

#[cfg(feature = "cluster")]
use super::first_line;
use crate::failure::{CommandFailure, Result};

/// Where `relations` and `shards` look, and in which form they tell.
#[derive(Debug, Args)]
pub(super) struct ReadPlace {
    /// The directory of the store; left out with --host.
    #[arg(required_unless_present = "host", conflicts_with = "host")]
    dir: Option<PathBuf>,
    /// Look into this namespace only.
    #[arg(long, value_name = "NAME")]
    pub(super) namespace: Option<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    cluster: HostArguments,
}

/// A store or cluster opened for reading.
pub(super) enum ReadTarget {
    Store(Store),
    #[cfg(feature = "cluster")]
    Cluster(Cluster),
}

impl ReadPlace {
    /// Opens the store in the directory, or connects to a namespace of the cluster. Returns its
    /// name in reports, too.
    ///
    /// # Errors
    /// A directory without a store, or a connection that fails.
    pub(super) fn open(&self) -> Result<(ReadTarget, String)> {
        #[cfg(feature = "cluster")]
        if let Some(host) = self.cluster.host() {
            let cluster = self.cluster.connect(host, self.namespace.as_deref())?;
            return Ok((ReadTarget::Cluster(cluster), format!("--host {host}")));
        }
        let dir = self.dir.as_deref().unwrap_or(Path::new(""));
        Ok((ReadTarget::Store(open(dir)?), dir.display().to_string()))
    }
}

/// Opens a store for reading.
///
/// # Errors
/// A directory without a store, or with one that is in use or cannot be read.
pub(crate) fn open(dir: &Path) -> spikelet::Result<Store> {
    Store::builder().path(dir).read_only(true).open()
}

/// Returns the namespace of this name, or all.
///
/// # Errors
/// There is no namespace of this name.
pub(super) fn namespaces(store: &Store, name: Option<&str>) -> Result<Vec<Namespace>> {
    Ok(match name {
        Some(name) => vec![store.namespace(name)?],
        None => store.namespaces(),
    })
}

/// Returns the namespace of this name, or the only one.
///
/// # Errors
/// There is no such namespace, or none is wanted of several.
pub(super) fn only_of(store: &Store, wanted: Option<&str>) -> Result<Namespace> {
    let names = store.namespaces().into_iter();
    let names = names.map(|namespace| namespace.name().to_owned()).collect();
    Ok(store.namespace(&only(names, wanted)?)?)
}

/// Returns the name that is wanted of these namespaces, or the only one.
pub(super) fn only(names: Vec<String>, wanted: Option<&str>) -> Result<String> {
    match (wanted, names.as_slice()) {
        (Some(wanted), names) if names.iter().any(|name| name == wanted) => Ok(wanted.to_owned()),
        (None, [only]) => Ok(only.clone()),
        (wanted, names) => {
            let wrong = wanted.map(|wanted| format!("there is no namespace {wanted}, but "));
            Err(CommandFailure::Input(format!(
                "{}there are the namespaces {}: say which by --namespace",
                wrong.unwrap_or_default(),
                names.join(", ")
            )))
        }
    }
}

/// Where the password may stand, so that no list of processes shows it.
#[cfg(feature = "cluster")]
const PASSWORD_VARIABLE: &str = "SPIKELET_PASSWORD";

/// Which cluster, and how to connect to it. A build without clusters refuses `--host`, which all
/// other options need.
#[derive(Clone, Debug, Args)]
#[cfg_attr(
    not(feature = "cluster"),
    command(next_help_heading = "Not in this build, which lacks the feature cluster")
)]
pub(crate) struct HostArguments {
    /// Look at a cluster: one of its nodes, or several, separated by commas; HOST:NAME:PORT gives
    /// the name in its certificate.
    #[arg(long, value_name = "HOST[:PORT]")]
    #[cfg_attr(not(feature = "cluster"), arg(value_parser = without_cluster))]
    host: Option<String>,
    /// Log in as this user. The password comes from --password-file, or from the variable
    /// SPIKELET_PASSWORD.
    #[arg(long, value_name = "NAME", requires = "host")]
    user: Option<String>,
    /// A file with the password in its first line.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Encrypt the connections: certificates (PEM) of the authorities that signed the servers'.
    #[arg(long, value_name = "FILE", requires = "host")]
    tls_ca: Option<PathBuf>,
    /// The certificate (PEM) to show to the servers.
    #[arg(long, value_name = "FILE", requires = "tls_ca", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key (PEM) of that certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

#[cfg(not(feature = "cluster"))]
fn without_cluster(_: &str) -> Result<String, String> {
    Err(super::not_built("clusters", "cluster"))
}

#[cfg(feature = "cluster")]
impl HostArguments {
    /// Returns the host, if a cluster is asked for.
    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Connects to the cluster.
    ///
    /// # Errors
    /// If the password cannot be read, or the connection fails.
    pub(crate) fn connect(&self, host: &str, namespace: Option<&str>) -> Result<Cluster> {
        Ok(self.builder(host, namespace)?.connect()?)
    }

    /// Prepares to connect to the cluster.
    ///
    /// # Errors
    /// A password that cannot be read.
    pub(crate) fn builder(&self, host: &str, namespace: Option<&str>) -> Result<ClusterBuilder> {
        let mut builder = Cluster::builder(host);
        if let Some(namespace) = namespace {
            builder = builder.namespace(namespace);
        }
        if let Some(user) = &self.user {
            builder = builder.login(user, self.password(user)?);
        }
        if let Some(ca) = &self.tls_ca {
            let files = TlsFiles::new(ca);
            builder = builder.tls(match (&self.tls_cert, &self.tls_key) {
                (Some(certificate), Some(key)) => files.client(certificate, key),
                _ => files,
            });
        }
        Ok(builder)
    }

    fn password(&self, user: &str) -> Result<String> {
        if let Some(file) = &self.password_file {
            return first_line(file);
        }
        std::env::var(PASSWORD_VARIABLE).map_err(|_| {
            CommandFailure::Input(format!(
                "--user {user}: there is no password: give --password-file, or set {PASSWORD_VARIABLE}"
            ))
        })
    }
}
