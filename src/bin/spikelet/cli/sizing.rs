//! `spikelet sizing`: the sizes of records, the sets to be sharded, and how.

use std::path::{Path, PathBuf};
#[cfg(feature = "cluster")]
use std::sync::atomic::Ordering;

use clap::{Args, Subcommand};

use super::CommandOutcome;
use super::host::HostArguments;
#[cfg(feature = "cluster")]
use super::interrupt::on_interrupt;
use super::page::{PageFile, check_place};
use super::print::{ProgressUnit, emit, emit_form, with_progress};
use crate::failure::{CommandFailure, Result};
#[cfg(feature = "cluster")]
use crate::sizing::{ClusterReading, size_cluster};
use crate::sizing::{PlanNumbers, SCHEMA_VERSION, Sample, Sizing, SizingOptions, plan, size};

/// More would make a page, and a terminal, of nothing else.
const TOP_MAX: i64 = 1000;

const EXAMPLES: &str = "\
Examples:
  spikelet sizing DIR --writes-per-s 400 --html report.html
  zcat part-*.jsonl.gz | spikelet sizing -
  spikelet sizing plan --entries 300000 --entry-bytes 15 --writes-per-s 400";

/// The arguments of `sizing`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = EXAMPLES)]
pub(crate) struct SizingArguments {
    #[command(subcommand)]
    plan: Option<SizingCommand>,
    /// The directory of a store, an .asb backup (or a directory of them), or JSON lines; files may
    /// be packed by gzip or zstd, and - is standard input.
    #[arg(required_unless_present = "host")]
    source: Option<PathBuf>,
    /// Writes a second to the hottest record of all; or to that of a set, as SET=W, which may be
    /// given several times.
    #[arg(help_heading = "Load", long, value_name = "[SET=]W", value_parser = rate)]
    writes_per_s: Vec<(Option<String>, f64)>,
    /// Size this set only; '' is no set [default: all].
    #[arg(help_heading = "Records", long, value_name = "NAME")]
    set: Option<String>,
    /// List this many of the largest records.
    #[arg(help_heading = "Output", long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=TOP_MAX))]
    top: u16,
    /// The largest record that is allowed, in bytes [default: 1048576; 8388608 of a store that
    /// holds larger ones].
    #[arg(help_heading = "Limits", long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(64..))]
    max_record_bytes: Option<u64>,
    /// Measure a sample of this many records of each set [default: all].
    #[arg(help_heading = "Records", long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sample: Option<u32>,
    /// Seed of the sample.
    #[arg(
        help_heading = "Records",
        long,
        default_value_t = 1,
        requires = "sample"
    )]
    seed: u64,
    /// Write a page to this file, too; not to the source, nor into its directory.
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(help_heading = "Output", long)]
    json: bool,
    /// Print a line of comma-separated values for each set instead of text.
    #[arg(help_heading = "Output", long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    cluster: ClusterSizing,
}

/// The arguments of `sizing --host`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
struct ClusterSizing {
    #[command(flatten)]
    host: HostArguments,
    /// The namespace; needed if the cluster has several.
    #[arg(long, value_name = "NAME", requires = "host")]
    namespace: Option<String>,
    /// Read all partitions of the cluster, not only until there are as many records as --sample
    /// says [default: 10000].
    #[arg(long, requires = "host", conflicts_with = "sample")]
    all: bool,
    /// Go on from this file if it is there, and keep it up to date: a sizing that was interrupted
    /// goes on where it was, in another process, too.
    #[arg(long, value_name = "FILE", requires = "host")]
    resume: Option<PathBuf>,
    /// Read and measure up to N records a second; 0: as fast as the servers can.
    #[arg(long, value_name = "N", requires = "host", default_value_t = 5_000)]
    records_per_second: u32,
}

/// Records of each set of a cluster that are read unless more is said.
#[cfg(feature = "cluster")]
const CLUSTER_SAMPLE: u32 = 10_000;

#[derive(Debug, Subcommand)]
enum SizingCommand {
    /// Answer from numbers alone: how one collection is best kept.
    Plan(PlanArguments),
}

/// The arguments of `sizing plan`.
#[derive(Debug, Args)]
struct PlanArguments {
    #[command(flatten)]
    numbers: PlanNumbers,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Sizes a store or a file, or makes a plan.
///
/// # Errors
/// A source that cannot be read or understood, or a page that cannot be written.
pub(crate) fn run(arguments: &SizingArguments) -> Result<CommandOutcome> {
    #[cfg(feature = "cluster")]
    if let Some(host) = arguments.cluster.host.host() {
        return run_cluster(host, arguments);
    }
    match (&arguments.plan, &arguments.source) {
        (Some(SizingCommand::Plan(arguments)), _) => run_plan(arguments),
        (None, Some(source)) => run_sizing(source, arguments),
        // clap asks for one of them.
        (None, None) => Ok(CommandOutcome::Sound),
    }
}

fn run_plan(arguments: &PlanArguments) -> Result<CommandOutcome> {
    let plan = plan(&arguments.numbers)?;
    let form = (SCHEMA_VERSION, "sizing-plan");
    emit_form(arguments.json, form, &plan, || plan.to_report())?;
    Ok(CommandOutcome::Sound)
}

/// The options, from the arguments.
fn options(arguments: &SizingArguments) -> Result<SizingOptions> {
    let rates = &arguments.writes_per_s;
    let of_all: Vec<f64> = rates
        .iter()
        .filter_map(|(set, rate)| set.is_none().then_some(*rate))
        .collect();
    if let [first, second, ..] = of_all.as_slice() {
        return Err(CommandFailure::Input(format!(
            "--writes-per-s {first} and {second}: one record is the hottest of all; name sets, as SET=W"
        )));
    }
    Ok(SizingOptions {
        writes_per_s: of_all.first().copied(),
        writes_per_s_of: rates
            .iter()
            .filter_map(|(set, rate)| Some((set.clone()?, *rate)))
            .collect(),
        top: usize::from(arguments.top),
        max_record_bytes: arguments.max_record_bytes,
        sample: arguments.sample.map(|records| Sample {
            records: records as usize,
            seed: arguments.seed,
        }),
        set: arguments.set.clone(),
    })
}

fn run_sizing(source: &Path, arguments: &SizingArguments) -> Result<CommandOutcome> {
    let options = options(arguments)?;
    if let Some(page) = &arguments.html {
        check_place(page, &[source])?;
    }
    // Records of a store are counted, and bytes of files; standard input has no known length.
    let unit = if source.is_dir() {
        ProgressUnit::Count("records")
    } else {
        ProgressUnit::Bytes
    };
    let sizing = with_progress("sizing", unit, |told| size(source, &options, told))?;
    present(&sizing, arguments, &[source])?;
    Ok(CommandOutcome::Damaged.only_if(sizing.damaged > 0))
}

/// Prints the sizing, and writes its page.
fn present(sizing: &Sizing, arguments: &SizingArguments, sources: &[&Path]) -> Result<()> {
    let report = sizing.to_report();
    if let Some(file) = &arguments.html {
        PageFile::open(file, sources)?.write(&report)?;
    }
    if arguments.csv {
        return emit(&sizing.to_csv());
    }
    emit_form(arguments.json, (SCHEMA_VERSION, "sizing"), sizing, || {
        report
    })
}

/// Sizes a cluster.
#[cfg(feature = "cluster")]
fn run_cluster(host: &str, arguments: &SizingArguments) -> Result<CommandOutcome> {
    if let Some(source) = &arguments.source {
        let source = source.display();
        return Err(CommandFailure::Input(format!(
            "{source} and --host: give one of them"
        )));
    }
    let mut options = options(arguments)?;
    let sample = arguments.sample.unwrap_or(CLUSTER_SAMPLE);
    if !arguments.cluster.all {
        options.sample.get_or_insert(Sample {
            records: sample as usize,
            seed: arguments.seed,
        });
    }
    if let Some(page) = &arguments.html {
        check_place(page, &[])?;
    }
    let stop = on_interrupt("the records read so far are reported")?;
    let namespace = arguments.cluster.namespace.as_deref();
    let cluster = arguments.cluster.host.connect(host, namespace)?;
    let rate = arguments.cluster.records_per_second;
    let reading = ClusterReading {
        records: (!arguments.cluster.all).then_some(sample.into()),
        seed: arguments.seed,
        records_per_second: (rate > 0).then_some(rate),
        resume: arguments.cluster.resume.as_deref(),
        stop: &stop,
    };
    let sizing = with_progress("sizing", ProgressUnit::Count("records"), |told| {
        size_cluster(&cluster, &options, &reading, told)
    })?;
    present(&sizing, arguments, &[])?;
    Ok(CommandOutcome::Interrupted.only_if(stop.load(Ordering::Relaxed)))
}

/// Parses `400` or `users=400`.
fn rate(text: &str) -> Result<(Option<String>, f64), String> {
    let (set, number) = match text.rsplit_once('=') {
        Some((set, number)) => (Some(set.to_owned()), number),
        None => (None, text),
    };
    let rate = number.parse().map_err(|_| {
        format!("{number:?} is no number of writes a second: write 400, or SET=400")
    })?;
    Ok((set, rate))
}
