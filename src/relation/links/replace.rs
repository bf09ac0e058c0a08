//! Links of which a record has one.

use super::{Links, ends};
use crate::relation::address::Address;
use crate::relation::declared::ensured;
use crate::shard::in_pages;
use crate::{Error, RecordStore, Result};

impl<S: RecordStore> Links<S> {
    /// Makes this the only link of a record with this tag: links of the tag to other records are
    /// removed, with their links back where these are declared. Returns the records that the
    /// removed links led to; none if nothing was replaced.
    ///
    /// One transaction on a [`Store`](crate::Store): a read, and a write or two for each link that
    /// is removed or added. Where that is more than a transaction takes (some 4,000 links with a
    /// link back), and elsewhere, the new link is added before others are removed, each by itself,
    /// so a process that dies in between leaves too many, never none; the same call removes them.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::relation::{Address, Links};
    ///
    /// let store = spikelet::Store::in_memory()?;
    /// let links = Links::new(&store, "links").reciprocal("boss", "report");
    /// let person = |name: &str| Address::new("people", name);
    /// links.set(&person("homer"), "boss", &person("frank"))?;
    /// let before = links.set(&person("homer"), "boss", &person("burns"))?;
    /// assert_eq!(before, [person("frank")]);
    /// assert!(!links.contains(&person("frank"), "report", &person("homer"))?);
    /// assert!(links.contains(&person("burns"), "report", &person("homer"))?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Links::link`]; within a transaction of the caller's, [`Error::TransactionLimit`]
    /// for more links than it takes.
    pub fn set(&self, from: &Address, tag: &str, to: &Address) -> Result<Vec<Address>> {
        let is_too_large = |error: &Error| match error {
            Error::Relation { source, .. } => matches!(**source, Error::TransactionLimit { .. }),
            error => matches!(error, Error::TransactionLimit { .. }),
        };
        let set = || match (self.store).atomically(|store| self.set_in(store, from, tag, to)) {
            // Nothing was written. Each link goes in a transaction of its own.
            Err(error) if is_too_large(&error) && !self.store.is_transaction() => {
                self.set_in(&self.store, from, tag, to)
            }
            set => set,
        };
        ensured(|| self.ensure_declared(from, tag, to), set)
    }

    /// Adds a link and its reciprocal, then removes the other links of its tag with theirs.
    fn set_in<T: RecordStore>(
        &self,
        store: &T,
        from: &Address,
        tag: &str,
        to: &Address,
    ) -> Result<Vec<Address>> {
        let (bin, back) = (&self.bin, self.back_of(tag));
        let change = |to: &Address, removes: bool| {
            let sides = [bin.side(&from.set), bin.side(&to.set)];
            let ends = ends(&sides, (from, tag, to), back);
            store.atomically(|store| {
                if removes {
                    ends.remove(store)
                } else {
                    ends.add(store)
                }
            })
        };
        change(to, false)?;
        let mut replaced = Vec::new();
        for link in in_pages(|after, limit| bin.page(store, from, Some(tag), after, limit)) {
            let link = bin.named(from, link)?;
            if link.to != *to {
                change(&link.to, true)?;
                replaced.push(link.to);
            }
        }
        Ok(replaced)
    }
}
