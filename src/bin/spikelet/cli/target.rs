//! What a command looks into: a store on disk, or a cluster.

use std::path::{Path, PathBuf};

use clap::Args;
#[cfg(feature = "cluster")]
use spikelet::cluster::Cluster;
use spikelet::{Namespace, Store};

use super::host::HostArguments;
use crate::failure::{CommandFailure, Result};

/// Where `relations` and `shards` look, and in which form they tell.
#[derive(Debug, Args)]
pub(super) struct ReadPlace {
    /// The directory of the store; left out with --host.
    #[arg(required_unless_present = "host", conflicts_with = "host")]
    dir: Option<PathBuf>,
    /// Look into this namespace only.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
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
            let cluster = self.cluster.connect(host, self.namespace())?;
            return Ok((ReadTarget::Cluster(cluster), format!("--host {host}")));
        }
        let dir = self.dir.as_deref().unwrap_or(Path::new(""));
        Ok((ReadTarget::Store(open(dir)?), dir.display().to_string()))
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(super) const fn json(&self) -> bool {
        self.json
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
