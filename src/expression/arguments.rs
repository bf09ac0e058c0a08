//! The operands of one operation, taken off one after the other while it is compiled.

use super::node::{Node, Typed};
use super::refusal::{ExpressionRefusal, refuse};
use super::types::{ExpType, StaticType, unify};
use crate::value::msgpack::{Token, TokenReader};

/// Compiles operands that are expressions.
pub(super) trait CompileOperand<'e> {
    /// Compiles the expression at the front of the reader, `depth` operations deep, and advances
    /// the reader past it.
    fn expression(
        &mut self,
        reader: &mut TokenReader<'e>,
        depth: u32,
    ) -> Result<Typed, ExpressionRefusal>;
}

/// The operands of an operation that are not yet compiled.
pub(super) struct UncompiledOperands<'r, 'e> {
    /// The operation, for messages.
    name: &'static str,
    left: u32,
    reader: &'r mut TokenReader<'e>,
    /// Nesting depth of the operands.
    depth: u32,
}

impl<'r, 'e> UncompiledOperands<'r, 'e> {
    pub(super) const fn new(
        name: &'static str,
        left: u32,
        reader: &'r mut TokenReader<'e>,
        depth: u32,
    ) -> Self {
        Self {
            name,
            left,
            reader,
            depth,
        }
    }

    pub(super) const fn left(&self) -> u32 {
        self.left
    }

    pub(super) const fn depth(&self) -> u32 {
        self.depth
    }

    /// Refuses the operation.
    pub(super) fn refuse<T>(&self, why: &str) -> Result<T, ExpressionRefusal> {
        refuse(format!("{}: {why}", self.name))
    }

    /// Fails unless all operands were taken.
    pub(super) fn end(&self) -> Result<(), ExpressionRefusal> {
        match self.left {
            0 => Ok(()),
            left => self.refuse(&format!("{left} operands too many")),
        }
    }

    fn take(&mut self) -> Result<(), ExpressionRefusal> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => self.refuse("an operand is missing"),
        }
    }

    /// Takes one element, uncompiled.
    pub(super) fn element(&mut self) -> Result<&'e [u8], ExpressionRefusal> {
        self.take()?;
        self.reader
            .element()
            .or_else(|error| self.refuse(&error.to_string()))
    }

    fn token(&mut self) -> Result<Token<'e>, ExpressionRefusal> {
        let element = self.element()?;
        TokenReader::new(element)
            .token()
            .or_else(|error| self.refuse(&error.to_string()))
    }

    /// Takes an integer literal that is not compiled as an expression.
    pub(super) fn int(&mut self) -> Result<i64, ExpressionRefusal> {
        match self.token()? {
            Token::Int(value) => Ok(value),
            Token::BigInt(value) => Ok(value.cast_signed()),
            _ => self.refuse("an operand is not the integer that belongs there"),
        }
    }

    /// Takes the number of a type.
    pub(super) fn kind(&mut self) -> Result<ExpType, ExpressionRefusal> {
        let number = self.int()?;
        match ExpType::from_number(number) {
            Some(kind) => Ok(kind),
            None => self.refuse(&format!("{number} is the number of no type")),
        }
    }

    /// Takes text without its leading type byte: a name or a pattern.
    pub(super) fn raw(&mut self) -> Result<&'e [u8], ExpressionRefusal> {
        match self.token()? {
            Token::Raw(raw) => Ok(raw),
            _ => self.refuse("an operand is not the text that belongs there"),
        }
    }

    /// Compiles the next operand, of any type.
    pub(super) fn any(
        &mut self,
        compiler: &mut impl CompileOperand<'e>,
    ) -> Result<Typed, ExpressionRefusal> {
        self.take()?;
        compiler.expression(self.reader, self.depth)
    }

    /// Compiles the next operand and checks its type.
    pub(super) fn operand(
        &mut self,
        compiler: &mut impl CompileOperand<'e>,
        kind: ExpType,
    ) -> Result<Node, ExpressionRefusal> {
        let operand = self.any(compiler)?;
        match unify(operand.kind, Some(kind)) {
            Ok(_) => Ok(operand.node),
            Err((found, wanted)) => self.refuse(&format!(
                "an operand is a {}, it must be a {}",
                found.name(),
                wanted.name()
            )),
        }
    }

    /// Takes two operands of these types.
    pub(super) fn two(
        &mut self,
        compiler: &mut impl CompileOperand<'e>,
        [first, second]: [ExpType; 2],
    ) -> Result<[Node; 2], ExpressionRefusal> {
        Ok([
            self.operand(compiler, first)?,
            self.operand(compiler, second)?,
        ])
    }

    /// Returns the type that two of its parts have in common.
    pub(super) fn unify(
        &self,
        parts: &str,
        (a, b): (StaticType, StaticType),
        remedy: &str,
    ) -> Result<StaticType, ExpressionRefusal> {
        unify(a, b).or_else(|(a, b)| {
            let (a, b) = (a.name(), b.name());
            self.refuse(&format!("its {parts} are {a} and {b}: {remedy}"))
        })
    }

    /// Compiles all remaining operands, at least `least`, each of type `kind`.
    pub(super) fn operands(
        &mut self,
        compiler: &mut impl CompileOperand<'e>,
        kind: ExpType,
        least: u32,
    ) -> Result<Box<[Node]>, ExpressionRefusal> {
        if self.left < least {
            return self.refuse(&format!(
                "it has {} operands, and needs at least {least}",
                self.left
            ));
        }
        let mut operands = Vec::new();
        while self.left > 0 {
            operands.push(self.operand(compiler, kind)?);
        }
        Ok(operands.into())
    }

    /// Compiles the next operand, which must be an integer or a float.
    pub(super) fn number(
        &mut self,
        compiler: &mut impl CompileOperand<'e>,
    ) -> Result<Typed, ExpressionRefusal> {
        let operand = self.any(compiler)?;
        match operand.kind {
            None | Some(ExpType::Int | ExpType::Float) => Ok(operand),
            Some(other) => self.refuse(&format!(
                "an operand is a {}, it must be a number",
                other.name()
            )),
        }
    }
}
