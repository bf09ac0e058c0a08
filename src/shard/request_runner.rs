//! Runs requests of the protocol on a set of records.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use super::content::Bin;
use super::executor::{EncodedRequest, Executor};
use super::protocol::{AtomicRequest, CompanionToken, Precondition, RequestEdit, RequestReply};
use crate::{Error, Key, RecordCall, RecordSet, Result};

/// Why a read of several records failed.
#[derive(Debug)]
pub(crate) enum ReadFailure<S> {
    /// A record has changed since it was found out which ones to read: the root must be read again.
    Stale(S),
    /// The store refused.
    Failed(Error),
}

impl<S> From<Error> for ReadFailure<S> {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// How often one call may read the root. Each time another transition has passed in between, or a
/// reader has begun to advance one: beyond this, other callers start transitions without end.
pub(crate) const ROOT_READS_MAX: u32 = 1_000;

/// The pause before a request that met a busy record is repeated.
const BUSY_PAUSE: Duration = Duration::from_micros(200);

/// Tokens are positive integers.
const TOKEN_BITS: u64 = (1 << 62) - 1;

thread_local! {
    static TOKENS: Cell<u64> = Cell::new(random());
}

fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// Returns a random token, with room behind it for as many machines that advance a transition as
/// there may be within one call. Each thread counts for itself: every call takes a token, and few
/// need it.
pub(crate) fn token() -> CompanionToken {
    let token =
        TOKENS.try_with(|next| next.replace(next.get().wrapping_add(ROOT_READS_MAX.into())));
    // A thread that is ending has no counter any more.
    CompanionToken(1 + (token.unwrap_or_else(|_| random()) & TOKEN_BITS))
}

impl Executor {
    /// Runs one request. A step that meets a busy record is repeated until the policy's timeout has
    /// passed since the call first met one; a caller's own write is refused at once.
    pub(crate) fn run<R: RecordSet>(
        &self,
        records: &R,
        request: &AtomicRequest<Bin>,
        busy_since: &mut Option<Instant>,
    ) -> Result<RequestReply<Bin>> {
        let encoded = self.encode_request(request);
        let is_placed = matches!(request.precondition, Precondition::Placed(..));
        if matches!(request.edit, RequestEdit::Delete)
            && !is_placed
            && records.may_bring_back(&encoded.policy)
        {
            // A restart may bring it back: closed, so that no writer reaches it by a route from
            // before the delete. A placed companion is closed, by the token that the delete asks
            // for.
            let frozen = AtomicRequest {
                edit: RequestEdit::Freeze,
                ..request.clone()
            };
            self.run(records, &frozen, busy_since)?;
        }
        loop {
            let operated = records.operate_on(&encoded.policy, &encoded.key, &encoded.operations);
            match operated {
                Err(Error::KeyBusy { .. })
                    if !matches!(request.edit, RequestEdit::User(_))
                        && encoded.policy.total_timeout.is_none_or(|limit| {
                            busy_since.get_or_insert_with(Instant::now).elapsed() < limit
                        }) =>
                {
                    std::thread::sleep(BUSY_PAUSE);
                }
                operated => return self.decode_reply(request, &encoded, operated),
            }
        }
    }

    /// Runs requests in one batch.
    pub(crate) fn run_each<R: RecordSet>(
        &self,
        records: &R,
        requests: &[AtomicRequest<Bin>],
    ) -> Vec<Result<RequestReply<Bin>>> {
        let encoded: Vec<EncodedRequest<'_>> = requests
            .iter()
            .map(|request| self.encode_request(request))
            .collect();
        let calls: Vec<_> = encoded
            .iter()
            .map(|encoded| RecordCall {
                policy: &encoded.policy,
                key: Key::from(&encoded.key),
                operations: &encoded.operations,
            })
            .collect();
        let operated = records.operate_on_each(&calls);
        drop(calls);
        let asked = requests.iter().zip(encoded).zip(operated);
        asked
            .map(|((request, encoded), operated)| self.decode_reply(request, &encoded, operated))
            .collect()
    }

    /// Returns the error for a call that others have kept from its end.
    pub(crate) fn restless(&self) -> Error {
        Error::Timeout {
            after: self.policy().total_timeout.unwrap_or_default(),
            in_doubt: false,
            record: None,
        }
    }
}
