//! Instructions of small operations on a store in memory, counted by callgrind, which repeats to a
//! few per cent under any other load of the machine. Each operation is run under `valgrind` with
//! two numbers of repetitions; the difference is what the repetitions cost. Fails where a limit is
//! exceeded.
//!
//! ```console
//! cargo bench --bench instructions [-- NAME..]
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::hint::black_box;
use std::ops::ControlFlow;
use std::process::{Command, ExitCode};

use spikelet::changes::{ChangeOptions, Start};
use spikelet::expressions::{int_bin, lt};
use spikelet::operations::lists;
use spikelet::query::IndexDefinition;
use spikelet::relation::ManyToMany;
use spikelet::{
    DEFAULT_NAMESPACE, ListOrder, ListPolicy, ListReturnType, ListWriteFlags, NamespaceConfig,
    Operation, Set, Store, Transaction, Value, bins,
};
use spikelet_storage::{Digest, Namespace, NewVersion, Options, Storage};

#[allow(
    clippy::indexing_slicing,
    reason = "its log is indexed by offsets of its own"
)]
mod floor;

use floor::Floor;

const FEW: u64 = 1_000;
const MANY: u64 = 11_000;
const NODES: i64 = 400;
/// Records of a set that is scanned once with [`MANY`] repetitions and not at all with [`FEW`]: the
/// difference is one record's.
const SCANNED: u64 = MANY - FEW;

/// An operation, how often it may be repeated, and the instructions that one may take.
struct Measured {
    name: &'static str,
    limit: u64,
    run: fn(&Store, &Set, u64),
}

const MEASURED: &[Measured] = &[
    Measured {
        name: "get",
        limit: 1_140,
        run: |_, set, times| {
            for _ in 0..times {
                black_box(set.get(black_box("hundred")).unwrap());
            }
        },
    },
    Measured {
        name: "read",
        limit: 915,
        run: |_, set, times| {
            for _ in 0..times {
                let len = set.read(black_box("hundred"), |record| record.len());
                black_box(len.unwrap());
            }
        },
    },
    Measured {
        name: "put",
        limit: 3_960,
        run: |_, set, times| {
            for _ in 0..times {
                let hundred = Value::from([7_u8; 100].as_slice());
                set.put(black_box("hundred"), [("bin", hundred)]).unwrap();
            }
        },
    },
    // The part of a put below the engine: locking, logging and publishing these bytes.
    Measured {
        name: "storage put",
        limit: 2_030,
        run: put_to_storage,
    },
    Measured {
        name: "put-followed",
        limit: 3_960,
        run: |_, set, times| {
            for _ in 0..times {
                let hundred = Value::from([7_u8; 100].as_slice());
                set.put(black_box("hundred"), [("bin", hundred)]).unwrap();
            }
        },
    },
    Measured {
        name: "two puts in a transaction",
        limit: 12_940,
        run: |store, set, times| {
            for _ in 0..times {
                let hundred = || Value::from([7_u8; 100].as_slice());
                let put_both = |tx: &Transaction<'_>| {
                    let set = tx.in_set(set)?;
                    set.put(black_box("hundred"), [("bin", hundred())])?;
                    set.put(black_box("other"), [("bin", hundred())])
                };
                store.transaction(put_both).unwrap();
            }
        },
    },
    Measured {
        name: "two puts together",
        limit: 10_230,
        run: |store, set, times| {
            for _ in 0..times {
                let hundred = || Value::from([7_u8; 100].as_slice());
                let results = store.write_together(|writes| {
                    writes.put(set, black_box("hundred"), [("bin", hundred())]);
                    writes.put(set, black_box("other"), [("bin", hundred())]);
                });
                black_box(results.unwrap());
            }
        },
    },
    Measured {
        name: "one link",
        limit: 18_620,
        run: link_edges,
    },
    Measured {
        name: "an edge of many",
        limit: 12_500,
        run: link_many,
    },
    Measured {
        name: "put-indexed",
        limit: 9_880,
        run: put_by_turns,
    },
    Measured {
        name: "put by turns",
        limit: 4_920,
        run: put_by_turns,
    },
    // No bytes of the value before are left, which an edit would keep.
    Measured {
        name: "put of other 1 KiB",
        limit: 7_000,
        run: put_other_kibibyte,
    },
    // Of a record that the query shows.
    Measured {
        name: "query-indexed",
        limit: 1_440,
        run: |_, set, times| {
            let mut bytes = 0;
            for _ in 0..times / 1_000 {
                let query = set.query("by_parent").unwrap();
                let query = query.at_least("parent-000000100").limit(1_000);
                let ended = query.for_each(|record| {
                    bytes += record.unwrap().stored_bytes;
                    ControlFlow::<()>::Continue(())
                });
                assert!(ended.unwrap().is_continue());
            }
            black_box(bytes);
        },
    },
    // Of a record that the filter keeps back; among them is the part of the visits of partitions.
    Measured {
        name: "filtered scan",
        limit: 1_240,
        run: |_, set, times| {
            for number in 0..SCANNED {
                let bins =
                    bins! { "parent" => "parent-000000100", "role" => 0, "n" => number as i64 };
                set.put(number as i64, bins).unwrap();
            }
            let filtered = set.filtered(lt(int_bin("n"), 0)).unwrap();
            for _ in 0..times / MANY {
                let ended = filtered.scan(|record| ControlFlow::Break(record.is_ok()));
                assert!(ended.is_continue());
            }
        },
    },
    Measured {
        name: "contains",
        limit: 1_960,
        run: |_, set, times| {
            for at in 0..times {
                let operation =
                    lists::get_by_value("list", (at % 16) as i64, ListReturnType::Exists);
                black_box(set.operate(black_box("eight"), &[operation]).unwrap());
            }
        },
    },
    Measured {
        name: "contains prepared",
        limit: 1_640,
        run: |_, set, times| {
            let operation = [lists::get_by_value("list", 7, ListReturnType::Exists)];
            for _ in 0..times {
                black_box(set.operate(black_box("eight"), &operation).unwrap());
            }
        },
    },
    Measured {
        name: "range",
        limit: 2_660,
        run: |_, set, times| {
            for _ in 0..times {
                let operation =
                    lists::get_by_index_range_count("list", 0, 5, ListReturnType::Values);
                black_box(set.operate(black_box("eight"), &[operation]).unwrap());
            }
        },
    },
    Measured {
        name: "append",
        limit: 4_880,
        run: |_, set, times| {
            let unique = unique();
            for at in 0..times {
                let operation = lists::append(&unique, "list", (at % 8) as i64);
                black_box(set.operate(black_box("eight"), &[operation]).unwrap());
            }
        },
    },
    Measured {
        name: "append and remove",
        limit: 11_950,
        run: |_, set, times| {
            let unique = unique();
            for _ in 0..times {
                let append = lists::append(&unique, "list", 100);
                black_box(set.operate(black_box("eight"), &[append]).unwrap());
                let remove = lists::remove_by_value("list", 100, ListReturnType::Count);
                black_box(set.operate(black_box("eight"), &[remove]).unwrap());
            }
        },
    },
    Measured {
        name: "counter",
        limit: 4_540,
        run: |_, set, times| {
            for _ in 0..times {
                let add = spikelet::operations::add("count", 1);
                black_box(set.operate(black_box("counter"), &[add]).unwrap());
            }
        },
    },
    Measured {
        name: "does A follow B",
        limit: 3_010,
        run: ask_edges,
    },
    Measured {
        name: "page of 8 followers",
        limit: 19_030,
        run: fetch_followers,
    },
    Measured {
        name: "two hops",
        limit: 45_300,
        run: go_two_hops,
    },
    // Prototypes that do what the promises need and nothing else.
    Measured {
        name: "floor of get",
        limit: 445,
        run: |_, _, times| {
            let mut floor = Floor::new();
            floor.put("hundred", "bin", hundred());
            for _ in 0..times {
                black_box(floor.get(black_box("hundred")).unwrap());
            }
        },
    },
    Measured {
        name: "floor of contains",
        limit: 370,
        run: |_, _, times| {
            let mut floor = Floor::new();
            for at in 0..8 {
                floor.append(["eight"], ["list"], [at]);
            }
            for _ in 0..times {
                black_box(
                    floor
                        .contains(black_box("eight"), "list", black_box(7))
                        .unwrap(),
                );
            }
        },
    },
    Measured {
        name: "floor of put",
        limit: 1_310,
        run: |_, _, times| {
            let mut floor = Floor::new();
            for _ in 0..times {
                black_box(floor.put(black_box("hundred"), "bin", hundred()));
            }
        },
    },
    Measured {
        name: "floor of append",
        limit: 1_240,
        run: |_, _, times| {
            let mut floor = Floor::new();
            for at in 0..times {
                black_box(floor.append([black_box("eight")], ["list"], [at as u16 % 8]));
            }
        },
    },
    Measured {
        name: "floor of counter",
        limit: 1_120,
        run: |_, _, times| {
            let mut floor = Floor::new();
            for _ in 0..times {
                black_box(floor.count(black_box("counter"), "count"));
            }
        },
    },
    Measured {
        name: "floor of two puts",
        limit: 2_830,
        run: |_, _, times| {
            let mut floor = Floor::new();
            for _ in 0..times {
                let keys = [black_box("hundred"), black_box("other")];
                black_box(floor.put_both(keys, "bin", [hundred(), hundred()]));
            }
        },
    },
    Measured {
        name: "floor of one link",
        limit: 3_350,
        run: link_on_floor,
    },
];

fn hundred() -> Value {
    Value::from([7_u8; 100].as_slice())
}

/// A graph of 400 nodes that follow 8 others each, in one set.
fn follows(store: &Store) -> ManyToMany<&Store> {
    let follows = ManyToMany::new(
        store,
        "follows",
        ("nodes", "following"),
        ("nodes", "followers"),
    );
    let nodes = store.set("nodes").unwrap();
    for node in 0..NODES {
        let hundred = Value::from([7_u8; 100].as_slice());
        nodes.put(node, [("bin", hundred)]).unwrap();
    }
    for node in 0..NODES {
        for step in 1..=8 {
            follows.link(node, (node + step * step) % NODES).unwrap();
        }
    }
    follows
}

fn put_to_storage(_: &Store, _: &Set, times: u64) {
    let mut options = Options::new("floor", Storage::Memory);
    options.background = false;
    options.write_lanes = 1;
    options.max_device_bytes = 128 << 20;
    let (namespace, _) = Namespace::open(options).unwrap();
    let digest = Digest::new([7; Digest::LEN]);
    let payload = [7; 108];
    for at in 0..times {
        let version = NewVersion {
            generation: 1,
            void_time: 0,
            last_update_ms: at,
            set_id: 0,
            key: Some(b"\x03hundred"),
            payload: &payload,
        };
        let lock = namespace.lock(black_box(&digest), None).unwrap();
        black_box(lock.put(&version).unwrap());
    }
}

fn ask_edges(store: &Store, _: &Set, times: u64) {
    let follows = follows(store);
    for at in 0..times as i64 {
        let (source, target) = (at % NODES, (at + at % 30) % NODES);
        black_box(follows.contains(source, target).unwrap());
    }
}

/// Links nodes with lists that grow from 8 to about 30 keys.
fn link_edges(store: &Store, _: &Set, times: u64) {
    let follows = follows(store);
    for at in 0..times as i64 {
        let (source, step) = (at % NODES, 100 + at / NODES);
        assert!(follows.link(source, (source + step) % NODES).unwrap());
    }
}

/// Links as many nodes as there are edges in one batch: each gets two ends or so.
fn link_many(store: &Store, _: &Set, times: u64) {
    let nodes = MANY as i64;
    let follows = ManyToMany::new(
        store,
        "follows",
        ("nodes", "following"),
        ("nodes", "followers"),
    );
    let set = store.set("nodes").unwrap();
    for node in 0..nodes {
        set.put(node, [("bin", hundred())]).unwrap();
    }
    // Steps without a common divisor: no edge comes twice.
    let edges = (0..times as i64).map(|at| (at * 7 % nodes, at * 4_001 % nodes));
    let progress = follows
        .link_all(edges, |_| ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(progress.new, times);
}

/// As [`link_edges`]: the same records, lists and edges.
fn link_on_floor(_: &Store, _: &Set, times: u64) {
    let mut floor = Floor::new();
    let names: Vec<String> = (0..NODES).map(|node| format!("{node:08}")).collect();
    for name in &names {
        floor.put(name, "bin", hundred());
    }
    let mut link = |source: i64, target: i64| {
        let keys = [source, target].map(|node| names.get(node as usize).unwrap().as_str());
        let bins = ["following", "followers"];
        black_box(floor.append(keys, bins, [target as u16, source as u16]));
    };
    for node in 0..NODES {
        for step in 1..=8 {
            link(node, (node + step * step) % NODES);
        }
    }
    for at in 0..times as i64 {
        let (source, step) = (at % NODES, 100 + at / NODES);
        link(source, (source + step) % NODES);
    }
}

fn fetch_followers(store: &Store, _: &Set, times: u64) {
    let follows = follows(store);
    for at in 0..times as i64 {
        let page = follows
            .sources(at % NODES)
            .fetch_after(None, 50, Some(&["bin"]));
        assert_eq!(page.unwrap().len(), 8);
    }
}

fn go_two_hops(store: &Store, _: &Set, times: u64) {
    let follows = follows(store);
    for at in 0..times as i64 {
        let mut reached = 0;
        let traversal = follows.targets(at % NODES).traverse();
        let end = traversal.breadth_first(|_, _, _| {
            reached += 1;
            ControlFlow::Continue(())
        });
        black_box((end.unwrap(), reached));
    }
}

fn put_other_kibibyte(_: &Store, set: &Set, times: u64) {
    let values = [1, 2].map(|seed| {
        let bytes = (1..=1024_u64).map(|at| (at * seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56);
        bytes.map(|byte| byte as u8).collect::<Vec<u8>>()
    });
    for value in values.iter().cycle().take(times as usize) {
        set.put(black_box("large"), [("bin", Value::from(value.as_slice()))])
            .unwrap();
    }
}

/// Puts of two texts by turns: with an index of them, an entry is added and one removed each time.
fn put_by_turns(_: &Store, set: &Set, times: u64) {
    for at in 0..times {
        let parent = format!("parent-{:09}", at % 2 * 9_000);
        set.put(black_box("turns"), [("parent", parent)]).unwrap();
    }
}

fn unique() -> ListPolicy {
    ListPolicy::new(
        ListOrder::Ordered,
        ListWriteFlags::ADD_UNIQUE | ListWriteFlags::NO_FAIL,
    )
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--run", name, times] => {
            repeat(name, times.parse().unwrap());
            ExitCode::SUCCESS
        }
        ref names => count_all(names),
    }
}

/// Runs one operation `times` times, under valgrind.
fn repeat(name: &str, times: u64) {
    let measured = MEASURED.iter().find(|measured| measured.name == name);
    let store = store();
    let set = store.set("bench").unwrap();
    if name.ends_with("-followed") {
        let changes = store.namespace(DEFAULT_NAMESPACE).unwrap().changes();
        changes.enable("bench").unwrap();
        let options = ChangeOptions::default();
        changes.subscribe("idle", Start::Now, options).unwrap();
    }
    if name.ends_with("-indexed") {
        set.create_index(IndexDefinition::new("by_parent", ["parent"]))
            .unwrap();
        // Some hundred leaves.
        for number in 0..10_000 {
            set.put(number, [("parent", format!("parent-{number:09}"))])
                .unwrap();
        }
    }
    let eight: Vec<Operation> = (0..8)
        .map(|at| lists::append(&unique(), "list", at))
        .collect();
    set.operate("eight", &eight).unwrap();
    set.put("hundred", bins! { "bin" => [7_u8; 100].as_slice() })
        .unwrap();
    set.put("counter", bins! { "count" => 0 }).unwrap();
    (measured.expect("named by this program").run)(&store, &set, times);
}

/// A store in memory without threads of its own, which would be counted, too.
fn store() -> Store {
    let config = NamespaceConfig::new(DEFAULT_NAMESPACE)
        .background(false)
        .write_lanes(1)
        .max_device_bytes(128 << 20);
    Store::builder().namespace(config).open().unwrap()
}

fn count_all(names: &[&str]) -> ExitCode {
    let asked = |measured: &&Measured| {
        let wanted: Vec<&&str> = names.iter().filter(|name| !name.starts_with('-')).collect();
        wanted.is_empty() || wanted.iter().any(|name| measured.name.starts_with(**name))
    };
    let mut failed = false;
    println!("{:<20} {:>12} {:>8}", "operation", "instructions", "limit");
    for measured in MEASURED.iter().filter(asked) {
        let one = (count(measured, MANY) - count(measured, FEW)) / (MANY - FEW);
        let verdict = if one > measured.limit {
            "  EXCEEDED"
        } else {
            ""
        };
        failed |= one > measured.limit;
        println!(
            "{:<20} {one:>12} {:>8}{verdict}",
            measured.name, measured.limit
        );
    }
    ExitCode::from(u8::from(failed))
}

/// The instructions of a whole process.
fn count(measured: &Measured, times: u64) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["--run", measured.name, &times.to_string()])
        .output()
        .expect("valgrind counts instructions: install it by the system's packages");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the counted run failed: {report}");
    report
        .lines()
        .find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
        .unwrap_or_else(|| panic!("valgrind counted nothing: {report}"))
}
