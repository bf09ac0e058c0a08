//! Queries in the background: operations on all records of a set, after the client was answered.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::command::CommandRefusal;
use super::function::{PlainRecord, RecordFunction};
use super::function_call::FunctionCall;
use super::result_code;
use super::served::ServedNamespace;
use super::shared::ServerShared;
use super::waiting::WaitingWrite;
use crate::engine::DigestAddress;
use crate::operation::{Checked, Mode, Operation, OperationResults};
use crate::{Digest, Expression, WritePolicy};

/// How long a function may take for a record, and how long it may wait for that.
const CALL_TIME: Duration = Duration::from_secs(1);

/// The change that a query makes to each of its records.
pub(crate) struct BackgroundChange {
    pub(crate) kind: BackgroundChangeKind,
    pub(crate) policy: WritePolicy,
    /// Asked again when the record is locked.
    pub(crate) filter: Option<Expression>,
}

pub(crate) enum BackgroundChangeKind {
    Operations(Vec<Operation>),
    Function(FunctionCall),
}

impl BackgroundChange {
    /// Changes a record of a set. The results are for nobody.
    pub(crate) fn make(
        &self,
        (shared, served): (&ServerShared, &ServedNamespace),
        digest: Digest,
        set: &str,
    ) -> Result<(), CommandRefusal> {
        let address = DigestAddress {
            digest,
            set,
            key: None,
            filter: self.filter.as_ref(),
        };
        let (namespace, policy) = (&served.namespace, &self.policy);
        match &self.kind {
            BackgroundChangeKind::Function(call) => {
                let function = RecordFunction {
                    served,
                    call,
                    policy,
                    effects: &served.counters.background_effects,
                };
                alone((shared, served), &digest, || {
                    let ends = Instant::now() + CALL_TIME;
                    let record = &mut PlainRecord {
                        served,
                        address,
                        must_exist: true,
                    };
                    let applied = function.apply(record, ends, |_| Ok(()));
                    applied.map(drop)
                })
            }
            BackgroundChangeKind::Operations(operations) => {
                let checked = Checked::new(operations, Mode::of(policy.replaces()))?;
                let mut ignored = OperationResults::default();
                namespace.write_at(&address, policy, &checked, &mut ignored)?;
                Ok(())
            }
        }
    }
}

/// Runs a function while its record is its own, again if a write of it must wait.
fn alone(
    (shared, served): (&ServerShared, &ServedNamespace),
    digest: &Digest,
    run: impl Fn() -> Result<(), CommandRefusal>,
) -> Result<(), CommandRefusal> {
    // Without a runtime no client's request can hold the record.
    let Ok(runtime) = Handle::try_current() else {
        return run();
    };
    let mut write = WaitingWrite::new(served);
    write.queue(digest, Duration::ZERO)?;
    loop {
        let space_ends = write.space_ends();
        let deadline = space_ends.unwrap_or_else(|| Instant::now() + CALL_TIME);
        runtime.block_on(write.wait(shared, deadline, Duration::ZERO));
        if write.is_late {
            return Err(result_code::TIMEOUT.into());
        }
        let done = write.run(&run);
        if !write.must_wait() {
            runtime.block_on(write.synced())?;
            return done;
        }
    }
}
