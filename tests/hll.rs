//! The rules of HyperLogLog operations through the public API: semantics.md#hyperloglog, and what
//! the test suites of Aerospike's clients assert. Estimates and layouts are tested beside the
//! implementation.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod support;

use spikelet::operations::hll::{HllPolicy, HllWriteFlags};
use spikelet::operations::{ctx, get_bin, hll, put};
use spikelet::value::ParticleType;
use spikelet::{Store, Value, operations};
use support::{
    BIN, MALFORMED, MISSING, NIL, NOT_APPLICABLE, NOT_FOUND, PARAMETER, WRONG_TYPE, check,
    empty_set, items, list, results, rule, text,
};

const BIN_EXISTS: u8 = 6;
const BIN_NOT_FOUND: u8 = 17;

const CREATE: HllWriteFlags = HllWriteFlags::CREATE_ONLY;
const UPDATE: HllWriteFlags = HllWriteFlags::UPDATE_ONLY;
const NO_FAIL: HllWriteFlags = HllWriteFlags::NO_FAIL;
const FOLD: HllWriteFlags = HllWriteFlags::ALLOW_FOLD;

fn plain() -> HllPolicy {
    HllPolicy::default()
}

fn with(flags: HllWriteFlags) -> HllPolicy {
    HllPolicy::new(flags)
}

fn keys(numbers: std::ops::Range<u32>) -> Vec<Value> {
    numbers
        .map(|number| format!("key{number}").into())
        .collect()
}

/// A sketch of keys.
fn sketch(numbers: std::ops::Range<u32>, index_bits: u8, min_hash_bits: u8) -> Value {
    let init = hll::init_with_min_hash(&plain(), BIN, index_bits, min_hash_bits);
    let mut operations = vec![init, get_bin(BIN)];
    if !numbers.is_empty() {
        operations.insert(1, hll::add(&plain(), BIN, keys(numbers)));
    }
    let done = results(MISSING, &operations).unwrap();
    done.into_iter().last().unwrap()
}

#[test]
fn sketches_are_made_and_emptied() {
    let init = |index_bits| hll::init(&plain(), BIN, index_bits);
    let init_min_hash = |index, min_hash| hll::init_with_min_hash(&plain(), BIN, index, min_hash);
    let existing = || sketch(0..50, 8, 12);
    check([
        rule("new", MISSING, init(8)).leaves(sketch(0..0, 8, 0)),
        rule("new", MISSING, init_min_hash(4, 51)).leaves(sketch(0..0, 4, 51)),
        rule("emptied", existing(), init(8)).leaves(sketch(0..0, 8, 12)),
        rule("of other bits", existing(), init_min_hash(10, 0)).leaves(sketch(0..0, 10, 0)),
        rule("too few", MISSING, init(3)).refused(PARAMETER),
        rule("too many", MISSING, init(20)).refused(PARAMETER),
        rule("too many", MISSING, init_min_hash(8, 52)).refused(PARAMETER),
        rule("too many together", MISSING, init_min_hash(16, 49)).refused(PARAMETER),
        rule("create", existing(), hll::init(&with(CREATE), BIN, 8)).refused(BIN_EXISTS),
        rule(
            "create, no matter",
            existing(),
            hll::init(&with(CREATE | NO_FAIL), BIN, 8),
        ),
        rule("update", MISSING, hll::init(&with(UPDATE), BIN, 8)).refused(BIN_NOT_FOUND),
        rule(
            "update, no matter",
            MISSING,
            hll::init(&with(UPDATE | NO_FAIL), BIN, 8),
        ),
        rule("fold", MISSING, hll::init(&with(FOLD), BIN, 8)).refused(PARAMETER),
        rule("of another type", text("x"), init(8)).refused(WRONG_TYPE),
    ]);
}

#[test]
fn elements_are_added_and_found() {
    let existing = || sketch(0..2, 8, 0);
    let three = || keys(1..4);
    check([
        rule(
            "new",
            MISSING,
            hll::add_with_index_bits(&plain(), BIN, three(), 8),
        )
        .gives(3)
        .leaves(sketch(1..4, 8, 0)),
        rule(
            "new",
            MISSING,
            hll::add_with_min_hash(&plain(), BIN, three(), 6, 8),
        )
        .gives(3)
        .leaves(sketch(1..4, 6, 8)),
        rule(
            "new, without bits",
            MISSING,
            hll::add(&plain(), BIN, three()),
        )
        .refused(NOT_APPLICABLE),
        rule("more", existing(), hll::add(&plain(), BIN, three()))
            .gives(2)
            .leaves(sketch(0..4, 8, 0)),
        rule(
            "the same again",
            existing(),
            hll::add(&plain(), BIN, keys(0..2)),
        )
        .gives(0),
        rule("nothing", existing(), hll::add(&plain(), BIN, vec![])).refused(PARAMETER),
        rule(
            "a list",
            existing(),
            hll::add(&plain(), BIN, vec![list![1]]),
        )
        .refused(PARAMETER),
        rule(
            "update only",
            existing(),
            hll::add(&with(UPDATE), BIN, three()),
        )
        .refused(PARAMETER),
        rule(
            "create only",
            existing(),
            hll::add(&with(CREATE), BIN, three()),
        )
        .refused(BIN_EXISTS),
        rule("found", existing(), hll::may_contain(BIN, keys(0..2))).gives(1),
        rule("not found", existing(), hll::may_contain(BIN, keys(0..3))).gives(0),
        rule(
            "look for nothing",
            existing(),
            hll::may_contain(BIN, vec![]),
        )
        .refused(PARAMETER),
        rule("described", existing(), hll::describe(BIN)).gives(list![8, 0]),
        rule("described", sketch(0..1, 6, 12), hll::describe(BIN)).gives(list![6, 12]),
        rule("described", MISSING, hll::describe(BIN)),
    ]);
}

#[test]
fn counts_are_those_of_a_server() {
    check([
        rule("count", sketch(0..100, 8, 0), hll::get_count(BIN)).gives(97),
        rule("count nothing", sketch(0..0, 8, 0), hll::get_count(BIN)).gives(0),
        rule("count no sketch", MISSING, hll::get_count(BIN)),
        rule("refresh no sketch", MISSING, hll::refresh_count(BIN)).refused(BIN_NOT_FOUND),
    ]);
    let done = results(
        sketch(0..100, 8, 0),
        &[
            hll::refresh_count(BIN),
            hll::add(&plain(), BIN, keys(100..200)),
            hll::get_count(BIN),
        ],
    );
    let Value::Int(after) = done.unwrap()[2] else {
        panic!("no count");
    };
    assert!(
        (180..220).contains(&after),
        "{after}: the kept count was dropped"
    );
}

#[test]
fn sketches_are_united_and_folded() {
    let existing = || sketch(0..100, 8, 0);
    let union = |flags, sketches: &[Value]| hll::set_union(&with(flags), BIN, sketches.to_vec());
    let none = HllWriteFlags::empty();
    let (other, narrow, wide) = (
        sketch(50..200, 8, 0),
        sketch(50..200, 6, 0),
        sketch(50..200, 12, 0),
    );
    check([
        rule(
            "union",
            existing(),
            union(none, std::slice::from_ref(&other)),
        )
        .leaves(sketch(0..200, 8, 0)),
        rule(
            "of three",
            existing(),
            union(none, &[other.clone(), sketch(300..310, 8, 0)]),
        )
        .leaves(union_of(&[
            existing(),
            other.clone(),
            sketch(300..310, 8, 0),
        ])),
        rule("new", MISSING, union(none, std::slice::from_ref(&other))).leaves(other.clone()),
        rule("with a wider one", existing(), union(none, &[wide])).leaves(sketch(0..200, 8, 0)),
        rule(
            "with a narrower one",
            existing(),
            union(none, std::slice::from_ref(&narrow)),
        )
        .refused(NOT_APPLICABLE),
        rule("folded", existing(), union(FOLD, &[narrow])).leaves(sketch(0..200, 6, 0)),
        rule(
            "losing min-hash",
            sketch(0..100, 8, 12),
            union(none, std::slice::from_ref(&other)),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "losing min-hash",
            sketch(0..100, 8, 12),
            union(FOLD, std::slice::from_ref(&other)),
        )
        .leaves(sketch(0..200, 8, 0)),
        rule("of nothing", existing(), union(none, &[])).refused(PARAMETER),
        rule(
            "create",
            existing(),
            union(CREATE, std::slice::from_ref(&other)),
        )
        .refused(BIN_EXISTS),
        rule("no sketch", existing(), union(none, &[text("x")])).refused(PARAMETER),
        rule("fold", existing(), hll::fold(BIN, 6)).leaves(sketch(0..100, 6, 0)),
        rule("fold to the same", existing(), hll::fold(BIN, 8)),
        rule("fold to more", existing(), hll::fold(BIN, 9)).refused(NOT_APPLICABLE),
        rule("fold to too few", existing(), hll::fold(BIN, 3)).refused(PARAMETER),
        rule("fold min-hash", sketch(0..9, 8, 4), hll::fold(BIN, 6)).refused(NOT_APPLICABLE),
        rule("fold no sketch", MISSING, hll::fold(BIN, 6)).refused(BIN_NOT_FOUND),
        rule("read union", existing(), hll::get_union(BIN, vec![other])).gives(sketch(
            0..200,
            8,
            0,
        )),
        rule(
            "read union with nothing",
            existing(),
            hll::get_union(BIN, vec![]),
        )
        .refused(PARAMETER),
    ]);
}

fn union_of(sketches: &[Value]) -> Value {
    let union = hll::set_union(&plain(), BIN, sketches.to_vec());
    results(MISSING, &[union, get_bin(BIN)]).unwrap().remove(1)
}

#[test]
fn sets_are_compared() {
    let near = |operation, one: Value, truth: f64, tolerance: f64| {
        let found = match results(one, &[operation]).unwrap().remove(0) {
            Value::Int(count) => count as f64,
            Value::Float(share) => share,
            other => panic!("{other:?}"),
        };
        assert!((found - truth).abs() <= tolerance, "{found}, not {truth}");
    };
    for min_hash_bits in [0, 20] {
        let one = || sketch(0..1000, 12, min_hash_bits);
        let other = || vec![sketch(500..1500, 12, min_hash_bits)];
        near(hll::get_union_count(BIN, other()), one(), 1500.0, 75.0);
        near(hll::get_intersect_count(BIN, other()), one(), 500.0, 75.0);
        near(hll::get_similarity(BIN, other()), one(), 1.0 / 3.0, 0.05);
    }
    let three = |min_hash_bits| vec![sketch(0..5, 6, min_hash_bits); 3];
    check([
        rule(
            "three",
            sketch(0..5, 6, 0),
            hll::get_intersect_count(BIN, three(0)),
        )
        .refused(PARAMETER),
        rule(
            "three",
            sketch(0..5, 6, 0),
            hll::get_similarity(BIN, three(8)),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "three",
            sketch(0..1, 6, 8),
            hll::get_intersect_count(BIN, three(8)),
        )
        .gives(1),
    ]);
}

#[test]
fn sketches_travel_between_records_as_values() {
    let set = empty_set();
    let add = |key, numbers| {
        let add = hll::add_with_index_bits(&plain(), BIN, keys(numbers), 10);
        set.operate(key, &[add]).unwrap();
    };
    add("monday", 0..40);
    add("tuesday", 30..60);
    let monday = set.get("monday").unwrap().unwrap().get(BIN).unwrap();
    assert!(matches!(monday, Value::Hll(_)));
    let union = hll::get_union_count(BIN, vec![monday.clone()]);
    let done = set.operate("tuesday", &[union]).unwrap();
    let Some(Value::Int(count)) = done.value(0) else {
        panic!("no count");
    };
    assert!((57..=63).contains(count), "{count}");
    // Inside a list, it is still a sketch.
    set.put("week", [("days", Value::from(vec![monday.clone()]))])
        .unwrap();
    let days = set.get("week").unwrap().unwrap().get("days").unwrap();
    assert_eq!(items(days), [monday]);
}

#[test]
fn damaged_sketches_are_errors() {
    let set = Store::in_memory().unwrap().set("s").unwrap();
    for bytes in [
        vec![],
        vec![0; 11],
        vec![0, 8, 0, 1],
        vec![0, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let write = operations::put_encoded(BIN, ParticleType::Hll, bytes);
        match set.operate("k", &[write]) {
            Err(error) => assert_eq!(error.result_code(), PARAMETER),
            Ok(_) => {
                for operation in [hll::get_count(BIN), hll::init(&plain(), BIN, 8)] {
                    let error = set.operate("k", &[operation]).unwrap_err();
                    assert_eq!(error.result_code(), MALFORMED);
                }
            }
        }
    }
}

#[test]
fn contexts_do_not_lead_to_sketches() {
    let inside = hll::get_count(BIN).in_context([ctx::list_index(0)]);
    assert_eq!(results(list![1], &[inside]), Err(PARAMETER));
}

#[test]
fn what_changes_nothing_creates_no_record() {
    let set = empty_set();
    let init = hll::init(&with(UPDATE | NO_FAIL), BIN, 8);
    let done = set.operate("new", &[init]);
    assert_eq!(done.unwrap_err().result_code(), NOT_FOUND);
    let done = set
        .operate("new", &[put("other", 1), hll::init(&plain(), BIN, 8)])
        .unwrap();
    assert_eq!(done.value(1), None);
    assert_eq!(results(MISSING, &[hll::get_count(BIN)]), Ok(vec![NIL]));
}

#[test]
fn a_claimed_count_is_no_negative_one() {
    // 4 index bits, a count of 2^64 - 1, 16 empty registers.
    let sketch = [&[0, 4, 0][..], &[0xff; 8], &[0; 12]].concat();
    let put = operations::put_encoded(BIN, ParticleType::Hll, sketch);
    let counts = results(MISSING, &[put, hll::get_count(BIN)]).unwrap();
    assert_eq!(counts[1], i64::MAX.into());
}
