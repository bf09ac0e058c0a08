//! Tests of evaluation below the public API: metadata, filters in two phases, random expressions.

use proptest::prelude::*;
use spikelet_storage::Digest;

use super::expressions::{self as exp, *};
use super::filter::FilterVerdict;
use super::operation::Evaluation;
use super::scope::{RecordFacts, Scope};
use super::value::ExpValue;
use super::{ExpType, Expression, modify_call, read_call};
use crate::call::{CallError, CallReply, CallSystem, Payload, Trust};
use crate::record::{Bins, Key, Metadata, OwnedBins, RecordView};
use crate::value::testing::{any_value, encoded};
use crate::value::{ParticleType, Value};

/// The start of 2010, in nanoseconds of Unix time.
const EPOCH_NS: i64 = 1_262_304_000_000_000_000;

fn facts(key: Option<&[u8]>) -> RecordFacts<'_> {
    let mut digest = [0; 20];
    digest[16..].copy_from_slice(&1_000_003_u32.to_le_bytes());
    RecordFacts {
        digest: Digest::new(digest),
        set_name: "users",
        key,
        metadata: Metadata {
            generation: 3,
            void_time: 1_000,
            last_update_ms: 900_500,
        },
        now_ms: 901_750,
        stored_bytes: 100,
        in_memory: false,
        owned: OwnedBins::NONE,
    }
}

fn body(bins: &[(&str, Value)]) -> Vec<u8> {
    let mut all = Bins::new();
    for (name, value) in bins {
        all.set(name, value.clone()).unwrap();
    }
    let mut out = Vec::new();
    all.write_body(&mut out).unwrap();
    out
}

fn value_of(value: Option<ExpValue<'_>>) -> Option<Value> {
    value.map(|value| value.into_reply().to_value().unwrap())
}

#[test]
fn a_record_tells_about_itself() {
    let mut key = Vec::new();
    Key::from("me").write_stored(&mut key);
    let mut number = Vec::new();
    Key::from(-7).write_stored(&mut number);
    let stored = facts(Some(&key));
    let numbered = facts(Some(&number));
    let bare = facts(None);
    let forever = RecordFacts {
        metadata: Metadata {
            void_time: 0,
            ..bare.metadata
        },
        set_name: "",
        in_memory: true,
        ..bare
    };
    let expired = RecordFacts {
        now_ms: 2_000_000,
        ..bare
    };
    let table: Vec<(&str, RecordFacts<'_>, Expression, Option<Value>)> = vec![
        ("digest", bare, digest_modulo(10), Some(3.into())),
        ("set", bare, set_name(), Some("users".into())),
        ("no set", forever, set_name(), Some("".into())),
        (
            "last update",
            bare,
            last_update(),
            Some((EPOCH_NS + 900_500_000_000).into()),
        ),
        ("since update", bare, since_update(), Some(1_250.into())),
        (
            "void time",
            bare,
            void_time(),
            Some((EPOCH_NS + 1_000_000_000_000).into()),
        ),
        ("never", forever, void_time(), Some((-1).into())),
        ("time to live", bare, ttl(), Some(99.into())),
        ("for ever", forever, ttl(), Some((-1).into())),
        ("none left", expired, ttl(), Some(0.into())),
        ("key is stored", stored, key_exists(), Some(true.into())),
        ("key is not stored", bare, key_exists(), Some(false.into())),
        ("key", stored, exp::key(ExpType::String), Some("me".into())),
        (
            "integer key",
            numbered,
            exp::key(ExpType::Int),
            Some((-7).into()),
        ),
        ("key of another type", stored, exp::key(ExpType::Int), None),
        ("no key", bare, exp::key(ExpType::String), None),
        ("tombstone", bare, is_tombstone(), Some(false.into())),
        ("size", bare, record_size(), Some(112.into())),
        ("on a device", bare, device_size(), Some(112.into())),
        ("not in memory", bare, memory_size(), Some(0.into())),
        ("not on a device", forever, device_size(), Some(0.into())),
        ("in memory", forever, memory_size(), Some(112.into())),
    ];
    for (what, facts, expression, expected) in table {
        let scope = Scope {
            facts: Some(&facts),
            bins: None,
        };
        let program = expression.program().unwrap();
        assert_eq!(value_of(program.evaluate(scope)), expected, "{what}");
        assert_eq!(program.evaluate(Scope::default()), None, "{what}");
    }
}

#[test]
fn a_filter_asks_the_bins_only_if_the_metadata_leave_it_open() {
    let (facts, body) = (facts(None), body(&[("i", 5.into())]));
    let young = || lt(since_update(), 2_000);
    let old = || gt(since_update(), 2_000);
    let five = || eq(int_bin("i"), 5);
    let table = [
        (young(), FilterVerdict::Passes, true),
        (old(), FilterVerdict::Fails, false),
        (five(), FilterVerdict::NeedsBins, true),
        (ne(int_bin("i"), 5), FilterVerdict::NeedsBins, false),
        (and([old(), five()]), FilterVerdict::Fails, false),
        (and([five(), old()]), FilterVerdict::Fails, false),
        (or([five(), young()]), FilterVerdict::Passes, true),
        (and([young(), five()]), FilterVerdict::NeedsBins, true),
        (eq(int_bin("missing"), 5), FilterVerdict::NeedsBins, false),
        (bin_exists("missing"), FilterVerdict::NeedsBins, false),
        // Without bins, the unknown stays unknown.
        (eq(exp::key(ExpType::Int), 5), FilterVerdict::Fails, false),
        (unknown(), FilterVerdict::Fails, false),
    ];
    for (expression, verdict, passes) in table {
        let filter = expression.filter().unwrap();
        assert_eq!(filter.judge(&facts), verdict, "{expression:?}");
        let got = filter.passes_stored(Some(&facts), &body);
        assert_eq!(got.unwrap(), passes, "{expression:?}");
        if !filter.reads_facts() {
            let got = filter.passes_stored(None, &body);
            assert_eq!(got.unwrap(), passes, "{expression:?}");
        }
        // Malformed bytes matter only to filters that read bins.
        let got = filter.passes_stored(Some(&facts), &[2, 1]);
        assert_eq!(
            got.is_err(),
            verdict == FilterVerdict::NeedsBins,
            "{expression:?}"
        );
    }
    for expression in [int_bin("i"), eq(1, "x")] {
        assert_eq!(expression.filter().unwrap_err().result_code(), 4);
    }
}

#[test]
fn a_filter_looks_at_the_bins_it_reads_and_those_before_them() {
    let whole = body(&[("a", 1.into()), ("i", 5.into()), ("z", 9.into())]);
    let five = eq(int_bin("i"), 5);
    let filter = five.filter().unwrap();
    // Name, its length, type, length of the value, value.
    let behind_i = whole.len() - 5;
    for end in 0..whole.len() {
        match filter.passes_stored(None, &whole[..end]) {
            Ok(passes) => assert!(passes && end >= behind_i, "{end}"),
            Err(error) => assert_eq!((error.result_code(), end < behind_i), (1, true), "{end}"),
        }
    }
    // An integer of three bytes.
    let wrong = [1, 1, b'i', 1, 3, 0, 0, 5];
    assert!(filter.passes_stored(None, &wrong).is_err());
}

#[test]
fn operations_of_clients_may_leave_out_the_flags() {
    let read = |payload: &[u8]| {
        let evaluation = Evaluation::parse(payload)?;
        let reply = evaluation.read(Scope::default())?;
        Ok::<_, CallError>(reply.to_value().unwrap())
    };
    assert_eq!(read(&[0x91, 5]), Ok(5.into()));
    assert_eq!(read(&[0x92, 5, 0]), Ok(5.into()));
    assert_eq!(read(&[0x92, 0x91, 0, 16]), Ok(Value::Nil));
    let refused: [&[u8]; 9] = [
        &[],
        &[5],
        &[0x90],
        &[0x92, 5],
        &[0x92, 5, 0xc0],
        &[0x92, 5, 1],
        &[0x92, 5, 0xff],
        &[0x93, 5, 0, 0],
        &[0x92, 5, 0, 0],
    ];
    for payload in refused {
        let error = read(payload).unwrap_err().in_bin("b");
        assert_eq!(error.result_code(), 4, "{payload:x?}");
    }
}

#[test]
fn a_value_from_a_bin_is_not_copied() {
    let body = body(&[("l", vec![Value::Int(1); 100].into())]);
    let view = RecordView::parse(&body).unwrap();
    let scope = Scope {
        facts: None,
        bins: Some(&view),
    };
    let expression = exp_let(
        [def("x", list_bin("l"))],
        cond([true.into(), var("x"), unknown()]),
    );
    let evaluation = Evaluation::new(expression, 0);
    let CallReply::Stored(_, value) = evaluation.read(scope).unwrap() else {
        panic!("a list is stored bytes");
    };
    assert!(body.as_ptr_range().contains(&value.as_ptr()));
}

/// A program over numbers and truth values that a naive evaluator can run, too.
#[derive(Clone, Debug)]
enum Int {
    Value(i64),
    Bin(u8),
    Unknown,
    Add(Vec<Int>),
    Sub(Vec<Int>),
    Mul(Vec<Int>),
    Div(Vec<Int>),
    Min(Vec<Int>),
    Max(Vec<Int>),
    Mod(Box<Int>, Box<Int>),
    Abs(Box<Int>),
    Cond(Box<Bool>, Box<Int>, Box<Int>),
    Let(Box<Int>, Box<Int>),
    Var,
    Count(Vec<Int>, Box<Int>),
}

#[derive(Clone, Debug)]
enum Bool {
    Value(bool),
    Eq(Int, Int),
    Lt(Int, Int),
    Ge(Int, Int),
    And(Vec<Bool>),
    Or(Vec<Bool>),
    Xor(Vec<Bool>),
    Not(Box<Bool>),
    In(Int, Vec<i64>),
}

/// The bins "0" to "2" hold these numbers; "3" is missing; "4" holds a text.
const BINS: [i64; 3] = [-2, 0, 7];

fn any_int() -> impl Strategy<Value = Int> {
    any_program().prop_map(|(int, _)| int)
}

fn any_program() -> impl Strategy<Value = (Int, Bool)> {
    let int = prop_oneof![
        4 => (-3..4_i64).prop_map(Int::Value),
        1 => prop::sample::select(vec![i64::MIN, i64::MAX]).prop_map(Int::Value),
        4 => (0..5_u8).prop_map(Int::Bin),
        1 => Just(Int::Unknown),
        2 => Just(Int::Var),
    ];
    let leaf = (int, any::<bool>().prop_map(Bool::Value));
    leaf.prop_recursive(5, 40, 3, |inner| {
        let ints = prop::collection::vec(inner.clone().prop_map(|(int, _)| int), 1..4);
        let bools = prop::collection::vec(inner.clone().prop_map(|(_, bool)| bool), 2..4);
        let pair = (inner.clone(), inner);
        (pair, ints, bools, 0..11_u8, 0..8_u8).prop_map(|(((a, p), (b, q)), ints, bools, x, y)| {
            let boxed = |int: &Int| Box::new(int.clone());
            let int = match x {
                0 => Int::Add(ints),
                1 => Int::Sub(ints),
                2 => Int::Mul(ints),
                3 => Int::Div(ints),
                4 => Int::Min(ints),
                5 => Int::Max(ints),
                6 => Int::Mod(boxed(&a), boxed(&b)),
                7 => Int::Abs(boxed(&a)),
                8 => Int::Cond(Box::new(p.clone()), boxed(&a), boxed(&b)),
                9 => Int::Let(boxed(&a), boxed(&b)),
                _ => Int::Count(ints, boxed(&b)),
            };
            let bool = match y {
                0 => Bool::Eq(a, b),
                1 => Bool::Lt(a, b),
                2 => Bool::Ge(a, b),
                3 => Bool::And(bools),
                4 => Bool::Or(bools),
                5 => Bool::Xor(bools),
                6 => Bool::Not(Box::new(q)),
                _ => Bool::In(a, BINS.to_vec()),
            };
            (int, bool)
        })
    })
}

/// The innermost variable and the next free number. Visible names, and names being defined, are not
/// reused.
#[derive(Clone, Copy, Default)]
struct Names {
    last: Option<u32>,
    next: u32,
}

impl Int {
    fn expression(&self, names: Names) -> Expression {
        let all = |ints: &[Self]| -> Vec<Expression> {
            ints.iter().map(|int| int.expression(names)).collect()
        };
        match self {
            Self::Value(value) => int_val(*value),
            Self::Bin(bin) => int_bin(&bin.to_string()),
            Self::Unknown => cond([false.into(), 1.into(), unknown()]),
            Self::Add(ints) => num_add(all(ints)),
            Self::Sub(ints) => num_sub(all(ints)),
            Self::Mul(ints) => num_mul(all(ints)),
            Self::Div(ints) => num_div(all(ints)),
            Self::Min(ints) => min(all(ints)),
            Self::Max(ints) => max(all(ints)),
            Self::Mod(a, b) => num_mod(a.expression(names), b.expression(names)),
            Self::Abs(a) => num_abs(a.expression(names)),
            Self::Cond(p, a, b) => cond([
                p.expression(names),
                a.expression(names),
                b.expression(names),
            ]),
            Self::Let(a, b) => {
                let value = a.expression(Names {
                    next: names.next + 1,
                    ..names
                });
                let inner = Names {
                    last: Some(names.next),
                    next: names.next + 1,
                };
                exp_let(
                    [def(&format!("v{}", names.next), value)],
                    b.expression(inner),
                )
            }
            Self::Var => match names.last {
                Some(last) => var(&format!("v{last}")),
                None => int_val(0),
            },
            Self::Count(items, sought) => {
                // A list put together by calls.
                let policy = crate::ListPolicy::default();
                let list = all(items)
                    .into_iter()
                    .fold(val(Value::List(vec![].into())), |list, item| {
                        exp::lists::append(&policy, item, list, &[])
                    });
                let returns = crate::ListReturnType::Count;
                exp::lists::get_by_value(returns, sought.expression(names), list, &[])
            }
        }
    }

    fn naive(&self, variables: &[Option<i64>]) -> Option<i64> {
        // Evaluates all operands: one unknown operand makes the result unknown.
        let all = |ints: &[Self]| -> Option<Vec<i64>> {
            ints.iter().map(|int| int.naive(variables)).collect()
        };
        Some(match self {
            Self::Value(value) => *value,
            Self::Bin(bin) => *BINS.get(usize::from(*bin))?,
            Self::Unknown => return None,
            Self::Add(ints) => all(ints)?.into_iter().fold(0, i64::wrapping_add),
            Self::Mul(ints) => all(ints)?.into_iter().fold(1, i64::wrapping_mul),
            Self::Min(ints) => all(ints)?.into_iter().min()?,
            Self::Max(ints) => all(ints)?.into_iter().max()?,
            Self::Sub(ints) => match all(ints)?[..] {
                [only] => only.wrapping_neg(),
                [first, ref rest @ ..] => rest.iter().fold(first, |a, b| a.wrapping_sub(*b)),
                [] => return None,
            },
            Self::Div(ints) => {
                let (first, by) = match all(ints)?[..] {
                    [only] => (1, only),
                    [first, ref rest @ ..] => {
                        (first, rest.iter().fold(1_i64, |a, b| a.wrapping_mul(*b)))
                    }
                    [] => return None,
                };
                if by == 0 {
                    return None;
                }
                first.wrapping_div(by)
            }
            Self::Mod(a, b) => match (a.naive(variables)?, b.naive(variables)?) {
                (_, 0) => return None,
                (a, b) => a.wrapping_rem(b),
            },
            Self::Abs(a) => a.naive(variables)?.wrapping_abs(),
            Self::Cond(p, a, b) => {
                if p.naive(variables)? {
                    a.naive(variables)?
                } else {
                    b.naive(variables)?
                }
            }
            Self::Let(a, b) => {
                let mut inner = variables.to_vec();
                inner.push(a.naive(variables));
                b.naive(&inner)?
            }
            Self::Var => match variables.last() {
                None => 0,
                Some(value) => (*value)?,
            },
            Self::Count(items, sought) => {
                let (items, sought) = (all(items)?, sought.naive(variables)?);
                items.iter().filter(|item| **item == sought).count() as i64
            }
        })
    }
}

impl Bool {
    fn expression(&self, names: Names) -> Expression {
        let all = |bools: &[Self]| -> Vec<Expression> {
            bools.iter().map(|bool| bool.expression(names)).collect()
        };
        match self {
            Self::Value(value) => bool_val(*value),
            Self::Eq(a, b) => eq(a.expression(names), b.expression(names)),
            Self::Lt(a, b) => lt(a.expression(names), b.expression(names)),
            Self::Ge(a, b) => ge(a.expression(names), b.expression(names)),
            Self::And(bools) => and(all(bools)),
            Self::Or(bools) => or(all(bools)),
            Self::Xor(bools) => xor(all(bools)),
            Self::Not(bool) => exp::not(bool.expression(names)),
            Self::In(a, list) => {
                let list: crate::value::List = list.iter().copied().collect();
                in_list(a.expression(names), list_val(list))
            }
        }
    }

    fn naive(&self, variables: &[Option<i64>]) -> Option<bool> {
        let all = |bools: &[Self]| -> Vec<Option<bool>> {
            bools.iter().map(|bool| bool.naive(variables)).collect()
        };
        match self {
            Self::Value(value) => Some(*value),
            Self::Eq(a, b) => Some(a.naive(variables)? == b.naive(variables)?),
            Self::Lt(a, b) => Some(a.naive(variables)? < b.naive(variables)?),
            Self::Ge(a, b) => Some(a.naive(variables)? >= b.naive(variables)?),
            Self::And(bools) => match all(bools) {
                bools if bools.contains(&Some(false)) => Some(false),
                bools if bools.contains(&None) => None,
                _ => Some(true),
            },
            Self::Or(bools) => match all(bools) {
                bools if bools.contains(&Some(true)) => Some(true),
                bools if bools.contains(&None) => None,
                _ => Some(false),
            },
            Self::Xor(bools) => {
                let mut count = 0;
                for bool in all(bools) {
                    count += u32::from(bool?);
                    if count == 2 {
                        return Some(false);
                    }
                }
                Some(count == 1)
            }
            Self::Not(bool) => bool.naive(variables).map(|value| !value),
            Self::In(a, list) => Some(list.contains(&a.naive(variables)?)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn expressions_are_evaluated_as_a_naive_evaluator_does((int, bool) in any_program()) {
        let mut bins: Vec<(String, Value)> = BINS
            .iter()
            .enumerate()
            .map(|(at, value)| (at.to_string(), (*value).into()))
            .collect();
        bins.push(("4".into(), "text".into()));
        let bins: Vec<(&str, Value)> = bins
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        let body = body(&bins);
        let view = RecordView::parse(&body).unwrap();
        let scope = Scope { facts: None, bins: Some(&view) };
        for (expression, expected) in [
            (int.expression(Names::default()), int.naive(&[]).map(Value::Int)),
            (bool.expression(Names::default()), bool.naive(&[]).map(Value::Bool)),
        ] {
            let program = expression.program().unwrap();
            prop_assert_eq!(value_of(program.evaluate(scope)), expected);
            let bytes = expression.to_bytes().unwrap();
            prop_assert_eq!(Expression::from_bytes(&bytes).unwrap().to_bytes().unwrap(), bytes);
        }
    }

    #[test]
    fn damaged_expressions_are_refused_or_evaluated_without_a_panic(
        int in any_int(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = int.expression(Names::default()).to_bytes().unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        evaluate_hostile(&bytes);
    }

    #[test]
    fn damaged_selections_are_refused_or_executed_without_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        damaged in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        value in any_value(),
        writes in any::<bool>(),
    ) {
        let part = loop_var(LoopVariable::Value, ExpType::Int);
        let steps = [
            PathStep::matching(or([unknown(), true.into()])),
            PathStep::all(),
            PathStep::keys(vec![1.into(), "a".into()]).and(gt(part.clone(), 0)),
        ];
        let new = num_add([part, int_val(1)]);
        let flags = PathFlags::NO_FAIL;
        let mut call = if writes {
            modification(&new, flags, steps).unwrap()
        } else {
            selection(PathResult::Tree, flags, steps).unwrap()
        };
        for (at, byte) in changes {
            let at = at.index(call.len());
            call[at] = byte;
        }
        let mut stored = encoded(&Value::List(vec![value].into()));
        for (at, byte) in damaged {
            let at = at.index(stored.len());
            stored[at] = byte;
        }
        let payload = Payload::parse(&call, Trust::Foreign);
        if let Ok(payload @ Payload::Select { .. }) = payload {
            let (system, current) = (CallSystem::Collections, (ParticleType::List, &*stored));
            if writes {
                let _ = modify_call(system, payload, Some(current));
            } else {
                let _ = read_call(system, payload, current);
            }
        }
    }

    #[test]
    fn random_bytes_are_refused_or_evaluated_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        front in prop::sample::select(vec![
            vec![], vec![0x92, 18], vec![0x93, 1], vec![0x93, 9], vec![0x95, 127, 2, 0],
            vec![0x95, 127, 4, 0x40], vec![0x95, 127, 4, 0], vec![0x94, 7, 1],
        ]),
    ) {
        let bytes = [front, bytes].concat();
        evaluate_hostile(&bytes);
    }
}

fn evaluate_hostile(bytes: &[u8]) {
    let body = body(&[("l", vec![Value::Int(1)].into())]);
    let view = RecordView::parse(&body).unwrap();
    let facts = facts(None);
    let scope = Scope {
        facts: Some(&facts),
        bins: Some(&view),
    };
    if let Ok(expression) = Expression::from_bytes(bytes) {
        let _ = value_of(expression.program().unwrap().evaluate(scope));
        assert_eq!(expression.to_bytes().unwrap(), bytes);
    }
    if let Ok(evaluation) = Evaluation::parse(bytes) {
        let _ = evaluation.read(scope);
        let _ = evaluation.write(true, scope);
    }
}
