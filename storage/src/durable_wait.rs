//! The future that [`crate::Namespace::durable`] returns.

use crate::core::Core;
use crate::error::{Error, Result};
use crate::log::durability::{Ticket, Wait};
use crate::log::entry::Lsn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Completes when a number is durable.
#[derive(Debug)]
pub(crate) struct DurableWait {
    pub(crate) core: Arc<Core>,
    pub(crate) lsn: Lsn,
    /// The place on the list of those who wait.
    pub(crate) ticket: Option<Ticket>,
}

impl Future for DurableWait {
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

impl Drop for DurableWait {
    fn drop(&mut self) {
        // In the child of a fork nobody may ever give back the list, which a thread of the parent had locked.
        if let Some(ticket) = self.ticket
            && !self.core.fork.is_child()
        {
            self.core.log.syncer().forget(ticket);
        }
    }
}
