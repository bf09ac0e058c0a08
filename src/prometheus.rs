//! Metrics as text in Prometheus' exposition form, version 0.0.4.

use std::fmt::{Display, Write};

/// The media type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Samples by metric: those of one metric must be added one after the other.
#[derive(Debug, Default)]
pub(crate) struct MetricsText {
    text: String,
    last: String,
}

impl MetricsText {
    /// Adds what a metric means. Before its samples.
    #[cfg(feature = "monitor")]
    pub(crate) fn describe(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        name.clone_into(&mut self.last);
    }

    /// Adds a sample. `labels` as they stand between braces.
    pub(crate) fn add(&mut self, name: &str, kind: &str, labels: &str, value: impl Display) {
        if name != self.last {
            let _ = writeln!(self.text, "# TYPE {name} {kind}");
            name.clone_into(&mut self.last);
        }
        let _ = writeln!(self.text, "{name}{{{labels}}} {value}");
    }

    /// Returns all of it.
    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// Returns a text as it stands inside the quotes of a label.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
