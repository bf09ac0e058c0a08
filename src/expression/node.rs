//! A compiled expression: a tree that is evaluated many times.

use super::code::{Binary, ComparisonKind, Fact, Fold, MapPart, Scan, Unary};
use super::pattern::Pattern;
use super::types::{ExpType, StaticType};
use super::value::ExpValue;
use crate::call::{CallSystem, Trust};
use crate::cdt::ItemShape;
use crate::geo::Geometry;
use crate::record::BinName;

/// A compiled expression and the properties found while compiling.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) root: Node,
    pub(super) kind: StaticType,
    /// The cost of one evaluation for an element of a path, without its calls: its operations, and
    /// its literals by their bytes.
    pub(super) cost: usize,
    /// The most variables in scope at the same time.
    pub(super) variables: usize,
    /// Reads bins.
    pub(super) reads_bins: bool,
    /// Reads anything else of the record.
    pub(super) reads_facts: bool,
    /// Its value can change while the record does not: it reads times that pass, or sizes.
    pub(super) is_volatile: bool,
    /// A list or map literal in it cannot be stored as it is: it holds wildcard, infinity or illegal
    /// keys, or lacks the index that it asks for.
    pub(super) is_unfit_to_store: bool,
    /// The levels of its longest path, with the paths within the conditions of that.
    pub(super) path_levels: usize,
}

/// A compiled operation and the type of its value.
pub(super) struct Typed {
    pub(super) node: Node,
    pub(super) kind: StaticType,
}

impl Typed {
    pub(super) const fn new(node: Node, kind: StaticType) -> Self {
        Self { node, kind }
    }
}

/// One operation and its operands.
#[derive(Debug)]
pub(super) enum Node {
    Unknown,
    Remove,
    Literal(ExpValue<'static>),
    /// A list or map that holds an unordered map, and so cannot be compared.
    Incomparable(ExpValue<'static>),
    /// Both operands have this type.
    Compare(ComparisonKind, StaticType, Box<[Node; 2]>),
    Matches(Box<(Pattern, Node)>),
    Geo(Box<GeoNode>),
    InList(Box<[Node; 2]>),
    And(Box<[Node]>),
    Or(Box<[Node]>),
    Not(Box<Node>),
    Exclusive(Box<[Node]>),
    Fold(Fold, Box<[Node]>),
    Unary(Unary, Box<Node>),
    Binary(Binary, Box<[Node; 2]>),
    Scan(Scan, Box<[Node; 2]>),
    Fact(Fact),
    DigestModulo(i32),
    Key(ExpType),
    Bin(ExpType, BinName),
    BinType(BinName),
    MapPart(MapPart, Box<Node>),
    Builtin(ExpType, Builtin),
    Cond(Box<[Node]>),
    Var(usize),
    /// The slot of the first variable, the definitions in order, then the scope.
    Let(usize, Box<[Node]>),
    Call(Box<CallNode>),
}

/// A property of the element that a path has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    Key,
    Value,
    Index,
}

/// A comparison of two geometries; literal ones are parsed beforehand.
#[derive(Debug)]
pub(super) struct GeoNode {
    pub(super) operands: [Node; 2],
    pub(super) known: [Option<Geometry>; 2],
}

/// A call of lists and maps, bits, or sketches.
#[derive(Debug)]
pub(super) struct CallNode {
    pub(super) kind: ExpType,
    pub(super) system: CallSystem,
    pub(super) modifies: bool,
    pub(super) trust: Trust,
    /// A selection by a path, which has no encoded call.
    pub(super) selection: Option<Selection>,
    /// The encoded call, up to the first argument that is an expression.
    pub(super) head: Box<[u8]>,
    /// The rest, in pairs: an expression computing an argument, then the encoded arguments after
    /// it.
    pub(super) tail: Box<[(Node, Box<[u8]>)]>,
    /// The expression for the value that the call works on.
    pub(super) on: Node,
}

/// A selection, its expressions compiled.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) levels: Vec<PathLevel>,
    pub(super) what: PathOutput,
    pub(super) no_fail: bool,
    pub(super) apply: Option<Program>,
    /// The number of levels, with those of the paths within its expressions.
    pub(super) depth: usize,
}

/// The use of the elements that a path reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathOutput {
    /// Returns the elements within their lists and maps.
    Tree,
    Values,
    Keys,
    KeysAndValues,
    /// Replaces the elements.
    Apply,
}

/// One level of a path.
#[derive(Debug)]
pub(super) struct PathLevel {
    pub(super) by: StepSelector,
    /// The shape that the level accepts; `None` accepts lists and maps.
    pub(super) only: Option<ItemShape>,
    pub(super) and: Option<Program>,
}

/// How a level chooses elements.
#[derive(Debug)]
pub(super) enum StepSelector {
    Index(i64),
    Rank(i64),
    Key(Box<[u8]>),
    /// Sorted by `compare_lookups`, for binary search.
    Keys(Vec<Box<[u8]>>),
    Value(Box<[u8]>),
    All,
    Matching(Program),
}
