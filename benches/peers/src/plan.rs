//! The command line, and the plan that comes of it.

use crate::Result;
use crate::edges::Edges;
use crate::stores::StoreName;
use clap::{Parser, ValueEnum, value_parser};
use std::path::PathBuf;
use std::time::Duration;

/// spikelet beside other embedded stores, in one interleaved run.
#[derive(Debug, Parser)]
pub struct Plan {
    /// About half a minute in all: 50,000 records, 500 lists, 25,000 records with a secondary key,
    /// 2,500 accounts, 50,000 edges, one round, 0.2 seconds a phase at most.
    #[arg(long)]
    short: bool,
    /// Records of 100 B under keys of 20 B [default: 2000000].
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    records: Option<u64>,
    /// Rounds; in each, every store runs every phase, in rotating order [default: 3].
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Seconds of each phase but the loads and the lists [default: 5; 0.2 if short, 0.05 of queries,
    /// transfers and the graph].
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Ordered lists of 1,000 integers [default: 20000].
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    lists: Option<u64>,
    /// Seconds of edits of lists [default: 20].
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    list_seconds: Option<u64>,
    /// Records with a secondary key, 50 of each [default: 1000000].
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    query_records: Option<u64>,
    /// Accounts between which money is transferred [default: 100000].
    #[arg(long, value_parser = value_parser!(u64).range(2..))]
    accounts: Option<u64>,
    /// Edges to generate, of which some fall together [default: 10000000].
    #[arg(long, value_parser = value_parser!(u64).range(20..), conflicts_with = "edges")]
    generated_edges: Option<u64>,
    /// A file of edges to take instead: two numbers a line.
    #[arg(long)]
    edges: Option<PathBuf>,
    /// Threads of the phases of records and of transfers, one after the other; the durable phases
    /// have their own.
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
            .unwrap_or(if self.short { 50_000 } else { 2_000_000 })
    }

    /// Rounds of the whole.
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.short { 1 } else { 3 }) as usize
    }

    /// Time of a record phase.
    pub fn span(&self) -> Duration {
        let default = Duration::from_millis(if self.short { 200 } else { 5_000 });
        self.seconds.map_or(default, Duration::from_secs)
    }

    /// Time of the overwrites before a timed phase that overwrites.
    pub fn warm_up(&self) -> Duration {
        self.span() / 4
    }

    /// Lists of the list phase.
    pub fn lists(&self) -> u64 {
        self.lists.unwrap_or(if self.short { 500 } else { 20_000 })
    }

    /// Time of the list phase.
    pub fn list_span(&self) -> Duration {
        let default = Duration::from_millis(if self.short { 200 } else { 20_000 });
        self.list_seconds.map_or(default, Duration::from_secs)
    }

    /// Records of the query phases.
    pub fn query_records(&self) -> u64 {
        self.query_records
            .unwrap_or(if self.short { 25_000 } else { 1_000_000 })
    }

    /// Accounts of the transfers.
    pub fn accounts(&self) -> u64 {
        self.accounts
            .unwrap_or(if self.short { 2_500 } else { 100_000 })
    }

    /// The edges of the graph phases; None: none of these phases is asked for.
    ///
    /// # Errors
    /// A file that cannot be read, or has no edges.
    pub fn edges(&self) -> Result<Option<Edges>> {
        let of_graph =
            |phase: Phase| matches!(phase.session(), Session::Graph | Session::GraphBulk);
        if !self.phases().any(of_graph) {
            return Ok(None);
        }
        let default = if self.short { 50_000 } else { 10_000_000 };
        let edges = match &self.edges {
            Some(file) => Edges::read(file)?,
            None => Edges::generated(self.generated_edges.unwrap_or(default)),
        };
        Ok(Some(edges))
    }

    /// Returns the time of a phase, in the session that it belongs to.
    pub fn span_of(&self, phase: Phase) -> Duration {
        match phase.session() {
            Session::Records | Session::Durable => self.span(),
            Session::Lists => self.list_span(),
            _ if self.short && self.seconds.is_none() => Duration::from_millis(50),
            _ => self.span(),
        }
    }

    /// Returns the time that a phase runs before its clock starts.
    pub fn warm_up_of(&self, phase: Phase) -> Duration {
        self.span_of(phase) / 4
    }

    /// Directory under which every store gets one of its own.
    pub fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// The phases asked for, in the order in which they run; the load of records comes before any
    /// other.
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

/// The phases to measure.
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
    /// Records with a secondary key into an empty store, and its index with them.
    QueryLoad,
    /// All 50 records of a key.
    QueryPage,
    /// 1,000 records in the order of their keys.
    QueryRange,
    /// All records, looked at for the few that pass a filter.
    QueryScan,
    /// Another key for a record, in a transaction of its own.
    QueryUpdate,
    /// Transactions that read two accounts and write both.
    Transfer,
    /// The same by eight threads, each synced before it returns.
    #[value(name = "transfer-durable-8")]
    TransferDurable8,
    /// Edges of a graph of followers, at both ends, 100 a transaction.
    GraphLoad,
    /// Edges at both ends, one a transaction.
    GraphLink,
    /// Does A follow B?
    GraphFollows,
    /// 50 followers of a node with their records.
    GraphPage,
    /// How many nodes are at the end of one edge or two.
    GraphTwoHops,
    /// All edges into an empty graph, 10,000 a batch.
    #[value(name = "graph-bulk-10k")]
    GraphBulk10k,
    /// The same, 100,000 a batch.
    #[value(name = "graph-bulk-100k")]
    GraphBulk100k,
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
    /// Records with a secondary key, without waiting for syncs.
    Queries,
    /// Transfers, without waiting for syncs; once for each number of `--threads`.
    Transfers,
    /// Accounts loaded without syncs, then transfers with a sync at each commit.
    DurableTransfers,
    /// The graph, without waiting for syncs.
    Graph,
    /// An empty graph for each size of batches, without waiting for syncs.
    GraphBulk,
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
            Self::QueryLoad
            | Self::QueryPage
            | Self::QueryRange
            | Self::QueryScan
            | Self::QueryUpdate => Session::Queries,
            Self::Transfer => Session::Transfers,
            Self::TransferDurable8 => Session::DurableTransfers,
            Self::GraphLoad
            | Self::GraphLink
            | Self::GraphFollows
            | Self::GraphPage
            | Self::GraphTwoHops => Session::Graph,
            Self::GraphBulk10k | Self::GraphBulk100k => Session::GraphBulk,
        }
    }

    /// Returns the threads of a durable phase, which ignores `--threads`.
    pub fn durable_threads(self) -> usize {
        match self {
            Self::Durable8 | Self::TransferDurable8 => 8,
            _ => 1,
        }
    }

    /// Edges of a batch of the phases that add many edges.
    pub fn batch_edges(self) -> usize {
        match self {
            Self::GraphBulk100k => 100_000,
            _ => 10_000,
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
            (
                StoreName::Spikelet,
                vec![Phase::Groups, Phase::Durable1, Phase::Durable8],
            ),
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
            (
                "graph-page,transfer",
                vec![Phase::Transfer, Phase::GraphPage],
            ),
        ] {
            let plan = Plan::parse_from(["peers", "--only", only]);
            assert_eq!(plan.phases().collect::<Vec<_>>(), phases, "{only}");
        }
    }
}
