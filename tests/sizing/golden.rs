//! The JSON forms, byte by byte.

use super::{SMALL, stdout};

#[test]
fn the_json_form_is_what_programs_rely_on() {
    let found = stdout(&[SMALL, "--writes-per-s", "users=40", "--json"]);
    same(&found, include_str!("golden.json"));
}

#[test]
fn the_json_form_of_a_plan_is_as_well() {
    let numbers = "plan --entries 300000 --entry-bytes 15 --writes-per-s 400 --json";
    let found = stdout(&numbers.split(' ').collect::<Vec<_>>());
    same(&found, include_str!("golden-plan.json"));
}

fn same(found: &str, expected: &str) {
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {}", number + 1);
    }
    assert_eq!(found.len(), expected.len());
}
