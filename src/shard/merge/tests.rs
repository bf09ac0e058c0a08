//! Against one sorted vector, with all costs counted.

use std::ops::Bound;

use proptest::prelude::*;

use super::{ElementSortKey, RunStart, ShardSlice, SortedShards, last, len, page, range};
use crate::value::Value;
use crate::value::testing::any_value;
use crate::{Error, Result};

type Shard = Vec<(ElementSortKey, Value)>;
/// Gets the number of the batch.
type Meanwhile = Box<dyn FnMut(u64, &mut Vec<Shard>)>;

/// Shards in vectors, which count their requests.
#[derive(Default)]
struct Counting {
    shards: Vec<Shard>,
    /// Elements looked at: a search in N of them looks at log2 N.
    visits: u64,
    batches: u64,
    /// What happens to the shards after each batch.
    meanwhile: Option<Meanwhile>,
}

impl Counting {
    fn new(shards: Vec<Vec<Value>>) -> Self {
        let sorted = |shard: Vec<Value>| {
            let keyed = shard.into_iter().map(|value| (key(&value), value));
            let mut shard: Vec<_> = keyed.collect();
            shard.sort_by(|(a, _), (b, _)| a.cmp(b));
            shard
        };
        Self {
            shards: shards.into_iter().map(sorted).collect(),
            ..Self::default()
        }
    }

    fn all(&self) -> Vec<Value> {
        let mut all: Vec<_> = self.shards.concat();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all.into_iter().map(|(_, value)| value).collect()
    }

    fn search(&mut self, shard: usize, before: impl Fn(&ElementSortKey) -> bool) -> usize {
        let shard = &self.shards[shard];
        self.visits += u64::from((shard.len() + 1).next_power_of_two().ilog2());
        shard.partition_point(|(key, _)| before(key))
    }

    fn batch(&mut self) {
        self.batches += 1;
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile(self.batches, &mut self.shards);
        }
    }

    /// What the next call costs.
    fn cost<R>(&mut self, call: impl FnOnce(&mut Self) -> R) -> (R, u64, u64) {
        (self.visits, self.batches) = (0, 0);
        let answer = call(self);
        (answer, self.visits, self.batches)
    }
}

impl SortedShards for Counting {
    type Item = Value;
    type Error = Error;

    fn shards(&self) -> usize {
        self.shards.len()
    }

    fn counts(
        &mut self,
        shards: &[usize],
        from: Option<&Value>,
        to: Option<&Value>,
    ) -> Result<Vec<u64>> {
        let (from, to) = (from.map(key), to.map(key));
        let counts = shards.iter().map(|&shard| {
            let end = match &to {
                Some(to) => self.search(shard, |key| key < to),
                None => self.shards[shard].len(),
            };
            let begin = from
                .as_ref()
                .map_or(0, |from| self.search(shard, |key| key < from));
            end.saturating_sub(begin) as u64
        });
        let counts = counts.collect();
        self.batch();
        Ok(counts)
    }

    fn slices(&mut self, slices: &[ShardSlice]) -> Result<Vec<Vec<Value>>> {
        let slices = slices.iter().map(|slice| {
            let limit = usize::try_from(slice.limit).unwrap_or(usize::MAX);
            if let RunStart::Before(before) = &slice.start {
                let end = match before {
                    None => self.shards[slice.shard].len(),
                    Some(before) => self.search(slice.shard, |key| *key < self::key(before)),
                };
                let shard = self.shards[slice.shard][..end].iter().rev();
                let values: Vec<Value> =
                    shard.take(limit).map(|(_, value)| value.clone()).collect();
                self.visits += values.len() as u64;
                return values;
            }
            let begin = match &slice.start {
                RunStart::Rank(rank) => (*rank).min(u64::from(u32::MAX)) as usize,
                RunStart::At(at) => self.search(slice.shard, |key| *key < self::key(at)),
                RunStart::After(after) => self.search(slice.shard, |key| *key <= self::key(after)),
                RunStart::Before(_) => panic!("answered above"),
            };
            let shard = self.shards[slice.shard].iter().skip(begin);
            let values: Vec<Value> = shard.take(limit).map(|(_, value)| value.clone()).collect();
            self.visits += values.len() as u64;
            values
        });
        let slices = slices.collect();
        self.batch();
        Ok(slices)
    }
}

fn page_after(shards: &mut Counting, after: Option<&Value>, limit: u64) -> Result<Vec<Value>> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    range(shards, from, Bound::Unbounded, limit)
}

fn key(value: &Value) -> ElementSortKey {
    ElementSortKey::of(value).unwrap()
}

fn scrambled(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

fn ints(numbers: impl IntoIterator<Item = u64>) -> Vec<Value> {
    numbers
        .into_iter()
        .map(|number| Value::Int(number as i64))
        .collect()
}

/// So many integers, each in a shard by its hash.
fn hashed(shards: u64, count: u64) -> Counting {
    let shard = |shard| ints((0..count).filter(move |number| scrambled(*number) % shards == shard));
    Counting::new((0..shards).map(shard).collect())
}

fn cut(all: &[Value], offset: u64, limit: u64) -> Vec<Value> {
    let from = all.iter().skip(offset as usize);
    from.take(limit as usize).cloned().collect()
}

fn within(all: &[Value], bounds: (Bound<&Value>, Bound<&Value>), limit: u64) -> Vec<Value> {
    let (from, to) = (bounds.0.map(key), bounds.1.map(key));
    all.iter()
        .filter(|value| {
            let key = key(value);
            let begun = match &from {
                Bound::Unbounded => true,
                Bound::Included(from) => key >= *from,
                Bound::Excluded(from) => key > *from,
            };
            let open = match &to {
                Bound::Unbounded => true,
                Bound::Included(to) => key <= *to,
                Bound::Excluded(to) => key < *to,
            };
            begun && open
        })
        .take(limit as usize)
        .cloned()
        .collect()
}

/// Distinct values of any type, in shards of any size.
fn any_shards() -> impl Strategy<Value = Vec<Vec<Value>>> {
    let skewed = prop::sample::select(vec![1_usize, 2, 3, 8, 16]).prop_flat_map(|shards| {
        let value = prop_oneof![any_value(), (0..400_i64).prop_map(Value::Int)];
        // The smaller of two numbers: low shards get more, the last ones are often empty.
        let placed = (value, 0..shards, 0..shards).prop_map(|(value, a, b)| (value, a.min(b)));
        (Just(shards), prop::collection::vec(placed, 0..600))
    });
    skewed.prop_map(|(shards, placed)| {
        let mut placed: Vec<_> = placed
            .into_iter()
            .map(|(value, shard)| (key(&value), value, shard))
            .collect();
        placed.sort_by(|a, b| a.0.cmp(&b.0));
        placed.dedup_by(|a, b| a.0 == b.0);
        let mut values = vec![Vec::new(); shards];
        for (_, value, shard) in placed {
            values[shard].push(value);
        }
        values
    })
}

proptest! {
    #[test]
    fn pages_are_those_of_one_sorted_list(
        shards in any_shards(), offset in 0..700_u64, limit in 0..300_u64,
    ) {
        let mut shards = Counting::new(shards);
        let all = shards.all();
        prop_assert_eq!(len(&mut shards).unwrap(), all.len() as u64);
        prop_assert_eq!(page(&mut shards, offset, limit).unwrap(), cut(&all, offset, limit));
        prop_assert_eq!(page(&mut shards, offset, u64::MAX).unwrap(), cut(&all, offset, u64::MAX));
        prop_assert_eq!(page(&mut shards, u64::MAX, limit).unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn ranges_are_those_of_one_sorted_list(
        shards in any_shards(), a in any_value(), b in 0..500_i64, at in 0..600_usize,
        limit in 0..300_u64,
    ) {
        let mut shards = Counting::new(shards);
        let all = shards.all();
        let b = Value::Int(b);
        let there = all.get(at).unwrap_or(&b).clone();
        let bounds = |value| [Bound::Included(value), Bound::Excluded(value)];
        let ends = [bounds(&a), bounds(&b), bounds(&there), [Bound::Unbounded; 2]].concat();
        for from in &ends {
            for to in &ends {
                let found = range(&mut shards, *from, *to, limit).unwrap();
                prop_assert_eq!(found, within(&all, (*from, *to), limit), "{:?} {:?}", from, to);
            }
            for before in [None, Some(&a), Some(&b), Some(&there)] {
                let found = last(&mut shards, *from, before, limit).unwrap();
                let to = before.map_or(Bound::Unbounded, Bound::Excluded);
                let mut all = within(&all, (*from, to), u64::MAX);
                all.reverse();
                prop_assert_eq!(found, cut(&all, 0, limit), "{:?} before {:?}", from, before);
            }
        }
        let found = page_after(&mut shards, Some(&there), limit).unwrap();
        prop_assert_eq!(found, within(&all, (Bound::Excluded(&there), Bound::Unbounded), limit));
    }

    #[test]
    fn pages_one_after_the_other_show_everything_once(shards in any_shards(), limit in 1..90_u64) {
        let mut shards = Counting::new(shards);
        let mut seen: Vec<Value> = Vec::new();
        loop {
            let next = page_after(&mut shards, seen.last(), limit).unwrap();
            if next.is_empty() {
                break;
            }
            seen.extend(next);
        }
        prop_assert_eq!(seen, shards.all());
    }
}

#[test]
fn a_deep_page_costs_a_few_searches() {
    const COUNT: u64 = 1_600_000;
    let mut shards = hashed(16, COUNT);
    let mut most = (0, 0);
    for tenth in 0..=10 {
        let offset = COUNT / 10 * tenth;
        let (found, visits, batches) = shards.cost(|shards| page(shards, offset, 50).unwrap());
        assert_eq!(found, ints(offset..(offset + 50).min(COUNT)));
        most = (most.0.max(visits), most.1.max(batches));
    }
    assert!(most.0 < 2_200, "{most:?}");
    assert!(most.1 <= 10, "{most:?}");
}

#[test]
fn a_page_behind_a_value_is_one_batch() {
    let mut shards = hashed(16, 100_000);
    for (limit, visits_max) in [(1, 400), (50, 1_100), (1_000, 2_600), (20_000, 24_000)] {
        let at = Value::Int(70_000);
        let (found, visits, batches) =
            shards.cost(|shards| page_after(shards, Some(&at), limit).unwrap());
        assert_eq!(found, ints(70_001..70_001 + limit));
        assert_eq!(batches, 1, "{limit}");
        assert!(visits < visits_max, "{limit}: {visits}");
    }
}

#[test]
fn a_page_before_a_value_is_one_batch() {
    let mut shards = hashed(16, 100_000);
    for (limit, visits_max) in [(1, 400), (50, 1_100), (1_000, 2_600), (20_000, 24_000)] {
        let at = Value::Int(70_000);
        let (mut found, visits, batches) =
            shards.cost(|shards| last(shards, Bound::Unbounded, Some(&at), limit).unwrap());
        found.reverse();
        assert_eq!(found, ints(70_000 - limit..70_000));
        assert_eq!(batches, 1, "{limit}");
        assert!(visits < visits_max, "{limit}: {visits}");
    }
}

#[test]
fn a_range_reads_hardly_more_than_it_holds() {
    let mut shards = hashed(16, 100_000);
    let (from, to) = (Value::Int(500), Value::Int(700));
    let bounds = (Bound::Included(&from), Bound::Excluded(&to));
    let (found, visits, batches) =
        shards.cost(|shards| range(shards, bounds.0, bounds.1, u64::MAX).unwrap());
    assert_eq!(found, ints(500..700));
    assert_eq!(batches, 2);
    // Two searches to count, one to begin, and one element more in each shard.
    assert!(visits < 200 + 16 * (3 * 14 + 1), "{visits}");
}

/// Shards that are as unlike as can be, so that draws mislead: the search must fall back to
/// halving.
#[test]
fn unlike_shards_take_logarithmically_many_rounds() {
    const EACH: u64 = 1 << 16;
    let in_rows = |shard: u64| ints(shard * EACH..(shard + 1) * EACH);
    let powers = |shard: u64| {
        let numbers: Vec<u64> = match shard {
            0 => (0..EACH).collect(),
            _ => (0..30).map(|bit| 97 << bit).collect(),
        };
        ints(numbers.into_iter().map(|number| (number << 8) + shard))
    };
    let one_each = |shard: u64| {
        ints(if shard == 5 {
            0..EACH * 8
        } else {
            shard..shard
        })
    };
    for shards in [
        Counting::new((0..8).map(in_rows).collect()),
        Counting::new((0..8).rev().map(in_rows).collect()),
        Counting::new((0..8).map(one_each).collect()),
        Counting::new((0..8).map(powers).collect()),
    ] {
        let mut shards = shards;
        let all = shards.all();
        let mut distinct = all.iter().map(key).collect::<Vec<_>>();
        distinct.dedup();
        assert_eq!(distinct.len(), all.len());
        for hundredth in 0..100 {
            let offset = all.len() as u64 * hundredth / 100;
            let (found, visits, batches) = shards.cost(|shards| page(shards, offset, 10).unwrap());
            assert_eq!(found, cut(&all, offset, 10));
            assert!(batches < 2 * 2 * 40, "{batches}");
            assert!(visits < 8_000, "{visits}");
        }
    }
}

/// The content of a page by position is undefined while elements come and go; but the page ends,
/// and it is sorted.
#[test]
fn a_search_ends_while_elements_come_and_go() {
    for seed in 0..200_u64 {
        let mut shards = hashed(4, 20_000);
        shards.meanwhile = Some(Box::new(move |batch, shards| {
            let random = scrambled(seed * 1_000 + batch);
            let shard = &mut shards[(random % 4) as usize];
            match random / 4 % 4 {
                0 => shard.clear(),
                1 => drop(shard.drain(..shard.len() / 2)),
                2 => shard.truncate(shard.len() / 2),
                _ => {
                    let low = (0..4_000).map(|low| Value::Int(-low - 1_000_000));
                    let mut more: Vec<_> = low.map(|low| (key(&low), low)).collect();
                    more.append(shard);
                    more.sort_by(|(a, _), (b, _)| a.cmp(b));
                    more.dedup_by(|(a, _), (b, _)| a == b);
                    *shard = more;
                }
            }
        }));
        let (found, _, batches) = shards.cost(|shards| page(shards, 12_000, 200).unwrap());
        assert!(batches < 160, "{batches}");
        assert!(found.len() <= 200);
        let keys: Vec<_> = found.iter().map(key).collect();
        assert!(keys.is_sorted());
    }
}

/// An element that is there all the time is shown once, while its neighbours come and go.
#[test]
fn what_stays_is_shown_once_while_other_elements_come_and_go() {
    for seed in 0..50_u64 {
        let mut shards = hashed(4, 2_000);
        shards.meanwhile = Some(Box::new(move |batch, shards| {
            for (number, shard) in (0_u64..).zip(shards) {
                let gone = scrambled(seed * 1_000 + batch * 10 + number) as i64 % 7;
                shard.retain(|(_, value)| match value {
                    Value::Int(number) => number % 2 == 0 || number % 7 != gone,
                    _ => true,
                });
            }
        }));
        let mut seen: Vec<Value> = Vec::new();
        loop {
            let next = page_after(&mut shards, seen.last(), 150).unwrap();
            if next.is_empty() {
                break;
            }
            seen.extend(next);
        }
        let even = |value: &&Value| matches!(value, Value::Int(number) if number % 2 == 0);
        let stayed: Vec<Value> = seen.iter().filter(even).cloned().collect();
        assert_eq!(stayed, ints((0..2_000).step_by(2)));
        assert!(seen.iter().map(key).collect::<Vec<_>>().is_sorted());
    }
}

#[test]
fn a_value_that_cannot_be_compared_is_refused() {
    let mut nested = Value::Nil;
    for _ in 0..1_000 {
        nested = Value::List(vec![nested].into());
    }
    let mut shards = hashed(2, 10);
    let to = Bound::Excluded(&nested);
    let error = range(&mut shards, Bound::Unbounded, to, 5).unwrap_err();
    assert_eq!(error.result_code(), 1, "{error}");
}
