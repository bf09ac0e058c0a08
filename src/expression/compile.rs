//! From the encoded form to the compiled one: everything that can be refused before there is a
//! record is refused here.
//!
//! An expression is one MessagePack value: a literal, or a list of an operation's number and its
//! operands.

use super::arguments::{CompileOperand, UncompiledOperands};
use super::code::{self, Binary, ComparisonKind, Fact, Fold, Operator, Unary};
use super::node::{Builtin, GeoNode, Node, Program, Typed};
use super::pattern::Pattern;
use super::refusal::{ExpressionRefusal, refuse};
use super::types::{ExpType, StaticType};
use super::unordered::holds_unordered_map;
use super::value::ExpValue;
use crate::call::nest_deeper_than;
use crate::geo::Geometry;
use crate::record::BinName;
use crate::value::msgpack::{
    SUBTYPE_BLOB, SUBTYPE_GEOJSON, SUBTYPE_HLL, SUBTYPE_STRING, Token, TokenReader,
};
use crate::value::{EncodePurpose, from_wire, is_indexed, normalize_element};

/// The longest encoded expression in bytes: Aerospike's limit is the same number of compiled ones.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// How deep operations may nest. Compiling, evaluating and dropping recurse once a level.
pub(super) const MAX_DEPTH: u32 = 128;
/// The most operations and literals, so that few bytes cannot become much memory.
const MAX_NODES: u32 = 1 << 16;
/// The number of bytes of a literal that cost as much as an operation.
const LITERAL_BYTES: usize = 8;

const fn typed(node: Node, kind: ExpType) -> Typed {
    Typed::new(node, Some(kind))
}

/// A variable in scope at the compiler's position.
struct Variable<'e> {
    name: &'e [u8],
    /// `None` while it is being defined.
    kind: Option<StaticType>,
}

/// How deep the encoded form of an expression may nest, with the literals and paths in it.
const MAX_LEVELS: u32 = 256;

/// The state of compiling one expression.
#[derive(Default)]
pub(super) struct Compiler<'e> {
    /// Outer scopes first. A variable's index here is its slot during evaluation.
    visible: Vec<Variable<'e>>,
    variables: usize,
    nodes: u32,
    reads_bins: bool,
    reads_facts: bool,
    is_volatile: bool,
    is_unfit_to_store: bool,
    path_levels: usize,
}

/// Compiles an encoded expression. O(bytes).
pub(super) fn compile(bytes: &[u8]) -> Result<Program, ExpressionRefusal> {
    if bytes.len() > MAX_BYTES {
        return refuse(format!(
            "it has {} bytes, the limit is {MAX_BYTES}",
            bytes.len()
        ));
    }
    // Conditions inside a path are programs of their own, and may hold paths again: each compiles
    // one level deeper on the stack. This check bounds the whole nest.
    if nest_deeper_than(bytes, MAX_LEVELS) {
        return refuse(format!("it nests deeper than {MAX_LEVELS} levels"));
    }
    let mut compiler = Compiler::default();
    let mut reader = TokenReader::new(bytes);
    let Typed { node: root, kind } = compiler.expression(&mut reader, 0)?;
    if !reader.rest().is_empty() {
        return refuse(format!("{} bytes follow it", reader.rest().len()));
    }
    Ok(Program {
        root,
        kind,
        cost: compiler.nodes as usize + bytes.len() / LITERAL_BYTES,
        variables: compiler.variables,
        reads_bins: compiler.reads_bins,
        reads_facts: compiler.reads_facts,
        is_volatile: compiler.is_volatile,
        is_unfit_to_store: compiler.is_unfit_to_store,
        path_levels: compiler.path_levels,
    })
}

impl<'e> CompileOperand<'e> for Compiler<'e> {
    fn expression(
        &mut self,
        reader: &mut TokenReader<'e>,
        depth: u32,
    ) -> Result<Typed, ExpressionRefusal> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return refuse(format!("it has more than {MAX_NODES} operations"));
        }
        let before = *reader;
        let literal = match reader.token().map_err(|error| error.to_string())? {
            Token::Nil => ExpValue::Nil,
            Token::Bool(value) => ExpValue::Bool(value),
            Token::Int(value) => ExpValue::Int(value),
            Token::BigInt(value) => {
                return refuse(format!(
                    "{value} is above i64::MAX, the largest integer of a bin: compare with a smaller one, or a float"
                ));
            }
            Token::Float32(value) => ExpValue::Float(f64::from(value)),
            Token::Float(value) => ExpValue::Float(value),
            Token::Raw(raw) => raw_literal(raw)?,
            Token::Map(_) => {
                *reader = before;
                let map = reader.element().map_err(|error| error.to_string())?;
                return self.container(ExpType::Map, map);
            }
            Token::Ext(..) => {
                return refuse(
                    "wildcard, infinity and other extensions stand only in arguments of calls",
                );
            }
            Token::Array(count) => return self.operation(count, reader, depth),
        };
        let kind = literal.kind();
        Ok(Typed::new(Node::Literal(literal), kind))
    }
}

impl<'e> Compiler<'e> {
    /// Compiles a list or map literal.
    fn container(&mut self, kind: ExpType, bytes: &[u8]) -> Result<Typed, ExpressionRefusal> {
        let mut normal = Vec::with_capacity(bytes.len());
        if from_wire(kind.particle(), bytes, &mut normal).is_err() {
            normal.clear();
            normalize_element(bytes, EncodePurpose::Lookup, &mut normal)
                .map_err(|error| error.to_string())?;
            // With wildcard or infinity it serves lookups, and must not be stored.
            self.is_unfit_to_store = true;
        }
        // A literal that asks for a persisted index comes without one.
        self.is_unfit_to_store |= is_indexed(kind.particle(), &normal).unwrap_or(false);
        let incomparable = holds_unordered_map(&normal);
        let value = ExpValue::Bytes(kind, normal.into());
        Ok(typed(
            if incomparable {
                Node::Incomparable(value)
            } else {
                Node::Literal(value)
            },
            kind,
        ))
    }

    fn operation(
        &mut self,
        count: u32,
        reader: &mut TokenReader<'e>,
        depth: u32,
    ) -> Result<Typed, ExpressionRefusal> {
        if depth >= MAX_DEPTH {
            return refuse(format!("operations nest deeper than {MAX_DEPTH} levels"));
        }
        let code = match reader.token() {
            Ok(Token::Int(code)) if count > 0 => code,
            _ => {
                return refuse(
                    "a list that does not begin with the number of an operation: list literals are quoted, [126, list]",
                );
            }
        };
        let Some(name) = code::name(code) else {
            return refuse(format!("{code} is not an operation"));
        };
        let mut arguments = UncompiledOperands::new(name, count - 1, reader, depth + 1);
        let compiled = match Operator::of(code) {
            Some(operator) => self.operator(operator, &mut arguments)?,
            None => self.dispatch(code, &mut arguments)?,
        };
        arguments.end()?;
        Ok(compiled)
    }

    fn operator(
        &mut self,
        operator: Operator,
        arguments: &mut UncompiledOperands<'_, 'e>,
    ) -> Result<Typed, ExpressionRefusal> {
        use ExpType::{Bool, Float, Int, List, Map, String};
        let (node, kind) = match operator {
            Operator::ComparisonKind(comparison) => return self.compare(comparison, arguments),
            Operator::Fold(operation @ (Fold::And | Fold::Or | Fold::Xor)) => (
                Node::Fold(operation, arguments.operands(self, Int, 1)?),
                Int,
            ),
            Operator::Fold(operation) => return self.fold(operation, arguments),
            Operator::Binary(operation) => {
                let kind = match operation {
                    Binary::Pow | Binary::Log => Float,
                    _ => Int,
                };
                let operands = arguments.two(self, [kind, kind])?;
                (Node::Binary(operation, Box::new(operands)), kind)
            }
            Operator::Scan(scan) => {
                let operands = arguments.two(self, [Int, Bool])?;
                (Node::Scan(scan, Box::new(operands)), Int)
            }
            Operator::Unary(Unary::Abs) => {
                let Typed { node, kind } = arguments.number(self)?;
                return Ok(Typed::new(Node::Unary(Unary::Abs, Box::new(node)), kind));
            }
            Operator::Unary(operation) => {
                let (takes, gives) = match operation {
                    Unary::Floor | Unary::Ceil => (Float, Float),
                    Unary::ToInt => (Float, Int),
                    Unary::ToFloat => (Int, Float),
                    Unary::Abs | Unary::Not | Unary::Count => (Int, Int),
                };
                let operand = arguments.operand(self, takes)?;
                (Node::Unary(operation, Box::new(operand)), gives)
            }
            Operator::Fact(fact) => {
                self.reads_facts = true;
                // Times that pass, and sizes.
                self.is_volatile |= matches!(
                    fact,
                    Fact::SinceUpdate
                        | Fact::TimeToLive
                        | Fact::DeviceSize
                        | Fact::MemorySize
                        | Fact::RecordSize
                );
                let kind = match fact {
                    Fact::SetName => String,
                    Fact::KeyExists | Fact::IsTombstone => Bool,
                    _ => Int,
                };
                (Node::Fact(fact), kind)
            }
            Operator::MapPart(part) => {
                let map = arguments.operand(self, Map)?;
                (Node::MapPart(part, Box::new(map)), List)
            }
        };
        Ok(typed(node, kind))
    }

    fn dispatch(
        &mut self,
        code: i64,
        arguments: &mut UncompiledOperands<'_, 'e>,
    ) -> Result<Typed, ExpressionRefusal> {
        use ExpType::{Bool, Geo, Int, List, String};
        // Operands come from one reader: every arm takes them in the order of the encoding.
        match code {
            code::UNKNOWN => Ok(Typed::new(Node::Unknown, None)),
            code::RESULT_REMOVE => Ok(Typed::new(Node::Remove, None)),
            code::REGEX => {
                let flags = arguments.int()?;
                let pattern = Pattern::new(arguments.raw()?, flags)?;
                let text = arguments.operand(self, String)?;
                Ok(typed(Node::Matches(Box::new((pattern, text))), Bool))
            }
            code::GEO => {
                let operands = arguments.two(self, [Geo, Geo])?;
                let known = operands.each_ref().map(known_geometry);
                let node = GeoNode { operands, known };
                Ok(typed(Node::Geo(Box::new(node)), Bool))
            }
            code::IN_LIST => {
                let value = arguments.any(self)?.node;
                let list = arguments.operand(self, List)?;
                Ok(typed(Node::InList(Box::new([value, list])), Bool))
            }
            code::AND => Ok(typed(Node::And(arguments.operands(self, Bool, 2)?), Bool)),
            code::OR => Ok(typed(Node::Or(arguments.operands(self, Bool, 2)?), Bool)),
            code::EXCLUSIVE => {
                let operands = arguments.operands(self, Bool, 2)?;
                Ok(typed(Node::Exclusive(operands), Bool))
            }
            code::NOT => {
                let operand = arguments.operand(self, Bool)?;
                Ok(typed(Node::Not(Box::new(operand)), Bool))
            }
            code::DIGEST_MODULO => {
                self.reads_facts = true;
                // Aerospike keeps the low 32 bits.
                match arguments.int()? as i32 {
                    0 => arguments.refuse("the modulus is 0"),
                    by => Ok(typed(Node::DigestModulo(by), Int)),
                }
            }
            code::KEY => {
                self.reads_facts = true;
                match arguments.kind()? {
                    kind @ (Int | String | ExpType::Blob) => Ok(typed(Node::Key(kind), kind)),
                    kind => arguments.refuse(&format!("no key is a {}", kind.name())),
                }
            }
            code::BIN => {
                self.reads_bins = true;
                let kind = arguments.kind()?;
                Ok(typed(Node::Bin(kind, bin_name(arguments)?), kind))
            }
            code::BIN_TYPE => {
                self.reads_bins = true;
                Ok(typed(Node::BinType(bin_name(arguments)?), Int))
            }
            code::VAR_BUILTIN => {
                let kind = arguments.kind()?;
                let builtin = match arguments.int()? {
                    0 => Builtin::Key,
                    1 => Builtin::Value,
                    2 if kind == Int => Builtin::Index,
                    2 => return arguments.refuse("an index is an integer"),
                    other => {
                        return arguments.refuse(&format!("there is no loop variable {other}"));
                    }
                };
                Ok(typed(Node::Builtin(kind, builtin), kind))
            }
            code::COND => self.cond(arguments),
            code::VAR => self.var(arguments),
            code::LET => self.define(arguments),
            code::QUOTE => {
                let list = arguments.element()?;
                match TokenReader::new(list).token() {
                    Ok(Token::Array(_)) => self.container(List, list),
                    _ => arguments.refuse("the quoted value is not a list"),
                }
            }
            // The remaining operation is the call: `name` accepted no other number.
            _ => {
                let call = super::systems::compile(self, arguments)?;
                let depth = call.selection.as_ref().map_or(0, |path| path.depth);
                self.path_levels = self.path_levels.max(depth);
                let kind = call.kind;
                Ok(typed(Node::Call(Box::new(call)), kind))
            }
        }
    }

    fn compare(
        &mut self,
        comparison: ComparisonKind,
        arguments: &mut UncompiledOperands<'_, 'e>,
    ) -> Result<Typed, ExpressionRefusal> {
        let (a, b) = (arguments.any(self)?, arguments.any(self)?);
        match arguments.unify("sides", (a.kind, b.kind), "both must have one type")? {
            Some(kind @ (ExpType::Geo | ExpType::Hll)) => {
                arguments.refuse(&format!("values of type {} have no order", kind.name()))
            }
            kind => Ok(typed(
                Node::Compare(comparison, kind, Box::new([a.node, b.node])),
                ExpType::Bool,
            )),
        }
    }

    /// Compiles operands that are numbers, all of one type.
    fn fold(
        &mut self,
        operation: Fold,
        arguments: &mut UncompiledOperands<'_, 'e>,
    ) -> Result<Typed, ExpressionRefusal> {
        let Typed { node, mut kind } = arguments.number(self)?;
        let mut operands = vec![node];
        while arguments.left() > 0 {
            let operand = arguments.number(self)?;
            kind = arguments.unify(
                "operands",
                (kind, operand.kind),
                "convert with to_int or to_float",
            )?;
            operands.push(operand.node);
        }
        Ok(Typed::new(Node::Fold(operation, operands.into()), kind))
    }

    fn cond(
        &mut self,
        arguments: &mut UncompiledOperands<'_, 'e>,
    ) -> Result<Typed, ExpressionRefusal> {
        let count = arguments.left();
        if count < 3 || count.is_multiple_of(2) {
            return arguments
                .refuse("it needs pairs of a condition and a value, at least one, then a default");
        }
        let mut kind = None;
        let mut nodes = Vec::new();
        while arguments.left() > 0 {
            if arguments.left() > 1 {
                nodes.push(arguments.operand(self, ExpType::Bool)?);
            }
            let value = arguments.any(self)?;
            kind = arguments.unify("values", (kind, value.kind), "all must have one type")?;
            nodes.push(value.node);
        }
        Ok(Typed::new(Node::Cond(nodes.into()), kind))
    }

    fn var(
        &mut self,
        arguments: &mut UncompiledOperands<'_, 'e>,
    ) -> Result<Typed, ExpressionRefusal> {
        let name = arguments.raw()?;
        let found = self
            .visible
            .iter()
            .position(|variable| variable.name == name);
        let Some((at, variable)) = found.and_then(|at| Some((at, self.visible.get(at)?))) else {
            return arguments.refuse(&format!("\"{}\" is not defined", shown(name)));
        };
        match variable.kind {
            Some(kind) => Ok(Typed::new(Node::Var(at), kind)),
            None => arguments.refuse(&format!("\"{}\" is used to define itself", shown(name))),
        }
    }

    /// Compiles pairs of name and definition, then the scope that uses them. A definition may use
    /// earlier ones.
    fn define(
        &mut self,
        arguments: &mut UncompiledOperands<'_, 'e>,
    ) -> Result<Typed, ExpressionRefusal> {
        let count = arguments.left();
        if count < 3 || count.is_multiple_of(2) {
            return arguments
                .refuse("it needs pairs of a name and a definition, at least one, then a scope");
        }
        let first = self.visible.len();
        let mut nodes = Vec::new();
        while arguments.left() > 1 {
            let name = arguments.raw()?;
            check_name(name).or_else(|why| arguments.refuse(&why))?;
            if self.visible.iter().any(|variable| variable.name == name) {
                return arguments.refuse(&format!("\"{}\" is defined already", shown(name)));
            }
            let at = self.visible.len();
            self.visible.push(Variable { name, kind: None });
            let definition = arguments.any(self)?;
            nodes.push(definition.node);
            if let Some(variable) = self.visible.get_mut(at) {
                variable.kind = Some(definition.kind);
            }
        }
        let Typed { node, kind } = arguments.any(self)?;
        nodes.push(node);
        self.variables = self.variables.max(self.visible.len());
        self.visible.truncate(first);
        Ok(Typed::new(Node::Let(first, nodes.into()), kind))
    }
}

fn raw_literal(raw: &[u8]) -> Result<ExpValue<'static>, ExpressionRefusal> {
    let (kind, bytes) = match raw.split_first() {
        Some((&SUBTYPE_STRING, bytes)) => (ExpType::String, bytes),
        Some((&SUBTYPE_BLOB, bytes)) => (ExpType::Blob, bytes),
        Some((&SUBTYPE_HLL, bytes)) => (ExpType::Hll, bytes),
        Some((&SUBTYPE_GEOJSON, bytes)) => {
            Geometry::parse(bytes).map_err(|error| error.to_string())?;
            (ExpType::Geo, bytes)
        }
        Some((other, _)) => return refuse(format!("a literal of the unknown type {other}")),
        None => return refuse("a text or blob without the byte that says which of them it is"),
    };
    Ok(ExpValue::Bytes(kind, bytes.to_vec().into()))
}

fn known_geometry(node: &Node) -> Option<Geometry> {
    match node {
        Node::Literal(ExpValue::Bytes(ExpType::Geo, text)) => Geometry::parse(text).ok(),
        _ => None,
    }
}

fn bin_name(arguments: &mut UncompiledOperands<'_, '_>) -> Result<BinName, ExpressionRefusal> {
    let name = arguments.raw()?;
    match BinName::from_utf8(name) {
        Some(name) => Ok(name),
        None => arguments.refuse(&format!("\"{}\" is not the name of a bin", shown(name))),
    }
}

fn check_name(name: &[u8]) -> Result<(), String> {
    let letters = name
        .iter()
        .all(|byte| *byte == b'_' || byte.is_ascii_alphanumeric());
    let digit_first = name.first().is_some_and(u8::is_ascii_digit);
    if name.is_empty() || !letters || digit_first {
        return Err(format!(
            "\"{}\" is not the name of a variable: use letters, digits and underscores, no digit first",
            shown(name)
        ));
    }
    Ok(())
}

fn shown(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}
