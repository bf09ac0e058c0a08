//! A request of the protocol as operations and a filter, and what they have answered as a reply.

use std::borrow::Cow;
use std::sync::Arc;

use super::content::{Act, Bin, Collection};
use super::protocol::{Ask, Edit, Guard, Mark, Place, Reply, Request, Root, Seen, Token};
use super::route::{companion_key, text};
use super::scheme::{
    Companion, Epoch, FROZEN, SHARD_OF, SUBKEYS, SUBKEYS_BIN, SUBKEYS_EPOCH, Scheme, key_value,
    parse_shard_of, shard_of,
};
use crate::expressions::{and, bin_exists, eq, int_bin, list_bin, lists, lt, not, or, val};
use crate::operations::{delete_all_bins, delete_bin, get_bin, put};
use crate::{
    Error, ExpType, Expiration, Expression, Key, ListReturnType, Operated, Operation,
    RecordExistsAction, Result, Value, WritePolicy,
};

/// Lowers the requests for one collection.
#[derive(Clone, Debug)]
pub(crate) struct Lowering {
    pub(crate) key: Key<'static>,
    pub(crate) bin: Box<str>,
    pub(crate) collection: Collection,
    /// The caller's policy, for the root while the collection is in it.
    whole: WritePolicy,
    /// The same, where nothing is to be created.
    whole_existing: WritePolicy,
    /// For everything else: these records do not expire.
    protocol: WritePolicy,
}

/// A request, as a record set takes it.
#[derive(Clone, Debug)]
pub(crate) struct Lowered<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) policy: Cow<'a, WritePolicy>,
    pub(crate) operations: Arc<[Operation]>,
    /// How many operations come before the first whose result was asked for.
    edits: usize,
}

/// How many results say what a root or a companion is, before its content.
const ROOT_STATE: usize = 4;
const COMPANION_STATE: usize = 2;

impl Lowering {
    /// `policy`: the caller's; its existence action, generation and filter do not count.
    pub(crate) fn new(
        key: Key<'static>,
        bin: &str,
        collection: Collection,
        policy: &WritePolicy,
    ) -> Self {
        let base = WritePolicy::default()
            .total_timeout(policy.total_timeout)
            .send_key(policy.send_key)
            .durable_delete(policy.durable_delete);
        let whole = base
            .clone()
            .expiration(policy.expiration)
            .filter(and([not(bin_exists(SUBKEYS)), not(bin_exists(SHARD_OF))]));
        Self {
            key,
            bin: bin.into(),
            collection,
            whole_existing: whole
                .clone()
                .record_exists_action(RecordExistsAction::UpdateOnly),
            whole,
            protocol: base.expiration(Expiration::Never),
        }
    }

    pub(crate) fn policy(&self) -> &WritePolicy {
        &self.whole
    }

    pub(crate) fn key_of(&self, place: Place) -> Key<'_> {
        match place {
            Place::Root => Key::from(&self.key),
            Place::Companion(shard) => companion_key(&self.key, shard),
        }
    }

    pub(crate) fn lower(&self, request: &Request<Bin>) -> Lowered<'_> {
        let (operations, edits) = match (&request.edit, &request.ask) {
            // The common ones are taken as they are.
            (Edit::User(act), Ask::Nothing) => (Arc::clone(&act.operations), 0),
            (edit, ask) => {
                let mut operations = self.edit(request.place, edit);
                let edits = operations.len();
                operations.extend(self.ask(request.place, ask));
                (operations.into(), edits)
            }
        };
        Lowered {
            key: self.key_of(request.place),
            policy: self.policy_of(request),
            operations,
            edits,
        }
    }

    fn policy_of(&self, request: &Request<Bin>) -> Cow<'_, WritePolicy> {
        if let (Guard::Whole, Edit::User(act)) = (request.guard, &request.edit) {
            return Cow::Borrowed(match act {
                Act { creates: true, .. } => &self.whole,
                Act { creates: false, .. } => &self.whole_existing,
            });
        }
        let exists = match request.edit {
            Edit::None => return Cow::Borrowed(&self.protocol),
            Edit::Mark(..) => RecordExistsAction::Update,
            Edit::Place(..) => RecordExistsAction::Replace,
            _ => RecordExistsAction::UpdateOnly,
        };
        let policy = self.protocol.clone().record_exists_action(exists);
        Cow::Owned(match self.filter(request.place, request.guard) {
            Some(filter) => policy.filter(filter),
            None => policy,
        })
    }

    fn filter(&self, place: Place, guard: Guard) -> Option<Expression> {
        let shard = match place {
            Place::Root => 0,
            Place::Companion(shard) => shard,
        };
        let exactly = |companion| eq(list_bin(SHARD_OF), shard_of(&self.key, shard, companion));
        let own = |index, kind| {
            let value = ListReturnType::Values;
            lists::get_by_index(value, kind, index, list_bin(SHARD_OF), &[])
        };
        let key_type = match self.key {
            Key::Integer(_) => ExpType::Int,
            Key::String(_) => ExpType::String,
            Key::Blob(_) => ExpType::Blob,
        };
        let older = |epoch: Epoch| {
            [
                eq(own(0, key_type), key_value(&self.key)),
                eq(own(2, ExpType::Int), shard as i64),
                lt(own(3, ExpType::Int), epoch.value()),
            ]
        };
        let root_is = |scheme: Scheme, epoch: Epoch| match scheme.value() {
            None => not(bin_exists(SUBKEYS)),
            Some(value) => and([
                eq(list_bin(SUBKEYS), value),
                eq(int_bin(SUBKEYS_EPOCH), epoch.value()),
            ]),
        };
        let absent = |bin: &str| not(bin_exists(bin));
        Some(match guard {
            Guard::None => return None,
            Guard::Whole => and([absent(SUBKEYS), absent(SHARD_OF)]),
            Guard::WholeBefore(epoch) => and([
                absent(SUBKEYS),
                absent(SHARD_OF),
                or([
                    absent(SUBKEYS_EPOCH),
                    lt(int_bin(SUBKEYS_EPOCH), epoch.value()),
                ]),
            ]),
            Guard::RootIs(scheme, epoch) => root_is(scheme, epoch),
            Guard::Live(companion) => {
                and([exactly(companion), absent(FROZEN), bin_exists(&self.bin)])
            }
            Guard::OlderThan(epoch) => and(older(epoch)),
            Guard::Placed(companion, token) => and([
                exactly(companion),
                eq(int_bin(FROZEN), val(token_value(token))),
            ]),
        })
    }

    fn edit(&self, place: Place, edit: &Edit<Bin>) -> Vec<Operation> {
        let scheme = |scheme: Scheme| put(SUBKEYS, scheme.value().unwrap_or(Value::Nil));
        let settle = |to: Scheme| match to {
            Scheme::Whole => vec![scheme(to), delete_bin(SUBKEYS_BIN)],
            to => vec![scheme(to)],
        };
        let described = |companion: Companion| {
            let shard = match place {
                Place::Root => 0,
                Place::Companion(shard) => shard,
            };
            put(SHARD_OF, shard_of(&self.key, shard, companion))
        };
        match edit {
            Edit::None => Vec::new(),
            Edit::User(act) => act.operations.to_vec(),
            Edit::Mark(to, epoch) => vec![
                scheme(*to),
                put(SUBKEYS_EPOCH, epoch.value()),
                put(SUBKEYS_BIN, &*self.bin),
            ],
            Edit::Spread(to) => {
                let mut operations = settle(*to);
                operations.push(delete_bin(&self.bin));
                operations
            }
            Edit::Settle(to) => settle(*to),
            Edit::PutBack(whole) => whole.clone().fill(&self.bin),
            Edit::Clear => vec![delete_bin(&self.bin)],
            Edit::Place(companion, token) => {
                vec![described(*companion), put(FROZEN, token_value(*token))]
            }
            Edit::Fill(part) => {
                let mut operations = part.clone().fill(&self.bin);
                operations.push(delete_bin(FROZEN));
                operations
            }
            Edit::Freeze => vec![put(FROZEN, 0)],
            Edit::Shed(moved, companion) => {
                let mut operations = moved.clone().shed(&self.bin);
                operations.push(described(*companion));
                operations.push(delete_bin(FROZEN));
                operations
            }
            Edit::TakeIn(part, companion) => {
                let mut operations = part.clone().take_in(&self.bin);
                operations.push(described(*companion));
                operations
            }
            Edit::Delete => vec![delete_all_bins()],
        }
    }

    fn ask(&self, place: Place, ask: &Ask<Bin>) -> Vec<Operation> {
        let mut operations = match (ask, place) {
            (Ask::Nothing, _) => return Vec::new(),
            (_, Place::Root) => {
                vec![
                    get_bin(SUBKEYS),
                    get_bin(SUBKEYS_EPOCH),
                    get_bin(SUBKEYS_BIN),
                    get_bin(SHARD_OF),
                ]
            }
            (_, Place::Companion(_)) => vec![get_bin(SHARD_OF), get_bin(FROZEN)],
        };
        match ask {
            Ask::Nothing => {}
            Ask::State => operations.push(self.collection.presence(&self.bin)),
            Ask::Content => operations.push(get_bin(&self.bin)),
            Ask::User(act) => operations.extend(act.operations.iter().cloned()),
        }
        operations
    }

    /// The reply to a request.
    ///
    /// # Errors
    /// Those of the store, and [`Error::ShardScheme`] for a root that is not understood.
    pub(crate) fn raise(
        &self,
        request: &Request<Bin>,
        lowered: &Lowered<'_>,
        operated: Result<Operated>,
    ) -> Result<Reply<Bin>> {
        let operated = match operated {
            Err(Error::NotFound) => return Ok(Reply::NotFound),
            Err(Error::FilteredOut) => return Ok(Reply::FilteredOut),
            operated => operated?,
        };
        let mut values = vec![None; lowered.operations.len() - lowered.edits];
        for result in operated.results {
            let asked = result.operation.checked_sub(lowered.edits);
            if let Some(value) = asked.and_then(|asked| values.get_mut(asked)) {
                *value = Some(result.value);
            }
        }
        let mut seen = Seen {
            root: Root::default(),
            companion: None,
            has_bin: false,
            content: None,
            answer: None,
        };
        if matches!(request.ask, Ask::Nothing) {
            if matches!(request.edit, Edit::User(_)) {
                seen.answer = Some(values);
            }
            return Ok(Reply::Done(seen));
        }
        let rest = match request.place {
            Place::Root => {
                let rest = values.split_off(ROOT_STATE);
                seen.root = self.root(&values)?;
                rest
            }
            Place::Companion(shard) => {
                let rest = values.split_off(COMPANION_STATE);
                seen.companion = self.companion(shard, &values);
                rest
            }
        };
        seen.has_bin = rest.iter().any(Option::is_some);
        if matches!(request.ask, Ask::State)
            && let Some(Some(value)) = rest.first()
        {
            self.collection.check(&self.bin, value)?;
        }
        match request.ask {
            Ask::Content => {
                let value = rest.into_iter().next().flatten();
                seen.content = Some(self.collection.content(&self.bin, value)?);
            }
            Ask::User(_) => seen.answer = Some(rest),
            Ask::Nothing | Ask::State => {}
        }
        Ok(Reply::Done(seen))
    }

    /// What the bins `subkeys`, `subkeys_epoch` and `subkeys_bin` say.
    fn root(&self, values: &[Option<Value>]) -> Result<Root> {
        let [subkeys, epoch, bin, shard_of] = values else {
            return Ok(Root::default());
        };
        // A companion of another collection: whoever wrote here would write into that.
        if shard_of.is_some() {
            return Err(Error::ShardKeyCollision {
                key: text(&self.key),
            });
        }
        let scheme = Scheme::parse(subkeys.as_ref())?;
        if scheme != Scheme::Whole && *bin != Some((&*self.bin).into()) {
            return Err(Error::ShardScheme {
                found: format!("{bin:?}").into(),
                why: "it is another bin of the record that is sharded, and a record has one such bin",
            });
        }
        let epoch = match epoch {
            None => Epoch::default(),
            Some(epoch) => Epoch::of(epoch).ok_or_else(|| Error::ShardScheme {
                found: format!("{epoch:?}").into(),
                why: "the bin subkeys_epoch holds no number of a transition",
            })?,
        };
        Ok(Root { scheme, epoch })
    }

    /// What the bins `shard_of` and `frozen` say.
    fn companion(&self, shard: u64, values: &[Option<Value>]) -> Option<(Companion, Mark)> {
        let [Some(shard_of), frozen] = values else {
            return None;
        };
        let companion = parse_shard_of(shard_of, &self.key, shard)?;
        let mark = match frozen {
            None => Mark::Live,
            Some(Value::Int(token)) if *token != 0 => Mark::Placed(Token(*token as u64)),
            Some(_) => Mark::Frozen,
        };
        Some((companion, mark))
    }
}

/// Tokens are positive: 0 stands for a companion that is frozen with its content.
const fn token_value(token: Token) -> i64 {
    token.0 as i64
}
