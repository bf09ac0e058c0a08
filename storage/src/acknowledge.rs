//! When a write may be acknowledged: at once, after the sync that covers it, or when a future
//! completes.

use crate::attempt;
use crate::core::Core;
use crate::durability::Durability;
use crate::entry::Lsn;
use crate::error::{Error, Result};
use crate::log::syncer::{Ticket, Wait};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

impl Core {
    /// Returns when the version of this number is as durable as the namespace promises.
    #[inline]
    pub(crate) fn acknowledge(&self, lsn: Lsn) -> Result<()> {
        match self.options.durability {
            Durability::Commit if attempt::defer_sync(self, lsn) => Ok(()),
            Durability::Commit => self.log.sync_to(lsn),
            Durability::Process | Durability::Interval(_) => Ok(()),
        }
    }

    /// Waits until everything up to this number is durable.
    pub(crate) fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        if lsn.0 <= self.log.syncer().durable_lsn() {
            return Ok(());
        }
        // Its threads are not there, and the parent may be writing the bytes it syncs.
        self.check_may_sync()?;
        if lsn.0 > self.log.last_lsn() {
            return Err(Error::BadOption {
                option: "lsn",
                value: lsn.to_string(),
                rule: "a number that a write of this namespace has returned",
            });
        }
        self.log.sync_to(lsn)
    }
}

/// Completes when a number is durable.
#[derive(Debug)]
pub(crate) struct DurableFuture {
    pub(crate) core: Arc<Core>,
    pub(crate) lsn: Lsn,
    /// The place on the list of waiting tasks.
    pub(crate) ticket: Option<Ticket>,
}

impl Future for DurableFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let (core, lsn) = (&self.core, self.lsn);
        if core.fork.is_child() || lsn.0 > core.log.last_lsn() {
            return Poll::Ready(core.wait_durable(lsn));
        }
        match core.log.syncer().wait(lsn, self.ticket, context.waker()) {
            Wait::Durable => Poll::Ready(Ok(())),
            Wait::Failed(reason) => Poll::Ready(Err(Error::InDoubt { reason })),
            Wait::Unattended => Poll::Ready(core.wait_durable(lsn)),
            Wait::Listed(ticket) => {
                self.ticket = Some(ticket);
                Poll::Pending
            }
        }
    }
}

impl Drop for DurableFuture {
    fn drop(&mut self) {
        // In the child of a fork no thread may ever unlock the list, which a thread of the parent
        // had locked.
        if let Some(ticket) = self.ticket
            && !self.core.fork.is_child()
        {
            self.core.log.syncer().forget(ticket);
        }
    }
}
