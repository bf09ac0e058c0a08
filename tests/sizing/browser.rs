//! The pages in a browser, with the layout and colours that it computes.

use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::browser_support::{Browser, CONTRAST, brightness};
use super::{SMALL, json_and_page};

/// Shows the page in a frame of this width, and asks it [`QUESTIONS`].
fn ask(browser: &Browser, html: &str, width: u32, dark: bool) -> Value {
    // The page forbids every script, so the copy that is asked has to allow one.
    let policy = html
        .find("<meta http-equiv=\"Content-Security-Policy\"")
        .unwrap();
    let end = policy + html[policy..].find("/>").unwrap() + 2;
    let open = [&html[..policy], &html[end..]].concat().replace(
        "</body>",
        &format!("<script>{CONTRAST}{QUESTIONS}</script></body>"),
    );
    browser.ask_framed(&open, width, dark)
}

/// A script that answers in the title of the page around the frame, the only text that the browser
/// prints.
const QUESTIONS: &str = include_str!("questions.js");

/// Asserts the same number, but for the loss of reading it back.
fn close(shown: f64, told: &Value) {
    let told = told.as_f64().unwrap();
    assert!((shown - told).abs() <= told.abs() * 1e-12, "{shown} {told}");
}

/// What every page keeps to.
fn fits(seen: &Value, width: u32, dark: bool) {
    assert_eq!(
        seen["width"], width,
        "the frame is as wide as it was asked for"
    );
    assert!(
        seen["scroll"].as_u64() <= Some(width.into()),
        "the page scrolls sideways: {seen}"
    );
    let (back, text) = (brightness(&seen["background"]), brightness(&seen["text"]));
    assert_eq!(back < 150 && text > 600, dark, "{seen}");
    assert_eq!(back > 700 && text < 150, !dark, "{seen}");
    for chart in seen["charts"].as_array().unwrap() {
        assert!(
            chart["width"].as_f64() > Some(300.0) && chart["height"].as_f64() > Some(120.0),
            "{seen}"
        );
        assert!(chart["right"].as_f64() <= Some(f64::from(width)), "{seen}");
        assert!(
            chart["type"].as_f64() >= Some(10.0),
            "labels can be read at {width}: {seen}"
        );
    }
    assert!(
        seen["contrast"].as_f64() >= Some(4.5) && seen["texts"].as_u64() > Some(100),
        "a text has too little contrast, or a picture behind it: {seen}"
    );
    assert!(
        seen["overlaps"]
            .as_array()
            .unwrap()
            .iter()
            .all(|count| *count == 0),
        "labels overlap at {width}: {seen}"
    );
    assert!(
        seen["cut"]
            .as_array()
            .unwrap()
            .iter()
            .all(|count| *count == 0),
        "labels are cut off at {width}: {seen}"
    );
    assert_eq!(
        seen["wide"], seen["hinted"],
        "what scrolls shows it, can be reached by keyboard, and has its caption in sight: {seen}"
    );
    assert!(width > 360 || seen["wide"].as_u64() > Some(0), "{seen}");
    assert_eq!(
        (seen["sticky"].as_str(), seen["hidden"].as_u64()),
        (Some("sticky"), Some(0))
    );
}

#[test]
fn the_page_of_the_contention_harness_is_shown_as_well_and_its_table_is_its_json() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("page.html");
    let output = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(
            "contention --virtual --rate 25,100,200 --shards 1,4,hourly --duration 60s".split(' '),
        )
        .args(["--json", "--html", file.to_str().unwrap()])
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let html = std::fs::read_to_string(&file).unwrap();
    browser.show(&file, false);
    for (width, dark) in [(1280, false), (1280, true), (360, false)] {
        let seen = ask(&browser, &html, width, dark);
        fits(&seen, width, dark);
        assert!(seen["charts"].as_array().unwrap().len() >= 4, "{seen}");
        let (shown, rows) = (
            seen["values"].as_array().unwrap(),
            json["rows"].as_array().unwrap(),
        );
        assert_eq!((shown.len(), rows.len()), (9, 9));
        for (shown, row) in shown.iter().zip(rows) {
            let number =
                |column: usize| -> f64 { shown[column].as_str().unwrap().parse().unwrap() };
            close(number(2), &row["offered"]);
            close(number(3), &row["goodput_per_s"]);
            close(number(4), &row["key_busy_share"]);
            close(number(6), &row["p99_us"]);
        }
    }
}

#[test]
fn it_is_shown_light_and_dark_wide_and_narrow_without_a_word_on_the_console() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let (json, html) = json_and_page(&[SMALL]);
    let sets = json["sets"].as_array().unwrap();
    // As it is, with its own policy: nothing is refused, nothing is said.
    browser.show(&browser.file("page.html", &html), false);
    for (width, dark) in [
        (1280, false),
        (1280, true),
        (720, false),
        (360, false),
        (360, true),
    ] {
        let seen = ask(&browser, &html, width, dark);
        fits(&seen, width, dark);
        let charts = seen["charts"].as_array().unwrap();
        assert_eq!(charts.len(), sets.len());
        assert!(charts.iter().all(|chart| chart["bars"].as_u64() > Some(0)));
        assert!(seen["focusable"].as_u64() > Some(20));
        for (row, set) in seen["values"].as_array().unwrap().iter().zip(sets) {
            for (column, field) in [(1, "/records"), (4, "/bytes/p99"), (7, "/bytes/total")] {
                assert_eq!(
                    row[column].as_str().unwrap(),
                    set.pointer(field).unwrap().to_string()
                );
            }
        }
    }
}
