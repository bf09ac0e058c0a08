//! Stores that are damaged, in use or missing.

use std::io::Write;
use std::path::Path;

use serde_json::Value;
use spikelet::Store;
use tempfile::TempDir;

use super::{json, load, path, run, text};

/// Changes a byte of every place in a file that holds this text.
fn damage(file: &Path, text: &str) -> usize {
    let mut bytes = std::fs::read(file).unwrap();
    let places: Vec<usize> = (0..bytes.len() - text.len())
        .filter(|at| bytes[*at..].starts_with(text.as_bytes()))
        .collect();
    for at in &places {
        bytes[*at] ^= 0x20;
    }
    std::fs::write(file, bytes).unwrap();
    places.len()
}

#[test]
fn verify_finds_a_byte_that_was_changed() {
    let dir = TempDir::new().unwrap();
    load(dir.path(), "someone-unmistakable bob\nbob eve\n");
    let sound = json(&["verify", path(dir.path())], b"");
    assert_eq!(
        (
            sound["damaged"].as_bool(),
            sound["namespaces"][0]["records"].as_u64()
        ),
        (Some(false), Some(4))
    );

    assert!(damage(&dir.path().join("demo/device-0"), "someone-unmistakable") > 0);
    let output = run(&["verify", path(dir.path()), "--json"], b"");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["damaged"].as_bool(), Some(true));
    assert!(
        found["namespaces"][0]["places"][0]["offset"].as_u64() > Some(0),
        "{found}"
    );
    let output = run(&["verify", path(dir.path())], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("DAMAGED"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn a_store_too_damaged_to_be_opened_is_damaged() {
    let dir = TempDir::new().unwrap();
    load(dir.path(), "1 2\n");
    let device = dir.path().join("demo/device-0");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .open(&device)
        .unwrap();
    // The first copy of the header alone is damage, and no more.
    file.write_all(&[0xff; 4096]).unwrap();
    let output = run(&["verify", path(dir.path())], b"");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    // The second one, too.
    file.write_all(&[0xff; 12 << 10]).unwrap();
    drop(file);
    let output = run(&["verify", path(dir.path()), "--json"], b"");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let what = found["namespaces"][0]["places"][0]["what"].as_str();
    assert!(what.unwrap().contains("device-0"), "{found}");
    assert_eq!(run(&["stat", path(dir.path())], b"").status.code(), Some(2));
}

#[test]
fn a_store_in_use_or_missing_is_told_and_is_not_called_damaged() {
    let dir = TempDir::new().unwrap();
    for command in ["stat", "verify"] {
        let output = run(&[command, path(&dir.path().join("nowhere"))], b"");
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(
            text(&output.stderr).contains("nowhere"),
            "{}",
            text(&output.stderr)
        );
    }
    let _store = Store::open(dir.path()).unwrap();
    for command in ["stat", "verify"] {
        let output = run(&[command, path(dir.path())], b"");
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(
            text(&output.stderr).contains("in use"),
            "{}",
            text(&output.stderr)
        );
    }
}
