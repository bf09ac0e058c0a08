//! A report as one HTML page.

use std::fmt::Write as _;

use super::chart::Chart;
use super::document::{Report, ReportBlock, Section, Severity, Verdict};
use super::table::{Align, Cell, Column, ReportTable};

/// The size that no page reaches, in bytes: mail and bug trackers take it, and browsers show it at
/// once.
pub(crate) const HTML_BYTES_MAX: usize = 300_000;

/// Kept for the end of the page, and for the notes in place of omitted parts.
const RESERVE_BYTES: usize = 20_000;

/// The longest note of an omitted part, in characters.
const NOTE_CHARS: usize = 80;

/// Tables with this many rows open on demand.
const FOLDED_FROM: usize = 40;

const STYLE: &str = include_str!("style.css");

/// Writes the page.
pub(super) fn write(report: &Report) -> String {
    let mut page = HtmlPage::default();
    page.head(report);
    for (number, section) in report.sections.iter().enumerate() {
        // The opening of a report comes before how it was made.
        let made = match &report.lead {
            Some(_) if number == 0 => facts_list(&report.facts),
            _ => String::new(),
        };
        page.section(number, section, &made);
    }
    page.out.push_str(
        "</main></div><footer>Made by spikelet. This page holds everything it shows and loads nothing.</footer></body></html>\n",
    );
    page.out
}

#[derive(Default)]
struct HtmlPage {
    out: String,
    charts: usize,
}

impl HtmlPage {
    fn head(&mut self, report: &Report) {
        let title = escape(&report.title);
        let _ = write!(
            self.out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"/>\
             <meta name=\"generator\" content=\"spikelet\"/><link rel=\"icon\" href=\"data:,\"/>\
             <title>{title}</title><style>\n{STYLE}</style></head>\n<body><a class=\"skip\" href=\"#report\">Skip the menu</a>\
             <header><h1>{title}</h1>"
        );
        if let Some(lead) = &report.lead {
            let _ = write!(
                self.out,
                "<p class=\"lead {}\"><strong class=\"word\">{}</strong> {}</p>",
                class(lead.level),
                escape(&lead.word),
                escape(&lead.sentence)
            );
        }
        if report.lead.is_none() && !report.facts.is_empty() {
            self.out.push_str(&facts_list(&report.facts));
        }
        self.out
            .push_str("</header>\n<div class=\"page\"><nav aria-label=\"Sections\"><ul>");
        for (number, section) in report.sections.iter().enumerate() {
            let (id, title) = (id(number, section), escape(&section.title));
            let _ = write!(self.out, "<li><a href=\"#{id}\">{title}</a></li>");
        }
        self.out.push_str("</ul></nav>\n<main id=\"report\">");
    }

    /// Writes a section, and what follows its blocks.
    fn section(&mut self, number: usize, section: &Section, after: &str) {
        let (id, title) = (id(number, section), escape(&section.title));
        let _ = write!(
            self.out,
            "<section id=\"{id}\" aria-labelledby=\"{id}-h\"><h2 id=\"{id}-h\">{title}</h2>"
        );
        let mut left_out = 0;
        for block in &section.blocks {
            let html = self.block(block);
            if self.out.len() + html.len() + RESERVE_BYTES <= HTML_BYTES_MAX {
                self.out.push_str(&html);
            } else {
                left_out += 1;
            }
        }
        // The reserve has room for a number of notes; a report with more sections than that has
        // none to spare for them.
        if left_out > 0 && self.out.len() + 2 * NOTE_CHARS + RESERVE_BYTES / 2 <= HTML_BYTES_MAX {
            let _ = write!(
                self.out,
                "<p class=\"left-out\">Left out for the size of this page: {left_out} parts. The JSON form has them.</p>"
            );
        }
        self.out.push_str(after);
        self.out.push_str("</section>\n");
    }

    fn block(&mut self, block: &ReportBlock) -> String {
        match block {
            ReportBlock::Paragraph(words) => format!("<p>{}</p>", escape(words)),
            ReportBlock::Facts(facts) => facts_list(facts),
            ReportBlock::Verdict(verdict) => verdict_box(verdict),
            ReportBlock::Table(table) if table.rows.len() >= FOLDED_FROM => format!(
                "<details><summary>{}: {} rows</summary>{}</details>",
                escape(&table.caption),
                table.rows.len(),
                table_box(table)
            ),
            ReportBlock::Table(table) => table_box(table),
            ReportBlock::Chart(chart) => {
                self.charts += 1;
                figure(chart, &format!("chart-{}", self.charts))
            }
        }
    }
}

/// Returns the anchor of a section: its title in small letters, and its number, which makes it
/// unique.
fn id(number: usize, section: &Section) -> String {
    let letters = section.title.chars().map(|letter| {
        if letter.is_ascii_alphanumeric() {
            letter.to_ascii_lowercase()
        } else {
            '-'
        }
    });
    format!("{}-{}", letters.collect::<String>(), number + 1)
}

fn facts_list(facts: &[(String, String)]) -> String {
    let rows = facts
        .iter()
        .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value)));
    format!("<dl class=\"facts\">{}</dl>", rows.collect::<String>())
}

const fn class(level: Severity) -> &'static str {
    match level {
        Severity::Good => "good",
        Severity::Watch => "watch",
        Severity::Bad => "bad",
    }
}

fn verdict_box(verdict: &Verdict) -> String {
    let class = class(verdict.level);
    format!(
        "<div class=\"verdict {class}\"><span class=\"word\">{}</span><span class=\"subject\">{}</span><p>{}</p></div>",
        escape(&verdict.word),
        escape(&verdict.subject),
        escape(&verdict.sentence)
    )
}

/// Wraps a table in a box in which wide tables scroll, by keyboard, too.
fn table_box(table: &ReportTable) -> String {
    let caption = escape(&table.caption);
    let mut html = format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\"><table><caption>{caption}</caption><thead><tr>"
    );
    for column in &table.columns {
        let class = if column.align == Align::Left {
            " class=\"w\""
        } else {
            ""
        };
        let _ = write!(
            html,
            "<th scope=\"col\"{class}>{}</th>",
            escape(&column.name)
        );
    }
    html.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        html.push_str("<tr>");
        for (place, column) in table.columns.iter().enumerate() {
            cell(&mut html, place, column, row.get(place));
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
    html
}

fn cell(html: &mut String, place: usize, column: &Column, cell: Option<&Cell>) {
    let (open, close) = match (place, column.align) {
        (0, _) => ("<th scope=\"row\"", "</th>"),
        (_, Align::Left) => ("<td class=\"w\"", "</td>"),
        (_, Align::Right) => ("<td", "</td>"),
    };
    html.push_str(open);
    if let Some(value) = cell.and_then(Cell::hidden_value) {
        let _ = write!(html, " data-value=\"{}\"", escape(value));
    }
    let text = cell.map_or("", Cell::as_text);
    let _ = write!(html, ">{}{close}", escape(text));
}

/// Writes a chart with its legend, and its numbers as a table that opens on demand.
fn figure(chart: &Chart, id: &str) -> String {
    let mut html = format!("<figure><figcaption>{}</figcaption>", escape(&chart.title));
    let legend = chart.legend();
    if legend.len() > 1 {
        html.push_str("<ul class=\"legend\">");
        for (name, swatch) in legend {
            let _ = write!(html, "<li>{swatch}{}</li>", escape(name));
        }
        html.push_str("</ul>");
    }
    let _ = write!(
        html,
        "{}<details><summary>The numbers of this chart</summary>{}</details></figure>",
        chart.to_svg(id),
        table_box(&chart.to_table())
    );
    html
}

/// Escapes text for HTML, also between quotation marks. Characters that XML cannot hold become
/// U+FFFD.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(letter),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ if letter.is_control() => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Axis, AxisUnit, Bars};

    #[test]
    fn what_users_have_named_cannot_become_markup() {
        let hostile = "</title><script>alert('\"&\u{0}\u{1b}')</script>";
        let mut table = ReportTable::new(hostile, &[hostile, hostile]);
        table.row([
            Cell::text(hostile),
            Cell::shown(hostile.into(), "\"><script>".into()),
        ]);
        let verdict = Verdict {
            level: Severity::Bad,
            word: hostile.into(),
            subject: hostile.into(),
            sentence: hostile.into(),
        };
        let chart = Chart {
            title: hostile.into(),
            description: hostile.into(),
            x: Axis::new(hostile, AxisUnit::Number),
            bars: Some(Bars {
                buckets: vec![hostile.into()],
                ..Bars::default()
            }),
            ..Chart::default()
        };
        let section = Section::new(hostile)
            .paragraph(hostile)
            .fact(hostile, hostile)
            .verdict(verdict)
            .table(table)
            .charts([chart]);
        let html = Report::new(hostile)
            .fact(hostile, hostile)
            .section(section)
            .to_html();
        assert!(!html.contains("<script"), "{html}");
        assert!(!html.contains('\u{0}') && !html.contains('\u{1b}'));
        assert!(html.contains("&lt;script&gt;"));
    }

    #[test]
    fn a_page_that_would_be_too_large_says_what_it_leaves_out() {
        let mut large = ReportTable::new("large", &["a", "b"]);
        for number in 0..20_000 {
            large.row([Cell::count(number), Cell::count(number)]);
        }
        let report = (0..3).fold(Report::new("r"), |report, _| {
            report.section(
                Section::new("s")
                    .table(large.clone())
                    .paragraph("still here"),
            )
        });
        let html = report.to_html();
        assert!(html.len() < HTML_BYTES_MAX);
        assert_eq!(
            html.matches("Left out for the size of this page: 1 parts")
                .count(),
            3
        );
        assert_eq!(html.matches("still here").count(), 3);
    }

    #[test]
    fn rows_that_are_short_are_filled_up() {
        let mut table = ReportTable::new("t", &["a", "b", "c"]);
        table.row([Cell::text("x")]);
        let html = table_box(&table);
        assert!(
            html.contains("<th scope=\"row\">x</th><td></td><td></td></tr>"),
            "{html}"
        );
    }
}
