//! The abstract store answers as a real one: random steps, on both.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::replay::Replay;
use super::store::{LAYOUT, TimeAct, TimeAnswer, TimeHole, TimeStore, bin, bucket_of};
use crate::operations::lists;
use crate::record::BinName;
use crate::record::companion_key::KeyForm;
use crate::shard::content::{Act as RealAct, ActReply, Collection};
use crate::shard::description::{Description, Form};
use crate::shard::executor::Executor;
use crate::shard::protocol::{
    CollectionRoot, CompanionRoute, CompanionState, CompanionToken, RequestEdit, StepOutcome,
};
use crate::shard::scheme::{Epoch, Scheme};
use crate::shard::time::layout::{CollectionPart, DirectoryPage};
use crate::shard::time::record_steps::RecordSteps;
use crate::shard::time::steps::{
    ActOf, AnswerOf, Direction, PageRange, PartState, TimeSteps, TimedKind,
};
use crate::storage::ManualClock;
use crate::{Key, ListReturnType, Operation, Set, Value, WritePolicy};

const KEY: &str = "lobby";

/// The request of a step. Roots and tokens are taken from the ones met before, the latest first.
#[derive(Clone, Debug)]
enum StepAsk {
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
    Act(CompanionRoute, CollectionPart, TimeAct),
}

fn asks() -> impl Strategy<Value = Vec<StepAsk>> {
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
        (0..4_u8).prop_map(TimeAct::Add),
        (0..4_u8).prop_map(TimeAct::Remove)
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
        4 => Just(StepAsk::Root),
        2 => (recent(), 0..4_u64).prop_map(|(root, after)| StepAsk::Begin(root, after)),
        1 => recent().prop_map(StepAsk::MarkDeleting),
        1 => recent().prop_map(StepAsk::Clear),
        1 => Just(StepAsk::Neighbor),
        3 => (keys(), part()).prop_map(|(keys, part)| StepAsk::Look(keys, part)),
        6 => (route(), part()).prop_map(|(route, part)| StepAsk::Place(route, part)),
        6 => (route(), part(), recent()).prop_map(|(route, part, token)| StepAsk::Open(route, part, token)),
        2 => (route(), part(), recent()).prop_map(|(route, part, token)| StepAsk::Displace(route, part, token)),
        2 => (route(), part()).prop_map(|(route, part)| StepAsk::Delete(route, part)),
        6 => (route(), page(), entry()).prop_map(|(route, page, entry)| StepAsk::Enter(route, page, entry)),
        4 => (keys(), page(), range).prop_map(|(keys, page, range)| StepAsk::Entries(keys, page, range)),
        6 => (route(), part(), act).prop_map(|(route, part, act)| StepAsk::Act(route, part, act)),
    ];
    prop::collection::vec(ask, 1..60)
}

/// The answer of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StepTold {
    Root(CollectionRoot),
    Outcome(StepOutcome<()>),
    State(PartState),
    Placed(Option<CompanionToken>),
    Entries(PartState, Vec<i64>),
    Answer(StepOutcome<bool>),
}

/// Takes a step on one of the stores, with a root and a token that were met there.
fn step<S: TimeSteps>(
    steps: &S,
    ask: &StepAsk,
    (root, token): (&CollectionRoot, CompanionToken),
    act: impl Fn(TimeAct) -> ActOf<S>,
    yes: impl Fn(AnswerOf<S>) -> bool,
) -> crate::Result<StepTold> {
    Ok(match ask {
        StepAsk::Root => StepTold::Root(steps.root()?.root),
        StepAsk::Begin(_, after) => StepTold::Outcome(steps.begin(root, Epoch(*after))?),
        StepAsk::MarkDeleting(_) => StepTold::Outcome(steps.mark_deleting(root)?),
        StepAsk::Clear(_) => StepTold::Outcome(steps.clear(root)?),
        StepAsk::Look(keys, part) => StepTold::State(steps.look(*keys, *part)?),
        StepAsk::Place(route, part) => StepTold::Placed(steps.place(*route, *part)?),
        StepAsk::Open(route, part, _) => {
            let fill = RequestEdit::Fill(S::Kind::EMPTY);
            StepTold::Outcome(steps.edit_placed((*route, *part), token, fill)?)
        }
        StepAsk::Displace(route, part, _) => {
            let delete = RequestEdit::Delete;
            StepTold::Outcome(steps.edit_placed((*route, *part), token, delete)?)
        }
        StepAsk::Delete(route, part) => StepTold::Outcome(steps.delete(*route, *part)?),
        StepAsk::Enter(route, page, entry) => {
            StepTold::Outcome(steps.enter(*route, *page, *entry)?)
        }
        StepAsk::Entries(keys, page, range) => {
            let (state, entries) = steps.entries(*keys, *page, *range)?;
            StepTold::Entries(state, entries)
        }
        StepAsk::Act(route, part, asked) => {
            StepTold::Answer(steps.act(*route, *part, &act(*asked))?.map(yes))
        }
        StepAsk::Neighbor => panic!("no step"),
    })
}

/// The model and a real store, with the roots and tokens met in them.
struct BothStores {
    model: TimeStore,
    set: Set,
    steps: RecordSteps<Set>,
    roots: Vec<CollectionRoot>,
    /// Of the model, and of the real store.
    tokens: Vec<(CompanionToken, CompanionToken)>,
    /// What the model leaves out.
    hole: Option<TimeHole>,
}

impl BothStores {
    fn new(hole: Option<TimeHole>) -> Self {
        // At this time no epoch is later than its predecessor by more than one.
        let clock = Arc::new(ManualClock::at(0));
        let store = crate::Store::builder().clock(clock).open().unwrap();
        let set = store.set("chats").unwrap();
        let policy = WritePolicy::default();
        let steps = RecordSteps {
            records: set.clone(),
            executor: Executor::new(Key::from(KEY), bin(), Collection::List, &policy),
            layout: LAYOUT,
            retention: None,
        };
        let mut both = Self {
            model: TimeStore::default(),
            set,
            steps,
            roots: Vec::new(),
            tokens: vec![(CompanionToken(u64::MAX), CompanionToken(u64::MAX))],
            hole,
        };
        both.ask(&StepAsk::Root).unwrap();
        both
    }

    fn force(&self, operations: &[Operation]) {
        let forced = WritePolicy::default().override_shards(true);
        self.set.operate_with(&forced, KEY, operations).unwrap();
    }

    fn describe(&self, description: &Description) {
        self.force(&description.write());
    }

    fn root_of(&self, back: usize) -> CollectionRoot {
        self.roots[self.roots.len() - 1 - back % self.roots.len()].clone()
    }

    fn token_of(&self, back: usize) -> (CompanionToken, CompanionToken) {
        self.tokens[self.tokens.len() - 1 - back % self.tokens.len()]
    }

    /// Asks both.
    ///
    /// # Errors
    /// Both answers, where they differ.
    fn ask(&mut self, ask: &StepAsk) -> Result<(), String> {
        let (mut root, mut tokens) = (CollectionRoot::default(), self.tokens[0]);
        match ask {
            StepAsk::Neighbor => {
                // Only a root that has shards of this collection gets or loses another sharded
                // list.
                if self.model.root().companions().is_some() {
                    self.model.change_neighbor();
                    self.describe(&self.model.root().description);
                }
                return Ok(());
            }
            StepAsk::Begin(back, _) | StepAsk::MarkDeleting(back) | StepAsk::Clear(back) => {
                root = self.root_of(*back);
                if root.companions().is_none() && !matches!(ask, StepAsk::Begin(..)) {
                    return Ok(());
                }
            }
            StepAsk::Open(_, _, back) | StepAsk::Displace(_, _, back) => {
                tokens = self.token_of(*back)
            }
            StepAsk::Act(_, CollectionPart::Page(_), _) => return Ok(()),
            _ => {}
        }
        let model = Replay {
            replies: &[],
            next: Cell::new(0),
            pending: RefCell::new(None),
            at_once: Some((RefCell::new(&mut self.model), self.hole)),
            token: Cell::new(self.tokens.len() as u64),
            attempt: Cell::default(),
        };
        let yes = |answer| answer == TimeAnswer::Yes(true);
        let model = step(&model, ask, (&root, tokens.0), |act| act, yes).unwrap();
        let real = step(&self.steps, ask, (&root, tokens.1), real_act, answer).unwrap();
        if let (StepTold::Placed(Some(model)), StepTold::Placed(Some(real))) = (&model, &real) {
            self.tokens.push((*model, *real));
        }
        let real = self.in_tokens_of_the_model(real);
        if real != model {
            return Err(format!("{ask:?}: {real:?}, and the model: {model:?}"));
        }
        if let StepTold::Root(root) = model {
            self.roots.push(root);
        }
        Ok(())
    }

    /// Replaces the tokens of the real store.
    fn in_tokens_of_the_model(&self, told: StepTold) -> StepTold {
        let token = |real: CompanionToken| {
            let known = self.tokens.iter().find(|(_, own)| *own == real);
            known.map_or(CompanionToken(u64::MAX - 1), |(token, _)| *token)
        };
        let state = |state: PartState| match state {
            Some((found, CompanionState::Placed(real))) => {
                Some((found, CompanionState::Placed(token(real))))
            }
            state => state,
        };
        match told {
            StepTold::State(found) => StepTold::State(state(found)),
            StepTold::Placed(placed) => StepTold::Placed(placed.map(token)),
            StepTold::Entries(found, entries) => StepTold::Entries(state(found), entries),
            told => told,
        }
    }
}

/// Counts the elements, does it, and counts again.
fn real_act(act: TimeAct) -> RealAct {
    let write = match act {
        TimeAct::Add(element) => {
            lists::append(&Collection::list_policy(), "said", i64::from(element))
        }
        TimeAct::Remove(element) => {
            let element = Value::Int(element.into());
            lists::remove_by_value("said", element, ListReturnType::None)
        }
        act => panic!("{act:?} is not asked"),
    };
    RealAct::of_existing([lists::size("said"), write, lists::size("said")])
}

fn answer(real: ActReply) -> bool {
    real.values.first() != real.values.last()
}

#[test]
fn the_neighbor_of_the_model_is_a_sharded_list() {
    let mut both = BothStores::new(None);
    both.ask(&StepAsk::Begin(0, 0)).unwrap();
    both.ask(&StepAsk::Neighbor).unwrap();
    let list = BinName::new("list").unwrap();
    let description = both.steps.root().unwrap().root.description;
    let form = description.of(list).map(|entry| entry.form.clone());
    assert_eq!(form, Some(Form::Hash(Scheme::Active { shards: 2 })));
}

/// Every guard of the model is one of the real store: without it the two answer otherwise.
#[test]
fn an_abstract_store_without_a_guard_is_found_out() {
    let mut runner = TestRunner::deterministic();
    for hole in [
        TimeHole::BeginBears,
        TimeHole::MarkBears,
        TimeHole::ClearBears,
        TimeHole::PlacedOlder,
        TimeHole::OpenPlaced,
        TimeHole::OpenToken,
        TimeHole::DisplacePlaced,
        TimeHole::DeletedOlder,
        TimeHole::EnterOpen,
        TimeHole::ActOpen,
    ] {
        let differs = (0..2_000).any(|_| {
            let asks = asks().new_tree(&mut runner).unwrap().current();
            let mut both = BothStores::new(Some(hole));
            asks.iter().any(|ask| both.ask(ask).is_err())
        });
        assert!(differs, "{hole:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_abstract_store_answers_as_a_real_one(asks in asks()) {
        let mut both = BothStores::new(None);
        for ask in asks.iter().chain([&StepAsk::Root]) {
            if let Err(difference) = both.ask(ask) {
                panic!("{difference}");
            }
        }
    }
}
