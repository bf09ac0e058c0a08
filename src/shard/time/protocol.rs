//! The order of the steps: how buckets are made, found, read and deleted by many at once, any of
//! whom may stop for ever.
//!
//! * A record of the collection is *placed* first: described, without content, closed by a token
//!   that is never used again. It is *opened* only by callers who knew its token when they found
//!   the root still at its epoch. So a caller who wakes up after the collection was deleted leaves
//!   a closed record at worst, and nothing is ever acknowledged into it.
//! * It is entered into the directory before that look at the root: every open record is found from
//!   the top page, and a deletion of the collection sees its entry.
//! * Pages are deleted behind all that they list.
//!
//! All of it is written against [`TimeSteps`], each of which is one request on one record.
//! `record_steps` executes these on a store; the `model` does so on plain data, in every order.

use super::calendar::TimeBucket;
use super::directory::{Buckets, Entries};
use super::layout::{CollectionPart, DirectoryPage, PageEntry};
use super::steps::{
    ActOf, AnswerOf, Direction, ReadResult, StepError, StepOutcome, TimeSteps, TimedKind, is_newer,
    is_open,
};
use crate::shard::protocol::rules::{ProtocolRule, keeps};
use crate::shard::protocol::{
    CompanionRoute, CompanionState, CompanionToken, Observation, RequestEdit, RouteHint,
};
use crate::shard::route_cache::RouteCache;
use crate::shard::scheme::{Epoch, Scheme};
use crate::{Error, Result};

/// How often one call may find its reading changed by others. Beyond this, another caller deletes
/// and begins collections without end.
const ATTEMPTS_MAX: u32 = 1_000;

/// One collection.
#[derive(Debug)]
pub(super) struct Protocol<S> {
    pub(super) steps: S,
    /// Where it was at the last look at its root.
    routes: RouteCache,
}

impl<S: TimeSteps> Protocol<S> {
    pub(super) fn new(steps: S) -> Self {
        Self {
            steps,
            routes: RouteCache::default(),
        }
    }

    /// A caller that remembers a route.
    #[cfg(test)]
    pub(super) fn with_route(steps: S, route: Option<CompanionRoute>) -> Self {
        let protocol = Self::new(steps);
        protocol.remember(route, protocol.steps.lost_roots());
        protocol
    }

    /// Does something with the record of a part that is made if need be.
    pub(super) fn add(&self, part: CollectionPart, act: &ActOf<S>) -> Result<AnswerOf<S>> {
        for _ in 0..ATTEMPTS_MAX {
            self.begin_attempt();
            let Some(route) = self.route_to_add(part)? else {
                continue;
            };
            match self.steps.act(route, part, act)? {
                StepOutcome::Done(answer) => return Ok(answer),
                StepOutcome::NotFound => self.make(route, part)?,
                StepOutcome::FilteredOut => self.resolve(route, part)?,
            };
        }
        Err(self.steps.restless())
    }

    /// Does something with the record of a part if there is one.
    pub(super) fn remove(
        &self,
        bucket: TimeBucket,
        part: CollectionPart,
        act: &ActOf<S>,
    ) -> Result<Option<AnswerOf<S>>> {
        for _ in 0..ATTEMPTS_MAX {
            self.begin_attempt();
            let remembered = self.recalled();
            let route = match remembered {
                Some(route) => route,
                None => match self.read_root()?.map(|seen| seen.root.companions()) {
                    Some(Some(route)) => route,
                    Some(None) => return Ok(None),
                    None => continue,
                },
            };
            let horizon = self.steps.horizon()?;
            if horizon.is_some_and(|horizon| bucket < horizon) {
                return Ok(None);
            }
            match self.steps.act(route, part, act)? {
                StepOutcome::Done(answer) => return Ok(Some(answer)),
                // By now it may be under other keys.
                _ if remembered.is_some() && keeps(ProtocolRule::AbsentByFreshRoute) => {
                    self.forget()
                }
                StepOutcome::NotFound => return Ok(None),
                StepOutcome::FilteredOut => {
                    let found = self.steps.look(route.keys, part)?;
                    if is_newer(found, route.epoch) {
                        self.forget();
                    } else if !is_open(found, route.epoch) {
                        // Left over, or nothing was added yet.
                        return Ok(None);
                    }
                }
            }
        }
        Err(self.steps.restless())
    }

    /// Reads buckets from one to another, both included, as far as they are kept. `read` is called
    /// again when the collection was deleted and begun anew meanwhile.
    pub(super) fn read<T: Default>(
        &self,
        (first, last): (TimeBucket, TimeBucket),
        direction: Direction,
        mut read: impl FnMut(&S, CompanionRoute, &mut Buckets<'_, S>) -> ReadResult<T>,
    ) -> Result<T> {
        for _ in 0..ATTEMPTS_MAX {
            self.begin_attempt();
            let Some(seen) = self.read_root()? else {
                continue;
            };
            let Some(route) = seen.root.companions() else {
                return Ok(T::default());
            };
            let kept = self.steps.horizon()?;
            let first = kept.map_or(first, |horizon| first.max(horizon));
            if first > last {
                return Ok(T::default());
            }
            let mut buckets = Buckets::new(&self.steps, route, (first, last), direction);
            match read(&self.steps, route, &mut buckets) {
                Ok(read) => return Ok(read),
                Err(StepError::Failed(error)) => return Err(error),
                Err(StepError::Stale(())) => {}
            }
        }
        Err(self.steps.restless())
    }

    /// Deletes the collection.
    pub(super) fn delete(&self) -> Result<()> {
        for _ in 0..ATTEMPTS_MAX {
            self.begin_attempt();
            let Some(Observation { root, .. }) = self.read_root()? else {
                continue;
            };
            if root.scheme == Scheme::Unsharded {
                return Ok(());
            }
            if let StepOutcome::Done(()) = self.steps.mark_deleting(&root)? {
                // To its end, by this call or by another one.
                return self.read_root().map(drop);
            }
        }
        Err(self.steps.restless())
    }

    /// Returns the route to a collection that buckets can be added to. `None`: it was begun, or a
    /// deletion was ended; look again.
    fn route_to_add(&self, part: CollectionPart) -> Result<Option<CompanionRoute>> {
        if let Some(route) = self.recalled() {
            return Ok(Some(route));
        }
        let Some(seen) = self.read_root()? else {
            return Ok(None);
        };
        match seen.root.companions() {
            None => self.begin(&seen, part).map(|()| None),
            route => Ok(route),
        }
    }

    /// Makes the collection. Its epoch is above all epochs of leftovers: a root that was deleted by
    /// hand has left no number to begin after.
    fn begin(&self, seen: &Observation<S::Kind>, first: CollectionPart) -> Result<()> {
        if seen.has_bin {
            let why = format!(
                "the record has a bin {:?} of its own: time shards begin empty, take another name",
                self.steps.bin().as_str()
            );
            return Err(Error::not_applicable(why.into()));
        }
        let mut after = Epoch::default();
        // Every generation has a top page.
        for part in [CollectionPart::Page(DirectoryPage::Top), first] {
            if let Some((found, _)) = self.steps.look(seen.root.keys, part)? {
                after = after.max(found.epoch);
            }
        }
        self.steps.begin(&seen.root, after).map(drop)
    }

    /// Makes a part that was not there, or the page that is to list it. Returns whether the route
    /// still holds, as far as is known.
    fn make(&self, route: CompanionRoute, part: CollectionPart) -> Result<bool> {
        if keeps(ProtocolRule::EnterBeforeEvidence)
            && let Some(holds) = self.enter(route, part)?
        {
            return Ok(holds);
        }
        let holds = match self.steps.place(route, part)? {
            Some(token) => self.open(route, part, token)?,
            None => true,
        };
        if !keeps(ProtocolRule::EnterBeforeEvidence) {
            self.enter(route, part)?;
        }
        Ok(holds)
    }

    /// Goes on with a part that is not open at this route. Returns as [`Protocol::make`].
    fn resolve(&self, route: CompanionRoute, part: CollectionPart) -> Result<bool> {
        match self.steps.look(route.keys, part)? {
            // It was entered before it was placed.
            Some((found, CompanionState::Placed(token))) if found.epoch == route.epoch => {
                self.open(route, part, token)
            }
            Some((found, _)) if found.epoch < route.epoch => self.make(route, part),
            found if is_newer(found, route.epoch) => {
                self.forget();
                Ok(false)
            }
            // It was opened, or taken away, a moment ago.
            _ => Ok(true),
        }
    }

    /// Opens a placed record, if the collection is still the same. Returns as [`Protocol::make`].
    fn open(
        &self,
        route: CompanionRoute,
        part: CollectionPart,
        token: CompanionToken,
    ) -> Result<bool> {
        let is_current =
            !keeps(ProtocolRule::Evidence) || self.steps.root()?.root.route() == Some(route);
        if is_current {
            let fill = RequestEdit::Fill(S::Kind::EMPTY);
            self.steps.edit_placed((route, part), token, fill)?;
        } else {
            let delete = RequestEdit::Delete;
            self.steps.edit_placed((route, part), token, delete)?;
            self.forget();
        }
        Ok(is_current)
    }

    /// Enters a part into the page that lists it. Where that page is missing, makes it, or one that
    /// is to list it, and returns as [`Protocol::make`]; `None`: the part is entered.
    fn enter(&self, route: CompanionRoute, part: CollectionPart) -> Result<Option<bool>> {
        let Some((page, entry)) = self.steps.layout().listing(part) else {
            return Ok(None);
        };
        let listing = CollectionPart::Page(page);
        match self.steps.enter(route, page, entry)? {
            StepOutcome::Done(()) => Ok(None),
            StepOutcome::NotFound => self.make(route, listing).map(Some),
            StepOutcome::FilteredOut => self.resolve(route, listing).map(Some),
        }
    }

    /// Reads the root. `None`: there was a deletion, which was carried to its end; look again. Where
    /// the store takes no deletes, a root with an unfinished deletion counts as missing.
    fn read_root(&self) -> Result<Option<Observation<S::Kind>>> {
        // Before the root is read: one that is lost later makes the route unknown again.
        let lost_roots = self.steps.lost_roots();
        let seen = self.steps.root()?;
        let route = seen.root.companions();
        if let Some(route) = route
            && seen.root.route().is_none()
            && keeps(ProtocolRule::ReadersAdvanceDeletion)
        {
            let deleted = self.delete_page(route, DirectoryPage::Top);
            let deleted = deleted.and_then(|()| self.steps.clear(&seen.root));
            return match deleted {
                // To a reader it is as good as deleted; a writer is refused.
                Err(error)
                    if matches!(error, Error::StopWrites { .. })
                        || self.steps.check_deletes().is_err() =>
                {
                    Ok(Some(Observation::nothing()))
                }
                deleted => deleted.map(|_| None),
            };
        }
        self.remember(route, lost_roots);
        Ok(Some(seen))
    }

    /// Earlier findings of the call do not apply from here on, but for the route.
    fn begin_attempt(&self) {
        self.steps.begin_attempt(|| self.recalled());
    }

    /// Deletes all that a page lists, and then the page.
    fn delete_page(&self, route: CompanionRoute, page: DirectoryPage) -> Result<()> {
        if !keeps(ProtocolRule::PageBehindChildren) {
            self.steps.delete(route, CollectionPart::Page(page))?;
        }
        let mut entries = Entries::new(page, (i64::MIN, i64::MAX), Direction::OldestFirst);
        while let Some(entry) = entries.next(&self.steps, route.keys, |state| -> Result<bool> {
            // A newer record belongs to a collection that was begun since.
            Ok(matches!(state, Some((found, CompanionState::Live)) if found.epoch < route.epoch))
        })? {
            match self.steps.layout().child(page, entry) {
                PageEntry::Page(page) => self.delete_page(route, page)?,
                PageEntry::Bucket(bucket) => self.delete_bucket(route, bucket)?,
            }
        }
        self.steps
            .delete(route, CollectionPart::Page(page))
            .map(drop)
    }

    fn delete_bucket(&self, route: CompanionRoute, bucket: TimeBucket) -> Result<()> {
        for part in self.steps.layout().parts(bucket) {
            self.steps.delete(route, part)?;
        }
        Ok(())
    }

    /// Returns the remembered route, unless a root has been lost since, which may have been this
    /// one.
    pub(super) fn recalled(&self) -> Option<CompanionRoute> {
        self.routes.recall(self.steps.lost_roots()).route()
    }

    fn remember(&self, route: Option<CompanionRoute>, lost_roots: u64) {
        let learned = route.map_or(RouteHint::Unknown, RouteHint::Sharded);
        self.routes.learn(learned, lost_roots);
    }

    /// Looks at the root next time.
    pub(super) fn forget(&self) {
        self.remember(None, self.steps.lost_roots());
    }
}
