//! Reports: one document, written as text for a terminal, as one HTML page, as JSON, and its tables
//! as CSV.
//!
//! A [`Report`] is sections of blocks: facts, paragraphs, verdicts, tables, charts. Commands build
//! one and ask for a form of it. `document`, `table` and `chart` are its parts; `text`, `html` and
//! `json` its forms; `number` writes numbers and keys for people.
//!
//! * **Text** is ASCII but for names that users gave, at most [`text::TEXT_COLUMNS`] wide, or as
//!   wide as a narrower [`Terminal`], also where letters take two columns. Only on a terminal the
//!   words of verdicts have colours, unless `NO_COLOR` is set.
//! * **HTML** is one file without a script and without anything to load: it can be mailed, and
//!   opened years later. It is light or dark as the reader's system is, works from 360 pixels of
//!   width on, and by keyboard and screen reader: colour never says anything alone, and every chart
//!   has its numbers in a table below it. It is well-formed XML, too.
//! * **JSON** has a `schema_version`, which grows when a field changes its meaning or goes.
//!
//! Charts are drawn here and not by a crate. `charming` draws SVG with an embedded JavaScript
//! engine; `charts-rs` writes the colours of one of its themes into it, where a page in two schemes
//! needs variables; `poloto` takes colours from the page, but has had no release since 2023. What
//! is needed, bars and lines on two axes, is small, and made here it carries a title, a
//! description, dash patterns and markers.

mod chart;
mod document;
mod html;
mod json;
mod number;
mod table;
mod text;

pub(crate) use chart::{Axis, AxisUnit, Band, Bars, Chart, Lane, MarkedPlace, Ranges, Series};
pub(crate) use document::{Report, Section, Severity, Verdict};
pub(crate) use json::to_json;
pub(crate) use number::{
    bytes, count, decimal, duration, exact, key, micros, millis_decimals, percent, short, shortened,
};
pub(crate) use table::ReportTable;
pub(crate) use text::{TEXT_COLUMNS, Terminal};
