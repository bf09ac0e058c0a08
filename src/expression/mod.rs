//! Expressions: small programs over a record's metadata and bins, for filters, reads and writes.
//!
//! An expression is held in its encoded form, Aerospike's MessagePack, whether [`expressions`]
//! built it or a client sent it. It is compiled on first use: types are checked, names are
//! resolved, patterns and geometries are parsed. The compiled form runs directly on the record's
//! bytes.
//!
//! 1. `compile` turns bytes into the tree of `node`, or refuses them with a reason (`refusal`);
//!    `types`, `arguments`, `pattern` and `systems` help it.
//! 2. `eval` walks the tree and returns a `value` or unknown; it reads a record through `scope`, and
//!    `budget` bounds its cost.
//! 3. `filter`, `operation` and `executor` serve the layers above; `payload` parses an operation of
//!    a client.
//! 4. `path` selects and edits elements of nested lists and maps that expressions choose.
//!    Expressions hold paths and paths hold expressions: `path` knows these by a trait only.
//!
//! Input is bytes; output is values borrowed from them. May import calls and their executors, but
//! neither operations nor stores.

mod arguments;
mod budget;
mod code;
mod compile;
mod eval;
mod executor;
mod filter;
mod node;
mod numbers;
mod operation;
mod path;
mod pattern;
#[cfg(any(feature = "server", test))]
mod payload;
mod refusal;
mod scope;
mod systems;
#[cfg(test)]
mod tests;
mod types;
mod unordered;
mod value;

pub mod expressions;

use std::fmt;
use std::sync::{Arc, OnceLock};

use self::node::Program;
use self::refusal::ExpressionRefusal;
use crate::call::CallError;
use crate::{Error, Result, base64};

pub use operation::{ExpReadFlags, ExpWriteFlags};
pub use types::ExpType;

pub(crate) use executor::{CallChange, modify as modify_call, read as read_call};
pub(crate) use operation::{EvaluatedWrite, Evaluation};
pub(crate) use scope::{BinSource, RecordFacts, Scope};

/// A program that computes a value from a record, or has none ("unknown"). Built by the functions
/// of [`expressions`].
///
/// Cheap to clone. Checked on first use or by [`Expression::check`]; all clones share the result.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::expressions::{ge, int_bin};
///
/// let users = spikelet::Store::in_memory()?.set("users")?;
/// users.put("alice", [("age", 42)])?;
/// let adults = users.filtered(ge(int_bin("age"), 18))?;
/// assert!(adults.get("alice")?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Expression {
    inner: Arc<ExpressionInner>,
}

struct ExpressionInner {
    /// The encoded form, or the reason that there is none.
    encoded: std::result::Result<Box<[u8]>, ExpressionRefusal>,
    program: OnceLock<std::result::Result<Program, ExpressionRefusal>>,
}

impl Expression {
    /// Reads and checks an expression in Aerospike's encoding. O(bytes).
    ///
    /// # Errors
    /// [`Error::Parameter`] if the bytes are malformed or its types do not fit.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let expression = Self::of_encoded(bytes.into());
        expression.check()?;
        Ok(expression)
    }

    /// Reads an expression from the Base64 form of info commands.
    ///
    /// # Errors
    /// As for [`Expression::from_bytes`], and for text that is not Base64.
    pub fn from_base64(text: &str) -> Result<Self> {
        let bytes = base64::decode(text.as_bytes())
            .ok_or_else(|| Error::parameter("expression: the text is not Base64"))?;
        Self::from_bytes(&bytes)
    }

    /// Returns Aerospike's encoding.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a value in it has no encoding.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(self.encoded().map_err(refused)?.to_vec())
    }

    /// Returns the Base64 form.
    ///
    /// # Errors
    /// As for [`Expression::to_bytes`].
    pub fn to_base64(&self) -> Result<String> {
        Ok(base64::encode(self.encoded().map_err(refused)?))
    }

    /// Checks that the expression can be evaluated. O(bytes) the first time, then O(1).
    ///
    /// # Errors
    /// [`Error::Parameter`], naming the operation with the wrong operands.
    pub fn check(&self) -> Result<()> {
        self.program().map(drop)
    }

    /// Returns the type of its value; `None` if it is always unknown.
    ///
    /// # Errors
    /// As for [`Expression::check`].
    pub fn result_type(&self) -> Result<Option<ExpType>> {
        Ok(self.program()?.kind)
    }

    /// Returns whether its value can change while the record does not: it reads the time to live,
    /// the time since the last update, or a size.
    ///
    /// # Errors
    /// As for [`Expression::check`].
    pub(crate) fn is_volatile(&self) -> Result<bool> {
        Ok(self.program()?.is_volatile)
    }

    /// Wraps encoded bytes; they are checked on first use.
    pub(crate) fn of_encoded(bytes: Box<[u8]>) -> Self {
        Self::of(Ok(bytes))
    }

    fn of(encoded: std::result::Result<Box<[u8]>, ExpressionRefusal>) -> Self {
        Self {
            inner: Arc::new(ExpressionInner {
                encoded,
                program: OnceLock::new(),
            }),
        }
    }

    /// Returns the encoded form, borrowed.
    #[cfg(feature = "cluster")]
    pub(crate) fn encoded_bytes(&self) -> Result<&[u8]> {
        self.encoded().map_err(refused)
    }

    fn encoded(&self) -> std::result::Result<&[u8], &str> {
        match &self.inner.encoded {
            Ok(bytes) => Ok(bytes),
            Err(why) => Err(why),
        }
    }

    fn compiled(&self) -> std::result::Result<&Program, &str> {
        let compiled = self.inner.program.get_or_init(|| match self.encoded() {
            Ok(bytes) => compile::compile(bytes),
            Err(why) => Err(why.into()),
        });
        match compiled {
            Ok(program) => Ok(program),
            Err(why) => Err(why),
        }
    }

    /// Returns the compiled form, or the error of the public API.
    fn program(&self) -> Result<&Program> {
        self.compiled().map_err(refused)
    }

    /// Returns the compiled form, or the error of an operation on a bin.
    fn checked(&self) -> std::result::Result<&Program, CallError> {
        self.compiled()
            .map_err(|why| CallError::parameter(format!("expression: {why}")))
    }
}

fn refused(why: &str) -> Error {
    Error::parameter(format!("expression: {why}"))
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.encoded() == other.encoded()
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.encoded() {
            Ok(bytes) => write!(f, "Expression({})", base64::encode(bytes)),
            Err(why) => write!(f, "Expression({why})"),
        }
    }
}
