//! `spikelet move`: a store, running or not, into a cluster.
//!
//! * `source`: the store to move, in a directory or in a running program. `position`: the progress
//!   of a move, in a file.
//! * `compare`: whether both sides are the same. `report`: the report of a move.
//!
//! The copy is followed by the changes since it began: of each record that has changed, the present
//! version is written, or it is deleted. That may be repeated without harm, so a move that was
//! killed goes on from the last position in its file.

mod compare;
mod position;
mod report;
mod source;

use std::collections::HashSet;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use spikelet::Key;
use spikelet::backup::{PieceStart, SavedRecord};
use spikelet::cluster::{Cluster, Comparison};
use spikelet::relation::{declared_relations, forget_relation};

use self::position::MovePosition;
use self::report::{MoveReport, text};
use self::source::{MovedChanges, MovedStore, SourcePiece};
use super::CommandOutcome;
use super::print::{emit_found, note};
use super::target::HostArguments;
use crate::failure::{CommandFailure, Result};
use crate::report::count;
use crate::threads::on_interrupt;

/// How many records are written, compared or deleted in one batch.
const BATCH: usize = 256;

/// How many bytes of records are written or compared in one batch, unless one record has more.
const BATCH_BYTES: usize = 4 << 20;

/// How often a program that has no more changes is asked again.
const PAUSE: Duration = Duration::from_millis(200);

/// How often a note says how far the move is behind.
const NOTE_PERIOD: Duration = Duration::from_secs(10);

/// How long a cluster or a program that does not answer is asked again before the move ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many records that could not be moved are named; all are counted.
const NAMED_MAX: usize = 20;

/// Arguments of `move`.
#[derive(Debug, Args)]
#[command(
    after_help = "A running program has to give its records and keep its changes: `spikelet serve --monitor ADDR --monitor-records --keep-changes SET`, or \
`MonitorBuilder::serve_records` and `MovedChanges::enable`. The way to switch: start the move with --follow, wait until it is 0 changes behind, stop the \
program that writes, end the move by Ctrl-C (it catches up, compares both sides, and says whether they are the same), and start the program on the cluster. \
Generations begin anew on the cluster. Nothing is changed at the source."
)]
pub(crate) struct MoveArguments {
    /// The directory of a store that no process has open, or the monitor of a running program:
    /// HOST:PORT.
    source: String,
    #[command(flatten)]
    cluster: HostArguments,
    /// The namespace of the source. Needed if it has several.
    #[arg(long)]
    namespace: Option<String>,
    /// The namespace of the cluster. [default: that of the source]
    #[arg(long, value_name = "NAMESPACE")]
    to: Option<String>,
    /// Follow the changes of the running program, until interrupted.
    #[arg(long)]
    follow: bool,
    /// Keep in this file how far the move has come; a move that finds its file goes on from there.
    #[arg(long, value_name = "FILE", default_value = "spikelet-move.json")]
    resume: PathBuf,
    /// Move into sets of the cluster that have records. Records that the source lacks are deleted
    /// there, and declarations of relations over these sets are replaced.
    #[arg(long)]
    into_existing: bool,
    /// Compare the bins of about this many records at the end, rather than of all. Which records
    /// there are is compared of all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sample: Option<u64>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Moves a store.
///
/// # Errors
/// A source or cluster that cannot be used; sets of the cluster that have records; a position of
/// another move.
pub(crate) fn run(arguments: &MoveArguments) -> Result<CommandOutcome> {
    let host = arguments.cluster.host().ok_or_else(|| {
        CommandFailure::Input(
            "say where to: --host HOST[:PORT] of a node of the cluster".to_owned(),
        )
    })?;
    let source = MovedStore::open(&arguments.source, arguments.namespace.as_deref())?;
    let namespace = arguments.to.as_deref().unwrap_or(source.namespace());
    let cluster = arguments.cluster.connect(host, Some(namespace))?;
    let stop = on_interrupt("catches up with the changes, and compares")?;
    let target = format!("--host {host}, namespace {namespace}");
    let mut moving = Move {
        arguments,
        position: MovePosition::default(),
        report: MoveReport {
            source: format!("{}, namespace {}", arguments.source, source.namespace()),
            target,
            ..MoveReport::default()
        },
        source,
        cluster,
        stop: &stop,
        declarations: Vec::new(),
        clock_ahead_s: 0,
        noted: Instant::now(),
    };
    let outcome = moving.run()?;
    let report = moving.report;
    emit_found(arguments.json, "move", &report, || text(&report))?;
    Ok(outcome)
}

struct Move<'a> {
    arguments: &'a MoveArguments,
    source: MovedStore,
    cluster: Cluster,
    position: MovePosition,
    report: MoveReport,
    stop: &'a AtomicBool,
    /// The declarations of relations, as the last sweep has found them. They are written at the
    /// end: a served store then guards the bins that this move writes as a whole.
    declarations: Vec<SavedRecord>,
    /// How many seconds the cluster's clock is ahead of the source's, as records show that this run
    /// has written again.
    clock_ahead_s: i64,
    noted: Instant,
}

impl Move<'_> {
    fn run(&mut self) -> Result<CommandOutcome> {
        let file = &*self.arguments.resume;
        match MovePosition::read(file, &self.report.source, &self.report.target)? {
            Some(position) => {
                note(&format!("goes on from {}", file.display()));
                self.position = position;
            }
            None => self.begin()?,
        }
        if !self.copy()? {
            self.report.interrupted = true;
            return Ok(CommandOutcome::Interrupted);
        }
        self.follow()?;
        let mut compared = self.compare()?;
        if !compared.same {
            self.follow()?;
            compared.same = self.compare()?.same;
        }
        if compared.same {
            let declarations = self.free_declarations()?;
            self.write(&declarations)?;
        }
        self.report.compared = Some(compared);
        if !compared.same || self.report.refused_count + self.report.damaged > 0 {
            return Ok(CommandOutcome::Damaged);
        }
        // The position goes first: it is worth nothing without the changes that the source keeps.
        std::fs::remove_file(file).map_err(|error| CommandFailure::at(file.display(), error))?;
        if self.position.changes.is_some()
            && let Err(failure) = self.source.release()
        {
            note(&format!(
                "{failure}: the source goes on keeping changes for this move, until the next one ends"
            ));
        }
        Ok(CommandOutcome::Sound)
    }

    /// Checks the source, and notes from which change on the copy has to be followed.
    fn begin(&mut self) -> Result<()> {
        let follows = self.arguments.follow;
        let changes = match self.source.changes(None) {
            Err(error) if !follows => {
                note(&format!("{error}; writes during the move may be missing"));
                None
            }
            changes => changes?,
        };
        if let Some(changes) = &changes
            && !changes.silent_sets.is_empty()
        {
            let silent = format!(
                "the sets {} of {} keep no changes, so writes to them during the move would be missing",
                changes.silent_sets.join(", "),
                self.arguments.source
            );
            if follows {
                return Err(CommandFailure::Input(format!(
                    "{silent}: have them kept by Changes::enable or `spikelet serve --keep-changes SET`, or stop the writers and move without --follow"
                )));
            }
            note(&silent);
        }
        let silent_sets = changes.iter().flat_map(|changes| &changes.silent_sets);
        let silent_sets = silent_sets.cloned().collect();
        self.position = MovePosition {
            source: self.report.source.clone(),
            target: self.report.target.clone(),
            copied_to: Some(PieceStart::default().to_string()),
            changes: changes.map(|changes| changes.position),
            silent_sets,
            ..MovePosition::default()
        };
        self.position.write(&self.arguments.resume)
    }

    /// Copies the records from where the position says. Returns false if it was interrupted.
    fn copy(&mut self) -> Result<bool> {
        while let Some(from) = self.position.copied_to.clone() {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let piece = self.source.piece(&from)?;
            self.create_indexes(&piece)?;
            self.report.damaged += piece.damaged;
            self.take_sets(&piece.records)?;
            self.write(&piece.records)?;
            let copied = piece.records.len() as u64;
            self.report.copied += copied;
            self.position.records += copied;
            self.position.copied_to = piece.next;
            self.position.write(&self.arguments.resume)?;
            self.note_progress(|report| format!("{} records copied", count(report.copied)));
        }
        Ok(true)
    }

    /// Declares the indexes of the source: the first piece has all of them.
    fn create_indexes(&mut self, piece: &SourcePiece) -> Result<()> {
        if piece.indexes.is_empty() {
            return Ok(());
        }
        let mut left_out = Vec::new();
        for index in &piece.indexes {
            if !self.patiently_one(|cluster| cluster.create_saved_index(index))? {
                left_out.push(index.definition.name().to_owned());
            }
        }
        self.report.indexes = (piece.indexes.len() - left_out.len()) as u64;
        self.report.indexes_left_out = left_out;
        Ok(())
    }

    /// Removes the declarations of relations that name this set of the cluster, so that a served
    /// store does not guard bins of records that this move writes as a whole. Declarations over
    /// other sets stay.
    fn clear_declarations(&self, set: &str) -> Result<()> {
        for relation in self.patiently_one(declared_relations)? {
            let mut sides = relation.sides.iter().chain(&relation.former);
            if !sides.any(|side| &*side.set == set) {
                continue;
            }
            if !self.arguments.into_existing {
                return Err(CommandFailure::Input(format!(
                    "relation {:?} of the cluster is over set {set:?} already: allow that with --into-existing, which replaces its declaration",
                    relation.name
                )));
            }
            self.patiently_one(|cluster| forget_relation(cluster, &relation.name))?;
        }
        Ok(())
    }

    /// Takes the declarations to write. One is refused if the cluster has another one of its name,
    /// which is over other sets than the moved ones.
    fn free_declarations(&mut self) -> Result<Vec<SavedRecord>> {
        let mut declarations = std::mem::take(&mut self.declarations);
        for known in self.patiently_one(declared_relations)? {
            let mut sides = known.sides.iter().chain(&known.former);
            if sides.any(|side| self.position.sets.iter().any(|set| **set == *side.set)) {
                continue;
            }
            let name = Some(Key::from(&*known.name));
            let Some(at) = declarations.iter().position(|record| record.key() == name) else {
                continue;
            };
            let record = declarations.swap_remove(at);
            let found =
                self.patiently(|cluster| cluster.compare_saved(std::slice::from_ref(&record)))?;
            if !matches!(found.as_slice(), [Ok(Comparison::Same)]) {
                let error = "the cluster has another relation of this name, over other sets: forget it there, or give one of both another name";
                self.refuse(&record.set, &shown(&record), &error)?;
            }
        }
        Ok(declarations)
    }

    /// Takes the sets of these records for the move's own, before it writes to them: a move that
    /// goes on knows them. Refuses one that has records in the cluster.
    fn take_sets(&mut self, records: &[SavedRecord]) -> Result<()> {
        let known = self.position.sets.len();
        for SavedRecord { set, .. } in records {
            if self.position.sets.contains(set) {
                continue;
            }
            if !self.arguments.into_existing && !self.digests(set)?.is_empty() {
                return Err(CommandFailure::Input(format!(
                    "set {set:?} of the cluster has records already: empty it, or allow that with --into-existing, which deletes records that the source does not have"
                )));
            }
            self.clear_declarations(set)?;
            self.position.sets.push(set.clone());
        }
        if self.position.sets.len() > known {
            self.position.write(&self.arguments.resume)?;
        }
        Ok(())
    }

    /// Writes the changes since the position: all there are, or with --follow until interrupted.
    fn follow(&mut self) -> Result<()> {
        let Some(mut after) = self.position.changes.clone() else {
            return Ok(());
        };
        // It goes as far as the changes were when it was stopped, or when it began: a busy source
        // has always more.
        let mut last = None;
        loop {
            let Some(changes) = self.source.changes(Some(&after))? else {
                return Ok(());
            };
            if !self.arguments.follow || self.stop.load(Ordering::Relaxed) {
                last.get_or_insert(changes.latest);
            }
            self.note_silent_sets(&changes);
            self.apply(&changes)?;
            after = changes.position.clone();
            self.position.changes = Some(after.clone());
            self.position.write(&self.arguments.resume)?;
            let reached = MovedChanges::number(&after);
            let behind = changes.latest.saturating_sub(reached);
            let is_at_end = changes.is_empty() || last.is_some_and(|last| reached >= last);
            if last.is_some() && is_at_end {
                return Ok(());
            }
            self.note_progress(|report| {
                let behind = if is_at_end { 0 } else { behind };
                format!(
                    "{} changed records followed, {} changes behind",
                    count(report.followed),
                    count(behind)
                )
            });
            if changes.is_empty() {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Notes the sets that are new, and keep no changes.
    fn note_silent_sets(&mut self, changes: &MovedChanges) {
        for set in &changes.silent_sets {
            if self.position.silent_sets.insert(set.clone()) {
                note(&format!(
                    "set {set:?} of the source keeps no changes: its records are compared at the end, so stop its writers first"
                ));
            }
        }
    }

    /// Writes the present versions of changed records, and deletes the records that are gone. A
    /// damaged record is not gone: its copy in the cluster stays as it is.
    fn apply(&mut self, changes: &MovedChanges) -> Result<()> {
        let (records, damaged) = self.source.present(changes)?;
        for (set, digest) in &damaged {
            note(&format!(
                "{set:?}, digest {digest}: damaged at the source, so its copy in the cluster is left as it is"
            ));
        }
        let known = records.iter().map(|record| &record.digest);
        let known: HashSet<_> = known
            .chain(damaged.iter().map(|(_, digest)| digest))
            .collect();
        self.take_sets(&records)?;
        // In other sets it has written nothing: the records there are the cluster's own, and so are
        // its declarations.
        let is_taken = |set: &str| self.position.sets.iter().any(|taken| taken == set);
        let addresses = changes.records.values();
        let gone: Vec<_> = addresses
            .filter(|(set, digest)| is_taken(set) && !known.contains(digest))
            .cloned()
            .collect();
        self.write(&records)?;
        for gone in gone.chunks(BATCH) {
            let deleted = self.patiently(|cluster| cluster.delete_saved(gone))?;
            let failed = deleted.into_iter().zip(gone);
            for (deleted, (set, digest)) in failed {
                if let Err(error) = deleted {
                    self.refuse(set, &format!("{set:?}, digest {digest}"), &error)?;
                }
            }
        }
        if changes.is_truncated {
            self.sweep(|_, _| Ok(()))?;
        }
        self.report.followed += (records.len() + gone.len()) as u64;
        Ok(())
    }

    /// Writes records to the cluster. One that is refused is noted.
    fn write(&mut self, records: &[SavedRecord]) -> Result<()> {
        for batch in batches(records) {
            let results = self.patiently(|cluster| cluster.put_saved(batch))?;
            for (record, result) in batch.iter().zip(results) {
                if let Err(error) = result {
                    self.refuse(&record.set, &shown(record), &error)?;
                }
            }
        }
        Ok(())
    }

    /// Makes calls until none is refused for a moment, or lost: all may be repeated.
    fn patiently<T>(
        &self,
        call: impl Fn(&Cluster) -> Vec<spikelet::Result<T>>,
    ) -> Result<Vec<spikelet::Result<T>>> {
        let passing = |results: &Vec<spikelet::Result<T>>| {
            let mut errors = results.iter().filter_map(|result| result.as_ref().err());
            let error = errors.find(|error| error.is_retryable() || error.in_doubt());
            error.map(ToString::to_string)
        };
        let results = until(|| call(&self.cluster), |results| passing(results).is_none());
        match passing(&results) {
            None => Ok(results),
            Some(error) => Err(CommandFailure::Input(format!(
                "{error}: the cluster did not take it for {PATIENCE:?}; the same command goes on from {}",
                self.arguments.resume.display()
            ))),
        }
    }

    fn patiently_one<T>(&self, call: impl Fn(&Cluster) -> spikelet::Result<T>) -> Result<T> {
        let mut results = self.patiently(|cluster| vec![call(cluster)])?;
        let result = results.pop();
        let none = || CommandFailure::Input("a call of the cluster has no result".to_owned());
        Ok(result.ok_or_else(none)??)
    }

    /// Notes a record that the cluster has refused. Its set is compared whole at the end, also by a
    /// later run, for which the position goes past the refusal.
    fn refuse(&mut self, set: &str, record: &str, error: &dyn Display) -> Result<()> {
        self.report.refused_count += 1;
        if self.report.refused.len() < NAMED_MAX {
            self.report.refused.push(format!("{record}: {error}"));
        }
        if self.position.refused_sets.insert(set.to_owned()) {
            self.position.write(&self.arguments.resume)?;
        }
        Ok(())
    }

    fn note_progress(&mut self, text: impl FnOnce(&MoveReport) -> String) {
        if self.noted.elapsed() >= NOTE_PERIOD {
            self.noted = Instant::now();
            note(&text(&self.report));
        }
    }
}

/// Asks again and again until an answer is enough, or patience ends. Returns the last answer.
fn until<T>(ask: impl Fn() -> T, is_enough: impl Fn(&T) -> bool) -> T {
    let begun = Instant::now();
    loop {
        let answer = ask();
        if is_enough(&answer) || begun.elapsed() >= PATIENCE {
            return answer;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Cuts records into batches.
fn batches(mut records: &[SavedRecord]) -> impl Iterator<Item = &[SavedRecord]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |record: &&SavedRecord| {
            let is_first = bytes == 0;
            bytes += record.stored_bytes();
            is_first || bytes <= BATCH_BYTES
        };
        let fitting = records.iter().take(BATCH).take_while(fits).count();
        let (batch, rest) = records.split_at(fitting);
        records = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

/// A record as it is named in reports.
fn shown(record: &SavedRecord) -> String {
    match record.key() {
        Some(key) => format!("{:?}, key {key}", record.set),
        None => format!("{:?}, digest {}", record.set, record.digest),
    }
}
