//! Lines on two axes, in lanes one above the other where they have several units.

use std::fmt::Write as _;

use super::PATTERNS;
use super::axis::{Axis, Ruler};
use super::bars::{Band, MarkedPlace};
use super::plot::{ABOVE, BELOW, Canvas, LEFT, RIGHT, marker};
use crate::report::table::{Cell, ReportTable};

/// The height of the plot of a single lane.
const PLOT: f64 = 270.0;
/// The height of the plot of one of several lanes.
const LANE: f64 = 110.0;
/// Room for the names of spans and marks over all lanes.
const MARKS: f64 = 44.0;
/// The most points of a series that get a marker: beyond it the markers are spread evenly.
const MARKERS_MAX: usize = 16;

/// A line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LineSeries {
    /// The name in the legend.
    pub(crate) name: String,
    /// Its points, from left to right. Where y is not finite, or has no place on a log scale, the
    /// line is broken.
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether a value holds until the next point, and jumps there.
    pub(crate) steps: bool,
}

impl LineSeries {
    /// Returns a line through these points.
    pub(crate) fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
            steps: false,
        }
    }

    /// Draws the line in steps.
    pub(crate) fn in_steps(mut self) -> Self {
        self.steps = true;
        self
    }
}

/// Lines over one x axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LineChart {
    /// What it shows.
    pub(crate) title: String,
    /// The chart in words, for readers who cannot see it.
    pub(crate) description: String,
    /// From left to right.
    pub(crate) x: Axis,
    /// The lanes, from above.
    pub(crate) lanes: Vec<TimelineLane>,
    /// Shaded ranges of x, through all lanes.
    pub(crate) spans: Vec<Band>,
    /// Places on x, marked through all lanes.
    pub(crate) marks: Vec<MarkedPlace>,
}

/// A lane of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TimelineLane {
    /// From below to above.
    pub(crate) y: Axis,
    /// Its lines.
    pub(crate) series: Vec<LineSeries>,
}

impl LineChart {
    pub(super) fn series(&self) -> impl Iterator<Item = &LineSeries> {
        self.lanes.iter().flat_map(|lane| &lane.series)
    }

    /// Returns the numbers behind the lines: a row for each x.
    pub(super) fn to_table(&self) -> ReportTable {
        let names = self.series().map(|series| series.name.as_str());
        let heading: Vec<&str> = std::iter::once(self.x.label.as_str())
            .chain(names)
            .collect();
        let mut table = ReportTable::new(&self.title, &heading);
        let points = self.series().flat_map(|series| &series.points);
        let mut places: Vec<f64> = points.map(|(x, _)| *x).filter(|x| x.is_finite()).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        for place in places {
            let value = |series: &LineSeries| {
                let point = series.points.iter().find(|(x, _)| *x == place);
                point.map_or_else(Cell::missing, |(_, y)| Cell::exact(*y))
            };
            table.row(std::iter::once(Cell::exact(place)).chain(self.series().map(value)));
        }
        table
    }
}

/// Draws it.
pub(super) fn draw(chart: &LineChart, id: &str) -> String {
    let has_names = !chart.spans.is_empty() || !chart.marks.is_empty();
    let top = if has_names { MARKS } else { 0.0 };
    let height = if chart.lanes.len() > 1 { LANE } else { PLOT };
    let lanes = chart.lanes.len().max(1) as f64;
    let bottom = top + lanes * (ABOVE + height);
    let mut canvas = Canvas::new(id, &chart.title, &chart.description, bottom + BELOW);
    let points = chart.series().flat_map(|series| &series.points);
    let x = Ruler::new(&chart.x, points.map(|(x, _)| *x), false, (LEFT, RIGHT));
    for span in &chart.spans {
        if let (Some(from), Some(to)) = (x.at(span.from), x.at(span.to)) {
            canvas.band(&span.label, (from, to), (top, bottom), top - 24.0);
        }
    }
    let mut pattern = 0;
    let mut above = top + ABOVE;
    for lane in &chart.lanes {
        let heights = lane.series.iter().flat_map(|series| &series.points);
        let heights = heights.map(|(_, y)| *y);
        let y = Ruler::new(&lane.y, heights, true, (above + height, above));
        canvas.y_axis(&lane.y, &y, above, above + height);
        for series in &lane.series {
            line(&mut canvas, series, pattern % PATTERNS, &x, &y);
            pattern += 1;
        }
        above += height + ABOVE;
    }
    let marks = chart.marks.iter();
    let marks = marks.filter_map(|mark| Some((x.at(mark.at)?, mark.label.as_str())));
    canvas.marks(marks, (top, bottom), top - 4.0);
    canvas.x_axis(&chart.x, &x, bottom);
    canvas.finish()
}

fn line(canvas: &mut Canvas, series: &LineSeries, pattern: usize, x: &Ruler, y: &Ruler) {
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
    canvas.path(&format!("l s{pattern}"), &path);
    canvas.raw(&markers);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{AxisUnit, Chart};

    fn series() -> Vec<LineSeries> {
        vec![
            LineSeries::new("p50", vec![(10.0, 8.0), (50.0, 9.5), (100.0, 18.0)]),
            LineSeries::new("p99", vec![(10.0, 20.0), (50.0, f64::NAN), (100.0, 89.25)]).in_steps(),
        ]
    }

    #[test]
    fn lines_are_broken_where_there_is_no_value() {
        let chart = LineChart {
            x: Axis::new("rate", AxisUnit::Number),
            lanes: vec![TimelineLane {
                y: Axis::new("ms", AxisUnit::Number).log(),
                series: series(),
            }],
            ..LineChart::default()
        };
        let svg = draw(&chart, "c");
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
        let chart = LineChart {
            lanes: vec![TimelineLane {
                series: vec![LineSeries::new("a", vec![(0.0, 1.0), (100.0, 2.0)])],
                ..TimelineLane::default()
            }],
            marks: vec![
                mark(10.0, "p90"),
                mark(50.0, "p99"),
                mark(52.0, "p99.9"),
                mark(99.0, "p99.99"),
            ],
            ..LineChart::default()
        };
        let svg = draw(&chart, "c");
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
        let chart = Chart::Lines(LineChart {
            title: "latency".into(),
            x: Axis::new("rate", AxisUnit::Number),
            lanes: vec![TimelineLane {
                series: series(),
                ..TimelineLane::default()
            }],
            ..LineChart::default()
        });
        assert_eq!(
            chart.to_table().plain(),
            ["rate,p50,p99", "10,8,20", "50,9.5,", "100,18,89.25"]
        );
    }

    #[test]
    fn each_lane_is_drawn_and_so_is_an_empty_chart() {
        let lane = TimelineLane {
            y: Axis::new("ms", AxisUnit::Number),
            series: series(),
        };
        let chart = LineChart {
            x: Axis::new("s", AxisUnit::Number),
            lanes: vec![lane.clone(), lane],
            spans: vec![Band {
                from: 20.0,
                to: 60.0,
                label: "activating".into(),
            }],
            marks: vec![MarkedPlace {
                at: 60.0,
                label: "active".into(),
            }],
            ..LineChart::default()
        };
        let svg = draw(&chart, "t");
        for pattern in 0..4 {
            assert!(svg.contains(&format!("class=\"l s{pattern}\"")), "{svg}");
        }
        assert!(svg.contains(">activating<") && svg.contains(">active<"));
        assert!(draw(&LineChart::default(), "t").ends_with("</svg>"));
    }
}
