//! The bins of a record: their order, replacement, and the checks made before there is one.

use super::*;

#[test]
fn bins_stand_in_the_order_of_creation_and_the_last_one_fills_a_gap() {
    let old = bins([("a", 1.into()), ("b", 2.into()), ("c", 3.into())]);
    let table: [(Vec<Operation>, &[&str]); 6] = [
        (
            vec![operations::put("b", "long text in place of a number")],
            &["a", "b", "c"],
        ),
        (vec![operations::put("d", 4)], &["a", "b", "c", "d"]),
        (vec![operations::delete_bin("a")], &["c", "b"]),
        (
            vec![operations::delete_bin("a"), operations::put("a", 1)],
            &["c", "b", "a"],
        ),
        (vec![operations::delete_bin("none")], &["a", "b", "c"]),
        (
            vec![operations::delete_all_bins(), operations::put("x", 1)],
            &["x"],
        ),
    ];
    for (operations, expected) in table {
        let (new, _) = execute(Some(&old), &operations).unwrap();
        let names: Vec<&str> = new.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn a_record_can_be_left_without_bins() {
    let old = bins([("a", 1.into())]);
    for operations in [
        vec![operations::delete_bin("a")],
        vec![operations::delete_all_bins()],
        vec![
            operations::put("b", 1),
            operations::delete_bin("b"),
            operations::delete_bin("a"),
        ],
    ] {
        assert!(execute(Some(&old), &operations).unwrap().0.is_empty());
    }
    assert!(
        execute(None, &[operations::delete_bin("a")])
            .unwrap()
            .0
            .is_empty()
    );
    let remove = lists::remove_by_value("a", 1, Return::Count);
    assert!(execute(None, &[remove]).unwrap().0.is_empty());
}

#[test]
fn replacing_drops_the_old_bins_and_refuses_what_needs_them() {
    let policy = ListPolicy::default();
    let refused = [
        operations::touch(),
        operations::delete_bin("a"),
        operations::put_encoded("a", ParticleType::Null, []),
        operations::add("a", 1),
        operations::append("a", "x"),
        operations::prepend("a", "x"),
        operations::delete_all_bins(),
        lists::append(&policy, "a", 1),
        lists::create("a", ListOrder::Ordered),
    ];
    for operation in refused {
        assert_eq!(code(Checked::new(&[operation], Mode::REPLACE)), 4);
    }
    let old = bins([("a", 1.into()), ("b", 2.into())]);
    let allowed = [
        operations::get_bin("b"),
        operations::put("c", 3),
        operations::get_bin("c"),
    ];
    let (body, results) = execute_in(Mode::REPLACE, Some(&old), &allowed).unwrap();
    assert_eq!(bins_of(&body), bins([("c", 3.into())]));
    assert_eq!(plain(&results), [(2, "c", 3.into())]);
}

#[test]
fn malformed_requests_are_refused_before_the_record_is_looked_up() {
    let table: [(Vec<Operation>, Mode, u8); 8] = [
        (vec![], Mode::empty(), 4),
        (vec![operations::touch(); 32_769], Mode::empty(), 4),
        (
            vec![operations::put("sixteen bytes...", 1)],
            Mode::empty(),
            21,
        ),
        (vec![operations::get_bin("a\0")], Mode::empty(), 21),
        (vec![operations::get(), operations::get()], Mode::empty(), 4),
        (vec![operations::get()], Mode::RESPOND_ALL, 4),
        (
            vec![operations::get(), operations::get_bin("a")],
            Mode::empty(),
            4,
        ),
        (vec![operations::get(), lists::size("a")], Mode::empty(), 4),
    ];
    for (operations, mode, expected) in table {
        assert_eq!(
            code(Checked::new(&operations, mode)),
            expected,
            "{:?}",
            operations.first()
        );
    }
    assert!(Checked::new(&vec![operations::touch(); 32_768], Mode::empty()).is_ok());
    assert!(
        Checked::new(&[operations::touch()], Mode::empty())
            .unwrap()
            .must_exist()
    );
}

#[test]
fn a_call_that_only_reads_refuses_writes() {
    let record = bins([("a", 1.into())]);
    let writes = [
        operations::put("a", 1),
        operations::touch(),
        lists::append(&ListPolicy::default(), "l", 1),
    ];
    for write in writes {
        assert_eq!(
            code(read(
                &record,
                &[operations::get_bin("a"), write],
                Mode::empty()
            )),
            4
        );
    }
    let all = read(&record, &[operations::get()], Mode::empty()).unwrap();
    assert_eq!(plain(&all), [(0, "a", 1.into())]);
}
