//! A small map from bin names to values.

use std::fmt;

use smallvec::SmallVec;

use super::BinName;
use super::body::{checked_bin_count, write_bin, write_varint};
use crate::value::Value;
use crate::{Error, Result};

/// Bins with values of different types, as [`Set::put`](crate::Set::put) takes them: an array of
/// pairs.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::{Bins, bins};
///
/// let users = spikelet::Store::in_memory()?.set("users")?;
/// users.put("alice", bins! { "name" => "Alice", "age" => 42, "tags" => ["admin", "staff"] })?;
/// // The same as `Bins`, with checked names.
/// let bins = Bins::try_from(bins! { "name" => "Alice", "age" => 42 })?;
/// assert_eq!(bins.len(), 2);
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! bins {
    () => {
        [] as [(&str, $crate::Value); 0]
    };
    ($($name:expr => $value:expr),+ $(,)?) => {
        [$(($name, $crate::Value::from($value))),+]
    };
}

/// The bins of a record, owned, in the order of their creation. Made for the few bins that records
/// have: every look-up goes through the names one by one.
///
/// Removing a bin moves the last one into its place, as in Aerospike. A bin set to [`Value::Nil`]
/// is removed when the bins are written.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::{Bins, bins};
///
/// let mut alice = Bins::try_from(bins! { "name" => "Alice", "age" => 41 })?;
/// alice.set("age", 42)?;
/// assert_eq!(alice.get("age"), Some(&42.into()));
/// assert_eq!(alice.iter().count(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bins {
    /// One bin, the most common put, takes no allocation.
    entries: SmallVec<[(BinName, Value); 1]>,
}

impl Bins {
    /// Begins without bins.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: SmallVec::new_const(),
        }
    }

    /// Makes room for this many bins.
    #[inline]
    pub(crate) fn reserve(&mut self, bins: usize) {
        self.entries.reserve_exact(bins);
    }

    /// Sets a bin; a new one goes to the end.
    ///
    /// # Errors
    /// [`Error::BinName`] if the name is not allowed.
    #[inline]
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> Result<()> {
        self.insert(BinName::new(name)?, value.into());
        Ok(())
    }

    /// Sets a bin; a new one goes to the end. Returns the value that it had.
    #[inline]
    pub fn insert(&mut self, name: BinName, value: Value) -> Option<Value> {
        match self.entries.iter_mut().find(|(bin, _)| *bin == name) {
            Some((_, slot)) => Some(std::mem::replace(slot, value)),
            None => {
                self.entries.push((name, value));
                None
            }
        }
    }

    /// Adds a bin with a name that is known to be new.
    pub(super) fn push_new(&mut self, name: BinName, value: Value) {
        self.entries.push((name, value));
    }

    /// The value of a bin.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.entries
            .iter()
            .find_map(|(bin, value)| (*bin == *name).then_some(value))
    }

    /// The value of a bin, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.entries
            .iter_mut()
            .find_map(|(bin, value)| (*bin == *name).then_some(value))
    }

    /// Removes a bin and returns its value. The last bin takes its place.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let position = self.entries.iter().position(|(bin, _)| *bin == *name)?;
        Some(self.entries.swap_remove(position).1)
    }

    /// How many bins there are, those set to nil included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The only bin there is, if it is the only one.
    pub(crate) fn only(&self) -> Option<(&BinName, &Value)> {
        match self.entries.as_slice() {
            [(name, value)] => Some((name, value)),
            _ => None,
        }
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&BinName, &Value)> {
        self.entries.iter().map(|(name, value)| (name, value))
    }

    /// The bins as entries of a map, by their names.
    pub(crate) fn to_map(&self) -> Value {
        let entry = |(name, value): &(BinName, Value)| (name.as_str().into(), value.clone());
        Value::Map(self.entries.iter().map(entry).collect::<Vec<_>>().into())
    }

    /// The bins that are the entries of a map. They keep their types, as no form of `serde` does.
    ///
    /// # Errors
    /// [`Error::Serde`] for another value; [`Error::BinName`].
    pub(crate) fn of_map(value: Value) -> Result<Self> {
        let Value::Map(map) = value else {
            return Err(Error::serde(format!("{value} is no map of bins")));
        };
        let bin = |(name, value): (Value, Value)| match name {
            Value::String(name) => Ok((BinName::new(&name)?, value)),
            other => Err(Error::serde(format!("{other} is no name of a bin"))),
        };
        map.into_entries().into_iter().map(bin).collect()
    }

    /// Writes the body of a record of exactly these bins to the end of `out`, without those set to
    /// nil, and returns how many bins it has. O(bytes).
    ///
    /// # Errors
    /// [`Error::NotStorable`] if a value cannot be stored, [`Error::Parameter`] if there are too
    /// many bins.
    pub fn write_body(&self, out: &mut Vec<u8>) -> Result<usize> {
        let written = || {
            self.entries
                .iter()
                .filter(|(_, value)| !matches!(value, Value::Nil))
        };
        let count = checked_bin_count(written().count())?;
        write_varint(out, count);
        for (name, value) in written() {
            write_bin(out, name, value).map_err(Error::not_storable)?;
        }
        Ok(count as usize)
    }
}

impl fmt::Debug for Bins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl IntoIterator for Bins {
    type Item = (BinName, Value);
    type IntoIter = std::vec::IntoIter<(BinName, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_vec().into_iter()
    }
}

/// Names are checked: [`Error::BinName`] for one that is not allowed. A name that comes twice takes
/// its last value.
impl<N: AsRef<str>, V: Into<Value>, const COUNT: usize> TryFrom<[(N, V); COUNT]> for Bins {
    type Error = Error;

    fn try_from(bins: [(N, V); COUNT]) -> Result<Self> {
        let mut all = Self::new();
        all.reserve(COUNT);
        for (name, value) in bins {
            all.set(name.as_ref(), value)?;
        }
        Ok(all)
    }
}

impl FromIterator<(BinName, Value)> for Bins {
    fn from_iter<I: IntoIterator<Item = (BinName, Value)>>(bins: I) -> Self {
        let mut all = Self::new();
        for (name, value) in bins {
            all.insert(name, value);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_a_bin_moves_the_last_one_into_its_place() {
        let mut bins = Bins::new();
        for (name, value) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
            bins.set(name, value).unwrap();
        }
        assert_eq!(bins.remove("b"), Some(2.into()));
        assert_eq!(bins.remove("b"), None);
        let names: Vec<&str> = bins.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "d", "c"]);
    }

    #[test]
    fn bins_set_to_nil_are_not_written() {
        let bins = Bins::try_from([("a", Value::Nil), ("b", 1.into())]).unwrap();
        let mut out = Vec::new();
        assert_eq!(bins.write_body(&mut out).unwrap(), 1);
        assert_eq!(out, [1, 1, b'b', 1, 1, 1]);
    }

    #[test]
    fn a_record_has_at_most_32767_bins() {
        let many = |count: usize| Bins {
            entries: (0..count)
                .map(|i| (BinName::new(&i.to_string()).unwrap(), Value::Int(0)))
                .collect(),
        };
        assert_eq!(many(32_767).write_body(&mut Vec::new()).unwrap(), 32_767);
        assert_eq!(
            many(32_768)
                .write_body(&mut Vec::new())
                .unwrap_err()
                .result_code(),
            4
        );
    }
}
