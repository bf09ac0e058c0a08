//! The naive model: sets of edges and maps of bins, without records, shards or indexes.

use std::collections::{BTreeMap, BTreeSet};

use crate::relation::LayoutKind;

/// A step that changes something in one call, and can be part of a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit {
    /// Writes bin `n` of a person, with a time to live in seconds, or without one.
    Put(i64, i64, Option<u64>),
    /// Writes bin `name`.
    Name(i64, i64),
    /// Replaces the record of a person by one with bin `n`.
    Replace(i64, i64),
    Delete(i64),
    Follow(i64, i64),
    Unfollow(i64, i64),
    /// `friend` links both ways, `sees` one way.
    Link(i64, &'static str, i64),
    Unlink(i64, &'static str, i64),
    /// Writes child (second) of a person (first).
    PutChild(i64, i64, i64),
    RemoveChild(i64, i64),
    Tag(i64, i64),
    Untag(i64, i64),
}

/// The state of the whole store, as users see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Naive {
    /// The plain bins of each person.
    pub(super) bins: BTreeMap<i64, BTreeMap<&'static str, i64>>,
    pub(super) tags: BTreeSet<(i64, i64)>,
    pub(super) follows: BTreeSet<(i64, i64)>,
    pub(super) links: BTreeSet<(i64, &'static str, i64)>,
    /// The text of a child, by parent and key.
    pub(super) children: BTreeMap<(i64, i64), i64>,
    /// How children are kept: [`LayoutKind::Reference`] leaves nothing in the parent's record.
    pub(super) layout: Option<LayoutKind>,
}

/// The model with what users do not see.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) now: Naive,
    /// The last second of each person that expires.
    pub(super) last_seconds: BTreeMap<i64, u64>,
    pub(super) second: u64,
}

impl Naive {
    /// Returns whether a person has edges of a declared relation.
    pub(super) fn has_edges(&self, person: i64) -> bool {
        self.follows.iter().any(|(a, b)| [a, b].contains(&&person))
            || self.links.iter().any(|(from, ..)| *from == person)
            || self.has_children(person)
    }

    fn has_children(&self, person: i64) -> bool {
        self.children.keys().any(|(parent, _)| *parent == person)
    }

    /// Returns whether a child belongs to another parent.
    pub(super) fn is_of_other(&self, parent: i64, child: i64) -> bool {
        let mut children = self.children.keys();
        children.any(|(owner, key)| *key == child && *owner != parent)
    }

    /// Returns whether a person has anything, so that there must be a record.
    pub(super) fn exists(&self, person: i64) -> bool {
        self.bins.contains_key(&person)
            || self.follows.iter().any(|(a, b)| [a, b].contains(&&person))
            || self.links.iter().any(|(from, ..)| *from == person)
            || self.layout != Some(LayoutKind::Reference) && self.has_children(person)
            || self.tags.iter().any(|(tagged, _)| *tagged == person)
    }

    pub(super) fn targets(&self, source: i64) -> Vec<i64> {
        let edges = self.follows.iter().filter(|(from, _)| *from == source);
        edges.map(|(_, to)| *to).collect()
    }

    pub(super) fn sources(&self, target: i64) -> Vec<i64> {
        let edges = self.follows.iter().filter(|(_, to)| *to == target);
        edges.map(|(from, _)| *from).collect()
    }

    pub(super) fn children_of(&self, parent: i64) -> Vec<(i64, i64)> {
        let children = self.children.iter();
        let own = children.filter(|((owner, _), _)| *owner == parent);
        own.map(|((_, child), text)| (*child, *text)).collect()
    }

    pub(super) fn tagged(&self, tags: std::ops::RangeInclusive<i64>) -> BTreeSet<i64> {
        let hits = self.tags.iter().filter(|(_, tag)| tags.contains(tag));
        hits.map(|(person, _)| *person).collect()
    }
}

impl World {
    /// Makes an edit. Returns what the call returns: whether something is new, or was there.
    pub(super) fn apply(&mut self, edit: Edit) -> bool {
        let now = &mut self.now;
        let mut put = |person, bin, value| {
            now.bins.entry(person).or_default().insert(bin, value);
            true
        };
        let changed = match edit {
            Edit::Put(person, n, _) => put(person, "n", n),
            Edit::Name(person, name) => put(person, "name", name),
            Edit::Replace(person, n) => {
                now.tags.retain(|(tagged, _)| *tagged != person);
                now.bins.insert(person, [("n", n)].into());
                true
            }
            Edit::Delete(person) => {
                let was_there = now.exists(person);
                now.bins.remove(&person);
                now.tags.retain(|(tagged, _)| *tagged != person);
                was_there
            }
            Edit::Follow(from, to) => now.follows.insert((from, to)),
            Edit::Unfollow(from, to) => now.follows.remove(&(from, to)),
            Edit::Link(from, tag, to) => {
                if tag == "friend" {
                    now.links.insert((to, tag, from)) | now.links.insert((from, tag, to))
                } else {
                    now.links.insert((from, tag, to))
                }
            }
            Edit::Unlink(from, tag, to) => {
                if tag == "friend" {
                    now.links.remove(&(to, tag, from)) | now.links.remove(&(from, tag, to))
                } else {
                    now.links.remove(&(from, tag, to))
                }
            }
            Edit::PutChild(parent, child, text) => {
                if now.layout != Some(LayoutKind::Consolidated) {
                    now.children.retain(|(_, other), _| *other != child);
                }
                now.children.insert((parent, child), text);
                true
            }
            Edit::RemoveChild(parent, child) => now.children.remove(&(parent, child)).is_some(),
            Edit::Tag(person, tag) => now.tags.insert((person, tag)),
            Edit::Untag(person, tag) => now.tags.remove(&(person, tag)),
        };
        if let Edit::Put(person, _, Some(seconds)) = edit {
            self.last_seconds.insert(person, self.second + seconds);
        } else if changed {
            // Without a time to live, a write takes the namespace's, which is none.
            let is_listed = self.now.layout != Some(LayoutKind::Reference);
            for person in edit.people(is_listed) {
                self.last_seconds.remove(&person);
            }
        }
        changed
    }

    /// Whether an edit is left out: a child in a key list is taken from its parent before another one gets it, and a record that
    /// is to expire gets no edges, which would outlive it.
    pub(super) fn is_unsettled(&self, edit: Edit) -> bool {
        let expires = |person: &i64| self.last_seconds.contains_key(person);
        if edit.is_of_relation() && edit.people(true).iter().any(expires) {
            return true;
        }
        let is_listed = self.now.layout == Some(LayoutKind::KeyList);
        matches!(edit, Edit::PutChild(parent, child, _)
            if is_listed && self.now.is_of_other(parent, child))
    }

    /// Moves the clock. Whoever expires is gone.
    pub(super) fn advance(&mut self, seconds: u64) {
        self.second += seconds;
        let (second, last) = (self.second, &mut self.last_seconds);
        let expired: Vec<i64> = last
            .iter()
            .filter(|(_, last)| **last < second)
            .map(|(person, _)| *person)
            .collect();
        for person in expired {
            last.remove(&person);
            self.now.bins.remove(&person);
            self.now.tags.retain(|(tagged, _)| *tagged != person);
        }
    }
}

impl Edit {
    const fn is_of_relation(self) -> bool {
        matches!(
            self,
            Self::Follow(..)
                | Self::Unfollow(..)
                | Self::Link(..)
                | Self::Unlink(..)
                | Self::PutChild(..)
                | Self::RemoveChild(..)
        )
    }

    /// The people whose records are written; `is_listed`: those of parents, too.
    fn people(self, is_listed: bool) -> Vec<i64> {
        match self {
            Self::Follow(a, b) | Self::Unfollow(a, b) => vec![a, b],
            Self::Link(a, "friend", b) | Self::Unlink(a, "friend", b) => vec![a, b],
            Self::Link(a, ..) | Self::Unlink(a, ..) => vec![a],
            Self::PutChild(..) | Self::RemoveChild(..) if !is_listed => vec![],
            Self::PutChild(a, ..) | Self::RemoveChild(a, _) => vec![a],
            Self::Tag(a, _) | Self::Untag(a, _) => vec![a],
            Self::Put(a, ..) | Self::Name(a, _) | Self::Replace(a, _) | Self::Delete(a) => vec![a],
        }
    }
}
