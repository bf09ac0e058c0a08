//! `spikelet contention`: writers on hot keys, and what becomes of their writes.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use spikelet::contention::{
    Case, Condition, Hold, Judging, Layout, Load, Measured, Run, SCHEMA_VERSION, Settings, Spread,
    Write, measure, read_baseline, write_histograms,
};

use super::print::progress;
use super::{Failure, Outcome};

/// More rows would take a day, and nobody reads them.
const ROWS_MAX: usize = 1_000;
/// How long a row runs unless it is told.
const DURATION: Duration = Duration::from_secs(2);
/// The same on a virtual clock, where it takes no time.
const DURATION_VIRTUAL: Duration = Duration::from_secs(600);
const WARM_UP: Duration = Duration::from_millis(200);
/// The hold of a virtual run unless it is told.
const HOLD_MS_VIRTUAL: f64 = 8.0;
/// Elements of a list unless it is told.
const ELEMENTS: u32 = 1_000;
/// Longer holds would say nothing about records.
const HOLD_MS_MAX: f64 = 60_000.0;
/// Virtual rows begin at 2026-01-01T00:00:00Z.
const VIRTUAL_START_SECONDS: u64 = 1_767_225_600;

/// What `contention` takes.
#[derive(Debug, Args)]
pub(crate) struct ContentionArguments {
    /// Open loop: writes a second, such as 25,50,100 or 10..400 (10, 20, 50, 100 ..) or 10..400:30 (in steps of 30)
    /// [default: 10..400 unless there are --writers].
    #[arg(long, value_name = "LIST")]
    rate: Option<String>,
    /// Closed loop: writers, such as 1,2,4..64 (doubling) or 4..64:4 (in steps).
    #[arg(long, value_name = "LIST")]
    writers: Option<String>,
    /// Into which records a hot key's writes go: powers of two, hourly, daily, daily+8.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,8"
    )]
    shards: Vec<Layout>,
    /// How many writers may queue for a record (max_waiters); one more gets KEY_BUSY.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Hold a record this long after each edit, as if a replica were waited for: simulated [default: 0; 8 with --virtual].
    #[arg(long, value_name = "MS", value_parser = hold_ms)]
    hold_ms: Option<f64>,
    /// Whether each hold is the same, or exponentially distributed.
    #[arg(long, value_enum, default_value_t = SpreadArgument::Fixed)]
    hold_dist: SpreadArgument,
    /// What a write does [default: increment; add-unique with --activate-at].
    #[arg(long, value_enum)]
    operation: Option<OperationArgument>,
    /// Elements of each list, for add-unique; it is kept near that. 0: it begins empty and grows.
    #[arg(long, value_name = "N", default_value_t = ELEMENTS, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    elements: u32,
    /// Bytes of a put's value, and beside a counter or list.
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    payload: u32,
    /// How many hot keys there are.
    #[arg(long, value_name = "N", default_value_t = 1)]
    hot_keys: u32,
    /// How unevenly they are written: the k-th as often as 1 / k^THETA.
    #[arg(long, value_name = "THETA", default_value_t = 0.0)]
    zipf: f64,
    /// How long each row is measured: 5, 5s, 500ms, 2m [default: 2s; 600s with --virtual].
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// How long each row runs before [default: 200ms; 0 with --virtual].
    #[arg(long, value_name = "TIME", value_parser = time)]
    warm_up: Option<Duration>,
    /// The same seed draws the same arrivals, keys and holds.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How often a write that met KEY_BUSY is tried again.
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// How long its writer rests before it goes on, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 100)]
    pause_us: u64,
    /// On a virtual clock, by the engine's queue rule: takes no time, and the same seed gives the same bytes.
    #[arg(long = "virtual")]
    is_virtual: bool,
    /// Spread each list over the shards of its row at this time of the row, and draw a timeline.
    #[arg(long, value_name = "TIME", value_parser = time)]
    activate_at: Option<Duration>,
    /// How many times the mean rate a burst has, for the guideline of 50 writes a second.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    burst: f64,
    /// Fail (exit code 1) if this holds for any row, such as 'key_busy>0.1%'. Several: separated by spaces, or given again.
    #[arg(long, value_name = "CONDITIONS")]
    fail_if: Vec<String>,
    /// Fail (exit code 1) unless this holds for every row, such as 'p99<30ms lost==0'.
    #[arg(long, value_name = "CONDITIONS")]
    threshold: Vec<String>,
    /// Compare with the output of an earlier run with --json.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// A change by less than so many percent is none.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = positive)]
    noise: f64,
    /// Write a page to this file, too.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write HdrHistogram files of every row into this directory, too.
    #[arg(long, value_name = "DIR")]
    hdr_hist: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Print a line of comma-separated values for each row instead of text.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SpreadArgument {
    Fixed,
    Exponential,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OperationArgument {
    /// Replaces a value.
    Put,
    /// Adds 1 to a counter.
    Increment,
    /// Adds an element to an ordered list.
    AddUnique,
}

fn hold_ms(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|ms| (0.0..=HOLD_MS_MAX).contains(ms))
        .ok_or_else(|| format!("expected milliseconds, 0 to {HOLD_MS_MAX}"))
}

fn positive(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number > 0.0)
        .ok_or_else(|| "expected a number above 0".to_owned())
}

/// `5`, `5s`, `500ms`, `2m`, `1h`.
fn time(text: &str) -> Result<Duration, String> {
    let end = text
        .find(|c: char| c != '.' && !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => f64::NAN,
    };
    number
        .parse()
        .ok()
        .map(|number: f64| number * seconds)
        .filter(|seconds| (0.0..=1e7).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a time such as 5s, 500ms or 2m".to_owned())
}

/// A list of numbers and ranges; `next` is what follows a number in a range without steps.
fn series(option: &str, text: &str, next: fn(f64) -> f64) -> Result<Vec<f64>, Failure> {
    let wrong = |part: &str| {
        Failure::Input(format!(
            "--{option} {text:?}: {part:?} is no number above 0, and no range such as 10..400 or 10..400:30"
        ))
    };
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| {
            let number: Option<f64> = text.trim().parse().ok();
            number
                .filter(|number| number.is_finite() && *number > 0.0)
                .ok_or_else(|| wrong(part))
        };
        let Some((from, rest)) = part.split_once("..") else {
            numbers.push(number(part)?);
            continue;
        };
        let (to, step) = match rest.split_once(':') {
            Some((to, step)) => (number(to)?, Some(number(step)?)),
            None => (number(rest)?, None),
        };
        let mut at = number(from)?;
        if at > to {
            return Err(wrong(part));
        }
        while at < to {
            numbers.push(at);
            if numbers.len() > ROWS_MAX {
                return Err(too_many(numbers.len()));
            }
            at = step.map_or_else(|| next(at), |step| at + step);
        }
        numbers.push(to);
    }
    numbers.dedup();
    Ok(numbers)
}

fn too_many(rows: usize) -> Failure {
    Failure::Input(format!(
        "{rows} rows or more: {ROWS_MAX} are possible, so ask for fewer rates, writers or shards"
    ))
}

/// The next of 1, 2, 5, 10, 20, 50, 100 ..
fn next_rate(after: f64) -> f64 {
    let decade = 10_f64.powf(after.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0].map(|step| step * decade);
    let beyond = steps.into_iter().find(|step| *step > after * 1.001);
    beyond.unwrap_or(after * 2.0)
}

impl ContentionArguments {
    fn settings(&self) -> Settings {
        let hold_ms = self.hold_ms.unwrap_or(if self.is_virtual {
            HOLD_MS_VIRTUAL
        } else {
            0.0
        });
        let of_clock = |is_virtual, real| if self.is_virtual { is_virtual } else { real };
        let operation = self.operation.unwrap_or(if self.activate_at.is_some() {
            OperationArgument::AddUnique
        } else {
            OperationArgument::Increment
        });
        Settings {
            is_virtual: self.is_virtual,
            write: match operation {
                OperationArgument::Put => Write::Put,
                OperationArgument::Increment => Write::Increment,
                OperationArgument::AddUnique => Write::AddUnique,
            },
            limit: self.limit,
            hold: Hold {
                mean: Duration::from_secs_f64(hold_ms / 1e3),
                spread: match self.hold_dist {
                    SpreadArgument::Fixed => Spread::Fixed,
                    SpreadArgument::Exponential => Spread::Exponential,
                },
            },
            payload: self.payload as usize,
            elements: self.elements,
            hot_keys: self.hot_keys,
            zipf: self.zipf,
            duration: self
                .duration
                .unwrap_or(of_clock(DURATION_VIRTUAL, DURATION)),
            warm_up: self.warm_up.unwrap_or(of_clock(Duration::ZERO, WARM_UP)),
            seed: self.seed,
            retries: self.retries,
            pause: Duration::from_micros(self.pause_us),
            activate_at: self.activate_at,
        }
    }

    /// All rows, checked before the first one runs.
    fn cases(&self, settings: &Settings) -> Result<Vec<Case>, Failure> {
        let mut loads = Vec::new();
        let rates = match (&self.rate, &self.writers) {
            (Some(rates), _) => Some(rates.as_str()),
            (None, None) => Some("10..400"),
            (None, Some(_)) => None,
        };
        if let Some(rates) = rates {
            for rate in series("rate", rates, next_rate)? {
                loads.push(Load::Open { rate });
            }
        }
        if let Some(writers) = &self.writers {
            for writers in series("writers", writers, |writers| writers * 2.0)? {
                if writers.fract() != 0.0 {
                    return Err(Failure::Input(format!(
                        "--writers {writers}: a whole number is needed"
                    )));
                }
                loads.push(Load::Closed {
                    writers: writers as usize,
                });
            }
        }
        let mut cases = Vec::new();
        for load in loads {
            for layout in &self.shards {
                cases.push(settings.case(load, *layout).map_err(Failure::Input)?);
                if cases.len() > ROWS_MAX {
                    return Err(too_many(cases.len()));
                }
            }
        }
        if settings.activate_at.is_some() && !cases.iter().any(Case::activates) {
            return Err(Failure::Input(
                "--activate-at: none of the --shards is a number above 1, so nothing would be activated"
                    .to_owned(),
            ));
        }
        Ok(cases)
    }

    fn judging(&self) -> Result<Judging, Failure> {
        let conditions = |texts: &[String]| -> Result<Vec<Condition>, Failure> {
            let all = texts.iter().flat_map(|text| conditions(text));
            all.map(|text| text.parse().map_err(Failure::Input))
                .collect()
        };
        let baseline = self.baseline.as_deref().map(baseline).transpose()?;
        Ok(Judging {
            burst: self.burst,
            fail_if: conditions(&self.fail_if)?,
            thresholds: conditions(&self.threshold)?,
            baseline,
            noise: self.noise / 100.0,
        })
    }
}

/// The conditions of a text: by spaces and commas, unless it is one with spaces around its comparison.
fn conditions(text: &str) -> Vec<String> {
    let separators = |c: char| c == ',' || c.is_whitespace();
    let parts: Vec<&str> = text
        .split(separators)
        .filter(|part| !part.is_empty())
        .collect();
    let whole = |part: &&str| part.contains(['<', '>', '=', '!']);
    if parts.iter().all(whole) && !parts.is_empty() {
        parts.into_iter().map(str::to_owned).collect()
    } else {
        vec![text.to_owned()]
    }
}

fn baseline(file: &Path) -> Result<Vec<spikelet::contention::Row>, Failure> {
    let name = file.display();
    let json = std::fs::read(file)
        .map_err(|error| Failure::Input(format!("cannot read {name}: {error}")))?;
    read_baseline(&json, SCHEMA_VERSION).map_err(|error| Failure::Input(format!("{name}: {error}")))
}

/// Measures, judges and reports.
///
/// # Errors
/// What was asked for cannot be run, a file cannot be read or written, or the store refuses.
pub(crate) fn run(arguments: &ContentionArguments) -> Result<Outcome, Failure> {
    // All of the input is judged before the first row runs.
    let settings = arguments.settings();
    let cases = arguments.cases(&settings)?;
    let judging = arguments.judging()?;
    if let Some(dir) = &arguments.hdr_hist {
        std::fs::create_dir_all(dir).map_err(|error| unwritable(dir, &error))?;
    }
    let bar = progress("measuring", cases.len() as u64);
    let mut measured = Vec::new();
    for case in &cases {
        let began = if settings.is_virtual {
            SystemTime::UNIX_EPOCH + Duration::from_secs(VIRTUAL_START_SECONDS)
        } else {
            SystemTime::now()
        };
        let row: Measured = measure(case)?;
        if let Some(dir) = &arguments.hdr_hist {
            write_histograms(dir, &row, began).map_err(|error| unwritable(dir, &error))?;
        }
        measured.push(row);
        bar.inc(1);
    }
    bar.finish_and_clear();

    let run = Run::new(&settings, measured, &judging);
    if let Some(file) = &arguments.html {
        std::fs::write(file, run.to_report().to_html())
            .map_err(|error| unwritable(file, &error))?;
    }
    if arguments.json {
        let json = run
            .to_json()
            .map_err(|error| Failure::Output(error.into()))?;
        emit(&json)?;
    } else if arguments.csv {
        emit(&run.to_csv())?;
    } else {
        emit(&run.to_summary().to_text())?;
    }
    Ok(if run.passes() {
        Outcome::Sound
    } else {
        Outcome::Damaged
    })
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::Output(io::Error::new(
        error.kind(),
        format!("{}: {error}", path.display()),
    ))
}

/// A reader that has seen enough and left is no failure.
fn emit(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(text: &str) -> Option<Vec<f64>> {
        series("rate", text, next_rate).ok()
    }

    #[test]
    fn lists_and_ranges_are_read() {
        for (text, expected) in [
            ("50", vec![50.0]),
            ("25,50", vec![25.0, 50.0]),
            ("10..400", vec![10.0, 20.0, 50.0, 100.0, 200.0, 400.0]),
            ("12.5..60", vec![12.5, 20.0, 50.0, 60.0]),
            ("10..400:130", vec![10.0, 140.0, 270.0, 400.0]),
            ("5,10..20,400", vec![5.0, 10.0, 20.0, 400.0]),
            ("7..7", vec![7.0]),
        ] {
            assert_eq!(rates(text), Some(expected), "{text}");
        }
        let writers = series("writers", "1,2,4..64", |writers| writers * 2.0).unwrap();
        assert_eq!(writers, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
        for text in [
            "", "0", "-1", "a", "10..", "..10", "40..10", "1..2:0", "1..1e9:1", "nan", "inf",
        ] {
            assert_eq!(rates(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_read_with_their_units() {
        for (text, millis) in [
            ("5", 5_000),
            ("5s", 5_000),
            ("0.5", 500),
            ("500ms", 500),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "5x", "-5", "1e99"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn conditions_are_separated_by_spaces_or_commas() {
        assert_eq!(conditions("p99<30ms lost==0"), ["p99<30ms", "lost==0"]);
        assert_eq!(conditions("p99<30ms,lost==0"), ["p99<30ms", "lost==0"]);
        assert_eq!(conditions("key_busy > 0.1 %"), ["key_busy > 0.1 %"]);
    }
}
