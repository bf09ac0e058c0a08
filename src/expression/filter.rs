//! Filters: whether a record passes an expression, asking the record's metadata first and its bins only if need be.

use super::Expression;
use super::node::Program;
use super::scope::{BinSource, RecordFacts, Scope};
use super::types::ExpType;
use super::value::ExpValue;
use crate::error::with_article;
use crate::{Error, Result};

/// What the metadata alone say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passes,
    Fails,
    /// The bins decide.
    NeedsBins,
}

/// An expression whose value is a truth value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter<'e> {
    program: &'e Program,
}

impl Expression {
    /// The expression as a filter. O(1) from the second call on.
    ///
    /// # Errors
    /// [`Error::Parameter`] if it is malformed, or its value is no truth value.
    pub(crate) fn filter(&self) -> Result<Filter<'_>> {
        let program = self.program()?;
        match program.kind {
            None | Some(ExpType::Bool) => Ok(Filter { program }),
            Some(other) => Err(Error::parameter(format!(
                "expression: a filter must be true or false, this is {}",
                with_article(other.name())
            ))),
        }
    }
}

impl Filter<'_> {
    /// What can be said without the bins.
    pub(crate) fn judge(&self, facts: &RecordFacts<'_>) -> Verdict {
        if !self.program.reads_facts && self.program.reads_bins {
            return Verdict::NeedsBins;
        }
        let scope = Scope {
            facts: Some(facts),
            bins: None,
        };
        match self.program.evaluate(scope) {
            Some(ExpValue::Bool(true)) => Verdict::Passes,
            Some(ExpValue::Bool(false)) => Verdict::Fails,
            _ if self.program.reads_bins => Verdict::NeedsBins,
            _ => Verdict::Fails,
        }
    }

    /// Whether a record passes. What is unknown does not. `bins` is asked only if the metadata alone do not decide.
    ///
    /// # Errors
    /// Those of `bins`.
    pub(crate) fn passes<B: BinSource>(
        &self,
        facts: &RecordFacts<'_>,
        bins: impl FnOnce() -> Result<B>,
    ) -> Result<bool> {
        match self.judge(facts) {
            Verdict::Passes => return Ok(true),
            Verdict::Fails => return Ok(false),
            Verdict::NeedsBins => {}
        }
        let bins = bins()?;
        let scope = Scope {
            facts: Some(facts),
            bins: Some(&bins),
        };
        Ok(self.program.evaluate(scope) == Some(ExpValue::Bool(true)))
    }
}
