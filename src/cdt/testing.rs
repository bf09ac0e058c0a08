//! Test helpers: calls, and their effects on encoded lists and maps.

use super::action::Action;
use super::dispatch::{PreparedCall, UnreadCall};
use super::policy::MapWriteFlags;
use super::select::Selector;
use super::shape::ItemShape;
use super::table::{ActionKind, Arity, OpSpec, SelectorKind};
use super::view::CollectionView;
use super::{modify, read};
use crate::call::{CallError, CallWriter, PathCall, Trust, below};
use crate::value::testing::decode;
use crate::value::{EncodePurpose, ListOrder, Map, MapOrder, ParticleType, Value};

/// Parses a call into a prepared operation; `None` for operations that have no builder.
pub(crate) fn prepared(
    call: &PathCall<'static>,
    writes: bool,
) -> Result<Option<PreparedCall>, CallError> {
    let call = UnreadCall::parse(call, writes)?;
    let (spec, action) = (call.spec, call.read()?);
    Ok(action.fits(spec).then_some(PreparedCall { spec, action }))
}

impl Action<'_> {
    /// Returns whether these arguments belong to an operation; an operation may have no builder.
    fn fits(&self, spec: &OpSpec) -> bool {
        match (spec.kind, self) {
            (ActionKind::SetType, Self::SetType(_))
            | (ActionKind::Size, Self::Size)
            | (ActionKind::Clear, Self::Clear)
            | (ActionKind::Sort, Self::Sort(_))
            | (ActionKind::Set, Self::Set { .. })
            | (ActionKind::IncrementElement, Self::IncrementElement { .. })
            | (ActionKind::IncrementValue(_), Self::IncrementValue { .. }) => true,
            (ActionKind::Select(kind, fixed), Self::Get(selector, returns)) => {
                !spec.writes
                    && selector.kind() == kind
                    && fixed.is_none_or(|fixed| fixed == *returns)
            }
            (ActionKind::Select(kind, fixed), Self::Remove(selector, returns)) => {
                spec.writes
                    && selector.kind() == kind
                    && fixed.is_none_or(|fixed| fixed == *returns)
            }
            (ActionKind::Append(arity), Self::Append { items, .. })
            | (ActionKind::Insert(arity), Self::Insert { items, .. })
            | (ActionKind::Put(arity, None), Self::Put { items, .. }) => {
                items.single == (arity == Arity::One)
            }
            _ => false,
        }
    }
}

impl Selector<'_> {
    /// Returns the kind of the selector.
    const fn kind(&self) -> SelectorKind {
        match self {
            Self::Index(_) => SelectorKind::Index,
            Self::IndexRange { .. } => SelectorKind::IndexRange,
            Self::Key(_) => SelectorKind::Key,
            Self::Keys(_) => SelectorKind::Keys,
            Self::KeyInterval(..) => SelectorKind::KeyInterval,
            Self::KeyRelative { .. } => SelectorKind::KeyRelative,
            Self::Rank(_) => SelectorKind::Rank,
            Self::RankRange { .. } => SelectorKind::RankRange,
            Self::FirstValue(_) => SelectorKind::FirstValue,
            Self::Value(_) => SelectorKind::Value,
            Self::Values(_) => SelectorKind::Values,
            Self::ValueInterval(..) => SelectorKind::ValueInterval,
            Self::ValueRelative { .. } => SelectorKind::ValueRelative,
        }
    }
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    Int(i64),
    Value(Value),
    List(Vec<Value>),
    /// Distinct keys only.
    Map(Vec<(Value, Value)>),
}

/// Encodes a call from its number and arguments.
pub(super) fn call(code: u8, args: &[Arg]) -> Box<[u8]> {
    let mut call = CallWriter::new(code);
    for arg in args {
        call = match arg {
            Arg::Int(value) => call.int(*value),
            Arg::Value(value) => call.value(value, EncodePurpose::Lookup),
            Arg::List(values) => call.list(values, EncodePurpose::Lookup),
            Arg::Map(entries) => {
                let map = Map::new(entries.clone(), MapOrder::Unordered);
                call.value(&map.into(), EncodePurpose::Storage)
            }
        };
    }
    call.finish().unwrap()
}

/// Encodes a call below a path of kinds and values.
pub(super) fn call_below(path: &[(i64, Value)], call: &[u8]) -> Box<[u8]> {
    let mut list: Vec<Value> = Vec::new();
    for (kind, value) in path {
        list.extend([Value::Int(*kind), value.clone()]);
    }
    let list = crate::value::List::new(list, ListOrder::Unordered);
    below(&crate::value::testing::encoded(&list.into()), call)
}

/// A bin with a list or map, or a missing one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bin(pub(super) Option<(ParticleType, Vec<u8>)>);

impl Bin {
    pub(super) fn of(shape: ItemShape, bytes: Vec<u8>) -> Self {
        Self(Some((shape.kind(), bytes)))
    }

    /// Makes a list with these flags and elements, by appending them.
    pub(super) fn list(flags: u8, items: &[Value]) -> Self {
        let mut bin = Self::default();
        let items = Arg::List(items.to_vec());
        bin.run(
            true,
            &call(
                super::code::LIST_APPEND_ITEMS,
                &[items, Arg::Int(flags.into())],
            ),
        )
        .unwrap();
        bin
    }

    /// Makes a map with these flags and entries, by putting them.
    pub(super) fn map(flags: u8, entries: &[(Value, Value)]) -> Self {
        let mut bin = Self::default();
        let entries = Arg::Map(entries.to_vec());
        bin.run(
            true,
            &call(
                super::code::MAP_PUT_ITEMS,
                &[entries, Arg::Int(flags.into())],
            ),
        )
        .unwrap();
        bin
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |(_, bytes)| bytes)
    }

    pub(super) fn view(&self) -> CollectionView<'_> {
        let (kind, bytes) = self.0.as_ref().unwrap();
        CollectionView::parse(ItemShape::of_kind(*kind).unwrap(), bytes).unwrap()
    }

    /// Executes a call; the bin changes unless it fails.
    pub(super) fn run(&mut self, writes: bool, call: &[u8]) -> Result<Value, CallError> {
        self.run_as(Trust::Normal, writes, call)
    }

    pub(super) fn run_as(
        &mut self,
        trust: Trust,
        writes: bool,
        call: &[u8],
    ) -> Result<Value, CallError> {
        let call = PathCall::parse(call, trust)?;
        let current = self
            .0
            .as_ref()
            .map(|(kind, bytes)| (*kind, bytes.as_slice()));
        let (new, reply) = if writes {
            let (edit, reply) = modify(current, &call)?;
            let new = edit.map(|edit| {
                let mut out = vec![0xaa];
                edit.write(&mut out);
                assert_eq!(
                    out.len(),
                    1 + edit.encoded_len(),
                    "the length is known beforehand"
                );
                (edit.kind(), out.split_off(1))
            });
            (new, reply.to_value().map_err(CallError::Stored)?)
        } else {
            let Some(current) = current else {
                return Ok(Value::Nil);
            };
            (
                None,
                read(current, &call)?
                    .to_value()
                    .map_err(CallError::Stored)?,
            )
        };
        if new.is_some() {
            self.0 = new;
        }
        Ok(reply)
    }

    /// Executes a prepared operation; the bin changes unless it fails.
    pub(super) fn run_prepared(&mut self, call: &PreparedCall) -> Result<Value, CallError> {
        let current = self
            .0
            .as_ref()
            .map(|(kind, bytes)| (*kind, bytes.as_slice()));
        let (edit, reply) = match (current, call.writes()) {
            (None, false) => return Ok(Value::Nil),
            (Some((kind, bytes)), false) => (None, call.read(kind, bytes)?),
            (current, true) => call.modify(current)?,
        };
        let reply = reply.to_value().map_err(CallError::Stored)?;
        let edited = edit.map(|edit| (edit.kind(), edit.to_bytes()));
        self.0 = edited.or(self.0.take());
        Ok(reply)
    }

    pub(super) fn value(&self) -> Value {
        decode(self.bytes()).unwrap()
    }

    /// Checks that index and ranks agree with a walk over every item.
    pub(super) fn check_index(&self) {
        let view = self.view();
        let indexed = view.flags & crate::value::FLAG_PERSIST_INDEX != 0 && view.count > 1;
        let ranked = indexed && view.flags & crate::value::FLAG_VALUE_ORDERED != 0;
        assert_eq!(view.ranks.is_some(), ranked && view.shape == ItemShape::Map);
        let mut items = Vec::new();
        for item in view.walk() {
            let item = item.unwrap();
            let start = view.start_of(item.at);
            let expected = Some(item.start).filter(|_| indexed || item.at == 0);
            assert_eq!(start, expected, "item {} of {view:?}", item.at);
            items.push((view.value(item), item.at));
        }
        assert_eq!(view.segment(0, view.count).unwrap().end, view.content.len());
        if let Some(ranks) = view.ranks {
            items.sort_by(|a, b| crate::value::order::compare_total(a.0, b.0).then(a.1.cmp(&b.1)));
            for (rank, (_, at)) in items.iter().enumerate() {
                assert_eq!(ranks.position(rank as u32), *at, "rank {rank} of {view:?}");
            }
        }
    }
}

/// The arguments of an operation, in order; all after `required` are optional.
#[derive(Clone, Copy, Debug)]
pub(super) enum Needs {
    Int,
    Count,
    Returns,
    Key,
    Value,
    Values,
    Keys,
    Entries,
    Number,
    Create,
    Flags,
}

/// Returns the arguments of an operation.
pub(super) fn needs(spec: &OpSpec) -> Vec<Needs> {
    use Needs as N;
    let item = match spec.shape {
        ItemShape::List => vec![N::Value],
        ItemShape::Map => vec![N::Key, N::Value],
    };
    let several = match spec.shape {
        ItemShape::List => vec![N::Values],
        ItemShape::Map => vec![N::Entries],
    };
    let items = |many| {
        if many == Arity::One {
            item.clone()
        } else {
            several.clone()
        }
    };
    match spec.kind {
        ActionKind::SetType => vec![N::Create],
        ActionKind::Size | ActionKind::Clear => vec![],
        ActionKind::Sort => vec![N::Flags],
        ActionKind::Select(by, fixed) => {
            let mut needs = if fixed.is_some() {
                vec![]
            } else {
                vec![N::Returns]
            };
            needs.extend(match by {
                SelectorKind::Index | SelectorKind::Rank => vec![N::Int],
                SelectorKind::IndexRange | SelectorKind::RankRange => vec![N::Int, N::Count],
                SelectorKind::Key => vec![N::Key],
                SelectorKind::Keys => vec![N::Keys],
                SelectorKind::KeyInterval => vec![N::Key, N::Key],
                SelectorKind::KeyRelative => vec![N::Key, N::Int, N::Count],
                SelectorKind::FirstValue | SelectorKind::Value => vec![N::Value],
                SelectorKind::Values => vec![N::Values],
                SelectorKind::ValueInterval => vec![N::Value, N::Value],
                SelectorKind::ValueRelative => vec![N::Value, N::Int, N::Count],
            });
            needs
        }
        ActionKind::Append(many) => [items(many), vec![N::Create, N::Flags]].concat(),
        ActionKind::Insert(many) => [vec![N::Int], items(many), vec![N::Flags]].concat(),
        ActionKind::Set => vec![N::Int, N::Value, N::Flags],
        ActionKind::IncrementElement => vec![N::Int, N::Number, N::Create, N::Flags],
        ActionKind::Put(many, None) => [items(many), vec![N::Create, N::Flags]].concat(),
        ActionKind::Put(many, Some(flags)) if flags == MapWriteFlags::UPDATE_ONLY => items(many),
        ActionKind::Put(many, Some(_)) => [items(many), vec![N::Create]].concat(),
        ActionKind::IncrementValue(_) => vec![N::Key, N::Number, N::Create],
    }
}

/// Returns whether a call can be parsed.
pub(super) fn parses(bytes: &[u8]) -> bool {
    PathCall::parse(bytes, Trust::Foreign).is_ok()
}
