//! One client's connection: requests are read, executed and answered in their order, on the
//! connection's own task.

mod messages;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use zeroize::{Zeroize, Zeroizing};

use super::compression;
use super::frame::{FRAME_HEADER_BYTES, Frame, FrameError, FrameKind, close_frame, open_frame};
use super::info::{self, Session};
use super::memory_budget::{ConnectionShare, FREE_BYTES, NoRoom};
use super::response_buffer::ResponseBuffer;
use super::security::Access;
use super::shared::ServerShared;
use super::stream::ClientStream;

/// The buffer of requests begins with this, and returns to it after a large one.
const BUFFER_BYTES: usize = 16 << 10;

/// Answers to requests that arrived together are sent together, up to this size.
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
    #[error("a message of {0} bytes before a login")]
    Unknown(usize),
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
    shared: &'s Arc<ServerShared>,
    stream: Box<dyn ClientStream>,
    session: Session,
    /// Received bytes. Requests from `read` on are not executed yet.
    inbox: Vec<u8>,
    read: usize,
    outbox: ResponseBuffer<'s>,
    memory: ConnectionShare<'s>,
    /// Ends when the server stops. Kept over all requests, since a new one for each would cost two
    /// locks.
    stopped: Pin<Box<dyn Future<Output = ()> + Send + 's>>,
}

/// Serves a connection to its end.
pub(crate) async fn serve(shared: Arc<ServerShared>, stream: Box<dyn ClientStream>) {
    let run = async {
        let socket = stream.socket();
        let (local, peer) = (socket.local_addr()?, socket.peer_addr()?);
        let connection = Connection {
            shared: &shared,
            session: Session {
                is_encrypted: stream.is_encrypted(),
                local,
                peer: peer.to_string(),
                user_agent: None,
                access: Access::new(shared.security.clone(), peer.ip()),
            },
            stream,
            inbox: Vec::with_capacity(BUFFER_BYTES),
            read: 0,
            outbox: ResponseBuffer::new(shared.budget.share()),
            memory: shared.budget.share(),
            stopped: Box::pin(shared.told_to_stop()),
        };
        connection.run().await
    };
    let ended = run.await;
    match &ended {
        Err(Closed::Idle) => shared.counters.idle_closes.count(),
        Err(Closed::Frame(_) | Closed::Compression) => shared.counters.malformed.count(),
        _ => {}
    }
    match ended {
        Ok(()) => tracing::debug!("connection closed"),
        Err(Closed::Io(error)) => tracing::debug!(%error, "connection lost"),
        Err(why) => tracing::warn!(%why, "connection closed"),
    }
}

impl Connection<'_> {
    async fn run(mut self) -> Result<(), Closed> {
        // Requests and answers are small and waited for.
        self.stream.socket().set_nodelay(true)?;
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
        // A login is short, and so is what clients ask before it.
        if frame.body_len > FREE_BYTES && !self.session.access.is_known() {
            return Err(Closed::Unknown(frame.body_len));
        }
        let whole = rest.len() - FRAME_HEADER_BYTES >= frame.body_len;
        Ok(whole.then_some(frame))
    }

    /// Drops executed requests and makes room for more: twice the bytes of the message that have
    /// arrived, not the length that its header announces.
    fn make_room(&mut self) -> Result<(), Closed> {
        self.inbox.drain(..self.read);
        self.read = 0;
        if self.inbox.is_empty() && self.inbox.capacity() > BUFFER_BYTES {
            self.inbox = Vec::with_capacity(BUFFER_BYTES);
        }
        self.outbox.shrink();
        let free = self.inbox.capacity() - self.inbox.len();
        if free == 0 || (self.inbox.len() > BUFFER_BYTES && free < BUFFER_BYTES) {
            let whole = Frame::peek(&self.inbox)
                .transpose()?
                .map_or(0, |frame| frame.body_len + FRAME_HEADER_BYTES);
            let capacity = (2 * self.inbox.len())
                .min(whole)
                .max(self.inbox.len() + BUFFER_BYTES);
            let room = self.memory.resize(capacity);
            room.map_err(|NoRoom| Closed::NoMemory(whole))?;
            self.inbox.reserve_exact(capacity - self.inbox.len());
        }
        let capacity = self.inbox.capacity();
        let room = self.memory.resize(capacity);
        room.map_err(|NoRoom| Closed::NoMemory(capacity))
    }

    /// Accounts for an answer that was added to without asking for each piece.
    fn check_memory(&mut self) -> Result<(), Closed> {
        let room = self.outbox.account();
        room.map_err(|NoRoom| Closed::NoMemory(self.outbox.len()))
    }

    /// Waits for the first bytes of a request. None come when the server stops.
    async fn receive_first(&mut self) -> Result<usize, Closed> {
        let receive = self.stream.read_buf(&mut self.inbox);
        let receive = async {
            match self.shared.limits.idle_timeout() {
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

    /// Waits for more of a request, until the buffer is full or the request is there. A client that
    /// sends a byte now and then stalls like one that sends nothing.
    async fn receive_rest(&mut self) -> Result<usize, Closed> {
        let from = self.inbox.len();
        let stopped = self.shared.told_to_stop();
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
        for chunk in self.outbox.chunks(STALL_BYTES) {
            // The usual answer fits into the socket's buffer; then no timer is needed.
            let sent = match self.stream.try_write(chunk) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                sent => sent?,
            };
            let rest = chunk.get(sent..).unwrap_or_default();
            if rest.is_empty() {
                continue;
            }
            let stopped = async {
                self.shared.told_to_stop().await;
                tokio::time::sleep(STOP_GRACE).await;
            };
            let write = async {
                self.stream.write_all(rest).await?;
                self.stream.flush().await
            };
            tokio::select! {
                sent = timeout(STALL, write) => sent.map_err(|_| Closed::Stalled)??,
                () = stopped => return Err(Closed::Stopping),
            }
        }
        self.outbox.clear();
        Ok(())
    }

    async fn execute(&mut self, frame: Frame) -> Result<(), Closed> {
        let start = self.read + FRAME_HEADER_BYTES;
        let place = start..start + frame.body_len;
        match frame.kind {
            FrameKind::Info => {
                let body = self.inbox.get(place).unwrap_or_default().to_vec();
                let shared = Arc::clone(self.shared);
                self.run_blocking(frame.kind, move |session, out| {
                    info::answer(&shared, session, &body, out);
                })
                .await?;
                self.shared.counters.infos.count();
                Ok(())
            }
            FrameKind::Security => {
                let body = self.inbox.get_mut(place).unwrap_or_default();
                let secret = Zeroizing::new(body.to_vec());
                body.zeroize();
                // Few at once: passwords are hashed.
                let _permit = match &self.shared.security {
                    Some(security) => security.checks.acquire().await.ok(),
                    None => None,
                };
                self.run_blocking(frame.kind, move |session, out| {
                    session.access.administer(&secret, out);
                })
                .await
            }
            FrameKind::Message => {
                let inbox = std::mem::take(&mut self.inbox);
                let body = inbox.get(place).unwrap_or_default();
                let done = self.execute_message(body).await;
                self.inbox = inbox;
                done
            }
            FrameKind::Compressed => {
                // Few bytes may inflate to many, and only a login may be asked for before one.
                if let Err(code) = self.session.access.logged_in() {
                    self.answer_code(code);
                    return Ok(());
                }
                let body = self.inbox.get(place).unwrap_or_default();
                let inside = compression::inflate(body).ok_or(Closed::Compression)?;
                let mut memory = self.shared.budget.share();
                let room = memory.resize(inside.capacity());
                room.map_err(|NoRoom| Closed::NoMemory(inside.len()))?;
                self.execute_message(&inside).await
            }
        }
    }

    /// Answers a message on a thread for blocking work: some info commands visit all records, and
    /// security messages hash passwords and store changes.
    async fn run_blocking(
        &mut self,
        kind: FrameKind,
        run: impl FnOnce(&mut Session, &mut Vec<u8>) + Send + 'static,
    ) -> Result<(), Closed> {
        let mut session = self.session.clone();
        let answer = tokio::task::spawn_blocking(move || {
            let mut out = Vec::new();
            run(&mut session, &mut out);
            (session, out)
        });
        let (session, answer) = answer.await.map_err(io::Error::other)?;
        self.session = session;
        self.append(&answer, kind)
    }

    /// Appends an answer as a frame of its own.
    fn append(&mut self, answer: &[u8], kind: FrameKind) -> Result<(), Closed> {
        let needed = answer.len() + FRAME_HEADER_BYTES;
        let room = self.outbox.reserve(needed);
        room.map_err(|NoRoom| Closed::NoMemory(answer.len()))?;
        let at = open_frame(&mut self.outbox);
        self.outbox.extend_from_slice(answer);
        close_frame(&mut self.outbox, at, kind);
        Ok(())
    }
}
