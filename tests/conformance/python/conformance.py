"""Drives a served store through the Aerospike Python client: one row a rule.

A row is (what, bins to start with or None, call, expectation). The call gets the client and a key of its own; the
expectation is the value that it returns, or `code(n)`: the result code of the exception that it raises.

Usage: conformance.py PORT
"""

import sys
import time
import warnings
from importlib.metadata import version

import aerospike
from aerospike import exception, predicates
from aerospike_helpers import cdt_ctx, expressions as exp
from aerospike_helpers.batch import records as batch
from aerospike_helpers.expressions import arithmetic
from aerospike_helpers.operations import (
    bitwise_operations as bits,
    expression_operations as expressions,
    hll_operations as hll,
    list_operations as lists,
    map_operations as maps,
    operations as ops,
)

# Names that the next major version will not have are the only ones that the older version has.
warnings.simplefilter("ignore", DeprecationWarning)

NAMESPACE, SET = "test", "conformance"
VERSION = tuple(int(part) for part in version("aerospike").split("."))


class code:
    """The result code of an exception."""

    def __init__(self, number):
        self.number = number

    def __repr__(self):
        return f"code({self.number})"


class anything:
    """A value for which a condition holds."""

    def __init__(self, condition, text):
        self.condition, self.text = condition, text

    def __eq__(self, other):
        return self.condition(other)

    def __repr__(self):
        return self.text


def get(c, k):
    return c.get(k)[2]


def put(bins, meta=None, policy=None):
    def call(c, k):
        c.put(k, bins, meta or {}, policy or {})
        return get(c, k)

    return call


def operate(*operations, meta=None, policy=None):
    """The bins that the operations return."""
    return lambda c, k: c.operate(k, list(operations), meta or {}, policy or {})[2]


def ordered(*operations):
    """Names and values that the operations return, one by one."""
    return lambda c, k: c.operate_ordered(k, list(operations))[2]


def after(*operations):
    """The bins of the record after the operations."""

    def call(c, k):
        c.operate(k, list(operations))
        return get(c, k)

    return call


def generation(c, k):
    return c.exists(k)[1]["gen"]


def ttl(c, k):
    return c.exists(k)[1]["ttl"]


def about(seconds):
    return anything(lambda ttl: seconds - 3 <= ttl <= seconds, f"about {seconds}")


def written_with_ttl(seconds, policy=None):
    def call(c, k):
        c.put(k, {"i": 1}, {"ttl": seconds}, policy or {})
        return ttl(c, k)

    return call


NEVER = 0xFFFFFFFF
EVERYTHING = {
    "int": -7,
    "big": 2**63 - 1,
    "float": 1.5,
    "text": "h\u00e9llo",
    "empty": "",
    "blob": b"\x00\xff",
    "true": True,
    "list": [1, "a", [2.5, None], b"x"],
    "map": {"a": 1, 2: [True], b"k": {"n": None}},
}

RECORDS = [
    ("every type comes back", None, put(EVERYTHING), EVERYTHING),
    ("a put keeps other bins", {"a": 1, "b": 2}, put({"b": 3}), {"a": 1, "b": 3}),
    ("nil removes a bin", {"a": 1, "b": 2}, put({"b": aerospike.null()}), {"a": 1}),
    ("no record", None, get, code(2)),
    ("select", {"a": 1, "b": 2}, lambda c, k: c.select(k, ["b", "c"])[2], {"b": 2}),
    ("select of nothing that is there", {"a": 1}, lambda c, k: c.select(k, ["c"])[2], {}),
    ("exists", {"a": 1}, lambda c, k: c.exists(k)[1]["gen"], 1),
    ("exists not", None, lambda c, k: c.exists(k)[1], anything(lambda meta: meta is None, "None")),
    ("remove", {"a": 1}, lambda c, k: (c.remove(k), c.exists(k)[1])[1], None),
    ("remove of nothing", None, lambda c, k: c.remove(k), code(2)),
    ("remove of a bin", {"a": 1, "b": 2}, lambda c, k: (c.remove_bin(k, ["a"]), get(c, k))[1], {"b": 2}),
    ("remove of the last bin", {"a": 1}, lambda c, k: (c.remove_bin(k, ["a"]), c.exists(k)[1])[1], None),
    ("increment", {"i": 1}, lambda c, k: (c.increment(k, "i", 4), get(c, k))[1], {"i": 5}),
    ("increment of nothing", None, lambda c, k: (c.increment(k, "i", 4), get(c, k))[1], {"i": 4}),
    ("increment of text", {"i": "x"}, lambda c, k: c.increment(k, "i", 4), code(12)),
    ("increment of a float", {"f": 1.5}, lambda c, k: (c.increment(k, "f", 1.0), get(c, k))[1], {"f": 2.5}),
    ("append", {"s": "a"}, lambda c, k: (c.append(k, "s", "b"), get(c, k))[1], {"s": "ab"}),
    ("prepend", {"s": "a"}, lambda c, k: (c.prepend(k, "s", "b"), get(c, k))[1], {"s": "ba"}),
    ("append to a number", {"s": 1}, lambda c, k: c.append(k, "s", "b"), code(12)),
    ("a large record", None, put({"s": "x" * 900_000}), {"s": "x" * 900_000}),
    ("a record that is too large", None, put({"s": "x" * 1_100_000}), code(13)),
    ("a bin name that is too long", None, put({"sixteen bytes...": 1}), code(21)),
]

POLICIES = [
    ("create only, nothing there", None, put({"a": 1}, policy={"exists": aerospike.POLICY_EXISTS_CREATE}), {"a": 1}),
    ("create only, a record there", {"a": 1}, put({"a": 2}, policy={"exists": aerospike.POLICY_EXISTS_CREATE}), code(5)),
    ("update only, nothing there", None, put({"a": 1}, policy={"exists": aerospike.POLICY_EXISTS_UPDATE}), code(2)),
    ("replace", {"a": 1, "b": 2}, put({"a": 3}, policy={"exists": aerospike.POLICY_EXISTS_CREATE_OR_REPLACE}), {"a": 3}),
    ("replace only, nothing there", None, put({"a": 3}, policy={"exists": aerospike.POLICY_EXISTS_REPLACE}), code(2)),
    ("generation equal", {"a": 1}, put({"a": 2}, {"gen": 1}, {"gen": aerospike.POLICY_GEN_EQ}), {"a": 2}),
    ("generation not equal", {"a": 1}, put({"a": 2}, {"gen": 7}, {"gen": aerospike.POLICY_GEN_EQ}), code(3)),
    ("generation greater", {"a": 1}, put({"a": 2}, {"gen": 7}, {"gen": aerospike.POLICY_GEN_GT}), {"a": 2}),
    ("generation not greater", {"a": 1}, put({"a": 2}, {"gen": 1}, {"gen": aerospike.POLICY_GEN_GT}), code(3)),
    ("generations count writes", {"a": 1}, lambda c, k: (c.put(k, {"a": 2}), c.touch(k), generation(c, k))[2], 3),
    ("remove at another generation", {"a": 1}, lambda c, k: c.remove(k, {"gen": 9}, {"gen": aerospike.POLICY_GEN_EQ}), code(3)),
    ("a stored key", None, lambda c, k: (c.put(k, {"a": 1}, policy={"key": aerospike.POLICY_KEY_SEND}), c.get(k, policy={"key": aerospike.POLICY_KEY_SEND})[0][2])[1], anything(lambda key: key is not None, "a key")),
    ("never expires", None, written_with_ttl(aerospike.TTL_NEVER_EXPIRE), NEVER),
    ("by default never", None, written_with_ttl(aerospike.TTL_NAMESPACE_DEFAULT), NEVER),
    ("expires", None, written_with_ttl(1000), about(1000)),
    ("a touch sets the time", {"a": 1}, lambda c, k: (c.touch(k, 500), ttl(c, k))[1], about(500)),
    ("the time is kept", None, lambda c, k: (c.put(k, {"a": 1}, {"ttl": 700}), c.put(k, {"a": 2}, {"ttl": aerospike.TTL_DONT_UPDATE}), ttl(c, k))[2], about(700)),
    ("a time beyond ten years", None, written_with_ttl(315_360_001), code(4)),
    ("touch of nothing", None, lambda c, k: c.touch(k, 10), code(2)),
    ("compression both ways", None, lambda c, k: (c.put(k, {"s": "x" * 50_000}, policy={"compress": True}), len(c.get(k, policy={"compress": True})[2]["s"]))[1], 50_000),
]

OPERATE = [
    ("reads see writes before them", {"i": 1}, operate(ops.increment("i", 2), ops.read("i"), ops.increment("i", 10)), {"i": 3}),
    ("all or nothing", {"i": 1, "s": "x"}, operate(ops.increment("i", 2), ops.increment("s", 2)), code(12)),
    ("nothing of what failed", {"i": 1, "s": "x"}, lambda c, k: (failing(c, k, ops.increment("i", 2), ops.increment("s", 2)), get(c, k))[1], {"i": 1, "s": "x"}),
    ("one by one", {"i": 1}, ordered(ops.read("i"), ops.increment("i", 2), ops.read("i")), [("i", 1), ("i", 3)]),
    ("delete and write anew", {"a": 1, "b": 2}, after(ops.delete(), ops.write("c", 3)), {"c": 3}),
    ("touch and read", {"a": 1}, operate(ops.touch(), ops.read("a")), {"a": 1}),
    ("append and prepend", {"s": "b"}, after(ops.append("s", "c"), ops.prepend("s", "a")), {"s": "abc"}),
]


def failing(c, k, *operations):
    try:
        c.operate(k, list(operations))
    except exception.AerospikeError:
        return
    raise AssertionError("did not fail")


ORDERED = {"list_order": aerospike.LIST_ORDERED}
UNIQUE = {"write_flags": aerospike.LIST_WRITE_ADD_UNIQUE}
L = {"l": [5, 1, 4, 1]}

LISTS = [
    ("append", L, operate(lists.list_append("l", 9)), {"l": 5}),
    ("append items", L, after(lists.list_append_items("l", [7, "x"])), {"l": [5, 1, 4, 1, 7, "x"]}),
    ("append to nothing", None, after(lists.list_append("l", 9)), {"l": [9]}),
    ("append in order", None, after(lists.list_append_items("l", [3, 1, 2], policy=ORDERED)), {"l": [1, 2, 3]}),
    ("append what is there", L, operate(lists.list_append("l", 4, policy=UNIQUE)), code(24)),
    ("append what is there, no fail", L, operate(lists.list_append("l", 4, policy={"write_flags": aerospike.LIST_WRITE_ADD_UNIQUE | aerospike.LIST_WRITE_NO_FAIL})), {"l": 4}),
    ("insert", L, after(lists.list_insert("l", 1, 9)), {"l": [5, 9, 1, 4, 1]}),
    ("insert items", L, after(lists.list_insert_items("l", -1, [8, 9])), {"l": [5, 1, 4, 8, 9, 1]}),
    ("set", L, after(lists.list_set("l", 0, "z")), {"l": ["z", 1, 4, 1]}),
    ("set beyond the end pads", L, after(lists.list_set("l", 5, 0)), {"l": [5, 1, 4, 1, None, 0]}),
    ("increment", L, operate(lists.list_increment("l", 2, 10)), {"l": 14}),
    ("pop", L, operate(lists.list_pop("l", 0)), {"l": 5}),
    ("pop range", L, operate(lists.list_pop_range("l", 1, 2)), {"l": [1, 4]}),
    ("remove", L, after(lists.list_remove("l", 1)), {"l": [5, 4, 1]}),
    ("trim", L, after(lists.list_trim("l", 1, 2)), {"l": [1, 4]}),
    ("clear", L, after(lists.list_clear("l")), {"l": []}),
    ("size", L, operate(lists.list_size("l")), {"l": 4}),
    ("get", L, operate(lists.list_get("l", -2)), {"l": 4}),
    ("get beyond the end", L, operate(lists.list_get("l", 9)), code(26)),
    ("sort", L, after(lists.list_sort("l", aerospike.LIST_SORT_DROP_DUPLICATES)), {"l": [1, 4, 5]}),
    ("set order", L, after(lists.list_set_order("l", aerospike.LIST_ORDERED)), {"l": [1, 1, 4, 5]}),
    ("by value", L, operate(lists.list_get_by_value("l", 1, aerospike.LIST_RETURN_INDEX)), {"l": [1, 3]}),
    ("by value list", L, operate(lists.list_get_by_value_list("l", [1, 5], aerospike.LIST_RETURN_COUNT)), {"l": 3}),
    ("by value range", L, operate(lists.list_get_by_value_range("l", aerospike.LIST_RETURN_VALUE, 2, 6)), {"l": [5, 4]}),
    ("by rank", L, operate(lists.list_get_by_rank("l", -1, aerospike.LIST_RETURN_VALUE)), {"l": 5}),
    ("by rank range", L, operate(lists.list_get_by_rank_range("l", 0, aerospike.LIST_RETURN_VALUE, 2)), {"l": anything(lambda v: sorted(v) == [1, 1], "two ones")}),
    ("by index, inverted", L, operate(lists.list_get_by_index_range("l", 1, aerospike.LIST_RETURN_VALUE, 2, inverted=True)), {"l": [5, 1]}),
    ("exists", L, operate(lists.list_get_by_value("l", 4, aerospike.LIST_RETURN_EXISTS)), {"l": True}),
    ("remove by value", L, operate(lists.list_remove_by_value("l", 1, aerospike.LIST_RETURN_COUNT)), {"l": 2}),
    ("a list inside", {"l": [[1], [2, 3]]}, after(lists.list_append("l", 4, ctx=[cdt_ctx.cdt_ctx_list_index(1)])), {"l": [[1], [2, 3, 4]]}),
    ("a list inside that is not there", {"l": [[1]]}, operate(lists.list_append("l", 4, ctx=[cdt_ctx.cdt_ctx_list_index(5)])), code(26)),
    ("an operation on no list", {"l": 1}, operate(lists.list_append("l", 4)), code(12)),
    ("relative rank", {"l": [0, 4, 5, 9, 11, 15]}, operate(lists.list_get_by_value_rank_range_relative("l", 5, 1, aerospike.LIST_RETURN_VALUE, 2)), {"l": [9, 11]}),
]

M = {"m": {"a": 3, "b": 1, "c": 2}}
VALUE, KEY, KEY_VALUE = aerospike.MAP_RETURN_VALUE, aerospike.MAP_RETURN_KEY, aerospike.MAP_RETURN_KEY_VALUE

MAPS = [
    ("put", M, operate(maps.map_put("m", "d", 4)), {"m": 4}),
    ("put into nothing", None, after(maps.map_put("m", "d", 4)), {"m": {"d": 4}}),
    ("put items", M, after(maps.map_put_items("m", {"a": 9, "e": 5})), {"m": {"a": 9, "b": 1, "c": 2, "e": 5}}),
    ("create only", M, operate(maps.map_put("m", "a", 4, {"map_write_flags": aerospike.MAP_WRITE_FLAGS_CREATE_ONLY})), code(24)),
    ("update only", M, operate(maps.map_put("m", "z", 4, {"map_write_flags": aerospike.MAP_WRITE_FLAGS_UPDATE_ONLY})), code(23)),
    ("increment", M, operate(maps.map_increment("m", "a", 10)), {"m": 13}),
    ("decrement", M, operate(maps.map_decrement("m", "a", 10)), {"m": -7}),
    ("size", M, operate(maps.map_size("m")), {"m": 3}),
    ("clear", M, after(maps.map_clear("m")), {"m": {}}),
    ("by key", M, operate(maps.map_get_by_key("m", "a", VALUE)), {"m": 3}),
    ("by a key that is not there", M, operate(maps.map_get_by_key("m", "z", VALUE)), {"m": None}),
    ("by key list", M, operate(maps.map_get_by_key_list("m", ["c", "a"], aerospike.MAP_RETURN_COUNT)), {"m": 2}),
    ("by key range", M, operate(maps.map_get_by_key_range("m", "a", "c", KEY)), {"m": ["a", "b"]}),
    ("by index", M, operate(maps.map_get_by_index("m", 0, KEY)), {"m": "a"}),
    ("by rank", M, operate(maps.map_get_by_rank("m", -1, KEY)), {"m": "a"}),
    ("by rank range", M, operate(maps.map_get_by_rank_range("m", 0, 2, VALUE)), {"m": [1, 2]}),
    ("by value", M, operate(maps.map_get_by_value("m", 2, KEY)), {"m": ["c"]}),
    ("by value range, pairs in order", M, operate(maps.map_get_by_value_range("m", 1, 3, KEY_VALUE)), {"m": ["b", 1, "c", 2]}),
    ("remove by key", M, operate(maps.map_remove_by_key("m", "a", KEY_VALUE)), {"m": ["a", 3]}),
    ("remove by rank", M, after(maps.map_remove_by_rank("m", 0, aerospike.MAP_RETURN_NONE)), {"m": {"a": 3, "c": 2}}),
    ("remove by value list", M, operate(maps.map_remove_by_value_list("m", [1, 2], aerospike.MAP_RETURN_COUNT)), {"m": 2}),
    ("inverted", M, operate(maps.map_get_by_key_list("m", ["a"], KEY, inverted=True)), {"m": anything(lambda v: sorted(v) == ["b", "c"], "b and c")}),
    ("a map inside", {"m": {"x": {"y": 1}}}, after(maps.map_put("m", "z", 2, ctx=[cdt_ctx.cdt_ctx_map_key("x")])), {"m": {"x": {"y": 1, "z": 2}}}),
    ("a map inside that is made", {"m": {}}, after(maps.map_put("m", "z", 2, ctx=[cdt_ctx.cdt_ctx_map_key_create("x", aerospike.MAP_KEY_ORDERED)])), {"m": {"x": {"z": 2}}}),
    ("a map inside a map that is made", {"m": {}}, after(maps.map_put("m", "z", 2, ctx=[cdt_ctx.cdt_ctx_map_key_create("x", aerospike.MAP_KEY_ORDERED), cdt_ctx.cdt_ctx_map_key("y")])), {"m": {"x": {"y": {"z": 2}}}}),
    ("a map inside a map that is there", {"m": {"x": {}}}, operate(maps.map_put("m", "z", 2, ctx=[cdt_ctx.cdt_ctx_map_key_create("x", aerospike.MAP_KEY_ORDERED), cdt_ctx.cdt_ctx_map_key("y")])), code(26)),
    ("key-ordered", M, ordered(maps.map_set_policy("m", {"map_order": aerospike.MAP_KEY_ORDERED}), maps.map_get_by_index_range("m", 0, 3, KEY)), anything(lambda v: v[-1] == ("m", ["a", "b", "c"]), "keys in order")),
    ("an operation on no map", {"m": 1}, operate(maps.map_put("m", "a", 4)), code(12)),
]

BITS = [
    ("set", {"b": bytes(3)}, after(bits.bit_set("b", 4, 8, 1, bytes([0xFF]))), {"b": b"\x0f\xf0\x00"}),
    ("get", {"b": b"\x0f\xf0"}, operate(bits.bit_get("b", 4, 8)), {"b": b"\xff"}),
    ("count", {"b": b"\x0f\xf0"}, operate(bits.bit_count("b", 0, 16)), {"b": 8}),
    ("add", {"b": b"\x01"}, after(bits.bit_add("b", 0, 8, 2, False, aerospike.BIT_OVERFLOW_FAIL)), {"b": b"\x03"}),
    ("add beyond", {"b": b"\xff"}, operate(bits.bit_add("b", 0, 8, 2, False, aerospike.BIT_OVERFLOW_FAIL)), code(26)),
    ("get int", {"b": b"\xff\xfe"}, operate(bits.bit_get_int("b", 0, 16, True)), {"b": -2}),
    ("resize", {"b": b"\x01"}, after(bits.bit_resize("b", 3)), {"b": b"\x01\x00\x00"}),
    ("beyond the end", {"b": b"\x01"}, operate(bits.bit_get("b", 8, 8)), code(26)),
]

HLL = [
    ("add and count", None, ordered(hll.hll_add("h", ["a", "b", "c"], 8), hll.hll_get_count("h")), [("h", 3), ("h", 3)]),
    ("describe", None, ordered(hll.hll_init("h", 8, 4), hll.hll_describe("h")), anything(lambda v: v[-1] == ("h", [8, 4]), "[8, 4]")),
    ("on no sketch", {"h": 1}, operate(hll.hll_get_count("h")), code(12)),
]

E = {"i": 7, "s": "abc", "l": [1, 2, 3], "m": {"a": 1}}


def filtered(expression):
    return lambda c, k: c.get(k, policy={"expressions": expression.compile()})[2]["i"]


EXPRESSIONS = [
    ("a filter that holds", E, filtered(exp.GT(exp.IntBin("i"), 3)), 7),
    ("a filter that does not", E, filtered(exp.GT(exp.IntBin("i"), 8)), code(27)),
    ("unknown does not hold", E, filtered(exp.GT(exp.IntBin("none"), 8)), code(27)),
    ("types that do not fit", E, filtered(exp.GT(exp.IntBin("i"), "x")), code(4)),
    ("and, or, not", E, filtered(exp.And(exp.Or(exp.Eq(exp.StrBin("s"), "x"), exp.Eq(exp.StrBin("s"), "abc")), exp.Not(exp.Eq(exp.IntBin("i"), 1)))), 7),
    ("regular expression", E, filtered(exp.CmpRegex(aerospike.REGEX_ICASE, "^AB", exp.StrBin("s"))), 7),
    ("metadata", E, filtered(exp.And(exp.Eq(exp.SetName(), SET), exp.LT(exp.SinceUpdateTime(), 100_000))), 7),
    ("list size", E, filtered(exp.Eq(exp.ListSize(None, exp.ListBin("l")), 3)), 7),
    ("map value", E, filtered(exp.Eq(exp.MapGetByKey(None, VALUE, exp.ResultType.INTEGER, "a", exp.MapBin("m")), 1)), 7),
    ("a filter on a put", E, put({"i": 9}, policy={"expressions": exp.Eq(exp.IntBin("i"), 1).compile()}), code(27)),
    ("a filter on a remove", E, lambda c, k: c.remove(k, policy={"expressions": exp.Eq(exp.IntBin("i"), 1).compile()}), code(27)),
    ("read", E, operate(expressions.expression_read("r", arithmetic.Add(exp.IntBin("i"), 3).compile())), {"r": 10}),
    ("write", E, lambda c, k: (c.operate(k, [expressions.expression_write("j", arithmetic.Mul(exp.IntBin("i"), 3).compile())]), get(c, k)["j"])[1], 21),
    ("write, then read it", E, operate(expressions.expression_write("j", arithmetic.Mul(exp.IntBin("i"), 3).compile()), ops.read("j")), anything(lambda bins: bins["j"] == 21, "21")),
    ("let and condition", E, operate(expressions.expression_read("r", exp.Let(exp.Def("x", exp.IntBin("i")), exp.Cond(exp.GT(exp.Var("x"), 5), "big", "small")).compile())), {"r": "big"}),
    ("the size of a record", {"b": bytes(65_536)}, operate(expressions.expression_read("r", exp.RecordSize().compile())), {"r": anything(lambda size: 65_536 < size < 66_048, "a little above 65,536")}),
    ("read of what is not there", E, operate(expressions.expression_read("r", exp.IntBin("none").compile())), code(26)),
]

ERRORS = [
    ("a namespace that is not there", None, lambda c, k: c.get(("nowhere", "s", 1)), code(20)),
    ("what only an enterprise has", None, lambda c, k: c.info_random_node("racks:"), code(25)),
    ("an unknown info command", None, lambda c, k: c.info_random_node("no-such-command"), code(4)),
    ("a function that is not there", {"i": 1}, lambda c, k: c.apply(k, "module", "function", []), code(100)),
]


def run_table(client, name, rows):
    failures = 0
    for number, (what, start, call, expected) in enumerate(rows):
        key = (NAMESPACE, SET, f"{name}-{number}")
        if client.exists(key)[1] is not None:
            client.remove(key)
        if start is not None:
            client.put(key, start)
        try:
            found = call(client, key)
        except exception.AerospikeError as error:
            found = error
        if isinstance(expected, code):
            good = isinstance(found, exception.AerospikeError) and found.code == expected.number
        else:
            good = not isinstance(found, exception.AerospikeError) and expected == found
        if not good:
            failures += 1
            print(f"FAILED {name}: {what}: expected {expected!r}, found {found!r}")
    print(f"{name}: {len(rows) - failures} of {len(rows)}")
    return failures


def check(failures, what, found, expected):
    if found != expected:
        failures.append(what)
        print(f"FAILED {what}: expected {expected!r}, found {found!r}")


def batches(client):
    failures = []
    keys = [(NAMESPACE, "batch", number) for number in range(300)]
    written = client.batch_write(batch.BatchRecords([batch.Write(key, [ops.write("n", key[2])]) for key in keys]))
    check(failures, "batch write", [row.result for row in written.batch_records], [0] * 300)
    read = client.batch_read(keys + [(NAMESPACE, "batch", 1000)])
    check(failures, "batch read", [row.record[2]["n"] for row in read.batch_records[:300]], list(range(300)))
    check(failures, "batch read of nothing", read.batch_records[300].result, 2)
    some = client.batch_read(keys[:3], ["none"])
    check(failures, "batch read of a bin that is not there", [row.record[2] for row in some.batch_records], [{}] * 3)
    odd = exp.Eq(arithmetic.Mod(exp.IntBin("n"), 2), 1).compile()
    filtered_rows = client.batch_read(keys[:4], policy={"expressions": odd})
    check(failures, "batch filter", [row.result for row in filtered_rows.batch_records], [27, 0, 27, 0])
    operated = client.batch_operate(keys[:5], [ops.increment("n", 100), ops.read("n")])
    check(failures, "batch operate", [row.record[2]["n"] for row in operated.batch_records], [100, 101, 102, 103, 104])
    mixed = client.batch_write(batch.BatchRecords([
        batch.Read(keys[5], [ops.read("n")]),
        batch.Write(keys[6], [lists.list_append("n", 1)]),
        batch.Write(keys[7], [ops.write("m", 1), ops.read("n")]),
        batch.Remove(keys[8]),
        batch.Read(keys[9], None, read_all_bins=True),
    ]))
    check(failures, "mixed batch", [row.result for row in mixed.batch_records], [0, 12, 0, 0, 0])
    # Version 17 does not send the filter of a row.
    if VERSION >= (18,):
        own = batch.Write(keys[10], [ops.write("m", 1)], policy={"expressions": exp.Eq(exp.IntBin("n"), 0).compile()})
        rows = client.batch_write(batch.BatchRecords([own, batch.Read(keys[11], [ops.read("n")])]))
        check(failures, "filter of a row", [row.result for row in rows.batch_records], [27, 0])
    removed = client.batch_remove(keys)
    check(failures, "batch remove", sorted(row.result for row in removed.batch_records), [0] * 299 + [2])
    print(f"batches: {'well' if not failures else 'failed'}")
    return len(failures)


def scans(client):
    failures = []
    count = 500
    for number in range(count):
        client.put((NAMESPACE, "scan", number), {"n": number, "odd" if number % 2 else "even": 1})
    numbers = lambda records: sorted(record[2]["n"] for record in records)
    check(failures, "scan", numbers(client.scan(NAMESPACE, "scan").results()), list(range(count)))
    query = client.query(NAMESPACE, "scan")
    query.select("odd")
    check(failures, "bins of a query", [record[2] for record in query.results()], [{"odd": 1}] * (count // 2))
    policy = {"expressions": exp.LT(exp.IntBin("n"), 10).compile()}
    check(failures, "filter of a query", numbers(client.query(NAMESPACE, "scan").results(policy)), list(range(10)))
    parts = []
    for begin in range(0, 4096, 1024):
        policy = {"partition_filter": {"begin": begin, "count": 1024}}
        parts += client.scan(NAMESPACE, "scan").results(policy)
    check(failures, "scan by partitions", numbers(parts), list(range(count)))
    query = client.query(NAMESPACE, "scan")
    query.max_records = 70
    query.paginate()
    pages, found = 0, []
    while not query.is_done():
        page = query.results()
        check(failures, "a page is no longer than it may be", len(page) <= 70, True)
        pages, found = pages + 1, found + page
    check(failures, "pages", numbers(found), list(range(count)))
    began = time.time()
    client.scan(NAMESPACE, "scan").results({"records_per_second": 500, "max_retries": 0})
    check(failures, "the pace of a scan", time.time() - began > 0.7, True)
    check(failures, "a set that is not there", client.scan(NAMESPACE, "nobody").results(), [])
    query = client.query(NAMESPACE, "scan")
    query.add_ops([ops.increment("n", 1000)])
    job = query.execute_background({"expressions": exp.LT(exp.IntBin("n"), 5).compile()})
    while client.job_info(job, aerospike.JOB_QUERY)["status"] == aerospike.JOB_STATUS_INPROGRESS:
        time.sleep(0.05)
    changed = [record[2]["n"] for record in client.scan(NAMESPACE, "scan").results() if record[2]["n"] >= 1000]
    check(failures, "a background query", sorted(changed), list(range(1000, 1005)))
    nobody = client.query(NAMESPACE, "nobody")
    nobody.add_ops([ops.write("n", 1)])
    nobody.execute_background()
    check(failures, "a background query makes no set", client.scan(NAMESPACE, "nobody").results(), [])
    client.truncate(NAMESPACE, "scan", 0)
    check(failures, "truncated", client.scan(NAMESPACE, "scan").results(), [])
    print(f"scans: {'well' if not failures else 'failed'}")
    return len(failures)


def indexes(client):
    """Pages of an index whose values many records share: where a page ends is known by value and digest."""
    failures = []
    for number in range(400):
        client.put((NAMESPACE, "indexed", number), {"n": number % 8, "id": number})
    client.index_integer_create(NAMESPACE, "indexed", "n", "indexed-n")
    while "state=RW" not in client.info_random_node(f"sindex-list:namespace={NAMESPACE}"):
        time.sleep(0.05)
    expected = [number for number in range(400) if 2 <= number % 8 <= 4]

    def query(most):
        query = client.query(NAMESPACE, "indexed")
        query.where(predicates.between("n", 2, 4))
        query.max_records = most
        query.paginate()
        return query

    pages, found = query(7), []
    while not pages.is_done():
        found += [record[2]["id"] for record in pages.results()]
    check(failures, "pages of an index", sorted(found), expected)
    # A new query goes on by what the one before says of each partition.
    found, status, done = [], None, False
    while not done:
        page = query(40)
        rest = {"begin": 0, "count": 4096}
        if status is not None:
            rest["partition_status"] = status
        found += [record[2]["id"] for record in page.results({"partition_filter": rest})]
        status, done = page.get_partitions_status(), page.is_done()
    check(failures, "pages of several queries", sorted(found), expected)
    client.index_remove(NAMESPACE, "indexed-n")
    client.truncate(NAMESPACE, "indexed", 0)
    print(f"indexes: {'well' if not failures else 'failed'}")
    return len(failures)


def expiry(client):
    failures = []
    key = (NAMESPACE, SET, "short")
    client.put(key, {"i": 1}, {"ttl": 1})
    time.sleep(3)
    check(failures, "an expired record is gone", client.exists(key)[1], None)
    client.put(key, {"i": 2}, policy={"exists": aerospike.POLICY_EXISTS_CREATE})
    check(failures, "and can be created", client.get(key)[1]["gen"], 1)
    print(f"expiry: {'well' if not failures else 'failed'}")
    return len(failures)


def transactions(client):
    """What the client's own suite asks of a server with transactions, and who is refused while one is open."""
    failures = []
    keys = [(NAMESPACE, SET, f"txn {number}") for number in range(40)]

    def values(policy=None, of=keys[:2]):
        return [client.get(key, policy)[2]["i"] for key in of]

    def refused(call):
        try:
            call()
        except exception.AerospikeError as error:
            return error.code
        return 0

    def begin(timeout=0):
        for number, key in enumerate(keys[:2]):
            client.put(key, {"i": number})
        transaction = aerospike.Transaction()
        transaction.timeout = timeout
        return transaction, {"txn": transaction}

    txn, inside = begin()
    client.put(keys[0], {"i": 10}, policy=inside)
    client.operate(keys[1], [ops.increment("i", 10)], policy=inside)
    check(failures, "inside", values(inside), [10, 11])
    check(failures, "outside", values(), [0, 1])
    check(failures, "a write from outside", refused(lambda: client.put(keys[0], {"i": 5})), 120)
    other, others = aerospike.Transaction(), {}
    others["txn"] = other
    check(failures, "a write of another", refused(lambda: client.put(keys[0], {"i": 5}, policy=others)), 120)
    check(failures, "the other's commit", client.commit(other), aerospike.COMMIT_OK)
    check(failures, "commit", client.commit(txn), aerospike.COMMIT_OK)
    check(failures, "committed", values(), [10, 11])
    check(failures, "commit again", client.commit(txn), aerospike.COMMIT_ALREADY_COMMITTED)
    check(failures, "abort after it", refused(lambda: client.abort(txn)) != 0, True)

    txn, inside = begin()
    client.put(keys[0], {"i": 10}, policy=inside)
    client.remove(keys[1], policy={**inside, "durable_delete": True})
    check(failures, "removed inside", refused(lambda: client.get(keys[1], inside)), 2)
    check(failures, "abort", client.abort(txn), aerospike.ABORT_OK)
    check(failures, "aborted", values(), [0, 1])
    check(failures, "commit after it", refused(lambda: client.commit(txn)) != 0, True)

    txn, inside = begin()
    check(failures, "read", client.get(keys[0], inside)[2]["i"], 0)
    client.put(keys[1], {"i": 11}, policy=inside)
    client.put(keys[0], {"i": 5})
    check(failures, "commit of what has changed", refused(lambda: client.commit(txn)) != 0, True)
    check(failures, "nothing of it", values(), [5, 1])

    txn, inside = begin()
    many = batch.BatchRecords([batch.Write(key, [ops.write("i", 7)]) for key in keys])
    client.batch_write(many, inside)
    check(failures, "a batch", {record.result for record in many.batch_records}, {0})
    check(failures, "a batch inside", values(inside, keys), [7] * len(keys))
    check(failures, "its commit", client.commit(txn), aerospike.COMMIT_OK)
    check(failures, "a batch, committed", values(of=keys), [7] * len(keys))

    txn, inside = begin(timeout=1)
    client.put(keys[0], {"i": 10}, policy=inside)
    time.sleep(2.1)
    check(failures, "its time is over", refused(lambda: client.put(keys[1], {"i": 5}, policy=inside)), 122)
    check(failures, "which holds nobody up", refused(lambda: client.put(keys[0], {"i": 5})), 0)
    client.abort(txn)
    check(failures, "and leaves nothing", values(), [5, 1])
    print(f"transactions: {'well' if not failures else 'failed'}")
    return len(failures)


def main(port):
    client = aerospike.client({"hosts": [("127.0.0.1", port)]}).connect()
    tables = {
        "records": RECORDS,
        "policies": POLICIES,
        "operate": OPERATE,
        "lists": LISTS,
        "maps": MAPS,
        "bits": BITS,
        "hll": HLL,
        "expressions": EXPRESSIONS,
        "errors": ERRORS,
    }
    failures = sum(run_table(client, name, rows) for name, rows in tables.items())
    failures += batches(client) + scans(client) + indexes(client) + expiry(client)
    failures += transactions(client)
    client.close()
    print(f"aerospike {version('aerospike')}: {failures} failures")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
