//! Damaged and hostile files: told with line and byte, and nothing is restored of them unless that
//! is asked for.

use std::fs;

use proptest::prelude::*;
use spikelet::backup::{BackupError, ReadError, Reader, Restore};
use spikelet::record::KeyHash;

use crate::common::{
    backup_of, base64, file_of, keyless, options, record, records_of, restore, store, store_of,
};

const DIGEST: &str = "7JEZLUt/jONdXXjTS8ply6qqyWA=";

/// Three records of several kinds.
fn three() -> String {
    backup_of(&[
        record(1, 1, 0, &["I i 1", "S text 3 a\nb"]),
        keyless(DIGEST, 2, 0, &["L l 8 kwECAw==", "N nil", "Z t T"]),
        record(3, 3, 0, &["D f 1.5", "B! raw 4 \n+ n"]),
    ])
}

fn read_all(text: &[u8]) -> Result<usize, ReadError> {
    let mut reader = Reader::new(text)?;
    let mut count = 0;
    while reader.next_record()?.is_some() {
        count += 1;
    }
    Ok(count)
}

#[test]
fn a_file_that_ends_early_anywhere_is_restored_as_a_whole_or_not_at_all() {
    let whole = three();
    let (_dir, path) = file_of("");
    let mut whole_files = Vec::new();
    for len in 0..=whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        let store = store();
        match restore(&path, &store, options(|_| {})) {
            Ok(summary) => {
                assert_eq!(records_of(&store), summary.restored);
                whole_files.push(summary.restored);
            }
            Err(BackupError::Read {
                source: ReadError::Malformed { offset, .. },
                ..
            }) => {
                assert!(offset <= len as u64, "{offset} of {len}");
                assert_eq!(records_of(&store), 0, "{len}");
            }
            Err(other) => panic!("{len}: {other}"),
        }
    }
    // The ends of the two lines of the head, and of the records.
    assert_eq!(whole_files, [0, 0, 1, 2, 3]);
}

#[test]
fn damage_is_told_with_its_line_and_byte() {
    let good = record(1, 1, 0, &["I i 1"]);
    let head = "Version 3.1\n# namespace test\n";
    let start = (head.len() + good.len()) as u64;
    // The text after a whole record, the line and byte from there at which it is found wrong, and
    // the message.
    let table: [(String, u64, u64, &str); 22] = [
        ("\n".into(), 0, 0, "neither a record"),
        ("- I a 1\n".into(), 0, 0, "neither a record"),
        (
            "* x\n".into(),
            0,
            2,
            "neither an index (i, e) nor a module (u)",
        ),
        (
            "* u L a 5 abc\n".into(),
            1,
            14,
            "ends within the text of a module",
        ),
        ("+ x 1\n".into(), 0, 2, "'x' where 'n' belongs"),
        ("+ k Q 1\n".into(), 0, 4, "'Q' is no type of a key"),
        ("+ k I one\n".into(), 0, 6, "\"one\" is no integer key"),
        ("+ k S 2 a\n".into(), 1, 10, "ends within the key"),
        (
            "+ n \u{2}test\n+ d AAAA\n".into(),
            2,
            19,
            "ends within the digest",
        ),
        (
            "+ n test\n+ d 7JEZLUt/jONdXXjTS8pl!6qqyWA=\n".into(),
            1,
            13,
            "is not Base64",
        ),
        (
            "+ n test\n+ d 7JEZLUt/jONdXXjTS8ply6qqyWAA\n".into(),
            1,
            13,
            "not 20 bytes",
        ),
        (
            keyless(DIGEST, 1, 0, &["I a 1"]).replace("+ g 1", "+ g 65536"),
            3,
            55,
            "no generation (0 to 65535)",
        ),
        (
            keyless(DIGEST, 1, 0, &["I a 1"]).replace("+ t 0", "+ t -1"),
            4,
            61,
            "no time of expiry",
        ),
        (
            keyless(DIGEST, 1, 0, &["I a 1"]).replace("+ b 1", "+ b 32768"),
            5,
            67,
            "no number of bins",
        ),
        (
            keyless(DIGEST, 1, 0, &["I a 1"]).replace("+ b 1", "+ b 2"),
            7,
            77,
            "ends within a bin",
        ),
        (
            keyless(DIGEST, 1, 0, &["Q a 1"]),
            6,
            71,
            "bin \"a\": 'Q' is no type of a value",
        ),
        (
            keyless(DIGEST, 1, 0, &["U a 4 AAAA"]),
            6,
            71,
            "large data types",
        ),
        (
            keyless(DIGEST, 1, 0, &["I sixteen.bytes... 1"]),
            6,
            71,
            "is not allowed: at most 15 bytes",
        ),
        (
            keyless(DIGEST, 1, 0, &["L a 8 xx==kwEC"]),
            6,
            77,
            "is not Base64",
        ),
        (
            keyless(DIGEST, 1, 0, &["L a 4 gQEC"]),
            6,
            71,
            "a list or map was expected",
        ),
        (keyless(DIGEST, 1, 0, &["G a 2 {}"]), 6, 71, "bin \"a\": "),
        (
            keyless(DIGEST, 1, 0, &["I a 1", "I a 2"]),
            6,
            69,
            "two bins of the same name",
        ),
    ];
    for (text, line, byte, what) in table {
        let damaged = format!("{head}{good}{text}");
        let found = read_all(damaged.as_bytes()).unwrap_err().to_string();
        let place = format!("line {}, byte {}: ", 11 + line, start + byte);
        assert!(found.starts_with(&place), "{text:?}: {found} ({place})");
        assert!(found.contains(what), "{text:?}: {found}");

        let (_dir, path) = file_of(&damaged);
        let store = store();
        let error = restore(&path, &store, options(|_| {})).unwrap_err();
        assert_eq!(error.to_string(), format!("{}: {found}", path.display()));
        assert_eq!(records_of(&store), 0);
        let partial = options(|options| options.partial = true);
        let summary = restore(&path, &store, partial).unwrap();
        assert_eq!((summary.records, summary.restored), (1, 1), "{text:?}");
    }
}

#[test]
fn what_is_no_backup_is_told_at_once() {
    for (text, what) in [
        ("", "line 1, byte 0: the file ends"),
        ("{\"json\":1}", "line 1, byte 0: '{' where 'V' belongs"),
        ("Version 4.0\n", "line 1, byte 8: version \"4.0\""),
        ("Version 3.1 \n", "version \"3.1 \""),
        (
            "Version 3.1\n# end\n",
            "line 2, byte 14: \"# end\" is not known",
        ),
        ("Version 3.1\r\n", "version \"3.1\\r\""),
    ] {
        let error = read_all(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(what), "{text:?}: {error}");
    }
}

#[test]
fn of_several_files_the_whole_ones_are_restored_if_that_is_asked_for() {
    let (dir, path) = file_of(backup_of(&[record(1, 1, 0, &["I i 1"])]));
    fs::write(path.with_file_name("another.asb"), "damaged").unwrap();
    fs::write(path.with_file_name("third.asb"), &three()[..200]).unwrap();
    fs::write(path.with_file_name("notes.txt"), "no backup").unwrap();
    let partial = options(|options| options.partial = true);
    let prepared = Restore::prepare(dir.path(), partial, &mut |_, _| {}).unwrap();
    let places: Vec<String> = prepared.damage().iter().map(ToString::to_string).collect();
    assert_eq!(places.len(), 2, "{places:?}");
    assert!(places[0].contains("another.asb: line 1, byte 0"));
    let store = store();
    let summary = prepared.run(&store, &mut |_, _| {}).unwrap();
    assert_eq!(
        (summary.restored, summary.fresher),
        (1, 1),
        "both have record 1"
    );
}

#[test]
fn a_digest_that_is_not_that_of_the_key_is_damage_unless_digests_are_trusted() {
    let good = record(1, 1, 0, &["I i 1"]);
    let wrong = record(2, 1, 0, &["I i 1"]).replace("+ k I 2", "+ k I 3");
    let (_dir, path) = file_of(backup_of(&[good, wrong]));
    let store = store();
    let error = restore(&path, &store, options(|_| {})).unwrap_err();
    assert!(error.to_string().contains("line 11, byte "), "{error}");
    assert!(error.to_string().contains("is not that of set and key"));
    assert_eq!(records_of(&store), 0);
    let partial = options(|options| options.partial = true);
    let summary = restore(&path, &store, partial).unwrap();
    assert_eq!((summary.restored, summary.refused), (1, 1));
    let trusting = options(|options| options.trust_digests = true);
    let summary = restore(&path, &store, trusting).unwrap();
    assert_eq!((summary.restored, summary.fresher), (1, 1));
    assert_eq!(records_of(&store), 2);
}

#[test]
fn records_without_key_keep_their_digest_where_digests_are_aerospikes() {
    let (_dir, path) = file_of(three());
    let store = store();
    assert_eq!(restore(&path, &store, options(|_| {})).unwrap().restored, 3);
    // The digest of "key1" in set demo.
    let found = store.set("demo").unwrap().get("key1").unwrap().unwrap();
    assert_eq!((found.generation(), found.key()), (2, None));
}

#[test]
fn records_without_key_are_refused_where_digests_are_our_own() {
    let (_dir, path) = file_of(three());
    let store = store_of(KeyHash::Xxh3);
    let error = restore(&path, &store, options(|_| {})).unwrap_err();
    assert!(matches!(error, BackupError::Refused(_)), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("1 records have no user key (the first: ")
    );
    assert_eq!(records_of(&store), 0);
    let partial = options(|options| options.partial = true);
    let summary = restore(&path, &store, partial).unwrap();
    assert_eq!((summary.restored, summary.refused), (2, 1));
    assert!(store.set("demo").unwrap().exists(3).unwrap());
    let trusting = options(|options| options.trust_digests = true);
    assert_eq!(restore(&path, &store, trusting).unwrap().restored, 1);
}

#[test]
fn a_record_that_is_too_large_for_the_namespace_is_found_before_anything_is_written() {
    let text = "x".repeat(1 << 20);
    let large = record(2, 1, 0, &[&format!("S s {} {text}", text.len())]);
    let (_dir, path) = file_of(backup_of(&[record(1, 1, 0, &["I i 1"]), large]));
    let store = store();
    let error = restore(&path, &store, options(|_| {})).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("exceeds the limit of namespace test")
    );
    assert_eq!(records_of(&store), 0);
    let partial = options(|options| options.partial = true);
    let summary = restore(&path, &store, partial).unwrap();
    assert_eq!((summary.restored, summary.refused), (1, 1));
}

#[test]
fn a_record_whose_key_is_too_large_is_refused_alone() {
    let key = "x".repeat(1 << 20);
    let large = record(2, 1, 0, &["I i 1"]);
    let large = large.replace("+ k I 2", &format!("+ k S {} {key}", key.len()));
    let (_dir, path) = file_of(backup_of(&[large, record(1, 1, 0, &["I i 1"])]));
    let store = store();
    let partial = options(|options| {
        options.partial = true;
        options.trust_digests = true;
    });
    let summary = restore(&path, &store, partial).unwrap();
    assert_eq!((summary.restored, summary.refused), (1, 1));
}

#[test]
fn a_set_that_cannot_be_is_found_before_anything_is_written() {
    let long = record(1, 1, 0, &["I i 1"]).replace("+ s demo", &format!("+ s {}", "s".repeat(64)));
    let (_dir, path) = file_of(backup_of(&[record(2, 1, 0, &["I i 1"]), long]));
    let store = store();
    let error = restore(&path, &store, options(|_| {})).unwrap_err();
    assert!(error.to_string().contains("a name has at most 63 bytes"));
    assert_eq!(records_of(&store), 0);
}

#[test]
fn announced_sizes_take_no_memory() {
    let huge = format!("S s {} a", 1_u64 << 40);
    for bin in [
        &huge,
        "S s 16777217 a",
        "B b -4 AAAA",
        "S s 18446744073709551616 a",
    ] {
        let text = backup_of(&[record(1, 1, 0, &[bin])]);
        let error = read_all(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("is no length in bytes"), "{error}");
    }
    let bins = vec![format!("S s 9000000 {}", "x".repeat(9_000_000)); 2];
    let bins: Vec<&str> = bins.iter().map(String::as_str).collect();
    let text = backup_of(&[record(1, 1, 0, &bins)]);
    let error = read_all(text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("exceed 16 MiB"), "{error}");
}

proptest! {
    #[test]
    fn a_damaged_byte_is_an_error_or_another_value_and_never_a_panic(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        removed in any::<bool>(),
    ) {
        let mut text = three().into_bytes();
        let at = at.index(text.len());
        if removed {
            text.remove(at);
        } else {
            text[at] = byte;
        }
        let _ = read_all(&text);
    }

    #[test]
    fn hostile_text_is_an_error_or_records_and_never_a_panic(
        lines in prop::collection::vec("[+*#-] [kndsgtbiuNZIDSGBML]!? [a1 ]{0,4} ?[0-9]{0,3} ?[A-Za-z=]{0,4}", 0..20),
    ) {
        let text = format!("Version 3.1\n{}\n", lines.join("\n"));
        let _ = read_all(text.as_bytes());
    }

    #[test]
    fn any_digest_is_read(digest in any::<[u8; 20]>()) {
        let text = backup_of(&[keyless(&base64(&digest), 1, 0, &["I i 1"])]);
        let mut reader = Reader::new(text.as_bytes()).unwrap();
        let record = reader.next_record().unwrap().unwrap();
        prop_assert_eq!(record.digest.as_bytes(), &digest);
    }
}
