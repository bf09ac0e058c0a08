//! Base64 (RFC 4648, with padding): the form of expressions in info commands, and of bytes in
//! backups.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The text of these bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Returns the length of the text of `bytes` bytes.
#[cfg(feature = "backup")]
pub(crate) const fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Appends the text of these bytes.
#[cfg(feature = "backup")]
pub(crate) fn encode_into(bytes: &[u8], out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + encoded_len(bytes.len()), 0);
    let written = STANDARD.encode_slice(bytes, out.split_at_mut(at).1);
    debug_assert_eq!(written, Ok(out.len() - at), "there was room for all of it");
}

/// Returns the bytes of a text; `None` if it is not Base64.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Appends the bytes of a text; `None` if it is not Base64, and then `out` may have grown.
#[cfg(feature = "backup")]
pub(crate) fn decode_into(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    STANDARD.decode_vec(text, out).ok()
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
            #[cfg(feature = "backup")]
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
