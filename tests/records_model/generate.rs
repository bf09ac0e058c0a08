//! The steps of a caller, and random choices of them.

use std::time::Duration;

use proptest::prelude::*;
use spikelet::Expiration;
use spikelet::policy::RecordExistsAction;

/// Records that steps are about: few, so that they meet.
pub const KEYS: u8 = 6;

/// A step of a caller.
#[derive(Clone, Debug)]
pub enum Step {
    Put(u8, Policy, Vec<(u8, Content)>),
    Operate(u8, Policy, Vec<Edit>),
    Update(u8, Vec<(u8, Content)>),
    Delete(u8, GenerationOf),
    Touch(u8, Policy),
    Truncate,
    Advance(u32),
    Maintain,
    Close,
    Drop,
}

#[derive(Clone, Debug)]
pub enum Edit {
    Put(u8, Content),
    Add(u8, i64),
    Append(u8, String),
    Prepend(u8, String),
    Remove(u8),
    RemoveAll,
    /// ADD_UNIQUE | NO_FAIL into an ordered list with a persisted index.
    Insert(u8, i64),
    Read(u8),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Nil,
    Int(i64),
    Text(String),
}

/// A generation relative to the record's, so that policies often hold.
#[derive(Clone, Copy, Debug)]
pub enum GenerationOf {
    Any,
    Equal(i8),
    Greater(i8),
}

#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub action: RecordExistsAction,
    pub generation: GenerationOf,
    pub expiration: Expiration,
    pub send_key: bool,
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        1 => Just(Content::Nil),
        3 => any::<i64>().prop_map(Content::Int),
        3 => "[a-z]{0,40}".prop_map(Content::Text),
    ]
}

fn bins() -> impl Strategy<Value = Vec<(u8, Content)>> {
    prop::collection::vec((0..4u8, content()), 1..4)
}

fn generation() -> impl Strategy<Value = GenerationOf> {
    prop_oneof![
        4 => Just(GenerationOf::Any),
        2 => Just(GenerationOf::Equal(0)),
        1 => (-1..2i8).prop_map(GenerationOf::Equal),
        1 => (-1..2i8).prop_map(GenerationOf::Greater),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    let action = prop_oneof![
        6 => Just(RecordExistsAction::Update),
        1 => Just(RecordExistsAction::UpdateOnly),
        1 => Just(RecordExistsAction::Replace),
        1 => Just(RecordExistsAction::ReplaceOnly),
        1 => Just(RecordExistsAction::CreateOnly),
    ];
    let expiration = prop_oneof![
        4 => Just(Expiration::NamespaceDefault),
        1 => Just(Expiration::Never),
        2 => (1..8u64).prop_map(|seconds| Expiration::After(Duration::from_secs(seconds))),
        1 => Just(Expiration::DontUpdate),
    ];
    (action, generation(), expiration, prop::bool::weighted(0.8)).prop_map(
        |(action, generation, expiration, send_key)| Policy {
            action,
            generation,
            expiration,
            send_key,
        },
    )
}

fn edit() -> impl Strategy<Value = Edit> {
    let name = || 0..4u8;
    prop_oneof![
        2 => (name(), content()).prop_map(|(name, content)| Edit::Put(name, content)),
        2 => (name(), -5..5i64).prop_map(|(name, delta)| Edit::Add(name, delta)),
        1 => (name(), "[a-z]{1,5}").prop_map(|(name, text)| Edit::Append(name, text)),
        1 => (name(), "[a-z]{1,5}").prop_map(|(name, text)| Edit::Prepend(name, text)),
        1 => name().prop_map(Edit::Remove),
        1 => Just(Edit::RemoveAll),
        4 => (name(), 0..40i64).prop_map(|(name, element)| Edit::Insert(name, element)),
        2 => name().prop_map(Edit::Read),
    ]
}

pub fn step() -> impl Strategy<Value = Step> {
    let key = || 0..KEYS;
    prop_oneof![
        8 => (key(), policy(), bins()).prop_map(|(key, policy, bins)| Step::Put(key, policy, bins)),
        8 => (key(), policy(), prop::collection::vec(edit(), 1..5))
            .prop_map(|(key, policy, edits)| Step::Operate(key, policy, edits)),
        3 => (key(), bins()).prop_map(|(key, bins)| Step::Update(key, bins)),
        3 => (key(), generation()).prop_map(|(key, generation)| Step::Delete(key, generation)),
        2 => (key(), policy()).prop_map(|(key, policy)| Step::Touch(key, policy)),
        1 => Just(Step::Truncate),
        3 => (1..4000u32).prop_map(Step::Advance),
        1 => Just(Step::Maintain),
        1 => Just(Step::Close),
        1 => Just(Step::Drop),
    ]
}
