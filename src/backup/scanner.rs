//! Takes the bytes of a backup one token at a time, and counts lines and bytes.

use std::io::{self, BufRead};

use super::error::ReadError;
use super::float::read_float;
use crate::base64;

/// The longest name or number accepted: far beyond any valid one.
const MAX_TOKEN_BYTES: usize = 1024;

/// The longest value accepted: more than the largest record of Aerospike or spikelet, as Base64.
pub(super) const MAX_VALUE_BYTES: u64 = 16 << 20;

/// Input with a position.
#[derive(Debug)]
pub(super) struct Scanner<R> {
    input: R,
    line: u64,
    offset: u64,
    /// A backslash escapes the next character: in records from version 3.1 on, and in lines of
    /// indexes and modules of every version.
    escapes: bool,
    /// A buffer reused from value to value.
    text: Vec<u8>,
}

/// A position in the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputPlace {
    pub(super) line: u64,
    pub(super) offset: u64,
}

impl InputPlace {
    /// Returns an error at this position.
    pub(super) fn malformed(self, what: impl Into<String>) -> ReadError {
        ReadError::Malformed {
            line: self.line,
            offset: self.offset,
            what: what.into(),
        }
    }
}

impl<R: BufRead> Scanner<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            line: 1,
            offset: 0,
            escapes: false,
            text: Vec::new(),
        }
    }

    /// Sets whether a backslash escapes the next character. Returns the previous setting.
    pub(super) const fn take_escapes(&mut self, escapes: bool) -> bool {
        std::mem::replace(&mut self.escapes, escapes)
    }

    pub(super) const fn place(&self) -> InputPlace {
        InputPlace {
            line: self.line,
            offset: self.offset,
        }
    }

    /// Returns the next byte without taking it; `None` at the end.
    pub(super) fn peek(&mut self) -> Result<Option<u8>, ReadError> {
        Ok(self.buffer()?.first().copied())
    }

    /// Returns the buffered bytes; empty at the end of the input.
    fn buffer(&mut self) -> Result<&[u8], ReadError> {
        // Filled once before the borrow that is returned: a retry after an interruption would need
        // two.
        while let Err(error) = self.input.fill_buf() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error.into());
            }
        }
        Ok(self.input.fill_buf()?)
    }

    /// Takes the next byte.
    pub(super) fn byte(&mut self, within: &str) -> Result<u8, ReadError> {
        let Some(byte) = self.peek()? else {
            return Err(self.cut_short(within));
        };
        self.input.consume(1);
        self.offset += 1;
        self.line += u64::from(byte == b'\n');
        Ok(byte)
    }

    fn cut_short(&self, within: &str) -> ReadError {
        self.place()
            .malformed(format!("the file ends within {within}: it was cut short"))
    }

    /// Takes exactly these bytes.
    pub(super) fn literal(&mut self, bytes: &[u8], within: &str) -> Result<(), ReadError> {
        for expected in bytes {
            let place = self.place();
            let found = self.byte(within)?;
            if found != *expected {
                return Err(place.malformed(format!(
                    "{} where {} belongs, within {within}",
                    shown(found),
                    shown(*expected)
                )));
            }
        }
        Ok(())
    }

    /// Takes a name or number up to one of `ends`, which stays. Resolves escapes.
    pub(super) fn token(&mut self, ends: &[u8], within: &str) -> Result<Vec<u8>, ReadError> {
        self.long_token(ends, within, MAX_TOKEN_BYTES)
    }

    /// Like [`Scanner::token`], with its own limit on length.
    pub(super) fn long_token(
        &mut self,
        ends: &[u8],
        within: &str,
        bytes_max: usize,
    ) -> Result<Vec<u8>, ReadError> {
        let place = self.place();
        let mut token = Vec::new();
        loop {
            let next = self.peek()?;
            if next.is_some_and(|byte| ends.contains(&byte)) {
                return Ok(token);
            }
            let mut byte = self.byte(within)?;
            if byte == b'\\' && self.escapes {
                byte = self.byte(within)?;
            } else if byte == b'\n' {
                return Err(place.malformed(format!("the line ends within {within}")));
            }
            if token.len() == bytes_max {
                return Err(place.malformed(format!("{within} exceeds {bytes_max} bytes")));
            }
            token.push(byte);
        }
    }

    /// Takes a name up to the end of the line, and the line's end.
    pub(super) fn name_line(&mut self, within: &str) -> Result<String, ReadError> {
        let place = self.place();
        let token = self.token(b"\n", within)?;
        self.literal(b"\n", within)?;
        String::from_utf8(token).map_err(|_| place.malformed(format!("{within} is not UTF-8")))
    }

    /// Takes an integer and the `end` after it.
    pub(super) fn integer(
        &mut self,
        range: std::ops::RangeInclusive<i64>,
        end: u8,
        within: &str,
    ) -> Result<i64, ReadError> {
        let place = self.place();
        let token = self.token(&[end], within)?;
        self.literal(&[end], within)?;
        let digits = token.strip_prefix(b"-").unwrap_or(&token);
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let text = String::from_utf8_lossy(&token);
        let number = text.parse::<i64>().ok().filter(|_| is_number);
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| {
                place.malformed(format!(
                    "{text:?} is no {within} ({} to {})",
                    range.start(),
                    range.end()
                ))
            })
    }

    /// Takes a float up to the end of the line, and the line's end.
    pub(super) fn float_line(&mut self, within: &str) -> Result<f64, ReadError> {
        let place = self.place();
        let token = self.token(b"\n", within)?;
        self.literal(b"\n", within)?;
        read_float(&token).ok_or_else(|| {
            let text = String::from_utf8_lossy(&token);
            place.malformed(format!("{text:?} is no {within}"))
        })
    }

    /// Takes a length, that number of raw bytes, and the line's end. Appends the bytes to `out`.
    pub(super) fn raw_line(&mut self, out: &mut Vec<u8>, within: &str) -> Result<(), ReadError> {
        let len = self.length(MAX_VALUE_BYTES)?;
        self.take(len, within, |bytes| out.extend_from_slice(bytes))?;
        self.literal(b"\n", within)
    }

    /// Takes a length, that number of Base64 letters, and the line's end. Appends the decoded bytes
    /// to `out`.
    pub(super) fn base64_line(&mut self, out: &mut Vec<u8>, within: &str) -> Result<(), ReadError> {
        let len = self.length(MAX_VALUE_BYTES)?;
        self.base64(len, out, within)?;
        self.literal(b"\n", within)
    }

    /// Takes and decodes a number of Base64 letters.
    pub(super) fn base64(
        &mut self,
        len: u64,
        out: &mut Vec<u8>,
        within: &str,
    ) -> Result<(), ReadError> {
        let place = self.place();
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        self.take(len, within, |bytes| text.extend_from_slice(bytes))?;
        let decoded = base64::decode_into(&text, out);
        self.text = text;
        decoded.ok_or_else(|| place.malformed(format!("{within} is not Base64")))
    }

    /// Skips the rest of a line.
    pub(super) fn pass_over_line(&mut self, within: &str) -> Result<(), ReadError> {
        while self.byte(within)? != b'\n' {}
        Ok(())
    }

    /// Skips a length, that number of bytes, and the line's end.
    pub(super) fn pass_over(&mut self, within: &str) -> Result<(), ReadError> {
        let len = self.length(u64::from(u32::MAX))?;
        self.take(len, within, |_| {})?;
        self.literal(b"\n", within)
    }

    fn length(&mut self, most: u64) -> Result<u64, ReadError> {
        let len = self.integer(0..=most.cast_signed(), b' ', "length in bytes")?;
        Ok(len.cast_unsigned())
    }

    /// Takes a number of bytes in pieces, so an announced length alone costs no memory.
    fn take(
        &mut self,
        len: u64,
        within: &str,
        mut piece: impl FnMut(&[u8]),
    ) -> Result<(), ReadError> {
        let mut left = len;
        while left > 0 {
            let buffer = self.buffer()?;
            let taken = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
            let bytes = buffer.get(..taken).unwrap_or_default();
            if bytes.is_empty() {
                return Err(self.cut_short(within));
            }
            piece(bytes);
            let feeds = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            self.input.consume(taken);
            self.line += feeds;
            self.offset += taken as u64;
            left -= taken as u64;
        }
        Ok(())
    }
}

/// Shows a byte, for messages.
fn shown(byte: u8) -> String {
    match byte {
        b'\n' => "a line feed".to_owned(),
        b' ' => "a space".to_owned(),
        0x21..=0x7e => format!("'{}'", char::from(byte)),
        _ => format!("byte {byte:#04x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanner(text: &[u8]) -> Scanner<&[u8]> {
        let mut scanner = Scanner::new(text);
        scanner.take_escapes(true);
        scanner
    }

    #[test]
    fn a_backslash_takes_the_meaning_of_what_follows() {
        let mut scanner = scanner(b"a\\ b\\\nc\\\\d e");
        assert_eq!(scanner.token(b" ", "a name").unwrap(), b"a b\nc\\d");
        assert_eq!(scanner.place().line, 2);
        scanner.take_escapes(false);
        scanner.literal(b" e", "the rest").unwrap();
        assert_eq!(scanner.peek().unwrap(), None);
    }

    #[test]
    fn numbers_are_digits_within_a_range_and_nothing_else() {
        for (text, number) in [("0", 0), ("-5", -5), ("007", 7), ("9", 9)] {
            let line = format!("{text}\n");
            let read = scanner(line.as_bytes()).integer(-5..=9, b'\n', "number");
            assert_eq!(read.unwrap(), number);
        }
        for text in [
            "",
            "-",
            "+1",
            "1.0",
            " 1",
            "10",
            "-6",
            "x",
            "99999999999999999999",
        ] {
            let line = format!("{text}\n");
            let read = scanner(line.as_bytes()).integer(-5..=9, b'\n', "number");
            assert!(
                matches!(
                    read,
                    Err(ReadError::Malformed {
                        line: 1,
                        offset: 0,
                        ..
                    })
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn a_length_that_is_only_announced_takes_no_memory() {
        let mut out = Vec::new();
        let read = scanner(b"16777216 abc").raw_line(&mut out, "text");
        assert_eq!(
            read.unwrap_err().to_string(),
            "line 1, byte 12: the file ends within text: it was cut short"
        );
        assert!(out.capacity() < 1000);
        assert!(scanner(b"16777217 abc").raw_line(&mut out, "text").is_err());
    }
}
