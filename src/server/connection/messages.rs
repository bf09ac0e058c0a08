//! What a client's messages ask for: one record, a batch or a query.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::io::Interest;

use super::{Closed, Connection};
use crate::server::batch::Batch;
use crate::server::command::RecordCommand;
use crate::server::compression::{compress, compress_frames};
use crate::server::counters::RequestOutcome;
use crate::server::fields::Field;
use crate::server::frame::{FRAME_HEADER_BYTES, FrameKind, close_frame, open_frame};
use crate::server::message::{Info1, Message, Verb};
use crate::server::query::{self, QueryStep};
use crate::server::reply::AnswerHeader;
use crate::server::result_code;
use crate::server::served::ServedNamespace;
use crate::server::transaction::part::TransactionPart;
use crate::server::waiting::Requests;
use crate::stats::OperationKind;
use crate::{Digest, Expression};

impl Connection<'_> {
    pub(super) async fn execute_message(&mut self, body: &[u8]) -> Result<(), Closed> {
        if let Err(code) = self.session.access.logged_in() {
            self.shared.counters.early_refusals.count();
            self.refuse(body, code);
            return Ok(());
        }
        let Some(message) = Message::parse(body) else {
            self.shared.counters.malformed.count();
            self.refuse(body, result_code::PARAMETER);
            return Ok(());
        };
        if message.head.info1.contains(Info1::BATCH) {
            return self.count_batch(&message).await;
        }
        let shared = self.shared;
        let name = message.fields.get(Field::Namespace);
        let Some(served) = name.and_then(|name| shared.namespace(name)) else {
            shared.counters.early_refusals.count();
            self.answer_code(result_code::NAMESPACE);
            return Ok(());
        };
        let Some(digest) = message.fields.get(Field::Digest) else {
            let began = Instant::now();
            let done = self.run_query(served, &message).await;
            served.queries.add(began.elapsed());
            let query = OperationKind::Query;
            served.namespace.note_operation(query, began);
            return done;
        };
        let Ok(digest) = digest.try_into() else {
            served.counters.unexecuted.count();
            self.answer_code(result_code::PARAMETER);
            return Ok(());
        };
        self.run_command(served, message, Digest::new(digest)).await
    }

    /// Operates on one record.
    async fn run_command(
        &mut self,
        served: &ServedNamespace,
        message: Message<'_>,
        digest: Digest,
    ) -> Result<(), Closed> {
        let began = Instant::now();
        let filter = message.fields.get(Field::Filter);
        let filter = filter.map(|encoded| Expression::of_encoded(encoded.into()));
        let command = RecordCommand {
            part: TransactionPart::of(&message),
            message,
            digest,
            filter: filter.as_ref(),
            row: None,
            served,
        };
        let mut requests = Requests::new(began + command.timeout());
        let (at, mut code) = loop {
            let at = open_frame(&mut self.outbox);
            let from = (&mut self.session.access, served);
            if let Some(code) = requests.make(from, &command, &mut self.outbox) {
                break (at, code);
            }
            self.outbox.truncate(at);
            if !self.outbox.is_empty() {
                // The client may take its answers slowly: no record waits for that.
                requests.leave_queue();
                self.send().await?;
            }
            requests.wait(self.shared).await;
        };
        if let Err(in_doubt) = requests.synced().await {
            self.outbox.truncate(at + FRAME_HEADER_BYTES);
            code = command.refuse(in_doubt, &mut self.outbox);
        }
        command.count(code);
        close_frame(&mut self.outbox, at, FrameKind::Message);
        if message.head.info1.contains(Info1::COMPRESS_RESPONSE) {
            compress(&mut self.outbox, at);
            self.check_memory()?;
        }
        let latency = match command.verb() {
            Verb::Read => &served.reads,
            _ => &served.writes,
        };
        latency.add(began.elapsed());
        Ok(())
    }

    /// Runs a batch and counts how it ended.
    async fn count_batch(&mut self, message: &Message<'_>) -> Result<(), Closed> {
        let began = Instant::now();
        let counters = &self.shared.counters;
        counters.batches_begun.count();
        let ended = self.run_batch(message).await;
        // If the client goes away, the batch counts as failed.
        let code = *ended.as_ref().unwrap_or(&result_code::OVERLOAD);
        counters.batches.add(RequestOutcome::of(code), 1);
        self.shared.batches.add(began.elapsed());
        ended.map(drop)
    }

    /// Returns the code of the last message.
    async fn run_batch(&mut self, message: &Message<'_>) -> Result<u8, Closed> {
        let shared = self.shared;
        let mut batch = match Batch::start(shared, self.session.access.clone(), message) {
            Ok(batch) => batch,
            Err(code) => {
                self.answer(&AnswerHeader::last(code));
                return Ok(code);
            }
        };
        let compresses = message.head.info1.contains(Info1::COMPRESS_RESPONSE);
        loop {
            let at = self.outbox.len();
            let more = batch.step(&mut self.outbox);
            if more && !self.outbox.is_empty() {
                batch.requests.leave_queue();
            }
            if let Err(in_doubt) = batch.requests.synced().await {
                // Rows that are not answered are in doubt, too.
                self.outbox.truncate(at);
                self.answer(&AnswerHeader::last(in_doubt));
                return Ok(in_doubt);
            }
            if compresses {
                compress_frames(&mut self.outbox, at);
            }
            self.check_memory()?;
            if !more {
                return Ok(batch.end.unwrap_or(result_code::OK));
            }
            self.send().await?;
            batch.requests.wait(shared).await;
        }
    }

    async fn run_query(
        &mut self,
        served: &Arc<ServedNamespace>,
        message: &Message<'_>,
    ) -> Result<(), Closed> {
        let shared = self.shared;
        let may = self.session.access.query(served, message);
        let begun = may.and_then(|limit| {
            let client = &self.session.peer;
            query::start(shared, served, message, client, limit)
        });
        let mut query = match begun {
            Ok(Some(query)) if !query.is_change() => query,
            Ok(in_background) => {
                if let Some(query) = in_background {
                    tokio::task::spawn_blocking(move || query.run_alone());
                }
                self.answer(&AnswerHeader::last(result_code::OK));
                return Ok(());
            }
            Err(code) => {
                served.counters.unexecuted.count();
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
            // Nothing is sent that would notice it.
            if step != QueryStep::Done && self.outbox.is_empty() && self.is_client_gone() {
                return Err(Closed::Io(io::ErrorKind::ConnectionAborted.into()));
            }
            match step {
                QueryStep::Done => return Ok(()),
                QueryStep::More => {
                    self.send().await?;
                    // Other connections of this thread are served between two chunks.
                    tokio::task::yield_now().await;
                }
                QueryStep::Wait(time) => {
                    self.send().await?;
                    tokio::time::sleep(time).await;
                }
            }
        }
    }

    /// Returns whether the client has closed the connection, as far as that has arrived.
    fn is_client_gone(&self) -> bool {
        let ready = pin!(self.stream.socket().ready(Interest::READABLE));
        match ready.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ready) => ready.is_ok_and(|ready| ready.is_read_closed()),
            Poll::Pending => false,
        }
    }

    /// Answers a message that is not looked at. Who asked for many answers waits for the one that
    /// is marked as the last.
    fn refuse(&mut self, body: &[u8], code: u8) {
        self.answer(&if Message::asks_for_many(body) {
            AnswerHeader::last(code)
        } else {
            AnswerHeader::code(code)
        });
    }

    pub(super) fn answer_code(&mut self, code: u8) {
        self.answer(&AnswerHeader::code(code));
    }

    fn answer(&mut self, answer: &AnswerHeader) {
        answer.write_framed(&mut self.outbox);
    }
}
