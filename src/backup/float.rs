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
    if value.is_nan() {
        out.extend_from_slice(b"nan");
        return;
    }
    if value.is_infinite() {
        out.extend_from_slice(b"inf");
        return;
    }
    // One digit before the point and sixteen after it, rounded exactly.
    let text = format!("{:.16e}", value.abs());
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (first, behind) = digits.split_once('.').unwrap_or((digits, ""));
    if (MIN_PLAIN_EXPONENT..DIGITS).contains(&exponent) {
        plain(first, behind, exponent, out);
        return;
    }
    out.extend_from_slice(first.as_bytes());
    fraction(behind, out);
    let sign = if exponent < 0 { '-' } else { '+' };
    // Writing to a vector does not fail.
    let _ = write!(out, "e{sign}{:02}", exponent.abs());
}

/// Appends digits with the point in its place.
fn plain(first: &str, behind: &str, exponent: i32, out: &mut Vec<u8>) {
    match usize::try_from(exponent) {
        Ok(places) => {
            out.extend_from_slice(first.as_bytes());
            let (whole, behind) = behind.split_at_checked(places).unwrap_or((behind, ""));
            out.extend_from_slice(whole.as_bytes());
            fraction(behind, out);
        }
        Err(_) => {
            let zeros = exponent.unsigned_abs() as usize - 1;
            fraction(&format!("{:0<zeros$}{first}{behind}", ""), {
                out.push(b'0');
                out
            });
        }
    }
}

/// Appends the point and the digits after it, without trailing zeros; nothing if all are zeros.
fn fraction(digits: &str, out: &mut Vec<u8>) {
    let digits = digits.trim_end_matches('0');
    if !digits.is_empty() {
        out.push(b'.');
        out.extend_from_slice(digits.as_bytes());
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
