//! `spikelet contention`, from outside.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod arguments;
mod forms;
mod golden;
mod judging;
mod killed;

use std::process::{Command, Output};

use serde_json::Value;

/// Runs `spikelet contention` with these arguments, separated by spaces.
fn run(arguments: &str) -> Output {
    run_each(&arguments.split_whitespace().collect::<Vec<_>>())
}

fn run_each(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .arg("contention")
        .args(arguments)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn text(arguments: &str) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output).to_owned()
}

/// The words of a report, however its lines are broken.
fn words(arguments: &str) -> String {
    let text = text(arguments);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(arguments: &str) -> Value {
    serde_json::from_str(&text(&format!("{arguments} --json"))).unwrap()
}

/// Six rows.
const VIRTUAL: &str = "--virtual --rate 50,200 --shards 1,8,hourly --duration 60";
