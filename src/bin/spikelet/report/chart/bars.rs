//! Bars: a histogram, or a value for each of some names.

use super::axis::{Axis, AxisUnit, Ruler, Scale};
use super::plot::{BELOW, Canvas, LEFT, LINE, RIGHT};
use super::{Lane, PATTERNS, Series};
use crate::report::number::short;

/// The height of the plot.
pub(super) const PLOT: f64 = 250.0;
/// The least height of a bar with a value.
const BAR_MIN: f64 = 2.0;
/// That of the least value on a logarithmic scale, which would have none.
const BAR_MIN_LOG: f64 = 8.0;
/// Groups that are narrower have no room for numbers.
const NUMBERS_FROM: f64 = 26.0;
/// Groups that are as wide as their labels of letters this wide show all of them on narrow screens,
/// too.
const LETTER_WIDE: f64 = 14.0;
/// The most labels on the x axis.
const LABELS_MAX: usize = 12;

/// Returns the least height of a bar with a value.
const fn least_height(lane: &Lane) -> f64 {
    match lane.y.scale {
        Scale::Linear => BAR_MIN,
        Scale::Log => BAR_MIN_LOG,
    }
}

/// The places of bars, one group a bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bars {
    /// The name of each bucket.
    pub(crate) buckets: Vec<String>,
    /// Where buckets begin and end, one more than there are buckets; empty: buckets are labelled
    /// with their names.
    pub(crate) edges: Vec<String>,
    /// The bucket that is advised, in another colour.
    pub(crate) advised: Option<usize>,
    /// The range of the values of each bucket, drawn as a line; `None`: not known.
    pub(crate) ranges: Option<Ranges>,
}

/// A range for each bucket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranges {
    /// The name of both ends, such as `p50 to p99`.
    pub(crate) label: &'static str,
    /// One for each bucket.
    pub(crate) ends: Vec<(f64, f64)>,
}

impl Bars {
    /// Returns the ranges; empty if they are not known.
    pub(super) fn ends(&self) -> &[(f64, f64)] {
        self.ranges.as_ref().map_or(&[], |ranges| &ranges.ends)
    }

    /// Returns the ruler of places, counted in buckets from the left.
    pub(super) fn x(&self) -> Ruler {
        let ends = [0.0, self.buckets.len() as f64].into_iter();
        Ruler::new(&Axis::default(), ends, false, (LEFT, RIGHT))
    }

    /// Returns the ruler of values, drawn from `bottom` to `top`.
    pub(super) fn y(&self, lane: &Lane, (bottom, top): (f64, f64)) -> Ruler {
        let values = lane.series.iter().flat_map(|series| &series.points);
        let ends = self.ends().iter().map(|(_, to)| *to);
        let values = values.map(|(_, value)| *value).chain(ends);
        // Room for the labels on top of the bars.
        let reach = values.clone().fold(0.0, f64::max) * 1.06;
        let least = values.filter(|value| *value > 0.0).fold(reach, f64::min);
        Ruler::new(&lane.y, [least, reach].into_iter(), true, (bottom, top))
    }

    /// Returns the room below the plot.
    pub(super) fn below(&self) -> f64 {
        if self.label_rows() == 2 {
            BELOW + LINE
        } else {
            BELOW
        }
    }

    /// Draws bars, ranges and numbers.
    pub(super) fn draw(&self, canvas: &mut Canvas, lane: &Lane, ruler: &Ruler, bottom: f64) {
        self.bars(canvas, lane, ruler, bottom);
        self.draw_ranges(canvas, ruler);
        self.numbers(canvas, lane, ruler, bottom);
    }

    /// Returns the width of a group.
    fn width(&self) -> f64 {
        (RIGHT - LEFT) / self.buckets.len().max(1) as f64
    }

    fn bars(&self, canvas: &mut Canvas, lane: &Lane, ruler: &Ruler, bottom: f64) {
        let width = self.width();
        let each = width * 0.84 / lane.series.len().max(1) as f64;
        for (place, series) in lane.series.iter().enumerate() {
            for (number, (bucket, value)) in series.points.iter().enumerate() {
                let Some(y) = ruler.at(*value).filter(|_| *value > 0.0) else {
                    continue;
                };
                let x = LEFT + bucket * width + width * 0.08 + place as f64 * each;
                let height = (bottom - y).max(least_height(lane));
                let advised = if self.advised == Some(number) {
                    " best"
                } else {
                    ""
                };
                let class = format!("b s{}{advised}", place % PATTERNS);
                canvas.rect(&class, (x, bottom - height), (each - 1.0, height));
            }
        }
    }

    /// Draws the range of the values of each bucket upon its bar.
    fn draw_ranges(&self, canvas: &mut Canvas, ruler: &Ruler) {
        for (bucket, (from, to)) in self.ends().iter().enumerate() {
            let (Some(from), Some(to)) = (ruler.at(*from), ruler.at(*to)) else {
                continue;
            };
            let x = LEFT + (bucket as f64 + 0.5) * self.width();
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
    fn numbers(&self, canvas: &mut Canvas, lane: &Lane, ruler: &Ruler, bottom: f64) {
        let width = self.width();
        let Some(first) = lane.series.first().filter(|_| width >= NUMBERS_FROM) else {
            return;
        };
        let total: f64 = first.points.iter().map(|(_, value)| value).sum();
        let write = |value: f64| match lane.y.unit {
            AxisUnit::Number if total > 0.0 => share(value / total),
            AxisUnit::Percent if value > 0.0 && value < 0.1 => "<0.1 %".to_owned(),
            unit => unit.write(value),
        };
        let texts = first.points.iter().map(|(_, value)| write(*value));
        let texts: Vec<String> = texts.collect();
        let rows = narrow_rows(texts.iter().map(String::as_str), width);
        for (bucket, ((_, value), text)) in first.points.iter().zip(&texts).enumerate() {
            let value_of = |series: &Series| series.points.get(bucket).map(|(_, value)| *value);
            let bars = lane.series.iter().filter_map(value_of);
            let end = self.ends().get(bucket).map(|(_, to)| *to);
            let highest = bars.chain(end).fold(0.0, f64::max);
            // Of counts nothing is nothing; a share of 0 is a result.
            let is_shown = *value > 0.0 || self.edges.is_empty();
            let Some(y) = ruler.at(highest).filter(|_| is_shown) else {
                continue;
            };
            let middle = LEFT + (bucket as f64 + 0.5) * width;
            let class = if self.edges.is_empty() {
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
            let at = y.min(bottom - least_height(lane)) - 5.0;
            canvas.text(class, middle, at, "middle", text);
        }
    }

    /// Returns in how many lines the labels stand on narrow screens. Labels of edges leave some out
    /// instead.
    fn label_rows(&self) -> usize {
        let names = self.buckets.iter().map(String::as_str);
        let has_all = self.edges.is_empty() && self.buckets.len() <= LABELS_MAX;
        Some(narrow_rows(names, self.width()))
            .filter(|rows| has_all && *rows <= 2)
            .unwrap_or(0)
    }

    /// Writes the names of buckets or edges, and that of the axis.
    pub(super) fn labels(&self, canvas: &mut Canvas, axis: &str, bottom: f64) {
        let (names, shift) = if self.edges.is_empty() {
            (&self.buckets, 0.5)
        } else {
            (&self.edges, 0.0)
        };
        let every = names.len().div_ceil(LABELS_MAX).max(1);
        let rows = self.label_rows();
        for (place, name) in names.iter().enumerate().step_by(every) {
            let x = LEFT + (place as f64 + shift) * self.width();
            let class = match (rows, place / every) {
                (0, number) if number % 3 != 0 => "t x m",
                (2, number) if number % 2 == 1 => "t x dn",
                _ => "t x",
            };
            let is_advised = self.advised == Some(place);
            let class = format!("{class}{}", if is_advised { " best" } else { "" });
            canvas.x_tick(&class, x, bottom, name);
            if !self.edges.is_empty() {
                canvas.path("a", &format!("M{x:.1} {bottom}v5"));
            }
        }
        canvas.x_name(if rows == 2 { "n x dn" } else { "n x" }, axis, bottom);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Band, Chart, MarkedPlace};

    fn chart() -> Chart {
        Chart {
            title: "Sizes <&>".into(),
            description: "Most are small.".into(),
            x: Axis::new("bytes", AxisUnit::Number),
            bars: Some(Bars {
                buckets: ["[64-128)", "[128-256)", "[256-512)"]
                    .map(Into::into)
                    .to_vec(),
                edges: ["64", "128", "256", "512"].map(Into::into).to_vec(),
                advised: Some(2),
                ranges: None,
            }),
            lanes: vec![Lane {
                y: Axis::new("records", AxisUnit::Number),
                series: vec![
                    Series::of_bars("stored", [10_000.0, 0.0, 1.0]),
                    Series::of_bars("counted", [9_000.0, 1_001.0, 0.0]),
                ],
            }],
            bands: vec![Band {
                from: 1.0,
                to: 2.0,
                label: "good".into(),
            }],
            marks: vec![MarkedPlace {
                at: 3.0,
                label: "cap".into(),
            }],
        }
    }

    #[test]
    fn ranges_are_drawn_upon_their_bars_and_stand_in_the_table() {
        let mut chart = chart();
        chart.bars.as_mut().unwrap().ranges = Some(Ranges {
            label: "of the repeats",
            ends: vec![(5_000.0, 11_000.0), (0.0, 2.0), (f64::NAN, 1.0)],
        });
        // Each with what sets it apart from its bar; the one that is not known is left out.
        assert_eq!(chart.to_svg("c").matches("class=\"r").count(), 4);
        let table = chart.to_table().plain();
        assert_eq!(table[0], "bytes,stored,counted,of the repeats");
        assert!(table[1].ends_with(",\"5,000 to 11,000\""), "{table:?}");
    }

    #[test]
    fn there_is_a_bar_for_everything_but_nothing() {
        let svg = chart().to_svg("c");
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
        let shares = [37.4, 0.00334, 0.0, 0.0, 0.0, 37.4, 37.4, 0.0];
        let categories = Chart {
            bars: Some(Bars {
                buckets: names.map(str::to_owned).into(),
                advised: Some(2),
                ..Bars::default()
            }),
            lanes: vec![Lane {
                y: Axis::new("KEY_BUSY", AxisUnit::Percent),
                series: vec![Series::of_bars("KEY_BUSY", shares)],
            }],
            ..Chart::default()
        };
        let svg = categories.to_svg("c");
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
        let empty = Chart {
            bars: Some(Bars::default()),
            lanes: vec![Lane::default()],
            ..Chart::default()
        };
        assert!(empty.to_svg("c").ends_with("</svg>"));
    }
}
