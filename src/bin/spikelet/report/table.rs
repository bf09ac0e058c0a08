//! Tables: cells with a shown text and a plain value.

use super::number::{bytes, count, decimal, exact, percent};

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
    #[must_use]
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            value: None,
        }
    }

    /// Shows a whole number, grouped by thousands; a dash if it is not known.
    #[must_use]
    pub(crate) fn count(number: impl Into<Option<u64>>) -> Self {
        let cell = |number: u64| Self::shown(count(number), number.to_string());
        Self::optional(number.into(), cell)
    }

    /// Shows a size in bytes, in the unit that fits; a dash if it is not known.
    #[must_use]
    pub(crate) fn bytes(number: impl Into<Option<u64>>) -> Self {
        let cell = |number: u64| Self::shown(bytes(number), number.to_string());
        Self::optional(number.into(), cell)
    }

    /// Shows a number with this many decimals; a dash for NaN and infinities, and if it is not
    /// known.
    #[must_use]
    pub(crate) fn decimal(number: impl Into<Option<f64>>, decimals: usize) -> Self {
        let number = number.into().filter(|number| number.is_finite());
        Self::optional(number, |number| {
            Self::shown(decimal(number, decimals), number.to_string())
        })
    }

    /// Shows a number with the decimals that it needs; a dash for NaN and infinities.
    #[must_use]
    pub(crate) fn exact(number: f64) -> Self {
        let number = Some(number).filter(|number| number.is_finite());
        Self::optional(number, |number| {
            Self::shown(exact(number), number.to_string())
        })
    }

    /// Shows a part of one as a percentage with this many decimals; its value is the part.
    #[must_use]
    pub(crate) fn share(part: impl Into<Option<f64>>, decimals: usize) -> Self {
        let part = part.into().filter(|part| part.is_finite());
        Self::optional(part, |part| {
            Self::shown(percent(part, decimals), part.to_string())
        })
    }

    /// Shows a dash: the value is not known, or does not apply.
    #[must_use]
    pub(crate) fn missing() -> Self {
        Self::shown("-".to_owned(), String::new())
    }

    /// Shows a value that may not be known.
    #[must_use]
    pub(crate) fn optional<T>(value: Option<T>, cell: impl FnOnce(T) -> Self) -> Self {
        value.map_or_else(Self::missing, cell)
    }

    /// Returns whether the cell shows words rather than a number.
    fn is_words(&self) -> bool {
        let begins = self.text.chars().next();
        self.value.is_none() && begins.is_some_and(|letter| letter.is_alphabetic() || letter == '(')
    }

    /// Shows a text with its plain value.
    #[must_use]
    pub(crate) fn shown(text: String, value: String) -> Self {
        let value = (value != text).then_some(value);
        Self { text, value }
    }

    /// Returns what people see.
    #[must_use]
    pub(crate) fn as_text(&self) -> &str {
        &self.text
    }

    /// Returns the plain value: numbers without grouping and unit; empty where nothing is known.
    #[cfg(test)]
    pub(crate) fn as_value(&self) -> &str {
        self.value.as_deref().unwrap_or(&self.text)
    }

    pub(super) fn hidden_value(&self) -> Option<&str> {
        self.value.as_deref()
    }
}

/// A column of a table of `R`s: its heading, and the cell of a row.
pub(crate) type CellOf<'c, R> = (&'c str, &'c dyn Fn(&R) -> Cell);

/// A table. The first cell of a row names the row.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    #[must_use]
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

    /// Returns a table with a row for each of these, and what each column shows of it.
    #[must_use]
    pub(crate) fn of<R>(
        caption: impl Into<String>,
        rows: impl IntoIterator<Item = R>,
        columns: &[CellOf<'_, R>],
    ) -> Self {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let mut table = Self::new(caption, &names);
        for row in rows {
            table.row(columns.iter().map(|(_, cell)| cell(&row)));
        }
        table
    }

    /// Returns the table, unless it has no rows.
    #[must_use]
    pub(crate) fn if_any(self) -> Option<Self> {
        (!self.rows.is_empty()).then_some(self)
    }

    /// Leaves out the columns in which no cell is known.
    #[must_use]
    pub(crate) fn of_known(mut self) -> Self {
        let missing = Cell::missing();
        let places = if self.rows.is_empty() {
            0..0
        } else {
            0..self.columns.len()
        };
        for place in places.rev() {
            if self.rows.iter().all(|row| row.get(place) == Some(&missing)) {
                self.columns.remove(place);
                self.rows.iter_mut().for_each(|row| drop(row.remove(place)));
            }
        }
        self
    }

    /// Aligns all columns to the left, with any content.
    #[must_use]
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

    /// Returns the headings and the plain values, a line a row.
    #[cfg(test)]
    pub(crate) fn plain(&self) -> Vec<String> {
        let names = self.columns.iter().map(|column| column.name.clone());
        let rows = self.rows.iter();
        let rows = rows.map(|row| row.iter().map(Cell::as_value).collect::<Vec<_>>().join(","));
        std::iter::once(names.collect::<Vec<_>>().join(","))
            .chain(rows)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_shows_one_thing_and_says_the_value() {
        let table = [
            (Cell::count(1234), "1,234", "1234"),
            (Cell::bytes(131_072), "128.0 KiB", "131072"),
            (Cell::decimal(1234.5, 0), "1,234", "1234.5"),
            (Cell::share(0.1234, 1), "12.3 %", "0.1234"),
            (Cell::decimal(f64::NAN, 1), "-", ""),
            (Cell::missing(), "-", ""),
            (Cell::text("a"), "a", "a"),
        ];
        for (cell, text, value) in table {
            assert_eq!((cell.as_text(), cell.as_value()), (text, value));
        }
    }
}
