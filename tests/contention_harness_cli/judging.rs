//! Conditions, comparison with an earlier run, and guidelines that no row has tested.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::{VIRTUAL, json, run, run_each, stderr, stdout, text, words};

#[test]
fn conditions_decide_the_exit_code() {
    for (arguments, code) in [
        (vec!["--fail-if", "key_busy>0.1%"], 1),
        (vec!["--fail-if", "key_busy>90%"], 0),
        (vec!["--fail-if", "lost>0 p99>10s"], 0),
        (vec!["--threshold", "lost==0 p99<180ms"], 0),
        (vec!["--threshold", "p99<30ms"], 1),
        (
            vec!["--threshold", "lost==0", "--threshold", "key_busy == 0"],
            1,
        ),
    ] {
        let all: Vec<&str> = VIRTUAL
            .split_whitespace()
            .chain(arguments.clone())
            .collect();
        let output = run_each(&all);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}",
            stdout(&output)
        );
        let word = if code == 1 { "FAIL" } else { "PASS" };
        assert!(stdout(&output).contains(word), "{arguments:?}");
    }
}

#[test]
fn a_run_is_compared_with_an_earlier_one_of_the_same_settings() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("earlier.json");
    let name = file.to_str().unwrap();
    let earlier = json(VIRTUAL);
    let write = |report: &Value| std::fs::write(&file, report.to_string()).unwrap();
    write(&earlier);
    // One repeat says nothing of how much a figure varies.
    let single = json(&format!("{VIRTUAL} --baseline {name}"));
    let verdicts = |report: &Value| -> Vec<String> {
        let changes = report["comparison"]["changes"].as_array().unwrap().iter();
        changes
            .map(|change| change["verdict"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(
        verdicts(&single)
            .iter()
            .all(|verdict| verdict == "too-few-repeats")
    );
    let earlier = json(&format!("{VIRTUAL} --repeats 4"));
    assert_eq!(earlier["rows"][0]["repeats"].as_array().unwrap().len(), 4);
    write(&earlier);
    // As often as the baseline, if nothing else is said.
    let same = json(&format!("{VIRTUAL} --baseline {name}"));
    assert_eq!(same["rows"][0]["repeats"].as_array().unwrap().len(), 4);
    assert_eq!(verdicts(&same).len(), 24);
    assert!(verdicts(&same).iter().all(|verdict| verdict == "unchanged"));
    let other_seed = json(&format!("{VIRTUAL} --seed 77 --baseline {name}"));
    assert!(
        !verdicts(&other_seed)
            .iter()
            .any(|verdict| ["better", "worse"].contains(&verdict.as_str()))
    );
    // Of a seed or a length of its own, it can be compared.
    text(&format!(
        "--virtual --rate 50 --shards 1 --duration 30 --seed 5 --baseline {name}"
    ));
    let part = words(&format!(
        "--virtual --rate 50,60 --shards 1 --baseline {name}"
    ));
    assert!(
        part.contains("1 of 2 rows are not in the other run"),
        "{part}"
    );
    for (factor, word) in [(2.0, "better"), (0.5, "WORSE")] {
        let mut other = earlier.clone();
        for row in other["rows"].as_array_mut().unwrap() {
            for repeat in row["repeats"].as_array_mut().unwrap() {
                let p50 = repeat["p50_us"].as_f64().unwrap();
                repeat["p50_us"] = (p50 * factor).into();
            }
        }
        write(&other);
        let report = text(&format!("{VIRTUAL} --baseline {name}"));
        assert!(report.contains(word), "{report}");
    }
}

#[test]
fn an_earlier_run_that_cannot_be_compared_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("earlier.json");
    std::fs::write(&file, text(&format!("{VIRTUAL} --json"))).unwrap();
    let file = file.to_str().unwrap();
    for (arguments, why) in [
        (
            format!("{VIRTUAL} --hold-ms 4"),
            "hold_us was 8000.0 and is 4000.0",
        ),
        (format!("{VIRTUAL} --limit 5"), "limit was 20 and is 5"),
        (format!("{VIRTUAL} --payload 7"), "payload was 128 and is 7"),
        (
            format!("{VIRTUAL} --operation put"),
            "operation was \"increment\"",
        ),
        ("--rate 50 --hold-ms 8".to_owned(), "mode was \"virtual\""),
        ("--virtual --rate 51".to_owned(), "no row of that run"),
    ] {
        let output = run(&format!("{arguments} --baseline {file}"));
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    let page = run(&format!("{VIRTUAL} --baseline {file} --html {file}"));
    assert_eq!(page.status.code(), Some(2));
    assert!(stderr(&page).contains("--html"), "{}", stderr(&page));
    assert!(std::fs::read_to_string(file).unwrap().starts_with('{'));
}

#[test]
fn what_no_row_tells_is_not_called_good() {
    // Below the guideline's rate, and one rate only.
    let report = words("--virtual --rate 10 --shards 1 --duration 60");
    assert!(report.contains("NOT TESTED 50 writes/s"), "{report}");
    assert!(report.contains("not tested"), "no knees: {report}");
    assert!(!report.contains("above 10"), "{report}");
    // A write comes each 1,000 s on average, and the first one later than the end.
    let nothing = run("--virtual --rate 0.001 --shards 1 --duration 1 --json");
    assert_eq!(nothing.status.code(), Some(1), "{}", stderr(&nothing));
    let report: Value = serde_json::from_str(stdout(&nothing)).unwrap();
    assert_eq!(report["correctness"]["acknowledged"], 0);
    assert_eq!(report["passes"], false);
    let nothing = run("--virtual --rate 0.001 --shards 1 --duration 1");
    let told: Vec<&str> = stdout(&nothing).split_whitespace().collect();
    let told = told.join(" ");
    assert!(told.contains("nothing is proved"), "{told}");
    assert!(told.contains("NOT TESTED acknowledged = found"), "{told}");
    let part = words("--virtual --rate 0.001,50 --shards 1 --duration 1");
    assert!(part.contains("IN PART acknowledged = found"), "{part}");
}

#[test]
fn each_way_of_time_shards_is_judged() {
    let report = words("--virtual --rate 50,200 --shards 1,hourly,daily,daily+8 --duration 60");
    for verdict in [
        "Time shards alone do not help (hourly: 37.",
        "Time with hash shards does (daily+8: 0 %).",
    ] {
        assert!(report.contains(verdict), "{verdict}: {report}");
    }
}

#[test]
fn knees_have_a_model_and_a_capacity_only_where_there_are_any() {
    let report = json("--virtual --rate 50,200 --shards 1 --hot-keys 4 --duration 60");
    let knees = &report["knees"][0];
    assert_eq!(knees["is_modelled"], false);
    assert_eq!(knees["capacity_per_s"], Value::Null);
    let one = json("--virtual --rate 50,200 --shards 1 --duration 60");
    assert_eq!(one["knees"][0]["is_modelled"], true);
    assert_eq!(one["knees"][0]["capacity_per_s"], 125.0);
}

#[test]
fn text_page_json_and_exit_code_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    for (arguments, word, class, code) in [
        ("--rate 10 --shards 1 --duration 2", "TOO SHORT", "watch", 0),
        ("--rate 25 --shards 1,8", "OK", "good", 0),
        ("--rate 50 --shards 1 --burst 3", "WATCH", "watch", 0),
        ("--rate 100 --shards 1,2", "SLOW", "watch", 0),
        ("--rate 120 --shards 1,2", "BUSY", "bad", 0),
        ("--rate 150 --shards 1 --limit 0", "OVERLOAD", "bad", 0),
        ("--rate 25 --shards 1 --threshold p99<1ms", "FAIL", "bad", 1),
    ] {
        let arguments = format!("--virtual {arguments} --html {}", page.display());
        let output = run(&arguments);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(&format!("  {word}: ")), "{word}: {text}");
        let lead = format!("<p class=\"lead {class}\"><strong class=\"word\">{word}</strong>");
        let html = std::fs::read_to_string(&page).unwrap();
        assert!(html.contains(&lead), "{word}: {arguments}");
        let json: Value =
            serde_json::from_slice(&run(&format!("{arguments} --json")).stdout).unwrap();
        assert_eq!(
            (&json["verdict"]["word"], &json["passes"]),
            (&word.into(), &(code == 0).into())
        );
    }
}

/// Runs `work` while two threads for each processor do nothing else.
fn on_a_busy_machine(work: impl FnOnce()) {
    /// Ends the threads, also if `work` panics.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let processors = std::thread::available_parallelism().map_or(2, Into::into);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 * processors {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let _ends = Ends(&ends);
        work();
    });
}

/// The documented commands on the engine without a hold: their records are not the limit.
#[test]
fn no_shards_are_advised_where_the_record_is_not_the_limit() {
    let documented = |arguments: &str| {
        let report = json(arguments);
        let verdict = &report["verdict"];
        let word = verdict["word"].as_str().unwrap();
        assert!(["OK", "MACHINE"].contains(&word), "{arguments}: {verdict}");
        assert!(verdict["shards"].is_null(), "{arguments}: {verdict}");
    };
    documented("--rate 200,400 --shards 1,8 --duration 1");
    on_a_busy_machine(|| {
        documented("--duration 500ms");
        documented("--writers 16 --shards 8 --duration 1");
    });
}
