//! Bytes, as functions see them: a buffer with a type, read and written at positions from 1 on.

use mlua::{
    AnyUserData, FromLuaMulti, IntoLua, IntoLuaMulti, Lua, MetaMethod, Result, Table, UserData,
    UserDataMethods, Variadic,
};

use super::limit::charge;
use crate::value::ParticleType;

/// The most bytes that a buffer grows to.
const BYTES_MAX: usize = 16 << 20;

/// A buffer.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    pub(super) data: Vec<u8>,
    /// Room asked for: `set_size` answers by it.
    capacity: usize,
    /// The number of the [`ParticleType`].
    pub(super) kind: u8,
}

impl Bytes {
    pub(super) fn new(data: Vec<u8>, kind: ParticleType) -> Self {
        Self {
            capacity: data.len(),
            data,
            kind: kind.number(),
        }
    }

    /// The bytes from a position on, `None` unless all of them are there.
    fn get(&self, position: i64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(position.checked_sub(1)?).ok()?;
        self.data.get(at..at.checked_add(len)?)
    }

    /// Writes bytes at a position; a gap before it is filled with zeros. False if there is no such position.
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

    fn append(&mut self, bytes: &[u8]) -> bool {
        self.set(self.data.len() as i64 + 1, bytes)
    }
}

impl UserData for Bytes {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Len, |_, this, ()| Ok(this.data.len()));
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| {
            let shown: Vec<_> = this.data.iter().map(|byte| format!("{byte:02X}")).collect();
            Ok(shown.join(" "))
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

/// The functions `bytes.*`, and `bytes(capacity)`.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let library = BytesLibrary { lua, table: &table };
    library.method("size", |this, ()| Some(this.data.len() as i64))?;
    library.method("get_type", |this, ()| Some(i64::from(this.kind)))?;
    library.method("set_type", |this, kind: i64| match u8::try_from(kind) {
        Ok(kind @ 1..) => {
            this.kind = kind;
            true
        }
        _ => false,
    })?;
    library.method("set_size", |this, size: i64| {
        usize::try_from(size).is_ok_and(|size| size <= this.capacity)
    })?;
    let part = |this: &Bytes, at, len| -> Option<Vec<u8>> {
        Some(this.get(at, usize::try_from(len).ok()?)?.to_vec())
    };
    library.function("get_string", move |lua, (this, at, len): Part| {
        let found = part(&*this.borrow::<Bytes>()?, at, len);
        found.map(|bytes| lua.create_string(bytes)).transpose()
    })?;
    library.function("get_bytes", move |lua, (this, at, len): Part| {
        let found = part(&*this.borrow::<Bytes>()?, at, len);
        charge(lua, found.as_ref().map_or(0, Vec::len))?;
        Ok(found.map(|bytes| Bytes::new(bytes, ParticleType::Blob)))
    })?;
    library.method("set_string", |this, (at, text): (i64, mlua::LuaString)| {
        this.set(at, &text.as_bytes())
    })?;
    library.method("append_string", |this, text: mlua::LuaString| {
        this.append(&text.as_bytes())
    })?;
    // The first bytes of others, all of them if no length is given.
    let front = |other: &AnyUserData, len: Option<i64>| -> Result<Vec<u8>> {
        let other = other.borrow::<Bytes>()?;
        let len = len.map_or(other.data.len(), |len| usize::try_from(len).unwrap_or(0));
        Ok(other.data.get(..len).unwrap_or(&other.data).to_vec())
    };
    type Set = (AnyUserData, i64, AnyUserData, Option<i64>);
    library.function("set_bytes", move |lua, (this, at, other, len): Set| {
        let bytes = front(&other, len)?;
        let this = &mut *this.borrow_mut::<Bytes>()?;
        edit(lua, this, |this| this.set(at, &bytes))
    })?;
    type Append = (AnyUserData, AnyUserData, Option<i64>);
    library.function("append_bytes", move |lua, (this, other, len): Append| {
        let bytes = front(&other, len)?;
        let this = &mut *this.borrow_mut::<Bytes>()?;
        edit(lua, this, |this| this.append(&bytes))
    })?;
    let orders = [("", false), ("_be", false), ("_le", true)];
    let integers = [2, 4, 8].into_iter().flat_map(|len| {
        orders.map(|(order, is_little)| (format!("int{}{order}", 8 * len), len, is_little))
    });
    for (name, len, is_little) in integers.chain([("byte".to_owned(), 1, false)]) {
        let number = BufferInteger { len, is_little };
        library.method(&format!("get_{name}"), move |this, at: i64| {
            this.get(at, len).map(|bytes| number.read(bytes))
        })?;
        library.method(
            &format!("set_{name}"),
            move |this, (at, value): (i64, i64)| {
                let bytes = number.bytes(value);
                bytes.is_some_and(|bytes| this.set(at, &bytes))
            },
        )?;
        library.method(&format!("append_{name}"), move |this, value: i64| {
            number.bytes(value).is_some_and(|bytes| this.append(&bytes))
        })?;
    }
    library.function("get_var_int", |_, (this, at): (AnyUserData, i64)| {
        let this = this.borrow::<Bytes>()?;
        Ok(read_var_int(&this, at).unwrap_or((0, 0)))
    })?;
    library.method("set_var_int", |this, (at, value): (i64, i64)| {
        let bytes = var_int(value);
        i64::from(this.set(at, &bytes)) * bytes.len() as i64
    })?;
    library.method("append_var_int", |this, value: i64| {
        let bytes = var_int(value);
        i64::from(this.append(&bytes)) * bytes.len() as i64
    })?;
    let meta = lua.create_table()?;
    let new = |_: &Lua, (_, capacity): (Table, Option<i64>)| {
        let capacity = capacity.and_then(|bytes| usize::try_from(bytes).ok());
        Ok(Bytes {
            capacity: capacity.unwrap_or(0).min(BYTES_MAX),
            ..Bytes::new(Vec::new(), ParticleType::Blob)
        })
    };
    meta.raw_set("__call", lua.create_function(new)?)?;
    table.set_metatable(Some(meta))?;
    Ok(table)
}

/// A buffer, a position in it, and a number of bytes.
type Part = (AnyUserData, i64, i64);

/// The functions under way into their table.
struct BytesLibrary<'l> {
    lua: &'l Lua,
    table: &'l Table,
}

impl BytesLibrary<'_> {
    fn function<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        name: &str,
        run: impl Fn(&Lua, A) -> Result<R> + Send + Sync + 'static,
    ) -> Result<()> {
        self.table.raw_set(name, self.lua.create_function(run)?)
    }

    /// Adds a function of a buffer and further arguments.
    fn method<A: FromLuaMulti, R: IntoLua>(
        &self,
        name: &str,
        run: impl Fn(&mut Bytes, A) -> R + Send + Sync + 'static,
    ) -> Result<()> {
        type Arguments = (AnyUserData, Variadic<mlua::Value>);
        self.function(name, move |lua, (this, rest): Arguments| {
            let arguments = A::from_lua_multi(rest.into_iter().collect(), lua)?;
            let this = &mut *this.borrow_mut::<Bytes>()?;
            edit(lua, this, |this| run(this, arguments))
        })
    }
}

/// Changes a buffer, and counts the memory that it takes beyond.
fn edit<R>(lua: &Lua, this: &mut Bytes, edit: impl FnOnce(&mut Bytes) -> R) -> Result<R> {
    let before = this.data.capacity();
    let done = edit(this);
    let more = this.data.capacity().saturating_sub(before);
    if more > 0 {
        charge(lua, more)?;
    }
    Ok(done)
}

/// An integer in a buffer.
#[derive(Clone, Copy)]
struct BufferInteger {
    len: usize,
    is_little: bool,
}

impl BufferInteger {
    /// A single byte has no sign, others do.
    fn read(self, bytes: &[u8]) -> i64 {
        let high = match self.is_little {
            true => bytes.last(),
            false => bytes.first(),
        };
        let sign = -i64::from(self.len > 1 && high.is_some_and(|byte| *byte >= 0x80));
        let join = |number: i64, byte: &u8| number << 8 | i64::from(*byte);
        match self.is_little {
            true => bytes.iter().rev().fold(sign, join),
            false => bytes.iter().fold(sign, join),
        }
    }

    /// The bytes of a number that fits.
    fn bytes(self, value: i64) -> Option<Vec<u8>> {
        let bits = 8 * self.len as u32;
        let fits = match self.len {
            1 => (0..=255).contains(&value),
            8 => true,
            _ => value >> (bits - 1) == 0 || value >> (bits - 1) == -1,
        };
        let bytes = value.to_be_bytes();
        let mut bytes = bytes.get(8 - self.len..).filter(|_| fits)?.to_vec();
        if self.is_little {
            bytes.reverse();
        }
        Some(bytes)
    }
}

/// Seven bits a byte, the low ones first; the high bit says that more follow.
fn var_int(value: i64) -> Vec<u8> {
    let mut left = value.cast_unsigned() & u64::from(u32::MAX);
    let mut bytes = Vec::new();
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes
}

/// A number, and the bytes that it takes.
fn read_var_int(this: &Bytes, position: i64) -> Option<(i64, i64)> {
    let mut value = 0_u64;
    for at in 0..5 {
        let byte = *this.get(position.checked_add(at)?, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some((value.cast_signed(), at + 1));
        }
    }
    None
}
