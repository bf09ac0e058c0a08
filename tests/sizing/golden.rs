//! The JSON forms, byte by byte. They are made by `spikelet sizing tests/sizing/small.jsonl --writes-per-s 40 --json` and by
//! `spikelet sizing plan --entries 300000 --entry-bytes 15 --writes-per-s 400 --json`.

use std::path::Path;

use spikelet::report::to_json;
use spikelet::sizing::{SCHEMA_VERSION, plan};

use super::{options, sized};

#[test]
fn the_json_form_is_what_programs_rely_on() {
    let sizing = sized(
        Path::new("tests/sizing/small.jsonl"),
        &options(|options| options.writes_per_s = Some(40.0)),
    );
    let found = to_json(SCHEMA_VERSION, "sizing", &sizing).unwrap();
    same(&found, include_str!("golden.json"));
}

#[test]
fn the_json_form_of_a_plan_is_as_well() {
    let plan = plan(300_000, 15, Some(400.0)).unwrap();
    let found = to_json(SCHEMA_VERSION, "sizing-plan", &plan).unwrap();
    same(&found, include_str!("golden-plan.json"));
}

fn same(found: &str, expected: &str) {
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {}", number + 1);
    }
    assert_eq!(found.len(), expected.len());
}
