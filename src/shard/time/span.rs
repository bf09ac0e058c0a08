//! The form of before there was a directory: all buckets from a first to a last one may be in use.
//!
//! Such a root is read as it is. The first write that adds a bucket enters those that are there into the directory, and
//! removes the span.

use super::calendar::Bucket;
use crate::Result;
use crate::shard::scheme::not_understood;
use crate::value::Value;

/// The first and the last bucket that may have been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Span {
    pub(super) first: Bucket,
    pub(super) last: Bucket,
}

impl Span {
    /// Returns the buckets that are in the span and between two others, all ends included.
    pub(super) fn intersection(self, first: Bucket, last: Bucket) -> Option<Self> {
        let first = self.first.max(first);
        let last = self.last.min(last);
        (first <= last).then_some(Self { first, last })
    }

    /// Returns the value of the bin `subkeys_span`.
    pub(super) fn value(self) -> Value {
        Value::List(vec![Value::Int(self.first.0), Value::Int(self.last.0)].into())
    }

    /// Reads the bin `subkeys_span`.
    ///
    /// # Errors
    /// [`Error::ShardScheme`] for anything but two buckets.
    pub(super) fn parse(value: &Value) -> Result<Self> {
        if let Value::List(items) = value
            && let [Value::Int(first), Value::Int(last)] = items[..]
            && first <= last
        {
            return Ok(Self {
                first: Bucket(first),
                last: Bucket(last),
            });
        }
        Err(not_understood(
            Some(value),
            "the bin subkeys_span does not hold a first and a last bucket",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_span_is_read_back_and_intersected() {
        let span = |first, last| Span {
            first: Bucket(first),
            last: Bucket(last),
        };
        assert_eq!(Span::parse(&span(10, 30).value()).unwrap(), span(10, 30));
        let intersection = |first, last| span(10, 30).intersection(Bucket(first), Bucket(last));
        assert_eq!(intersection(15, 40), Some(span(15, 30)));
        assert_eq!(intersection(31, 40), None);
        for wrong in [
            span(2, 1).value(),
            Value::Int(1),
            Value::List(vec![].into()),
        ] {
            assert!(matches!(
                Span::parse(&wrong),
                Err(Error::ShardScheme { .. })
            ));
        }
    }
}
