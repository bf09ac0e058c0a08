//! Which groups count, and which deltas: those that have all they need.

use crate::epoch::{self, Guard};
use crate::index::Index;
use crate::location::Location;
use crate::log::Log;
use crate::log::block::BlockId;
use crate::log::directory::Line;
use crate::log::entry::{Appended, Kind, Lsn};
use crate::log::group::Groups;
use crate::recovery::block_reader::{Aside, YoungDelta, lost_at};
use crate::recovery::recovered_entries::{Damaged, Enterer, Found};
use std::collections::{HashMap, HashSet};

/// The groups that a reading of all blocks has seen.
#[derive(Debug)]
pub(crate) struct SeenGroups {
    by_number: HashMap<u64, SeenGroup>,
    durable_lsn: u64,
}

#[derive(Debug, Default)]
struct SeenGroup {
    /// Copies included: defragmentation may have been interrupted between a copy and the freeing of its original.
    members: Vec<Found>,
    /// Commit entries of one group are copies of one, and say how many members there are.
    commits: Vec<(u32, Appended)>,
    /// A commit entry that was durable and is lost.
    lost_commit: Option<Appended>,
}

impl SeenGroup {
    /// The commit entry, if the group counts: it was durable, or all members are there.
    fn commit(&self, durable_lsn: u64, is_there: impl Fn(&Found) -> bool) -> Option<Appended> {
        let is_whole = |count: u32| {
            let there = self.members.iter().filter(|member| is_there(member));
            let versions: HashSet<Lsn> = there.map(Found::lsn).collect();
            versions.len() as u32 == count
        };
        self.commits
            .first()
            .filter(|(count, commit)| commit.lsn.0 <= durable_lsn || is_whole(*count))
            .map(|(_, commit)| *commit)
            .or(self.lost_commit)
    }

    fn locations(&self) -> impl Iterator<Item = Location> {
        self.members.iter().map(|member| member.slot().location)
    }
}

impl SeenGroups {
    /// Takes members and commit entries from what was put aside.
    pub(crate) fn take(aside: &mut Aside, durable_lsn: u64) -> Self {
        let mut by_number: HashMap<u64, SeenGroup> = HashMap::new();
        for (group, found) in aside.grouped.drain(..) {
            by_number.entry(group).or_default().members.push(found);
        }
        for (group, count, at) in aside.commits.drain(..) {
            let group = by_number.entry(group).or_default();
            group.commits.push((count, at));
        }
        // The directory knows the low bits of a group's number.
        let low = |group: u64| group & ((1 << 36) - 1);
        let is_commit = |(_, line): &&(Location, Line)| line.kind == Kind::Commit;
        let lost: HashMap<u64, Appended> = aside
            .lost
            .iter()
            .filter(is_commit)
            .map(|(location, line)| (line.identity, lost_at(*location, line.lsn)))
            .collect();
        for (number, group) in &mut by_number {
            group.lost_commit = lost.get(&low(*number)).copied();
        }
        Self {
            by_number,
            durable_lsn,
        }
    }

    /// Finds the deltas that do not count, since the version before is lost or undone, or another member of their group
    /// does not count. A group that misses one is undone, and with it what builds on the others.
    pub(crate) fn without_ground(&self, aside: &Aside, log: &Log) -> HashSet<Location> {
        let deltas = &aside.young_deltas;
        if deltas.is_empty() {
            return HashSet::new();
        }
        let ends: HashMap<BlockId, u64> = aside
            .ends
            .iter()
            .map(|(block, end)| (*block, block.offset_bytes() + end.end))
            .collect();
        let mut search = Search {
            groups: self,
            followers: HashMap::new(),
            groundless: HashSet::new(),
            undone: HashSet::new(),
            pending: Vec::new(),
        };
        for delta in deltas {
            let followers = search.followers.entry(delta.before.0).or_default();
            followers.push(delta);
        }
        for (number, group) in &self.by_number {
            search.look_at(*number, group);
        }
        let guard = epoch::pin();
        for delta in deltas {
            if !is_there(log, &ends, delta.before, &guard) {
                search.drop_delta(delta);
            }
        }
        while let Some(location) = search.pending.pop() {
            for delta in search.followers.remove(&location).unwrap_or_default() {
                search.drop_delta(delta);
            }
        }
        search.groundless
    }

    /// Enters the members of the groups that count. The commit entries of others are to be made void: once later entries are
    /// durable, one that stayed would be believed.
    pub(crate) fn enter(&self, log: &Log, index: &Index, damaged: &Damaged, aside: &mut Aside) {
        let mut enterer = Enterer::new(index, log, damaged);
        for group in self.by_number.values() {
            if group.commit(self.durable_lsn, |_| true).is_some() {
                let members = group.members.iter();
                members.for_each(|found| enterer.enter_one(*found));
                continue;
            }
            let commits = group.commits.iter().map(|(_, commit)| commit.location);
            aside.voids.extend(commits);
            // Without a commit entry it is a group that was cut off, or an old one whose members are all superseded.
            let is_young = |found: &Found| found.lsn().0 > self.durable_lsn;
            let is_undone = !group.commits.is_empty() || group.members.iter().any(is_young);
            aside.report.rolled_back_groups += u64::from(is_undone);
        }
    }

    /// The groups of which members still count: as what the index holds, or as older parts of chains.
    pub(crate) fn counted(&self, index: &Index, older: &HashSet<Location>) -> Groups {
        let mut groups = Groups::default();
        for (number, group) in &self.by_number {
            let Some(commit) = group.commit(self.durable_lsn, |_| true) else {
                continue;
            };
            let counts =
                |found: &&Found| older.contains(&found.slot().location) || is_current(index, found);
            let members = group.members.iter().filter(counts).count();
            if members > 0 {
                groups.add(*number, commit, members as u32);
            }
        }
        groups
    }
}

/// Follows what is lost or undone to all that builds on it.
struct Search<'a> {
    groups: &'a SeenGroups,
    /// Deltas by the location of the version before.
    followers: HashMap<Location, Vec<&'a YoungDelta>>,
    groundless: HashSet<Location>,
    undone: HashSet<u64>,
    /// Entries that do not count, and whose followers have not been looked at.
    pending: Vec<Location>,
}

impl<'a> Search<'a> {
    fn drop_delta(&mut self, delta: &YoungDelta) {
        if !self.groundless.insert(delta.location) {
            return;
        }
        self.pending.push(delta.location);
        let groups: &'a SeenGroups = self.groups;
        let number = delta.group;
        if let Some((number, group)) = number.and_then(|number| {
            let group = groups.by_number.get(&number)?;
            Some((number, group))
        }) {
            self.look_at(number, group);
        }
    }

    fn look_at(&mut self, number: u64, group: &SeenGroup) {
        let is_there = |found: &Found| !self.groundless.contains(&found.slot().location);
        let counts = group.commit(self.groups.durable_lsn, is_there).is_some();
        if !counts && self.undone.insert(number) {
            self.pending.extend(group.locations());
        }
    }
}

/// Whether an entry with this number lies there. Behind the end of a block it does not count, even if it has come to the
/// device: what was before it has not.
fn is_there(
    log: &Log,
    ends: &HashMap<BlockId, u64>,
    (location, lsn): (Location, Lsn),
    guard: &Guard,
) -> bool {
    let block = BlockId::containing(location.device(), location.offset_bytes());
    if ends
        .get(&block)
        .is_none_or(|end| location.offset_bytes() >= *end)
    {
        return false;
    }
    let entry = log.entry(location, guard);
    entry.is_some_and(|entry| {
        let view = entry.view();
        view.lsn() == lsn && log.holds(location, &view)
    })
}

fn is_current(index: &Index, found: &Found) -> bool {
    let partition = index.lock(&found.digest());
    let location = found.slot().location;
    partition
        .find(found.digest().tag(), |slot| slot.location == location)
        .is_some()
}
