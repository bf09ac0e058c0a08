//! Evaluation: a walk over the compiled expression that reads the record's bytes without copying.
//!
//! `None` is the unknown value. An unknown operand makes its operation unknown, except where `and`,
//! `or` and `cond` are decided by the other operands.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::budget::Budget;
use super::code::{ComparisonKind, Fold, MapPart};
use super::compile::compile;
use super::node::{Builtin, CallNode, GeoNode, Node, Program};
use super::numbers;
use super::path::Element;
use super::scope::Scope;
use super::systems;
use super::types::{ExpType, StaticType};
use super::unordered::holds_unordered_map;
use super::value::ExpValue;
use crate::call::CallError;
use crate::geo::Geometry;
use crate::value::msgpack::{TokenReader, write_array_header};
use crate::value::{Container, ParticleType, ValueRef, order};

impl Program {
    /// Evaluates the expression on a record; `None` means unknown.
    pub(super) fn evaluate<'a>(&'a self, scope: Scope<'a>) -> Option<ExpValue<'a>> {
        self.run(scope, Element::default(), &Budget::default())
            .eval(&self.root)
    }

    /// Evaluates the expression as a truth value; `None` means unknown or another type.
    pub(super) fn is_true<'a>(&'a self, scope: Scope<'a>) -> Option<bool> {
        self.run(scope, Element::default(), &Budget::default())
            .bool(&self.root)
    }

    fn run<'a, 'b>(
        &self,
        scope: Scope<'a>,
        element: Element<'a>,
        budget: &'b Budget,
    ) -> Evaluator<'a, 'b> {
        Evaluator {
            scope,
            element,
            budget,
            variables: match self.variables {
                0 => Vec::new(),
                variables => vec![None; variables],
            },
        }
    }

    /// Compiles an expression that is evaluated on elements: a level's condition, or an element's
    /// replacement.
    pub(super) fn compile(bytes: &[u8]) -> Result<Self, CallError> {
        compile(bytes).map_err(|why| CallError::parameter(format!("expression: {why}")))
    }

    /// Returns the value for an element; `None`: unknown. The expression sees the element, not the
    /// record.
    pub(super) fn value_for<'a>(
        &'a self,
        element: Element<'a>,
        budget: &Budget,
    ) -> Option<ExpValue<'a>> {
        budget.spend(self.cost)?;
        self.run(Scope::default(), element, budget).eval(&self.root)
    }
}

struct Evaluator<'a, 'b> {
    scope: Scope<'a>,
    element: Element<'a>,
    budget: &'b Budget,
    variables: Vec<Option<ExpValue<'a>>>,
}

impl<'a> Evaluator<'a, '_> {
    fn eval(&mut self, node: &'a Node) -> Option<ExpValue<'a>> {
        match node {
            Node::Unknown => None,
            Node::Remove => Some(ExpValue::Remove),
            Node::Literal(value) | Node::Incomparable(value) => Some(value.reborrow()),
            Node::Matches(operands) => {
                let (pattern, text) = &**operands;
                let text = self.eval(text)?;
                let text = std::str::from_utf8(text.bytes_of(ExpType::String)?).ok()?;
                self.budget
                    .spend(text.len().saturating_mul(pattern.cost()))?;
                Some(ExpValue::Bool(pattern.is_match(text)))
            }
            Node::Geo(node) => self.geo(node).map(ExpValue::Bool),
            Node::InList(operands) => {
                let [value, list] = &**operands;
                let (value, list) = (self.eval(value)?, self.eval(list)?);
                let list = list.bytes_of(ExpType::List)?;
                self.budget.spend_on_reading(list.len())?;
                in_list(&value, list).map(ExpValue::Bool)
            }
            Node::Compare(..) | Node::And(_) | Node::Or(_) | Node::Not(_) => {
                self.bool(node).map(ExpValue::Bool)
            }
            Node::Exclusive(operands) => self.exclusive(operands).map(ExpValue::Bool),
            Node::Fold(operation, operands) => self.fold(*operation, operands),
            Node::Unary(operation, operand) => numbers::unary(*operation, &self.eval(operand)?),
            Node::Binary(operation, operands) => {
                let [a, b] = &**operands;
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                numbers::binary(*operation, &a, &b)
            }
            Node::Scan(scan, operands) => {
                let [value, bit] = &**operands;
                let value = self.int(value)?;
                let bit = self.bool(bit)?;
                Some(ExpValue::Int(numbers::scan(*scan, value, bit)))
            }
            Node::Fact(fact) => self.scope.facts.map(|facts| facts.get(*fact)),
            Node::DigestModulo(by) => self.scope.facts?.digest_modulo(*by).map(ExpValue::Int),
            Node::Key(kind) => self.scope.facts?.key()?.only(*kind),
            Node::Bin(..) => {
                let (kind, bytes) = self.bin(node)?;
                ExpValue::of_stored(kind, Cow::Borrowed(bytes))
            }
            Node::BinType(name) => {
                let bin = self.scope.bins?.particle(name.as_bytes());
                Some(ExpValue::Int(
                    bin.map_or(0, |(kind, _)| i64::from(kind.number())),
                ))
            }
            Node::MapPart(part, map) => {
                let map = self.eval(map)?;
                self.paid(map_part(*part, map.bytes_of(ExpType::Map)?)?)
            }
            Node::Builtin(kind, builtin) => self.paid(from_inside(self.builtin(*builtin)?, *kind)?),
            Node::Cond(cases) => self.cond(cases),
            Node::Var(variable) => self.paid(self.variables.get(*variable)?.clone()?),
            Node::Let(first, nodes) => {
                let (scope, definitions) = nodes.split_last()?;
                for (at, definition) in definitions.iter().enumerate() {
                    // Stored before the next one is evaluated: later definitions may use it.
                    let value = self.eval(definition);
                    *self.variables.get_mut(first + at)? = value;
                }
                self.eval(scope)
            }
            Node::Call(call) => self.call(call),
        }
    }

    /// Evaluates an expression that is true or false. Filters consist of these, so they skip
    /// `ExpValue`.
    fn bool(&mut self, node: &'a Node) -> Option<bool> {
        match node {
            Node::Compare(comparison, kind, operands) => {
                let [a, b] = &**operands;
                self.compare(*comparison, *kind, a, b)
            }
            Node::And(operands) => self.first(operands, false),
            Node::Or(operands) => self.first(operands, true),
            Node::Not(operand) => self.bool(operand).map(|value| !value),
            _ => self.eval(node)?.as_bool(),
        }
    }

    fn int(&mut self, node: &'a Node) -> Option<i64> {
        match node {
            Node::Literal(value) => value.as_i64(),
            Node::Bin(..) => {
                let (kind, bytes) = self.bin(node)?;
                ValueRef::stored(kind, bytes).ok()?.as_i64()
            }
            _ => self.eval(node)?.as_i64(),
        }
    }

    /// Returns the bin that a node names, if the bin exists and has the expected type.
    fn bin(&self, node: &'a Node) -> Option<(ParticleType, &'a [u8])> {
        let Node::Bin(kind, name) = node else {
            return None;
        };
        let bin = self.scope.bins?.particle(name.as_bytes())?;
        if bin.0 != kind.particle() {
            return None;
        }
        self.budget.spend_on_reading(bin.1.len())?;
        Some(bin)
    }

    fn compare(
        &mut self,
        comparison: ComparisonKind,
        kind: StaticType,
        a: &'a Node,
        b: &'a Node,
    ) -> Option<bool> {
        if kind == Some(ExpType::Int) {
            let ordering = self.int(a)?.cmp(&self.int(b)?);
            return Some(numbers::holds(comparison, Some(ordering)));
        }
        if let (Some(ExpType::String | ExpType::Blob), Node::Bin(..), Node::Literal(value)) =
            (kind, a, b)
        {
            let (_, bytes) = self.bin(a)?;
            let ordering = bytes.cmp(value.bytes_of(kind?)?);
            return Some(numbers::holds(comparison, Some(ordering)));
        }
        if let (Some(ExpType::List | ExpType::Map), Node::Bin(..), Node::Literal(value)) =
            (kind, a, b)
            && self.bin(a)?.1 == value.bytes_of(kind?)?
        {
            // Equal bytes: the literal holds no unordered map (it would be `Incomparable`), so
            // neither does the bin.
            return Some(numbers::holds(comparison, Some(Ordering::Equal)));
        }
        let (a, b) = (self.comparable(a)?, self.comparable(b)?);
        numbers::compare(comparison, &a, &b)
    }

    /// Evaluates an operand of a comparison; `None` also for values without an order.
    fn comparable(&mut self, node: &'a Node) -> Option<ExpValue<'a>> {
        match node {
            Node::Literal(value) => Some(value.reborrow()),
            Node::Incomparable(_) => None,
            _ => {
                let value = self.eval(node)?;
                match &value {
                    ExpValue::Bytes(ExpType::List | ExpType::Map, bytes)
                        if holds_unordered_map(bytes) =>
                    {
                        None
                    }
                    _ => Some(value),
                }
            }
        }
    }

    /// Returns `deciding` at the first operand that has this value. An unknown operand leaves the
    /// result unknown unless a later one decides.
    fn first(&mut self, operands: &'a [Node], deciding: bool) -> Option<bool> {
        let mut result = Some(!deciding);
        for operand in operands {
            match self.bool(operand) {
                Some(value) if value == deciding => return Some(deciding),
                Some(_) => {}
                None => result = None,
            }
        }
        result
    }

    /// Returns whether exactly one operand is true. Stops at the second true operand.
    fn exclusive(&mut self, operands: &'a [Node]) -> Option<bool> {
        let mut one = false;
        for operand in operands {
            if self.bool(operand)? {
                if one {
                    return Some(false);
                }
                one = true;
            }
        }
        Some(one)
    }

    fn geo(&mut self, node: &'a GeoNode) -> Option<bool> {
        let [a, b] = &node.operands;
        let [known_a, known_b] = &node.known;
        let a = self.geometry(a, known_a.as_ref())?;
        let b = self.geometry(b, known_b.as_ref())?;
        Some(a.matches(&b))
    }

    fn geometry(
        &mut self,
        node: &'a Node,
        known: Option<&'a Geometry>,
    ) -> Option<Cow<'a, Geometry>> {
        if let Some(known) = known {
            return Some(Cow::Borrowed(known));
        }
        let text = self.eval(node)?;
        let geometry = Geometry::parse(text.bytes_of(ExpType::Geo)?).ok()?;
        Some(Cow::Owned(geometry))
    }

    fn fold(&mut self, operation: Fold, operands: &'a [Node]) -> Option<ExpValue<'a>> {
        let (first, rest) = operands.split_first()?;
        let first = self.eval(first)?.into_owned();
        // A single operand is negated (subtracted from 0) or inverted (1 is divided by it).
        let (value, mut result, rest) = match (operation, rest.split_first(), &first) {
            (Fold::Sub, None, ExpValue::Int(value)) => {
                return Some(ExpValue::Int(value.wrapping_neg()));
            }
            (Fold::Sub, None, ExpValue::Float(value)) => return Some(ExpValue::Float(-value)),
            (Fold::Div, None, ExpValue::Int(_)) => {
                return numbers::divide(&ExpValue::Int(1), &first);
            }
            (Fold::Div, None, ExpValue::Float(_)) => {
                return numbers::divide(&ExpValue::Float(1.0), &first);
            }
            (Fold::Div, Some((divisor, rest)), _) => {
                (Some(first), self.eval(divisor)?.into_owned(), rest)
            }
            _ => (None, first, rest),
        };
        for operand in rest {
            let by = self.eval(operand)?;
            result = numbers::fold(operation, result, &by)?;
        }
        match value {
            Some(value) => numbers::divide(&value, &result),
            None => Some(result),
        }
    }

    /// Evaluates pairs of condition and value, then the default. An unknown condition makes the
    /// result unknown.
    fn cond(&mut self, cases: &'a [Node]) -> Option<ExpValue<'a>> {
        let (default, cases) = cases.split_last()?;
        for case in cases.chunks_exact(2) {
            let [condition, value] = case else {
                return None;
            };
            if self.bool(condition)? {
                return self.eval(value);
            }
        }
        self.eval(default)
    }

    fn builtin(&self, builtin: Builtin) -> Option<ExpValue<'a>> {
        match builtin {
            Builtin::Key => ExpValue::of_element(self.element.key?),
            Builtin::Value => ExpValue::of_element(self.element.value?),
            Builtin::Index => self.element.index.map(ExpValue::Int),
        }
    }

    fn call(&mut self, node: &'a CallNode) -> Option<ExpValue<'a>> {
        let mut encoded = Cow::Borrowed(&*node.head);
        for (argument, after) in &node.tail {
            let encoded = encoded.to_mut();
            let before = encoded.len();
            self.eval(argument)?.write_element(encoded)?;
            self.budget.spend(encoded.len() - before)?;
            encoded.extend_from_slice(after);
        }
        let on = self.eval(&node.on)?;
        if let ExpValue::Bytes(_, bytes) = &on {
            self.budget.spend_on_reading(bytes.len())?;
        }
        let value = self.paid(systems::execute(node, encoded, on, self.budget)?)?;
        from_inside(value, node.kind)
    }

    /// Pays for a value, by the bytes that were made for it.
    fn paid(&self, value: ExpValue<'a>) -> Option<ExpValue<'a>> {
        match &value {
            ExpValue::Bytes(_, Cow::Owned(bytes)) => self.budget.spend(bytes.len())?,
            ExpValue::Bytes(_, Cow::Borrowed(bytes)) => {
                self.budget.spend_on_reading(bytes.len())?;
            }
            _ => {}
        }
        Some(value)
    }
}

/// Returns a value from inside a list or map if it has this type. GeoJSON is validated here because
/// elements are stored unchecked.
fn from_inside(value: ExpValue<'_>, kind: ExpType) -> Option<ExpValue<'_>> {
    let value = value.only(kind)?;
    match value.bytes_of(ExpType::Geo) {
        Some(text) if Geometry::parse(text).is_err() => None,
        _ => Some(value),
    }
}

/// Returns whether a list holds an element equal to a value, by the order of values.
fn in_list(value: &ExpValue<'_>, list: &[u8]) -> Option<bool> {
    let mut sought = Vec::with_capacity(size_of::<u64>() + 1);
    value.write_element(&mut sought)?;
    let list = Container::list(list).ok()?;
    let mut elements = TokenReader::new(list.content);
    for _ in 0..list.count {
        let element = elements.element().ok()?;
        if order::compare(&sought, element).is_eq() {
            return Some(true);
        }
    }
    Some(false)
}

/// Returns the keys or the values of a map, as a list.
fn map_part<'a>(part: MapPart, map: &[u8]) -> Option<ExpValue<'a>> {
    let map = Container::map(map).ok()?;
    let mut out = Vec::new();
    write_array_header(&mut out, map.count);
    let mut entries = TokenReader::new(map.content);
    for _ in 0..map.count {
        let (key, value) = (entries.element().ok()?, entries.element().ok()?);
        out.extend_from_slice(match part {
            MapPart::Keys => key,
            MapPart::Values => value,
        });
    }
    Some(ExpValue::Bytes(ExpType::List, Cow::Owned(out)))
}
