//! Random expressions, whole and damaged.

use proptest::prelude::*;

use super::*;
use crate::call::{CallSystem, Payload, Trust};
use crate::expression::{modify_call, read_call};
use crate::value::ParticleType;
use crate::value::testing::{any_value, encoded};

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
