//! Where the lists of the graph are kept: both in one record a node, or, with `--shard-at`, each in a record of its own
//! that spreads itself once it grows too large.

use std::ops::ControlFlow;

use spikelet::operations::lists;
use spikelet::{
    Error, Key, ListOrder, ListPolicy, ListReturnType, ListWriteFlags, Namespace, Operation,
    Record, RecordView, Result, ScannedRecord, Set, ShardPolicy, ShardedList, Value, WritePolicy,
};

/// The set of the nodes whose lists are in one record.
pub(crate) const SET: &str = "users";

/// The bin in which a companion says of what it is a part, and the one in which a root says where the parts are.
const SHARD_OF: &str = "shard_of";
const SUBKEYS: &str = "subkeys";

/// One of the two lists of a node. Its name is that of the bin and, where it has records of its own, of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Those whom somebody follows.
    Following,
    /// Those who follow somebody.
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
pub(crate) struct Follows {
    namespace: Namespace,
    kept: Kept,
}

#[derive(Clone, Debug)]
enum Kept {
    /// Both lists of a node are bins of one record.
    Together(Set),
    /// Each list is sharded by this policy.
    Apart(ShardPolicy),
}

/// A record, by its size and the length of its lists.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Sized {
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
pub(crate) struct Records {
    /// Those that hold, or describe, the list of a node.
    pub(crate) roots: u64,
    /// Those of them that have spread it over companions.
    pub(crate) sharded: u64,
    /// The companions.
    pub(crate) companions: u64,
    /// The largest of all, in bytes on the device.
    pub(crate) max_bytes: u64,
}

impl Follows {
    /// `shard_at`: the bytes from which the record of a list is spread; `None`: the lists of a node share a record.
    ///
    /// # Errors
    /// What the namespace refuses.
    pub(crate) fn new(namespace: Namespace, shard_at: Option<u64>) -> Result<Self> {
        let kept = match shard_at {
            None => Kept::Together(namespace.set(SET)?),
            Some(bytes) => Kept::Apart(ShardPolicy::by_hand().by_size(bytes)),
        };
        Ok(Self { namespace, kept })
    }

    fn list(&self, policy: ShardPolicy, key: Key<'_>, side: Side) -> Result<ShardedList<Set>> {
        // However long the queue takes; a full one is told at once.
        let patient = WritePolicy::default().total_timeout(None);
        let (set, bin) = (side.name(), side.name());
        Ok(ShardedList::new_with(&self.namespace, set, key, bin, &patient)?.policy(policy))
    }

    /// Adds an element to a list, unless it is there.
    ///
    /// # Errors
    /// What the store refuses; KEY_BUSY is left to the caller.
    pub(crate) fn append(&self, key: Key<'_>, side: Side, element: Value) -> Result<()> {
        match &self.kept {
            Kept::Together(users) => {
                let flags = ListWriteFlags::ADD_UNIQUE | ListWriteFlags::NO_FAIL;
                let policy = ListPolicy::new(ListOrder::Ordered, flags).persist_index();
                let patient = WritePolicy::default().total_timeout(None);
                let append = lists::append(&policy, side.name(), element);
                users.operate_with(&patient, key, &[append]).map(|_| ())
            }
            Kept::Apart(policy) => self.list(*policy, key, side)?.add(element).map(|_| ()),
        }
    }

    /// Whether an element is in a list: O(log N) comparisons. False if there is no such list.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn contains(&self, key: Key<'_>, side: Side, element: Value) -> Result<bool> {
        match &self.kept {
            Kept::Together(users) => {
                let question = lists::get_by_value(side.name(), element, ListReturnType::Exists);
                let answer = ask(users, key, question)?;
                Ok(answer == Some(Value::Bool(true)))
            }
            Kept::Apart(policy) => self.list(*policy, key, side)?.contains(&element),
        }
    }

    /// The length of a list; 0 if there is none.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn len(&self, key: Key<'_>, side: Side) -> Result<u64> {
        match &self.kept {
            Kept::Together(users) => Ok(match ask(users, key, lists::size(side.name()))? {
                Some(Value::Int(size)) => size.max(0) as u64,
                _ => 0,
            }),
            Kept::Apart(policy) => self.list(*policy, key, side)?.len(),
        }
    }

    /// At most `count` elements from a position of the list on, in its order.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn page(&self, key: Key<'_>, side: Side, at: u64, count: u64) -> Result<Vec<Value>> {
        match &self.kept {
            Kept::Together(users) => {
                let values = ListReturnType::Values;
                let at = i64::try_from(at).unwrap_or(i64::MAX);
                let question = lists::get_by_index_range_count(side.name(), at, count, values);
                Ok(match ask(users, key, question)? {
                    Some(Value::List(page)) => page.into_items(),
                    _ => Vec::new(),
                })
            }
            Kept::Apart(policy) => self.list(*policy, key, side)?.page(at, count),
        }
    }

    /// The lists of these nodes; their bytes are those of the bins of the nodes' own records, read in one batch a set.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn batch(&self, keys: &[Key<'static>]) -> Result<Vec<Sized>> {
        let mut batch: Vec<Sized> = keys
            .iter()
            .map(|key| Sized {
                node: Some(key.clone()),
                ..Sized::default()
            })
            .collect();
        for (set, sides) in self.sets()? {
            for ((sized, key), record) in batch.iter_mut().zip(keys).zip(set.get_batch(keys)) {
                let record = record?;
                let view = record.as_ref().map(Record::view);
                let is_spread = view.is_some_and(|view| view.bin(SUBKEYS).is_some());
                for side in sides {
                    *sized.of(*side) = Some(if is_spread {
                        self.len(key.clone(), *side)?
                    } else {
                        view.map_or(0, |view| length(view, *side))
                    });
                }
                sized.bytes += view.map_or(0, |view| view.as_bytes().len() as u64);
            }
        }
        Ok(batch)
    }

    /// The largest records, the largest first. Their bytes are what they take on the device. Visits every record.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn largest(&self, most: usize) -> Result<Vec<Sized>> {
        let mut largest: Vec<Sized> = Vec::with_capacity(most + 1);
        for (set, sides) in self.sets()? {
            each(&set, |record| {
                let last = largest.last().map_or(0, |last| last.bytes);
                if largest.len() == most && record.stored_bytes <= last {
                    return;
                }
                let mut sized = Sized {
                    node: record.key().map(Key::into_owned),
                    bytes: record.stored_bytes,
                    ..Sized::default()
                };
                if let Some((node, shard, of)) = companion_of(record.view) {
                    (sized.node, sized.shard) = (Some(node), Some((shard, of)));
                }
                // The root of a list that is spread only says where its elements are.
                let is_spread = record.view.bin(SUBKEYS).is_some();
                for side in sides.iter().filter(|_| !is_spread) {
                    *sized.of(*side) = Some(length(record.view, *side));
                }
                let place = largest.partition_point(|larger| larger.bytes >= sized.bytes);
                largest.insert(place, sized);
                largest.truncate(most);
            })?;
        }
        Ok(largest)
    }

    /// Counts the records. Visits every one.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn records(&self) -> Result<Records> {
        let mut records = Records::default();
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

    /// How many nodes' records there should be, where each node has so many elements in its lists.
    pub(crate) fn roots_of(&self, following: &[u32], followers: &[u32]) -> u64 {
        let lists = following.iter().zip(followers);
        match self.kept {
            Kept::Together(_) => lists.filter(|(a, b)| **a + **b > 0).count() as u64,
            Kept::Apart(_) => lists
                .map(|(a, b)| u64::from(*a > 0) + u64::from(*b > 0))
                .sum(),
        }
    }

    /// Removes what an earlier demo has left.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn clear(&self) -> Result<()> {
        for name in DEMO_SETS {
            self.namespace.set(name)?.truncate(None)?;
        }
        Ok(())
    }

    /// How many records an earlier demo has left.
    ///
    /// # Errors
    /// What the store refuses.
    pub(crate) fn left_behind(&self) -> Result<u64> {
        DEMO_SETS
            .iter()
            .map(|name| Ok(self.namespace.set(name)?.len()))
            .sum()
    }

    /// The sets, and the lists whose records are in them.
    fn sets(&self) -> Result<Vec<(Set, &'static [Side])>> {
        match &self.kept {
            Kept::Together(users) => Ok(vec![(users.clone(), &Side::BOTH)]),
            Kept::Apart(_) => [
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
    let ended = set.scan(|record| match record {
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

impl Sized {
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

/// Of a companion: the node whose list it is a part of, its number, and how many there are.
fn companion_of(view: RecordView<'_>) -> Option<(Key<'static>, u64, u64)> {
    let Value::List(told) = view.bin(SHARD_OF)?.to_value().ok()? else {
        return None;
    };
    let [node, Value::Int(of), Value::Int(shard), ..] = &told[..] else {
        return None;
    };
    Some((key_of(node)?, shard.unsigned_abs(), of.unsigned_abs()))
}

/// A node as the key of its record.
pub(crate) fn key_of(element: &Value) -> Option<Key<'static>> {
    match element {
        Value::Int(id) => Some((*id).into()),
        Value::String(id) => Some(id.clone().into()),
        _ => None,
    }
}

/// The answer of one operation; `None` where there is no record, or none.
fn ask(users: &Set, key: Key<'_>, question: Operation) -> Result<Option<Value>> {
    match users.operate(key, &[question]) {
        Ok(answer) => Ok(answer.value(0).cloned()),
        Err(Error::NotFound) => Ok(None),
        Err(other) => Err(other),
    }
}
