//! Calls of lists and maps, bits and sketches inside expressions.

use std::borrow::Cow;

use super::arguments::{CompileOperand, UncompiledOperands};
use super::budget::Budget;
use super::code::CALL_MODIFIES;
use super::executor::{self, CallChange};
use super::node::{CallNode, Node};
use super::path::{PathSelection, select};
use super::refusal::{ExpressionRefusal, refuse};
use super::types::ExpType;
use super::value::ExpValue;
use crate::call::{CALL_BELOW, CallError, CallSystem, Payload, Trust};
use crate::value::msgpack::{Token, TokenReader, write_array_header, write_int};
use crate::value::{CodecError, EncodePurpose, ParticleType, normalize_element};

impl CallSystem {
    /// Returns whether the system accepts values of this type. Nil means a bin that does not exist
    /// yet.
    const fn takes(self, kind: ExpType) -> bool {
        matches!(
            (self, kind),
            (_, ExpType::Nil)
                | (Self::Collections, ExpType::List | ExpType::Map)
                | (Self::Bits, ExpType::Blob)
                | (Self::Hll, ExpType::Hll)
        )
    }
}

/// Compiles `[result type, system, [operation, argument ..], on]`. Arguments that are lists are
/// expressions.
pub(super) fn compile<'e>(
    compiler: &mut impl CompileOperand<'e>,
    arguments: &mut UncompiledOperands<'_, 'e>,
) -> Result<CallNode, ExpressionRefusal> {
    let kind = arguments.kind()?;
    let number = arguments.int()?;
    let modifies = number & CALL_MODIFIES != 0;
    let Some(system) = CallSystem::from_number(number & !CALL_MODIFIES) else {
        return arguments.refuse(&format!("there is no system {number}"));
    };
    let call = arguments.element()?;
    let payload = Payload::parse(call, Trust::Foreign);
    let selection = payload
        .and_then(|payload| executor::check(system, payload, modifies))
        .or_else(|error| match error {
            CallError::Parameter(why) => arguments.refuse(&why),
            CallError::Argument(why) => arguments.refuse(&why.to_string()),
            _ => arguments.refuse("its call is malformed"),
        })?;
    // A modifying call keeps its arguments as received: its executor checks values before storing
    // them.
    let trust = if modifies {
        Trust::Foreign
    } else {
        Trust::Normal
    };
    let Template { head, tail } = match selection {
        // Its expressions see elements, not the record, so they are programs of their own.
        Some(_) => Template::default(),
        None => Template::compile(compiler, call, trust, arguments.depth())
            .or_else(|why| arguments.refuse(&why))?,
    };
    let on = arguments.any(compiler)?;
    if let Some(on) = on.kind
        && !system.takes(on)
    {
        return arguments.refuse(&format!("its operation is not for a {}", on.name()));
    }
    Ok(CallNode {
        kind,
        system,
        modifies,
        trust,
        selection,
        head,
        tail,
        on: on.node,
    })
}

/// An encoded call with gaps for arguments computed by expressions.
#[derive(Default)]
struct Template {
    head: Box<[u8]>,
    tail: Box<[(Node, Box<[u8]>)]>,
}

impl Template {
    fn compile<'e>(
        compiler: &mut impl CompileOperand<'e>,
        call: &'e [u8],
        trust: Trust,
        depth: u32,
    ) -> Result<Self, ExpressionRefusal> {
        let mut head = Vec::with_capacity(call.len());
        let mut reader = TokenReader::new(call);
        let (mut count, operation) = begin(&mut reader, &mut head)?;
        if operation == CALL_BELOW {
            write_argument(reader.element().map_err(text)?, trust, &mut head)?;
            (count, _) = begin(&mut reader, &mut head)?;
        }
        let mut tail = Vec::new();
        let mut encoded = Vec::new();
        for _ in 1..count {
            if matches!(TokenReader::new(reader.rest()).token(), Ok(Token::Array(_))) {
                // Later literal arguments are appended behind this expression's value.
                let argument = compiler.expression(&mut reader, depth)?;
                tail.push((argument.node, Box::default()));
                continue;
            }
            let argument = reader.element().map_err(text)?;
            match tail.last_mut() {
                None => write_argument(argument, trust, &mut head)?,
                Some((_, after)) => {
                    encoded.extend_from_slice(after);
                    write_argument(argument, trust, &mut encoded)?;
                    *after = std::mem::take(&mut encoded).into();
                }
            }
        }
        Ok(Self {
            head: head.into(),
            tail: tail.into(),
        })
    }
}

/// Copies a list's header and the operation number it begins with.
fn begin(reader: &mut TokenReader<'_>, out: &mut Vec<u8>) -> Result<(u32, i64), ExpressionRefusal> {
    let count = match reader.token().map_err(text)? {
        Token::Array(count) if count > 0 => count,
        _ => return refuse("an operation and its arguments must be a list"),
    };
    write_array_header(out, count);
    match reader.token().map_err(text)? {
        Token::Int(operation) => {
            write_int(out, operation);
            Ok((count, operation))
        }
        _ => refuse("the number of an operation is not an integer"),
    }
}

/// Copies a literal argument.
fn write_argument(
    argument: &[u8],
    trust: Trust,
    out: &mut Vec<u8>,
) -> Result<(), ExpressionRefusal> {
    match trust {
        Trust::Foreign => out.extend_from_slice(argument),
        Trust::Normal => normalize_element(argument, EncodePurpose::Lookup, out).map_err(text)?,
    }
    Ok(())
}

fn text(error: CodecError) -> ExpressionRefusal {
    error.to_string().into()
}

/// Executes a call on a value. Returns `None`, the unknown
/// value, also if the call fails or does not apply.
pub(super) fn execute<'a>(
    node: &CallNode,
    call: Cow<'a, [u8]>,
    on: ExpValue<'a>,
    budget: &Budget,
) -> Option<ExpValue<'a>> {
    if let Some(selection) = &node.selection {
        let ExpValue::Bytes(kind, bytes) = &on else {
            return None;
        };
        return match select((kind.particle(), bytes), selection, budget).ok()? {
            PathSelection::Reply(reply) => ExpValue::of_reply(reply),
            PathSelection::Applied(kind, bytes) => ExpValue::of_stored(kind, Cow::Owned(bytes)),
        };
    }
    if node.modifies {
        return modify(node, &call, on);
    }
    let ExpValue::Bytes(kind, bytes) = on else {
        return None;
    };
    let kind = kind.particle();
    match (call, bytes) {
        (Cow::Borrowed(call), Cow::Borrowed(bytes)) => read(node, call, (kind, bytes)),
        (call, bytes) => read(node, &call, (kind, &bytes)).map(ExpValue::into_owned),
    }
}

fn read<'a>(
    node: &CallNode,
    call: &'a [u8],
    current: (ParticleType, &'a [u8]),
) -> Option<ExpValue<'a>> {
    let payload = Payload::parse(call, node.trust).ok()?;
    ExpValue::of_reply(executor::read(node.system, payload, current).ok()?)
}

/// Returns the value that a modifying call turns `on` into.
fn modify<'a>(node: &CallNode, call: &[u8], on: ExpValue<'a>) -> Option<ExpValue<'a>> {
    let current = match &on {
        ExpValue::Nil => None,
        ExpValue::Bytes(kind, bytes) => Some((kind.particle(), &**bytes)),
        _ => return None,
    };
    let payload = Payload::parse(call, node.trust).ok()?;
    let written = match executor::modify(node.system, payload, current).ok()?.0 {
        CallChange::None => None,
        CallChange::Edited(edit) => Some((edit.kind(), edit.to_bytes())),
        CallChange::Value(kind, bytes) => Some((kind, bytes)),
    };
    match written {
        Some((kind, bytes)) => ExpValue::of_stored(kind, Cow::Owned(bytes)),
        None => Some(on),
    }
}
