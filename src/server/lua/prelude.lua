-- What a module finds beside Lua's own libraries: lists, maps, GeoJSON, records, streams and the log.
--
-- `host` has the functions of the server: `freeze(value)` copies a value out of Lua, `size(value)` counts the bytes that it
-- takes in a record, `log(level, text)`, `now()` in milliseconds since 2010, `source(name)` the text of a registered module,
-- `is_over()` whether a limit of the call is exceeded, `spend(count)` counts instructions, `search(text, pattern, from,
-- is_plain, before)` looks for a pattern and counts its steps, and `bytes_*` read and write buffers.
local host = ...

local error, getmetatable, ipairs, load, next, pairs, rawequal, rawget, rawlen, select, setmetatable, tonumber, tostring =
    error, getmetatable, ipairs, load, next, pairs, rawequal, rawget, rawlen, select, setmetatable, tonumber, tostring
local raw_type, raw_pcall, raw_xpcall = type, pcall, xpcall
local concat, raw_move, format, rep, tointeger = table.concat, table.move, string.format, string.rep, math.tointeger

-- The most elements of a list: more than fit into a record. A function of the library runs without hooks, so that its work
-- is bounded here.
local ELEMENTS_MAX = 8 << 20

-- For the same reason its work counts as instructions.
local function spend(count)
    if count > 1000 then host.spend(count) end
end

local function move(from, first, last, at, to)
    spend(last - first)
    return raw_move(from, first, last, at, to)
end

-- The key of an object's contents: no other key is set in the table itself, so that every access comes by a metamethod.
local CONTENTS = {}
-- Stands for nil where a table cannot hold it.
local NIL = {}

local List, Map, GeoJson, Record, Iterator = {}, {}, {}, {}, {}
local names = { [List] = "List", [Map] = "Map", [GeoJson] = "GeoJSON", [Record] = "Record", [Iterator] = "Iterator" }

-- Modules see a stand-in for each class: a class that they could change would call functions without limits.
local classes = {}
for class, name in next, names do
    class.__metatable = setmetatable({}, { __tostring = function() return name end, __metatable = false })
    classes[class.__metatable] = class
end

local function class_of(value)
    return raw_type(value) == "table" and classes[getmetatable(value)] or nil
end

local function object(class, contents)
    return setmetatable({ [CONTENTS] = contents }, class)
end

local function contents(value, class)
    if class_of(value) ~= class then
        error(format("%s expected, got %s", names[class], names[class_of(value)] or raw_type(value)), 3)
    end
    return rawget(value, CONTENTS)
end

local function bounded(count)
    if count > ELEMENTS_MAX then error("a list has at most " .. ELEMENTS_MAX .. " elements", 3) end
    return count
end

local function position(value)
    return bounded(tointeger(value) or 0)
end

local function show(value)
    return raw_type(value) == "string" and format("%q", value) or tostring(value)
end

function type(value)
    return class_of(value) and "userdata" or raw_type(value)
end

-- Modules compare metatables to tell lists from maps.
_G.List, _G.Map = List.__metatable, Map.__metatable

-- Contents are for the functions below alone.
local function refused(value)
    error(names[class_of(value)] .. " has no pairs: use list.iterator, map.pairs or record.bin_names", 2)
end
for class in next, names do class.__pairs = refused end
function _G.next(value, key)
    if class_of(value) then refused(value) end
    return next(value, key)
end

-- Hooks are off while a finalizer runs: it would know no limit.
function _G.setmetatable(value, class)
    if raw_type(class) == "table" and rawget(class, "__gc") ~= nil then
        error("a metatable with __gc is refused", 2)
    end
    return setmetatable(value, class)
end

-- An iterator: the function for a loop, and the object for `iterator.next`.
local function iterate(items, count, step)
    local it = object(Iterator, { at = 0, count = count, items = items, step = step })
    return Iterator.__call, it
end

function Iterator.__call(it)
    local c = contents(it, Iterator)
    if c.at >= c.count then return nil end
    c.at = c.at + 1
    return c.step(c.items, c.at)
end

iterator = {
    has_next = function(it)
        local c = contents(it, Iterator)
        return c.at < c.count
    end,
    next = function(it) return Iterator.__call(it) end,
}

-- Lists: the elements and their number, since elements may be nil.

local function new_list(items, count, is_ordered)
    return object(List, { items = items, count = count, is_ordered = is_ordered })
end

local function insert(c, at, value)
    local end_ = c.count
    if at > end_ + 1 then end_ = at - 1 end
    bounded(end_ + 1)
    move(c.items, at, end_, at + 1)
    c.items[at] = value
    c.count = end_ + 1
end

local function part(c, from, to)
    if to < from then return new_list({}, 0) end
    return new_list(move(c.items, from, to, 1, {}), to - from + 1)
end

function List.__index(l, at)
    return contents(l, List).items[position(at)]
end

function List.__newindex(l, at, value)
    local c = contents(l, List)
    at = position(at)
    if at < 1 then return end
    c.items[at] = value
    if at > c.count then c.count = at end
end

function List.__len(l) return contents(l, List).count end

function List.__tostring(l)
    local c, shown = contents(l, List), {}
    for at = 1, c.count do shown[at] = show(c.items[at]) end
    return "List(" .. concat(shown, ", ") .. ")"
end

list = setmetatable({
    create = function() return new_list({}, 0) end,
    insert = function(l, at, value)
        local c = contents(l, List)
        at = position(at)
        if at > 0 then insert(c, at, value) end
    end,
    append = function(l, value)
        local c = contents(l, List)
        c.count = bounded(c.count + 1)
        c.items[c.count] = value
    end,
    prepend = function(l, value) insert(contents(l, List), 1, value) end,
    remove = function(l, at)
        local c = contents(l, List)
        at = position(at)
        if at < 1 or at > c.count then return end
        move(c.items, at + 1, c.count + 1, at)
        c.count = c.count - 1
    end,
    concat = function(l, other)
        local c, from = contents(l, List), contents(other, List)
        local count = bounded(c.count + from.count)
        move(from.items, 1, from.count, c.count + 1, c.items)
        c.count = count
    end,
    -- Drops the elements from a position on.
    trim = function(l, at)
        local c = contents(l, List)
        at = position(at)
        if at < 1 or at > c.count then return end
        for gone = at, c.count do c.items[gone] = nil end
        c.count = at - 1
    end,
    take = function(l, count)
        local c = contents(l, List)
        count = position(count)
        return count > 0 and part(c, 1, count < c.count and count or c.count) or nil
    end,
    drop = function(l, count)
        local c = contents(l, List)
        count = position(count)
        return count > 0 and part(c, count + 1, c.count) or nil
    end,
    size = function(l) return contents(l, List).count end,
    nbytes = function(l) return contents(l, List) and host.size(l) end,
    iterator = function(l)
        local c = contents(l, List)
        return iterate(c.items, c.count, function(items, at) return items[at] end)
    end,
    tostring = function(l) return List.__tostring(l) end,
    clone = function(l)
        local c = contents(l, List)
        return part(c, 1, c.count)
    end,
    merge = function(one, other)
        local merged = list.clone(one)
        list.concat(merged, other)
        return merged
    end,
}, {
    __call = function(_, elements)
        if raw_type(elements) ~= "table" or getmetatable(elements) then return new_list({}, 0) end
        local count = #elements
        return new_list(move(elements, 1, count, 1, {}), count)
    end,
})

-- Maps: values by key. Bytes are keys by their content: one table stands for each content.

local bytes_keys = setmetatable({}, { __mode = "v" })

local function key_of(key)
    if raw_type(key) ~= "userdata" then return key end
    local content = host.key(key)
    local stand_in = bytes_keys[content]
    if not stand_in then
        stand_in = { key }
        bytes_keys[content] = stand_in
    end
    return stand_in
end

local function shown_key(key)
    if rawequal(key, NIL) then return nil end
    return raw_type(key) == "table" and key[1] or key
end

local function shown_value(value)
    if rawequal(value, NIL) then return nil end
    return value
end

local function new_map(order)
    return object(Map, { values = {}, count = 0, order = order })
end

local function put(c, key, value)
    if key == nil then return end
    local kind = class_of(key)
    if kind or raw_type(key) == "table" or raw_type(key) == "boolean" then
        error(format("a key of a map is a number, a string or bytes, got %s", names[kind] or raw_type(key)), 3)
    end
    key = key_of(key)
    local had = c.values[key] ~= nil
    c.values[key] = value
    if value ~= nil and not had then
        c.count = c.count + 1
    elseif value == nil and had then
        c.count = c.count - 1
    end
end

local function each(c, step)
    local keys, count = {}, 0
    for key in next, c.values do
        -- A loop would end at nil.
        if not rawequal(key, NIL) then
            count = count + 1
            keys[count] = key
        end
    end
    return iterate(keys, count, step)
end

function Map.__index(m, key)
    local c = contents(m, Map)
    if key == nil then return nil end
    return shown_value(c.values[key_of(key)])
end

function Map.__newindex(m, key, value) put(contents(m, Map), key, value) end
function Map.__len(m) return contents(m, Map).count end

function Map.__tostring(m)
    local shown = {}
    for key, value in pairs(contents(m, Map).values) do
        shown[#shown + 1] = show(shown_key(key)) .. "->" .. show(shown_value(value))
    end
    return "Map(" .. concat(shown, ", ") .. ")"
end

local function copied(to, from, keeps)
    for key, value in next, contents(from, Map).values do
        if keeps(key) then put(to, shown_key(key), value) end
    end
end

map = setmetatable({
    create = function() return new_map() end,
    pairs = function(m)
        local c = contents(m, Map)
        return each(c, function(keys, at) return shown_key(keys[at]), shown_value(c.values[keys[at]]) end)
    end,
    keys = function(m)
        return each(contents(m, Map), function(keys, at) return shown_key(keys[at]) end)
    end,
    values = function(m)
        local c = contents(m, Map)
        return each(c, function(keys, at) return shown_value(c.values[keys[at]]) end)
    end,
    remove = function(m, key) put(contents(m, Map), key, nil) end,
    size = function(m) return contents(m, Map).count end,
    nbytes = function(m) return contents(m, Map) and host.size(m) end,
    tostring = function(m) return Map.__tostring(m) end,
    clone = function(m)
        local clone = new_map()
        copied(rawget(clone, CONTENTS), m, function() return true end)
        return clone
    end,
    -- All entries of both; `f` joins the values of a key that both have, else the second's counts.
    merge = function(one, other, f)
        local merged = map.clone(one)
        for key, value in map.pairs(other) do
            local both = merged[key]
            if both and raw_type(f) == "function" then value = f(both, value) or value end
            merged[key] = value
        end
        return merged
    end,
    -- The entries whose key only one of them has.
    diff = function(one, other)
        local diff, a, b = new_map(), contents(one, Map).values, contents(other, Map).values
        local c = rawget(diff, CONTENTS)
        copied(c, one, function(key) return b[key] == nil end)
        copied(c, other, function(key) return a[key] == nil end)
        return diff
    end,
}, {
    __call = function(_, entries)
        local m = new_map()
        if raw_type(entries) == "table" and not getmetatable(entries) then
            local c = rawget(m, CONTENTS)
            for key, value in next, entries do put(c, key, value) end
        end
        return m
    end,
})
map.iterator = map.pairs

GeoJson.__tostring = function(g) return contents(g, GeoJson) end
GeoJson.__index = function() return nil end
GeoJson.__newindex = function() error("GeoJSON cannot be changed: make another by geojson(text)", 2) end
geojson = setmetatable({}, { __call = function(_, text) return object(GeoJson, tostring(text)) end })

-- Buffers, read and written by strings.

local function written(name, set)
    bytes["set_" .. name] = set
    bytes["append_" .. name] = function(b, ...) return set(b, #b + 1, ...) end
end

bytes = setmetatable({
    size = function(b) return #b end,
    get_type = host.bytes_kind,
    set_type = function(b, kind)
        local is_kind = kind > 0 and kind < 256
        if is_kind then host.bytes_set_kind(b, kind) end
        return is_kind
    end,
    set_size = function(b, size) return size >= 0 and size <= host.bytes_room(b) end,
    get_string = host.bytes_get,
    get_bytes = function(b, at, len)
        local text = host.bytes_get(b, at, len)
        return text and host.bytes_of(text)
    end,
    -- A number, and the bytes that it takes: seven bits each, the low ones first; the high bit says that more follow.
    get_var_int = function(b, at)
        local value = 0
        for more = 0, 4 do
            local byte = b[at + more]
            if not byte then break end
            value = value | (byte & 0x7f) << 7 * more
            if byte < 0x80 then return value, more + 1 end
        end
        return 0, 0
    end,
}, { __call = function(_, capacity) return host.bytes_of("", capacity or 0) end })
written("string", host.bytes_set)
written("bytes", function(b, at, other, len)
    local size = #other
    if not len or len > size then len = size end
    return host.bytes_set(b, at, len > 0 and host.bytes_get(other, 1, len) or "")
end)
written("var_int", function(b, at, value)
    local left, text = value & 0xffffffff, ""
    while left >= 0x80 do
        text, left = text .. string.char(left & 0x7f | 0x80), left >> 7
    end
    text = text .. string.char(left)
    return host.bytes_set(b, at, text) and #text or 0
end)
for name, form in next, {
    byte = "B", int16 = ">i2", int16_be = ">i2", int16_le = "<i2", int32 = ">i4", int32_be = ">i4", int32_le = "<i4",
    int64 = ">i8", int64_be = ">i8", int64_le = "<i8",
} do
    local pack, unpack, size = string.pack, string.unpack, string.packsize(form)
    bytes["get_" .. name] = function(b, at)
        local text = host.bytes_get(b, at, size)
        return text and (unpack(form, text))
    end
    -- A number that does not fit is not written.
    written(name, function(b, at, value)
        local fits, text = raw_pcall(pack, form, value)
        return fits and host.bytes_set(b, at, text)
    end)
end

function putX(value) return tostring(value) end

function math.sum(a, b) return a + b end
function math.product(a, b) return a * b end

-- Records. `load(name)` gives the stored bin; bins that were set wait in `dirty` for `aerospike:update`.

local function bin_value(c, name)
    local value = c.bins[name]
    if value == nil then
        value = c.load(name)
        if value == nil then value = NIL end
        c.bins[name] = value
    end
    return shown_value(value)
end

function Record.__index(rec, name) return bin_value(contents(rec, Record), name) end

function Record.__newindex(rec, name, value)
    local c = contents(rec, Record)
    if raw_type(name) ~= "string" then error("the name of a bin is a string, got " .. type(name), 2) end
    if value == nil then value = NIL end
    if c.bins[name] == nil then bin_value(c, name) end
    c.bins[name] = value
    if not c.is_dirty[name] then
        c.is_dirty[name] = true
        c.dirty[#c.dirty + 1] = name
    end
end

-- Copies what was set: a list that changes afterwards is not stored. With a name that no bin can have nothing is kept.
local function flush(c)
    local dirty, fits = c.dirty, true
    c.dirty, c.is_dirty = {}, {}
    for _, name in ipairs(dirty) do
        if #name == 0 or #name > 15 then fits, c.bins[name] = false, nil end
    end
    for _, name in ipairs(fits and dirty or {}) do
        c.writes[name] = host.freeze(shown_value(c.bins[name]), name)
    end
    return fits
end

local function bin_names(c)
    local all, seen = {}, {}
    local function add(name)
        if not seen[name] and bin_value(c, name) ~= nil then
            seen[name] = true
            all[#all + 1] = name
        end
    end
    for _, name in ipairs(c.names) do add(name) end
    for name in pairs(c.bins) do add(name) end
    return all
end

local function fact(name)
    return function(rec) return contents(rec, Record)[name] end
end

record = {
    ttl = fact("ttl"),
    last_update_time = fact("last_update_time"),
    gen = fact("gen"),
    size = fact("size"),
    memory_size = fact("size"),
    device_size = fact("size"),
    key = fact("key"),
    setname = fact("setname"),
    digest = fact("digest"),
    numbins = function(rec) return #bin_names(contents(rec, Record)) end,
    bin_names = function(rec) return bin_names(contents(rec, Record)) end,
    set_ttl = function(rec, seconds) contents(rec, Record).new_ttl = tointeger(seconds) end,
    drop_key = function(rec) contents(rec, Record).drops_key = true end,
}

local LEVELS = { "warn", "info", "debug", "trace" }

aerospike = {
    create = function(_, rec)
        local c = contents(rec, Record)
        if c.exists then return 1 end
        if not flush(c) then return -1 end
        c.exists = true
        return 0
    end,
    update = function(_, rec)
        local c = contents(rec, Record)
        if not c.exists then return -2 end
        if not flush(c) then return -1 end
        c.is_updated = true
        return 0
    end,
    exists = function(_, rec) return contents(rec, Record).exists end,
    remove = function(_, rec)
        local c = contents(rec, Record)
        if not c.exists then return 1 end
        c.exists, c.is_emptied, c.writes, c.bins, c.dirty, c.is_dirty = false, true, {}, {}, {}, {}
        c.load, c.names = function() return nil end, {}
        return 0
    end,
    log = function(_, level, text) return host.log(LEVELS[tointeger(level)] or "info", tostring(text)) end,
    get_current_time = function() return host.now() end,
    get_config = function() return nil end,
    set_context = function()
        error("aerospike:set_context is not known to this server: change the list or map as a whole", 2)
    end,
}
for level, name in ipairs(LEVELS) do
    _G[name] = function(text, ...) return aerospike:log(level, format(text, ...)) end
end
function print(...)
    local shown = {}
    for at = 1, select("#", ...) do shown[at] = tostring((select(at, ...))) end
    host.log("info", concat(shown, "\t"))
end

-- A stream: the function names its steps, and records are pushed through those up to the first reduce, which the client
-- goes on with.

local Stream = { __metatable = "stream" }
Stream.__index = Stream

local function add_step(step)
    return function(stream, ...)
        local steps = stream.steps
        if not stream.is_reduced then steps[#steps + 1] = { step, ... } end
        stream.is_reduced = stream.is_reduced or step == stream.reducing
        return stream
    end
end

local function filter(sink, f)
    return { push = function(v) if f(v) then sink.push(v) end end, finish = sink.finish }
end

local function transform(sink, f)
    local function push(v)
        local made = f(v)
        if made ~= nil then sink.push(made) end
    end
    return { push = push, finish = sink.finish }
end

local function clone(v)
    local class = class_of(v)
    if class == Map then return map.clone(v) elseif class == List then return list.clone(v) end
    return v
end

local function aggregate(sink, first, f)
    local sum = clone(first)
    local function finish()
        if sum ~= nil then sink.push(sum) end
        sink.finish()
    end
    return { push = function(v) sum = f(sum, v) end, finish = finish }
end

local function reduce(sink, f)
    local sum
    local function push(v) if sum == nil then sum = v else sum = f(sum, v) end end
    local function finish()
        if sum ~= nil then sink.push(sum) end
        sink.finish()
    end
    return { push = push, finish = finish }
end

Stream.filter, Stream.map, Stream.aggregate, Stream.reduce =
    add_step(filter), add_step(transform), add_step(aggregate), add_step(reduce)

function Stream.groupby(stream, f)
    local function add(groups, value)
        local key = f and f(value)
        local group = groups[key] or list()
        list.append(group, value)
        groups[key] = group
        return groups
    end
    return stream:aggregate(map(), add):reduce(function(one, other) return map.merge(one, other, list.merge) end)
end

-- The environment of a module: its own functions, and through them everything above.
local module = setmetatable({}, { __index = _G })
local loaded = {}

local function run_module(name)
    if loaded[name] == nil then
        local text = host.source(name)
        if not text then error("module '" .. name .. "' is not registered", 0) end
        local chunk, message = load(text, "=" .. name, "t", module)
        if not chunk then error(message, 0) end
        loaded[name] = true
        local result = chunk(name)
        if result ~= nil then loaded[name] = result end
    end
    return loaded[name]
end

function require(name) return run_module(name:find("%.lua$") and name or name .. ".lua") end

-- A function cannot catch the end of its time, or go on after it.
local function checked(...)
    if host.is_over() then error("over", 0) end
    return ...
end
function pcall(...) return checked(raw_pcall(...)) end
function xpcall(...) return checked(raw_xpcall(...)) end

local function function_of(name)
    local f = rawget(module, name)
    if raw_type(f) ~= "function" then error("function not found", 0) end
    return f
end

-- Functions of Lua's library that loop as long as their arguments say. `work` says how long, from the table's length.
local function plain(name, work)
    local f = table[name]
    table[name] = function(t, ...)
        if raw_type(t) == "table" then
            if getmetatable(t) then error("table." .. name .. " takes a plain table", 2) end
            spend(work(rawlen(t), ...))
        end
        return f(t, ...)
    end
end
local function behind(count, at) return count - (tointeger(at) or count) end
plain("insert", function(count, at, ...) return select("#", ...) > 0 and behind(count, at) or 0 end)
plain("remove", behind)
plain("sort", function(count) return 16 * count end)
plain("unpack", function(count, from, to) return (tointeger(to) or count) - (tointeger(from) or 1) end)
function table.concat(t, separator, from, to)
    from, to = from or 1, to or rawlen(t)
    spend(bounded(to - from))
    local text = concat(t, separator, from, to)
    spend(#text // 64)
    return text
end
function table.move(from, first, last, at, to)
    bounded(last - first)
    if getmetatable(from) or to and getmetatable(to) then error("table.move takes plain tables", 2) end
    return move(from, first, last, at, to or from)
end
function string.rep(text, count, separator)
    local length = #text + #(separator or "")
    if length == 0 then return "" end
    -- Bytes are copied many at once.
    spend((tointeger(count) or 0) * length // 64)
    return rep(text, count, separator)
end
local raw_find, raw_gsub = string.find, string.gsub
for _, name in ipairs { "format", "lower", "pack", "reverse", "sub", "upper" } do
    local f = string[name]
    string[name] = function(...)
        local is_made, made = raw_pcall(f, ...)
        -- The line of the caller.
        if not is_made then
            if raw_type(made) ~= "string" then error(made, 0) end
            error((raw_gsub(made, "'%?'", "'" .. name .. "'")), 2)
        end
        spend(#made // 16)
        return made
    end
end

-- Functions of patterns. A search without a match returns nil, and for a malformed pattern why.

local sub = string.sub

local function subject(text, name)
    if raw_type(text) == "number" then return tostring(text) end
    if raw_type(text) ~= "string" then
        error(format("bad argument to '%s' (string expected, got %s)", name, type(text)), 3)
    end
    return text
end

local function beginning(text, init)
    init = tointeger(init or 1) or error("bad argument (integer expected)", 3)
    if init < 0 then init = #text + init + 1 end
    return init < 1 and 1 or init
end

local function found(from, to, ...)
    if from then return from, to, ... end
    if to then error(to, 2) end
    return nil
end

local function captured(text, from, to, ...)
    if not from then
        if to then error(to, 2) end
        return nil
    end
    if select("#", ...) == 0 then return sub(text, from, to) end
    return ...
end

function string.find(text, pattern, init, is_plain)
    text, pattern = subject(text, "find"), subject(pattern, "find")
    return found(host.search(text, pattern, beginning(text, init), not not is_plain))
end

function string.match(text, pattern, init)
    text, pattern = subject(text, "match"), subject(pattern, "match")
    return captured(text, host.search(text, pattern, beginning(text, init)))
end

function string.gmatch(text, pattern, init)
    text, pattern = subject(text, "gmatch"), subject(pattern, "gmatch")
    -- Nothing is anchored here.
    if sub(pattern, 1, 1) == "^" then pattern = "%" .. pattern end
    local at, before = beginning(text, init), nil
    local function step(from, to, ...)
        if not from then
            at = #text + 2
            if to then error(to, 2) end
            return nil
        end
        at, before = to + 1, to
        return captured(text, from, to, ...)
    end
    return function() return step(host.search(text, pattern, at, nil, before)) end
end

-- The text that takes the place of a match: for a string, with its captures filled in.
local function replacement(with, text, from, to, ...)
    local kind, made = raw_type(with)
    if kind == "table" then
        made = with[(captured(text, from, to, ...))]
    elseif kind == "function" then
        made = with(captured(text, from, to, ...))
    elseif not raw_find(with, "%", 1, true) then
        return with
    else
        local captures, is_wrong = { captured(text, from, to, ...) }, false
        spend(#with // 16)
        made = raw_gsub(with, "%%(.?)", function(name)
            if name == "%" then return "%" end
            if name == "0" then return sub(text, from, to) end
            is_wrong = is_wrong or not captures[tonumber(name)]
            return captures[tonumber(name)]
        end)
        if is_wrong then error("invalid use of '%' in replacement string", 4) end
        return made
    end
    if not made then return sub(text, from, to) end
    if raw_type(made) ~= "string" and raw_type(made) ~= "number" then
        error(format("invalid replacement value (a %s)", type(made)), 4)
    end
    return made
end

function string.gsub(text, pattern, with, most)
    text, pattern = subject(text, "gsub"), subject(pattern, "gsub")
    if raw_type(with) ~= "table" and raw_type(with) ~= "function" then with = subject(with, "gsub") end
    local parts, count, at, before = {}, 0, 1, nil
    local is_anchored = sub(pattern, 1, 1) == "^"
    local function step(from, ...)
        if not from then
            if ... then error(..., 3) end
            return false
        end
        local size = #parts
        parts[size + 1] = sub(text, at, from - 1)
        parts[size + 2] = replacement(with, text, from, ...)
        count, before = count + 1, (...)
        at = before + 1
        -- A part takes as much memory as some bytes of text.
        if #parts > 20000 then parts = { table.concat(parts) } end
        return not is_anchored
    end
    while (not most or count < most) and step(host.search(text, pattern, at, nil, before)) do end
    parts[#parts + 1] = sub(text, at)
    return table.concat(parts), count
end

for _, gone in ipairs { "load", "loadstring", "loadfile", "dofile", "collectgarbage" } do _G[gone] = nil end
string.dump = nil

-- What the server calls.
return {
    run_module = run_module,
    new_list = new_list,
    -- From arrays of keys and of values.
    new_map = function(keys, values, count, order)
        local m = new_map(order)
        local c = rawget(m, CONTENTS)
        for at = 1, count do
            local key, value = keys[at], values[at]
            if value == nil then value = NIL end
            if key == nil then
                -- Only a client sends it.
                if c.values[NIL] == nil then c.count = c.count + 1 end
                c.values[NIL] = value
            else
                put(c, key, value)
            end
        end
        return m
    end,
    geojson = function(text) return object(GeoJson, text) end,
    -- The kind of an object and its parts.
    open = function(value)
        local class = class_of(value)
        local c = class and rawget(value, CONTENTS)
        if class == List then
            return "list", c.items, c.count, c.is_ordered
        elseif class == GeoJson then
            return "geojson", c
        elseif class == Map or class == Record then
            local keys, values, count = {}, {}, 0
            if class == Record then
                for _, name in ipairs(bin_names(c)) do
                    count = count + 1
                    keys[count], values[count] = name, bin_value(c, name)
                end
            else
                for key, item in next, c.values do
                    count = count + 1
                    keys[count], values[count] = shown_key(key), shown_value(item)
                end
            end
            return "map", keys, count, c.order, values
        end
        return nil
    end,
    new_record = function(facts)
        facts.bins, facts.dirty, facts.is_dirty, facts.writes = {}, {}, {}, {}
        return object(Record, facts)
    end,
    call = function(name, ...) return function_of(name)(...) end,
    -- Returns the ends of a stream: one takes a record, the other ends it; both return the values that came out.
    begin_stream = function(name, ...)
        local made = function_of(name)(setmetatable({ steps = {}, reducing = reduce }, Stream), ...)
        if getmetatable(made) ~= Stream.__metatable then error("a stream function returns its stream, got " .. type(made), 0) end
        local out, count = {}, 0
        local sink = {
            push = function(v)
                count = count + 1
                out[count] = v
            end,
            finish = function() end,
        }
        for at = #made.steps, 1, -1 do
            local step = made.steps[at]
            sink = step[1](sink, step[2], step[3])
        end
        local function taken()
            local all, many = out, count
            out, count = {}, 0
            return all, many
        end
        return function(v)
            sink.push(v)
            return taken()
        end, function()
            sink.finish()
            return taken()
        end
    end,
}
