//! What a client's messages ask for: one record, a batch or a query.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::timeout;

use super::{Closed, Connection, told_to_stop};
use crate::server::batch::Batch;
use crate::server::command::Command;
use crate::server::compression::{compress, compress_frames};
use crate::server::fields::Field;
use crate::server::frame::{FrameKind, close_frame, last_code, open_frame};
use crate::server::hold::{HeldRecord, HeldRecords};
use crate::server::message::{Info1, Message, Verb};
use crate::server::query::{self, Started, Step};
use crate::server::query_counters::{QueryCount, QueryKind, QueryOutcome};
use crate::server::reply::Answer;
use crate::server::result_code;
use crate::server::served::ServedNamespace;
use crate::stats::OperationKind;
use crate::{Digest, Durability, Expression};

impl Connection<'_> {
    pub(super) async fn execute_message(&mut self, body: &[u8]) -> Result<(), Closed> {
        let Some(message) = Message::parse(body) else {
            let malformed = &self.shared.counters.malformed;
            malformed.fetch_add(1, Ordering::Relaxed);
            // Who asked for many answers waits for the one that is marked as the last.
            match Message::asks_for_many(body) {
                true => self.answer(&Answer::last(result_code::PARAMETER)),
                false => self.answer_code(result_code::PARAMETER),
            }
            return Ok(());
        };
        if message.head.info1.contains(Info1::BATCH) {
            return self.count_batch(&message).await;
        }
        let shared = self.shared;
        let name = message.fields.get(Field::Namespace);
        let Some(served) = name.and_then(|name| shared.namespace(name)) else {
            let refusals = &shared.counters.early_refusals;
            refusals.fetch_add(1, Ordering::Relaxed);
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
            served.counters.unexecuted.fetch_add(1, Ordering::Relaxed);
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
        let command = Command {
            head: message.head,
            fields: message.fields,
            ops: message.ops,
            digest,
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
            compress(&mut self.outbox, at);
            self.check_memory()?;
        }
        let latency = match verb {
            Verb::Read => &served.reads,
            Verb::Write | Verb::Delete => &served.writes,
        };
        latency.add(began.elapsed());
        Ok(())
    }

    /// Runs a batch and counts how it ended.
    async fn count_batch(&mut self, message: &Message<'_>) -> Result<(), Closed> {
        let began = Instant::now();
        let counters = &self.shared.counters;
        counters.batches_begun.fetch_add(1, Ordering::Relaxed);
        let ended = self.run_batch(message).await;
        // Whoever goes away leaves a batch that failed.
        counters.end_batch(*ended.as_ref().unwrap_or(&result_code::OVERLOAD));
        self.shared.batches.add(began.elapsed());
        ended.map(drop)
    }

    /// Returns the code of the last message.
    async fn run_batch(&mut self, message: &Message<'_>) -> Result<u8, Closed> {
        let shared = self.shared;
        let mut batch = match Batch::start(shared, message) {
            Ok(batch) => batch,
            Err(code) => {
                self.answer(&Answer::last(code));
                return Ok(code);
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
                return Ok(batch.end().unwrap_or(result_code::OK));
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
        let counters = served
            .counters
            .queries(message.fields.has(Field::IndexRange));
        let short = message.head.info1.contains(Info1::SHORT_QUERY);
        let kind = match short {
            true => QueryKind::Short,
            false => QueryKind::Long,
        };
        let mut query = match query::start(shared, served, message, &self.session.peer) {
            Ok(Started::Query(query)) => query,
            Ok(Started::Background(background)) => {
                let shared = Arc::clone(shared);
                tokio::task::spawn_blocking(move || background.run(&shared));
                self.answer(&Answer::last(result_code::OK));
                return Ok(());
            }
            Ok(Started::Empty) => {
                counters.add(kind, QueryOutcome::Complete);
                self.answer(&Answer::last(result_code::OK));
                return Ok(());
            }
            Err(code) => {
                served.counters.unexecuted.fetch_add(1, Ordering::Relaxed);
                self.answer_code(code);
                return Ok(());
            }
        };
        let mut count = QueryCount {
            counters,
            kind,
            outcome: QueryOutcome::Error,
        };
        let compresses = message.head.info1.contains(Info1::COMPRESS_RESPONSE);
        loop {
            let at = self.outbox.len();
            let step = query.step(&mut self.outbox);
            let code = last_code(self.outbox.get(at..).unwrap_or_default());
            if compresses {
                compress_frames(&mut self.outbox, at);
            }
            self.check_memory()?;
            match step {
                Step::Done => {
                    count.outcome = QueryOutcome::of(kind, code);
                    return Ok(());
                }
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

    fn answer_code(&mut self, code: u8) {
        self.answer(&Answer::code(code));
    }

    fn answer(&mut self, answer: &Answer) {
        let at = open_frame(&mut self.outbox);
        answer.write(&mut self.outbox);
        close_frame(&mut self.outbox, at, FrameKind::Message);
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
