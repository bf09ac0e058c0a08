//! The background threads of a namespace, and how they end.

use crate::core::Core;
use crate::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct Signal {
    stop: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    pub(crate) fn is_over(&self) -> bool {
        *self.stop.lock()
    }

    /// Rests until `until`. Returns false when it is time to end.
    pub(crate) fn rest(&self, until: Instant) -> bool {
        let mut stop = self.stop.lock();
        while !*stop && Instant::now() < until {
            self.changed.wait_until(&mut stop, Some(until));
        }
        !*stop
    }
}

/// The background threads of a namespace. They end with it.
#[derive(Debug)]
pub(crate) struct Background {
    core: Arc<Core>,
    signal: Arc<Signal>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Background {
    /// Without threads.
    pub(crate) fn idle(core: &Arc<Core>) -> Self {
        Self {
            core: Arc::clone(core),
            signal: Arc::default(),
            threads: Mutex::default(),
        }
    }

    /// Starts a thread.
    pub(crate) fn spawn(&self, name: &str, run: fn(&Core, &Signal)) -> std::io::Result<()> {
        let (core, signal) = (Arc::clone(&self.core), Arc::clone(&self.signal));
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&core, &signal))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Ends the threads and waits for them.
    pub(crate) fn stop(&self) {
        if self.core.fork.is_child() {
            // The threads are the parent's: here they would be waited for in vain.
            std::mem::forget(std::mem::take(&mut *self.threads.lock()));
            return;
        }
        *self.signal.stop.lock() = true;
        self.signal.changed.notify_all();
        self.core.log.space().end_waits();
        self.core.log.syncer().end();
        for thread in self.threads.lock().drain(..) {
            // A thread that panicked has told so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}
