//! The protocol under every interleaving: an exhaustive check, small enough to run with the other
//! tests.
//!
//! One record holds two collections, each with its own handles; most scenarios use the first one
//! alone.
//!
//! * [`store`]: an abstract store that executes requests, and can leave a precondition out.
//! * [`scenario`]: the form of scenarios. [`explore`]: processes that run the machines, and all the
//!   orders in which their steps can come.
//! * `checks`: the scenarios, and that no precondition and no rule can be left out. `real`: the
//!   abstract store answers as a real one.

mod checks;
mod explore;
mod real;
mod scenario;
mod store;

use super::CollectionKind;
use crate::record::BinName;
use crate::shard::model_check::history::ElementSet;

/// A collection of elements 0 to 7, each of which is its own hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tiny;

/// How many collections a record may have.
const COLLECTIONS: usize = 2;

/// The bin of a collection.
fn bin_of(collection: usize) -> BinName {
    BinName::new(["c", "d"][collection]).unwrap()
}

/// An act on one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TinyAct {
    Add(u8),
    Remove(u8),
    Contains(u8),
    All,
}

/// What that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TinyAnswer {
    /// Whether the element was added, was removed, is there.
    Yes(bool),
    All(ElementSet),
}

impl CollectionKind for Tiny {
    type Part = ElementSet;
    type Act = TinyAct;
    type Answer = TinyAnswer;

    fn part(whole: &ElementSet, shards: u64, shard: u64) -> ElementSet {
        elements(*whole)
            .filter(|element| u64::from(*element) & (shards - 1) == shard)
            .fold(0, |part, element| part | 1 << element)
    }
}

/// The elements of a set.
fn elements(set: ElementSet) -> impl Iterator<Item = u8> {
    (0..8).filter(move |element| set >> element & 1 == 1)
}
