//! The one measuring loop: closed loop, every operation timed, any number of threads.

use crate::Result;
use hdrhistogram::Histogram;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Operations drawn ahead, so that the draw is not part of an operation's time.
const AHEAD: usize = 64;
/// Latencies above this, in ns, are recorded as this: one minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Digits kept of a latency.
const LATENCY_DIGITS: u8 = 3;

/// What a run of the loop saw.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Operations done by all threads.
    pub operations: u64,
    /// From the common start to the end of the slowest thread.
    pub elapsed: Duration,
    /// Latency of each operation, in ns.
    pub latency: Histogram<u64>,
    /// Operations that ended in the first, second, .. second.
    pub by_second: Vec<u64>,
}

impl Measured {
    /// Nothing seen yet.
    pub fn new() -> Result<Self> {
        Ok(Self {
            operations: 0,
            elapsed: Duration::ZERO,
            latency: Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS)?,
            by_second: Vec::new(),
        })
    }

    /// Operations a second over the whole time.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// Takes in what another thread saw in the same time.
    fn join(&mut self, other: &Self) -> Result<()> {
        self.operations += other.operations;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.latency.add(&other.latency)?;
        for (second, operations) in other.by_second.iter().enumerate() {
            self.count(second, *operations);
        }
        Ok(())
    }

    fn count(&mut self, second: usize, operations: u64) {
        if self.by_second.len() <= second {
            self.by_second.resize(second + 1, 0);
        }
        if let Some(count) = self.by_second.get_mut(second) {
            *count += operations;
        }
    }
}

/// Runs `threads` closed loops for `span`, or until their draws end.
///
/// `worker` makes a thread's two halves: the draw of the next operation (`None` ends it), and the
/// operation that is timed. A latency holds one reading of the clock; the rate also pays for the
/// draws and the counting.
///
/// # Errors
/// The first error of an operation; the other threads end their loops first.
pub fn measure<T, D, O>(
    threads: usize,
    span: Option<Duration>,
    worker: impl Fn(usize) -> (D, O) + Sync,
) -> Result<Measured>
where
    D: FnMut() -> Option<T>,
    O: FnMut(&T) -> Result<()>,
{
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        let loops: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, worker) = (&start, &worker);
                scope.spawn(move || {
                    let (draw, operate) = worker(thread);
                    start.wait();
                    run(span, draw, operate)
                })
            })
            .collect();
        let mut all = Measured::new()?;
        for one in loops {
            all.join(&one.join().map_err(|_| "a measuring thread panicked")??)?;
        }
        Ok(all)
    })
}

fn run<T>(
    span: Option<Duration>,
    mut draw: impl FnMut() -> Option<T>,
    mut operate: impl FnMut(&T) -> Result<()>,
) -> Result<Measured> {
    let mut measured = Measured::new()?;
    let mut ahead = Vec::with_capacity(AHEAD);
    let start = Instant::now();
    loop {
        ahead.clear();
        ahead.extend(std::iter::from_fn(&mut draw).take(AHEAD));
        let mut before = Instant::now();
        let end = span.map(|span| start + span);
        let mut operated = 0;
        for drawn in &ahead {
            operate(drawn)?;
            let after = Instant::now();
            measured
                .latency
                .saturating_record((after - before).as_nanos() as u64);
            before = after;
            operated += 1;
            // Sixty-four syncs would take far longer than a short span.
            if end.is_some_and(|end| after >= end) {
                break;
            }
        }
        measured.elapsed = before - start;
        measured.operations += operated;
        measured.count(measured.elapsed.as_secs() as usize, operated);
        if operated < AHEAD as u64 || span.is_some_and(|span| measured.elapsed >= span) {
            return Ok(measured);
        }
    }
}

/// Mean cost of one reading of the clock, in ns.
pub fn clock_ns() -> f64 {
    const READINGS: u32 = 1_000_000;
    let start = Instant::now();
    for _ in 0..READINGS {
        std::hint::black_box(Instant::now());
    }
    start.elapsed().as_nanos() as f64 / f64::from(READINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draw_is_operated_on_once_by_its_thread() {
        let seen = std::sync::Mutex::new(Vec::new());
        let measured = measure(3, None, |thread| {
            let mut left = (0..100).map(move |turn| (thread, turn));
            (
                move || left.next(),
                |drawn: &(usize, i32)| {
                    seen.lock().unwrap().push(*drawn);
                    Ok(())
                },
            )
        })
        .unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        let all: Vec<_> = (0..3)
            .flat_map(|thread| (0..100).map(move |turn| (thread, turn)))
            .collect();
        assert_eq!(seen, all);
        assert_eq!(measured.operations, 300);
        assert_eq!(measured.latency.len(), 300);
        assert_eq!(measured.by_second.iter().sum::<u64>(), 300);
    }

    #[test]
    fn an_endless_draw_ends_with_its_span() {
        let span = Duration::from_millis(5);
        let measured = measure(2, Some(span), |_| (|| Some(()), |_: &()| Ok(()))).unwrap();
        assert!(measured.elapsed >= span);
        assert!(measured.operations >= 2 * AHEAD as u64);
        assert_eq!(measured.latency.len(), measured.operations);
    }

    #[test]
    fn a_slow_operation_ends_its_span_before_all_that_was_drawn_is_done() {
        let span = Duration::from_millis(20);
        let slow = |_: &()| {
            thread::sleep(Duration::from_millis(5));
            Ok(())
        };
        let measured = measure(1, Some(span), |_| (|| Some(()), slow)).unwrap();
        assert!((1..=4).contains(&measured.operations), "{measured:?}");
    }

    #[test]
    fn joined_threads_add_their_operations_and_keep_the_longest_time() {
        let one = |latencies: &[u64], elapsed, by_second: &[u64]| {
            let mut measured = Measured::new().unwrap();
            for latency in latencies {
                measured.latency.record(*latency).unwrap();
            }
            measured.operations = latencies.len() as u64;
            measured.elapsed = Duration::from_secs(elapsed);
            measured.by_second = by_second.to_vec();
            measured
        };
        let mut all = one(&[100, 100, 100], 2, &[2, 1]);
        all.join(&one(&[900; 97], 3, &[1, 0, 96])).unwrap();
        assert_eq!(all.operations, 100);
        assert_eq!(all.elapsed, Duration::from_secs(3));
        assert_eq!(all.by_second, [3, 1, 96]);
        assert_eq!(all.latency.value_at_quantile(0.03), 100);
        assert_eq!(all.latency.value_at_quantile(0.04), 900);
        assert_eq!(all.rate(), 100.0 / 3.0);
    }

    #[test]
    fn an_error_of_an_operation_is_the_error_of_the_run() {
        let failed = measure(2, None, |thread| {
            let mut left = 0..10;
            (
                move || left.next(),
                move |turn: &i32| match (thread, *turn) {
                    (1, 7) => Err("the seventh".into()),
                    _ => Ok(()),
                },
            )
        });
        assert_eq!(failed.unwrap_err().to_string(), "the seventh");
    }
}
