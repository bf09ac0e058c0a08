//! Lua's patterns, matched in steps that count as instructions: a match of Lua's own library knows
//! no limit of time.

use mlua::{Error, Lua, LuaString, MultiValue, Result, Value};

use super::limit::{CHECK_EVERY, Limit, limit_of};

/// The most captures of a pattern, and the deepest nesting of a match: Lua's.
const CAPTURES_MAX: usize = 32;
const DEPTH_MAX: usize = 200;

/// What means something else than itself.
const SPECIAL: &[u8] = b"^$*+?.([%-";

/// Text and pattern; the position to begin at; whether the pattern is plain text, asked for by
/// `find` alone, which takes one without special bytes for plain, too; and the end of the match
/// before, which no match may repeat.
pub(super) type Search = (LuaString, LuaString, usize, Option<bool>, Option<usize>);

/// Looks for a pattern. Returns the positions of the match, and its captures; nil without a match,
/// and for a malformed pattern why.
///
/// # Errors
/// At the end of the call's limits.
pub(super) fn search(
    lua: &Lua,
    (text, pattern, from, is_plain, before): Search,
) -> Result<MultiValue> {
    let (text, pattern) = (&*text.as_bytes(), &*pattern.as_bytes());
    let limit = limit_of(lua)?;
    let mut matcher = Matcher {
        text,
        pattern,
        captures: Vec::new(),
        depth: 0,
        steps: 0,
        limit: &limit,
    };
    let found = matcher.search(from.saturating_sub(1), is_plain, before);
    // The steps of a short match count, too.
    matcher.spend()?;
    let nothing = |why| MultiValue::from_vec(vec![Value::Nil, why]);
    let (start, end) = match found {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(nothing(Value::Nil)),
        Err(Error::RuntimeError(why)) if limit.over().is_none() => {
            return Ok(nothing(Value::String(lua.create_string(why)?)));
        }
        Err(over) => return Err(over),
    };
    let position = |at: usize| Value::Integer(at as i64);
    let mut values = vec![position(start + 1), position(end)];
    for capture in &matcher.captures {
        values.push(match capture.end {
            CaptureEnd::Open => {
                let why = lua.create_string("unfinished capture")?;
                return Ok(nothing(Value::String(why)));
            }
            CaptureEnd::Position => position(capture.start + 1),
            CaptureEnd::At(end) => {
                let part = text.get(capture.start..end).unwrap_or_default();
                Value::String(lua.create_string(part)?)
            }
        });
    }
    Ok(MultiValue::from_vec(values))
}

struct Capture {
    start: usize,
    end: CaptureEnd,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CaptureEnd {
    Open,
    /// It captures where it is.
    Position,
    At(usize),
}

struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    depth: usize,
    /// Not counted as instructions yet.
    steps: u32,
    limit: &'a Limit,
}

/// The end of the match.
type Matched = Result<Option<usize>>;

impl Matcher<'_> {
    fn search(
        &mut self,
        from: usize,
        is_plain: Option<bool>,
        before: Option<usize>,
    ) -> Result<Option<(usize, usize)>> {
        let has_special = || self.pattern.iter().any(|byte| SPECIAL.contains(byte));
        let is_plain = is_plain.is_some_and(|is_plain| is_plain || !has_special());
        let is_anchored = !is_plain && self.pattern.first() == Some(&b'^');
        for start in from..=self.text.len() {
            self.captures.clear();
            let end = if is_plain {
                self.same(start, self.pattern)?
            } else {
                self.run(start, is_anchored.into())?
            };
            match end {
                Some(end) if before != Some(end) => return Ok(Some((start, end))),
                _ if is_anchored => break,
                _ => {}
            }
        }
        Ok(None)
    }

    fn step(&mut self, more: usize) -> Result<()> {
        self.steps = self.steps.saturating_add(more as u32);
        if self.steps >= CHECK_EVERY {
            self.spend()
        } else {
            Ok(())
        }
    }

    fn spend(&mut self) -> Result<()> {
        let steps = std::mem::take(&mut self.steps);
        self.limit.check(steps.into()).map_err(Error::runtime)
    }

    /// Matches bytes as they are.
    fn same(&mut self, s: usize, bytes: &[u8]) -> Matched {
        // Bytes are compared many at once.
        self.step(1 + bytes.len() / 64)?;
        let rest = self.text.get(s..).unwrap_or_default();
        Ok(rest.starts_with(bytes).then_some(s + bytes.len()))
    }

    fn run(&mut self, s: usize, p: usize) -> Matched {
        if self.depth == DEPTH_MAX {
            return Err(Error::runtime("pattern too complex"));
        }
        self.depth += 1;
        let matched = self.follow(s, p);
        self.depth -= 1;
        matched
    }

    /// Matches the pattern from `p` on with the text from `s` on.
    fn follow(&mut self, mut s: usize, mut p: usize) -> Matched {
        while let Some(item) = self.pattern.get(p) {
            self.step(1)?;
            match (item, self.pattern.get(p + 1)) {
                (b'(', Some(b')')) => return self.capture(s, CaptureEnd::Position, p + 2),
                (b'(', _) => return self.capture(s, CaptureEnd::Open, p + 1),
                (b')', _) => return self.end_capture(s, p + 1),
                (b'$', None) => return Ok((s == self.text.len()).then_some(s)),
                (b'%', Some(b'b')) => match self.balance(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    let set = p + 2;
                    if self.pattern.get(set) != Some(&b'[') {
                        return Err(Error::runtime("missing '[' after '%f' in pattern"));
                    }
                    p = self.item_end(set)?;
                    self.step((p - set) / 8)?;
                    let before = s.checked_sub(1).and_then(|at| self.text.get(at));
                    let here = self.text.get(s);
                    let set = self.pattern.get(set + 1..p - 1).unwrap_or_default();
                    let is_in = |byte: Option<&u8>| is_in_set(*byte.unwrap_or(&0), set);
                    if is_in(before) || !is_in(here) {
                        return Ok(None);
                    }
                }
                (b'%', Some(digit @ b'0'..=b'9')) => match self.captured(s, *digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.item_end(p)?;
                    let fits = self.fits(s, p, end)?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if fits && let Some(end) = self.run(s + 1, end + 1)? {
                                return Ok(Some(end));
                            }
                            p = end + 1;
                        }
                        Some(b'+') if !fits => return Ok(None),
                        // Without a deeper call, of which there may be 200.
                        Some(b'*' | b'-') if !fits => p = end + 1,
                        Some(b'+' | b'*') => return self.longest(s, p, end),
                        Some(b'-') => return self.shortest(s, p, end),
                        _ if !fits => return Ok(None),
                        _ => (s, p) = (s + 1, end),
                    }
                }
            }
        }
        Ok(Some(s))
    }

    /// Matches as many of an item as the rest of the pattern allows; for `+` at least one, which
    /// fits.
    fn longest(&mut self, s: usize, p: usize, end: usize) -> Matched {
        let least = usize::from(self.pattern.get(end) == Some(&b'+'));
        let mut count = 0;
        while self.fits(s + count, p, end)? {
            count += 1;
        }
        for count in (least..=count).rev() {
            if let Some(end) = self.run(s + count, end + 1)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn shortest(&mut self, mut s: usize, p: usize, end: usize) -> Matched {
        loop {
            if let Some(end) = self.run(s, end + 1)? {
                return Ok(Some(end));
            }
            if !self.fits(s, p, end)? {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn capture(&mut self, start: usize, end: CaptureEnd, p: usize) -> Matched {
        if self.captures.len() == CAPTURES_MAX {
            return Err(Error::runtime("too many captures"));
        }
        let count = self.captures.len();
        self.captures.push(Capture { start, end });
        let matched = self.run(start, p)?;
        if matched.is_none() {
            self.captures.truncate(count);
        }
        Ok(matched)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> Matched {
        let is_open = |capture: &Capture| capture.end == CaptureEnd::Open;
        let open = self.captures.iter().rposition(is_open);
        let open = open.ok_or_else(|| Error::runtime("invalid pattern capture"))?;
        self.set_end(open, CaptureEnd::At(s));
        let matched = self.run(s, p)?;
        if matched.is_none() {
            self.set_end(open, CaptureEnd::Open);
        }
        Ok(matched)
    }

    fn set_end(&mut self, capture: usize, end: CaptureEnd) {
        if let Some(capture) = self.captures.get_mut(capture) {
            capture.end = end;
        }
    }

    /// Matches what a capture has.
    fn captured(&mut self, s: usize, digit: u8) -> Matched {
        let number = usize::from(digit - b'0');
        let capture = number.checked_sub(1).and_then(|at| self.captures.get(at));
        let part = match capture.map(|capture| (capture.start, capture.end)) {
            // In Lua no text is equal to a position.
            Some((_, CaptureEnd::Position)) => return Ok(None),
            Some((start, CaptureEnd::At(end))) => self.text.get(start..end),
            _ => None,
        };
        let invalid = || Error::runtime(format!("invalid capture index %{number}"));
        let part = part.ok_or_else(invalid)?;
        self.same(s, part)
    }

    /// Matches from an opening byte to the closing one that belongs to it.
    fn balance(&mut self, s: usize, p: usize) -> Matched {
        let (Some(open), Some(close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(malformed("missing arguments to '%b'"));
        };
        if self.text.get(s) != Some(open) {
            return Ok(None);
        }
        let mut depth = 1;
        let behind = self.text.get(s + 1..).unwrap_or_default();
        for (byte, end) in behind.iter().zip(s + 2..) {
            self.step(1)?;
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(end));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// Where the item of the pattern at `p` ends: a byte, a class or a set.
    fn item_end(&self, p: usize) -> Result<usize> {
        let byte = |at: usize| self.pattern.get(at).copied();
        match byte(p) {
            Some(b'%') if byte(p + 1).is_none() => Err(malformed("ends with '%'")),
            Some(b'%') => Ok(p + 2),
            Some(b'[') => {
                let mut at = p + 1 + usize::from(byte(p + 1) == Some(b'^'));
                // The first byte of a set does not end it.
                loop {
                    at += match byte(at) {
                        None => return Err(malformed("missing ']'")),
                        Some(b'%') => 2,
                        Some(_) => 1,
                    };
                    if byte(at) == Some(b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether the item of the pattern from `p` to `end` fits the byte at `s`.
    fn fits(&mut self, s: usize, p: usize, end: usize) -> Result<bool> {
        // A set may be long.
        self.step(1 + (end - p) / 16)?;
        let item = self.pattern.get(p..end).unwrap_or_default();
        Ok(self.text.get(s).is_some_and(|byte| match item {
            [b'.'] => true,
            [b'%', class] => is_of(*byte, *class),
            [b'[', set @ .., b']'] => is_in_set(*byte, set),
            item => item == [*byte],
        }))
    }
}

fn malformed(why: &str) -> Error {
    Error::runtime(format!("malformed pattern ({why})"))
}

/// Whether a byte is in a set, without its brackets.
fn is_in_set(byte: u8, set: &[u8]) -> bool {
    let (mut rest, is_negated) = match set {
        [b'^', rest @ ..] => (rest, true),
        _ => (set, false),
    };
    let mut is_in = false;
    while !is_in {
        (is_in, rest) = match rest {
            [b'%', class, rest @ ..] => (is_of(byte, *class), rest),
            [low, b'-', high, rest @ ..] => ((low..=high).contains(&&byte), rest),
            [one, rest @ ..] => (*one == byte, rest),
            [] => break,
        };
    }
    is_in != is_negated
}

/// Whether a byte is of a class, by its letter; other bytes stand for themselves.
fn is_of(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return byte == class,
    };
    is_in != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mlua::{Function, LuaOptions, StdLib};
    use proptest::prelude::*;

    use super::*;

    /// What Lua's own `string.find` finds, and what is found here: the values, or that the pattern
    /// is refused.
    fn both(text: &str, pattern: &str) -> [Option<String>; 2] {
        let lua = Lua::new_with(StdLib::STRING, LuaOptions::default()).unwrap();
        let own = "local text, pattern = ... return string.find(text, pattern)";
        let own: Function = lua.load(own).into_function().unwrap();
        let shown = |values: Result<MultiValue>| {
            let values = values.ok()?;
            let is_found = values.front().is_some_and(|first| !first.is_nil());
            let is_refused = !is_found && values.get(1).is_some_and(|why| !why.is_nil());
            let found = is_found.then(|| format!("{values:?}"));
            (!is_refused).then(|| found.unwrap_or_default())
        };
        let of_lua = shown(own.call((text, pattern)));
        lua.set_app_data(Arc::new(Limit::default()));
        let [text, pattern] = [text, pattern].map(|text| lua.create_string(text).unwrap());
        let found = search(&lua, (text, pattern, 1, Some(false), None));
        [of_lua, shown(found)]
    }

    #[test]
    fn patterns_find_what_they_find_in_lua() {
        for (text, pattern) in [
            ("  key = value", "^%s*(%w+)%s*=%s*(%w+)$"),
            ("f(a(b)c)d", "%b()"),
            ("THE (quick) fox", "%f[%a]%a+%f[%A]"),
            ("x = 'it' .. \"is\"", "([\"'])(.-)%1"),
            ("a]b^c-d%", "[]^%-%%]+"),
            ("aaa", "a-(a?)$"),
            ("a\0b", "%z"),
            ("hello", "()ll()"),
            ("hello", "()%1"),
            ("b", &"a*".repeat(201)),
            ("b", &"a-".repeat(201)),
            ("hello", "%"),
            ("hello", "[a"),
            ("hello", "(l"),
            ("hello", "l)"),
            ("hello", "%1"),
            ("hello", "%b"),
            ("hello", "%fl"),
        ] {
            let [of_lua, found] = both(text, pattern);
            assert_eq!(found, of_lua, "{text:?} {pattern:?}");
        }
    }

    proptest! {
        #[test]
        fn any_pattern_finds_what_it_finds_in_lua(text in "[ab1 .]{0,12}", pattern in r"(\^?[ab1.()\[\]%*+?$^bfadw-]{0,10})") {
            let [of_lua, found] = both(&text, &pattern);
            prop_assert_eq!(found, of_lua);
        }
    }
}
