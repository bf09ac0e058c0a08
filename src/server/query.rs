//! Queries: the records of some partitions, or of a set in them, returned; and how queries of all kinds begin.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::background::Background;
use super::batch::filter_of;
use super::bytes::Cursor;
use super::command::{expiration, set_of};
use super::condition::Condition;
use super::fields::{Field, Fields};
use super::frame::{FRAME_HEADER_BYTES, FrameKind, close_frame, open_frame};
use super::job::{End, Job, JobKind, JobStart};
use super::message::{Head, Info1, Info2, Info3, Message};
use super::operation::{bin_name, operations_of};
use super::ops::code;
use super::rate_limit::RateLimit;
use super::reply::{Answer, Reply, Room};
use super::response_buffer::ResponseBuffer;
use super::result_code;
use super::results::Results;
use super::served::ServedNamespace;
use super::shared::Shared;
use crate::engine::{NextEntry, PartitionQuery, PartitionStart, RemoteRecord};
use crate::expression::RecordFacts;
use crate::operation::{Checked, Mode, Operation};
use crate::policy::RecordExistsAction;
use crate::record::BinName;
use crate::value::ParticleType;
use crate::{Digest, Error, Expression, Result, WritePolicy};

/// How many partitions there are.
const PARTITIONS: u16 = 4096;

/// Records are sent when so many bytes of them are there.
const CHUNK_BYTES: usize = 256 << 10;

/// At most so many partitions are visited between two looks at the client.
const CHUNK_PARTITIONS: usize = 256;

/// At most so many entries of an index are passed over between two looks at the client.
const CHUNK_ENTRIES: usize = 64 << 10;

/// At most so many records are looked at, whether they are returned or not, between two looks at the client.
const CHUNK_RECORDS: usize = 4096;

/// The most queries at once: Aerospike's `query-threads-limit`.
const QUERIES_MAX: usize = 128;

/// The most records a second of a background query: Aerospike's `background-query-max-rps`.
const BACKGROUND_RPS_MAX: u32 = 10_000;

/// How long a short query may take if its client does not say: Aerospike's default.
const SHORT_TIMEOUT: Duration = Duration::from_secs(1);

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
    served: &'a ServedNamespace,
    set_id: Option<u16>,
    filter: Option<Expression>,
    projection: Projection,
    mode: Mode,
    source: RecordSource,
    /// Whether all records have been met.
    is_exhausted: bool,
    /// How many more records may be returned.
    left: u64,
    pace: RateLimit,
    /// The last set whose name was needed.
    set_name: (u16, String),
    /// When a short query ends, done or not. Others take as long as they need.
    deadline: Option<Instant>,
    job: Arc<Job>,
}

/// Where a query finds records.
#[derive(Debug)]
enum RecordSource {
    Index(Box<PartitionQuery>),
    Partitions {
        /// Each with the digest behind which to begin.
        starts: Vec<(u16, Option<Digest>)>,
        /// The partition that is visited next.
        next: usize,
        /// Digests of the partition that is being visited, the next one last.
        current: Vec<Digest>,
    },
}

/// What a query meets next.
enum NextRecord {
    /// A record, and its number in the index.
    Record(Digest, Option<i64>),
    /// It is time to look at the client.
    Pause,
    End,
}

/// How much may be looked at before the next look at the client.
struct Allowance {
    partitions: usize,
    entries: usize,
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

/// What has become of a record that a query met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visited {
    Returned,
    /// It is gone, or not asked for, or cannot be read as it was asked for.
    Passed,
    /// There is no memory for it.
    NoRoom,
}

/// Begins what a message without a digest asks for. Otherwise the code of the answer.
pub(crate) fn start<'a>(
    shared: &'a Shared,
    served: &'a ServedNamespace,
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
    let condition = Condition::of(fields, &served.namespace, set)?;
    let starts = if writes {
        Vec::new()
    } else {
        starts_of(fields, message.head.info3, condition.is_some())?
    };
    // An index of one set has the records of that set only.
    let of_index = condition.as_ref().map(|condition| &condition.index);
    let set_of_index = of_index.map_or("", |index| index.set_name());
    let index_name = of_index.map(|index| index.name());
    let set_id = match (set, set_of_index) {
        ("", other) => served.namespace.set_number(other),
        (one, other) if other.is_empty() || one == other => set_id,
        _ => None,
    };
    let Some(set_id) = set_id else {
        return Ok(Started::Empty);
    };
    if !short && shared.jobs.running() >= QUERIES_MAX {
        return Err(FORBIDDEN);
    }
    let filter = filter_of(fields)?;
    let resumed = starts.iter().filter(|start| start.1.is_some()).count();
    let partitions = match writes {
        true => usize::from(PARTITIONS),
        false => starts.len(),
    };
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
        index: index_name.as_deref().unwrap_or_default(),
        partitions: partitions - resumed,
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
            condition,
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
    // Nobody is told of a short query.
    let job = match short {
        true => Arc::new(Job::of(&start)),
        false => shared.jobs.begin(&start).ok_or(result_code::PARAMETER)?,
    };
    let timeout = match message.head.timeout_ms {
        0 => SHORT_TIMEOUT,
        ms => Duration::from_millis(u64::from(ms)),
    };
    Ok(Started::Query(Box::new(Query {
        shared,
        served,
        set_id,
        filter,
        projection,
        mode,
        source: RecordSource::new(condition.as_ref(), starts),
        is_exhausted: false,
        left: match fields.u64(Field::MaxRecords) {
            None | Some(0) => u64::MAX,
            Some(most) => most,
        },
        pace: RateLimit::new(rps),
        set_name: (0, String::new()),
        deadline: short.then(|| Instant::now() + timeout),
        job,
    })))
}

/// A partition, and the last record that the client has of it: its value in the index, if it names one, and its digest.
type Start = (u16, Option<(Option<i64>, Digest)>);

impl RecordSource {
    fn new(condition: Option<&Condition>, starts: Vec<Start>) -> Self {
        let Some(condition) = condition else {
            let behind = |(partition, behind): Start| (partition, behind.map(|(_, digest)| digest));
            return Self::Partitions {
                starts: starts.into_iter().map(behind).collect(),
                next: 0,
                current: Vec::new(),
            };
        };
        let starts = starts.into_iter().map(|(partition, behind)| {
            let start = match behind {
                Some((Some(value), digest)) => PartitionStart::Behind(value, digest),
                // Without a value nothing of the partition has come yet.
                _ => PartitionStart::Beginning,
            };
            (usize::from(partition), start)
        });
        let query = PartitionQuery::new(&condition.index, &condition.bound, starts);
        Self::Index(Box::new(query))
    }
}

/// The partitions that a query is to visit.
fn starts_of(
    fields: &Fields<'_>,
    info3: Info3,
    by_index: bool,
) -> std::result::Result<Vec<Start>, u8> {
    let partitions = fields.get(Field::Partitions);
    let digests = fields.get(Field::Digests);
    if (partitions.is_none() && digests.is_none()) || !info3.contains(Info3::PARTITIONS) {
        return Err(result_code::UNSUPPORTED);
    }
    let (values, cut) = fields
        .get(Field::IndexValues)
        .unwrap_or_default()
        .as_chunks::<8>();
    if !cut.is_empty() || (!by_index && !values.is_empty()) {
        return Err(result_code::PARAMETER);
    }
    let (numbers, odd) = partitions.unwrap_or_default().as_chunks::<2>();
    let (digests, rest) = digests.unwrap_or_default().as_chunks::<{ Digest::LEN }>();
    if !odd.is_empty()
        || !rest.is_empty()
        || numbers.len() + digests.len() > usize::from(PARTITIONS)
        || values.len() > digests.len()
    {
        return Err(result_code::PARAMETER);
    }
    let mut starts: Vec<_> = numbers
        .iter()
        .map(|number| (u16::from_le_bytes(*number), None))
        .chain(digests.iter().enumerate().map(|(at, digest)| {
            let digest = Digest::new(*digest);
            let value = values.get(at).map(|value| i64::from_le_bytes(*value));
            (digest.partition() as u16, Some((value, digest)))
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
    served: &ServedNamespace,
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
    pub(crate) fn step(&mut self, out: &mut ResponseBuffer<'_>) -> Step {
        if self.job.is_aborted() || self.shared.is_closing() {
            return self.end(End::Aborted, ABORTED, out);
        }
        if self
            .deadline
            .is_some_and(|deadline| Instant::now() > deadline)
        {
            return self.end(End::Aborted, result_code::TIMEOUT, out);
        }
        let start = out.len();
        let frame = open_frame(out);
        let mut records = 0;
        let mut allowance = Allowance {
            partitions: CHUNK_PARTITIONS,
            entries: CHUNK_ENTRIES,
        };
        let mut wait = None;
        let mut no_room = false;
        while out.len() - start < CHUNK_BYTES && records < CHUNK_RECORDS && self.left > 0 {
            wait = self.pace.wait();
            if wait.is_some() {
                self.job.throttled.fetch_add(1, Ordering::Relaxed);
                break;
            }
            let (digest, value) = match self.next_record(&mut allowance) {
                NextRecord::Record(digest, value) => (digest, value),
                NextRecord::Pause => break,
                NextRecord::End => {
                    self.is_exhausted = true;
                    break;
                }
            };
            records += 1;
            match self.visit(&digest, value, out) {
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
        let bytes = out.len() - start;
        if bytes > FRAME_HEADER_BYTES {
            close_frame(out, frame, FrameKind::Message);
            self.job.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        } else {
            out.truncate(start);
        }
        match &self.source {
            RecordSource::Partitions { starts, next, .. } => {
                self.job.progress(*next, starts.len());
            }
            RecordSource::Index(_) => self.job.progress(usize::from(self.is_exhausted), 1),
        }
        if no_room {
            return self.end(End::Aborted, result_code::OVERLOAD, out);
        }
        match wait {
            _ if self.is_exhausted || self.left == 0 => {
                self.end(End::Complete, result_code::OK, out)
            }
            Some(time) => Step::Wait(time),
            None => Step::More,
        }
    }

    fn next_record(&mut self, allowance: &mut Allowance) -> NextRecord {
        let (starts, next, current) = match &mut self.source {
            RecordSource::Index(query) => {
                return match query.advance(&mut allowance.entries) {
                    NextEntry::Found { value, digest } => NextRecord::Record(digest, Some(value)),
                    NextEntry::Paused => NextRecord::Pause,
                    NextEntry::End => NextRecord::End,
                };
            }
            RecordSource::Partitions {
                starts,
                next,
                current,
            } => (starts, next, current),
        };
        loop {
            if let Some(digest) = current.pop() {
                return NextRecord::Record(digest, None);
            }
            let Some((partition, after)) = starts.get(*next) else {
                return NextRecord::End;
            };
            let Some(less) = allowance.partitions.checked_sub(1) else {
                return NextRecord::Pause;
            };
            allowance.partitions = less;
            *next += 1;
            *current = self.served.namespace.digests_of(
                usize::from(*partition),
                self.set_id,
                after.as_ref(),
                |damage| self.job.fail(&damage),
            );
            current.reverse();
        }
    }

    fn end(&self, how: End, code: u8, out: &mut ResponseBuffer<'_>) -> Step {
        let frame = open_frame(out);
        Answer::last(code).write(out);
        close_frame(out, frame, FrameKind::Message);
        self.job.finish(how);
        let counters = &self.served.counters;
        let counter = match (self.deadline.is_some(), code) {
            (false, result_code::OK) => &counters.queries_complete,
            (false, _) => &counters.queries_aborted,
            (true, result_code::OK) => &counters.short_queries_complete,
            (true, result_code::TIMEOUT) => &counters.short_queries_timed_out,
            (true, _) => &counters.short_queries_failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Step::Done
    }

    /// Appends a record, if it is still there and holds something of what is asked for.
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
        let visit = |record: &RemoteRecord<'_>| {
            if record.set_id() != set_name.0 {
                *set_name = (
                    record.set_id(),
                    namespace.set_name_of(record.set_id()).unwrap_or_default(),
                );
            }
            let facts = namespace.facts(record, &set_name.1);
            if namespace
                .check_filter(filter.as_ref(), record, &set_name.1)
                .is_err()
            {
                job.filtered.fetch_add(1, Ordering::Relaxed);
                return Visited::Passed;
            }
            let mut reply = Reply::begin(out);
            reply.field(Field::Namespace, namespace.name().as_bytes());
            reply.field(Field::Digest, digest.as_bytes());
            if !set_name.1.is_empty() {
                reply.field(Field::Set, set_name.1.as_bytes());
            }
            if let Some(key) = record.key() {
                if reply.reserve(key.len()) == Room::Refused {
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
                    reply.finish(&Answer {
                        generation: u32::from(metadata.generation),
                        void_time: metadata.void_time,
                        ..Answer::default()
                    });
                    Visited::Returned
                }
                Ok(false) | Err(_) => match reply.abandon() {
                    Room::Given => Visited::Passed,
                    Room::Refused => Visited::NoRoom,
                },
            }
        };
        let written = match &self.source {
            RecordSource::Index(query) => query.read(namespace, self.set_id, visit),
            RecordSource::Partitions { .. } => namespace.read_scanned(digest, self.set_id, visit),
        };
        match written {
            Ok(written) => written.unwrap_or(Visited::Passed),
            Err(damage) => {
                job.fail(&damage);
                Visited::Passed
            }
        }
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
    reply: &mut Reply<'_, '_>,
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
