//! Lines on two axes, and lanes of lines along one time.

use std::fmt::Write as _;

use super::PATTERNS;
use super::axis::{Axis, Ruler};
use super::bars::{Band, Mark};
use super::plot::{ABOVE, BELOW, Canvas, LEFT, RIGHT, marker};
use crate::report::table::{Cell, Table};

/// The height of the plot of a line chart.
const PLOT: f64 = 270.0;
/// The height of a lane's plot.
const LANE: f64 = 110.0;
/// Room for the names of marks over all lanes.
const MARKS: f64 = 44.0;
/// Lines this near or nearer cover each other.
const NEAR: f64 = 2.5;
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
    #[must_use]
    pub(crate) fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
            steps: false,
        }
    }

    /// Draws the line in steps.
    #[must_use]
    pub(crate) fn in_steps(mut self) -> Self {
        self.steps = true;
        self
    }
}

/// Lines on two axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LineChart {
    /// What it shows.
    pub(crate) title: String,
    /// The chart in words, for readers who cannot see it.
    pub(crate) description: String,
    /// From left to right.
    pub(crate) x: Axis,
    /// From below to above.
    pub(crate) y: Axis,
    /// The lines.
    pub(crate) series: Vec<LineSeries>,
    /// A shaded range of x.
    pub(crate) band: Option<Band>,
    /// Places on x that are marked.
    pub(crate) x_marks: Vec<Mark>,
    /// Limits on y.
    pub(crate) y_marks: Vec<Mark>,
}

/// Lines over a time, in lanes one above the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timeline {
    /// What it shows.
    pub(crate) title: String,
    /// The chart in words, for readers who cannot see it.
    pub(crate) description: String,
    /// The time.
    pub(crate) x: Axis,
    /// The lanes, from above.
    pub(crate) lanes: Vec<Lane>,
    /// Shaded spans of time, through all lanes.
    pub(crate) spans: Vec<Band>,
    /// Moments, through all lanes.
    pub(crate) moments: Vec<Mark>,
}

/// A lane of a timeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lane {
    /// From below to above.
    pub(crate) y: Axis,
    /// Its lines.
    pub(crate) series: Vec<LineSeries>,
}

/// Returns the numbers behind lines: a row for each x.
pub(super) fn table(title: &str, x: &Axis, lanes: &[&[LineSeries]]) -> Table {
    let series: Vec<&LineSeries> = lanes.iter().flat_map(|lane| lane.iter()).collect();
    let mut heading = vec![x.label.as_str()];
    heading.extend(series.iter().map(|series| series.name.as_str()));
    let mut table = Table::new(title, &heading);
    let points = series.iter().flat_map(|series| &series.points);
    let mut places: Vec<f64> = points.map(|(x, _)| *x).filter(|x| x.is_finite()).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    for place in places {
        let value = |series: &&LineSeries| {
            let point = series.points.iter().find(|(x, _)| *x == place);
            point.map_or_else(Cell::missing, |(_, y)| plain(*y))
        };
        table.row(std::iter::once(plain(place)).chain(series.iter().map(value)));
    }
    table
}

/// Writes a number with its decimals, up to four of them.
fn plain(value: f64) -> Cell {
    let decimals = (0..4).find(|decimals| {
        let scaled = value * 10_f64.powi(*decimals);
        (scaled - scaled.round()).abs() < 1e-6
    });
    Cell::decimal(value, decimals.unwrap_or(4) as usize)
}

/// Draws lines on two axes.
pub(super) fn draw(chart: &LineChart, id: &str) -> String {
    let (top, bottom) = (ABOVE, ABOVE + PLOT);
    let mut canvas = Canvas::new(id, &chart.title, &chart.description, bottom + BELOW);
    let x = x_ruler(&chart.x, &chart.series);
    let limits = chart.y_marks.iter().map(|mark| mark.at);
    let y = Ruler::new(
        &chart.y,
        heights(&chart.series).chain(limits),
        true,
        (bottom, top),
    );
    if let Some(band) = &chart.band {
        shade(&mut canvas, band, &x, (top, bottom), top + 20.0);
    }
    canvas.y_axis(&chart.y, &y, top, bottom);
    canvas.x_axis(&chart.x, &x, bottom);
    for mark in &chart.y_marks {
        let Some(at) = y.at(mark.at) else { continue };
        canvas.path("mark", &format!("M{LEFT} {at:.1}H{RIGHT}"));
        canvas.text("ml", RIGHT, at - 6.0, "end", &mark.label);
    }
    canvas.marks(moments(&chart.x_marks, &x), (top, bottom), top - 8.0);
    lines(&mut canvas, &chart.series, 0, &x, &y);
    canvas.finish()
}

/// Draws lanes along one time.
pub(super) fn draw_timeline(chart: &Timeline, id: &str) -> String {
    let first = MARKS + ABOVE;
    let bottom = first + chart.lanes.len().max(1) as f64 * (LANE + ABOVE) - ABOVE;
    let mut canvas = Canvas::new(id, &chart.title, &chart.description, bottom + BELOW);
    let x = x_ruler(&chart.x, chart.lanes.iter().flat_map(|lane| &lane.series));
    for span in &chart.spans {
        shade(&mut canvas, span, &x, (MARKS, bottom), MARKS - 24.0);
    }
    let mut place = 0;
    for (row, lane) in chart.lanes.iter().enumerate() {
        let top = first + row as f64 * (LANE + ABOVE);
        let y = Ruler::new(&lane.y, heights(&lane.series), true, (top + LANE, top));
        canvas.y_axis(&lane.y, &y, top, top + LANE);
        lines(&mut canvas, &lane.series, place, &x, &y);
        place += lane.series.len();
    }
    canvas.marks(moments(&chart.moments, &x), (MARKS, bottom), MARKS - 4.0);
    canvas.x_axis(&chart.x, &x, bottom);
    canvas.finish()
}

fn x_ruler<'a>(axis: &Axis, series: impl IntoIterator<Item = &'a LineSeries>) -> Ruler {
    let points = series.into_iter().flat_map(|series| &series.points);
    Ruler::new(axis, points.map(|(x, _)| *x), false, (LEFT, RIGHT))
}

fn heights(series: &[LineSeries]) -> impl Iterator<Item = f64> {
    let points = series.iter().flat_map(|series| &series.points);
    points.map(|(_, y)| *y)
}

fn shade(canvas: &mut Canvas, band: &Band, x: &Ruler, (top, bottom): (f64, f64), label_at: f64) {
    let (Some(from), Some(to)) = (x.at(band.from), x.at(band.to)) else {
        return;
    };
    canvas.rect("band", (from, top), (to - from, bottom - top));
    canvas.text(
        "bl",
        f64::midpoint(from, to),
        label_at,
        "middle",
        &band.label,
    );
}

/// Returns the names of marks, with their positions on x.
fn moments<'m>(marks: &'m [Mark], x: &Ruler) -> Vec<(f64, &'m str)> {
    let place = |mark: &'m Mark| Some((x.at(mark.at)?, mark.label.as_str()));
    marks.iter().filter_map(place).collect()
}

/// A point as it is drawn; `None` where the line is broken.
type Drawn = Option<(f64, f64)>;

/// Draws the lines of a plot, with patterns from `first` on. Where lines cover each other,
/// the lower ones are wider, so that each is seen beside the upper one; of their markers the two
/// uppermost are drawn, since more would hide their forms.
fn lines(canvas: &mut Canvas, series: &[LineSeries], first: usize, x: &Ruler, y: &Ruler) {
    let drawn: Vec<Vec<Drawn>> = series
        .iter()
        .map(|one| {
            let place = |(at_x, at_y): &(f64, f64)| Some((x.at(*at_x)?, y.at(*at_y)?));
            one.points.iter().map(place).collect()
        })
        .collect();
    for (place, (one, points)) in series.iter().zip(&drawn).enumerate() {
        let above = drawn.get(place + 1..).unwrap_or_default();
        line(canvas, points, one.steps, (first + place) % PATTERNS, above);
    }
}

fn line(canvas: &mut Canvas, points: &[Drawn], steps: bool, pattern: usize, above: &[Vec<Drawn>]) {
    let every = points.len().div_ceil(MARKERS_MAX).max(1);
    let (mut path, mut markers) = (String::new(), String::new());
    // The pieces of the line by how many others cover them.
    let mut covered = vec![String::new(); above.len()];
    let mut pen: Drawn = None;
    for (number, point) in points.iter().enumerate() {
        let Some((to_x, to_y)) = *point else {
            pen = None;
            continue;
        };
        let step = if steps {
            format!("H{to_x:.1}V{to_y:.1}")
        } else {
            format!("L{to_x:.1} {to_y:.1}")
        };
        if let Some(from @ (from_x, from_y)) = pen {
            path.push_str(&step);
            let below = covers(above, &[from, (to_x, to_y)]);
            if let Some(piece) = below
                .checked_sub(1)
                .and_then(|below| covered.get_mut(below))
            {
                let _ = write!(piece, "M{from_x:.1} {from_y:.1}{step}");
            }
        } else {
            let _ = write!(path, "M{to_x:.1} {to_y:.1}");
        }
        pen = *point;
        if number % every == 0 && covers(above, &[(to_x, to_y)]) < 2 {
            markers.push_str(&marker(to_x, to_y, pattern));
        }
    }
    for (below, pieces) in (1..).zip(&covered).filter(|(_, pieces)| !pieces.is_empty()) {
        canvas.path(&format!("u u{below} s{pattern}"), pieces);
    }
    canvas.path(&format!("l s{pattern}"), &path);
    canvas.raw(&markers);
}

/// Returns how many lines go through all of these points.
fn covers(lines: &[Vec<Drawn>], points: &[(f64, f64)]) -> usize {
    let near = |(x, y): (f64, f64), (to_x, to_y): (f64, f64)| {
        (x - to_x).abs() < 0.05 && (y - to_y).abs() < NEAR
    };
    let goes_through = |line: &&Vec<Drawn>| {
        points
            .iter()
            .all(|point| line.iter().flatten().any(|one| near(*one, *point)))
    };
    lines.iter().filter(goes_through).count().min(PATTERNS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Chart, Unit};

    fn series() -> Vec<LineSeries> {
        vec![
            LineSeries::new("p50", vec![(10.0, 8.0), (50.0, 9.5), (100.0, 18.0)]),
            LineSeries::new("p99", vec![(10.0, 20.0), (50.0, f64::NAN), (100.0, 89.25)]).in_steps(),
        ]
    }

    #[test]
    fn lines_are_broken_where_there_is_no_value() {
        let chart = LineChart {
            x: Axis::new("rate", Unit::Number),
            y: Axis::new("ms", Unit::Number).log(),
            series: series(),
            y_marks: vec![Mark {
                at: 176.0,
                label: "bound".into(),
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
        assert!(svg.contains(">bound<"));
    }

    #[test]
    fn lines_that_lie_upon_each_other_are_all_seen() {
        let flat =
            |name: &str, end: f64| LineSeries::new(name, vec![(1.0, 5.0), (2.0, 5.0), (3.0, end)]);
        let chart = LineChart {
            series: vec![flat("a", 5.0), flat("b", 5.0), flat("c", 50.0)],
            ..LineChart::default()
        };
        let svg = draw(&chart, "c");
        // Of the first, one piece is covered by two lines and one by one; of the second, one piece
        // by one.
        for (class, pieces) in [("u u2 s0", 1), ("u u1 s0", 1), ("u u1 s1", 1)] {
            let path = svg.split(&format!("class=\"{class}\" d=\"")).nth(1);
            let path = path.unwrap_or_else(|| panic!("{class}: {svg}"));
            let path = path.split('"').next().unwrap();
            assert_eq!(path.matches('M').count(), pieces, "{class}: {path}");
        }
        assert!(!svg.contains("u1 s2"), "the last is covered by none: {svg}");
    }

    #[test]
    fn names_of_marks_do_not_run_into_each_other() {
        let mark = |at: f64, label: &str| Mark {
            at,
            label: label.into(),
        };
        let chart = LineChart {
            series: vec![LineSeries::new("a", vec![(0.0, 1.0), (100.0, 2.0)])],
            x_marks: vec![
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
        let chart = Chart::from(LineChart {
            title: "latency".into(),
            x: Axis::new("rate", Unit::Number),
            series: series(),
            ..LineChart::default()
        });
        assert_eq!(
            chart.to_table().plain(),
            ["rate,p50,p99", "10,8,20", "50,9.5,", "100,18,89.25"]
        );
    }

    #[test]
    fn a_timeline_draws_each_lane_and_an_empty_one_is_drawn() {
        let lane = Lane {
            y: Axis::new("ms", Unit::Number),
            series: series(),
        };
        let chart = Timeline {
            x: Axis::new("s", Unit::Number),
            lanes: vec![lane.clone(), lane],
            spans: vec![Band {
                from: 20.0,
                to: 60.0,
                label: "activating".into(),
            }],
            moments: vec![Mark {
                at: 60.0,
                label: "active".into(),
            }],
            ..Timeline::default()
        };
        let svg = draw_timeline(&chart, "t");
        for pattern in 0..4 {
            assert!(svg.contains(&format!("class=\"l s{pattern}\"")), "{svg}");
        }
        assert!(svg.contains(">activating<") && svg.contains(">active<"));
        assert!(draw_timeline(&Timeline::default(), "t").ends_with("</svg>"));
    }
}
