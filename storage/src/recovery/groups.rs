//! Which groups count, and which deltas: those that have all they need.

use crate::device::BLOCK_BYTES;
use crate::epoch::{self, Guard};
use crate::index::Index;
use crate::location::Location;
use crate::log::Log;
use crate::log::block::{BlockId, Format, Phase};
use crate::log::directory::Line;
use crate::log::entry::{Appended, Kind, Lsn};
use crate::log::group::Groups;
use crate::recovery::block_reader::{Aside, YoungDelta, is_version, lost_at};
use crate::recovery::recovered_entries::{Damaged, Enterer, Found};
use crate::recovery::sighting::UsedBlock;
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
    /// Members that were durable and are damaged: what is known of them is not enough to enter them as such.
    damaged: HashSet<Lsn>,
    /// Commit entries of one group are copies of one, and say how many members there are.
    commits: Vec<(u32, Appended)>,
    /// A commit entry that was durable and is lost.
    lost_commit: Option<Appended>,
}

impl SeenGroup {
    /// The commit entry, if the group counts: it was durable, or all members are there.
    fn commit(&self, durable_lsn: u64) -> Option<Appended> {
        self.commits
            .first()
            .filter(|(count, commit)| {
                commit.lsn.0 <= durable_lsn || self.copies().len() >= *count as usize
            })
            .map(|(_, commit)| *commit)
            .or(self.lost_commit)
    }

    /// Whether the group counts whatever becomes of its members.
    fn was_durable(&self, durable_lsn: u64) -> bool {
        let commits = self.commits.iter().map(|(_, commit)| commit);
        let mut all = commits.filter(|commit| commit.lsn.0 <= durable_lsn);
        all.next().or(self.lost_commit.as_ref()).is_some()
    }

    /// How many entries there are, or were before they were damaged, of each member.
    fn copies(&self) -> HashMap<Lsn, usize> {
        let mut copies = HashMap::new();
        for lsn in self
            .members
            .iter()
            .map(Found::lsn)
            .chain(self.damaged.iter().copied())
        {
            *copies.entry(lsn).or_default() += 1;
        }
        copies
    }

    fn locations(&self) -> impl Iterator<Item = Location> {
        self.members.iter().map(|member| member.slot().location)
    }
}

impl SeenGroups {
    /// Takes members and commit entries from what was put aside. `rebooted`: the machine has been started again since.
    pub(crate) fn take(aside: &mut Aside, durable_lsn: u64, rebooted: bool) -> Self {
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
        let mut seen = Self {
            by_number,
            durable_lsn,
        };
        seen.take_damaged(aside, rebooted);
        seen
    }

    /// Notes which members are not missing, but damaged: damage to one is no reason to undo the others. Where the bytes do not
    /// say whose member it was, its number does: a group's members have theirs between that of the group and that of the
    /// commit entry, and as long as the machine has not been started again, a commit entry is there because its members were.
    fn take_damaged(&mut self, aside: &mut Aside, rebooted: bool) {
        let mut unplaced = Vec::new();
        for (number, lsn) in aside.damaged_members.drain(..) {
            match self.by_number.get_mut(&number) {
                Some(group) => drop(group.damaged.insert(lsn)),
                None => unplaced.push(lsn),
            }
        }
        let is_version = |(_, line): &&(Location, Line)| is_version(line.kind);
        let lost = aside.lost.iter().filter(is_version);
        unplaced.extend(lost.map(|(_, line)| line.lsn));
        if rebooted || unplaced.is_empty() {
            return;
        }
        unplaced.sort_unstable();
        for (number, group) in &mut self.by_number {
            let Some((_, commit)) = group.commits.first() else {
                continue;
            };
            let from = unplaced.partition_point(|lsn| lsn.0 <= *number);
            let between = unplaced.iter().skip(from);
            let between = between.take_while(|lsn| **lsn < commit.lsn);
            group.damaged.extend(between);
        }
    }

    /// Finds the deltas that do not count, since the version before is lost or undone, or another member of their group
    /// does not count. A group that misses one is undone, and with it what builds on the others.
    pub(crate) fn without_ground(
        &self,
        aside: &Aside,
        log: &Log,
        blocks: &[UsedBlock],
    ) -> HashSet<Location> {
        let deltas = &aside.young_deltas;
        if deltas.is_empty() {
            return HashSet::new();
        }
        let mut search = Search {
            groups: self,
            followers: HashMap::new(),
            groundless: HashSet::new(),
            undone: HashSet::new(),
            copies: HashMap::new(),
            pending: Vec::new(),
        };
        for delta in deltas {
            let followers = search.followers.entry(delta.before.0).or_default();
            followers.push(delta);
        }
        for (number, group) in &self.by_number {
            if group.commit(self.durable_lsn).is_none() {
                search.undo(*number, group);
            }
        }
        let reach = Reach::new(aside, blocks);
        let guard = epoch::pin();
        for delta in deltas {
            if reach.is_lost(log, delta.before, &guard) {
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
            if group.commit(self.durable_lsn).is_some() {
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
            let Some(commit) = group.commit(self.durable_lsn) else {
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
    /// Of groups that have lost deltas, how many entries are left of each member.
    copies: HashMap<u64, HashMap<Lsn, usize>>,
    /// Entries that do not count, and whose followers have not been looked at.
    pending: Vec<Location>,
}

impl Search<'_> {
    fn drop_delta(&mut self, delta: &YoungDelta) {
        if !self.groundless.insert(delta.location) {
            return;
        }
        self.pending.push(delta.location);
        let groups = self.groups;
        let Some(number) = delta.group.filter(|number| !self.undone.contains(number)) else {
            return;
        };
        let group = groups.by_number.get(&number);
        let Some(group) = group.filter(|group| !group.was_durable(groups.durable_lsn)) else {
            return;
        };
        let copies = self.copies.entry(number);
        let copies = copies.or_insert_with(|| group.copies());
        // Folding may have written the same version whole.
        let left = copies.entry(delta.lsn).or_default();
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.undo(number, group);
        }
    }

    fn undo(&mut self, number: u64, group: &SeenGroup) {
        if self.undone.insert(number) {
            self.pending.extend(group.locations());
        }
    }
}

/// How far the blocks reach that were read.
struct Reach {
    /// Offsets in the device: where each block ends, and up to where it was durable.
    blocks: HashMap<BlockId, (u64, u64)>,
}

impl Reach {
    fn new(aside: &Aside, blocks: &[UsedBlock]) -> Self {
        let ends: HashMap<BlockId, u64> = aside
            .ends
            .iter()
            .map(|(block, end)| (*block, end.end))
            .collect();
        let reach = |block: &UsedBlock| {
            let end = ends.get(&block.id).copied().unwrap_or_default();
            let durable_to = match block.format {
                Format::Two => block.durable_to,
                // Nothing is written to it any more, and the first opening to write has synced what it held.
                Format::One => BLOCK_BYTES,
            };
            let start = block.id.offset_bytes();
            (block.id, (start + end, start + durable_to))
        };
        Self {
            blocks: blocks.iter().map(reach).collect(),
        }
    }

    /// Whether a version that a delta builds on never reached the device, or was taken back. Of one that did and is damaged,
    /// the delta's record says so when it is read: that takes the ground from nothing. Its number would not tell: what
    /// defragmentation has written has that of its original, and may be younger than the last sync.
    fn is_lost(&self, log: &Log, (location, lsn): (Location, Lsn), guard: &Guard) -> bool {
        let id = BlockId::containing(location.device(), location.offset_bytes());
        let at = location.offset_bytes();
        let Some((end, durable_to)) = self.blocks.get(&id) else {
            // A block that is in use and was not read has lost its header: that is damage.
            let block = log.block(id);
            return block.is_none_or(|block| block.phase() == Phase::Free);
        };
        // Behind the end of a block it does not count, even if it has come to the device: what was before it has not.
        if at >= *end {
            return true;
        }
        let entry = log.entry(location, guard);
        let found = entry
            .as_ref()
            .map(|entry| entry.view())
            .filter(|view| log.holds(location, view));
        match found {
            Some(view) => {
                let counts = view.kind_is(Kind::Record) || view.kind_is(Kind::Delta);
                view.lsn() != lsn || !counts
            }
            None => at >= *durable_to,
        }
    }
}

fn is_current(index: &Index, found: &Found) -> bool {
    let partition = index.lock(&found.digest());
    let location = found.slot().location;
    partition
        .find(found.digest().tag(), |slot| slot.location == location)
        .is_some()
}
