//! `spikelet changes`, from outside.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::path::Path;
use std::process::{Command, Output};

use spikelet::{DEFAULT_NAMESPACE, Store};

fn run(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .arg("changes")
        .arg(dir)
        .args(arguments)
        .output()
        .unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_changes_of_a_closed_store_are_printed_from_a_position_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let changes = store.namespace(DEFAULT_NAMESPACE).unwrap().changes();
    let (users, orders) = (store.set("users").unwrap(), store.set("orders").unwrap());
    users.put("before", [("age", 1)]).unwrap();
    store.close().unwrap();
    drop((users, orders, changes, store));
    assert!(refusal(&run(dir.path(), &[])).contains("no set of namespace"));

    let store = Store::open(dir.path()).unwrap();
    assert!(refusal(&run(dir.path(), &[])).contains("in use"));
    let changes = store.namespace(DEFAULT_NAMESPACE).unwrap().changes();
    changes.enable("users").unwrap();
    changes.enable("orders").unwrap();
    let (users, orders) = (store.set("users").unwrap(), store.set("orders").unwrap());
    users.put("alice", [("age", 1)]).unwrap();
    users.put("alice", [("age", 2)]).unwrap();
    orders.put(7, [("total", 99)]).unwrap();
    users.delete("alice").unwrap();
    users.truncate(None).unwrap();
    drop((users, orders, changes, store));
    let unclosed = refusal(&run(dir.path(), &[]));
    assert!(unclosed.contains("was not closed"), "{unclosed}");
    Store::open(dir.path()).unwrap().close().unwrap();

    let all = lines(&run(dir.path(), &["--json"]));
    let all: Vec<serde_json::Value> = all
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<_> = all
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["put", "put", "put", "delete", "truncate"]);
    assert_eq!(all[1]["generation"], 2);
    assert_eq!(all[3]["key"], all[0]["key"]);
    assert_eq!(all[4]["set"], "users");
    assert!(all[4]["digest"].is_null());
    let position = all[1]["position"].as_str().unwrap();
    assert_eq!(lines(&run(dir.path(), &["--from", position])).len(), 3);
    let of_orders = lines(&run(dir.path(), &["--set", "orders"]));
    assert_eq!(of_orders.len(), 1);
    assert!(of_orders[0].contains("put      orders"), "{of_orders:?}");
    assert!(refusal(&run(dir.path(), &["--from", "x"])).contains("no position"));
    assert!(refusal(&run(dir.path(), &["--set", "nobody"])).contains("not kept"));
}
