//! The JSON form, byte by byte. `spikelet sizing tests/sizing/small.jsonl --writes-per-s 40 --json` makes it.

use std::path::Path;

use spikelet::report::to_json;
use spikelet::sizing::SCHEMA_VERSION;

use super::{options, sized};

#[test]
fn the_json_form_is_what_programs_rely_on() {
    let sizing = sized(
        Path::new("tests/sizing/small.jsonl"),
        &options(|options| options.writes_per_s = Some(40.0)),
    );
    let found = to_json(SCHEMA_VERSION, "sizing", &sizing).unwrap();
    let expected = include_str!("golden.json");
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {} of golden.json", number + 1);
    }
    assert_eq!(found.len(), expected.len());
}
