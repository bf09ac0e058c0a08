//! Bars: a histogram, with a band of good values and lines at limits.

use super::PATTERNS;
use super::axis::{Axis, AxisUnit, Ruler, Scale};
use super::plot::{ABOVE, BELOW, Canvas, LEFT, LINE, RIGHT};
use crate::report::number::short;
use crate::report::table::{Cell, ReportTable};

/// The height of the plot.
const PLOT: f64 = 250.0;
/// The least height of a bar with a value.
const BAR_MIN: f64 = 2.0;
/// That of the least value on a logarithmic scale, which would have none.
const BAR_MIN_LOG: f64 = 8.0;
/// The longest bar in a terminal, in columns.
const TEXT_BAR: f64 = 36.0;
/// Groups that are narrower have no room for numbers.
const NUMBERS_FROM: f64 = 26.0;
/// Groups that are as wide as their labels of letters this wide show all of them on narrow screens,
/// too.
const LETTER_WIDE: f64 = 14.0;
/// The most labels on the x axis.
const LABELS_MAX: usize = 12;

/// A chart of bars, one group a bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BarChart {
    /// What it shows.
    pub(crate) title: String,
    /// The content in words, for readers who cannot see it.
    pub(crate) description: String,
    /// The name of the x axis.
    pub(crate) x_label: String,
    /// The name of each bucket.
    pub(crate) buckets: Vec<String>,
    /// Where buckets begin and end, one more than there are buckets; empty: buckets are labelled
    /// with their names.
    pub(crate) edges: Vec<String>,
    /// What the bars measure.
    pub(crate) y: Axis,
    /// The bars.
    pub(crate) series: Vec<BarSeries>,
    /// The bucket that is advised, in another colour.
    pub(crate) advised: Option<usize>,
    /// The range of the values of each bucket, drawn as a line; `None`: not known.
    pub(crate) ranges: Option<Box<Ranges>>,
    /// The good values, shaded.
    pub(crate) band: Option<Band>,
    /// Lines at limits, with names.
    pub(crate) marks: Vec<MarkedPlace>,
}

/// A range for each bucket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranges {
    /// The name of both ends, such as `p50 to p99`.
    pub(crate) label: &'static str,
    /// One for each bucket.
    pub(crate) ends: Vec<(f64, f64)>,
}

/// The bars of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BarSeries {
    /// Their name in the legend.
    pub(crate) name: String,
    /// One for each bucket.
    pub(crate) values: Vec<f64>,
}

/// A range of values that is shaded. In a bar chart its places are counted in buckets from the
/// left.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Band {
    /// Where it begins.
    pub(crate) from: f64,
    /// Where it ends.
    pub(crate) to: f64,
    /// Its name.
    pub(crate) label: String,
}

/// A place that is marked by a line. In a bar chart it is counted in buckets from the left.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MarkedPlace {
    /// The place.
    pub(crate) at: f64,
    /// Its name.
    pub(crate) label: String,
}

impl BarChart {
    /// Returns the numbers, with a bar of `#` beside them for the first series.
    pub(in crate::report) fn to_table_with_bars(&self) -> ReportTable {
        let mut table = self.to_table();
        let first = self.series.first();
        let value = |place: usize| first.and_then(|series| series.values.get(place)).copied();
        let length = |value: f64| match self.y.scale {
            Scale::Linear => value,
            Scale::Log => (value + 1.0).log10(),
        };
        let longest = (0..self.buckets.len())
            .filter_map(value)
            .map(length)
            .fold(0.0, f64::max);
        table.bars("");
        for (place, row) in table.rows.iter_mut().enumerate() {
            let part = value(place).map_or(0.0, length) / longest.max(f64::MIN_POSITIVE);
            row.push(Cell::text("#".repeat((part * TEXT_BAR).ceil() as usize)));
        }
        // Empty buckets at the end are for a picture, where they show how far a limit is.
        let is_empty = |place: usize| {
            let mut values = self.series.iter().map(|series| series.values.get(place));
            values.all(|value| value.is_none_or(|value| *value == 0.0))
        };
        while !self.edges.is_empty() && table.rows.len() > 1 && is_empty(table.rows.len() - 1) {
            table.rows.pop();
        }
        table
    }

    /// Returns the ranges; empty if they are not known.
    fn ends(&self) -> &[(f64, f64)] {
        self.ranges.as_ref().map_or(&[], |ranges| &ranges.ends)
    }

    pub(super) fn to_table(&self) -> ReportTable {
        let mut heading = vec![self.x_label.as_str()];
        heading.extend(self.series.iter().map(|series| series.name.as_str()));
        heading.extend(self.ranges.iter().map(|ranges| ranges.label));
        let mut table = ReportTable::new(&self.title, &heading);
        for (place, bucket) in self.buckets.iter().enumerate() {
            let value = |series: &BarSeries| {
                let value = series.values.get(place);
                value.map_or_else(Cell::missing, |value| match self.y.unit {
                    AxisUnit::Number if value.fract() == 0.0 && *value >= 0.0 => {
                        Cell::count(*value as u64)
                    }
                    unit => unit.cell(*value),
                })
            };
            let cells = self.series.iter().map(value);
            let range = self.ends().get(place).map(|(from, to)| {
                let ends = [*from, *to].map(|end| self.y.unit.cell(end));
                Cell::text(ends.each_ref().map(Cell::as_text).join(" to "))
            });
            table.row(
                std::iter::once(Cell::text(bucket))
                    .chain(cells)
                    .chain(range),
            );
        }
        table
    }
}

/// Draws it.
pub(super) fn draw(chart: &BarChart, id: &str) -> String {
    let (top, bottom) = (ABOVE, ABOVE + PLOT);
    let width = (RIGHT - LEFT) / chart.buckets.len().max(1) as f64;
    let below = if label_rows(chart, width) == 2 {
        BELOW + LINE
    } else {
        BELOW
    };
    let mut canvas = Canvas::new(id, &chart.title, &chart.description, bottom + below);
    let ends = chart.ends().iter().map(|(_, to)| to);
    let values = chart.series.iter().flat_map(|series| &series.values);
    let values = values.chain(ends);
    // Room for the labels on top of the bars.
    let reach = values.clone().copied().fold(0.0, f64::max) * 1.06;
    let least = values.copied().filter(|value| *value > 0.0);
    let least = least.fold(reach, f64::min);
    let ruler = Ruler::new(&chart.y, [least, reach].into_iter(), true, (bottom, top));
    let edge = |place: f64| LEFT + place.clamp(0.0, chart.buckets.len() as f64) * width;
    if let Some(band) = &chart.band {
        let range = (edge(band.from), edge(band.to));
        canvas.band(&band.label, range, (top, bottom), top + 20.0);
    }
    canvas.y_axis(&chart.y, &ruler, top, bottom);
    bars(chart, &mut canvas, &ruler, width, bottom);
    ranges(chart, &mut canvas, &ruler, width);
    numbers(chart, &mut canvas, &ruler, width, bottom);
    let marks = chart.marks.iter();
    let marks = marks.map(|mark| (edge(mark.at), mark.label.as_str()));
    canvas.marks(marks, (top, bottom), top + 44.0);
    labels(chart, &mut canvas, width, bottom);
    canvas.finish()
}

fn bars(chart: &BarChart, canvas: &mut Canvas, ruler: &Ruler, width: f64, bottom: f64) {
    let each = width * 0.84 / chart.series.len().max(1) as f64;
    for (place, series) in chart.series.iter().enumerate() {
        for (bucket, value) in series.values.iter().enumerate() {
            let Some(y) = ruler.at(*value).filter(|_| *value > 0.0) else {
                continue;
            };
            let x = LEFT + bucket as f64 * width + width * 0.08 + place as f64 * each;
            let height = match chart.y.scale {
                Scale::Linear => (bottom - y).max(BAR_MIN),
                Scale::Log => (bottom - y).max(BAR_MIN_LOG),
            };
            let advised = match chart.advised {
                Some(advised) if advised == bucket => " best",
                _ => "",
            };
            let class = format!("b s{}{advised}", place % PATTERNS);
            canvas.rect(&class, (x, bottom - height), (each - 1.0, height));
        }
    }
}

/// Draws the range of the values of each bucket upon its bar.
fn ranges(chart: &BarChart, canvas: &mut Canvas, ruler: &Ruler, width: f64) {
    for (bucket, (from, to)) in chart.ends().iter().enumerate() {
        let (Some(from), Some(to)) = (ruler.at(*from), ruler.at(*to)) else {
            continue;
        };
        let x = LEFT + (bucket as f64 + 0.5) * width;
        let line = format!(
            "M{:.1} {to:.1}h12M{x:.1} {to:.1}V{from:.1}M{:.1} {from:.1}h12",
            x - 6.0,
            x - 6.0
        );
        ["r o", "r"]
            .iter()
            .for_each(|class| canvas.path(class, &line));
    }
}

/// Writes the number of its first bar above each group: as a part of the whole for counts.
fn numbers(chart: &BarChart, canvas: &mut Canvas, ruler: &Ruler, width: f64, bottom: f64) {
    let Some(first) = chart.series.first().filter(|_| width >= NUMBERS_FROM) else {
        return;
    };
    let total: f64 = first.values.iter().sum();
    let write = |value: &f64| match chart.y.unit {
        AxisUnit::Number if total > 0.0 => share(*value / total),
        AxisUnit::Percent if *value > 0.0 && *value < 0.1 => "<0.1 %".to_owned(),
        unit => unit.write(*value),
    };
    let texts: Vec<String> = first.values.iter().map(write).collect();
    let rows = narrow_rows(texts.iter().map(String::as_str), width);
    for (bucket, value) in first.values.iter().enumerate() {
        let bars = chart
            .series
            .iter()
            .filter_map(|series| series.values.get(bucket));
        let end = chart.ends().get(bucket).map(|(_, to)| to);
        let highest = bars.chain(end).copied().fold(0.0, f64::max);
        // Of counts nothing is nothing; a share of 0 is a result.
        let is_shown = *value > 0.0 || chart.edges.is_empty();
        let Some(y) = ruler.at(highest).filter(|_| is_shown) else {
            continue;
        };
        let text = write(value);
        let middle = LEFT + (bucket as f64 + 0.5) * width;
        let class = if chart.edges.is_empty() {
            match (rows, bucket % 2) {
                (1, _) | (2, 0) => "v",
                (2, _) => "v up",
                _ => "v m",
            }
        } else if narrow_rows([text.as_str()], width) == 1 {
            "v"
        } else {
            "v m"
        };
        canvas.text(
            class,
            middle,
            y.min(bottom - BAR_MIN) - 5.0,
            "middle",
            &text,
        );
    }
}

/// Writes a part of the whole in percent. Only 0 is shown as 0.
fn share(part: f64) -> String {
    match part * 100.0 {
        percent if percent >= 9.95 => format!("{percent:.0}%"),
        percent if percent >= 0.1 => format!("{}%", short((percent * 10.0).round() / 10.0)),
        _ => "<0.1%".to_owned(),
    }
}

/// Returns in how many lines, one below the other in turns, these texts have room in the large
/// letters of narrow screens, where each has a group of this width.
fn narrow_rows<'t>(texts: impl IntoIterator<Item = &'t str>, width: f64) -> usize {
    let letters = texts.into_iter().map(|text| text.chars().count()).max();
    (letters.unwrap_or(0) as f64 * LETTER_WIDE / width)
        .ceil()
        .max(1.0) as usize
}

/// Returns in how many lines the labels stand on narrow screens. Labels of edges leave some out
/// instead.
fn label_rows(chart: &BarChart, width: f64) -> usize {
    let names = chart.buckets.iter().map(String::as_str);
    let has_all = chart.edges.is_empty() && chart.buckets.len() <= LABELS_MAX;
    Some(narrow_rows(names, width))
        .filter(|rows| has_all && *rows <= 2)
        .unwrap_or(0)
}

fn labels(chart: &BarChart, canvas: &mut Canvas, width: f64, bottom: f64) {
    let at_edges = !chart.edges.is_empty();
    let names = if at_edges {
        &chart.edges
    } else {
        &chart.buckets
    };
    let every = names.len().div_ceil(LABELS_MAX).max(1);
    let shift = if at_edges { 0.0 } else { 0.5 };
    let rows = label_rows(chart, width);
    for (place, name) in names.iter().enumerate().step_by(every) {
        let x = LEFT + (place as f64 + shift) * width;
        let class = match (rows, place / every) {
            (0, number) if number % 3 != 0 => "t x m",
            (2, number) if number % 2 == 1 => "t x dn",
            _ => "t x",
        };
        let is_advised = chart.advised == Some(place);
        let class = format!("{class}{}", if is_advised { " best" } else { "" });
        canvas.x_tick(&class, x, bottom, name);
        if at_edges {
            canvas.path("a", &format!("M{x:.1} {bottom}v5"));
        }
    }
    canvas.x_name(
        if rows == 2 { "n x dn" } else { "n x" },
        &chart.x_label,
        bottom,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> BarChart {
        BarChart {
            title: "Sizes <&>".into(),
            description: "Most are small.".into(),
            x_label: "bytes".into(),
            buckets: ["[64-128)", "[128-256)", "[256-512)"]
                .map(Into::into)
                .to_vec(),
            edges: ["64", "128", "256", "512"].map(Into::into).to_vec(),
            y: Axis::new("records", AxisUnit::Number),
            series: vec![
                BarSeries {
                    name: "stored".into(),
                    values: vec![10_000.0, 0.0, 1.0],
                },
                BarSeries {
                    name: "counted".into(),
                    values: vec![9_000.0, 1_001.0, 0.0],
                },
            ],
            advised: Some(2),
            band: Some(Band {
                from: 1.0,
                to: 2.0,
                label: "good".into(),
            }),
            marks: vec![MarkedPlace {
                at: 3.0,
                label: "cap".into(),
            }],
            ..BarChart::default()
        }
    }

    #[test]
    fn ranges_are_drawn_upon_their_bars_and_stand_in_the_table() {
        let chart = BarChart {
            ranges: Some(Box::new(Ranges {
                label: "of the repeats",
                ends: vec![(5_000.0, 11_000.0), (0.0, 2.0), (f64::NAN, 1.0)],
            })),
            ..chart()
        };
        // Each with what sets it apart from its bar; the one that is not known is left out.
        assert_eq!(draw(&chart, "c").matches("class=\"r").count(), 4);
        let table = chart.to_table().plain();
        assert_eq!(table[0], "bytes,stored,counted,of the repeats");
        assert!(table[1].ends_with(",\"5,000 to 11,000\""), "{table:?}");
    }

    #[test]
    fn there_is_a_bar_for_everything_but_nothing() {
        let svg = draw(&chart(), "c");
        assert_eq!(svg.matches("class=\"b s0").count(), 2, "{svg}");
        assert_eq!(svg.matches("class=\"b s1\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("class=\"b s0 best\"").count(), 1, "{svg}");
        assert!(
            svg.contains("height=\"2.0\""),
            "the one record is to be seen: {svg}"
        );
        for part in [
            "class=\"band\"",
            "class=\"mark\"",
            ">cap<",
            ">good<",
            "&lt;0.1%",
            "Sizes &lt;&amp;&gt;",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
    }

    #[test]
    fn narrow_screens_show_each_category_and_its_value_and_the_advised_one_stands_out() {
        let names = ["1", "2", "4", "8", "16", "hourly", "daily", "daily+8"];
        let categories = BarChart {
            buckets: names.map(str::to_owned).into(),
            y: Axis::new("KEY_BUSY", AxisUnit::Percent),
            series: vec![BarSeries {
                name: "KEY_BUSY".into(),
                values: vec![37.4, 0.00334, 0.0, 0.0, 0.0, 37.4, 37.4, 0.0],
            }],
            advised: Some(2),
            ..BarChart::default()
        };
        let svg = draw(&categories, "c");
        // Labels of class m are left out there.
        assert!(
            !svg.contains("\"v m\"") && !svg.contains("\"t x m\""),
            "{svg}"
        );
        for (class, times) in [
            ("t x", 3),
            ("t x dn", 4),
            ("t x best", 1),
            ("v", 4),
            ("v up", 4),
        ] {
            let found = svg.matches(&format!("class=\"{class}\"")).count();
            assert_eq!(found, times, "{class}: {svg}");
        }
    }

    #[test]
    fn its_table_has_a_row_for_each_bucket() {
        assert_eq!(
            chart().to_table().plain(),
            [
                "bytes,stored,counted",
                "[64-128),10000,9000",
                "[128-256),0,1001",
                "[256-512),1,0"
            ]
        );
    }

    #[test]
    fn an_empty_chart_is_drawn() {
        assert!(draw(&BarChart::default(), "c").ends_with("</svg>"));
    }
}
