//! A state of Lua with one module.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use mlua::{
    AnyUserData, Function, HookTriggers, Lua, LuaOptions, MultiValue, Result, StdLib, Table,
    VmState,
};
use parking_lot::Mutex;

use super::bytes::{self, Bytes};
use super::convert::Objects;
use super::limit::{CHECK_EVERY, Held, Limit, MEMORY_BYTES_MAX, hold, limit_of, too_large};
use super::pattern::search;
use crate::server::function_call::{FunctionCall, FunctionChange, FunctionResult, RecordInput};
use crate::server::modules::Modules;
use crate::value::{ParticleType, write_stored};
use crate::{Bins, Value};

/// The libraries of modules beside Lua's own.
const PRELUDE: &str = include_str!("prelude.lua");

/// A value that was copied out of Lua.
struct Frozen(Value);

/// The bins of a record as they are stored; `None` after the call for it.
type StoredBins = Arc<Mutex<Option<(Bins, Held)>>>;

/// Drops the stored bins at the end of a call.
struct Ending(StoredBins);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}

/// A state.
pub(super) struct Vm {
    lua: Lua,
    objects: Objects,
    /// The table that the prelude returns.
    prelude: Table,
    limit: Arc<Limit>,
    /// Of the modules when it was made.
    pub(super) version: u64,
}

impl Vm {
    /// A state that has loaded a module.
    ///
    /// # Errors
    /// The text for the client.
    pub(super) fn new(
        modules: &Arc<Modules>,
        file: &str,
        ends: Instant,
        now_ms: u64,
    ) -> std::result::Result<Self, String> {
        let limit = Arc::new(Limit::default());
        limit.begin(ends, Some(now_ms));
        Self::load(modules, file, &limit).map_err(|error| text_of(&error, &limit))
    }

    fn load(modules: &Arc<Modules>, file: &str, limit: &Arc<Limit>) -> Result<Self> {
        let version = modules.version();
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        lua.set_app_data(Arc::clone(limit));
        keep_clock_only(&lua)?;
        let host = lua.create_table()?;
        bytes::fill(&lua, &host)?;
        let prelude: Table = lua.load(PRELUDE).set_name("=prelude").call(host.clone())?;
        let objects = Objects {
            new_list: prelude.raw_get("new_list")?,
            new_map: prelude.raw_get("new_map")?,
            geojson: prelude.raw_get("geojson")?,
            open: prelude.raw_get("open")?,
        };
        fill_host(&lua, &host, &objects, modules)?;
        let hooked = Arc::clone(limit);
        lua.set_global_hook(
            HookTriggers::new().every_nth_instruction(CHECK_EVERY),
            move |_, _| match hooked.check(CHECK_EVERY.into()) {
                Ok(()) => Ok(VmState::Continue),
                Err(why) => Err(mlua::Error::runtime(why)),
            },
        )?;
        prelude
            .raw_get::<Function>("run_module")?
            .call::<()>(file)?;
        Ok(Self {
            lua,
            objects,
            prelude,
            limit: Arc::clone(limit),
            version,
        })
    }

    /// The memory that the state has taken since it was made, at most.
    pub(super) fn used_bytes(&self) -> usize {
        self.lua.used_memory() + self.limit.outside_bytes()
    }

    /// Calls a function for a record.
    ///
    /// # Errors
    /// The text for the client.
    pub(super) fn call_with_record(
        &self,
        call: &FunctionCall,
        record: RecordInput,
        ends: Instant,
    ) -> FunctionResult {
        let existed = record.metadata.is_some();
        self.limited(ends, Some(record.now_ms), || {
            let (facts, stored) = self.facts(record)?;
            // The object may stay in the state: what it has not loaded goes with the call.
            let _stored = Ending(stored);
            let object: mlua::Value = self.function("new_record")?.call(&facts)?;
            let arguments = self.arguments(call, Some(object))?;
            let result: mlua::Value = self.function("call")?.call(arguments)?;
            let value = self.objects.to_value(&self.lua, &result)?;
            Ok((value, change_of(existed, &facts)?))
        })
    }

    /// Begins a stream: the function that takes a record, and the one that ends the stream.
    ///
    /// # Errors
    /// The text for the client.
    pub(super) fn begin_stream(
        &self,
        call: &FunctionCall,
        now_ms: u64,
        ends: Instant,
    ) -> std::result::Result<(Function, Function), String> {
        self.limited(ends, Some(now_ms), || {
            let arguments = self.arguments(call, None)?;
            self.function("begin_stream")?.call(arguments)
        })
    }

    /// Sends a record through a stream, or, for `None`, ends the stream. Returns the values that
    /// come out.
    ///
    /// # Errors
    /// The text for the client.
    pub(super) fn advance(
        &self,
        (push, finish): &(Function, Function),
        record: Option<RecordInput>,
        ends: Instant,
    ) -> std::result::Result<Vec<Value>, String> {
        let now_ms = record.as_ref().map(|record| record.now_ms);
        self.limited(ends, now_ms, || {
            let Some(record) = record else {
                return self.values(finish.call(())?);
            };
            let (facts, _) = self.facts(record)?;
            let object: mlua::Value = self.function("new_record")?.call(facts)?;
            self.values(push.call(object)?)
        })
    }

    /// Runs Lua, with the namespace's clock at `now_ms`; `None`: where it was.
    fn limited<R>(
        &self,
        ends: Instant,
        now_ms: Option<u64>,
        run: impl FnOnce() -> Result<R>,
    ) -> std::result::Result<R, String> {
        self.limit.begin(ends, now_ms);
        let result = run().map_err(|error| text_of(&error, &self.limit));
        // A function that caught the end of its time has not done its work.
        match self.limit.over() {
            Some(why) => Err(why),
            None => result,
        }
    }

    fn values(&self, (values, count): (Table, usize)) -> Result<Vec<Value>> {
        (1..=count)
            .map(|at| self.objects.to_value(&self.lua, &values.raw_get(at)?))
            .collect()
    }

    fn function(&self, name: &str) -> Result<Function> {
        self.prelude.raw_get(name)
    }

    /// The name of the function, the record if there is one, and the client's arguments.
    fn arguments(&self, call: &FunctionCall, record: Option<mlua::Value>) -> Result<MultiValue> {
        let name = self.lua.create_string(&call.function)?;
        let front = [mlua::Value::String(name)].into_iter().chain(record);
        let arguments = call.arguments.iter();
        let arguments = arguments.map(|value| self.objects.to_lua(&self.lua, value));
        front.map(Ok).chain(arguments).collect()
    }

    /// The contents of a new record object, and the stored bins that it loads from.
    fn facts(&self, record: RecordInput) -> Result<(Table, StoredBins)> {
        let RecordInput {
            bins,
            metadata,
            key,
            set,
            digest,
            bytes,
            now_ms,
        } = record;
        let lua = &self.lua;
        let facts = lua.create_table()?;
        let names: Vec<&str> = bins.iter().map(|(name, _)| name.as_str()).collect();
        facts.raw_set("names", names)?;
        facts.raw_set("exists", metadata.is_some())?;
        let metadata = metadata.unwrap_or_default();
        let now_s = u32::try_from(now_ms / 1000).unwrap_or(u32::MAX);
        facts.raw_set("ttl", metadata.void_time.saturating_sub(now_s))?;
        facts.raw_set("gen", metadata.generation)?;
        facts.raw_set("last_update_time", metadata.last_update_ms)?;
        facts.raw_set("size", bytes)?;
        facts.raw_set("setname", set)?;
        facts.raw_set(
            "digest",
            Bytes::new(lua, digest.as_bytes(), ParticleType::Blob)?,
        )?;
        let key = key.map(|key| self.objects.to_lua(lua, &key)).transpose()?;
        facts.raw_set("key", key)?;
        let objects = self.objects.clone();
        let held = hold(lua, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let stored: StoredBins = Arc::new(Mutex::new(Some((bins, held))));
        let loaded = Arc::clone(&stored);
        let load = lua.create_function(move |lua, name: String| {
            let loaded = loaded.lock();
            let bin = loaded.as_ref().and_then(|(bins, _)| bins.get(&name));
            bin.map(|bin| objects.to_lua(lua, bin)).transpose()
        })?;
        facts.raw_set("load", load)?;
        Ok((facts, stored))
    }
}

/// The change that a function has made to its record.
fn change_of(existed: bool, facts: &Table) -> Result<FunctionChange> {
    let flag =
        |name: &str| Ok::<_, mlua::Error>(facts.raw_get::<Option<bool>>(name)? == Some(true));
    let exists = flag("exists")?;
    let is_emptied = flag("is_emptied")?;
    if !exists {
        return Ok(if existed {
            FunctionChange::Remove
        } else {
            FunctionChange::None
        });
    }
    let writes: Table = facts.raw_get("writes")?;
    let writes: Result<Vec<_>> = writes
        .pairs::<String, AnyUserData>()
        .map(|write| {
            let (name, value) = write?;
            Ok((name, value.take::<Frozen>()?.0))
        })
        .collect();
    let mut writes = writes?;
    writes.sort_by(|(one, _), (other, _)| one.cmp(other));
    if existed && !is_emptied && !flag("is_updated")? {
        return Ok(FunctionChange::None);
    }
    if !existed && writes.iter().all(|(_, value)| matches!(value, Value::Nil)) {
        return Err(mlua::Error::runtime(
            "aerospike:create: the record has no bins",
        ));
    }
    Ok(FunctionChange::Write {
        is_new: !existed,
        is_emptied,
        bins: writes,
        time_to_live: facts
            .raw_get::<Option<i64>>("new_ttl")?
            // Beyond 31 bits it is refused as too long; -1 and -2 stand for no time.
            .map(|seconds| seconds.clamp(i32::MIN.into(), i32::MAX.into()) as u32),
    })
}

/// Leaves the clocks of `os`.
fn keep_clock_only(lua: &Lua) -> Result<()> {
    let os: Table = lua.globals().raw_get("os")?;
    let kept = lua.create_table()?;
    for name in ["clock", "date", "difftime", "time"] {
        kept.raw_set(name, os.raw_get::<Function>(name)?)?;
    }
    lua.globals().raw_set("os", kept)
}

/// The functions that the prelude asks of the server.
fn fill_host(lua: &Lua, host: &Table, objects: &Objects, modules: &Arc<Modules>) -> Result<()> {
    let set = |name: &str, function: Result<Function>| host.raw_set(name, function?);
    let freezer = objects.clone();
    let freeze = move |lua: &Lua, (value, bin): (mlua::Value, String)| {
        let frozen = freezer.to_value(lua, &value).map_err(|error| {
            let text = format!("can't set bin {bin}: {}", plain(&error));
            mlua::Error::runtime(text)
        })?;
        lua.create_any_userdata(Frozen(frozen))
    };
    set("freeze", lua.create_function(freeze))?;
    let sizer = objects.clone();
    let size = move |lua: &Lua, value: mlua::Value| {
        let mut stored = Vec::new();
        let value = sizer.to_value(lua, &value)?;
        write_stored(&value, &mut stored).map_err(mlua::Error::external)?;
        Ok(stored.len())
    };
    set("size", lua.create_function(size))?;
    let key = |lua: &Lua, key: AnyUserData| {
        let key = key.borrow::<Bytes>()?;
        lua.create_string([&[key.kind], key.data.as_slice()].concat())
    };
    set("key", lua.create_function(key))?;
    let log = |_: &Lua, (level, text): (String, String)| {
        match level.as_str() {
            "warn" => tracing::warn!(target: "spikelet::lua", "{text}"),
            "debug" => tracing::debug!(target: "spikelet::lua", "{text}"),
            "trace" => tracing::trace!(target: "spikelet::lua", "{text}"),
            _ => tracing::info!(target: "spikelet::lua", "{text}"),
        }
        Ok(())
    };
    set("log", lua.create_function(log))?;
    let now = |lua: &Lua, ()| Ok(limit_of(lua)?.now_ms.load(Ordering::Relaxed));
    set("now", lua.create_function(now))?;
    let spend = |lua: &Lua, count| limit_of(lua)?.check(count).map_err(mlua::Error::runtime);
    set("spend", lua.create_function(spend))?;
    let is_over = |lua: &Lua, ()| Ok(limit_of(lua)?.over().is_some());
    set("is_over", lua.create_function(is_over))?;
    set("search", lua.create_function(search))?;
    let modules = Arc::clone(modules);
    let source = move |lua: &Lua, name: String| {
        let text = modules.text(&name);
        text.map(|text| lua.create_string(text)).transpose()
    };
    set("source", lua.create_function(source))
}

/// Checks that a module compiles. Otherwise its line and the message.
pub(crate) fn check(file: &str, text: &[u8]) -> std::result::Result<(), (u32, String)> {
    let compile = || {
        let lua = Lua::new_with(StdLib::NONE, LuaOptions::default())?;
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        let chunk = lua.load(text).set_name(format!("={file}"));
        chunk
            .set_mode(mlua::chunk::ChunkMode::Text)
            .into_function()
            .map(drop)
    };
    compile().map_err(|error: mlua::Error| {
        let text = plain(&error);
        let rest = text
            .strip_prefix(file)
            .and_then(|rest| rest.strip_prefix(':'));
        let parts = rest.and_then(|rest| rest.split_once(':'));
        match parts.and_then(|(line, text)| Some((line.parse().ok()?, text.trim()))) {
            Some((line, message)) => (line, message.to_owned()),
            None => (0, text),
        }
    })
}

/// The text for the client.
fn text_of(error: &mlua::Error, limit: &Limit) -> String {
    limit.over().unwrap_or_else(|| plain(error))
}

/// The message alone, without the calls that led to it.
fn plain(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } | mlua::Error::WithContext { cause, .. } => {
            return plain(cause);
        }
        mlua::Error::MemoryError(_) => return too_large(),
        mlua::Error::RuntimeError(text) if text.contains("not enough memory") => {
            return too_large();
        }
        mlua::Error::RuntimeError(text) | mlua::Error::SyntaxError { message: text, .. } => {
            text.clone()
        }
        other => other.to_string(),
    };
    let end = text.find("\nstack traceback:").unwrap_or(text.len());
    text.get(..end).unwrap_or_default().to_owned()
}
