//! Whether the means of two small samples differ: Welch's test, with Student's t distribution.

/// Two samples, compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Difference {
    /// The mean of the second less that of the first.
    pub(super) by: f64,
    /// The interval of the mean, with a confidence of 95 in 100.
    pub(super) interval: (f64, f64),
    /// The chance of such a difference, or a larger one either way, where there is none.
    pub(super) chance: f64,
}

/// Compares two samples of at least two values each; `None` with fewer.
pub(super) fn difference(before: &[f64], now: &[f64]) -> Option<Difference> {
    let ((mean_a, error_a), (mean_b, error_b)) = (mean_and_error(before)?, mean_and_error(now)?);
    let by = mean_b - mean_a;
    let squared = error_a + error_b;
    if squared <= 0.0 {
        // Samples without any spread: what differs, differs.
        return Some(Difference {
            by,
            interval: (by, by),
            chance: if by == 0.0 { 1.0 } else { 0.0 },
        });
    }
    let of = |error: f64, count: usize| error * error / (count as f64 - 1.0);
    let freedom = squared * squared / (of(error_a, before.len()) + of(error_b, now.len()));
    let error = squared.sqrt();
    let reach = quantile(freedom, 0.05) * error;
    Some(Difference {
        by,
        interval: (by - reach, by + reach),
        chance: beyond(by.abs() / error, freedom),
    })
}

/// Returns the mean and the square of its standard error.
fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, squares / (count - 1.0) / count))
}

/// Returns the chance that t is farther from 0 than this, either way.
fn beyond(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Returns the t that is exceeded, either way, with this chance.
fn quantile(freedom: f64, chance: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if beyond(middle, freedom) > chance {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Returns the regularised incomplete beta function, by its continued fraction.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln();
    // The fraction converges quickly on this side only.
    if x < (a + 1.0) / (a + b + 2.0) {
        front.exp() * fraction(x, a, b) / a
    } else {
        1.0 - front.exp() * fraction(1.0 - x, b, a) / b
    }
}

fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let apart = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / apart(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / apart(1.0 + term * d);
            c = apart(1.0 + term / c);
            change = c * d;
            result *= change;
        }
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    result
}

/// Returns the logarithm of the gamma function (Lanczos).
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.001_208_650_973_866_179,
        -0.000_005_395_239_384_953,
    ];
    let base = x + 5.5;
    let series = TERMS
        .iter()
        .zip(1..)
        .fold(1.000_000_000_190_015, |sum, (term, step)| {
            sum + term / (x + f64::from(step))
        });
    (x + 0.5) * base.ln() - base + (2.506_628_274_631_000_5 * series / x).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_that_of_the_tables() {
        for (freedom, chance, t) in [
            (1.0, 0.05, 12.706),
            (4.0, 0.05, 2.776),
            (8.0, 0.05, 2.306),
            (8.0, 0.01, 3.355),
            (30.0, 0.001, 3.646),
        ] {
            let found = quantile(freedom, chance);
            assert!((found - t).abs() < 1e-3, "{freedom} {chance}: {found}");
            assert!((beyond(t, freedom) - chance).abs() < 5e-5);
        }
    }

    #[test]
    fn samples_are_told_apart_only_beyond_their_spread() {
        let (low, high) = (
            [10.0, 11.0, 9.0, 10.0, 10.0],
            [20.0, 21.0, 19.0, 20.0, 20.0],
        );
        let far = difference(&low, &high).unwrap();
        assert!((far.by - 10.0).abs() < 1e-9 && far.chance < 1e-5, "{far:?}");
        assert!(far.interval.0 > 8.0 && far.interval.1 < 12.0);
        let near = difference(&low, &[11.0, 9.0, 10.0, 12.0, 9.0]).unwrap();
        assert!(near.chance > 0.5 && near.interval.0 < 0.0, "{near:?}");
        let exact = |now: &[f64]| difference(&[1.0, 1.0, 1.0], now).unwrap().chance;
        assert_eq!((exact(&[1.0, 1.0]), exact(&[2.0, 2.0])), (1.0, 0.0));
        assert_eq!(difference(&[1.0], &low), None);
    }
}
