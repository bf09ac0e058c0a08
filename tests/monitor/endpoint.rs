//! The endpoint's answers.

use std::collections::{HashMap, HashSet};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use spikelet::changes::{ChangeOptions, Start};
use spikelet::monitor::Monitor;
use spikelet::operations::{add, put};
use spikelet::policy::GenerationPolicy;
use spikelet::query::IndexDefinition;
use spikelet::{Error, Key, NamespaceConfig, ShardedList, Store, WritePolicy};

use super::{HOT, fight, get, look, look_until, monitor, store};

#[test]
fn hot_records_are_told_with_their_set_size_and_rates() {
    let store = store();
    let monitor = monitor(&store);
    fight(&store, HOT);
    let snapshot = look_until(monitor.addr(), |snapshot| {
        let hot = snapshot.namespaces[0].hot.first();
        hot.is_some_and(|hot| hot.writes_per_s.is_some() && hot.key_busy > 0)
    });
    assert!(snapshot.interval_ms > Some(0));
    let namespace = &snapshot.namespaces[0];
    assert_eq!((namespace.name.as_str(), namespace.records), ("test", 1));
    assert!(namespace.waits > 0 && namespace.key_busy > 0);
    let [hot] = &namespace.hot[..] else {
        panic!("{namespace:?}");
    };
    assert_eq!(
        (hot.key.as_deref(), hot.set.as_deref()),
        (Some(HOT), Some("feed"))
    );
    assert_eq!(
        hot.digest,
        store.set("feed").unwrap().digest(HOT).to_string()
    );
    assert!(hot.waits > 0 && hot.bytes > Some(20_000));
    assert_eq!((hot.shards, &hot.companion_of), (Some(0), &None));
    assert!(hot.waits_per_s.is_some() && hot.key_busy_per_s.is_some());
    // A record that is gone is still told, by its digest.
    store.set("feed").unwrap().delete(HOT).unwrap();
    let gone = look_until(monitor.addr(), |now| {
        now.namespaces[0].hot[0].bytes.is_none()
    });
    let gone = &gone.namespaces[0].hot[0];
    assert_eq!(
        (&gone.key, &gone.set, &gone.digest),
        (&None, &None, &hot.digest)
    );
}

#[test]
fn shards_and_their_transitions_are_told_as_they_are_and_as_they_happened() {
    let store = store();
    let monitor = monitor(&store);
    let list = ShardedList::new(&store, "feed", "bob", "by").unwrap();
    list.add(1).unwrap();
    assert_eq!(look(monitor.addr()).namespaces[0].transitions, []);
    list.shards().activate(4).unwrap();
    list.shards().split().unwrap();
    let snapshot = look_until(monitor.addr(), |now| {
        now.namespaces[0].transitions.len() == 2
    });
    let namespace = &snapshot.namespaces[0];
    let told: Vec<_> = namespace
        .transitions
        .iter()
        .map(|one| {
            (
                &*one.key,
                &*one.transition,
                one.shards,
                one.done,
                one.total,
                one.ended,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("bob", "splitting", 4, 4, 4, true),
            ("bob", "activating", 0, 4, 4, true)
        ]
    );
    let [collection] = &namespace.collections[..] else {
        panic!("{namespace:?}");
    };
    assert_eq!((&*collection.bin, collection.shards), ("by", Some(8)));
    assert_eq!(
        (&*collection.scheme, collection.in_transition),
        ("in 8 shards", false)
    );
    // One that its caller leaves stays under way until the next writer.
    let leave = |_| std::ops::ControlFlow::Break(());
    let left = list.shards().on_progress(leave).merge();
    assert!(left.unwrap().transition.is_some());
    let is_left =
        |now: &spikelet::monitor::StoreSnapshot| now.namespaces[0].collections[0].in_transition;
    let under_way = look_until(monitor.addr(), is_left);
    let first = &under_way.namespaces[0].transitions[0];
    assert_eq!((&*first.transition, first.ended), ("merging", false));
    list.shards().advance().unwrap();
    look_until(monitor.addr(), |now| now.namespaces[0].transitions[0].ended);
    assert_eq!(list.shards().deactivate().unwrap().shards, 0);
    look_until(monitor.addr(), |now| {
        now.namespaces[0].collections.is_empty()
    });
}

/// An integer, a text and bytes that are shown alike are the keys of three records.
#[test]
fn collections_under_keys_that_look_alike_have_samples_of_their_own() {
    let store = store();
    let monitor = monitor(&store);
    for key in [Key::from(5), Key::from("5"), Key::from(b"5".to_vec())] {
        let list = ShardedList::new(&store, "feed", key, "by").unwrap();
        list.add(1).unwrap();
        list.shards().activate(2).unwrap();
    }
    look_until(monitor.addr(), |now| {
        now.namespaces[0].collections.len() == 3
    });
    let (_, body) = get(monitor.addr(), "/metrics");
    let (_, samples) = parse(&body, false);
    let of_shards = samples
        .iter()
        .filter(|one| one.name == "spikelet_collection_shards");
    let labels: HashSet<_> = of_shards.map(|one| format!("{:?}", one.labels)).collect();
    assert_eq!(labels.len(), 3, "{labels:?}");
}

#[test]
fn a_hot_companion_names_its_root_and_shows_how_that_is_sharded() {
    let store = store();
    let monitor = monitor(&store);
    let list = ShardedList::new(&store, "feed", "bob", "by").unwrap();
    list.add(1).unwrap();
    list.shards().activate(2).unwrap();
    let companion = spikelet::shard::sharded_collections(&store.set("feed").unwrap()).unwrap()[0]
        .companions[0]
        .clone();
    let spikelet::Key::String(key) = &companion.key else {
        panic!("{companion:?}");
    };
    let namespace = store.namespace("test").unwrap();
    let (set, done) = (
        store.set("feed").unwrap(),
        std::sync::atomic::AtomicBool::new(false),
    );
    let own = spikelet::WritePolicy::default().override_shards(true);
    let long: Vec<i64> = (0..20_000).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = set.operate_with(
                        &own,
                        key.as_ref(),
                        &[spikelet::operations::put("other", long.clone())],
                    );
                    let met = namespace.hot_records(1).len() == 1;
                    done.fetch_or(met, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    let snapshot = look_until(monitor.addr(), |now| !now.namespaces[0].hot.is_empty());
    let hot = &snapshot.namespaces[0].hot[0];
    let of = hot.companion_of.as_ref().unwrap();
    assert_eq!((of.key.as_str(), of.shard), ("bob", companion.shard));
    assert_eq!(snapshot.namespaces[0].collections[0].shards, Some(2));
}

/// A sample of Prometheus' text form.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// Reads the text form strictly: HELP and TYPE once and before the samples of their metric, which
/// stand together; names and labels of the allowed letters; labels escaped; no sample twice. Names
/// of counters end in `_total`, in OpenMetrics where a sample has them.
fn parse(text: &str, is_open: bool) -> (HashMap<String, String>, Vec<Sample>) {
    let text = if is_open {
        text.strip_suffix("# EOF\n").unwrap()
    } else {
        text
    };
    assert!(text.ends_with('\n'));
    let is_name = |name: &str| {
        let mut chars = name.chars();
        chars
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
            && chars.all(|char| char.is_ascii_alphanumeric() || char == '_')
    };
    let (mut kinds, mut helped, mut samples) = (HashMap::new(), HashSet::new(), Vec::new());
    let mut seen = HashSet::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(is_name(name) && !help.is_empty() && helped.insert(name.to_owned()));
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(helped.contains(name), "{line}");
            let name = &match (kind, is_open) {
                ("counter", true) => format!("{name}_total"),
                _ => name.to_owned(),
            };
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(
                kinds.insert(name.to_owned(), kind.to_owned()).is_none(),
                "{line}"
            );
            current = name.to_owned();
            continue;
        }
        let (name, rest) = line.split_once('{').unwrap();
        let family = match kinds[&current].as_str() {
            "histogram" => ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end))
                .unwrap(),
            _ => name,
        };
        assert_eq!(family, current, "{line}");
        let mut labels = Vec::new();
        let mut rest = rest;
        while !rest.starts_with('}') {
            let (label, quoted) = rest.split_once("=\"").unwrap();
            assert!(is_name(label), "{line}");
            let (mut value, mut chars) = (String::new(), quoted.char_indices());
            let end = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        other @ ('\\' | '"') => other,
                        other => panic!("\\{other} in {line}"),
                    }),
                    (_, other) => value.push(other),
                }
            };
            labels.push((label.to_owned(), value));
            rest = &quoted[end + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        let value = rest.strip_prefix("} ").unwrap().parse().unwrap();
        let sample = Sample {
            name: name.to_owned(),
            labels,
            value,
        };
        assert!(
            seen.insert((name.to_owned(), sample.labels.clone())),
            "twice: {line}"
        );
        samples.push(sample);
    }
    (kinds, samples)
}

#[test]
fn metrics_are_in_the_text_form_and_say_what_the_store_says() {
    let mut config = NamespaceConfig::new("test");
    config.max_waiters = 1;
    let other = NamespaceConfig::new("other");
    let store = Store::builder()
        .namespace(config)
        .namespace(other)
        .open()
        .unwrap();
    let monitor = monitor(&store);
    let feed = store.namespace("test").unwrap().set("feed").unwrap();
    let list = ShardedList::new(&store.namespace("test").unwrap(), "feed", "bob", "by").unwrap();
    list.add(1).unwrap();
    list.shards().activate(4).unwrap();
    feed.put("quiet", [("a", 1)]).unwrap();
    feed.create_index(IndexDefinition::new("by_a", ["a"]))
        .unwrap();
    store
        .transaction(|tx| tx.set("feed")?.put("quieter", [("a", 2)]))
        .unwrap();
    let changes = store.namespace("test").unwrap().changes();
    changes.enable("feed").unwrap();
    changes
        .subscribe("mailer", Start::Now, ChangeOptions::default())
        .unwrap();
    super::fight_in(&feed, &store.namespace("test").unwrap(), HOT);
    look_until(monitor.addr(), |now| {
        let test = now
            .namespaces
            .iter()
            .find(|one| one.name == "test")
            .unwrap();
        !test.hot.is_empty() && !test.collections.is_empty()
    });
    let (head, body) = get(monitor.addr(), "/metrics");
    assert!(
        head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"),
        "{head}"
    );
    let (_, samples) = parse(&body, false);
    let one = |name: &str, wanted: &[(&str, &str)]| {
        let found: Vec<_> = samples
            .iter()
            .filter(|sample| sample.name == name)
            .filter(|sample| {
                wanted.iter().all(|(label, value)| {
                    sample
                        .labels
                        .iter()
                        .any(|(own, is)| own == label && is == value)
                })
            })
            .collect();
        assert_eq!(found.len(), 1, "{name} {wanted:?}: {found:?}");
        found[0].value
    };
    let test = [("namespace", "test")];
    let stats = store.namespace("test").unwrap().stats();
    assert_eq!(one("spikelet_records", &test), stats.records as f64);
    assert_eq!(one("spikelet_key_busy_total", &test), stats.key_busy as f64);
    assert_eq!(
        one("spikelet_record_waits_total", &test),
        stats.waits as f64
    );
    assert_eq!(one("spikelet_records", &[("namespace", "other")]), 0.0);
    assert_eq!(
        one(
            "spikelet_set_records",
            &[("namespace", "test"), ("set", "feed")]
        ),
        stats.records as f64
    );
    let hot = [("set", "feed"), ("key", HOT)];
    assert!(one("spikelet_hot_record_bytes", &hot) > 20_000.0);
    assert!(one("spikelet_hot_record_key_busy", &hot) > 0.0);
    let bob = [("key", "bob"), ("bin", "by")];
    assert_eq!(one("spikelet_collection_shards", &bob), 4.0);
    assert_eq!(one("spikelet_collection_in_transition", &bob), 0.0);
    assert_eq!(one("spikelet_transactions_committed_total", &test), 1.0);
    // The transaction alone, and the sharded list's.
    let transactions = [("namespace", "test"), ("kind", "transaction")];
    assert!(one("spikelet_operations_total", &transactions) >= 1.0);
    assert!(one("spikelet_operation_seconds_count", &transactions) >= 1.0);
    assert!(one("spikelet_operation_seconds_sum", &transactions) > 0.0);
    let busy = [("namespace", "test"), ("code", "14")];
    assert!(one("spikelet_errors_total", &busy) > 0.0);
    for kind in ["read", "write", "operate", "transaction"] {
        let of_kind = |sample: &&Sample| {
            let has = |label: &str, value: &str| {
                let labels = sample.labels.iter();
                labels.clone().any(|(own, is)| own == label && is == value)
            };
            sample.name == "spikelet_operation_seconds_bucket"
                && has("namespace", "test")
                && has("kind", kind)
        };
        let buckets = samples.iter().filter(of_kind);
        let buckets: Vec<f64> = buckets.map(|sample| sample.value).collect();
        assert_eq!(buckets.len(), 14, "{kind}");
        assert!(buckets.is_sorted(), "{kind}: {buckets:?}");
        let all = [("namespace", "test"), ("kind", kind)];
        let count = one("spikelet_operation_seconds_count", &all);
        assert_eq!(buckets.last(), Some(&count), "{kind}");
    }
    let by_a = [("set", "feed"), ("index", "by_a")];
    assert_eq!(one("spikelet_secondary_index_entries", &by_a), 2.0);
    assert_eq!(one("spikelet_secondary_index_ready", &by_a), 1.0);
    assert_eq!(
        one(
            "spikelet_subscription_has_lost",
            &[("subscription", "mailer")]
        ),
        0.0
    );
}

#[test]
fn counters_are_those_of_an_independent_count() {
    const ROUNDS: u64 = 200;
    let store = store();
    let monitor = monitor(&store);
    let namespace = store.namespace("test").unwrap();
    let users = namespace.set("users").unwrap();
    users
        .create_index(IndexDefinition::new("by_a", ["a"]))
        .unwrap();
    let busy = AtomicU64::new(0);
    let long: Vec<i64> = (0..5_000).collect();
    let other = WritePolicy::default().generation(GenerationPolicy::ExpectEqual(60_000));
    let round = |thread: u64, at: u64| {
        let key = (thread * ROUNDS + at) as i64;
        users.put(key, [("a", at as i64)]).unwrap();
        assert!(users.get(key).unwrap().is_some());
        users.put_with(&other, key, [("a", 0)]).unwrap_err();
        users.operate(key, &[add("a", "x")]).unwrap_err();
        assert_eq!(users.get_batch([key, -1]).len(), 2);
        assert!(users.query("by_a").unwrap().eq(at as i64).count().is_ok());
        let _ = users.scan(|_| ControlFlow::Break(()));
        let fails = at.is_multiple_of(4);
        let done = namespace.transaction(|transaction| {
            transaction.in_set(&users)?.add(key, [("b", 1)])?;
            if fails {
                return Err(Error::Forbidden("as meant".into()));
            }
            Ok(())
        });
        assert_eq!(done.is_err(), fails);
        let hot = users.operate("hot", &[put("by", long.clone())]);
        match hot {
            Err(Error::KeyBusy { .. }) => busy.fetch_add(1, Ordering::Relaxed),
            done => done.map(|_| 0).unwrap(),
        };
        if at.is_multiple_of(10) {
            users.delete(key).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let round = &round;
            scope.spawn(move || (0..ROUNDS).for_each(|at| round(thread, at)));
        }
    });
    let (_, samples) = parse(&get(monitor.addr(), "/metrics").1, false);
    let all = 3 * ROUNDS;
    let deletes = 3 * ROUNDS / 10;
    let busy = busy.into_inner();
    let aborts = all / 4;
    for (name, label, expected) in [
        ("operations_total", "read", all),
        ("operations_total", "write", 2 * all + deletes),
        ("operations_total", "operate", 2 * all),
        ("operations_total", "batch", all),
        ("operations_total", "query", all),
        ("operations_total", "scan", all),
        ("operations_total", "transaction", all),
        ("operation_seconds_count", "batch", all),
        ("operation_seconds_count", "query", all),
        ("operation_seconds_count", "scan", all),
        // The committed ones.
        ("operation_seconds_count", "transaction", all - aborts),
        ("errors_total", "3", all),
        ("errors_total", "12", all),
        ("errors_total", "22", aborts),
        ("errors_total", "14", busy),
        ("key_busy_total", "test", busy),
        ("transactions_committed_total", "test", all - aborts),
        ("transactions_aborted_total", "test", aborts),
        ("set_records", "users", all - deletes + 1),
        ("secondary_index_entries", "by_a", all - deletes),
        ("secondary_index_queries_total", "by_a", all),
    ] {
        let is_it = |sample: &&Sample| {
            let mut labels = sample.labels.iter();
            sample.name == format!("spikelet_{name}") && labels.any(|(_, value)| value == label)
        };
        let found: Vec<f64> = samples.iter().filter(is_it).map(|one| one.value).collect();
        // A code that never came has no sample.
        let found = found.first().copied().unwrap_or_default();
        assert_eq!(found, expected as f64, "{name} {label}");
    }
}

#[test]
fn open_metrics_has_the_same_metrics_and_the_documents_name_those_that_exist() {
    let store = store();
    let builder = Monitor::builder(&store).listen("127.0.0.1:0").unwrap();
    let monitor = builder.connections(|| 7).start().unwrap();
    store.set("feed").unwrap().put("a", [("a", 1)]).unwrap();
    let addr = monitor.addr();
    let (_, body) = get(addr, "/metrics");
    let (classic, samples) = parse(&body, false);
    let connections = samples
        .iter()
        .find(|one| one.name == "spikelet_connections");
    assert_eq!(connections.map(|one| one.value), Some(7.0));
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {addr}\r\n{accept}\r\n\r\n");
    let answer = super::send(addr, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    assert_eq!(parse(body, true).0, classic);
    let documents = include_str!("../../docs/operations.md");
    for name in classic.keys() {
        assert!(
            documents.contains(&format!("`{name}`")),
            "{name} is not in docs/operations.md"
        );
    }
    // Every name in the table, the rules and the dashboard exists.
    let dashboard = include_str!("../../docs/grafana.json");
    assert!(serde_json::from_str::<serde_json::Value>(dashboard).is_ok());
    let mut named = 0;
    for text in [documents, dashboard] {
        for (at, _) in text.match_indices("spikelet_") {
            let is_letter = |char: char| char.is_ascii_lowercase() || char == '_';
            let name = &text[at..];
            let name = &name[..name.find(|char| !is_letter(char)).unwrap_or(name.len())];
            let family = name.trim_end_matches("_bucket");
            assert!(classic.contains_key(family), "there is no metric {name}");
            named += 1;
        }
    }
    assert!(named > classic.len() + 20);
    let (_, rules) = documents.split_once("```yaml").unwrap();
    let (rules, _) = rules.split_once("```").unwrap();
    // A line that is not in line with its neighbours is no YAML.
    for (name, indented) in [("- alert: ", 6), ("expr: ", 8), ("annotations: ", 8)] {
        let lines = rules
            .lines()
            .filter(|line| line.trim_start().starts_with(name));
        let indents: Vec<usize> = lines
            .map(|line| line.len() - line.trim_start().len())
            .collect();
        assert_eq!(indents, [indented; 5], "{name}");
    }
}

#[test]
fn only_so_many_hot_records_are_told_and_long_keys_are_cut() {
    let store = store();
    let long = "k".repeat(5_000);
    for key in ["a", "b", &long] {
        fight(&store, key);
    }
    let builder = Monitor::builder(&store).listen("127.0.0.1:0").unwrap();
    let monitor = builder.hot_records(2).start().unwrap();
    assert_eq!(look(monitor.addr()).namespaces[0].hot.len(), 2);
    let (_, body) = get(monitor.addr(), "/metrics");
    let (_, samples) = parse(&body, false);
    let hot = samples
        .iter()
        .filter(|sample| sample.name == "spikelet_hot_record_waits");
    assert_eq!(hot.count(), 2);
    assert!(body.lines().all(|line| line.len() < 1_000));
}

#[test]
fn it_ends_when_it_is_dropped_and_the_store_lives_on() {
    let store = store();
    let monitor = monitor(&store);
    let addr = monitor.addr();
    assert_ne!(addr.port(), 0);
    // A silent connection does not delay it.
    let silent = TcpStream::connect(addr).unwrap();
    drop(monitor);
    assert!(TcpStream::connect(addr).is_err());
    drop(silent);
    store.set("feed").unwrap().put(1, [("a", 1)]).unwrap();
    // The address is free again, and one in use is an error.
    let again = Monitor::builder(&store)
        .listen(addr)
        .unwrap()
        .start()
        .unwrap();
    let taken = Monitor::builder(&store)
        .listen(addr)
        .unwrap()
        .start()
        .unwrap_err();
    assert!(
        taken
            .to_string()
            .contains(&format!("cannot listen on {addr}")),
        "{taken}"
    );
    // A store that was closed is no reason to fail.
    store.close().unwrap();
    assert_eq!(look(again.addr()).namespaces.len(), 1);
    assert!(Monitor::builder(&store).listen("nonsense").is_err());
}
