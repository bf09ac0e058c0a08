//! The follow graph in the store: a `ManyToMany` with two lists a node, both in one record or, with
//! `--shard-at`, each in a record of its own that is sharded once it grows too large.

use std::ops::ControlFlow;

use spikelet::operations::lists;
use spikelet::relation::{ManyToMany, Neighbors, forget_relation};
use spikelet::shard::ShardPolicy;
use spikelet::{
    Key, ListOrder, ListPolicy, ListWriteFlags, Namespace, RecordView, Result, Set, ShardedList,
    Value, WritePolicy,
};

/// The name under which the relation is declared.
const RELATION: &str = "follows";

/// The set of nodes that have both lists in one record.
pub(crate) const SET: &str = "users";

/// All sets that a demo may leave.
const DEMO_SETS: [&str; 3] = [SET, Side::Following.name(), Side::Followers.name()];

/// The bin in which a companion names its root, and the one in which a root names its companions.
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
    pub(crate) const BOTH: [Self; 2] = [Self::Following, Self::Followers];

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
    pub(crate) follows: ManyToMany<Namespace>,
    /// Shards each list, which has records of its own then; `None`: both lists of a node are bins
    /// of one record.
    shards: Option<ShardPolicy>,
}

/// A record, by its size and the length of its lists.
#[derive(Debug, PartialEq)]
pub(crate) struct RecordSummary {
    /// The key of the node; of a shard, followed by its number.
    pub(crate) name: String,
    /// The lengths of both lists; `None`: that list is in another record.
    pub(crate) lengths: [Option<u64>; 2],
    /// The size on the device.
    pub(crate) bytes: u64,
}

/// What the records that hold the lists amount to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RecordCounts {
    /// Records that hold, or describe, the list of a node.
    pub(crate) roots: u64,
    /// Roots of lists that are sharded over companions.
    pub(crate) sharded: u64,
    /// The companions.
    pub(crate) companions: u64,
    /// The largest records, the largest first.
    pub(crate) largest: Vec<RecordSummary>,
}

/// How many of the largest records are kept.
const LARGEST: usize = 5;

fn patient() -> WritePolicy {
    // Wait however long the queue takes; a full queue refuses at once.
    WritePolicy::default().total_timeout(None)
}

impl Adjacency {
    /// Opens the lists in a namespace. `shard_at`: the size in bytes from which a list's record is
    /// sharded; `None`: the lists of a node share a record.
    ///
    /// # Errors
    /// Errors of the namespace.
    pub(crate) fn new(namespace: Namespace, shard_at: Option<u64>) -> Result<Self> {
        let shards = shard_at.map(|bytes| ShardPolicy::manual().record_bytes_max(bytes));
        let end = |side: Side| (shards.map_or(SET, |_| side.name()), side.name());
        let ends = Side::BOTH.map(end);
        let follows = ManyToMany::new(namespace.clone(), RELATION, ends[0], ends[1])
            .shard_policy(shards.unwrap_or(ShardPolicy::manual()))
            .write_policy(&patient());
        Ok(Self {
            namespace,
            follows,
            shards,
        })
    }

    /// Returns one of the lists of a node.
    pub(crate) fn list(&self, key: Key<'_>, side: Side) -> Neighbors<'_, Namespace> {
        match side {
            Side::Following => self.follows.targets(key),
            Side::Followers => self.follows.sources(key),
        }
    }

    /// Adds an element to a list, unless it is there, without a look at the other side: half of an
    /// edge.
    ///
    /// # Errors
    /// Errors of the store, KEY_BUSY among them.
    pub(crate) fn append(&self, key: Key<'_>, side: Side, element: Value) -> Result<()> {
        let (name, patient) = (side.name(), patient());
        if let Some(policy) = self.shards {
            let list = ShardedList::new_with(&self.namespace, name, key, name, &patient)?;
            return list.policy(policy).add(element).map(drop);
        }
        let flags = ListWriteFlags::ADD_UNIQUE | ListWriteFlags::NO_FAIL;
        let policy = ListPolicy::new(ListOrder::Ordered, flags).persist_index(true);
        let append = lists::append(&policy, name, element);
        let users = self.namespace.set(SET)?;
        users.operate_with(&patient, key, &[append]).map(drop)
    }

    /// Counts the records, and keeps the largest. Visits every one.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) fn records(&self) -> Result<RecordCounts> {
        let mut counts = RecordCounts::default();
        for set in self.sets()? {
            let ended = set.with_companions().scan(|record| {
                let record = match record {
                    Ok(record) => record,
                    Err(error) => return ControlFlow::Break(error),
                };
                let companion = companion_of(record.view);
                // The root of a list that is sharded only says where its elements are.
                let is_root = record.view.bin(SUBKEYS).is_some();
                counts.companions += u64::from(companion.is_some());
                counts.roots += u64::from(companion.is_none());
                counts.sharded += u64::from(companion.is_none() && is_root);
                let summary = || RecordSummary {
                    name: companion.unwrap_or_else(|| {
                        let key = record.key();
                        key.map_or_else(|| "-".to_owned(), |key| crate::report::key(&key))
                    }),
                    lengths: Side::BOTH.map(|side| length(record.view, side).filter(|_| !is_root)),
                    bytes: record.stored_bytes,
                };
                let place = counts
                    .largest
                    .partition_point(|larger| larger.bytes >= record.stored_bytes);
                if place < LARGEST {
                    counts.largest.insert(place, summary());
                    counts.largest.truncate(LARGEST);
                }
                ControlFlow::Continue(())
            });
            ended.break_value().map_or(Ok(()), Err)?;
        }
        Ok(counts)
    }

    /// Returns how many records of nodes there should be, given the length of each node's lists.
    pub(crate) fn roots_of(&self, following: &[u32], followers: &[u32]) -> u64 {
        let lists = following.iter().zip(followers);
        let records = lists.map(|(a, b)| match self.shards {
            Some(_) => u64::from(*a > 0) + u64::from(*b > 0),
            None => u64::from(*a + *b > 0),
        });
        records.sum()
    }

    /// Removes the graph of an earlier demo.
    ///
    /// # Errors
    /// Errors of the store.
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
    /// Errors of the store.
    pub(crate) fn left_behind(&self) -> Result<u64> {
        DEMO_SETS
            .iter()
            .map(|name| Ok(self.namespace.set(name)?.len()))
            .sum()
    }

    /// Returns the sets that the lists are in.
    fn sets(&self) -> Result<Vec<Set>> {
        let names = match self.shards {
            Some(_) => &DEMO_SETS[1..],
            None => &DEMO_SETS[..1],
        };
        names.iter().map(|name| self.namespace.set(name)).collect()
    }
}

/// Returns the length of a list; `None` if the record has none.
fn length(view: RecordView<'_>, side: Side) -> Option<u64> {
    let list = view.bin(side.name())?;
    list.as_list().map(|list| list.len() as u64)
}

/// Names a companion: the key of its node, and its number.
fn companion_of(view: RecordView<'_>) -> Option<String> {
    let Value::List(told) = view.bin(SHARD_OF)?.to_value().ok()? else {
        return None;
    };
    let [node, Value::Int(of), Value::Int(shard), ..] = &told[..] else {
        return None;
    };
    let node: Key<'_> = match node {
        Value::Int(id) => (*id).into(),
        Value::String(id) => id.as_str().into(),
        _ => return None,
    };
    Some(format!(
        "{}, shard {shard} of {of}",
        crate::report::key(&node)
    ))
}
