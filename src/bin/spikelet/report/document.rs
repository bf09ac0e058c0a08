//! The content of a report, before it has a form.

use super::chart::Chart;
use super::table::ReportTable;
use super::text::Terminal;
use super::{html, text};

/// How something was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Severity {
    /// As it should be.
    Good,
    /// Worth watching.
    Watch,
    /// To be acted upon.
    Bad,
}

/// A judgement: one word, one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// How good or bad it is.
    pub(crate) level: Severity,
    /// The word for it, such as `OK` or `SHARD`.
    pub(crate) word: String,
    /// The judged thing; empty: all that the report is about.
    pub(crate) subject: String,
    /// Why, with the number that decided.
    pub(crate) sentence: String,
}

impl Verdict {
    /// Returns a judgement of a subject.
    pub(crate) fn new(
        level: Severity,
        word: impl Into<String>,
        subject: impl Into<String>,
        sentence: impl Into<String>,
    ) -> Self {
        Self {
            level,
            word: word.into(),
            subject: subject.into(),
            sentence: sentence.into(),
        }
    }
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReportBlock {
    /// Plain words.
    Paragraph(String),
    /// Names and values.
    Facts(Vec<(String, String)>),
    /// A judgement.
    Verdict(Verdict),
    /// A table.
    Table(ReportTable),
    /// A chart; its numbers come with it as a table.
    Chart(Chart),
}

/// A section of a report, with an entry in its menu.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub(crate) struct Section {
    /// The heading.
    pub(crate) title: String,
    /// The blocks below the title.
    pub(crate) blocks: Vec<ReportBlock>,
}

impl Section {
    /// Returns an empty section.
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            blocks: Vec::new(),
        }
    }

    /// Adds a paragraph.
    pub(crate) fn paragraph(self, words: impl Into<String>) -> Self {
        self.block(ReportBlock::Paragraph(words.into()))
    }

    /// Adds a name and its value; neighbours are shown together.
    pub(crate) fn fact(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let fact = (name.into(), value.into());
        if let Some(ReportBlock::Facts(facts)) = self.blocks.last_mut() {
            facts.push(fact);
            return self;
        }
        self.block(ReportBlock::Facts(vec![fact]))
    }

    /// Adds facts, if there are any.
    pub(crate) fn facts<N: Into<String>, V: Into<String>>(
        self,
        facts: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let add = |section: Self, (name, value)| section.fact(name, value);
        facts.into_iter().fold(self, add)
    }

    /// Adds paragraphs, if there are any.
    pub(crate) fn paragraphs<W: Into<String>>(self, all: impl IntoIterator<Item = W>) -> Self {
        all.into_iter().fold(self, Self::paragraph)
    }

    /// Adds a judgement.
    pub(crate) fn verdict(self, verdict: Verdict) -> Self {
        self.block(ReportBlock::Verdict(verdict))
    }

    /// Adds judgements, if there are any.
    pub(crate) fn verdicts(self, all: impl IntoIterator<Item = Verdict>) -> Self {
        all.into_iter().fold(self, Self::verdict)
    }

    /// Adds a table, unless it has no rows.
    pub(crate) fn table(self, table: ReportTable) -> Self {
        if table.rows.is_empty() {
            return self;
        }
        self.block(ReportBlock::Table(table))
    }

    /// Adds charts, if there are any.
    pub(crate) fn charts(self, charts: impl IntoIterator<Item = Chart>) -> Self {
        let add = |section: Self, chart| section.block(ReportBlock::Chart(chart));
        charts.into_iter().fold(self, add)
    }

    fn block(mut self, block: ReportBlock) -> Self {
        self.blocks.push(block);
        self
    }
}

/// A report.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub(crate) struct Report {
    /// The subject.
    pub(crate) title: String,
    /// What it opens with.
    pub(crate) lead: Option<Verdict>,
    /// Under which circumstances it came to be: name and value. They stand after the first section
    /// of a report with a lead, and before it otherwise.
    pub(crate) facts: Vec<(String, String)>,
    /// Its sections.
    pub(crate) sections: Vec<Section>,
}

impl Report {
    /// Returns an empty report.
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    /// Makes the report open with a sentence.
    pub(crate) fn lead(
        mut self,
        level: Severity,
        word: impl Into<String>,
        sentence: impl Into<String>,
    ) -> Self {
        self.lead = Some(Verdict::new(level, word, "", sentence));
        self
    }

    /// Adds a circumstance.
    pub(crate) fn fact(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts.push((name.into(), value.into()));
        self
    }

    /// Adds circumstances, if there are any.
    pub(crate) fn facts<N: Into<String>, V: Into<String>>(
        self,
        facts: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let add = |report: Self, (name, value)| report.fact(name, value);
        facts.into_iter().fold(self, add)
    }

    /// Adds a section.
    pub(crate) fn section(self, section: Section) -> Self {
        self.sections([section])
    }

    /// Adds sections.
    pub(crate) fn sections(mut self, sections: impl IntoIterator<Item = Section>) -> Self {
        self.sections.extend(sections);
        self
    }

    /// Writes the report as text without colour. Ends with a line feed.
    pub(crate) fn to_text(&self) -> String {
        self.to_text_for(Terminal::default())
    }

    /// Writes the report as text for a terminal. Ends with a line feed.
    pub(crate) fn to_text_for(&self, terminal: Terminal) -> String {
        text::write(self, terminal)
    }

    /// Writes the report as one HTML page that loads nothing. Ends with a line feed.
    ///
    /// A block that would make it larger than [`super::html::HTML_BYTES_MAX`] is left out, and its
    /// section says so.
    pub(crate) fn to_html(&self) -> String {
        html::write(self)
    }
}
