//! `spikelet top`, from outside: of an embedded program, and of none.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use spikelet::monitor::Monitor;
use spikelet::{ShardedList, Store};

fn top(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .arg("top")
        .args(arguments)
        .output()
        .unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = top(arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn sharded(store: &Store) {
    let list = ShardedList::new(store, "feed", "bob", "by").unwrap();
    list.add(1).unwrap();
    list.shards().activate(4).unwrap();
}

#[test]
fn an_embedded_program_is_asked_for_what_its_monitor_says() {
    let store = Store::in_memory().unwrap();
    sharded(&store);
    let monitor = Monitor::builder(&store).listen("127.0.0.1:0").unwrap();
    let monitor = monitor.start().unwrap();
    let addr = monitor.addr().to_string();
    let seen = json(&top(&["--host", &addr, "--json"]));
    assert_eq!(seen["schema_version"], 1);
    assert!(seen["interval_ms"].as_u64() > Some(0), "{seen}");
    let namespace = &seen["namespaces"][0];
    assert_eq!(namespace["collections"][0]["shards"], 4);
    assert_eq!(namespace["transitions"][0]["transition"], "activating");
    assert_eq!(namespace["key_busy_per_s"], 0.0);
    // As text; once, since the output is no terminal.
    let text = String::from_utf8(top(&["--host", &addr]).stdout).unwrap();
    for expected in [
        &*format!("Hot records of {addr}"),
        "in 4 shards",
        "activating from one record",
        "no writer has waited",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

/// Returns both ends of a terminal: the one that a person would see, and the program's.
fn terminal() -> (File, File) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let name = OsStr::from_bytes(name.to_bytes());
    let other_end = File::options().read(true).write(true).open(name).unwrap();
    (File::from(terminal), other_end)
}

/// Reads from a terminal until it has shown this.
fn read_until(terminal: &mut File, shown: &mut Vec<u8>, wanted: &str) {
    let from = shown.len();
    while !String::from_utf8_lossy(&shown[from..]).contains(wanted) {
        let mut chunk = [0; 4096];
        let read = terminal.read(&mut chunk).unwrap();
        shown.extend_from_slice(&chunk[..read]);
    }
}

#[test]
fn on_a_terminal_it_redraws_in_place_and_keys_sort_and_end_it() {
    let store = Store::in_memory().unwrap();
    sharded(&store);
    let monitor = Monitor::builder(&store).listen("127.0.0.1:0").unwrap();
    let monitor = monitor.start().unwrap();
    let addr = monitor.addr().to_string();
    let (mut terminal, other_end) = terminal();
    let mut program = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(["top", "--host", &addr, "--seconds", "3600"])
        .stdin(other_end.try_clone().unwrap())
        .stdout(other_end.try_clone().unwrap())
        .stderr(other_end)
        .spawn()
        .unwrap();
    let mut shown = Vec::new();
    read_until(&mut terminal, &mut shown, "q: end");
    // The next look is in an hour: it is the key that draws again.
    terminal.write_all(b"w").unwrap();
    read_until(&mut terminal, &mut shown, "q: end");
    terminal.write_all(b"q").unwrap();
    let ended = program.wait().unwrap();
    let shown = String::from_utf8_lossy(&shown);
    assert!(ended.success(), "{shown}");
    assert_eq!(
        shown.matches("\x1b[2J").count(),
        1,
        "cleared once: {shown:?}"
    );
    assert!(shown.matches("\x1b[H").count() >= 2, "{shown:?}");
    for expected in ["Operations", "in 4 shards", "a second"] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}

#[test]
fn what_is_no_monitor_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    for (answer, expected) in [
        ("nonsense", "does not speak HTTP"),
        (
            "HTTP/1.1 404 Not Found\r\n\r\nnothing here",
            "\"HTTP/1.1 404 Not Found\": nothing here",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            "something else than a monitor",
        ),
    ] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                // To its end: unread bytes would reset the connection.
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    request.extend(byte);
                }
                stream.write_all(answer.as_bytes()).unwrap();
            });
            let error = refused(&["--host", &addr, "--once"]);
            assert!(error.contains(expected), "{error}");
        });
    }
    drop(listener);
    let error = refused(&["--host", &addr, "--once"]);
    assert!(
        error.contains("cannot ask") && error.contains(&addr),
        "{error}"
    );
    assert!(refused(&["--host", "http://a"]).contains("without http://"));
    assert!(refused(&[]).contains("--host"));
}

#[test]
#[cfg(not(feature = "server"))]
fn serve_says_that_it_is_not_in_this_build() {
    let output = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(["serve", "--memory", "--namespace", "a"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("built without `serve`"), "{error}");
}

#[test]
fn words_have_colours_on_a_terminal_unless_no_color_is_set() {
    for (no_color, expected) in [("", "\x1b[1;32mOK\x1b[0m: "), ("1", "\r\n  OK: ")] {
        let (mut terminal, other_end) = terminal();
        let mut program = Command::new(env!("CARGO_BIN_EXE_spikelet"))
            .args(["contention", "--virtual", "--rate", "25", "--shards", "1"])
            .env("NO_COLOR", no_color)
            .env("TERM", "xterm")
            .stdout(other_end)
            .spawn()
            .unwrap();
        let mut shown = Vec::new();
        // It ends with an error: the program has closed its end.
        let _ = terminal.read_to_end(&mut shown);
        assert!(program.wait().unwrap().success());
        let shown = String::from_utf8_lossy(&shown);
        assert!(shown.contains(expected), "{expected:?}: {shown:?}");
    }
}
