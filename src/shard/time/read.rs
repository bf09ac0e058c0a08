//! Reading the records of some buckets in batches, as sorted shards.

use super::layout::Part;
use super::steps::{Found, Steps};
use crate::operations::lists;
use crate::shard::merge::{Slice, Sorted, SortedShards, Start};
use crate::shard::scheme::Epoch;
use crate::value::Value;
use crate::{Error, ListReturnType, Operation, RecordCall, RecordSet};

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

/// An element of a bucket's list: a pair of its time and what was added.
#[derive(Clone, Debug)]
pub(super) struct Timed(pub(super) Value);

impl Sorted for Timed {
    fn sorted_by(&self) -> &Value {
        &self.0
    }
}

/// The records of some buckets.
pub(super) struct Parts<'a, R> {
    pub(super) steps: &'a Steps<R>,
    pub(super) epoch: Epoch,
    pub(super) parts: Vec<Part>,
}

impl<R: RecordSet> Parts<'_, R> {
    /// Asks some of the records, in one batch. `None`: nothing has been added to it.
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
                Err(Error::NotFound) => return Ok(None),
                operated => operated?,
            };
            match steps.described(*part, operated.value(0), operated.value(1))? {
                Found::At(epoch) if epoch == self.epoch => match operated.value(2) {
                    Some(answer) => Ok(Some(answer.clone())),
                    None => Err(Error::BinNotFound(steps.bin.clone()).into()),
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

impl<R: RecordSet> SortedShards for Parts<'_, R> {
    type Item = Timed;
    type Error = Unread;

    fn shards(&self) -> usize {
        self.parts.len()
    }

    fn counts(
        &mut self,
        shards: &[usize],
        from: Option<&Value>,
        to: Option<&Value>,
    ) -> Reading<Vec<u64>> {
        let bin = &self.steps.bin;
        let count = match (from, to) {
            (None, None) => lists::size(bin),
            (from, to) => {
                let count = ListReturnType::Count;
                lists::get_by_value_range(bin, from.cloned(), to.cloned(), count)
            }
        };
        let asked = shards.iter().map(|shard| (*shard, count.clone())).collect();
        let answers = self.ask(asked)?.into_iter();
        Ok(answers
            .map(|answer| match answer {
                Some(Value::Int(count)) => count.max(0) as u64,
                _ => 0,
            })
            .collect())
    }

    fn slices(&mut self, slices: &[Slice]) -> Reading<Vec<Vec<Timed>>> {
        let values = ListReturnType::Values;
        let bin = &self.steps.bin;
        let asked = slices.iter().map(|slice| {
            let limit = slice.to_read();
            let read = match &slice.start {
                Start::Rank(rank) => {
                    let index = i64::try_from(*rank).unwrap_or(i64::MAX);
                    lists::get_by_index_range_count(bin, index, limit, values)
                }
                Start::At(value) | Start::After(value) => {
                    let value = value.clone();
                    lists::get_by_value_relative_rank_range_count(bin, value, 0, limit, values)
                }
            };
            (slice.shard, read)
        });
        let answers = self.ask(asked.collect())?;
        let slices = slices.iter().zip(answers).map(|(slice, answer)| {
            let items = match answer {
                Some(Value::List(items)) => items.into_items(),
                _ => Vec::new(),
            };
            Ok(slice.of(items.into_iter().map(Timed).collect())?)
        });
        slices.collect()
    }
}
