//! Where a query finds records, and how it goes through them.

use crate::Digest;
use crate::engine::{NextEntry, PartitionQuery, PartitionStart};
use crate::server::condition::IndexCondition;
use crate::server::job::Job;
use crate::server::served::ServedNamespace;

/// Where a query finds records.
#[derive(Debug)]
pub(super) enum RecordSource {
    Index(Box<PartitionQuery>),
    Partitions {
        /// Each with the digest behind which to begin.
        starts: Vec<(u16, Option<Digest>)>,
        /// The partition that is visited next.
        next: usize,
        /// Digests of the partition that is being visited, the next one last.
        current: Vec<Digest>,
    },
}

/// What a query meets next.
pub(super) enum NextRecord {
    /// A record, and its number in the index.
    Record(Digest, Option<i64>),
    /// It is time to look at the client.
    Pause,
    End,
}

/// How much may be looked at before the next look at the client.
pub(super) struct Allowance {
    pub(super) partitions: usize,
    pub(super) entries: usize,
}

/// A partition, and the last record that the client has of it: its value in the index, if it names one, and its digest.
pub(super) type QueryStart = (u16, Option<(Option<i64>, Digest)>);

impl RecordSource {
    pub(super) fn new(condition: Option<&IndexCondition>, starts: Vec<QueryStart>) -> Self {
        let Some(condition) = condition else {
            let behind =
                |(partition, behind): QueryStart| (partition, behind.map(|(_, digest)| digest));
            return Self::Partitions {
                starts: starts.into_iter().map(behind).collect(),
                next: 0,
                current: Vec::new(),
            };
        };
        let starts = starts.into_iter().map(|(partition, behind)| {
            let start = match behind {
                Some((Some(value), digest)) => PartitionStart::Behind(value, digest),
                // Without a value nothing of the partition has come yet.
                _ => PartitionStart::Beginning,
            };
            (usize::from(partition), start)
        });
        let query = PartitionQuery::new(&condition.index, &condition.bound, starts);
        Self::Index(Box::new(query))
    }

    /// Moves on to the next record of the set `set_id`, or of all sets. Damage that keeps digests from
    /// being found is a failure of `job`.
    pub(super) fn next_record(
        &mut self,
        served: &ServedNamespace,
        set_id: Option<u16>,
        job: &Job,
        allowance: &mut Allowance,
    ) -> NextRecord {
        let (starts, next, current) = match self {
            Self::Index(query) => {
                return match query.advance(&mut allowance.entries) {
                    NextEntry::Found { value, digest } => {
                        query.prefetch(&served.namespace);
                        NextRecord::Record(digest, Some(value))
                    }
                    NextEntry::Paused => NextRecord::Pause,
                    NextEntry::End => NextRecord::End,
                };
            }
            Self::Partitions {
                starts,
                next,
                current,
            } => (starts, next, current),
        };
        loop {
            if let Some(digest) = current.pop() {
                return NextRecord::Record(digest, None);
            }
            let Some((partition, after)) = starts.get(*next) else {
                return NextRecord::End;
            };
            let Some(less) = allowance.partitions.checked_sub(1) else {
                return NextRecord::Pause;
            };
            allowance.partitions = less;
            *next += 1;
            *current = served.namespace.digests_of(
                usize::from(*partition),
                set_id,
                after.as_ref(),
                |damage| job.fail(&damage),
            );
            current.reverse();
        }
    }
}
