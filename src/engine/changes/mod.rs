//! The changes of a namespace, for programs that follow them.
//!
//! * `change`: a change and its position; `options`: which are shown, and from where on.
//! * `stream`: reading them, and waiting for them; `subscription`: how far a subscription has come.
//!
//! The log of the storage is the record of all changes, in order. This module keeps the
//! subscriptions: names and acknowledged positions, in the catalog.

mod change;
mod options;
mod stream;
mod subscription;

use std::sync::Arc;

use spikelet_storage::Lsn;

use super::catalog::Catalog;
use super::core::NamespaceCore;
use crate::{Error, Result};

pub use change::{Change, ChangeBatch, ChangeKind, Position};
pub use options::{ChangeOptions, Start};
pub use stream::ChangeStream;
pub use subscription::{Consumer, Subscription};

/// The most subscriptions of a namespace.
const SUBSCRIPTIONS_MAX: usize = 256;
/// The most shares of a subscription.
const SHARES_MAX: usize = 256;
/// The longest name of a subscription, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// The changes of a namespace: [`Namespace::changes`](crate::Namespace::changes).
#[derive(Clone, Debug)]
pub struct Changes {
    core: Arc<NamespaceCore>,
}

/// How a subscription gets on.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SubscriptionStats {
    /// The name of the subscription.
    pub name: Box<str>,
    /// Of each share, the log sequence number up to which changes are acknowledged.
    pub acknowledged: Vec<Lsn>,
    /// How many log sequence numbers the slowest share is behind the log: an upper bound of the
    /// changes.
    pub behind: u64,
    /// Whether a share was too slow, so that its consumer gets [`Error::ChangesLost`].
    pub has_lost: bool,
}

impl Changes {
    pub(super) fn new(core: &Arc<NamespaceCore>) -> Self {
        Self {
            core: Arc::clone(core),
        }
    }

    /// Has the changes of a set kept from now on, until subscriptions have acknowledged them. Kept
    /// after restarts, too.
    ///
    /// # Errors
    /// A name that is not allowed; the errors of a write.
    pub fn enable(&self, set: &str) -> Result<()> {
        let number = self.core.storage.create_set(set)?;
        Ok(self.core.storage.set_fed(number, true)?)
    }

    /// Keeps the changes of a set no longer. Unread ones are not shown any more. Consumers of
    /// subscriptions that name the set get [`Error::ChangesLost`] from here on: once changes of it
    /// are kept again, they can seek to a later position.
    ///
    /// # Errors
    /// The errors of a write.
    pub fn disable(&self, set: &str) -> Result<()> {
        match self.core.storage.set_id(set) {
            Some(number) => Ok(self.core.storage.set_fed(number, false)?),
            None => Ok(()),
        }
    }

    /// Returns the names of the sets with kept changes.
    #[must_use]
    pub fn sets(&self) -> Vec<Box<str>> {
        let sets = self.core.storage.fed_sets().into_iter();
        sets.filter_map(|(set, _)| self.core.storage.set_name(set).map(Into::into))
            .collect()
    }

    /// Makes a durable subscription, or returns the one that has this name: then `start` does not
    /// count.
    ///
    /// # Errors
    /// [`Error::Parameter`] for sets without kept changes, options that cannot be used, or others
    /// than the options of the subscription that there is; [`Error::ChangesLost`] for a start with
    /// changes that are not kept any more; [`Error::Forbidden`] for [`Start::Now`] within a closure
    /// that reads or writes a record; the errors of a write.
    pub fn subscribe(
        &self,
        name: &str,
        start: Start,
        options: ChangeOptions,
    ) -> Result<Subscription> {
        if let Ok(known) = self.subscription(name) {
            return if known.options == options {
                Ok(known)
            } else {
                Err(Error::parameter(format!(
                    "subscription \"{name}\" has other options: use those, or remove it first by Changes::unsubscribe"
                )))
            };
        }
        check(name, &options)?;
        let position = self.core.position_at(start)?;
        // It refuses what it cannot show.
        ChangeStream::new(&self.core, position, options.clone(), 0)?;
        let declare = |catalog: &mut Catalog| {
            // Another thread may have made it since.
            if subscription::declared(catalog, name).is_ok() {
                return Ok(false);
            }
            if catalog.subscriptions.len() >= SUBSCRIPTIONS_MAX {
                return Err(Error::parameter(format!(
                    "a namespace has at most {SUBSCRIPTIONS_MAX} subscriptions: remove one first"
                )));
            }
            let made = self.core.storage.last_lsn();
            let declared = subscription::declare((name, made), &options, position)?;
            catalog.subscriptions.push(declared);
            Ok(true)
        };
        let is_new = (self.core).change_catalog(|catalog| catalog.declare(declare))?;
        self.core.note_needed();
        let is_kept = position >= self.core.storage.changes_kept_after();
        match is_new {
            true if is_kept || matches!(start, Start::After(_)) => return self.subscription(name),
            // A block was emptied before the log knew of the subscription.
            true => drop(self.unsubscribe(name)?),
            false => {}
        }
        self.subscribe(name, start, options)
    }

    /// Returns the subscription of a name.
    ///
    /// # Errors
    /// [`Error::Parameter`] if there is none.
    pub fn subscription(&self, name: &str) -> Result<Subscription> {
        let catalog = self.core.catalog.lock();
        let declared = subscription::declared(&catalog, name)?;
        Ok(Subscription {
            core: Arc::clone(&self.core),
            name: name.into(),
            made: Lsn::new(declared.made),
            options: subscription::options_of(declared)?,
        })
    }

    /// Removes a subscription. Nothing is kept for it any more, and its consumers acknowledge
    /// nothing. Returns whether there was one.
    ///
    /// # Errors
    /// The errors of a write.
    pub fn unsubscribe(&self, name: &str) -> Result<bool> {
        let mut consumed = self.core.consumed.lock();
        if self.subscription(name).is_err() {
            return Ok(false);
        }
        self.core.change_catalog(|catalog| {
            catalog.subscriptions.retain(|known| *known.name != *name);
            Ok(())
        })?;
        // Its consumers acknowledge nothing of another that gets its name.
        consumed.retain(|held| *held.0 != *name);
        drop(consumed);
        self.core.note_needed();
        Ok(true)
    }

    /// Returns how the subscriptions get on, in the order in which they were made.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<SubscriptionStats> {
        let last_lsn = self.core.storage.last_lsn().get();
        let lost_to = self.core.storage.changes_kept_after().get();
        let catalog = self.core.catalog.lock();
        let all = catalog.subscriptions.iter();
        all.map(|declared| {
            let shares = declared.acknowledged.iter();
            let acknowledged: Vec<Lsn> = shares.map(|at| Lsn::new(*at)).collect();
            let least = acknowledged.iter().min().map_or(last_lsn, |at| at.get());
            SubscriptionStats {
                name: declared.name.clone(),
                acknowledged,
                behind: last_lsn.saturating_sub(least),
                has_lost: least < lost_to,
            }
        })
        .collect()
    }

    /// Reads changes without a subscription: nothing is kept for it, and nothing acknowledged.
    ///
    /// # Errors
    /// As for [`Changes::subscribe`].
    pub fn read(&self, start: Start, options: ChangeOptions) -> Result<ChangeStream> {
        check("read", &options)?;
        let position = self.core.position_at(start)?;
        let shares = 1;
        ChangeStream::new(&self.core, position, ChangeOptions { shares, ..options }, 0)
    }
}

fn check(name: &str, options: &ChangeOptions) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::parameter(format!(
            "subscription \"{name}\": a name has 1 to {NAME_BYTES_MAX} bytes"
        )));
    }
    if !(1..=SHARES_MAX).contains(&options.shares) {
        return Err(Error::parameter(format!(
            "{} shares: a subscription has 1 to {SHARES_MAX}",
            options.shares
        )));
    }
    options
        .filter
        .as_ref()
        .map_or(Ok(()), |filter| filter.check())
}

impl NamespaceCore {
    /// Reports to the storage which changes the subscriptions need.
    pub(super) fn note_needed(&self) {
        let catalog = self.catalog.lock();
        let shares = catalog.subscriptions.iter();
        let needs = shares.flat_map(|known| known.acknowledged.iter());
        let needs: Vec<Lsn> = needs.map(|after| Lsn::new(*after)).collect();
        // With the catalog locked: no older needs are reported behind newer ones.
        self.storage.need_changes_after(&needs);
    }

    /// Refuses a position behind which changes of one of these sets were not kept all the time.
    ///
    /// # Errors
    /// [`Error::ChangesLost`] with the position behind which they were.
    fn check_kept(&self, sets: &[Box<str>], after: Lsn) -> Result<()> {
        let fed = self.storage.fed_sets();
        let since = |set: &str| {
            let number = self.storage.set_id(set);
            let found = fed.iter().find(|(kept, _)| Some(*kept) == number);
            found.map_or(Lsn::new(u64::MAX), |(_, since)| *since)
        };
        match sets.iter().map(|set| since(set)).max() {
            Some(since) if since > after => Err(Error::ChangesLost {
                position: after.get(),
                // A set that keeps no changes now keeps later ones at best.
                kept_after: since.min(self.storage.last_lsn()).get(),
            }),
            _ => Ok(()),
        }
    }

    /// Where a start is.
    fn position_at(&self, start: Start) -> Result<Lsn> {
        if self.is_unrepaired {
            return Err(Error::Forbidden(
                "the store was not closed and is open for reading alone, so its latest changes cannot be read: open it to write once, and close it"
                    .into(),
            ));
        }
        let position = match start {
            Start::Now => {
                self.check_may_wait("a subscription to changes from now on")?;
                let last_lsn = self.storage.last_lsn();
                // Behind the number: a change with a lower one is visible then, so a reader that
                // begins with the records and goes on with the changes misses none.
                self.storage.wait_for_writers()?;
                last_lsn
            }
            Start::Beginning => self.storage.changes_kept_after(),
            Start::After(position) => position.lsn(),
        };
        let kept_after = self.storage.changes_kept_after();
        if position < kept_after {
            return Err(Error::ChangesLost {
                position: position.get(),
                kept_after: kept_after.get(),
            });
        }
        if position > self.storage.last_lsn() {
            return Err(Error::parameter(format!(
                "position {position} is behind the last one of namespace {}, {}",
                self.storage.name(),
                self.storage.last_lsn()
            )));
        }
        Ok(position)
    }
}
