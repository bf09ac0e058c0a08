//! Verdicts: the word and the sentences that a report opens with.
//!
//! `contention` and `sizing` judge by tables of [`VerdictRule`]s. The rules are asked in their order, and
//! the first that applies decides. The [`Word`] of its finding decides the colour of every form of
//! the report and, for `contention`, the exit code.

pub(crate) mod contention;
pub(crate) mod sizing;

use serde::{Serialize, Serializer};

use crate::report::{Cell, ReportTable, Severity};

/// The word of a verdict. Later words are graver: where several loads or sets are judged, the
/// gravest names the verdict of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Word {
    /// Too few writes to judge.
    TooShort,
    /// Nothing is to be done.
    Ok,
    /// Nothing is to be done yet.
    Watch,
    /// Writers wait long for the record.
    Slow,
    /// The load generator or the machine limited the run: nothing is said about the record.
    Machine,
    /// Something is wrong that more shards do not change.
    NotTheRecord,
    /// Writers of the record are refused.
    Busy,
    /// The record serves less than it is offered.
    Overload,
    /// Keep it in another form: shards do not help.
    Remodel,
    /// Shard it.
    Shard,
    /// No write was acknowledged.
    Nothing,
    /// Acknowledged writes are missing, or are there twice.
    Lost,
    /// A condition that was given is not met.
    Fail,
}

impl Word {
    /// Returns the word as reports and JSON write it.
    #[must_use]
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::TooShort => "TOO SHORT",
            Self::Ok => "OK",
            Self::Watch => "WATCH",
            Self::Slow => "SLOW",
            Self::Machine => "MACHINE",
            Self::NotTheRecord => "NOT THE RECORD",
            Self::Busy => "BUSY",
            Self::Overload => "OVERLOAD",
            Self::Remodel => "REMODEL",
            Self::Shard => "SHARD",
            Self::Nothing => "NOTHING",
            Self::Lost => "LOST",
            Self::Fail => "FAIL",
        }
    }

    /// Returns the colour of the word.
    #[must_use]
    pub(crate) const fn level(self) -> Severity {
        match self {
            Self::Ok => Severity::Good,
            Self::TooShort | Self::Watch | Self::Slow | Self::Machine | Self::NotTheRecord => {
                Severity::Watch
            }
            Self::Busy
            | Self::Overload
            | Self::Remodel
            | Self::Shard
            | Self::Nothing
            | Self::Lost
            | Self::Fail => Severity::Bad,
        }
    }

    /// Returns whether a program that ends with this word ends with exit code 1.
    #[must_use]
    pub(crate) const fn fails(self) -> bool {
        matches!(self, Self::Nothing | Self::Lost | Self::Fail)
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

/// A question to the facts `F`, and its finding.
pub(crate) struct VerdictRule<F, Finding> {
    /// Its name in JSON.
    pub(crate) name: &'static str,
    /// The words that it may find.
    pub(crate) words: &'static str,
    /// When it applies, for readers.
    pub(crate) when: &'static str,
    /// Returns the finding if the rule applies.
    pub(crate) find: fn(&F) -> Option<Finding>,
}

impl<F, Finding> VerdictRule<F, Finding> {
    /// Returns a rule of this name, with the words that it may find, and when it applies.
    pub(crate) const fn new(
        name: &'static str,
        words: &'static str,
        when: &'static str,
        find: fn(&F) -> Option<Finding>,
    ) -> Self {
        Self {
            name,
            words,
            when,
            find,
        }
    }
}

/// Asks the rules in their order; the first that applies decides.
pub(crate) fn first<F, Finding>(
    rules: &[VerdictRule<F, Finding>],
    facts: &F,
) -> Option<(&'static str, Finding)> {
    let mut found = rules
        .iter()
        .filter_map(|rule| Some((rule.name, (rule.find)(facts)?)));
    found.next()
}

/// Lists the rules in their order.
pub(crate) fn table<F, Finding>(rules: &[VerdictRule<F, Finding>]) -> ReportTable {
    ReportTable::of(
        "The first rule that applies decides",
        rules,
        &[
            ("rule", &|rule| Cell::text(rule.name)),
            ("verdict", &|rule| Cell::text(rule.words)),
            ("when", &|rule| Cell::text(rule.when)),
        ],
    )
}
