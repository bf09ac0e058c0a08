//! Walks along links, step by step.

use std::collections::{BTreeMap, BTreeSet};

use super::Links;
use crate::relation::address::{Address, TaggedLink, link_of};
use crate::setters::setters;
use crate::shard::in_pages;
use crate::{Error, Key, RecordStore, Result, ValueRef};

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

    setters! { in
        /// Follows only links of this tag.
        tag(tag: &str) => tag = Some(tag.into()),
        /// Follows only links to records of this set.
        set(set: &str) => set = Some(set.into()),
        /// Keeps the records that the step leads to, for the answer.
        keep() => keep = true,
    }
}

/// The state of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkWalk {
    /// The records of each step that keeps them, each once, in the order of sets and keys; of the
    /// others none.
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
    /// Follows links from these records, step by step. A record is followed once a step, by however
    /// many links it was reached, so circles cost nothing more. One batch a step for each set of
    /// its records.
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
        let Some(first) = addresses.first() else {
            return Ok(());
        };
        let tag = step.tag.as_deref();
        let owners: Vec<Key<'_>> = addresses.iter().map(|at| Key::from(&at.key)).collect();
        let side = self.bin.side(set);
        let read = self.bin.read(tag, u64::MAX >> 1);
        // `Some(None)`: the links of the record are sharded.
        let found = side.reader(&self.store).and_then(|reader| {
            reader.ask_each(
                &owners,
                &read,
                |value| links_of(value).map(Some),
                |_| Ok(None),
            )
        });
        let mut each = |link: TaggedLink| match &step.set {
            Some(set) if *set != link.to.set => true,
            _ => each(link),
        };
        for (address, found) in addresses.iter().zip(self.bin.named(first, found)?) {
            let goes_on = match found {
                Some(Some(links)) => links.into_iter().all(&mut each),
                Some(None) => {
                    let page = |after: Option<&TaggedLink>, limit| {
                        self.bin.page(&self.store, address, tag, after, limit)
                    };
                    let mut links = in_pages(page).map(|link| self.bin.named(address, link));
                    let mut goes_on = true;
                    while goes_on && let Some(link) = links.next() {
                        goes_on = each(link?);
                    }
                    goes_on
                }
                None => true,
            };
            if !goes_on {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The links of a list that was read.
fn links_of(value: Option<ValueRef<'_>>) -> Result<Vec<TaggedLink>> {
    let elements = value.and_then(|value| value.as_list());
    let elements = elements.into_iter().flatten();
    elements
        .map(|element| {
            let element = element.and_then(|element| element.to_value());
            link_of(element.map_err(|source| Error::malformed("element", source))?)
        })
        .collect()
}

/// The positions of addresses, by their sets.
pub(super) fn by_set(addresses: &[Address]) -> BTreeMap<&str, Vec<usize>> {
    let mut sets: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, address) in addresses.iter().enumerate() {
        sets.entry(&address.set).or_default().push(at);
    }
    sets
}
