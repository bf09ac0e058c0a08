//! How a write is done: what it expects to find, and what it leaves behind. Names and meanings are
//! Aerospike's.

use std::borrow::Cow;
use std::time::Duration;

use crate::expression::Expression;
use crate::setters::setters;
use crate::{Error, Result};

/// The longest time to live: 10 years, Aerospike's limit.
pub const MAX_TIME_TO_LIVE: Duration = Duration::from_secs(315_360_000);

/// The effect of a write on a record that exists, or does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordExistsAction {
    /// Creates the record, or changes the given bins and leaves the others.
    #[default]
    Update,
    /// Changes a record; [`Error::NotFound`] if there is none.
    UpdateOnly,
    /// Creates the record, or drops all its bins first.
    Replace,
    /// Drops all bins of a record first; [`Error::NotFound`] if there is none.
    ReplaceOnly,
    /// Creates a record; [`Error::RecordExists`] if there is one.
    CreateOnly,
}

/// What a write expects of the record's generation. A record that does not exist has generation 0.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::policy::GenerationPolicy;
/// use spikelet::{Error, WritePolicy};
///
/// let carts = spikelet::Store::in_memory()?.set("carts")?;
/// carts.put("alice", [("total", 10)])?;
/// let cart = carts.get("alice")?.expect("was put");
/// let generation = GenerationPolicy::ExpectEqual(cart.generation().into());
/// let unchanged = WritePolicy::default().generation(generation);
/// carts.put_with(&unchanged, "alice", [("total", 20)])?;
/// // Somebody has written it since: read it again, and repeat the edit.
/// let refused = carts.put_with(&unchanged, "alice", [("total", 30)]).unwrap_err();
/// assert!(matches!(refused, Error::Generation { found: Some(2), .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GenerationPolicy {
    /// Nothing: the generation is not looked at.
    #[default]
    None,
    /// That it is this one: check-and-set. Else [`Error::Generation`].
    ExpectEqual(u32),
    /// That it is lower than this one: for restoring backups. Else [`Error::Generation`].
    ExpectGreater(u32),
}

/// When a record expires, counted from the write. A record can be read during the whole second in
/// which it expires.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::{Expiration, WritePolicy};
/// use std::time::Duration;
///
/// let sessions = spikelet::Store::in_memory()?.set("sessions")?;
/// let hour = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(3600)));
/// sessions.put_with(&hour, "token", [("user", "alice")])?;
/// let kept = WritePolicy::default().expiration(Expiration::DontUpdate);
/// sessions.put_with(&kept, "token", [("user", "bob")])?;
/// assert!(sessions.get_header("token")?.and_then(|header| header.expires_at()).is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiration {
    /// After the namespace's default time to live, counted from the write (by default: never), in
    /// place of the time the record had left. Aerospike's TTL 0.
    #[default]
    NamespaceDefault,
    /// Never. Aerospike's TTL -1.
    Never,
    /// After this time, rounded down to whole seconds; 1 s to 10 years.
    After(Duration),
    /// When it was to expire before the write: the time that is left stays. A new record takes the
    /// namespace's default. Aerospike's TTL -2.
    DontUpdate,
}

impl Expiration {
    /// That of a record of a sharded collection, which gets no default time to live.
    pub(super) const fn of_shards(self) -> Self {
        match self {
            Self::NamespaceDefault => Self::DontUpdate,
            other => other,
        }
    }

    /// The void time: seconds since 2010, 0 = never.
    #[inline(always)]
    pub(super) fn void_time(self, now_ms: u64, default_ttl: u64, old: Option<u32>) -> Result<u32> {
        let live = match self {
            Self::Never => return Ok(0),
            Self::DontUpdate if old.is_some() => return Ok(old.unwrap_or_default()),
            Self::NamespaceDefault | Self::DontUpdate => match default_ttl {
                0 => return Ok(0),
                seconds => Duration::from_secs(seconds),
            },
            Self::After(live) => live,
        };
        void_time_after(live, now_ms)
    }
}

#[inline(never)]
fn void_time_after(live: Duration, now_ms: u64) -> Result<u32> {
    check_time_to_live(live)?;
    let void_time = now_ms / 1000 + live.as_secs();
    u32::try_from(void_time).map_err(|_| {
        Error::parameter(format!(
            "a record cannot expire at second {void_time} after 2010: the clock is wrong"
        ))
    })
}

/// Refuses times to live that cannot be kept.
pub(crate) fn check_time_to_live(live: Duration) -> Result<()> {
    if live.as_secs() == 0 || live > MAX_TIME_TO_LIVE {
        return Err(Error::parameter(format!(
            "a time to live of {live:?} is not between 1 s and 10 years"
        )));
    }
    Ok(())
}

/// What a write waits for before it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acknowledge {
    /// That it is as durable as the namespace promises ([`Durability`](crate::Durability)).
    #[default]
    Durable,
    /// That it is applied: readers and writers see it. It becomes durable later, in the order of
    /// its [`Lsn`](crate::Lsn); [`Namespace::durable`](crate::Namespace::durable) and
    /// [`Namespace::wait_durable`](crate::Namespace::wait_durable) wait for that. Until then a
    /// power failure may cost it.
    ///
    /// For async code: under [`Durability::Commit`](crate::Durability::Commit) a write that waits
    /// blocks its thread for the sync, and a runtime has few.
    Applied,
}

/// How a write is done. All fields have sensible defaults; change what should differ:
///
/// ```
/// use spikelet::{Expiration, WritePolicy};
/// use spikelet::policy::RecordExistsAction;
/// use std::time::Duration;
///
/// let policy = WritePolicy::default()
///     .record_exists_action(RecordExistsAction::CreateOnly)
///     .expiration(Expiration::After(Duration::from_secs(3600)));
/// # assert_eq!(policy.record_exists_action, RecordExistsAction::CreateOnly);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WritePolicy {
    /// What to do with a record that exists, or does not.
    pub record_exists_action: RecordExistsAction,
    /// The condition on the record's generation.
    pub generation: GenerationPolicy,
    /// When the record expires.
    pub expiration: Expiration,
    /// Accepted as Aerospike's clients send it. Every delete of spikelet is durable, with or
    /// without.
    pub durable_delete: bool,
    /// Whether the user key is stored with the record, so that scans return it and a digest that
    /// two keys share is noticed. Once stored it stays. Default: true.
    pub send_key: bool,
    /// The longest wait for other writers of the record and for space; `None`: as long as it takes,
    /// and for space as long as the namespace says. Default: 1 s, Aerospike's.
    pub total_timeout: Option<Duration>,
    /// A condition on a record that exists; else [`Error::FilteredOut`], and nothing is changed. A
    /// record that does not exist is not asked.
    pub filter: Option<Expression>,
    /// What the write waits for before it returns. Default: [`Acknowledge::Durable`].
    pub acknowledge: Acknowledge,
    /// Whether the write may break a sharded collection. Default: false, see
    /// [`WritePolicy::override_shards`].
    pub override_shards: bool,
    /// The changes that the writer may make to sharded collections, and to the bins and records of
    /// relations.
    pub(crate) access: ShardAccess,
}

/// The changes that a write may make to records of a sharded collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShardAccess {
    /// Nothing that would orphan companions, and nothing at all to a companion.
    Protected,
    /// Everything; where a root loses the description of its shards, that is counted.
    Override,
    /// As `Override`, but relations keep their bins and edges: a wire client, who knows nothing of
    /// shards.
    #[cfg_attr(
        not(feature = "server"),
        expect(dead_code, reason = "used by wire clients only")
    )]
    Remote,
    /// Everything: it is the collection's own handle that writes.
    Own,
    /// Everything to a record that belongs to no sharded collection. To another, nothing: the write
    /// is refused with [`Error::FilteredOut`].
    Unsharded,
    /// As `Protected`, and bins of relations are set: a relation's handle writes or deletes a whole
    /// record.
    Related,
    /// As `Protected`, and the record has no edges that other records know: it is deleted after
    /// them.
    Detached,
}

impl ShardAccess {
    /// Whether such a write leaves companions, and a root's description of them, alone.
    pub(super) const fn protects_shards(self) -> bool {
        matches!(self, Self::Protected | Self::Related | Self::Detached)
    }

    /// Whether rules of relations hold for such a write.
    pub(super) const fn obeys_relations(self) -> bool {
        matches!(
            self,
            Self::Protected | Self::Remote | Self::Related | Self::Own
        )
    }
}

/// The policy of the calls that take none: lent, so that none is made and dropped for each.
pub(super) static DEFAULT_WRITE: WritePolicy = WritePolicy {
    record_exists_action: RecordExistsAction::Update,
    generation: GenerationPolicy::None,
    expiration: Expiration::NamespaceDefault,
    durable_delete: false,
    send_key: true,
    total_timeout: Some(Duration::from_secs(1)),
    filter: None,
    acknowledge: Acknowledge::Durable,
    override_shards: false,
    access: ShardAccess::Protected,
};

impl Default for WritePolicy {
    fn default() -> Self {
        DEFAULT_WRITE.clone()
    }
}

impl WritePolicy {
    setters! {
        /// What to do with a record that exists, or does not.
        record_exists_action: RecordExistsAction,
        /// The condition on the record's generation.
        generation: GenerationPolicy,
        /// When the record expires.
        expiration: Expiration,
        /// Accepted as Aerospike's clients send it.
        durable_delete: bool,
        /// Whether the user key is stored with the record.
        send_key: bool,
        /// The longest wait for other writers of the record; `None`: as long as it takes.
        total_timeout: impl Into<Option<Duration>>,
        /// A condition on a record that exists.
        filter: impl Into<Option<Expression>>,
        /// What the write waits for before it returns.
        acknowledge: Acknowledge,
        /// Whether the write may break a sharded collection ([`ShardedList`](crate::ShardedList)
        /// and the like): take from its root the bins that say where its companions are, let the
        /// root expire, or write to a companion. Otherwise such a write is refused with
        /// [`Error::ShardRoot`] or [`Error::ShardCompanion`].
        ///
        /// It also lets the write set or remove bins of declared relations, and delete a record
        /// that has edges, without a look at their other ends: [`Error::OwnedBin`],
        /// [`Error::HasEdges`].
        ///
        /// Companions without a root are orphans: `spikelet verify` and
        /// [`sharded_collections`](crate::shard::sharded_collections) find them. Handles look at
        /// the root again after such a write.
        override_shards: bool,
    }

    /// For a write of the library itself, which may change what others may not.
    #[must_use]
    pub(crate) const fn with_access(mut self, access: ShardAccess) -> Self {
        self.access = access;
        self
    }

    /// The policy with the filter of a set, where it has none itself.
    pub(crate) fn filtered_by(&self, filter: Option<&Expression>) -> Cow<'_, Self> {
        match (&self.filter, filter) {
            (None, Some(filter)) => Cow::Owned(self.clone().filter(filter.clone())),
            _ => Cow::Borrowed(self),
        }
    }

    pub(super) const fn shard_access(&self) -> ShardAccess {
        match (self.access, self.override_shards) {
            (ShardAccess::Own | ShardAccess::Unsharded, _) | (_, false) => self.access,
            (_, true) => ShardAccess::Override,
        }
    }

    /// Existence is judged before the generation, as in Aerospike.
    pub(super) fn check(&self, found: Option<u16>) -> Result<()> {
        use RecordExistsAction::{CreateOnly, ReplaceOnly, UpdateOnly};
        match (self.record_exists_action, found) {
            (UpdateOnly | ReplaceOnly, None) => return Err(Error::not_found()),
            (CreateOnly, Some(_)) => return Err(Error::RecordExists { record: None }),
            _ => {}
        }
        self.check_generation(found.unwrap_or_default())
    }

    pub(super) fn check_generation(&self, found: u16) -> Result<()> {
        let (expected, holds) = match self.generation {
            GenerationPolicy::None => return Ok(()),
            GenerationPolicy::ExpectEqual(expected) => (expected, u32::from(found) == expected),
            GenerationPolicy::ExpectGreater(expected) => (expected, expected > u32::from(found)),
        };
        if holds {
            Ok(())
        } else {
            Err(Error::Generation {
                expected,
                found: Some(found),
                record: None,
            })
        }
    }

    /// Whether the record must exist.
    pub(super) const fn updates_only(&self) -> bool {
        matches!(
            self.record_exists_action,
            RecordExistsAction::UpdateOnly | RecordExistsAction::ReplaceOnly
        )
    }

    /// Whether nothing of the record that may be there matters.
    pub(super) fn replaces_unseen(&self) -> bool {
        self.record_exists_action == RecordExistsAction::Replace
            && self.generation == GenerationPolicy::None
    }

    /// Whether the bins that are there are dropped first.
    pub(crate) const fn replaces(&self) -> bool {
        matches!(
            self.record_exists_action,
            RecordExistsAction::Replace | RecordExistsAction::ReplaceOnly
        )
    }
}
