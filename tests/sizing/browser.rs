//! The page in a browser: what it computes, which no look at the text can tell.
//!
//! Needs Chromium without a screen: `chromium-headless-shell` or one of its other names in the path, or the program that
//! `SPIKELET_CHROMIUM` names. Where there is none the tests are passed over, unless `SPIKELET_BROWSER=required`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::{options, sized};

const NAMES: [&str; 5] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("SPIKELET_CHROMIUM").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = || {
        let places = NAMES
            .iter()
            .flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)));
        places.into_iter().find(|place| place.is_file())
    };
    let found = named.or_else(in_path);
    let required = std::env::var_os("SPIKELET_BROWSER").is_some_and(|value| value == "required");
    assert!(
        found.is_some() || !required,
        "no Chromium: install chromium-headless-shell, or set SPIKELET_CHROMIUM"
    );
    if found.is_none() {
        eprintln!("passed over: no Chromium in the path");
    }
    found
}

/// A script that answers in the page's title, since that is what comes out of the browser.
const QUESTIONS: &str = include_str!("questions.js");

/// Shows the page in a window of this width, and asks it.
fn asked(chromium: &Path, dir: &Path, html: &str, width: u32, dark: bool) -> Value {
    // The page forbids every script, so the copy that is asked has to allow one.
    let policy = html
        .find("<meta http-equiv=\"Content-Security-Policy\"")
        .unwrap();
    let end = policy + html[policy..].find("/>").unwrap() + 2;
    let open = [&html[..policy], &html[end..]]
        .concat()
        .replace("</body>", &format!("<script>{QUESTIONS}</script></body>"));
    let file = dir.join("asked.html");
    std::fs::write(&file, open).unwrap();
    let output = browse(chromium, dir, &file, width, dark);
    let dom = String::from_utf8(output.stdout).unwrap();
    let title = dom
        .split("<title>")
        .nth(1)
        .and_then(|rest| rest.split("</title>").next())
        .unwrap();
    serde_json::from_str(&title.replace("&amp;", "&"))
        .unwrap_or_else(|error| panic!("{error}: {title}"))
}

fn browse(
    chromium: &Path,
    dir: &Path,
    file: &Path,
    width: u32,
    dark: bool,
) -> std::process::Output {
    let output = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--dump-dom",
        ])
        .args(["--enable-logging=stderr", "--v=0"])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!(
            "--blink-settings=preferredColorScheme={}",
            u8::from(!dark)
        ))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    assert!(!messages.contains("CONSOLE"), "{messages}");
    output
}

/// Red, green, blue.
fn brightness(colour: &Value) -> u32 {
    let numbers = colour
        .as_str()
        .unwrap()
        .trim_start_matches("rgb(")
        .trim_end_matches(')');
    numbers
        .split(", ")
        .map(|number| number.parse::<u32>().unwrap())
        .sum()
}

/// The same number, but for what reading it back may cost.
fn close(shown: f64, told: &Value) {
    let told = told.as_f64().unwrap();
    assert!((shown - told).abs() <= told.abs() * 1e-12, "{shown} {told}");
}

/// What every page keeps to.
fn fits(seen: &Value, width: u32, dark: bool) {
    assert_eq!(
        seen["width"], width,
        "the window is as wide as it was asked for"
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
    let Some(chromium) = chromium() else { return };
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
    browse(&chromium, dir.path(), &file, 1280, false);
    for (width, dark) in [(1280, false), (1280, true), (360, false)] {
        let seen = asked(&chromium, dir.path(), &html, width, dark);
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
    let Some(chromium) = chromium() else { return };
    let dir = TempDir::new().unwrap();
    let sizing = sized(Path::new("tests/sizing/small.jsonl"), &options(|_| {}));
    let html = sizing.to_report().to_html();
    let file = dir.path().join("page.html");
    std::fs::write(&file, &html).unwrap();
    // As it is, with its own policy: nothing is refused, nothing is said.
    browse(&chromium, dir.path(), &file, 1280, false);
    for (width, dark) in [
        (1280, false),
        (1280, true),
        (720, false),
        (360, false),
        (360, true),
    ] {
        let seen = asked(&chromium, dir.path(), &html, width, dark);
        fits(&seen, width, dark);
        let charts = seen["charts"].as_array().unwrap();
        assert_eq!(charts.len(), sizing.sets.len());
        assert!(charts.iter().all(|chart| chart["bars"].as_u64() > Some(0)));
        assert!(seen["focusable"].as_u64() > Some(20));
        for (row, set) in seen["values"].as_array().unwrap().iter().zip(&sizing.sets) {
            assert_eq!(
                row[1].as_str().unwrap().parse::<u64>().unwrap(),
                set.records
            );
            assert_eq!(
                row[4].as_str().unwrap().parse::<u64>().unwrap(),
                set.bytes.p99
            );
            assert_eq!(
                row[7].as_str().unwrap().parse::<u64>().unwrap(),
                set.bytes.total
            );
        }
    }
}
