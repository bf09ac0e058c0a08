//! Filters: expressions that a record must pass before it is read, written or deleted.

#![allow(clippy::unwrap_used, missing_docs)]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use spikelet::expressions::{
    and, bin_exists, eq, ge, gt, int_bin, int_val, key_exists, le, list_bin, lt, not, num_add,
    string_bin, string_val, ttl, unknown, val,
};
use spikelet::operations::lists;
use spikelet::policy::GenerationPolicy;
use spikelet::storage::ManualClock;
use spikelet::{
    Error, Expiration, Expression, ListPolicy, ListReturnType, Set, Store, WritePolicy, operations,
};

fn people() -> Set {
    let set = Store::in_memory().unwrap().set("people").unwrap();
    set.put("alice", [("age", 42)]).unwrap();
    set.put("bob", [("age", 12)]).unwrap();
    set
}

fn adults() -> Expression {
    ge(int_bin("age"), int_val(18))
}

fn code<T: std::fmt::Debug>(result: spikelet::Result<T>) -> u8 {
    result.unwrap_err().result_code()
}

const FILTERED_OUT: u8 = 27;
const PARAMETER: u8 = 4;

#[test]
fn an_integer_above_the_signed_ones_is_refused_and_not_taken_for_a_negative_one() {
    let set = Store::in_memory().unwrap().set("people").unwrap();
    set.put(1, [("n", 5)]).unwrap();
    let refused = set.filtered(le(int_bin("n"), val(u64::MAX))).unwrap_err();
    assert_eq!(refused.result_code(), PARAMETER);
    assert!(
        refused.to_string().contains("18446744073709551615"),
        "{refused}"
    );
    // In the arguments of calls it is what it is.
    let list = lists::append(&ListPolicy::default(), "l", 5);
    set.operate(1, &[list]).unwrap();
    let below = spikelet::expressions::lists::get_by_value_range(
        ListReturnType::Count,
        None,
        Some(val(u64::MAX)),
        list_bin("l"),
        &[],
    );
    assert!(set.filtered(eq(below, 1)).unwrap().exists(1).unwrap());
}

#[test]
fn reads_through_a_filter_answer_for_those_who_pass() {
    let adults = people().filtered(adults()).unwrap();
    assert_eq!(
        adults.get("alice").unwrap().unwrap().get("age"),
        Some(42.into())
    );
    assert_eq!(code(adults.get("bob")), FILTERED_OUT);
    assert_eq!(code(adults.get_bins("bob", &["age"])), FILTERED_OUT);
    assert_eq!(code(adults.get_header("bob")), FILTERED_OUT);
    assert_eq!(code(adults.exists("bob")), FILTERED_OUT);
    assert_eq!(
        code(adults.operate("bob", &[operations::get_bin("age")])),
        FILTERED_OUT
    );
    assert!(
        adults.get("nobody").unwrap().is_none(),
        "who is not there is not asked"
    );
    let batch = adults.get_batch(["alice", "bob", "nobody"]);
    let codes: Vec<_> = batch
        .iter()
        .map(|record| record.as_ref().map_or_else(Error::result_code, |_| 0))
        .collect();
    assert_eq!(codes, [0, FILTERED_OUT, 0]);
}

#[test]
fn a_scan_passes_over_those_who_do_not_pass() {
    let mut seen = Vec::new();
    let _: ControlFlow<()> = people().filtered(adults()).unwrap().scan(|record| {
        seen.push(
            record
                .unwrap()
                .key()
                .is_some_and(|key| key == "alice".into()),
        );
        ControlFlow::Continue(())
    });
    assert_eq!(seen, [true], "alice, and nobody else");
}

#[test]
fn writes_and_deletes_that_are_filtered_out_change_nothing() {
    let people = people();
    let policy = WritePolicy::default().filter(adults());
    assert_eq!(
        code(people.put_with(&policy, "bob", [("age", 99)])),
        FILTERED_OUT
    );
    assert_eq!(code(people.touch_with(&policy, "bob")), FILTERED_OUT);
    assert_eq!(code(people.delete_with(&policy, "bob")), FILTERED_OUT);
    assert_eq!(
        code(people.update_with(&policy, "bob", |bins| bins.set("age", 99))),
        FILTERED_OUT
    );
    let bob = people.get("bob").unwrap().unwrap();
    assert_eq!((bob.get("age"), bob.generation()), (Some(12.into()), 1));
    people.put_with(&policy, "alice", [("age", 43)]).unwrap();
    assert!(people.delete_with(&policy, "alice").unwrap().is_some());
}

#[test]
fn a_write_that_creates_a_record_is_not_asked() {
    let people = people();
    let nobody = WritePolicy::default().filter(unknown());
    people.put_with(&nobody, "carol", [("age", 1)]).unwrap();
    assert!(people.delete_with(&nobody, "dave").unwrap().is_none());
    assert_eq!(
        code(people.put_with(&nobody, "carol", [("age", 2)])),
        FILTERED_OUT
    );
}

#[test]
fn what_is_unknown_does_not_pass() {
    let people = people();
    let rows = [
        ("a missing bin", gt(int_bin("height"), int_val(0))),
        (
            "a bin of another type",
            eq(string_bin("age"), string_val("42")),
        ),
        (
            "the negation of what is unknown",
            not(gt(int_bin("height"), int_val(0))),
        ),
    ];
    for (what, filter) in rows {
        assert_eq!(
            code(people.filtered(filter).unwrap().get("alice")),
            FILTERED_OUT,
            "{what}"
        );
    }
    let filter = and([not(bin_exists("height")), key_exists()]);
    assert!(people.filtered(filter).unwrap().exists("alice").unwrap());
}

#[test]
fn a_malformed_filter_is_refused() {
    let people = people();
    let table = [
        ("no truth value", num_add([int_bin("age"), int_val(1)])),
        ("types that do not fit", eq(int_bin("age"), string_val("x"))),
    ];
    for (what, filter) in table {
        assert_eq!(code(people.filtered(filter.clone())), PARAMETER, "{what}");
        let policy = WritePolicy::default().filter(filter);
        assert_eq!(
            code(people.put_with(&policy, "bob", [("age", 1)])),
            PARAMETER,
            "{what}"
        );
    }
}

#[test]
fn existence_and_generation_are_judged_before_the_filter() {
    let people = people();
    let policy = WritePolicy::default()
        .generation(GenerationPolicy::ExpectEqual(7))
        .filter(adults());
    assert_eq!(code(people.put_with(&policy, "bob", [("age", 1)])), 3);
}

#[test]
fn a_filter_sees_the_record_before_the_write_and_its_operations_see_it_after() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let store = Store::builder().clock(clock.clone()).open().unwrap();
    let set = store.set("sessions").unwrap();
    let live = |seconds| {
        WritePolicy::default().expiration(Expiration::After(Duration::from_secs(seconds)))
    };
    set.put_with(&live(100), 1, [("n", 1)]).unwrap();
    clock.advance_ms(60_000);
    let soon = live(1000).filter(lt(ttl(), int_val(50)));
    let read = [
        operations::exp::read("left", ttl(), spikelet::expressions::ExpReadFlags::empty()),
        operations::add("n", 1),
    ];
    let operated = set.operate_with(&soon, 1, &read).unwrap();
    assert_eq!(operated.bin("left"), Some(&1000.into()));
    assert_eq!(code(set.operate_with(&soon, 1, &read)), FILTERED_OUT);
}

#[test]
fn operations_that_read_ask_the_filter_of_their_policy() {
    let policy = WritePolicy::default().filter(adults());
    let read = [operations::get_bin("age")];
    let people = people();
    assert_eq!(
        code(people.operate_with(&policy, "bob", &read)),
        FILTERED_OUT
    );
    assert!(people.operate_with(&policy, "alice", &read).is_ok());
    let nobody = people.filtered(unknown()).unwrap();
    assert!(nobody.operate_with(&policy, "alice", &read).is_ok());
}

#[test]
fn a_set_seen_through_a_filter_is_not_truncated() {
    let people = people();
    let adults = people.filtered(adults()).unwrap();
    assert_eq!(code(adults.truncate(None)), PARAMETER);
    assert_eq!(people.len(), 2);
}

#[test]
fn selections_within_selections_are_refused_before_they_take_the_stack() {
    // [EQ, [CALL, LIST, 0, [SELECT, [EXP, condition], 1], quoted], quoted], a condition of itself.
    let mut condition = vec![0xc3];
    for _ in 0..20_000 {
        let quoted = [0x92, 126, 0x91, 1];
        let mut outer = vec![0x93, 1, 0x95, 127, 4, 0, 0x93, 0xcc, 0xfe, 0x92, 4];
        outer.extend_from_slice(&condition);
        outer.push(1);
        outer.extend_from_slice(&quoted);
        outer.extend_from_slice(&quoted);
        condition = outer;
        if condition.len() > 200_000 {
            break;
        }
    }
    assert_eq!(code(Expression::from_bytes(&condition)), PARAMETER);
}
