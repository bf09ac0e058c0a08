//! The pages in a browser: what it computes, which no look at the text can tell.
//!
//! The tests need a Chromium or Chrome: one of [`NAMES`] in the path, or the program that `SPIKELET_CHROMIUM` names. Without
//! one that can show a page they skip and say so on standard error, unless `SPIKELET_BROWSER=required`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::{SMALL, json_and_page};

const NAMES: [&str; 6] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
];

/// The window. Pages are shown in frames inside it: a desktop Chromium makes no window narrower than 500 pixels.
const WINDOW: &str = "--window-size=1400,1000";

/// A browser without a screen, and the directory of its files.
struct Browser {
    program: PathBuf,
    dir: TempDir,
}

impl Browser {
    /// Returns a browser that has shown a page; `None`, with a word on standard error, if there is none.
    ///
    /// # Panics
    /// If there is none although `SPIKELET_BROWSER=required`.
    fn find() -> Option<Self> {
        let found = Self::installed().and_then(|browser| browser.tried().map(|()| browser));
        let required =
            std::env::var_os("SPIKELET_BROWSER").is_some_and(|value| value == "required");
        match found {
            Ok(browser) => Some(browser),
            Err(reason) if required => panic!("{reason}"),
            Err(reason) => {
                // Not by `eprintln!`, whose text is shown for failed tests only.
                let _ = writeln!(std::io::stderr(), "skipped a test of pages: {reason}");
                None
            }
        }
    }

    fn installed() -> Result<Self, String> {
        let named = std::env::var_os("SPIKELET_CHROMIUM").map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = || {
            let files = NAMES
                .iter()
                .flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)));
            files.into_iter().find(|file| file.is_file())
        };
        let program = named.or_else(in_path).ok_or(
            "no Chromium: install chromium-headless-shell or chromium, or set SPIKELET_CHROMIUM",
        )?;
        let dir = TempDir::new().unwrap();
        Ok(Self { program, dir })
    }

    /// Shows a page whose script sets its title: some browsers do not start here, or may not read temporary files.
    fn tried(&self) -> Result<(), String> {
        let page = "<!DOCTYPE html><title>-</title><script>document.title = 6 * 7</script>";
        let output = self.run(&self.file("tried.html", page), false)?;
        let program = self.program.display();
        match title(&output.dom) {
            Some("42") => Ok(()),
            _ => Err(format!("{program} shows no page: {}", output.messages)),
        }
    }

    fn file(&self, name: &str, html: &str) -> PathBuf {
        let file = self.dir.path().join(name);
        std::fs::write(&file, html).unwrap();
        file
    }

    fn run(&self, file: &Path, dark: bool) -> Result<Shown, String> {
        let profile = self.dir.path().join("profile");
        let scheme = u8::from(!dark);
        let output = Command::new(&self.program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--dump-dom",
            ])
            .args(["--no-first-run", "--enable-logging=stderr", "--v=0", WINDOW])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
            .arg(format!("file://{}", file.display()))
            .output()
            .map_err(|error| format!("{} does not start: {error}", self.program.display()))?;
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(format!("{}: {messages}", self.program.display()));
        }
        let dom = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Shown { dom, messages })
    }

    /// Shows a page as it is, which must leave nothing on the console.
    fn show(&self, file: &Path, dark: bool) -> Shown {
        let shown = self.run(file, dark).unwrap();
        assert!(!shown.messages.contains("CONSOLE"), "{}", shown.messages);
        shown
    }

    /// Shows the page in a frame of this width, and asks it [`QUESTIONS`].
    fn ask(&self, html: &str, width: u32, dark: bool) -> Value {
        // The page forbids every script, so the copy that is asked has to allow one.
        let policy = html
            .find("<meta http-equiv=\"Content-Security-Policy\"")
            .unwrap();
        let end = policy + html[policy..].find("/>").unwrap() + 2;
        let open = [&html[..policy], &html[end..]]
            .concat()
            .replace("</body>", &format!("<script>{QUESTIONS}</script></body>"))
            .replace('&', "&amp;")
            .replace('"', "&quot;");
        let around = format!(
            "<!DOCTYPE html><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\"><title>-</title>\
             <iframe srcdoc=\"{open}\" style=\"border: 0; width: {width}px; height: 900px\"></iframe>"
        );
        let shown = self.show(&self.file("around.html", &around), dark);
        let title = title(&shown.dom).unwrap().replace("&amp;", "&");
        serde_json::from_str(&title).unwrap_or_else(|error| panic!("{error}: {title}"))
    }
}

/// What a browser has shown.
struct Shown {
    /// The document after its scripts have run.
    dom: String,
    /// Standard error, the console's messages among them.
    messages: String,
}

fn title(dom: &str) -> Option<&str> {
    let (_, title) = dom.split_once("<title>")?;
    title.split_once("</title>").map(|(title, _)| title)
}

/// A script that answers in the title of the page around the frame, since that is what comes out of the browser.
const QUESTIONS: &str = include_str!("questions.js");

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
        let seen = browser.ask(&html, width, dark);
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
        let seen = browser.ask(&html, width, dark);
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
