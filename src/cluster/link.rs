//! The client, and the runtime that it needs: its calls are futures, and a thread may wait for
//! them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::thread;
use std::time::Instant;

use aerospike::{AdminPolicy, Client, Version};
use futures_util::FutureExt;
use futures_util::future::CatchUnwind;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::unconstrained;

use super::failure::{FailedCall, of_cluster};
use crate::error::ClusterFailure;
use crate::query::IndexComponent;
use crate::{Error, Operation, Result, WritePolicy, sync};

/// The size limit of a record, in bytes, where the cluster does not say.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// The first servers that take batches of operations.
const TAKES_BATCHES: Version = Version::new(6, 0, 0, 0);

/// The first servers that know the expression for the size of a record.
const KNOWS_RECORD_SIZE: Version = Version::new(7, 0, 0, 0);

/// The indexed component of each known index, by its set and name.
pub(super) type KnownIndexes = BTreeMap<(Arc<str>, Box<str>), IndexComponent>;

/// What all handles of a cluster share.
pub(super) struct Link {
    pub(super) client: Arc<Client>,
    threads: Threads,
    pub(super) namespace: Box<str>,
    pub(super) read_retries: usize,
    pub(super) max_record_bytes: Option<u64>,
    /// Whether the servers can say how large a record is.
    pub(super) tells_sizes: bool,
    /// Whether the servers are known to take deletes that are not durable.
    pub(super) takes_deletes: AtomicBool,
    /// Whether the servers are known to take durable deletes.
    pub(super) takes_durable_deletes: AtomicBool,
    /// The indexes that were asked for.
    pub(super) indexes: Mutex<KnownIndexes>,
}

/// The runtime of the client's sockets and timers.
pub(super) enum Threads {
    /// Its own; taken when the link ends.
    Own(Option<Runtime>),
    /// The one of the program's tasks. A call that blocks one of its threads could wait for itself.
    Callers(Handle),
}

/// How this thread makes calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calling {
    Awaits,
    /// It waits for each call, and may be one that runs tasks.
    Blocks,
    /// It runs [`Cluster::run_blocking`](super::Cluster::run_blocking), so it runs no tasks.
    MayBlock,
}

thread_local! {
    static CALLING: Cell<Calling> = const { Cell::new(Calling::Awaits) };
}

/// Runs calls in a thread that may block.
pub(super) fn blocking<T>(calls: impl FnOnce() -> T) -> T {
    calling(Calling::MayBlock, calls)
}

fn calling<T>(how: Calling, calls: impl FnOnce() -> T) -> T {
    struct Reset(Calling);
    impl Drop for Reset {
        fn drop(&mut self) {
            CALLING.set(self.0);
        }
    }
    // The thread is used again for other work, also after a panic of the calls.
    let _reset = Reset(CALLING.replace(how));
    calls()
}

impl Threads {
    pub(super) fn handle(&self) -> Result<&Handle> {
        match self {
            Self::Own(runtime) => runtime.as_ref().map(Runtime::handle),
            Self::Callers(handle) => Some(handle),
        }
        .ok_or_else(|| failed("the cluster is closed"))
    }

    /// # Errors
    /// [`Error::Parameter`] for a call that would block a task of the runtime which it waits for.
    fn check_call(&self) -> Result<()> {
        let Self::Callers(handle) = self else {
            return Ok(());
        };
        if CALLING.get() != Calling::Blocks
            || !Handle::try_current().is_ok_and(|at| at.id() == handle.id())
        {
            return Ok(());
        }
        Err(Error::parameter(
            "a blocking call in a task of the runtime that `connect_async` connected in: await the calls of an `AsyncSet`, or \
             make it in `Cluster::run_blocking`",
        ))
    }

    pub(super) fn end(&mut self, last: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Own(runtime) => {
                if let Some(runtime) = runtime.take() {
                    runtime.spawn(last);
                    // Not dropped: a thread that runs tasks may not wait for it.
                    runtime.shutdown_background();
                }
            }
            Self::Callers(handle) => drop(handle.spawn(last)),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("namespace", &self.namespace)
            .field("nodes", &self.client.node_names())
            .finish_non_exhaustive()
    }
}

/// Returns a runtime of its own: the client works in the background beside its callers.
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

/// A call of the client: any thread or task may poll it, its sockets and timers belong to the
/// client's runtime. So does the connection that it gives back when it is dropped unfinished.
///
/// All threads count the users of a runtime in one place, so it is entered no more often than
/// needed.
struct InRuntime<'c, F> {
    runtime: &'c Handle,
    /// Until it has ended.
    call: Pin<&'c mut Option<F>>,
}

impl<F: Future> Future for InRuntime<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { runtime, call } = &mut *self;
        let _entered = runtime.enter();
        let polled = call.as_mut().as_pin_mut();
        let polled = polled.map_or(Poll::Pending, |call| call.poll(cx));
        if polled.is_ready() {
            call.set(None);
        }
        polled
    }
}

impl<F> Drop for InRuntime<'_, F> {
    fn drop(&mut self) {
        if self.call.is_some() {
            let _entered = self.runtime.enter();
            self.call.set(None);
        }
    }
}

/// A call of the client until it has ended.
pub(super) type StartedCall<F> = Option<CatchUnwind<AssertUnwindSafe<F>>>;

/// Prepares a call for [`run`]. It stays where its caller pins it: the calls of the client are
/// large, and copies of them cost.
#[inline]
pub(super) fn pinnable<F: Future>(call: F) -> StartedCall<F> {
    Some(AssertUnwindSafe(call).catch_unwind())
}

/// Makes a call of the client.
///
/// # Errors
/// [`Error::Cluster`] if the client panics.
pub(super) async fn run<F: Future>(
    runtime: &Handle,
    call: Pin<&mut StartedCall<F>>,
) -> Result<F::Output> {
    let ended = InRuntime { runtime, call }.await;
    ended.map_err(|_| failed("the client ended in the middle of a call"))
}

/// Waits for a future. The thread is parked, so it may be one that runs tasks itself.
pub(super) fn wait<F: Future>(future: F) -> F::Output {
    // The budget of a task that waits here would never be filled up again.
    let mut future = pin!(unconstrained(future));
    let waker = sync::waker_of_this_thread();
    let mut cx = Context::from_waker(&waker);
    let how = match CALLING.get() {
        Calling::MayBlock => Calling::MayBlock,
        Calling::Awaits | Calling::Blocks => Calling::Blocks,
    };
    calling(how, || {
        loop {
            match future.as_mut().poll(&mut cx) {
                Poll::Ready(output) => return output,
                Poll::Pending => thread::park(),
            }
        }
    })
}

impl Link {
    /// Chooses the namespace, checks the servers' versions, and asks for the size limit of a
    /// record.
    pub(super) async fn new(
        client: Client,
        threads: Threads,
        namespace: Option<Box<str>>,
        read_retries: usize,
    ) -> Result<Self> {
        let mut link = Self {
            client: Arc::new(client),
            threads,
            namespace: namespace.unwrap_or_default(),
            read_retries,
            max_record_bytes: None,
            tells_sizes: false,
            takes_deletes: AtomicBool::new(false),
            takes_durable_deletes: AtomicBool::new(false),
            indexes: Mutex::default(),
        };
        link.namespace = link.choose_namespace().await?;
        let nodes = link.client.nodes();
        link.tells_sizes = true;
        for node in &nodes {
            check_version(node.version())?;
            link.tells_sizes &= *node.version() >= KNOWS_RECORD_SIZE;
        }
        link.max_record_bytes = link.ask_max_record_bytes().await?;
        Ok(link)
    }

    /// Returns the facts of a call on a record, for its error.
    pub(super) fn failed_call<'a>(
        &'a self,
        policy: &'a WritePolicy,
        operations: &'a [Operation],
        started: Instant,
    ) -> FailedCall<'a> {
        FailedCall {
            namespace: &self.namespace,
            policy,
            operations,
            max_record_bytes: self.max_record_bytes.unwrap_or(MAX_RECORD_BYTES),
            elapsed: started.elapsed(),
        }
    }

    /// Makes a call of the client.
    ///
    /// # Errors
    /// [`Error::Cluster`] if the client panics; [`Error::Parameter`] if the call is waited for in a
    /// task of the runtime that the client works in.
    pub(super) async fn run<F: Future>(&self, call: Pin<&mut StartedCall<F>>) -> Result<F::Output> {
        self.threads.check_call()?;
        run(self.threads.handle()?, call).await
    }

    /// Waits for a call of the client.
    pub(super) fn wait<F: Future>(&self, call: F) -> Result<F::Output> {
        wait(self.run(pin!(pinnable(call))))
    }

    pub(super) fn runtime(&self) -> Result<&Handle> {
        self.threads.handle()
    }

    /// Asks any node for information.
    pub(super) async fn info(&self, command: &str) -> Result<String> {
        let asked = pin!(pinnable(async {
            let node = self.client.random_node()?;
            node.info(&AdminPolicy::default(), &[command]).await
        }));
        let answer = self.run(asked).await?;
        let answers = answer.map_err(|error| of_cluster(&error, &self.namespace))?;
        answers
            .into_iter()
            .find_map(|(name, answer)| (name == command).then_some(answer))
            .ok_or_else(|| failed(format!("the server did not answer \"{command}\"")))
    }

    /// Asks all nodes for information.
    pub(super) fn info_of_nodes(&self, command: &str) -> Result<Vec<String>> {
        let answers = self.wait(async {
            let mut answers = Vec::new();
            for node in self.client.nodes() {
                let answer = node.info(&AdminPolicy::default(), &[command]).await?;
                answers.extend(answer.into_values());
            }
            Ok(answers)
        })?;
        answers.map_err(|error: aerospike::Error| of_cluster(&error, &self.namespace))
    }

    async fn choose_namespace(&self) -> Result<Box<str>> {
        let known = self.info("namespaces").await?;
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

    /// Asks for the size limit of a record, in bytes: newer servers state it, older ones state the
    /// size of their write blocks.
    async fn ask_max_record_bytes(&self) -> Result<Option<u64>> {
        let answer = self.info(&format!("namespace/{}", self.namespace)).await?;
        let value = |wanted| stated(&answer, wanted).filter(|bytes| *bytes > 0);
        Ok(value("max-record-size").or_else(|| value("write-block-size")))
    }
}

/// Returns the number of a name in an answer `a=1;c.b=2` to an info command; of a name with a
/// prefix, by its last part.
pub(super) fn stated(answer: &str, wanted: &str) -> Option<u64> {
    let pairs = answer.split(';').filter_map(|pair| pair.split_once('='));
    let mut named = pairs.filter(|(name, _)| name.rsplit('.').next() == Some(wanted));
    named.find_map(|(_, value)| value.parse().ok())
}

impl Drop for Link {
    fn drop(&mut self) {
        let client = Arc::clone(&self.client);
        self.threads.end(async move { drop(client.close().await) });
    }
}

fn check_version(version: &Version) -> Result<()> {
    if *version >= TAKES_BATCHES {
        return Ok(());
    }
    let Version {
        major,
        minor,
        patch,
        build,
    } = version;
    Err(failed(format!(
        "a server has version {major}.{minor}.{patch}.{build}: servers before 6.0 take no batches of operations, which collections and \
         relations are made of"
    )))
}

/// Returns the sets, with their numbers of records, in a node's answer about a namespace's sets:
/// `ns=N:set=S:objects=..;ns=N:set=..`. A name may have colons and semicolons itself, and the
/// beginning of a set. `Err`: one that cannot be read.
pub(super) fn sets_of<'t>(
    namespace: &str,
    text: &'t str,
) -> Vec<std::result::Result<(&'t str, u64), &'t str>> {
    let begin = format!("ns={namespace}:set=");
    let mut sets = Vec::new();
    let mut from = None;
    let ends = text.match_indices(&begin).map(|(at, _)| at);
    for end in ends.chain([text.len()]) {
        // A part without a count is the beginning of a name that goes on.
        let set = from.and_then(|from| text.get(from..end));
        if from.is_none() || set.is_some_and(|set| set.contains(":objects=")) || end == text.len() {
            let read = |set: &'t str| {
                let (name, rest) = set.rsplit_once(":objects=")?;
                let records = rest.split(':').next().unwrap_or_default();
                Some((name, records.parse().ok()?))
            };
            sets.extend(set.map(|set| read(set).ok_or(set)));
            from = Some(end + begin.len());
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_without_batches_are_refused_by_their_version() {
        assert!(check_version(&Version::new(6, 0, 0, 0)).is_ok());
        let refused = check_version(&Version::new(5, 7, 0, 8)).unwrap_err();
        assert!(refused.to_string().contains("5.7.0.8"), "{refused}");
        assert!(!refused.is_retryable());
    }

    #[test]
    fn sets_are_listed_whatever_their_names_are() {
        let set =
            |name: &str| format!("ns=test:set={name}:objects=1:tombstones=0:truncating=false;");
        let names = [
            "plain",
            "a:b",
            "c;d=e",
            ";",
            "set=x",
            "e:objects=f",
            "a;ns=test:set=b",
        ];
        let text: String = names.iter().map(|name| set(name)).collect();
        assert_eq!(sets_of("test", &text), names.map(|name| Ok((name, 1))));
        // Nothing that cannot be read is taken for an empty set.
        for unread in ["a;", "a:objects=many;"] {
            let text = format!("ns=test:set={unread}");
            assert_eq!(sets_of("test", &text), [Err(unread)]);
        }
        assert_eq!(sets_of("test", ""), []);
        assert_eq!(sets_of("test", "ns_type=unknown"), []);
    }
}
