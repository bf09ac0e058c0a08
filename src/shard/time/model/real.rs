//! The abstract store answers as a real one: random steps, on both.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::store::{Act, Hole, LAYOUT, Reply, Request, Store, bucket_of};
use crate::operations::lists;
use crate::record::BinName;
use crate::record::companion_key::KeyForm;
use crate::shard::address::CollectionAddress;
use crate::shard::content::{Act as RealAct, ActValues, Collection};
use crate::shard::description::{Description, Form};
use crate::shard::protocol::{CompanionRoute, CompanionToken};
use crate::shard::scheme::{Epoch, Scheme};
use crate::shard::time::layout::{CollectionPart, DirectoryPage};
use crate::shard::time::record_steps::RecordSteps;
use crate::shard::time::steps::{Direction, PageRange, RootState, StepOutcome, TimeSteps};
use crate::storage::ManualClock;
use crate::{Key, ListReturnType, Operation, Set, Value, WritePolicy};

const KEY: &str = "lobby";

/// What is asked of a step. Roots and tokens are taken from those that were met, the latest ones first.
#[derive(Clone, Debug)]
enum Ask {
    Root,
    Begin(usize, u64),
    MarkDeleting(usize),
    Clear(usize),
    Neighbor,
    Look(KeyForm, CollectionPart),
    Place(CompanionRoute, CollectionPart),
    Open(CompanionRoute, CollectionPart, usize),
    Displace(CompanionRoute, CollectionPart, usize),
    Delete(CompanionRoute, CollectionPart),
    Enter(CompanionRoute, DirectoryPage, i64),
    Entries(KeyForm, DirectoryPage, PageRange),
    Act(CompanionRoute, CollectionPart, Act),
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let keys = || prop::sample::select(vec![KeyForm::Plain, KeyForm::Plain, KeyForm::ByBin]);
    let page = || prop::sample::select(vec![DirectoryPage::Top, DirectoryPage::Year(0)]);
    let part = move || {
        prop_oneof![
            page().prop_map(CollectionPart::Page),
            (0..2_u8).prop_map(|bucket| CollectionPart::Shard(bucket_of(bucket * 2), 0)),
        ]
    };
    let route = move || {
        (1..5_u64, keys()).prop_map(|(epoch, keys)| CompanionRoute {
            shards: LAYOUT.shards,
            epoch: Epoch(epoch),
            keys,
        })
    };
    let act = prop_oneof![
        (0..4_u8).prop_map(Act::Add),
        (0..4_u8).prop_map(Act::Remove)
    ];
    let entry = || prop::sample::select(vec![-7, 0, 1, 5, 90]);
    let direction = prop::sample::select(vec![Direction::OldestFirst, Direction::NewestFirst]);
    let end = prop::sample::select(vec![0, 1, 5, 100, i64::MAX]);
    let range =
        (entry(), end, direction, 1..4_usize).prop_map(|(from, to, direction, limit)| PageRange {
            from,
            to,
            direction,
            limit,
        });
    let recent = || 0..3_usize;
    let ask = prop_oneof![
        4 => Just(Ask::Root),
        2 => (recent(), 0..4_u64).prop_map(|(root, after)| Ask::Begin(root, after)),
        1 => recent().prop_map(Ask::MarkDeleting),
        1 => recent().prop_map(Ask::Clear),
        1 => Just(Ask::Neighbor),
        3 => (keys(), part()).prop_map(|(keys, part)| Ask::Look(keys, part)),
        6 => (route(), part()).prop_map(|(route, part)| Ask::Place(route, part)),
        6 => (route(), part(), recent()).prop_map(|(route, part, token)| Ask::Open(route, part, token)),
        2 => (route(), part(), recent()).prop_map(|(route, part, token)| Ask::Displace(route, part, token)),
        2 => (route(), part()).prop_map(|(route, part)| Ask::Delete(route, part)),
        6 => (route(), page(), entry()).prop_map(|(route, page, entry)| Ask::Enter(route, page, entry)),
        4 => (keys(), page(), range).prop_map(|(keys, page, range)| Ask::Entries(keys, page, range)),
        6 => (route(), part(), act).prop_map(|(route, part, act)| Ask::Act(route, part, act)),
    ];
    prop::collection::vec(ask, 1..60)
}

/// Both stores, and what was met in them.
struct Both {
    model: Store,
    set: Set,
    steps: RecordSteps<Set>,
    roots: Vec<RootState>,
    /// Of the model, and of the real store.
    tokens: Vec<(CompanionToken, CompanionToken)>,
    /// What the model leaves out.
    hole: Option<Hole>,
}

impl Both {
    fn new(hole: Option<Hole>) -> Self {
        // At this time no epoch is later than its predecessor by more than one.
        let clock = Arc::new(ManualClock::at(0));
        let store = crate::Store::builder().clock(clock).open().unwrap();
        let set = store.set("chats").unwrap();
        let bin = BinName::new("said").unwrap();
        let policy = WritePolicy::default();
        let address = CollectionAddress {
            records: set.clone(),
            key: Key::from(KEY),
            bin,
        };
        let steps = RecordSteps::new(address, LAYOUT, &policy);
        let mut both = Self {
            model: Store::default(),
            set,
            steps,
            roots: Vec::new(),
            tokens: vec![(CompanionToken(u64::MAX), CompanionToken(u64::MAX))],
            hole,
        };
        both.ask(&Ask::Root).unwrap();
        both
    }

    fn force(&self, operations: &[Operation]) {
        let forced = WritePolicy::default().override_shards(true);
        self.set.operate_with(&forced, KEY, operations).unwrap();
    }

    fn describe(&self, description: &Description) {
        self.force(&description.write());
    }

    fn root_of(&self, back: usize) -> RootState {
        self.roots[self.roots.len() - 1 - back % self.roots.len()].clone()
    }

    fn token_of(&self, back: usize) -> (CompanionToken, CompanionToken) {
        self.tokens[self.tokens.len() - 1 - back % self.tokens.len()]
    }

    /// Asks both.
    ///
    /// # Errors
    /// What the two have answered, where that is not the same.
    fn ask(&mut self, ask: &Ask) -> Result<(), String> {
        let next = CompanionToken(self.tokens.len() as u64);
        let (request, real) = match ask {
            Ask::Neighbor => {
                // Nobody shards a list in a root that has none of this collection's shards, or takes the last one away.
                if self.model.root().collection.is_some() {
                    self.model.change_neighbor();
                    self.describe(&self.model.root().description);
                }
                return Ok(());
            }
            Ask::Root => (Request::Root, Reply::Root(self.steps.root().unwrap())),
            Ask::Begin(root, after) => {
                let (root, after) = (self.root_of(*root), Epoch(*after));
                let real = self.steps.begin(&root, after).unwrap();
                (Request::Begin(root, after), Reply::Outcome(real))
            }
            Ask::MarkDeleting(root) => {
                let root = self.root_of(*root);
                if root.collection.is_none() {
                    return Ok(());
                }
                let real = self.steps.mark_deleting(&root).unwrap();
                (Request::MarkDeleting(root), Reply::Outcome(real))
            }
            Ask::Clear(root) => {
                let root = self.root_of(*root);
                if root.collection.is_none() {
                    return Ok(());
                }
                let real = self.steps.clear(&root).unwrap();
                (Request::Clear(root), Reply::Outcome(real))
            }
            Ask::Look(keys, part) => {
                let real = self.steps.look(*keys, *part).unwrap();
                (Request::Look(*keys, *part), Reply::State(real))
            }
            Ask::Place(route, part) => {
                let real = self.steps.place(*route, *part).unwrap();
                self.tokens.extend(real.map(|real| (next, real)));
                (Request::Place(*route, *part, next), Reply::Placed(real))
            }
            Ask::Open(route, part, token) => {
                let (token, own) = self.token_of(*token);
                let real = self.steps.open(*route, *part, own).unwrap();
                (Request::Open(*route, *part, token), Reply::Outcome(real))
            }
            Ask::Displace(route, part, token) => {
                let (token, own) = self.token_of(*token);
                let real = self.steps.displace(*route, *part, own).unwrap();
                (
                    Request::Displace(*route, *part, token),
                    Reply::Outcome(real),
                )
            }
            Ask::Delete(route, part) => {
                let real = self.steps.delete(*route, *part).unwrap();
                (Request::Delete(*route, *part), Reply::Outcome(real))
            }
            Ask::Enter(route, page, entry) => {
                let real = self.steps.enter(*route, *page, *entry).unwrap();
                (Request::Enter(*route, *page, *entry), Reply::Outcome(real))
            }
            Ask::Entries(keys, page, range) => {
                let (state, entries) = self.steps.entries(*keys, *page, *range).unwrap();
                let request = Request::Entries(*keys, *page, *range);
                (request, Reply::Entries(state, entries))
            }
            Ask::Act(route, part, act) => {
                if let CollectionPart::Page(_) = part {
                    return Ok(());
                }
                let real = self.steps.act(*route, *part, &real_act(*act)).unwrap();
                (
                    Request::Act(*route, *part, *act),
                    Reply::Answer(answer(real)),
                )
            }
        };
        let model = self.model.execute(&request, self.hole);
        let real = self.in_tokens_of_the_model(real);
        if real != model {
            return Err(format!("{request:?}: {real:?}, and the model: {model:?}"));
        }
        if let Reply::Root(root) = model {
            self.roots.push(root);
        }
        Ok(())
    }

    /// Replaces the tokens of the real store.
    fn in_tokens_of_the_model(&self, reply: Reply) -> Reply {
        use crate::shard::time::steps::PartState;
        let token = |real: CompanionToken| {
            let known = self.tokens.iter().find(|(_, own)| *own == real);
            known.map_or(CompanionToken(u64::MAX - 1), |(token, _)| *token)
        };
        let state = |state: PartState| match state {
            PartState::Placed(epoch, real) => PartState::Placed(epoch, token(real)),
            state => state,
        };
        match reply {
            Reply::State(found) => Reply::State(state(found)),
            Reply::Placed(placed) => Reply::Placed(placed.map(token)),
            Reply::Entries(found, entries) => Reply::Entries(state(found), entries),
            reply => reply,
        }
    }
}

/// Counts the elements, does it, and counts again.
fn real_act(act: Act) -> RealAct {
    let write = match act {
        Act::Add(element) => lists::append(&Collection::list_policy(), "said", i64::from(element)),
        Act::Remove(element) => {
            let element = Value::Int(element.into());
            lists::remove_by_value("said", element, ListReturnType::None)
        }
    };
    RealAct::of_existing([lists::size("said"), write, lists::size("said")])
}

fn answer(real: StepOutcome<ActValues>) -> StepOutcome<bool> {
    real.map(|values| values.first() != values.last())
}

#[test]
fn the_neighbor_of_the_model_is_a_sharded_list() {
    let mut both = Both::new(None);
    both.ask(&Ask::Begin(0, 0)).unwrap();
    both.ask(&Ask::Neighbor).unwrap();
    let list = BinName::new("list").unwrap();
    let description = both.steps.root().unwrap().description;
    let form = description.of(list).map(|entry| entry.form.clone());
    assert_eq!(form, Some(Form::Hash(Scheme::Active { shards: 2 })));
}

/// Every guard of the model is one of the real store: without it the two answer otherwise.
#[test]
fn an_abstract_store_without_a_guard_is_found_out() {
    let mut runner = TestRunner::deterministic();
    for hole in [
        Hole::BeginBears,
        Hole::MarkBears,
        Hole::ClearBears,
        Hole::PlacedOlder,
        Hole::OpenPlaced,
        Hole::OpenToken,
        Hole::DisplacePlaced,
        Hole::DeletedOlder,
        Hole::EnterOpen,
        Hole::ActOpen,
    ] {
        let differs = (0..2_000).any(|_| {
            let asks = asks().new_tree(&mut runner).unwrap().current();
            let mut both = Both::new(Some(hole));
            asks.iter().any(|ask| both.ask(ask).is_err())
        });
        assert!(differs, "{hole:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_abstract_store_answers_as_a_real_one(asks in asks()) {
        let mut both = Both::new(None);
        for ask in asks.iter().chain([&Ask::Root]) {
            if let Err(difference) = both.ask(ask) {
                panic!("{difference}");
            }
        }
    }
}
