//! Charts, drawn as SVG that takes its colours, dash patterns and sizes of type from the page's
//! style.
//!
//! A [`Chart`] has bars or lines. `axis`: from values to places, with ticks. `plot`: the canvas, and
//! lines upon it. `bars`: bars.

mod axis;
mod bars;
mod plot;

pub(crate) use axis::{Axis, AxisUnit};
pub(crate) use bars::{Bars, Ranges};

use self::axis::{Ruler, Scale};
use self::plot::{ABOVE, BELOW, Canvas, LEFT, RIGHT};
use super::table::{Cell, ReportTable};

/// Series with patterns of their own; further ones repeat them.
const PATTERNS: usize = 8;
/// The height of the plot of a single lane of lines.
const PLOT: f64 = 270.0;
/// The height of the plot of one of several lanes.
const LANE: f64 = 110.0;
/// Between lanes: the lowest tick of one and the name of the next do not touch.
const APART: f64 = 14.0;
/// Room for the names of bands and marks over all lanes.
const MARKS: f64 = 44.0;
/// The longest bar in a terminal, in columns.
const TEXT_BAR: f64 = 36.0;

/// A chart: bars, or lines in one lane or in several above each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chart {
    /// What it shows, in a few words.
    pub(crate) title: String,
    /// The content in words, for readers who cannot see it.
    pub(crate) description: String,
    /// From left to right; of bars the name alone.
    pub(crate) x: Axis,
    /// The places of bars; `None`: lines.
    pub(crate) bars: Option<Bars>,
    /// The lanes, from above; bars have one.
    pub(crate) lanes: Vec<Lane>,
    /// Shaded ranges of x, through all lanes.
    pub(crate) bands: Vec<Band>,
    /// Places on x, marked through all lanes.
    pub(crate) marks: Vec<MarkedPlace>,
}

/// A lane of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lane {
    /// From below to above.
    pub(crate) y: Axis,
    /// Its lines, or its bars in groups.
    pub(crate) series: Vec<Series>,
}

/// A line, or the bars of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    /// The name in the legend.
    pub(crate) name: String,
    /// Its points, from left to right; of bars one for each bucket. Where y is not finite, or has
    /// no place on a log scale, a line is broken, and a bar left out.
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether a value holds until the next point, and jumps there.
    pub(crate) steps: bool,
}

/// A range of x that is shaded. Among bars its places are counted in buckets from the left.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Band {
    /// Where it begins.
    pub(crate) from: f64,
    /// Where it ends.
    pub(crate) to: f64,
    /// Its name.
    pub(crate) label: String,
}

/// A place on x that is marked by a line. Among bars it is counted in buckets from the left.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MarkedPlace {
    /// The place.
    pub(crate) at: f64,
    /// Its name.
    pub(crate) label: String,
}

impl Series {
    /// Returns a line through these points.
    pub(crate) fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
            steps: false,
        }
    }

    /// Returns a bar for each of these values.
    pub(crate) fn of_bars(name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        Self::new(name, (0_u32..).map(f64::from).zip(values).collect())
    }

    /// Draws the line in steps.
    pub(crate) fn in_steps(mut self) -> Self {
        self.steps = true;
        self
    }

    /// Returns the value at a place.
    fn at(&self, place: f64) -> Option<f64> {
        let found = self.points.iter().find(|(x, _)| *x == place);
        found.map(|(_, y)| *y)
    }
}

impl Chart {
    fn series(&self) -> impl Iterator<Item = &Series> {
        self.lanes.iter().flat_map(|lane| &lane.series)
    }

    /// Returns the numbers of the chart: a row for each bucket, or each x.
    pub(crate) fn to_table(&self) -> ReportTable {
        let ranges = self.bars.as_ref().and_then(|bars| bars.ranges.as_ref());
        let mut heading = vec![self.x.label.as_str()];
        heading.extend(self.series().map(|series| series.name.as_str()));
        heading.extend(ranges.map(|ranges| ranges.label));
        let mut table = ReportTable::new(&self.title, &heading);
        // Lines have several units, so their numbers are plain.
        let lane = self.bars.as_ref().and(self.lanes.first());
        let unit = lane.map_or(AxisUnit::Number, |lane| lane.y.unit);
        let points = self.series().flat_map(|series| &series.points);
        let mut places: Vec<f64> = points.map(|(x, _)| *x).filter(|x| x.is_finite()).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        for (number, place) in places.into_iter().enumerate() {
            let bucket = self.bars.as_ref().and_then(|bars| bars.buckets.get(number));
            let first = bucket.map_or_else(|| Cell::exact(place), Cell::text);
            let cells = self.series();
            let cells = cells.map(|series| Cell::optional(series.at(place), |y| unit.cell(y)));
            let range = ranges.and_then(|ranges| ranges.ends.get(number));
            let range = range.map(|(from, to)| {
                let ends = [*from, *to].map(|end| unit.cell(end));
                Cell::text(ends.each_ref().map(Cell::as_text).join(" to "))
            });
            table.row(std::iter::once(first).chain(cells).chain(range));
        }
        table
    }

    /// Returns the numbers for a terminal; for bars, with the first series as bars of `#`.
    pub(super) fn to_text_table(&self) -> ReportTable {
        let mut table = self.to_table();
        let (Some(bars), Some(lane)) = (&self.bars, self.lanes.first()) else {
            return table;
        };
        let first = lane.series.first();
        let length = |place: usize| {
            let value = first.and_then(|series| series.at(place as f64));
            value.map_or(0.0, |value| match lane.y.scale {
                Scale::Linear => value,
                Scale::Log => (value + 1.0).log10(),
            })
        };
        let longest = (0..bars.buckets.len()).map(length).fold(0.0, f64::max);
        table.bars("");
        for (place, row) in table.rows.iter_mut().enumerate() {
            let part = length(place) / longest.max(f64::MIN_POSITIVE);
            row.push(Cell::text("#".repeat((part * TEXT_BAR).ceil() as usize)));
        }
        // Empty buckets at the end are for a picture, where they show how far a limit is.
        let is_empty = |place: usize| {
            let mut values = lane.series.iter().map(|series| series.at(place as f64));
            values.all(|value| value.is_none_or(|value| value == 0.0))
        };
        while !bars.edges.is_empty() && table.rows.len() > 1 && is_empty(table.rows.len() - 1) {
            table.rows.pop();
        }
        table
    }

    /// Returns the chart as an `svg` element. `id` must be unique on the page.
    ///
    /// Colours, patterns and sizes of type come from the page's style: it is made to stand in one.
    pub(crate) fn to_svg(&self, id: &str) -> String {
        let bars = self.bars.as_ref();
        let has_names = !self.bands.is_empty() || !self.marks.is_empty();
        let (head, height, below) = match bars {
            Some(bars) => (0.0, bars::PLOT, bars.below()),
            None => (
                if has_names { MARKS } else { 0.0 },
                if self.lanes.len() > 1 { LANE } else { PLOT },
                BELOW,
            ),
        };
        let lanes = self.lanes.len().max(1) as f64;
        let bottom = head + lanes * (ABOVE + height) + (lanes - 1.0) * APART;
        // The names of bands and marks stand among bars, and above lines.
        let (top, band_at, mark_at) = match bars {
            Some(_) => (ABOVE, ABOVE + 20.0, ABOVE + 44.0),
            None => (head, head - 24.0, head - 4.0),
        };
        let mut canvas = Canvas::new(id, &self.title, &self.description, bottom + below);
        let points = self.series().flat_map(|series| &series.points);
        let x = match bars {
            Some(bars) => bars.x(),
            None => Ruler::new(&self.x, points.map(|(x, _)| *x), false, (LEFT, RIGHT)),
        };
        for band in &self.bands {
            if let (Some(from), Some(to)) = (x.at(band.from), x.at(band.to)) {
                canvas.band(&band.label, (from, to), (top, bottom), band_at);
            }
        }
        let mut pattern = 0;
        let mut above = head + ABOVE;
        for lane in &self.lanes {
            let place = (above + height, above);
            let values = lane.series.iter().flat_map(|series| &series.points);
            let y = match bars {
                Some(bars) => bars.y(lane, place),
                None => Ruler::new(&lane.y, values.map(|(_, y)| *y), true, place),
            };
            canvas.y_axis(&lane.y, &y, above, above + height);
            if let Some(bars) = bars {
                bars.draw(&mut canvas, lane, &y, bottom);
            } else {
                for series in &lane.series {
                    canvas.line(series, pattern % PATTERNS, &x, &y);
                    pattern += 1;
                }
            }
            above += height + APART + ABOVE;
        }
        let marks = self.marks.iter();
        let marks = marks.filter_map(|mark| Some((x.at(mark.at)?, mark.label.as_str())));
        canvas.marks(marks, (top, bottom), mark_at);
        match bars {
            Some(bars) => bars.labels(&mut canvas, &self.x.label, bottom),
            None => canvas.x_axis(&self.x, &x, bottom),
        }
        canvas.finish()
    }

    /// Returns the names of the series, each with a small picture of it.
    pub(super) fn legend(&self) -> Vec<(&str, String)> {
        let swatch = |place: usize| swatch(place % PATTERNS, self.bars.is_some());
        let series = self.series().enumerate();
        series
            .map(|(place, series)| (series.name.as_str(), swatch(place)))
            .collect()
    }
}

/// Draws a small picture of a series for the legend.
fn swatch(pattern: usize, bars: bool) -> String {
    let inside = if bars {
        format!("<rect class=\"b s{pattern}\" x=\"4\" y=\"2\" width=\"20\" height=\"12\"/>")
    } else {
        let marker = plot::marker(14.0, 8.0, pattern);
        format!("<path class=\"l s{pattern}\" d=\"M0 8H28\"/>{marker}")
    };
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 28 16\" width=\"28\" height=\"16\" aria-hidden=\"true\">{inside}</svg>"
    )
}
