//! Charts, drawn as SVG that takes its colours, dash patterns and sizes of type from the page's
//! style.
//!
//! `axis`: from values to places, with ticks. `plot`: the frame that all charts share. `bars`: a
//! histogram. `lines`: lines on two axes, in one lane or in several above each other.

mod axis;
mod bars;
mod lines;
mod plot;

pub(crate) use axis::{Axis, AxisUnit};
pub(crate) use bars::{Band, BarChart, BarSeries, MarkedPlace, Ranges};
pub(crate) use lines::{LineChart, LineSeries, TimelineLane};

use super::table::ReportTable;

/// Series with patterns of their own; further ones repeat them.
pub(super) const PATTERNS: usize = 8;

/// A chart of any kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Chart {
    /// Bars, one group a bucket.
    Bars(BarChart),
    /// Lines over one x axis, in one lane or several.
    Lines(LineChart),
}

impl Chart {
    /// Returns what the chart shows, in a few words.
    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Bars(chart) => &chart.title,
            Self::Lines(chart) => &chart.title,
        }
    }

    /// Returns the numbers of the chart.
    pub(crate) fn to_table(&self) -> ReportTable {
        match self {
            Self::Bars(chart) => chart.to_table(),
            Self::Lines(chart) => chart.to_table(),
        }
    }

    /// Returns the chart as an `svg` element. `id` must be unique on the page.
    ///
    /// Colours, patterns and sizes of type come from the page's style: it is made to stand in one.
    pub(crate) fn to_svg(&self, id: &str) -> String {
        match self {
            Self::Bars(chart) => bars::draw(chart, id),
            Self::Lines(chart) => lines::draw(chart, id),
        }
    }

    /// Returns the names of the series, each with a small picture of it.
    pub(super) fn legend(&self) -> Vec<(&str, String)> {
        let names: Vec<&String> = match self {
            Self::Bars(chart) => chart.series.iter().map(|series| &series.name).collect(),
            Self::Lines(chart) => chart.series().map(|series| &series.name).collect(),
        };
        let is_bars = matches!(self, Self::Bars(_));
        let swatch = |place: usize| swatch(place % PATTERNS, is_bars);
        let names = names.into_iter().enumerate();
        names
            .map(|(place, name)| (name.as_str(), swatch(place)))
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
