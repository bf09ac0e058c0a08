//! Encodes requests of the protocol as operations with a filter, and decodes the results into
//! replies.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::companions::Companions;
use super::content::{ActReply, Bin, Collection};
use super::description::{Description, Form, SharedDescription};
use super::protocol::{
    AtomicRequest, CollectionRoot, CompanionState, CompanionToken, NeighborCollections,
    Observation, Precondition, Read, RecordRef, RequestEdit, RequestReply,
};
use super::record_name::RecordName;
use super::scheme::{
    Companion, DESCRIPTION_BINS, FROZEN, SHARD_OF, SUBKEYS, SUBKEYS_BIN, Scheme, check_bin,
};
use super::time::layout::CollectionPart;
use crate::engine::ShardAccess;
use crate::expression::ExpType;
use crate::expressions::{
    and, bin_exists, bin_type, eq, int_bin, list_bin, map_bin, maps, ne, not, or, string_bin, val,
};
use crate::operations::{delete_all_bins, delete_bin, get_bin, lists, put};
use crate::policy::RecordExistsAction;
use crate::record::BinName;
use crate::record::companion_key::KeyForm;
use crate::record::companion_key::text;
use crate::store::NONE_SHARDED;
use crate::value::ParticleType;
use crate::{
    Error, Expiration, Expression, Key, MapReturnType, OperateResult, Operation, RecordStore,
    Result, Value, WritePolicy,
};

/// Encodes the requests for one collection, and decodes what they return.
#[derive(Debug)]
pub(crate) struct Executor {
    pub(crate) key: Key<'static>,
    pub(crate) bin: BinName,
    pub(crate) collection: Collection,
    /// The caller's policy, for the root of an unsharded collection while no other collection of
    /// the record is sharded.
    creating: WritePolicy,
    /// The same for requests that create no record.
    existing: WritePolicy,
    /// The policy for the root of an unsharded collection beside which another is sharded: made at
    /// the first such record.
    beside: OnceLock<WritePolicy>,
    /// The policy for every other request: these records do not expire.
    protocol: WritePolicy,
    /// Identified by when the time of a bucket begins (0 for hash shards), and by shards and epoch.
    companions: Companions<(i64, Companion)>,
    companions_by_bin: Companions<(i64, Companion)>,
}

/// A request as operations on one record, for a [`RecordSet`](crate::RecordSet).
#[derive(Clone, Debug)]
pub(crate) struct EncodedRequest<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) policy: Cow<'a, WritePolicy>,
    pub(crate) operations: Cow<'a, [Operation]>,
    /// The number of operations before the first one that answers a read of the request.
    edits: usize,
}

/// The bins that describe a companion.
const COMPANION_STATE: [&str; 2] = [SHARD_OF, FROZEN];

/// The bins that describe the shards of a root.
const ROOT_STATE: [&str; 5] = {
    let [subkeys, epoch, plain, epochs] = DESCRIPTION_BINS;
    [subkeys, epoch, plain, epochs, SHARD_OF]
};

impl Executor {
    /// Returns the records of a set, and an executor for the collection under a key and in a bin
    /// there.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name of a set that is not allowed, and for a bin that describes
    /// shards; [`Error::BinName`].
    pub(crate) fn in_store<'k, S: RecordStore>(
        store: &S,
        (set, key, bin): (&str, impl Into<Key<'k>>, &str),
        collection: Collection,
        policy: &WritePolicy,
    ) -> Result<(S::Records, Self)> {
        check_bin(bin)?;
        let bin = BinName::new(bin)?;
        let executor = Self::new(key.into().into_owned(), bin, collection, policy);
        Ok((store.records(set)?, executor))
    }

    /// `policy`: the caller's; its existence action, generation and filter do not count.
    pub(crate) fn new(
        key: Key<'static>,
        bin: BinName,
        collection: Collection,
        policy: &WritePolicy,
    ) -> Self {
        let base = WritePolicy::default()
            .total_timeout(policy.total_timeout)
            .send_key(policy.send_key)
            .durable_delete(policy.durable_delete)
            .with_access(ShardAccess::Own);
        let creating = base
            .clone()
            .expiration(policy.expiration)
            .filter(NONE_SHARDED.clone());
        Self {
            key,
            bin,
            collection,
            existing: creating
                .clone()
                .record_exists_action(RecordExistsAction::UpdateOnly),
            creating,
            beside: OnceLock::new(),
            protocol: base.expiration(Expiration::Never),
            companions: Companions::default(),
            companions_by_bin: Companions::default(),
        }
    }

    pub(crate) fn policy(&self) -> &WritePolicy {
        &self.creating
    }

    /// Drops the cached keys and filters of companions, which a transition has replaced.
    pub(crate) fn forget_companions(&self) {
        self.companions.forget();
        self.companions_by_bin.forget();
    }

    const fn companions(&self, keys: KeyForm) -> &Companions<(i64, Companion)> {
        if keys.by_bin() {
            &self.companions_by_bin
        } else {
            &self.companions
        }
    }

    pub(crate) fn key_of(&self, place: RecordRef) -> Key<'_> {
        match place {
            RecordRef::Root => Key::from(&self.key),
            // The plain key may be known, too: it was looked at.
            RecordRef::Companion(keys, shard) if !keys.is_apart(shard) => {
                self.companions(keys).key(shard, || self.name(place).key())
            }
            place => self.name(place).key(),
        }
    }

    const fn name(&self, place: RecordRef) -> RecordName<'_> {
        RecordName {
            root: &self.key,
            bin: self.bin,
            place,
        }
    }

    /// The policy for a root that must be there, since another collection of it is sharded.
    fn beside(&self) -> &WritePolicy {
        self.beside.get_or_init(|| {
            let policy = self.existing.clone();
            let policy = policy.filter(is_beside_sharded(self.bin.as_str()));
            // The root of a sharded collection does not expire.
            policy.expiration(Expiration::Never)
        })
    }

    /// Encodes a request as operations on one record, under the policy that bears its filter.
    pub(crate) fn encode_request<'a>(
        &'a self,
        request: &'a AtomicRequest<Bin>,
    ) -> EncodedRequest<'a> {
        let (operations, edits) = match (&request.edit, &request.read) {
            // The common ones are taken as they are.
            (RequestEdit::User(act), Read::Nothing) => (Cow::Borrowed(&*act.operations), 0),
            (RequestEdit::None, Read::User(act)) if is_known(request) => {
                (Cow::Borrowed(&*act.operations), 0)
            }
            (edit, read) => {
                let mut operations = self.edit(request, edit);
                let edits = operations.len();
                self.encode_read(request, read, &mut operations);
                (Cow::Owned(operations), edits)
            }
        };
        EncodedRequest {
            key: self.key_of(request.place),
            policy: self.policy_of(request),
            operations,
            edits,
        }
    }

    fn policy_of(&self, request: &AtomicRequest<Bin>) -> Cow<'_, WritePolicy> {
        if let Precondition::Unsharded(neighbors) = request.precondition {
            let creates = matches!(&request.edit, RequestEdit::User(act) if act.creates);
            return Cow::Borrowed(match neighbors {
                NeighborCollections::None if creates => &self.creating,
                NeighborCollections::None => &self.existing,
                NeighborCollections::Sharded => self.beside(),
            });
        }
        let exists = match request.edit {
            RequestEdit::None if request.precondition == Precondition::None => {
                return Cow::Borrowed(&self.protocol);
            }
            // A record that bore another description has gone if there is none.
            RequestEdit::Mark(..) if request.precondition.description().is_new() => {
                RecordExistsAction::Update
            }
            // An older companion goes with all its bins: content of another epoch must not be left
            // in it.
            RequestEdit::Place(..) => RecordExistsAction::Replace,
            _ => RecordExistsAction::UpdateOnly,
        };
        let place = request.place;
        let filter = match open(request) {
            Some(companion) => {
                let open = || self.open(place, companion);
                Some(match place {
                    RecordRef::Companion(keys, shard) => {
                        self.companions(keys).filter(shard, (0, companion), open)
                    }
                    RecordRef::Timed(keys, _, CollectionPart::Shard(bucket, shard)) => self
                        .companions(keys)
                        .filter(shard, (bucket.begin(), companion), open),
                    _ => open(),
                })
            }
            None => self.filter(place, &request.precondition),
        };
        Cow::Owned(WritePolicy {
            record_exists_action: exists,
            filter,
            expiration: request.expiration,
            ..self.protocol.clone()
        })
    }

    /// Returns the filter of a companion of this number of shards and epoch.
    fn exactly(&self, place: RecordRef, companion: Companion) -> Expression {
        eq(list_bin(SHARD_OF), self.name(place).value(companion))
    }

    /// Returns the filter of a companion that may be read and written.
    fn open(&self, place: RecordRef, companion: Companion) -> Expression {
        let thawed = not(bin_exists(FROZEN));
        and([
            self.exactly(place, companion),
            thawed,
            bin_exists(self.bin.as_str()),
        ])
    }

    fn filter(&self, place: RecordRef, precondition: &Precondition) -> Option<Expression> {
        let bears = |description: &SharedDescription| {
            let is_root = not(bin_exists(SHARD_OF));
            and([is_root, description.is_borne()])
        };
        Some(match precondition {
            // The policies of an unsharded root bear their filters.
            Precondition::None | Precondition::Unsharded(_) => return None,
            Precondition::Bears(description) => bears(description),
            Precondition::Bare(description) => {
                let no_bin = not(bin_exists(self.bin.as_str()));
                and([bears(description), no_bin])
            }
            Precondition::Live(companion) => self.open(place, *companion),
            Precondition::OlderThan(epoch) => self.name(place).is_older(*epoch),
            Precondition::Placed(companion, token) => and([
                self.exactly(place, *companion),
                eq(int_bin(FROZEN), val(token_value(*token))),
            ]),
        })
    }

    fn edit(&self, request: &AtomicRequest<Bin>, edit: &RequestEdit<Bin>) -> Vec<Operation> {
        let bin = self.bin.as_str();
        let settle = |to: Scheme| {
            let form = (to != Scheme::Unsharded).then_some(Form::Hash(to));
            let before = request.precondition.description();
            before.settled(self.bin, form).write()
        };
        let described =
            |companion: Companion| put(SHARD_OF, self.name(request.place).value(companion));
        match edit {
            RequestEdit::None => Vec::new(),
            RequestEdit::User(act) => act.operations.to_vec(),
            RequestEdit::Mark(to, epoch, apart) => {
                let before = request.precondition.description();
                let marked = before.marked(self.bin, to.clone(), *epoch);
                marked.with_keys_apart(self.bin, *apart).write()
            }
            RequestEdit::FinishAndRemoveBin(to) => {
                let mut operations = settle(*to);
                operations.push(delete_bin(bin));
                operations
            }
            RequestEdit::Finish(to) => settle(*to),
            RequestEdit::RestoreToRoot(whole) => whole.clone().fill(bin),
            RequestEdit::Clear => vec![delete_bin(bin)],
            RequestEdit::Place(companion, token) => {
                vec![described(*companion), put(FROZEN, token_value(*token))]
            }
            RequestEdit::Fill(part) => {
                let mut operations = part.clone().fill(bin);
                operations.push(delete_bin(FROZEN));
                operations
            }
            RequestEdit::Freeze => vec![put(FROZEN, 0)],
            // In one version: at the old epoch readers look for moved elements here, at the new one
            // in the pair.
            RequestEdit::RemoveMoved(moved, companion) => {
                let moved = moved.clone().remove_moved(bin).into_iter();
                let settled = [described(*companion), delete_bin(FROZEN)];
                moved.chain(settled).collect()
            }
            RequestEdit::Absorb(part, companion) => {
                let absorbed = part.clone().absorb(bin).into_iter();
                absorbed.chain([described(*companion)]).collect()
            }
            RequestEdit::Enter(entry) => {
                vec![lists::append(&Collection::list_policy(), bin, *entry)]
            }
            RequestEdit::Delete => vec![delete_all_bins()],
        }
    }

    fn encode_read(
        &self,
        request: &AtomicRequest<Bin>,
        read: &Read<Bin>,
        operations: &mut Vec<Operation>,
    ) {
        let bin = self.bin.as_str();
        let state = match request.place {
            _ if is_known(request) => &[][..],
            RecordRef::Root => &ROOT_STATE,
            RecordRef::Companion(..) | RecordRef::Timed(..) => &COMPANION_STATE,
        };
        let content;
        let asked = match read {
            Read::Nothing => return,
            Read::State => {
                content = [self.collection.presence(bin)];
                &content[..]
            }
            Read::Description if request.place != RecordRef::Root => &[],
            Read::Content | Read::Description => {
                content = [get_bin(bin)];
                &content[..]
            }
            Read::User(act) => &act.operations,
        };
        operations.reserve_exact(state.len() + asked.len());
        operations.extend(state.iter().map(|bin| get_bin(bin)));
        operations.extend_from_slice(asked);
    }

    /// Decodes what the operations of a request returned into its reply.
    ///
    /// # Errors
    /// As for the store, and [`Error::ShardScheme`] for a root that is not understood.
    pub(crate) fn decode_reply(
        &self,
        request: &AtomicRequest<Bin>,
        encoded: &EncodedRequest<'_>,
        operated: Result<OperateResult>,
    ) -> Result<RequestReply<Bin>> {
        let operated = match operated {
            Err(Error::NotFound { .. }) => return Ok(RequestReply::NotFound),
            Err(Error::FilteredOut { .. }) => return Ok(RequestReply::FilteredOut),
            operated => operated?,
        };
        let (record_bytes, queued_behind) = (operated.record_bytes, operated.queued_behind);
        let expires = operated.void_time != 0;
        let mut values = vec![None; encoded.operations.len() - encoded.edits];
        for result in operated.results {
            let asked = result.operation.checked_sub(encoded.edits);
            if let Some(value) = asked.and_then(|asked| values.get_mut(asked)) {
                *value = Some(result.value);
            }
        }
        let answered = |values| {
            Some(ActReply {
                values,
                record_bytes,
                expires,
                queued_behind,
            })
        };
        let mut seen = Observation::nothing();
        if matches!(request.read, Read::Nothing) {
            if matches!(request.edit, RequestEdit::User(_)) {
                seen.answer = answered(values);
            }
            return Ok(RequestReply::Done(seen));
        }
        let rest = match request.place {
            _ if is_known(request) => {
                seen.companion = open(request).map(|companion| (companion, CompanionState::Live));
                values
            }
            RecordRef::Root => {
                let rest = values.split_off(ROOT_STATE.len());
                seen.root = self.root(values, &request.read)?;
                rest
            }
            place => {
                let rest = values.split_off(COMPANION_STATE.len());
                seen.companion = self.companion(place, &values);
                rest
            }
        };
        // The filter of a live companion asks for its bin, too (`open`).
        seen.has_bin =
            seen.companion.is_some() && is_known(request) || rest.iter().any(Option::is_some);
        if matches!(request.read, Read::State)
            && let Some(Some(value)) = rest.first()
        {
            self.collection.check(self.bin.as_str(), value)?;
        }
        match request.read {
            Read::Content => {
                let value = rest.into_iter().next().flatten();
                seen.content = Some(self.collection.content(self.bin.as_str(), value)?);
            }
            Read::User(_) => seen.answer = answered(rest),
            Read::Nothing | Read::Description | Read::State => {}
        }
        Ok(RequestReply::Done(seen))
    }

    /// Decodes the bins of [`ROOT_STATE`].
    fn root(&self, values: Vec<Option<Value>>, read: &Read<Bin>) -> Result<CollectionRoot> {
        let Ok([subkeys, epoch, plain, epochs, shard_of]) = <[_; 5]>::try_from(values) else {
            return Ok(CollectionRoot::default());
        };
        // A companion of another collection: a write here would change that one.
        if shard_of.is_some() {
            return Err(Error::ShardKeyCollision {
                key: text(&self.key),
            });
        }
        let description = Description::parse(&[subkeys, epoch, plain, epochs])?;
        match read {
            Read::Description => Ok(CollectionRoot::described(description, self.bin)),
            _ => CollectionRoot::of(description, self.bin),
        }
    }

    /// Decodes the bins `shard_of` and `frozen`.
    fn companion(
        &self,
        place: RecordRef,
        values: &[Option<Value>],
    ) -> Option<(Companion, CompanionState)> {
        let [Some(shard_of), frozen] = values else {
            return None;
        };
        let companion = self.name(place).parse(shard_of)?;
        let state = match frozen {
            None => CompanionState::Live,
            Some(Value::Int(token)) if *token != 0 => {
                CompanionState::Placed(CompanionToken(*token as u64))
            }
            Some(_) => CompanionState::Frozen,
        };
        Some((companion, state))
    }
}

/// Returns the filter of a root in which the collection of this bin is unsharded, beside a sharded
/// one.
fn is_beside_sharded(bin: &str) -> Expression {
    let holds = |kind: ParticleType| eq(bin_type(SUBKEYS), kind as i64);
    let count = MapReturnType::Count;
    let entries = maps::get_by_key(count, ExpType::Int, bin, map_bin(SUBKEYS), &[]);
    and([
        not(bin_exists(SHARD_OF)),
        or([
            and([holds(ParticleType::List), ne(string_bin(SUBKEYS_BIN), bin)]),
            and([holds(ParticleType::Map), eq(entries, 0)]),
        ]),
    ])
}

/// Returns the shards and the epoch of the companion that must be open for a request.
const fn open(request: &AtomicRequest<Bin>) -> Option<Companion> {
    match &request.precondition {
        Precondition::Live(companion) => Some(*companion),
        _ => None,
    }
}

/// Returns whether the precondition of a read implies the state of the record, which then need not
/// be read.
const fn is_known(request: &AtomicRequest<Bin>) -> bool {
    matches!(
        (&request.edit, &request.read, &request.precondition),
        (
            RequestEdit::None,
            Read::User(_),
            Precondition::Live(_) | Precondition::Unsharded(_)
        )
    )
}

/// Tokens are positive: 0 marks a companion that is frozen with its content.
const fn token_value(token: CompanionToken) -> i64 {
    token.0 as i64
}
