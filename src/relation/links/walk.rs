//! Walks along links, step by step.

use std::collections::{BTreeMap, BTreeSet};

use super::{LinkBin, Links};
use crate::expressions::{bin_exists, not};
use crate::record::SUBKEYS;
use crate::relation::address::{Address, TaggedLink, link_of};
use crate::value::Value;
use crate::{Error, RecordCall, RecordSet, RecordStore, Result, WritePolicy};

/// How many links of a sharded record are read at once.
const PAGE: u64 = 512;

/// One step of a walk: which links are followed, and whether the records at their ends are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkStep {
    tag: Option<Box<str>>,
    set: Option<Box<str>>,
    keep: bool,
}

impl WalkStep {
    /// Follows all links and keeps nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Follows only links of this tag.
    #[must_use]
    pub fn tag(mut self, tag: &str) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// Follows only links to records of this set.
    #[must_use]
    pub fn set(mut self, set: &str) -> Self {
        self.set = Some(set.into());
        self
    }

    /// Keeps the records that the step leads to, for the answer.
    #[must_use]
    pub const fn keep(mut self) -> Self {
        self.keep = true;
        self
    }
}

/// The state of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkWalk {
    /// The records of each step that keeps them, each once, in the order of sets and keys; of the others none.
    pub steps: Vec<Vec<Address>>,
    /// Whether all links were followed; false: the walk has ended at [`Links::records_max`].
    pub complete: bool,
}

impl LinkWalk {
    /// Returns the records of all steps that keep them, one step behind the other.
    #[must_use]
    pub fn kept(&self) -> Vec<Address> {
        self.steps.concat()
    }
}

impl<S: RecordStore> Links<S> {
    /// Follows links from these records, step by step. A record is followed once a step, by however many links it was reached,
    /// so circles cost nothing more. One batch a step for each set of its records.
    ///
    /// # Errors
    /// As for [`Links::link`].
    pub fn walk(
        &self,
        from: impl IntoIterator<Item = Address>,
        steps: &[WalkStep],
    ) -> Result<LinkWalk> {
        let mut frontier: Vec<Address> = from
            .into_iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let mut walk = LinkWalk {
            steps: Vec::with_capacity(steps.len()),
            complete: true,
        };
        let mut left = self.records_max;
        for step in steps {
            let mut next = BTreeSet::new();
            for (set, at) in by_set(&frontier) {
                let of_set: Vec<&Address> = at.iter().filter_map(|at| frontier.get(*at)).collect();
                self.follow(set, &of_set, step, &mut |link| {
                    if next.len() < left {
                        next.insert(link.to);
                        true
                    } else {
                        let is_known = next.contains(&link.to);
                        walk.complete &= is_known;
                        is_known
                    }
                })?;
            }
            left -= next.len();
            frontier = next.into_iter().collect();
            walk.steps.push(if step.keep {
                frontier.clone()
            } else {
                Vec::new()
            });
        }
        Ok(walk)
    }

    /// Shows the links of these records of one set to `each`, until it returns false.
    fn follow(
        &self,
        set: &str,
        addresses: &[&Address],
        step: &WalkStep,
        each: &mut impl FnMut(TaggedLink) -> bool,
    ) -> Result<()> {
        let unsharded = WritePolicy::default().filter(not(bin_exists(SUBKEYS)));
        let read = [self.bin.read(step.tag.as_deref(), u64::MAX >> 1)];
        let call = |address: &&Address| RecordCall {
            policy: &unsharded,
            key: address.key.clone(),
            operations: &read,
        };
        let calls: Vec<RecordCall<'_>> = addresses.iter().map(call).collect();
        let results = self.store.records(set)?.operate_on_each(&calls);
        let mut each = |link: TaggedLink| match &step.set {
            Some(set) if *set != link.to.set => true,
            _ => each(link),
        };
        for (address, result) in addresses.iter().zip(results) {
            let goes_on = match result {
                Ok(result) => match result.value(0) {
                    Some(Value::List(list)) => {
                        let mut links = list.iter().cloned().map(link_of);
                        links.try_fold(true, |on, link| Ok::<_, Error>(on && each(link?)))?
                    }
                    _ => true,
                },
                Err(Error::NotFound { .. }) => true,
                Err(Error::FilteredOut { .. }) => {
                    follow_sharded(&self.store, &self.bin, address, step, &mut each)?
                }
                Err(error) => return self.bin.named(address, Err(error)),
            };
            if !goes_on {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Shows the links of a record with sharded collections to `each`. Returns whether it wants more.
fn follow_sharded<S: RecordStore>(
    store: &S,
    bin: &LinkBin,
    address: &Address,
    step: &WalkStep,
    each: &mut impl FnMut(TaggedLink) -> bool,
) -> Result<bool> {
    let mut after: Option<TaggedLink> = None;
    loop {
        let page = bin.page(store, address, step.tag.as_deref(), after.as_ref(), PAGE);
        let page = bin.named(address, page)?;
        let Some(last) = page.last() else {
            return Ok(true);
        };
        after = Some(last.clone());
        for link in page {
            if !each(link) {
                return Ok(false);
            }
        }
    }
}

/// The positions of addresses, by their sets.
pub(super) fn by_set(addresses: &[Address]) -> BTreeMap<&str, Vec<usize>> {
    let mut sets: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, address) in addresses.iter().enumerate() {
        sets.entry(&address.set).or_default().push(at);
    }
    sets
}
