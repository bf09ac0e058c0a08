//! The frame that all charts share: size, title, ticks, labels, markers.

use std::fmt::Write as _;

use super::Series;
use super::axis::{Axis, Ruler};
use crate::report::html::escape;

/// The width of a chart in its own units; the page scales it.
pub(super) const WIDTH: f64 = 720.0;
/// Where the plot begins and ends from left to right. The left margin holds a label in the large
/// type of narrow windows.
pub(super) const LEFT: f64 = 96.0;
pub(super) const RIGHT: f64 = WIDTH - 28.0;
/// The greatest width of a letter, in the large type of narrow windows.
const LETTER: f64 = 15.0;
/// From one line of text to the next in that type.
pub(super) const LINE: f64 = 28.0;
/// Above a plot: the name of its y axis.
pub(super) const ABOVE: f64 = 52.0;
/// Below the last plot: ticks, and the name of the x axis.
pub(super) const BELOW: f64 = 80.0;

/// The most points of a series that get a marker: beyond it the markers are spread evenly.
const MARKERS_MAX: usize = 16;

/// An `svg` element, being written.
pub(super) struct Canvas {
    svg: String,
}

impl Canvas {
    /// Begins a chart of a height.
    pub(super) fn new(id: &str, title: &str, description: &str, height: f64) -> Self {
        let id = escape(id);
        let mut svg = String::new();
        let _ = write!(
            svg,
            "<svg id=\"{id}\" class=\"chart\" role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" \
             aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
            escape(title),
            escape(description)
        );
        Self { svg }
    }

    /// Adds text. `anchor` is `start`, `middle` or `end`.
    pub(super) fn text(&mut self, class: &str, x: f64, y: f64, anchor: &str, text: &str) {
        let _ = write!(
            self.svg,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escape(text)
        );
    }

    /// Adds a line of several corners, or a figure.
    pub(super) fn path(&mut self, class: &str, d: &str) {
        let _ = write!(self.svg, "<path class=\"{class}\" d=\"{d}\"/>");
    }

    /// Adds a rectangle.
    pub(super) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let _ = write!(
            self.svg,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }

    /// Draws a line.
    pub(super) fn line(&mut self, series: &Series, pattern: usize, x: &Ruler, y: &Ruler) {
        let every = series.points.len().div_ceil(MARKERS_MAX).max(1);
        let (mut path, mut markers, mut is_begun) = (String::new(), String::new(), false);
        for (number, (at_x, at_y)) in series.points.iter().enumerate() {
            let Some((x, y)) = x.at(*at_x).zip(y.at(*at_y)) else {
                is_begun = false;
                continue;
            };
            let _ = match (is_begun, series.steps) {
                (false, _) => write!(path, "M{x:.1} {y:.1}"),
                (true, false) => write!(path, "L{x:.1} {y:.1}"),
                (true, true) => write!(path, "H{x:.1}V{y:.1}"),
            };
            is_begun = true;
            if number % every == 0 {
                markers.push_str(&marker(x, y, pattern));
            }
        }
        self.path(&format!("l s{pattern}"), &path);
        self.svg.push_str(&markers);
    }

    /// Shades a range between two places on x, with its name.
    pub(super) fn band(
        &mut self,
        name: &str,
        (from, to): (f64, f64),
        (top, bottom): (f64, f64),
        name_at: f64,
    ) {
        self.rect("band", (from, top), (to - from, bottom - top));
        self.text("bl", f64::midpoint(from, to), name_at, "middle", name);
    }

    /// Draws the y axis of a plot between two heights: its name, grid lines, ticks.
    pub(super) fn y_axis(&mut self, axis: &Axis, ruler: &Ruler, top: f64, bottom: f64) {
        self.text("n", 4.0, top - 26.0, "start", &axis.label);
        let mut grid = String::new();
        for (value, minor) in ruler.ticks() {
            let Some(y) = ruler.at(value) else { continue };
            let _ = write!(grid, "M{LEFT} {y:.1}H{RIGHT}");
            let class = if minor { "t m" } else { "t" };
            // Down by a third of the type, at any size.
            let _ = write!(
                self.svg,
                "<text class=\"{class}\" x=\"{}\" y=\"{y:.1}\" dy=\".34em\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                escape(&axis.unit.write_tick(value))
            );
        }
        self.path("g", &grid);
        self.path("a", &format!("M{LEFT} {bottom:.1}H{RIGHT}"));
    }

    /// Draws ticks and name of the x axis below a plot.
    pub(super) fn x_axis(&mut self, axis: &Axis, ruler: &Ruler, bottom: f64) {
        let mut grid = String::new();
        for (value, minor) in ruler.ticks() {
            let Some(x) = ruler.at(value) else { continue };
            let _ = write!(grid, "M{x:.1} {bottom:.1}v5");
            let class = if minor { "t x m" } else { "t x" };
            self.x_tick(class, x, bottom, &axis.unit.write_tick(value));
        }
        self.path("a", &grid);
        self.x_name("n x", &axis.label, bottom);
    }

    /// Writes a label below the x axis, moved if it would be cut off at the right end.
    pub(super) fn x_tick(&mut self, class: &str, x: f64, bottom: f64, label: &str) {
        let half = width(label) / 2.0;
        let (x, anchor) = if x + half > WIDTH {
            (WIDTH, "end")
        } else {
            (x, "middle")
        };
        self.text(class, x, bottom + 26.0, anchor, label);
    }

    /// Draws vertical lines from `top` to `bottom`, from left to right, with their names beside
    /// them: the first line of text at `label_at`, and further down where it would run into the
    /// name before.
    pub(super) fn marks<'m>(
        &mut self,
        marks: impl IntoIterator<Item = (f64, &'m str)>,
        (top, bottom): (f64, f64),
        label_at: f64,
    ) {
        let mut taken = f64::NEG_INFINITY;
        let mut row = 0.0;
        for (x, name) in marks {
            self.path("mark", &format!("M{x:.1} {top:.1}V{bottom:.1}"));
            let right = x + 6.0 + width(name) > WIDTH;
            let (anchor, at) = if right {
                ("end", x - 6.0)
            } else {
                ("start", x + 6.0)
            };
            let (from, to) = if right {
                (at - width(name), at)
            } else {
                (at, at + width(name))
            };
            row = if from < taken { row + 1.0 } else { 0.0 };
            taken = taken.max(to);
            self.text("ml", at, label_at + row * LINE, anchor, name);
        }
    }

    /// Writes the name of the x axis.
    pub(super) fn x_name(&mut self, class: &str, name: &str, bottom: f64) {
        self.text(
            class,
            f64::midpoint(LEFT, RIGHT),
            bottom + 56.0,
            "middle",
            name,
        );
    }

    pub(super) fn finish(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

/// Estimates how wide a text is in the large type of narrow windows.
fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// Returns the marker of a series' points: each series has a form of its own.
pub(super) fn marker(x: f64, y: f64, pattern: usize) -> String {
    let form = match pattern {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        1 => "m-4 -4h8v8h-8z",
        2 => "m0 -5l5 9h-10z",
        3 => "m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
        4 => "m0 5l5 -9h-10z",
        5 => "m-2 -5h4v3h3v4h-3v3h-4v-3h-3v-4h3z",
        6 => "m-6 -2.5h12v5h-12z",
        _ => "m-2.5 -6h5v12h-5z",
    };
    format!("<path class=\"p s{pattern}\" d=\"M{x:.1} {y:.1}{form}\"/>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Axis, AxisUnit, Band, Chart, Lane, MarkedPlace};

    fn series() -> Vec<Series> {
        vec![
            Series::new("p50", vec![(10.0, 8.0), (50.0, 9.5), (100.0, 18.0)]),
            Series::new("p99", vec![(10.0, 20.0), (50.0, f64::NAN), (100.0, 89.25)]).in_steps(),
        ]
    }

    #[test]
    fn lines_are_broken_where_there_is_no_value() {
        let chart = Chart {
            x: Axis::new("rate", AxisUnit::Number),
            lanes: vec![Lane {
                y: Axis::new("ms", AxisUnit::Number).log(),
                series: series(),
            }],
            ..Chart::default()
        };
        let svg = chart.to_svg("c");
        let d = |class: &str| {
            let from = svg.find(&format!("class=\"{class}\" d=\"")).unwrap();
            svg[from..].split('"').nth(3).unwrap().to_owned()
        };
        assert_eq!(d("l s0").matches('M').count(), 1);
        assert_eq!(d("l s0").matches('L').count(), 2);
        assert_eq!(d("l s1").matches('M').count(), 2);
        assert_eq!(svg.matches("class=\"p s1\"").count(), 2);
    }

    #[test]
    fn names_of_marks_do_not_run_into_each_other() {
        let mark = |at: f64, label: &str| MarkedPlace {
            at,
            label: label.into(),
        };
        let chart = Chart {
            lanes: vec![Lane {
                series: vec![Series::new("a", vec![(0.0, 1.0), (100.0, 2.0)])],
                ..Lane::default()
            }],
            marks: vec![
                mark(10.0, "p90"),
                mark(50.0, "p99"),
                mark(52.0, "p99.9"),
                mark(99.0, "p99.99"),
            ],
            ..Chart::default()
        };
        let svg = chart.to_svg("c");
        let heights: Vec<&str> = svg
            .split("class=\"ml\"")
            .skip(1)
            .map(|text| {
                text.split("y=\"")
                    .nth(1)
                    .unwrap()
                    .split('"')
                    .next()
                    .unwrap()
            })
            .collect();
        assert_eq!(heights[0], heights[1]);
        assert_ne!(heights[1], heights[2], "{heights:?}");
        assert_eq!(heights[1], heights[3]);
    }

    #[test]
    fn the_table_joins_the_lines_by_their_x() {
        let chart = Chart {
            title: "latency".into(),
            x: Axis::new("rate", AxisUnit::Number),
            lanes: vec![Lane {
                series: series(),
                ..Lane::default()
            }],
            ..Chart::default()
        };
        assert_eq!(
            chart.to_table().plain(),
            ["rate,p50,p99", "10,8,20", "50,9.5,", "100,18,89.25"]
        );
    }

    #[test]
    fn each_lane_is_drawn_and_so_is_an_empty_chart() {
        let lane = Lane {
            y: Axis::new("ms", AxisUnit::Number),
            series: series(),
        };
        let chart = Chart {
            x: Axis::new("s", AxisUnit::Number),
            lanes: vec![lane.clone(), lane],
            bands: vec![Band {
                from: 20.0,
                to: 60.0,
                label: "activating".into(),
            }],
            marks: vec![MarkedPlace {
                at: 60.0,
                label: "active".into(),
            }],
            ..Chart::default()
        };
        let svg = chart.to_svg("t");
        for pattern in 0..4 {
            assert!(svg.contains(&format!("class=\"l s{pattern}\"")), "{svg}");
        }
        assert!(svg.contains(">activating<") && svg.contains(">active<"));
        assert!(Chart::default().to_svg("t").ends_with("</svg>"));
    }
}
