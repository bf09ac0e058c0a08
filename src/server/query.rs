//! Queries: the records of some partitions, or of a set in them, returned.

mod projection;
mod start;
mod stream;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::block_in_place;

pub(crate) use start::start;

use self::projection::{Projection, project};
use self::stream::StreamState;
use super::background::{BackgroundChange, BackgroundChangeKind};
use super::command::found;
use super::counters::{JobEnd, JobKind, RequestOutcome};
use super::fields::Field;
use super::frame::{close_messages, open_frame, split_frame};
use super::function_call::RecordInput;
use super::job::Job;
use super::memory_budget::NoRoom;
use super::modules::MODULE_SET;
use super::reply::{AnswerHeader, MessageReply};
use super::response_buffer::ResponseBuffer;
use super::result_code;
use super::served::ServedNamespace;
use super::shared::{ServerShared, TURN};
use super::transaction::part::MONITOR_SET;
use crate::engine::{NextEntry, PartitionQuery, RemoteRecord};
use crate::operation::Mode;
use crate::rate_limit::Pace;
use crate::{Digest, Error, Expression, Namespace};

/// A chunk of records is sent once it exceeds this size.
const CHUNK_BYTES: usize = 256 << 10;

/// The most entries of an index that a query passes over between two checks of the client; 256
/// partitions are as much.
const CHUNK_ENTRIES: usize = 64 << 10;

/// How long records go through the stream of a function, or are changed, between two looks at the
/// client.
const CHUNK_TIME: Duration = Duration::from_millis(100);

/// How many records are read between two looks at the clock.
const LOOK_EVERY: usize = 4;

/// A query under way.
pub(crate) struct WireQuery {
    records: MetRecords,
    work: QueryWork,
    /// Whether all records have been met.
    is_exhausted: bool,
    /// How many more records may be returned.
    left: u64,
    pace: Pace,
    /// When a short query ends, done or not. Others take as long as they need.
    deadline: Option<Instant>,
}

/// What a query does with its records.
enum QueryWork {
    /// They are returned.
    Project(Projection, Mode),
    /// They go through the stream of a function, whose values are returned.
    Stream(StreamState),
    /// They are changed, once the client is answered.
    Change(BackgroundChange),
}

/// The records that a query meets.
struct MetRecords {
    shared: Arc<ServerShared>,
    served: Arc<ServedNamespace>,
    source: PartitionQuery,
    /// Whether records of the set of this name are passed over.
    hides: fn(&str) -> bool,
    filter: Option<Expression>,
    set_name: LastSet,
    job: Arc<Job>,
}

/// What a step of a query has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryStep {
    /// There is more.
    More,
    /// There is more, after this time.
    Wait(Duration),
    /// That was the last of it.
    Done,
}

/// True: the record is done. False: it is gone, not asked for, or not readable as it was asked for.
/// An error is the code with which the query ends.
type Visited = Result<bool, u8>;

impl WireQuery {
    /// Whether it changes its records, for no client.
    pub(crate) const fn is_change(&self) -> bool {
        matches!(self.work, QueryWork::Change(_))
    }

    /// Appends some records to `out`, or the values of a function's stream.
    pub(crate) fn step(&mut self, out: &mut ResponseBuffer<'_>) -> QueryStep {
        match &self.work {
            // A function may take long: another thread serves the connections of this one
            // meanwhile.
            QueryWork::Stream(_) => block_in_place(|| self.advance(out)),
            QueryWork::Project(..) | QueryWork::Change(_) => self.advance(out),
        }
    }

    /// Runs to the end on this thread, for no client.
    pub(crate) fn run_alone(mut self) {
        let shared = Arc::clone(&self.records.shared);
        let mut nobody = ResponseBuffer::new(shared.budget.share());
        loop {
            match self.step(&mut nobody) {
                QueryStep::Done => return,
                QueryStep::More => {}
                QueryStep::Wait(time) => std::thread::sleep(time),
            }
        }
    }

    fn advance(&mut self, out: &mut ResponseBuffer<'_>) -> QueryStep {
        if self.records.job.is_aborted() || self.records.shared.is_closing() {
            // Of a short query only the time limit counts as its end from outside.
            let how = match self.records.job.facts.kind {
                JobKind::Short => JobEnd::Failed,
                _ => JobEnd::Aborted,
            };
            return self.end(how, result_code::ABORTED, out);
        }
        if self
            .deadline
            .is_some_and(|deadline| Instant::now() > deadline)
        {
            return self.end(JobEnd::Aborted, result_code::TIMEOUT, out);
        }
        let first = open_frame(out);
        let mut start = first;
        let mut records = 0_usize;
        let mut entries = CHUNK_ENTRIES;
        let mut wait = None;
        let began = Instant::now();
        let mut ended = None;
        let (time, look_every) = match self.work {
            QueryWork::Project(..) => (TURN, LOOK_EVERY),
            QueryWork::Stream(_) | QueryWork::Change(_) => (CHUNK_TIME, 1),
        };
        while out.len() - start < CHUNK_BYTES && self.left > 0 {
            let is_chunk = || self.records.job.is_aborted() || began.elapsed() > time;
            if records > 0 && records.is_multiple_of(look_every) && is_chunk() {
                break;
            }
            wait = self.pace.wait();
            if wait.is_some() {
                self.records.job.throttled.count();
                break;
            }
            let MetRecords { source, job, .. } = &mut self.records;
            let mut damaged = |damage| job.fail(&damage);
            let (digest, value) = match source.advance(&mut entries, &mut damaged) {
                NextEntry::Found { digest, value } => (digest, value),
                NextEntry::Paused => break,
                NextEntry::Failed(error) => {
                    job.fail(&error);
                    let code = match error {
                        Error::IndexNotFound(_) => result_code::INDEX_NOT_FOUND,
                        _ => result_code::ABORTED,
                    };
                    ended = Some((JobEnd::Aborted, code));
                    break;
                }
                NextEntry::End => {
                    self.is_exhausted = true;
                    break;
                }
            };
            records += 1;
            // Before the change, which may take long: other queries of the user go by this count.
            if self.is_change() {
                self.pace.count();
            }
            let at = out.len();
            let visited = match &mut self.work {
                QueryWork::Project(projection, mode) => {
                    self.records
                        .project((projection, *mode), &digest, value, out)
                }
                QueryWork::Stream(stream) => self.records.send_to(stream, &digest, out),
                QueryWork::Change(change) => Ok(self.records.change(change, &digest)),
            };
            start = split_frame(out, start, at);
            if visited == Ok(true) && !self.is_change() {
                self.pace.count();
            }
            match visited {
                Ok(true) => {
                    self.left -= 1;
                    self.records.job.succeeded.count();
                }
                Ok(false) => {}
                Err(code) => {
                    ended = Some((JobEnd::Failed, code));
                    break;
                }
            }
        }
        let is_done = self.is_exhausted || self.left == 0;
        let at = out.len();
        if is_done
            && ended.is_none()
            && let QueryWork::Stream(stream) = &mut self.work
            && let Err(code) = stream.advance(&self.records.served, None, out)
        {
            ended = Some((JobEnd::Failed, code));
        }
        start = split_frame(out, start, at);
        close_messages(out, start);
        self.records.job.bytes.add((out.len() - first) as u64);
        let begun = self.records.source.partitions_begun();
        let begun = begun.filter(|_| !self.is_exhausted);
        let (done, all) = begun.unwrap_or((usize::from(self.is_exhausted), 1));
        self.records.job.progress(done, all);
        match (ended, wait) {
            (Some((how, code)), _) => self.end(how, code, out),
            (None, _) if is_done => self.end(JobEnd::Complete, result_code::OK, out),
            (None, Some(time)) => QueryStep::Wait(time),
            (None, None) => QueryStep::More,
        }
    }

    fn end(&self, how: JobEnd, code: u8, out: &mut ResponseBuffer<'_>) -> QueryStep {
        AnswerHeader::last(code).write_framed(out);
        self.records.job.finish(how);
        QueryStep::Done
    }
}

impl MetRecords {
    /// Appends a record if it still exists, passes the filter and has a result for the projection.
    fn project(
        &mut self,
        (projection, mode): (&Projection, Mode),
        digest: &Digest,
        index_value: Option<i64>,
        out: &mut ResponseBuffer<'_>,
    ) -> Visited {
        let visited = self.lend(digest, |namespace, record, set| {
            let facts = namespace.facts(record, set);
            let mut reply = MessageReply::begin(out);
            reply.field(Field::Namespace, namespace.name().as_bytes());
            reply.field(Field::Digest, digest.as_bytes());
            if !set.is_empty() {
                reply.field(Field::Set, set.as_bytes());
            }
            if let Some(key) = record.key() {
                if reply.reserve(key.len()).is_err() {
                    return reply.abandon().map(|()| false);
                }
                reply.field(Field::Key, key);
            }
            if let Some(value) = index_value {
                reply.field(Field::IndexValues, &value.to_le_bytes());
            }
            match project(projection, mode, record, &facts, &mut reply) {
                Ok(true) => {
                    reply.finish(&found(&record.metadata()));
                    Ok(true)
                }
                Ok(false) | Err(_) => reply.abandon().map(|()| false),
            }
        });
        let visited = visited.unwrap_or(Ok(false));
        visited.map_err(|NoRoom| result_code::OVERLOAD)
    }

    /// Sends a record through the stream of a function.
    fn send_to(
        &mut self,
        stream: &mut StreamState,
        digest: &Digest,
        out: &mut ResponseBuffer<'_>,
    ) -> Visited {
        let taken = self.lend(digest, |namespace, record, set| {
            RecordInput::of(namespace, record, *digest, set)
        });
        let Some(record) = taken.and_then(|taken| self.noted(taken)) else {
            return Ok(false);
        };
        let sent = stream.advance(&self.served, Some(record), out);
        sent.map(|()| true)
    }

    /// Changes a record, and returns whether it was there and could be changed.
    fn change(&mut self, change: &BackgroundChange, digest: &Digest) -> bool {
        // Not while it is lent: the change locks it.
        if self.lend(digest, |_, _, _| ()).is_none() {
            return false;
        }
        let of = (&*self.shared, &*self.served);
        let changed = change.make(of, *digest, &self.set_name.name);
        match changed.map_err(|refused| refused.answer().code) {
            Ok(()) => return true,
            // Deleted meanwhile.
            Err(result_code::NOT_FOUND) => {}
            Err(result_code::FILTERED_OUT) => self.job.filtered.count(),
            Err(_) => self.job.failed.count(),
        }
        false
    }

    /// Lends the record that the query has met, with the name of its set; `None` if it is gone,
    /// damaged, or filtered out.
    fn lend<R>(
        &mut self,
        digest: &Digest,
        visit: impl FnOnce(&Namespace, &RemoteRecord<'_>, &str) -> R,
    ) -> Option<R> {
        let namespace = &self.served.namespace;
        let lent = self.source.read(digest, |record| {
            let set = self.set_name.of(namespace, record.set_id());
            if (self.hides)(set) {
                return None;
            }
            let filter = self.filter.as_ref();
            if namespace.check_filter(filter, record, set).is_err() {
                self.job.filtered.count();
                return None;
            }
            Some(visit(namespace, record, set))
        });
        self.noted(lent).flatten().flatten()
    }

    /// Notes damage.
    fn noted<T>(&self, read: crate::Result<T>) -> Option<T> {
        read.inspect_err(|damage| self.job.fail(damage)).ok()
    }
}

/// The last set whose name was needed.
#[derive(Debug, Default)]
struct LastSet {
    id: u16,
    name: String,
}

impl LastSet {
    /// The name of a set; empty for records of none.
    fn of(&mut self, namespace: &Namespace, id: u16) -> &str {
        if id != self.id {
            self.name = namespace.set_name_of(id).unwrap_or_default();
            self.id = id;
        }
        &self.name
    }
}

/// Whether records of this set are the server's own: monitors of transactions, and modules.
fn is_of_server(set: &str) -> bool {
    set == MONITOR_SET || set == MODULE_SET
}

impl Drop for WireQuery {
    fn drop(&mut self) {
        // An end that it came to stays.
        let MetRecords { served, job, .. } = &self.records;
        job.finish_and_count(JobEnd::Abandoned, served);
        let QueryWork::Change(change) = &self.work else {
            return;
        };
        let counts = match change.kind {
            BackgroundChangeKind::Operations(..) => &served.counters.background_operations,
            BackgroundChangeKind::Function(_) => &served.counters.background_functions,
        };
        counts.add(RequestOutcome::Success, job.succeeded.get());
        counts.add(RequestOutcome::Error, job.failed.get());
        counts.add(RequestOutcome::FilteredOut, job.filtered.get());
    }
}
