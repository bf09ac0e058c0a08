//! A cluster that a command looks at instead of a directory.

use std::path::PathBuf;

use clap::Args;
#[cfg(feature = "cluster")]
use spikelet::cluster::{Cluster, ClusterBuilder, TlsFiles};

#[cfg(feature = "cluster")]
use super::first_line;
#[cfg(feature = "cluster")]
use crate::failure::{CommandFailure, Result};

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
