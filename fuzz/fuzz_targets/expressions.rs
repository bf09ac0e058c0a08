//! Expressions of any bytes: refused, or evaluated on a record of all types without a panic; their
//! encoding is kept.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use spikelet::expressions::{ExpReadFlags, ExpWriteFlags};
use spikelet::operations::exp;
use spikelet::value::{List, Map};
use spikelet::{Expression, ListOrder, MapOrder, Value};
use support::{BIN, check_stored, run, with_set};

fuzz_target!(|data: &[u8]| {
    let Ok(expression) = Expression::from_bytes(data) else {
        return;
    };
    let encoded = expression
        .to_bytes()
        .expect("what was read has an encoding");
    assert_eq!(encoded, data);
    with_set(|set| {
        let list = List::new(vec![3.into(), "a".into(), Value::Nil], ListOrder::Ordered);
        let entries = vec![
            (1.into(), "x".into()),
            ("k".into(), Value::from(list.clone())),
        ];
        let bins: [(&str, Value); 7] = [
            ("i", 7.into()),
            ("f", 1.5.into()),
            ("s", "text".into()),
            ("b", (&[1, 2, 3]).into()),
            ("t", true.into()),
            ("l", list.into()),
            ("m", Map::new(entries, MapOrder::KeyOrdered).into()),
        ];
        set.put("k", bins).expect("puts");
        let _ = run(
            set,
            exp::read("r", expression.clone(), ExpReadFlags::empty()),
        );
        if run(set, exp::write(BIN, expression, ExpWriteFlags::empty())).is_ok() {
            check_stored(set, BIN);
        }
    });
});
