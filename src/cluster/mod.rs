//! A cluster of Aerospike servers, or any server that speaks their protocol, as a [`RecordStore`].
//!
//! All code written against [`RecordStore`] and [`RecordSet`](crate::RecordSet) runs on it: sharded
//! lists, maps and counters, relations, and code of yours. The network is the official client's
//! (crate `aerospike`), with its connections, retries of reads and map of partitions; calls block,
//! and may come from any thread.
//!
//! Async programs connect by [`ClusterBuilder::connect_async`], make the calls on records as
//! futures, by [`Cluster::async_set`], and the calls of handles, which block, by
//! [`Cluster::run_blocking`].
//!
//! ```no_run
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::ShardedList;
//! use spikelet::cluster::Cluster;
//!
//! let cluster = Cluster::builder("10.0.0.1:3000,10.0.0.2:3000").namespace("test").connect()?;
//! let followers = ShardedList::new(&cluster, "users", "alice", "followers")?;
//! followers.add("bob")?;
//! # Ok(())
//! # }
//! ```
//!
//! # What differs from the embedded store
//!
//! `docs/from-aerospike.md` has the list, and all cases of deletes that come back. The most important
//! ones:
//!
//! - A write is sent once. Where its answer is lost, the error says that it is in doubt
//!   ([`Error::in_doubt`](crate::Error::in_doubt)); a write that was certainly not applied and may
//!   succeed later is [`Error::is_retryable`](crate::Error::is_retryable).
//! - No write has an [`Lsn`](crate::Lsn), and no call says how many writers it queued behind.
//! - Deletes are durable only where
//!   [`WritePolicy::durable_delete`](crate::WritePolicy::durable_delete) says so, and the
//!   Enterprise Edition alone has such deletes. Without them a server that restarts may have
//!   deleted records again: elements that were removed stay removed, but a whole record that was
//!   deleted (an unsharded list that its handle deleted, a child of a relation) is back. Pages pass
//!   over it, unless it is a child by reference, and `verify` repairs edges that a kill left at one
//!   end. A transition that ends with deletes is refused before it begins where the server refuses
//!   the deletes.
//! - The server knows nothing of shards: it does not protect roots and companions against other
//!   writers. [`WritePolicy::acknowledge`](crate::WritePolicy::acknowledge) has no effect.
//! - [`RecordSet::now_ms`](crate::RecordSet::now_ms) is the clock of this machine.
//!
//! Arguments that the client cannot carry are refused with
//! [`Error::Parameter`](crate::Error::Parameter) before anything is sent: ordered lists, and maps
//! that are ordered by value, *inside* other lists and maps (whole bins keep their order);
//! increments of list elements by floats, or by other amounts than 1 with flags; intervals that end
//! at nil; integers above `i64::MAX` to look up;
//! [`may_contain`](crate::operations::hll::may_contain) of a sketch. The client also forgets the
//! order of lists that it reads: they come back as unordered ones, with their elements as the server
//! keeps them.

mod arguments;
mod async_set;
mod batch;
mod bits;
mod builder;
#[cfg(feature = "backup")]
mod copy;
mod failure;
mod index;
mod link;
mod lists;
mod maps;
mod measure;
mod operation;
mod policy;
mod results;
mod scan;
mod set;
mod sketches;
mod tls;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

use link::{Link, sets_of};

pub use async_set::AsyncSet;
pub use builder::ClusterBuilder;
#[cfg(feature = "backup")]
pub use copy::{Comparison, RecordAddress};
pub use measure::{MeasuredCollection, MeasuredRecord};
pub use set::ClusterSet;
pub use tls::TlsFiles;

use crate::record::check_set_name;
use crate::{RecordStore, Result};

/// A connection to a cluster, and one of its namespaces. Cheap to clone; all clones share the
/// connections.
///
/// **Deletes may not survive a restart of a server.** Without durable deletes, which the Enterprise
/// Edition alone has ([`WritePolicy::durable_delete`](crate::WritePolicy::durable_delete)), a
/// record that was deleted may be back with its last bins:
///
/// - Not undone: elements that were removed, edges that were unlinked, collections that were
///   merged, brought back into one record, or deleted while they were sharded. These are writes of
///   records that stay, or of companions that belong to nothing.
/// - Undone: an unsharded list, map or counter that its handle deleted, if nothing else was in the
///   record; a record deleted by a plain call, with its ends of edges. A record that
///   [`Members`](crate::relation::Members), [`OneToMany`](crate::relation::OneToMany) or
///   [`KeyCorrespondence`](crate::relation::KeyCorrespondence) removed is back with one bin,
///   `~removed`, and belongs to nothing; plain reads and scans show it until
///   [`sweep_removed`](crate::relation::sweep_removed) deletes it. A delete with edges brings back
///   none of them.
///
/// The `verify` of each relation makes both ends of such edges agree again.
#[derive(Clone, Debug)]
pub struct Cluster {
    link: Arc<Link>,
}

impl Cluster {
    /// Connects to a cluster with one namespace, by one of its nodes: see [`Cluster::builder`].
    ///
    /// # Errors
    /// As for [`ClusterBuilder::connect`].
    pub fn connect(hosts: &str) -> Result<Self> {
        Self::builder(hosts).connect()
    }

    /// Begins with the nodes to ask first: `HOST[:PORT]`, several separated by commas. With TLS,
    /// `HOST:NAME:PORT` gives the name in the certificate. The other nodes are learned from these.
    #[must_use]
    pub fn builder(hosts: &str) -> ClusterBuilder {
        ClusterBuilder::new(hosts)
    }

    /// Returns the namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.link.namespace
    }

    /// Returns whether all servers can say how large a record is: those from version 7.0 on.
    #[must_use]
    pub fn tells_record_sizes(&self) -> bool {
        self.link.tells_sizes
    }

    /// Returns the names of the namespace's sets, in order; an empty one for records without a set.
    ///
    /// # Errors
    /// As for [`Cluster::set_sizes`].
    pub fn set_names(&self) -> Result<Vec<String>> {
        Ok(self
            .set_sizes()?
            .into_iter()
            .map(|(name, _)| name)
            .collect())
    }

    /// Returns the namespace's sets with the number of their records, in the order of their names:
    /// that of all copies which the nodes keep, so with two copies of each record twice as many.
    /// Sets that were emptied have 0. Records without a set are listed under an empty name, if there
    /// are any.
    ///
    /// # Errors
    /// [`Error::Cluster`](crate::Error::Cluster) if a node does not answer, or in a form that is
    /// not known.
    pub fn set_sizes(&self) -> Result<Vec<(String, u64)>> {
        let objects = || {
            let answers = self.info_of_nodes(&format!("namespace/{}", self.namespace()))?;
            let of_nodes = answers
                .iter()
                .filter_map(|of_node| link::stated(of_node, "objects"));
            Ok::<u64, crate::Error>(of_nodes.sum())
        };
        let before = objects()?;
        let listed = format!("sets/{}", self.namespace());
        let answers = self.info_of_nodes(&listed)?;
        let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
        for sets in &answers {
            for set in sets_of(self.namespace(), sets) {
                let (name, records) = set.map_err(|set| {
                    link::failed(format!("a node lists a set in an unknown form: {set:?}"))
                })?;
                *sizes.entry(name.to_owned()).or_default() += records;
            }
        }
        // No node lists the records without a set. Beside writers the number may be too high.
        let all = before.max(objects()?);
        let without = all.saturating_sub(sizes.values().sum());
        if without > 0 {
            sizes.insert(String::new(), without);
        }
        Ok(sizes.into_iter().collect())
    }

    /// Returns how a node answers an info command, such as `build`.
    ///
    /// # Errors
    /// [`Error::Cluster`](crate::Error::Cluster) if no node answers.
    pub fn info(&self, command: &str) -> Result<String> {
        link::wait(self.link.info(command))
    }

    /// Returns how each node answers an info command, in no particular order.
    ///
    /// # Errors
    /// [`Error::Cluster`](crate::Error::Cluster) if a node does not answer.
    pub fn info_of_nodes(&self, command: &str) -> Result<Vec<String>> {
        self.link.info_of_nodes(command)
    }

    /// Returns a set with futures as calls, for programs with an async runtime.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for an invalid name.
    pub fn async_set(&self, set: &str) -> Result<AsyncSet> {
        self.records(set).map(AsyncSet::new)
    }

    /// Makes calls that block, as the calls of handles do, in a thread for blocking calls of the
    /// client's runtime, and returns their result as a future. A runtime of its own has at most 512
    /// such threads; further calls wait for one. A call that has begun goes on if the future is
    /// dropped.
    ///
    /// ```no_run
    /// # async fn follow(cluster: &spikelet::cluster::Cluster) -> spikelet::Result<()> {
    /// use spikelet::ShardedList;
    ///
    /// let is_new = cluster.run_blocking(|cluster| {
    ///     ShardedList::new(cluster, "users", "alice", "followers")?.add("bob")
    /// });
    /// assert!(is_new.await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of `calls`; [`Error::Cluster`](crate::Error::Cluster) if it panics.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        calls: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let cluster = self.clone();
        let called = self.link.runtime()?.spawn_blocking(move || {
            let result = link::blocking(|| calls(&cluster));
            // The last handle shuts the runtime down.
            drop(cluster);
            result
        });
        called
            .await
            .map_err(|error| link::failed(format!("calls to the cluster have ended: {error}")))?
    }
}

impl Cluster {
    /// The set of this name; the name is checked.
    fn set_of(&self, set: &str) -> ClusterSet {
        ClusterSet {
            link: Arc::clone(&self.link),
            name: set.into(),
            filter: None,
            asks_sizes: self.link.tells_sizes,
        }
    }
}

impl RecordStore for Cluster {
    type Records = ClusterSet;
    type Atomic<'a> = Self;

    fn records(&self, set: &str) -> Result<ClusterSet> {
        check_set_name(set).map_err(crate::Error::parameter)?;
        Ok(self.set_of(set))
    }

    fn atomically<T>(&self, mut make: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        make(self)
    }
}
