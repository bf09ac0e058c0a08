//! Queries: the records of some partitions, or of a set in them, returned.

mod projection;
mod start;
mod stream;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::block_in_place;

pub(crate) use start::{Started, start};

use self::projection::{Projection, project};
use self::stream::{StreamState, tell_failure};
use super::background::{BackgroundChange, BackgroundChangeKind};
use super::command::{CommandRefusal, found};
use super::counters::{JobEnd, JobKind, RequestOutcome};
use super::fields::Field;
use super::frame::{FRAME_HEADER_BYTES, FrameKind, close_frame, open_frame};
use super::function_call::RecordInput;
use super::job::Job;
use super::memory_budget::NoRoom;
use super::modules::MODULE_SET;
use super::reply::{AnswerHeader, MessageReply};
use super::response_buffer::ResponseBuffer;
use super::result_code;
use super::served::ServedNamespace;
use super::shared::ServerShared;
use super::transaction::part::MONITOR_SET;
use crate::engine::{NextEntry, PartitionQuery, RemoteRecord, WriteRefusal};
use crate::operation::Mode;
use crate::rate_limit::Pace;
use crate::{Digest, Error, Expression, Namespace};

/// A chunk of records is sent once it exceeds this size.
const CHUNK_BYTES: usize = 256 << 10;

/// The most entries of an index that a query passes over between two checks of the client; 256 partitions are as much.
const CHUNK_ENTRIES: usize = 64 << 10;

/// The most records that a query reads between two checks of the client, whether it returns them or not.
const CHUNK_RECORDS: usize = 4096;

/// How long records go through the stream of a function, or are changed, between two looks at the client.
const CHUNK_TIME: Duration = Duration::from_millis(100);

/// A query under way.
pub(crate) struct WireQuery {
    shared: Arc<ServerShared>,
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
    served: Arc<ServedNamespace>,
    source: PartitionQuery,
    /// Whether records of the server's own sets are passed over.
    hides_own: bool,
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

/// The fate of a record that a query met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visited {
    Returned,
    /// It is gone, or not asked for, or cannot be read as it was asked for.
    Passed,
    /// There is no memory for it.
    NoRoom,
}

impl WireQuery {
    /// Appends some records to `out`, or the values of a function's stream.
    pub(crate) fn step(&mut self, out: &mut ResponseBuffer<'_>) -> QueryStep {
        match &self.work {
            // A function may take long: another thread serves the connections of this one meanwhile.
            QueryWork::Stream(_) => block_in_place(|| self.advance(out)),
            QueryWork::Project(..) | QueryWork::Change(_) => self.advance(out),
        }
    }

    /// Runs to the end on this thread, for no client.
    pub(crate) fn run_alone(mut self) {
        let shared = Arc::clone(&self.shared);
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
        if self.records.job.is_aborted() || self.shared.is_closing() {
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
        let start = out.len();
        let frame = open_frame(out);
        let mut records = 0;
        let mut entries = CHUNK_ENTRIES;
        let mut wait = None;
        let began = Instant::now();
        let mut ended = None;
        let udf_failed = (JobEnd::Failed, result_code::UDF);
        let takes_time = !matches!(self.work, QueryWork::Project(..));
        while out.len() - start < CHUNK_BYTES && records < CHUNK_RECORDS && self.left > 0 {
            let is_chunk = || self.records.job.is_aborted() || began.elapsed() > CHUNK_TIME;
            if takes_time && records > 0 && is_chunk() {
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
                    ended = Some((JobEnd::Aborted, result_code::ABORTED));
                    break;
                }
                NextEntry::End => {
                    self.is_exhausted = true;
                    break;
                }
            };
            records += 1;
            let visited = match &mut self.work {
                QueryWork::Project(projection, mode) => {
                    self.records
                        .project((projection, *mode), &digest, value, out)
                }
                QueryWork::Stream(stream) => match self.records.send_to(stream, &digest, out) {
                    Ok(visited) => visited,
                    Err(text) => {
                        tell_failure(&text, out);
                        ended = Some(udf_failed);
                        break;
                    }
                },
                QueryWork::Change(change) => {
                    self.pace.count();
                    self.records.change(change, &digest)
                }
            };
            match visited {
                Visited::Returned => {
                    self.left -= 1;
                    if !matches!(self.work, QueryWork::Change(_)) {
                        self.pace.count();
                    }
                    self.records.job.succeeded.count();
                }
                Visited::Passed => {}
                Visited::NoRoom => {
                    ended = Some((JobEnd::Failed, result_code::OVERLOAD));
                    break;
                }
            }
        }
        let is_done = self.is_exhausted || self.left == 0;
        if is_done
            && ended.is_none()
            && let QueryWork::Stream(stream) = &mut self.work
            && let Err(text) = stream.advance(&self.records.served, None, out)
        {
            tell_failure(&text, out);
            ended = Some(udf_failed);
        }
        let bytes = out.len() - start;
        if bytes > FRAME_HEADER_BYTES {
            close_frame(out, frame, FrameKind::Message);
            self.records.job.bytes.add(bytes as u64);
        } else {
            out.truncate(start);
        }
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
        let frame = open_frame(out);
        AnswerHeader::last(code).write(out);
        close_frame(out, frame, FrameKind::Message);
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
                    // `NoRoom` refuses the query.
                    let _ = reply.abandon();
                    return Visited::NoRoom;
                }
                reply.field(Field::Key, key);
            }
            if let Some(value) = index_value {
                reply.field(Field::IndexValues, &value.to_le_bytes());
            }
            match project(projection, mode, record, &facts, &mut reply) {
                Ok(true) => {
                    reply.finish(&found(&record.metadata()));
                    Visited::Returned
                }
                Ok(false) | Err(_) => match reply.abandon() {
                    Ok(()) => Visited::Passed,
                    Err(NoRoom) => Visited::NoRoom,
                },
            }
        });
        visited.unwrap_or(Visited::Passed)
    }

    /// Sends a record through the stream of a function. Otherwise the text for the client.
    fn send_to(
        &mut self,
        stream: &mut StreamState,
        digest: &Digest,
        out: &mut ResponseBuffer<'_>,
    ) -> Result<Visited, String> {
        let taken = self.lend(digest, |namespace, record, set| {
            RecordInput::of(namespace, record, *digest, set)
        });
        let Some(record) = taken.and_then(|taken| self.noted(taken)) else {
            return Ok(Visited::Passed);
        };
        stream.advance(&self.served, Some(record), out)?;
        Ok(Visited::Returned)
    }

    /// Changes a record.
    fn change(&mut self, change: &BackgroundChange, digest: &Digest) -> Visited {
        // Not while it is lent: the change locks it.
        let Some(set) = self.lend(digest, |_, _, set| set.to_owned()) else {
            return Visited::Passed;
        };
        let failed = match change.make(&self.served, *digest, &set) {
            Ok(()) => return Visited::Returned,
            Err(CommandRefusal::Refused(WriteRefusal { error, .. })) => match error {
                // Deleted meanwhile.
                Error::NotFound { .. } => return Visited::Passed,
                Error::FilteredOut { .. } => &self.job.filtered,
                _ => &self.job.failed,
            },
            Err(_) => &self.job.failed,
        };
        failed.count();
        Visited::Passed
    }

    /// Lends the record that the query has met, with the name of its set; `None` if it is gone, damaged, or filtered out.
    fn lend<R>(
        &mut self,
        digest: &Digest,
        visit: impl FnOnce(&Namespace, &RemoteRecord<'_>, &str) -> R,
    ) -> Option<R> {
        let namespace = &self.served.namespace;
        let lent = self.source.read(digest, |record| {
            let set = self.set_name.of(namespace, record.set_id());
            if self.hides_own && is_own(set) {
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
fn is_own(set: &str) -> bool {
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
