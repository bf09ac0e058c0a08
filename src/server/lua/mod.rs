//! User-defined functions, run in Lua.
//!
//! A [`Vm`] is a state of Lua with one module loaded. A call takes an idle one of its module, or
//! makes one, and gives it back: the module's own variables may be there at the next call, as in
//! Aerospike. A call has limits of time, instructions and memory; it reaches no file, process or
//! network.

mod bytes;
mod convert;
mod limit;
mod pattern;
mod vm;

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use vm::Vm;
pub(crate) use vm::check;

use super::function_call::{FunctionCall, FunctionResult, RecordInput, Stream};
use super::modules::Modules;

/// The most idle states.
const IDLE_MAX: usize = 64;

/// A state that has taken more is not kept.
const IDLE_BYTES_MAX: usize = 16 << 20;

/// The registered modules, and the states that wait for calls.
pub(crate) struct Functions {
    pub(crate) modules: Arc<Modules>,
    /// By the file of the module; the last one was used last.
    idle: Mutex<Vec<(String, Vm)>>,
}

impl Functions {
    pub(crate) fn new(modules: Arc<Modules>) -> Self {
        Self {
            modules,
            idle: Mutex::default(),
        }
    }

    /// Calls a function for a record. Blocks until it returns, or until a limit ends it.
    ///
    /// # Errors
    /// The text for the client.
    pub(crate) fn call(
        &self,
        call: &FunctionCall,
        record: RecordInput,
        ends: Instant,
    ) -> FunctionResult {
        let vm = self.take(call, ends, record.now_ms)?;
        let result = vm.call_with_record(call, record, ends);
        self.give_back(&call.file, vm);
        result
    }

    /// Begins a stream of records.
    ///
    /// # Errors
    /// The text for the client.
    pub(crate) fn begin_stream(
        &self,
        call: &FunctionCall,
        now_ms: u64,
        ends: Instant,
    ) -> Result<Stream, String> {
        let vm = self.take(call, ends, now_ms)?;
        let stream = vm.begin_stream(call, now_ms, ends)?;
        Ok(Box::new(move |record, ends| {
            vm.advance(&stream, record, ends)
        }))
    }

    fn take(&self, call: &FunctionCall, ends: Instant, now_ms: u64) -> Result<Vm, String> {
        let mut idle = self.idle.lock();
        // A module, or one that it requires, may have changed.
        let version = self.modules.version();
        idle.retain(|(_, vm)| vm.version == version);
        let found = idle.iter().rposition(|(file, _)| *file == call.file);
        let found = found.map(|at| idle.remove(at).1);
        drop(idle);
        found.map_or_else(|| Vm::new(&self.modules, &call.file, ends, now_ms), Ok)
    }

    fn give_back(&self, file: &str, vm: Vm) {
        if vm.used_bytes() > IDLE_BYTES_MAX {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() == IDLE_MAX {
            // The one that has waited longest.
            idle.remove(0);
        }
        idle.push((file.to_owned(), vm));
    }
}
