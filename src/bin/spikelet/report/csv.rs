//! Rows as comma-separated values, from their JSON form.

use serde::Serialize;
use serde_json::Value;

use super::json::{figure, rows_of};

/// Writes rows, after a heading. A column is a path into the JSON form of a row (`bytes/p99`), named
/// by it (`bytes_p99`) or by a name before it (`large=shares/2`); spaces separate columns. An object with numbers is their sum, a
/// missing value or null is empty. Values are quoted where they need it (RFC 4180).
pub(crate) fn csv<R: Serialize>(rows: impl IntoIterator<Item = R>, columns: &str) -> String {
    let columns = || {
        let columns = columns.split_whitespace();
        columns.map(|column| column.split_once('=').unwrap_or((column, column)))
    };
    let mut text = line(columns().map(|(name, _)| name.replace('/', "_")));
    for row in rows_of(rows) {
        text += &line(columns().map(|(_, path)| cell(figure(&row, path))));
    }
    text
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::Object(parts)) => {
            let numbers = parts.values().filter_map(Value::as_u64);
            numbers.sum::<u64>().to_string()
        }
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) if number.is_f64() => {
            number.as_f64().unwrap_or_default().to_string()
        }
        Some(value) => value.to_string(),
    }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = |cell: String| {
        if cell.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell
        }
    };
    cells.map(quoted).collect::<Vec<_>>().join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_break_a_line_is_quoted_and_what_is_missing_is_empty() {
        let rows = [
            serde_json::json!({"name": "a \"b\", c", "bytes": {"p99": 2048}, "errors": {"9": 2, "14": 3}}),
            serde_json::json!({"name": "d\ne", "bytes": null, "errors": {}}),
        ];
        assert_eq!(
            csv(&rows, "who=name bytes/p99 errors"),
            "who,bytes_p99,errors\r\n\"a \"\"b\"\", c\",2048,5\r\n\"d\ne\",,0\r\n"
        );
    }
}
