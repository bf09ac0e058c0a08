//! Declaring and dropping indexes.

use std::sync::Arc;

use super::super::catalog::{Catalog, DeclaredIndex};
use super::super::core::NamespaceCore;
use super::INDEXES_MAX;
use super::index::{Index, IndexState};
use crate::index::IndexDefinition;
use crate::{Error, Result};

impl NamespaceCore {
    /// Declares an index. Returns it, and whether it is to be built: false for one that was there.
    pub(super) fn declare(
        &self,
        set: Option<&str>,
        definition: IndexDefinition,
    ) -> Result<(Arc<Index>, bool)> {
        definition.check()?;
        let set_id = set.map(|set| self.storage.create_set(set)).transpose()?;
        let _declaring = self.indexes.declaring.lock();
        let all = self.indexes.all();
        let index = Index::new(definition, set, set_id, self.key_hash)?;
        if let Some(known) = self.indexes.by_name(&index.name()) {
            return if known.is_same(&index) {
                Ok((known, false))
            } else {
                Err(Error::IndexExists(index.definition.name.clone()))
            };
        }
        if all.len() >= INDEXES_MAX {
            return Err(Error::TooManyIndexes { limit: INDEXES_MAX });
        }
        let index = Arc::new(index);
        let list: Vec<_> = all.iter().cloned().chain([Arc::clone(&index)]).collect();
        // The catalog first: where it cannot be written, nothing was declared.
        self.change_catalog(|catalog| catalog.declare(|catalog| note(&list, catalog)))?;
        self.indexes.replace(list);
        Ok((index, true))
    }

    /// Gives an index that is the same as `definition` but for its name that name. False: there is
    /// none, or one of that name.
    ///
    /// # Errors
    /// If it cannot be noted: the name stays.
    #[cfg(feature = "server")]
    pub(in crate::engine) fn rename_index(
        &self,
        set: Option<&str>,
        definition: &IndexDefinition,
    ) -> Result<bool> {
        let _declaring = self.indexes.declaring.lock();
        let all = self.indexes.all();
        let same = all.iter().find(|known| {
            known.set.as_deref() == set && known.definition().is_same_but_name(definition)
        });
        let (Some(same), None) = (same, self.indexes.by_name(&definition.name)) else {
            return Ok(false);
        };
        let before = same.name();
        same.rename(&definition.name);
        self.declare_indexes(&all)
            .inspect_err(|_| same.rename(&before))?;
        Ok(true)
    }

    /// Notes the indexes that there are, where none is new.
    pub(super) fn declare_indexes(&self, list: &[Arc<Index>]) -> Result<()> {
        self.change_catalog(|catalog| note(list, catalog))
    }

    /// Forgets the index of a name; with `set`, unless it is another set's.
    pub(in crate::engine) fn drop_index(&self, name: &str, set: Option<&str>) -> Result<()> {
        let is_of = |known: &Index| match (set, known.set.as_deref()) {
            (Some(set), Some(of)) => set == of,
            _ => true,
        };
        if self.drop_index_that(|known| *known.name() == *name && is_of(known))? {
            Ok(())
        } else {
            Err(Error::IndexNotFound(name.into()))
        }
    }

    /// Forgets the index for which `is_it` holds. False: there is none.
    pub(super) fn drop_index_that(&self, is_it: impl Fn(&Index) -> bool) -> Result<bool> {
        let _declaring = self.indexes.declaring.lock();
        let all = self.indexes.all();
        let Some(index) = all.iter().find(|known| is_it(known)) else {
            return Ok(false);
        };
        let list: Vec<_> = all
            .iter()
            .filter(|known| !Arc::ptr_eq(known, index))
            .cloned()
            .collect();
        self.declare_indexes(&list)?;
        // Before the list: from then on no writer changes the index, and a query that has found it
        // before must not answer from it.
        index.set_state(IndexState::Dropped);
        self.indexes.replace(list);
        Ok(true)
    }

    /// The index of a name, as far as it can be asked.
    pub(in crate::engine) fn readable_index(&self, name: &str) -> Result<Arc<Index>> {
        let index = self
            .indexes
            .by_name(name)
            .ok_or_else(|| Error::IndexNotFound(name.into()))?;
        match index.state() {
            IndexState::Ready => Ok(index),
            _ => {
                let (done, total) = index.progress();
                Err(Error::IndexBuilding {
                    index: name.into(),
                    done,
                    total,
                })
            }
        }
    }
}

fn note(list: &[Arc<Index>], catalog: &mut Catalog) -> Result<()> {
    let declared = list.iter().map(|index| DeclaredIndex {
        set: index.set.clone(),
        definition: index.definition(),
        unbuilt: index.state() == IndexState::Building && !index.definition.of_records,
    });
    catalog.indexes = declared.collect();
    Ok(())
}
