//! Subscriptions: the changes kept for them, and the positions of their consumers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spikelet_storage::{Delivery, Lsn};

use super::change::ChangeBatch;
use super::options::{ChangeOptions, Start};
use super::stream::{ChangeStream, ITERATED};
use crate::engine::catalog::{Catalog, DeclaredSubscription};
use crate::engine::core::{ConsumedShare, NamespaceCore};
use crate::expression::Expression;
use crate::{Error, Result};

/// A consumer that has passed over this many log sequence numbers without a change notes its
/// position.
const PASSED_OVER: u64 = 4_096;
/// How often one that waits looks whether it has.
const NOTED_EVERY: Duration = Duration::from_secs(1);

/// A durable, named subscription. Changes are kept until each of its shares has acknowledged them.
#[derive(Clone, Debug)]
pub struct Subscription {
    pub(super) core: Arc<NamespaceCore>,
    pub(super) name: Box<str>,
    /// The log sequence number before it was made, which distinguishes it from others that had its
    /// name. The changes of its sets were kept then.
    pub(super) made: Lsn,
    pub(super) options: ChangeOptions,
}

impl Subscription {
    /// Returns the name of the subscription.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what it shows.
    #[must_use]
    pub const fn options(&self) -> &ChangeOptions {
        &self.options
    }

    /// Whether the changes of its sets were kept all the time behind the acknowledged positions.
    pub(crate) fn is_whole(&self) -> bool {
        let catalog = self.core.catalog.lock();
        let Ok(declared) = self.declared(&catalog) else {
            return false;
        };
        let mut acknowledged = declared.acknowledged.iter();
        acknowledged.all(|at| {
            let after = self.made.max(Lsn::new(*at));
            self.core.check_kept(&self.options.sets, after).is_ok()
        })
    }

    /// Returns its declaration, and not that of another which was given its name.
    fn declared<'c>(&self, catalog: &'c Catalog) -> Result<&'c DeclaredSubscription> {
        let declared = declared(catalog, &self.name)?;
        let is_same = declared.made == self.made.get();
        is_same
            .then_some(declared)
            .ok_or_else(|| unknown(&self.name))
    }

    /// Refuses a subscription with a consumer of the only share.
    ///
    /// # Errors
    /// [`Error::Forbidden`].
    pub(crate) fn check_free(&self) -> Result<()> {
        self.holder_of(0, &self.core.consumed.lock()).map(drop)
    }

    /// Begins to consume the only share, behind the acknowledged position.
    ///
    /// # Errors
    /// As for [`Subscription::consumer_of`].
    pub fn consumer(&self) -> Result<Consumer> {
        self.consumer_of(0)
    }

    /// Begins to consume a share, from 0 on, behind the acknowledged position. A share has one
    /// consumer at a time.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a share that there is not, or a subscription that was removed;
    /// [`Error::Forbidden`] while a consumer has the share.
    pub fn consumer_of(&self, share: usize) -> Result<Consumer> {
        // Held from the look at the position on: the consumer before has acknowledged its last
        // batch by then.
        let mut consumed = self.core.consumed.lock();
        let holder = self.holder_of(share, &consumed)?;
        let position = {
            let catalog = self.core.catalog.lock();
            let declared = self.declared(&catalog)?;
            let acknowledged = declared.acknowledged.get(share);
            acknowledged.map(|at| Lsn::new(*at)).ok_or_else(|| {
                Error::parameter(format!(
                    "subscription \"{}\" has {} shares, from 0 on: there is no share {share}",
                    self.name, self.options.shares
                ))
            })?
        };
        let stream = ChangeStream::new(&self.core, position, self.options.clone(), share)?;
        consumed.push(Arc::clone(&holder));
        Ok(Consumer {
            stream,
            holder,
            made: self.made,
            acknowledged: position,
            shown: position,
        })
    }

    /// Returns the holder of a share for its next consumer.
    fn holder_of(
        &self,
        share: usize,
        consumed: &[Arc<ConsumedShare>],
    ) -> Result<Arc<ConsumedShare>> {
        let holder = Arc::new((self.name.clone(), share));
        if consumed.contains(&holder) {
            return Err(Error::Forbidden(
                format!(
                    "share {share} of subscription \"{}\" has a consumer already: drop it first, or give the subscription more shares",
                    self.name
                )
                .into(),
            ));
        }
        Ok(holder)
    }
}

/// Consumes a share of a subscription: a [`ChangeStream`] that acknowledges. Changes that are not
/// acknowledged come again to the next consumer.
#[derive(Debug)]
pub struct Consumer {
    stream: ChangeStream,
    /// As in the list of shares that have a consumer.
    holder: Arc<ConsumedShare>,
    /// As of the subscription.
    made: Lsn,
    acknowledged: Lsn,
    /// Where the last batch with changes has ended.
    shown: Lsn,
}

impl Consumer {
    /// Returns the next changes: as [`ChangeStream::next_batch`].
    ///
    /// # Errors
    /// As for [`ChangeStream::next_batch`]; [`Error::ChangesLost`], time and again, if changes of a
    /// set of its options were not kept all the time behind the acknowledged position;
    /// [`Error::Parameter`] if the subscription was removed.
    pub fn next_batch(&mut self, most: usize, wait: Duration) -> Result<ChangeBatch> {
        let until = Instant::now().checked_add(wait);
        loop {
            let left = until.map_or(Duration::MAX, |until| {
                until.saturating_duration_since(Instant::now())
            });
            let noted = Instant::now().checked_add(left.min(NOTED_EVERY));
            let batch = self.stream.next_until(most, noted)?;
            self.check_whole()?;
            let Some(batch) = batch else {
                self.note_passed_over()?;
                continue;
            };
            self.note(&batch)?;
            if !batch.is_empty() || left <= NOTED_EVERY {
                return Ok(batch);
            }
        }
    }

    /// Polls for the next changes: as [`ChangeStream::poll_batch`].
    ///
    /// # Errors
    /// As for [`Consumer::next_batch`].
    pub fn poll_batch(
        &mut self,
        most: usize,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<ChangeBatch>> {
        let polled = self.stream.poll_batch(most, context);
        if !matches!(polled, std::task::Poll::Ready(Err(_))) {
            self.check_whole()?;
        }
        match &polled {
            std::task::Poll::Ready(Ok(batch)) => self.shown = batch.position,
            std::task::Poll::Pending => self.note_passed_over()?,
            std::task::Poll::Ready(Err(_)) => {}
        }
        polled
    }

    /// Waits for the next changes, without blocking a thread.
    ///
    /// # Errors
    /// As for [`Consumer::next_batch`].
    pub async fn batch(&mut self, most: usize) -> Result<ChangeBatch> {
        std::future::poll_fn(|context| self.poll_batch(most, context)).await
    }

    /// Acknowledges a batch, and all before it: they do not come again, and need not be kept for
    /// this subscription. Durable with the next sync of the namespace; after a power failure
    /// changes may come again.
    ///
    /// Costs a write of the namespace's metadata, some hundred bytes: acknowledge batches, not
    /// changes.
    ///
    /// # Errors
    /// The errors of a write.
    pub fn ack(&mut self, batch: &ChangeBatch) -> Result<()> {
        if batch.position > self.acknowledged {
            self.acknowledge(batch.position)?;
        }
        Ok(())
    }

    /// Goes on from another position, and acknowledges all before it.
    ///
    /// # Errors
    /// [`Error::ChangesLost`] for a position with changes that are not kept any more; the errors of
    /// a write.
    pub fn seek(&mut self, start: Start) -> Result<()> {
        let core = Arc::clone(&self.stream.core);
        let position = core.position_at(start)?;
        let options = self.stream.options.clone();
        // Before the position is stored: this refuses sets of which no changes are kept any more.
        let stream = ChangeStream::new(&core, position, options, self.holder.1)?;
        core.check_kept(&self.stream.options.sets, self.made.max(position))?;
        self.acknowledge(position)?;
        self.stream = stream;
        self.shown = position;
        Ok(())
    }

    fn note(&mut self, batch: &ChangeBatch) -> Result<()> {
        if batch.is_empty() {
            return self.note_passed_over();
        }
        self.shown = batch.position;
        Ok(())
    }

    /// Notes where it is when all that was shown is acknowledged and much was not for it, so that
    /// this need not be kept. A store that takes no writes keeps it longer.
    fn note_passed_over(&mut self) -> Result<()> {
        let position = self.stream.read_to();
        let passed = position.get().saturating_sub(self.acknowledged.get());
        // A batch that was shown, and is not acknowledged, must come again after a crash.
        if self.acknowledged >= self.shown && passed >= PASSED_OVER {
            match self.acknowledge(position) {
                Err(Error::StopWrites { .. } | Error::Storage(_)) => {}
                noted => return noted,
            }
        }
        Ok(())
    }

    /// Refuses to go on where changes are missing. Behind each read, and before the position is
    /// noted.
    fn check_whole(&self) -> Result<()> {
        let core = &self.stream.core;
        self.check_holds(&core.consumed.lock())?;
        core.check_kept(&self.stream.options.sets, self.made.max(self.acknowledged))
    }

    /// Refuses to go on with a subscription that was removed.
    fn check_holds(&self, consumed: &[Arc<ConsumedShare>]) -> Result<()> {
        let mut consumed = consumed.iter();
        let holds = consumed.any(|held| Arc::ptr_eq(held, &self.holder));
        holds.then_some(()).ok_or_else(|| unknown(&self.holder.0))
    }

    fn acknowledge(&mut self, position: Lsn) -> Result<()> {
        let core = &self.stream.core;
        let (name, share) = &*self.holder;
        let consumed = core.consumed.lock();
        self.check_holds(&consumed)?;
        core.change_catalog(|catalog| {
            let mut all = catalog.subscriptions.iter_mut();
            let declared = all.find(|known| known.name == *name);
            let acknowledged = declared.and_then(|known| known.acknowledged.get_mut(*share));
            *acknowledged.ok_or_else(|| unknown(name))? = position.get();
            Ok(())
        })?;
        drop(consumed);
        // Only once the position is in the log: changes that are given up do not come back.
        core.note_needed();
        self.acknowledged = position;
        Ok(())
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let mut consumed = self.stream.core.consumed.lock();
        consumed.retain(|held| !Arc::ptr_eq(held, &self.holder));
    }
}

/// Waits for the next batch, of 100 changes at most; never ends but by an error.
impl Iterator for Consumer {
    type Item = Result<ChangeBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_batch(ITERATED, Duration::MAX))
    }
}

fn unknown(name: &str) -> Error {
    Error::parameter(format!(
        "there is no subscription \"{name}\": make it by Changes::subscribe"
    ))
}

pub(super) fn declared<'c>(catalog: &'c Catalog, name: &str) -> Result<&'c DeclaredSubscription> {
    let mut all = catalog.subscriptions.iter();
    all.find(|known| *known.name == *name)
        .ok_or_else(|| unknown(name))
}

pub(super) fn options_of(declared: &DeclaredSubscription) -> Result<ChangeOptions> {
    let filter = declared.filter.as_deref();
    Ok(ChangeOptions {
        sets: declared.sets.clone(),
        filter: filter.map(Expression::from_base64).transpose()?,
        records: declared.records,
        delivery: if declared.published {
            Delivery::Published
        } else {
            Delivery::Durable
        },
        shares: declared.acknowledged.len(),
    })
}

pub(super) fn declare(
    (name, made): (&str, Lsn),
    options: &ChangeOptions,
    after: Lsn,
) -> Result<DeclaredSubscription> {
    let filter = options.filter.as_ref();
    let filter = filter.map(Expression::to_base64).transpose()?;
    Ok(DeclaredSubscription {
        name: name.into(),
        made: made.get(),
        sets: options.sets.clone(),
        filter: filter.map(Into::into),
        published: options.delivery == Delivery::Published,
        records: options.records,
        acknowledged: vec![after.get(); options.shares],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::simulated::{new_device, open};

    #[test]
    fn a_consumer_goes_on_where_the_store_takes_no_writes() {
        let device = new_device(8);
        let namespace = open(&device, 8).unwrap();
        let changes = namespace.changes();
        changes.enable("users").unwrap();
        let options = ChangeOptions::default().delivery(Delivery::Published);
        let subscription = changes.subscribe("test", Start::Now, options).unwrap();
        let mut consumer = subscription.consumer().unwrap();
        let others = namespace.set("others").unwrap();
        for _ in 0..PASSED_OVER {
            others.put("bob", [("n", 1)]).unwrap();
        }
        device.fail_sync(1, 0);
        namespace.sync().unwrap_err();
        let batch = consumer.next_batch(9, Duration::ZERO).unwrap();
        assert!(batch.is_empty());
    }
}
