//! Metrics as text: in Prometheus' classic exposition form, version 0.0.4, or as OpenMetrics,
//! version 1.0.0.

use std::borrow::Borrow;
use std::fmt::{Display, Write};

#[cfg(feature = "monitor")]
use crate::stats::LatencyHistogram;
use crate::storage::Stats;

/// A form of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MetricsForm {
    #[default]
    Classic,
    #[cfg(feature = "monitor")]
    OpenMetrics,
}

impl MetricsForm {
    /// Returns the form that a client asks for by its header `Accept`.
    #[cfg(feature = "monitor")]
    pub(crate) fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Classic
        }
    }

    /// Returns the media type.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            #[cfg(feature = "monitor")]
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What each metric means, a line each.
const MEANINGS: &str = include_str!("metrics.txt");

/// A metric: its name behind `spikelet_`, and where its value is. A name that ends in `_total` is a
/// counter's.
pub(crate) type Metric<T> = (&'static str, fn(&T) -> f64);

/// The metrics of a namespace's storage.
pub(crate) const OF_STORAGE: [Metric<Stats>; 24] = [
    ("records", |s| s.records as f64),
    ("index_bytes", |s| s.index_bytes as f64),
    ("image_bytes", |s| s.image_bytes as f64),
    ("live_bytes", |s| s.live_bytes as f64),
    ("device_bytes", |s| s.device_bytes as f64),
    ("used_blocks", |s| s.used_blocks as f64),
    ("available_blocks", |s| s.available_blocks as f64),
    ("reserve_blocks", |s| s.reserve_blocks as f64),
    ("stop_writes", |s| flag(s.stop_writes)),
    ("read_only", |s| flag(s.read_only.is_some())),
    ("unreadable_bytes", |s| s.unreadable_bytes as f64),
    ("requested_bytes_total", |s| {
        s.traffic.requested_bytes as f64
    }),
    ("appended_bytes_total", |s| s.traffic.appended_bytes as f64),
    ("moved_bytes_total", |s| s.traffic.moved_bytes as f64),
    ("syncs_total", |s| s.syncs as f64),
    ("sync_seconds_total", |s| s.sync_time.as_secs_f64()),
    ("record_waits_total", |s| s.waits as f64),
    ("key_busy_total", |s| s.key_busy as f64),
    ("record_timeouts_total", |s| s.timeouts as f64),
    ("space_waits_total", |s| s.space_waits as f64),
    ("damaged_total", |s| s.damaged as f64),
    ("expired_total", |s| s.expired as f64),
    ("defragmented_blocks_total", |s| {
        s.defragmented_blocks as f64
    }),
    ("dropped_tombstones_total", |s| s.dropped_tombstones as f64),
];

/// Returns 1 for a state that applies.
pub(crate) fn flag(applies: bool) -> f64 {
    f64::from(u8::from(applies))
}

/// Samples by metric. All samples of one metric must be added one after the other.
#[derive(Debug, Default)]
pub(crate) struct MetricsText {
    form: MetricsForm,
    text: String,
    last: String,
}

impl MetricsText {
    /// Begins a text in this form.
    #[cfg(feature = "monitor")]
    pub(crate) fn new(form: MetricsForm) -> Self {
        Self {
            form,
            ..Self::default()
        }
    }

    /// Adds what a metric means, before its samples. A name that ends in `_total` is a counter's,
    /// which OpenMetrics declares without that end.
    pub(crate) fn describe(&mut self, name: &str, kind: &str) {
        name.clone_into(&mut self.last);
        let mut meanings = MEANINGS.lines().filter_map(|line| line.split_once(": "));
        let help = meanings.find(|(of, _)| *of == name);
        let help = help.map_or("", |(_, help)| help);
        debug_assert!(!help.is_empty(), "metrics.txt does not explain {name}");
        let family = match self.form {
            MetricsForm::Classic => name,
            #[cfg(feature = "monitor")]
            MetricsForm::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
        };
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {family} {help}\n# TYPE {family} {kind}");
    }

    /// Adds a sample. `labels` as they stand between braces.
    #[cfg(feature = "server")]
    pub(crate) fn add(&mut self, name: &str, kind: &str, labels: &str, value: impl Display) {
        if name != self.last {
            let _ = writeln!(self.text, "# TYPE {name} {kind}");
            name.clone_into(&mut self.last);
        }
        self.sample(name, labels, value);
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.text, "{name}{{{labels}}} {value}");
    }

    /// Adds metrics of several things, each with its labels. A value that is not a number is left
    /// out.
    pub(crate) fn add_all<T>(&mut self, table: &[Metric<T>], things: &[(String, impl Borrow<T>)]) {
        for (name, of) in table {
            let name = format!("spikelet_{name}");
            let kind = if name.ends_with("_total") {
                "counter"
            } else {
                "gauge"
            };
            self.describe(&name, kind);
            for (labels, thing) in things {
                let value = of(thing.borrow());
                if !value.is_nan() {
                    self.sample(&name, labels, value);
                }
            }
        }
    }

    /// Adds the samples of a histogram that was described, in seconds: bounds are powers of 4 from
    /// 1 us to 17 s.
    #[cfg(feature = "monitor")]
    pub(crate) fn histogram(&mut self, name: &str, labels: &str, times: &LatencyHistogram) {
        let bucket = format!("{name}_bucket");
        for power in (10..=34).step_by(2) {
            let bound = (1_u64 << power) as f64 / 1e9;
            let labels = format!("{labels},le=\"{bound}\"");
            self.sample(&bucket, &labels, times.shorter_than_power(power));
        }
        let all = times.count();
        self.sample(&bucket, &format!("{labels},le=\"+Inf\""), all);
        self.sample(&format!("{name}_sum"), labels, times.total().as_secs_f64());
        self.sample(&format!("{name}_count"), labels, all);
    }

    /// Returns all of it.
    pub(crate) fn into_text(self) -> String {
        match self.form {
            MetricsForm::Classic => self.text,
            #[cfg(feature = "monitor")]
            MetricsForm::OpenMetrics => self.text + "# EOF\n",
        }
    }
}

/// Returns a text escaped for the quotes of a label.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
