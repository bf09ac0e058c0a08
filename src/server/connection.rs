//! One client's connection: requests are read, executed and answered in their order, on the connection's own task.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::batch::Batch;
use super::command::Command;
use super::compression;
use super::fields::Field;
use super::frame::{FRAME_HEADER_BYTES, Frame, FrameError, FrameKind, close_frame, open_frame};
use super::hold::{HeldRecord, HeldRecords};
use super::info::{self, Session};
use super::memory_budget::{FREE_BYTES, Share};
use super::message::{Info1, Message, Verb};
use super::query::{self, Started, Step};
use super::reply::Answer;
use super::response_buffer::ResponseBuffer;
use super::result_code;
use super::served::ServedNamespace;
use super::shared::Shared;
use crate::{Digest, Durability, Expression};

/// The buffer of requests begins with this, and returns to it after a large one.
const BUFFER_BYTES: usize = 16 << 10;

/// Answers to requests that came together are sent together, up to so many bytes.
const GATHERED_BYTES: usize = 64 << 10;

/// How long a client may take to send each mebibyte of a message, or to take one of an answer.
const STALL: Duration = Duration::from_secs(60);

/// The most of a message that may arrive within one [`STALL`] without being enough.
const STALL_BYTES: usize = 1 << 20;

/// How long an answer under way may still be taken when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Why a connection ends before its client closes it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Closed {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("not a message: {0}")]
    Frame(#[from] FrameError),
    #[error("a compressed message that is none")]
    Compression,
    #[error("no request for too long")]
    Idle,
    #[error("the client stalls inside a message")]
    Stalled,
    #[error("the server stops, and the client does not take its answer")]
    Stopping,
    #[error("no memory is left for a message of {0} bytes: too many large ones at once")]
    NoMemory(usize),
}

/// A connection.
struct Connection<'s> {
    shared: &'s Arc<Shared>,
    stream: TcpStream,
    session: Session,
    /// What has arrived and is not executed yet begins at `read`.
    inbox: Vec<u8>,
    read: usize,
    outbox: ResponseBuffer<'s>,
    /// Bodies of records under way.
    scratch: Vec<u8>,
    memory: Share<'s>,
    stopping: watch::Receiver<bool>,
    /// Ends when the server is told to stop. Kept over all requests, since a new one for each would cost two locks.
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Serves a connection to its end.
pub(crate) async fn serve(shared: Arc<Shared>, stream: TcpStream, stopping: watch::Receiver<bool>) {
    let ended = match (stream.local_addr(), stream.peer_addr()) {
        (Ok(local), Ok(peer)) => {
            let connection = Connection {
                shared: &shared,
                stream,
                session: Session {
                    local,
                    peer: peer.to_string(),
                    user_agent: None,
                },
                inbox: Vec::with_capacity(BUFFER_BYTES),
                read: 0,
                outbox: ResponseBuffer::new(shared.budget.share()),
                scratch: Vec::new(),
                memory: shared.budget.share(),
                stopped: Box::pin(told_to_stop(stopping.clone())),
                stopping,
            };
            connection.run().await
        }
        (Err(error), _) | (_, Err(error)) => Err(error.into()),
    };
    match ended {
        Ok(()) => tracing::debug!("connection closed"),
        Err(Closed::Io(error)) => tracing::debug!(%error, "connection lost"),
        Err(why) => tracing::warn!(%why, "connection closed"),
    }
}

impl Connection<'_> {
    async fn run(mut self) -> Result<(), Closed> {
        // Requests and answers are small and waited for.
        self.stream.set_nodelay(true)?;
        loop {
            while let Some(frame) = self.whole_frame()? {
                self.execute(frame).await?;
                self.read += FRAME_HEADER_BYTES + frame.body_len;
                if self.outbox.len() > GATHERED_BYTES {
                    self.send().await?;
                }
                if self.shared.is_closing() {
                    break;
                }
            }
            self.send().await?;
            self.make_room()?;
            if self.shared.is_closing() {
                return Ok(());
            }
            let arrived = if self.inbox.is_empty() {
                self.receive_first().await?
            } else {
                self.receive_rest().await?
            };
            if arrived == 0 {
                return Ok(());
            }
        }
    }

    /// The next frame, if all of it is there.
    fn whole_frame(&self) -> Result<Option<Frame>, Closed> {
        let rest = self.inbox.get(self.read..).unwrap_or_default();
        let Some(frame) = Frame::peek(rest).transpose()? else {
            return Ok(None);
        };
        let whole = rest.len() - FRAME_HEADER_BYTES >= frame.body_len;
        Ok(whole.then_some(frame))
    }

    /// Drops what is executed, and keeps room for more: twice what has arrived of a message, not what it says it will
    /// have.
    fn make_room(&mut self) -> Result<(), Closed> {
        self.inbox.drain(..self.read);
        self.read = 0;
        if self.inbox.is_empty() && self.inbox.capacity() > BUFFER_BYTES {
            self.inbox = Vec::with_capacity(BUFFER_BYTES);
        }
        self.outbox.shrink();
        if self.scratch.capacity() > FREE_BYTES {
            self.scratch = Vec::new();
        }
        let free = self.inbox.capacity() - self.inbox.len();
        if free == 0 || (self.inbox.len() > BUFFER_BYTES && free < BUFFER_BYTES) {
            let whole = Frame::peek(&self.inbox)
                .transpose()?
                .map_or(0, |frame| frame.body_len + FRAME_HEADER_BYTES);
            let capacity = (2 * self.inbox.len())
                .min(whole)
                .max(self.inbox.len() + BUFFER_BYTES);
            if !self.memory.resize(capacity) {
                return Err(Closed::NoMemory(whole));
            }
            self.inbox.reserve_exact(capacity - self.inbox.len());
        }
        let held = self.memory.resize(self.inbox.capacity());
        if held {
            Ok(())
        } else {
            Err(Closed::NoMemory(self.inbox.capacity()))
        }
    }

    /// Accounts for an answer that was added to without asking for each piece.
    fn check_memory(&mut self) -> Result<(), Closed> {
        match self.outbox.account() {
            true => Ok(()),
            false => Err(Closed::NoMemory(self.outbox.len())),
        }
    }

    /// Waits for the first bytes of a request. None come when the server stops.
    async fn receive_first(&mut self) -> Result<usize, Closed> {
        let receive = self.stream.read_buf(&mut self.inbox);
        let receive = async {
            match self.shared.limits.idle_timeout {
                None => Ok(receive.await?),
                Some(limit) => Ok(timeout(limit, receive).await.map_err(|_| Closed::Idle)??),
            }
        };
        tokio::select! {
            biased;
            arrived = receive => arrived,
            () = &mut self.stopped => Ok(0),
        }
    }

    /// Waits for more of a request, until the buffer is full or the request is there. A client that sends a byte now and
    /// then stalls like one that sends nothing.
    async fn receive_rest(&mut self) -> Result<usize, Closed> {
        let from = self.inbox.len();
        let stopped = told_to_stop(self.stopping.clone());
        let receive = async {
            loop {
                if self.stream.read_buf(&mut self.inbox).await? == 0 {
                    return Ok(0);
                }
                let arrived = self.inbox.len() - from;
                let full = self.inbox.len() == self.inbox.capacity();
                if full || arrived >= STALL_BYTES || self.whole_frame()?.is_some() {
                    return Ok(arrived);
                }
            }
        };
        tokio::select! {
            received = timeout(STALL, receive) => received.map_err(|_| Closed::Stalled)?,
            // A request that is not there yet is not waited for.
            () = stopped => Ok(0),
        }
    }

    /// Sends the answers that are there.
    async fn send(&mut self) -> Result<(), Closed> {
        send(&mut self.stream, &mut self.outbox, &self.stopping).await
    }

    async fn execute(&mut self, frame: Frame) -> Result<(), Closed> {
        let start = self.read + FRAME_HEADER_BYTES;
        match frame.kind {
            FrameKind::Info => {
                let body = self.inbox.get(start..start + frame.body_len);
                let body = body.unwrap_or_default().to_vec();
                self.execute_info(body).await
            }
            FrameKind::Security => {
                self.refuse_security();
                Ok(())
            }
            FrameKind::Message => {
                let inbox = std::mem::take(&mut self.inbox);
                let body = inbox.get(start..start + frame.body_len).unwrap_or_default();
                let done = self.execute_message(body).await;
                self.inbox = inbox;
                done
            }
            FrameKind::Compressed => {
                let body = self
                    .inbox
                    .get(start..start + frame.body_len)
                    .unwrap_or_default();
                let inside = compression::inflate(body).ok_or(Closed::Compression)?;
                let mut memory = self.shared.budget.share();
                if !memory.resize(inside.capacity()) {
                    return Err(Closed::NoMemory(inside.len()));
                }
                self.execute_message(&inside).await
            }
        }
    }

    /// Answers info commands on a thread for what takes long: some visit all records.
    async fn execute_info(&mut self, body: Vec<u8>) -> Result<(), Closed> {
        let (shared, mut session) = (Arc::clone(self.shared), self.session.clone());
        let answer = tokio::task::spawn_blocking(move || {
            let mut out = Vec::new();
            info::answer(&shared, &mut session, &body, &mut out);
            (session, out)
        });
        let (session, answer) = answer.await.map_err(io::Error::other)?;
        self.session = session;
        if !self.outbox.reserve(answer.len() + FRAME_HEADER_BYTES) {
            return Err(Closed::NoMemory(answer.len()));
        }
        let at = open_frame(&mut self.outbox);
        self.outbox.extend_from_slice(&answer);
        close_frame(&mut self.outbox, at, FrameKind::Info);
        Ok(())
    }

    /// Nobody needs to log in, and nobody can.
    fn refuse_security(&mut self) {
        let at = open_frame(&mut self.outbox);
        let mut answer = [0; 16];
        if let Some(code) = answer.get_mut(1) {
            *code = result_code::SECURITY_NOT_SUPPORTED;
        }
        self.outbox.extend_from_slice(&answer);
        close_frame(&mut self.outbox, at, FrameKind::Security);
    }

    fn answer_code(&mut self, code: u8) {
        self.answer(&Answer::code(code));
    }

    fn answer(&mut self, answer: &Answer) {
        let at = open_frame(&mut self.outbox);
        answer.write(&mut self.outbox);
        close_frame(&mut self.outbox, at, FrameKind::Message);
    }

    async fn execute_message(&mut self, body: &[u8]) -> Result<(), Closed> {
        let Some(message) = Message::parse(body) else {
            // Who asked for many answers waits for the one that is marked as the last.
            match Message::asks_for_many(body) {
                true => self.answer(&Answer::last(result_code::PARAMETER)),
                false => self.answer_code(result_code::PARAMETER),
            }
            return Ok(());
        };
        let began = Instant::now();
        if message.head.info1.contains(Info1::BATCH) {
            let done = self.run_batch(&message).await;
            self.shared.batches.add(began.elapsed());
            return done;
        }
        let shared = self.shared;
        let name = message.fields.get(Field::Namespace);
        let Some(served) = name.and_then(|name| shared.namespace(name)) else {
            self.answer_code(result_code::NAMESPACE);
            return Ok(());
        };
        let Some(digest) = message.fields.get(Field::Digest) else {
            let done = self.run_query(served, &message).await;
            served.queries.add(began.elapsed());
            return done;
        };
        let Ok(digest) = digest.try_into() else {
            self.answer_code(result_code::PARAMETER);
            return Ok(());
        };
        let filter = message.fields.get(Field::Filter);
        let filter = filter.map(|encoded| Expression::of_encoded(encoded.into()));
        let command = Command {
            head: message.head,
            fields: message.fields,
            ops: message.ops,
            digest: Digest::new(digest),
            filter: filter.as_ref(),
            row: None,
        };
        let verb = command.verb();
        let held = match served.held.as_ref().filter(|_| verb != Verb::Read) {
            Some(held) => {
                self.send().await?;
                let set = command.fields.get(Field::Set).unwrap_or_default();
                let limit = command.timeout();
                let wait = hold(served, held, set, command.digest, limit, &self.stopping);
                wait.await
            }
            None => Ok(None),
        };
        let at = open_frame(&mut self.outbox);
        match held {
            Ok(_held) => may_wait(served, verb, || {
                command.execute(served, &mut self.scratch, &mut self.outbox)
            }),
            Err(code) => command.refuse(code, served, &mut self.outbox),
        };
        close_frame(&mut self.outbox, at, FrameKind::Message);
        if message.head.info1.contains(Info1::COMPRESS_RESPONSE) {
            compression::compress(&mut self.outbox, at);
            self.check_memory()?;
        }
        let latency = match verb {
            Verb::Read => &served.reads,
            Verb::Write | Verb::Delete => &served.writes,
        };
        latency.add(began.elapsed());
        Ok(())
    }

    async fn run_batch(&mut self, message: &Message<'_>) -> Result<(), Closed> {
        let shared = self.shared;
        let mut batch = match Batch::start(shared, message) {
            Ok(batch) => batch,
            Err(code) => {
                self.answer(&Answer::last(code));
                return Ok(());
            }
        };
        let compresses = message.head.info1.contains(Info1::COMPRESS_RESPONSE);
        let waits = shared.namespaces.iter().any(waits_for_sync);
        loop {
            let mut held = None;
            if let Some(next) = batch.next_held() {
                self.send().await?;
                let (set, digest) = (next.set, next.digest);
                let wait = hold(
                    next.served,
                    next.held,
                    set,
                    digest,
                    next.limit,
                    &self.stopping,
                );
                let (record, granted) = match wait.await {
                    Ok(record) => (record, Ok(())),
                    Err(code) => (None, Err(code)),
                };
                held = record;
                batch.grant(granted);
            }
            let at = self.outbox.len();
            let mut step = || batch.step(&mut self.scratch, &mut self.outbox);
            let more = if waits {
                tokio::task::block_in_place(step)
            } else {
                step()
            };
            drop(held);
            if compresses {
                compress_frames(&mut self.outbox, at);
            }
            self.check_memory()?;
            if !more {
                return Ok(());
            }
            self.send().await?;
        }
    }

    async fn run_query(
        &mut self,
        served: &ServedNamespace,
        message: &Message<'_>,
    ) -> Result<(), Closed> {
        let shared = self.shared;
        let mut query = match query::start(shared, served, message, &self.session.peer) {
            Ok(Started::Query(query)) => query,
            Ok(Started::Background(background)) => {
                let shared = Arc::clone(shared);
                tokio::task::spawn_blocking(move || background.run(&shared));
                self.answer(&Answer::last(result_code::OK));
                return Ok(());
            }
            Ok(Started::Empty) => {
                self.answer(&Answer::last(result_code::OK));
                return Ok(());
            }
            Err(code) => {
                self.answer_code(code);
                return Ok(());
            }
        };
        let compresses = message.head.info1.contains(Info1::COMPRESS_RESPONSE);
        loop {
            let at = self.outbox.len();
            let step = query.step(&mut self.outbox);
            if compresses {
                compress_frames(&mut self.outbox, at);
            }
            self.check_memory()?;
            match step {
                Step::Done => return Ok(()),
                Step::More => {
                    self.send().await?;
                    // Other connections of this thread are to be served between two chunks.
                    tokio::task::yield_now().await;
                }
                Step::Wait(time) => {
                    self.send().await?;
                    tokio::time::sleep(time).await;
                }
            }
        }
    }
}

/// Compresses each frame of `out` from `at` on.
fn compress_frames(out: &mut Vec<u8>, at: usize) {
    let plain = out.split_off(at);
    let mut rest = plain.as_slice();
    while let Some(Ok(frame)) = Frame::peek(rest) {
        let (one, behind) = rest.split_at((FRAME_HEADER_BYTES + frame.body_len).min(rest.len()));
        let at = out.len();
        out.extend_from_slice(one);
        compression::compress(out, at);
        rest = behind;
    }
}

/// Waits until a record is this writer's and has been kept for the time. `None`: it is not to be kept. Otherwise the code
/// of the answer. When the server stops, nothing is waited for.
async fn hold(
    served: &ServedNamespace,
    held: &HeldRecords,
    set: &[u8],
    digest: Digest,
    limit: Duration,
    stopping: &watch::Receiver<bool>,
) -> Result<Option<HeldRecord>, u8> {
    let Some(time) = held.time_of(set) else {
        return Ok(None);
    };
    let Some(queued) = held.queue(digest, served.namespace.max_waiters()) else {
        served.namespace.note_contention(&digest, true);
        return Err(result_code::KEY_BUSY);
    };
    if queued.must_wait {
        served.namespace.note_contention(&digest, false);
    }
    let turn = timeout(limit, queued.turn()).await;
    let record = turn.map_err(|_| result_code::TIMEOUT)?;
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = told_to_stop(stopping.clone()) => {}
    }
    Ok(Some(record))
}

/// Waits until the server is told to stop.
async fn told_to_stop(mut stopping: watch::Receiver<bool>) {
    // An error means that nobody can tell any more.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Sends all of `response_buffer` and empties it.
async fn send(
    stream: &mut TcpStream,
    outbox: &mut ResponseBuffer<'_>,
    stopping: &watch::Receiver<bool>,
) -> Result<(), Closed> {
    for chunk in outbox.chunks(STALL_BYTES) {
        // The usual answer fits into the socket's buffer; then no timer is needed.
        let sent = match stream.try_write(chunk) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error.into()),
        };
        let rest = chunk.get(sent..).unwrap_or_default();
        if !rest.is_empty() {
            let stopped = async {
                told_to_stop(stopping.clone()).await;
                tokio::time::sleep(STOP_GRACE).await;
            };
            tokio::select! {
                sent = timeout(STALL, stream.write_all(rest)) => {
                    sent.map_err(|_| Closed::Stalled)??;
                }
                () = stopped => return Err(Closed::Stopping),
            }
        }
    }
    outbox.clear();
    Ok(())
}

/// Whether writes wait for a device.
fn waits_for_sync(served: &ServedNamespace) -> bool {
    served.namespace.options().durability == Durability::Commit
}

/// Runs what may wait for a device where it does not hold up the other connections of this thread.
fn may_wait<R>(served: &ServedNamespace, verb: Verb, run: impl FnOnce() -> R) -> R {
    if verb != Verb::Read && waits_for_sync(served) {
        tokio::task::block_in_place(run)
    } else {
        run()
    }
}

/// Counts a connection as open while it lives.
#[derive(Debug)]
pub(crate) struct Open(Arc<Shared>);

impl Open {
    /// Counts one more, unless there are too many.
    pub(crate) fn count(shared: &Arc<Shared>) -> Option<Self> {
        let connections = &shared.connections;
        let before = connections.open.fetch_add(1, Ordering::Relaxed);
        let open = Self(Arc::clone(shared));
        if before >= shared.limits.max_connections as u64 {
            connections.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        connections.opened.fetch_add(1, Ordering::Relaxed);
        Some(open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.open.fetch_sub(1, Ordering::Relaxed);
    }
}
