//! Guards: what a protocol relies on, named one by one, so that its model check can leave each out
//! and must see it.

#[cfg(not(all(test, shuttle)))]
use std::marker::PhantomData;

/// The guards of a protocol. All are kept, but in tests of the guards.
#[cfg(not(all(test, shuttle)))]
#[derive(Debug)]
pub(crate) struct Guards<G>(PhantomData<G>);

#[cfg(not(all(test, shuttle)))]
impl<G> Guards<G> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }

    /// Whether a guard is to be kept.
    #[inline]
    #[allow(clippy::unused_self, clippy::needless_pass_by_value)]
    pub(crate) fn keep(&self, _: G) -> bool {
        true
    }
}

#[cfg(all(test, shuttle))]
pub(crate) use checked::*;

#[cfg(all(test, shuttle))]
mod checked {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// The guards of a protocol, and the one that is left out.
    #[derive(Debug)]
    pub(crate) struct Guards<G>(Mutex<Option<G>>);

    impl<G: Copy + PartialEq> Guards<G> {
        pub(crate) const fn new() -> Self {
            Self(Mutex::new(None))
        }

        /// Whether a guard is to be kept.
        pub(crate) fn keep(&self, guard: G) -> bool {
            *self.left_out() != Some(guard)
        }

        fn left_out(&self) -> MutexGuard<'_, Option<G>> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Returns the guards without which its scenario does not fail, in 4,000 schedules of each
        /// kind.
        pub(crate) fn needless(&self, guards: &[(G, fn())]) -> Vec<G> {
            let fails = |(guard, scenario): &&(G, fn())| {
                *self.left_out() = Some(*guard);
                let outcome = catch_unwind(AssertUnwindSafe(|| explore(4_000, *scenario)));
                *self.left_out() = None;
                outcome.is_err()
            };
            let needless = guards.iter().filter(|guard| !fails(guard));
            needless.map(|(guard, _)| *guard).collect()
        }
    }

    /// Guards are global: one test at a time.
    pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a scenario in random schedules, and in ones with few but well-placed switches.
    pub(crate) fn explore(runs: usize, scenario: fn()) {
        let config = || {
            let mut config = shuttle::Config::default();
            // Opening a store takes more stack than the model's threads have by default.
            config.stack_size = 512 << 10;
            config
        };
        let random = shuttle::scheduler::RandomScheduler::new(runs);
        shuttle::Runner::new(random, config()).run(scenario);
        let few_switches = shuttle::scheduler::PctScheduler::new(3, runs);
        shuttle::Runner::new(few_switches, config()).run(scenario);
    }
}
