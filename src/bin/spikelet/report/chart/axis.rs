//! Axes: from values to places on a line, and ticks at values that people like.

use crate::report::number::{micros, short};
use crate::report::table::Cell;

/// What the numbers of an axis are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum AxisUnit {
    /// Plain numbers.
    #[default]
    Number,
    /// Parts of a hundred.
    Percent,
    /// Microseconds, shown in the unit that suits.
    Micros,
}

impl AxisUnit {
    /// Writes a number with its unit.
    pub(super) fn write(self, value: f64) -> String {
        match self {
            Self::Number => short(value),
            Self::Percent => format!("{} %", short(value)),
            Self::Micros => micros(value),
        }
    }

    /// Writes the number of a tick: its room is that of seven letters.
    pub(super) fn write_tick(self, value: f64) -> String {
        let units = [(1e9, "G"), (1e6, "M"), (1e4, "k")];
        let unit = units.into_iter().find(|(from, _)| value >= *from);
        match (self, unit) {
            (Self::Number, Some((_, "k"))) => format!("{}k", short(value / 1e3)),
            (Self::Number, Some((from, unit))) => format!("{}{unit}", short(value / from)),
            _ => self.write(value),
        }
    }

    pub(super) fn cell(self, value: f64) -> Cell {
        match self {
            Self::Number => Cell::exact(value),
            _ if value.is_finite() => Cell::shown(self.write(value), value.to_string()),
            _ => Cell::missing(),
        }
    }
}

/// How values become places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Scale {
    /// Equal steps are equal differences.
    #[default]
    Linear,
    /// Equal steps are equal factors. Zero and negative values have no place on it, and are not
    /// drawn.
    Log,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Axis {
    /// What it measures, with the unit where the ticks do not say it.
    pub(crate) label: String,
    /// The unit of its numbers.
    pub(crate) unit: AxisUnit,
    /// How values become places.
    pub(crate) scale: Scale,
}

impl Axis {
    /// Returns a linear axis.
    pub(crate) fn new(label: impl Into<String>, unit: AxisUnit) -> Self {
        Self {
            label: label.into(),
            unit,
            ..Self::default()
        }
    }

    /// Makes the scale logarithmic.
    pub(crate) fn log(mut self) -> Self {
        self.scale = Scale::Log;
        self
    }
}

/// An axis that knows its data and its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruler {
    scale: Scale,
    from: f64,
    to: f64,
    /// Where `from` and `to` are drawn.
    place: (f64, f64),
}

impl Ruler {
    /// Returns a ruler for these values. `from_zero`: a linear axis begins at 0 if no value is
    /// below it, and ends at a tick.
    pub(super) fn new(
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        from_zero: bool,
        place: (f64, f64),
    ) -> Self {
        let log = axis.scale == Scale::Log;
        let fits = |value: &f64| value.is_finite() && (!log || *value > 0.0);
        let (mut from, mut to) = values
            .filter(fits)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if from > to {
            (from, to) = if log { (1.0, 10.0) } else { (0.0, 1.0) };
        } else if log {
            from = 10_f64.powf((from.log10() + 1e-9).floor());
            to = 10_f64.powf((to.log10() - 1e-9).ceil());
            to = to.max(from * 10.0);
        } else if from_zero {
            from = from.min(0.0);
            to = if to > from { to } else { from + 1.0 };
            let step = step(to - from);
            to = (to / step - 1e-9).ceil() * step;
        } else if from >= to {
            to = from + 1.0;
        }
        Self {
            scale: axis.scale,
            from,
            to,
            place,
        }
    }

    /// Returns where a value is drawn; `None` if a logarithmic axis has no place for it. Values
    /// beyond the ends are drawn at the ends.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.scale == Scale::Log && value <= 0.0) {
            return None;
        }
        let value = value.clamp(self.from, self.to);
        let part = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        Some(self.place.0 + part * (self.place.1 - self.place.0))
    }

    /// Returns values worth a tick, and whether a narrow window leaves each out.
    pub(super) fn ticks(&self) -> Vec<(f64, bool)> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.to - self.from);
                let first = (self.from / step - 1e-9).ceil() as i64;
                let last = (self.to / step + 1e-9).floor() as i64;
                (first..=last)
                    .map(|n| (n as f64 * step, (n - first) % 2 == 1))
                    .collect()
            }
            Scale::Log => self.log_ticks(),
        }
    }

    fn log_ticks(&self) -> Vec<(f64, bool)> {
        let first = (self.from.log10() - 1e-9).ceil() as i32;
        let last = (self.to.log10() + 1e-9).floor() as i32;
        let between: &[f64] = if last - first <= 2 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let every = (last - first) / 6 + 1;
        (first - 1..=last)
            .flat_map(|power| between.iter().map(move |part| (power, *part)))
            .filter(|(power, _)| (power - first) % every == 0 || between.len() > 1)
            .map(|(power, part)| (part * 10_f64.powi(power), part > 1.0))
            .filter(|(value, _)| {
                (self.from * (1.0 - 1e-9)..=self.to * (1.0 + 1e-9)).contains(value)
            })
            .collect()
    }
}

/// Returns the distance of ticks, 1, 2 or 5 times a power of ten, so that there are about five.
fn step(span: f64) -> f64 {
    let rough = span / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = match rough / power {
        part if part <= 1.0 => 1.0,
        part if part <= 2.0 => 2.0,
        part if part <= 5.0 => 5.0,
        _ => 10.0,
    };
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(ruler: &Ruler) -> Vec<f64> {
        ruler.ticks().into_iter().map(|(value, _)| value).collect()
    }

    #[test]
    fn a_linear_axis_begins_at_zero_and_ends_at_a_tick() {
        let axis = Axis::new("", AxisUnit::Number);
        let ruler = Ruler::new(&axis, [3.0, 87.0].into_iter(), true, (100.0, 0.0));
        assert_eq!(values(&ruler), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ruler.at(50.0), Some(50.0));
        assert_eq!(ruler.at(0.0), Some(100.0));
        assert_eq!(ruler.at(1e9), Some(0.0));
        assert_eq!(ruler.at(f64::NAN), None);
    }

    #[test]
    fn ticks_of_large_numbers_have_room_beside_the_plot() {
        for (value, text) in [
            (9_000.0, "9,000"),
            (20_000.0, "20k"),
            (100_000.0, "100k"),
            (2.5e6, "2.5M"),
            (1e10, "10G"),
        ] {
            assert_eq!(AxisUnit::Number.write_tick(value), text);
        }
    }

    #[test]
    fn a_log_axis_spans_whole_powers() {
        let axis = Axis::new("", AxisUnit::Micros).log();
        let ruler = Ruler::new(&axis, [0.0, 20.0, 900.0].into_iter(), true, (0.0, 200.0));
        assert_eq!(
            values(&ruler),
            [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
        );
        assert_eq!(ruler.at(100.0), Some(100.0));
        assert_eq!(ruler.at(0.0), None);
        let wide = Ruler::new(&axis, [1.0, 1e6].into_iter(), true, (0.0, 1.0));
        assert_eq!(values(&wide), [1.0, 100.0, 1e4, 1e6]);
    }

    #[test]
    fn an_axis_without_data_or_with_one_value_has_a_length() {
        for (axis, data) in [
            (Axis::new("", AxisUnit::Number), vec![]),
            (Axis::new("", AxisUnit::Number).log(), vec![0.0, -1.0]),
            (Axis::new("", AxisUnit::Number), vec![0.0]),
            (Axis::new("", AxisUnit::Number).log(), vec![10.0]),
            (Axis::new("", AxisUnit::Number), vec![7.0]),
        ] {
            for from_zero in [true, false] {
                let ruler = Ruler::new(&axis, data.iter().copied(), from_zero, (0.0, 10.0));
                assert!(values(&ruler).len() >= 2, "{axis:?} {data:?}");
                assert!(ruler.at(7.0).is_some_and(|at| (0.0..=10.0).contains(&at)));
            }
        }
    }
}
