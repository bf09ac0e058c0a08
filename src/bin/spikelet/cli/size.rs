//! Sizes as people write them: `4096`, `16KiB`, `1M`.

/// Parses a size into bytes. Units are powers of 1,024, as in Aerospike's configuration, with or
/// without `iB`.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => {
            return Err(format!(
                "{text:?} is no size: write bytes, or 16KiB, 1MiB, 2GiB"
            ));
        }
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("{text:?} is no size: write bytes, or 16KiB, 1MiB, 2GiB"))?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("{text:?} is more than can be counted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("16KiB", 16 << 10),
            ("16k", 16 << 10),
            ("1 MiB", 1 << 20),
            ("2G", 2 << 30),
            ("7B", 7),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for wrong in [
            "",
            "KiB",
            "-1",
            "1.5M",
            "16 KiBs",
            "99999999999G",
            "99999999999999999999",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
