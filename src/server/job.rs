//! Queries under way and the last ones done, for `query-show` and `query-abort`.

use std::collections::VecDeque;
use std::fmt::{Display, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::counters::{Counter, JobEnd, JobKind};
use super::served::ServedNamespace;
use crate::Error;

/// A query.
pub(crate) struct Job {
    pub(crate) facts: JobFacts,
    started: Instant,
    abort: AtomicBool,
    /// How much of the partitions is visited, in hundredths of a percent.
    progress: AtomicU64,
    pub(crate) succeeded: Counter,
    pub(crate) failed: Counter,
    pub(crate) filtered: Counter,
    pub(crate) throttled: Counter,
    pub(crate) bytes: Counter,
    end: Mutex<Option<(JobEnd, Instant)>>,
}

/// What is known of a job from its start.
pub(crate) struct JobFacts {
    pub(crate) id: u64,
    pub(crate) kind: JobKind,
    pub(crate) namespace: String,
    pub(crate) set: String,
    /// The index that the query is by.
    pub(crate) index: Option<String>,
    pub(crate) partitions: usize,
    pub(crate) digests: usize,
    pub(crate) records_per_second: u32,
    pub(crate) socket_timeout_ms: u32,
    pub(crate) client: String,
}

impl Job {
    /// Makes a job that is not listed; [`Jobs::begin`] makes one and lists it.
    pub(crate) fn of(facts: JobFacts) -> Self {
        Self {
            facts,
            started: Instant::now(),
            abort: AtomicBool::new(false),
            progress: AtomicU64::new(0),
            succeeded: Counter::default(),
            failed: Counter::default(),
            filtered: Counter::default(),
            throttled: Counter::default(),
            bytes: Counter::default(),
            end: Mutex::new(None),
        }
    }

    /// Whether the job was asked to end.
    pub(crate) fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    /// Notes that `done` of `all` partitions are visited.
    pub(crate) fn progress(&self, done: usize, all: usize) {
        let hundredths = done as u64 * 10_000 / all.max(1) as u64;
        self.progress.store(hundredths, Ordering::Relaxed);
    }

    /// Counts a record that could not be read, and names it in the log.
    pub(crate) fn fail(&self, error: &Error) {
        self.failed.count();
        let JobFacts { namespace, id, .. } = &self.facts;
        tracing::warn!(%namespace, job = id, %error, "a query passes over a record");
    }

    /// Notes the end, once.
    pub(crate) fn finish(&self, how: JobEnd) {
        let mut end = self.end.lock();
        if end.is_none() {
            *end = Some((how, Instant::now()));
        }
    }

    /// Notes the end, unless one is noted already, and counts the query by its end.
    pub(crate) fn finish_and_count(&self, how: JobEnd, served: &ServedNamespace) {
        self.finish(how);
        let counters = served.counters.queries(self.facts.index.is_some());
        let how = self.ended().map_or(how, |(how, _)| how);
        counters.add(self.facts.kind, how);
    }

    fn is_running(&self) -> bool {
        self.ended().is_none()
    }

    fn is_wanted(&self, only: Option<u64>) -> bool {
        only.is_none_or(|id| self.facts.id == id)
    }

    fn ended(&self) -> Option<(JobEnd, Instant)> {
        *self.end.lock()
    }

    /// The job as info commands show it: `key=value` pairs between colons, in Aerospike's order.
    fn describe(&self) -> String {
        let (facts, end) = (&self.facts, self.ended());
        let status = match end {
            None => "active(ok)",
            Some((JobEnd::Complete, _)) => "done(ok)",
            Some((JobEnd::Aborted, _)) => "done(user-aborted)",
            Some((JobEnd::Failed, _)) => "done(abandoned-unknown)",
            Some((JobEnd::Abandoned, _)) => "done(abandoned-response-error)",
        };
        let until = end.map_or_else(Instant::now, |(_, at)| at);
        let progress = self.progress.load(Ordering::Relaxed);
        let mut text = format!("trid={}:ns={}", facts.id, facts.namespace);
        let mut add = |key: &str, value: &dyn Display| {
            // Writing to a string does not fail.
            let _ = write!(text, ":{key}={value}");
        };
        if !facts.set.is_empty() {
            add("set", &facts.set);
        }
        if let Some(index) = &facts.index {
            add("sindex-name", index);
        }
        if facts.kind == JobKind::Basic {
            add("n-pids-requested", &facts.partitions);
            add("n-keyds-requested", &facts.digests);
        }
        add("rps", &facts.records_per_second);
        add("active-threads", &u8::from(end.is_none()));
        add("status", &status);
        let percent = format!("{}.{:02}", progress / 100, progress % 100);
        add("job-progress", &percent);
        add("run-time", &until.duration_since(self.started).as_millis());
        let since = end.map_or(0, |(_, at)| at.elapsed().as_millis());
        add("time-since-done", &since);
        add("recs-throttled", &self.throttled.get());
        add("recs-filtered-meta", &0);
        add("recs-filtered-bins", &self.filtered.get());
        add("recs-succeeded", &self.succeeded.get());
        add("recs-failed", &self.failed.get());
        add("from", &facts.client.replace(':', "+"));
        add("job-type", &facts.kind.name());
        add("net-io-bytes", &self.bytes.get());
        add("socket-timeout", &facts.socket_timeout_ms);
        text
    }
}

/// All jobs that are known.
#[derive(Default)]
pub(crate) struct Jobs {
    /// The oldest first.
    known: Mutex<VecDeque<Arc<Job>>>,
}

impl Jobs {
    /// Begins a job; `None` if one of this number is remembered. 0 is no number. Of the jobs that
    /// have ended, `max_done` are remembered.
    pub(crate) fn begin(&self, facts: JobFacts, max_done: u64) -> Option<Arc<Job>> {
        let mut known = self.known.lock();
        if facts.id != 0 && known.iter().any(|job| job.facts.id == facts.id) {
            return None;
        }
        let done = known.iter().filter(|job| !job.is_running()).count() as u64;
        let mut surplus = done.saturating_sub(max_done);
        known.retain(|job| {
            let stays = surplus == 0 || job.is_running();
            surplus -= u64::from(!stays);
            stays
        });
        let job = Arc::new(Job::of(facts));
        known.push_back(Arc::clone(&job));
        Some(job)
    }

    /// Shows the jobs of this number, or all, as text. Only jobs without a number, 0, share one.
    pub(crate) fn describe(&self, only: Option<u64>) -> Vec<String> {
        let known = self.known.lock();
        let wanted = known.iter().filter(|job| job.is_wanted(only));
        wanted.map(|job| job.describe()).collect()
    }

    /// Asks the running jobs of this number, or all, to end. Returns how many there are.
    pub(crate) fn abort(&self, only: Option<u64>) -> usize {
        let known = self.known.lock();
        let running = known.iter().filter(|job| job.is_running());
        let wanted = running.filter(|job| job.is_wanted(only));
        wanted
            .map(|job| job.abort.store(true, Ordering::Relaxed))
            .count()
    }

    /// How many jobs are running.
    pub(crate) fn running(&self) -> usize {
        let known = self.known.lock();
        known.iter().filter(|job| job.is_running()).count()
    }
}
