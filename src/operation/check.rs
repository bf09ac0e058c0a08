//! The checks made before the record is looked up, and the entry points of execution.

use bitflags::bitflags;

use super::action::{Operation, OperationAction};
use crate::expression::RecordFacts;
use crate::{Error, Result};

/// The most operations in one transaction: Aerospike's limit.
pub const MAX_OPERATIONS: usize = 32_768;

bitflags! {
    /// How operations are to be executed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Mode: u8 {
        /// The old bins are dropped first; operations that need them are refused.
        const REPLACE = 1;
        /// Every operation but a touch has a result; nil where there is no other.
        const RESPOND_ALL = 2;
    }
}

impl Mode {
    /// The mode of a write, which `replaces` the old bins or not.
    pub(crate) const fn of(replaces: bool) -> Self {
        if replaces {
            Self::REPLACE
        } else {
            Self::empty()
        }
    }
}

/// Operations that may be executed together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked<'o> {
    pub(super) operations: &'o [Operation],
    pub(super) mode: Mode,
    /// What expressions see of the record besides its bins.
    pub(super) facts: Option<&'o RecordFacts<'o>>,
    is_write: bool,
    must_exist: bool,
    evaluates: bool,
}

impl<'o> Checked<'o> {
    /// Checks operations by what needs no record: semantics.md#replacing-a-record and
    /// semantics.md#several-operations-together. O(operations).
    pub(crate) fn new(operations: &'o [Operation], mode: Mode) -> Result<Self> {
        if operations.is_empty() {
            return Err(Error::parameter("no operations: give at least one"));
        }
        if operations.len() > MAX_OPERATIONS {
            return Err(Error::parameter(format!(
                "{} operations, the limit is {MAX_OPERATIONS}: split them",
                operations.len()
            )));
        }
        let mut checked = Self {
            operations,
            mode,
            facts: None,
            is_write: false,
            must_exist: false,
            evaluates: false,
        };
        let (mut read_alls, mut has_result) = (0_u32, mode.contains(Mode::RESPOND_ALL));
        for operation in operations {
            operation.bin()?;
            if mode.contains(Mode::REPLACE) && operation.needs_old_bins() {
                return Err(Error::parameter(
                    "an operation that needs the old bins cannot be combined with replacing the record: write values, or update",
                ));
            }
            checked.is_write |= operation.is_write();
            has_result |= operation.has_result();
            match &operation.action {
                OperationAction::ReadAll => read_alls += 1,
                OperationAction::Touch => checked.must_exist = true,
                OperationAction::Evaluate { .. } => checked.evaluates = true,
                _ => {}
            }
        }
        // Reading all bins excludes other operations with a result.
        if read_alls > 1 || read_alls == 1 && has_result {
            return Err(Error::parameter(
                "reading all bins cannot be combined with other operations that return something: read them by name",
            ));
        }
        Ok(checked)
    }

    /// Lets expressions see these facts besides the bins; in writing operations, the facts after
    /// the write. Without this call, all metadata is unknown to them.
    pub(crate) const fn seeing<'s>(self, facts: &'s RecordFacts<'s>) -> Checked<'s>
    where
        'o: 's,
    {
        Checked {
            facts: Some(facts),
            ..self
        }
    }

    /// True if any of the operations changes the record.
    pub(crate) const fn is_write(&self) -> bool {
        self.is_write
    }

    /// True if any of the operations is an expression, which may ask for more of the record than
    /// its bins.
    pub(crate) const fn evaluates(&self) -> bool {
        self.evaluates
    }

    /// True if the operations delete the record, and do nothing else.
    pub(crate) fn only_deletes(&self) -> bool {
        self.operations.iter().all(Operation::deletes_record)
    }

    /// True if the record must exist under every policy: a touch never creates it.
    pub(crate) const fn must_exist(&self) -> bool {
        self.must_exist
    }
}
