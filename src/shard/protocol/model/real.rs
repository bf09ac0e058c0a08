//! The abstract store answers as a real one: random requests to both, side by side.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::super::{Ask, Edit, Guard, Place, Reply, Request, Seen, Token};
use super::store::{CompanionRecord, Store as Abstract};
use super::{Act, Answer, Elements, Tiny, elements};
use crate::operations::{get_bin, lists};
use crate::shard::content::{Act as RealAct, Bin, Collection, Content};
use crate::shard::lower::Lowering;
use crate::shard::scheme::{Companion, Epoch, Scheme};
use crate::store::RecordSet;
use crate::{ListReturnType, Set, Store, Value, WritePolicy};

const BIN: &str = "c";

/// A real record set, asked as the abstract store is.
struct Real {
    records: Set,
    lowering: Lowering,
}

impl Real {
    /// A collection of its own in a store that all cases share.
    fn new() -> Self {
        static STORE: LazyLock<Store> = LazyLock::new(|| Store::in_memory().unwrap());
        static CASES: AtomicU64 = AtomicU64::new(0);
        let key = format!("k{}", CASES.fetch_add(1, Ordering::Relaxed));
        let policy = WritePolicy::default();
        Self {
            records: STORE.set("s").unwrap(),
            lowering: Lowering::new(key.into(), BIN, Collection::List, &policy),
        }
    }

    fn execute(&self, request: &Request<Tiny>) -> Reply<Tiny> {
        let real = real_request(request);
        let lowered = self.lowering.lower(&real);
        let operated = self
            .records
            .operate_on(&lowered.policy, &lowered.key, &lowered.operations);
        let reply = self.lowering.raise(&real, &lowered, operated).unwrap();
        tiny_reply(reply, request)
    }
}

fn list(set: Elements) -> Vec<Value> {
    elements(set)
        .map(|element| Value::Int(element.into()))
        .collect()
}

fn set(items: &[Value]) -> Elements {
    items.iter().fold(0, |set, item| match item {
        Value::Int(element) => set | 1 << element,
        other => panic!("no element: {other:?}"),
    })
}

fn real_act(act: Act) -> RealAct {
    let count = ListReturnType::Count;
    let value = |element: u8| Value::Int(element.into());
    match act {
        Act::Add(element) => RealAct::creating([
            lists::size(BIN),
            lists::append(&Collection::list_policy(), BIN, value(element)),
        ]),
        Act::Remove(element) => {
            RealAct::of_existing([lists::remove_by_value(BIN, value(element), count)])
        }
        Act::Contains(element) => {
            RealAct::of_existing([lists::get_by_value(BIN, value(element), count)])
        }
        Act::All => RealAct::of_existing([get_bin(BIN)]),
    }
}

fn real_request(request: &Request<Tiny>) -> Request<Bin> {
    let content = |part: &Elements| Content::List(list(*part));
    let edit = match &request.edit {
        Edit::None => Edit::None,
        Edit::User(act) => Edit::User(real_act(*act)),
        Edit::Mark(scheme, epoch) => Edit::Mark(*scheme, *epoch),
        Edit::Spread(scheme) => Edit::Spread(*scheme),
        Edit::Settle(scheme) => Edit::Settle(*scheme),
        Edit::PutBack(part) => Edit::PutBack(content(part)),
        Edit::Clear => Edit::Clear,
        Edit::Place(companion, token) => Edit::Place(*companion, *token),
        Edit::Fill(part) => Edit::Fill(content(part)),
        Edit::Freeze => Edit::Freeze,
        Edit::Shed(part, companion) => Edit::Shed(content(part), *companion),
        Edit::TakeIn(part, companion) => Edit::TakeIn(content(part), *companion),
        Edit::Delete => Edit::Delete,
    };
    let ask = match &request.ask {
        Ask::Nothing => Ask::Nothing,
        Ask::State => Ask::State,
        Ask::Content => Ask::Content,
        Ask::User(act) => Ask::User(real_act(*act)),
    };
    Request {
        place: request.place,
        guard: request.guard,
        edit,
        ask,
    }
}

/// What was answered, as the abstract store puts it: where there is no bin, nothing is there.
fn tiny_reply(reply: Reply<Bin>, request: &Request<Tiny>) -> Reply<Tiny> {
    let act = match (&request.edit, &request.ask) {
        (Edit::User(act), Ask::Nothing) | (_, Ask::User(act)) => Some(*act),
        _ => None,
    };
    let seen = match reply {
        Reply::NotFound => return Reply::NotFound,
        Reply::FilteredOut => return Reply::FilteredOut,
        Reply::Done(seen) => seen,
    };
    let answer = seen.answer.map(|answer| {
        let number = |at: usize| match answer.values.get(at) {
            Some(Some(Value::Int(number))) => *number,
            _ => 0,
        };
        match act {
            Some(Act::Add(_)) => Answer::Yes(number(0) < number(1)),
            Some(Act::All) => match &answer.values[0] {
                Some(Value::List(items)) => Answer::All(set(items)),
                _ => Answer::All(0),
            },
            _ => Answer::Yes(number(0) > 0),
        }
    });
    let content = seen.content.map(|content| match content {
        Content::List(items) => set(&items),
        other => panic!("no list: {other:?}"),
    });
    Reply::Done(Seen {
        root: seen.root,
        companion: seen.companion,
        has_bin: seen.has_bin,
        content,
        answer,
    })
}

fn any_scheme() -> impl Strategy<Value = Scheme> + Clone {
    prop::sample::select(vec![
        Scheme::Activating { shards: 2 },
        Scheme::Active { shards: 2 },
        Scheme::Splitting { from: 1 },
        Scheme::Merging { from: 2 },
        Scheme::Demoting,
        Scheme::Deleting { shards: 2 },
    ])
}

fn any_epoch() -> impl Strategy<Value = Epoch> + Clone {
    (1..4_u64).prop_map(Epoch)
}

fn any_companion() -> impl Strategy<Value = Companion> + Clone {
    (any_epoch(), 0..2_u32).prop_map(|(epoch, power)| Companion {
        shards: 1 << power,
        epoch,
    })
}

fn any_token() -> impl Strategy<Value = Token> + Clone {
    (1..3_u64).prop_map(Token)
}

fn any_act() -> impl Strategy<Value = Act> + Clone {
    (0..3_u8, 0..4_u8).prop_map(|(what, element)| match what {
        0 => Act::Add(element),
        1 => Act::Remove(element),
        _ => Act::Contains(element),
    })
}

fn any_part() -> impl Strategy<Value = Elements> + Clone {
    0..16_u8
}

fn any_ask() -> impl Strategy<Value = Ask<Tiny>> + Clone {
    (0..3_u8, any_act()).prop_map(|(what, act)| match (what, act) {
        (0, _) => Ask::State,
        (1, _) => Ask::Content,
        (_, Act::Contains(element)) => Ask::User(Act::Contains(element)),
        _ => Ask::User(Act::All),
    })
}

/// Requests that the machines may make of a root.
fn of_root() -> impl Strategy<Value = Request<Tiny>> + Clone {
    let root_is =
        (any_scheme(), any_epoch()).prop_map(|(scheme, epoch)| Guard::RootIs(scheme, epoch));
    let marked_from =
        (any_scheme(), any_epoch(), any::<bool>()).prop_map(|(scheme, epoch, bare)| {
            if bare {
                Guard::Bare(scheme, epoch)
            } else {
                Guard::RootIs(scheme, epoch)
            }
        });
    let write = |guard, edit| Request::write(Place::Root, guard, edit);
    prop_oneof![
        any_ask().prop_map(|ask| Request::read(Place::Root, ask)),
        any_act().prop_map(move |act| write(Guard::Whole, Edit::User(act))),
        Just(write(Guard::Whole, Edit::Clear)),
        (any_epoch(), any_scheme())
            .prop_map(move |(epoch, to)| write(Guard::WholeBefore(epoch), Edit::Mark(to, epoch))),
        (marked_from, any_scheme(), any_epoch())
            .prop_map(move |(guard, to, epoch)| write(guard, Edit::Mark(to, epoch))),
        (root_is.clone(), any_scheme(), any::<bool>()).prop_map(move |(guard, to, whole)| {
            let to = if whole { Scheme::Whole } else { to };
            write(guard, Edit::Spread(to))
        }),
        (root_is.clone(), any_scheme(), any::<bool>()).prop_map(move |(guard, to, whole)| {
            let to = if whole { Scheme::Whole } else { to };
            write(guard, Edit::Settle(to))
        }),
        (root_is, any_part()).prop_map(move |(guard, part)| write(guard, Edit::PutBack(part))),
    ]
}

/// Requests that the machines may make of a companion.
fn of_companion() -> impl Strategy<Value = Request<Tiny>> + Clone {
    let guarded = (any_companion(), any_epoch(), any_token());
    let edit = (0..8_u8, any_act(), any_part(), any_companion(), any_token());
    let written = (0..2_u64, guarded, edit, any::<bool>()).prop_map(
        |(shard, (exactly, epoch, token), edit, asks)| {
            let (what, act, part, companion, new_token) = edit;
            let place = Place::Companion(shard);
            let older = Guard::OlderThan(epoch);
            let request = match what {
                0 => Request::write(place, Guard::Live(exactly), Edit::User(act)),
                1 => Request::write(place, older, Edit::Place(companion, new_token)),
                2 => Request::write(place, Guard::Placed(exactly, token), Edit::Fill(part)),
                3 => Request::write(place, older, Edit::Freeze),
                4 => Request::write(place, older, Edit::Shed(part, companion)),
                5 => Request::write(place, older, Edit::TakeIn(part, companion)),
                6 => Request::read(place, Ask::User(Act::Contains(part % 4)))
                    .guarded(Guard::Live(exactly)),
                _ => Request::write(place, older, Edit::Delete),
            };
            match request.edit {
                Edit::Freeze if asks => Request {
                    ask: Ask::Content,
                    ..request
                },
                _ => request,
            }
        },
    );
    prop_oneof![
        (0..2_u64, any_ask()).prop_map(|(shard, ask)| Request::read(Place::Companion(shard), ask)),
        written.clone(),
        written.clone(),
        written,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_abstract_store_answers_as_a_real_one(
        requests in prop::collection::vec(prop_oneof![of_root(), of_companion(), of_companion()], 1..40),
        foreign in any::<bool>(),
    ) {
        let real = Real::new();
        let mut tiny = Abstract { root: None, companions: BTreeMap::new() };
        if foreign {
            let key = real.lowering.key_of(Place::Companion(1));
            real.records.put(key, [("name", 1)]).unwrap();
            tiny.companions.insert(1, CompanionRecord::Foreign);
        }
        for request in requests {
            let expected = tiny.execute(&request, None);
            let found = real.execute(&request);
            prop_assert_eq!(format!("{expected:?}"), format!("{found:?}"), "{:?}", request);
        }
    }
}
