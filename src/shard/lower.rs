//! A request of the protocol as operations and a filter, and what they have answered as a reply.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::companions::Companions;
use super::content::{Act, Answered, Bin, Collection};
use super::protocol::{Ask, Edit, Guard, Mark, Place, Reply, Request, Root, Seen, Token};
use super::route::text;
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

/// What holds for a root while the collection is in it: one for all, since it is compiled once.
static WHOLE: LazyLock<Expression> =
    LazyLock::new(|| and([not(bin_exists(SUBKEYS)), not(bin_exists(SHARD_OF))]));

/// Lowers the requests for one collection.
#[derive(Debug)]
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
    pub(crate) companions: Companions<Companion>,
}

/// A request, as a record set takes it.
#[derive(Clone, Debug)]
pub(crate) struct Lowered<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) policy: Cow<'a, WritePolicy>,
    pub(crate) operations: Cow<'a, [Operation]>,
    /// How many operations come before the first whose result was asked for.
    edits: usize,
}

/// The bins that say what a root or a companion is. They are read before its content.
const ROOT_STATE: [&str; 4] = [SUBKEYS, SUBKEYS_EPOCH, SUBKEYS_BIN, SHARD_OF];
const COMPANION_STATE: [&str; 2] = [SHARD_OF, FROZEN];

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
            .filter(WHOLE.clone());
        Self {
            key,
            bin: bin.into(),
            collection,
            whole_existing: whole
                .clone()
                .record_exists_action(RecordExistsAction::UpdateOnly),
            whole,
            protocol: base.expiration(Expiration::Never),
            companions: Companions::default(),
        }
    }

    pub(crate) fn policy(&self) -> &WritePolicy {
        &self.whole
    }

    pub(crate) fn key_of(&self, place: Place) -> Key<'_> {
        match place {
            Place::Root => Key::from(&self.key),
            Place::Companion(shard) => self.companions.key(&self.key, shard),
        }
    }

    pub(crate) fn lower<'a>(&'a self, request: &'a Request<Bin>) -> Lowered<'a> {
        let (operations, edits) = match (&request.edit, &request.ask) {
            // The common ones are taken as they are.
            (Edit::User(act), Ask::Nothing) => (Cow::Borrowed(&*act.operations), 0),
            (Edit::None, Ask::User(act)) if known(request).is_some() => {
                (Cow::Borrowed(&*act.operations), 0)
            }
            (edit, ask) => {
                let mut operations = self.edit(request.place, edit);
                let edits = operations.len();
                self.ask(request.place, ask, &mut operations);
                (Cow::Owned(operations), edits)
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
            Edit::None if request.guard == Guard::None => return Cow::Borrowed(&self.protocol),
            Edit::Mark(..) => RecordExistsAction::Update,
            Edit::Place(..) => RecordExistsAction::Replace,
            _ => RecordExistsAction::UpdateOnly,
        };
        let filter = match live(request) {
            Some((shard, companion)) => Some(
                self.companions
                    .filter(shard, companion, || self.open(shard, companion)),
            ),
            None => self.filter(request.place, request.guard),
        };
        Cow::Owned(WritePolicy {
            record_exists_action: exists,
            filter,
            ..self.protocol.clone()
        })
    }

    /// What holds for a companion that is exactly this one.
    fn exactly(&self, shard: u64, companion: Companion) -> Expression {
        eq(list_bin(SHARD_OF), shard_of(&self.key, shard, companion))
    }

    /// What holds for it while it may be read and written.
    fn open(&self, shard: u64, companion: Companion) -> Expression {
        let thawed = not(bin_exists(FROZEN));
        and([
            self.exactly(shard, companion),
            thawed,
            bin_exists(&self.bin),
        ])
    }

    fn filter(&self, place: Place, guard: Guard) -> Option<Expression> {
        let shard = match place {
            Place::Root => 0,
            Place::Companion(shard) => shard,
        };
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
            Guard::Whole => WHOLE.clone(),
            Guard::WholeBefore(epoch) => and([
                absent(SUBKEYS),
                absent(SHARD_OF),
                or([
                    absent(SUBKEYS_EPOCH),
                    lt(int_bin(SUBKEYS_EPOCH), epoch.value()),
                ]),
            ]),
            Guard::RootIs(scheme, epoch) => root_is(scheme, epoch),
            Guard::Bare(scheme, epoch) => and([root_is(scheme, epoch), absent(&self.bin)]),
            Guard::Live(companion) => self.open(shard, companion),
            Guard::OlderThan(epoch) => and(older(epoch)),
            Guard::Placed(companion, token) => and([
                self.exactly(shard, companion),
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

    fn ask(&self, place: Place, ask: &Ask<Bin>, operations: &mut Vec<Operation>) {
        let state = match place {
            Place::Root => &ROOT_STATE[..],
            Place::Companion(_) => &COMPANION_STATE,
        };
        let content;
        let asked = match ask {
            Ask::Nothing => return,
            Ask::State => {
                content = [self.collection.presence(&self.bin)];
                &content[..]
            }
            Ask::Content => {
                content = [get_bin(&self.bin)];
                &content[..]
            }
            Ask::User(act) => &act.operations,
        };
        operations.reserve_exact(state.len() + asked.len());
        operations.extend(state.iter().map(|bin| get_bin(bin)));
        operations.extend_from_slice(asked);
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
        let record_bytes = operated.record_bytes;
        let mut values = vec![None; lowered.operations.len() - lowered.edits];
        for result in operated.results {
            let asked = result.operation.checked_sub(lowered.edits);
            if let Some(value) = asked.and_then(|asked| values.get_mut(asked)) {
                *value = Some(result.value);
            }
        }
        let answered = |values| {
            Some(Answered {
                values,
                record_bytes,
            })
        };
        let mut seen = Seen::nothing();
        if matches!(request.ask, Ask::Nothing) {
            if matches!(request.edit, Edit::User(_)) {
                seen.answer = answered(values);
            }
            return Ok(Reply::Done(seen));
        }
        let rest = match (known(request), request.place) {
            (Some(companion), _) => {
                seen.companion = Some((companion, Mark::Live));
                values
            }
            (None, Place::Root) => {
                let rest = values.split_off(ROOT_STATE.len());
                seen.root = self.root(&values)?;
                rest
            }
            (None, Place::Companion(shard)) => {
                let rest = values.split_off(COMPANION_STATE.len());
                seen.companion = self.companion(shard, &values);
                rest
            }
        };
        seen.has_bin = known(request).is_some() || rest.iter().any(Option::is_some);
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
            Ask::User(_) => seen.answer = answered(rest),
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

/// The companion that must be open for this: its number, and what it must be.
const fn live(request: &Request<Bin>) -> Option<(u64, Companion)> {
    match (request.place, request.guard) {
        (Place::Companion(shard), Guard::Live(companion)) => Some((shard, companion)),
        _ => None,
    }
}

/// The companion that a read has found open, or nothing: it need not ask what it is.
const fn known(request: &Request<Bin>) -> Option<Companion> {
    match (&request.edit, &request.ask, live(request)) {
        (Edit::None, Ask::User(_), Some((_, companion))) => Some(companion),
        _ => None,
    }
}

/// Tokens are positive: 0 stands for a companion that is frozen with its content.
const fn token_value(token: Token) -> i64 {
    token.0 as i64
}
