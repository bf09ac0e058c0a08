//! The rules of bit operations, as tables: a bin, an operation, its result, and the bin afterwards.
//!
//! Reads and writes of any bits are compared with a naive model beside the implementation; here are
//! the rules of semantics.md#bits, and what the test suites of Aerospike's clients assert.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod support;

use spikelet::Value;
use spikelet::operations::bits::{
    BitOverflow as Overflow, BitPolicy, BitResizeFlags, BitSign, BitWriteFlags,
};
use spikelet::operations::{bits, ctx, get_bin, put};
use support::{
    BIN, MISSING, NOT_APPLICABLE, NOT_FOUND, PARAMETER, Rule, WRONG_TYPE, check, empty_set, list,
    results, rule, text,
};

const BIN_EXISTS: u8 = 6;
const BIN_NOT_FOUND: u8 = 17;

const CREATE: BitWriteFlags = BitWriteFlags::CREATE_ONLY;
const UPDATE: BitWriteFlags = BitWriteFlags::UPDATE_ONLY;
const NO_FAIL: BitWriteFlags = BitWriteFlags::NO_FAIL;
const PARTIAL: BitWriteFlags = BitWriteFlags::PARTIAL;

fn plain() -> BitPolicy {
    BitPolicy::default()
}

fn with(flags: BitWriteFlags) -> BitPolicy {
    BitPolicy::new(flags)
}

fn blob(bytes: impl Into<Vec<u8>>) -> Value {
    Value::Blob(bytes.into())
}

#[test]
fn blobs_are_resized_at_either_end() {
    let resize = |bytes, flags| bits::resize(&plain(), BIN, bytes, flags);
    let none = BitResizeFlags::empty();
    let front = BitResizeFlags::FROM_FRONT;
    let (grow, shrink) = (BitResizeFlags::GROW_ONLY, BitResizeFlags::SHRINK_ONLY);
    let forgiving = |bytes, flags| bits::resize(&with(NO_FAIL), BIN, bytes, flags);
    check([
        rule("longer", blob(*b"ab"), resize(4, none)).leaves(blob(*b"ab\0\0")),
        rule("longer in front", blob(*b"ab"), resize(4, front)).leaves(blob(*b"\0\0ab")),
        rule("shorter", blob(*b"abc"), resize(1, none)).leaves(blob(*b"a")),
        rule("shorter in front", blob(*b"abc"), resize(1, front)).leaves(blob(*b"c")),
        rule("to nothing", blob(*b"abc"), resize(0, none)).leaves(blob([])),
        rule("the same length", blob(*b"abc"), resize(3, grow)),
        rule("not shorter", blob(*b"abc"), resize(2, grow)).refused(PARAMETER),
        rule("not shorter, no matter", blob(*b"abc"), forgiving(2, grow)),
        rule("not longer", blob(*b"abc"), resize(4, shrink)).refused(PARAMETER),
        rule("not longer, no matter", blob(*b"abc"), forgiving(4, shrink)),
        rule("both", blob(*b"abc"), resize(4, grow | shrink)).refused(PARAMETER),
        rule("a new bin", MISSING, resize(2, none)).leaves(blob([0, 0])),
        rule("a new bin of nothing is none", MISSING, resize(0, none)),
        rule("huge", blob(*b"abc"), resize(1 << 40, none)).refused(PARAMETER),
    ]);
}

#[test]
fn bytes_are_inserted_and_removed() {
    let insert = |offset| bits::insert(&plain(), BIN, offset, *b"xy");
    let remove = |offset, bytes| bits::remove(&plain(), BIN, offset, bytes);
    let remove_partly = |offset, bytes| bits::remove(&with(PARTIAL), BIN, offset, bytes);
    check([
        rule("in front", blob(*b"ab"), insert(0)).leaves(blob(*b"xyab")),
        rule("between", blob(*b"ab"), insert(1)).leaves(blob(*b"axyb")),
        rule("behind", blob(*b"ab"), insert(2)).leaves(blob(*b"abxy")),
        rule("from the end", blob(*b"ab"), insert(-1)).leaves(blob(*b"axyb")),
        rule("beyond the end", blob(*b"ab"), insert(4)).leaves(blob(*b"ab\0\0xy")),
        rule("before the front", blob(*b"ab"), insert(-3)).refused(PARAMETER),
        rule("a new bin", MISSING, insert(1)).leaves(blob(*b"\0xy")),
        rule("nothing", blob(*b"ab"), bits::insert(&plain(), BIN, 0, [])).refused(PARAMETER),
        rule("remove", blob(*b"abcd"), remove(1, 2)).leaves(blob(*b"ad")),
        rule("remove from the end", blob(*b"abcd"), remove(-2, 2)).leaves(blob(*b"ab")),
        rule("remove all", blob(*b"abcd"), remove(0, 4)).leaves(blob([])),
        rule("remove too many", blob(*b"abcd"), remove(3, 2)).refused(PARAMETER),
        rule("remove what is there", blob(*b"abcd"), remove_partly(3, 2)).leaves(blob(*b"abc")),
        rule("remove beyond", blob(*b"abcd"), remove_partly(4, 1)).refused(PARAMETER),
        rule("remove none", blob(*b"abcd"), remove(1, 0)).refused(PARAMETER),
    ]);
}

#[test]
fn bits_are_combined_with_given_ones() {
    let start = || blob([0b0000_1111, 0b0101_0101]);
    let given = [0b1100_1100, 0xff];
    check([
        rule("set", start(), bits::set(&plain(), BIN, 4, 6, given))
            .leaves(blob([0b0000_1100, 0b1101_0101])),
        rule("or", start(), bits::or(&plain(), BIN, 2, 8, given))
            .leaves(blob([0b0011_1111, 0b0101_0101])),
        rule("xor", start(), bits::xor(&plain(), BIN, 2, 8, given))
            .leaves(blob([0b0011_1100, 0b0101_0101])),
        rule("and", start(), bits::and(&plain(), BIN, 4, 8, given))
            .leaves(blob([0b0000_1100, 0b0100_0101])),
        rule("not", start(), bits::not(&plain(), BIN, -8, 4))
            .leaves(blob([0b0000_1111, 0b1010_0101])),
        rule("left shift", start(), bits::lshift(&plain(), BIN, 4, 8, 3))
            .leaves(blob([0b0000_1010, 0b1000_0101])),
        rule("right shift", start(), bits::rshift(&plain(), BIN, 4, 8, 3))
            .leaves(blob([0b0000_0001, 0b1110_0101])),
        rule(
            "shifted out",
            start(),
            bits::lshift(&plain(), BIN, 4, 8, 99),
        )
        .leaves(blob([0, 0b0000_0101])),
        rule(
            "too few given",
            start(),
            bits::set(&plain(), BIN, 0, 16, [1]),
        )
        .refused(PARAMETER),
        rule("beyond", start(), bits::set(&plain(), BIN, 9, 8, given)).refused(NOT_APPLICABLE),
        rule(
            "the part there is",
            start(),
            bits::set(&with(PARTIAL), BIN, 9, 8, given),
        )
        .leaves(blob([0b0000_1111, 0b0110_0110])),
        rule(
            "no part is there",
            start(),
            bits::not(&with(PARTIAL), BIN, 16, 8),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "beyond, no matter",
            start(),
            bits::not(&with(NO_FAIL), BIN, 9, 8),
        ),
    ]);
}

#[test]
fn integers_overflow_as_they_are_told() {
    let add = |value, sign, overflow| bits::add(&plain(), BIN, 4, 8, value, sign, overflow);
    let subtract =
        |value, sign, overflow| bits::subtract(&plain(), BIN, 4, 8, value, sign, overflow);
    let (unsigned, signed) = (BitSign::Unsigned, BitSign::Signed);
    // The integer's bits begin in the middle of the first byte and end in the middle of the second.
    let of = |value: u8| blob([0xa0 | value >> 4, value << 4 | 0x0b]);
    check([
        rule("add", of(250), add(5, unsigned, Overflow::Fail)).leaves(of(255)),
        rule("too much", of(250), add(6, unsigned, Overflow::Fail)).refused(NOT_APPLICABLE),
        rule(
            "too much, wrapped",
            of(250),
            add(8, unsigned, Overflow::Wrap),
        )
        .leaves(of(2)),
        rule(
            "too much, cut",
            of(250),
            add(8, unsigned, Overflow::Saturate),
        )
        .leaves(of(255)),
        rule("signed", of(120), add(-121, signed, Overflow::Fail)).leaves(of(255)),
        rule("signed, too much", of(120), add(8, signed, Overflow::Fail)).refused(NOT_APPLICABLE),
        rule("signed, cut", of(120), add(8, signed, Overflow::Saturate)).leaves(of(127)),
        rule(
            "signed, cut below",
            of(136),
            subtract(9, signed, Overflow::Saturate),
        )
        .leaves(of(128)),
        rule("subtract", of(5), subtract(5, unsigned, Overflow::Fail)).leaves(of(0)),
        rule("too little", of(5), subtract(6, unsigned, Overflow::Fail)).refused(NOT_APPLICABLE),
        rule(
            "too little, wrapped",
            of(5),
            subtract(6, unsigned, Overflow::Wrap),
        )
        .leaves(of(255)),
        rule(
            "too little, cut",
            of(5),
            subtract(6, unsigned, Overflow::Saturate),
        )
        .leaves(of(0)),
        rule("set", of(5), bits::set_int(&plain(), BIN, 4, 8, -2)).leaves(of(254)),
        rule(
            "overflow, no matter",
            of(250),
            bits::add(&with(NO_FAIL), BIN, 4, 8, 6, unsigned, Overflow::Fail),
        ),
        rule("65 bits", of(5), bits::set_int(&plain(), BIN, 0, 65, 1)).refused(PARAMETER),
        rule("get", of(254), bits::get_int(BIN, 4, 8, unsigned)).gives(254),
        rule("get signed", of(254), bits::get_int(BIN, 4, 8, signed)).gives(-2),
        rule("get beyond", of(254), bits::get_int(BIN, 9, 8, signed)).refused(NOT_APPLICABLE),
    ]);
}

#[test]
fn bits_are_read_and_searched() {
    let start = || blob([0b0010_1100, 0xff]);
    check([
        rule("left-aligned", blob([0xff]), bits::get(BIN, 3, 2)).gives(blob([0xc0])),
        rule("whole bytes", start(), bits::get(BIN, 8, 8)).gives(blob([0xff])),
        rule("from the end", start(), bits::get(BIN, -12, 8)).gives(blob([0b1100_1111])),
        rule("none", start(), bits::get(BIN, 0, 0)).refused(PARAMETER),
        rule("beyond", start(), bits::get(BIN, 0, 17)).refused(NOT_APPLICABLE),
        rule("before", start(), bits::get(BIN, -17, 1)).refused(PARAMETER),
        rule("count", start(), bits::count(BIN, 3, 8)).gives(5),
        rule("first one", start(), bits::lscan(BIN, 3, 8, true)).gives(1),
        rule("first zero", start(), bits::lscan(BIN, 2, 8, false)).gives(1),
        rule("no zero", start(), bits::lscan(BIN, 8, 8, false)).gives(-1),
        rule("last one", start(), bits::rscan(BIN, 0, 8, true)).gives(5),
        rule("last zero", start(), bits::rscan(BIN, 0, 16, false)).gives(7),
        rule("no one", start(), bits::rscan(BIN, 6, 2, true)).gives(-1),
    ]);
}

#[test]
fn the_bin_must_be_a_blob_and_exist_as_the_policy_says() {
    let insert = |flags| bits::insert(&with(flags), BIN, 0, *b"x");
    let not = |flags| bits::not(&with(flags), BIN, 0, 1);
    let of_another_type = |start: Value| -> [Rule; 2] {
        [
            rule("write", start.clone(), not(BitWriteFlags::empty())).refused(WRONG_TYPE),
            rule("read", start, bits::count(BIN, 0, 1)).refused(WRONG_TYPE),
        ]
    };
    check(of_another_type(text("text")));
    check(of_another_type(list![1]));
    check(of_another_type(1.into()));
    check([
        rule("write", MISSING, not(BitWriteFlags::empty())).refused(BIN_NOT_FOUND),
        rule("write, no matter", MISSING, not(NO_FAIL)),
        rule("read", MISSING, bits::count(BIN, 0, 1)),
        rule("create", MISSING, insert(CREATE)).leaves(blob(*b"x")),
        rule("do not create", MISSING, insert(UPDATE)).refused(BIN_NOT_FOUND),
        rule(
            "do not create, no matter",
            MISSING,
            insert(UPDATE | NO_FAIL),
        ),
        rule("update", blob(*b"y"), insert(UPDATE)).leaves(blob(*b"xy")),
        rule("do not update", blob(*b"y"), insert(CREATE)).refused(BIN_EXISTS),
        rule(
            "do not update, no matter",
            blob(*b"y"),
            insert(CREATE | NO_FAIL),
        ),
        rule("do not update, whatever it is", text("y"), insert(CREATE)).refused(BIN_EXISTS),
        rule("both", MISSING, insert(CREATE | UPDATE)).refused(PARAMETER),
        rule("partial insert", MISSING, insert(PARTIAL)).refused(PARAMETER),
        rule("create by inverting", blob(*b"y"), not(CREATE)).refused(PARAMETER),
    ]);
}

#[test]
fn operations_see_the_ones_before_them_and_return_nothing_when_they_write() {
    let done = results(
        blob([0; 2]),
        &[
            bits::set_int(&plain(), BIN, 4, 8, 7),
            bits::get_int(BIN, 4, 8, BitSign::Unsigned),
            bits::resize(&plain(), BIN, 1, BitResizeFlags::empty()),
            get_bin(BIN),
            bits::get(BIN, 0, 8),
        ],
    );
    let nil = Value::Nil;
    assert_eq!(
        done,
        Ok(vec![nil.clone(), 7.into(), nil, blob([0]), blob([0])])
    );
}

#[test]
fn contexts_do_not_lead_to_bits() {
    let inside = bits::count(BIN, 0, 1).in_context([ctx::list_index(0)]);
    assert_eq!(results(list![1], &[inside]), Err(PARAMETER));
}

#[test]
fn a_record_is_created_by_what_creates_a_bin_and_by_nothing_else() {
    let set = empty_set();
    let code =
        |done: spikelet::Result<_>| done.map(drop).map_err(|e: spikelet::Error| e.result_code());
    let inverted = set.operate("new", &[bits::not(&with(NO_FAIL), BIN, 0, 1)]);
    assert_eq!(code(inverted), Err(NOT_FOUND));
    let inserted = set.operate("new", &[bits::insert(&plain(), BIN, 0, *b"x")]);
    assert_eq!(code(inserted), Ok(()));
    let failed = set.operate("new", &[put("other", 1), bits::not(&plain(), BIN, 99, 1)]);
    assert_eq!(code(failed), Err(NOT_APPLICABLE));
    let record = set.get("new").unwrap().unwrap();
    assert_eq!(record.get("other"), None, "all or nothing");
}
