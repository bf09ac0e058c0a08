//! Updaters over a simulated disk that loses power: the acknowledged position never runs ahead of
//! the writes for it, so an updater that goes on after the failure leaves no record as it was
//! before.

use std::sync::Arc;
use std::time::Duration;

use spikelet_storage::SimulatedDevice;

use crate::engine::simulated::{Chance, new_device, open};
use crate::relation::{Joined, Updater};
use crate::{Namespace, bins};

const BLOCKS: u64 = 64;
const ITEMS: i64 = 12;
const USERS: i64 = 4;

/// Items with the names of their owners.
fn view_of(namespace: &Namespace) -> Joined {
    Joined::new(namespace, "shown", "items")
        .keep(["title"])
        .join("owner", ("users", "name"), "owner_name")
        .unwrap()
}

struct Run {
    device: Arc<SimulatedDevice>,
    namespace: Namespace,
    updater: Option<Updater>,
    chance: Chance,
    written: i64,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self::on(new_device(BLOCKS), seed)
    }

    fn on(device: Arc<SimulatedDevice>, seed: u64) -> Self {
        let namespace = open(&device, BLOCKS).unwrap();
        Self {
            device,
            namespace,
            updater: None,
            chance: Chance(seed * 2 + 1),
            written: 0,
        }
    }

    fn updater(&mut self) -> &mut Updater {
        let namespace = &self.namespace;
        let open = || view_of(namespace).updater().unwrap();
        self.updater.get_or_insert_with(open)
    }

    fn write(&mut self) {
        self.written += 1;
        let (users, items) = ("users", "items");
        let set = |name| self.namespace.set(name).unwrap();
        let user = self.chance.below(USERS as u64) as i64;
        let item = self.chance.below(ITEMS as u64) as i64;
        match self.chance.below(5) {
            0 => drop(set(items).delete(item).unwrap()),
            1 | 2 => drop(set(users).put(user, [("name", self.written)]).unwrap()),
            _ => {
                let bins = bins! { "title" => self.written, "owner" => user };
                set(items).put(item, bins).unwrap();
            }
        }
    }

    /// Applies the changes that there are, and dies before it acknowledges them.
    fn apply_and_die(&mut self) {
        self.namespace.sync().unwrap();
        let mut updater = match self.updater.take() {
            Some(updater) => updater,
            None => view_of(&self.namespace).updater().unwrap(),
        };
        updater.catch_up().unwrap();
        for _ in 0..=self.chance.below(3) {
            self.write();
        }
        self.namespace.sync().unwrap();
        let batch = updater.consumer.next_batch(100, Duration::ZERO).unwrap();
        updater.derived.apply(&batch, &updater.state).unwrap();
    }

    /// Writes until another block is begun: a power failure may keep later writes, and lose earlier
    /// ones.
    fn begin_block(&mut self) {
        let blocks = |namespace: &Namespace| namespace.stats().used_blocks;
        let before = blocks(&self.namespace);
        let mut fillers = 0_i64;
        while blocks(&self.namespace) == before {
            self.fill(fillers, 1 << 10);
            fillers += 1;
        }
    }

    fn fill(&self, id: i64, bytes: usize) {
        let fillers = self.namespace.set("fillers").unwrap();
        fillers.put(id, [("bytes", "x".repeat(bytes))]).unwrap();
    }

    fn lose_power(&mut self) {
        self.updater = None;
        let seed = self.chance.below(u64::MAX);
        self.device = Arc::new(self.device.crash(seed).unwrap());
        self.namespace = open(&self.device, BLOCKS).unwrap();
    }

    /// Compares the view with its sources.
    fn check(&self, what: &str) {
        let set = |name| self.namespace.set(name).unwrap();
        for id in 0..ITEMS {
            let item = set("items").get(id).unwrap();
            let owner = item.as_ref().and_then(|item| item.get("owner")?.as_i64());
            let owner = owner.and_then(|owner| set("users").get(owner).unwrap());
            let expected =
                item.map(|item| (item.get("title"), owner.and_then(|it| it.get("name"))));
            let shown = set("shown").get(id).unwrap();
            let shown = shown.map(|row| (row.get("title"), row.get("owner_name")));
            assert_eq!(shown, expected, "{what}, item {id}");
        }
    }
}

#[test]
fn an_acknowledged_position_never_runs_ahead_of_what_was_written_for_it() {
    for seed in 0..6 {
        let mut run = Run::new(seed);
        for round in 0..5 {
            for _ in 0..run.chance.below(12) {
                match run.chance.below(6) {
                    0 => drop(run.updater().catch_up().unwrap()),
                    1 => run.apply_and_die(),
                    _ => run.write(),
                }
            }
            // The updater after the one that died finds the records as they should be.
            if run.chance.below(3) > 0 {
                run.updater().catch_up().unwrap();
            }
            run.lose_power();
            run.updater().catch_up().unwrap();
            run.check(&format!("seed {seed}, round {round}"));
        }
    }
}

#[test]
fn an_updater_acknowledges_nothing_before_what_another_has_written_is_durable() {
    let mut run = Run::new(0);
    (0..12).for_each(|_| run.write());
    run.apply_and_die();
    run.begin_block();
    // It finds the records as they should be.
    run.updater().apply_next(Duration::ZERO).unwrap();
    // So large that it is written at once, with all staged entries.
    run.fill(-1, 64 << 10);
    for seed in 0..64 {
        let device = Arc::new(run.device.crash(seed).unwrap());
        let mut after = Run::on(device, seed);
        after.updater().catch_up().unwrap();
        after.check(&format!("power failure {seed}"));
    }
}
