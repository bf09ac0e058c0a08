//! Queries in the background: operations on all records of a set, after the client was answered.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spikelet_storage::PARTITIONS;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::command::CommandRefusal;
use super::counters::RequestOutcome;
use super::function::RecordFunction;
use super::function_call::FunctionCall;
use super::job::Job;
use super::query::{LastSet, is_own};
use super::query_counters::JobEnd;
use super::result_code;
use super::served::ServedNamespace;
use super::shared::ServerShared;
use crate::engine::DigestAddress;
use crate::operation::{Checked, Mode, Operation, OperationResults};
use crate::query::Query;
use crate::rate_limit::Pace;
use crate::{Digest, Error, Expression, Namespace, WritePolicy};

/// How long a function may take for a record.
pub(crate) const CALL_TIME: Duration = Duration::from_secs(1);

/// Operations to be done on all records of a set.
#[derive(Debug)]
pub(crate) struct BackgroundJob {
    pub(crate) namespace: Namespace,
    pub(crate) query: Query,
    pub(crate) filter: Option<Expression>,
    pub(crate) work: Work,
    pub(crate) policy: WritePolicy,
    pub(crate) mode: Mode,
    pub(crate) pace: Pace,
    pub(crate) job: Arc<Job>,
}

/// What is done to each record.
#[derive(Debug)]
pub(crate) enum Work {
    Operations(Vec<Operation>),
    Function(FunctionCall),
}

/// What a job keeps from record to record.
struct JobRun<'a> {
    /// `None`: a function is called.
    checked: Option<&'a Checked<'a>>,
    served: &'a ServedNamespace,
    scratch: Vec<u8>,
    set_name: LastSet,
}

impl BackgroundJob {
    /// Runs to the end, or until it is aborted or the server stops, and counts what became of it. Blocks.
    pub(crate) fn run(&self, shared: &ServerShared) {
        let Some(served) = shared.namespace(self.namespace.name().as_bytes()) else {
            return self.job.finish(JobEnd::Aborted);
        };
        let how = match self.visit_all(shared, served) {
            true => JobEnd::Complete,
            false => JobEnd::Aborted,
        };
        self.job.finish_and_count(how, served);
        let operations = match self.work {
            Work::Operations(_) => &served.counters.background_operations,
            Work::Function(_) => &served.counters.background_functions,
        };
        for (outcome, count) in [
            (RequestOutcome::Success, &self.job.succeeded),
            (RequestOutcome::Error, &self.job.failed),
            (RequestOutcome::FilteredOut, &self.job.filtered),
        ] {
            operations.add_many(outcome, count.get());
        }
    }

    /// False: it was aborted.
    fn visit_all(&self, shared: &ServerShared, served: &ServedNamespace) -> bool {
        let operations = match &self.work {
            Work::Operations(operations) => operations.as_slice(),
            Work::Function(_) => &[],
        };
        let checked = match operations {
            [] => None,
            operations => match Checked::new(operations, self.mode) {
                Ok(checked) => Some(checked),
                Err(_) => return false,
            },
        };
        let mut run = JobRun {
            checked: checked.as_ref(),
            served,
            scratch: Vec::new(),
            set_name: LastSet::default(),
        };
        let mut goes_on = true;
        let visited =
            self.query
                .each_digest(None, &mut |damage| self.job.fail(&damage), |digest| {
                    goes_on = self.visit(shared, &digest, &mut run);
                    self.job.progress(digest.partition(), PARTITIONS);
                    Ok(match goes_on {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    })
                });
        if let Err(error) = &visited {
            self.job.fail(error);
        }
        if goes_on {
            self.job.progress(PARTITIONS, PARTITIONS);
        }
        visited.is_ok() && goes_on
    }

    /// Operates on a record, when the rate allows. False: the job is to end.
    fn visit(&self, shared: &ServerShared, digest: &Digest, run: &mut JobRun<'_>) -> bool {
        let is_ending = || self.job.is_aborted() || shared.is_closing();
        let mut wait = self.pace.wait();
        let waits = u64::from(wait.is_some());
        self.job.throttled.add(waits);
        while let Some(time) = wait.filter(|_| !is_ending()) {
            std::thread::sleep(time);
            wait = self.pace.wait();
        }
        if is_ending() {
            return false;
        }
        self.operate(digest, run);
        self.pace.count();
        true
    }

    fn operate(&self, digest: &Digest, run: &mut JobRun<'_>) {
        let found = self.query.read_fitting(digest, |stored| stored.set_id());
        let set = match found {
            Ok(Some(set_id)) => run.set_name.of(&self.namespace, set_id),
            // Deleted meanwhile, or not in the index.
            Ok(None) => return,
            Err(damage) => return self.job.fail(&damage),
        };
        // Monitors belong to their transactions.
        if is_own(set) {
            return;
        }
        let address = DigestAddress {
            digest: *digest,
            set,
            key: None,
        };
        let counter = match self.change(&address, run.served, run.checked, &mut run.scratch) {
            Ok(()) => &self.job.succeeded,
            Err(CommandRefusal::Refused(refused))
                if matches!(refused.error, Error::NotFound { .. }) =>
            {
                return;
            }
            Err(CommandRefusal::Refused(refused))
                if matches!(refused.error, Error::FilteredOut { .. }) =>
            {
                &self.job.filtered
            }
            Err(_) => &self.job.failed,
        };
        counter.count();
    }

    /// Runs a function while its record is its own.
    fn alone(
        &self,
        address: &DigestAddress<'_>,
        run: impl FnOnce() -> Result<(), CommandRefusal>,
    ) -> Result<(), CommandRefusal> {
        // Without a runtime no client's request can hold the record.
        let Ok(runtime) = Handle::try_current() else {
            return run();
        };
        let mut attempt = self.namespace.attempt();
        self.namespace.queue(&mut attempt, &address.digest)?;
        let granted = runtime.block_on(async { timeout(CALL_TIME, attempt.ready()).await });
        if granted.is_err() {
            return Err(CommandRefusal::Code(result_code::TIMEOUT));
        }
        let done = attempt.run(run);
        if let Some(lsn) = attempt.take_unsynced() {
            runtime.block_on(self.namespace.durable(lsn))?;
        }
        done
    }

    /// The results are for nobody.
    fn change(
        &self,
        address: &DigestAddress<'_>,
        served: &ServedNamespace,
        checked: Option<&Checked<'_>>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), CommandRefusal> {
        let filter = self.filter.as_ref();
        match (&self.work, checked) {
            (Work::Function(call), _) => {
                let function = RecordFunction {
                    served,
                    call,
                    filter,
                    policy: &self.policy,
                    effects: &served.counters.background_effects,
                };
                let ends = Instant::now() + CALL_TIME;
                self.alone(address, || {
                    let applied = function.apply(address, ends, scratch, |_| Ok(()));
                    applied.map(drop)
                })
            }
            (Work::Operations(_), Some(checked)) => {
                let (policy, mut ignored) = (&self.policy, OperationResults::default());
                self.namespace
                    .write_at(address, filter, policy, checked, scratch, &mut ignored)?;
                Ok(())
            }
            (Work::Operations(_), None) => Ok(()),
        }
    }
}
