//! Literals, bins, comparisons, patterns, regions, logic, numbers, choices
//! (semantics.md#expressions-operations).

use crate::common::*;
use spikelet::expressions::{self as exp, *};
use spikelet::expressions::{ExpType, RegexFlags};
use spikelet::value::{List, Map};
use spikelet::{ListOrder, MapOrder, Value};

// Literals (semantics.md#expressions-encoding).

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

// Keys and bins, 80 to 82.

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

// Static types (semantics.md#expressions-types).

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

// Comparison, 1 to 6 (semantics.md#expressions-comparison).

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

// Regular expressions, 7.

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

// Geometry, 8 (semantics.md#geojson).

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

// Elements of lists, keys and values of maps: 9, 101, 102.

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

// Logic, 16 to 19 (semantics.md#expressions-unknown-values).

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

// Arithmetic, 20 to 31, 50, 51.
