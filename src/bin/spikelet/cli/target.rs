//! What a command looks into: a store on disk, or a cluster.

use std::path::Path;

#[cfg(feature = "cluster")]
use spikelet::cluster::Cluster;
use spikelet::error::StoreHolder;
use spikelet::{Namespace, Store};

use super::host::HostArguments;
use crate::failure::{CommandFailure, Result};

/// A store or cluster opened for reading.
pub(super) enum ReadTarget {
    Store(Store),
    #[cfg(feature = "cluster")]
    Cluster(Cluster),
}

impl ReadTarget {
    /// Opens the store in a directory, or connects to a namespace of the cluster that is given
    /// instead. Returns its name in reports, too.
    ///
    /// # Errors
    /// A directory without a store, or a connection that fails.
    #[cfg_attr(
        not(feature = "cluster"),
        expect(unused_variables, reason = "--host was refused")
    )]
    pub(super) fn open(
        dir: Option<&Path>,
        at: &HostArguments,
        namespace: Option<&str>,
    ) -> Result<(Self, String)> {
        #[cfg(feature = "cluster")]
        if let Some(host) = at.host() {
            let cluster = at.connect(host, namespace)?;
            return Ok((Self::Cluster(cluster), format!("--host {host}")));
        }
        let dir = dir.unwrap_or(Path::new(""));
        Ok((Self::Store(open(dir)?), dir.display().to_string()))
    }
}

/// Opens a store for reading.
///
/// # Errors
/// A directory without a store, or with one that is in use or cannot be read.
pub(crate) fn open(dir: &Path) -> spikelet::Result<Store> {
    Store::builder().path(dir).read_only(true).open()
}

/// Opens a store for reading that no process has open. `command` asks the process that has.
///
/// # Errors
/// A directory without a store, or with one that is in use.
pub(super) fn open_closed(dir: &Path, command: &str) -> Result<Store> {
    open(dir).map_err(|error| match error {
        spikelet::Error::InUse {
            holder: StoreHolder::OtherProcess,
            ..
        } => CommandFailure::Input(format!(
            "{error}: ask that process, with `spikelet {command} --host HOST:PORT`, where its monitor listens"
        )),
        error => error.into(),
    })
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
