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
    /// Replaces the record of a person by one with bin `n`, and lists it among the members.
    Enlist(i64, i64),
    /// Deletes a member, and takes it off the list.
    Dismiss(i64),
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
    pub(super) members: BTreeSet<i64>,
    /// How children are kept: [`LayoutKind::Reference`] leaves nothing in the parent's record.
    pub(super) layout: Option<LayoutKind>,
}

/// The model with what pages do not show.
#[derive(Clone, Debug)]
pub(super) struct NaiveWorld {
    pub(super) now: Naive,
    /// Whether a delete takes the edges of its record along, or is refused for them.
    pub(super) detaches: bool,
    /// The last second of each person that expires.
    pub(super) last_seconds: BTreeMap<i64, u64>,
    pub(super) second: u64,
}

impl Naive {
    /// Returns whether a person has edges that keep its record from being deleted, unless the rule
    /// is another.
    pub(super) fn has_edges(&self, person: i64) -> bool {
        self.follows.iter().any(|(a, b)| [a, b].contains(&&person))
            || self.links.iter().any(|(from, ..)| *from == person)
            || self.has_children(person)
    }

    fn has_children(&self, person: i64) -> bool {
        self.children.keys().any(|(parent, _)| *parent == person)
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

impl Naive {
    fn replace(&mut self, person: i64, n: i64) {
        self.tags.retain(|(tagged, _)| *tagged != person);
        self.bins.insert(person, [("n", n)].into());
    }

    /// Deletes a person with all edges. A link one way leads to it still.
    fn delete(&mut self, person: i64) -> bool {
        let was_there = self.exists(person);
        self.bins.remove(&person);
        self.members.remove(&person);
        self.tags.retain(|(tagged, _)| *tagged != person);
        self.follows
            .retain(|(from, to)| *from != person && *to != person);
        let is_found = |from, tag, to| from == person || tag == "friend" && to == person;
        self.links
            .retain(|(from, tag, to)| !is_found(*from, *tag, *to));
        self.children.retain(|(parent, _), _| *parent != person);
        was_there
    }
}

impl NaiveWorld {
    /// Returns whether an edit is to be refused, since it deletes a record with edges.
    pub(super) fn is_refused(&self, edit: Edit) -> bool {
        matches!(edit, Edit::Delete(person) | Edit::Dismiss(person)
            if !self.detaches && self.now.has_edges(person))
    }

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
                now.replace(person, n);
                true
            }
            Edit::Delete(person) => now.delete(person),
            Edit::Enlist(person, n) => {
                now.replace(person, n);
                now.members.insert(person)
            }
            // Of one that is not listed, the record is deleted, too.
            Edit::Dismiss(person) => now.delete(person),
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
        } else {
            // A write without a time to live takes the namespace's, and the record never expires:
            // the removal of an absent tag, which changes nothing else, is such a write, too.
            if let Some(person) = edit.plainly_written() {
                self.last_seconds.remove(&person);
            }
        }
        changed
    }

    /// Whether an edit is left out. Expiry asks no relation, so that a record with edges leaves
    /// them at their other ends: here none of them expires. Nor does the delete of an absent record
    /// ask any: the model does not know whether an empty record is left to which children refer.
    pub(super) fn is_unsettled(&self, edit: Edit) -> bool {
        let expires = |person: &i64| self.last_seconds.contains_key(person);
        match edit {
            Edit::Put(person, _, Some(_)) => {
                self.now.has_edges(person) || self.now.members.contains(&person)
            }
            Edit::Delete(person) | Edit::Dismiss(person) => {
                self.now.has_children(person) && !self.now.exists(person)
            }
            _ => edit.ends().iter().any(expires),
        }
    }

    /// Moves the clock, and removes the people that expire.
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
    pub(super) const fn is_delete(self) -> bool {
        matches!(self, Self::Delete(_) | Self::Dismiss(_))
    }

    /// The people that get or lose an edge. Their times to live stay.
    pub(super) fn ends(self) -> Vec<i64> {
        match self {
            Self::Follow(a, b)
            | Self::Unfollow(a, b)
            | Self::Link(a, _, b)
            | Self::Unlink(a, _, b) => vec![a, b],
            Self::PutChild(a, ..) | Self::RemoveChild(a, _) => vec![a],
            _ => vec![],
        }
    }

    /// The person with a record that the edit writes by the user's own policy.
    const fn plainly_written(self) -> Option<i64> {
        match self {
            Self::Put(a, ..)
            | Self::Name(a, _)
            | Self::Replace(a, _)
            | Self::Delete(a)
            | Self::Tag(a, _)
            | Self::Untag(a, _)
            | Self::Enlist(a, _)
            | Self::Dismiss(a) => Some(a),
            _ => None,
        }
    }
}
