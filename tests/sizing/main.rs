//! `spikelet sizing`, from outside: its forms agree with each other, and its page is one that
//! browsers show.
//!
//! The tests of `browser` need a Chromium: without one they skip and say so, unless
//! `SPIKELET_BROWSER=required`.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod browser;
#[path = "../browser/mod.rs"]
mod browser_support;
mod golden;
mod page;
mod program;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const SMALL: &str = "tests/sizing/small.jsonl";

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .arg("sizing")
        .args(arguments)
        .output()
        .unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = run(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    assert!(
        stderr.is_empty(),
        "there is no terminal, so there is no progress bar: {stderr}"
    );
    String::from_utf8(output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Sizes with these arguments; returns the object that is printed, and the page that is written.
fn json_and_page(arguments: &[&str]) -> (Value, String) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("page.html");
    let forms = ["--json", "--html", path(&file)];
    let json = stdout(&[arguments, &forms].concat());
    let page = std::fs::read_to_string(&file).unwrap();
    (serde_json::from_str(&json).unwrap(), page)
}
