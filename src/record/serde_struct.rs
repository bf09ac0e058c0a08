//! `serde`: a struct's fields are bins.
//!
//! Both ways go through the named form of MessagePack that `rmp-serde` writes. `None` and `()`
//! become nil, and so remove the bin; a missing bin reads as `None`.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Bins;
use crate::value::MAX_NESTING;
use crate::{Error, Result};

/// More levels than a record can have, and few enough for the stack of a thread.
const LEVELS_MAX: usize = 2 * MAX_NESTING as usize;

/// The bins of a struct, or of a map with text keys: one bin a field. O(bytes). An `i128` or `u128`
/// is a blob of 16 bytes, from which [`from_bins`] makes the number again: no comparison takes it
/// for one.
///
/// # Errors
/// [`Error::Serde`] if `value` is neither, a field's name is no bin name, or a number of at most 64
/// bits does not fit 64 signed ones.
pub fn to_bins<T: Serialize + ?Sized>(value: &T) -> Result<Bins> {
    converted(value)
}

/// A struct, or a map with text keys, of bins. O(bytes).
///
/// # Errors
/// [`Error::Serde`] if the bins do not fit the type.
pub fn from_bins<T: DeserializeOwned>(bins: &Bins) -> Result<T> {
    converted(bins)
}

/// The same between any two types of one form.
///
/// # Errors
/// [`Error::Serde`] if they are of two forms.
pub(crate) fn converted<S: Serialize + ?Sized, T: DeserializeOwned>(from: &S) -> Result<T> {
    let bytes = rmp_serde::to_vec_named(from).map_err(Error::serde)?;
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(&bytes);
    deserializer.set_max_depth(LEVELS_MAX);
    T::deserialize(&mut deserializer).map_err(Error::serde)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordView;
    use crate::value::Value;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Level {
        Free,
        Paid { cents: u32 },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct User {
        name: String,
        age: u8,
        score: f32,
        nickname: Option<String>,
        tags: Vec<String>,
        seen: BTreeMap<i64, bool>,
        level: Level,
        other: Level,
    }

    fn user() -> User {
        User {
            name: "Ada".into(),
            age: 36,
            score: 1.5,
            nickname: None,
            tags: vec!["x".into(), "y".into()],
            seen: BTreeMap::from([(-1, true), (2, false)]),
            level: Level::Free,
            other: Level::Paid { cents: 5 },
        }
    }

    #[test]
    fn a_struct_becomes_bins_and_comes_back() {
        let bins = to_bins(&user()).unwrap();
        assert_eq!(bins.get("age"), Some(&Value::Int(36)));
        assert_eq!(bins.get("nickname"), Some(&Value::Nil));
        assert_eq!(from_bins::<User>(&bins).unwrap(), user());
    }

    #[test]
    fn a_struct_comes_back_from_a_stored_record() {
        let mut body = Vec::new();
        to_bins(&user()).unwrap().write_body(&mut body).unwrap();
        let view = RecordView::parse(&body).unwrap();
        assert_eq!(view.bin("nickname"), None);
        assert_eq!(view.decode::<User>().unwrap(), user());
    }

    #[test]
    fn what_is_not_a_struct_of_bins_is_a_typed_error() {
        let table = [
            to_bins(&7),
            to_bins("text"),
            to_bins(&vec![1, 2]),
            to_bins(&BTreeMap::from([(1, 2)])),
            to_bins(&BTreeMap::from([("a name of sixteen", 2)])),
            to_bins(&BTreeMap::from([("a", u64::MAX)])),
        ];
        for result in table {
            assert!(matches!(result.unwrap_err(), Error::Serde(_)));
        }
        let nested = (0..1_000).fold(Value::Int(1), |inner, _| Value::List(vec![inner].into()));
        let too_deep = to_bins(&BTreeMap::from([("a", nested)]));
        assert!(matches!(too_deep.unwrap_err(), Error::Serde(_)));
        let bins = Bins::try_from([("name", 5)]).unwrap();
        assert!(matches!(
            from_bins::<User>(&bins).unwrap_err(),
            Error::Serde(_)
        ));
    }
}
