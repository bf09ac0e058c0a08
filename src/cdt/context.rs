//! Paths of contexts: down into nested lists and maps, and up again with the changes.
//!
//! Going down, each level is one single selection. Going up, each level is one replacement: the
//! changed list or map replaces its old version in its parent, and moves if the parent is an
//! ordered list. Missing levels are built around the result of the operation, from the inside out.

use std::borrow::Cow;

use smallvec::smallvec;

use super::dispatch::{ActionResult, UnreadCall};
use super::edit::CollectionEdit;
use super::elements::{Elements, find_key};
use super::insert;
use super::policy::ListWriteFlags;
use super::put::check_key;
use super::segment::ItemSegment;
use super::select::{Selector, locate};
use super::shape::ItemShape;
use super::splice::ItemSplice;
use super::view::{CollectionView, wrong_type};
use crate::call::level::{
    BY_INDEX, BY_KEY, BY_RANK, BY_VALUE, CREATES, CREATES_INDEX, CREATES_PADDED_OR_BY_KEY,
    CREATES_UNORDERED, IN_LIST, IN_MAP, SELECTOR,
};
use crate::call::{CallError, MAX_COLLECTION_BYTES, Path, normal};
use crate::value::msgpack::{Token, TokenReader};
use crate::value::{
    CodecError, EncodePurpose, FLAG_ORDERED, FLAG_PERSIST_INDEX, FLAG_VALUE_ORDERED, MAX_NESTING,
    ParticleType, element_to_stored,
};

/// Reads the index or rank of a level of a path.
pub(crate) fn level_number(value: &[u8]) -> Result<i64, CallError> {
    match TokenReader::new(value)
        .token()
        .map_err(CallError::Argument)?
    {
        Token::Int(value) => Ok(value),
        // Finds nothing, as any index beyond the end: the argument is an integer.
        Token::BigInt(_) => Ok(i64::MAX),
        _ => Err(CallError::parameter(
            "a context by index or rank needs an integer",
        )),
    }
}

/// One level of a path.
#[derive(Clone, Debug)]
pub(super) struct ContextLevel<'a> {
    selector: Selector<'a>,
    /// The expected shape; `None` accepts lists and maps.
    shape: Option<ItemShape>,
    creates: Option<Creates>,
    /// A container created at the top gets a persisted index.
    creates_index: bool,
}

/// The container that a context creates if it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Creates {
    Unordered,
    /// An unordered list with gaps filled with nil, or a map ordered by key.
    PaddedOrByKey,
    /// An ordered list, or a map ordered by key and value.
    Ordered,
}

const NOT_FOUND: CallError = CallError::NotApplicable("a context finds no element");
const WRONG_CONTAINER: CallError = CallError::NotApplicable(
    "a context does not fit its list or map: it takes a list context for lists, a map context for maps",
);
const CANNOT_CREATE: CallError = CallError::NotApplicable(
    "a context finds no element, and cannot create it at this index: begin at the end, or let the gap be filled",
);

impl<'a> ContextLevel<'a> {
    /// Takes the next level of a path.
    fn next(path: &mut Path<'a>) -> Result<Option<Self>, CallError> {
        let trust = path.trust();
        let Some((kind, value)) = path.next()? else {
            return Ok(None);
        };
        let unknown = || CallError::parameter(format!("{kind:#x} is not the kind of a context"));
        if kind & !(SELECTOR | IN_LIST | IN_MAP | CREATES | CREATES_INDEX) != 0 {
            return Err(unknown());
        }
        let shape = match kind & (IN_LIST | IN_MAP) {
            0 => None,
            IN_LIST => Some(ItemShape::List),
            IN_MAP => Some(ItemShape::Map),
            _ => return Err(unknown()),
        };
        let selector = match kind & SELECTOR {
            BY_INDEX => Selector::Index(level_number(value)?),
            BY_RANK => Selector::Rank(level_number(value)?),
            BY_KEY => Selector::Key(normal(value, EncodePurpose::Lookup, trust)?.into()),
            BY_VALUE => Selector::FirstValue(normal(value, EncodePurpose::Lookup, trust)?.into()),
            _ => return Err(unknown()),
        };
        let creates = match kind & CREATES {
            0 => None,
            CREATES_UNORDERED => Some(Creates::Unordered),
            CREATES_PADDED_OR_BY_KEY => Some(Creates::PaddedOrByKey),
            _ => Some(Creates::Ordered),
        };
        if shape.is_none() && creates.is_some() {
            return Err(unknown());
        }
        Ok(Some(Self {
            selector,
            shape,
            creates,
            creates_index: kind & CREATES_INDEX != 0,
        }))
    }

    /// Finds the item that the level leads to.
    fn find(&self, view: &CollectionView<'_>) -> Result<Option<ItemSegment>, CallError> {
        let fits = self.shape.is_none_or(|shape| shape == view.shape)
            && !(matches!(self.selector, Selector::Key(_)) && view.shape == ItemShape::List);
        if !fits {
            return Err(WRONG_CONTAINER);
        }
        locate(view, &self.selector)
    }

    /// Returns the flags of the container created for this level.
    fn flags(&self, shape: ItemShape, nested: bool) -> u8 {
        let order = match (self.creates, shape) {
            (Some(Creates::Ordered), ItemShape::Map) => FLAG_ORDERED | FLAG_VALUE_ORDERED,
            (Some(Creates::Ordered), ItemShape::List)
            | (Some(Creates::PaddedOrByKey), ItemShape::Map) => FLAG_ORDERED,
            _ => 0,
        };
        let persists = self.creates_index && !nested;
        order | if persists { FLAG_PERSIST_INDEX } else { 0 }
    }

    /// Returns the empty container to create for this level.
    fn empty<'v>(&self, nested: bool) -> Result<CollectionView<'v>, CallError> {
        let shape = self.shape.ok_or(CANNOT_CREATE)?;
        if self.creates_index && nested {
            return Err(CANNOT_CREATE);
        }
        Ok(CollectionView::empty(shape, self.flags(shape, nested)))
    }

    /// Finds the place of a new child in an existing list or map.
    fn place_in(
        &self,
        view: &CollectionView<'_>,
        nested: bool,
    ) -> Result<NewChildPlace, CallError> {
        let creates = self.creates.ok_or(NOT_FOUND)?;
        if self.creates_index && nested {
            return Err(CANNOT_CREATE);
        }
        match &self.selector {
            Selector::Key(key) => place_of_key(view, key),
            Selector::Index(_) if view.is_ordered_list() => Ok(NewChildPlace::Sorted),
            Selector::Index(index) if view.shape == ItemShape::List => {
                match index.saturating_sub(i64::from(view.count)) {
                    0 => Ok(NewChildPlace::Gap(view.end())),
                    _ if view.count == 0 && *index == -1 => Ok(NewChildPlace::Gap(view.end())),
                    gap @ 1.. if creates == Creates::PaddedOrByKey => padded(gap),
                    _ => Err(CANNOT_CREATE),
                }
            }
            _ => Err(NOT_FOUND),
        }
    }

    /// Finds the place of a new child in the container created for this level.
    fn place_in_new(
        &self,
        view: &CollectionView<'_>,
        first: bool,
    ) -> Result<NewChildPlace, CallError> {
        if first && self.creates.is_none() {
            return Err(NOT_FOUND);
        }
        let lists_only = matches!(self.selector, Selector::Index(_));
        if lists_only != (view.shape == ItemShape::List) {
            return Err(NOT_FOUND);
        }
        match (&self.selector, self.creates) {
            (Selector::Key(key), _) => place_of_key(view, key),
            (Selector::Index(-1..), Some(Creates::Ordered)) => Ok(NewChildPlace::Sorted),
            (Selector::Index(-1 | 0), _) => Ok(NewChildPlace::Gap(view.end())),
            (Selector::Index(gap @ 1..), Some(Creates::PaddedOrByKey)) => padded(*gap),
            (Selector::Index(_), _) => Err(CANNOT_CREATE),
            _ => Err(NOT_FOUND),
        }
    }

    /// Puts a new child into its place.
    fn put<'v>(
        &self,
        view: CollectionView<'v>,
        place: &NewChildPlace,
        child: Vec<u8>,
    ) -> Result<CollectionEdit<'v>, CallError> {
        let splice = match (&self.selector, place) {
            (Selector::Key(key), NewChildPlace::Gap(gap)) => {
                ItemSplice::new(*gap, Cow::Owned([key, &*child].concat()), 1)
            }
            (_, NewChildPlace::Gap(gap)) => ItemSplice::new(*gap, Cow::Owned(child), 1),
            (_, NewChildPlace::Sorted) => {
                let elements = Elements::of(&view)?;
                let gap = elements.gap(elements.upper_bound(&child, 0));
                ItemSplice::new(gap, Cow::Owned(child), 1)
            }
            (_, NewChildPlace::Padded(gap)) => {
                // 0xc0: nil in MessagePack.
                let mut padded = vec![0xc0; *gap as usize];
                padded.extend_from_slice(&child);
                ItemSplice::new(view.end(), Cow::Owned(padded), gap + 1)
            }
        };
        CollectionEdit::new(view, view.flags, smallvec![splice])
    }
}

/// The place of a new child.
enum NewChildPlace {
    Gap(ItemSegment),
    /// In order, in an ordered list.
    Sorted,
    /// After the end and a number of nils.
    Padded(u32),
}

fn place_of_key(view: &CollectionView<'_>, key: &[u8]) -> Result<NewChildPlace, CallError> {
    check_key(key)?;
    let (Ok(place) | Err(place)) = find_key(view, key)?;
    Ok(NewChildPlace::Gap(place))
}

fn padded(gap: i64) -> Result<NewChildPlace, CallError> {
    match u32::try_from(gap) {
        Ok(gap) if gap as usize <= MAX_COLLECTION_BYTES => Ok(NewChildPlace::Padded(gap)),
        _ => Err(CallError::TooBig {
            bytes: gap.unsigned_abs(),
        }),
    }
}

/// Parses all levels of a path.
pub(super) fn levels(mut path: Path<'_>) -> Result<Vec<ContextLevel<'_>>, CallError> {
    if path.levels() >= MAX_NESTING {
        return Err(CallError::parameter(format!(
            "{} contexts, and values nest at most {MAX_NESTING} levels deep",
            path.levels()
        )));
    }
    let mut levels = Vec::with_capacity(path.levels() as usize);
    while let Some(level) = ContextLevel::next(&mut path)? {
        levels.push(level);
    }
    Ok(levels)
}

/// The result of following a path: the item found at each level, and the end.
struct Descent<'a> {
    parents: Vec<(CollectionView<'a>, ItemSegment)>,
    end: PathEnd<'a>,
}

enum PathEnd<'a> {
    /// The element at the end of the whole path.
    Element(&'a [u8]),
    /// The list or map that lacks the next element.
    Missing(CollectionView<'a>),
}

fn descend<'a>(
    view: CollectionView<'a>,
    levels: &[ContextLevel<'_>],
) -> Result<Descent<'a>, CallError> {
    let mut parents = Vec::with_capacity(levels.len());
    let mut element: Option<&'a [u8]> = None;
    for level in levels {
        let view = match element {
            None => view,
            Some(element) => {
                let shape = ItemShape::of_element(element).ok_or(WRONG_CONTAINER)?;
                CollectionView::parse(shape, element)?
            }
        };
        let Some(item) = level.find(&view)? else {
            let end = PathEnd::Missing(view);
            return Ok(Descent { parents, end });
        };
        element = Some(view.value(item));
        parents.push((view, item));
    }
    let end = match element {
        Some(element) => PathEnd::Element(element),
        None => PathEnd::Missing(view),
    };
    Ok(Descent { parents, end })
}

/// Executes a reading operation on the value at a path.
pub(super) fn read<'a>(
    call: UnreadCall<'a>,
    kind: ParticleType,
    bin: &'a [u8],
    path: Path<'a>,
) -> ActionResult<'a> {
    let levels = levels(path)?;
    match descend(top(kind, bin)?, &levels)?.end {
        PathEnd::Element(element) => {
            let target = target(call.shape(), element)?;
            call.on(target, true)
        }
        PathEnd::Missing(_) => Err(NOT_FOUND),
    }
}

/// Executes a changing operation on the value at a path, creating missing levels if the path says
/// so.
pub(super) fn modify<'a>(
    call: UnreadCall<'a>,
    current: Option<(ParticleType, &'a [u8])>,
    path: Path<'a>,
) -> ActionResult<'a> {
    let levels = levels(path)?;
    let Some((kind, bin)) = current else {
        return create(call, None, &levels, &[]);
    };
    let Descent { parents, end } = descend(top(kind, bin)?, &levels)?;
    match end {
        PathEnd::Element(element) => {
            let target = target(call.shape(), element)?;
            let (edit, reply) = call.on(target, true)?;
            match edit {
                Some(edit) => Ok((Some(ascend(&parents, edit)?), reply)),
                None => Ok((None, reply)),
            }
        }
        PathEnd::Missing(view) => {
            let missing = levels.get(parents.len()..).unwrap_or_default();
            create(call, Some(view), missing, &parents)
        }
    }
}

/// Creates the containers of `levels` and puts them into `view` below `parents`, or into a new bin.
/// Creates nothing unless the operation itself creates something.
fn create<'a>(
    call: UnreadCall<'a>,
    view: Option<CollectionView<'a>>,
    levels: &[ContextLevel<'a>],
    parents: &[(CollectionView<'a>, ItemSegment)],
) -> ActionResult<'a> {
    let mut steps = Vec::with_capacity(levels.len());
    for (at, level) in levels.iter().enumerate() {
        let nested = at > 0 || !parents.is_empty();
        let (view, place) = match view.filter(|_| at == 0) {
            Some(view) => (view, level.place_in(&view, nested)?),
            None => {
                let view = level.empty(nested)?;
                (view, level.place_in_new(&view, at == 0)?)
            }
        };
        steps.push((level, view, place));
    }
    // The places come first, so that errors follow the order of the path. Then the operation
    // decides whether anything is created.
    let (created, reply) = call.on_nothing(true)?;
    let Some(mut edit) = created else {
        return Ok((None, reply));
    };
    for (level, view, place) in steps.into_iter().rev() {
        edit = level.put(view, &place, edit.to_bytes())?;
    }
    Ok((Some(ascend(parents, edit)?), reply))
}

/// Puts a changed list or map into its parent, the parent into its own, and so on. Returns the edit
/// of the outermost one.
fn ascend<'a>(
    parents: &[(CollectionView<'a>, ItemSegment)],
    mut edit: CollectionEdit<'a>,
) -> Result<CollectionEdit<'a>, CallError> {
    for (view, item) in parents.iter().rev() {
        let child = edit.to_bytes();
        edit = match view.shape {
            ItemShape::List => {
                let replaced =
                    insert::replace(*view, *item, Cow::Owned(child), ListWriteFlags::empty())?;
                replaced.ok_or(NOT_FOUND)?
            }
            ItemShape::Map => {
                let key = view
                    .key(*item)
                    .ok_or(CallError::Stored(CodecError::Truncated))?;
                let entry = Cow::Owned([key, &*child].concat());
                CollectionEdit::new(
                    *view,
                    view.flags,
                    smallvec![ItemSplice::new(*item, entry, 1)],
                )?
            }
        };
    }
    Ok(edit)
}

/// Returns the list or map of a bin, where a path begins.
fn top(kind: ParticleType, bin: &[u8]) -> Result<CollectionView<'_>, CallError> {
    let shape = ItemShape::of_kind(kind).ok_or_else(|| {
        CallError::parameter(format!(
            "contexts lead into lists and maps, and the bin holds a {}",
            kind.name()
        ))
    })?;
    CollectionView::parse(shape, bin)
}

/// Returns an element as the list or map that an operation expects.
fn target(shape: ItemShape, element: &[u8]) -> Result<CollectionView<'_>, CallError> {
    if ItemShape::of_element(element) == Some(shape) {
        return CollectionView::parse(shape, element);
    }
    let (found, _) = element_to_stored(element).map_err(CallError::Stored)?;
    Err(wrong_type(shape, found))
}
