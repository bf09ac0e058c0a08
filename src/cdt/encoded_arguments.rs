//! Calls on lists and maps as they are built: a number and arguments in MessagePack.

use super::insert::Items;
use super::number::Number;
use super::shape::ItemShape;
use crate::value::msgpack::{
    TokenReader, write_array_header, write_int, write_map_header, write_uint,
};

/// A call under construction: its number and arguments, concatenated.
pub(super) struct EncodedArguments {
    out: Vec<u8>,
    elements: u8,
}

impl EncodedArguments {
    pub(super) fn new(code: u8) -> Self {
        let mut out = vec![0x90];
        write_uint(&mut out, u64::from(code));
        Self { out, elements: 1 }
    }

    pub(super) fn int(&mut self, value: i64) {
        write_int(&mut self.out, value);
        self.elements += 1;
    }

    pub(super) fn uint(&mut self, value: u64) {
        write_uint(&mut self.out, value);
        self.elements += 1;
    }

    /// Appends a limit on the number of items; no limit needs no argument where it is optional.
    pub(super) fn limit(&mut self, count: u64, optional: bool) {
        if count != u64::MAX || !optional {
            self.uint(count);
        }
    }

    pub(super) fn number(&mut self, number: Number) {
        number.write(&mut self.out);
        self.elements += 1;
    }

    /// Appends an encoded value.
    pub(super) fn value(&mut self, value: &[u8]) {
        self.out.extend_from_slice(value);
        self.elements += 1;
    }

    /// Appends encoded values as one list.
    pub(super) fn list(&mut self, values: &[u8]) {
        write_array_header(&mut self.out, count_elements(values));
        self.value(values);
    }

    pub(super) fn items(&mut self, items: &Items<'_>, shape: ItemShape) {
        match (items.single, shape) {
            (true, ItemShape::List) => {}
            // A key and its value.
            (true, ItemShape::Map) => self.elements += 1,
            (false, ItemShape::List) => write_array_header(&mut self.out, items.count),
            (false, ItemShape::Map) => write_map_header(&mut self.out, items.count),
        }
        self.value(&items.bytes);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if let Some(first) = self.out.first_mut() {
            *first |= self.elements;
        }
        self.out
    }
}

/// Counts concatenated elements.
fn count_elements(values: &[u8]) -> u32 {
    let mut reader = TokenReader::new(values);
    let mut count = 0;
    while reader.element().is_ok() {
        count += 1;
    }
    count
}
