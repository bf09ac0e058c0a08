//! The course of a soak as text: lines of CSV, a table, and a picture.

use crate::latencies::Quantiles;
use std::fmt::Write;

/// What one minute (or what is left at the end) has shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Minute {
    /// Since the store was full, at the end of this one.
    pub minutes: f64,
    pub puts_per_s: f64,
    /// Bytes that the devices were given for each byte of log that callers asked for.
    pub amplification: f64,
    /// The same of the log alone: appended and moved.
    pub log_amplification: f64,
    pub live_mib: u64,
    pub disk_mib: u64,
    pub resident_mib: u64,
    /// Of it, what is not a mapped file.
    pub anonymous_mib: u64,
    pub put: Quantiles,
    pub refused: u64,
    pub waits: u64,
    pub checks: u64,
    /// Records compared at reopenings.
    pub compared: u64,
    pub reopenings: u64,
}

pub const CSV_HEADER: &str = "minutes,puts_per_s,amplification,log_amplification,live_mib,disk_mib,\
resident_mib,anonymous_mib,put_p50_us,put_p99_us,put_p999_us,put_max_us,refused,waits,checks,\
compared_at_reopenings,reopenings";

impl Minute {
    pub fn csv(&self) -> String {
        format!(
            "{:.2},{:.0},{:.2},{:.2},{},{},{},{},{:.1},{:.1},{:.1},{:.0},{},{},{},{},{}",
            self.minutes,
            self.puts_per_s,
            self.amplification,
            self.log_amplification,
            self.live_mib,
            self.disk_mib,
            self.resident_mib,
            self.anonymous_mib,
            self.put.p50_us,
            self.put.p99_us,
            self.put.p999_us,
            self.put.max_us,
            self.refused,
            self.waits,
            self.checks,
            self.compared,
            self.reopenings
        )
    }
}

/// Returns a table in Markdown with at most `rows` of the minutes, the last among them, and the
/// sums of all.
pub fn table(minutes: &[Minute], rows: usize) -> String {
    let mut text = String::from(
        "| minute | puts/s | device bytes / asked | live, MiB | disk, MiB | anonymous memory, MiB \
         | p50 / p99 / p99.9 of a put, us | waits |\n|---|---|---|---|---|---|---|---|\n",
    );
    let every = minutes.len().div_ceil(rows.max(1)).max(1);
    for minute in minutes.iter().rev().step_by(every).rev() {
        let _ = writeln!(
            text,
            "| {:.0} | {:.0} | {:.2} | {} | {} | {} | {:.1} / {:.0} / {:.0} | {} |",
            minute.minutes,
            minute.puts_per_s,
            minute.amplification,
            minute.live_mib,
            minute.disk_mib,
            minute.anonymous_mib,
            minute.put.p50_us,
            minute.put.p99_us,
            minute.put.p999_us,
            minute.waits
        );
    }
    let sum = |of: fn(&Minute) -> u64| minutes.iter().map(of).sum::<u64>();
    let _ = writeln!(
        text,
        "\n{} refused, {} waits, {} checks, {} reopenings, at which {} records were compared",
        sum(|minute| minute.refused),
        sum(|minute| minute.waits),
        sum(|minute| minute.checks),
        sum(|minute| minute.reopenings),
        sum(|minute| minute.compared)
    );
    text
}

/// A curve: its name, its colour, and its value at each minute.
struct Curve {
    name: &'static str,
    colour: &'static str,
    value: fn(&Minute) -> f64,
}

/// One diagram of the picture. `decades`: equal factors are equal distances.
struct Panel {
    title: &'static str,
    decades: bool,
    curves: &'static [Curve],
}

const BLUE: &str = "#2166ac";
const ORANGE: &str = "#d6604d";
const GREY: &str = "#777777";

const PANELS: [Panel; 5] = [
    Panel {
        title: "puts a second",
        decades: false,
        curves: &[Curve {
            name: "",
            colour: BLUE,
            value: |minute| minute.puts_per_s,
        }],
    },
    Panel {
        title: "bytes written for each byte asked",
        decades: false,
        curves: &[
            Curve {
                name: "device",
                colour: BLUE,
                value: |minute| minute.amplification,
            },
            Curve {
                name: "log",
                colour: GREY,
                value: |minute| minute.log_amplification,
            },
        ],
    },
    Panel {
        title: "disk space, MiB",
        decades: false,
        curves: &[
            Curve {
                name: "taken",
                colour: BLUE,
                value: |minute| minute.disk_mib as f64,
            },
            Curve {
                name: "live",
                colour: GREY,
                value: |minute| minute.live_mib as f64,
            },
        ],
    },
    Panel {
        title: "memory, MiB",
        decades: false,
        curves: &[
            Curve {
                name: "resident",
                colour: GREY,
                value: |minute| minute.resident_mib as f64,
            },
            Curve {
                name: "anonymous",
                colour: BLUE,
                value: |minute| minute.anonymous_mib as f64,
            },
        ],
    },
    Panel {
        title: "a put, us",
        decades: true,
        curves: &[
            Curve {
                name: "p50",
                colour: GREY,
                value: |minute| minute.put.p50_us,
            },
            Curve {
                name: "p99",
                colour: BLUE,
                value: |minute| minute.put.p99_us,
            },
            Curve {
                name: "p99.9",
                colour: ORANGE,
                value: |minute| minute.put.p999_us,
            },
        ],
    },
];

const WIDTH: f64 = 760.0;
const PANEL_HEIGHT: f64 = 130.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 14.0;

/// Returns a picture of the minutes: one diagram below the other.
pub fn svg(minutes: &[Minute]) -> String {
    let height = PANELS.len() as f64 * PANEL_HEIGHT + 30.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    let last = minutes.last().map_or(1.0, |minute| minute.minutes);
    for (panel, number) in PANELS.iter().zip(0..) {
        panel.draw(
            &mut text,
            minutes,
            last,
            f64::from(number) * PANEL_HEIGHT + TOP,
        );
    }
    let below = PANELS.len() as f64 * PANEL_HEIGHT + 16.0;
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{:.0} min</text>",
            across(share),
            share * last
        );
    }
    text + "</svg>\n"
}

/// How far to the right a share of the time lies.
fn across(share: f64) -> f64 {
    LEFT + share * (WIDTH - LEFT - RIGHT)
}

impl Panel {
    fn draw(&self, text: &mut String, minutes: &[Minute], last: f64, top: f64) {
        let bottom = top + PANEL_HEIGHT - TOP - BOTTOM;
        let values = self
            .curves
            .iter()
            .flat_map(|curve| minutes.iter().map(curve.value));
        let (least, most) = values.fold((f64::MAX, 0.0_f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        let (from, to) = if self.decades {
            (
                10_f64.powf(least.max(0.1).log10().floor()),
                10_f64.powf(most.max(1.0).log10().ceil()),
            )
        } else {
            (0.0, rounded_up(most))
        };
        let up = |value: f64| {
            let share = if self.decades {
                (value.max(from) / from).log10() / (to / from).log10()
            } else {
                value / to
            };
            bottom - share * (bottom - top)
        };
        let _ = writeln!(
            text,
            "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
            top - 8.0,
            self.title
        );
        for (at, value) in [(bottom, from), (top, to)] {
            let _ = writeln!(
                text,
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" \
                 stroke=\"#cccccc\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                across(1.0),
                LEFT - 6.0,
                at + 4.0,
                label(value)
            );
        }
        for (curve, number) in self.curves.iter().zip(0..) {
            let points: Vec<String> = minutes
                .iter()
                .map(|minute| {
                    let right = across(minute.minutes / last);
                    format!("{right:.1},{:.1}", up((curve.value)(minute)))
                })
                .collect();
            let _ = writeln!(
                text,
                "<polyline fill=\"none\" stroke=\"{0}\" stroke-width=\"1.5\" points=\"{1}\"/>\n\
                 <text x=\"{2:.1}\" y=\"{3:.1}\" fill=\"{0}\">{4}</text>",
                curve.colour,
                points.join(" "),
                LEFT + 260.0 + 80.0 * f64::from(number),
                top - 8.0,
                curve.name
            );
        }
    }
}

/// The next of 1, 1.5, 2, 3, 4, 5, 6, 8 and 10 times a power of ten.
fn rounded_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(0.1).log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let found = steps.iter().find(|step| **step * power >= value);
    found.map_or(value, |step| step * power)
}

fn label(value: f64) -> String {
    let digits = usize::from(value < 10.0 && value.fract() != 0.0);
    format!("{value:.digits$}")
}
