//! All record operations and policies against a naive model, with reopening (after a close, and after a drop without one)
//! at random points.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use spikelet::operations::{self, lists};
use spikelet::{
    Error, Expiration, GenerationPolicy, ListOrder, ListPolicy, ListWriteFlags, ManualClock,
    NamespaceConfig, Operation, RecordExistsAction, Store, Value, WritePolicy,
};

const KEYS: u8 = 6;
const START_MS: u64 = 500_000_000_000;

/// What a caller may do.
#[derive(Clone, Debug)]
enum Step {
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
enum Edit {
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
enum Content {
    Nil,
    Int(i64),
    Text(String),
}

/// A generation relative to the record's, so that policies often hold.
#[derive(Clone, Copy, Debug)]
enum GenerationOf {
    Any,
    Equal(i8),
    Greater(i8),
}

#[derive(Clone, Copy, Debug)]
struct Policy {
    action: RecordExistsAction,
    generation: GenerationOf,
    expiration: Expiration,
    send_key: bool,
}

#[derive(Clone, Debug, Default)]
struct ModelRecord {
    bins: Vec<(String, Value)>,
    generation: u32,
    void_time: u64,
    keyed: bool,
}

#[derive(Debug)]
struct Model {
    records: BTreeMap<u8, ModelRecord>,
    now_ms: u64,
    default_ttl: u64,
}

fn bin(name: u8) -> String {
    format!("bin{name}")
}

fn value(content: &Content) -> Value {
    match content {
        Content::Nil => Value::Nil,
        Content::Int(value) => Value::Int(*value),
        Content::Text(text) => Value::String(text.clone()),
    }
}

fn list_policy() -> ListPolicy {
    let flags = ListWriteFlags::ADD_UNIQUE | ListWriteFlags::NO_FAIL;
    ListPolicy::new(ListOrder::Ordered, flags).persist_index()
}

impl ModelRecord {
    fn find(&self, name: &str) -> Option<usize> {
        self.bins.iter().position(|(bin, _)| bin == name)
    }

    fn set(&mut self, name: &str, value: Value) {
        match (self.find(name), value) {
            (Some(at), Value::Nil) => {
                self.bins.swap_remove(at);
            }
            (None, Value::Nil) => {}
            (Some(at), value) => self.bins[at].1 = value,
            (None, value) => self.bins.push((name.to_owned(), value)),
        }
    }

    /// Returns the result of a read.
    fn apply(&mut self, edit: &Edit) -> Result<Option<Value>, u8> {
        let mut combine = |name: u8, with: Value, how: &dyn Fn(&Value) -> Option<Value>| {
            let name = bin(name);
            let new = match self.find(&name) {
                None => with,
                Some(at) => how(&self.bins[at].1).ok_or(12)?,
            };
            self.set(&name, new);
            Ok(None)
        };
        match edit {
            Edit::Put(name, content) => {
                self.set(&bin(*name), value(content));
                Ok(None)
            }
            Edit::Add(name, delta) => combine(*name, Value::Int(*delta), &|old| match old {
                Value::Int(old) => Some(Value::Int(old.wrapping_add(*delta))),
                _ => None,
            }),
            Edit::Append(name, text) => combine(*name, text.as_str().into(), &|old| match old {
                Value::String(old) => Some(Value::String(format!("{old}{text}"))),
                _ => None,
            }),
            Edit::Prepend(name, text) => combine(*name, text.as_str().into(), &|old| match old {
                Value::String(old) => Some(Value::String(format!("{text}{old}"))),
                _ => None,
            }),
            Edit::Remove(name) => {
                self.set(&bin(*name), Value::Nil);
                Ok(None)
            }
            Edit::RemoveAll => {
                self.bins.clear();
                Ok(None)
            }
            Edit::Insert(name, element) => {
                let name = bin(*name);
                let mut items: Vec<i64> = match self.find(&name).map(|at| &self.bins[at].1) {
                    None => Vec::new(),
                    Some(Value::List(list)) => list.iter().map(int).collect(),
                    Some(_) => return Err(12),
                };
                if let Err(at) = items.binary_search(element) {
                    items.insert(at, *element);
                }
                let count = items.len() as i64;
                self.set(&name, ordered(&items));
                Ok(Some(Value::Int(count)))
            }
            Edit::Read(name) => Ok(self.find(&bin(*name)).map(|at| self.bins[at].1.clone())),
        }
    }
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(value) => *value,
        other => panic!("not an integer: {other:?}"),
    }
}

fn ordered(items: &[i64]) -> Value {
    let items = items.iter().copied().map(Value::Int).collect();
    Value::List(spikelet::List::new(items, ListOrder::Ordered))
}

impl Model {
    fn live(&self, key: u8) -> Option<&ModelRecord> {
        let now = self.now_ms / 1000;
        self.records
            .get(&key)
            .filter(|record| record.void_time == 0 || record.void_time >= now)
    }

    fn generation(&self, key: u8, of: GenerationOf) -> GenerationPolicy {
        let now = self.live(key).map_or(0, |record| record.generation);
        let near = |offset: i8| now.saturating_add_signed(i32::from(offset));
        match of {
            GenerationOf::Any => GenerationPolicy::None,
            GenerationOf::Equal(offset) => GenerationPolicy::ExpectEqual(near(offset)),
            GenerationOf::Greater(offset) => GenerationPolicy::ExpectGreater(near(offset)),
        }
    }

    fn policy(&self, key: u8, policy: Policy) -> WritePolicy {
        WritePolicy::default()
            .record_exists_action(policy.action)
            .generation(self.generation(key, policy.generation))
            .expiration(policy.expiration)
            .send_key(policy.send_key)
    }

    fn check_generation(&self, key: u8, policy: GenerationPolicy) -> Result<(), u8> {
        let found = self.live(key).map_or(0, |record| record.generation);
        match policy {
            GenerationPolicy::ExpectEqual(expected) if found != expected => Err(3),
            GenerationPolicy::ExpectGreater(expected) if expected <= found => Err(3),
            _ => Ok(()),
        }
    }

    /// A write by the rules of the specification, 2.4 and 2.5, naively.
    fn write<R>(
        &mut self,
        key: u8,
        policy: &WritePolicy,
        touches: bool,
        edit: impl FnOnce(&mut ModelRecord) -> Result<R, u8>,
    ) -> Result<R, u8> {
        let old = self.live(key).cloned();
        if touches && old.is_none() {
            return Err(2);
        }
        match (policy.record_exists_action, &old) {
            (RecordExistsAction::UpdateOnly | RecordExistsAction::ReplaceOnly, None) => {
                return Err(2);
            }
            (RecordExistsAction::CreateOnly, Some(_)) => return Err(5),
            _ => {}
        }
        self.check_generation(key, policy.generation)?;
        let mut record = old.clone().unwrap_or_default();
        if matches!(
            policy.record_exists_action,
            RecordExistsAction::Replace | RecordExistsAction::ReplaceOnly
        ) {
            record.bins.clear();
        }
        let result = edit(&mut record)?;
        let now = self.now_ms / 1000;
        record.void_time = match policy.expiration {
            Expiration::Never => 0,
            Expiration::After(live) => now + live.as_secs(),
            Expiration::DontUpdate if old.is_some() => record.void_time,
            _ => {
                if self.default_ttl == 0 {
                    0
                } else {
                    now + self.default_ttl
                }
            }
        };
        if record.bins.is_empty() {
            return if old.is_some() {
                self.records.remove(&key);
                Ok(result)
            } else {
                Err(2)
            };
        }
        record.keyed |= policy.send_key;
        record.generation = if record.generation == 65_535 {
            1
        } else {
            record.generation + 1
        };
        self.records.insert(key, record);
        Ok(result)
    }
}

/// The store under test.
struct Subject {
    dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
    default_ttl: u64,
    store: Option<Store>,
}

impl Subject {
    fn open(&mut self) {
        let mut config = NamespaceConfig::new("test");
        config.background = false;
        config.write_lanes = 2;
        config.max_device_bytes = 256 << 20;
        config.default_time_to_live =
            (self.default_ttl > 0).then(|| Duration::from_secs(self.default_ttl));
        let clock: Arc<dyn spikelet::Clock> = Arc::clone(&self.clock) as _;
        let builder = Store::builder()
            .path(self.dir.path())
            .namespace(config)
            .clock(clock);
        self.store = Some(builder.open().unwrap());
    }

    fn set(&self) -> spikelet::Set {
        self.store.as_ref().unwrap().set("records").unwrap()
    }
}

fn operation(edit: &Edit) -> Operation {
    match edit {
        Edit::Put(name, content) => operations::put(&bin(*name), value(content)),
        Edit::Add(name, delta) => operations::add(&bin(*name), *delta),
        Edit::Append(name, text) => operations::append(&bin(*name), text.as_str()),
        Edit::Prepend(name, text) => operations::prepend(&bin(*name), text.as_str()),
        Edit::Remove(name) => operations::delete_bin(&bin(*name)),
        Edit::RemoveAll => operations::delete_all_bins(),
        Edit::Insert(name, element) => lists::append(&list_policy(), &bin(*name), *element),
        Edit::Read(name) => operations::get_bin(&bin(*name)),
    }
}

fn replaces(policy: &WritePolicy) -> bool {
    matches!(
        policy.record_exists_action,
        RecordExistsAction::Replace | RecordExistsAction::ReplaceOnly
    )
}

fn code<T>(result: &Result<T, Error>) -> Result<(), u8> {
    result.as_ref().map(|_| ()).map_err(Error::result_code)
}

fn compare(subject: &Subject, model: &Model) {
    let set = subject.set();
    for key in 0..KEYS {
        let read = set.get(i64::from(key)).unwrap();
        let Some(expected) = model.live(key) else {
            assert_eq!(read, None, "key {key} should not be there");
            continue;
        };
        let read = read.unwrap_or_else(|| panic!("key {key} is lost: {expected:?}"));
        let bins: Vec<_> = read
            .bins()
            .map(|(name, value)| (name.to_owned(), value.to_value().unwrap()))
            .collect();
        assert_eq!(bins, expected.bins, "key {key}");
        assert_eq!(
            u32::from(read.generation()),
            expected.generation,
            "key {key}"
        );
        assert_eq!(
            u64::from(read.metadata().void_time),
            expected.void_time,
            "key {key}"
        );
        assert_eq!(read.key().is_some(), expected.keyed, "key {key}");
        assert!(set.exists(i64::from(key)).unwrap());
    }
    let mut scanned = 0;
    set.scan(|_| scanned += 1);
    assert_eq!(
        scanned,
        (0..KEYS).filter(|key| model.live(*key).is_some()).count()
    );
}

fn run(step: &Step, subject: &mut Subject, model: &mut Model) {
    match step {
        Step::Put(key, policy, bins) => {
            let policy = model.policy(*key, *policy);
            let named: Vec<_> = bins
                .iter()
                .map(|(name, content)| (bin(*name), value(content)))
                .collect();
            let done = subject
                .set()
                .put_with(&policy, i64::from(*key), named.clone());
            let mut last: Vec<(String, Value)> = Vec::new();
            for (name, value) in named {
                match last.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, known)) => *known = value,
                    None => last.push((name, value)),
                }
            }
            let removes = last.iter().any(|(_, value)| *value == Value::Nil);
            let expected = if replaces(&policy) && removes {
                Err(4)
            } else {
                model.write(*key, &policy, false, |record| {
                    last.into_iter()
                        .for_each(|(name, value)| record.set(&name, value));
                    Ok(())
                })
            };
            assert_eq!(code(&done), expected, "{step:?}: {done:?}");
        }
        Step::Operate(key, policy, edits) => {
            let policy = model.policy(*key, *policy);
            let operations: Vec<_> = edits.iter().map(operation).collect();
            let done = subject
                .set()
                .operate_with(&policy, i64::from(*key), &operations);
            let forbidden = |edit: &Edit| {
                !matches!(
                    edit,
                    Edit::Put(_, Content::Int(_) | Content::Text(_)) | Edit::Read(_)
                )
            };
            if replaces(&policy) && edits.iter().any(forbidden) {
                assert_eq!(code(&done), Err(4), "{step:?}");
                return;
            }
            if edits.iter().all(|edit| matches!(edit, Edit::Read(_))) {
                let expected = model.live(*key).cloned().ok_or(2).and_then(|mut record| {
                    edits
                        .iter()
                        .map(|edit| record.apply(edit))
                        .collect::<Result<Vec<_>, u8>>()
                });
                let values =
                    done.map(|done| (0..edits.len()).map(|at| done.value(at).cloned()).collect());
                assert_eq!(
                    values.map_err(|error| error.result_code()),
                    expected,
                    "{step:?}"
                );
                return;
            }
            let expected = model.write(*key, &policy, false, |record| {
                edits
                    .iter()
                    .map(|edit| record.apply(edit))
                    .collect::<Result<Vec<_>, u8>>()
            });
            let values =
                done.map(|done| (0..edits.len()).map(|at| done.value(at).cloned()).collect());
            assert_eq!(
                values.map_err(|error| error.result_code()),
                expected,
                "{step:?}"
            );
        }
        Step::Update(key, bins) => {
            let existed = model.live(*key).is_some();
            let done = subject.set().update(i64::from(*key), |record| {
                for (name, content) in bins {
                    match content {
                        Content::Nil => drop(record.remove(&bin(*name))),
                        content => record.set(&bin(*name), value(content))?,
                    }
                }
                Ok(())
            });
            let expected = model.write(*key, &WritePolicy::default(), false, |record| {
                bins.iter()
                    .for_each(|(name, content)| record.set(&bin(*name), value(content)));
                Ok(())
            });
            // A closure that makes nothing of nothing is no error.
            let expected = if !existed && expected == Err(2) {
                Ok(())
            } else {
                expected
            };
            assert_eq!(code(&done), expected, "{step:?}");
        }
        Step::Delete(key, generation) => {
            let policy = WritePolicy::default().generation(model.generation(*key, *generation));
            let done = subject.set().delete_with(&policy, i64::from(*key));
            let expected = match model.live(*key) {
                None => Ok(false),
                Some(_) => model.check_generation(*key, policy.generation).map(|()| {
                    model.records.remove(key);
                    true
                }),
            };
            assert_eq!(
                done.map_err(|error| error.result_code()),
                expected,
                "{step:?}"
            );
        }
        Step::Touch(key, policy) => {
            let policy = model.policy(
                *key,
                Policy {
                    action: RecordExistsAction::Update,
                    ..*policy
                },
            );
            let done = subject.set().touch(&policy, i64::from(*key));
            let expected = model.write(*key, &policy, true, |_| Ok(()));
            assert_eq!(code(&done), expected, "{step:?}");
        }
        Step::Truncate => {
            subject.set().truncate(None).unwrap();
            assert!(subject.set().is_empty());
            model.records.clear();
            // What was truncated at this millisecond is told from what is written next.
            subject.clock.advance_ms(1);
            model.now_ms += 1;
        }
        Step::Advance(ms) => {
            subject.clock.advance_ms(u64::from(*ms));
            model.now_ms += u64::from(*ms);
        }
        Step::Maintain => {
            subject
                .store
                .as_ref()
                .unwrap()
                .namespace("test")
                .unwrap()
                .maintain()
                .unwrap();
            let live = (0..KEYS).filter(|key| model.live(*key).is_some()).count();
            assert_eq!(
                subject.set().len(),
                live as u64,
                "the expiry pass leaves the live records"
            );
        }
        Step::Close => {
            subject.store.take().unwrap().close().unwrap();
            subject.open();
            compare(subject, model);
        }
        Step::Drop => {
            drop(subject.store.take());
            subject.open();
            compare(subject, model);
        }
    }
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

fn step() -> impl Strategy<Value = Step> {
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

/// Short in everyday runs; `SPIKELET_LONG=1` for a campaign.
fn cases() -> u32 {
    if std::env::var_os("SPIKELET_LONG").is_some() {
        2000
    } else {
        60
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_store_does_what_the_model_does(
        default_ttl in prop_oneof![Just(0u64), Just(5u64)],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut subject = Subject {
            dir: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::at(START_MS)),
            default_ttl,
            store: None,
        };
        subject.open();
        let mut model = Model { records: BTreeMap::new(), now_ms: START_MS, default_ttl };
        for step in &steps {
            run(step, &mut subject, &mut model);
        }
        compare(&subject, &model);
    }
}
