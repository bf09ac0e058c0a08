//! The follow graph in the store: a `ManyToMany`, whose two lists are in one record a node, or, with `--shard-at`, each in a
//! record of its own that is sharded once it grows too large.

use std::ops::ControlFlow;

use spikelet::operations::lists;
use spikelet::relation::{ManyToMany, Neighbors, forget_relation};
use spikelet::shard::ShardPolicy;
use spikelet::{
    Key, ListOrder, ListPolicy, ListWriteFlags, Namespace, Record, RecordView, Result,
    ScannedRecord, Set, ShardedList, Value, WritePolicy,
};

/// The name under which the relation is declared.
const RELATION: &str = "follows";

/// The set of the nodes whose lists are in one record.
pub(crate) const SET: &str = "users";

/// The bin in which a companion says of what it is a part, and the one in which a root says where
/// the parts are.
const SHARD_OF: &str = "shard_of";
const SUBKEYS: &str = "subkeys";

/// One of the two lists of a node. Its name is that of the bin and, where it has records of its
/// own, of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The nodes that a node follows.
    Following,
    /// The nodes that follow a node.
    Followers,
}

impl Side {
    const BOTH: [Self; 2] = [Self::Following, Self::Followers];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Following => "following",
            Self::Followers => "followers",
        }
    }
}

/// The lists of all nodes.
#[derive(Clone, Debug)]
pub(crate) struct Adjacency {
    namespace: Namespace,
    follows: ManyToMany<Namespace>,
    layout: ListLayout,
}

#[derive(Clone, Debug)]
enum ListLayout {
    /// Both lists of a node are bins of one record.
    SharedRecord(Set),
    /// Each list is sharded by this policy.
    OwnRecords(ShardPolicy),
}

/// A record, by its size and the length of its lists.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RecordSummary {
    /// The node whose list is in it.
    pub(crate) node: Option<Key<'static>>,
    /// If it is one of several that hold the list together: its number, and how many there are.
    pub(crate) shard: Option<(u64, u64)>,
    /// None: that list is in another record.
    pub(crate) following: Option<u64>,
    pub(crate) followers: Option<u64>,
    /// What it takes on the device, or its bins alone: see who fills it.
    pub(crate) bytes: u64,
}

/// What the records that hold the lists amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordCounts {
    /// Those that hold, or describe, the list of a node.
    pub(crate) roots: u64,
    /// Those of them that have sharded it over companions.
    pub(crate) sharded: u64,
    /// The companions.
    pub(crate) companions: u64,
    /// The largest of all, in bytes on the device.
    pub(crate) max_bytes: u64,
}

impl Adjacency {
    /// Opens the lists in a namespace. `shard_at`: the size in bytes from which a list's record is
    /// sharded; `None`: the lists of a node share a record.
    ///
    /// # Errors
    /// What the namespace refuses.
    pub(crate) fn new(namespace: Namespace, shard_at: Option<u64>) -> Result<Self> {
        // Wait however long the queue takes; a full queue refuses at once.
        let patient = WritePolicy::default().total_timeout(None);
        let (layout, sets, policy) = match shard_at {
            None => {
                let users = ListLayout::SharedRecord(namespace.set(SET)?);
                (users, (SET, SET), ShardPolicy::manual())
            }
            Some(bytes) => {
                let policy = ShardPolicy::manual().record_bytes_max(bytes);
                let sets = (Side::Following.name(), Side::Followers.name());
                (ListLayout::OwnRecords(policy), sets, policy)
            }
        };
        let following = (sets.0, Side::Following.name());
        let followers = (sets.1, Side::Followers.name());
        let follows = ManyToMany::new(namespace.clone(), RELATION, following, followers)
            .shard_policy(policy)
            .write_policy(&patient);
        Ok(Self {
            namespace,
            follows,
            layout,
        })
    }

    /// Declares the relation in the store.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn declare(&self) -> Result<()> {
        self.follows.declare()
    }

    /// Adds an edge on both sides, in one transaction.
    ///
    /// # Errors
    /// What the store refuses; KEY_BUSY and conflicts are left to the caller.
    pub(crate) fn link(&self, from: Key<'_>, to: Key<'_>) -> Result<()> {
        self.follows.link(from, to).map(|_| ())
    }

    /// Adds edges on both sides, grouped by record.
    ///
    /// # Errors
    /// As for [`Adjacency::link`].
    pub(crate) fn link_all<'k>(
        &self,
        edges: impl Iterator<Item = (Key<'k>, Key<'k>)>,
    ) -> Result<()> {
        let linked = self.follows.link_all(edges, |_| ControlFlow::Continue(()));
        linked.map(|_| ())
    }

    fn neighbors(&self, key: Key<'_>, side: Side) -> Neighbors<'_, Namespace> {
        match side {
            Side::Following => self.follows.targets(key),
            Side::Followers => self.follows.sources(key),
        }
    }

    fn list(&self, policy: ShardPolicy, key: Key<'_>, side: Side) -> Result<ShardedList<Set>> {
        let patient = WritePolicy::default().total_timeout(None);
        let (set, bin) = (side.name(), side.name());
        Ok(ShardedList::new_with(&self.namespace, set, key, bin, &patient)?.policy(policy))
    }

    /// Adds an element to a list, unless it is there, without a look at the other side: half of an edge.
    ///
    /// # Errors
    /// What the store refuses; KEY_BUSY is left to the caller.
    pub(crate) fn append(&self, key: Key<'_>, side: Side, element: Value) -> Result<()> {
        match &self.layout {
            ListLayout::SharedRecord(users) => {
                let flags = ListWriteFlags::ADD_UNIQUE | ListWriteFlags::NO_FAIL;
                let policy = ListPolicy::new(ListOrder::Ordered, flags).persist_index(true);
                let patient = WritePolicy::default().total_timeout(None);
                let append = lists::append(&policy, side.name(), element);
                users.operate_with(&patient, key, &[append]).map(|_| ())
            }
            ListLayout::OwnRecords(policy) => {
                self.list(*policy, key, side)?.add(element).map(|_| ())
            }
        }
    }

    /// Returns whether a node is in a list; false if there is no such list. O(log N) comparisons.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn contains(&self, key: Key<'_>, side: Side, other: Key<'_>) -> Result<bool> {
        self.neighbors(key, side).contains(other)
    }

    /// Returns the length of a list; 0 if there is none.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn len(&self, key: Key<'_>, side: Side) -> Result<u64> {
        self.neighbors(key, side).len()
    }

    /// Returns at most `count` nodes of a list from position `at`, in its order.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn page(
        &self,
        key: Key<'_>,
        side: Side,
        at: u64,
        count: u64,
    ) -> Result<Vec<Key<'static>>> {
        self.neighbors(key, side).page(at, count)
    }

    /// Returns the lists of these nodes, read in one batch per set. Sizes are those of the bins of
    /// the nodes' own records.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn batch(&self, keys: &[Key<'static>]) -> Result<Vec<RecordSummary>> {
        let mut batch: Vec<RecordSummary> = keys
            .iter()
            .map(|key| RecordSummary {
                node: Some(key.clone()),
                ..RecordSummary::default()
            })
            .collect();
        for (set, sides) in self.sets()? {
            for ((summary, key), record) in batch.iter_mut().zip(keys).zip(set.get_batch(keys)) {
                let record = record?;
                let view = record.as_ref().map(Record::view);
                let is_spread = view.is_some_and(|view| view.bin(SUBKEYS).is_some());
                for side in sides {
                    *summary.of(*side) = Some(if is_spread {
                        self.len(key.clone(), *side)?
                    } else {
                        view.map_or(0, |view| length(view, *side))
                    });
                }
                summary.bytes += view.map_or(0, |view| view.as_bytes().len() as u64);
            }
        }
        Ok(batch)
    }

    /// Returns the `most` largest records, the largest first. Sizes are those on the device. Visits
    /// every record.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn largest(&self, most: usize) -> Result<Vec<RecordSummary>> {
        let mut largest: Vec<RecordSummary> = Vec::with_capacity(most + 1);
        for (set, sides) in self.sets()? {
            each(&set, |record| {
                let last = largest.last().map_or(0, |last| last.bytes);
                if largest.len() == most && record.stored_bytes <= last {
                    return;
                }
                let mut summary = RecordSummary {
                    node: record.key().map(Key::into_owned),
                    bytes: record.stored_bytes,
                    ..RecordSummary::default()
                };
                if let Some((node, shard, of)) = companion_of(record.view) {
                    (summary.node, summary.shard) = (Some(node), Some((shard, of)));
                }
                // The root of a list that is sharded only says where its elements are.
                let is_spread = record.view.bin(SUBKEYS).is_some();
                for side in sides.iter().filter(|_| !is_spread) {
                    *summary.of(*side) = Some(length(record.view, *side));
                }
                let place = largest.partition_point(|larger| larger.bytes >= summary.bytes);
                largest.insert(place, summary);
                largest.truncate(most);
            })?;
        }
        Ok(largest)
    }

    /// Counts the records. Visits every one.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn records(&self) -> Result<RecordCounts> {
        let mut records = RecordCounts::default();
        for (set, _) in self.sets()? {
            each(&set, |record| {
                records.max_bytes = records.max_bytes.max(record.stored_bytes);
                if record.view.bin(SHARD_OF).is_some() {
                    records.companions += 1;
                } else {
                    records.roots += 1;
                    records.sharded += u64::from(record.view.bin(SUBKEYS).is_some());
                }
            })?;
        }
        Ok(records)
    }

    /// Returns how many records of nodes there should be, given the length of each node's lists.
    pub(crate) fn roots_of(&self, following: &[u32], followers: &[u32]) -> u64 {
        let lists = following.iter().zip(followers);
        match self.layout {
            ListLayout::SharedRecord(_) => lists.filter(|(a, b)| **a + **b > 0).count() as u64,
            ListLayout::OwnRecords(_) => lists
                .map(|(a, b)| u64::from(*a > 0) + u64::from(*b > 0))
                .sum(),
        }
    }

    /// Removes what an earlier demo has left.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn clear(&self) -> Result<()> {
        forget_relation(&self.namespace, RELATION)?;
        for name in DEMO_SETS {
            self.namespace.set(name)?.truncate(None)?;
        }
        Ok(())
    }

    /// Counts the records that an earlier demo has left.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn left_behind(&self) -> Result<u64> {
        DEMO_SETS
            .iter()
            .map(|name| Ok(self.namespace.set(name)?.len()))
            .sum()
    }

    /// Returns the sets, each with the lists whose records are in it.
    fn sets(&self) -> Result<Vec<(Set, &'static [Side])>> {
        match &self.layout {
            ListLayout::SharedRecord(users) => Ok(vec![(users.clone(), &Side::BOTH)]),
            ListLayout::OwnRecords(_) => [
                (Side::Following, &[Side::Following]),
                (Side::Followers, &[Side::Followers]),
            ]
            .into_iter()
            .map(|(side, only)| Ok((self.namespace.set(side.name())?, &only[..])))
            .collect(),
        }
    }
}

/// Lends every record of a set to `read`, up to the first that cannot be read.
fn each(set: &Set, mut read: impl FnMut(ScannedRecord<'_>)) -> Result<()> {
    let ended = set.with_companions().scan(|record| match record {
        Ok(record) => {
            read(record);
            ControlFlow::Continue(())
        }
        Err(error) => ControlFlow::Break(error),
    });
    ended.break_value().map_or(Ok(()), Err)
}

/// All sets that a demo may leave.
const DEMO_SETS: [&str; 3] = [SET, Side::Following.name(), Side::Followers.name()];

impl RecordSummary {
    const fn of(&mut self, side: Side) -> &mut Option<u64> {
        match side {
            Side::Following => &mut self.following,
            Side::Followers => &mut self.followers,
        }
    }
}

fn length(view: RecordView<'_>, side: Side) -> u64 {
    view.bin(side.name())
        .and_then(|value| value.as_list())
        .map_or(0, |list| list.len() as u64)
}

/// Returns, for a companion, the node whose list it belongs to, its number, and the number of
/// shards.
fn companion_of(view: RecordView<'_>) -> Option<(Key<'static>, u64, u64)> {
    let Value::List(told) = view.bin(SHARD_OF)?.to_value().ok()? else {
        return None;
    };
    let [node, Value::Int(of), Value::Int(shard), ..] = &told[..] else {
        return None;
    };
    Some((key_of(node)?, shard.unsigned_abs(), of.unsigned_abs()))
}

/// Returns a node's key, given the element that names the node.
fn key_of(element: &Value) -> Option<Key<'static>> {
    match element {
        Value::Int(id) => Some((*id).into()),
        Value::String(id) => Some(id.clone().into()),
        _ => None,
    }
}
