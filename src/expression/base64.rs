//! Base64 (RFC 4648, with padding), the form of expressions in info commands.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text of these bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| {
            bits << 8 | usize::from(chunk.get(at).copied().unwrap_or_default())
        });
        for at in 0..4 {
            let sign = ALPHABET.get(bits >> (18 - 6 * at) & 0x3f);
            text.push(match sign {
                Some(sign) if at <= chunk.len() => char::from(*sign),
                _ => '=',
            });
        }
    }
    text
}

/// The bytes of a text; `None` if it is none.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let signs = text.as_bytes();
    if !signs.len().is_multiple_of(4) {
        return None;
    }
    let content = text.trim_end_matches('=').as_bytes();
    if signs.len() - content.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(content.len() * 3 / 4);
    for chunk in content.chunks(4) {
        let mut bits = 0;
        for sign in chunk {
            bits = bits << 6 | ALPHABET.iter().position(|known| known == sign)?;
        }
        bits <<= 6 * (4 - chunk.len());
        let [_, three @ ..] = (bits as u32).to_be_bytes();
        let len = chunk.len() * 3 / 4;
        bytes.extend(three.into_iter().take(len));
        // Bits that stand for no byte are zero.
        if three.into_iter().skip(len).any(|byte| byte != 0) {
            return None;
        }
    }
    Some(bytes)
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
        ];
        for (bytes, text) in table {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        for text in [
            "Z", "Zg", "Zg=", "Z===", "====", "Zh==", "Zm9=", "Z!==", "Zg==Zg==",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
    }
}
