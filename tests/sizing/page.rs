//! The HTML page: well-formed, small, without anything that runs or loads, and with the numbers of
//! the JSON form.

use std::fmt::Write as _;

use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;
use tempfile::TempDir;

use super::{SMALL, json_and_page, path};

/// The largest page that is written, in bytes.
const PAGE_BYTES_MAX: usize = 300_000;

fn small() -> (Value, String) {
    json_and_page(&[SMALL, "--writes-per-s", "users=40"])
}

/// Runs a check on the page as a tree.
fn parsed(html: &str, check: impl FnOnce(&Document<'_>)) {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    check(&Document::parse_with_options(html, options).unwrap());
}

fn elements<'d>(page: &'d Document<'_>, name: &'d str) -> impl Iterator<Item = Node<'d, 'd>> {
    page.descendants()
        .filter(move |node| node.tag_name().name() == name)
}

fn text(node: Node<'_, '_>) -> String {
    node.descendants()
        .filter_map(|node| node.text().filter(|_| node.is_text()))
        .collect()
}

/// The rows of the table of this caption: plain values.
fn rows(page: &Document<'_>, caption: &str) -> Vec<Vec<String>> {
    let table = elements(page, "table")
        .find(|table| {
            table
                .children()
                .any(|child| child.has_tag_name("caption") && text(child) == caption)
        })
        .unwrap_or_else(|| panic!("no table {caption:?}"));
    let body = table
        .children()
        .find(|child| child.has_tag_name("tbody"))
        .unwrap();
    let cells = |row: Node<'_, '_>| {
        let value = |cell: Node<'_, '_>| {
            cell.attribute("data-value")
                .map_or_else(|| text(cell), str::to_owned)
        };
        row.children().map(value).collect()
    };
    body.children().map(cells).collect()
}

#[test]
fn it_is_well_formed_and_nothing_in_it_runs_or_loads() {
    let (_, html) = small();
    assert!(html.len() < PAGE_BYTES_MAX);
    parsed(&html, |page| {
        for name in ["script", "iframe", "object", "embed", "img", "form"] {
            assert_eq!(elements(page, name).count(), 0, "{name}");
        }
        for node in page.descendants() {
            for attribute in node.attributes() {
                let (name, value) = (attribute.name(), attribute.value());
                assert!(!name.starts_with("on"), "{name}");
                assert!(
                    !value.contains("javascript:") && !value.contains("://"),
                    "{name}={value}"
                );
            }
        }
    });
    assert!(!html.contains("url("), "styles load nothing");
    assert!(
        html.contains("&lt;/td&gt;&lt;script&gt;:3"),
        "a key is shown as it is"
    );
}

#[test]
fn it_can_be_used_by_keyboard_and_screen_reader() {
    parsed(&small().1, |page| {
        let ids: Vec<&str> = page
            .descendants()
            .filter_map(|node| node.attribute("id"))
            .collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len());
        let titles: Vec<String> = elements(page, "h2").map(text).collect();
        let menu: Vec<String> = elements(page, "nav")
            .flat_map(|nav| nav.descendants())
            .filter(|node| node.has_tag_name("a"))
            .map(text)
            .collect();
        assert_eq!(menu, titles);
        for link in elements(page, "a") {
            assert!(ids.contains(&link.attribute("href").unwrap().strip_prefix('#').unwrap()));
        }
        for table in elements(page, "table") {
            let heads: Vec<_> = table
                .descendants()
                .filter(|node| node.has_tag_name("th"))
                .collect();
            assert!(
                heads
                    .iter()
                    .all(|head| matches!(head.attribute("scope"), Some("col" | "row")))
            );
            assert!(table.first_element_child().unwrap().has_tag_name("caption"));
            let around = table.parent().unwrap();
            assert_eq!(
                (around.attribute("role"), around.attribute("tabindex")),
                (Some("region"), Some("0"))
            );
        }
        let charts: Vec<_> = page
            .descendants()
            .filter(|node| node.attribute("role") == Some("img"))
            .collect();
        assert_eq!(charts.len(), 3);
        for chart in charts {
            let part = |name| {
                chart
                    .children()
                    .find(|child| child.tag_name().name() == name)
                    .unwrap()
            };
            let (title, description) = (part("title"), part("desc"));
            assert!(!text(title).is_empty() && !text(description).is_empty());
            let labelled = format!(
                "{} {}",
                title.attribute("id").unwrap(),
                description.attribute("id").unwrap()
            );
            assert_eq!(chart.attribute("aria-labelledby"), Some(labelled.as_str()));
            let figure = chart.parent().unwrap();
            assert!(
                figure.descendants().any(|node| node.has_tag_name("table")),
                "a table beside each chart"
            );
        }
    });
}

#[test]
fn its_tables_have_the_numbers_of_the_json_form() {
    let (json, html) = small();
    parsed(&html, |page| {
        let sets = json["sets"].as_array().unwrap();
        let plain = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        let expected = |fields: &[&str]| -> Vec<Vec<String>> {
            let row = |set: &Value| {
                let name = set["set"].as_str().unwrap();
                let name = if name.is_empty() { "(no set)" } else { name };
                let cells = fields
                    .iter()
                    .map(|field| plain(set.pointer(field).unwrap()));
                std::iter::once(name.to_owned()).chain(cells).collect()
            };
            sets.iter().map(row).collect()
        };
        let number = |rows: Vec<Vec<String>>| -> Vec<Vec<String>> {
            // `90.0` of JSON and `90` of a cell are one number.
            let cell = |cell: String| {
                cell.parse::<f64>()
                    .map_or(cell, |number| number.to_string())
            };
            rows.into_iter()
                .map(|row| row.into_iter().map(cell).collect())
                .collect()
        };
        assert_eq!(
            number(rows(page, "Record sizes")),
            number(expected(&[
                "/records",
                "/bytes/p50",
                "/bytes/p95",
                "/bytes/p99",
                "/bytes/max",
                "/bytes/mean",
                "/bytes/total",
            ]))
        );
        assert_eq!(
            number(rows(page, "Part of the records by size")),
            number(expected(&[
                "/shares/0/share",
                "/shares/1/share",
                "/shares/2/share",
                "/shares/3/share",
                "/shares/4/share",
            ]))
        );
        let advice = rows(
            page,
            "Shards for the largest, and for one at the 99th percentile",
        );
        for (row, set) in advice.iter().zip(sets) {
            assert_eq!(row[4], set["advice"]["shards"].to_string());
            assert_eq!(row[5], set["advice"]["shards_pow2"].to_string());
        }
        for set in sets {
            let name = set["set"]
                .as_str()
                .filter(|name| !name.is_empty())
                .unwrap_or("(no set)");
            let chart = rows(page, &format!("Records of {name} by size"));
            for bucket in set["histogram"].as_array().unwrap() {
                let row = chart
                    .iter()
                    .find(|row| row[0] == bucket["label"].as_str().unwrap())
                    .unwrap();
                assert_eq!(
                    row[1..],
                    [bucket["stored"].to_string(), bucket["counted"].to_string()]
                );
            }
            let records: u64 = chart.iter().map(|row| row[2].parse::<u64>().unwrap()).sum();
            assert_eq!(records, set["records"].as_u64().unwrap(), "{name}");
            if set["verdict"]["level"] == "OK" {
                continue;
            }
            let what_if = rows(page, &format!("{name} by number of shards"));
            for (row, expected) in what_if.iter().zip(set["what_if"].as_array().unwrap()) {
                assert_eq!(row[1], expected["largest_bytes"].to_string());
                assert_eq!(row[5], expected["band"].as_str().unwrap());
            }
        }
    });
}

#[test]
fn hundreds_of_sets_with_dozens_of_bins_still_fit_a_page() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("many.jsonl");
    let mut lines = String::new();
    for set in 0..400 {
        let bins: serde_json::Map<String, Value> = (0..40)
            .map(|bin| (format!("bin-{bin}"), vec![bin; 5].into()))
            .collect();
        let _ = writeln!(
            lines,
            "{}",
            serde_json::json!({"set": format!("a-set-{set}"), "key": set, "bins": bins})
        );
    }
    std::fs::write(&file, lines).unwrap();
    let (_, html) = json_and_page(&[path(&file), "--top", "1000"]);
    assert!(html.len() < PAGE_BYTES_MAX, "{}", html.len());
    parsed(&html, |page| assert_eq!(elements(page, "h2").count(), 11));
    assert!(html.contains("sets, 388 more"));
}
