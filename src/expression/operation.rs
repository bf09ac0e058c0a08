//! Expressions as operations: one that reads, one that writes a bin.

use std::borrow::Cow;

use bitflags::bitflags;

use super::Expression;
use super::scope::Scope;
use super::value::ExpValue;
use crate::call::{CallError, CallReply};
use crate::cdt::with_index;
use crate::value::{ParticleType, from_wire};

bitflags! {
    /// What an operation that reads an expression passes over.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ExpReadFlags: u32 {
        /// An unknown value is nil instead of an error.
        const EVAL_NO_FAIL = 16;
    }
}

bitflags! {
    /// Conditions under which an operation refuses to write the value of an expression, and the
    /// reaction.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ExpWriteFlags: u32 {
        /// Refuse a bin that exists.
        const CREATE_ONLY = 1;
        /// Refuse a bin that does not exist.
        const UPDATE_ONLY = 2;
        /// Nil removes the bin. Without it, nil is an error if no flag is set, and changes nothing
        /// else.
        const ALLOW_DELETE = 4;
        /// A refused write leaves the bin unchanged instead of failing.
        const POLICY_NO_FAIL = 8;
        /// An unknown value leaves the bin unchanged instead of failing.
        const EVAL_NO_FAIL = 16;
    }
}

/// An expression with the flags for the use of its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Evaluation {
    pub(super) expression: Expression,
    pub(super) flags: u64,
}

/// What becomes of the bin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EvaluatedWrite<'a> {
    Same,
    Removed,
    Value(ParticleType, Cow<'a, [u8]>),
}

const UNKNOWN: CallError = CallError::NotApplicable(
    "the expression has no value for this record; EVAL_NO_FAIL passes over that",
);

impl Evaluation {
    pub(crate) const fn new(expression: Expression, flags: u32) -> Self {
        Self {
            expression,
            flags: flags as u64,
        }
    }

    /// The encoded expression and its flags.
    #[cfg(feature = "cluster")]
    pub(crate) fn parts(&self) -> crate::Result<(&[u8], u64)> {
        Ok((self.expression.encoded_bytes()?, self.flags))
    }

    /// The value.
    pub(crate) fn read<'a>(&'a self, scope: Scope<'a>) -> Result<CallReply<'a>, CallError> {
        self.check_flags(ExpReadFlags::all().bits())?;
        match self.evaluate(scope)? {
            Some(value) => Ok(value.into_reply()),
            None if self.has(ExpWriteFlags::EVAL_NO_FAIL) => Ok(CallReply::Nil),
            None => Err(UNKNOWN),
        }
    }

    /// Computes the new state of a bin; `exists` says whether it has one now. The flags judge the
    /// bin before the expression runs, so a refused bin costs no evaluation.
    pub(crate) fn write<'a>(
        &'a self,
        exists: bool,
        scope: Scope<'a>,
    ) -> Result<EvaluatedWrite<'a>, CallError> {
        self.check_flags(ExpWriteFlags::all().bits())?;
        let program = self.expression.checked()?;
        let refused = if exists && self.has(ExpWriteFlags::CREATE_ONLY) {
            Some(CallError::BinExists)
        } else if !exists && self.has(ExpWriteFlags::UPDATE_ONLY) {
            Some(CallError::BinNotFound)
        } else {
            None
        };
        match refused {
            Some(_) if self.has(ExpWriteFlags::POLICY_NO_FAIL) => return Ok(EvaluatedWrite::Same),
            Some(error) => return Err(error),
            None => {}
        }
        let value = match self.evaluate(scope)? {
            Some(ExpValue::Nil) => return self.write_nil(exists),
            Some(value) => value,
            None if self.has(ExpWriteFlags::EVAL_NO_FAIL) => return Ok(EvaluatedWrite::Same),
            None => return Err(UNKNOWN),
        };
        let stored = value.into_reply().into_stored();
        let (kind, bytes) = stored.map_err(CallError::Argument)?;
        // A map that a call built may be in selection order rather than key order.
        let as_it_came = program.is_unfit_to_store || matches!(bytes, Cow::Owned(_));
        if as_it_came && matches!(kind, ParticleType::List | ParticleType::Map) {
            let mut normal = Vec::with_capacity(bytes.len());
            from_wire(kind, &bytes, &mut normal).map_err(CallError::Argument)?;
            let normal = with_index(kind, normal)?;
            return Ok(EvaluatedWrite::Value(kind, Cow::Owned(normal)));
        }
        Ok(EvaluatedWrite::Value(kind, bytes))
    }

    /// A missing bin stays missing. One that exists goes with `ALLOW_DELETE`, and stays with any
    /// other flag.
    fn write_nil<'a>(&self, exists: bool) -> Result<EvaluatedWrite<'a>, CallError> {
        if !exists {
            Ok(EvaluatedWrite::Same)
        } else if self.has(ExpWriteFlags::ALLOW_DELETE) {
            Ok(EvaluatedWrite::Removed)
        } else if self.flags != 0 {
            Ok(EvaluatedWrite::Same)
        } else {
            Err(CallError::NotApplicable(
                "the expression is nil; ALLOW_DELETE removes the bin then",
            ))
        }
    }

    /// Evaluates the expression; `None` if it is unknown or the removal marker.
    fn evaluate<'a>(&'a self, scope: Scope<'a>) -> Result<Option<ExpValue<'a>>, CallError> {
        let value = self.expression.checked()?.evaluate(scope);
        Ok(value.filter(|value| *value != ExpValue::Remove))
    }

    const fn has(&self, flag: ExpWriteFlags) -> bool {
        self.flags & flag.bits() as u64 != 0
    }

    fn check_flags(&self, allowed: u32) -> Result<(), CallError> {
        match self.flags & !u64::from(allowed) {
            0 => Ok(()),
            unknown => Err(CallError::parameter(format!(
                "flags {unknown:#x} are not for this operation on an expression"
            ))),
        }
    }
}
