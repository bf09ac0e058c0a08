//! Queries: the records of some partitions, or of a set in them, returned.

mod projection;
mod start;
mod stream;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(crate) use start::{Started, start};

use self::projection::{Projection, project};
use self::stream::{StreamState, tell_failure};
use super::fields::Field;
use super::frame::{FRAME_HEADER_BYTES, FrameKind, close_frame, open_frame};
use super::function::blocking;
use super::function_call::RecordInput;
use super::job::Job;
use super::memory_budget::BudgetRoom;
use super::modules::MODULE_SET;
use super::query_counters::JobEnd;
use super::rate_limit::Pace;
use super::reply::{AnswerHeader, MessageReply};
use super::response_buffer::ResponseBuffer;
use super::result_code;
use super::served::ServedNamespace;
use super::shared::ServerShared;
use super::transaction::part::MONITOR_SET;
use crate::engine::{NextEntry, PartitionQuery, RemoteRecord};
use crate::operation::Mode;
use crate::{Digest, Expression, Namespace};

/// A chunk of records is sent once it exceeds this size.
const CHUNK_BYTES: usize = 256 << 10;

/// The most entries of an index that a query passes over between two checks of the client; 256 partitions are as much.
const CHUNK_ENTRIES: usize = 64 << 10;

/// The most records that a query reads between two checks of the client, whether it returns them or not.
const CHUNK_RECORDS: usize = 4096;

/// How long records go through the stream of a function between two looks at the client.
const STREAM_CHUNK_TIME: Duration = Duration::from_millis(100);

/// A query under way.
pub(crate) struct WireQuery<'a> {
    shared: &'a ServerShared,
    served: &'a ServedNamespace,
    set_id: Option<u16>,
    filter: Option<Expression>,
    projection: Projection,
    mode: Mode,
    /// The function that records are sent through instead of to the client.
    stream: Option<StreamState>,
    source: PartitionQuery,
    /// Whether all records have been met.
    is_exhausted: bool,
    /// How many more records may be returned.
    left: u64,
    pace: Pace,
    set_name: LastSet,
    /// When a short query ends, done or not. Others take as long as they need.
    deadline: Option<Instant>,
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

impl WireQuery<'_> {
    /// Appends some records to `out`, or the values of a function's stream.
    pub(crate) fn step(&mut self, out: &mut ResponseBuffer<'_>) -> QueryStep {
        match &self.stream {
            None => self.advance(out),
            Some(_) => blocking(|| self.advance(out)),
        }
    }

    fn advance(&mut self, out: &mut ResponseBuffer<'_>) -> QueryStep {
        if self.job.is_aborted() || self.shared.is_closing() {
            return self.end(JobEnd::Aborted, result_code::ABORTED, out);
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
        let mut no_room = false;
        let mut failure = None;
        while out.len() - start < CHUNK_BYTES && records < CHUNK_RECORDS && self.left > 0 {
            wait = self.pace.wait();
            if wait.is_some() {
                self.job.throttled.fetch_add(1, Ordering::Relaxed);
                break;
            }
            let mut damaged = |damage| self.job.fail(&damage);
            let (digest, value) = match self.source.advance(&mut entries, &mut damaged) {
                NextEntry::Found { digest, value } => (digest, value),
                NextEntry::Paused => break,
                NextEntry::End => {
                    self.is_exhausted = true;
                    break;
                }
            };
            records += 1;
            if self.stream.is_some() && began.elapsed() > STREAM_CHUNK_TIME {
                // This record is the last of the chunk.
                records = CHUNK_RECORDS;
            }
            let visited = match self.stream {
                None => self.visit(&digest, value, out),
                Some(_) => match self.send_through(&digest, out) {
                    Ok(visited) => visited,
                    Err(text) => {
                        failure = Some(text);
                        break;
                    }
                },
            };
            match visited {
                Visited::Returned => {
                    self.left -= 1;
                    self.pace.count();
                    self.job.succeeded.fetch_add(1, Ordering::Relaxed);
                }
                Visited::Passed => {}
                Visited::NoRoom => {
                    no_room = true;
                    break;
                }
            }
        }
        if (self.is_exhausted || self.left == 0)
            && failure.is_none()
            && let Some(stream) = &mut self.stream
            && let Err(text) = stream.advance(self.served, None, out)
        {
            failure = Some(text);
        }
        let failed = failure.is_some();
        if let Some(text) = failure {
            tell_failure(&text, out);
        }
        let bytes = out.len() - start;
        if bytes > FRAME_HEADER_BYTES {
            close_frame(out, frame, FrameKind::Message);
            self.job.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        } else {
            out.truncate(start);
        }
        let at_once = (usize::from(self.is_exhausted), 1);
        let (done, all) = self.source.partitions_begun().unwrap_or(at_once);
        self.job.progress(done, all);
        if failed {
            return self.end(JobEnd::Failed, result_code::UDF, out);
        }
        if no_room {
            return self.end(JobEnd::Failed, result_code::OVERLOAD, out);
        }
        match wait {
            _ if self.is_exhausted || self.left == 0 => {
                self.end(JobEnd::Complete, result_code::OK, out)
            }
            Some(time) => QueryStep::Wait(time),
            None => QueryStep::More,
        }
    }

    fn end(&self, how: JobEnd, code: u8, out: &mut ResponseBuffer<'_>) -> QueryStep {
        let frame = open_frame(out);
        AnswerHeader::last(code).write(out);
        close_frame(out, frame, FrameKind::Message);
        self.job.finish(how);
        QueryStep::Done
    }

    /// Appends a record if it still exists, passes the filter and has a result for the projection.
    fn visit(
        &mut self,
        digest: &Digest,
        index_value: Option<i64>,
        out: &mut ResponseBuffer<'_>,
    ) -> Visited {
        let Self {
            served,
            set_name,
            filter,
            projection,
            mode,
            job,
            ..
        } = self;
        let namespace = &served.namespace;
        let is_of_all_sets = self.set_id.is_none();
        let visit = |record: &RemoteRecord<'_>| {
            let set = set_name.of(namespace, record.set_id());
            if is_of_all_sets && is_own(set) {
                return Visited::Passed;
            }
            let facts = namespace.facts(record, set);
            if namespace
                .check_filter(filter.as_ref(), record, set)
                .is_err()
            {
                job.filtered.fetch_add(1, Ordering::Relaxed);
                return Visited::Passed;
            }
            let mut reply = MessageReply::begin(out);
            reply.field(Field::Namespace, namespace.name().as_bytes());
            reply.field(Field::Digest, digest.as_bytes());
            if !set.is_empty() {
                reply.field(Field::Set, set.as_bytes());
            }
            if let Some(key) = record.key() {
                if reply.reserve(key.len()) == BudgetRoom::Refused {
                    reply.abandon();
                    return Visited::NoRoom;
                }
                reply.field(Field::Key, key);
            }
            if let Some(value) = index_value {
                reply.field(Field::IndexValues, &value.to_le_bytes());
            }
            match project(projection, *mode, record, &facts, &mut reply) {
                Ok(true) => {
                    let metadata = record.metadata();
                    reply.finish(&AnswerHeader {
                        generation: u32::from(metadata.generation),
                        void_time: metadata.void_time,
                        ..AnswerHeader::default()
                    });
                    Visited::Returned
                }
                Ok(false) | Err(_) => match reply.abandon() {
                    BudgetRoom::Given => Visited::Passed,
                    BudgetRoom::Refused => Visited::NoRoom,
                },
            }
        };
        read(&self.source, digest, job, visit).unwrap_or(Visited::Passed)
    }
}

impl WireQuery<'_> {
    /// Sends a record through the stream of the function. Otherwise the text for the client.
    fn send_through(
        &mut self,
        digest: &Digest,
        out: &mut ResponseBuffer<'_>,
    ) -> Result<Visited, String> {
        let namespace = &self.served.namespace;
        let (filter, set_id, job) = (self.filter.as_ref(), self.set_id, &self.job);
        let set_name = &mut self.set_name;
        let take = |record: &RemoteRecord<'_>| {
            let set = set_name.of(namespace, record.set_id());
            if set_id.is_none() && is_own(set) {
                return None;
            }
            if namespace.check_filter(filter, record, set).is_err() {
                job.filtered.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            let taken = RecordInput::of(namespace, record, *digest, set);
            taken.inspect_err(|damage| job.fail(damage)).ok()
        };
        let taken = read(&self.source, digest, job, take).flatten();
        let (Some(record), Some(stream)) = (taken, &mut self.stream) else {
            return Ok(Visited::Passed);
        };
        stream.advance(self.served, Some(record), out)?;
        Ok(Visited::Returned)
    }
}

/// The last set whose name was needed.
#[derive(Debug, Default)]
pub(super) struct LastSet {
    id: u16,
    name: String,
}

impl LastSet {
    /// The name of a set; empty for records of none.
    pub(super) fn of(&mut self, namespace: &Namespace, id: u16) -> &str {
        if id != self.id {
            self.name = namespace.set_name_of(id).unwrap_or_default();
            self.id = id;
        }
        &self.name
    }
}

/// Whether records of this set are the server's own: monitors of transactions, and modules.
pub(super) fn is_own(set: &str) -> bool {
    set == MONITOR_SET || set == MODULE_SET
}

/// Lends the record that the query has met to `visit`; `None` if it is gone, or damaged.
fn read<R>(
    source: &PartitionQuery,
    digest: &Digest,
    job: &Job,
    visit: impl FnOnce(&RemoteRecord<'_>) -> R,
) -> Option<R> {
    source.read(digest, visit).unwrap_or_else(|damage| {
        job.fail(&damage);
        None
    })
}

impl Drop for WireQuery<'_> {
    fn drop(&mut self) {
        // An end that it came to stays.
        self.job.finish_and_count(JobEnd::Abandoned, self.served);
    }
}
