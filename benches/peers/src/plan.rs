//! The command line, and the plan that comes of it.

use crate::stores::StoreName;
use clap::{Parser, ValueEnum, value_parser};
use std::path::PathBuf;
use std::time::Duration;

/// spikelet beside other embedded stores, in one interleaved run.
#[derive(Debug, Parser)]
pub struct Plan {
    /// About two minutes in all: 200,000 records, 2,000 lists, one round, half a second a phase.
    #[arg(long)]
    short: bool,
    /// Records of 100 B under keys of 20 B [default: 2000000].
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    records: Option<u64>,
    /// Rounds; in each, every store runs every phase, in rotating order [default: 3].
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Seconds of each phase but the load and the lists [default: 5; 0.5 if short].
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Ordered lists of 1,000 integers [default: 20000].
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    lists: Option<u64>,
    /// Seconds of edits of lists [default: 20].
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    list_seconds: Option<u64>,
    /// Threads of the record phases, one after the other; the durable phases have their own.
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = value_parser!(u64).range(1..))]
    threads: Vec<u64>,
    /// Stores to run; ratios are to the last of them that runs the phase.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = StoreName::value_variants())]
    pub stores: Vec<StoreName>,
    /// Phases to run; the load is run whenever another phase of records is.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Phase::value_variants())]
    only: Vec<Phase>,
    /// Where the stores live while they run: a directory on the device to be measured
    /// [default: the directory for temporary files].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Write everything that was measured to this file too.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

impl Plan {
    /// Records of the record phases.
    pub fn records(&self) -> u64 {
        self.records
            .unwrap_or(if self.short { 200_000 } else { 2_000_000 })
    }

    /// Rounds of the whole.
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.short { 1 } else { 3 }) as usize
    }

    /// Time of a record phase.
    pub fn span(&self) -> Duration {
        let default = Duration::from_millis(if self.short { 500 } else { 5_000 });
        self.seconds.map_or(default, Duration::from_secs)
    }

    /// Time of the overwrites before a timed phase that overwrites.
    pub fn warm_up(&self) -> Duration {
        self.span() / 4
    }

    /// Lists of the list phase.
    pub fn lists(&self) -> u64 {
        self.lists
            .unwrap_or(if self.short { 2_000 } else { 20_000 })
    }

    /// Time of the list phase.
    pub fn list_span(&self) -> Duration {
        Duration::from_secs(self.list_seconds.unwrap_or(if self.short { 1 } else { 20 }))
    }

    /// Directory under which every store gets one of its own.
    pub fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// The phases asked for, in the order in which they run; the load comes before any other.
    pub fn phases(&self) -> impl Iterator<Item = Phase> {
        let records = self
            .only
            .iter()
            .any(|phase| phase.session() == Session::Records);
        let runs =
            move |phase: &&Phase| self.only.contains(phase) || (records && **phase == Phase::Load);
        Phase::value_variants().iter().filter(runs).copied()
    }

    /// The phases asked for that share a session and that `store` takes part in, in their order.
    pub fn phases_of(&self, session: Session, store: StoreName) -> Vec<Phase> {
        let own = |phase: &Phase| phase.session() == session && store.runs(*phase);
        self.phases().filter(own).collect()
    }

    /// Threads of each run of the record phases.
    pub fn threads(&self) -> impl Iterator<Item = usize> {
        self.threads.iter().map(|threads| *threads as usize)
    }

    /// The stores of a round: each round begins with the next one.
    pub fn stores_of(&self, round: usize) -> impl Iterator<Item = StoreName> {
        let first = round % self.stores.len().max(1);
        self.stores
            .iter()
            .cycle()
            .skip(first)
            .take(self.stores.len())
            .copied()
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    /// All records into an empty store.
    Load,
    /// Uniform reads into owned bytes.
    Get,
    /// Uniform reads that lend the bytes.
    GetRef,
    /// Uniform reads in batches of 64.
    GetBatch,
    /// Uniform overwrites.
    Overwrite,
    /// Half owned reads, half overwrites.
    Mix,
    /// ADD_UNIQUE into ordered lists.
    Lists,
    /// Overwrites in groups of 100, each group committed and synced as one.
    Groups,
    /// Single overwrites by one thread, each synced before it returns.
    #[value(name = "durable-1")]
    Durable1,
    /// The same by eight threads.
    #[value(name = "durable-8")]
    Durable8,
}

/// Phases of a session share a store, and how it was opened and loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// Records, without waiting for syncs; once for each number of `--threads`.
    Records,
    /// Lists, without waiting for syncs.
    Lists,
    /// Records loaded without syncs, then overwritten with a sync at each commit.
    Durable,
}

impl Phase {
    /// The session that the phase belongs to.
    pub fn session(self) -> Session {
        match self {
            Self::Load
            | Self::Get
            | Self::GetRef
            | Self::GetBatch
            | Self::Overwrite
            | Self::Mix => Session::Records,
            Self::Lists => Session::Lists,
            Self::Groups | Self::Durable1 | Self::Durable8 => Session::Durable,
        }
    }

    /// Threads of a durable phase, whatever `--threads` says.
    pub fn durable_threads(self) -> usize {
        match self {
            Self::Durable8 => 8,
            _ => 1,
        }
    }

    /// The name of the option.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_store_has_each_place_once_in_as_many_rounds_as_there_are_stores() {
        let plan = Plan::parse_from(["peers", "--stores", "redb,heed,dashmap"]);
        let rounds: Vec<Vec<StoreName>> = (0..4)
            .map(|round| plan.stores_of(round).collect())
            .collect();
        use StoreName::{Dashmap, Heed, Redb};
        assert_eq!(
            rounds,
            [
                [Redb, Heed, Dashmap],
                [Heed, Dashmap, Redb],
                [Dashmap, Redb, Heed],
                [Redb, Heed, Dashmap]
            ]
        );
    }

    #[test]
    fn a_short_run_can_still_be_told_its_numbers() {
        let plan = Plan::parse_from(["peers", "--short", "--records", "77", "--only", "get,lists"]);
        assert_eq!((plan.records(), plan.rounds()), (77, 1));
    }

    #[test]
    fn a_store_runs_the_phases_of_a_session_that_it_takes_part_in() {
        let plan = Plan::parse_from(["peers"]);
        let records = |store| plan.phases_of(Session::Records, store);
        assert_eq!(records(StoreName::Floor), [Phase::Get, Phase::GetRef]);
        assert_eq!(records(StoreName::SpikeletStorage), []);
        assert_eq!(records(StoreName::Spikelet).len(), 6);
        for (store, phases) in [
            (
                StoreName::Redb,
                vec![Phase::Groups, Phase::Durable1, Phase::Durable8],
            ),
            (StoreName::SpikeletStorage, vec![Phase::Groups]),
            (StoreName::Spikelet, vec![Phase::Durable1, Phase::Durable8]),
            (StoreName::Dashmap, vec![]),
        ] {
            assert_eq!(plan.phases_of(Session::Durable, store), phases, "{store:?}");
        }
    }

    #[test]
    fn phases_run_in_their_order_and_none_without_its_load() {
        for (only, phases) in [
            ("mix,get", vec![Phase::Load, Phase::Get, Phase::Mix]),
            ("lists", vec![Phase::Lists]),
            ("lists,load", vec![Phase::Load, Phase::Lists]),
            ("durable-8", vec![Phase::Durable8]),
        ] {
            let plan = Plan::parse_from(["peers", "--only", only]);
            assert_eq!(plan.phases().collect::<Vec<_>>(), phases, "{only}");
        }
    }
}
