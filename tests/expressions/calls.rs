//! Calls of lists, maps, bits and sketches inside expressions (semantics.md#expressions-calls).

use crate::common::*;
use spikelet::expressions::ExpType;
use spikelet::expressions::*;
use spikelet::operations::bits::{BitOverflow, BitPolicy, BitResizeFlags, BitSign};
use spikelet::operations::ctx;
use spikelet::operations::hll::HllPolicy;
use spikelet::{Expression, ListPolicy, ListReturnType, MapPolicy, MapReturnType, Value};

// semantics.md#expressions-calls.

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

#[test]
fn a_call_that_fits_no_value_is_refused_when_it_is_read() {
    let call = |kind, system, call: &[u8], on: &[u8]| {
        let bytes = [&[0x95, 127, kind, system][..], call, on].concat();
        Expression::from_bytes(&bytes)
            .map(drop)
            .map_err(|error| error.result_code())
    };
    let list = [0x93, 81, 4, 0xa1, b'l'];
    let blob = [0x93, 81, 6, 0xa1, b'b'];
    let sketch = [0x93, 81, 9, 0xa1, b'h'];
    assert_eq!(call(2, 0, &[0x91, 16], &list), Ok(()), "size");
    assert_eq!(
        call(2, 0, &[0x91, 14], &list),
        Err(PARAMETER),
        "no operation"
    );
    assert_eq!(
        call(2, 0, &[0x92, 16, 1], &list),
        Err(PARAMETER),
        "an argument"
    );
    assert_eq!(
        call(2, 0, &[0x91, 17], &list),
        Err(PARAMETER),
        "no argument"
    );
    assert_eq!(
        call(4, 0x40, &[0x91, 16], &list),
        Err(PARAMETER),
        "a read that writes"
    );
    assert_eq!(
        call(4, 0, &[0x91, 11], &list),
        Err(PARAMETER),
        "a write that reads"
    );
    let below = [0x93, 0xcc, 0xff, 0x92, 0x30, 0, 0x91, 16];
    assert_eq!(call(2, 0, &below, &list), Err(PARAMETER), "no context");
    assert_eq!(call(2, 1, &[0x93, 51, 0, 8], &blob), Ok(()), "count");
    assert_eq!(
        call(2, 1, &[0x93, 55, 0, 8], &blob),
        Err(PARAMETER),
        "no bit operation"
    );
    // Bits: one that counts, reads an integer, adds. Sketches: an estimate, an addition.
    let arguments: [(u8, u8, u8, std::ops::RangeInclusive<usize>); 5] = [
        (1, 0, 51, 2..=2),
        (1, 0, 54, 2..=3),
        (1, 0x40, 10, 3..=5),
        (2, 0, 50, 0..=0),
        (2, 0x40, 1, 1..=4),
    ];
    for (system, modifies, operation, allowed) in arguments {
        let on = if system == 1 { &blob[..] } else { &sketch };
        let kind = match (system, modifies) {
            (1, 0x40) => 6,
            (2, 0x40) => 9,
            _ => 2,
        };
        for count in 0..8 {
            let mut encoded = vec![0x91 + count as u8, operation];
            encoded.extend(std::iter::repeat_n(0, count));
            let expected = allowed.contains(&count).then_some(()).ok_or(PARAMETER);
            let called = call(kind, system | modifies, &encoded, on);
            assert_eq!(called, expected, "{operation}: {count} arguments");
        }
    }
    assert_eq!(
        call(2, 2, &[0x91, 3], &sketch),
        Err(PARAMETER),
        "a write that reads"
    );
    // Selections by a path: of values; without levels; of an unknown kind; by a text.
    assert_eq!(
        call(4, 0, &[0x93, 0xcc, 0xfe, 0x92, 4, 0xc3, 1], &list),
        Ok(())
    );
    let condition = [0x93, 0xcc, 0xfe, 0x92, 4, 0xa2, 3, b'a', 1];
    for select in [
        &[0x93, 0xcc, 0xfe, 0x90, 1][..],
        &[0x93, 0xcc, 0xfe, 0x92, 4, 0xc3, 9],
        &condition,
    ] {
        assert_eq!(call(4, 0, select, &list), Err(PARAMETER), "{select:?}");
    }
    // A write of a selection changes it.
    let values = [0x93, 0xcc, 0xfe, 0x92, 4, 0xc3, 1];
    assert_eq!(call(4, 0x40, &values, &list), Err(PARAMETER));
}
