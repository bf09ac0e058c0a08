//! A run of several rows, judged together.

use serde::{Serialize, Serializer};

use super::case::{Settings, name_of};
use super::comparison::{OtherRun, RunComparison};
use super::judge::{self, Guideline, Knees};
use super::ledger::Correctness;
use super::row::{Measurement, ReportRow};
use super::threshold::{self, ConditionResult, Demand, RowCondition};
use crate::report::ReportTable;
use crate::verdict::contention::Headline;

/// The version of the JSON.
pub(crate) const SCHEMA_VERSION: u32 = 5;

/// The fields of a row that are one number or word; how many writes failed, by any result code.
const CSV_COLUMNS: &str = "loop | rate | shards | writers | offered | acked | key_busy | key_busy_share | goodput_per_s | \
     p50_us | p99_us | p999_us | max_us | mean_us | service_p50_us | service_p99_us | refusals | retries | errors | sent_late | \
     lost | duplicates | invisible | simulated_hold";

/// How a run is judged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Criteria {
    /// How many times the mean rate a burst has.
    pub(crate) burst: f64,
    /// The run fails if one of these holds for any row.
    pub(crate) fail_if: Vec<RowCondition>,
    /// The run fails unless all of these hold for every row.
    pub(crate) thresholds: Vec<RowCondition>,
    /// Another run, which was found to be comparable ([`OtherRun::check`]).
    pub(crate) other: Option<OtherRun>,
    /// Smaller changes, as a part, do not count.
    pub(crate) noise: f64,
}

/// A finished run: the object that `--json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct FinishedRun {
    /// What a person would say of it.
    pub(crate) verdict: Headline,
    /// The missing measurements, if it was interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interruption: Option<Interruption>,
    /// Whether something was acknowledged, nothing of it was lost, and every condition is met.
    pub(crate) passes: bool,
    /// All rows together.
    pub(crate) correctness: Correctness,
    #[serde(flatten)]
    pub(super) host: Host,
    /// The settings that its rows share.
    #[serde(serialize_with = "settings_alone")]
    pub(crate) settings: Settings,
    /// Its rows.
    #[serde(rename = "rows", serialize_with = "rows_alone")]
    pub(crate) measured: Vec<Measurement>,
    /// From which rate on each layout is in trouble; of the open loop only.
    pub(crate) knees: Vec<Knees>,
    /// Whether 50 writes a second are safe.
    pub(crate) guideline: Option<Guideline>,
    /// The conditions, judged.
    pub(crate) conditions: Vec<ConditionResult>,
    /// With another run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) comparison: Option<RunComparison>,
}

fn settings_alone<S: Serializer>(settings: &Settings, serializer: S) -> Result<S::Ok, S::Error> {
    settings_json(settings).serialize(serializer)
}

fn rows_alone<S: Serializer>(measured: &[Measurement], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(measured.iter().map(|one| &one.row))
}

/// The measurements that an interrupted run lacks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Interruption {
    /// Measurements that were asked for: rows times repeats.
    pub(crate) wanted: usize,
    /// Measurements that reached their end.
    pub(crate) done: usize,
    /// How long the last one was measured, in seconds, if that is in a row.
    pub(crate) partial_s: Option<f64>,
    /// The failure that ended it, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// Where the run took place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Host {
    simulated_hold: bool,
    pub(super) version: &'static str,
    /// The commit, if it was given when this was built.
    pub(super) commit: Option<&'static str>,
    /// Not of a virtual run, which is the same on every machine.
    pub(super) cpu: Option<String>,
    pub(super) cores: Option<usize>,
    /// Where the records are, and what they survive.
    pub(super) durability: &'static str,
    /// Which cluster, and which set of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<String>,
}

impl Host {
    fn of(settings: &Settings) -> Self {
        let is_real = !settings.is_virtual;
        let cores = || std::thread::available_parallelism().ok().map(Into::into);
        let cluster = settings.cluster.as_ref();
        Self {
            simulated_hold: !settings.hold.mean.is_zero(),
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("SPIKELET_COMMIT"),
            cpu: is_real.then(cpu).flatten(),
            cores: is_real.then(cores).flatten(),
            durability: if cluster.is_some() {
                "that of the cluster"
            } else if settings.dir.is_some() {
                "on disk: a killed process loses nothing, a power failure the writes of the last two intervals of 100 ms"
            } else {
                "none: the store is in memory"
            },
            cluster: cluster.map(|cluster| cluster.place.clone()),
        }
    }
}

/// Returns the name that the system gives its processor.
fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

impl FinishedRun {
    /// Judges the rows, and says what they lack if they were interrupted.
    pub(crate) fn new(
        settings: &Settings,
        measured: Vec<Measurement>,
        judging: &Criteria,
        interruption: Option<Interruption>,
    ) -> Self {
        let rows: Vec<&ReportRow> = measured.iter().map(|measured| &measured.row).collect();
        // A row that was activated on the way has no rate of its own at which it is in trouble.
        let steady = measured.iter().filter(|one| !one.case.activates());
        let steady: Vec<&ReportRow> = steady.map(|one| &one.row).collect();
        let judge = |conditions: &[RowCondition], demand| {
            let judge = |condition| threshold::judge(condition, demand, &rows);
            conditions.iter().map(judge).collect::<Vec<_>>()
        };
        let mut conditions = judge(&judging.thresholds, Demand::Threshold);
        conditions.extend(judge(&judging.fail_if, Demand::FailIf));
        let mut correctness = Correctness::default();
        for one in &measured {
            correctness.add(&one.row.correctness);
        }
        let mut run = Self {
            verdict: Headline::of_nothing(),
            interruption,
            passes: false,
            settings: settings.clone(),
            correctness,
            knees: judge::knees(&steady, settings.hot_keys),
            guideline: judge::guideline(&rows, settings.hot_keys, judging.burst),
            conditions,
            comparison: judging
                .other
                .as_ref()
                .map(|other| other.compare(settings, &measured, judging.noise)),
            host: Host::of(settings),
            measured,
        };
        run.verdict = Headline::of(&run);
        run.passes = !run.verdict.word.fails();
        run
    }

    /// Returns the rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &ReportRow> {
        self.measured.iter().map(|measured| &measured.row)
    }

    /// Returns the rows as comma-separated values, after a heading. The columns have the names of
    /// the JSON fields.
    pub(crate) fn to_csv(&self) -> String {
        ReportTable::of("", self.rows(), CSV_COLUMNS).to_csv()
    }
}

/// The settings that the rows of a run have in common, by name.
pub(super) type SettingsJson = serde_json::Map<String, serde_json::Value>;

/// Returns the settings as JSON has them.
pub(super) fn settings_json(settings: &Settings) -> SettingsJson {
    let (mode, store) = match settings {
        settings if settings.cluster.is_some() => ("cluster", "cluster"),
        settings if settings.is_virtual => ("virtual", "memory"),
        settings if settings.dir.is_some() => ("engine", "disk"),
        _ => ("engine", "memory"),
    };
    let fields = serde_json::json!({
        "mode": mode,
        "store": store,
        "operation": name_of(settings.write),
        "limit": settings.limit,
        // None: any number may wait.
        "max_waiters": settings.max_waiters(),
        "hold_us": settings.hold.mean.as_secs_f64() * 1e6,
        "hold_dist": name_of(settings.hold.spread),
        "payload": settings.payload,
        "elements": settings.elements,
        "hot_keys": settings.hot_keys,
        "zipf": settings.zipf,
        "duration_s": settings.duration.as_secs_f64(),
        "warm_up_s": settings.warm_up.as_secs_f64(),
        "seed": settings.seed,
        "retries": settings.retries,
        "pause_us": settings.rest(0).as_secs_f64() * 1e6,
        "backs_off": settings.pause.is_none(),
        "activate_at_s": settings.activate_at.map(|at| at.as_secs_f64()),
    });
    match fields {
        serde_json::Value::Object(fields) => fields,
        _ => SettingsJson::new(),
    }
}
