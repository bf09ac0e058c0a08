//! The store under test: handles of three relations on one set, and the same edits as the model's.

use std::collections::BTreeMap;
use std::sync::Arc;

use spikelet_storage::{ManualClock, SimulatedDevice};

use super::naive::Edit;
use crate::engine::simulated::{new_device, open_at};
use crate::operations::{delete_all_bins, put};
use crate::policy::RecordExistsAction;
use crate::query::{IndexComponent, IndexDefinition};
use crate::relation::{Address, Layout, Links, ManyToMany, Members, OnDelete, OneToMany};
use crate::shard::ShardPolicy;
use crate::{
    Error, Expiration, IndexedRecordSet, Key, Namespace, Operation, RecordSet, RecordStore, Result,
    ShardedList, Value, WritePolicy, bins,
};

pub(super) const PEOPLE: &str = "people";
pub(super) const NOTES: &str = "notes";
const BLOCKS: u64 = 8;
pub(super) const START_SECOND: u64 = 500_000_000;

pub(super) struct Subject {
    pub(super) device: Arc<SimulatedDevice>,
    pub(super) namespace: Namespace,
    pub(super) clock: Arc<ManualClock>,
    pub(super) layout: Layout,
    pub(super) detaches: bool,
}

/// The handles, in a store or in a transaction.
pub(super) struct Handles<'l, S> {
    pub(super) store: S,
    layout: &'l Layout,
    detaches: bool,
}

pub(super) fn person(key: i64) -> Address {
    Address::new(PEOPLE, key)
}

/// Shards a collection of more than four elements.
fn small() -> ShardPolicy {
    ShardPolicy::manual().elements_max(Some(4))
}

impl Subject {
    pub(super) fn new(layout: Layout, detaches: bool) -> Self {
        let (device, clock) = (new_device(BLOCKS), ManualClock::at(START_SECOND * 1_000));
        let clock = Arc::new(clock);
        let subject = Self {
            namespace: open_at(&device, BLOCKS, Arc::clone(&clock)).unwrap(),
            device,
            clock,
            layout,
            detaches,
        };
        let people = subject.namespace.set(PEOPLE).unwrap();
        people
            .create_index(IndexDefinition::new("by_n", ["n"]))
            .unwrap();
        for bin in ["tags", "out", "in"] {
            let elements = [IndexComponent::bin(bin).elements()];
            people
                .create_index(IndexDefinition::new(bin, elements))
                .unwrap();
        }
        // Before lists are sharded, which they may be by plain handles here.
        let handles = subject.handles();
        handles.follows().declare().unwrap();
        handles.links().declare("social", [PEOPLE]).unwrap();
        handles.children().declare().unwrap();
        handles.members().declare().unwrap();
        subject
    }

    pub(super) fn handles(&self) -> Handles<'_, &Namespace> {
        self.handles_in(&self.namespace)
    }

    pub(super) fn handles_in<S>(&self, store: S) -> Handles<'_, S> {
        Handles {
            store,
            layout: &self.layout,
            detaches: self.detaches,
        }
    }

    /// Opens the device as a failure has left it.
    pub(super) fn open(&mut self, device: SimulatedDevice) {
        self.device = Arc::new(device);
        let clock = Arc::clone(&self.clock);
        self.namespace = open_at(&self.device, BLOCKS, clock).unwrap();
    }
}

impl<S: RecordStore<Records: IndexedRecordSet>> Handles<'_, S> {
    pub(super) fn follows(&self) -> ManyToMany<&S> {
        ManyToMany::new(&self.store, "follows", (PEOPLE, "out"), (PEOPLE, "in"))
            .shard_policy(small())
            .on_delete(self.rule(OnDelete::Detach))
    }

    /// The rule of a relation of which the edges, or the children, go with a person.
    const fn rule(&self, rule: OnDelete) -> OnDelete {
        if self.detaches {
            rule
        } else {
            OnDelete::Restrict
        }
    }

    pub(super) fn members(&self) -> Members<&S> {
        let list = ("lists", "all", "people");
        Members::new(&self.store, PEOPLE, list).shard_policy(small())
    }

    pub(super) fn links(&self) -> Links<&S> {
        let links = Links::new(&self.store, "links").reciprocal("friend", "friend");
        links
            .shard_policy(small())
            .on_delete(self.rule(OnDelete::Detach))
    }

    pub(super) fn children(&self) -> OneToMany<&S> {
        let sets = (PEOPLE, NOTES);
        let children = OneToMany::new(&self.store, "notes", sets, self.layout.clone()).unwrap();
        let children = children
            .shard_policy(small())
            .on_delete(self.rule(OnDelete::Cascade));
        if matches!(self.layout, Layout::KeyList { .. }) {
            children.with_parent_bin("owner")
        } else {
            children
        }
    }

    pub(super) fn list(&self, key: i64, bin: &str) -> ShardedList<S::Records> {
        let list = ShardedList::new(&self.store, PEOPLE, key, bin).unwrap();
        list.policy(small())
    }

    fn operate(&self, key: i64, policy: &WritePolicy, operation: Operation) -> Result<bool> {
        let people = self.store.records(PEOPLE)?;
        match people.operate_on(policy, &Key::from(key), &[operation]) {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn apply(&self, edit: Edit) -> Result<bool> {
        let any = WritePolicy::default();
        match edit {
            Edit::Put(key, n, seconds) => {
                let live = seconds.map(std::time::Duration::from_secs);
                let policy = any.expiration(live.map_or(Expiration::Never, Expiration::After));
                self.operate(key, &policy, put("n", n))
            }
            Edit::Name(key, name) => self.operate(key, &any, put("name", name)),
            Edit::Replace(key, n) => {
                let policy = any.record_exists_action(RecordExistsAction::Replace);
                self.operate(key, &policy, put("n", n))
            }
            Edit::Delete(key) => self.operate(key, &any, delete_all_bins()),
            Edit::Follow(from, to) => self.follows().link(from, to),
            Edit::Unfollow(from, to) => self.follows().unlink(from, to),
            Edit::Link(from, tag, to) => self.links().link(&person(from), tag, &person(to)),
            Edit::Unlink(from, tag, to) => self.links().unlink(&person(from), tag, &person(to)),
            Edit::PutChild(parent, child, text) => {
                let child_bins = BTreeMap::from([("text", text)]);
                self.children()
                    .put(parent, child, &child_bins)
                    .map(|()| true)
            }
            Edit::RemoveChild(parent, child) => self.children().remove(parent, child),
            Edit::Enlist(key, n) => self.members().put(key, bins! { "n" => n }),
            Edit::Dismiss(key) => self.members().remove(key),
            Edit::Tag(key, tag) => self.list(key, "tags").add(tag),
            Edit::Untag(key, tag) => self.list(key, "tags").remove(&Value::Int(tag)),
        }
    }
}
