//! Secondary indexes in backups.

use std::fs;

use spikelet::backup::{
    BackupError, BackupOptions, Blobs, Reader, Restore, RestoreOptions, SavedIndex, Writer, save,
};
use spikelet::expressions::{int_bin, num_add, string_bin};
use spikelet::operations::ctx;
use spikelet::query::{IndexComponent, IndexDefinition, IndexType};
use spikelet::{Error, Store, bins};

use crate::common::{POINT, backup_of, file_of, options, record, restore, save_all, store};

/// Definitions of each kind, with their sets: first the ones that fit on a line of Aerospike's
/// tools, then the others.
fn definitions() -> [(Option<&'static str>, IndexDefinition); 10] {
    let bin = IndexComponent::bin;
    let of_client = |name: &str, component: IndexComponent| {
        IndexDefinition::new(name, [component]).ignoring_longer_than(2048)
    };
    let nested = bin("author").at([ctx::map_key("city"), ctx::list_index(-1)]);
    let sum = IndexComponent::expression(num_add([int_bin("a"), int_bin("b")]));
    [
        (
            Some("demo"),
            of_client("by age", bin("age").of_type(IndexType::Integer)),
        ),
        (None, of_client("b\\d", bin("d").of_type(IndexType::Blob))),
        (
            Some("demo"),
            of_client("by_tag", bin("tags").elements().of_type(IndexType::String)),
        ),
        (
            Some("demo"),
            of_client("by_key", bin("m").map_keys().of_type(IndexType::String)),
        ),
        (
            Some("demo"),
            of_client("by_city", nested.of_type(IndexType::String)),
        ),
        (
            Some("demo"),
            of_client("by_place", bin("place").of_type(IndexType::GeoJson)),
        ),
        // From here on, what lines do not say.
        (
            Some("demo"),
            of_client("by_sum", sum.of_type(IndexType::Integer)),
        ),
        (
            Some("demo"),
            IndexDefinition::new("by_two", ["age", "name"]),
        ),
        (
            Some("demo"),
            IndexDefinition::new("one_name", ["name"]).unique(true),
        ),
        (
            None,
            IndexDefinition::new("by_length", [bin("s").of_type(IndexType::String)])
                .ignoring_longer_than(7),
        ),
    ]
}

/// By name.
const OWN: [&str; 4] = ["by_length", "by_sum", "by_two", "one_name"];

fn filled() -> Store {
    let store = store();
    let demo = store.set("demo").unwrap();
    for id in 0..20_i64 {
        let record = bins! {
            "age" => id % 4, "name" => format!("n{id}"), "a" => id, "b" => 1, "s" => "short",
            "tags" => vec!["x", "y"],
        };
        demo.put(id, record).unwrap();
    }
    for (set, definition) in definitions() {
        match set {
            Some(set) => store.set(set).unwrap().create_index(definition),
            None => store.namespace("test").unwrap().create_index(definition),
        }
        .unwrap();
    }
    store
}

fn indexes_of(store: &Store) -> Vec<(Option<Box<str>>, IndexDefinition)> {
    let namespace = store.namespace("test").unwrap();
    let names = namespace.indexes().into_iter().map(|index| index.name);
    names
        .map(|name| namespace.index_definition(&name).unwrap())
        .collect()
}

#[test]
fn indexes_come_back_as_they_were_and_answer_queries() {
    let from = filled();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("saved.asb");
    let saved = save_all(&from, &out);
    assert_eq!(saved.indexes, 10);
    let own: Vec<&str> = saved.own_indexes.iter().map(|index| &*index.name).collect();
    assert_eq!(own, OWN);

    let into = store();
    let summary = restore(&out, &into, RestoreOptions::default()).unwrap();
    assert_eq!((summary.restored, summary.indexes), (20, 10));
    assert_eq!(summary.skipped.modules, 0);
    let mut wanted = indexes_of(&from);
    let mut found = indexes_of(&into);
    wanted.sort_by(|one, other| one.1.name().cmp(other.1.name()));
    found.sort_by(|one, other| one.1.name().cmp(other.1.name()));
    assert_eq!(found, wanted);
    let demo = into.set("demo").unwrap();
    let count = |query: spikelet::query::Query| query.count().unwrap();
    assert_eq!(count(demo.query("by age").unwrap().eq(3)), 5);
    assert_eq!(count(demo.query("by_tag").unwrap().eq("x")), 20);
    assert_eq!(count(demo.query("by_sum").unwrap().at_least(11)), 10);
    assert_eq!(
        count(demo.query("by_two").unwrap().eq(3).begins_with("n1")),
        3
    );
    let taken = demo.put(99, [("name", "n1")]);
    assert!(matches!(taken, Err(Error::NotUnique { .. })));

    // Once more: they are there.
    let again = restore(&out, &into, RestoreOptions::default()).unwrap();
    assert_eq!((again.indexes, again.indexes_existed), (0, 10));
    // And the same indexes give the same bytes.
    let twice = dir.path().join("twice.asb");
    save_all(&into, &twice);
    assert_eq!(fs::read(&out).unwrap(), fs::read(&twice).unwrap());
}

#[test]
fn indexes_are_written_as_aerospikes_tools_read_them() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("saved.asb");
    save_all(&filled(), &out);
    let text = fs::read_to_string(&out).unwrap();
    let head: Vec<&str> = text.lines().take(10).collect();
    assert_eq!(
        head,
        [
            "Version 3.1",
            "# namespace test",
            "# first-file",
            "* i test  b\\\\d N 1 d B",
            "* i test demo by\\ age N 1 age N",
            // The contexts that clients send: 0x22, the key; 0x10, the position.
            "* i test demo by_city N 1 author S lCKlA2NpdHkQ/w==",
            "* i test demo by_key K 1 m S",
            // A part of it can be said.
            "* i test  by_length N 1 s S",
            "* i test demo by_place N 1 place G",
            "* i test demo by_tag L 1 tags S",
        ]
    );
    let module = text.lines().nth(10).unwrap();
    assert!(
        module.starts_with("* u L spikelet-indexes.lua "),
        "{module}"
    );
    let comments: Vec<&str> = text.lines().skip(11).take(4).collect();
    for (comment, name) in comments.iter().zip(OWN) {
        assert!(comment.starts_with("-- {\"namespace\":\"test\","));
        assert!(
            comment.contains(&format!("\"name\":\"{name}\"")),
            "{comment}"
        );
    }
}

#[test]
fn lines_of_other_tools_are_read() {
    let text = "Version 3.2\n# namespace test\n# first-file\n\
        * i test demo by\\ age N 1 n N\n\
        * i test  places V 1 m G\n\
        * i test demo nested L 1 m N lCKlA2NpdHkQ/w==\n\
        * e test demo twice N 1 null N kxRRVQFhUVUBYQ==\n\
        * u L f.lua 6 -- a\n\n\n"
        .replace("kxRRVQFhUVUBYQ==", &expression());
    let mut reader = Reader::new(text.as_bytes()).unwrap();
    assert_eq!(reader.next_record().unwrap(), None);
    assert_eq!(reader.skipped().modules, 1);
    let named: Vec<(Option<&str>, &str)> = reader
        .indexes()
        .iter()
        .map(|index| (index.set.as_deref(), index.definition.name()))
        .collect();
    assert_eq!(
        named,
        [
            (Some("demo"), "by age"),
            (None, "places"),
            (Some("demo"), "nested"),
            (Some("demo"), "twice")
        ]
    );
    let text = text + &record(1, 1, 0, &["I n 21", "G place 43 "]).replace("G place 43 ", &place());
    let (_dir, path) = file_of(text);
    let into = store();
    let summary = restore(&path, &into, RestoreOptions::default()).unwrap();
    assert_eq!((summary.restored, summary.indexes), (1, 4));
    let demo = into.set("demo").unwrap();
    assert_eq!(demo.query("twice").unwrap().eq(42).count().unwrap(), 1);
    assert_eq!(demo.query("by age").unwrap().eq(21).count().unwrap(), 1);
}

/// Lines as asrestore's parser takes them: escapes in every version, a space behind the type
/// without a context.
#[test]
fn lines_of_indexes_have_escapes_in_every_version_of_the_format() {
    for version in ["3.0", "3.1", "3.2"] {
        let text = format!(
            "Version {version}\n# namespace test\n\
            * i test my\\\nset back\\\\slash\\ \\and N 1 a\\ bin S\n\
            * i test  trailing K 1 m B \n\
            * i test demo nested L 1 m N lCKlA2NpdHkQ/w==\n\
            * u L my\\ module.lua 4 -- a\n\
            * i test demo last V 01 m G\n"
        );
        let mut reader = Reader::new(text.as_bytes()).unwrap();
        assert_eq!(reader.next_record().unwrap(), None, "{version}");
        assert_eq!(reader.skipped().modules, 1, "{version}");
        let of_client = |name: &str, component: IndexComponent, kind| {
            IndexDefinition::new(name, [component.of_type(kind)]).ignoring_longer_than(2048)
        };
        let bin = IndexComponent::bin;
        let nested = bin("m").at([ctx::map_key("city"), ctx::list_index(-1)]);
        let string = of_client("back\\slash and", bin("a bin"), IndexType::String);
        let wanted = [
            (Some("my\nset"), string),
            (
                None,
                of_client("trailing", bin("m").map_keys(), IndexType::Blob),
            ),
            (
                Some("demo"),
                of_client("nested", nested.elements(), IndexType::Integer),
            ),
            (
                Some("demo"),
                of_client("last", bin("m").map_values(), IndexType::GeoJson),
            ),
        ];
        let wanted = wanted.map(|(set, definition)| SavedIndex::new("test", set, definition));
        assert_eq!(reader.indexes(), wanted, "{version}");
    }
}

/// asrestore's tokens have 999 characters at most, and it ends at a longer one.
#[test]
fn a_context_that_asrestore_cannot_read_is_in_the_module_alone() {
    let index = |name: &str, key_bytes: usize| {
        let at = [ctx::map_key("k".repeat(key_bytes))];
        let component = IndexComponent::bin("m").at(at).of_type(IndexType::String);
        let definition = IndexDefinition::new(name, [component]).ignoring_longer_than(2048);
        SavedIndex::new("test", Some("demo"), definition)
    };
    // An array of two, the kind of the context, and a text with its type: 6 bytes more than the
    // key.
    let indexes = [index("fits", 741), index("exceeds", 744)];
    let portable: Vec<bool> = indexes.iter().map(SavedIndex::is_portable).collect();
    assert_eq!(portable, [true, false]);

    let store = store();
    let demo = store.set("demo").unwrap();
    for index in &indexes {
        demo.create_index(index.definition.clone()).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("saved.asb");
    save_all(&store, &out);
    let text = fs::read_to_string(&out).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("* i"))
        .collect();
    assert_eq!(lines.len(), 1);
    let (_, context) = lines[0].split_once(" m S ").unwrap();
    assert!((990..1000).contains(&context.len()), "{}", context.len());
    let into = self::store();
    let summary = restore(&out, &into, RestoreOptions::default()).unwrap();
    assert_eq!(summary.indexes, 2);
    let mut found = indexes_of(&into);
    found.sort_by(|one, other| one.1.name().cmp(other.1.name()));
    assert_eq!(found[0].1, indexes[1].definition);
    assert_eq!(found[1].1, indexes[0].definition);
}

/// `n + n`, as a client sends it.
fn expression() -> String {
    let twice = num_add([int_bin("n"), int_bin("n")]);
    crate::common::base64(&spikelet::Expression::to_bytes(&twice).unwrap())
}

fn place() -> String {
    format!("G place {} {POINT}", POINT.len())
}

#[test]
fn a_line_that_does_not_hold_is_named_with_its_place() {
    let long = "a".repeat(16);
    let lines = [
        ("* i test demo i X 1 n N", "'X' is none of N, L, K, V"),
        ("* i test demo i N 1 n F", "'F' is none of S, N, G, B"),
        ("* i test demo i N 2 n N m N", "it has 2 paths"),
        ("* i test demo i N 0 n N", "it has 0 paths"),
        ("* i test demo i N x n N", "is no number of paths"),
        ("* i test demo i N 1  N", "it has no bin"),
        (&format!("* i test demo i N 1 {long} N"), "15"),
        ("* i test demo i N 1 n N *", "not Base64"),
        ("* i test demo i N 1 n N AAAA", "path of contexts"),
        ("* i test demo i K 1 n G", "keys of maps are no geometries"),
        ("* i test demo a=b N 1 n N", "none of : ; , ="),
        ("* i test demo  N 1 n N", "a name has 1 to 255 bytes"),
        ("* i test demo i N 1", "ends within"),
        (
            "* i test demo i N 1 n N a b",
            "a space where a line feed belongs",
        ),
        ("* e test demo i N 1 null N", "it has no expression"),
        ("* e test demo i N 1 null N AAAA", "exp: "),
        (
            &format!("* e test demo i N 1 null S {}", expression()),
            "not of the index's type",
        ),
        (
            "* e test demo i N 1 n N AAAA AAAA",
            "a context and an expression",
        ),
        ("* x test", "neither an index"),
    ];
    for (line, why) in lines {
        let (_dir, path) = file_of(format!("Version 3.2\n# namespace test\n{line}\n"));
        let into = store();
        let error = restore(&path, &into, RestoreOptions::default()).unwrap_err();
        assert!(
            matches!(error, BackupError::Read { .. }),
            "{line}: {error:?}"
        );
        let text = error.to_string();
        assert!(
            text.contains("line 3, byte") && text.contains(why),
            "{line}: {text}"
        );
        assert_eq!(indexes_of(&into), []);
    }
}

#[test]
fn a_definition_that_does_not_hold_does_not_keep_the_records_from_being_restored() {
    let text = format!(
        "Version 3.1\n# namespace test\n* i test demo i X 1 n N\n* i test demo short\n* i test demo good N 1 n N\n{}",
        record(1, 1, 0, &["I n 21"])
    );
    let (_dir, path) = file_of(&text);
    let error = restore(&path, &store(), RestoreOptions::default()).unwrap_err();
    assert!(error.to_string().contains("line 3"), "{error}");
    let into = store();
    let without = options(|options| options.no_indexes = true);
    let summary = restore(&path, &into, without).unwrap();
    assert_eq!((summary.restored, summary.indexes), (1, 0));
    assert_eq!(summary.indexes_left_out, 3);
    // A partial restore makes the definitions that are valid.
    let into = store();
    let partial = options(|options| options.partial = true);
    let prepared = Restore::prepare(&path, partial, &mut |_, _| {}).unwrap();
    assert_eq!(prepared.damage().len(), 2);
    let summary = prepared.run(&into, &mut |_, _| {}).unwrap();
    assert_eq!((summary.restored, summary.indexes), (1, 1));
}

#[test]
fn a_module_of_definitions_that_does_not_hold_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("saved.asb");
    save_all(&filled(), &out);
    let text = fs::read_to_string(&out).unwrap();
    for (from, to, why) in [
        ("-- {\"namespace\"", "== {\"namespace\"", "line 12"),
        ("\"by_sum\"", "\"by:sum\"", "none of : ; , ="),
        ("\"unique\":true", "\"unique\":1234", "expected a boolean"),
    ] {
        let damaged = text.replacen(from, to, 1);
        assert_ne!(damaged, text);
        let error = Reader::new(damaged.as_bytes())
            .unwrap()
            .next_record()
            .unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    // A module of this name from another program is an ordinary module.
    let foreign = "Version 3.1\n* u L spikelet-indexes.lua 4 -- 1\n";
    let mut reader = Reader::new(foreign.as_bytes()).unwrap();
    assert_eq!(reader.next_record().unwrap(), None);
    assert_eq!((reader.indexes().len(), reader.skipped().modules), (0, 1));
}

#[test]
fn indexes_can_be_left_out() {
    let from = filled();
    let dir = tempfile::tempdir().unwrap();
    let [all, none, of_set] = ["all.asb", "none.asb", "set.asb"].map(|name| dir.path().join(name));
    save_all(&from, &all);
    let mut choice = BackupOptions::default();
    choice.no_indexes = true;
    let saved = save(&from, &none, &choice, &mut |_| {}).unwrap();
    assert_eq!((saved.indexes, saved.own_indexes.len()), (0, 0));
    assert!(!fs::read_to_string(&none).unwrap().contains("\n* "));
    choice.no_indexes = false;
    choice.sets = vec!["demo".to_owned()];
    // Indexes over all sets do not belong to this set.
    let saved = save(&from, &of_set, &choice, &mut |_| {}).unwrap();
    assert_eq!((saved.records, saved.indexes), (20, 8));

    let cases = [
        (options(|options| options.no_indexes = true), 0, 10),
        (options(|options| options.sets = vec!["demo".into()]), 8, 2),
        (
            options(|options| options.sets = vec!["other".into()]),
            0,
            10,
        ),
        (
            options(|options| options.namespace = Some("n".into())),
            0,
            10,
        ),
    ];
    for (options, wanted, left_out) in cases {
        let into = store();
        let summary = restore(&all, &into, options).unwrap();
        assert_eq!(
            (summary.indexes, summary.indexes_left_out),
            (wanted, left_out)
        );
        assert_eq!(indexes_of(&into).len(), wanted as usize);
    }
}

#[test]
fn an_index_of_another_definition_refuses_the_restore_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("saved.asb");
    save_all(&filled(), &out);
    let into = store();
    let demo = into.set("demo").unwrap();
    demo.create_index(IndexDefinition::new("by_two", ["name"]))
        .unwrap();
    let error = restore(&out, &into, RestoreOptions::default()).unwrap_err();
    assert!(matches!(error, BackupError::Refused(_)));
    assert!(error.to_string().contains("\"by_two\""), "{error}");
    assert_eq!((demo.len(), indexes_of(&into).len()), (0, 1));

    let partial = options(|options| options.partial = true);
    let summary = restore(&out, &into, partial).unwrap();
    assert_eq!((summary.restored, summary.indexes), (20, 9));
    assert_eq!(summary.indexes_refused.len(), 1);
}

#[test]
fn an_index_that_the_records_refuse_ends_the_restore_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("saved.asb");
    save_all(&filled(), &out);
    let into = store();
    into.set("demo").unwrap().put(77, [("name", "n5")]).unwrap();
    let error = restore(&out, &into, RestoreOptions::default()).unwrap_err();
    let BackupError::Stopped { restored, source } = error else {
        panic!("{error}")
    };
    assert_eq!(restored, 20);
    assert!(matches!(
        *source,
        BackupError::Index { index, source: Error::NotUnique { .. } } if index == "one_name"
    ));
}

#[test]
fn indexes_of_a_backup_without_records_are_restored() {
    let mut writer = Writer::new(Vec::new(), "test", true, Blobs::Base64).unwrap();
    let two = IndexDefinition::new("two", ["a", "b"]);
    let three = IndexDefinition::new("three", [IndexComponent::expression(string_bin("a"))]);
    let indexes = [
        SavedIndex::new("test", Some("demo"), two),
        SavedIndex::new("test", None, three),
    ];
    writer.write_indexes(&indexes).unwrap();
    let text = writer.into_inner();
    assert!(text.starts_with(backup_of(&[]).as_bytes()));
    let mut reader = Reader::new(&text[..]).unwrap();
    assert_eq!(reader.next_record().unwrap(), None);
    assert_eq!(reader.indexes(), indexes);
    let (_dir, path) = file_of(text);
    let into = store();
    let summary = restore(&path, &into, RestoreOptions::default()).unwrap();
    assert_eq!((summary.records, summary.indexes), (0, 2));
}

#[test]
fn an_index_of_the_records_without_a_set_is_restored_as_one() {
    let from = store();
    let component = IndexComponent::bin("n").of_type(IndexType::Integer);
    let definition = IndexDefinition::new("by_n", [component]).ignoring_longer_than(2048);
    let in_no_set = from.set("").unwrap();
    in_no_set.create_index(definition.clone()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("saved.asb");
    save_all(&from, &out);
    for into in [&from, &store()] {
        restore(&out, into, RestoreOptions::default()).unwrap();
        assert_eq!(indexes_of(into), [(Some("".into()), definition.clone())]);
    }
}
