//! The steps: each is one atomic operation on one record, and may be repeated.
//!
//! A bucket's record is *placed* first: described, and closed to readers and writers by a token. It is *opened* by those who
//! knew its token when they found the root still at its epoch. So a writer that wakes up late, after the collection has been
//! deleted, can leave a closed record at worst, and nothing is ever acknowledged into it.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use spikelet_storage::EPOCH_UNIX_SECONDS;

use super::calendar::Bucket;
use super::layout::{Layout, Part, Phase, SUBKEYS_SPAN, Span};
use crate::expressions::{and, bin_exists, eq, int_bin, list_bin, lt, not, or};
use crate::operations::{delete_all_bins, delete_bin, get_bin, lists, put};
use crate::policy::RecordExistsAction;
use crate::shard::companions::Companions;
use crate::shard::route::text;
use crate::shard::scheme::{
    Epoch, FROZEN, SHARD_OF, SUBKEYS, SUBKEYS_BIN, SUBKEYS_EPOCH, not_understood,
};
use crate::value::{ListOrder, Value};
use crate::{
    Error, Expiration, Expression, Key, OperateResult, Operation, RecordSet, Result, WritePolicy,
};

/// How long to wait before a record that is fought over is tried again.
const BUSY_PAUSE: Duration = Duration::from_micros(200);

/// Tokens are positive integers.
const TOKEN_BITS: u64 = (1 << 62) - 1;

/// One collection, and how its records are operated on.
#[derive(Debug)]
pub(super) struct Steps<R> {
    pub(super) records: R,
    pub(super) key: Key<'static>,
    pub(super) bin: Box<str>,
    pub(super) layout: Layout,
    pub(super) retention: Option<Duration>,
    policy: WritePolicy,
    /// How the open parts are written, of each number the one that was written last.
    open: Companions<(Bucket, Epoch)>,
    tokens: AtomicU64,
}

/// What a step has come to.
#[derive(Debug)]
pub(super) enum Did {
    Done(OperateResult),
    /// There is no record, and the step creates none.
    NotFound,
    /// Its guard does not hold.
    FilteredOut,
}

/// What a root says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Root {
    /// The number of the last transition; it stays when the collection is deleted.
    pub(super) epoch: Epoch,
    /// `None`: there is no collection.
    pub(super) spread: Option<(Phase, Span)>,
}

/// Names one placing of a record, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token(i64);

/// What the record of a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Absent,
    /// Of this epoch.
    At(Epoch),
    /// The same, and not open yet.
    Placed(Epoch, Token),
}

impl<R: RecordSet> Steps<R> {
    pub(super) fn new(
        records: R,
        key: Key<'static>,
        bin: &str,
        layout: Layout,
        policy: &WritePolicy,
    ) -> Self {
        Self {
            records,
            key,
            bin: bin.into(),
            layout,
            retention: None,
            policy: WritePolicy::default()
                .total_timeout(policy.total_timeout)
                .send_key(policy.send_key)
                .durable_delete(policy.durable_delete)
                .expiration(Expiration::Never)
                .of_shards(),
            open: Companions::default(),
            tokens: AtomicU64::new(RandomState::new().hash_one(0)),
        }
    }

    /// Spreads each bucket over so many records.
    pub(super) fn lay_out(&mut self, shards: u64) {
        self.layout.shards = shards;
        self.open = Companions::default();
    }

    /// The store's time in milliseconds since 1970.
    pub(super) fn now_unix_ms(&self) -> i64 {
        (self.records.now_ms() + EPOCH_UNIX_SECONDS * 1000).cast_signed()
    }

    /// For how much longer a bucket is kept; `None`: it is not, any more.
    pub(super) fn kept_for(&self, bucket: Bucket, retention: Duration) -> Option<Duration> {
        let end_ms = (bucket.0 + self.layout.width.seconds()) * 1000;
        let retention_ms = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let left_ms = end_ms
            .saturating_add(retention_ms)
            .saturating_sub(self.now_unix_ms());
        u64::try_from(left_ms)
            .ok()
            .filter(|left| *left > 0)
            .map(Duration::from_millis)
    }

    /// Whether a bucket is past the retention, and may have expired.
    pub(super) fn is_past(&self, bucket: Bucket) -> bool {
        self.retention
            .is_some_and(|retention| self.kept_for(bucket, retention).is_none())
    }

    /// The first bucket that is kept; `None`: all are.
    pub(super) fn horizon(&self) -> Option<Bucket> {
        let retention_ms = i64::try_from(self.retention?.as_millis()).unwrap_or(i64::MAX);
        let width_ms = self.layout.width.seconds() * 1000;
        // Its end is the first one that is later than this.
        let ended_ms = self.now_unix_ms().saturating_sub(retention_ms);
        Some(Bucket(
            ended_ms.div_euclid(width_ms) * self.layout.width.seconds(),
        ))
    }

    fn token(&self) -> Token {
        let token = self.tokens.fetch_add(1, Ordering::Relaxed) & TOKEN_BITS;
        Token(1 + token.cast_signed())
    }

    /// One operation, tried again within the policy's time where the record is fought over: for everything but what the
    /// caller wants to be written, which is refused at once.
    fn run(&self, policy: &WritePolicy, key: &Key<'_>, operations: &[Operation]) -> Result<Did> {
        let begun = Instant::now();
        loop {
            match self.run_once(policy, key, operations) {
                Err(Error::KeyBusy { .. })
                    if policy
                        .total_timeout
                        .is_none_or(|limit| begun.elapsed() < limit) =>
                {
                    std::thread::sleep(BUSY_PAUSE);
                }
                did => return did,
            }
        }
    }

    fn run_once(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<Did> {
        match self.records.operate_on(policy, key, operations) {
            Ok(operated) => Ok(Did::Done(operated)),
            Err(Error::NotFound { .. }) => Ok(Did::NotFound),
            Err(Error::FilteredOut { .. }) => Ok(Did::FilteredOut),
            Err(error) => Err(error),
        }
    }

    /// A step on the root, or on a part of the collection, if it is there.
    fn step(&self, key: &Key<'_>, guard: Expression, operations: &[Operation]) -> Result<Did> {
        self.run(&self.existing(guard), key, operations)
    }

    /// How a record is written that is there already.
    fn existing(&self, guard: Expression) -> WritePolicy {
        self.policy
            .clone()
            .record_exists_action(RecordExistsAction::UpdateOnly)
            .expiration(Expiration::DontUpdate)
            .filter(guard)
    }

    /// Reads the root.
    ///
    /// # Errors
    /// [`Error::ShardScheme`] if it is not that of such a collection.
    pub(super) fn root(&self) -> Result<Root> {
        let read = [
            get_bin(SUBKEYS),
            get_bin(SUBKEYS_EPOCH),
            get_bin(SUBKEYS_BIN),
            get_bin(SUBKEYS_SPAN),
            get_bin(SHARD_OF),
        ];
        let Did::Done(operated) = self.run(&self.policy, &self.key, &read)? else {
            return Ok(Root::default());
        };
        // A companion of another collection.
        if operated.value(4).is_some() {
            return Err(Error::ShardKeyCollision {
                key: text(&self.key),
            });
        }
        let epoch = match operated.value(1) {
            None => Epoch::default(),
            Some(epoch) => Epoch::of(epoch).ok_or_else(|| Error::ShardScheme {
                found: format!("{epoch:?}").into(),
                why: "the bin subkeys_epoch holds no number of a transition",
            })?,
        };
        let Some(subkeys) = operated.value(0) else {
            let spread = None;
            return Ok(Root { epoch, spread });
        };
        let is_own = operated.value(2) == Some(&(&*self.bin).into());
        if !is_own || matches!(subkeys, Value::Map(_)) {
            return Err(not_understood(
                operated.value(2),
                "other collections of the record are sharded, and time shards have to be the only ones: keep them under another key",
            ));
        }
        let phase = self.layout.parse(subkeys)?;
        let spread = Some((phase, Span::parse(operated.value(3))?));
        Ok(Root { epoch, spread })
    }

    /// Makes the collection, with its first bucket.
    pub(super) fn begin(&self, after: Epoch, bucket: Bucket) -> Result<Did> {
        let epoch = after.after(self.records.now_ms().saturating_mul(1000));
        let guard = and([
            not(bin_exists(SUBKEYS)),
            not(bin_exists(SHARD_OF)),
            not(bin_exists(&self.bin)),
            or([
                not(bin_exists(SUBKEYS_EPOCH)),
                lt(int_bin(SUBKEYS_EPOCH), epoch.value()),
            ]),
        ]);
        let policy = self.policy.clone().filter(guard);
        let operations = [
            put(SUBKEYS, self.layout.value(Phase::Active)),
            put(SUBKEYS_EPOCH, epoch.value()),
            put(SUBKEYS_BIN, &*self.bin),
            put(SUBKEYS_SPAN, Span::only(bucket).value()),
        ];
        self.run(&policy, &self.key, &operations)
    }

    /// Whether the root has a bin of the collection's name, which is none of ours.
    pub(super) fn has_own_bin(&self) -> Result<bool> {
        let read = [get_bin(&self.bin)];
        Ok(match self.run(&self.policy, &self.key, &read)? {
            Did::Done(operated) => operated.value(0).is_some(),
            _ => false,
        })
    }

    /// Exchanges the span.
    pub(super) fn widen(&self, epoch: Epoch, from: Span, to: Span) -> Result<Did> {
        let guard = and([
            self.layout.is_at(Phase::Active, epoch),
            eq(list_bin(SUBKEYS_SPAN), from.value()),
        ]);
        self.step(&self.key, guard, &[put(SUBKEYS_SPAN, to.value())])
    }

    /// From here on nothing is written, and no bucket is added.
    pub(super) fn mark_deleting(&self, epoch: Epoch) -> Result<Did> {
        let next = epoch.after(self.records.now_ms().saturating_mul(1000));
        let guard = self.layout.is_at(Phase::Active, epoch);
        let operations = [
            put(SUBKEYS, self.layout.value(Phase::Deleting)),
            put(SUBKEYS_EPOCH, next.value()),
        ];
        self.step(&self.key, guard, &operations)
    }

    /// Deletes a part that is older than a deletion.
    pub(super) fn delete(&self, part: Part, deletion: Epoch) -> Result<Did> {
        let guard = part.is_before(&self.key, deletion);
        let key = self.layout.key(&self.key, part);
        self.step(&key, guard, &[delete_all_bins()])
    }

    /// The deletion is done. The epoch stays, so that none is ever used again.
    pub(super) fn clear(&self, deletion: Epoch) -> Result<Did> {
        let guard = self.layout.is_at(Phase::Deleting, deletion);
        let bins = [SUBKEYS, SUBKEYS_BIN, SUBKEYS_SPAN].map(delete_bin);
        self.step(&self.key, guard, &bins)
    }

    /// Does what the caller wants with an open part.
    pub(super) fn on_open(
        &self,
        part: Part,
        epoch: Epoch,
        operations: &[Operation],
    ) -> Result<Did> {
        let open = self.open.filter(part.shard, (part.bucket, epoch), || {
            and([self.is_part(part, epoch), not(bin_exists(FROZEN))])
        });
        let policy = self.existing(open);
        let key = self.layout.key(&self.key, part);
        self.run_once(&policy, &key, operations)
    }

    /// Places the record of a part, where there is none or one that is older.
    pub(super) fn place(&self, part: Part, epoch: Epoch) -> Result<Option<Token>> {
        let token = self.token();
        let expiration = match self.retention {
            None => Expiration::Never,
            // To the next second; one that is past by now was not when the call began.
            Some(retention) => Expiration::After(Duration::from_secs(
                self.kept_for(part.bucket, retention)
                    .unwrap_or_default()
                    .as_secs()
                    + 1,
            )),
        };
        let policy = self
            .policy
            .clone()
            .record_exists_action(RecordExistsAction::Replace)
            .expiration(expiration)
            .filter(part.is_before(&self.key, epoch));
        let operations = [
            put(SHARD_OF, self.layout.shard_of(&self.key, part, epoch)),
            put(FROZEN, token.0),
        ];
        let key = self.layout.key(&self.key, part);
        Ok(match self.run(&policy, &key, &operations)? {
            Did::Done(_) => Some(token),
            Did::NotFound | Did::FilteredOut => None,
        })
    }

    /// Opens what was placed under this token. The caller has found the root at this epoch since it learned the token.
    pub(super) fn open(&self, part: Part, epoch: Epoch, token: Token) -> Result<Did> {
        let operations = [
            lists::create_persistent(&self.bin, ListOrder::Ordered),
            delete_bin(FROZEN),
        ];
        let guard = self.is_placed(part, epoch, token);
        self.step(&self.layout.key(&self.key, part), guard, &operations)
    }

    /// Takes away what was placed under this token, for a root that is not at this epoch any more.
    pub(super) fn displace(&self, part: Part, epoch: Epoch, token: Token) -> Result<Did> {
        let guard = self.is_placed(part, epoch, token);
        let key = self.layout.key(&self.key, part);
        self.step(&key, guard, &[delete_all_bins()])
    }

    /// What the record of a part is.
    ///
    /// # Errors
    /// [`Error::ShardKeyCollision`] if it belongs to something else.
    pub(super) fn look(&self, part: Part) -> Result<Found> {
        let key = self.layout.key(&self.key, part);
        match self.run(&self.policy, &key, &Self::description())? {
            Did::Done(operated) => self.described(part, operated.value(0), operated.value(1)),
            Did::NotFound | Did::FilteredOut => Ok(Found::Absent),
        }
    }

    /// Reads what a part says of itself.
    pub(super) fn description() -> [Operation; 2] {
        [get_bin(SHARD_OF), get_bin(FROZEN)]
    }

    /// What the bins `shard_of` and `frozen` say.
    ///
    /// # Errors
    /// As for [`Steps::look`].
    pub(super) fn described(
        &self,
        part: Part,
        shard_of: Option<&Value>,
        frozen: Option<&Value>,
    ) -> Result<Found> {
        let epoch = shard_of.and_then(|shard_of| part.epoch_in(shard_of, &self.key));
        match (epoch, frozen) {
            (Some(epoch), None) => Ok(Found::At(epoch)),
            (Some(epoch), Some(Value::Int(token))) => Ok(Found::Placed(epoch, Token(*token))),
            _ => Err(Error::ShardKeyCollision {
                key: match self.layout.key(&self.key, part) {
                    Key::Integer(value) => value.to_string().into(),
                    Key::String(text) => text.into(),
                    Key::Blob(bytes) => bytes.escape_ascii().to_string().into(),
                },
            }),
        }
    }

    /// Somebody starts transitions without end.
    pub(super) fn restless(&self) -> Error {
        Error::Timeout {
            after: self.policy.total_timeout.unwrap_or_default(),
            in_doubt: false,
            record: None,
        }
    }

    pub(super) const fn policy(&self) -> &WritePolicy {
        &self.policy
    }

    fn is_part(&self, part: Part, epoch: Epoch) -> Expression {
        let shard_of = self.layout.shard_of(&self.key, part, epoch);
        eq(list_bin(SHARD_OF), shard_of)
    }

    fn is_placed(&self, part: Part, epoch: Epoch, token: Token) -> Expression {
        and([self.is_part(part, epoch), eq(int_bin(FROZEN), token.0)])
    }
}
