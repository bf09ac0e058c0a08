//! Tables: cells with a shown text and a plain value.

use serde::Serialize;
use serde_json::Value;

use super::number::{bytes, count, date, decimal, exact, micros, millis_decimals, percent};

/// The side of its column on which a cell is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its heading.
    pub(crate) name: String,
    /// The side of its cells.
    pub(crate) align: Align,
}

/// A cell. Equal cells show the same and mean the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    /// What JSON and CSV say, where that differs from the text.
    value: Option<String>,
}

impl Cell {
    /// Shows words.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            value: None,
        }
    }

    /// Shows a figure of a row: words as they are, several of them in a list, of an object the sum
    /// of its counts, and a number in this form: grouped by thousands, or `#` as it is; `B` as a
    /// size in bytes; `.2` with decimals, `/s` with one below 1,000; `%1` as a share with decimals;
    /// microseconds as `ms`, or as `us` in the unit that fits; `date` for milliseconds since 2010.
    /// A dash if it is not known.
    fn of(figure: &Value, form: &str) -> Self {
        let (number, whole) = (figure.as_f64(), figure.as_u64());
        let decimals = form.get(1..).and_then(|digits| digits.parse().ok());
        let decimals = decimals.unwrap_or(0);
        let text = match (figure, form) {
            (Value::String(text), _) => return Self::text(text),
            (Value::Array(words), _) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                return Self::text(words.join(", "));
            }
            (Value::Object(parts), _) => {
                let counts = parts.values().filter_map(Value::as_u64);
                return Self::count(counts.sum());
            }
            (Value::Bool(_), _) | (Value::Number(_), "#") => return Self::text(figure.to_string()),
            (_, "B") => whole.map(bytes),
            (_, "date") => whole.map(date),
            (_, "") if whole.is_some() => whole.map(count),
            _ => number.map(|number| match form {
                "" => exact(number),
                "/s" => decimal(number, usize::from(number < 1_000.0)),
                "ms" => decimal(number / 1e3, millis_decimals(number)),
                "us" => micros(number),
                _ if form.starts_with('%') => percent(number, decimals),
                _ => decimal(number, decimals),
            }),
        };
        let value = whole.map(|whole| whole.to_string());
        let value = value.or_else(|| Some(number?.to_string()));
        Self::optional(text.zip(value), |(text, value)| Self::shown(text, value))
    }

    /// Shows a whole number, grouped by thousands.
    pub(crate) fn count(number: u64) -> Self {
        Self::shown(count(number), number.to_string())
    }

    /// Shows a number with the decimals that it needs; a dash for NaN and infinities.
    pub(crate) fn exact(number: f64) -> Self {
        let number = Some(number).filter(|number| number.is_finite());
        Self::optional(number, |number| {
            Self::shown(exact(number), number.to_string())
        })
    }

    /// Shows a dash: the value is not known, or does not apply.
    pub(crate) fn missing() -> Self {
        Self::shown("-".to_owned(), String::new())
    }

    /// Shows a value that may not be known.
    pub(crate) fn optional<T>(value: Option<T>, cell: impl FnOnce(T) -> Self) -> Self {
        value.map_or_else(Self::missing, cell)
    }

    /// Returns whether the cell shows words rather than a number.
    fn is_words(&self) -> bool {
        let begins = self.text.chars().next();
        self.value.is_none() && begins.is_some_and(|letter| letter.is_alphabetic() || letter == '(')
    }

    /// Shows a text with its plain value.
    pub(crate) fn shown(text: String, value: String) -> Self {
        let value = (value != text).then_some(value);
        Self { text, value }
    }

    /// Returns what people see.
    pub(crate) fn as_text(&self) -> &str {
        &self.text
    }

    /// Returns the plain value: numbers without grouping and unit; empty where nothing is known.
    pub(crate) fn as_value(&self) -> &str {
        self.value.as_deref().unwrap_or(&self.text)
    }

    pub(super) fn hidden_value(&self) -> Option<&str> {
        self.value.as_deref()
    }
}

/// A table. The first cell of a row names the row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct ReportTable {
    /// What it shows.
    pub(crate) caption: String,
    /// Its columns.
    pub(crate) columns: Vec<Column>,
    /// Its rows, each with a cell for every column; missing ones are shown empty.
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl ReportTable {
    /// Returns an empty table: its first column holds words, all others numbers unless words are
    /// added.
    pub(crate) fn new(caption: impl Into<String>, columns: &[&str]) -> Self {
        let column = |(place, name): (usize, &&str)| Column {
            name: (*name).to_owned(),
            align: if place == 0 {
                Align::Left
            } else {
                Align::Right
            },
        };
        Self {
            caption: caption.into(),
            columns: columns.iter().enumerate().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// Returns a table with a row for each of these. A column is a heading and the place of its
    /// figure in the JSON form of a row (`p50: bytes/p50 B`), with the form in which it is shown
    /// ([`Cell::of`]); the place alone is its own heading. Bars separate columns. A row of several
    /// parts is a tuple: a figure is looked for by its number (`0`), or in each part.
    pub(crate) fn of<R: Serialize>(
        caption: impl Into<String>,
        rows: impl IntoIterator<Item = R>,
        columns: &str,
    ) -> Self {
        let columns: Vec<(&str, &str, &str)> = columns
            .split('|')
            .map(|column| {
                let (name, place) = column
                    .trim()
                    .split_once(": ")
                    .unwrap_or(("", column.trim()));
                let (path, form) = place.split_once(' ').unwrap_or((place, ""));
                (if name.is_empty() { path } else { name }, path, form)
            })
            .collect();
        let names: Vec<&str> = columns.iter().map(|(name, ..)| *name).collect();
        let mut table = Self::new(caption, &names);
        for row in rows {
            let row = serde_json::to_value(row).unwrap_or_default();
            table.row(columns.iter().map(|(_, path, form)| {
                let Some(found) = figure(&row, path) else {
                    debug_assert!(false, "no figure {path:?} in {row}");
                    return Cell::text(format!("(no figure {path})"));
                };
                Cell::of(found, form)
            }));
        }
        table
    }

    /// Leaves out the columns in which no cell is known.
    pub(crate) fn of_known(mut self) -> Self {
        let missing = Cell::missing();
        for place in (0..self.columns.len()).rev() {
            let is_missing = |row: &Vec<Cell>| row.get(place) == Some(&missing);
            if !self.rows.is_empty() && self.rows.iter().all(is_missing) {
                self.columns.remove(place);
                self.rows.iter_mut().for_each(|row| drop(row.remove(place)));
            }
        }
        self
    }

    /// Aligns all columns to the left, with any content.
    pub(super) fn left(mut self) -> Self {
        let align = |column: &mut Column| column.align = Align::Left;
        self.columns.iter_mut().for_each(align);
        self
    }

    /// Adds a column for bars, which are words, to the right.
    pub(super) fn bars(&mut self, name: &str) {
        self.columns.push(Column {
            name: name.to_owned(),
            align: Align::Left,
        });
    }

    /// Adds a row. A column with words is aligned to the left.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        for (column, cell) in self.columns.iter_mut().zip(&cells) {
            if cell.is_words() {
                column.align = Align::Left;
            }
        }
        self.rows.push(cells);
    }

    /// Returns the headings and the plain values as comma-separated values, quoted where they need
    /// it (RFC 4180). The heading of a place is `bytes_p99`.
    pub(crate) fn to_csv(&self) -> String {
        let line = |cells: Vec<String>| cells.join(",") + "\r\n";
        let names = self.columns.iter();
        let names = names.map(|column| quoted(&column.name.replace('/', "_")));
        let rows = self.rows.iter();
        let rows = rows.map(|row| row.iter().map(|cell| quoted(cell.as_value())).collect());
        std::iter::once(names.collect())
            .chain(rows)
            .map(line)
            .collect()
    }

    /// Returns the headings and the plain values, a line a row.
    #[cfg(test)]
    pub(crate) fn plain(&self) -> Vec<String> {
        self.to_csv().lines().map(str::to_owned).collect()
    }
}

/// Returns the figure at a path (`bytes/p99`) of a row; in an array, by its number, or in the first
/// part that has it. Null where a part of the path is null.
fn figure<'r>(row: &'r Value, path: &str) -> Option<&'r Value> {
    path.split('/').try_fold(row, |at, name| match at {
        Value::Null => Some(at),
        Value::Array(parts) => match name.parse::<usize>() {
            Ok(place) => parts.get(place),
            Err(_) => parts.iter().find_map(|part| part.get(name)),
        },
        object => object.get(name),
    })
}

/// Quotes a value that would break a line of comma-separated ones.
fn quoted(value: &str) -> String {
    if value.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_break_a_line_is_quoted_and_what_is_missing_is_empty() {
        let rows = [
            serde_json::json!({"name": "a \"b\", c", "bytes": {"p99": 2048}, "errors": {"9": 2, "14": 3}, "rate": 0.1, "ok": true}),
            serde_json::json!({"name": "d\ne", "bytes": null, "errors": {}, "rate": 1e4, "ok": false}),
        ];
        let table = ReportTable::of("", &rows, "who: name | bytes/p99 | errors | rate | ok");
        assert_eq!(
            table.to_csv(),
            "who,bytes_p99,errors,rate,ok\r\n\"a \"\"b\"\", c\",2048,5,0.1,true\r\n\"d\ne\",,0,10000,false\r\n"
        );
    }

    #[test]
    fn a_cell_shows_one_thing_and_says_the_value() {
        let of = |figure: Value, form| Cell::of(&figure, form);
        let table = [
            (of(1234.into(), ""), "1,234", "1234"),
            (of(131_072.into(), "B"), "128.0 KiB", "131072"),
            (of(1234.5.into(), ".0"), "1,234", "1234.5"),
            (of(0.1234.into(), "%1"), "12.3 %", "0.1234"),
            (of(f64::NAN.into(), ".1"), "-", ""),
            (Cell::exact(f64::NAN), "-", ""),
            (Cell::text("a"), "a", "a"),
        ];
        for (cell, text, value) in table {
            assert_eq!((cell.as_text(), cell.as_value()), (text, value));
        }
    }

    #[test]
    fn a_column_is_a_figure_of_the_row_or_of_one_of_its_parts() {
        let row = serde_json::json!({"bytes": {"p99": 2048}, "rate": 1234.5, "none": null, "kinds": ["a", "b"]});
        let table = ReportTable::of(
            "t",
            [("name", Some(0.25), row)],
            "set: 0 | p99: bytes/p99 B | whole: bytes/p99 | bare: bytes/p99 # | rate .1 | rate: rate /s | ms: rate ms | \
             us: rate us | share: 1 %1 | at: bytes/p99 date | none | deep: none/p99 B | kinds",
        );
        let shown: Vec<&str> = table.rows[0].iter().map(Cell::as_text).collect();
        assert_eq!(
            shown.join(" | "),
            "name | 2.0 KiB | 2,048 | 2048 | 1,234.5 | 1,234 | 1.23 | 1.23 ms | 25.0 % | 2010-01-01 00:00 | - | - | a, b"
        );
        assert_eq!(
            table.plain()[0],
            "set,p99,whole,bare,rate,rate,ms,us,share,at,none,deep,kinds"
        );
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "no figure \"bytes/p98\""))]
    fn a_figure_that_no_row_has_is_a_mistake_that_is_seen() {
        let row = serde_json::json!({"bytes": {}});
        let table = ReportTable::of("t", [row], "bytes/p98");
        assert_eq!(table.rows[0][0].as_text(), "(no figure bytes/p98)");
    }
}
