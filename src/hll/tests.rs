use proptest::prelude::*;

use super::*;
use crate::call::{CallWriter, Trust};
use crate::value::{EncodePurpose, Value};

const C: i64 = 1;
const U: i64 = 2;
const N: i64 = 4;
const F: i64 = 8;

fn ints(mut call: CallWriter, arguments: &[i64]) -> Box<[u8]> {
    for argument in arguments {
        call = call.int(*argument);
    }
    call.finish().unwrap()
}

fn call(operation: u8, arguments: &[i64]) -> Box<[u8]> {
    ints(CallWriter::new(operation), arguments)
}

fn on_values(operation: u8, values: &[Value], arguments: &[i64]) -> Box<[u8]> {
    let call = CallWriter::new(operation).list(values, EncodePurpose::Storage);
    ints(call, arguments)
}

fn on_sketches(operation: u8, sketches: &[&[u8]], arguments: &[i64]) -> Box<[u8]> {
    let values: Vec<_> = sketches
        .iter()
        .map(|bytes| Value::Hll(bytes.to_vec()))
        .collect();
    on_values(operation, &values, arguments)
}

fn texts(numbers: std::ops::Range<u32>) -> Vec<Value> {
    numbers
        .map(|number| format!("key{number}").into())
        .collect()
}

fn number(error: CallError) -> u8 {
    error.in_bin("b").result_code()
}

/// The new sketch, and the result; or the code of the error.
fn written(sketch: Option<&[u8]>, call: &[u8]) -> Result<(Option<Vec<u8>>, Value), u8> {
    let call = PathCall::parse(call, Trust::Foreign).map_err(number)?;
    let (sketch, reply) =
        modify(sketch.map(|bytes| (ParticleType::Hll, bytes)), &call).map_err(number)?;
    Ok((sketch, reply.to_value().unwrap()))
}

fn value(sketch: &[u8], call: &[u8]) -> Result<Value, u8> {
    let call = PathCall::parse(call, Trust::Foreign).map_err(number)?;
    let reply = read((ParticleType::Hll, sketch), &call).map_err(number)?;
    Ok(reply.to_value().unwrap())
}

fn count_of(sketch: &[u8]) -> i64 {
    match value(sketch, &call(code::GET_COUNT, &[])) {
        Ok(Value::Int(count)) => count,
        other => panic!("{other:?}"),
    }
}

fn empty(index_bits: i64, min_hash_bits: i64) -> Vec<u8> {
    let init = call(code::INIT, &[index_bits, min_hash_bits]);
    written(None, &init).unwrap().0.unwrap()
}

fn of_values(values: &[Value], index_bits: i64, min_hash_bits: i64) -> Vec<u8> {
    let add = on_values(code::ADD, values, &[index_bits, min_hash_bits]);
    written(None, &add).unwrap().0.unwrap()
}

fn of_texts(numbers: std::ops::Range<u32>, index_bits: i64, min_hash_bits: i64) -> Vec<u8> {
    of_values(&texts(numbers), index_bits, min_hash_bits)
}

#[test]
fn counts_are_those_of_an_aerospike_server() {
    // Its clients' tests assert these: 97 for a hundred texts in 256 registers, and small unions
    // that are exact.
    let refresh = call(code::REFRESH_COUNT, &[]);
    let result = written(Some(&of_texts(0..100, 8, 0)), &refresh).unwrap().1;
    assert_eq!(result, Value::Int(97));
    let five = [6, 7, 8, 9, 10].map(|number| format!("key{number}").into());
    let five = of_values(&five, 10, 0);
    let others: Vec<_> = (1..=5).map(|end| of_texts(0..end, 8, 0)).collect();
    let others: Vec<&[u8]> = others.iter().map(|bytes| &bytes[..]).collect();
    let union_count = on_sketches(code::GET_UNION_COUNT, &others, &[]);
    assert_eq!(value(&five, &union_count), Ok(Value::Int(10)));
    let min_hash: Vec<_> = (1..=4).map(|end| of_texts(0..end, 6, 12)).collect();
    let min_hash: Vec<&[u8]> = min_hash.iter().map(|bytes| &bytes[..]).collect();
    let intersect = on_sketches(code::GET_INTERSECT_COUNT, &min_hash, &[]);
    assert_eq!(value(&of_texts(0..5, 6, 12), &intersect), Ok(Value::Int(1)));
}

#[test]
fn a_sketch_is_laid_out_as_specified() {
    // The hash of "hello", encoded as an element, says register 3 of 16 and rank 1.
    let [first, second] = murmur3::murmur3(b"\xa6\x03hello");
    let (register, rank) = ((first & 15) as usize, second.trailing_zeros() + 1);
    let sketch = of_values(&["hello".into()], 4, 0);
    assert_eq!(sketch[..11], [0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(sketch.len(), 11 + 12);
    let bits: Vec<u8> = sketch[11..]
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    let registers: Vec<u32> = bits
        .chunks(6)
        .map(|bits| {
            bits.iter()
                .fold(0, |value, bit| value << 1 | u32::from(*bit))
        })
        .collect();
    let mut expected = [0; 16];
    expected[register] = rank;
    assert_eq!(registers, expected);
    assert_eq!(empty(16, 48).len(), 11 + 54 * 65_536 / 8);
}

#[test]
fn estimates_stay_within_their_error() {
    for (index_bits, min_hash_bits) in [(8, 0), (12, 0), (12, 20), (14, 0), (16, 0)] {
        let sigma = 1.04 / f64::from(1 << index_bits).sqrt();
        for distinct in [10, 1_000, 100_000_u32] {
            let values: Vec<Value> = (0..distinct).map(|n| i64::from(n).into()).collect();
            let count = count_of(&of_values(&values, index_bits, min_hash_bits));
            let error = (count as f64 / f64::from(distinct) - 1.0).abs();
            assert!(
                error < 3.0 * sigma,
                "{count} for {distinct} with {index_bits} index bits"
            );
        }
    }
    assert_eq!(count_of(&empty(10, 0)), 0);
}

#[test]
fn a_union_is_the_sketch_of_all_elements() {
    for min_hash_bits in [0, 20] {
        let one = of_texts(0..600, 10, min_hash_bits);
        let other = of_texts(400..1000, 10, min_hash_bits);
        let both = of_texts(0..1000, 10, min_hash_bits);
        let read = value(&one, &on_sketches(code::GET_UNION, &[&other], &[]));
        assert_eq!(read, Ok(Value::Hll(both.clone())));
        let set = on_sketches(code::SET_UNION, &[&other], &[]);
        assert_eq!(written(Some(&one), &set).unwrap().0, Some(both.clone()));
        let create = on_sketches(code::SET_UNION, &[&other, &one], &[]);
        assert_eq!(written(None, &create).unwrap().0, Some(both.clone()));
        let count = value(&one, &on_sketches(code::GET_UNION_COUNT, &[&other], &[]));
        assert_eq!(count, Ok(Value::Int(count_of(&both))));
    }
}

#[test]
fn a_folded_sketch_is_one_that_had_fewer_registers_from_the_start() {
    let sketch = of_texts(0..1000, 14, 0);
    for index_bits in 4..14 {
        let folded = written(Some(&sketch), &call(code::FOLD, &[index_bits])).unwrap();
        assert_eq!(folded, (Some(of_texts(0..1000, index_bits, 0)), Value::Nil));
    }
    assert_eq!(
        written(Some(&sketch), &call(code::FOLD, &[14])),
        Ok((None, Value::Nil))
    );
    // Min-hash bits come from other bits of the hash when there are fewer registers; without them,
    // ranks remain.
    let wide = of_texts(0..1000, 12, 10);
    let union = value(
        &wide,
        &on_sketches(code::GET_UNION, &[&of_texts(0..10, 9, 0)], &[]),
    );
    assert_eq!(union, Ok(Value::Hll(of_texts(0..1000, 9, 0))));
}

#[test]
fn intersections_and_similarities_are_near_the_truth() {
    let near = |found: f64, truth: f64, tolerance: f64| (found - truth).abs() < tolerance;
    let sets = [0..60_000, 40_000..100_000, 20_000..80_000];
    for (min_hash_bits, tolerance) in [(0, 0.03), (20, 0.02)] {
        let [one, other, third] = sets.clone().map(|set| of_texts(set, 14, min_hash_bits));
        for (others, common, all) in [
            (vec![&other[..]], 20_000.0, 100_000.0),
            (vec![&other, &third], 20_000.0, 100_000.0),
            (vec![&one], 60_000.0, 60_000.0),
        ] {
            let count = value(&one, &on_sketches(code::GET_INTERSECT_COUNT, &others, &[]));
            let Ok(Value::Int(count)) = count else {
                panic!("{count:?}")
            };
            assert!(
                near(count as f64, common, tolerance * all),
                "{count}, not {common}"
            );
            let similarity = value(&one, &on_sketches(code::GET_SIMILARITY, &others, &[]));
            let Ok(Value::Float(similarity)) = similarity else {
                panic!("{similarity:?}")
            };
            assert!(near(similarity, common / all, tolerance), "{similarity}");
        }
        let apart = of_texts(200_000..260_000, 14, min_hash_bits);
        let count = value(
            &one,
            &on_sketches(code::GET_INTERSECT_COUNT, &[&apart], &[]),
        );
        let Ok(Value::Int(count)) = count else {
            panic!("{count:?}")
        };
        assert!(near(count as f64, 0.0, tolerance * 120_000.0), "{count}");
    }
}

#[test]
fn more_than_two_sketches_are_intersected_by_min_hash() {
    let sets: Vec<_> = [0..3_000, 500..3_500, 800..3_000, 0..2_800]
        .map(|set| of_texts(set, 12, 20))
        .into();
    let (first, others) = sets.split_first().unwrap();
    let others: Vec<&[u8]> = others.iter().map(|bytes| &bytes[..]).collect();
    let count = value(first, &on_sketches(code::GET_INTERSECT_COUNT, &others, &[]));
    let Ok(Value::Int(count)) = count else {
        panic!("{count:?}")
    };
    assert!((1_850..2_150).contains(&count), "{count}");
}

#[test]
fn empty_sketches_have_nothing_in_common() {
    for min_hash_bits in [0, 10] {
        let (nothing, some) = (empty(8, min_hash_bits), of_texts(0..50, 8, min_hash_bits));
        let similarity = |one: &[u8], other: &[u8]| match value(
            one,
            &on_sketches(code::GET_SIMILARITY, &[other], &[]),
        ) {
            Ok(Value::Float(similarity)) => similarity,
            other => panic!("{other:?}"),
        };
        assert_eq!(similarity(&nothing, &some), 0.0);
        assert!(similarity(&nothing, &nothing).is_nan());
        let count = on_sketches(code::GET_INTERSECT_COUNT, &[&nothing], &[]);
        assert_eq!(value(&nothing, &count), Ok(Value::Int(0)));
    }
}

#[test]
fn an_addition_tells_how_many_registers_changed() {
    let three = on_values(code::ADD, &texts(1..4), &[8]);
    let (sketch, result) = written(None, &three).unwrap();
    assert_eq!(result, Value::Int(3));
    assert_eq!(
        written(sketch.as_deref(), &three),
        Ok((None, Value::Int(0)))
    );
    // The bits of the call do not matter to a bin that exists.
    let other_bits = on_values(code::ADD, &texts(4..5), &[12, 20]);
    let (wider, result) = written(sketch.as_deref(), &other_bits).unwrap();
    assert_eq!(result, Value::Int(1));
    assert_eq!(wider, Some(of_texts(1..5, 8, 0)));
}

#[test]
fn elements_are_told_apart_by_type_and_found_again() {
    let values = [
        Value::Int(1),
        "1".into(),
        Value::Blob(b"1".to_vec()),
        Value::Float(1.0),
        Value::Bool(true),
        Value::Nil,
    ];
    let sketch = of_values(&values, 16, 40);
    assert_eq!(count_of(&sketch), 6);
    let contains = |values: &[Value]| value(&sketch, &on_values(code::MAY_CONTAIN, values, &[]));
    assert_eq!(contains(&values), Ok(Value::Int(1)));
    assert_eq!(contains(&[Value::Int(1), "2".into()]), Ok(Value::Int(0)));
    // However a client encodes an integer, it is the same element.
    let wide = [0x92, 56, 0x91, 0xd3, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(value(&sketch, &wide), Ok(Value::Int(1)));
}

#[test]
fn a_count_is_kept_until_something_is_added() {
    let refresh = call(code::REFRESH_COUNT, &[]);
    let sketch = of_texts(0..1000, 10, 0);
    let (with_count, count) = written(Some(&sketch), &refresh).unwrap();
    let mut with_count = with_count.unwrap();
    assert_eq!(count, Value::Int(count_of(&sketch)));
    assert_eq!(with_count[3..11], count_of(&sketch).to_le_bytes());
    assert_eq!(written(Some(&with_count), &refresh), Ok((None, count)));
    with_count[3..11].copy_from_slice(&77_u64.to_le_bytes());
    assert_eq!(count_of(&with_count), 77, "it is not estimated again");
    let add = on_values(code::ADD, &texts(5000..5100), &[]);
    let (changed, _) = written(Some(&with_count), &add).unwrap();
    assert_eq!(changed.unwrap()[3..11], [0; 8]);
    assert_eq!(
        written(Some(&empty(8, 0)), &refresh),
        Ok((None, Value::Int(0)))
    );
}

#[test]
fn initialising_keeps_the_bits_that_are_not_given() {
    let sketch = of_texts(0..9, 8, 12);
    type Rule<'a> = (Option<&'a [u8]>, &'a [i64], Result<[i64; 2], u8>);
    let table: [Rule<'_>; 14] = [
        (None, &[8], Ok([8, 0])),
        (None, &[8, -1], Ok([8, 0])),
        (None, &[16, 48], Ok([16, 48])),
        (None, &[4, 51], Ok([4, 51])),
        (None, &[], Err(26)),
        (None, &[-1, 4], Err(26)),
        (Some(&sketch), &[], Ok([8, 12])),
        (Some(&sketch), &[-1, -1, U], Ok([8, 12])),
        (Some(&sketch), &[9], Ok([9, 12])),
        (Some(&sketch), &[-1, 0], Ok([8, 0])),
        (None, &[3], Err(4)),
        (None, &[8, 3], Err(4)),
        (None, &[16, 49], Err(4)),
        (None, &[8, 52], Err(4)),
    ];
    for (sketch, arguments, expected) in table {
        let result = written(sketch, &call(code::INIT, arguments));
        let described = result.map(|(sketch, _)| {
            let sketch = sketch.unwrap();
            assert_eq!(count_of(&sketch), 0);
            value(&sketch, &call(code::DESCRIBE, &[])).unwrap()
        });
        let expected = expected.map(|bits| Value::from(bits.map(Value::from).to_vec()));
        assert_eq!(described, expected, "{arguments:?}");
    }
    let wide = empty(16, 40);
    assert_eq!(written(Some(&wide), &call(code::INIT, &[-1, 49])), Err(26));
}

#[test]
fn writes_are_refused_as_specified() {
    let sketch = of_texts(0..9, 8, 0);
    let (narrow, wide, min_hash) = (empty(6, 0), empty(9, 0), empty(8, 12));
    let existing = Some(&sketch[..]);
    let same = Ok(None);
    let add = |flags| on_values(code::ADD, &texts(0..1), &[8, -1, flags]);
    let union = |other: &[u8], flags| on_sketches(code::SET_UNION, &[other], &[flags]);
    let table = [
        ("init", existing, call(code::INIT, &[8, 0, C]), Err(6)),
        ("init", existing, call(code::INIT, &[8, 0, C | N]), same),
        ("init", None, call(code::INIT, &[8, 0, U]), Err(17)),
        ("init", None, call(code::INIT, &[8, 0, U | N]), same),
        ("init", None, call(code::INIT, &[8, 0, C | U]), Err(4)),
        ("init", None, call(code::INIT, &[8, 0, F]), Err(4)),
        ("init", None, call(code::INIT, &[8, 0, 0, 0]), Err(4)),
        ("add", existing, add(C), Err(6)),
        ("add", existing, add(C | N), same),
        ("add", existing, add(U), Err(4)),
        ("add", existing, add(F), Err(4)),
        (
            "add",
            None,
            on_values(code::ADD, &texts(0..1), &[]),
            Err(26),
        ),
        (
            "add nothing",
            existing,
            on_values(code::ADD, &[], &[8]),
            Err(4),
        ),
        (
            "add a list",
            existing,
            on_values(code::ADD, &[vec![Value::Nil].into()], &[8]),
            Err(4),
        ),
        (
            "add what is no list",
            existing,
            call(code::ADD, &[1, 8]),
            Err(4),
        ),
        ("union", existing, union(&sketch, C), Err(6)),
        ("union", None, union(&sketch, U), Err(17)),
        ("union", None, union(&sketch, U | N), same),
        (
            "union to fewer registers",
            existing,
            union(&narrow, 0),
            Err(26),
        ),
        (
            "union to fewer registers",
            existing,
            union(&narrow, F),
            Ok(Some([6, 0])),
        ),
        (
            "union with more registers",
            existing,
            union(&wide, 0),
            Ok(Some([8, 0])),
        ),
        (
            "union with min-hash bits",
            existing,
            union(&min_hash, 0),
            Ok(Some([8, 0])),
        ),
        (
            "union losing min-hash bits",
            Some(&min_hash),
            union(&sketch, 0),
            Err(26),
        ),
        (
            "union losing min-hash bits",
            Some(&min_hash),
            union(&sketch, F),
            Ok(Some([8, 0])),
        ),
        (
            "union with nothing",
            existing,
            on_sketches(code::SET_UNION, &[], &[]),
            Err(4),
        ),
        ("refresh", None, call(code::REFRESH_COUNT, &[]), Err(17)),
        ("refresh", existing, call(code::REFRESH_COUNT, &[0]), Err(4)),
        ("fold", None, call(code::FOLD, &[6]), Err(17)),
        ("fold", existing, call(code::FOLD, &[3]), Err(4)),
        ("fold", existing, call(code::FOLD, &[9]), Err(26)),
        ("fold", existing, call(code::FOLD, &[-1]), Err(26)),
        ("fold", existing, call(code::FOLD, &[]), Err(4)),
        (
            "fold min-hash bits",
            Some(&min_hash),
            call(code::FOLD, &[6]),
            Err(26),
        ),
        (
            "a number of a read",
            existing,
            call(code::GET_COUNT, &[]),
            Err(4),
        ),
    ];
    for (what, sketch, call, expected) in table {
        let result = written(sketch, &call).map(|(sketch, _)| sketch.map(|s| [s[1], s[2]]));
        assert_eq!(result, expected, "{what}: {call:x?}");
    }
}

#[test]
fn reads_are_refused_as_specified() {
    let (plain, min_hash, other) = (of_texts(0..9, 8, 0), empty(8, 12), empty(8, 13));
    let intersect = |sketches: &[&[u8]]| on_sketches(code::GET_INTERSECT_COUNT, sketches, &[]);
    let table = [
        (
            "three without min-hash",
            &plain,
            intersect(&[&plain[..]; 3]),
            4,
        ),
        (
            "three of several kinds",
            &min_hash,
            intersect(&[&min_hash, &min_hash, &other]),
            4,
        ),
        (
            "three unlike the bin",
            &other,
            intersect(&[&min_hash[..]; 3]),
            26,
        ),
        (
            "three unlike the bin",
            &plain,
            intersect(&[&min_hash[..]; 3]),
            26,
        ),
        ("none", &plain, intersect(&[]), 4),
        ("not a sketch", &plain, intersect(&[b"abc"]), 4),
        ("not a sketch", &plain, call(code::GET_UNION, &[1]), 4),
        (
            "no elements",
            &plain,
            on_values(code::MAY_CONTAIN, &[], &[]),
            4,
        ),
        ("too many arguments", &plain, call(code::DESCRIBE, &[1]), 4),
        (
            "a number of a write",
            &plain,
            call(code::REFRESH_COUNT, &[]),
            4,
        ),
        ("no number", &plain, call(57, &[]), 4),
    ];
    for (what, sketch, call, expected) in table {
        assert_eq!(value(sketch, &call), Err(expected), "{what}");
    }
    let count = call(code::GET_COUNT, &[]);
    let below = crate::call::below(&[0x92, 0x22, 7], &count);
    assert_eq!(value(&plain, &below), Err(4));
    let count = PathCall::parse(&count, Trust::Foreign).unwrap();
    assert_eq!(
        read((ParticleType::Blob, &plain), &count).map_err(number),
        Err(12)
    );
}

#[test]
fn one_sketch_may_stand_without_a_list() {
    let sketch = of_texts(0..9, 8, 0);
    let single = CallWriter::new(code::GET_UNION)
        .value(&Value::Hll(sketch.clone()), EncodePurpose::Storage)
        .finish()
        .unwrap();
    assert_eq!(value(&empty(8, 0), &single), Ok(Value::Hll(sketch)));
}

#[test]
fn malformed_sketches_are_errors() {
    let good = of_texts(0..9, 8, 12);
    let broken = |change: fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    let table = [
        Vec::new(),
        vec![0],
        good[..11].to_vec(),
        broken(|bytes| bytes.truncate(bytes.len() - 1)),
        broken(|bytes| bytes.push(0)),
        broken(|bytes| bytes[0] = 1),
        broken(|bytes| bytes[1] = 3),
        broken(|bytes| bytes[1] = 17),
        broken(|bytes| bytes[1] = 255),
        broken(|bytes| bytes[2] = 3),
        broken(|bytes| bytes[2] = 255),
    ];
    for bytes in table {
        assert_eq!(
            value(&bytes, &call(code::GET_COUNT, &[])),
            Err(1),
            "{bytes:x?}"
        );
        assert_eq!(written(Some(&bytes), &call(code::INIT, &[])), Err(1));
        let union = on_sketches(code::GET_UNION, &[&bytes], &[]);
        assert_eq!(value(&good, &union), Err(4));
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(
        index_bits in 4..=7_i64,
        min_hash_bits in prop_oneof![Just(0), 4..=51_i64],
        noise in prop::collection::vec(any::<u8>(), 960),
        other_bits in 4..=9_i64,
        operation in prop_oneof![0..6_u8, 49..58_u8],
        garbage in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut sketch = empty(index_bits, min_hash_bits);
        for (to, from) in sketch[3..].iter_mut().zip(&noise) {
            *to = *from;
        }
        let other = of_texts(0..9, other_bits, min_hash_bits);
        for call in [
            on_sketches(operation, &[&other, &sketch], &[]),
            on_values(operation, &texts(0..3), &[6, 4, 0]),
            call(operation, &[]),
            call(operation, &[5]),
            garbage.clone().into(),
        ] {
            for bytes in [&sketch, &garbage] {
                let _ = value(bytes, &call);
                let _ = written(Some(bytes), &call);
            }
            let _ = written(None, &call);
        }
    }
}
