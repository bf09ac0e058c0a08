//! A report as text: at most 100 columns, or as wide as the terminal, and colour only there.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::document::{Report, ReportBlock, Severity, Verdict};
use super::table::{Align, Cell, ReportTable};

/// The width that no line exceeds, in columns: letters of some scripts take two.
pub(crate) const TEXT_COLUMNS: usize = 100;

/// The indent of every line below a section's title.
const INDENT: &str = "  ";
/// The indent of the rows of a table.
const ROW_INDENT: &str = "    ";
/// Between columns.
const GAP: usize = 2;
/// A column of words is not made narrower than that.
const WORDS_MIN: usize = 16;

/// Where a report is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    /// The width that no line exceeds, in columns.
    pub(crate) columns: usize,
    /// Whether the words of verdicts have the colours of their levels.
    pub(crate) has_colours: bool,
}

impl Default for Terminal {
    /// A file, or a reader without a terminal.
    fn default() -> Self {
        Self {
            columns: TEXT_COLUMNS,
            has_colours: false,
        }
    }
}

/// Writes the report.
pub(super) fn write(report: &Report, terminal: Terminal) -> String {
    let mut text = Text {
        terminal,
        out: String::new(),
        below_title: false,
    };
    text.wrapped("", &report.title);
    if let Some(lead) = &report.lead {
        text.gap();
        let from = text.out.len();
        text.wrapped(INDENT, &format!("{}: {}", lead.word, lead.sentence));
        text.paint(from, &lead.word, lead.level);
        text.gap();
    } else {
        text.facts(&report.facts);
    }
    for (number, section) in report.sections.iter().enumerate() {
        text.gap();
        text.wrapped("", &section.title);
        let underline = section.title.width().min(terminal.columns);
        text.line("", &"-".repeat(underline));
        text.below_title = true;
        for block in &section.blocks {
            text.block(block);
        }
        // The opening of a report comes before how it was made.
        if number == 0 && report.lead.is_some() {
            text.gap();
            text.facts(&report.facts);
        }
    }
    text.out
}

struct Text {
    terminal: Terminal,
    out: String,
    below_title: bool,
}

impl Text {
    fn line(&mut self, indent: &str, line: &str) {
        self.out.push_str(indent);
        self.out.push_str(line);
        self.out.truncate(self.out.trim_end_matches(' ').len());
        self.out.push('\n');
        self.below_title = false;
    }

    /// Gives a word the colour of its level, at its first place behind this one.
    fn paint(&mut self, from: usize, word: &str, level: Severity) {
        let colour = match level {
            Severity::Good => 32,
            Severity::Watch => 33,
            Severity::Bad => 31,
        };
        let at = self.out.get(from..).and_then(|written| written.find(word));
        if let Some(at) = at.filter(|_| self.terminal.has_colours) {
            let painted = format!("\u{1b}[1;{colour}m{word}\u{1b}[0m");
            self.out
                .replace_range(from + at..from + at + word.len(), &painted);
        }
    }

    /// Adds an empty line, unless there is one, or a title above.
    fn gap(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") && !self.below_title {
            self.out.push('\n');
        }
    }

    fn wrapped(&mut self, indent: &str, words: &str) {
        for line in wrap(words, self.terminal.columns - indent.len()) {
            self.line(indent, &line);
        }
    }

    fn block(&mut self, block: &ReportBlock) {
        match block {
            ReportBlock::Paragraph(words) => self.wrapped(INDENT, words),
            ReportBlock::Facts(facts) => self.facts(facts),
            ReportBlock::Verdict(verdict) => self.verdict(verdict),
            ReportBlock::Table(table) => self.table(table),
            ReportBlock::Chart(chart) => self.table(&chart.to_text_table()),
        }
    }

    fn verdict(&mut self, verdict: &Verdict) {
        let word = &verdict.word;
        let from = self.out.len();
        let beside = format!("{INDENT}{:width$} ", "", width = word.width().max(6));
        for (number, line) in wrap(&verdict.subject, self.terminal.columns - beside.len())
            .iter()
            .enumerate()
        {
            let before = if number == 0 { word } else { "" };
            self.line(INDENT, &format!("{before:<6} {line}"));
        }
        self.paint(from, word, verdict.level);
        self.wrapped(&beside, &verdict.sentence);
    }

    /// Writes names, with their values beside them.
    fn facts(&mut self, facts: &[(String, String)]) {
        let mut table = ReportTable::new("", &["", ""]).left();
        for (name, value) in facts {
            table.row([name, value].map(Cell::text));
        }
        for part in parts(&table, self.terminal.columns - INDENT.len()) {
            self.rows(INDENT, &table, &table.rows, &part);
        }
    }

    fn table(&mut self, table: &ReportTable) {
        self.gap();
        self.wrapped(INDENT, &table.caption);
        let names = table.columns.iter().map(|one| Cell::text(&one.name));
        let heading = [names.collect()];
        for part in parts(table, self.terminal.columns - ROW_INDENT.len()) {
            self.rows(ROW_INDENT, table, &heading, &part);
            self.rows(ROW_INDENT, table, &table.rows, &part);
        }
        self.gap();
    }

    /// Writes the columns of these indices, with these widths.
    fn rows(
        &mut self,
        indent: &str,
        table: &ReportTable,
        rows: &[Vec<Cell>],
        part: &[(usize, usize)],
    ) {
        for row in rows {
            let cells: Vec<(usize, Align, Vec<String>)> = part
                .iter()
                .map(|(place, width)| {
                    let text = row.get(*place).map_or("", Cell::as_text);
                    let align = table
                        .columns
                        .get(*place)
                        .map_or(Align::Left, |one| one.align);
                    (*width, align, wrap(text, *width))
                })
                .collect();
            let height = cells
                .iter()
                .map(|(_, _, lines)| lines.len())
                .max()
                .unwrap_or(1);
            for number in 0..height {
                let mut line = String::new();
                for (place, (width, align, lines)) in cells.iter().enumerate() {
                    if place > 0 {
                        line.push_str(&" ".repeat(GAP));
                    }
                    let text = lines.get(number).map_or("", String::as_str);
                    let fill = " ".repeat(width.saturating_sub(text.width()));
                    match align {
                        Align::Left => line.extend([text, &fill]),
                        Align::Right => line.extend([&fill, text]),
                    }
                }
                self.line(indent, &line);
            }
        }
    }
}

/// Splits the columns of a table into parts that fit into a width, each beginning with the first
/// column: indices and widths.
fn parts(table: &ReportTable, room: usize) -> Vec<Vec<(usize, usize)>> {
    let mut widths: Vec<usize> = (0..table.columns.len())
        .map(|place| natural(table, place))
        .collect();
    if let Some(narrower) = with_narrower_words(table, &widths, room) {
        widths = narrower;
    }
    // Every part repeats the first column, so it takes half of the room at most.
    if let [first, _, ..] = &mut widths[..] {
        *first = (*first).min(room / 2);
    }
    let widths = widths.into_iter().map(|width| width.min(room));
    let mut columns = widths.enumerate();
    let Some(first) = columns.next() else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    let mut part = vec![first];
    for column in columns {
        let used = part.iter().map(|(_, width)| width + GAP).sum::<usize>();
        if part.len() > 1 && used + column.1 > room {
            parts.push(std::mem::replace(&mut part, vec![first]));
        }
        // Columns too wide beside the first one are wrapped.
        let beside = room.saturating_sub(first.1 + GAP).max(1);
        part.push((column.0, column.1.min(beside)));
    }
    parts.push(part);
    parts
}

/// Returns widths with which all columns fit, if the columns of words can give way: the widest
/// gives most.
fn with_narrower_words(table: &ReportTable, widths: &[usize], room: usize) -> Option<Vec<usize>> {
    let mut widths = widths.to_vec();
    while total(&widths) > room {
        let columns = widths.iter_mut().zip(&table.columns);
        let (widest, _) = columns
            .filter(|(width, column)| column.align == Align::Left && **width > WORDS_MIN)
            .max_by_key(|(width, _)| **width)?;
        *widest -= 1;
    }
    Some(widths)
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Returns the width of a column's widest cell, its heading included.
fn natural(table: &ReportTable, place: usize) -> usize {
    let heading = table.columns.get(place).map_or("", |column| &column.name);
    let cells = table.rows.iter().filter_map(|row| row.get(place));
    cells
        .map(Cell::as_text)
        .chain([heading])
        .map(UnicodeWidthStr::width)
        .max()
        .unwrap_or(0)
        .max(1)
}

/// Breaks words into lines of at most `width` columns, and words that are longer. Returns at least
/// one line. Line feeds and other control characters count as spaces.
fn wrap(words: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in words.split(|letter: char| letter.is_whitespace() || letter.is_control()) {
        if word.is_empty() {
            continue;
        }
        if used > 0 && used + 1 + word.width() > width {
            lines.push(String::new());
            used = 0;
        }
        for (place, letter) in word.chars().enumerate() {
            let columns = letter.width().unwrap_or(0);
            let gap = usize::from(place == 0 && used > 0);
            if used + gap + columns > width {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                if place == 0 && used > 0 {
                    line.push(' ');
                    used += 1;
                }
                line.push(letter);
                used += columns;
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Section, Severity};
    use proptest::prelude::*;

    #[test]
    fn a_report_reads_like_this() {
        let mut table = ReportTable::new("Sizes", &["set", "records", "why"]);
        table.row([Cell::text("users"), Cell::count(1234), Cell::text("small")]);
        table.row([Cell::text("(no set)"), Cell::count(5), Cell::missing()]);
        let verdict = Verdict {
            level: Severity::Good,
            word: "OK".into(),
            subject: "users".into(),
            sentence: "All is well.".into(),
        };
        let report = Report::new("Sizing")
            .fact("store", "/data")
            .fact("made", "by hand")
            .section(Section::new("Verdict").verdict(verdict).table(table))
            .section(
                Section::new("More")
                    .paragraph("Words.")
                    .fact("a", "1")
                    .fact("longer", "2"),
            );
        let expected = "\
Sizing
  store  /data
  made   by hand

Verdict
-------
  OK     users
         All is well.

  Sizes
    set       records  why
    users       1,234  small
    (no set)        5  -

More
----
  Words.
  a       1
  longer  2
";
        assert_eq!(report.to_text(), expected);
    }

    #[test]
    fn a_narrow_terminal_is_not_exceeded_and_only_words_of_verdicts_have_colours() {
        let report =
            Report::new("A title that is longer than sixty columns, so that it is broken into two")
                .lead(
                    Severity::Bad,
                    "LOST",
                    "Of all the acknowledged writes one is lost, and nobody knows where it went.",
                )
                .section(Section::new("s").paragraph("LOST is no verdict here."));
        let terminal = Terminal {
            columns: 60,
            has_colours: true,
        };
        let text = report.to_text_for(terminal);
        assert_eq!(text.matches("\u{1b}[1;31mLOST\u{1b}[0m").count(), 1);
        let plain = text.replace("\u{1b}[1;31m", "").replace("\u{1b}[0m", "");
        assert!(plain.lines().all(|line| line.width() <= 60), "{plain}");
        assert!(!report.to_text().contains('\u{1b}'));
    }

    #[test]
    fn what_a_report_opens_with_comes_before_how_it_was_made() {
        let report = Report::new("Title")
            .lead(Severity::Bad, "BUSY", "Shard it.")
            .fact("made", "today")
            .section(Section::new("Verdict").paragraph("The proof."))
            .section(Section::new("Rest").paragraph("Rules."));
        let expected = "\
Title

  BUSY: Shard it.

Verdict
-------
  The proof.

  made  today

Rest
----
  Rules.
";
        assert_eq!(report.to_text(), expected);
        let page = report.to_html();
        let place = |words: &str| page.find(words).unwrap();
        assert!(place("Shard it.") < place("The proof."));
        assert!(place("The proof.") < place("today") && place("today") < place("Rules."));
    }

    #[test]
    fn a_table_that_is_too_wide_comes_in_parts_that_repeat_the_first_column() {
        let names: Vec<String> = (0..12)
            .map(|number| format!("a heading of column {number}"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut table = ReportTable::new("wide", &names);
        table.row((0..12).map(Cell::count));
        let text = Report::new("")
            .section(Section::new("s").table(table))
            .to_text();
        assert!(
            text.lines().all(|line| line.width() <= TEXT_COLUMNS),
            "{text}"
        );
        assert_eq!(text.matches("a heading of column 0").count(), 4, "{text}");
        assert_eq!(text.matches("a heading of column 7").count(), 1, "{text}");
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide_and_no_word_is_lost(
            cells in prop::collection::vec(prop::collection::vec("[a-zö字]{0,60}( [a-z\u{301}😀]{0,9}){0,9}", 1..9), 1..5),
            words in prop::collection::vec(any::<bool>(), 9),
        ) {
            let mut table = ReportTable::new("caption", &["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"]);
            for (column, words) in table.columns.iter_mut().zip(words) {
                column.align = if words { Align::Left } else { Align::Right };
            }
            for row in &cells {
                table.row(row.iter().map(Cell::text));
            }
            let words: Vec<&String> = cells.iter().flatten().collect();
            let facts = words.windows(2).fold(Section::new("f"), |facts, pair| facts.fact(pair[0], pair[1]));
            for text in [
                Report::new(words[0]).section(facts).to_text(),
                Report::new("t").section(Section::new(words[0]).table(table.clone())).to_text(),
            ] {
                for line in text.lines() {
                    prop_assert!(line.width() <= TEXT_COLUMNS, "{line}");
                }
            }
            let text = Report::new("t").section(Section::new("s").table(table)).to_text();
            let letters = |text: &str| text.chars().filter(|letter| *letter == 'ö').count();
            let repeats = text.matches("n0").count();
            let first: usize = cells.iter().filter_map(|row| row.first()).map(|cell| letters(cell)).sum();
            let rest: usize = cells.iter().flat_map(|row| row.iter().skip(1).take(7)).map(|cell| letters(cell)).sum();
            prop_assert_eq!(letters(&text), first * repeats + rest);
        }
    }
}
