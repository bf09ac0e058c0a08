//! `spikelet contention`: writers on hot keys, and the fate of their writes.

#[cfg(feature = "cluster")]
mod cluster;
mod values;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use clap::{Arg, Args};

use self::values::{ROWS_MAX, conditions, next_rate, positive, series, too_many};
use super::CommandOutcome;
use super::print::{
    ProgressUnit, check_page, emit, emit_form, empty, note, progress, unwritable, writable,
    write_page,
};
use super::target::HostArguments;
#[cfg(feature = "cluster")]
use crate::contention::ScratchSet;
use crate::contention::{
    Arrivals, Case, Criteria, FinishedRun, Interruption, Measurement, OtherRun, RowCondition,
    RowLayout, RowPlace, SCHEMA_VERSION, Settings, check_stored, measure_until, write_histograms,
};
use crate::failure::{CommandFailure, Result};
use crate::threads::on_interrupt;
use crate::units;

/// Virtual rows begin at 2026-01-01T00:00:00Z.
const VIRTUAL_START_SECONDS: u64 = 1_767_225_600;

const EXAMPLES: &str = "\
Examples:
  spikelet contention --virtual --rate 25..200:25 --shards 1,2,4,8     what shards would bring, in no time
  spikelet contention --rate 300 --hold-ms 8 --duration 6 --activate-at 3 --html page.html
  spikelet contention --virtual --rate 50 --fail-if 'key_busy>0.1%' --threshold 'p99<30ms lost==0'";

/// The arguments of `contention`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, next_help_heading = "Arrivals", mut_args(of_a_run))]
pub(crate) struct ContentionArguments {
    /// Open loop: writes a second, such as 25,50,100 or 10..400 (10, 20, 50, 100 ..) or 10..400:30
    /// (in steps of 30) [default: 10..400 unless there are --writers].
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    rate: Option<String>,
    /// Closed loop: writers, such as 1,2,4..64 (doubling) or 4..64:4 (in steps).
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    writers: Option<String>,
    /// Into which records a hot key's writes go: powers of two, hourly, daily, daily+8.
    #[arg(
        help_heading = "Shards",
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_hyphen_values = true,
        default_value = "1,8"
    )]
    shards: Vec<RowLayout>,
    #[command(flatten)]
    settings: Settings,
    /// Run nothing: compare the stores that a run with --dir has left, killed or not, with what it
    /// had acknowledged.
    #[arg(help_heading = "Output", long, value_name = "DIR")]
    check: Option<PathBuf>,
    /// How many times the mean rate a burst has, for the guideline of 50 writes a second.
    #[arg(help_heading = "Limits", long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    burst: f64,
    /// Fail (exit code 1) if this holds for any row, such as 'key_busy>0.1%'. Several: separated by
    /// spaces, or given again.
    #[arg(help_heading = "Limits", long, value_name = "CONDITIONS")]
    fail_if: Vec<String>,
    /// Fail (exit code 1) unless this holds for every row, such as 'p99<30ms lost==0'.
    #[arg(help_heading = "Limits", long, value_name = "CONDITIONS")]
    threshold: Vec<String>,
    /// Measure each row this often, in turns with the others, with a seed of its own: how much
    /// figures vary is known from 3 on, and only then is a run compared with another [default: 1;
    /// with --baseline as often as that].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    repeats: Option<u16>,
    /// Compare with the output of an earlier run with --json.
    #[arg(help_heading = "Limits", long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Show the rows of another run (its output with --json) beside these, such as an embedded one
    /// beside one of a cluster, without judging them.
    #[arg(
        help_heading = "Output",
        long,
        value_name = "FILE",
        conflicts_with = "baseline"
    )]
    beside: Option<PathBuf>,
    /// Ignore changes by less than this many percent.
    #[arg(help_heading = "Limits", long, value_name = "PERCENT", default_value_t = 5.0, value_parser = positive)]
    noise: f64,
    /// Write a page to this file, too.
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write HdrHistogram files of every row into this directory, too.
    #[arg(help_heading = "Output", long, value_name = "DIR")]
    hdr_hist: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(help_heading = "Output", long)]
    json: bool,
    /// Print a line of comma-separated values for each row instead of text.
    #[arg(help_heading = "Output", long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    cluster: ClusterContention,
}

/// The arguments of `contention --host`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
struct ClusterContention {
    #[command(flatten)]
    host: HostArguments,
    /// The namespace; needed if the cluster has several.
    #[arg(long, value_name = "NAME", requires = "host")]
    namespace: Option<String>,
    /// The set that is written to. It must hold no records, and holds none afterwards.
    #[arg(
        long,
        value_name = "NAME",
        requires = "host",
        default_value = "spikelet-contention"
    )]
    set: String,
    /// Allow the writes; without it the command says how much it would write, and ends.
    #[arg(long, requires = "host")]
    yes: bool,
    /// Write no more than this often a second, retries included: rates beyond it are refused, and
    /// --writers wait for their turn.
    #[arg(long, value_name = "W", requires = "host", default_value_t = 1_000.0, value_parser = positive)]
    max_rate: f64,
    /// Refuse rows with more bytes of records than this: 64MiB.
    #[arg(long, value_name = "SIZE", requires = "host", default_value = "64MiB", value_parser = units::bytes)]
    max_size: u64,
}

/// Lets a value be a negative number, so that its own check refuses it and says what it may be.
/// What a run takes has no meaning for `--check`, and a condition that is passed over would seem to
/// hold.
fn of_a_run(argument: Arg) -> Arg {
    let takes_value = argument.get_action().takes_values();
    let argument = argument.allow_negative_numbers(takes_value);
    if ["check", "json", "help"].contains(&argument.get_id().as_str()) {
        argument
    } else {
        argument.conflicts_with("check")
    }
}

impl ContentionArguments {
    /// Returns all rows. They are checked before the first one runs.
    fn cases(&self, settings: &Settings) -> Result<Vec<Case>> {
        let mut loads = Vec::new();
        let rates = match (&self.rate, &self.writers) {
            (Some(rates), _) => Some(rates.as_str()),
            (None, None) => Some("10..400"),
            (None, Some(_)) => None,
        };
        if let Some(rates) = rates {
            for rate in series("rate", rates, next_rate)? {
                loads.push(Arrivals::Open { rate });
            }
        }
        if let Some(writers) = &self.writers {
            for writers in series("writers", writers, |writers| writers * 2.0)? {
                if writers.fract() != 0.0 {
                    return Err(CommandFailure::Input(format!(
                        "--writers {writers}: a whole number is needed"
                    )));
                }
                loads.push(Arrivals::Closed {
                    writers: writers as usize,
                });
            }
        }
        let mut cases = Vec::new();
        for load in loads {
            for layout in &self.shards {
                let case = settings.case(load, *layout)?;
                // Asked for twice, it is the same row.
                if !cases.contains(&case) {
                    cases.push(case);
                }
                if cases.len() > ROWS_MAX {
                    return Err(too_many(cases.len()));
                }
            }
        }
        if settings.activate_at.is_some() && !cases.iter().any(Case::activates) {
            return Err(CommandFailure::Input(
                "--activate-at: none of the --shards is a number above 1, so nothing would be activated"
                    .to_owned(),
            ));
        }
        Ok(cases)
    }

    /// Checks the place of the page, which is none of the runs that are read.
    fn check_page(&self) -> Result<()> {
        let runs = [&self.baseline, &self.beside].into_iter().flatten();
        let runs: Vec<&Path> = runs.map(PathBuf::as_path).collect();
        let page = self.html.as_deref();
        page.map_or(Ok(()), |page| check_page(page, &runs))
    }

    /// Returns how often each row is measured.
    fn repeats(&self, settings: &Settings, judging: &Criteria) -> Result<usize> {
        let earlier = judging.other.as_ref().map(OtherRun::repeats);
        let asked = self.repeats.map(usize::from);
        let repeats = asked.or(earlier).unwrap_or(1).max(1);
        if repeats > 1 && settings.activate_at.is_some() {
            return Err(CommandFailure::Input(
                "--repeats: shards are activated once in a row, so leave out --activate-at"
                    .to_owned(),
            ));
        }
        if repeats > 1 && settings.dir.is_some() {
            return Err(CommandFailure::Input(
                "--repeats: each row has one store in --dir, so leave that out".to_owned(),
            ));
        }
        Ok(repeats)
    }

    /// Returns the criteria by which the run of these cases is judged.
    fn judging(&self, settings: &Settings, cases: &[Case]) -> Result<Criteria> {
        let conditions = |texts: &[String]| -> Result<Vec<RowCondition>> {
            let all = texts.iter().flat_map(|text| conditions(text));
            all.map(|text| Ok(text.parse::<RowCondition>()?)).collect()
        };
        let other = match (&self.baseline, &self.beside) {
            (Some(file), _) => Some(("--baseline", file)),
            (None, beside) => beside.as_ref().map(|file| ("--beside", file)),
        };
        let other = other.map(|(option, file)| {
            let name = file.display();
            let json = std::fs::read(file)
                .map_err(|error| CommandFailure::Input(format!("cannot read {name}: {error}")))?;
            let run = OtherRun::read(&json, SCHEMA_VERSION, self.baseline.is_some());
            let run = run.and_then(|run| run.check(settings, cases).map(|()| run));
            run.map_err(|error| CommandFailure::Input(format!("{option} {name}: {error}")))
        });
        Ok(Criteria {
            burst: self.burst,
            fail_if: conditions(&self.fail_if)?,
            thresholds: conditions(&self.threshold)?,
            other: other.transpose()?,
            noise: self.noise / 100.0,
        })
    }
}

/// Compares the stores of a run with its acknowledged writes.
fn check(dir: &Path, as_json: bool) -> Result<CommandOutcome> {
    let found = check_stored(dir)?;
    let form = (SCHEMA_VERSION, "contention-recheck");
    emit_form(as_json, form, &found, || found.to_report())?;
    Ok(CommandOutcome::Damaged.only_if(!found.passes))
}

/// Measures, judges and reports the rows.
///
/// # Errors
/// Cases that cannot be run, files that cannot be read or written, errors of the store.
pub(crate) fn run(arguments: &ContentionArguments) -> Result<CommandOutcome> {
    if let Some(dir) = &arguments.check {
        return check(dir, arguments.json);
    }
    // All of the input is judged before the first row runs.
    let settings = arguments.settings.clone();
    #[cfg(feature = "cluster")]
    let (cluster, settings) = {
        let settings = Settings {
            cluster: arguments.cluster.settings(),
            ..settings
        };
        // Rows that cannot be run are refused before a cluster is asked for its limit.
        arguments.cases(&settings)?;
        arguments.cluster.connect(settings)?
    };
    let cases = arguments.cases(&settings)?;
    let judging = arguments.judging(&settings, &cases)?;
    if let Some(dir) = &arguments.hdr_hist {
        writable(dir)?;
    }
    if let Some(dir) = &settings.dir {
        empty(dir)?;
    }
    let repeats = arguments.repeats(&settings, &judging)?;
    arguments.check_page()?;
    #[cfg(feature = "cluster")]
    if let Some(cluster) = &cluster {
        arguments.cluster.confirm(cluster, &cases, repeats)?;
    }
    let stop = on_interrupt("the report is made of what was measured")?;
    // On the clock of the run.
    let began = if settings.is_virtual {
        SystemTime::UNIX_EPOCH + Duration::from_secs(VIRTUAL_START_SECONDS)
    } else {
        SystemTime::now()
    };
    let place = RowPlace::Embedded;
    #[cfg(feature = "cluster")]
    let place = match cluster {
        Some(cluster) => RowPlace::Cluster(ScratchSet::claim(&cluster, &arguments.cluster.set)?),
        None => place,
    };
    let (measured, interruption) = measure_all(&cases, &place, repeats, &stop)?;
    // The cluster gets its set back before the report.
    #[cfg(feature = "cluster")]
    drop(place);
    if measured.is_empty() {
        failure(interruption.as_ref())?;
        note("interrupted before anything was measured");
        return Ok(CommandOutcome::Interrupted);
    }
    if let Some(dir) = &arguments.hdr_hist {
        for row in &measured {
            write_histograms(dir, row, began).map_err(|error| unwritable(dir, &error))?;
        }
    }
    let run = FinishedRun::new(&settings, measured, &judging, interruption);
    if let Some(page) = &arguments.html {
        write_page(page, &run.to_report(true))?;
    }
    if arguments.csv {
        emit(&run.to_csv())?;
    } else {
        let form = (SCHEMA_VERSION, "contention");
        emit_form(arguments.json, form, &run, || run.to_report(false))?;
    }
    failure(run.interruption.as_ref())?;
    Ok(match run.interruption {
        Some(_) => CommandOutcome::Interrupted,
        None => CommandOutcome::Damaged.only_if(!run.passes),
    })
}

/// Returns the failure that has ended a run.
fn failure(interruption: Option<&Interruption>) -> Result<()> {
    let reason = interruption.and_then(|cut| cut.reason.clone());
    reason.map_or(Ok(()), |reason| Err(CommandFailure::Input(reason)))
}

/// Measures all cases in turns, so that what changes slowly on the machine meets all alike, and
/// joins the repeats of each. Ends early when `stop` becomes true, and with a failure of the store:
/// rows measured before are returned with it.
fn measure_all(
    cases: &[Case],
    place: &RowPlace,
    repeats: usize,
    stop: &AtomicBool,
) -> Result<(Vec<Measurement>, Option<Interruption>)> {
    let wanted = cases.len() * repeats;
    let bar = progress("measuring", wanted as u64, ProgressUnit::Rows);
    let mut trials: Vec<Vec<Measurement>> = cases.iter().map(|_| Vec::new()).collect();
    let (mut done, mut partial_s, mut is_cut, mut reason) = (0, None, false, None);
    'all: for repeat in 0..repeats {
        for (case, trials) in cases.iter().zip(&mut trials) {
            let mut case = case.clone();
            case.settings.seed = case.settings.seed.wrapping_add(repeat as u64);
            let trial = match measure_until(&case, place, stop) {
                Err(CommandFailure::Store(error)) => {
                    (is_cut, reason) = (true, Some(error.to_string()));
                    break 'all;
                }
                trial => trial?,
            };
            is_cut = trial.as_ref().is_none_or(|trial| trial.is_partial);
            match trial {
                Some(trial) if trial.is_partial => {
                    partial_s = Some(trial.seconds);
                    // Beside whole repeats it would only blur them.
                    if trials.is_empty() {
                        trials.push(trial);
                    }
                }
                Some(trial) => {
                    trials.push(trial);
                    done += 1;
                }
                None => {}
            }
            bar.inc(1);
            if is_cut {
                break 'all;
            }
        }
    }
    bar.finish_and_clear();
    let measured = trials.into_iter().filter_map(Measurement::join).collect();
    let interruption = Interruption {
        wanted,
        done,
        partial_s,
        reason,
    };
    Ok((measured, is_cut.then_some(interruption)))
}
