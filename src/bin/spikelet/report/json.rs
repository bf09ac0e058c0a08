//! JSON with a version of its form, and the figures of rows in it.

use serde::Serialize;
use serde_json::Value;

/// A report's object, with the version of its form and its kind before it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Versioned<'a, T> {
    /// Grows when a field changes its meaning or goes; new fields, and new words in a field, leave
    /// it as it is (`docs/sizing.md#json`).
    pub(crate) schema_version: u32,
    /// Which report this is, such as `sizing`.
    pub(crate) report: &'a str,
    /// The report's own fields, beside these.
    #[serde(flatten)]
    pub(crate) body: T,
}

/// Writes one JSON object, indented, with a line feed at its end.
///
/// # Errors
/// If `body` does not serialise to an object.
pub(crate) fn to_json<T: Serialize>(
    schema_version: u32,
    report: &str,
    body: &T,
) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(&Versioned {
        schema_version,
        report,
        body,
    })?;
    text.push('\n');
    Ok(text)
}

/// Returns the JSON forms of rows.
pub(super) fn rows_of<R: Serialize>(
    rows: impl IntoIterator<Item = R>,
) -> impl Iterator<Item = Value> {
    let form = |row| serde_json::to_value(row).unwrap_or_default();
    rows.into_iter().map(form)
}

/// Returns the figure at a path (`bytes/p99`) of a row; in an array, by its number, or in the first
/// part that has it. Null where a part of the path is null.
pub(super) fn figure<'r>(row: &'r Value, path: &str) -> Option<&'r Value> {
    path.split('/').try_fold(row, |at, name| match at {
        Value::Null => Some(at),
        Value::Array(parts) => match name.parse::<usize>() {
            Ok(place) => parts.get(place),
            Err(_) => parts.iter().find_map(|part| part.get(name)),
        },
        object => object.get(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_version_comes_first_and_the_fields_beside_it() {
        let text = to_json(3, "sizing", &BTreeMap::from([("rows", [1, 2])])).unwrap();
        assert_eq!(
            text,
            "{\n  \"schema_version\": 3,\n  \"report\": \"sizing\",\n  \"rows\": [\n    1,\n    2\n  ]\n}\n"
        );
        assert!(to_json(1, "sizing", &7).is_err());
    }
}
