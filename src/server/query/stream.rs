//! Aggregations: queries that send their records through the stream of a function, up to its first reduction.

use std::time::{Duration, Instant};

use super::{Query, Visited, read};
use crate::Digest;
use crate::engine::RemoteRecord;
use crate::server::function::{FunctionCall, RecordInput};
use crate::server::lua::Stream;
use crate::server::ops::code;
use crate::server::reply::{Answer, Reply, Room};
use crate::server::response_buffer::ResponseBuffer;
use crate::server::transaction::part::MONITOR_SET;
use crate::value::{ParticleType, Value, write_stored};

/// How long a stream may take for a record, or for its end.
const STEP_TIME: Duration = Duration::from_secs(10);

/// A function, before its first record and after.
#[derive(Debug)]
pub(super) enum StreamState {
    Ahead(FunctionCall),
    Running(Stream),
}

impl Query<'_> {
    /// The stream, begun. `None`: the query has none.
    fn stream(&mut self) -> Result<Option<&Stream>, String> {
        if let Some(StreamState::Ahead(call)) = &self.stream {
            let ends = Instant::now() + STEP_TIME;
            let stream = self.served.functions.begin_stream(call, ends)?;
            self.stream = Some(StreamState::Running(stream));
        }
        Ok(match &self.stream {
            Some(StreamState::Running(stream)) => Some(stream),
            _ => None,
        })
    }

    /// Sends a record through, and appends the values that come out. Otherwise the text for the client.
    pub(super) fn send_through(
        &mut self,
        digest: &Digest,
        out: &mut ResponseBuffer<'_>,
    ) -> Result<Visited, String> {
        let namespace = &self.served.namespace;
        let (filter, set_id, job) = (self.filter.as_ref(), self.set_id, &self.job);
        let take = |record: &RemoteRecord<'_>| {
            let set = namespace.set_name_of(record.set_id()).unwrap_or_default();
            if set_id.is_none() && set == MONITOR_SET {
                return None;
            }
            if namespace.check_filter(filter, record, &set).is_err() {
                job.filtered
                    .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                return None;
            }
            let taken = RecordInput::of(namespace, record, *digest, &set);
            taken.inspect_err(|damage| job.fail(damage)).ok()
        };
        let taken = read(&self.source, namespace, digest, set_id, job, take).flatten();
        let (Some(record), Some(stream)) = (taken, self.stream()?) else {
            return Ok(Visited::Passed);
        };
        let values = stream.push(record, Instant::now() + STEP_TIME)?;
        tell(&values, out)?;
        Ok(Visited::Returned)
    }

    /// Ends the stream after the last record, and appends the values that come out.
    pub(super) fn end_stream(&mut self, out: &mut ResponseBuffer<'_>) -> Result<(), String> {
        let Some(stream) = self.stream()? else {
            return Ok(());
        };
        let values = stream.finish(Instant::now() + STEP_TIME)?;
        tell(&values, out)
    }
}

/// Appends values, a message each.
fn tell(values: &[Value], out: &mut ResponseBuffer<'_>) -> Result<(), String> {
    for value in values {
        let mut stored = Vec::new();
        let kind = write_stored(value, &mut stored).map_err(|error| error.to_string())?;
        let mut reply = Reply::begin(out);
        if reply.op(code::READ, b"SUCCESS", kind, &stored).is_err() {
            // The room that was refused is given back.
            let _: Room = reply.abandon();
            return Err("there is no memory for the values of the stream".to_owned());
        }
        reply.finish(&Answer::default());
    }
    Ok(())
}

/// Appends the message of a function that has failed.
pub(super) fn tell_failure(text: &str, out: &mut ResponseBuffer<'_>) {
    let mut reply = Reply::begin(out);
    let told = reply.op(
        code::READ,
        b"FAILURE",
        ParticleType::String,
        text.as_bytes(),
    );
    match told {
        Ok(()) => reply.finish(&Answer::default()),
        Err(_) => {
            let _: Room = reply.abandon();
        }
    }
}
