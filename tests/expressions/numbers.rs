//! Numbers, bits of integers, choices and variables (semantics.md#expressions-operations).

use crate::common::*;
use spikelet::expressions::{self as exp, *};

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

// Bits of integers, 32 to 41.

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

// Choices and variables, 123 to 125.

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
