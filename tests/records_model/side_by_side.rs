//! One step on the store and on the model: both must answer the same.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use spikelet::operations::{self, lists};
use spikelet::policy::RecordExistsAction;
use spikelet::storage::ManualClock;
use spikelet::{Error, NamespaceConfig, Operation, Store, Value, WritePolicy};

use crate::generate::{Content, Edit, KEYS, Policy, Step};
use crate::model::{Model, bin, list_policy, value};

/// The store under test.
pub struct Subject {
    pub dir: tempfile::TempDir,
    pub clock: Arc<ManualClock>,
    pub default_ttl: u64,
    pub store: Option<Store>,
}

impl Subject {
    pub fn open(&mut self) {
        let mut config = NamespaceConfig::new("test");
        config.background = false;
        config.write_lanes = 2;
        config.max_device_bytes = 256 << 20;
        config.default_time_to_live =
            (self.default_ttl > 0).then(|| Duration::from_secs(self.default_ttl));
        let clock: Arc<dyn spikelet::storage::Clock> = Arc::clone(&self.clock) as _;
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

pub fn compare(subject: &Subject, model: &Model) {
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
    let _: ControlFlow<()> = set.scan(|record| {
        record.unwrap();
        scanned += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(
        scanned,
        (0..KEYS).filter(|key| model.live(*key).is_some()).count()
    );
}

pub fn run(step: &Step, subject: &mut Subject, model: &mut Model) {
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
            let values: Result<Vec<_>, _> =
                done.map(|done| (0..edits.len()).map(|at| done.value(at).cloned()).collect());
            if edits.iter().all(|edit| matches!(edit, Edit::Read(_))) {
                let expected = model.live(*key).cloned().ok_or(2).and_then(|mut record| {
                    edits
                        .iter()
                        .map(|edit| record.apply(edit))
                        .collect::<Result<Vec<_>, u8>>()
                });
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
                done.map(|lsn| lsn.is_some())
                    .map_err(|error| error.result_code()),
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
            let done = subject.set().touch_with(&policy, i64::from(*key));
            let expected = model.write(*key, &policy, true, |_| Ok(()));
            assert_eq!(code(&done), expected, "{step:?}");
        }
        Step::Truncate => {
            subject.set().truncate(None).unwrap();
            assert!(subject.set().is_empty());
            model.records.clear();
            // Later writes must have a later millisecond than the truncation.
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
