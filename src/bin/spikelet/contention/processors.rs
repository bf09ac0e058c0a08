//! How busy the processors of this machine are.

/// The time that the processors have worked, and all of it, since the machine was started.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessorTimes {
    busy: u64,
    all: u64,
}

impl ProcessorTimes {
    /// Reads the counters of the system; `None` where it has none.
    pub(super) fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait and others, in ticks.
    fn parse(text: &str) -> Option<Self> {
        let times = text.lines().next()?.strip_prefix("cpu ")?;
        let times: Vec<u64> = times
            .split_whitespace()
            .map_while(|ticks| ticks.parse().ok())
            .take(8)
            .collect();
        let all = times.iter().sum();
        let idle = times.get(3)? + times.get(4)?;
        Some(Self {
            busy: all - idle,
            all,
        })
    }

    /// Returns the part of the time since then that the processors have worked, 0 to 1.
    pub(super) fn busy_since(self, then: Self) -> Option<f64> {
        let all = self.all.checked_sub(then.all).filter(|ticks| *ticks > 0)?;
        Some(self.busy.saturating_sub(then.busy) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_processors_are_not_busy() {
        let at = |line: &str| ProcessorTimes::parse(line).unwrap();
        let then = at("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 1 1 1");
        let now = at("cpu  160 10 60 810 60 0 5 5 0 0\n");
        let busy = now.busy_since(then).unwrap();
        assert!((busy - 0.9 * 100.0 / 110.0).abs() < 0.01, "{busy}");
        assert!(then.busy_since(now).is_none());
        assert!(ProcessorTimes::parse("intr 1 2 3").is_none());
    }
}
