//! Reading the records of some buckets in batches, as sorted shards.

use super::calendar::Micros;
use super::layout::{Part, Span};
use super::steps::{Found, Steps};
use crate::shard::scheme::Epoch;
use crate::shard::sorted::{self, Lists};
use crate::value::Value;
use crate::{Error, Operation, RecordCall, RecordSet};

/// Why buckets cannot be read.
#[derive(Debug)]
pub(super) enum Unread {
    /// The root has gone on: read it again.
    Stale,
    Failed(Error),
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A read of several records.
pub(super) type Reading<T> = std::result::Result<T, Unread>;

/// How many records are read in one batch, unless a bucket has more.
const BATCH_RECORDS: u64 = 64;

/// Reads buckets of one collection.
pub(super) struct Reader<'a, R> {
    pub(super) steps: &'a Steps<R>,
    pub(super) epoch: Epoch,
}

impl<R: RecordSet> Reader<'_, R> {
    /// How many buckets are read in one batch.
    const fn buckets(&self) -> usize {
        let buckets = BATCH_RECORDS / self.steps.layout.shards;
        if buckets == 0 { 1 } else { buckets as usize }
    }

    pub(super) fn batches(&self, span: Span) -> impl Iterator<Item = Vec<Part>> {
        self.batches_of(span, self.buckets())
    }

    /// The first batch has one bucket, each further one twice as many.
    pub(super) fn growing_batches(&self, span: Span) -> impl Iterator<Item = Vec<Part>> {
        self.batches_of(span, 1)
    }

    fn batches_of(&self, span: Span, first: usize) -> impl Iterator<Item = Vec<Part>> {
        let layout = self.steps.layout;
        let most = self.buckets();
        let mut buckets = layout.buckets(span.first, span.last);
        let mut size = first;
        std::iter::from_fn(move || {
            let batch: Vec<_> = buckets
                .by_ref()
                .take(size)
                .flat_map(|bucket| layout.parts(bucket))
                .collect();
            size = most.min(size * 2);
            (!batch.is_empty()).then_some(batch)
        })
    }

    /// The first time of these buckets, and the first one behind them.
    pub(super) fn ends(&self, parts: &[Part]) -> (Micros, Micros) {
        let start = |part: Option<&Part>| part.map_or(0, |part| part.bucket.0);
        let end = start(parts.last()) + self.steps.layout.width.seconds();
        (
            Micros(start(parts.first()) * 1_000_000),
            Micros(end * 1_000_000),
        )
    }

    pub(super) fn of(&self, parts: Vec<Part>) -> Parts<'_, R> {
        Parts {
            steps: self.steps,
            epoch: self.epoch,
            parts,
        }
    }
}

/// The records of some buckets.
pub(super) struct Parts<'a, R> {
    steps: &'a Steps<R>,
    epoch: Epoch,
    parts: Vec<Part>,
}

impl<R: RecordSet> sorted::Parts for Parts<'_, R> {
    type Bin = Lists;
    type Error = Unread;

    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn bin(&self) -> &str {
        &self.steps.bin
    }

    /// `None`: nothing has been added to it.
    fn ask(&self, asked: Vec<(usize, Operation)>) -> Reading<Vec<Option<Value>>> {
        let steps = self.steps;
        let asked: Vec<_> = asked
            .into_iter()
            .filter_map(|(number, operation)| {
                let part = *self.parts.get(number)?;
                let [shard_of, frozen] = Steps::<R>::description();
                Some((part, [shard_of, frozen, operation]))
            })
            .collect();
        let calls: Vec<_> = asked
            .iter()
            .map(|(part, operations)| RecordCall {
                policy: steps.policy(),
                key: steps.layout.key(&steps.key, *part),
                operations,
            })
            .collect();
        let operated = steps.records.operate_on_each(&calls);
        let answers = asked.iter().zip(operated).map(|((part, _), operated)| {
            let operated = match operated {
                // Nothing was added yet, or all of it has expired.
                Err(Error::NotFound { .. }) => return Ok(None),
                operated => operated?,
            };
            match steps.described(*part, operated.value(0), operated.value(1))? {
                Found::At(epoch) if epoch == self.epoch => match operated.value(2) {
                    Some(answer) => Ok(Some(answer.clone())),
                    None => Err(Error::bin_not_found(steps.bin.clone()).into()),
                },
                Found::At(epoch) | Found::Placed(epoch, _) if epoch > self.epoch => {
                    Err(Unread::Stale)
                }
                // Left over, or not open yet.
                _ => Ok(None),
            }
        });
        answers.collect()
    }
}
