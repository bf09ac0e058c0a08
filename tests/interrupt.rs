//! Ctrl-C: measurements are shown up to the interrupt, no half of a backup stays, and a restore
//! reports its progress.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use spikelet::backup::{BackupError, BackupOptions, Restore, RestoreOptions, save};
use spikelet::{NamespaceConfig, Store};
use tempfile::TempDir;

const RECORDS: i64 = 6_000;
/// Interrupts until one falls into the work.
const ROUNDS_MAX: usize = 40;
/// The exit code of an interrupted program.
const INTERRUPTED: i32 = 130;

fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Interrupts a program as soon as this is so, or it has ended.
fn interrupt_when(mut running: Child, is_so: impl Fn() -> bool) -> Output {
    while running.try_wait().unwrap().is_none() && !is_so() {
        std::thread::yield_now();
    }
    if running.try_wait().unwrap().is_none() {
        let id = Pid::from_child(&running);
        kill_process(id, Signal::INT).unwrap();
    }
    running.wait_with_output().unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn files(dir: &Path) -> usize {
    std::fs::read_dir(dir).map_or(0, Iterator::count)
}

fn filled(dir: &Path) {
    let store = Store::open(dir).unwrap();
    fill(&store);
    store.close().unwrap();
}

fn fill(store: &Store) {
    let set = store.set("s").unwrap();
    for n in 0..RECORDS {
        set.put(n, [("text", "x".repeat(2_000))]).unwrap();
    }
}

#[test]
fn an_interrupted_measurement_shows_what_it_has() {
    let dir = TempDir::new().unwrap();
    let run = dir.path().join("run");
    let ledger = run.join("open-200_shards-1").join("ledger");
    let arguments = "contention --rate 200 --shards 1,8 --duration 600s --warm-up 0 --json --dir";
    let arguments: Vec<&str> = arguments.split(' ').chain([path(&run)]).collect();
    let has_begun = || std::fs::metadata(&ledger).is_ok_and(|file| file.len() > 2_000);
    let output = interrupt_when(start(&arguments), has_begun);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(INTERRUPTED), "{told}");
    assert!(
        told.contains("interrupted: the report is made of what was measured"),
        "{told}"
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cut = &report["interruption"];
    assert_eq!((&cut["wanted"], &cut["done"]), (&2.into(), &0.into()));
    let seconds = cut["partial_s"].as_f64().unwrap();
    assert!(seconds > 0.0 && seconds < 600.0, "{seconds}");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert!(rows[0]["acked"].as_u64().unwrap() > 10, "{}", rows[0]);
    assert_eq!(rows[0]["lost"], 0);
    // The rate is that of the time that was measured, and not of the 600 s that were wanted.
    let rate = rows[0]["offered_per_s"].as_f64().unwrap();
    assert!(rate > 5.0 && rate < 500.0, "{rate}");
    let said = report["verdict"]["sentence"].as_str().unwrap();
    assert!(said.contains("Interrupted: 0 of 2 measurements"), "{said}");
}

#[test]
fn an_interrupted_backup_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let (store, home) = (dir.path().join("store"), dir.path().join("home"));
    filled(&store);
    std::fs::create_dir(&home).unwrap();
    for name in ["one.asb", "many"] {
        let out = home.join(name);
        let is_cut = (0..ROUNDS_MAX).any(|_| {
            let running = start(&["backup", path(&store), "--out", path(&out)]);
            let output = interrupt_when(running, || files(&home) > 0);
            let told = text(&output.stderr);
            if output.status.code() == Some(INTERRUPTED) {
                assert!(told.contains("nothing was saved"), "{told}");
                assert_eq!(files(&home), 0, "{told}");
                return true;
            }
            assert_eq!(output.status.code(), Some(0), "{told}");
            if out.is_dir() {
                std::fs::remove_dir_all(&out).unwrap();
            } else {
                std::fs::remove_file(&out).unwrap();
            }
            false
        });
        assert!(is_cut, "{name}: no interrupt has met the backup");
    }
}

#[test]
fn a_restore_that_is_cut_goes_on_where_it_ended() {
    let dir = TempDir::new().unwrap();
    let (store, saved) = (dir.path().join("store"), dir.path().join("saved.asb"));
    filled(&store);
    let backup = start(&["backup", path(&store), "--out", path(&saved)]);
    assert!(backup.wait_with_output().unwrap().status.success());
    for round in 0..ROUNDS_MAX {
        let into = dir.path().join(format!("into-{round}"));
        let restore = ["restore", path(&saved), "--into", path(&into), "--json"];
        let output = interrupt_when(start(&restore), || into.join("test").exists());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        if report["interrupted"] != true {
            continue;
        }
        assert_eq!(output.status.code(), Some(INTERRUPTED));
        let before = report["restored"].as_u64().unwrap();
        let again = start(&restore).wait_with_output().unwrap();
        assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
        let report: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(report["fresher"], before);
        assert_eq!(report["restored"], RECORDS as u64 - before);
        return;
    }
    panic!("no interrupt has met the restore");
}

#[test]
fn the_library_ends_a_backup_and_a_restore_when_it_is_asked_to() {
    let dir = TempDir::new().unwrap();
    let mut config = NamespaceConfig::new("test");
    config.background = false;
    let store = Store::builder().namespace(config).open().unwrap();
    fill(&store);
    let file = dir.path().join("saved.asb");
    let cancel = Arc::new(AtomicBool::new(false));
    let mut options = BackupOptions::default();
    options.cancel = Some(Arc::clone(&cancel));
    let done = save(&store, &file, &options, &mut |records| {
        cancel.store(records > 100, Ordering::Relaxed);
    });
    assert!(matches!(done, Err(BackupError::Cancelled)), "{done:?}");
    assert_eq!(files(dir.path()), 0);
    save(&store, &file, &BackupOptions::default(), &mut |_| {}).unwrap();

    let into = Store::in_memory().unwrap();
    let restore = |cancelled: bool, cut_at: u64| {
        let cancel = Arc::new(AtomicBool::new(cancelled));
        let mut options = RestoreOptions::default();
        options.cancel = Some(Arc::clone(&cancel));
        let restore = Restore::prepare(&file, options, &mut |_, _| {})?;
        restore.run(&into, &mut |done, _| {
            cancel.store(done > cut_at, Ordering::Relaxed);
        })
    };
    let refused = restore(true, 0);
    assert!(
        matches!(refused, Err(BackupError::Cancelled)),
        "{refused:?}"
    );
    let cut = restore(false, 1_000_000).unwrap();
    assert!(
        cut.cancelled && cut.restored > 0 && cut.restored < RECORDS as u64,
        "{cut:?}"
    );
    let rest = restore(false, u64::MAX).unwrap();
    assert!(!rest.cancelled);
    assert_eq!(rest.restored + cut.restored, RECORDS as u64);
    assert_eq!(rest.fresher, cut.restored);
}
