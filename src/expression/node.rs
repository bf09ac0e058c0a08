//! An expression, compiled: a tree that is evaluated again and again.

use super::pattern::Pattern;
use super::types::{ExpType, StaticType};
use super::value::ExpValue;
use crate::call::{CallSystem, Trust};
use crate::geo::Geometry;
use crate::record::BinName;

/// A compiled expression and what was found out about it.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) root: Node,
    pub(super) kind: StaticType,
    /// How many variables can be defined at the same time.
    pub(super) variables: usize,
    /// Whether it reads bins.
    pub(super) reads_bins: bool,
    /// Whether it reads anything else of the record.
    pub(super) reads_facts: bool,
    /// Whether it reads what is not settled when a version is written: what changes with time, and sizes.
    pub(super) is_volatile: bool,
    /// Whether a list or map in it holds what cannot be stored: wildcard, infinity, illegal keys.
    pub(super) holds_lookups: bool,
}

/// A compiled operation and the type of its value.
pub(super) struct Typed {
    pub(super) node: Node,
    pub(super) kind: StaticType,
}

/// One operation and its operands.
#[derive(Debug)]
pub(super) enum Node {
    Unknown,
    Remove,
    Literal(ExpValue<'static>),
    /// A list or map with an unordered map inside, which cannot be compared.
    Incomparable(ExpValue<'static>),
    /// The type is that of both operands.
    Compare(Comparison, StaticType, Box<[Node; 2]>),
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
    /// The first variable, its definition and those of the next ones, and the scope.
    Let(usize, Box<[Node]>),
    Call(Box<CallNode>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
}

/// Operations that take any number of operands from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Abs,
    Floor,
    Ceil,
    ToInt,
    ToFloat,
    Not,
    Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Pow,
    Log,
    Mod,
    LeftShift,
    RightShift,
    ArithmeticRightShift,
}

/// From which end a bit is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    Left,
    Right,
}

/// What a record knows about itself besides key and bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    DeviceSize,
    LastUpdate,
    SinceUpdate,
    VoidTime,
    TimeToLive,
    SetName,
    KeyExists,
    IsTombstone,
    MemorySize,
    RecordSize,
}

impl Fact {
    pub(super) const fn is_volatile(self) -> bool {
        matches!(
            self,
            Self::SinceUpdate
                | Self::TimeToLive
                | Self::DeviceSize
                | Self::MemorySize
                | Self::RecordSize
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MapPart {
    Keys,
    Values,
}

/// What the expressions of a path know of the element that they are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    Key,
    Value,
    Index,
}

/// A comparison of two geometries, and those of them that are known beforehand, read.
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
    /// The encoded call, up to the first argument that is an expression.
    pub(super) head: Box<[u8]>,
    /// What follows, in turn: an expression whose value is an argument, and the encoded arguments after it.
    pub(super) tail: Box<[(Node, Box<[u8]>)]>,
    /// On what it is called.
    pub(super) on: Node,
}
