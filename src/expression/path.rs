//! Paths that may choose several elements a level, also by expressions: selecting the elements
//! reached, and changing them.
//!
//! One front-to-back walk over the nested lists and maps copies the chosen elements, or everything
//! with the leaves replaced, into the result. O(bytes), plus the expressions; nothing is decoded.

use std::borrow::Cow;

use super::budget::Budget;
use super::node::{PathLevel, PathOutput, Program, Selection, StepSelector};
use super::types::ExpType;
use super::value::ExpValue;
use crate::call::level::{
    AND, BY_EXPRESSION, BY_INDEX, BY_KEY, BY_KEYS, BY_RANK, BY_VALUE, IN_LIST, IN_MAP, SELECTOR,
};
use crate::call::{CallError, CallReply, MAX_COLLECTION_BYTES, Path, Trust, normal};
use crate::cdt::{CollectionView, ItemShape, Selector, level_number, locate, resolve, with_index};
use crate::value::msgpack::{SUBTYPE_STRING, Token, TokenReader};
use crate::value::order::{compare, compare_lookups};
use crate::value::{
    CodecError, Container, EncodePurpose, FLAG_PERSIST_INDEX, MAX_NESTING, ParticleType, Spans,
    from_wire, write_head,
};

/// The most levels: Aerospike's limit.
const MAX_LEVELS: u32 = 64;

/// The parts of the flags.
const WHAT: i64 = 0x0f;
const NO_FAIL: i64 = 0x10;

/// The element that a path's expressions are evaluated for, encoded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Element<'a> {
    /// The key of a map's entry; lists have none.
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) index: Option<i64>,
}

/// The result of a selection.
pub(crate) enum PathSelection {
    Reply(CallReply<'static>),
    /// The new list or map.
    Applied(ParticleType, Vec<u8>),
}

impl Selection {
    /// Parses a selection, which must change something if it `writes`, and must not otherwise. A
    /// malformed expression is refused even if nothing is selected.
    pub(super) fn parse(
        path: Path<'_>,
        flags: i64,
        apply: Option<&[u8]>,
        writes: bool,
    ) -> Result<Self, CallError> {
        let levels = levels(path)?;
        let what = match flags & WHAT {
            4 if writes => PathOutput::Apply,
            4 => return Err(CallError::parameter("a read that changes its selection")),
            0..=3 if writes => {
                return Err(CallError::parameter("a write that changes nothing"));
            }
            0 => PathOutput::Tree,
            1 => PathOutput::Values,
            2 => PathOutput::Keys,
            3 => PathOutput::KeysAndValues,
            other => {
                return Err(CallError::parameter(format!(
                    "{other} is not a result type of a selection"
                )));
            }
        };
        let apply = match (what, apply) {
            (PathOutput::Apply, Some(apply)) => Some(Program::compile(apply)?),
            (PathOutput::Apply, None) => {
                return Err(CallError::parameter(
                    "a selection that changes something needs an expression",
                ));
            }
            (_, None) => None,
            (_, Some(_)) => {
                return Err(CallError::parameter(
                    "an expression that is not applied: it belongs to selections that change something",
                ));
            }
        };
        // Walks recurse once a level: paths within the expressions of paths have together as many
        // levels as values have.
        let programs = levels.iter().flat_map(PathLevel::programs).chain(&apply);
        let depth = levels.len() + programs.map(|one| one.path_levels).max().unwrap_or(0);
        if depth > MAX_NESTING as usize {
            return Err(CallError::parameter(format!(
                "paths within conditions of paths: {depth} levels together, at most {MAX_NESTING} are possible"
            )));
        }
        Ok(Self {
            levels,
            what,
            no_fail: flags & NO_FAIL != 0,
            apply,
            depth,
        })
    }
}

/// Executes a selection on a list or map.
pub(super) fn select(
    (kind, bytes): (ParticleType, &[u8]),
    selection: &Selection,
    budget: &Budget,
) -> Result<PathSelection, CallError> {
    if !matches!(kind, ParticleType::List | ParticleType::Map) {
        return Err(CallError::WrongType {
            found: kind,
            operation: "a selection by a path",
        });
    }
    let what = selection.what;
    let mut walk = PathWalk {
        what,
        no_fail: selection.no_fail,
        apply: selection.apply.as_ref(),
        budget,
        out: Vec::new(),
        leaves: 0,
    };
    walk.out.reserve(bytes.len());
    let paid = budget.spend_on_reading(bytes.len());
    let walked = paid.map_or(Ok(()), |()| walk.container(bytes, &selection.levels));
    // First: a spent budget makes conditions unknown, so it is the cause of an error of the walk.
    budget.check()?;
    walked?;
    let PathWalk {
        mut out, leaves, ..
    } = walk;
    match what {
        PathOutput::Apply => {
            // Values of the expression may be in any form; a bin holds normal form only.
            let mut normal = Vec::with_capacity(out.len());
            from_wire(kind, &out, &mut normal).map_err(|error| match error {
                CodecError::NotStorable => CallError::WrongType {
                    found: kind,
                    operation: "storing wildcard or infinity",
                },
                other => CallError::Stored(other),
            })?;
            Ok(PathSelection::Applied(kind, with_index(kind, normal)?))
        }
        PathOutput::Tree => Ok(PathSelection::Reply(CallReply::Element(Cow::Owned(out)))),
        _ => {
            put_head(ItemShape::List, leaves, 0, 0, &mut out)?;
            Ok(PathSelection::Reply(CallReply::Element(Cow::Owned(out))))
        }
    }
}

fn levels(mut path: Path<'_>) -> Result<Vec<PathLevel>, CallError> {
    if path.levels() > MAX_LEVELS {
        return Err(CallError::parameter(format!(
            "a path of {} levels: at most {MAX_LEVELS} are possible",
            path.levels()
        )));
    }
    let trust = path.trust();
    let mut levels: Vec<PathLevel> = Vec::new();
    while let Some((kind, value)) = path.next()? {
        if kind & AND != 0 {
            let previous = levels.last_mut().filter(|level| {
                kind == AND | BY_EXPRESSION
                    && level.and.is_none()
                    && !matches!(level.by, StepSelector::All | StepSelector::Matching(_))
            });
            let Some(previous) = previous else {
                return Err(CallError::parameter(
                    "a further condition belongs behind one level that chooses otherwise than by a condition",
                ));
            };
            // A further condition that is always true changes nothing.
            previous.and = condition(value)?;
            continue;
        }
        let by = match kind & SELECTOR {
            BY_INDEX => StepSelector::Index(level_number(value)?),
            BY_RANK => StepSelector::Rank(level_number(value)?),
            BY_KEY => StepSelector::Key(lookup(value, trust)?),
            BY_VALUE => StepSelector::Value(lookup(value, trust)?),
            BY_KEYS => StepSelector::Keys(keys(value, trust)?),
            BY_EXPRESSION => condition(value)?.map_or(StepSelector::All, StepSelector::Matching),
            _ => return Err(unknown_level(kind)),
        };
        let only = match kind & !SELECTOR {
            0 => None,
            IN_LIST => Some(ItemShape::List),
            IN_MAP => Some(ItemShape::Map),
            _ => return Err(unknown_level(kind)),
        };
        levels.push(PathLevel {
            by,
            only,
            and: None,
        });
    }
    Ok(levels)
}

fn unknown_level(kind: i64) -> CallError {
    CallError::parameter(format!("{kind:#x} is not a level of a selecting path"))
}

/// Returns a value to be looked up in normal form.
fn lookup(value: &[u8], trust: Trust) -> Result<Box<[u8]>, CallError> {
    Ok(normal(value, EncodePurpose::Lookup, trust)?.into())
}

fn keys(value: &[u8], trust: Trust) -> Result<Vec<Box<[u8]>>, CallError> {
    let list = Container::list(value).map_err(CallError::Argument)?;
    let mut elements = TokenReader::new(list.content);
    let mut keys = Vec::new();
    for _ in 0..list.count {
        let key = elements.element().map_err(CallError::Argument)?;
        keys.push(lookup(key, trust)?);
    }
    keys.sort_by(|a, b| compare_lookups(a, b));
    Ok(keys)
}

fn condition(value: &[u8]) -> Result<Option<Program>, CallError> {
    match TokenReader::new(value)
        .token()
        .map_err(CallError::Argument)?
    {
        Token::Bool(true) => Ok(None),
        Token::Array(_) => {
            let program = Program::compile(value)?;
            match program.kind {
                None | Some(ExpType::Bool) => Ok(Some(program)),
                Some(other) => Err(CallError::parameter(format!(
                    "a condition of a path must be true or false, this is a {}",
                    other.name()
                ))),
            }
        }
        _ => Err(CallError::parameter(
            "a condition of a path is neither true nor an expression",
        )),
    }
}

/// The walk over nested lists and maps.
struct PathWalk<'p> {
    what: PathOutput,
    no_fail: bool,
    apply: Option<&'p Program>,
    budget: &'p Budget,
    out: Vec<u8>,
    /// Number of elements in a flat result.
    leaves: u32,
}

impl PathWalk<'_> {
    /// Walks over the list or map in `bytes`, along the remaining levels.
    fn container(&mut self, bytes: &[u8], levels: &[PathLevel]) -> Result<(), CallError> {
        let Some((level, below)) = levels.split_first() else {
            return Ok(());
        };
        let shape = ItemShape::of_element(bytes);
        let shape = shape.ok_or(CallError::Stored(CodecError::NotAContainer))?;
        let view = CollectionView::parse(shape, bytes)?;
        let is_leaf = below.is_empty();
        let start = self.out.len();
        if view.count > 0 && level.only.is_some_and(|only| only != shape) {
            return Err(CallError::parameter(format!(
                "a level of a path is not for a {}",
                shape.kind().name()
            )));
        }
        let keys_wanted = matches!(self.what, PathOutput::Keys | PathOutput::KeysAndValues);
        if is_leaf && keys_wanted && shape == ItemShape::List && view.count > 0 {
            return if self.no_fail {
                Ok(())
            } else {
                Err(CallError::WrongType {
                    found: ParticleType::List,
                    operation: "selecting keys",
                })
            };
        }
        let chosen = level.chosen(&view)?;
        let mut kept = 0;
        let mut items = Spans::new(start);
        for item in view.walk() {
            let item = item?;
            let key = view.key(item);
            let element = Element {
                key,
                value: view.bytes(item).get(key.map_or(0, <[u8]>::len)..),
                index: (shape == ItemShape::List).then_some(i64::from(item.at)),
            };
            let is_chosen = match level.chooses(item.at, chosen, &element, self.budget) {
                Some(is_chosen) => is_chosen,
                None if self.no_fail => false,
                None => {
                    return Err(CallError::parameter(
                        "a condition of a path is unknown for an element; NO_FAIL passes over it",
                    ));
                }
            };
            kept += u32::from(self.item(&element, is_chosen, below)?);
            items.push(self.out.len());
        }
        // A head precedes its items in the output, but only now is their number known.
        match self.what {
            // A result list or map is new and carries no flags; an empty one keeps the original's.
            PathOutput::Tree if view.count == 0 => {
                let flags = view.flags & !FLAG_PERSIST_INDEX;
                put_head(shape, 0, flags, start, &mut self.out)
            }
            PathOutput::Tree => put_head(shape, kept, 0, start, &mut self.out),
            PathOutput::Apply => {
                // Replaced values may be out of order.
                if view.is_ordered_list() {
                    items.sort(&mut self.out);
                }
                put_head(shape, kept, view.flags, start, &mut self.out)
            }
            _ => Ok(()),
        }
    }

    /// Writes the result for one item, and returns whether it stays in its container.
    fn item(
        &mut self,
        element: &Element<'_>,
        is_chosen: bool,
        below: &[PathLevel],
    ) -> Result<bool, CallError> {
        let (key, value) = (
            element.key.unwrap_or_default(),
            element.value.unwrap_or_default(),
        );
        let copies = matches!(self.what, PathOutput::Tree | PathOutput::Apply);
        if !is_chosen {
            if self.what == PathOutput::Apply {
                self.copy(key, value);
            }
            return Ok(self.what == PathOutput::Apply);
        }
        if !below.is_empty() {
            if ItemShape::of_element(value).is_some() {
                if copies {
                    self.out.extend_from_slice(key);
                }
                self.container(value, below)?;
            // A scalar above the last level has no elements to choose; copies keep it.
            } else if copies {
                self.copy(key, value);
            }
            return Ok(true);
        }
        match self.what {
            PathOutput::Tree => self.copy(key, value),
            PathOutput::Values => self.leaf(value),
            PathOutput::Keys => self.leaf(key),
            PathOutput::KeysAndValues => {
                self.leaf(key);
                self.leaf(value);
            }
            PathOutput::Apply => return self.replace(element),
        }
        Ok(true)
    }

    fn copy(&mut self, key: &[u8], value: &[u8]) {
        self.out.extend_from_slice(key);
        self.out.extend_from_slice(value);
    }

    fn leaf(&mut self, element: &[u8]) {
        self.out.extend_from_slice(element);
        self.leaves += 1;
    }

    /// Replaces an element, or removes it and returns `false`.
    fn replace(&mut self, element: &Element<'_>) -> Result<bool, CallError> {
        let (key, value) = (
            element.key.unwrap_or_default(),
            element.value.unwrap_or_default(),
        );
        let new = self
            .apply
            .and_then(|program| program.value_for(*element, self.budget));
        match new {
            Some(ExpValue::Remove) => return Ok(false),
            // Other types of blobs and numbers read as the usual ones, but unchanged they stay.
            Some(new)
                if is_unusual(value) && ExpValue::of_element(value).as_ref() == Some(&new) =>
            {
                self.copy(key, value);
            }
            Some(new) => {
                self.out.extend_from_slice(key);
                new.write_element(&mut self.out)
                    .ok_or(CallError::Stored(CodecError::NoValue))?;
                // Checked as it grows: replacements may multiply the size of each element.
                if self.out.len() > MAX_COLLECTION_BYTES {
                    return Err(CallError::TooBig {
                        bytes: self.out.len() as u64,
                    });
                }
            }
            None if self.no_fail => self.copy(key, value),
            None => return Err(CallError::Stored(CodecError::NoValue)),
        }
        Ok(true)
    }
}

impl PathLevel {
    fn programs(&self) -> impl Iterator<Item = &Program> {
        let first = match &self.by {
            StepSelector::Matching(program) => Some(program),
            _ => None,
        };
        first.into_iter().chain(&self.and)
    }

    /// Returns the position of the item that the level chooses by position or rank, if it does.
    fn chosen(&self, view: &CollectionView<'_>) -> Result<Option<u32>, CallError> {
        match self.by {
            StepSelector::Index(index) => Ok(resolve(view.count, index)),
            StepSelector::Rank(rank) => {
                let item = locate(view, &Selector::Rank(rank))?;
                Ok(item.map(|item| item.at))
            }
            _ => Ok(None),
        }
    }

    /// Returns whether an item is chosen; `None` means unknown.
    fn chooses(
        &self,
        at: u32,
        chosen: Option<u32>,
        element: &Element<'_>,
        budget: &Budget,
    ) -> Option<bool> {
        let value = element.value?;
        let is_chosen = match &self.by {
            StepSelector::Index(_) | StepSelector::Rank(_) => chosen == Some(at),
            // A wildcard is no key.
            StepSelector::Key(key) => compare_lookups(element.key?, key).is_eq(),
            StepSelector::Keys(keys) => {
                let key = element.key?;
                keys.binary_search_by(|wanted| compare_lookups(wanted, key))
                    .is_ok()
            }
            StepSelector::Value(wanted) => compare(value, wanted).is_eq(),
            StepSelector::All => true,
            StepSelector::Matching(program) => holds(program, element, budget)?,
        };
        match &self.and {
            Some(program) if is_chosen => holds(program, element, budget),
            _ => Some(is_chosen),
        }
    }
}

/// Returns whether the value of an element has another type in expressions: blobs of clients, short
/// floats, integers above the signed ones.
fn is_unusual(element: &[u8]) -> bool {
    match TokenReader::new(element).token() {
        Ok(Token::Raw(raw)) => raw.first() != Some(&SUBTYPE_STRING),
        Ok(token) => matches!(token, Token::Float32(_) | Token::BigInt(_)),
        Err(_) => false,
    }
}

/// Returns whether a condition holds for an element; `None` means unknown.
fn holds(program: &Program, element: &Element<'_>, budget: &Budget) -> Option<bool> {
    program.value_for(*element, budget)?.as_bool()
}

/// Puts the head of a list or map before its items, which have been written from `start` on.
fn put_head(
    shape: ItemShape,
    count: u32,
    flags: u8,
    start: usize,
    out: &mut Vec<u8>,
) -> Result<(), CallError> {
    let mut head = Vec::new();
    write_head(shape, count as usize, flags, &mut head).map_err(CallError::Stored)?;
    out.splice(start..start, head);
    Ok(())
}
