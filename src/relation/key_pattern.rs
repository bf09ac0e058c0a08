//! `KeyPattern`: composite keys that are written, parsed and checked.

use std::fmt;
use std::marker::PhantomData;

use crate::record::Record;
use crate::{Error, Key, RecordSet, Result};

/// The form of a composite text key: literal text, and parts in braces.
///
/// A part is text, or an integer; `{episode:02}` writes an integer with at least two digits, so
/// that keys sort as their numbers do. Each key is written in one way only: the parts of a parsed
/// key write the same key again, and no two lists of parts have one key. For that, `%` in text is
/// escaped (`%` and two hexadecimal digits), and so is the character that begins the literal text
/// behind a part if more text follows: `{kind}_{name}` writes `temp%5fsensor_1`. The last text of a
/// key is written as it is, since the parts behind it are found from the end: `{name}_{n}` writes
/// `temp_sensor_1`.
///
/// Document: Riak, *Key/Value Modeling* (structured names, naming and verification), and
/// *Relationships* (key correspondence by prefix). Cost: none; the record that a key leads to is
/// one operation, many are one batch ([`KeyPattern::read_each`]). The parent's key is a part of the
/// child's, so it is found without a read; to find all children of a parent, use
/// [`Members`](super::Members) or [`OneToMany`](super::OneToMany).
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::relation::KeyPattern;
///
/// let episode = KeyPattern::<(u32, u32)>::new("season:{season}:episode:{episode:02}")?;
/// let key = episode.key((4, 12));
/// assert_eq!(key, "season:4:episode:12".into());
/// assert_eq!(episode.parse(&key)?, (4, 12));
/// assert!(episode.parse(&"season:4:episode:x".into()).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KeyPattern<P> {
    pattern: Box<str>,
    /// The text before the first part, then each part with the text behind it.
    prefix: Box<str>,
    parts: Vec<PatternPart>,
    typed: PhantomData<fn() -> P>,
}

#[derive(Clone, Debug)]
struct PatternPart {
    /// The least number of digits of an integer.
    width: usize,
    /// The text behind it.
    literal: Box<str>,
}

impl<P> fmt::Debug for KeyPattern<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyPattern").field(&self.pattern).finish()
    }
}

/// What a part of a composite key is: text or an integer.
pub trait KeyPart: Sized {
    /// Whether it is an integer.
    const IS_INTEGER: bool;
    /// Returns it as text; an integer has at least `width` digits.
    fn write(&self, width: usize) -> String;
    /// Returns the value of the text; `None` if it is nothing of this type.
    fn read(text: &str) -> Option<Self>;
}

impl KeyPart for String {
    const IS_INTEGER: bool = false;

    fn write(&self, _: usize) -> String {
        self.clone()
    }

    fn read(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

macro_rules! integer_parts {
    ($($type:ty)*) => {$(
        impl KeyPart for $type {
            const IS_INTEGER: bool = true;

            fn write(&self, width: usize) -> String {
                format!("{self:0width$}")
            }

            fn read(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    )*};
}

integer_parts!(i32 i64 u8 u16 u32 u64);

/// What all parts of a composite key are: a tuple of up to four, or one alone.
pub trait KeyParts: Sized {
    /// Whether each of them is an integer.
    const ARE_INTEGERS: &'static [bool];
    /// Returns them as text, given the widths of the integers.
    fn write(&self, widths: &[usize]) -> Vec<String>;
    /// Returns the values of the texts; `None` if one is of another type.
    fn read(texts: &[String]) -> Option<Self>;
}

impl<P: KeyPart> KeyParts for P {
    const ARE_INTEGERS: &'static [bool] = &[P::IS_INTEGER];

    fn write(&self, widths: &[usize]) -> Vec<String> {
        let width = widths.first().copied().unwrap_or(0);
        vec![KeyPart::write(self, width)]
    }

    fn read(texts: &[String]) -> Option<Self> {
        let [text] = texts else { return None };
        KeyPart::read(text)
    }
}

macro_rules! tuple_parts {
    ($($part:ident $at:tt),+) => {
        impl<$($part: KeyPart),+> KeyParts for ($($part,)+) {
            const ARE_INTEGERS: &'static [bool] = &[$($part::IS_INTEGER),+];

            fn write(&self, widths: &[usize]) -> Vec<String> {
                vec![$(self.$at.write(widths.get($at).copied().unwrap_or(0))),+]
            }

            fn read(texts: &[String]) -> Option<Self> {
                Some(($($part::read(texts.get($at)?)?,)+))
            }
        }
    };
}

tuple_parts!(A 0);
tuple_parts!(A 0, B 1);
tuple_parts!(A 0, B 1, C 2);
tuple_parts!(A 0, B 1, C 2, D 3);

impl<P: KeyParts> KeyPattern<P> {
    /// Takes a pattern such as `user_{name}`.
    ///
    /// # Errors
    /// [`Error::Parameter`] if it does not have as many parts as the type, two parts stand side by
    /// side, the text behind an integer begins with a digit or a minus sign, or a brace is open.
    pub fn new(pattern: &str) -> Result<Self> {
        let refuse = |why: String| Err(Error::parameter(format!("key pattern {pattern:?}: {why}")));
        let mut pieces = pattern.split('{');
        let prefix = pieces.next().unwrap_or_default();
        if prefix.contains('}') {
            return refuse("a brace is closed that was not opened".into());
        }
        let mut parts = Vec::new();
        for piece in pieces {
            let Some((part, literal)) = piece.split_once('}') else {
                return refuse(format!("the brace before {piece:?} is not closed"));
            };
            if literal.contains('}') {
                return refuse("a brace is closed that was not opened".into());
            }
            let width = match part.split_once(':').map(|(_, width)| width.parse()) {
                None => 0,
                // No integer part is longer: `u64::MAX` has 20 digits.
                Some(Ok(width)) if width <= 20 => width,
                Some(_) => return refuse(format!("{{{part}}} has no width of up to 20 digits")),
            };
            parts.push(PatternPart {
                width,
                literal: literal.into(),
            });
        }
        if parts.len() != P::ARE_INTEGERS.len() {
            let (found, wanted) = (parts.len(), P::ARE_INTEGERS.len());
            return refuse(format!("it has {found} parts, and its type has {wanted}"));
        }
        for (part, next) in parts
            .iter()
            .zip(parts.iter().skip(1).map(Some).chain([None]))
        {
            if part.literal.is_empty() && next.is_some() {
                return refuse("two parts stand side by side: put text between them".into());
            }
        }
        for (part, is_integer) in parts.iter().zip(P::ARE_INTEGERS) {
            let begins_as_integer = |sign: char| sign.is_ascii_digit() || sign == '-';
            if *is_integer && part.literal.starts_with(begins_as_integer) {
                return refuse(format!(
                    "the text {:?} behind an integer could be a part of it",
                    part.literal
                ));
            }
            if part
                .literal
                .starts_with(|sign: char| sign == '%' || sign.is_ascii_hexdigit())
                && !*is_integer
            {
                return refuse(format!(
                    "the text {:?} behind a part begins with a percent sign or a hexadecimal digit, by which text is escaped",
                    part.literal
                ));
            }
        }
        Ok(Self {
            pattern: pattern.into(),
            prefix: prefix.into(),
            parts,
            typed: PhantomData,
        })
    }

    /// Returns the key of these parts.
    #[must_use]
    pub fn key(&self, parts: P) -> Key<'static> {
        self.text_of(&parts).into()
    }

    fn text_of(&self, parts: &P) -> String {
        let widths: Vec<usize> = self.parts.iter().map(|part| part.width).collect();
        let mut key = self.prefix.to_string();
        for (at, (part, text)) in self.parts.iter().zip(parts.write(&widths)).enumerate() {
            let first = part.literal.chars().next();
            let reserved = first.filter(|_| !self.is_found_from_the_end(at));
            escape(&text, reserved, &mut key);
            key.push_str(&part.literal);
        }
        key
    }

    /// Returns whether a part is text, and the rest can be parsed from the end of a key: literal
    /// text and integers, none of which the literal text before it could be a part of.
    fn is_found_from_the_end(&self, at: usize) -> bool {
        let ends_as_integer = |sign: char| sign.is_ascii_digit() || sign == '-';
        let behind = P::ARE_INTEGERS.get(at + 1..).unwrap_or_default();
        P::ARE_INTEGERS.get(at) == Some(&false)
            && behind.iter().all(|is_integer| *is_integer)
            && (self.parts.iter().skip(at).take(behind.len()))
                .all(|part| !part.literal.ends_with(ends_as_integer))
    }

    /// Splits the end of a key: a part that is found from the end, and the integers behind it.
    fn split_end<'k>(&self, at: usize, mut end: &'k str) -> Option<Vec<&'k str>> {
        let mut found = Vec::new();
        for (number, part) in self.parts.iter().enumerate().skip(at).rev() {
            end = end.strip_suffix(&*part.literal)?;
            let before = if number == at {
                ""
            } else {
                let before = end.trim_end_matches(|sign: char| sign.is_ascii_digit());
                before.strip_suffix('-').unwrap_or(before)
            };
            found.push(end.strip_prefix(before)?);
            end = before;
        }
        found.reverse();
        Some(found)
    }

    /// Returns the parts of a key.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the key is not of the pattern, or is not the one way in which its
    /// parts are written.
    pub fn parse(&self, key: &Key<'_>) -> Result<P> {
        self.parts_of(key).ok_or_else(|| {
            Error::parameter(format!(
                "key {key} is not of the pattern {:?}: look at who writes it, or parse it by its own pattern",
                self.pattern
            ))
        })
    }

    /// Returns whether a key is of the pattern.
    #[must_use]
    pub fn matches(&self, key: &Key<'_>) -> bool {
        self.parts_of(key).is_some()
    }

    /// Reads the records of these parts in one batch, in their order; `None` where there is none.
    ///
    /// # Errors
    /// The first error of reading a record.
    pub fn read_each<R: RecordSet>(
        &self,
        records: &R,
        parts: impl IntoIterator<Item = P>,
    ) -> Result<Vec<Option<Record>>> {
        let keys: Vec<Key<'_>> = parts.into_iter().map(|parts| self.key(parts)).collect();
        records.read_each(&keys, None).into_iter().collect()
    }

    fn parts_of(&self, key: &Key<'_>) -> Option<P> {
        let Key::String(text) = key else { return None };
        let mut rest = text.strip_prefix(&*self.prefix)?;
        let mut texts = Vec::with_capacity(self.parts.len());
        for (at, part) in self.parts.iter().enumerate() {
            if self.is_found_from_the_end(at) {
                for text in self.split_end(at, rest)? {
                    texts.push(unescape(text)?);
                }
                rest = "";
                break;
            }
            // An escaped part does not hold the first character of the text behind it.
            let end = match part.literal.chars().next() {
                None => rest.len(),
                Some(first) => rest.find(first)?,
            };
            texts.push(unescape(rest.get(..end)?)?);
            rest = rest.get(end..)?.strip_prefix(&*part.literal)?;
        }
        let parts = P::read(&texts).filter(|_| rest.is_empty())?;
        (self.text_of(&parts) == *text).then_some(parts)
    }
}

/// Appends text with `%` and `reserved` escaped.
fn escape(text: &str, reserved: Option<char>, out: &mut String) {
    for sign in text.chars() {
        if sign == '%' || Some(sign) == reserved {
            let mut bytes = [0; 4];
            for byte in sign.encode_utf8(&mut bytes).bytes() {
                out.push_str(&format!("%{byte:02x}"));
            }
        } else {
            out.push(sign);
        }
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = if first == b'%' {
            let (digits, tail) = tail.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            tail
        } else {
            bytes.push(first);
            tail
        };
    }
    String::from_utf8(bytes).ok()
}
