//! Bytes, as functions see them: a buffer with a type, read and written at positions from 1 on.

use mlua::{
    AnyUserData, Function, Lua, LuaString, MetaMethod, Result, Table, UserData, UserDataMethods,
};

use super::limit::{Held, hold, limit_of};
use crate::value::ParticleType;

/// The most bytes that a buffer grows to.
const BYTES_MAX: usize = 16 << 20;

/// How many bytes are shown as text in the time of an instruction.
const BYTES_AN_INSTRUCTION: usize = 16;

/// A buffer.
#[derive(Debug)]
pub(super) struct Bytes {
    pub(super) data: Vec<u8>,
    held: Held,
    /// Room asked for: `set_size` answers by it.
    capacity: usize,
    /// The number of the [`ParticleType`].
    pub(super) kind: u8,
}

impl Bytes {
    /// A buffer with a copy of bytes.
    ///
    /// # Errors
    /// As for [`hold`].
    pub(super) fn new(lua: &Lua, data: &[u8], kind: ParticleType) -> Result<Self> {
        Ok(Self {
            held: hold(lua, data.len())?,
            capacity: data.len(),
            data: data.to_vec(),
            kind: kind.number(),
        })
    }

    /// The bytes from a position on, `None` unless all of them are there.
    fn get(&self, position: i64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(position.checked_sub(1)?).ok()?;
        self.data.get(at..at.checked_add(len)?)
    }

    /// Writes bytes at a position; a gap before it is filled with zeros. False if there is no such
    /// position.
    fn set(&mut self, position: i64, bytes: &[u8]) -> bool {
        let at = position
            .checked_sub(1)
            .and_then(|at| usize::try_from(at).ok());
        let Some((at, end)) = at.and_then(|at| Some((at, at.checked_add(bytes.len())?))) else {
            return false;
        };
        if end > BYTES_MAX {
            return false;
        }
        if end > self.data.len() {
            self.data.resize(end, 0);
            self.capacity = self.capacity.max(end);
        }
        if let Some(place) = self.data.get_mut(at..end) {
            place.copy_from_slice(bytes);
        }
        true
    }
}

impl UserData for Bytes {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Len, |_, this, ()| Ok(this.data.len()));
        methods.add_meta_method(MetaMethod::ToString, |lua, this, ()| {
            let len = this.data.len();
            let _held = hold(lua, 3 * len)?;
            let instructions = (len / BYTES_AN_INSTRUCTION) as u64;
            let spent = limit_of(lua)?.check(instructions);
            spent.map_err(mlua::Error::runtime)?;
            let mut shown = String::with_capacity(3 * len);
            for (at, byte) in this.data.iter().enumerate() {
                shown.extend((at > 0).then_some(' '));
                let digits = [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
                shown.extend(digits.iter().flatten().map(char::to_ascii_uppercase));
            }
            lua.create_string(shown)
        });
        methods.add_meta_method(MetaMethod::Index, |_, this, position: mlua::Value| {
            let byte = position.as_integer().and_then(|at| this.get(at, 1));
            Ok(byte.and_then(|byte| byte.first().copied()))
        });
        methods.add_meta_method_mut(
            MetaMethod::NewIndex,
            |lua, this, (position, byte): (i64, i64)| {
                edit(lua, this, |this| {
                    if let Ok(byte) = u8::try_from(byte) {
                        this.set(position, &[byte]);
                    }
                })
            },
        );
    }
}

/// Gives the prelude what it makes the functions `bytes.*` of.
pub(super) fn fill(lua: &Lua, host: &Table) -> Result<()> {
    let set = |name: &str, function: Result<Function>| host.raw_set(name, function?);
    let of = |lua: &Lua, (text, capacity): (LuaString, Option<i64>)| {
        let mut bytes = Bytes::new(lua, &text.as_bytes(), ParticleType::Blob)?;
        let capacity = capacity.and_then(|bytes| usize::try_from(bytes).ok());
        bytes.capacity = capacity.unwrap_or(bytes.capacity).min(BYTES_MAX);
        Ok(bytes)
    };
    set("bytes_of", lua.create_function(of))?;
    let get = |lua: &Lua, (this, at, len): (AnyUserData, i64, i64)| {
        let this = this.borrow::<Bytes>()?;
        let len = usize::try_from(len).ok();
        let found = len.and_then(|len| this.get(at, len));
        found.map(|bytes| lua.create_string(bytes)).transpose()
    };
    set("bytes_get", lua.create_function(get))?;
    let write = |lua: &Lua, (this, at, text): (AnyUserData, i64, LuaString)| {
        let this = &mut *this.borrow_mut::<Bytes>()?;
        edit(lua, this, |this| this.set(at, &text.as_bytes()))
    };
    set("bytes_set", lua.create_function(write))?;
    let room = |_: &Lua, this: AnyUserData| Ok(this.borrow::<Bytes>()?.capacity);
    set("bytes_room", lua.create_function(room))?;
    let kind = |_: &Lua, this: AnyUserData| Ok(this.borrow::<Bytes>()?.kind);
    set("bytes_kind", lua.create_function(kind))?;
    let set_kind = |_: &Lua, (this, kind): (AnyUserData, u8)| {
        this.borrow_mut::<Bytes>()?.kind = kind;
        Ok(())
    };
    set("bytes_set_kind", lua.create_function(set_kind))
}

/// Changes a buffer, and counts the memory that it takes beyond.
fn edit<R>(lua: &Lua, this: &mut Bytes, edit: impl FnOnce(&mut Bytes) -> R) -> Result<R> {
    let before = this.data.capacity();
    let done = edit(this);
    let more = this.data.capacity().saturating_sub(before);
    if more > 0 {
        this.held.grow(lua, more)?;
    }
    Ok(done)
}
