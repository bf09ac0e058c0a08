//! spikelet: an index on a bin of text. A query checks each record before it lends it.

use super::super::spikelet::{log_bytes, open};
use super::{Child, Lend, Parent, QueryStore, key};
use crate::stores::{LogBytes, Metered};
use crate::{Error, Result};
use spikelet::expressions::{int_bin, lt};
use spikelet::policy::RecordExistsAction;
use spikelet::query::{IndexDefinition, Query};
use spikelet::{DEFAULT_NAMESPACE, Durability, Namespace, RecordView, Set, WritePolicy, bins};
use std::ops::ControlFlow;
use std::path::Path;

const INDEX: &str = "by_parent";
const PARENT: &str = "parent";
const NUMBER: &str = "n";
const BODY: &str = "body";

pub struct Spikelet {
    namespace: Namespace,
    set: Set,
    update_only: WritePolicy,
}

impl Spikelet {
    /// A store in `dir`, or in memory.
    pub fn create(dir: Option<&Path>) -> Result<Self> {
        let namespace = open(dir, Durability::Process)?.namespace(DEFAULT_NAMESPACE)?;
        let set = namespace.set("records")?;
        set.create_index(IndexDefinition::new(INDEX, [PARENT]))?;
        Ok(Self {
            namespace,
            set,
            update_only: WritePolicy::default()
                .record_exists_action(RecordExistsAction::UpdateOnly),
        })
    }
}

fn text(parent: &Parent) -> Result<&str> {
    Ok(std::str::from_utf8(parent)?)
}

fn lend_query(query: &Query, lend: &mut Lend<'_>) -> Result<()> {
    let ended = query.for_each(|record| match record {
        Ok(record) => lend_view(record.view, lend),
        Err(error) => ControlFlow::Break(error.into()),
    })?;
    match ended {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn lend_view(view: RecordView<'_>, lend: &mut Lend<'_>) -> ControlFlow<Error> {
    let (parent, body) = (view.bin(PARENT), view.bin(BODY));
    let parent = parent.as_ref().and_then(|parent| parent.as_str());
    let body = body.as_ref().and_then(|body| body.as_blob());
    match parent.zip(body) {
        Some((parent, body)) => {
            lend(parent.as_bytes(), body);
            ControlFlow::Continue(())
        }
        None => ControlFlow::Break("a record without parent or body".into()),
    }
}

impl Metered for Spikelet {
    fn sync(&self) -> Result<()> {
        Ok(self.namespace.sync()?)
    }

    fn log_bytes(&self) -> Option<LogBytes> {
        Some(log_bytes(&self.namespace))
    }
}

impl QueryStore for Spikelet {
    fn load(&self, batch: &[Child]) -> Result<()> {
        for child in batch {
            let bins = bins! {
                PARENT => text(&child.parent)?,
                NUMBER => child.number as i64,
                BODY => child.body.as_slice(),
            };
            self.set.put(key(child.number), bins)?;
        }
        Ok(())
    }

    fn of_parent(&self, parent: &Parent, limit: usize, lend: &mut Lend<'_>) -> Result<()> {
        let query = self.set.query(INDEX)?.eq(text(parent)?).limit(limit);
        lend_query(&query, lend)
    }

    fn range_from(&self, parent: &Parent, limit: usize, lend: &mut Lend<'_>) -> Result<()> {
        let query = self.set.query(INDEX)?.at_least(text(parent)?).limit(limit);
        lend_query(&query, lend)
    }

    fn scan(&self, end: u64, lend: &mut Lend<'_>) -> Result<()> {
        let filtered = self.set.filtered(lt(int_bin(NUMBER), end as i64))?;
        let ended = filtered.scan(|record| match record {
            Ok(record) => lend_view(record.view, lend),
            Err(error) => ControlFlow::Break(error.into()),
        });
        match ended {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn set_parent(&self, number: u64, parent: &Parent) -> Result<()> {
        let bins = [(PARENT, text(parent)?)];
        self.set.put_with(&self.update_only, key(number), bins)?;
        Ok(())
    }
}
