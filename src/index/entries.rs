//! Computes the entries of a record in an index.

use std::borrow::Cow;

use super::definition::{IndexComponent, IndexDefinition, IndexPart, IndexSource};
use spikelet_storage::Digest;

use super::key::{self, GeometryKey, IndexType};
use super::ordered::EntryList;
use crate::call::{CALL_BELOW, CallReply, CallSystem, context};
use crate::cdt::{ReturnKind, code};
use crate::expression::{ExpReadFlags, Expression, RecordFacts};
use crate::geo::{Geometry, GeometryCells};
use crate::operation::{Checked, Mode, Operation, ResultSink, operations};
use crate::record::{BinName, RecordView};
use crate::value::msgpack::{Token, TokenReader, front_int, write_array_header, write_int};
use crate::value::{Container, ParticleType, element_to_stored};
use crate::{Error, Result};

/// The longest entry of a record in bytes: a key with its digest. An entry of a companion has a
/// second digest.
pub(crate) const ENTRY_BYTES_MAX: usize = 16 << 10;

/// Computes entries from records, for one definition.
#[derive(Debug)]
pub(crate) struct EntryReader {
    components: Vec<ComponentReader>,
    /// All components are whole bins, so a record has at most one entry.
    is_plain: bool,
    /// The bin of which only elements, keys or values are indexed. If it is sharded, its companions
    /// hold them.
    parts_of: Option<BinName>,
    value_bytes_max: usize,
}

#[derive(Debug)]
struct ComponentReader {
    component: IndexComponent,
    bin: Option<BinName>,
    /// The operation that reads the value, unless it is a bin's.
    read: Option<Operation>,
}

impl EntryReader {
    /// # Errors
    /// [`Error::Parameter`] for a malformed path.
    pub(crate) fn new(definition: &IndexDefinition) -> Result<Self> {
        let reader = |component: &IndexComponent| {
            let bin = match &component.source {
                IndexSource::Bin { name, .. } => Some(BinName::new(name)?),
                IndexSource::Expression(_) => None,
            };
            Ok(ComponentReader {
                component: component.clone(),
                bin,
                read: read_operation(&component.source)?,
            })
        };
        let components: Result<Vec<_>> = definition.components.iter().map(reader).collect();
        let components = components?;
        let is_plain =
            |reader: &ComponentReader| reader.read.is_none() && !reader.component.has_many();
        let parts_of = match &components[..] {
            [only] if only.component.part != IndexPart::Whole && only.read.is_none() => only.bin,
            _ => None,
        };
        Ok(Self {
            is_plain: components.iter().all(is_plain),
            parts_of: parts_of.filter(|_| !definition.unique),
            components,
            value_bytes_max: definition
                .value_bytes_max
                .map_or(usize::MAX, |bytes| bytes as usize),
        })
    }

    /// Returns the bin of which only elements, keys or values are indexed, if there is one and the
    /// index is not unique.
    pub(crate) fn parts_of(&self) -> Option<BinName> {
        self.parts_of
    }

    /// Returns the reason why the index would lose records if the collection in this bin were
    /// sharded; `None` if it would not.
    pub(crate) fn loses_by_sharding(&self, bin: &str, by_hash: bool) -> Option<&'static str> {
        let is_concerned = |reader: &ComponentReader| match &reader.component.source {
            IndexSource::Bin { name, .. } => **name == *bin,
            IndexSource::Expression(bytes) => expression_names(bytes, bin),
        };
        let concerned = self.components.iter().filter(|reader| is_concerned(reader));
        match (concerned.count(), &self.components[..]) {
            (0, _) => None,
            (_, _) if self.parts_of.is_some() && by_hash => None,
            (_, _) if !by_hash => Some("time shards hold pairs, and pairs are in no index"),
            (_, [only]) if only.component.part != IndexPart::Whole && only.read.is_none() => {
                Some("it is unique, and two shards hold an element while it moves")
            }
            (_, [only]) if only.bin.is_none() => {
                Some("its expression needs the whole collection in one record")
            }
            (_, [_]) => Some("it needs the whole collection in one record"),
            _ => Some("it has several components, and a shard has the collection's bin alone"),
        }
    }

    /// Returns whether entries depend on an expression.
    pub(crate) fn has_expression(&self) -> bool {
        self.components
            .iter()
            .any(|component| component.bin.is_none())
    }

    /// Returns whether entries depend on bins only, and these are the same in two records. Compares
    /// the names of bins.
    pub(crate) fn is_same(&self, old: RecordView<'_>, new: RecordView<'_>) -> bool {
        self.components.iter().all(|component| {
            component.bin.is_some_and(|bin| {
                let (old, new) = (old.find(bin.as_bytes()), new.find(bin.as_bytes()));
                old.map(|bin| bin.bytes) == new.map(|bin| bin.bytes)
            })
        })
    }

    /// Appends the entries of a record to `out`, sorted and without duplicates. `name` is the
    /// index's, for messages.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a key that is too long; errors of evaluating an expression.
    pub(crate) fn entries(
        &self,
        name: &str,
        record: RecordView<'_>,
        facts: &RecordFacts<'_>,
        out: &mut EntryList,
    ) -> Result<()> {
        if self.components.is_empty() {
            return Ok(());
        }
        if self.is_plain {
            return self.plain_entry(name, record, &facts.digest, out);
        }
        // Components with several values multiply: one key for each combination.
        let mut keys = vec![Vec::new()];
        for component in &self.components {
            let forms = component.forms(record, facts, self.value_bytes_max)?;
            keys = match forms.iter().next() {
                // A record that lacks a component is not in the index.
                None => return Ok(()),
                Some(form) if forms.len() == 1 => {
                    keys.iter_mut().for_each(|key| key.extend_from_slice(form));
                    keys
                }
                Some(_) => {
                    let joined = keys
                        .iter()
                        .flat_map(|key| forms.iter().map(move |form| [key, form].concat()));
                    joined.collect()
                }
            };
        }
        // A list may hold a value twice; the index lists the record once.
        keys.sort_unstable();
        keys.dedup();
        for key in &keys {
            check_length(name, key.len())?;
            out.push_with(|out| {
                out.extend_from_slice(key);
                out.extend_from_slice(facts.digest.as_bytes());
            });
        }
        Ok(())
    }

    /// Returns whether any geometry of a record's component matches another geometry, and has cells
    /// that `fits` accepts.
    pub(crate) fn matches(
        &self,
        record: RecordView<'_>,
        facts: &RecordFacts<'_>,
        (component, wanted): (usize, &Geometry),
        fits: &dyn Fn(&EntryList) -> bool,
    ) -> Result<bool> {
        let has_cells = |geometry: &Geometry| {
            let mut cells = EntryList::default();
            add_cells(&geometry.cells(), &mut cells);
            fits(&cells)
        };
        let mut found = false;
        if let Some(component) = self.components.get(component) {
            component.values(record, facts, &mut |_, (kind, stored)| {
                found = found
                    || kind == ParticleType::GeoJson
                        && Geometry::parse(stored)
                            .is_ok_and(|stored| stored.matches(wanted) && has_cells(&stored));
            })?;
        }
        Ok(found)
    }

    /// Returns whether entries come from [`EntryReader::plain_entry`]: at most one a record, from
    /// bins only.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain && !self.components.is_empty()
    }

    /// Appends the entry of a record in an index of whole bins, if the record has one.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a key that is too long.
    pub(crate) fn plain_entry(
        &self,
        name: &str,
        record: RecordView<'_>,
        digest: &Digest,
        out: &mut EntryList,
    ) -> Result<()> {
        let mut checked = Ok(());
        out.push_if(|out| {
            let start = out.len();
            for ComponentReader { component, bin, .. } in &self.components {
                let bin = bin.and_then(|bin| record.find(bin.as_bytes()));
                let is_there = bin.is_some_and(|bin| {
                    component.takes(bin.kind, bin.value, self.value_bytes_max)
                        && key::write_stored(bin.kind, bin.value, out)
                });
                if !is_there {
                    return false;
                }
            }
            checked = check_length(name, out.len() - start);
            out.extend_from_slice(digest.as_bytes());
            true
        });
        checked
    }
}

/// Returns whether an encoded expression reads a bin: it searches for the operation reading a bin's
/// value, with a type, or a bin's type, followed by the name in any form.
fn expression_names(mut expression: &[u8], bin: &str) -> bool {
    const VALUE: u8 = 81;
    const TYPE: u8 = 82;
    while let [operation, operands @ ..] = expression {
        let mut tokens = TokenReader::new(operands);
        let is_read = match *operation {
            VALUE => tokens.token().is_ok(),
            operation => operation == TYPE,
        };
        if is_read && tokens.token() == Ok(Token::Raw(bin.as_bytes())) {
            return true;
        }
        expression = operands;
    }
    false
}

/// Refuses a key that is too long.
fn check_length(name: &str, bytes: usize) -> Result<()> {
    const KEY_BYTES_MAX: usize = ENTRY_BYTES_MAX - Digest::LEN;
    match bytes {
        ..=KEY_BYTES_MAX => Ok(()),
        _ => Err(Error::parameter(format!(
            "index {name:?}: a key of {bytes} bytes, the limit is {KEY_BYTES_MAX}: store a shorter value, or declare the index with ignoring_longer_than"
        ))),
    }
}

impl ComponentReader {
    fn forms(
        &self,
        record: RecordView<'_>,
        facts: &RecordFacts<'_>,
        value_bytes_max: usize,
    ) -> Result<EntryList> {
        let mut forms = EntryList::default();
        self.values(record, facts, &mut |key, (kind, stored)| {
            let mut prefix = Vec::new();
            if key.is_none_or(|(kind, stored)| {
                stored.len() <= value_bytes_max && key::write_stored(kind, stored, &mut prefix)
            }) {
                add_forms(
                    &self.component,
                    value_bytes_max,
                    (&prefix, kind, stored),
                    &mut forms,
                );
            }
        })?;
        Ok(forms)
    }

    /// Passes each value of the component in a record to `visit`, an entry of a map with its key.
    fn values(
        &self,
        record: RecordView<'_>,
        facts: &RecordFacts<'_>,
        each: &mut ShowValue<'_>,
    ) -> Result<()> {
        let mut sink = ValueSink {
            part: self.component.part,
            each,
        };
        match (&self.read, self.bin) {
            (Some(read), _) => {
                let read = std::slice::from_ref(read);
                let checked = Checked::new(read, Mode::empty())?;
                // A path that does not exist in the record, or crosses a value other than a
                // collection, gives no value.
                let _ = checked.seeing(facts).read_into(record, &mut sink);
            }
            (None, Some(bin)) => {
                if let Some(bin) = record.find(bin.as_bytes()) {
                    sink.take(bin.kind, bin.value);
                }
            }
            (None, None) => {}
        }
        Ok(())
    }
}

/// A stored value, and its type.
type StoredValue<'v> = (ParticleType, &'v [u8]);

/// Is shown each value of a component, behind its key where the component is the entries of a map.
type ShowValue<'c> = dyn FnMut(Option<StoredValue<'_>>, StoredValue<'_>) + 'c;

/// Receives the value of a component.
struct ValueSink<'s, 'c> {
    part: IndexPart,
    each: &'s mut ShowValue<'c>,
}

impl ValueSink<'_, '_> {
    fn take(&mut self, kind: ParticleType, stored: &[u8]) {
        let part = self.part;
        let container = match (part, kind) {
            (IndexPart::Whole, _) => {
                (self.each)(None, (kind, stored));
                return;
            }
            (IndexPart::Elements, ParticleType::List) => Container::list(stored),
            (IndexPart::Keys | IndexPart::Values | IndexPart::Entries, ParticleType::Map) => {
                Container::map(stored)
            }
            _ => return,
        };
        let Ok(container) = container else {
            return;
        };
        let mut reader = TokenReader::new(container.content);
        for _ in 0..container.count {
            let Ok(mut element) = reader.element() else {
                return;
            };
            let mut key = None;
            if part != IndexPart::Elements {
                let Ok(value) = reader.element() else {
                    return;
                };
                if part == IndexPart::Entries {
                    let Some(found) = indexed_element(element) else {
                        continue;
                    };
                    key = Some(found);
                }
                if part != IndexPart::Keys {
                    element = value;
                }
            }
            if let Some((kind, stored)) = indexed_element(element) {
                let key = key.as_ref().map(|(kind, stored)| (*kind, &**stored));
                (self.each)(key, (kind, &stored));
            }
        }
    }
}

/// Returns the type and the stored form of an element that an index may have. One above the signed
/// integers is left out: in this form it would be a negative integer.
fn indexed_element(element: &[u8]) -> Option<(ParticleType, Cow<'_, [u8]>)> {
    match TokenReader::new(element).token() {
        Ok(Token::BigInt(_)) => None,
        _ => element_to_stored(element).ok(),
    }
}

/// Appends the forms of a value behind a prefix, if it is indexed: one, or one for each cell of a
/// geometry.
fn add_forms(
    component: &IndexComponent,
    value_bytes_max: usize,
    (prefix, kind, stored): (&[u8], ParticleType, &[u8]),
    forms: &mut EntryList,
) {
    if component.kind == Some(IndexType::GeoJson) {
        if kind == ParticleType::GeoJson
            && let Ok(geometry) = Geometry::parse(stored)
        {
            add_cells(&geometry.cells(), forms);
        }
    } else if component.takes(kind, stored, value_bytes_max) {
        forms.push_with(|out| {
            out.extend_from_slice(prefix);
            // Its type was checked above.
            key::write_stored(kind, stored, out);
        });
    }
}

fn add_cells(cells: &GeometryCells, forms: &mut EntryList) {
    match cells {
        GeometryCells::Point(cell) => forms.push(&key::geometry_key(GeometryKey::Point, *cell)),
        GeometryCells::Region(cells) => cells
            .iter()
            .for_each(|cell| forms.push(&key::geometry_key(GeometryKey::Region, *cell))),
    }
}

impl ResultSink for ValueSink<'_, '_> {
    fn add(&mut self, _: usize, _: &BinName, reply: CallReply<'_>) -> Result<()> {
        if let CallReply::Element(element) = &reply {
            if let Some((kind, stored)) = indexed_element(element) {
                self.take(kind, &stored);
            }
            return Ok(());
        }
        let (kind, stored) = reply.into_stored()?;
        self.take(kind, &stored);
        Ok(())
    }
}

/// Returns the operation that reads the value of a component; `None` for a bin's value.
fn read_operation(source: &IndexSource) -> Result<Option<Operation>> {
    match source {
        IndexSource::Bin { path, .. } if path.is_empty() => Ok(None),
        IndexSource::Bin { name, path } => {
            let call = call_of_path(path)
                .ok_or_else(|| Error::parameter("an index's path of contexts cannot be read"))?;
            let system = CallSystem::Collections;
            Ok(Some(Operation::encoded_call(name, system, false, call)))
        }
        // A record without a value is no error: it has no entry.
        IndexSource::Expression(bytes) => Ok(Some(operations::exp::read(
            "",
            Expression::of_encoded(bytes.clone()),
            ExpReadFlags::EVAL_NO_FAIL,
        ))),
    }
}

/// Encodes the call that returns the value at a path of contexts: the last context becomes a read
/// of one element, below the path of the others.
fn call_of_path(path: &[u8]) -> Option<Vec<u8>> {
    let mut reader = TokenReader::new(path);
    let Token::Array(count @ 2..) = reader.token().ok()? else {
        return None;
    };
    if !count.is_multiple_of(2) {
        return None;
    }
    let before = reader.rest();
    for _ in 0..count - 2 {
        reader.element().ok()?;
    }
    let before = before.get(..before.len() - reader.rest().len())?;
    let kind = front_int(reader.element().ok()?)?;
    let value = reader.element().ok()?;
    let operation = match kind {
        context::LIST_INDEX => code::LIST_GET_BY_INDEX,
        context::LIST_RANK => code::LIST_GET_BY_RANK,
        context::LIST_VALUE => code::LIST_GET_BY_VALUE,
        context::MAP_INDEX => code::MAP_GET_BY_INDEX,
        context::MAP_RANK => code::MAP_GET_BY_RANK,
        context::MAP_KEY => code::MAP_GET_BY_KEY,
        context::MAP_VALUE => code::MAP_GET_BY_VALUE,
        _ => return None,
    };
    if !reader.rest().is_empty() {
        return None;
    }
    let mut call = Vec::with_capacity(path.len() + 8);
    if count > 2 {
        write_array_header(&mut call, 3);
        write_int(&mut call, CALL_BELOW);
        write_array_header(&mut call, count - 2);
        call.extend_from_slice(before);
    }
    write_array_header(&mut call, 3);
    write_int(&mut call, i64::from(operation));
    write_int(&mut call, ReturnKind::Value as i64);
    call.extend_from_slice(value);
    Some(call)
}
