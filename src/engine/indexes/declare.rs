//! Declaring and dropping indexes.

use std::sync::Arc;

use super::super::core::Core;
use super::INDEXES_MAX;
use super::catalog::Declared;
use super::index::{Index, IndexState};
use crate::index::IndexDefinition;
use crate::{Error, Result};

impl Core {
    /// Declares an index, which is to be built then. `None`: there is the same one already.
    pub(super) fn declare(
        &self,
        set: Option<&str>,
        definition: IndexDefinition,
    ) -> Result<Option<Arc<Index>>> {
        definition.check()?;
        let set_id = set.map(|set| self.storage.create_set(set)).transpose()?;
        let _declaring = self.indexes.declaring.lock();
        let all = self.indexes.all();
        let index = Index::new(definition, set, set_id)?;
        if let Some(known) = self.indexes.by_name(&index.definition.name) {
            return match known.is_same(&index) {
                true => Ok(None),
                false => Err(Error::IndexExists(index.definition.name.clone())),
            };
        }
        if all.len() >= INDEXES_MAX {
            return Err(Error::TooManyIndexes { limit: INDEXES_MAX });
        }
        let index = Arc::new(index);
        let list: Vec<_> = all.iter().cloned().chain([Arc::clone(&index)]).collect();
        self.keep(&list)?;
        self.indexes.replace(list);
        Ok(Some(index))
    }

    fn keep(&self, list: &[Arc<Index>]) -> Result<()> {
        let indexes = list.iter().map(|index| Declared::of(index)).collect();
        self.edit_catalog(|catalog| catalog.indexes = indexes)
    }

    /// Forgets an index.
    pub(in crate::engine) fn drop_index(&self, name: &str) -> Result<()> {
        let _declaring = self.indexes.declaring.lock();
        let Some(index) = self.indexes.by_name(name) else {
            return Err(Error::IndexNotFound(name.into()));
        };
        let all = self.indexes.all();
        let list: Vec<_> = all
            .iter()
            .filter(|known| !Arc::ptr_eq(known, &index))
            .cloned()
            .collect();
        self.keep(&list)?;
        index.set_state(IndexState::Dropped);
        self.indexes.replace(list);
        Ok(())
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
