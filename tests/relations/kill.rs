//! Kills a process in the middle of its work. The child is this test binary, started again for one
//! of its tests with [`CHILD_DIR`] set.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CHILD_DIR: &str = "SPIKELET_RELATIONS_KILL_TEST_DIR";
const PROGRESS: &str = "still writing";

/// Returns where a child works; `None` in the parent.
pub fn child_dir() -> Option<PathBuf> {
    std::env::var_os(CHILD_DIR).map(PathBuf::from)
}

/// Reports progress to the parent.
pub fn tell_progress() {
    println!("{PROGRESS}");
}

/// Runs a test as a child until it has printed `lines` lines, and kills it.
pub fn killed_after(lines: usize, test: &str, dir: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap()).lines();
    // Kept until the kill, so that the child can go on writing to it.
    let mut progress = output
        .map_while(Result::ok)
        .filter(|line| line.contains(PROGRESS));
    let seen = progress.by_ref().take(lines).count();
    assert_eq!(seen, lines, "the child has ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
}
