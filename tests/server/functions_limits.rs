//! The limits of user-defined functions.

use std::time::{Duration, Instant};

use crate::functions::*;
use crate::server_client::*;

#[test]
fn a_function_that_does_not_end_is_ended_and_holds_up_nobody() {
    let (running, mut wire) = served(
        "function spins(rec) rec.i = 2 aerospike:update(rec) while true do end end
         function catches(rec) while true do pcall(function() while true do end end) end end
         function swallows(rec) pcall(function() while true do end end) return 'went on' end
         function finalizes(rec)
           setmetatable({}, {__gc = function() while true do end end})
           for i = 1, 1000000 do local t = {} end
         end
         function hoards(rec) local t = {} while true do t[#t + 1] = string.rep('x', 100000) end end",
    );
    let demo = running
        .store
        .namespace("test")
        .unwrap()
        .set("demo")
        .unwrap();
    demo.put(1, [("i", 1)]).unwrap();
    // More than the server has threads.
    let limited = |key, function| Message {
        timeout_ms: 300,
        ..call(key, function, &[])
    };
    let mut spinning: Vec<Wire> = (1..=8).map(|_| Wire::to(running.handle.addr())).collect();
    for (key, wire) in (1..).zip(&mut spinning) {
        wire.send(&limited(key, "m.spins").frame());
    }
    let began = Instant::now();
    assert_eq!(wire.ask(&Message::get(1)).int("i"), 1);
    assert!(
        began.elapsed() < Duration::from_millis(250),
        "{:?}",
        began.elapsed()
    );
    for wire in &mut spinning {
        let answer = answers(&wire.receive().unwrap().1).pop().unwrap();
        assert!(failure(&answer).contains("ran for more than"), "{answer:?}");
    }
    for function in ["m.catches", "m.swallows"] {
        let text = failure(&wire.ask(&limited(1, function)));
        assert!(text.contains("ran for more than"), "{text}");
    }
    let hoards = Message {
        timeout_ms: 60_000,
        ..call(1, "m.hoards", &[])
    };
    let text = failure(&wire.ask(&hoards));
    assert!(text.contains("bytes of memory"), "{text}");
    let text = failure(&wire.ask(&call(1, "m.finalizes", &[])));
    assert!(text.contains("__gc is refused"), "{text}");
    assert_eq!(demo.get(1).unwrap().unwrap().generation(), 1);
}

#[test]
fn memory_and_loops_outside_of_lua_are_bounded() {
    let (running, mut wire) = served(
        "function repeats(rec)
           local text, l = string.rep('x', 1 << 20), list()
           for _ = 1, 1000 do list.append(l, text) end
           return l
         end
         function buffers(rec)
           local all = {}
           for i = 1, 1000 do all[i] = bytes() bytes.set_byte(all[i], 8 << 20, 1) end
         end
         function far(rec) local l = list() l[1 << 40] = 1 return l end
         function moves(rec) table.move({}, 1, 1 << 62, 1) end
         function empty(rec) return #string.rep('', 1 << 62) end
         function finalizes(rec)
           List.__gc = function() while true do end end
           local meta = getmetatable(list())
           meta.__gc = List.__gc
           for _ = 1, 100000 do list() end
           return 'went on'
         end
         function nothing(rec) return aerospike:create(rec) end
         function updates(rec)
           for i = 1, 1000 do rec.s = string.rep('x', 1000) .. i aerospike:update(rec) end
           return rec.s
         end
         function big(rec) return rec.u end",
    );
    let demo = running
        .store
        .namespace("test")
        .unwrap()
        .set("demo")
        .unwrap();
    demo.put(1, [("s", "")]).unwrap();
    for function in ["m.repeats", "m.buffers"] {
        let text = failure(&wire.ask(&call(1, function, &[])));
        assert!(text.contains("bytes of memory"), "{function}: {text}");
    }
    for function in ["m.far", "m.moves"] {
        let text = failure(&wire.ask(&call(1, function, &[])));
        assert!(text.contains("8388608 elements"), "{function}: {text}");
    }
    assert_eq!(wire.ask(&call(1, "m.empty", &[])).int("SUCCESS"), 0);
    let answer = wire.ask(&call(1, "m.finalizes", &[]));
    assert_eq!(told(&answer, "SUCCESS").value, b"went on");
    // The last value of many is written, once.
    assert_eq!(wire.ask(&call(1, "m.updates", &[])).generation, 2);
    let text = failure(&wire.ask(&call(2, "m.nothing", &[])));
    assert!(text.contains("has no bins"), "{text}");
    assert!(demo.get(2).unwrap().is_none());
}

#[test]
fn records_and_bytes_that_functions_keep_count_for_their_memory() {
    let (running, mut wire) = served(
        "local kept, calls = {}, 0
         function keeps(rec) kept[#kept + 1] = rec.b return #kept end
         function counts(rec) calls = calls + 1 return calls end
         function hoards(s) return s : map(function(rec) kept[#kept + 1] = rec return #kept end) end
         function buffers(s) return s : map(function(rec) kept[#kept + 1] = rec.b return #kept end) end
         function looks(s)
           return s : map(function(rec) return rec.b[1] end) : reduce(function(a, b) return a + b end)
         end
         function shows(rec)
           local one, other = bytes(), bytes()
           bytes.set_byte(one, 16 << 20, 1) bytes.set_byte(other, 16 << 20, 1)
           return #tostring(one)
         end
         function short(rec) local b = bytes() bytes.set_byte(b, 3, 255) return tostring(b) end",
    );
    let demo = running.store.set("demo").unwrap();
    for key in 0..100 {
        demo.put(key, [("b", vec![7_u8; 1_000_000])]).unwrap();
    }
    // A state that keeps more than 16 MiB between two calls is given up.
    let mut most = |function: &str| {
        let calls = (0..50).map(|_| wire.ask(&call(1, function, &[])).int("SUCCESS"));
        calls.max()
    };
    assert!((8..=17).contains(&most("m.keeps").unwrap()));
    // One whose calls have let go of their records is not.
    assert_eq!(most("m.counts"), Some(50));
    let stream = |function: &str| with_call(query(), function, &[]).field(33, &[1]);
    for function in ["m.hoards", "m.buffers"] {
        let (rows, code) = wire.ask_many(&stream(function));
        let text =
            String::from_utf8_lossy(&told(rows.last().unwrap(), "FAILURE").value).into_owned();
        assert!(text.contains("bytes of memory"), "{function}: {text}");
        assert_eq!(code, 1);
    }
    let (rows, code) = wire.ask_many(&stream("m.looks"));
    assert_eq!((rows[0].int("SUCCESS"), code), (700, 0));
    let text = failure(&wire.ask(&call(1, "m.shows", &[])));
    assert!(text.contains("bytes of memory"), "{text}");
    let answer = wire.ask(&call(1, "m.short", &[]));
    assert_eq!(told(&answer, "SUCCESS").value, b"00 00 FF");
}

#[test]
fn work_of_the_library_counts_for_the_time_of_a_call() {
    let (running, mut wire) = served(
        "function prepends(rec)
           local l = list()
           l[4000000] = 1
           while true do list.prepend(l, 1) end
         end
         function inserts(rec)
           local t = {}
           for i = 1, 1000000 do t[i] = i end
           while true do table.insert(t, 1, i) table.remove(t, 1) end
         end
         function repeats(rec) while true do string.rep('x', 20000000) end end
         function joins(rec)
           local text, t = string.rep('x', 20000), {}
           for i = 1, 900 do t[i] = text end
           while true do table.concat(t) end
         end
         function raises(rec)
           local text = string.rep('x', 20000000)
           while true do string.upper(text) end
         end
         function finds(rec)
           local text = string.rep('x', 20000000)
           while true do string.find(text, 'y', 1, true) end
         end
         function matches(rec)
           return string.match(string.rep('a', 100), string.rep('.-', 7) .. 'b')
         end
         function sets(rec)
           return string.find(string.rep('b', 2000000), '[' .. string.rep('a', 2000000) .. ']')
         end
         function replaces(rec)
           while true do string.gsub(string.rep('x', 2000000), 'x', 'yy') end
         end",
    );
    let demo = running.store.set("demo").unwrap();
    demo.put(1, [("i", 1)]).unwrap();
    for function in [
        "prepends", "inserts", "repeats", "joins", "raises", "finds", "matches", "sets", "replaces",
    ] {
        let began = Instant::now();
        let text = failure(&wire.ask(&Message {
            timeout_ms: 300,
            ..call(1, &format!("m.{function}"), &[])
        }));
        assert!(text.contains("ran for more than"), "{function}: {text}");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(5), "{function}: {took:?}");
    }
}

#[test]
fn functions_of_strings_do_what_those_of_lua_do_and_say_where_they_fail() {
    let (running, mut wire) = served(
        "function strings(rec)
           local function same(is, should) if is ~= should then error(is .. ' for ' .. should, 2) end end
           local k, v = string.match('  key = value', '^%s*(%w+)%s*=%s*(%w+)$')
           same(k .. v, 'keyvalue')
           same(('hello world'):gsub('o', '0'), 'hell0 w0rld')
           same(('hello world'):gsub('%w+', '%0 %0', 1), 'hello hello world')
           same(('abc'):gsub('', '-'), '-a-b-c-')
           same(('abc'):gsub('(a)(b)', '%2%1'), 'bac')
           same(('x=1, y=2'):gsub('(%w)=(%w)', {x = 'one'}), 'one, y=2')
           same(('abc'):gsub('%w', function(c) if c == 'b' then return 5 end end), 'a5c')
           same(('^a'):gsub('^^', 'b'), 'ba')
           same(select(2, ('aaa'):gsub('a', 'b', 2)), 2)
           local all = {}
           for word, at in ('one two'):gmatch('(%a+)()') do all[#all + 1] = word .. at end
           same(table.concat(all, ' '), 'one4 two8')
           for part in ('a,,b'):gmatch('[^,]*') do all[#all + 1] = '<' .. part .. '>' end
           same(table.concat(all, ' ', 3), '<a> <> <b>')
           same(('a.b'):find('.', 2, true), 2)
           same(('abc'):find('c', -1), 3)
           same(('abc'):find('a', 9), nil)
           same(('f(a)'):find('a)'), 3)
           same(pcall(string.match, 'f(a)', 'a)'), false)
           same(('12'):rep(2):upper():sub(-3), '212')
           return 'all'
         end
         function malformed(rec)
           local at = ('x'):find('[a')
         end
         function upper(rec)
           local text = string.upper(nil)
         end
         function replaced(rec)
           local text = ('x'):gsub('x', '%9')
         end
         function hoards(rec) local t, all = string.rep('x', 9000000), {} for i = 1, 9 do all[i] = t:upper() end end",
    );
    let demo = running.store.set("demo").unwrap();
    demo.put(1, [("i", 1)]).unwrap();
    let mut text = |function: &str| failure(&wire.ask(&call(1, function, &[])));
    assert_eq!(
        text("m.malformed"),
        "m.lua:27: malformed pattern (missing ']')"
    );
    let refused = "m.lua:30: bad argument #1 to 'upper' (string expected, got nil)";
    assert_eq!(text("m.upper"), refused);
    let refused = "m.lua:33: invalid use of '%' in replacement string";
    assert_eq!(text("m.replaced"), refused);
    assert!(text("m.hoards").contains("bytes of memory"));
    let answer = wire.ask(&call(1, "m.strings", &[]));
    assert_eq!(told(&answer, "SUCCESS").value, b"all", "{answer:?}");
}
