//! Records as backups see them: read whole, by digest, and written with the generation and the void
//! time that they had.

use std::collections::HashMap;

use spikelet_storage::{Change, Digest, EntryView, NewVersion};

use crate::record::body::{RawBin, checked_bin_count, write_varint};
use crate::record::{
    Key, OwnedBins, RecordView, Replacer, ShardRole, describes_shards, keeps_description,
    sharded_bins, transitions,
};

use crate::error::ShardLoss;
use crate::{Error, Result};

use super::core::{expired, metadata_of};
use super::declaration::{BUILT, DECLARATION_SET, DeclaredSide, RelationDeclaration, SideForm};
use super::entry::check_size;
use super::namespace::Namespace;
use super::policy::{Acknowledge, ShardAccess};
use super::refusals::{check_key, wrong_set};
use super::scratch::Scratch;

/// A version of a record, as it was saved or is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedVersion<'a> {
    pub(crate) digest: Digest,
    /// The user key in its stored form, if it is there.
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) generation: u16,
    /// When it expires, in seconds since 2010; 0: never.
    pub(crate) void_time: u32,
    pub(crate) bins: RecordView<'a>,
}

/// How a saved version is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteSavedPolicy {
    pub(crate) existing: Existing,
    /// Whether that may break a sharded collection.
    pub(crate) override_shards: bool,
    /// The acknowledgement of each write: [`Namespace::settle`] waits for many at once.
    pub(crate) acknowledge: Acknowledge,
}

/// What becomes of a record that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays.
    Stays,
    /// The saved bins are written into it if its generation is lower than the saved one, or `any`.
    Takes { any: bool },
    /// It is replaced, on the same condition.
    Goes { any: bool },
}

/// What a write of a saved version has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteSaved {
    Written,
    /// The record exists, and was to stay; or it is a row of a view that the store makes itself.
    Existed,
    /// The record is as new as the saved one, or newer.
    Fresher,
}

impl SavedVersion<'_> {
    /// Whether a record is as new or newer: by its generation, which a record that was made anew
    /// begins again; records of sharded collections by their last transition first.
    fn is_older_than(&self, live: &EntryView<'_>) -> bool {
        // A record that does not parse says nothing of transitions.
        let parsed = RecordView::parse(live.payload()).ok();
        match parsed.and_then(|live| transitions(live, self.bins)) {
            Some((live, saved)) if live != saved => live > saved,
            _ => live.generation() >= self.generation,
        }
    }

    /// The user key, if it is there.
    pub(crate) fn stored_key(&self) -> Option<Key<'static>> {
        Key::from_stored(self.key?).ok().map(Key::into_owned)
    }

    fn is_companion(&self) -> bool {
        ShardRole::of(self.bins.as_bytes()) == ShardRole::Companion
    }
}

impl Namespace {
    /// Lends a record and the number of its set to `save`; `None` if it is gone meanwhile.
    ///
    /// # Errors
    /// [`crate::Error::Storage`] or [`crate::Error::Malformed`] if it is damaged, and what `save`
    /// returns.
    pub(crate) fn read_to_save<R>(
        &self,
        digest: &Digest,
        save: impl FnOnce(u16, &SavedVersion<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let saved = self.core.read_live(digest, |entry| {
            let version = SavedVersion {
                digest: entry.digest(),
                key: entry.key(),
                generation: entry.generation(),
                void_time: entry.void_time(),
                bins: RecordView::parse(entry.payload())?,
            };
            save(entry.set_id(), &version)
        })?;
        saved.transpose()
    }

    /// Whether a record of this void time has expired.
    pub(crate) fn is_past(&self, void_time: u32) -> bool {
        void_time != 0 && u64::from(void_time) < self.core.clock.now_ms() / 1000
    }

    /// The largest record with its header, in bytes.
    pub(crate) fn max_record_bytes(&self) -> u64 {
        self.core.max_record_bytes
    }

    /// Writes a saved version, which must have bins, and gives the record its generation and void
    /// time. A damaged record there is replaced. The record is as new as the write: a backup does
    /// not say when it was last updated.
    ///
    /// # Errors
    /// [`crate::Error::RecordTooBig`], [`crate::Error::KeyBusy`], [`crate::Error::KeyMismatch`], a
    /// record of another set, no room; a declaration that contradicts one of this namespace;
    /// [`crate::Error::ShardRoot`] and [`crate::Error::ShardCompanion`] where a sharded collection
    /// would be broken, [`crate::Error::ShardKeyCollision`] where a companion would be written into
    /// an ordinary record. Nothing was changed then.
    pub(crate) fn write_saved(
        &self,
        set: &str,
        saved: &SavedVersion<'_>,
        policy: WriteSavedPolicy,
    ) -> Result<WriteSaved> {
        self.check_declaration(set, saved, policy)?;
        if self.keeps_rows(set) {
            return Ok(WriteSaved::Existed);
        }
        let (core, mut body) = (&self.core, Scratch::take());
        let body: &mut Vec<u8> = &mut body;
        let existing = policy.existing;
        let set_id = core.storage.create_set(set)?;
        let mut lock = core.storage.lock(&saved.digest, None)?;
        let now_ms = core.clock.now_ms();
        let entry = match lock.entry() {
            Err(error) if error.is_damage() => None,
            entry => entry?,
        };
        let live = entry.filter(|entry| !expired(entry, now_ms));
        let mut merged_with = None;
        if let Some(live) = &live {
            match existing {
                Existing::Stays => return Ok(WriteSaved::Existed),
                Existing::Takes { any: false } | Existing::Goes { any: false }
                    if saved.is_older_than(live) =>
                {
                    return Ok(WriteSaved::Fresher);
                }
                Existing::Takes { .. } => merged_with = Some(RecordView::parse(live.payload())?),
                Existing::Goes { .. } => {}
            }
            if live.set_id() != set_id {
                return Err(wrong_set(set));
            }
            check_key(saved.key, live.key())?;
        }
        match merged_with {
            Some(old) => merge(old, saved.bins, body)?,
            None => body.extend_from_slice(saved.bins.as_bytes()),
        }
        if set == DECLARATION_SET {
            // A view that was built in another store, or at another time, is not built here.
            let restored = std::mem::take(body);
            append_without(RecordView::parse(&restored)?, BUILT, body)?;
        }
        if let Some(live) = &live
            && !policy.override_shards
            && let Some(rules) = core.rules_for(set_id, ShardAccess::Protected)
            && let Some(kept) =
                OwnedBins::new(&rules.owned).keep(live.payload(), body, Replacer::User)?
        {
            if saved.is_companion() && ShardRole::of(live.payload()) == ShardRole::Companion {
                return Ok(WriteSaved::Existed);
            }
            *body = kept;
        }
        let was_root = |live: &EntryView<'_>| ShardRole::of(live.payload()) == ShardRole::Root;
        let root = live.as_ref().filter(|live| was_root(live));
        if let Some(live) = &live
            && !policy.override_shards
        {
            check_shards(set, saved, (live.payload(), body), existing)?;
        }
        let is_other_root = root.is_some_and(|root| !keeps_description(root.payload(), body));
        // A key that is stored stays.
        let stored_key = live.and_then(|live| live.key()).map(<[u8]>::to_vec);
        let key = saved.key.or(stored_key.as_deref());
        check_size(core.max_record_bytes, key, body)?;
        let updated_ms = live.map_or(0, |live| metadata_of(&live).last_update_ms);
        let change = Change::Put(NewVersion {
            generation: saved.generation,
            void_time: saved.void_time,
            last_update_ms: now_ms.max(updated_ms),
            set_id,
            key,
            payload: body,
        });
        core.note_lost_roots(is_other_root.into());
        let published = core.publish(&mut lock, &change)?;
        drop(lock);
        core.note_lost_roots(is_other_root.into());
        core.acknowledge(published, policy.acknowledge)?;
        Ok(WriteSaved::Written)
    }

    /// Whether a set is a view of which an updater of this store makes the rows, from the changes
    /// of their items: saved rows of another generation would stay as they are.
    fn keeps_rows(&self, set: &str) -> bool {
        let table = self.core.relations.table.read();
        let is_view = |side: &DeclaredSide| side.form == SideForm::View && *side.set == *set;
        let mut views = table.declarations.iter();
        let Some(view) = views.find(|known| known.sides.iter().any(is_view)) else {
            return false;
        };
        let name = view.name.clone();
        drop(table);
        self.changes().subscription(&name).is_ok()
    }

    /// Refuses a saved declaration of a relation that would be written and contradicts one of this
    /// namespace. Other records are none.
    ///
    /// # Errors
    /// [`crate::Error::Parameter`].
    pub(crate) fn check_declaration(
        &self,
        set: &str,
        saved: &SavedVersion<'_>,
        policy: WriteSavedPolicy,
    ) -> Result<()> {
        if set != DECLARATION_SET || policy.override_shards {
            return Ok(());
        }
        let Some(declared) = RelationDeclaration::of_bins(saved.bins) else {
            return Ok(());
        };
        let live = (self.core).read_live(&saved.digest, |live| live.generation());
        let live = match live {
            Err(error) if error.is_damage() => None,
            live => live?,
        };
        let stays = live.is_some_and(|generation| match policy.existing {
            Existing::Stays => true,
            Existing::Takes { any } | Existing::Goes { any } => {
                !any && generation >= saved.generation
            }
        });
        if stays {
            return Ok(());
        }
        declared.check_restored(&self.core.relations.table.read().declarations)
    }

    /// Waits until all that was written is as durable as the namespace promises.
    ///
    /// # Errors
    /// [`crate::Error::Storage`] if a sync failed.
    pub(crate) fn settle(&self) -> Result<()> {
        Ok(self.core.storage.settle(self.core.storage.last_lsn())?)
    }
}

/// Refuses to break a sharded collection: companions and other records are kept apart, and a root
/// keeps each of its collections, with the bin as whoever describes it has it, and does not expire.
fn check_shards(
    set: &str,
    saved: &SavedVersion<'_>,
    (live, body): (&[u8], &[u8]),
    existing: Existing,
) -> Result<()> {
    let key = saved.key.and_then(|key| Key::from_stored(key).ok());
    let key = key.map_or_else(|| saved.digest.to_string(), |key| key.bare());
    let (set, key) = (set.into(), key.into());
    let is_merged = matches!(existing, Existing::Takes { .. });
    match (
        ShardRole::of(live) == ShardRole::Companion,
        saved.is_companion(),
    ) {
        (true, false) => Err(Error::ShardCompanion { set, key }),
        (false, true) if is_merged || ShardRole::of(live) == ShardRole::Root => {
            Err(Error::ShardKeyCollision { key })
        }
        (false, false) => match loss_of(saved, live, body)? {
            Some(loses) => Err(Error::ShardRoot { set, key, loses }),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// What the collections of a record would lose that a saved version is written into.
fn loss_of(saved: &SavedVersion<'_>, live: &[u8], body: &[u8]) -> Result<Option<ShardLoss>> {
    let (was_root, is_root) = (
        ShardRole::of(live) == ShardRole::Root,
        ShardRole::of(body) == ShardRole::Root,
    );
    if !was_root && !is_root {
        return Ok(None);
    }
    let (live, body) = (RecordView::parse(live)?, RecordView::parse(body)?);
    let (before, after) = (sharded_bins(live), sharded_bins(body));
    let is_in = |sharded: &[(&str, _)], bin: &str| sharded.iter().any(|(known, _)| *known == bin);
    if was_root && !is_root || before.iter().any(|(bin, _)| !is_in(&after, bin)) {
        return Ok(Some(ShardLoss::Now));
    }
    let described = sharded_bins(saved.bins);
    let is_foreign = |(bin, _): &(&str, _)| {
        let source = if is_in(&described, bin) {
            saved.bins
        } else {
            live
        };
        body.particle(bin) != source.particle(bin)
    };
    if after.iter().any(is_foreign) {
        return Ok(Some(ShardLoss::Beside));
    }
    let expires = saved.void_time != 0 && was_root && described.is_empty();
    Ok(expires.then_some(ShardLoss::Later))
}

/// Appends the body of a record without one of its bins. O(bytes).
fn append_without(bins: RecordView<'_>, left_out: &str, out: &mut Vec<u8>) -> Result<()> {
    let kept = || {
        bins.raw_bins()
            .filter(|bin| bin.name != left_out.as_bytes())
    };
    write_varint(out, checked_bin_count(kept().count())?);
    kept().for_each(|bin| out.extend_from_slice(bin.bytes));
    Ok(())
}

/// Appends the body of `old` with the bins of `new` written into it: bins keep their places, new
/// ones go to the end. A companion is taken whole, and so is the description of sharded
/// collections, with their bins. O(bytes).
fn merge(old: RecordView<'_>, new: RecordView<'_>, out: &mut Vec<u8>) -> Result<()> {
    let is_companion =
        |view: RecordView<'_>| ShardRole::of(view.as_bytes()) == ShardRole::Companion;
    if is_companion(old) && is_companion(new) {
        out.extend_from_slice(new.as_bytes());
        return Ok(());
    }
    let sharded = sharded_bins(new);
    let describes = new.raw_bins().any(|bin| describes_shards(bin.name));
    let goes = |bin: &RawBin<'_>| {
        describes && describes_shards(bin.name)
            || sharded.iter().any(|(name, _)| name.as_bytes() == bin.name)
    };
    let mut news: HashMap<&[u8], RawBin<'_>> = new.raw_bins().map(|bin| (bin.name, bin)).collect();
    let kept: Vec<RawBin<'_>> = old
        .raw_bins()
        .filter_map(|bin| match news.remove(bin.name) {
            None => (!goes(&bin)).then_some(bin),
            new => new,
        })
        .collect();
    write_varint(out, checked_bin_count(kept.len() + news.len())?);
    let added = new.raw_bins().filter(|bin| news.contains_key(bin.name));
    for bin in kept.into_iter().chain(added) {
        out.extend_from_slice(bin.bytes);
    }
    Ok(())
}
