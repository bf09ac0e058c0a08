//! `spikelet sizing`: the sizes of records, the sets to be sharded, and how.

use std::path::{Path, PathBuf};
#[cfg(feature = "cluster")]
use std::sync::atomic::Ordering;

use clap::{Args, Subcommand};

use super::CommandOutcome;
use super::print::{ProgressUnit, check_page, emit, emit_form, with_progress, write_page};
use super::target::HostArguments;
#[cfg(feature = "cluster")]
use crate::failure::CommandFailure;
use crate::failure::Result;
#[cfg(feature = "cluster")]
use crate::sizing::{ClusterReading, size_cluster};
use crate::sizing::{PlanNumbers, SCHEMA_VERSION, Sizing, SizingOptions, plan, size};
#[cfg(feature = "cluster")]
use crate::threads::on_interrupt;

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
    #[command(flatten)]
    options: SizingOptions,
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

fn run_sizing(source: &Path, arguments: &SizingArguments) -> Result<CommandOutcome> {
    let options = &arguments.options;
    if let Some(page) = &arguments.html {
        check_page(page, &[source])?;
    }
    // Records of a store are counted, and bytes of files; standard input has no known length.
    let unit = if source.is_dir() {
        ProgressUnit::Count("records")
    } else {
        ProgressUnit::Bytes
    };
    let sizing = with_progress("sizing", unit, |told| size(source, options, told))?;
    present(&sizing, arguments)?;
    Ok(CommandOutcome::Damaged.only_if(sizing.verdict.level.fails()))
}

/// Prints the sizing, and writes its page.
fn present(sizing: &Sizing, arguments: &SizingArguments) -> Result<()> {
    let report = sizing.to_report();
    if let Some(file) = &arguments.html {
        write_page(file, &report)?;
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
    let mut options = arguments.options.clone();
    options.check()?;
    if !arguments.cluster.all {
        options.sample.get_or_insert(CLUSTER_SAMPLE);
    }
    if let Some(page) = &arguments.html {
        check_page(page, &[])?;
    }
    let stop = on_interrupt("the records read so far are reported")?;
    let namespace = arguments.cluster.namespace.as_deref();
    let cluster = arguments.cluster.host.connect(host, namespace)?;
    let rate = arguments.cluster.records_per_second;
    let reading = ClusterReading {
        records_per_second: (rate > 0).then_some(rate),
        stop: &stop,
    };
    let sizing = with_progress("sizing", ProgressUnit::Count("records"), |told| {
        size_cluster(&cluster, &options, &reading, told)
    })?;
    present(&sizing, arguments)?;
    Ok(CommandOutcome::Interrupted.only_if(stop.load(Ordering::Relaxed)))
}
