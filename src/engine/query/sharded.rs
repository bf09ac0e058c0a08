//! Records with sharded collections: a query finds a companion's elements, and shows the root,
//! once.
//!
//! The entry of a companion is that which the root would have, with the companion's digest behind
//! it (`Index::entries_of`). So an element keeps its place in the order of the index while it moves
//! between root and companions, and all records that have it stand side by side, in one leaf
//! (`OrderedEntries::in_groups`). Its entry at the new place is added before the one at the old
//! place is removed, so a copy of the leaf has one of them at least: a query that finds a record
//! without the entry looks at the index again.

use spikelet_storage::{Digest, EntryView};

use super::super::core::{NamespaceCore, expired};
use super::super::indexes::{Index, split_entry};
use super::standing::{EntrySearch, EntryStanding};
use crate::Result;
use crate::expression::RecordFacts;
use crate::index::{EntryList, EntryRange, EntrySelection};
use crate::record::{BinName, HashShards, Key, RecordView, companion_name, hash_shards};

/// How often an element that moves is looked for. Each look that fails has met a step of a
/// transition.
const LOOKS_MAX: usize = 64;

/// A root with its sharded collection, and the parts of its companions' keys.
#[derive(Debug)]
struct ShardedRoot {
    digest: Digest,
    set_name: Box<str>,
    key: Key<'static>,
    bin: BinName,
    shards: HashShards,
}

/// The fate of a place of an entry.
enum EntryFate {
    /// Its record was shown, or is not to be shown.
    Decided,
    /// The record does not have the entry.
    Stale,
    /// The collection is at another place by now.
    Moved,
    /// The place has the entry, and is not wanted.
    Other,
}

impl NamespaceCore {
    /// Lends the record of an entry to `show`, if it has the entry, itself or in a companion, and
    /// this is the first of its entries that is asked for. Removes entries that their records do
    /// not have.
    pub(super) fn find_entry(
        &self,
        search: EntrySearch<'_>,
        entry: &[u8],
        show: &mut impl FnMut(&EntryView<'_>, RecordView<'_>),
    ) -> Result<()> {
        let index = search.index;
        if !index.has_companions() {
            match self.look_at_root(search, entry, true, show)? {
                // Its collection has been sharded since the entry was copied.
                EntryFate::Stale if index.has_companions() => {}
                EntryFate::Stale => {
                    self.clean_entry(index, entry);
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
        // A record and its companions are shown once.
        let search = EntrySearch {
            at_each: false,
            ..search
        };
        let range = EntryRange::with_prefix(entry);
        let mut places = EntryList::default();
        for _ in 0..LOOKS_MAX {
            let before = std::mem::take(&mut places);
            index.entries.copy(&range, false, usize::MAX, &mut places);
            // Its root may have stopped reading a companion after that was read: then the element
            // is at another place by now.
            let mut has_moved = !places.iter().eq(before.iter());
            for place in places.iter() {
                let look = if place.len() == entry.len() {
                    self.look_at_root(search, entry, false, show)?
                } else {
                    self.look_at_companion(search, (entry, place), show)?
                };
                match look {
                    EntryFate::Decided => return Ok(()),
                    EntryFate::Stale => {
                        has_moved = true;
                        self.clean_entry(index, place);
                    }
                    EntryFate::Moved => has_moved = true,
                    EntryFate::Other => {}
                }
            }
            if !has_moved {
                return Ok(());
            }
        }
        Ok(())
    }

    /// `alone`: the index has no companions, so that the record's own entries say which is its
    /// first one.
    fn look_at_root(
        &self,
        search: EntrySearch<'_>,
        entry: &[u8],
        alone: bool,
        show: &mut impl FnMut(&EntryView<'_>, RecordView<'_>),
    ) -> Result<EntryFate> {
        let EntrySearch {
            index, asked, met, ..
        } = search;
        let (_, root) = split_entry(entry);
        let found = self.storage.get(&root, |stored| {
            let (at, scratch) = ((&stored, self.clock.now_ms()), &mut EntryList::default());
            Ok(match self.standing(search, Some(entry), at, scratch)? {
                EntryStanding::Absent => EntryFate::Stale,
                EntryStanding::Shown(record) => {
                    if alone || asked.is_one_key(index.values) || met.roots.lock().insert(root) {
                        show(&stored, record);
                    }
                    EntryFate::Decided
                }
                EntryStanding::NotShown => EntryFate::Decided,
            })
        })?;
        found.unwrap_or(Ok(EntryFate::Stale))
    }

    fn look_at_companion(
        &self,
        search: EntrySearch<'_>,
        (entry, place): (&[u8], &[u8]),
        show: &mut impl FnMut(&EntryView<'_>, RecordView<'_>),
    ) -> Result<EntryFate> {
        let EntrySearch {
            index, asked, met, ..
        } = search;
        let ((_, digest), (_, companion)) = (split_entry(entry), split_entry(place));
        let found = self.with_entries(index, &companion, |record, facts, entries| {
            let name = companion_name(record).filter(|_| entries.contains(place));
            // Elements of time shards have no index.
            let Some(name) = name.filter(|name| name.begin.is_none()) else {
                return Ok(None);
            };
            let holds = asked.holds(&index.reader, record, facts, None)?;
            let is_by_bin = name.bin.is_some();
            Ok(Some((name.root.into_owned(), name.shard, is_by_bin, holds)))
        })?;
        let Some((key, shard, is_by_bin, holds)) = found.flatten() else {
            return Ok(EntryFate::Stale);
        };
        let Some((root, has_entry)) = self.sharded_root(index, &digest, Some(key), entry)? else {
            return Ok(EntryFate::Other);
        };
        let Some(root) = root else {
            return Ok(if has_entry {
                EntryFate::Moved
            } else {
                EntryFate::Other
            });
        };
        let is_its = shard < root.shards.companions
            && is_by_bin == root.shards.keys.by_bin()
            && !root.shards.is_being_deleted;
        if !(holds && is_its) {
            return Ok(EntryFate::Other);
        }
        if !asked.is_one_key(index.values) {
            let is_new = met.roots.lock().insert(digest);
            if !is_new || (met.looks_back && self.has_entry_before(search, &root, entry)) {
                return Ok(EntryFate::Decided);
            }
        }
        self.read_live(&digest, |stored| {
            let is_of_set = search.set_id.is_none_or(|id| id == stored.set_id());
            if let (true, Ok(record)) = (is_of_set, RecordView::parse(stored.payload())) {
                show(stored, record);
            }
        })?;
        Ok(EntryFate::Decided)
    }

    /// The collection of a live root, if it is sharded, and whether the root itself has an entry.
    /// `None`: there is no such record. Without a key, that which the record stores.
    fn sharded_root(
        &self,
        index: &Index,
        digest: &Digest,
        key: Option<Key<'static>>,
        entry: &[u8],
    ) -> Result<Option<(Option<ShardedRoot>, bool)>> {
        let Some(bin) = index.reader.parts_of() else {
            return Ok(None);
        };
        self.with_entries(index, digest, |record, facts, own| {
            let described = hash_shards(record, bin.as_str());
            let root = described.and_then(|shards| {
                Some(ShardedRoot {
                    digest: *digest,
                    set_name: facts.set_name.into(),
                    key: key.or_else(|| Some(self.own_key(facts)?.into_owned()))?,
                    bin,
                    shards,
                })
            });
            Ok((root, own.contains(entry)))
        })
    }

    /// The key that a record stores, if the keys of companions can be formed from it. Wire clients
    /// choose digest and key of a record, and have types of keys of their own.
    fn own_key<'a>(&self, facts: &RecordFacts<'a>) -> Option<Key<'a>> {
        let key = Key::from_stored(facts.key?).ok()?;
        (self.key_hash.digest(facts.set_name, &key) == facts.digest).then_some(key)
    }

    /// Whether a companion of a record has an entry that is asked for. True for a root that does
    /// not store its key: its companions cannot be addressed.
    pub(super) fn companions_fit(
        &self,
        index: &Index,
        asked: &EntrySelection,
        digest: &Digest,
    ) -> Result<bool> {
        if !index.has_companions() {
            return Ok(false);
        }
        let root = self.sharded_root(index, digest, None, &[])?;
        Ok(match root.and_then(|(root, _)| root) {
            Some(root) if root.shards.is_being_deleted => false,
            Some(root) => self.has_entry_where(index, asked, &root, |_| true),
            None => self.is_keyless_root(index, digest)?,
        })
    }

    fn is_keyless_root(&self, index: &Index, digest: &Digest) -> Result<bool> {
        let Some(bin) = index.reader.parts_of() else {
            return Ok(false);
        };
        let found = self.with_entries(index, digest, |record, facts, _| {
            Ok(self.own_key(facts).is_none() && hash_shards(record, bin.as_str()).is_some())
        })?;
        Ok(found.unwrap_or(false))
    }

    /// Whether a root, or a companion of it, has an entry that is asked for and comes before this
    /// one.
    fn has_entry_before(&self, search: EntrySearch<'_>, root: &ShardedRoot, entry: &[u8]) -> bool {
        self.has_entry_where(search.index, search.asked, root, |other| {
            if search.descending {
                other > entry
            } else {
                other < entry
            }
        })
    }

    /// Whether a root, or a companion of it, has an entry that is asked for, and for which `fits`
    /// holds. Reads all of them, in a batch. A damaged one has none.
    fn has_entry_where(
        &self,
        index: &Index,
        asked: &EntrySelection,
        root: &ShardedRoot,
        fits: impl Fn(&[u8]) -> bool,
    ) -> bool {
        let of = (&*root.set_name, &root.key);
        let companions = root.shards.digests(self.key_hash, of, root.bin.as_str());
        let digests: Vec<Digest> = companions.chain([root.digest]).collect();
        let now_ms = self.clock.now_ms();
        let mut found = false;
        self.storage.get_batch(&digests, |_, stored| {
            let Ok(Some(stored)) = stored else {
                return;
            };
            if found || expired(&stored, now_ms) {
                return;
            }
            let has_one = self.with_entries_of(index, &stored, |record, facts, entries| {
                let mut others = entries.iter().map(|other| index.without_companion(other));
                Ok(
                    others.any(|other| asked.ranges.contains(other) && fits(other))
                        && asked.holds(&index.reader, record, facts, None)?,
                )
            });
            found = has_one.unwrap_or(false);
        });
        found
    }

    /// Lends a live record of an index's set, with its entries.
    fn with_entries<R>(
        &self,
        index: &Index,
        digest: &Digest,
        read: impl FnOnce(RecordView<'_>, &RecordFacts<'_>, &EntryList) -> Result<R>,
    ) -> Result<Option<R>> {
        let found = self.read_live(digest, |stored| {
            if !index.is_of(stored.set_id()) {
                return Ok(None);
            }
            self.with_entries_of(index, stored, read).map(Some)
        })?;
        found.unwrap_or(Ok(None))
    }
}
