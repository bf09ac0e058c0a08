//! The abstract store answers as a real one: random requests to both, side by side.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::super::{
    AtomicRequest, CompanionToken, NeighborCollections, Observation, Precondition, Read, RecordRef,
    RequestEdit, RequestReply,
};
use super::store::{CompanionRecord, HashStore, companion_key};
use super::{ElementSet, Tiny, TinyAct, TinyAnswer, bin_of, elements};
use crate::operations::{get_bin, lists};
use crate::record::companion_key::KeyForm;
use crate::shard::content::{Act as RealAct, Bin, Collection, Content};
use crate::shard::description::{Description, Form, SharedDescription};
use crate::shard::executor::Executor;
use crate::shard::scheme::{Companion, Epoch, Scheme};
use crate::store::RecordSet;
use crate::{ListReturnType, Set, Store, Value, WritePolicy};

/// A real record set, asked as the abstract store is.
struct Real {
    records: Set,
    /// Of each collection.
    executor: [Executor; 2],
}

impl Real {
    /// A record of its own in a store that all cases share.
    fn new() -> Self {
        static STORE: LazyLock<Store> = LazyLock::new(|| Store::in_memory().unwrap());
        static CASES: AtomicU64 = AtomicU64::new(0);
        let key = format!("k{}", CASES.fetch_add(1, Ordering::Relaxed));
        let policy = WritePolicy::default();
        let executor = |of| {
            let key = key.clone().into();
            Executor::new(key, bin_of(of), Collection::List, &policy)
        };
        Self {
            records: STORE.set("s").unwrap(),
            executor: [0, 1].map(executor),
        }
    }

    fn execute(&self, of: usize, request: &AtomicRequest<Tiny>) -> RequestReply<Tiny> {
        let executor = &self.executor[of];
        let real = real_request(bin_of(of).as_str(), request);
        let encoded = executor.encode_request(&real);
        let operated = self
            .records
            .operate_on(&encoded.policy, &encoded.key, &encoded.operations);
        let reply = executor.decode_reply(&real, &encoded, operated).unwrap();
        tiny_reply(reply, request)
    }
}

fn list(set: ElementSet) -> Vec<Value> {
    elements(set)
        .map(|element| Value::Int(element.into()))
        .collect()
}

fn set(items: &[Value]) -> ElementSet {
    items.iter().fold(0, |set, item| match item {
        Value::Int(element) => set | 1 << element,
        other => panic!("no element: {other:?}"),
    })
}

fn real_act(bin: &str, act: TinyAct) -> RealAct {
    let count = ListReturnType::Count;
    let value = |element: u8| Value::Int(element.into());
    match act {
        TinyAct::Add(element) => RealAct::creating([
            lists::size(bin),
            lists::append(&Collection::list_policy(), bin, value(element)),
        ]),
        TinyAct::Remove(element) => {
            RealAct::of_existing([lists::remove_by_value(bin, value(element), count)])
        }
        TinyAct::Contains(element) => {
            RealAct::of_existing([lists::get_by_value(bin, value(element), count)])
        }
        TinyAct::All => RealAct::of_existing([get_bin(bin)]),
    }
}

fn real_request(bin: &str, request: &AtomicRequest<Tiny>) -> AtomicRequest<Bin> {
    let content = |part: &ElementSet| Content::List(list(*part));
    let edit = match &request.edit {
        RequestEdit::None => RequestEdit::None,
        RequestEdit::User(act) => RequestEdit::User(real_act(bin, *act)),
        RequestEdit::Mark(form, epoch, apart) => RequestEdit::Mark(form.clone(), *epoch, *apart),
        RequestEdit::FinishAndRemoveBin(scheme) => RequestEdit::FinishAndRemoveBin(*scheme),
        RequestEdit::Finish(scheme) => RequestEdit::Finish(*scheme),
        RequestEdit::RestoreToRoot(part) => RequestEdit::RestoreToRoot(content(part)),
        RequestEdit::Clear => RequestEdit::Clear,
        RequestEdit::Place(companion, token) => RequestEdit::Place(*companion, *token),
        RequestEdit::Fill(part) => RequestEdit::Fill(content(part)),
        RequestEdit::Freeze => RequestEdit::Freeze,
        RequestEdit::RemoveMoved(part, companion) => {
            RequestEdit::RemoveMoved(content(part), *companion)
        }
        RequestEdit::Absorb(part, companion) => RequestEdit::Absorb(content(part), *companion),
        RequestEdit::Enter(entry) => RequestEdit::Enter(*entry),
        RequestEdit::Delete => RequestEdit::Delete,
    };
    let read = match &request.read {
        Read::Nothing => Read::Nothing,
        Read::Description => Read::Description,
        Read::State => Read::State,
        Read::Content => Read::Content,
        Read::User(act) => Read::User(real_act(bin, *act)),
    };
    AtomicRequest {
        place: request.place,
        precondition: request.precondition.clone(),
        edit,
        read,
        expiration: request.expiration,
    }
}

/// The real store's reply in the abstract store's form: a missing bin is an empty one.
fn tiny_reply(reply: RequestReply<Bin>, request: &AtomicRequest<Tiny>) -> RequestReply<Tiny> {
    let act = match (&request.edit, &request.read) {
        (RequestEdit::User(act), Read::Nothing) | (_, Read::User(act)) => Some(*act),
        _ => None,
    };
    let seen = match reply {
        RequestReply::NotFound => return RequestReply::NotFound,
        RequestReply::FilteredOut => return RequestReply::FilteredOut,
        RequestReply::Done(seen) => seen,
    };
    let answer = seen.answer.map(|answer| {
        let number = |at: usize| match answer.values.get(at) {
            Some(Some(Value::Int(number))) => *number,
            _ => 0,
        };
        match act {
            Some(TinyAct::Add(_)) => TinyAnswer::Yes(number(0) < number(1)),
            Some(TinyAct::All) => match &answer.values[0] {
                Some(Value::List(items)) => TinyAnswer::All(set(items)),
                _ => TinyAnswer::All(0),
            },
            _ => TinyAnswer::Yes(number(0) > 0),
        }
    });
    let content = seen.content.map(|content| match content {
        Content::List(items) => set(&items),
        other => panic!("no list: {other:?}"),
    });
    RequestReply::Done(Observation {
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
        Scheme::Deactivating,
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

fn any_companion_place() -> impl Strategy<Value = RecordRef> + Clone {
    (0..2_u64, any::<bool>()).prop_map(|(shard, by_bin)| {
        let keys = if by_bin {
            KeyForm::ByBin
        } else {
            KeyForm::Plain
        };
        RecordRef::Companion(keys, shard)
    })
}

fn any_token() -> impl Strategy<Value = CompanionToken> + Clone {
    (1..3_u64).prop_map(CompanionToken)
}

fn any_act() -> impl Strategy<Value = TinyAct> + Clone {
    (0..3_u8, 0..4_u8).prop_map(|(what, element)| match what {
        0 => TinyAct::Add(element),
        1 => TinyAct::Remove(element),
        _ => TinyAct::Contains(element),
    })
}

fn any_part() -> impl Strategy<Value = ElementSet> + Clone {
    0..16_u8
}

fn any_read() -> impl Strategy<Value = Read<Tiny>> + Clone {
    (0..3_u8, any_act()).prop_map(|(what, act)| match (what, act) {
        (0, _) => Read::State,
        (1, _) => Read::Content,
        (_, TinyAct::Contains(element)) => Read::User(TinyAct::Contains(element)),
        _ => Read::User(TinyAct::All),
    })
}

/// Requests that the machines may make of a root. Preconditions with a description still have an
/// empty one.
fn of_root() -> impl Strategy<Value = AtomicRequest<Tiny>> + Clone {
    let bears = || Precondition::Bears(SharedDescription::default());
    let marked_from = any::<bool>().prop_map(move |bare| {
        if bare {
            Precondition::Bare(SharedDescription::default())
        } else {
            bears()
        }
    });
    let neighbors = any::<bool>().prop_map(|sharded| {
        if sharded {
            NeighborCollections::Sharded
        } else {
            NeighborCollections::None
        }
    });
    let write = |precondition, edit| AtomicRequest::write(RecordRef::Root, precondition, edit);
    let end = |to, whole| if whole { Scheme::Unsharded } else { to };
    prop_oneof![
        any_read().prop_map(|read| AtomicRequest::read(RecordRef::Root, read)),
        (neighbors.clone(), any_act()).prop_map(move |(neighbors, act)| write(
            Precondition::Unsharded(neighbors),
            RequestEdit::User(act)
        )),
        (neighbors.clone(), 0..4_u8).prop_map(|(neighbors, element)| {
            let read = Read::User(TinyAct::Contains(element));
            AtomicRequest::read(RecordRef::Root, read)
                .on_condition(Precondition::Unsharded(neighbors))
        }),
        neighbors.prop_map(move |neighbors| write(
            Precondition::Unsharded(neighbors),
            RequestEdit::Clear
        )),
        (marked_from, any_scheme(), any_epoch()).prop_map(move |(precondition, to, epoch)| write(
            precondition,
            RequestEdit::Mark(Form::Hash(to), epoch, None)
        )),
        (any_scheme(), any::<bool>()).prop_map(move |(to, whole)| write(
            bears(),
            RequestEdit::FinishAndRemoveBin(end(to, whole))
        )),
        (any_scheme(), any::<bool>())
            .prop_map(move |(to, whole)| write(bears(), RequestEdit::Finish(end(to, whole)))),
        any_part().prop_map(move |part| write(bears(), RequestEdit::RestoreToRoot(part))),
    ]
}

/// The request, with a description to bear: that of the root as it is, or as it was.
fn with_description(
    request: AtomicRequest<Tiny>,
    description: &Description,
) -> AtomicRequest<Tiny> {
    let precondition = match &request.precondition {
        Precondition::Bears(_) => Precondition::Bears(description.clone().into()),
        Precondition::Bare(_) => Precondition::Bare(description.clone().into()),
        other => other.clone(),
    };
    // Every mark raises the latest epoch, and requests to a root depend on it.
    let edit = match request.edit {
        RequestEdit::Mark(to, epoch, apart) if epoch <= description.latest() => {
            RequestEdit::Mark(to, Epoch(description.latest().0 + 1), apart)
        }
        edit => edit,
    };
    AtomicRequest {
        precondition,
        edit,
        ..request
    }
}

/// Requests that the machines may make of a companion.
fn of_companion() -> impl Strategy<Value = AtomicRequest<Tiny>> + Clone {
    let conditional = (any_companion(), any_epoch(), any_token());
    let edit = (0..8_u8, any_act(), any_part(), any_companion(), any_token());
    let written = (any_companion_place(), conditional, edit, any::<bool>()).prop_map(
        |(place, (exactly, epoch, token), edit, asks)| {
            let (what, act, part, companion, new_token) = edit;
            let older = Precondition::OlderThan(epoch);
            let request = match what {
                0 => {
                    AtomicRequest::write(place, Precondition::Live(exactly), RequestEdit::User(act))
                }
                1 => AtomicRequest::write(place, older, RequestEdit::Place(companion, new_token)),
                2 => AtomicRequest::write(
                    place,
                    Precondition::Placed(exactly, token),
                    RequestEdit::Fill(part),
                ),
                3 => AtomicRequest::write(place, older, RequestEdit::Freeze),
                4 => AtomicRequest::write(place, older, RequestEdit::RemoveMoved(part, companion)),
                5 => AtomicRequest::write(place, older, RequestEdit::Absorb(part, companion)),
                6 => AtomicRequest::read(place, Read::User(TinyAct::Contains(part % 4)))
                    .on_condition(Precondition::Live(exactly)),
                _ => AtomicRequest::write(place, older, RequestEdit::Delete),
            };
            match request.edit {
                RequestEdit::Freeze if asks => AtomicRequest {
                    read: Read::Content,
                    ..request
                },
                _ => request,
            }
        },
    );
    prop_oneof![
        (any_companion_place(), any_read())
            .prop_map(|(place, read)| AtomicRequest::read(place, read)),
        written.clone(),
        written.clone(),
        written,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_abstract_store_answers_as_a_real_one(
        requests in prop::collection::vec(
            (0..2_usize, prop_oneof![of_root(), of_companion(), of_companion()], 0..4_u8),
            1..40,
        ),
        foreign in any::<bool>(),
    ) {
        let real = Real::new();
        let mut tiny = HashStore { root: None, companions: BTreeMap::new() };
        if foreign {
            let place = RecordRef::Companion(KeyForm::Plain, 1);
            real.records.put(real.executor[0].key_of(place), [("name", 1)]).unwrap();
            let key = companion_key(0, KeyForm::Plain, 1);
            tiny.companions.insert(key, CompanionRecord::Foreign);
        }
        let mut last = Description::default();
        for (of, request, stale) in requests {
            let now = tiny.root.clone().unwrap_or_default().description;
            let request = with_description(request, if stale == 0 { &last } else { &now });
            last = now;
            let expected = tiny.execute(of, &request, None);
            let found = real.execute(of, &request);
            prop_assert_eq!(format!("{expected:?}"), format!("{found:?}"), "{}: {:?}", of, request);
        }
    }
}
