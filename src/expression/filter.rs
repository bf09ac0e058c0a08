//! Filters: whether a record passes an expression, asking the record's metadata first and its bins only if need be.

use super::Expression;
use super::node::Program;
use super::scope::{RecordFacts, Scope, StoredBins};
use super::types::ExpType;
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
        match self.program.is_true(scope) {
            Some(true) => Verdict::Passes,
            Some(false) => Verdict::Fails,
            None if self.program.reads_bins => Verdict::NeedsBins,
            None => Verdict::Fails,
        }
    }

    /// Whether it reads anything of a record besides its bins. If not, it needs no facts.
    pub(crate) const fn reads_facts(&self) -> bool {
        self.program.reads_facts
    }

    /// Whether a stored record passes. What is unknown does not. Only the bins that are asked for are looked at, and those
    /// before them. `facts` may be missing where the filter reads none.
    ///
    /// # Errors
    /// [`Error::Malformed`] if what is looked at is not the body of a record.
    pub(crate) fn passes_stored(
        &self,
        facts: Option<&RecordFacts<'_>>,
        body: &[u8],
    ) -> Result<bool> {
        match facts.map_or(Verdict::NeedsBins, |facts| self.judge(facts)) {
            Verdict::Passes => return Ok(true),
            Verdict::Fails => return Ok(false),
            Verdict::NeedsBins => {}
        }
        let bins = StoredBins::new(body);
        let scope = Scope {
            facts,
            bins: Some(&bins),
        };
        let passes = self.program.is_true(scope) == Some(true);
        bins.checked(passes)
    }
}
