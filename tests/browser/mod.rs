//! A Chromium without a screen, for tests of pages.
//!
//! The tests need a Chromium or Chrome: one of [`NAMES`] in the path, or the program that
//! `SPIKELET_CHROMIUM` names. Without one that can show a page they skip and say so on standard
//! error, unless `SPIKELET_BROWSER=required`.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

const NAMES: [&str; 6] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
];

/// A script that leaves the contrast of each text of a page in `contrasts`; 0: a picture is behind
/// it.
pub const CONTRAST: &str = include_str!("contrast.js");

/// The window. Pages are shown in frames inside it: a desktop Chromium makes no window narrower
/// than 500 pixels.
const WINDOW: &str = "--window-size=1400,1000";

/// A browser without a screen, and the directory of its files.
pub struct Browser {
    program: PathBuf,
    dir: TempDir,
}

impl Browser {
    /// Returns a browser that has shown a page; `None`, with a word on standard error, if there is
    /// none.
    ///
    /// # Panics
    /// If there is none although `SPIKELET_BROWSER=required`.
    pub fn find() -> Option<Self> {
        let found = Self::installed().and_then(|browser| browser.tried().map(|()| browser));
        let required =
            std::env::var_os("SPIKELET_BROWSER").is_some_and(|value| value == "required");
        match found {
            Ok(browser) => Some(browser),
            Err(reason) if required => panic!("{reason}"),
            Err(reason) => {
                // Not by `eprintln!`: the harness shows its text for failed tests only.
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

    /// Shows a page with a script that sets the title: some browsers do not start here, or may not
    /// read temporary files.
    fn tried(&self) -> Result<(), String> {
        let page = "<!DOCTYPE html><title>-</title><script>document.title = 6 * 7</script>";
        let output = self.run(&self.file("tried.html", page), false)?;
        let program = self.program.display();
        match title(&output.dom) {
            Some("42") => Ok(()),
            _ => Err(format!("{program} shows no page: {}", output.messages)),
        }
    }

    pub fn file(&self, name: &str, html: &str) -> PathBuf {
        let file = self.dir.path().join(name);
        std::fs::write(&file, html).unwrap();
        file
    }

    fn run(&self, file: &Path, dark: bool) -> Result<Shown, String> {
        self.open(&format!("file://{}", file.display()), dark, &[])
    }

    /// Opens an address with further arguments of the browser.
    fn open(&self, url: &str, dark: bool, arguments: &[&str]) -> Result<Shown, String> {
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
            .args(arguments)
            .arg(url)
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
    pub fn show(&self, file: &Path, dark: bool) -> Shown {
        let shown = self.run(file, dark).unwrap();
        assert!(!shown.messages.contains("CONSOLE"), "{}", shown.messages);
        shown
    }

    /// Shows what a server answers, after `time_ms` of the page's own time. It must leave nothing
    /// on the console.
    pub fn visit(&self, url: &str, dark: bool, time_ms: u32) -> Shown {
        let time = format!("--virtual-time-budget={time_ms}");
        let shown = self.open(url, dark, &[&time]).unwrap();
        assert!(!shown.messages.contains("CONSOLE"), "{}", shown.messages);
        shown
    }

    /// Shows a page in a frame of this width. Its scripts answer in the title of the page around
    /// it.
    pub fn ask_framed(&self, html: &str, width: u32, dark: bool) -> Value {
        let html = html.replace('&', "&amp;").replace('"', "&quot;");
        let around = format!(
            "<!DOCTYPE html><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\"><title>-</title>\
             <iframe srcdoc=\"{html}\" style=\"border: 0; width: {width}px; height: 900px\"></iframe>"
        );
        let shown = self.show(&self.file("around.html", &around), dark);
        let title = title(&shown.dom).unwrap();
        let title = title
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&");
        serde_json::from_str(&title).unwrap_or_else(|error| panic!("{error}: {title}"))
    }
}

/// A page as a browser has shown it.
pub struct Shown {
    /// The document after its scripts have run.
    pub dom: String,
    /// Standard error, the console's messages among them.
    pub messages: String,
}

pub fn title(dom: &str) -> Option<&str> {
    let (_, title) = dom.split_once("<title>")?;
    title.split_once("</title>").map(|(title, _)| title)
}

/// Red, green, blue.
pub fn brightness(colour: &Value) -> u32 {
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
