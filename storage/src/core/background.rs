//! The background threads of a namespace, and how they end.

use crate::core::Core;
use crate::sync::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The background threads of a namespace. They end with it.
#[derive(Debug)]
pub(crate) struct Background {
    core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Background {
    /// Without threads.
    pub(crate) fn idle(core: &Arc<Core>) -> Self {
        Self {
            core: Arc::clone(core),
            threads: Mutex::default(),
        }
    }

    /// Starts a thread.
    pub(crate) fn spawn(&self, name: &str, run: fn(&Core)) -> std::io::Result<()> {
        let core = Arc::clone(&self.core);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&core))?;
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
