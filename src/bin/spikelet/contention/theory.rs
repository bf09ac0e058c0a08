//! Predictions of queueing theory: writes that come at random to a record with a queue of limited
//! length.
//!
//! M/D/1/K for a hold that is always the same, M/M/1/K for an exponential one; K, the writers in
//! the system, is `max_waiters + 1`; M/D/1 and M/M/1 where any number may wait. Nothing here is
//! measured, and nothing here shares code with the simulation.

use super::case::Spread;

/// The most places in the system that are computed; a longer queue answers as this one does.
const PLACES_MAX: usize = 512;

/// What theory expects at one record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    /// The share of writes that is refused.
    pub(super) busy: f64,
    /// Mean time from coming to acknowledgement, in units of the mean hold.
    pub(super) mean_holds: f64,
}

/// A smaller share, one in a billion, counts as 0: its computation is mostly rounding.
const BUSY_MIN: f64 = 1e-9;

/// Returns what theory expects of a record. `load`: writes in a mean hold (lambda). `max_waiters`:
/// how many may wait; with `None` there is nothing to expect of a record that is offered more than
/// it can serve.
pub(super) fn expected(load: f64, max_waiters: Option<usize>, spread: Spread) -> Option<Expected> {
    if !(load > 0.0 && load.is_finite()) {
        return None;
    }
    let Some(max_waiters) = max_waiters else {
        return (load < 1.0).then(|| unlimited(load, spread));
    };
    let places = max_waiters.saturating_add(1).min(PLACES_MAX);
    let in_system = match spread {
        Spread::Fixed => fixed(load, places),
        Spread::Exponential => exponential(load, places),
    };
    let busy = *in_system.last()?;
    let mean: f64 = in_system
        .iter()
        .enumerate()
        .map(|(place, chance)| place as f64 * chance)
        .sum();
    // Little's law, for the admitted writes.
    Some(Expected {
        busy: if busy < BUSY_MIN { 0.0 } else { busy },
        mean_holds: mean / (load * (1.0 - busy)),
    })
}

/// Computes the unlimited queue by Pollaczek and Khinchine.
fn unlimited(load: f64, spread: Spread) -> Expected {
    let queue = load / (1.0 - load);
    Expected {
        busy: 0.0,
        mean_holds: 1.0
            + match spread {
                Spread::Fixed => queue / 2.0,
                Spread::Exponential => queue,
            },
    }
}

/// Returns the chances that 0, 1, .. `places` are in the system, each relative to the one before.
fn exponential(load: f64, places: usize) -> Vec<f64> {
    let mut weight = 1.0;
    let mut weights = vec![weight];
    for _ in 0..places {
        weight *= load;
        weights.push(weight);
    }
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// Returns the chances for fixed holds, from what a writer leaves behind (an embedded Markov
/// chain): the chance of j behind one is that of i behind the one before, and of as many arrivals
/// during a hold as are missing.
fn fixed(load: f64, places: usize) -> Vec<f64> {
    // The chance that j come during a hold.
    let mut coming = vec![(-load).exp()];
    for count in 1..=places {
        let last = coming.last().copied().unwrap_or_default();
        coming.push(last * load / count as f64);
    }
    let come = |count: usize| coming.get(count).copied().unwrap_or_default();
    let none = come(0);
    let mut behind = vec![1.0];
    for left in 0..places.saturating_sub(1) {
        let at = |place: usize| behind.get(place).copied().unwrap_or_default();
        let arrived: f64 = (1..=left)
            .map(|from| at(from) * come(left + 1 - from))
            .sum();
        behind.push((at(left) - at(0) * come(left) - arrived) / none);
    }
    let sum: f64 = behind.iter().sum();
    let idle = 1.0 / sum;
    let scale = 1.0 / (idle + load);
    let mut in_system: Vec<f64> = behind.iter().map(|chance| chance * idle * scale).collect();
    in_system.push(1.0 - scale);
    in_system
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
    }

    #[test]
    fn without_a_queue_the_loss_is_that_of_erlang_whatever_the_spread() {
        for load in [0.1, 0.5, 1.0, 3.0] {
            for spread in [Spread::Fixed, Spread::Exponential] {
                let found = expected(load, Some(0), spread).unwrap();
                close(found.busy, load / (1.0 + load));
                close(found.mean_holds, 1.0);
            }
        }
    }

    #[test]
    fn a_queue_that_is_never_full_waits_as_long_as_the_unlimited_one() {
        for load in [0.1, 0.4, 0.8] {
            for spread in [Spread::Fixed, Spread::Exponential] {
                let long = expected(load, Some(200), spread).unwrap();
                let unlimited = expected(load, None, spread).unwrap();
                assert!((long.mean_holds - unlimited.mean_holds).abs() < 1e-6);
                assert_eq!((long.busy, unlimited.busy), (0.0, 0.0));
            }
        }
    }

    #[test]
    fn one_waiting_place_is_as_worked_out_by_hand() {
        // After a writer: the queue is empty with chance e^-r, or holds one. So idle = e^-r, and 1
        // - 1 / (e^-r + r) are refused.
        for load in [0.2, 0.9, 1.6] {
            let found = expected(load, Some(1), Spread::Fixed).unwrap();
            close(found.busy, 1.0 - 1.0 / ((-load).exp() + load));
        }
    }

    #[test]
    fn beyond_its_capacity_a_record_serves_one_write_a_hold() {
        for spread in [Spread::Fixed, Spread::Exponential] {
            let found = expected(3.2, Some(20), spread).unwrap();
            assert!((found.busy - (1.0 - 1.0 / 3.2)).abs() < 1e-6, "{found:?}");
        }
        assert_eq!(expected(0.0, Some(20), Spread::Fixed), None);
        assert_eq!(expected(f64::NAN, Some(20), Spread::Fixed), None);
        assert_eq!(expected(1.0, None, Spread::Fixed), None);
    }
}
