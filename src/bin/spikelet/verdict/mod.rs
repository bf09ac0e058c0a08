//! Verdicts: the word and the sentences that a report opens with.
//!
//! `contention` and `sizing` have their rules in a table. The rules are asked in their order, and
//! the first that applies decides. The [`Word`] of its finding decides the colour of every form of
//! the report and the exit code. Reports list the rules as the documents explain them.

pub(crate) mod contention;
pub(crate) mod sizing;

use serde::{Serialize, Serializer};

use crate::report::{ReportTable, Severity};

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
    /// Records could not be read.
    Damaged,
    /// No write was acknowledged.
    Nothing,
    /// Acknowledged writes are missing, or are there twice.
    Lost,
    /// A condition that was given is not met.
    Fail,
}

impl Word {
    /// Returns the word as reports and JSON write it, and its colour.
    const fn form(self) -> (&'static str, Severity) {
        match self {
            Self::TooShort => ("TOO SHORT", Severity::Watch),
            Self::Ok => ("OK", Severity::Good),
            Self::Watch => ("WATCH", Severity::Watch),
            Self::Slow => ("SLOW", Severity::Watch),
            Self::Machine => ("MACHINE", Severity::Watch),
            Self::NotTheRecord => ("NOT THE RECORD", Severity::Watch),
            Self::Busy => ("BUSY", Severity::Bad),
            Self::Overload => ("OVERLOAD", Severity::Bad),
            Self::Remodel => ("REMODEL", Severity::Bad),
            Self::Shard => ("SHARD", Severity::Bad),
            Self::Damaged => ("DAMAGED", Severity::Bad),
            Self::Nothing => ("NOTHING", Severity::Bad),
            Self::Lost => ("LOST", Severity::Bad),
            Self::Fail => ("FAIL", Severity::Bad),
        }
    }

    /// Returns the word as reports and JSON write it.
    pub(crate) const fn text(self) -> &'static str {
        self.form().0
    }

    /// Returns the colour of the word.
    pub(crate) const fn level(self) -> Severity {
        self.form().1
    }

    /// Returns whether a program that ends with this word ends with exit code 1.
    pub(crate) const fn fails(self) -> bool {
        matches!(
            self,
            Self::Damaged | Self::Nothing | Self::Lost | Self::Fail
        )
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

/// Lists the rules in their order, as the section on verdicts of a document explains them.
pub(crate) fn rules_in(document: &str) -> ReportTable {
    let (_, section) = document.split_once("\n## Verdicts\n").unwrap_or_default();
    let list = section.split("\n\n").find(|part| part.starts_with("- "));
    let items = list.unwrap_or_default().split("\n- ");
    let plain = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        words
            .join(" ")
            .trim_start_matches("- ")
            .replace(['*', '`'], "")
    };
    let rules = items.filter_map(|item| item.split_once(": "));
    ReportTable::of(
        "The first rule that applies decides",
        rules.map(|(word, when)| [word, when].map(plain)),
        "verdict: 0 | when: 1",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_explain_the_rules_in_the_order_in_which_they_are_asked() {
        let words = |table: ReportTable| -> Vec<String> {
            let rows = table.rows.iter();
            rows.map(|row| row[0].as_text().to_owned()).collect()
        };
        let found = words(contention::rules_table());
        let expected = [
            "LOST",
            "NOTHING",
            "TOO SHORT",
            "MACHINE",
            "NOT THE RECORD",
            "OVERLOAD",
            "BUSY",
            "SLOW",
            "WATCH",
            "OK",
            "FAIL",
        ];
        assert_eq!(found, expected);
        let table = sizing::rules_table();
        let when = table.rows[1][1].as_text();
        assert!(when.ends_with("shards do not help at any rate"), "{when}");
        let mut found = words(table);
        found.dedup();
        assert_eq!(found, ["DAMAGED", "REMODEL", "SHARD", "WATCH", "OK"]);
    }
}
