//! Arithmetic, bitwise operations and comparisons of values. `None` is the unknown value.

use std::cmp::Ordering;

use super::code::{Binary, ComparisonKind, Fold, Scan, Unary};
use super::types::ExpType;
use super::value::ExpValue;
use crate::value::order;

/// Applies one operand of a fold. `by` has the type of `value`.
pub(super) fn fold(
    operation: Fold,
    value: ExpValue<'static>,
    by: &ExpValue<'_>,
) -> Option<ExpValue<'static>> {
    if let ExpValue::Float(value) = value {
        let by = by.as_f64()?;
        return Some(ExpValue::Float(match operation {
            Fold::Add => value + by,
            Fold::Sub => value - by,
            // Division multiplies the divisors first, then divides once.
            Fold::Mul | Fold::Div => value * by,
            Fold::Min if by < value => by,
            Fold::Max if by > value => by,
            Fold::Min | Fold::Max => value,
            Fold::And | Fold::Or | Fold::Xor => return None,
        }));
    }
    let (value, by) = (value.as_i64()?, by.as_i64()?);
    Some(ExpValue::Int(match operation {
        Fold::Add => value.wrapping_add(by),
        Fold::Sub => value.wrapping_sub(by),
        Fold::Mul | Fold::Div => value.wrapping_mul(by),
        Fold::Min => value.min(by),
        Fold::Max => value.max(by),
        Fold::And => value & by,
        Fold::Or => value | by,
        Fold::Xor => value ^ by,
    }))
}

/// Divides. Integer division by zero is unknown; of floats, infinite or NaN.
pub(super) fn divide(value: &ExpValue<'_>, by: &ExpValue<'_>) -> Option<ExpValue<'static>> {
    match (value, by) {
        (ExpValue::Float(value), ExpValue::Float(by)) => Some(ExpValue::Float(value / by)),
        (ExpValue::Int(_), ExpValue::Int(0)) => None,
        (ExpValue::Int(value), ExpValue::Int(by)) => Some(ExpValue::Int(value.wrapping_div(*by))),
        _ => None,
    }
}

pub(super) fn unary(operation: Unary, value: &ExpValue<'_>) -> Option<ExpValue<'static>> {
    Some(match (operation, value) {
        (Unary::Abs, ExpValue::Int(value)) => ExpValue::Int(value.wrapping_abs()),
        (Unary::Abs, ExpValue::Float(value)) => ExpValue::Float(value.abs()),
        (Unary::Floor, ExpValue::Float(value)) => ExpValue::Float(value.floor()),
        (Unary::Ceil, ExpValue::Float(value)) => ExpValue::Float(value.ceil()),
        // Saturates at the ends of the integer range; NaN becomes 0.
        (Unary::ToInt, ExpValue::Float(value)) => ExpValue::Int(*value as i64),
        (Unary::ToFloat, ExpValue::Int(value)) => ExpValue::Float(*value as f64),
        (Unary::Not, ExpValue::Int(value)) => ExpValue::Int(!value),
        (Unary::Count, ExpValue::Int(value)) => ExpValue::Int(i64::from(value.count_ones())),
        _ => return None,
    })
}

pub(super) fn binary(
    operation: Binary,
    a: &ExpValue<'_>,
    b: &ExpValue<'_>,
) -> Option<ExpValue<'static>> {
    Some(match operation {
        Binary::Pow => ExpValue::Float(a.as_f64()?.powf(b.as_f64()?)),
        Binary::Log => ExpValue::Float(a.as_f64()?.ln() / b.as_f64()?.ln()),
        Binary::Mod => match b.as_i64()? {
            0 => return None,
            b => ExpValue::Int(a.as_i64()?.wrapping_rem(b)),
        },
        Binary::LeftShift | Binary::RightShift | Binary::ArithmeticRightShift => {
            // Only the low six bits count, as in the machine's instruction.
            let (value, by) = (a.as_i64()?, b.as_i64()? as u32);
            ExpValue::Int(match operation {
                Binary::LeftShift => value.wrapping_shl(by),
                Binary::RightShift => value.cast_unsigned().wrapping_shr(by).cast_signed(),
                _ => value.wrapping_shr(by),
            })
        }
    })
}

/// Returns the position of the first or last bit equal to `bit`, 0 being the most significant; -1
/// if there is no such bit.
pub(super) fn scan(scan: Scan, value: i64, bit: bool) -> i64 {
    let wanted = if bit { value } else { !value };
    match (wanted, scan) {
        (0, _) => -1,
        (_, Scan::Left) => i64::from(wanted.leading_zeros()),
        (_, Scan::Right) => 63 - i64::from(wanted.trailing_zeros()),
    }
}

/// Compares two values of one type. Lists and maps follow the order of values; floats follow IEEE
/// 754.
pub(super) fn compare(
    comparison: ComparisonKind,
    a: &ExpValue<'_>,
    b: &ExpValue<'_>,
) -> Option<bool> {
    let ordering = match (a, b) {
        (ExpValue::Nil, ExpValue::Nil) => Some(Ordering::Equal),
        (ExpValue::Bool(a), ExpValue::Bool(b)) => Some(a.cmp(b)),
        (ExpValue::Int(a), ExpValue::Int(b)) => Some(a.cmp(b)),
        (ExpValue::Float(a), ExpValue::Float(b)) => a.partial_cmp(b),
        (ExpValue::Bytes(kind_a, a), ExpValue::Bytes(kind_b, b)) if kind_a == kind_b => {
            match kind_a {
                ExpType::String | ExpType::Blob => Some(a.cmp(b)),
                ExpType::List | ExpType::Map => Some(order::compare(a, b)),
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(holds(comparison, ordering))
}

/// Returns whether a comparison holds for this ordering; `None` means that the values have no
/// order.
pub(super) fn holds(comparison: ComparisonKind, ordering: Option<Ordering>) -> bool {
    match comparison {
        ComparisonKind::Eq => ordering == Some(Ordering::Equal),
        ComparisonKind::Ne => ordering != Some(Ordering::Equal),
        ComparisonKind::Gt => ordering == Some(Ordering::Greater),
        ComparisonKind::Ge => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
        ComparisonKind::Lt => ordering == Some(Ordering::Less),
        ComparisonKind::Le => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
    }
}
