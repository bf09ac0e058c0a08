use std::collections::{HashMap, VecDeque};
use std::sync::mpsc;

use proptest::prelude::*;
use spikelet::{Error, NamespaceConfig, Set, Store, WritePolicy};

use super::*;

/// What happens to a writer that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    Served,
    Queued,
    Busy,
}

/// The engine's lock of one record, driven a step at a time: writers are threads that hold it until
/// they are released.
struct RealLock {
    store: Store,
    set: Set,
    served: mpsc::Receiver<usize>,
    tell_served: mpsc::Sender<usize>,
    go: HashMap<usize, mpsc::Sender<()>>,
    threads: HashMap<usize, std::thread::JoinHandle<bool>>,
}

impl RealLock {
    fn new(max_waiters: usize) -> Self {
        let mut config = NamespaceConfig::new("test");
        config.max_waiters = max_waiters;
        config.background = false;
        let store = Store::builder().namespace(config).open().unwrap();
        let set = store.set("queue").unwrap();
        let (tell_served, served) = mpsc::channel();
        Self {
            store,
            set,
            served,
            tell_served,
            go: HashMap::new(),
            threads: HashMap::new(),
        }
    }

    /// Starts a writer and waits until it is known what became of it.
    fn arrive(&mut self, writer: usize, is_free: bool) -> Arrival {
        let before = self.store.namespace("test").unwrap().stats();
        let (go, told) = mpsc::channel();
        let (set, tell) = (self.set.clone(), self.tell_served.clone());
        let thread = std::thread::spawn(move || {
            let patient = WritePolicy::default().total_timeout(None);
            let done = set.update_with(&patient, "record", |bins| {
                tell.send(writer).unwrap();
                told.recv().unwrap();
                bins.set("writer", writer as i64)
            });
            match done {
                Ok(_) => true,
                Err(Error::KeyBusy { .. }) => false,
                Err(other) => panic!("{other}"),
            }
        });
        self.threads.insert(writer, thread);
        self.go.insert(writer, go);
        if is_free {
            assert_eq!(self.served.recv(), Ok(writer));
            return Arrival::Served;
        }
        loop {
            let now = self.store.namespace("test").unwrap().stats();
            if now.key_busy > before.key_busy {
                return Arrival::Busy;
            }
            if now.waits > before.waits {
                return Arrival::Queued;
            }
            std::thread::yield_now();
        }
    }

    /// Lets the served writer go. Returns whom the lock went to, or `None` once it is
    /// free.
    fn leave(&mut self, writer: usize, somebody_waits: bool) -> Option<usize> {
        self.go.remove(&writer).unwrap().send(()).unwrap();
        if somebody_waits {
            return Some(self.served.recv().unwrap());
        }
        assert!(self.threads.remove(&writer).unwrap().join().unwrap());
        None
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_model_and_the_record_lock_admit_refuse_and_hand_over_alike(
        max_waiters in 0usize..4,
        steps in prop::collection::vec(prop::bool::weighted(0.65), 1..40),
    ) {
        let mut model = VecDeque::new();
        let mut real = RealLock::new(max_waiters);
        let mut refused = 0;
        for (writer, arrives) in steps.into_iter().enumerate() {
            if arrives {
                let is_free = model.is_empty();
                let expected = match admits(model.len(), Some(max_waiters)) {
                    false => Arrival::Busy,
                    true if is_free => Arrival::Served,
                    true => Arrival::Queued,
                };
                if expected != Arrival::Busy {
                    model.push_back(writer);
                }
                prop_assert_eq!(real.arrive(writer, is_free), expected);
                refused += usize::from(expected == Arrival::Busy);
            } else if let Some(gone) = model.pop_front() {
                let next = model.front().copied();
                prop_assert_eq!(real.leave(gone, next.is_some()), next);
            }
        }
        while let Some(gone) = model.pop_front() {
            let next = model.front().copied();
            prop_assert_eq!(real.leave(gone, next.is_some()), next);
        }
        let left = real.threads.into_values().map(|thread| thread.join().unwrap());
        prop_assert_eq!(left.filter(|acknowledged| !acknowledged).count(), refused);
    }
}
