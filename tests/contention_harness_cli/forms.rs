//! The program's output in every form.

use serde_json::Value;

use super::{VIRTUAL, json, text, words};

#[test]
fn the_same_seed_gives_the_same_bytes_in_every_form() {
    for form in ["", "--json", "--csv"] {
        let arguments = format!("{VIRTUAL} --hold-dist exponential --hot-keys 3 --zipf 1 {form}");
        assert_eq!(text(&arguments), text(&arguments), "{form}");
        let other = text(&format!("{arguments} --seed 2"));
        assert_ne!(text(&arguments), other, "{form}");
    }
    let dir = tempfile::tempdir().unwrap();
    let page = |name: &str| {
        let (file, hists) = (dir.path().join(name), dir.path().join(format!("{name}.d")));
        let (file, hists) = (file.to_str().unwrap(), hists.to_str().unwrap());
        text(&format!("{VIRTUAL} --html {file} --hdr-hist {hists}"));
        let hist = std::fs::read(format!("{hists}/open-200_shards-8.hdrhist")).unwrap();
        (std::fs::read(file).unwrap(), hist)
    };
    assert_eq!(page("a"), page("b"));
}

#[test]
fn rows_have_the_fields_that_scripts_read() {
    let report = json(VIRTUAL);
    assert_eq!(report["schema_version"], 5);
    assert_eq!(report["report"], "contention");
    assert_eq!(report["simulated_hold"], true);
    // The limit as Aerospike counts, and as the engine does.
    assert_eq!(report["settings"]["limit"], 20);
    assert_eq!(report["settings"]["max_waiters"], 21);
    assert_eq!(report["settings"]["mode"], "virtual");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        for field in [
            "rate",
            "offered",
            "acked",
            "key_busy",
            "goodput_per_s",
            "p50_us",
            "p99_us",
            "p999_us",
            "lost",
        ] {
            assert!(row[field].is_number(), "{field}: {row}");
        }
        let failed: u64 = row["errors"]
            .as_object()
            .unwrap()
            .values()
            .map(|count| count.as_u64().unwrap())
            .sum();
        assert_eq!(
            row["offered"].as_u64().unwrap(),
            row["acked"].as_u64().unwrap() + failed
        );
        assert_eq!(row["lost"], 0);
    }
    let shards: Vec<&Value> = rows.iter().take(3).map(|row| &row["shards"]).collect();
    assert_eq!(
        shards,
        [&Value::from(1), &Value::from(8), &Value::from("hourly")]
    );
    assert_eq!(rows[3]["errors"]["14"], rows[3]["key_busy"]);
    assert!(rows[3]["key_busy"].as_u64().unwrap() > 3_000);
    assert_eq!(report["guideline"]["band"], "warm");
    assert_eq!(report["guideline"]["finding"], "pass");
    assert_eq!(report["knees"].as_array().unwrap().len(), 3);
}

#[test]
fn a_closed_loop_on_the_engine_counts_its_writers() {
    let report = json("--writers 2,4 --shards 1 --operation put --duration 200ms --warm-up 0");
    let rows = report["rows"].as_array().unwrap();
    let writers: Vec<u64> = rows
        .iter()
        .map(|row| row["writers"].as_u64().unwrap())
        .collect();
    assert_eq!(writers, [2, 4]);
    for row in rows {
        assert!(
            row["rate"].is_null() && row["acked"].as_u64().unwrap() > 0,
            "{row}"
        );
        assert_eq!((&row["key_busy"], &row["lost"]), (&0.into(), &0.into()));
    }
    assert_eq!(report["simulated_hold"], false);
}

#[test]
fn no_line_is_wider_than_a_terminal() {
    let wide = text(
        "--virtual --rate 10..400 --shards 1,16,daily+8 --duration 30 --retries 2 --fail-if lost>0 --threshold lost==0",
    );
    let live = text("--writers 3 --shards 1,2 --duration 200ms --warm-up 0");
    for text in [wide, live] {
        let widest = text
            .lines()
            .max_by_key(|line| line.chars().count())
            .unwrap();
        assert!(widest.chars().count() <= 100, "{widest}");
    }
}

#[test]
fn what_is_simulated_is_called_so_and_correctness_comes_first() {
    let report = text(VIRTUAL);
    assert!(report.contains("SIMULATED"), "{report}");
    let place = |word: &str| report.find(word).expect(word);
    assert!(place("acknowledged = found") < place("p99.9"));
    assert!(report.contains("hourly"), "{report}");
    let queue = "transaction-pending-limit 20: 21 may wait for a record (max_waiters 21)";
    assert!(words(VIRTUAL).contains(queue), "{report}");
    let live = text("--writers 2 --shards 1 --duration 200ms --warm-up 0");
    assert!(!live.contains("SIMULATED"), "{live}");
}

#[test]
fn every_form_opens_with_what_a_person_would_say() {
    let arguments = "--virtual --rate 50,200 --shards 1,2,4,hourly --duration 60";
    let report = text(arguments);
    let first: Vec<&str> = report.lines().skip(2).take(3).collect();
    let first = first.join(" ");
    assert!(
        first.contains("OVERLOAD: Key hot0 takes 37.")
            && first.contains("KEY_BUSY at 200 writes/s"),
        "{report}"
    );
    let said = words(arguments);
    assert!(
        said.contains("Hash-shard it by 4 (measured): 0 %, p99 176"),
        "{said}"
    );
    assert!(
        said.contains("Time shards alone do not help (hourly: 37."),
        "{said}"
    );
    let verdict = report.split("Verdict").nth(1).unwrap();
    let bar = |shards: &str| {
        let is_of =
            |line: &&str| line.split_whitespace().next() == Some(shards) && line.contains('%');
        verdict.lines().find(is_of).unwrap().matches('#').count()
    };
    assert_eq!((bar("1"), bar("4"), bar("hourly")), (36, 0, 36), "{report}");
    let json = json(arguments);
    let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert!(fields.contains(&&"verdict".to_owned()));
    assert_eq!(json["verdict"]["shards"], 4);
    let rows = json["rows"].as_array().unwrap();
    let at = |name: &str| &rows[json["verdict"][name].as_u64().unwrap() as usize];
    assert_eq!(
        (&at("before")["shards"], &at("before")["rate"]),
        (&1.into(), &200.0.into())
    );
    assert_eq!(at("after")["shards"], 4);
}

#[test]
fn percentiles_of_too_few_writes_are_not_known() {
    let report = json("--virtual --rate 20 --shards 1 --duration 2");
    let row = &report["rows"][0];
    assert!(
        row["p50_us"].is_number() && row["p99_us"].is_null(),
        "{row}"
    );
    let text = text("--virtual --rate 20 --shards 1 --duration 2");
    assert!(text.contains("p99 of 100 writes"), "{text}");
}

#[test]
fn comma_separated_values_have_a_line_a_row() {
    let csv = text(&format!("{VIRTUAL} --csv"));
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 7);
    let columns = lines[0].split(',').count();
    assert!(
        lines.iter().all(|line| line.split(',').count() == columns),
        "{csv}"
    );
    assert!(lines[0].starts_with("loop,rate,shards,writers,offered,acked,key_busy,"));
    assert!(lines[1].starts_with("open,50,1,,"), "{csv}");
}

#[test]
fn the_page_shows_its_pictures_and_the_numbers_of_the_json() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("page.html");
    let arguments = format!("{VIRTUAL} --html {}", file.to_str().unwrap());
    let report = json(&arguments);
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.len() < 300_000 && !page.contains("<script"));
    for title in [
        "KEY_BUSY at 200/s, in one record and in shards",
        "p99 latency by rate",
        "KEY_BUSY by rate",
        "Goodput by rate",
        "Percentiles at the highest load",
    ] {
        assert!(page.contains(title), "{title}");
    }
    for row in report["rows"].as_array().unwrap() {
        // The share is computed again: the one in JSON is read back less exactly than it was
        // written.
        let share = row["key_busy"].as_f64().unwrap() / row["offered"].as_f64().unwrap();
        for value in [row["p99_us"].as_f64().unwrap(), share] {
            let shown = format!("data-value=\"{value}\"");
            assert!(value == 0.0 || page.contains(&shown), "{shown}");
        }
    }
}

#[test]
fn shards_that_come_to_be_while_writers_write_are_drawn_in_time_and_lose_nothing() {
    for operation in ["add-unique --elements 100", "increment"] {
        // Longer runs for a busy machine, which makes the shards later.
        let reports = [1_500, 6_000, 24_000].into_iter().map(|duration_ms| {
            json(&format!(
                "--rate 300 --shards 4 --hold-ms 1 --duration {duration_ms}ms --warm-up 0 --activate-at 200ms --operation {operation}"
            ))
        });
        let is_sharded = |report: &Value| {
            let moments = report["rows"][0]["moments"].as_array().unwrap();
            moments.last().unwrap()["shards"] == 4
        };
        let report = { reports }.find(is_sharded);
        let report = report.unwrap_or_else(|| panic!("{operation}: never sharded"));
        assert_eq!(report["correctness"]["lost"], 0);
        let row = &report["rows"][0];
        let moments = row["moments"].as_array().unwrap();
        assert_eq!(moments[0]["shards"], 1);
        assert!(row["activation"]["began_s"].as_f64().unwrap() >= 0.2);
        let phases = row["phases"].as_array().unwrap();
        let names: Vec<&str> = phases
            .iter()
            .map(|phase| phase["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["before", "during", "after"]);
        for field in ["offered", "acked"] {
            let sum: u64 = phases
                .iter()
                .map(|phase| phase[field].as_u64().unwrap())
                .sum();
            assert_eq!(sum, row[field].as_u64().unwrap(), "{field}");
        }
    }
}
