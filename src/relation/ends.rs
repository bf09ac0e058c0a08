//! Changes of both ends of an edge: as one group of writes, or one end after the other.

use super::keys::read_one;
use super::side::{OwnedEdges, RelationSide};
use super::together::{Added, OnExisting, make_together};
use crate::{Key, RecordStore, Result, Value};

/// One end of an edge: the record that has it, and the element of its collection.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeEnd<'a> {
    pub(super) side: &'a RelationSide,
    pub(super) owner: &'a Key<'a>,
    pub(super) element: Added<'a>,
}

/// An edge that is to be added or removed. The first end decides whether there is one: it is
/// written first when the edge is added, and last when it is removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeEnds<'a> {
    /// The name of the relation, for errors.
    pub(super) relation: &'a str,
    pub(super) ends: [EdgeEnd<'a>; 2],
    /// Whether the second end has the edge, too. Its record may have to exist all the same.
    pub(super) is_mutual: bool,
    /// Nil where the relation has none.
    pub(super) attributes: &'a Value,
}

impl EdgeEnd<'_> {
    fn at<'s, S>(&'s self, store: &'s S) -> OwnedEdges<'s, S> {
        self.side.at(store, self.owner)
    }

    fn get<S: RecordStore>(&self, store: &S) -> Result<Option<Value>> {
        self.at(store).get_element(&self.element.element())
    }

    /// Adds the end to a record that was checked.
    fn add<S: RecordStore>(&self, store: &S, attributes: &Value) -> Result<bool> {
        let element = self.element.element();
        self.at(store).put_element(element, attributes)
    }

    fn remove<S: RecordStore>(&self, store: &S) -> Result<bool> {
        self.at(store).remove_element(&self.element.element())
    }

    /// Removes the end if the record of this set and key, to which it leads, is not there. Returns
    /// whether it was removed.
    pub(super) fn prune<S: RecordStore>(
        &self,
        store: &S,
        (set, key): (&str, &Key<'_>),
    ) -> Result<bool> {
        match read_one(&store.records(set)?, key, Some(&[]))? {
            Some(_) => Ok(false),
            None => self.remove(store),
        }
    }
}

impl EdgeEnds<'_> {
    /// Adds the edge, or changes its attributes. Returns whether it is new. `records`: the sets of
    /// both ends.
    pub(super) fn link<S: RecordStore>(
        &self,
        store: &S,
        records: [&S::Records; 2],
    ) -> Result<bool> {
        let ([one, other], [first, second]) = (&self.ends, records);
        let (attributes, existing) = (self.attributes, OnExisting::WriteNothing);
        let edits = [
            (one.side).adding(first, one.owner, one.element, attributes, existing),
            (other.side).adding(second, other.owner, other.element, attributes, existing),
        ];
        let linked = if self.is_mutual {
            make_together(store, edits, 0, |store| self.add(store))
        } else {
            store.atomically(|store| self.add(store))
        };
        self.named(one, linked)
    }

    /// Removes the edge. Returns whether it was there. `records`: the sets of both ends.
    pub(super) fn unlink<S: RecordStore>(
        &self,
        store: &S,
        records: [&S::Records; 2],
    ) -> Result<bool> {
        let ([one, other], [first, second]) = (&self.ends, records);
        let edits = [
            (other.side).removing(second, other.owner, other.element.element()),
            (one.side).removing(first, one.owner, one.element.element()),
        ];
        let unlinked = if self.is_mutual {
            make_together(store, edits, 1, |store| self.remove(store))
        } else {
            store.atomically(|store| self.remove(store))
        };
        self.named(one, unlinked)
    }

    /// Adds the edge at its first end, then at the other. Returns whether it is new.
    pub(super) fn add<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let [one, other] = &self.ends;
        // Before the first write, which a store without transactions keeps though the second is
        // refused.
        for end in [one, other] {
            self.named(end, end.at(store).check_owner())?;
        }
        let is_new = self.named(one, one.add(store, self.attributes))?;
        if self.is_mutual {
            self.named(other, other.add(store, self.attributes))?;
        }
        Ok(is_new)
    }

    /// Removes the edge at its second end, then at the first. Returns whether it was there.
    pub(super) fn remove<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let [one, other] = &self.ends;
        if self.is_mutual {
            self.named(other, other.remove(store))?;
        }
        self.named(one, one.remove(store))
    }

    /// Makes the second end of the edge agree with the first. Returns whether it has changed.
    /// `removes`: whether an edge that the second end alone has is removed. Otherwise it may be
    /// there by itself.
    pub(super) fn follow_first<S: RecordStore>(&self, store: &S, removes: bool) -> Result<bool> {
        let [one, other] = &self.ends;
        let mut changed = false;
        // Until the first end says the same before and after: elsewhere than in a transaction
        // others may have linked or unlinked.
        loop {
            let (before, theirs) = (one.get(store)?, other.get(store)?);
            match &before {
                _ if before == theirs => return Ok(changed),
                Some(attributes) => {
                    other.at(store).check_owner()?;
                    other.add(store, attributes)?
                }
                // An end that this call has added is taken back.
                None if changed || removes => other.remove(store)?,
                None => return Ok(changed),
            };
            changed = true;
        }
    }

    /// An end's result, with the names of the relation and of the side in an error that has none
    /// yet.
    fn named<T>(&self, end: &EdgeEnd<'_>, result: Result<T>) -> Result<T> {
        result.map_err(|error| error.in_relation(self.relation, end.side))
    }
}
