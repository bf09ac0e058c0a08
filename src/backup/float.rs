//! Floats as text: C's `%.17g`, with enough digits to restore the exact value.

use std::io::Write as _;

/// Number of significant digits.
const DIGITS: i32 = 17;

/// Powers of ten below this one are written with an exponent, as are 10^17 and above.
const MIN_PLAIN_EXPONENT: i32 = -4;

/// Appends the text of a float. A NaN loses its payload: only its sign is written.
pub(super) fn write_float(value: f64, out: &mut Vec<u8>) {
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let value = value.abs();
    if !value.is_finite() {
        out.extend_from_slice(if value.is_nan() { b"nan" } else { b"inf" });
        return;
    }
    // One digit before the point and sixteen after it, rounded exactly.
    let text = format!("{value:.16e}");
    let (mut digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let is_plain = (MIN_PLAIN_EXPONENT..DIGITS).contains(&exponent);
    let plain;
    if is_plain {
        plain = format!("{value:.*}", (DIGITS - 1 - exponent) as usize);
        digits = &plain;
    }
    // Behind a point, zeros at the end say nothing.
    if digits.contains('.') {
        digits = digits.trim_end_matches('0').trim_end_matches('.');
    }
    out.extend_from_slice(digits.as_bytes());
    if !is_plain {
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing to a vector does not fail.
        let _ = write!(out, "e{sign}{:02}", exponent.abs());
    }
}

/// Parses a float; `None` for other text.
pub(super) fn read_float(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write_float(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_are_written_as_c_writes_them() {
        // Expected output of `printf("%.17g")`.
        let table = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.10000000000000001"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (123.456, "123.456"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (12_345_678_901_234_567_890.0, "1.2345678901234567e+19"),
            (99_999_999_999_999_990.0, "99999999999999984"),
            (1e100, "1e+100"),
            (1e-300, "1e-300"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "4.9406564584124654e-324"),
            (std::f64::consts::PI, "3.1415926535897931"),
            (1024.0, "1024"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "-nan"),
        ];
        for (value, expected) in table {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn what_c_writes_for_no_number_is_read() {
        for word in ["inf", "+inf", "-inf", "INF", "infinity"] {
            assert!(read_float(word.as_bytes()).unwrap().is_infinite(), "{word}");
        }
        for word in ["nan", "NaN"] {
            assert!(read_float(word.as_bytes()).unwrap().is_nan(), "{word}");
        }
        let negative = read_float(b"-nan").unwrap();
        assert!(negative.is_nan() && negative.is_sign_negative());
        for word in ["", "x", "1x", "1 ", " 1", "0x1p3", "--1", "1e"] {
            assert_eq!(read_float(word.as_bytes()), None, "{word}");
        }
    }

    proptest! {
        #[test]
        fn every_float_is_read_back_bit_by_bit(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            if !value.is_nan() {
                let read = read_float(text(value).as_bytes()).unwrap();
                prop_assert_eq!(read.to_bits(), bits);
            }
        }
    }
}
