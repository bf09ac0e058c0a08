//! POSIX regular expressions, basic and extended, translated for `regex-lite`.
//!
//! Both syntaxes accept the extensions of the GNU library (`\w`, `\<`, `\+` in basic ones).
//! Matching goes character by character, not byte by byte; ignoring case concerns ASCII letters
//! only; there is no locale. Refused are back-references, which have no bounded cost, and collating
//! elements of several characters.

use std::iter::Peekable;
use std::str::Chars;

use regex_lite::{Regex, RegexBuilder};

use super::refusal::{ExpressionRefusal, refuse};

const EXTENDED: i64 = 1;
const IGNORE_CASE: i64 = 2;
/// Accepted without effect: callers never ask where a match is.
const NO_SUBEXPRESSIONS: i64 = 4;
const NEWLINE: i64 = 8;

/// Memory limit of a compiled pattern, in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 18;
/// How deep groups may nest.
const MAX_NESTING: u32 = 64;
/// The largest repetition count: POSIX's.
const MAX_REPETITIONS: u32 = 255;

/// The number of parts of a pattern that cost as much as a byte of a text.
const PARTS_AT_ONCE: usize = 16;

/// A compiled pattern. It matches anywhere in a text.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// The number of its parts, each as often as it is repeated at most.
    parts: usize,
}

impl Pattern {
    pub(super) fn new(pattern: &[u8], flags: i64) -> Result<Self, ExpressionRefusal> {
        let known = EXTENDED | IGNORE_CASE | NO_SUBEXPRESSIONS | NEWLINE;
        if flags & !known != 0 {
            return refuse(format!("regex_compare: flags {flags:#x} are not known"));
        }
        // Some clients send a C string with its terminator.
        let pattern = pattern.split(|byte| *byte == 0).next().unwrap_or_default();
        let Ok(pattern) = std::str::from_utf8(pattern) else {
            return refuse("regex_compare: the pattern is not UTF-8");
        };
        let by_line = flags & NEWLINE != 0;
        let (translated, parts) = Translation::new(pattern, flags & EXTENDED != 0, by_line)
            .run()
            .or_else(|why| refuse(format!("regex_compare: {why} in the pattern {pattern:?}")))?;
        RegexBuilder::new(&translated)
            .case_insensitive(flags & IGNORE_CASE != 0)
            .multi_line(by_line)
            .dot_matches_new_line(!by_line)
            .size_limit(MAX_COMPILED_BYTES)
            .nest_limit(MAX_NESTING)
            .build()
            .map(|regex| Self { regex, parts })
            .or_else(|error| refuse(format!("regex_compare: {error}: {pattern:?}")))
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The cost of matching a byte of a text: any part of the pattern may be tried there.
    pub(super) fn cost(&self) -> usize {
        1 + self.parts / PARTS_AT_ONCE
    }
}

struct Translation<'p> {
    rest: Peekable<Chars<'p>>,
    extended: bool,
    /// Each line is matched by itself.
    by_line: bool,
    out: String,
    /// The number of parts of the pattern in `out`.
    parts: usize,
    /// The open groups: where each starts in `out`, and the number of parts before.
    open: Vec<(usize, usize)>,
    /// Start of the expression that a repetition would apply to; `None` at the beginning of a
    /// branch. With the number of parts before it.
    atom: Option<(usize, usize)>,
    /// That expression is a repetition already.
    repeated: bool,
    /// The number of groups put around it, one for each repetition of a repetition. Each moves it
    /// in the translation.
    wraps: usize,
}

/// The meaning of the next characters, independent of the syntax.
enum Symbol {
    Char(char),
    Any,
    Bracket,
    Open,
    Close,
    Or,
    Start,
    End,
    Repeat(u32, Option<u32>),
    /// An extension spelled the same in the translation.
    Class(&'static str),
}

type Translated<T> = Result<T, &'static str>;

impl<'p> Translation<'p> {
    fn new(pattern: &'p str, extended: bool, by_line: bool) -> Self {
        Self {
            rest: pattern.chars().peekable(),
            extended,
            by_line,
            out: String::with_capacity(pattern.len() + 8),
            parts: 0,
            open: Vec::new(),
            atom: None,
            repeated: false,
            wraps: 0,
        }
    }

    fn run(mut self) -> Translated<(String, usize)> {
        while let Some(symbol) = self.symbol()? {
            let start = (self.out.len(), self.parts);
            self.parts += 1;
            match symbol {
                Symbol::Char(char) => {
                    self.literal(char);
                    self.atom_from(start);
                }
                Symbol::Any => {
                    self.out.push('.');
                    self.atom_from(start);
                }
                Symbol::Class(class) => {
                    self.out.push_str(class);
                    self.atom_from(start);
                }
                Symbol::Bracket => {
                    self.bracket()?;
                    self.atom_from(start);
                }
                Symbol::Open => {
                    self.check_nesting(0)?;
                    self.out.push_str("(?:");
                    self.open.push(start);
                    self.atom = None;
                }
                Symbol::Close => match self.open.pop() {
                    Some(start) => {
                        self.out.push(')');
                        self.atom_from(start);
                    }
                    None if self.extended => {
                        self.literal(')');
                        self.atom_from(start);
                    }
                    None => return Err("a group is closed that is not open"),
                },
                Symbol::Or => {
                    self.out.push('|');
                    self.atom = None;
                }
                // No atom: at the beginning of a branch there is still nothing to repeat behind it.
                Symbol::Start => self.out.push('^'),
                Symbol::End => {
                    self.out.push('$');
                    self.atom_from(start);
                }
                Symbol::Repeat(least, most) => self.repeat(least, most)?,
            }
        }
        if self.open.is_empty() {
            Ok((self.out, self.parts))
        } else {
            Err("a group is not closed")
        }
    }

    const fn atom_from(&mut self, start: (usize, usize)) {
        self.atom = Some(start);
        self.repeated = false;
        self.wraps = 0;
    }

    /// Refuses a group inside the open ones and around `wraps` others.
    fn check_nesting(&self, wraps: usize) -> Translated<()> {
        if self.open.len() + wraps < MAX_NESTING as usize {
            Ok(())
        } else {
            Err("there are groups or repetitions of repetitions, nested deeper than 64,")
        }
    }

    fn literal(&mut self, char: char) {
        if char.is_ascii_punctuation() {
            self.out.push('\\');
        }
        self.out.push(char);
    }

    fn repeat(&mut self, least: u32, most: Option<u32>) -> Translated<()> {
        let Some((atom, parts_before)) = self.atom else {
            return Err("there is nothing to repeat");
        };
        if self.repeated {
            // After a repetition, the same signs would have another meaning in the translation
            // (`a+?` is lazy there).
            self.check_nesting(self.wraps)?;
            self.wraps += 1;
            self.out.insert_str(atom, "(?:");
            self.out.push(')');
        }
        self.repeated = true;
        let further = most.unwrap_or(least).saturating_sub(1) as usize;
        let repeated = self.parts - parts_before;
        self.parts = self.parts.saturating_add(repeated.saturating_mul(further));
        match (least, most) {
            (0, None) => self.out.push('*'),
            (1, None) => self.out.push('+'),
            (0, Some(1)) => self.out.push('?'),
            (least, None) => self.out.push_str(&format!("{{{least},}}")),
            (least, Some(most)) => self.out.push_str(&format!("{{{least},{most}}}")),
        }
        Ok(())
    }

    fn symbol(&mut self) -> Translated<Option<Symbol>> {
        let Some(char) = self.rest.next() else {
            return Ok(None);
        };
        let symbol = match char {
            '\\' => {
                let Some(escaped) = self.rest.next() else {
                    return Err("a backslash stands at the end");
                };
                return self.escaped(escaped).map(Some);
            }
            '.' => Symbol::Any,
            '[' => Symbol::Bracket,
            // At the beginning of a basic expression there is nothing to repeat.
            '*' if !self.extended && self.atom.is_none() => Symbol::Char('*'),
            '*' => Symbol::Repeat(0, None),
            '^' if self.extended || self.atom.is_none() => Symbol::Start,
            '$' if self.extended || self.ends_branch() => Symbol::End,
            '+' if self.extended => Symbol::Repeat(1, None),
            '?' if self.extended => Symbol::Repeat(0, Some(1)),
            '(' if self.extended => Symbol::Open,
            ')' if self.extended => Symbol::Close,
            '|' if self.extended => Symbol::Or,
            '{' if self.extended => self.interval()?,
            other => Symbol::Char(other),
        };
        Ok(Some(symbol))
    }

    fn escaped(&mut self, char: char) -> Translated<Symbol> {
        Ok(match char {
            '1'..='9' => return Err("there is a back-reference, which is not supported,"),
            'w' => Symbol::Class(r"\w"),
            'W' => Symbol::Class(r"\W"),
            's' => Symbol::Class(r"\s"),
            'S' => Symbol::Class(r"\S"),
            'b' => Symbol::Class(r"\b"),
            'B' => Symbol::Class(r"\B"),
            '<' => Symbol::Class(r"\b{start}"),
            '>' => Symbol::Class(r"\b{end}"),
            '`' => Symbol::Class(r"\A"),
            '\'' => Symbol::Class(r"\z"),
            other if self.extended => Symbol::Char(other),
            '(' => Symbol::Open,
            ')' => Symbol::Close,
            '|' => Symbol::Or,
            '+' => Symbol::Repeat(1, None),
            '?' => Symbol::Repeat(0, Some(1)),
            '{' => self.interval()?,
            other => Symbol::Char(other),
        })
    }

    /// Returns whether a pattern, a group or an alternative ends here, in a basic expression.
    fn ends_branch(&self) -> bool {
        let mut ahead = self.rest.clone();
        match ahead.next() {
            None => true,
            Some('\\') => matches!(ahead.next(), Some(')' | '|')),
            Some(_) => false,
        }
    }

    /// Parses the rest of `{m}`, `{m,}`, `{,n}` or `{m,n}`.
    fn interval(&mut self) -> Translated<Symbol> {
        const MALFORMED: &str = "a number of repetitions is malformed";
        let least = self.number()?;
        let most = if self.rest.next_if_eq(&',').is_some() {
            self.number()?
        } else {
            Some(least.ok_or(MALFORMED)?)
        };
        if !self.extended && self.rest.next() != Some('\\') {
            return Err(MALFORMED);
        }
        if self.rest.next() != Some('}') {
            return Err(MALFORMED);
        }
        let least = least.unwrap_or(0);
        if most.is_some_and(|most| most < least) {
            return Err(MALFORMED);
        }
        Ok(Symbol::Repeat(least, most))
    }

    fn number(&mut self) -> Translated<Option<u32>> {
        let mut number = None;
        while let Some(digit) = self.rest.peek().and_then(|char| char.to_digit(10)) {
            self.rest.next();
            let value = number.unwrap_or(0) * 10 + digit;
            if value > MAX_REPETITIONS {
                return Err("more than 255 repetitions");
            }
            number = Some(value);
        }
        Ok(number)
    }

    /// Parses the rest of a bracket expression. Inside, only `]`, `-`, `^` at the beginning, and
    /// `[` before `:`, `=` and `.` have a special meaning.
    fn bracket(&mut self) -> Translated<()> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
            if self.by_line {
                self.out.push_str("\\n");
            }
        }
        let mut first = true;
        loop {
            match self.rest.next() {
                None => return Err("a bracket is not closed"),
                Some(']') if !first => break,
                Some('[') if self.rest.next_if_eq(&':').is_some() => {
                    let name = self.until(':')?;
                    self.out.push_str(&format!("[:{name}:]"));
                }
                Some(char) => {
                    let from = self.bracketed(char)?;
                    let mut ahead = self.rest.clone();
                    let is_range = ahead.next() == Some('-') && ahead.next() != Some(']');
                    self.literal(from);
                    if is_range {
                        self.rest.next();
                        let Some(to) = self.rest.next() else {
                            return Err("a bracket is not closed");
                        };
                        let to = self.bracketed(to)?;
                        self.out.push('-');
                        self.literal(to);
                    }
                }
            }
            first = false;
        }
        self.out.push(']');
        Ok(())
    }

    /// Parses a character, or the one in `[.c.]` or `[=c=]`.
    fn bracketed(&mut self, char: char) -> Translated<char> {
        if char != '[' {
            return Ok(char);
        }
        let Some(sign) = self.rest.next_if(|next| matches!(next, '.' | '=')) else {
            return Ok(char);
        };
        let element = self.until(sign)?;
        let mut chars = element.chars();
        match (chars.next(), chars.next()) {
            (Some(char), None) => Ok(char),
            _ => Err("there is a collating element of several characters"),
        }
    }

    /// Takes the text before `sign` and a closing bracket.
    fn until(&mut self, sign: char) -> Translated<String> {
        let mut inside = String::new();
        while let Some(char) = self.rest.next() {
            if char == sign && self.rest.next_if_eq(&']').is_some() {
                return Ok(inside);
            }
            inside.push(char);
        }
        Err("a bracket is not closed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ICASE: i64 = IGNORE_CASE;

    #[test]
    fn patterns_match_as_posix_has_it() {
        let table = [
            // Extended syntax.
            (EXTENDED, "b.d", "abcde", true),
            (EXTENDED, "^b", "ab", false),
            (EXTENDED, "^(ab|cd)+$", "abcdab", true),
            (EXTENDED, "^(ab|cd)+$", "abc", false),
            (EXTENDED, "^a{2,3}$", "aaa", true),
            (EXTENDED, "^a{2,3}$", "aaaa", false),
            (EXTENDED, "^a{2}$", "aa", true),
            (EXTENDED, "^a{,2}$", "aaa", false),
            (EXTENDED, "^a{2,}$", "aaaaa", true),
            (EXTENDED, "colou?r", "the color", true),
            (EXTENDED, r"a\.b", "axb", false),
            (EXTENDED, r"^\d$", "d", true),
            (EXTENDED, r"^\d$", "5", false),
            (EXTENDED, "a|", "", true),
            (EXTENDED, "^()$", "", true),
            (EXTENDED, "", "anything", true),
            (EXTENDED, "^a)$", "a)", true),
            (EXTENDED, "^a+?$", "", true),
            (EXTENDED, "^a**$", "aaa", true),
            (EXTENDED, r"\<word\>", "a word.", true),
            (EXTENDED, r"\<word\>", "swords", false),
            (EXTENDED, r"^\w+\s\S$", "ab c", true),
            // Bracket expressions.
            (EXTENDED, "^[[:alpha:]_]+$", "ab_c", true),
            (EXTENDED, "^[^[:digit:]]+$", "a1", false),
            (EXTENDED, "^[]a]+$", "]a]", true),
            (EXTENDED, "^[^]a]+$", "]", false),
            (EXTENDED, "^[a-c-]+$", "a-c", true),
            (EXTENDED, "^[+--]+$", "+,-", true),
            (EXTENDED, r"^[\d]+$", r"\d", true),
            (EXTENDED, r"^[\d]+$", "5", false),
            (EXTENDED, "^[a&&b~~]+$", "a&b~", true),
            (EXTENDED, "^[[.-.][=a=]]+$", "-a", true),
            (EXTENDED, "^[[]+$", "[", true),
            // Basic syntax.
            (0, "a+", "a+", true),
            (0, "^a+$", "aa", false),
            (0, r"^a\+$", "aa", true),
            (0, r"^\(ab\)*$", "abab", true),
            (0, "^(ab)$", "(ab)", true),
            (0, r"^a\{2\}$", "aa", true),
            (0, "^a{2}$", "a{2}", true),
            (0, "^*a", "*a", true),
            (0, "*a", "x*a", true),
            (0, r"\(*a\)", "*a", true),
            (0, "a^b$c", "a^b$c", true),
            (0, r"^a\|b$", "b", true),
            (0, r"\(^a\)", "ba", false),
            // The flags.
            (EXTENDED, "ABC", "abc", false),
            (EXTENDED | ICASE, "ABC", "xabcx", true),
            (EXTENDED | ICASE | NO_SUBEXPRESSIONS, "[A-C]+", "abc", true),
            (EXTENDED, "^b$", "a\nb", false),
            (EXTENDED | NEWLINE, "^b$", "a\nb", true),
            (EXTENDED, "a.b", "a\nb", true),
            (EXTENDED | NEWLINE, "a.b", "a\nb", false),
            (EXTENDED, "a[^x]b", "a\nb", true),
            (EXTENDED | NEWLINE, "a[^x]b", "a\nb", false),
            (EXTENDED, "a$", "a\n", false),
            (EXTENDED, "^.$", "\u{e9}", true),
        ];
        for (flags, pattern, text, expected) in table {
            let compiled = Pattern::new(pattern.as_bytes(), flags).unwrap();
            assert_eq!(
                compiled.is_match(text),
                expected,
                "{pattern:?} ({flags}) on {text:?}: {compiled:?}"
            );
        }
        assert!(Pattern::new(b"^a\0", EXTENDED).unwrap().is_match("a"));
    }

    #[test]
    fn patterns_that_are_none_are_refused() {
        let table: [(i64, &[u8]); 15] = [
            (EXTENDED, b"("),
            (EXTENDED, b"["),
            (EXTENDED, b"[a"),
            (EXTENDED, b"[[:nothing:]]"),
            (EXTENDED, b"[b-a]"),
            (EXTENDED, b"*a"),
            (EXTENDED, b"a{"),
            (EXTENDED, b"a{3,2}"),
            (EXTENDED, b"a{256}"),
            (EXTENDED, b"(((a{255}){255}){255}){255}"),
            (EXTENDED, b"\\"),
            (EXTENDED, b"\xff"),
            (0, b"\\(a\\)\\1"),
            (0, b"\\)"),
            (16, b"a"),
        ];
        for (flags, pattern) in table {
            assert!(Pattern::new(pattern, flags).is_err(), "{pattern:?}");
        }
        let deep = "(".repeat(10_000) + &")".repeat(10_000);
        assert!(Pattern::new(deep.as_bytes(), EXTENDED).is_err());
    }
}
