//! The client, and the runtime that it needs: asynchronous inside, blocking outside.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;

use aerospike::{AdminPolicy, Client, Version};
use tokio::runtime::{Builder, Handle, Runtime};

use super::failure::of_cluster;
use crate::error::ClusterFailure;
use crate::{Error, Result};

/// The first servers that know the expression for the size of a record.
const KNOWS_RECORD_SIZE: Version = Version::new(7, 0, 0, 0);

/// What all handles of a cluster share.
pub(super) struct Link {
    pub(super) client: Arc<Client>,
    /// Taken when the link ends.
    runtime: Option<Runtime>,
    pub(super) namespace: Box<str>,
    pub(super) read_retries: usize,
    pub(super) max_record_bytes: Option<u64>,
    /// Whether the servers can say how large a record is.
    pub(super) tells_sizes: bool,
    /// Whether the servers are known to take deletes that are not durable.
    pub(super) takes_deletes: AtomicBool,
    /// Whether the servers are known to take durable deletes.
    pub(super) takes_durable_deletes: AtomicBool,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("namespace", &self.namespace)
            .field("nodes", &self.client.node_names())
            .finish_non_exhaustive()
    }
}

/// A runtime of its own: the client works in the background, whatever its callers do.
pub(super) fn runtime(threads: usize) -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .thread_name("spikelet-cluster")
        .enable_all()
        .build()
        .map_err(|error| failed(format!("threads for the client could not be made: {error}")))
}

/// A failure of the client.
pub(super) fn failed(message: impl Into<Box<str>>) -> Error {
    Error::Cluster(Box::new(ClusterFailure::new(None, message)))
}

/// Waits for a future. A thread that runs tasks itself may not wait in the runtime's own way.
pub(super) fn wait<F>(runtime: &Runtime, future: F) -> Result<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let ended = || failed("the client ended in the middle of a call");
    if Handle::try_current().is_err() {
        let waited = catch_unwind(AssertUnwindSafe(|| runtime.block_on(future)));
        return waited.map_err(|_| ended());
    }
    let (sender, receiver) = sync_channel(1);
    runtime.spawn(async move {
        // Whoever asked waits for the answer until it is there.
        let _ = sender.send(future.await);
    });
    receiver.recv().map_err(|_| ended())
}

impl Link {
    /// Asks the cluster what has to be known of its namespace.
    pub(super) fn new(
        client: Client,
        runtime: Runtime,
        namespace: Option<Box<str>>,
        read_retries: usize,
    ) -> Result<Self> {
        let mut link = Self {
            client: Arc::new(client),
            runtime: Some(runtime),
            namespace: namespace.unwrap_or_default(),
            read_retries,
            max_record_bytes: None,
            tells_sizes: false,
            takes_deletes: AtomicBool::new(false),
            takes_durable_deletes: AtomicBool::new(false),
        };
        link.namespace = link.choose_namespace()?;
        let nodes = link.client.nodes();
        link.tells_sizes = nodes
            .iter()
            .all(|node| *node.version() >= KNOWS_RECORD_SIZE);
        link.max_record_bytes = link.ask_max_record_bytes()?;
        Ok(link)
    }

    /// Waits for what the client does.
    pub(super) fn wait<F>(&self, future: F) -> Result<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match &self.runtime {
            Some(runtime) => wait(runtime, future),
            None => Err(failed("the cluster is closed")),
        }
    }

    /// Asks any node for information.
    pub(super) fn info(&self, command: String) -> Result<String> {
        let client = Arc::clone(&self.client);
        let asked = command.clone();
        let answer = self.wait(async move {
            let node = client.random_node()?;
            node.info(&AdminPolicy::default(), &[&asked]).await
        })?;
        let answers = answer.map_err(|error| of_cluster(&error, &self.namespace))?;
        answers
            .into_iter()
            .find_map(|(name, answer)| (name == command).then_some(answer))
            .ok_or_else(|| failed(format!("the server did not answer \"{command}\"")))
    }

    /// Asks all nodes for information.
    pub(super) fn info_of_nodes(&self, command: String) -> Result<Vec<String>> {
        let client = Arc::clone(&self.client);
        let answers = self.wait(async move {
            let mut answers = Vec::new();
            for node in client.nodes() {
                let answer = node.info(&AdminPolicy::default(), &[&command]).await?;
                answers.extend(answer.into_values());
            }
            Ok(answers)
        })?;
        answers.map_err(|error: aerospike::Error| of_cluster(&error, &self.namespace))
    }

    /// The sets of all nodes: each lists those of which it has records, and how many.
    pub(super) fn set_sizes(&self) -> Result<Vec<(String, u64)>> {
        let answers = self.info_of_nodes(format!("sets/{}", self.namespace))?;
        let mut sizes = BTreeMap::new();
        for sets in &answers {
            for (name, records) in sets_of(&self.namespace, sets) {
                *sizes.entry(name.to_owned()).or_default() += records;
            }
        }
        Ok(sizes.into_iter().collect())
    }

    fn choose_namespace(&self) -> Result<Box<str>> {
        let known = self.info("namespaces".into())?;
        let mut names = known.split(';').filter(|name| !name.is_empty());
        if !self.namespace.is_empty() {
            return match names.find(|name| **name == *self.namespace) {
                Some(name) => Ok(name.into()),
                None => Err(Error::Namespace(self.namespace.clone())),
            };
        }
        match (names.next(), names.next()) {
            (Some(only), None) => Ok(only.into()),
            _ => Err(Error::parameter(format!(
                "the cluster has the namespaces {known}: choose one"
            ))),
        }
    }

    /// What a record may take at most: newer servers say it themselves, older ones by the size of their write blocks.
    fn ask_max_record_bytes(&self) -> Result<Option<u64>> {
        let answer = self.info(format!("namespace/{}", self.namespace))?;
        let value = |wanted: &str| {
            answer
                .split(';')
                .filter_map(|pair| pair.split_once('='))
                .filter(|(name, _)| name.rsplit('.').next() == Some(wanted))
                .find_map(|(_, value)| value.parse().ok().filter(|bytes| *bytes > 0))
        };
        Ok(value("max-record-size").or_else(|| value("write-block-size")))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let client = Arc::clone(&self.client);
            runtime.spawn(async move { client.close().await });
            runtime.shutdown_background();
        }
    }
}

/// The sets in what a node says of a namespace's sets, with their records: `ns=N:set=S:objects=..;ns=N:set=..`. A name may
/// have colons and semicolons itself.
fn sets_of<'t>(namespace: &str, text: &'t str) -> impl Iterator<Item = (&'t str, u64)> {
    let begin = format!("ns={namespace}:set=");
    let sets: Vec<&str> = text.split(&begin).skip(1).collect();
    sets.into_iter().filter_map(|set| {
        let (name, rest) = set.split_once(":objects=")?;
        let records = rest.split(':').next().unwrap_or_default();
        Some((name, records.parse().unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_listed_whatever_their_names_are() {
        let set =
            |name: &str| format!("ns=test:set={name}:objects=1:tombstones=0:truncating=false;");
        let names = ["plain", "a:b", "c;d=e", ";", "set=x"];
        let text: String = names.iter().map(|name| set(name)).collect();
        let expected = names.map(|name| (name, 1));
        assert_eq!(sets_of("test", &text).collect::<Vec<_>>(), expected);
        assert_eq!(sets_of("test", "").count(), 0);
        assert_eq!(sets_of("test", "ns_type=unknown").count(), 0);
    }
}
