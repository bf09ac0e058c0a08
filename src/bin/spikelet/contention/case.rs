//! Cases: what each row of the report measures.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{ArgPredicate, RangedU64ValueParser};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::layout::RowLayout;
use super::schedule::Zipf;
use crate::report::duration;
use crate::units::time;

/// The most closed-loop writers: each is a thread.
pub(crate) const WRITERS_MAX: usize = 1_024;
/// The highest rate of an open loop, in writes a second: each arrival is drawn and kept beforehand.
pub(crate) const RATE_MAX: f64 = 1_000_000.0;
/// The most arrivals of one open-loop case.
pub(crate) const ARRIVALS_MAX: f64 = 20_000_000.0;

/// How long a writer rests after a first refusal unless more is said.
const PAUSE: Duration = Duration::from_micros(100);
/// A rest doubles so often at most: from 100 us to 102.4 ms.
const DOUBLINGS_MAX: u32 = 10;

/// When writes come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Arrivals {
    /// Writes come at random (Poisson), whether earlier ones are done or not.
    Open {
        /// Writes a second.
        rate: f64,
    },
    /// Each writer writes again when it has the answer to its last write.
    Closed {
        /// The number of writers.
        writers: usize,
    },
}

/// The operation of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
pub(crate) enum Write {
    /// Replaces the value of a bin.
    Put,
    /// Adds 1 to an integer.
    Increment,
    /// Adds an element that is not there yet to an ordered list.
    AddUnique,
}

/// Returns the name of a value, as its argument has it.
pub(super) fn name_of(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// How long a record stays locked after its edit, as a write that waits for a replica would keep
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Args)]
pub(crate) struct Hold {
    /// Hold a record this long after each edit, as if a replica were waited for: simulated
    /// [default: 0; 8 with --virtual].
    #[arg(help_heading = "Limits", long = "hold-ms", value_name = "MS", value_parser = hold)]
    #[arg(default_value = "0", default_value_if("is_virtual", "true", "8"))]
    #[arg(hide_default_value = true, conflicts_with = "host")]
    pub(crate) mean: Duration,
    /// Whether each hold is the same, or exponentially distributed.
    #[arg(
        help_heading = "Limits",
        long = "hold-dist",
        value_name = "HOLD_DIST",
        value_enum,
        default_value = "fixed",
        conflicts_with = "host"
    )]
    pub(crate) spread: Spread,
}

/// How a hold varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
pub(crate) enum Spread {
    /// Not at all.
    Fixed,
    /// Exponentially distributed.
    Exponential,
}

/// What all rows of a run have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
pub(crate) struct Settings {
    /// Aerospike's transaction-pending-limit: a write gets KEY_BUSY when more than N wait for its
    /// record, so N + 1 may wait (the engine's max_waiters); 0: any number may.
    #[arg(help_heading = "Limits", long, value_name = "N", default_value_t = 20, value_parser = count, conflicts_with = "host")]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) hold: Hold,
    /// The operation of a write [default: increment; add-unique with --activate-at].
    #[arg(
        long = "operation",
        value_name = "OPERATION",
        value_enum,
        default_value = "increment"
    )]
    #[arg(
        default_value_if("activate_at", PRESENT, "add-unique"),
        hide_default_value = true
    )]
    pub(crate) write: Write,
    /// Elements of each list, for add-unique; it is kept near that. 0: it begins empty and grows.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) elements: u32,
    /// Bytes of a put's value, and beside a counter or list.
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = RangedU64ValueParser::<usize>::new().range(0..=1_000_000))]
    pub(crate) payload: usize,
    /// How many hot keys there are.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) hot_keys: u32,
    /// How unevenly they are written: the k-th as often as 1 / k^THETA.
    #[arg(long, value_name = "THETA", default_value_t = 0.0, value_parser = zipf)]
    pub(crate) zipf: f64,
    /// How long each row is measured: 5, 5s, 500ms, 2m [default: 2s; 600s with --virtual].
    #[arg(long, value_name = "TIME", value_parser = time)]
    #[arg(default_value = "2s", default_value_if("is_virtual", "true", "600s"))]
    #[arg(hide_default_value = true)]
    pub(crate) duration: Duration,
    /// How long each row runs before [default: 200ms; 0 with --virtual].
    #[arg(long, value_name = "TIME", value_parser = time)]
    #[arg(default_value = "200ms", default_value_if("is_virtual", "true", "0"))]
    #[arg(hide_default_value = true)]
    pub(crate) warm_up: Duration,
    /// Seed of arrivals, keys and holds.
    #[arg(long, default_value_t = 1, value_parser = seed)]
    pub(crate) seed: u64,
    /// How often a write that met KEY_BUSY is tried again.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) retries: u32,
    /// How long its writer rests before it goes on, in microseconds, always the same [default: 100,
    /// twice as long after each further refusal in a row].
    #[arg(long = "pause-us", value_name = "US", value_parser = rest)]
    pub(crate) pause: Option<Duration>,
    /// On a virtual clock, by the engine's queue rule: takes no time, and the same seed gives the
    /// same bytes.
    // Queues and holds are simulated, the writes that get through are really done.
    #[arg(long = "virtual", conflicts_with = "host")]
    pub(crate) is_virtual: bool,
    /// Shard each list or counter over the shards of its row at this time of the row, and draw a
    /// timeline.
    #[arg(help_heading = "Shards", long, value_name = "TIME", value_parser = time)]
    pub(crate) activate_at: Option<Duration>,
    /// Keep the store of each row, with a ledger of what it acknowledged, in this new directory;
    /// see --check.
    #[arg(
        help_heading = "Output",
        long,
        value_name = "DIR",
        conflicts_with = "host"
    )]
    #[serde(skip)]
    pub(crate) dir: Option<PathBuf>,
    /// The rows run against a cluster; `None`: in a store of this process.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) cluster: Option<ClusterSettings>,
}

const PRESENT: ArgPredicate = ArgPredicate::IsPresent;

/// Longer holds, a minute, would say nothing about records.
fn hold(text: &str) -> Result<Duration, String> {
    Ok(Duration::from_secs_f64(
        up_to(60_000, "milliseconds", text)? / 1e3,
    ))
}

fn zipf(text: &str) -> Result<f64, String> {
    up_to(10, "a number", text)
}

fn up_to(most: u32, what: &str, text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    let within = number.filter(|number| (0.0..=f64::from(most)).contains(number));
    within.ok_or_else(|| format!("expected {what}, 0 to {most}"))
}

fn count(text: &str) -> Result<usize, &'static str> {
    text.parse().or(Err("expected a whole number, 0 or more"))
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("expected a whole number, 0 to {}", u64::MAX))
}

/// Longer rests, a minute, would say nothing about records either.
fn rest(text: &str) -> Result<Duration, String> {
    Ok(Duration::from_secs_f64(
        up_to(60_000_000, "microseconds", text)? / 1e6,
    ))
}

/// The settings shared by all rows against a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClusterSettings {
    /// Where, as the report says it: host, namespace and set.
    pub(crate) place: String,
    /// The most writes a second, all writers and retries together.
    pub(crate) rate_max: f64,
    /// What the records of a row may take, in bytes, going by an estimate.
    pub(crate) bytes_max: u64,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Case {
    /// When writes come.
    pub(crate) load: Arrivals,
    /// Into which records.
    pub(crate) layout: RowLayout,
    /// How the row is run.
    pub(crate) settings: Settings,
}

impl Settings {
    /// Returns how many writers may wait for a record, as the engine counts (`max_waiters`).
    /// `None`: any number.
    pub(crate) const fn max_waiters(&self) -> Option<usize> {
        match self.limit {
            0 => None,
            limit => Some(limit.saturating_add(1)),
        }
    }

    /// Returns how long a writer rests after a refusal, the `refused`th in a row counted from 0.
    pub(super) fn rest(&self, refused: u32) -> Duration {
        self.pause
            .unwrap_or(PAUSE * (1 << refused.min(DOUBLINGS_MAX)))
    }

    /// Says how long a refused writer rests.
    pub(crate) fn rest_words(&self) -> String {
        let growing = match self.pause {
            Some(_) => String::new(),
            None => format!(
                ", twice as long after each further refusal in a row, up to {}",
                duration(self.rest(u32::MAX))
            ),
        };
        let first = duration(self.rest(0));
        format!("A refused writer rests for {first}{growing}.")
    }

    /// Returns the share of the writes that the hottest key takes.
    pub(crate) fn hottest_share(&self) -> f64 {
        Zipf::new(self.hot_keys, self.zipf).first_share()
    }

    /// Checks one case, and the settings with it.
    ///
    /// # Errors
    /// What cannot be run, and what to change.
    pub(crate) fn case(&self, load: Arrivals, layout: RowLayout) -> Result<Case, String> {
        let activates = self.activate_at.is_some();
        let ends = self.duration + self.warm_up;
        let why = if self.is_virtual && self.hold.mean.is_zero() {
            "a virtual run without a hold shows nothing: give --hold-ms above 0"
        } else if self.is_virtual && activates {
            "--activate-at watches the engine at work: leave out --virtual"
        } else if self.is_virtual && self.dir.is_some() {
            "--dir: on a virtual clock nothing is stored that could be looked at: leave out --virtual"
        } else if activates && self.write == Write::Put {
            "--activate-at shards lists and counters: --operation add-unique and increment are possible with it, put is not"
        } else if self.activate_at.is_some_and(|at| at >= ends) {
            "--activate-at: a time before the end of the row (--duration)"
        } else if self.duration.is_zero() {
            "--duration 0: nothing can be measured in no time"
        } else if activates && matches!(load, Arrivals::Closed { .. }) {
            "--activate-at draws a timeline of a rate: leave out --writers"
        } else {
            ""
        };
        if !why.is_empty() {
            return Err(why.to_owned());
        }
        match load {
            Arrivals::Open { rate } => {
                if !(rate > 0.0 && rate <= RATE_MAX) {
                    return Err(format!(
                        "--rate {rate}: above 0 and up to {RATE_MAX} writes a second are possible"
                    ));
                }
                let arrivals = rate * ends.as_secs_f64();
                if arrivals > ARRIVALS_MAX {
                    return Err(format!(
                        "--rate {rate} is {arrivals:.0} writes in all, and {ARRIVALS_MAX:.0} are possible: lower --duration"
                    ));
                }
            }
            Arrivals::Closed { writers } => {
                if !(1..=WRITERS_MAX).contains(&writers) {
                    return Err(format!(
                        "--writers {writers}: 1 to {WRITERS_MAX} are possible"
                    ));
                }
                if self.is_virtual && self.rest(0).is_zero() {
                    return Err("--pause-us 0: on a virtual clock a refused writer would come back in the same moment for ever"
                        .to_owned());
                }
            }
        }
        let case = Case {
            load,
            layout,
            settings: self.clone(),
        };
        if let Some(cluster) = &self.cluster {
            cluster.check(&case)?;
        }
        Ok(case)
    }
}

impl ClusterSettings {
    /// The most writers of a row: each has a connection to a server while it writes.
    pub(super) const WRITERS_MAX: usize = 200;

    /// Refuses loads that are too much for a cluster in use.
    fn check(&self, case: &Case) -> Result<(), String> {
        let retries = case.settings.retries;
        let sendings = 1.0 + f64::from(retries);
        match case.load {
            Arrivals::Open { rate } if rate * sendings > self.rate_max => {
                return Err(format!(
                    "--rate {rate} with {retries} retries: a cluster takes {} writes a second at most from this command; --max-rate allows more",
                    self.rate_max
                ));
            }
            Arrivals::Closed { writers } if writers > Self::WRITERS_MAX => {
                return Err(format!(
                    "--writers {writers}: {} are possible against a cluster, each with a connection of its own",
                    Self::WRITERS_MAX
                ));
            }
            _ => {}
        }
        let bytes = case.estimated_bytes();
        if bytes > self.bytes_max {
            return Err(format!(
                "--shards {}: the records of a row may come to {bytes} bytes, and {} are allowed: lower --elements, --payload or --hot-keys; --max-size allows more",
                case.layout, self.bytes_max
            ));
        }
        Ok(())
    }
}

impl Case {
    /// Estimates what the records of the row come to at most, in bytes.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        /// An element with its time and its place in an index.
        const ELEMENT_BYTES: u64 = 32;
        /// Header, key and description of a record.
        const RECORD_BYTES: u64 = 256;
        let settings = &self.settings;
        let keys = u64::from(settings.hot_keys);
        // A row may see the end of a bucket of time, and the root is a record beside its shards.
        let buckets = match self.layout {
            RowLayout::Hashed(_) => 1,
            RowLayout::Timed(..) => 2,
        };
        let records = keys * (1 + buckets * u64::from(self.layout.live_shards()));
        let rate = match self.load {
            Arrivals::Open { rate } => rate,
            Arrivals::Closed { .. } => settings.cluster.as_ref().map_or(0.0, |it| it.rate_max),
        };
        let written = (rate * (settings.duration + settings.warm_up).as_secs_f64()) as u64;
        let elements = match settings.write {
            Write::AddUnique => keys * buckets * u64::from(settings.elements) + written,
            Write::Put | Write::Increment => 0,
        };
        records * (RECORD_BYTES + settings.payload as u64) + elements * ELEMENT_BYTES
    }

    /// Returns the name of the case's files: `open-50_shards-8`, `closed-16_shards-hourly`.
    pub(crate) fn file_name(&self) -> String {
        let load = match self.load {
            Arrivals::Open { rate } => format!("open-{rate}"),
            Arrivals::Closed { writers } => format!("closed-{writers}"),
        };
        format!("{load}_shards-{}", self.layout)
    }

    /// Returns whether the case adds to the counters of the library.
    pub(super) fn is_of_counters(&self) -> bool {
        self.settings.write == Write::Increment && matches!(self.layout, RowLayout::Hashed(_))
    }

    /// Returns whether each write goes to a random shard. A counter's handle takes its shards in
    /// turn, which is better; on a virtual clock each write comes as from a handle of its own.
    pub(crate) fn is_spread_at_random(&self) -> bool {
        self.settings.is_virtual
            || self.settings.write != Write::Increment
            || !matches!(self.layout, RowLayout::Hashed(shards) if shards > 1)
    }

    /// Returns whether the collection is sharded while the row runs.
    pub(crate) fn activates(&self) -> bool {
        self.settings.activate_at.is_some()
            && matches!(self.layout, RowLayout::Hashed(shards) if shards > 1)
    }
}
