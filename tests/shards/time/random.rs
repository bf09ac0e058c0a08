//! Random calls on time shards answer as a sorted set of times and elements does.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A call. Times are numbers of [`time`].
#[derive(Clone, Copy, Debug)]
enum Call {
    Add(usize, i64),
    Remove(usize, i64),
    Window(usize, usize),
    /// Whether it goes forth, behind which element, and how many.
    Page(bool, Option<(usize, i64)>, u64),
    PageWithin(bool, usize, usize, u64),
    Delete,
    /// Goes on with a handle that remembers nothing.
    Forget,
}

/// Times close together, far apart, and where years, days and hours begin and end.
fn time(number: usize) -> SystemTime {
    let year_10000: u64 = 253_402_300_800;
    let ancient = UNIX_EPOCH - Duration::from_secs(62_135_596_800);
    match number {
        0 => ancient,
        1 => UNIX_EPOCH - Duration::from_micros(1),
        2 => UNIX_EPOCH,
        3 => at(JANUARY_1 - 1),
        4 => at(JANUARY_1),
        23 => at(year_10000 - 1),
        number => {
            let steps = [
                1,
                59,
                60,
                300,
                HOUR - 1,
                HOUR,
                DAY - 1,
                DAY,
                40 * DAY,
                400 * DAY,
            ];
            let so_far = (0..number).map(|step| steps[step % steps.len()]);
            at(FEBRUARY_28 + so_far.sum::<u64>())
        }
    }
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let (time, element) = (|| 0..24_usize, || 0..3_i64);
    let limit = || prop::sample::select(vec![0, 1, 2, 5, 70, u64::MAX]);
    let cursor = prop::option::of((time(), element()));
    let call = prop_oneof![
        12 => (time(), element()).prop_map(|(time, element)| Call::Add(time, element)),
        3 => (time(), element()).prop_map(|(time, element)| Call::Remove(time, element)),
        3 => (time(), time()).prop_map(|(from, to)| Call::Window(from, to)),
        6 => (any::<bool>(), cursor, limit()).prop_map(|(forth, cursor, limit)| Call::Page(forth, cursor, limit)),
        4 => (any::<bool>(), time(), time(), limit())
            .prop_map(|(forth, from, to, limit)| Call::PageWithin(forth, from, to, limit)),
        1 => Just(Call::Delete),
        2 => Just(Call::Forget),
    ];
    prop::collection::vec(call, 1..80)
}

type Model = BTreeSet<(SystemTime, i64)>;

fn expected<'a>(
    within: impl DoubleEndedIterator<Item = &'a (SystemTime, i64)>,
    forth: bool,
    limit: u64,
) -> Vec<(SystemTime, Value)> {
    let value = |(at, element): &(SystemTime, i64)| (*at, Value::Int(*element));
    let limit = usize::try_from(limit).unwrap();
    if forth {
        within.take(limit).map(value).collect()
    } else {
        within.rev().take(limit).map(value).collect()
    }
}

fn check(model: &mut Model, said: &TimeShards<spikelet::Set>, call: Call) {
    match call {
        Call::Add(at, element) => {
            let new = model.insert((time(at), element));
            assert_eq!(said.add(time(at), element).unwrap(), new);
        }
        Call::Remove(at, element) => {
            let was = model.remove(&(time(at), element));
            assert_eq!(said.remove(time(at), &element.into()).unwrap(), was);
        }
        Call::Window(from, to) => {
            let (from, to) = (time(from), time(to));
            let within = model.iter().filter(|(at, _)| (from..to).contains(at));
            let within = expected(within, true, u64::MAX);
            assert_eq!(said.range(from..to).all().unwrap(), within);
            assert_eq!(said.range(from..to).len().unwrap(), within.len() as u64);
            assert_eq!(said.range(from..to).is_empty().unwrap(), within.is_empty());
        }
        Call::Page(forth, cursor, limit) => {
            let cursor = cursor.map(|(at, element)| (time(at), element));
            let behind = |it: &&(SystemTime, i64)| match (cursor, forth) {
                (None, _) => true,
                (Some(cursor), true) => **it > cursor,
                (Some(cursor), false) => **it < cursor,
            };
            let page = expected(model.iter().filter(behind), forth, limit);
            let cursor = cursor.map(|(at, element)| (at, Value::Int(element)));
            let found = if forth {
                said.page_after(cursor.as_ref(), limit)
            } else {
                said.page_before(cursor.as_ref(), limit)
            };
            assert_eq!(found.unwrap(), page);
        }
        Call::PageWithin(forth, from, to, limit) => {
            let (from, to) = (time(from), time(to));
            let within = model.iter().filter(|(at, _)| (from..=to).contains(at));
            let page = expected(within, forth, limit);
            let range = said.range(from..=to);
            let found = if forth {
                range.page_after(None, limit)
            } else {
                range.latest(limit)
            };
            assert_eq!(found.unwrap(), page);
        }
        Call::Delete => {
            model.clear();
            said.delete().unwrap();
        }
        Call::Forget => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn time_shards_answer_as_a_sorted_set(
        calls in calls(),
        width in prop::sample::select(vec![1, 15, 60, 0]),
        shards in prop::sample::select(vec![1, 1, 4]),
    ) {
        let width = match width {
            0 => TimeWidth::Daily,
            minutes => TimeWidth::minutes(minutes).unwrap(),
        };
        run(&store_at(FEBRUARY_28).0, Model::new(), width, shards, &calls);
    }
}

fn run(store: &Store, mut model: Model, width: TimeWidth, shards: u64, calls: &[Call]) {
    let mut said = chat(store, width).hashed(shards);
    for call in calls {
        if let Call::Forget = call {
            said = chat(store, width).hashed(shards);
        }
        check(&mut model, &said, *call);
    }
    let all = expected(model.iter(), true, u64::MAX);
    assert_eq!(said.range(..).all().unwrap(), all);
    assert_eq!(said.range(..).len().unwrap(), all.len() as u64);
    said.delete().unwrap();
    assert!(all_keys(store).len() <= 1);
}
