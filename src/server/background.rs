//! Queries in the background: operations on all records of a set, after the client was answered.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use spikelet_storage::PARTITIONS;

use super::condition::Condition;
use super::job::{End, Job};
use super::rate_limit::RateLimit;
use super::shared::Shared;
use crate::engine::Address;
use crate::operation::{Checked, Mode, Operation, OperationResults};
use crate::{Digest, Error, Expression, Namespace, WritePolicy};

/// Operations to be done on all records of a set.
#[derive(Debug)]
pub(crate) struct Background {
    pub(crate) namespace: Namespace,
    pub(crate) set_id: Option<u16>,
    pub(crate) condition: Option<Condition>,
    pub(crate) filter: Option<Expression>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) policy: WritePolicy,
    pub(crate) mode: Mode,
    pub(crate) job: Arc<Job>,
}

impl Background {
    /// Runs to the end, or until it is aborted or the server stops. Blocks.
    pub(crate) fn run(&self, shared: &Shared) {
        let Ok(checked) = Checked::new(&self.operations, self.mode) else {
            self.job.finish(End::Aborted);
            return;
        };
        let mut pace = RateLimit::new(self.job.records_per_second);
        let mut scratch = Vec::new();
        let mut set_name = (0, String::new());
        for partition in 0..PARTITIONS {
            let digests = self
                .namespace
                .digests_of(partition, self.set_id, None, |damage| {
                    self.job.fail(&damage)
                });
            for digest in digests {
                if let Some(time) = pace.wait() {
                    self.job.throttled.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(time);
                }
                if self.job.is_aborted() || shared.is_closing() {
                    self.job.finish(End::Aborted);
                    return;
                }
                self.operate(&digest, &checked, &mut set_name, &mut scratch);
                pace.count();
            }
            self.job.progress(partition + 1, PARTITIONS);
        }
        self.job.finish(End::Complete);
    }

    fn operate(
        &self,
        digest: &Digest,
        checked: &Checked<'_>,
        set_name: &mut (u16, String),
        scratch: &mut Vec<u8>,
    ) {
        let namespace = &self.namespace;
        let found = namespace.read_scanned(digest, self.set_id, |record| {
            let set_id = record.set_id();
            if set_id != set_name.0 {
                *set_name = (set_id, namespace.set_name_of(set_id).unwrap_or_default());
            }
            let facts = namespace.facts(record, &set_name.1);
            self.condition
                .as_ref()
                .is_none_or(|condition| condition.matches_stored(record, &facts).is_some())
        });
        match found {
            Ok(Some(true)) => {}
            // Deleted meanwhile, or not in the index.
            Ok(_) => return,
            Err(damage) => return self.job.fail(&damage),
        }
        let address = Address {
            digest: *digest,
            set: &set_name.1,
            key: None,
        };
        // They only write; what they have to say is said to nobody.
        let mut ignored = OperationResults::default();
        let counter = match self.namespace.write_at(
            &address,
            self.filter.as_ref(),
            &self.policy,
            checked,
            scratch,
            &mut ignored,
        ) {
            Ok(_) => &self.job.succeeded,
            Err(refused) if matches!(refused.error, Error::NotFound { .. }) => return,
            Err(refused) if matches!(refused.error, Error::FilteredOut { .. }) => {
                &self.job.filtered
            }
            Err(_) => &self.job.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
