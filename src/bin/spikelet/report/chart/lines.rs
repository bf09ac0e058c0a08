//! Lines on two axes.

use std::fmt::Write as _;

use super::Series;
use super::axis::Ruler;
use super::plot::{Canvas, marker};

/// The most points of a series that get a marker: beyond it the markers are spread evenly.
const MARKERS_MAX: usize = 16;

/// Draws a line.
pub(super) fn line(canvas: &mut Canvas, series: &Series, pattern: usize, x: &Ruler, y: &Ruler) {
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
