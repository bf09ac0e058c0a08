//! Tests of evaluation below the public API: metadata, filters in two phases.

mod random;

use spikelet_storage::Digest;

use super::expressions::{self as exp, *};
use super::filter::FilterVerdict;
use super::operation::Evaluation;
use super::scope::{RecordFacts, Scope};
use super::value::ExpValue;
use super::{ExpType, Expression};
use crate::call::{CallError, CallReply};
use crate::record::{Bins, Key, Metadata, OwnedBins, RecordView};
use crate::value::Value;

/// The start of 2010, in nanoseconds of Unix time.
const EPOCH_NS: i64 = 1_262_304_000_000_000_000;

fn facts(key: Option<&[u8]>) -> RecordFacts<'_> {
    let mut digest = [0; 20];
    digest[16..].copy_from_slice(&1_000_003_u32.to_le_bytes());
    RecordFacts {
        digest: Digest::new(digest),
        set_name: "users",
        key,
        metadata: Metadata {
            generation: 3,
            void_time: 1_000,
            last_update_ms: 900_500,
        },
        now_ms: 901_750,
        stored_bytes: 100,
        in_memory: false,
        owned: OwnedBins::NONE,
    }
}

fn body(bins: &[(&str, Value)]) -> Vec<u8> {
    let mut all = Bins::new();
    for (name, value) in bins {
        all.set(name, value.clone()).unwrap();
    }
    let mut out = Vec::new();
    all.write_body(&mut out).unwrap();
    out
}

fn value_of(value: Option<ExpValue<'_>>) -> Option<Value> {
    value.map(|value| value.into_reply().to_value().unwrap())
}

#[test]
fn a_record_tells_about_itself() {
    let mut key = Vec::new();
    Key::from("me").write_stored(&mut key);
    let mut number = Vec::new();
    Key::from(-7).write_stored(&mut number);
    let stored = facts(Some(&key));
    let numbered = facts(Some(&number));
    let bare = facts(None);
    let forever = RecordFacts {
        metadata: Metadata {
            void_time: 0,
            ..bare.metadata
        },
        set_name: "",
        in_memory: true,
        ..bare
    };
    let expired = RecordFacts {
        now_ms: 2_000_000,
        ..bare
    };
    let table: Vec<(&str, RecordFacts<'_>, Expression, Option<Value>)> = vec![
        ("digest", bare, digest_modulo(10), Some(3.into())),
        ("set", bare, set_name(), Some("users".into())),
        ("no set", forever, set_name(), Some("".into())),
        (
            "last update",
            bare,
            last_update(),
            Some((EPOCH_NS + 900_500_000_000).into()),
        ),
        ("since update", bare, since_update(), Some(1_250.into())),
        (
            "void time",
            bare,
            void_time(),
            Some((EPOCH_NS + 1_000_000_000_000).into()),
        ),
        ("never", forever, void_time(), Some((-1).into())),
        ("time to live", bare, ttl(), Some(99.into())),
        ("for ever", forever, ttl(), Some((-1).into())),
        ("none left", expired, ttl(), Some(0.into())),
        ("key is stored", stored, key_exists(), Some(true.into())),
        ("key is not stored", bare, key_exists(), Some(false.into())),
        ("key", stored, exp::key(ExpType::String), Some("me".into())),
        (
            "integer key",
            numbered,
            exp::key(ExpType::Int),
            Some((-7).into()),
        ),
        ("key of another type", stored, exp::key(ExpType::Int), None),
        ("no key", bare, exp::key(ExpType::String), None),
        ("tombstone", bare, is_tombstone(), Some(false.into())),
        ("size", bare, record_size(), Some(112.into())),
        ("on a device", bare, device_size(), Some(112.into())),
        ("not in memory", bare, memory_size(), Some(0.into())),
        ("not on a device", forever, device_size(), Some(0.into())),
        ("in memory", forever, memory_size(), Some(112.into())),
    ];
    for (what, facts, expression, expected) in table {
        let scope = Scope {
            facts: Some(&facts),
            bins: None,
        };
        let program = expression.program().unwrap();
        assert_eq!(value_of(program.evaluate(scope)), expected, "{what}");
        assert_eq!(program.evaluate(Scope::default()), None, "{what}");
    }
}

#[test]
fn a_filter_asks_the_bins_only_if_the_metadata_leave_it_open() {
    let (facts, body) = (facts(None), body(&[("i", 5.into())]));
    let young = || lt(since_update(), 2_000);
    let old = || gt(since_update(), 2_000);
    let five = || eq(int_bin("i"), 5);
    let table = [
        (young(), FilterVerdict::Passes, true),
        (old(), FilterVerdict::Fails, false),
        (five(), FilterVerdict::NeedsBins, true),
        (ne(int_bin("i"), 5), FilterVerdict::NeedsBins, false),
        (and([old(), five()]), FilterVerdict::Fails, false),
        (and([five(), old()]), FilterVerdict::Fails, false),
        (or([five(), young()]), FilterVerdict::Passes, true),
        (and([young(), five()]), FilterVerdict::NeedsBins, true),
        (eq(int_bin("missing"), 5), FilterVerdict::NeedsBins, false),
        (bin_exists("missing"), FilterVerdict::NeedsBins, false),
        // Without bins, the unknown stays unknown.
        (eq(exp::key(ExpType::Int), 5), FilterVerdict::Fails, false),
        (unknown(), FilterVerdict::Fails, false),
    ];
    for (expression, verdict, passes) in table {
        let filter = expression.filter().unwrap();
        assert_eq!(filter.judge(&facts), verdict, "{expression:?}");
        let got = filter.passes_stored(Some(&facts), &body);
        assert_eq!(got.unwrap(), passes, "{expression:?}");
        if !filter.reads_facts() {
            let got = filter.passes_stored(None, &body);
            assert_eq!(got.unwrap(), passes, "{expression:?}");
        }
        // Malformed bytes matter only to filters that read bins.
        let got = filter.passes_stored(Some(&facts), &[2, 1]);
        assert_eq!(
            got.is_err(),
            verdict == FilterVerdict::NeedsBins,
            "{expression:?}"
        );
    }
    for expression in [int_bin("i"), eq(1, "x")] {
        assert_eq!(expression.filter().unwrap_err().result_code(), 4);
    }
}

#[test]
fn a_filter_looks_at_the_bins_it_reads_and_those_before_them() {
    let whole = body(&[("a", 1.into()), ("i", 5.into()), ("z", 9.into())]);
    let five = eq(int_bin("i"), 5);
    let filter = five.filter().unwrap();
    // Name, its length, type, length of the value, value.
    let behind_i = whole.len() - 5;
    for end in 0..whole.len() {
        match filter.passes_stored(None, &whole[..end]) {
            Ok(passes) => assert!(passes && end >= behind_i, "{end}"),
            Err(error) => assert_eq!((error.result_code(), end < behind_i), (1, true), "{end}"),
        }
    }
    // An integer of three bytes.
    let wrong = [1, 1, b'i', 1, 3, 0, 0, 5];
    assert!(filter.passes_stored(None, &wrong).is_err());
}

#[test]
fn operations_of_clients_may_leave_out_the_flags() {
    let read = |payload: &[u8]| {
        let evaluation = Evaluation::parse(payload)?;
        let reply = evaluation.read(Scope::default())?;
        Ok::<_, CallError>(reply.to_value().unwrap())
    };
    assert_eq!(read(&[0x91, 5]), Ok(5.into()));
    assert_eq!(read(&[0x92, 5, 0]), Ok(5.into()));
    assert_eq!(read(&[0x92, 0x91, 0, 16]), Ok(Value::Nil));
    let refused: [&[u8]; 9] = [
        &[],
        &[5],
        &[0x90],
        &[0x92, 5],
        &[0x92, 5, 0xc0],
        &[0x92, 5, 1],
        &[0x92, 5, 0xff],
        &[0x93, 5, 0, 0],
        &[0x92, 5, 0, 0],
    ];
    for payload in refused {
        let error = read(payload).unwrap_err().in_bin("b");
        assert_eq!(error.result_code(), 4, "{payload:x?}");
    }
}

#[test]
fn a_value_from_a_bin_is_not_copied() {
    let body = body(&[("l", vec![Value::Int(1); 100].into())]);
    let view = RecordView::parse(&body).unwrap();
    let scope = Scope {
        facts: None,
        bins: Some(&view),
    };
    let expression = exp_let(
        [def("x", list_bin("l"))],
        cond([true.into(), var("x"), unknown()]),
    );
    let evaluation = Evaluation::new(expression, 0);
    let CallReply::Stored(_, value) = evaluation.read(scope).unwrap() else {
        panic!("a list is stored bytes");
    };
    assert!(body.as_ptr_range().contains(&value.as_ptr()));
}
