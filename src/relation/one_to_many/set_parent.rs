//! Children that get another parent.

use super::{Layout, OneToMany};
use crate::operations;
use crate::policy::RecordExistsAction;
use crate::relation::keys::{element_of, key_of};
use crate::relation::one_to_many::place::ChildPlace;
use crate::relation::side::check_exists;
use crate::{
    Error, Expiration, IndexedRecordSet, Key, RecordSet, RecordStore, Result, Value, WritePolicy,
};

impl<S: RecordStore<Records: IndexedRecordSet>> OneToMany<S> {
    /// Gives a child another parent, and returns the one that it had; the same one where nothing
    /// was to be done. The child's own bins and its time to live stay.
    ///
    /// For children that name their parent ([`OneToMany::with_parent_bin`], or
    /// [`Layout::reference`]). One transaction on a [`Store`](crate::Store): 1 read and 1 write,
    /// and 2 writes more for a key list. Elsewhere the new parent lists the child before the child
    /// names it, and the old one last: what dies in between leaves a key in a list of a parent that
    /// the child does not name, which the same call or [`OneToMany::verify`] removes.
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
    /// what a write may be refused for.
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
        self.ensure_declared()?;
        let (child, parent) = (&child.into(), &parent.into());
        let moved = (self.store).atomically(|store| place.set_parent(store, bin, child, parent));
        self.named(place, moved)
    }
}

impl ChildPlace {
    /// Lists a child at its new parent, writes the parent's key into this bin of the child, and takes it off the old parent's
    /// list. Returns the old parent.
    fn set_parent<S: RecordStore>(
        &self,
        store: &S,
        bin: &str,
        child: &Key<'_>,
        parent: &Key<'_>,
    ) -> Result<Option<Key<'static>>> {
        if self.checks_parent() {
            check_exists(store, &self.side().set, parent)?;
        }
        let records = store.records(self.children())?;
        let read = operations::get_bin(bin);
        let found = records.operate_on(&WritePolicy::default(), child, &[read])?;
        let named = found
            .value(0)
            .filter(|value| **value != Value::Nil)
            .cloned();
        let before = named.map(key_of).transpose()?;
        let listed = &self.listed;
        let is_listed = matches!(self.layout, Layout::KeyList { .. });
        if is_listed {
            listed.side.add(store, parent, child, &Value::Nil)?;
        }
        if before.as_ref() == Some(parent) {
            return Ok(before);
        }
        let keep = WritePolicy::default()
            .record_exists_action(RecordExistsAction::UpdateOnly)
            .expiration(Expiration::DontUpdate)
            .of_relation();
        let name = operations::put(bin, element_of(parent));
        records.operate_on(&keep, child, &[name])?;
        if is_listed {
            listed.list_again(store, parent, child)?;
        }
        if let (true, Some(owner)) = (is_listed, &before) {
            listed.unlist(store, owner, child)?;
        }
        Ok(before)
    }
}
