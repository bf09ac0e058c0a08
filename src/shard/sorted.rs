//! Lists and maps in bins as sorted shards: which operations they are read by.

use std::marker::PhantomData;

use super::content::{Act, Collection, ShardedKind, first};
use super::handle::{Pass, ShardedReading};
use super::merge::{self, Cut, RunStart, ShardSlice, Sorted, SortedShards};
use super::protocol::view::Rejection;
use super::request_runner::ReadFailure;
use crate::operations::{lists, maps};
use crate::{Error, ListReturnType, MapReturnType, Operation, RecordSet, Value};

/// A kind of bins that hold sorted items.
pub trait SortedBin: Sized {
    /// The type of the items.
    type Item: Sorted + Clone;

    /// Whether a bin that others have made is in order as well.
    const ALWAYS_IN_ORDER: bool;

    /// Counts the items that are not less than `from` (`None`: all), and less than `to` (`None`:
    /// all).
    fn count(bin: &str, from: Option<&Value>, to: Option<&Value>) -> Operation;

    /// Asks whether the item sorted by this value is there.
    fn has(bin: &str, value: &Value) -> Operation;

    /// Reads this many items from a position on; negative positions count from the end.
    fn read_at(bin: &str, rank: i64, limit: u64) -> Operation;

    /// Reads this many items from a distance to where this value is, or would be.
    fn read_near(bin: &str, value: &Value, distance: i64, limit: u64) -> Operation;

    /// Reads this many items from a position on or, if there is a cursor, the first ones behind
    /// that, and the cursor itself.
    fn read_page(bin: &str, (offset, cursor): (u64, Option<&Value>), limit: u64) -> Operation {
        match cursor {
            None => Self::read_at(bin, i64::try_from(offset).unwrap_or(i64::MAX), limit),
            Some(cursor) => Self::read_near(bin, cursor, 0, limit.saturating_add(1)),
        }
    }

    /// Reads this many items. The items of a run backwards come the least first, too.
    fn read(bin: &str, start: &RunStart, limit: u64) -> Operation {
        match start {
            RunStart::Rank(rank) => Self::read_page(bin, (*rank, None), limit),
            RunStart::At(value) | RunStart::After(value) => Self::read_near(bin, value, 0, limit),
            RunStart::Before(value) => {
                let back = i64::try_from(limit).unwrap_or(i64::MAX);
                let limit = back.unsigned_abs();
                match value {
                    None => Self::read_at(bin, -back, limit),
                    Some(value) => Self::read_near(bin, value, -back, limit),
                }
            }
        }
    }

    /// The items that were read.
    fn items(answer: Value) -> Vec<Self::Item>;
}

/// Lists of unique elements, ordered unless other programs made them.
#[derive(Debug, Default)]
pub struct Lists;

impl ShardedKind for Lists {
    const COLLECTION: Collection = Collection::List;
}

impl SortedBin for Lists {
    type Item = Value;

    const ALWAYS_IN_ORDER: bool = false;

    fn count(bin: &str, from: Option<&Value>, to: Option<&Value>) -> Operation {
        match (from, to) {
            (None, None) => lists::size(bin),
            (from, to) => {
                let count = ListReturnType::Count;
                lists::get_by_value_range(bin, from.cloned(), to.cloned(), count)
            }
        }
    }

    fn has(bin: &str, value: &Value) -> Operation {
        lists::get_by_value(bin, value.clone(), ListReturnType::Exists)
    }

    fn read_at(bin: &str, rank: i64, limit: u64) -> Operation {
        lists::get_by_rank_range_count(bin, rank, limit, ListReturnType::Values)
    }

    fn read_near(bin: &str, value: &Value, distance: i64, limit: u64) -> Operation {
        let (value, values) = (value.clone(), ListReturnType::Values);
        lists::get_by_value_relative_rank_range_count(bin, value, distance, limit, values)
    }

    fn items(answer: Value) -> Vec<Value> {
        match answer {
            Value::List(items) => items.into_items(),
            _ => Vec::new(),
        }
    }
}

/// Maps, with entries by key, stored in any order.
#[derive(Debug, Default)]
pub struct Maps;

impl ShardedKind for Maps {
    const COLLECTION: Collection = Collection::Map;
}

impl SortedBin for Maps {
    type Item = (Value, Value);

    const ALWAYS_IN_ORDER: bool = true;

    fn count(bin: &str, from: Option<&Value>, to: Option<&Value>) -> Operation {
        match (from, to) {
            (None, None) => maps::size(bin),
            (from, to) => {
                let count = MapReturnType::Count;
                maps::get_by_key_range(bin, from.cloned(), to.cloned(), count)
            }
        }
    }

    fn has(bin: &str, key: &Value) -> Operation {
        maps::get_by_key(bin, key.clone(), MapReturnType::Exists)
    }

    fn read_at(bin: &str, rank: i64, limit: u64) -> Operation {
        maps::get_by_index_range_count(bin, rank, limit, MapReturnType::KeyValue)
    }

    fn read_near(bin: &str, key: &Value, distance: i64, limit: u64) -> Operation {
        let (key, entries) = (key.clone(), MapReturnType::KeyValue);
        maps::get_by_key_relative_index_range_count(bin, key, distance, limit, entries)
    }

    fn items(answer: Value) -> Vec<(Value, Value)> {
        match answer {
            Value::Map(map) => map.into_entries(),
            _ => Vec::new(),
        }
    }
}

/// Records that each hold a part of one sorted collection, in a bin of one kind.
pub(crate) trait Parts {
    type Bin: SortedBin;
    type Error: From<Error>;

    /// Returns the number of shards.
    fn parts(&self) -> usize;

    /// The name of the bin.
    fn bin(&self) -> &str;

    /// Asks some of them, in one batch. `None`: there is no such record, or no such bin.
    fn ask(&self, asked: Vec<(usize, Operation)>) -> Result<Vec<Option<Value>>, Self::Error>;
}

impl<P: Parts> SortedShards for P {
    type Item = <P::Bin as SortedBin>::Item;
    type Error = P::Error;

    fn shards(&self) -> usize {
        self.parts()
    }

    fn counts(
        &mut self,
        shards: &[usize],
        from: Option<&Value>,
        to: Option<&Value>,
    ) -> Result<Vec<u64>, P::Error> {
        let count = P::Bin::count(self.bin(), from, to);
        let asked = shards.iter().map(|shard| (*shard, count.clone())).collect();
        let counts = self.ask(asked)?.into_iter().map(|answer| match answer {
            Some(Value::Int(count)) => count.max(0) as u64,
            _ => 0,
        });
        Ok(counts.collect())
    }

    /// One batch, and further ones for those in which others have put the value it starts after
    /// more than once.
    fn slices(&mut self, slices: &[ShardSlice]) -> Result<Vec<Vec<Self::Item>>, P::Error> {
        let read = |slice: &ShardSlice, limit| {
            let read = P::Bin::read(self.bin(), &slice.start, limit);
            (slice.shard, read)
        };
        let items = |start: &RunStart, answer: Option<Value>| {
            let mut items = answer.map_or_else(Vec::new, P::Bin::items);
            // A program that made the list without order is answered in the order of the list.
            if !P::Bin::ALWAYS_IN_ORDER && !merge::is_in_order(&items)? {
                merge::sort(&mut items)?;
            }
            if let RunStart::Before(_) = start {
                items.reverse();
            }
            Ok::<_, Error>(items)
        };
        let asked = slices.iter().map(|slice| read(slice, slice.to_read()));
        let answers = self.ask(asked.collect())?;
        let cut = |(slice, mut answer): (&ShardSlice, Option<Value>)| {
            let mut asked = slice.to_read();
            loop {
                match slice.of(items(&slice.start, answer)?, asked)? {
                    Cut::Slice(items) => return Ok(items),
                    Cut::Ask(more) => asked = more,
                }
                answer = self.ask(vec![read(slice, asked)])?.pop().flatten();
            }
        };
        slices.iter().zip(answers).map(cut).collect()
    }
}

/// The records of a view, with bins of this kind.
#[derive(Debug)]
pub(crate) struct ViewShards<'a, R, B>(pub(crate) &'a Pass<'a, R>, pub(crate) PhantomData<B>);

impl<R: RecordSet, B: SortedBin> Parts for ViewShards<'_, R, B> {
    type Bin = B;
    type Error = ReadFailure<Rejection>;

    fn parts(&self) -> usize {
        self.0.sources()
    }

    fn bin(&self) -> &str {
        self.0.bin()
    }

    fn ask(&self, asked: Vec<(usize, Operation)>) -> ShardedReading<Vec<Option<Value>>> {
        let asked = asked
            .into_iter()
            .map(|(shard, operation)| (shard, Act::of_existing([operation])));
        let answers = self.0.ask(asked.collect())?;
        Ok(answers.into_iter().map(first).collect())
    }
}
