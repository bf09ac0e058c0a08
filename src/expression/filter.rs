//! Filters: whether a record passes an expression. They test metadata first and read bins only if
//! needed.

use super::Expression;
use super::node::Program;
use super::scope::{RecordFacts, Scope, StoredBins};
use super::types::ExpType;
use crate::error::with_article;
use crate::{Error, Result};

/// The result of a filter on metadata alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterVerdict {
    Passes,
    Fails,
    /// Metadata leave the result open; the bins decide.
    NeedsBins,
}

/// An expression of type boolean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter<'e> {
    program: &'e Program,
}

impl Expression {
    /// Returns the expression as a filter. O(1) from the second call on.
    ///
    /// # Errors
    /// [`Error::Parameter`] if it is malformed or its type is not boolean.
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
    /// Evaluates the filter without reading bins.
    pub(crate) fn judge(&self, facts: &RecordFacts<'_>) -> FilterVerdict {
        if !self.program.reads_facts && self.program.reads_bins {
            return FilterVerdict::NeedsBins;
        }
        let scope = Scope {
            facts: Some(facts),
            bins: None,
        };
        match self.program.is_true(scope) {
            Some(true) => FilterVerdict::Passes,
            Some(false) => FilterVerdict::Fails,
            None if self.program.reads_bins => FilterVerdict::NeedsBins,
            None => FilterVerdict::Fails,
        }
    }

    /// Returns whether the filter reads anything besides bins. If not, callers need not supply
    /// facts.
    pub(crate) const fn reads_facts(&self) -> bool {
        self.program.reads_facts
    }

    /// Returns whether a stored record passes. Unknown counts as false. Reads the requested bins
    /// and those in front of them, no others. `facts` may be `None` if the filter reads no facts.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the bytes read are not a valid record body.
    pub(crate) fn passes_stored(
        &self,
        facts: Option<&RecordFacts<'_>>,
        body: &[u8],
    ) -> Result<bool> {
        match facts.map_or(FilterVerdict::NeedsBins, |facts| self.judge(facts)) {
            FilterVerdict::Passes => return Ok(true),
            FilterVerdict::Fails => return Ok(false),
            FilterVerdict::NeedsBins => {}
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
