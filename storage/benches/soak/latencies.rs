//! Counts of latencies, to a few percent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Steps between a power of two and the next: each is 3 % or less.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();
const COUNTS: usize = (64 * STEPS) as usize;

/// How many calls took how long. Threads count side by side.
#[derive(Debug)]
pub struct Latencies(Vec<AtomicU64>);

/// Quantiles of some calls, in microseconds; 0 if there were none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantiles {
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

impl Latencies {
    pub fn new() -> Self {
        Self((0..COUNTS).map(|_| AtomicU64::new(0)).collect())
    }

    pub fn add(&self, took: Duration) {
        let nanos = (took.as_nanos() as u64).max(STEPS);
        let power = nanos.ilog2();
        let step = (nanos >> (power - STEP_BITS)) & (STEPS - 1);
        self.0[(u64::from(power) * STEPS + step) as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the quantiles of what was added since the last call, and begins anew.
    pub fn take(&self) -> Quantiles {
        let counts: Vec<u64> = self
            .0
            .iter()
            .map(|count| count.swap(0, Ordering::Relaxed))
            .collect();
        let total: u64 = counts.iter().sum();
        let quantile = |share: f64| {
            let wanted = ((total as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= wanted
            });
            found.map_or(0.0, upper_end_us)
        };
        Quantiles {
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: quantile(1.0),
        }
    }
}

/// The longest latency, in microseconds, that is counted at this index.
fn upper_end_us(index: usize) -> f64 {
    let (power, step) = (index as u64 / STEPS, index as u64 % STEPS);
    let nanos = (STEPS + step + 1) as f64 * 2_f64.powi(power as i32 - STEP_BITS as i32);
    nanos / 1000.0
}
