//! The JSON form, field by field.
//!
//! `spikelet contention --virtual --rate 50,125 --shards 1,4,daily+2 --operation add-unique --elements 20 --duration 20 --json`
//! makes the file.

use serde_json::Value;

use super::json;

const ARGUMENTS: &str = "--virtual --rate 50,125 --shards 1,4,daily+2 --operation add-unique --elements 20 --duration 20";
/// What differs from build to build.
const OF_THE_BUILD: [&str; 2] = ["version", "commit"];
/// Logarithms may differ in their last digits from machine to machine.
const ROUNDING: f64 = 1e-9;

/// Notes each field in which these differ.
fn compare(at: &str, found: Option<&Value>, golden: Option<&Value>, differences: &mut Vec<String>) {
    match (found, golden) {
        (Some(Value::Object(found)), Some(Value::Object(golden))) => {
            let only_golden = golden.keys().filter(|name| !found.contains_key(*name));
            for name in found.keys().chain(only_golden) {
                if !OF_THE_BUILD.contains(&name.as_str()) {
                    let at = format!("{at}.{name}");
                    compare(&at, found.get(name), golden.get(name), differences);
                }
            }
        }
        (Some(Value::Array(found)), Some(Value::Array(golden))) => {
            for place in 0..found.len().max(golden.len()) {
                let at = format!("{at}[{place}]");
                compare(&at, found.get(place), golden.get(place), differences);
            }
        }
        (Some(Value::Number(found)), Some(Value::Number(golden))) if found.is_f64() => {
            let (found, golden) = (found.as_f64().unwrap(), golden.as_f64().unwrap());
            if (found - golden).abs() > ROUNDING * golden.abs() {
                differences.push(format!("{at}: {found}, and golden.json has {golden}"));
            }
        }
        (found, golden) if found == golden => {}
        (found, golden) => {
            let show = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            let (found, golden) = (show(found), show(golden));
            differences.push(format!("{at}: {found}, and golden.json has {golden}"));
        }
    }
}

#[test]
fn the_json_form_is_what_programs_rely_on() {
    let golden: Value = serde_json::from_str(include_str!("golden.json")).unwrap();
    let mut differences = Vec::new();
    compare("", Some(&json(ARGUMENTS)), Some(&golden), &mut differences);
    assert!(
        differences.is_empty(),
        "{} fields differ. If a field was renamed, removed or has another meaning, raise SCHEMA_VERSION; then make golden.json anew \
         (see the head of this file):\n{}",
        differences.len(),
        differences.join("\n")
    );
}

#[test]
fn a_difference_is_told_with_its_place() {
    let tell = |found: &str, golden: &str| {
        let [found, golden] = [found, golden].map(|json| serde_json::from_str(json).unwrap());
        let mut differences = Vec::new();
        compare("", Some(&found), Some(&golden), &mut differences);
        differences
    };
    let rows = r#"{"version": "1", "rows": [{"acked": 7, "p50_us": 1.5}]}"#;
    assert!(tell(rows, &rows.replace("\"1\"", "\"2\"")).is_empty());
    assert!(tell(rows, &rows.replace("1.5", "1.5000000001")).is_empty());
    for (other, place) in [
        (
            rows.replace('7', "8"),
            ".rows[0].acked: 7, and golden.json has 8",
        ),
        (rows.replace("1.5", "1.6"), ".rows[0].p50_us"),
        (
            rows.replace("acked", "acks"),
            ".rows[0].acked: 7, and golden.json has nothing",
        ),
        (rows.replace("}]", "}, 1]"), ".rows[1]: nothing"),
    ] {
        let found = tell(rows, &other);
        assert!(found[0].starts_with(place), "{found:?}");
    }
}
