//! What expressions mean, as tables: one row a rule of section 10 of the specification.
//!
//! What they see of a record besides its bins, and filters in two phases, are tested beside the implementation.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use spikelet::expressions::{self as exp, *};
use spikelet::operations::{self, ctx, exp as ops};
use spikelet::{
    BitOverflow, BitPolicy, BitResizeFlags, BitSign, ExpReadFlags, ExpType, ExpWriteFlags,
    Expression, HllPolicy, List, ListOrder, ListPolicy, ListReturnType, ListWriteFlags,
    LoopVariable, Map, MapOrder, MapPolicy, MapReturnType, PathFlags, PathResult,
    RecordExistsAction, RegexFlags, Set, Step, Store, Value, WritePolicy,
};

const PARAMETER: u8 = 4;
const MALFORMED: u8 = 1;
const BIN_EXISTS: u8 = 6;
const WRONG_TYPE: u8 = 12;
const BIN_NOT_FOUND: u8 = 17;
const NOT_APPLICABLE: u8 = 26;

const KEY: &str = "key";
const POINT: &str = r#"{"type":"Point","coordinates":[15.4,47.1]}"#;
const FAR: &str = r#"{"type":"Point","coordinates":[-70.0,-30.0]}"#;
const AROUND: &str = r#"{"type":"AeroCircle","coordinates":[[15.4,47.1],1000.0]}"#;

/// What comes of an expression.
#[derive(Debug, PartialEq)]
enum Outcome {
    Is(Value),
    Unknown,
    /// Before it is evaluated.
    Refused,
}

use Outcome::{Refused, Unknown};

fn is(value: impl Into<Value>) -> Outcome {
    Outcome::Is(value.into())
}

fn list<const N: usize>(items: [Value; N]) -> Value {
    Value::List(items.to_vec().into())
}

fn ints<const N: usize>(items: [i64; N]) -> Value {
    Value::List(items.into_iter().collect())
}

fn map_of<const N: usize>(order: MapOrder, entries: [(&str, Value); N]) -> Value {
    let entries = entries.into_iter().map(|(key, value)| (key.into(), value));
    Value::Map(Map::new(entries.collect(), order))
}

fn by_key<const N: usize>(entries: [(&str, Value); N]) -> Value {
    map_of(MapOrder::KeyOrdered, entries)
}

/// A set with one record.
fn record() -> Set {
    let set = Store::in_memory().unwrap().set("set").unwrap();
    let bins = [
        ("i", 5.into()),
        ("neg", (-3).into()),
        ("f", 2.5.into()),
        ("s", "hello".into()),
        ("b", b"\x01\x02\x03".into()),
        ("t", true.into()),
        ("l", ints([1, 2, 3])),
        ("m", by_key([("a", 1.into()), ("b", 2.into())])),
        ("u", map_of(MapOrder::Unordered, [("a", 1.into())])),
        ("nested", by_key([("in", ints([7, 8]))])),
        ("g", Value::GeoJson(POINT.into())),
    ];
    set.put(KEY, bins).unwrap();
    let sketch = operations::hll::add_with_index_bits(
        &HllPolicy::default(),
        "h",
        vec!["x".into(), "y".into()],
        8,
    );
    set.operate(KEY, &[sketch]).unwrap();
    set
}

fn evaluate(set: &Set, expression: Expression) -> Outcome {
    match set.operate(KEY, &[ops::read("r", expression, ExpReadFlags::empty())]) {
        Ok(done) => is(done.bin("r").cloned().unwrap_or(Value::Nil)),
        Err(error) if error.result_code() == NOT_APPLICABLE => Unknown,
        Err(error) => {
            assert_eq!(error.result_code(), PARAMETER, "{error}");
            Refused
        }
    }
}

fn check<const N: usize>(table: [(&str, Expression, Outcome); N]) {
    let set = record();
    for (what, expression, expected) in table {
        assert_eq!(
            evaluate(&set, expression.clone()),
            expected,
            "{what}: {expression:?}"
        );
    }
}

/// A truth value that is not known.
fn unknown_bool() -> Expression {
    bool_bin("missing")
}

// 10.1 and 10.3: literals.

#[test]
fn literals_stand_for_themselves() {
    check([
        ("nil", nil(), is(Value::Nil)),
        ("bool", bool_val(true), is(true)),
        ("int", int_val(-70_000), is(-70_000)),
        ("float", float_val(1.5), is(1.5)),
        ("string", string_val("x"), is("x")),
        ("blob", blob_val(*b"\x00\xff"), is(b"\x00\xff")),
        ("geojson", geo_val(POINT), is(Value::GeoJson(POINT.into()))),
        ("list", val(ints([1, 2])), is(ints([1, 2]))),
        ("empty list", val(ints([])), is(ints([]))),
        (
            "map",
            val(by_key([("k", 1.into())])),
            is(by_key([("k", 1.into())])),
        ),
        ("text that is no GeoJSON", geo_val("{}"), Refused),
        ("wildcard", val(Value::Wildcard), Refused),
        ("infinity", val(Value::Infinity), Refused),
    ]);
}

// 10.3: bins, 80 to 82.

#[test]
fn bins_are_known_if_they_are_of_the_type() {
    check([
        ("int", int_bin("i"), is(5)),
        ("float", float_bin("f"), is(2.5)),
        ("string", string_bin("s"), is("hello")),
        ("blob", blob_bin("b"), is(b"\x01\x02\x03")),
        ("bool", bool_bin("t"), is(true)),
        ("list", list_bin("l"), is(ints([1, 2, 3]))),
        (
            "map",
            map_bin("m"),
            is(by_key([("a", 1.into()), ("b", 2.into())])),
        ),
        ("geojson", geo_bin("g"), is(Value::GeoJson(POINT.into()))),
        ("missing", int_bin("missing"), Unknown),
        ("of another type", int_bin("s"), Unknown),
        ("an integer is no float", float_bin("i"), Unknown),
        ("a name of 16 bytes", int_bin("sixteen bytes..."), Refused),
        ("type", bin_type("s"), is(3)),
        ("type of a list", bin_type("l"), is(20)),
        ("type of what is missing", bin_type("missing"), is(0)),
        ("exists", bin_exists("i"), is(true)),
        ("does not exist", bin_exists("missing"), is(false)),
    ]);
}

// 10.2: static types.

#[test]
fn types_are_checked_before_there_is_a_record() {
    check([
        ("int and string", eq(int_bin("i"), "5"), Refused),
        ("int and float", eq(int_bin("i"), 5.0), Refused),
        ("nil and int", eq(nil(), 5), Refused),
        ("nil and nil", eq(nil(), nil()), is(true)),
        (
            "geojson has no order",
            eq(geo_bin("g"), geo_bin("g")),
            Refused,
        ),
        (
            "sketches have no order",
            lt(hll_bin("h"), hll_bin("h")),
            Refused,
        ),
        ("and of ints", and([int_val(1), int_val(1)]), Refused),
        ("and of one", and([bool_val(true)]), Refused),
        ("not of an int", exp::not(1), Refused),
        (
            "sum of int and float",
            num_add([int_bin("i"), float_val(1.0)]),
            Refused,
        ),
        ("sum of nothing", num_add([]), Refused),
        (
            "sum of texts",
            num_add([string_bin("s"), string_bin("s")]),
            Refused,
        ),
        ("mod of floats", num_mod(5.0, 2.0), Refused),
        ("pow of ints", num_pow(2, 3), Refused),
        ("bits of floats", int_and([float_val(1.0)]), Refused),
        ("scan for an int", int_lscan(1, 1), Refused),
        (
            "pattern on an int",
            regex_compare("a", RegexFlags::EXTENDED, int_bin("i")),
            Refused,
        ),
        (
            "geo of texts",
            geo_compare(geo_bin("g"), string_bin("s")),
            Refused,
        ),
        (
            "branches of two types",
            cond([bool_val(true), int_val(1), string_val("x")]),
            Refused,
        ),
        (
            "condition that is none",
            cond([int_val(1), int_val(1), int_val(2)]),
            Refused,
        ),
        ("no default", cond([bool_val(true), int_val(1)]), Refused),
        (
            "unknown fits any branch",
            cond([bool_val(true), int_val(1), unknown()]),
            is(1),
        ),
        ("unknown fits any type", eq(unknown(), 1), Unknown),
        ("keys of a list", map_keys(list_bin("l")), Refused),
        ("in a map", in_list(1, map_bin("m")), Refused),
        ("key of a type that none has", key(ExpType::Float), Refused),
        (
            "list call on a text",
            lists::size(string_bin("s"), &[]),
            Refused,
        ),
        (
            "bit call on a list",
            bits::count(0, 8, list_bin("l")),
            Refused,
        ),
        (
            "sketch call on a blob",
            hll::get_count(blob_bin("b")),
            Refused,
        ),
        ("modulus 0", digest_modulo(0), Refused),
    ]);
}

#[test]
fn a_type_error_names_the_operation() {
    let table = [
        (eq(int_bin("i"), "5"), "eq"),
        (
            and([bool_val(true), num_add([int_val(1), float_val(1.0)])]),
            "num_add",
        ),
        (exp_let([def("x", 1)], var("y")), "var"),
        (
            regex_compare("(", RegexFlags::EXTENDED, "x"),
            "regex_compare",
        ),
    ];
    for (expression, name) in table {
        let error = expression.check().unwrap_err();
        assert_eq!(error.result_code(), PARAMETER);
        assert!(error.to_string().contains(name), "{error}");
    }
}

// 10.3: comparison, 1 to 6, and 7.4.

#[test]
fn values_of_one_type_compare() {
    check([
        ("eq", eq(int_bin("i"), 5), is(true)),
        ("ne", ne(int_bin("i"), 5), is(false)),
        ("gt", gt(int_bin("i"), 4), is(true)),
        ("gt of equals", gt(int_bin("i"), 5), is(false)),
        ("ge of equals", ge(int_bin("i"), 5), is(true)),
        ("lt of negatives", lt(int_bin("neg"), -2), is(true)),
        ("le", le(int_bin("i"), 4), is(false)),
        ("floats", lt(float_bin("f"), 2.6), is(true)),
        ("zeros", eq(0.0, -0.0), is(true)),
        ("NaN equals nothing", eq(f64::NAN, f64::NAN), is(false)),
        ("NaN differs from everything", ne(f64::NAN, 1.0), is(true)),
        ("NaN is not less", lt(f64::NAN, 1.0), is(false)),
        ("false before true", lt(false, true), is(true)),
        ("bool bins", eq(bool_bin("t"), true), is(true)),
        ("texts by their bytes", lt("abc", "abd"), is(true)),
        ("a prefix is less", lt("ab", string_val("abc")), is(true)),
        (
            "blobs",
            eq(blob_bin("b"), blob_val(*b"\x01\x02\x03")),
            is(true),
        ),
        (
            "lists by their elements",
            lt(list_bin("l"), val(ints([1, 3]))),
            is(true),
        ),
        (
            "a longer list is greater",
            gt(list_bin("l"), val(ints([1, 2]))),
            is(true),
        ),
        (
            "the order of a list is no part of it",
            eq(
                list_bin("l"),
                List::new(vec![1.into(), 2.into(), 3.into()], ListOrder::Ordered),
            ),
            is(true),
        ),
        (
            "maps by key",
            eq(map_bin("m"), by_key([("b", 2.into()), ("a", 1.into())])),
            is(true),
        ),
        (
            "a smaller map is less",
            lt(by_key([("z", 9.into())]), map_bin("m")),
            is(true),
        ),
        (
            "a map without order is unknown",
            eq(map_bin("u"), map_bin("u")),
            Unknown,
        ),
        (
            "on either side",
            eq(map_bin("m"), map_of(MapOrder::Unordered, [])),
            Unknown,
        ),
        (
            "and anywhere inside",
            ne(list_bin("l"), val(list([map_of(MapOrder::Unordered, [])]))),
            Unknown,
        ),
        (
            "a wildcard ends the comparison",
            eq(list_bin("l"), val(list([1.into(), Value::Wildcard]))),
            is(true),
        ),
        (
            "with an unknown operand",
            eq(int_bin("missing"), 5),
            Unknown,
        ),
    ]);
}

// 10.3: 7, regular expressions.

#[test]
fn patterns_match_anywhere_in_a_text() {
    let extended = RegexFlags::EXTENDED;
    check([
        (
            "inside",
            regex_compare("l+", extended, string_bin("s")),
            is(true),
        ),
        (
            "not at all",
            regex_compare("^l", extended, string_bin("s")),
            is(false),
        ),
        (
            "basic syntax",
            regex_compare("l+", RegexFlags::empty(), string_bin("s")),
            is(false),
        ),
        (
            "case",
            regex_compare("HELLO", extended, string_bin("s")),
            is(false),
        ),
        (
            "either case",
            regex_compare("HELLO", extended | RegexFlags::ICASE, string_bin("s")),
            is(true),
        ),
        (
            "lines",
            regex_compare("^b$", extended | RegexFlags::NEWLINE, "a\nb"),
            is(true),
        ),
        (
            "no lines",
            regex_compare("^b$", extended | RegexFlags::NOSUB, "a\nb"),
            is(false),
        ),
        (
            "malformed",
            regex_compare("(", extended, string_bin("s")),
            Refused,
        ),
        (
            "of an unknown text",
            regex_compare("a", extended, string_bin("missing")),
            Unknown,
        ),
    ]);
}

// 10.3: 8, geometry.

#[test]
fn a_region_contains_a_point() {
    check([
        (
            "point in region",
            geo_compare(geo_bin("g"), geo_val(AROUND)),
            is(true),
        ),
        (
            "region around point",
            geo_compare(geo_val(AROUND), geo_bin("g")),
            is(true),
        ),
        (
            "outside",
            geo_compare(geo_val(FAR), geo_val(AROUND)),
            is(false),
        ),
        (
            "two points",
            geo_compare(geo_bin("g"), geo_val(POINT)),
            is(false),
        ),
        (
            "unknown",
            geo_compare(geo_bin("missing"), geo_val(AROUND)),
            Unknown,
        ),
    ]);
}

// 10.3: 9, 101, 102.

#[test]
fn lists_and_maps_are_looked_into() {
    check([
        ("in a list", in_list(2, list_bin("l")), is(true)),
        ("not in a list", in_list(4, list_bin("l")), is(false)),
        ("of another type", in_list("2", list_bin("l")), is(false)),
        (
            "a bin in a literal",
            in_list(string_bin("s"), val(list(["hello".into()]))),
            is(true),
        ),
        (
            "a list in a list",
            in_list(list_bin("l"), val(list([ints([1, 2, 3])]))),
            is(true),
        ),
        (
            "in an unknown list",
            in_list(1, list_bin("missing")),
            Unknown,
        ),
        (
            "an unknown value",
            in_list(int_bin("missing"), list_bin("l")),
            Unknown,
        ),
        (
            "keys",
            map_keys(map_bin("m")),
            is(list(["a".into(), "b".into()])),
        ),
        ("values", map_values(map_bin("m")), is(ints([1, 2]))),
        (
            "keys of nothing",
            map_keys(val(Map::default())),
            is(ints([])),
        ),
    ]);
}

// 10.3: 16 to 19, and 10.5.

#[test]
fn logic_has_three_values() {
    let (yes, no) = (|| bool_val(true), || bool_val(false));
    check([
        ("and", and([yes(), yes(), yes()]), is(true)),
        ("and with false", and([yes(), no()]), is(false)),
        ("and with unknown", and([yes(), unknown_bool()]), Unknown),
        (
            "and decided behind unknown",
            and([unknown_bool(), no()]),
            is(false),
        ),
        ("or", or([no(), no(), yes()]), is(true)),
        ("or of false", or([no(), no()]), is(false)),
        ("or with unknown", or([no(), unknown_bool()]), Unknown),
        (
            "or decided behind unknown",
            or([unknown_bool(), yes()]),
            is(true),
        ),
        ("not", exp::not(no()), is(true)),
        ("not unknown", exp::not(unknown_bool()), Unknown),
        ("exactly one", xor([no(), yes(), no()]), is(true)),
        ("none", xor([no(), no()]), is(false)),
        ("two", xor([yes(), yes()]), is(false)),
        (
            "two before unknown",
            xor([yes(), yes(), unknown_bool()]),
            is(false),
        ),
        (
            "unknown before two",
            xor([yes(), unknown_bool(), yes()]),
            Unknown,
        ),
    ]);
}

// 10.3: 20 to 31, 50, 51.

#[test]
fn numbers_are_computed() {
    check([
        (
            "add",
            num_add([int_bin("i"), int_val(1), int_bin("neg")]),
            is(3),
        ),
        ("add of one", num_add([int_bin("i")]), is(5)),
        (
            "add of floats",
            num_add([float_bin("f"), float_val(0.5)]),
            is(3.0),
        ),
        (
            "add wraps",
            num_add([int_val(i64::MAX), int_val(1)]),
            is(i64::MIN),
        ),
        (
            "sub",
            num_sub([int_bin("i"), int_val(1), int_val(2)]),
            is(2),
        ),
        ("sub of one", num_sub([int_bin("i")]), is(-5)),
        ("sub of one float", num_sub([float_bin("f")]), is(-2.5)),
        ("mul", num_mul([int_bin("i"), int_val(-2)]), is(-10)),
        (
            "mul wraps",
            num_mul([int_val(i64::MAX), int_val(2)]),
            is(-2),
        ),
        (
            "div",
            num_div([int_val(100), int_val(3), int_val(4)]),
            is(8),
        ),
        (
            "div of floats",
            num_div([float_val(5.0), float_val(2.0)]),
            is(2.5),
        ),
        ("div of one", num_div([int_val(2)]), is(0)),
        ("div of one float", num_div([float_val(4.0)]), is(0.25)),
        (
            "div towards zero",
            num_div([int_val(-7), int_val(2)]),
            is(-3),
        ),
        ("div by zero", num_div([int_val(1), int_val(0)]), Unknown),
        (
            "div by a product of zero",
            num_div([int_val(1), int_val(5), int_val(0)]),
            Unknown,
        ),
        ("div of zero alone", num_div([int_val(0)]), Unknown),
        (
            "div of floats by zero",
            num_div([float_val(1.0), float_val(0.0)]),
            is(f64::INFINITY),
        ),
        (
            "div of the least",
            num_div([int_val(i64::MIN), int_val(-1)]),
            is(i64::MIN),
        ),
        ("pow", num_pow(2.0, 10.0), is(1024.0)),
        ("log", num_log(8.0, 2.0), is(3.0)),
        ("mod", num_mod(7, 3), is(1)),
        ("mod has the sign of the dividend", num_mod(-7, 3), is(-1)),
        ("mod by zero", num_mod(7, 0), Unknown),
        ("mod of the least", num_mod(i64::MIN, -1), is(0)),
        ("abs", num_abs(int_bin("neg")), is(3)),
        ("abs of a float", num_abs(-1.5), is(1.5)),
        ("abs of the least", num_abs(i64::MIN), is(i64::MIN)),
        ("floor", num_floor(-1.5), is(-2.0)),
        ("ceil", num_ceil(-1.5), is(-1.0)),
        ("to int", to_int(-1.9), is(-1)),
        ("to int beyond", to_int(1e300), is(i64::MAX)),
        ("to float", to_float(int_bin("i")), is(5.0)),
        (
            "min",
            min([int_bin("i"), int_bin("neg"), int_val(0)]),
            is(-3),
        ),
        ("max", max([float_bin("f"), float_val(9.5)]), is(9.5)),
        (
            "with an unknown operand",
            num_add([int_val(1), int_bin("missing")]),
            Unknown,
        ),
        ("last", num_mul([int_bin("missing"), int_val(1)]), Unknown),
    ]);
}

// 10.3: 32 to 41.

#[test]
fn bits_of_integers_are_computed() {
    check([
        (
            "and",
            int_and([int_val(0b1100), int_val(0b1010), int_val(0b1001)]),
            is(0b1000),
        ),
        ("or", int_or([int_val(0b1100), int_val(0b0010)]), is(0b1110)),
        (
            "xor",
            int_xor([int_val(0b1100), int_val(0b1010)]),
            is(0b0110),
        ),
        ("not", int_not(0), is(-1)),
        ("lshift", int_lshift(1, 4), is(16)),
        ("lshift out", int_lshift(1, 63), is(i64::MIN)),
        ("lshift by 64 is by 0", int_lshift(1, 64), is(1)),
        ("lshift by -1 is by 63", int_lshift(1, -1), is(i64::MIN)),
        ("rshift fills with 0", int_rshift(-1, 60), is(15)),
        ("arshift fills with the sign", int_arshift(-16, 2), is(-4)),
        ("count", int_count(-1), is(64)),
        ("lscan", int_lscan(1, true), is(63)),
        ("lscan for 0", int_lscan(-1, false), is(-1)),
        ("lscan of the sign", int_lscan(i64::MIN, true), is(0)),
        ("rscan", int_rscan(i64::MIN, true), is(0)),
        ("rscan for 0", int_rscan(1, false), is(62)),
        ("rscan of nothing", int_rscan(0, true), is(-1)),
    ]);
}

// 10.3: 123 to 125.

#[test]
fn choices_and_variables() {
    let is_positive = || gt(int_bin("i"), 0);
    check([
        (
            "first",
            cond([is_positive(), string_val("+"), string_val("-")]),
            is("+"),
        ),
        (
            "default",
            cond([exp::not(is_positive()), string_val("-"), string_val("+")]),
            is("+"),
        ),
        (
            "second",
            cond([
                bool_val(false),
                int_val(1),
                bool_val(true),
                int_val(2),
                int_val(3),
            ]),
            is(2),
        ),
        (
            "unknown condition",
            cond([
                unknown_bool(),
                int_val(1),
                bool_val(true),
                int_val(2),
                int_val(3),
            ]),
            Unknown,
        ),
        (
            "unknown value",
            cond([bool_val(true), unknown(), int_val(3)]),
            Unknown,
        ),
        (
            "unknown value that is not chosen",
            cond([bool_val(false), unknown(), int_val(3)]),
            is(3),
        ),
        (
            "variable",
            exp_let([def("x", int_bin("i"))], num_mul([var("x"), var("x")])),
            is(25),
        ),
        (
            "one by another",
            exp_let(
                [def("x", 2), def("y", num_add([var("x"), int_val(1)]))],
                var("y"),
            ),
            is(3),
        ),
        (
            "of a scope inside",
            exp_let(
                [def("x", 2)],
                exp_let([def("y", 3)], num_add([var("x"), var("y")])),
            ),
            is(5),
        ),
        (
            "beside one another",
            num_add([
                exp_let([def("x", 2)], var("x")),
                exp_let([def("x", 3)], var("x")),
            ]),
            is(5),
        ),
        (
            "in a definition",
            exp_let(
                [def("x", exp_let([def("y", 4)], var("y"))), def("z", 1)],
                num_add([var("x"), var("z")]),
            ),
            is(5),
        ),
        (
            "unknown one that is used",
            exp_let([def("x", int_bin("missing"))], var("x")),
            Unknown,
        ),
        (
            "unknown one that is not used",
            exp_let([def("x", int_bin("missing"))], int_val(1)),
            is(1),
        ),
        (
            "a list",
            exp_let([def("x", list_bin("l"))], lists::size(var("x"), &[])),
            is(3),
        ),
        (
            "has the type of its definition",
            exp_let([def("x", int_bin("i"))], eq(var("x"), "5")),
            Refused,
        ),
        ("not defined", var("x"), Refused),
        (
            "out of its scope",
            num_add([exp_let([def("x", 2)], var("x")), var("x")]),
            Refused,
        ),
        (
            "by itself",
            exp_let([def("x", var("x"))], var("x")),
            Refused,
        ),
        (
            "twice",
            exp_let([def("x", 1), def("x", 2)], var("x")),
            Refused,
        ),
        (
            "again inside",
            exp_let([def("x", 1)], exp_let([def("x", 2)], var("x"))),
            Refused,
        ),
        ("digit first", exp_let([def("1x", 1)], int_val(1)), Refused),
        (
            "underscore first",
            exp_let([def("_1", 1)], var("_1")),
            is(1),
        ),
        ("no name", exp_let([def("", 1)], int_val(1)), Refused),
        (
            "a sign in it",
            exp_let([def("a-b", 1)], int_val(1)),
            Refused,
        ),
        ("no definition", exp_let([], int_val(1)), Refused),
    ]);
}

// 10.4: calls.

#[test]
fn calls_that_read_have_the_result_of_the_operation() {
    let value = ListReturnType::Values;
    check([
        ("size", lists::size(list_bin("l"), &[]), is(3)),
        ("size of a literal", lists::size(val(ints([1])), &[]), is(1)),
        (
            "size of a missing bin",
            lists::size(list_bin("missing"), &[]),
            Unknown,
        ),
        (
            "element",
            lists::get_by_index(value, ExpType::Int, -1, list_bin("l"), &[]),
            is(3),
        ),
        (
            "element of another type",
            lists::get_by_index(value, ExpType::String, -1, list_bin("l"), &[]),
            Unknown,
        ),
        (
            "no element",
            lists::get_by_index(value, ExpType::Int, 9, list_bin("l"), &[]),
            Unknown,
        ),
        (
            "several",
            lists::get_by_index_range(value, 1, list_bin("l"), &[]),
            is(ints([2, 3])),
        ),
        (
            "by a computed index",
            lists::get_by_index(
                value,
                ExpType::Int,
                num_sub([int_bin("i"), int_val(4)]),
                list_bin("l"),
                &[],
            ),
            is(2),
        ),
        (
            "by an unknown index",
            lists::get_by_index(value, ExpType::Int, int_bin("missing"), list_bin("l"), &[]),
            Unknown,
        ),
        (
            "by value",
            lists::get_by_value(ListReturnType::Count, 2, list_bin("l"), &[]),
            is(1),
        ),
        (
            "by value of a bin",
            lists::get_by_value(ListReturnType::Exists, int_bin("i"), list_bin("l"), &[]),
            is(false),
        ),
        (
            "by a list of values",
            lists::get_by_value_list(ListReturnType::Index, val(ints([3, 1])), list_bin("l"), &[]),
            is(ints([0, 2])),
        ),
        (
            "inverted",
            lists::get_by_value(value.inverted(), 2, list_bin("l"), &[]),
            is(ints([1, 3])),
        ),
        (
            "interval",
            lists::get_by_value_range(value, Some(2.into()), None, list_bin("l"), &[]),
            is(ints([2, 3])),
        ),
        (
            "wildcard",
            lists::get_by_value(
                ListReturnType::Count,
                val(list([1.into(), Value::Wildcard])),
                val(list([ints([1, 5]), ints([2, 5])])),
                &[],
            ),
            is(1),
        ),
        (
            "key",
            maps::get_by_key(MapReturnType::Value, ExpType::Int, "b", map_bin("m"), &[]),
            is(2),
        ),
        (
            "no key",
            maps::get_by_key(MapReturnType::Value, ExpType::Int, "z", map_bin("m"), &[]),
            Unknown,
        ),
        (
            "rank of a key",
            maps::get_by_key(MapReturnType::Rank, ExpType::Int, "b", map_bin("m"), &[]),
            is(1),
        ),
        (
            "keys in a range",
            maps::get_by_key_range(
                MapReturnType::Key,
                Some("b".into()),
                None,
                map_bin("m"),
                &[],
            ),
            is(list(["b".into()])),
        ),
        (
            "below a context",
            lists::size(map_bin("nested"), &[ctx::map_key("in")]),
            is(2),
        ),
        (
            "below a context that is not there",
            lists::size(map_bin("nested"), &[ctx::map_key("out")]),
            Unknown,
        ),
        (
            "a list operation on a map",
            lists::size(map_bin("m"), &[]),
            Unknown,
        ),
        (
            "bits",
            bits::get_int(0, 16, BitSign::Unsigned, blob_bin("b")),
            is(0x0102),
        ),
        (
            "bits, computed",
            bits::count(0, num_mul([int_val(8), int_val(3)]), blob_bin("b")),
            is(4),
        ),
        (
            "bits beyond the end",
            bits::count(0, 99, blob_bin("b")),
            Unknown,
        ),
        ("sketch", hll::get_count(hll_bin("h")), is(2)),
        (
            "sketch in a list",
            hll::get_union_count(hll_bin("h"), hll_bin("h")),
            is(2),
        ),
        (
            "sketch, described",
            hll::describe(hll_bin("h")),
            is(ints([8, 0])),
        ),
        (
            "sketch, asked",
            hll::may_contain(val(list(["x".into()])), hll_bin("h")),
            is(1),
        ),
    ]);
}

#[test]
fn geojson_from_inside_a_list_must_be_one() {
    let set = record();
    let geo = |text: &str| val(list([Value::GeoJson(text.into())]));
    let first = |list| lists::get_by_index(ListReturnType::Values, ExpType::Geo, 0, list, &[]);
    let point = Value::GeoJson(POINT.into());
    assert_eq!(evaluate(&set, first(geo(POINT))), is(point));
    assert_eq!(evaluate(&set, first(geo("no geometry"))), Unknown);
}

#[test]
fn calls_that_modify_have_the_modified_value() {
    let policy = ListPolicy::default();
    check([
        (
            "append",
            lists::append(&policy, 4, list_bin("l"), &[]),
            is(ints([1, 2, 3, 4])),
        ),
        (
            "append a bin",
            lists::append(&policy, int_bin("i"), list_bin("l"), &[]),
            is(ints([1, 2, 3, 5])),
        ),
        (
            "append a list",
            lists::append(&policy, val(ints([9])), list_bin("l"), &[]),
            is(list([1.into(), 2.into(), 3.into(), ints([9])])),
        ),
        (
            "chained",
            lists::size(
                lists::append(
                    &policy,
                    4,
                    lists::append(&policy, 4, list_bin("l"), &[]),
                    &[],
                ),
                &[],
            ),
            is(5),
        ),
        (
            "to a literal",
            lists::append(&policy, 1, val(ints([])), &[]),
            is(ints([1])),
        ),
        (
            "to nothing",
            lists::append(&policy, 1, nil(), &[]),
            is(ints([1])),
        ),
        (
            "to an unknown bin",
            lists::append(&policy, 1, list_bin("missing"), &[]),
            Unknown,
        ),
        (
            "remove",
            lists::remove_by_value(2, list_bin("l"), &[]),
            is(ints([1, 3])),
        ),
        (
            "remove nothing",
            lists::remove_by_value(9, list_bin("l"), &[]),
            is(ints([1, 2, 3])),
        ),
        (
            "remove beyond the end",
            lists::remove_by_index(9, list_bin("l"), &[]),
            Unknown,
        ),
        (
            "remove below a context",
            lists::remove_by_index(0, map_bin("nested"), &[ctx::map_key("in")]),
            is(by_key([("in", ints([8]))])),
        ),
        (
            "insert",
            lists::insert(&policy, 0, 9, list_bin("l"), &[]),
            is(ints([9, 1, 2, 3])),
        ),
        (
            "store a wildcard",
            lists::append(&policy, val(list([Value::Wildcard])), list_bin("l"), &[]),
            Unknown,
        ),
        (
            "put",
            maps::put(&MapPolicy::default(), "c", int_bin("i"), map_bin("m"), &[]),
            is(by_key([("a", 1.into()), ("b", 2.into()), ("c", 5.into())])),
        ),
        (
            "remove a key",
            maps::remove_by_key("a", map_bin("m"), &[]),
            is(by_key([("b", 2.into())])),
        ),
        (
            "bits",
            bits::set(
                &BitPolicy::default(),
                0,
                8,
                blob_val(*b"\xff"),
                blob_bin("b"),
            ),
            is(b"\xff\x02\x03"),
        ),
        (
            "bits added",
            bits::add(
                &BitPolicy::default(),
                0,
                8,
                int_bin("i"),
                BitSign::Unsigned,
                BitOverflow::Fail,
                blob_bin("b"),
            ),
            is(b"\x06\x02\x03"),
        ),
        (
            "bits of nothing",
            bits::resize(&BitPolicy::default(), 2, BitResizeFlags::empty(), nil()),
            is(b"\x00\x00"),
        ),
        (
            "sketch",
            hll::get_count(hll::add(
                &HllPolicy::default(),
                val(list(["z".into()])),
                hll_bin("h"),
            )),
            is(3),
        ),
    ]);
    // The bins stay as they are.
    let set = record();
    evaluate(&set, lists::clear(list_bin("l"), &[]));
    assert_eq!(
        set.get(KEY).unwrap().unwrap().get("l"),
        Some(ints([1, 2, 3]))
    );
}

// 10.6.

#[test]
fn an_operation_writes_the_value_to_a_bin() {
    let none = ExpWriteFlags::empty();
    let create = ExpWriteFlags::CREATE_ONLY;
    let update = ExpWriteFlags::UPDATE_ONLY;
    let delete = ExpWriteFlags::ALLOW_DELETE;
    let policy_no_fail = ExpWriteFlags::POLICY_NO_FAIL;
    let eval_no_fail = ExpWriteFlags::EVAL_NO_FAIL;
    let same = || Ok(Some(Value::Int(5)));
    let missing = || Ok(None);
    let code = Err;
    let table = [
        ("overwrites", "i", int_val(1), none, Ok(Some(1.into()))),
        (
            "whatever the type was",
            "i",
            string_val("x"),
            none,
            Ok(Some("x".into())),
        ),
        (
            "creates",
            "new",
            num_add([int_bin("i"), int_val(1)]),
            none,
            Ok(Some(6.into())),
        ),
        (
            "a list",
            "new",
            list_bin("l"),
            none,
            Ok(Some(ints([1, 2, 3]))),
        ),
        ("a bool", "new", bool_val(true), none, Ok(Some(true.into()))),
        ("a float", "new", float_bin("f"), none, Ok(Some(2.5.into()))),
        (
            "a sketch",
            "new",
            geo_bin("g"),
            none,
            Ok(Some(Value::GeoJson(POINT.into()))),
        ),
        (
            "create only, existing",
            "i",
            int_val(1),
            create,
            code(BIN_EXISTS),
        ),
        (
            "create only, new",
            "new",
            int_val(1),
            create,
            Ok(Some(1.into())),
        ),
        (
            "create only, existing, forgiven",
            "i",
            int_val(1),
            create | policy_no_fail,
            same(),
        ),
        (
            "the bin is judged first",
            "i",
            unknown(),
            create,
            code(BIN_EXISTS),
        ),
        (
            "update only, missing",
            "new",
            int_val(1),
            update,
            code(BIN_NOT_FOUND),
        ),
        (
            "update only, missing, forgiven",
            "new",
            int_val(1),
            update | policy_no_fail,
            missing(),
        ),
        (
            "update only, existing",
            "i",
            int_val(1),
            update,
            Ok(Some(1.into())),
        ),
        (
            "both, existing",
            "i",
            int_val(1),
            create | update,
            code(BIN_EXISTS),
        ),
        (
            "both, missing",
            "new",
            int_val(1),
            create | update,
            code(BIN_NOT_FOUND),
        ),
        ("nil", "i", nil(), none, code(NOT_APPLICABLE)),
        ("nil, to delete", "i", nil(), delete, missing()),
        ("nil, with any other flag", "i", nil(), eval_no_fail, same()),
        ("nil, with the other one", "i", nil(), update, same()),
        ("nil, to nothing", "new", nil(), none, missing()),
        ("unknown", "i", unknown(), none, code(NOT_APPLICABLE)),
        ("unknown, forgiven", "i", unknown(), eval_no_fail, same()),
        (
            "unknown, not by the policy's",
            "i",
            unknown(),
            policy_no_fail,
            code(NOT_APPLICABLE),
        ),
        ("a type error", "i", eq(1, "x"), none, code(PARAMETER)),
        (
            "a type error is not forgiven",
            "i",
            eq(1, "x"),
            create | policy_no_fail | eval_no_fail,
            code(PARAMETER),
        ),
        (
            "a wildcard in a list",
            "i",
            val(list([Value::Wildcard])),
            none,
            code(PARAMETER),
        ),
        (
            "removal is no value",
            "i",
            result_remove(),
            none,
            code(NOT_APPLICABLE),
        ),
        (
            "an unknown flag",
            "i",
            int_val(1),
            ExpWriteFlags::from_bits_retain(32),
            code(PARAMETER),
        ),
    ];
    for (what, bin, expression, flags, expected) in table {
        let set = record();
        let done = set.operate(KEY, &[ops::write(bin, expression, flags)]);
        let after = set.get(KEY).unwrap().unwrap().get(bin);
        match expected {
            Ok(value) => {
                assert_eq!(done.unwrap().results, [], "{what}");
                assert_eq!(after, value, "{what}");
            }
            Err(code) => {
                assert_eq!(done.unwrap_err().result_code(), code, "{what}");
                let before = (bin == "i").then_some(Value::Int(5));
                assert_eq!(after, before, "{what}");
            }
        }
    }
}

#[test]
fn an_operation_reads_the_value_under_any_name() {
    let none = ExpReadFlags::empty();
    let no_fail = ExpReadFlags::EVAL_NO_FAIL;
    let set = record();
    let read = |expression, flags| set.operate(KEY, &[ops::read("no bin", expression, flags)]);
    let value = read(int_bin("i"), none).unwrap().bin("no bin").cloned();
    assert_eq!(value, Some(5.into()));
    assert_eq!(
        read(unknown(), none).unwrap_err().result_code(),
        NOT_APPLICABLE
    );
    // 2.10: nil is no result, in a transaction that only reads.
    assert_eq!(read(unknown(), no_fail).unwrap().results, []);
    assert_eq!(read(nil(), none).unwrap().results, []);
    for bits in [1, 2, 4, 8, 32] {
        let flags = ExpReadFlags::from_bits_retain(bits);
        assert_eq!(
            read(int_bin("i"), flags).unwrap_err().result_code(),
            PARAMETER
        );
    }
}

#[test]
fn expressions_see_what_the_operations_before_have_done() {
    let set = record();
    let write = |bin, expression| ops::write(bin, expression, ExpWriteFlags::empty());
    let read = |expression| ops::read("r", expression, ExpReadFlags::empty());
    let done = set
        .operate(
            KEY,
            &[
                operations::add("i", 1),
                write("twice", num_mul([int_bin("i"), int_val(2)])),
                read(int_bin("twice")),
                operations::delete_bin("twice"),
                read(bin_exists("twice")),
                read(num_add([int_bin("i"), int_bin("i")])),
            ],
        )
        .unwrap();
    let values: Vec<&Value> = done.results.iter().map(|result| &result.value).collect();
    assert_eq!(values, [&12.into(), &false.into(), &12.into()]);
    // Together with one write at the end, reads see the record as it was.
    let done = set
        .operate(
            KEY,
            &[
                read(int_bin("i")),
                write("i", num_add([int_bin("i"), int_val(1)])),
            ],
        )
        .unwrap();
    assert_eq!(done.bin("r"), Some(&6.into()));
    assert_eq!(set.get(KEY).unwrap().unwrap().get("i"), Some(7.into()));
}

#[test]
fn an_expression_may_create_a_record_or_leave_none() {
    let set = record();
    let write = |expression| ops::write("b", expression, ExpWriteFlags::ALLOW_DELETE);
    set.operate("new", &[write(int_val(1))]).unwrap();
    assert_eq!(set.get("new").unwrap().unwrap().get("b"), Some(1.into()));
    assert_eq!(set.operate("new", &[write(nil())]).unwrap().generation, 0);
    assert!(!set.exists("new").unwrap());
    assert_eq!(
        set.operate("new", &[write(nil())])
            .unwrap_err()
            .result_code(),
        2
    );
}

// 10.7: paths.

/// `{"books": [{"title": .., "price": ..} ..], "open": true}`
fn shop() -> Value {
    let book = |title: &str, price: i64| by_key([("price", price.into()), ("title", title.into())]);
    by_key([
        ("books", list([book("a", 5), book("b", 12), book("c", 20)])),
        ("open", true.into()),
    ])
}

fn price() -> Expression {
    let book = loop_var(LoopVariable::Value, ExpType::Map);
    maps::get_by_key(MapReturnType::Value, ExpType::Int, "price", book, &[])
}

fn value_int() -> Expression {
    loop_var(LoopVariable::Value, ExpType::Int)
}

/// What, result, flags, path, expected value or code.
type Selecting = (
    &'static str,
    PathResult,
    PathFlags,
    Vec<Step>,
    Result<Value, u8>,
);

/// What, start value, new value, flags, path, expected value afterwards or code.
type Changing = (
    &'static str,
    Value,
    Expression,
    PathFlags,
    Vec<Step>,
    Result<Value, u8>,
);

#[test]
fn a_path_selects_what_its_levels_choose() {
    let books = || Step::from(ctx::map_key("books"));
    let title = || Step::from(ctx::map_key("title"));
    let dear = || Step::matching(gt(price(), 10));
    let stored =
        |price: i64, title: &str| by_key([("price", price.into()), ("title", title.into())]);
    let none = PathFlags::empty();
    let no_fail = PathFlags::NO_FAIL;
    let (tree, values) = (PathResult::Tree, PathResult::Values);
    let (keys, both) = (PathResult::Keys, PathResult::KeysAndValues);
    let unordered = |entries: Vec<(Value, Value)>| Value::Map(entries.into());
    let key = || loop_var(LoopVariable::Key, ExpType::String);
    let index = || loop_var(LoopVariable::Index, ExpType::Int);
    let table: Vec<Selecting> = vec![
        (
            "titles",
            values,
            none,
            vec![books(), Step::all(), title()],
            Ok(list(["a".into(), "b".into(), "c".into()])),
        ),
        (
            "of dear books",
            values,
            none,
            vec![books(), dear(), title()],
            Ok(list(["b".into(), "c".into()])),
        ),
        (
            "as a tree",
            tree,
            none,
            vec![books(), dear(), title()],
            Ok(unordered(vec![(
                "books".into(),
                list([
                    unordered(vec![("title".into(), "b".into())]),
                    unordered(vec![("title".into(), "c".into())]),
                ]),
            )])),
        ),
        (
            "whole books, as they are stored",
            values,
            none,
            vec![books(), dear()],
            Ok(list([stored(12, "b"), stored(20, "c")])),
        ),
        (
            "by index",
            values,
            none,
            vec![books(), ctx::list_index(-1).into(), title()],
            Ok(list(["c".into()])),
        ),
        (
            "by an index beyond the end",
            values,
            none,
            vec![books(), ctx::list_index(3).into()],
            Ok(list([])),
        ),
        (
            "by rank",
            values,
            none,
            vec![books(), ctx::list_rank(0).into(), title()],
            Ok(list(["a".into()])),
        ),
        (
            "by the rank of values of a map",
            keys,
            none,
            vec![books(), Step::all(), ctx::map_rank(-1).into()],
            Ok(list(["title".into(), "title".into(), "title".into()])),
        ),
        (
            "by value",
            keys,
            none,
            vec![ctx::map_value(true).into()],
            Ok(list(["open".into()])),
        ),
        (
            "by value in a list",
            values,
            none,
            vec![books(), ctx::list_value(stored(5, "a")).into(), title()],
            Ok(list(["a".into()])),
        ),
        (
            "by index in a map",
            keys,
            none,
            vec![ctx::map_index(1).into()],
            Ok(list(["open".into()])),
        ),
        (
            "by keys",
            keys,
            none,
            vec![Step::keys(vec![
                "open".into(),
                "none".into(),
                "books".into(),
            ])],
            Ok(list(["books".into(), "open".into()])),
        ),
        (
            "keys and values",
            both,
            none,
            vec![books(), ctx::list_index(0).into(), Step::all()],
            Ok(list(["price".into(), 5.into(), "title".into(), "a".into()])),
        ),
        (
            "by key",
            keys,
            none,
            vec![Step::matching(eq(key(), "open"))],
            Ok(list(["open".into()])),
        ),
        (
            "by position",
            values,
            none,
            vec![books(), Step::matching(eq(index(), 1)), title()],
            Ok(list(["b".into()])),
        ),
        (
            "one of the keys, and a condition",
            values,
            none,
            vec![
                books(),
                Step::all(),
                Step::keys(vec!["price".into(), "title".into()]).and(eq(key(), "price")),
            ],
            Ok(ints([5, 12, 20])),
        ),
        (
            "by index, and a condition",
            values,
            none,
            vec![books(), Step::from(ctx::list_index(0)).and(gt(price(), 10))],
            Ok(list([])),
        ),
        (
            "scalars on the way are passed over",
            values,
            none,
            vec![Step::all(), Step::all(), title()],
            Ok(list(["a".into(), "b".into(), "c".into()])),
        ),
        (
            "but copied into a tree",
            tree,
            none,
            vec![Step::all(), ctx::list_index(0).into()],
            Ok(unordered(vec![
                ("books".into(), list([stored(5, "a")])),
                ("open".into(), true.into()),
            ])),
        ),
        (
            "nothing",
            tree,
            none,
            vec![Step::matching(false_expression())],
            Ok(unordered(vec![])),
        ),
        (
            "an unknown condition",
            values,
            none,
            vec![Step::matching(gt(value_int(), 1))],
            Err(PARAMETER),
        ),
        (
            "an unknown condition, forgiven",
            values,
            no_fail,
            vec![Step::matching(gt(value_int(), 1))],
            Ok(list([])),
        ),
        (
            "bins are unknown",
            values,
            none,
            vec![Step::matching(eq(int_bin("i"), 5))],
            Err(PARAMETER),
        ),
        (
            "keys of a list",
            keys,
            none,
            vec![books(), Step::all()],
            Err(WRONG_TYPE),
        ),
        (
            "keys of a list, forgiven",
            keys,
            no_fail,
            vec![books(), Step::all()],
            Ok(list([])),
        ),
        (
            "a list's level on a map",
            values,
            none,
            vec![ctx::list_index(0).into()],
            Err(PARAMETER),
        ),
        (
            "a key in a list",
            values,
            no_fail,
            vec![books(), ctx::map_key("title").into()],
            Err(PARAMETER),
        ),
        (
            "a condition that is none",
            values,
            none,
            vec![Step::matching(5)],
            Err(PARAMETER),
        ),
        (
            "two conditions more",
            values,
            none,
            vec![Step::from(ctx::map_index(0)).and(true).and(eq(1, 1))],
            Ok(list([list([
                stored(5, "a"),
                stored(12, "b"),
                stored(20, "c"),
            ])])),
        ),
        (
            "a condition more on a condition",
            values,
            none,
            vec![Step::all().and(eq(1, 1))],
            Err(PARAMETER),
        ),
        ("no levels", values, none, vec![], Err(PARAMETER)),
        (
            "65 levels",
            values,
            none,
            vec![Step::all(); 65],
            Err(PARAMETER),
        ),
    ];
    let set = record();
    set.put(KEY, [("shop", shop())]).unwrap();
    for (what, result, flags, steps, expected) in table {
        let read = operations::paths::select_by_path("shop", result, flags, steps.clone());
        let done = set.operate(KEY, &[read]);
        let got = match done {
            Ok(done) => Ok(done.bin("shop").cloned().unwrap()),
            Err(error) => Err(error.result_code()),
        };
        assert_eq!(got, expected, "{what}");
        // The same as a call: what fails is unknown.
        let call = select_by_path(ExpType::Map, result, flags, map_bin("shop"), steps);
        let expected = expected.map_or(Unknown, Outcome::Is);
        assert_eq!(evaluate(&set, call), expected, "{what}");
    }
    let scalar = operations::paths::select_by_path("i", values, none, [Step::all()]);
    assert_eq!(
        set.operate(KEY, &[scalar]).unwrap_err().result_code(),
        WRONG_TYPE
    );
    let missing = operations::paths::select_by_path("missing", values, none, [Step::all()]);
    assert_eq!(set.operate(KEY, &[missing]).unwrap().results, []);
}

fn false_expression() -> Expression {
    exp::not(true)
}

#[test]
fn a_path_changes_what_its_levels_choose() {
    let none = PathFlags::empty();
    let no_fail = PathFlags::NO_FAIL;
    let ordered = |items: Vec<Value>| Value::List(List::new(items, ListOrder::Ordered));
    let all = || vec![Step::all()];
    let negated = || num_sub([value_int()]);
    let even = || eq(num_mod(value_int(), 2), 0);
    let cut = || cond([even(), result_remove(), value_int()]);
    let mixed = || list([1.into(), "x".into(), 3.into()]);
    let table: Vec<Changing> = vec![
        (
            "elements",
            ints([1, 2, 3]),
            num_mul([value_int(), int_val(10)]),
            none,
            all(),
            Ok(ints([10, 20, 30])),
        ),
        (
            "chosen ones",
            ints([1, 2, 3]),
            num_mul([value_int(), int_val(10)]),
            none,
            vec![Step::matching(even())],
            Ok(ints([1, 20, 3])),
        ),
        (
            "removed",
            ints([1, 2, 3, 4]),
            result_remove(),
            none,
            vec![Step::matching(even())],
            Ok(ints([1, 3])),
        ),
        (
            "removed or kept",
            ints([1, 2, 3, 4]),
            cut(),
            none,
            all(),
            Ok(ints([1, 3])),
        ),
        (
            "all removed",
            ints([1, 2]),
            result_remove(),
            none,
            all(),
            Ok(ints([])),
        ),
        (
            "an ordered list is sorted again",
            ordered(vec![1.into(), 2.into(), 3.into()]),
            negated(),
            none,
            all(),
            Ok(ordered(vec![(-3).into(), (-2).into(), (-1).into()])),
        ),
        (
            "inside another one, too",
            ordered(vec![
                ordered(vec![1.into(), 5.into()]),
                ordered(vec![2.into()]),
            ]),
            negated(),
            none,
            vec![Step::all(), Step::all()],
            Ok(ordered(vec![
                ordered(vec![(-5).into(), (-1).into()]),
                ordered(vec![(-2).into()]),
            ])),
        ),
        (
            "values of a map",
            by_key([("a", 1.into()), ("b", 2.into())]),
            negated(),
            none,
            all(),
            Ok(by_key([("a", (-1).into()), ("b", (-2).into())])),
        ),
        (
            "entries removed",
            by_key([("a", 1.into()), ("b", 2.into())]),
            cut(),
            none,
            all(),
            Ok(by_key([("a", 1.into())])),
        ),
        (
            "by key, inside",
            shop(),
            int_val(0),
            none,
            vec![
                ctx::map_key("books").into(),
                ctx::list_index(0).into(),
                ctx::map_key("price").into(),
            ],
            Ok(by_key([
                (
                    "books",
                    list([
                        by_key([("price", 0.into()), ("title", "a".into())]),
                        by_key([("price", 12.into()), ("title", "b".into())]),
                        by_key([("price", 20.into()), ("title", "c".into())]),
                    ]),
                ),
                ("open", true.into()),
            ])),
        ),
        (
            "by a list",
            ints([1, 2]),
            val(ints([7])),
            none,
            all(),
            Ok(list([ints([7]), ints([7])])),
        ),
        (
            "by the key",
            by_key([("a", 1.into())]),
            loop_var(LoopVariable::Key, ExpType::String),
            none,
            all(),
            Ok(by_key([("a", "a".into())])),
        ),
        (
            "by the position",
            ints([7, 7]),
            loop_var(LoopVariable::Index, ExpType::Int),
            none,
            all(),
            Ok(ints([0, 1])),
        ),
        (
            "an unknown value",
            mixed(),
            negated(),
            none,
            all(),
            Err(MALFORMED),
        ),
        (
            "an unknown value, forgiven",
            mixed(),
            negated(),
            no_fail,
            all(),
            Ok(list([(-1).into(), "x".into(), (-3).into()])),
        ),
        (
            "what cannot be stored",
            ints([1]),
            val(list([Value::Wildcard])),
            none,
            all(),
            Err(WRONG_TYPE),
        ),
        (
            "a malformed expression",
            ints([1]),
            eq(1, "x"),
            none,
            all(),
            Err(PARAMETER),
        ),
        (
            "an empty list",
            ints([]),
            negated(),
            none,
            all(),
            Ok(ints([])),
        ),
    ];
    for (what, start, value, flags, steps, expected) in table {
        let set = record();
        set.put(KEY, [("c", start.clone())]).unwrap();
        let write = operations::paths::modify_by_path("c", value.clone(), flags, steps.clone());
        let got = match set.operate(KEY, &[write]) {
            Ok(done) => {
                assert_eq!(done.results, [], "{what}");
                Ok(set.get(KEY).unwrap().unwrap().get("c").unwrap())
            }
            Err(error) => Err(error.result_code()),
        };
        assert_eq!(got, expected, "{what}");
        // The same as a call: what fails is unknown, but for what is no expression.
        set.put(KEY, [("c", start.clone())]).unwrap();
        let (kind, bin) = match start {
            Value::Map(_) => (ExpType::Map, map_bin("c")),
            _ => (ExpType::List, list_bin("c")),
        };
        let call = modify_by_path(kind, value, flags, bin, steps);
        let expected = expected.map_or(Unknown, Outcome::Is);
        assert_eq!(evaluate(&set, call), expected, "{what}");
    }
    let set = record();
    let missing = operations::paths::modify_by_path("missing", 1, none, all());
    assert_eq!(
        set.operate(KEY, &[missing]).unwrap_err().result_code(),
        WRONG_TYPE
    );
}

#[test]
fn a_persisted_index_survives_a_path() {
    let set = record();
    let policy = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty()).persist_index();
    let items: Vec<Value> = (0..300).map(Value::from).collect();
    let negated = num_sub([value_int()]);
    set.operate(
        KEY,
        &[
            operations::lists::append_items(&policy, "p", items),
            operations::paths::modify_by_path("p", negated, PathFlags::empty(), [Step::all()]),
            operations::lists::append(&policy, "p", -5_000),
        ],
    )
    .unwrap();
    let get = |index| operations::lists::get_by_index("p", index, ListReturnType::Values);
    for (index, expected) in [(0, -5_000), (1, -299), (150, -150), (300, 0)] {
        let done = set.operate(KEY, &[get(index)]).unwrap();
        assert_eq!(done.bin("p"), Some(&expected.into()));
    }
}

#[test]
fn an_expression_that_replaces_a_record_sees_its_new_bins_only() {
    let set = record();
    let policy = WritePolicy::default().record_exists_action(RecordExistsAction::Replace);
    let write = |expression| ops::write("sum", expression, ExpWriteFlags::empty());
    let old = set.operate_with(&policy, KEY, &[write(int_bin("i"))]);
    assert_eq!(old.unwrap_err().result_code(), NOT_APPLICABLE);
    let new = [
        operations::put("n", 2),
        write(num_add([int_bin("n"), int_val(1)])),
    ];
    set.operate_with(&policy, KEY, &new).unwrap();
    let record = set.get(KEY).unwrap().unwrap();
    assert_eq!((record.get("sum"), record.get("i")), (Some(3.into()), None));
}

// 10.1: the encoding.

#[test]
fn expressions_have_aerospikes_bytes() {
    let table: [(Expression, &[u8]); 9] = [
        (eq(int_bin("i"), 5), &[0x93, 1, 0x93, 81, 2, 0xa1, b'i', 5]),
        (string_val("a"), &[0xa2, 3, b'a']),
        (blob_val(*b"a"), &[0xa2, 4, b'a']),
        (val(ints([1])), &[0x92, 126, 0x91, 1]),
        (val(by_key([])), &[0x81, 0xc7, 0, 1, 0xc0]),
        (ttl(), &[0x91, 69]),
        (
            exp_let([def("x", 1)], var("x")),
            &[0x94, 125, 0xa1, b'x', 1, 0x92, 124, 0xa1, b'x'],
        ),
        (
            regex_compare("a", RegexFlags::ICASE, string_val("b")),
            &[0x94, 7, 2, 0xa1, b'a', 0xa2, 3, b'b'],
        ),
        (
            lists::size(list_bin("l"), &[]),
            &[0x95, 127, 2, 0, 0x91, 16, 0x93, 81, 4, 0xa1, b'l'],
        ),
    ];
    for (expression, bytes) in table {
        assert_eq!(expression.to_bytes().unwrap(), bytes, "{expression:?}");
        let read = Expression::from_bytes(bytes).unwrap();
        assert_eq!(read, expression);
        assert_eq!(
            Expression::from_base64(&read.to_base64().unwrap()).unwrap(),
            expression
        );
        assert_eq!(
            read.result_type().unwrap(),
            expression.result_type().unwrap()
        );
    }
}

#[test]
fn operations_nest_128_levels() {
    let nested = |levels| (0..levels).fold(bool_val(true), |inner, _| exp::not(inner));
    assert_eq!(evaluate(&record(), nested(128)), is(true));
    assert_eq!(evaluate(&record(), nested(129)), Refused);
}

#[test]
fn malformed_expressions_are_refused() {
    let deep: Vec<u8> = [0x92, 18]
        .repeat(10_000)
        .into_iter()
        .chain([0xc3])
        .collect();
    let table: [(&str, &[u8]); 16] = [
        ("nothing", &[]),
        ("empty list", &[0x90]),
        ("no operation", &[0x91, 0xc0]),
        ("unknown operation", &[0x91, 99]),
        ("bytes behind it", &[0xc0, 0xc0]),
        ("cut short", &[0x93, 1, 5]),
        ("operand missing", &[0x92, 1, 5]),
        ("operand too many", &[0x94, 1, 5, 5, 5]),
        ("text without its type", &[0xa0]),
        ("text of no type", &[0xa1, 7]),
        ("wildcard", &[0xd4, 0xff, 0]),
        ("quoted scalar", &[0x92, 126, 5]),
        ("unknown type of a bin", &[0x93, 81, 10, 0xa1, b'i']),
        (
            "unknown system of a call",
            &[0x95, 127, 2, 3, 0x91, 16, 0xc0],
        ),
        (
            "four gigabytes of operands",
            &[0xdd, 0xff, 0xff, 0xff, 0xff, 16, 0xc3, 0xc3],
        ),
        ("ten thousand levels", &deep),
    ];
    for (what, bytes) in table {
        let error = Expression::from_bytes(bytes).expect_err(what);
        assert_eq!(error.result_code(), PARAMETER, "{what}");
    }
    let long = val(vec![0_u8; 1 << 20]);
    assert_eq!(long.check().unwrap_err().result_code(), PARAMETER);
    let many = or(vec![bool_val(true); 1 << 17]);
    assert_eq!(many.check().unwrap_err().result_code(), PARAMETER);
    assert!(Expression::from_base64("not base64").is_err());
}
