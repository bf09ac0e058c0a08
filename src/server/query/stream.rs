//! Aggregations: queries that send their records through the stream of a function, up to its first
//! reduction.

use std::time::{Duration, Instant};

use crate::server::function_call::{FunctionCall, RecordInput, Stream};
use crate::server::reply::{AnswerHeader, MessageReply};
use crate::server::response_buffer::ResponseBuffer;
use crate::server::result_code;
use crate::server::served::ServedNamespace;
use crate::value::{ParticleType, Value, write_answer};

/// How long a stream may take for a record, or for its end.
const STEP_TIME: Duration = Duration::from_secs(10);

/// A function, before its first record and after.
pub(super) enum StreamState {
    Ahead(FunctionCall),
    Running(Stream),
}

impl StreamState {
    /// Sends a record through, or, for `None`, ends the stream, and appends the values that come
    /// out. If the function fails, appends why; the error is the code of the answer.
    pub(super) fn advance(
        &mut self,
        served: &ServedNamespace,
        record: Option<RecordInput>,
        out: &mut ResponseBuffer<'_>,
    ) -> Result<(), u8> {
        self.run(served, record, out).map_err(|text| {
            // Without room for the text the code says enough.
            let _ = append(b"FAILURE", ParticleType::String, text.as_bytes(), out);
            result_code::SERVER
        })
    }

    fn run(
        &mut self,
        served: &ServedNamespace,
        record: Option<RecordInput>,
        out: &mut ResponseBuffer<'_>,
    ) -> Result<(), String> {
        let ends = || Instant::now() + STEP_TIME;
        if let Self::Ahead(call) = self {
            let now_ms = served.namespace.now_ms();
            *self = Self::Running(served.functions.begin_stream(call, now_ms, ends())?);
        }
        match self {
            Self::Running(stream) => tell(&stream(record, ends())?, out),
            Self::Ahead(_) => Err("the stream has not begun".to_owned()),
        }
    }
}

/// Appends values, a message each.
fn tell(values: &[Value], out: &mut ResponseBuffer<'_>) -> Result<(), String> {
    for value in values {
        let mut stored = Vec::new();
        let kind = write_answer(value, &mut stored).map_err(|error| error.to_string())?;
        if append(b"SUCCESS", kind, &stored, out).is_err() {
            return Err("there is no memory for the values of the stream".to_owned());
        }
    }
    Ok(())
}

fn append(
    name: &[u8],
    kind: ParticleType,
    stored: &[u8],
    out: &mut ResponseBuffer<'_>,
) -> crate::Result<()> {
    let mut reply = MessageReply::begin(out);
    match reply.bin(name, kind, stored) {
        Ok(()) => reply.finish(&AnswerHeader::default()),
        Err(refused) => {
            // The room that was refused is given back.
            let _ = reply.abandon();
            return Err(refused);
        }
    }
    Ok(())
}
