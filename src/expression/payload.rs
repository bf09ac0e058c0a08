//! The form in which clients send an expression as an operation.

use super::Expression;
use super::operation::Evaluation;
use crate::call::CallError;
use crate::value::msgpack::{Token, TokenReader};

impl Evaluation {
    /// Parses the form in which clients send the operation: `[expression (, flags)]`.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, CallError> {
        let mut reader = TokenReader::new(payload);
        let count = match reader.token().map_err(CallError::Argument)? {
            Token::Array(count @ 1..=2) => count,
            _ => {
                return Err(CallError::parameter(
                    "an expression and its flags must be a list of one or two elements",
                ));
            }
        };
        let expression = reader.element().map_err(CallError::Argument)?;
        let flags = match count {
            1 => 0,
            _ => match reader.token().map_err(CallError::Argument)? {
                Token::Int(flags) => flags.cast_unsigned(),
                _ => {
                    return Err(CallError::parameter(
                        "the flags of an expression are no number",
                    ));
                }
            },
        };
        reader.end().map_err(CallError::Argument)?;
        Ok(Self {
            expression: Expression::of_encoded(expression.into()),
            flags,
        })
    }
}
