//! Queries: the records of some partitions, or of a set in them, returned or operated on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::batch::filter_of;
use super::bytes::Cursor;
use super::command::{expiration, result_code, set_of};
use super::fields::{Field, Fields};
use super::frame::{FRAME_HEADER_BYTES, FrameKind, close_frame, open_frame};
use super::job::{End, Job, JobKind, JobStart};
use super::message::{Head, Info1, Info2, Info3, Message};
use super::operation::{bin_name, operations_of};
use super::ops::code;
use super::reply::{Answer, Reply};
use super::results::Results;
use super::served::{Served, Shared};
use crate::engine::RemoteRecord;
use crate::expression::RecordFacts;
use crate::operation::{Checked, Mode, Operation};
use crate::value::ParticleType;
use crate::{BinName, Digest, Error, Expression, RecordExistsAction, Result, WritePolicy};

/// How many partitions there are.
const PARTITIONS: u16 = 4096;

/// Records are sent when so many bytes of them are there.
const CHUNK_BYTES: usize = 256 << 10;

/// At most so many partitions are visited between two looks at the client.
const CHUNK_PARTITIONS: usize = 256;

/// The most queries at once: Aerospike's `query-threads-limit`.
const QUERIES_MAX: usize = 128;

/// The most records a second of a background query: Aerospike's `background-query-max-rps`.
const BACKGROUND_RPS_MAX: u32 = 10_000;

/// The code of too many queries at once.
const FORBIDDEN: u8 = 22;

/// The code of a query that was ended.
const ABORTED: u8 = 15;

/// What becomes of a message without a digest.
#[derive(Debug)]
pub(crate) enum Started<'a> {
    /// Records are to be returned.
    Query(Box<Query<'a>>),
    /// Records are to be operated on, by another thread, once the client is answered.
    Background(Box<Background>),
    /// An empty answer.
    Empty,
}

/// Which bins a query returns.
#[derive(Debug)]
enum Projection {
    /// Generation and times only.
    None,
    All,
    Names(Vec<BinName>),
    Operations(Vec<Operation>),
}

/// A query under way.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    shared: &'a Shared,
    served: &'a Served,
    set_id: Option<u16>,
    filter: Option<Expression>,
    projection: Projection,
    mode: Mode,
    /// Partitions, each with the digest behind which to begin.
    starts: Vec<(u16, Option<Digest>)>,
    /// The partition that is visited next.
    next: usize,
    /// Digests of the partition that is being visited, the next one last.
    current: Vec<Digest>,
    /// How many more records may be returned.
    left: u64,
    pace: Pace,
    /// The last set whose name was needed.
    set_name: (u16, String),
    job: Arc<Job>,
}

/// What a step of a query has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is more.
    More,
    /// There is more, after this time.
    Wait(Duration),
    /// That was the last of it.
    Done,
}

/// Begins what a message without a digest asks for. Otherwise the code of the answer.
pub(crate) fn start<'a>(
    shared: &'a Shared,
    served: &'a Served,
    message: &Message<'a>,
    client: &str,
) -> std::result::Result<Started<'a>, u8> {
    let fields = &message.fields;
    if fields.has(Field::UdfKind) || fields.has(Field::UdfPackage) {
        return Err(result_code::UDF);
    }
    if fields.has(Field::Transaction) {
        return Err(result_code::ENTERPRISE_ONLY);
    }
    let set = set_of(fields).map_err(|_| result_code::PARAMETER)?;
    let set_id = served.namespace.set_number(set);
    let short = message.head.info1.contains(Info1::SHORT_QUERY);
    let writes = message.head.info2.contains(Info2::WRITE);
    if short && (writes || fields.has(Field::RecordsPerSecond)) {
        return Err(result_code::PARAMETER);
    }
    let by_index = fields.has(Field::IndexRange)
        || fields.has(Field::IndexName)
        || fields.has(Field::IndexExpression);
    let starts = if writes {
        (0..PARTITIONS).map(|partition| (partition, None)).collect()
    } else {
        starts_of(fields, message.head.info3)?
    };
    if by_index {
        return Err(result_code::INDEX_NOT_FOUND);
    }
    let Some(set_id) = set_id else {
        return if writes {
            Err(result_code::NOT_FOUND)
        } else {
            Ok(Started::Empty)
        };
    };
    if shared.jobs.running() >= QUERIES_MAX {
        return Err(FORBIDDEN);
    }
    let filter = filter_of(fields)?;
    let resumed = starts.iter().filter(|start| start.1.is_some()).count();
    let asked_rps = fields.u32(Field::RecordsPerSecond).unwrap_or(0);
    let (kind, rps) = match (writes, asked_rps) {
        (false, rps) => (JobKind::Basic, rps),
        (true, 0) => (JobKind::Background, BACKGROUND_RPS_MAX),
        (true, rps @ ..=BACKGROUND_RPS_MAX) => (JobKind::Background, rps),
        (true, _) => return Err(result_code::PARAMETER),
    };
    let start = JobStart {
        id: fields.u64(Field::Query).unwrap_or_default(),
        kind,
        served,
        set,
        partitions: starts.len() - resumed,
        digests: resumed,
        records_per_second: rps,
        socket_timeout_ms: fields.u32(Field::SocketTimeout).unwrap_or_default(),
        client,
    };
    let mut mode = Mode::empty();
    mode.set(
        Mode::RESPOND_ALL,
        message.head.info2.contains(Info2::RESPOND_ALL_OPS),
    );
    // No set is named: all of them.
    let set_id = (set_id != 0).then_some(set_id);
    let parameter = |_| result_code::PARAMETER;
    if writes {
        let (operations, policy) =
            background_of(&message.head, message, served).map_err(|error| error.result_code())?;
        let job = shared.jobs.begin(&start).ok_or(result_code::PARAMETER)?;
        return Ok(Started::Background(Box::new(Background {
            namespace: served.namespace.clone(),
            set_id,
            filter,
            operations,
            policy,
            mode,
            job,
        })));
    }
    let projection = projection_of(message).map_err(parameter)?;
    if let Projection::Operations(operations) = &projection {
        let checked = Checked::new(operations, mode).map_err(|error| error.result_code())?;
        if checked.is_write() {
            return Err(result_code::PARAMETER);
        }
    }
    let job = shared.jobs.begin(&start).ok_or(result_code::PARAMETER)?;
    Ok(Started::Query(Box::new(Query {
        shared,
        served,
        set_id,
        filter,
        projection,
        mode,
        starts,
        next: 0,
        current: Vec::new(),
        left: match fields.u64(Field::MaxRecords) {
            None | Some(0) => u64::MAX,
            Some(most) => most,
        },
        pace: Pace::new(rps),
        set_name: (0, String::new()),
        job,
    })))
}

/// The partitions that a query is to visit.
fn starts_of(
    fields: &Fields<'_>,
    info3: Info3,
) -> std::result::Result<Vec<(u16, Option<Digest>)>, u8> {
    let partitions = fields.get(Field::Partitions);
    let digests = fields.get(Field::Digests);
    if (partitions.is_none() && digests.is_none()) || !info3.contains(Info3::PARTITIONS) {
        return Err(result_code::UNSUPPORTED);
    }
    // Values to go on behind belong to queries by an index, and to digests.
    if fields.has(Field::IndexValues) && digests.is_none() {
        return Err(result_code::PARAMETER);
    }
    let (numbers, odd) = partitions.unwrap_or_default().as_chunks::<2>();
    let (digests, rest) = digests.unwrap_or_default().as_chunks::<{ Digest::LEN }>();
    if !odd.is_empty()
        || !rest.is_empty()
        || numbers.len() + digests.len() > usize::from(PARTITIONS)
    {
        return Err(result_code::PARAMETER);
    }
    let mut starts: Vec<_> = numbers
        .iter()
        .map(|number| (u16::from_le_bytes(*number), None))
        .chain(digests.iter().map(|digest| {
            let digest = Digest::new(*digest);
            (digest.partition() as u16, Some(digest))
        }))
        .collect();
    starts.sort_unstable_by_key(|start| start.0);
    let distinct = starts.is_sorted_by(|one, other| one.0 < other.0);
    let beyond = starts.last().is_some_and(|start| start.0 >= PARTITIONS);
    if !distinct || beyond {
        return Err(result_code::PARAMETER);
    }
    Ok(starts)
}

fn projection_of(message: &Message<'_>) -> Result<Projection> {
    let info1 = message.head.info1;
    if info1.contains(Info1::NO_BINS) {
        return Ok(Projection::None);
    }
    if !message.ops.is_empty() {
        if message.ops.iter().all(|op| op.code == code::READ) {
            let names: Result<_> = message.ops.iter().map(|op| bin_name(op.name)).collect();
            return Ok(Projection::Names(names?));
        }
        return Ok(Projection::Operations(operations_of(
            &message.head,
            &message.ops,
        )?));
    }
    match message.fields.get(Field::Bins) {
        Some(list) => names_of(list).map(Projection::Names),
        None => Ok(Projection::All),
    }
}

/// The list of bins of old clients: how many, then each with its length.
fn names_of(list: &[u8]) -> Result<Vec<BinName>> {
    let cut = || Error::parameter("a list of bins ends before its last name");
    let mut cursor = Cursor(list);
    let count = cursor.u8().ok_or_else(cut)?;
    let mut name = || {
        let len = cursor.u8().ok_or_else(cut)?;
        bin_name(cursor.take(usize::from(len)).ok_or_else(cut)?)
    };
    (0..count).map(|_| name()).collect()
}

/// Operations and policy of a background query.
fn background_of(
    head: &Head,
    message: &Message<'_>,
    served: &Served,
) -> Result<(Vec<Operation>, WritePolicy)> {
    let operations = operations_of(head, &message.ops)?;
    let reads = operations.iter().any(|operation| !operation.is_write());
    if reads || operations.is_empty() || head.info1.contains(Info1::READ) {
        return Err(Error::parameter(
            "a background query takes operations that write, and at least one",
        ));
    }
    let action = if head.info3.contains(Info3::REPLACE_ONLY) {
        RecordExistsAction::ReplaceOnly
    } else {
        RecordExistsAction::UpdateOnly
    };
    let policy = WritePolicy::default()
        .record_exists_action(action)
        .expiration(expiration(head.ttl, served)?);
    Ok((operations, policy))
}

impl Query<'_> {
    /// Appends some records to `out`.
    pub(crate) fn step(&mut self, out: &mut Vec<u8>) -> Step {
        if self.job.is_aborted() || self.shared.is_closing() {
            return self.end(End::Aborted, ABORTED, out);
        }
        let start = out.len();
        let frame = open_frame(out);
        let mut visited = 0;
        let mut wait = None;
        while out.len() - start < CHUNK_BYTES && self.left > 0 {
            let Some(digest) = self.current.last() else {
                if self.next >= self.starts.len() || visited >= CHUNK_PARTITIONS {
                    break;
                }
                self.enter_partition();
                visited += 1;
                continue;
            };
            wait = self.pace.wait();
            if wait.is_some() {
                self.job.throttled.fetch_add(1, Ordering::Relaxed);
                break;
            }
            let digest = *digest;
            self.current.pop();
            if self.visit(&digest, out) {
                self.left -= 1;
                self.pace.count();
                self.job.succeeded.fetch_add(1, Ordering::Relaxed);
            }
        }
        let bytes = out.len() - start;
        if bytes > FRAME_HEADER_BYTES {
            close_frame(out, frame, FrameKind::Message);
            self.job.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        } else {
            out.truncate(start);
        }
        self.job.progress(self.next, self.starts.len());
        let exhausted = self.current.is_empty() && self.next >= self.starts.len();
        match wait {
            _ if exhausted || self.left == 0 => self.end(End::Complete, result_code::OK, out),
            Some(time) => Step::Wait(time),
            None => Step::More,
        }
    }

    fn enter_partition(&mut self) {
        if let Some((partition, after)) = self.starts.get(self.next) {
            self.current = self.served.namespace.digests_of(
                usize::from(*partition),
                self.set_id,
                after.as_ref(),
            );
            self.current.reverse();
        }
        self.next += 1;
    }

    fn end(&self, how: End, code: u8, out: &mut Vec<u8>) -> Step {
        let frame = open_frame(out);
        Answer::last(code).write(out);
        close_frame(out, frame, FrameKind::Message);
        self.job.finish(how);
        let counter = match how {
            End::Complete => &self.served.counters.queries_complete,
            End::Aborted | End::Abandoned => &self.served.counters.queries_aborted,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Step::Done
    }

    /// Appends a record. False if it is gone, or holds nothing of what was asked for.
    fn visit(&mut self, digest: &Digest, out: &mut Vec<u8>) -> bool {
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
        let written = namespace.read_scanned(digest, self.set_id, |record| {
            if record.set_id() != set_name.0 {
                *set_name = (
                    record.set_id(),
                    namespace.set_name_of(record.set_id()).unwrap_or_default(),
                );
            }
            if namespace
                .check_filter(filter.as_ref(), record, &set_name.1)
                .is_err()
            {
                job.filtered.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            let mut reply = Reply::begin(out);
            reply.field(Field::Namespace, namespace.name().as_bytes());
            reply.field(Field::Digest, digest.as_bytes());
            if !set_name.1.is_empty() {
                reply.field(Field::Set, set_name.1.as_bytes());
            }
            if let Some(key) = record.key() {
                reply.field(Field::Key, key);
            }
            let facts = namespace.facts(record, &set_name.1);
            match project(projection, *mode, record, &facts, &mut reply) {
                Ok(true) => {
                    let metadata = record.metadata();
                    reply.finish(&Answer {
                        generation: u32::from(metadata.generation),
                        void_time: metadata.void_time,
                        ..Answer::default()
                    });
                    true
                }
                Ok(false) | Err(_) => {
                    reply.abandon();
                    false
                }
            }
        });
        written.unwrap_or(false)
    }
}

impl Drop for Query<'_> {
    fn drop(&mut self) {
        // Without effect if it came to its end.
        self.job.finish(End::Abandoned);
    }
}

/// Adds the bins that a query asks for. False if the record has none of them.
fn project(
    projection: &Projection,
    mode: Mode,
    record: &RemoteRecord<'_>,
    facts: &RecordFacts<'_>,
    reply: &mut Reply<'_>,
) -> Result<bool> {
    match projection {
        Projection::None => return Ok(true),
        Projection::All => {
            for bin in record.view()?.raw_bins() {
                reply.op(code::READ, bin.name, bin.kind, bin.value)?;
            }
        }
        Projection::Names(names) => {
            let view = record.view()?;
            for name in names {
                if let Some(bin) = view.find(name.as_bytes()) {
                    reply.op(code::READ, bin.name, bin.kind, bin.value)?;
                } else if mode.contains(Mode::RESPOND_ALL) {
                    reply.op(code::READ, name.as_bytes(), ParticleType::Null, &[])?;
                }
            }
        }
        Projection::Operations(operations) => {
            let checked = Checked::new(operations, mode)?.seeing(facts);
            checked.read_into(record.view()?, &mut Results::new(reply, None))?;
        }
    }
    Ok(reply.op_count() > 0)
}

/// Keeps to a number of records a second.
#[derive(Debug)]
struct Pace {
    /// 0: as fast as it goes.
    per_second: u32,
    started: Instant,
    done: u64,
}

impl Pace {
    fn new(per_second: u32) -> Self {
        Self {
            per_second,
            started: Instant::now(),
            done: 0,
        }
    }

    /// How long to wait before the next record.
    fn wait(&self) -> Option<Duration> {
        if self.per_second == 0 {
            return None;
        }
        let due = Duration::from_secs_f64(self.done as f64 / f64::from(self.per_second));
        let ahead = due.checked_sub(self.started.elapsed())?;
        // Less than a tick of the timer is not worth a wait.
        (ahead > Duration::from_millis(1)).then_some(ahead)
    }

    fn count(&mut self) {
        self.done += 1;
    }
}

/// Operations to be done on all records of a set.
#[derive(Debug)]
pub(crate) struct Background {
    namespace: crate::Namespace,
    set_id: Option<u16>,
    filter: Option<Expression>,
    operations: Vec<Operation>,
    policy: WritePolicy,
    mode: Mode,
    job: Arc<Job>,
}

impl Background {
    /// Runs to the end, or until it is aborted or the server stops. Blocks.
    pub(crate) fn run(&self, shared: &Shared) {
        let Ok(checked) = Checked::new(&self.operations, self.mode) else {
            self.job.finish(End::Aborted);
            return;
        };
        let mut pace = Pace::new(self.job.records_per_second);
        let mut scratch = Vec::new();
        let mut set_name = (0, String::new());
        for partition in 0..PARTITIONS {
            let digests = self
                .namespace
                .digests_of(usize::from(partition), self.set_id, None);
            for digest in digests {
                if let Some(time) = pace.wait() {
                    self.job.throttled.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(time);
                }
                if self.job.is_aborted() || shared.is_closing() {
                    self.job.finish(End::Aborted);
                    return;
                }
                self.operate(&digest, &checked, &mut set_name, &mut scratch);
                pace.count();
            }
            self.job
                .progress(usize::from(partition) + 1, usize::from(PARTITIONS));
        }
        self.job.finish(End::Complete);
    }

    fn operate(
        &self,
        digest: &Digest,
        checked: &Checked<'_>,
        set_name: &mut (u16, String),
        scratch: &mut Vec<u8>,
    ) {
        let found = self
            .namespace
            .read_scanned(digest, self.set_id, |record| record.set_id());
        // Deleted meanwhile.
        let Some(set_id) = found else { return };
        if set_id != set_name.0 {
            *set_name = (
                set_id,
                self.namespace.set_name_of(set_id).unwrap_or_default(),
            );
        }
        let address = crate::engine::Address {
            digest: *digest,
            set: &set_name.1,
            key: None,
        };
        // They only write; what they have to say is said to nobody.
        let mut ignored = Vec::new();
        let counter = match self.namespace.write_at(
            &address,
            self.filter.as_ref(),
            &self.policy,
            checked,
            scratch,
            &mut ignored,
        ) {
            Ok(_) => &self.job.succeeded,
            Err(refused) if matches!(refused.error, Error::NotFound) => return,
            Err(refused) if matches!(refused.error, Error::FilteredOut) => &self.job.filtered,
            Err(_) => &self.job.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
