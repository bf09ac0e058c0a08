//! JSON with a version of its form.

use serde::Serialize;

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
