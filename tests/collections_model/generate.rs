//! Random bins and calls. Alphabets are small, so that keys, values and positions often meet, and
//! ties are frequent.

use proptest::prelude::*;
use spikelet::value::{List, Map};
use spikelet::{ListOrder, MapOrder, Value};

use super::model::call::{
    Call, ListCreation, ListOperation, ListPolicy, ListSelector, MapOperation, MapPolicy,
    MapSelector, Operation, Return, ReturnKind, Step,
};
use super::model::normal;

/// A sequence: the first value of the bin, and calls, most of them for a bin of that kind.
pub fn sequence(calls: usize) -> impl Strategy<Value = (Value, Vec<Call>)> {
    let of = |kind| (bin(kind), prop::collection::vec(call(kind), 1..=calls));
    prop_oneof![of(Kind::List), of(Kind::Map)]
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    List,
    Map,
}

impl Kind {
    /// The weight of operations for `of` on a bin of this kind: 9 to 1 for its own kind.
    fn weight(self, of: Self) -> u32 {
        if self == of { 9 } else { 1 }
    }
}

fn bin(kind: Kind) -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Nil),
        1 => scalar(),
        16 => container(kind, 6),
        2 => flat(kind, 160),
    ]
    .prop_map(normal)
}

fn scalar() -> BoxedStrategy<Value> {
    prop_oneof![
        1 => Just(Value::Nil),
        1 => any::<bool>().prop_map(Value::Bool),
        6 => (-1..5_i64).prop_map(Value::Int),
        1 => prop::sample::select(vec![127, 128, 256, 65_536, i64::MAX, i64::MIN]).prop_map(Value::Int),
        2 => prop::sample::select(vec![-1.0, 0.0, 0.5, 1.0, 2.0]).prop_map(Value::Float),
        2 => "[ab]{0,2}".prop_map(Value::String),
        1 => prop::collection::vec(0..2_u8, 0..3).prop_map(Value::Blob),
        1 => (0..2).prop_map(point),
        1 => prop::sample::select(vec![40, 300]).prop_map(|long| Value::String("c".repeat(long))),
    ]
    .boxed()
}

fn point(place: i32) -> Value {
    Value::GeoJson(format!(
        "{{\"type\":\"Point\",\"coordinates\":[{place},1]}}"
    ))
}

fn key() -> BoxedStrategy<Value> {
    prop_oneof![
        6 => (0..5_i64).prop_map(Value::Int),
        3 => "[ab]{0,2}".prop_map(Value::String),
        1 => prop::collection::vec(0..2_u8, 0..2).prop_map(Value::Blob),
    ]
    .boxed()
}

fn value() -> BoxedStrategy<Value> {
    prop_oneof![3 => scalar(), 2 => flat_of_any(4), 1 => container(Kind::List, 3)].boxed()
}

fn list_order() -> impl Strategy<Value = ListOrder> {
    prop::sample::select(vec![ListOrder::Unordered, ListOrder::Ordered])
}

fn map_order() -> impl Strategy<Value = MapOrder> {
    prop::sample::select(vec![
        MapOrder::Unordered,
        MapOrder::KeyOrdered,
        MapOrder::KeyValueOrdered,
    ])
}

/// A list or map of scalars.
fn flat(kind: Kind, width: usize) -> BoxedStrategy<Value> {
    of(kind, scalar(), width)
}

/// A list or map of scalars, lists and maps.
fn container(kind: Kind, width: usize) -> BoxedStrategy<Value> {
    let element = flat_of_any(4).prop_recursive(3, 16, 4, |inner| {
        let element = prop_oneof![1 => scalar(), 2 => inner];
        prop_oneof![
            of(Kind::List, element.clone(), 5),
            of(Kind::Map, element, 5)
        ]
    });
    of(kind, prop_oneof![scalar(), element], width)
}

fn flat_of_any(width: usize) -> BoxedStrategy<Value> {
    prop_oneof![flat(Kind::List, width), flat(Kind::Map, width)].boxed()
}

fn of(
    kind: Kind,
    element: impl Strategy<Value = Value> + 'static,
    width: usize,
) -> BoxedStrategy<Value> {
    match kind {
        Kind::List => (prop::collection::vec(element, 0..=width), list_order())
            .prop_map(|(items, order)| List::new(items, order).into())
            .boxed(),
        Kind::Map => (
            prop::collection::vec((key(), element), 0..=width),
            map_order(),
        )
            .prop_map(|(entries, order)| map(entries, order))
            .boxed(),
    }
}

fn map(entries: Vec<(Value, Value)>, order: MapOrder) -> Value {
    Map::new(distinct(entries), order).into()
}

/// The first entry of every key.
fn distinct(entries: Vec<(Value, Value)>) -> Vec<(Value, Value)> {
    let mut kept: Vec<(Value, Value)> = Vec::new();
    for (key, value) in entries {
        if kept.iter().all(|(k, _)| *k != key) {
            kept.push((key, value));
        }
    }
    kept
}

/// A value to look for, perhaps with a wildcard or an infinity.
fn sought() -> BoxedStrategy<Value> {
    prop_oneof![
        12 => value().prop_map(normal),
        1 => Just(Value::Wildcard),
        1 => Just(Value::Infinity),
        2 => (prop::collection::vec(scalar(), 0..3), any::<bool>()).prop_map(|(mut items, all)| {
            items.push(if all { Value::Wildcard } else { Value::Infinity });
            items.into()
        }),
    ]
    .boxed()
}

fn index() -> impl Strategy<Value = i64> {
    prop_oneof![
        12 => -6..8_i64,
        1 => prop::sample::select(vec![i64::MIN, i64::MAX, -200, 100, 130]),
    ]
}

/// A position to write to. Positions far beyond the end are rare, so that lists stay short.
fn place() -> impl Strategy<Value = i64> {
    prop_oneof![
        20 => -6..8_i64,
        1 => prop::sample::select(vec![i64::MIN, i64::MAX, 1 << 31, -200, 20]),
    ]
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..5_u64,
        2 => Just(u64::MAX),
        1 => prop::sample::select(vec![100, 0xffff_ffff, u64::MAX - 1]),
    ]
}

fn bound() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![1 => Just(None), 5 => sought().prop_map(Some)]
}

fn delta() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => (-4..5_i64).prop_map(Value::Int),
        3 => prop::sample::select(vec![-1.5, 0.5, 1.0, 2.9]).prop_map(Value::Float),
        1 => Just(Value::Nil),
        1 => Just(Value::Int(i64::MIN)),
        1 => scalar(),
    ]
}

fn list_policy() -> impl Strategy<Value = ListPolicy> {
    (list_order(), any::<bool>(), 0..16_u8).prop_map(|(order, persist, flags)| ListPolicy {
        order,
        persist,
        flags,
    })
}

fn map_policy() -> impl Strategy<Value = MapPolicy> {
    (map_order(), any::<bool>(), prop_oneof![Just(0), 0..16_u8]).prop_map(
        |(order, persist, flags)| MapPolicy {
            order,
            persist,
            flags,
        },
    )
}

fn list_selector() -> BoxedStrategy<ListSelector> {
    use ListSelector as S;
    prop_oneof![
        index().prop_map(S::Index),
        (index(), count()).prop_map(|(i, count)| S::IndexRange(i, count)),
        index().prop_map(S::Rank),
        (index(), count()).prop_map(|(rank, count)| S::RankRange(rank, count)),
        sought().prop_map(S::Value),
        prop::collection::vec(sought(), 0..5).prop_map(S::ValueList),
        (bound(), bound()).prop_map(|(begin, end)| S::ValueRange(begin, end)),
        (sought(), index(), count())
            .prop_map(|(value, rank, count)| S::ValueRelativeRankRange(value, rank, count)),
    ]
    .boxed()
}

fn map_selector() -> BoxedStrategy<MapSelector> {
    use MapSelector as S;
    let sought_key = || prop_oneof![8 => key(), 1 => sought()];
    let key_bound = || prop_oneof![1 => Just(None), 4 => sought_key().prop_map(Some)];
    prop_oneof![
        key().prop_map(S::Key),
        prop::collection::vec(key(), 0..5).prop_map(S::KeyList),
        (key_bound(), key_bound()).prop_map(|(begin, end)| S::KeyRange(begin, end)),
        (sought_key(), index(), count())
            .prop_map(|(key, i, count)| S::KeyRelativeIndexRange(key, i, count)),
        index().prop_map(S::Index),
        (index(), count()).prop_map(|(i, count)| S::IndexRange(i, count)),
        index().prop_map(S::Rank),
        (index(), count()).prop_map(|(rank, count)| S::RankRange(rank, count)),
        sought().prop_map(S::Value),
        prop::collection::vec(sought(), 0..5).prop_map(S::ValueList),
        (bound(), bound()).prop_map(|(begin, end)| S::ValueRange(begin, end)),
        (sought(), index(), count())
            .prop_map(|(value, rank, count)| S::ValueRelativeRankRange(value, rank, count)),
    ]
    .boxed()
}

const OF_LISTS: [ReturnKind; 12] = [
    ReturnKind::None,
    ReturnKind::Index,
    ReturnKind::ReverseIndex,
    ReturnKind::Rank,
    ReturnKind::ReverseRank,
    ReturnKind::Count,
    ReturnKind::Value,
    ReturnKind::IndexRange,
    ReturnKind::ReverseIndexRange,
    ReturnKind::RankRange,
    ReturnKind::ReverseRankRange,
    ReturnKind::Exists,
];

const OF_MAPS: [ReturnKind; 4] = [
    ReturnKind::Key,
    ReturnKind::KeyValue,
    ReturnKind::UnorderedMap,
    ReturnKind::OrderedMap,
];

fn returns(kinds: Vec<ReturnKind>) -> impl Strategy<Value = Return> {
    let inverted = prop_oneof![2 => Just(false), 1 => Just(true)];
    (prop::sample::select(kinds), inverted).prop_map(|(kind, inverted)| Return { kind, inverted })
}

fn list_operation() -> BoxedStrategy<ListOperation> {
    use ListOperation as L;
    let returned = || returns(OF_LISTS.to_vec());
    let values = || prop::collection::vec(value(), 0..5);
    prop_oneof![
        1 => (list_order(), any::<bool>())
            .prop_map(|(order, persist)| L::SetType { order, persist }),
        4 => (list_policy(), value()).prop_map(|(policy, value)| L::Append(policy, value)),
        3 => (list_policy(), values()).prop_map(|(policy, values)| L::AppendItems(policy, values)),
        3 => (list_policy(), place(), value())
            .prop_map(|(policy, i, value)| L::Insert(policy, i, value)),
        2 => (list_policy(), place(), values())
            .prop_map(|(policy, i, values)| L::InsertItems(policy, i, values)),
        3 => (list_policy(), place(), value())
            .prop_map(|(policy, i, value)| L::Set(policy, i, value)),
        3 => (list_policy(), place(), delta())
            .prop_map(|(policy, i, delta)| L::Increment(policy, i, delta)),
        1 => index().prop_map(L::Pop),
        1 => (index(), count()).prop_map(|(i, count)| L::PopRange(i, count)),
        1 => index().prop_map(L::Remove),
        1 => (index(), count()).prop_map(|(i, count)| L::RemoveRange(i, count)),
        1 => (index(), count()).prop_map(|(i, count)| L::Trim(i, count)),
        1 => Just(L::Clear),
        1 => (0..4_u8).prop_map(L::Sort),
        1 => Just(L::Size),
        1 => index().prop_map(L::Get),
        1 => (index(), count()).prop_map(|(i, count)| L::GetRange(i, count)),
        16 => (list_selector(), returned())
            .prop_map(|(selector, returns)| L::GetBy(selector, returns)),
        8 => (list_selector(), returned())
            .prop_map(|(selector, returns)| L::RemoveBy(selector, returns)),
    ]
    .boxed()
}

fn map_operation() -> BoxedStrategy<MapOperation> {
    use MapOperation as M;
    let returned = || returns([&OF_LISTS[..], &OF_MAPS[..]].concat());
    let stored_key = || prop_oneof![20 => key(), 1 => scalar()];
    prop_oneof![
        1 => (map_order(), any::<bool>())
            .prop_map(|(order, persist)| M::SetType { order, persist }),
        6 => (map_policy(), stored_key(), value())
            .prop_map(|(policy, key, value)| M::Put(policy, key, value)),
        4 => (map_policy(), prop::collection::vec((stored_key(), value()), 0..5))
            .prop_map(|(policy, entries)| M::PutItems(policy, distinct(entries))),
        2 => (map_policy(), stored_key(), delta())
            .prop_map(|(policy, key, delta)| M::Increment(policy, key, delta)),
        2 => (map_policy(), stored_key(), delta())
            .prop_map(|(policy, key, delta)| M::Decrement(policy, key, delta)),
        1 => Just(M::Clear),
        1 => Just(M::Size),
        16 => (map_selector(), returned())
            .prop_map(|(selector, returns)| M::GetBy(selector, returns)),
        8 => (map_selector(), returned())
            .prop_map(|(selector, returns)| M::RemoveBy(selector, returns)),
    ]
    .boxed()
}

fn step(kind: Kind) -> BoxedStrategy<Step> {
    let creation = || {
        prop::option::of(prop::sample::select(vec![
            ListCreation::Unordered,
            ListCreation::Padded,
            ListCreation::Ordered,
        ]))
    };
    let into_list = prop_oneof![
        4 => (-2..3_i64, creation()).prop_map(|(i, creation)| Step::ListIndex(i, creation)),
        1 => (-2..2_i64).prop_map(Step::ListRank),
        1 => sought().prop_map(Step::ListValue),
    ];
    let into_map = prop_oneof![
        1 => (-2..2_i64).prop_map(Step::MapIndex),
        1 => (-2..2_i64).prop_map(Step::MapRank),
        4 => (key(), prop::option::of(map_order())).prop_map(|(key, order)| Step::MapKey(key, order)),
        1 => sought().prop_map(Step::MapValue),
    ];
    prop_oneof![kind.weight(Kind::List) => into_list, kind.weight(Kind::Map) => into_map].boxed()
}

fn any_step() -> BoxedStrategy<Step> {
    prop_oneof![step(Kind::List), step(Kind::Map)].boxed()
}

fn operation(kind: Kind) -> BoxedStrategy<Operation> {
    prop_oneof![
        kind.weight(Kind::List) => list_operation().prop_map(Operation::List),
        kind.weight(Kind::Map) => map_operation().prop_map(Operation::Map),
    ]
    .boxed()
}

fn call(kind: Kind) -> BoxedStrategy<Call> {
    let here = operation(kind).prop_map(|operation| (Vec::new(), operation));
    let any_operation = prop_oneof![operation(Kind::List), operation(Kind::Map)];
    let further = prop_oneof![
        4 => Just(Vec::new()),
        2 => prop::collection::vec(any_step(), 1..3),
    ];
    let below = (step(kind), further, any_operation).prop_map(|(first, mut path, operation)| {
        path.insert(0, first);
        (path, operation)
    });
    prop_oneof![3 => here, 2 => below]
        .prop_map(|(path, operation)| created(Call { path, operation }))
        .boxed()
}

/// The API's operation that makes a list or map with an index creates what the last step names.
fn created(mut call: Call) -> Call {
    let list = match &call.operation {
        Operation::List(ListOperation::SetType {
            order,
            persist: true,
        }) => match order {
            ListOrder::Unordered => (ListCreation::Unordered, MapOrder::Unordered),
            ListOrder::Ordered => (ListCreation::Ordered, MapOrder::KeyValueOrdered),
        },
        Operation::Map(MapOperation::SetType {
            order,
            persist: true,
        }) => match order {
            MapOrder::Unordered => (ListCreation::Unordered, MapOrder::Unordered),
            MapOrder::KeyOrdered => (ListCreation::Padded, MapOrder::KeyOrdered),
            MapOrder::KeyValueOrdered => (ListCreation::Ordered, MapOrder::KeyValueOrdered),
        },
        _ => return call,
    };
    match call.path.last_mut() {
        Some(Step::ListIndex(_, creation)) => *creation = Some(list.0),
        Some(Step::MapKey(_, order)) => *order = Some(list.1),
        _ => {}
    }
    call
}
