//! Children that get another parent.

#[cfg(doc)]
use super::Layout;
use super::OneToMany;
use crate::operations;
use crate::relation::declared::ensured;
use crate::relation::keys::{REMOVED, element_of, is_removed, key_of, read_one};
use crate::relation::one_to_many::place::ChildPlace;
use crate::relation::side::check_exists;
use crate::relation::within::{Within, within};
use crate::{Error, IndexedRecordSet, Key, RecordStore, Result, Value};

impl<S: RecordStore<Records: IndexedRecordSet>> OneToMany<S> {
    /// Gives a child another parent, and returns the one that it had; the same one where nothing
    /// was to be done. The child's own bins and its time to live stay.
    ///
    /// For children that name their parent ([`OneToMany::with_parent_bin`], or
    /// [`Layout::reference`]). One transaction on a [`Store`](crate::Store): 1 read and 1 write,
    /// and 2 writes more for a key list. Elsewhere the new parent lists the child before the child
    /// names it, and the old one last: what dies in between leaves a key in a list of a parent that
    /// the child does not name, which [`OneToMany::verify`] removes.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::relation::{Layout, OneToMany};
    ///
    /// let store = spikelet::Store::in_memory()?;
    /// let tasks = OneToMany::new(&store, "tasks", ("people", "tasks"), Layout::key_list("tasks"))?
    ///     .with_parent_bin("owner");
    /// tasks.put("ann", 7, &serde_json::json!({ "title": "paint" }))?;
    /// assert_eq!(tasks.set_parent(7, "bob")?, Some("ann".into()));
    /// assert_eq!((tasks.len("ann")?, tasks.len("bob")?), (0, 1));
    /// assert_eq!(tasks.parent_of(7)?, Some("bob".into()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such child; [`Error::Parameter`] where children do not
    /// name their parents, or while they are moved to another layout; [`Error::Relation`] around
    /// the errors of a write.
    pub fn set_parent<'c, 'p>(
        &self,
        child: impl Into<Key<'c>>,
        parent: impl Into<Key<'p>>,
    ) -> Result<Option<Key<'static>>> {
        let place = &self.current;
        let refuse = |why| {
            let name = &self.name;
            Err(Error::parameter(format!("relation {name:?}: {why}")))
        };
        if self.former.is_some() {
            return refuse(
                "children are moved to another layout: put the child, or move all first",
            );
        }
        let Some(bin) = place.parent_bin_of_child() else {
            return refuse(
                "children do not name their parents: declare it by OneToMany::with_parent_bin, or keep them by reference",
            );
        };
        let (child, parent) = (&child.into(), &parent.into());
        let set = || {
            let moved = (self.store)
                .atomically(|store| within(place, store).set_parent(bin, child, parent));
            self.named(place, moved)
        };
        ensured(|| self.ensure_declared(), set)
    }
}

impl<S: RecordStore> Within<'_, ChildPlace, S> {
    /// Lists a child at its new parent, writes the parent's key into this bin of the child, and
    /// takes it off the old parent's list. Returns the old parent.
    fn set_parent(
        &self,
        bin: &str,
        child: &Key<'_>,
        parent: &Key<'_>,
    ) -> Result<Option<Key<'static>>> {
        if self.checks_parent() {
            check_exists(self.store, &self.side().set, parent)?;
        }
        let records = self.records()?;
        let no_child = || Err(Error::not_found().about(self.children(), child));
        let found = read_one(&records, child, Some(&[bin, REMOVED]))?;
        let Some(found) = found.filter(|found| !is_removed(found)) else {
            return no_child();
        };
        let before = found.get(bin).map(key_of).transpose()?;
        let listed = self.listed();
        let is_listed = self.layout.is_key_list();
        if is_listed {
            self.edges(parent).add(child, &Value::Nil)?;
        }
        if before.as_ref() == Some(parent) {
            return Ok(before);
        }
        let name = operations::put(bin, element_of(parent));
        if !self.name_parent(child, name, None)? {
            // Another caller has removed it since.
            if is_listed {
                listed.unlist(parent, child)?;
            }
            return no_child();
        }
        if is_listed {
            listed.list_again(parent, child)?;
        }
        if let (true, Some(owner)) = (is_listed, &before) {
            listed.unlist(owner, child)?;
        }
        Ok(before)
    }
}
