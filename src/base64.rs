//! Base64 (RFC 4648, with padding): the form of expressions in info commands, and of bytes in
//! backups.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Marks a byte outside the alphabet.
const NONE: u8 = 0xff;

/// The six bits that each byte encodes.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut rest: &[u8] = ALPHABET;
    let mut value = 0;
    while let [sign, behind @ ..] = rest {
        #[expect(clippy::indexing_slicing, reason = "a byte is a place among 256")]
        {
            values[*sign as usize] = value;
        }
        value += 1;
        rest = behind;
    }
    values
};

/// The text of these bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    encode_into(bytes, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Returns the length of the text of `bytes` bytes.
pub(crate) const fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Appends the text of these bytes.
pub(crate) fn encode_into(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(encoded_len(bytes.len()));
    let (whole, rest) = bytes.as_chunks::<3>();
    for &[first, second, third] in whole {
        out.extend_from_slice(&signs([first, second, third]));
    }
    match *rest {
        [first] => {
            let [one, two, ..] = signs([first, 0, 0]);
            out.extend_from_slice(&[one, two, b'=', b'=']);
        }
        [first, second] => {
            let [one, two, three, _] = signs([first, second, 0]);
            out.extend_from_slice(&[one, two, three, b'=']);
        }
        _ => {}
    }
}

/// The four signs of three bytes.
#[inline]
fn signs([first, second, third]: [u8; 3]) -> [u8; 4] {
    let bits = u32::from_be_bytes([0, first, second, third]);
    let sign = |shift: u32| {
        let value = (bits >> shift & 0x3f) as usize;
        ALPHABET.get(value).copied().unwrap_or_default()
    };
    [sign(18), sign(12), sign(6), sign(0)]
}

/// Returns the bytes of a text; `None` if it is not Base64.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    decode_into(text, &mut bytes).map(|()| bytes)
}

/// Appends the bytes of a text; `None` if it is not Base64, and then `out` may have grown.
pub(crate) fn decode_into(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (fours, []) = text.as_chunks::<4>() else {
        return None;
    };
    let Some((last, fours)) = fours.split_last() else {
        return Some(());
    };
    out.reserve(fours.len() * 3 + 3);
    for four in fours {
        out.extend_from_slice(&three(*four)?);
    }
    let [first, second, third, fourth] = *last;
    let (signs, padding) = match (third, fourth) {
        (b'=', b'=') => ([first, second, b'A', b'A'], 2),
        (third, b'=') => ([first, second, third, b'A'], 1),
        _ => (*last, 0),
    };
    let bytes = three(signs)?;
    let (bytes, unused) = bytes.split_at_checked(3 - padding)?;
    // Bits that stand for no byte are zero.
    if unused.iter().any(|byte| *byte != 0) {
        return None;
    }
    out.extend_from_slice(bytes);
    Some(())
}

/// The three bytes of four signs.
#[inline]
fn three(signs: [u8; 4]) -> Option<[u8; 3]> {
    let [a, b, c, d] = signs.map(|sign| VALUES.get(usize::from(sign)).copied().unwrap_or(NONE));
    if (a | b | c | d) & 0xc0 != 0 {
        return None;
    }
    let bits = u32::from(a) << 18 | u32::from(b) << 12 | u32::from(c) << 6 | u32::from(d);
    let [_, three @ ..] = bits.to_be_bytes();
    Some(three)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_vectors_of_the_rfc_hold() {
        let table = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
            ("\u{3ff}?~", "z78/fg=="),
        ];
        for (bytes, text) in table {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(encoded_len(bytes.len()), text.len());
            assert_eq!(
                decode(text.as_bytes()).as_deref(),
                Some(bytes.as_bytes()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for text in [
            "Z", "Zg", "Zg=", "Z===", "====", "Zh==", "Zm9=", "Z!==", "Zg==Zg==", "Zm=v", "Zm9\n",
            "Zm9v=", "ö==", "Zg= ",
        ] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
        }
    }
}
