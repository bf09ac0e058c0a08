//! How queries of all kinds begin.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use spikelet_storage::PARTITIONS;

use super::projection::{Projection, projection_of};
use super::stream::StreamState;
use super::{LastSet, MetRecords, QueryWork, WireQuery, is_of_server};
use crate::engine::declaration::is_own_set;
use crate::engine::{PartitionQuery, PartitionStart};
use crate::operation::{Checked, Mode};
use crate::policy::RecordExistsAction;
use crate::rate_limit::{Due, Pace, RateLimit};
use crate::server::background::{BackgroundChange, BackgroundChangeKind};
use crate::server::batch::filter_of;
use crate::server::command::{expiration, set_of};
use crate::server::condition::IndexCondition;
use crate::server::counters::{JobEnd, JobKind};
use crate::server::fields::{Field, Fields};
use crate::server::function_call::FunctionCall;
use crate::server::job::{Job, JobFacts};
use crate::server::message::{Info1, Info2, Info3, Message};
use crate::server::operation::operations_of;
use crate::server::result_code;
use crate::server::served::ServedNamespace;
use crate::server::shared::ServerShared;
use crate::{Digest, Error, Expression, Result, WritePolicy};

/// How long a short query may take if its client does not say: Aerospike's default.
const SHORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Of [`Field::UdfKind`].
const AGGREGATE: u8 = 1;
const IN_BACKGROUND: u8 = 2;

/// Begins what a message without a digest asks for, within the limit of its user; `None`: no record
/// can fit, and the query is counted. An error is the code of the answer.
pub(crate) fn start(
    shared: &Arc<ServerShared>,
    served: &Arc<ServedNamespace>,
    message: &Message<'_>,
    client: &str,
    limit: Option<RateLimit>,
) -> std::result::Result<Option<Box<WireQuery>>, u8> {
    let fields = &message.fields;
    let call = if fields.has(Field::UdfKind) || fields.has(Field::UdfPackage) {
        Some(FunctionCall::of(fields)?)
    } else {
        None
    };
    let in_background = match (&call, fields.get(Field::UdfKind)) {
        (None, _) => false,
        (Some(_), Some([AGGREGATE])) => false,
        (Some(_), Some([IN_BACKGROUND])) => true,
        (Some(_), _) => return Err(result_code::PARAMETER),
    };
    // What may see less than everything is refused where nothing does.
    let relaxed = message.head.info2.contains(Info2::RELAXED_LONG_QUERY);
    if relaxed && served.is_strongly_consistent {
        return Err(result_code::PARAMETER);
    }
    let set = set_of(fields).map_err(|_| result_code::PARAMETER)?;
    let set_id = served.namespace.set_number(set);
    let short = message.head.info1.contains(Info1::SHORT_QUERY);
    let writes = message.head.info2.contains(Info2::WRITE) || in_background;
    if short && (writes || call.is_some() || fields.has(Field::RecordsPerSecond)) {
        return Err(result_code::PARAMETER);
    }
    let kind = match (writes, &call) {
        (false, None) if short => JobKind::Short,
        (false, None) => JobKind::Basic,
        (false, Some(_)) => JobKind::Aggregation,
        (true, None) => JobKind::Background,
        (true, Some(_)) => JobKind::BackgroundFunction,
    };
    let empty = || {
        let counters = served.counters.queries(fields.has(Field::IndexRange));
        counters.add(kind, JobEnd::Complete);
        Ok(None)
    };
    if (writes || call.is_some()) && set_id.is_none() {
        return Err(result_code::NOT_FOUND);
    }
    let condition = IndexCondition::of(fields, &served.namespace, set)?;
    let names_partitions = fields.has(Field::Partitions) || fields.has(Field::Digests);
    let starts = if writes || (call.is_some() && !names_partitions) {
        // The client asks the node, whatever partitions it has.
        (0..PARTITIONS).map(|at| start_at(at, None)).collect()
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
        return empty();
    };
    if !short && shared.jobs.running() as u64 >= shared.limits.max_queries.load(Ordering::Relaxed) {
        return Err(result_code::FORBIDDEN);
    }
    let filter = filter_of(fields)?;
    let resumed = starts.iter().filter(|start| start.behind.is_some()).count();
    let asked_rps = fields.u32(Field::RecordsPerSecond).unwrap_or(0);
    let max_rps = served.max_background_rps.load(Ordering::Relaxed) as u32;
    let rps = match (writes, asked_rps) {
        (false, rps) => rps,
        (true, 0) => max_rps,
        (true, rps) if rps <= max_rps => rps,
        (true, _) => return Err(result_code::PARAMETER),
    };
    let pace = [RateLimit::new(rps, Due::default()), limit];
    let pace = Pace(pace.into_iter().flatten().collect());
    let facts = JobFacts {
        id: fields.u64(Field::Query).unwrap_or_default(),
        kind,
        namespace: served.namespace.name().to_owned(),
        set: set.to_owned(),
        index: index_name.map(|name| name.to_string()),
        partitions: starts.len() - resumed,
        digests: resumed,
        records_per_second: rps,
        socket_timeout_ms: fields.u32(Field::SocketTimeout).unwrap_or_default(),
        client: client.to_owned(),
    };
    let mode = message.head.mode();
    // No set is named: all of them.
    let set_id = (set_id != 0).then_some(set_id);
    let condition = condition.as_ref().map(|of| (&of.index, &of.bound));
    let work = if writes {
        let change = change_of(message, served, call, filter.clone());
        QueryWork::Change(change.map_err(|error| error.result_code())?)
    } else {
        let projection = projection_of(message).map_err(|_| result_code::PARAMETER)?;
        if let Projection::Operations(operations) = &projection {
            let checked = Checked::new(operations, mode).map_err(|error| error.result_code())?;
            if checked.is_write() {
                return Err(result_code::PARAMETER);
            }
        }
        match call {
            Some(call) => QueryWork::Stream(StreamState::Ahead(call)),
            None => QueryWork::Project(projection, mode),
        }
    };
    let source = PartitionQuery::new(&served.namespace, set_id, condition, starts, writes);
    // The index may have been dropped meanwhile.
    let source = source.map_err(|error| error.result_code())?;
    // Nobody is told of a short query.
    let job = if short {
        Arc::new(Job::of(facts))
    } else {
        let most = shared.limits.max_done_queries.load(Ordering::Relaxed);
        let job = shared.jobs.begin(facts, most);
        job.ok_or(result_code::PARAMETER)?
    };
    Ok(Some(Box::new(WireQuery {
        records: MetRecords {
            shared: Arc::clone(shared),
            served: Arc::clone(served),
            source,
            hides: match (writes, set_id) {
                (true, None) => is_own_set,
                (false, Some(_)) => |_| false,
                _ => is_of_server,
            },
            // A change asks its filter under the record's lock.
            filter: filter.filter(|_| !writes),
            set_name: LastSet::default(),
            job,
        },
        work,
        is_exhausted: false,
        left: match fields.u64(Field::MaxRecords) {
            Some(most @ 1..) if !writes => most,
            _ => u64::MAX,
        },
        pace,
        deadline: short.then(|| Instant::now() + message.head.timeout(SHORT_TIMEOUT)),
    })))
}

/// The partitions that a query is to visit.
fn starts_of(
    fields: &Fields<'_>,
    info3: Info3,
    by_index: bool,
) -> std::result::Result<Vec<PartitionStart>, u8> {
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
        || numbers.len() + digests.len() > PARTITIONS
        || values.len() > digests.len()
    {
        return Err(result_code::PARAMETER);
    }
    let mut starts: Vec<_> = numbers
        .iter()
        .map(|number| start_at(u16::from_le_bytes(*number).into(), None))
        .chain(digests.iter().enumerate().map(|(at, digest)| {
            let digest = Digest::new(*digest);
            let value = values.get(at).map(|value| i64::from_le_bytes(*value));
            start_at(digest.partition(), Some((value, digest)))
        }))
        .collect();
    starts.sort_unstable_by_key(|start| start.partition);
    let distinct = starts.is_sorted_by(|one, other| one.partition < other.partition);
    let beyond = starts
        .last()
        .is_some_and(|start| start.partition >= PARTITIONS);
    if !distinct || beyond {
        return Err(result_code::PARAMETER);
    }
    Ok(starts)
}

const fn start_at(partition: usize, behind: Option<(Option<i64>, Digest)>) -> PartitionStart {
    PartitionStart { partition, behind }
}

/// The change that a background query makes.
fn change_of(
    message: &Message<'_>,
    served: &ServedNamespace,
    call: Option<FunctionCall>,
    filter: Option<Expression>,
) -> Result<BackgroundChange> {
    let head = &message.head;
    let operations = operations_of(message)?;
    let reads = operations.iter().any(|operation| !operation.is_write());
    let is_wrong = match &call {
        None => reads || operations.is_empty() || head.info1.contains(Info1::READ),
        Some(_) => !operations.is_empty(),
    };
    if is_wrong {
        return Err(Error::parameter(
            "a background query takes operations that write, at least one, or a function",
        ));
    }
    let replaces = head.info3.contains(Info3::REPLACE_ONLY);
    let kind = match call {
        None => {
            Checked::new(&operations, Mode::of(replaces))?;
            BackgroundChangeKind::Operations(operations)
        }
        Some(call) => BackgroundChangeKind::Function(call),
    };
    let action = if replaces {
        RecordExistsAction::ReplaceOnly
    } else {
        RecordExistsAction::UpdateOnly
    };
    let policy = WritePolicy::default()
        .record_exists_action(action)
        .expiration(expiration(head.ttl, served)?);
    Ok(BackgroundChange {
        kind,
        policy,
        filter,
    })
}
