//! The commands of the program.
//!
//! * `demo`: loads a follow graph, asks it questions, reopens it and checks it.
//! * `stat`, `verify`: look at a store on disk.
//! * `changes`: the changes of records of a store on disk.
//! * `contention`: writers on hot keys, and the fate of their writes.
//! * `backup`, `restore`: a store to files in the format of Aerospike's backup tools, and back.
//! * `move`: a store into a cluster, while it is written (feature `cluster`).
//! * `relations`: which relations are declared, and how many references they have.
//! * `shards`: which collections are sharded, and their companions.
//! * `sizing`: what records take, and which collections to shard.
//! * `serve`: a store behind the Aerospike wire protocol (feature `server`).
//! * `top`: which records are hot, as it happens (`monitor_client` asks a program for it).
//! * `target`: the store or cluster (`--host`) that a command looks into.
//! * `print`: standard output, notes, progress, and the page that `--html` asks for.
//!
//! Exit codes: 0 all is well; 1 damage, missing edges, lost writes or a limit that is not kept; 2
//! wrong usage or input, or the store cannot be used; 130 interrupted.

mod backup;
mod changes;
mod contention;
mod demo;
mod monitor_client;
#[cfg(feature = "cluster")]
mod move_store;
mod print;
mod relations;
mod restore;
#[cfg(feature = "server")]
mod serve;
mod shards;
mod sizing;
mod stat;
mod target;
mod top;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

#[cfg(any(feature = "cluster", feature = "server"))]
use crate::failure::CommandFailure;
use crate::failure::Result;
use crate::threads::INTERRUPTED;

/// A record store that lives inside a service: try it out, and look at stored data.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:
  spikelet demo --dir graph                        a store to look at
  spikelet sizing graph --html report.html         what its records take, and which to shard
  spikelet contention --virtual --rate 25..200:25  what a hot record does, in no time
  spikelet completions bash                        completions, for bash, zsh or fish

Exit codes: 0 all is well; 1 damage, missing edges, lost writes, or a limit that is not kept; 2 wrong usage or input, or a store that cannot be used; 130 interrupted."
)]
struct ProgramArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print completions of a shell: `source <(spikelet completions bash)`.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Let writers fight over hot keys and show the fate of their writes: KEY_BUSY, latency,
    /// goodput, nothing lost.
    Contention(Box<contention::ContentionArguments>),
    /// Save a store in the format of Aerospike's backup tools (.asb). Changes nothing.
    Backup(backup::BackupArguments),
    /// Show the changes of a store that are kept, in order. The store must have been closed, and no
    /// process may have it open. Changes nothing.
    Changes(changes::ChangesArguments),
    /// Load a follow graph into a store from several threads, ask it questions, reopen it, check
    /// every edge.
    Demo(demo::DemoArguments),
    /// Copy a store, running or not, into a cluster, follow its changes, and compare both sides.
    /// Changes nothing at the source.
    #[cfg(feature = "cluster")]
    Move(move_store::MoveArguments),
    /// Copy a store into a cluster (not in this build: it needs `--features cli,cluster`).
    #[cfg(not(feature = "cluster"))]
    Move(NotBuilt),
    /// Show the relations that a store declares: how many references they have, the largest, the
    /// layout that suits them. Changes nothing.
    Relations(relations::RelationsArguments),
    /// Write the records of a backup (.asb) to a store. Everything is checked before anything is
    /// written.
    Restore(restore::RestoreArguments),
    /// Show the content of a store and its cost. Changes nothing; works after a crash, too.
    Stat(StoreArguments),
    /// Serve a store to Aerospike clients.
    #[cfg(feature = "server")]
    Serve(serve::ServeArguments),
    /// Serve a store to Aerospike clients (not in this build: it needs `--features cli,server`).
    #[cfg(not(feature = "server"))]
    Serve(NotBuilt),
    /// Show which collections are sharded, or one of them record by record. Exit code 1: a shard is
    /// missing.
    Shards(shards::ShardsArguments),
    /// Say how large records are, which sets to shard, and how: of a store, a backup or JSON
    /// lines. Changes nothing. Exit code 1: a store has damaged records.
    Sizing(sizing::SizingArguments),
    /// Show which records are hot and how collections are sharded, as it happens in a running
    /// program. Changes nothing.
    Top(top::TopArguments),
    /// Check every block and every entry of a store that no process has open. Changes nothing.
    Verify(StoreArguments),
}

/// Arguments of a command that this build does not have: anything.
#[cfg(not(all(feature = "cluster", feature = "server")))]
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
struct NotBuilt {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<std::ffi::OsString>,
}

/// What `stat` and `verify` take.
#[derive(Debug, Args)]
struct StoreArguments {
    /// The directory of the store.
    dir: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// The result of a command, as an exit code.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandOutcome {
    /// All is well.
    Sound = 0,
    /// Something is damaged or missing.
    Damaged = 1,
    /// It was asked to end before it was done.
    Interrupted = INTERRUPTED,
}

impl CommandOutcome {
    /// Returns this outcome if it is so, and else that all is well.
    const fn only_if(self, is_so: bool) -> Self {
        if is_so { self } else { Self::Sound }
    }
}

impl From<CommandOutcome> for ExitCode {
    fn from(outcome: CommandOutcome) -> Self {
        Self::from(outcome as u8)
    }
}

/// Prints the completions of a shell.
fn completions(shell: Shell) -> Result<CommandOutcome> {
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut ProgramArguments::command(),
        "spikelet",
        &mut script,
    );
    print::emit(&String::from_utf8_lossy(&script))?;
    Ok(CommandOutcome::Sound)
}

/// Returns the first line of a file: a password.
///
/// # Errors
/// A file that cannot be read; an empty line.
#[cfg(any(feature = "cluster", feature = "server"))]
fn first_line(file: &std::path::Path) -> Result<String> {
    let refused = |why: String| CommandFailure::at(file.display(), why);
    let text = std::fs::read_to_string(file).map_err(|error| refused(error.to_string()))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(refused("write the password in its first line".to_owned())),
    }
}

/// Says how to build a program with a command or option that this one lacks.
#[cfg(not(all(feature = "cluster", feature = "server", feature = "tls")))]
fn not_built(what: &str, features: &str) -> String {
    format!("this program was built without {what}: build it with `--features cli,{features}`")
}

/// Runs the program with the arguments of the process.
pub(crate) fn run() -> ExitCode {
    let done = match ProgramArguments::parse().command {
        Command::Contention(arguments) => contention::run(&arguments),
        Command::Completions { shell } => completions(shell),
        Command::Changes(arguments) => changes::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        #[cfg(feature = "cluster")]
        Command::Move(arguments) => move_store::run(&arguments),
        #[cfg(not(feature = "cluster"))]
        Command::Move(_) => Err(not_built("`move`", "cluster").into()),
        Command::Relations(arguments) => relations::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Stat(arguments) => stat::run(&arguments),
        #[cfg(feature = "server")]
        Command::Serve(arguments) => serve::run(&arguments),
        #[cfg(not(feature = "server"))]
        Command::Serve(_) => Err(not_built("`serve`", "server").into()),
        Command::Sizing(arguments) => sizing::run(&arguments),
        Command::Shards(arguments) => shards::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
    };
    done.map_or_else(
        |failure| {
            eprintln!("spikelet: {failure}");
            ExitCode::from(2)
        },
        ExitCode::from,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_all_commands_are_consistent() {
        ProgramArguments::command().debug_assert();
    }

    #[cfg(not(all(feature = "cluster", feature = "server", feature = "tls")))]
    #[test]
    fn an_option_that_this_build_lacks_names_the_feature_to_build_with() {
        let asked = [
            #[cfg(not(feature = "cluster"))]
            ("cluster", "contention --host 10.0.0.1 --yes"),
            #[cfg(not(feature = "cluster"))]
            ("cluster", "sizing --all --host 10.0.0.1"),
            #[cfg(not(feature = "cluster"))]
            ("cluster", "relations --host 10.0.0.1 --user ada"),
            #[cfg(not(feature = "cluster"))]
            ("cluster", "shards --host 10.0.0.1 --key a"),
            #[cfg(all(feature = "server", not(feature = "tls")))]
            ("server,tls", "serve --tls-cert a.pem --tls-key b.pem"),
            #[cfg(all(feature = "server", not(feature = "tls")))]
            ("server,tls", "serve --tls-listen 127.0.0.1:0"),
        ];
        for (features, words) in asked {
            let words = std::iter::once("spikelet").chain(words.split(' '));
            let refused = ProgramArguments::try_parse_from(words).unwrap_err();
            let expected = format!("build it with `--features cli,{features}`");
            assert!(refused.to_string().contains(&expected), "{refused}");
            assert_eq!(refused.exit_code(), 2);
        }
    }
}
