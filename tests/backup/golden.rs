//! The bytes of a backup.

use std::fs;
use std::time::Duration;

use spikelet::backup::{BackupOptions, Blobs, Reader, Writer, save};
use spikelet::operations::hll::HllPolicy;
use spikelet::operations::{hll, lists, maps};
use spikelet::record::KeyHash;
use spikelet::value::{List, Map, ParticleType};
use spikelet::{Expiration, ListOrder, MapOrder, Value, WritePolicy};

use crate::common::{POINT, file_of, options, restore, save_all, store, store_of};

/// A record of every type, as another tool would write it, and the other lines that a file may
/// hold.
const GOLDEN: &str = concat!(
    "Version 3.1\n",
    "# namespace test\n",
    "# first-file\n",
    "+ k S 4 key1\n",
    "+ n test\n",
    "+ d 7JEZLUt/jONdXXjTS8ply6qqyWA=\n",
    "+ s demo\n",
    "+ g 2\n",
    "+ t 504921700\n",
    "+ b 11\n",
    "- I i -7\n",
    "- D f\\ 1 0.10000000000000001\n",
    "- S s 6 a b\n\\c\n",
    "- B b 4 AAH/\n",
    "- Z t T\n",
    "- Z u F\n",
    "- G g 42 {\"type\":\"Point\",\"coordinates\":[15.4,47.1]}\n",
    "- L list 8 kwECAw==\n",
    "- L ordered 12 lMcAAQECogNh\n",
    "- M map 12 ggDAogNhAQ==\n",
    "- M by\\ key 12 gscAAcABAg==\n",
    "+ k I -1\n",
    "+ n test\n",
    "+ d 6dSaJMPevcWm1VHT5wh5maJju5c=\n",
    "+ s demo\n",
    "+ g 1\n",
    "+ t 0\n",
    "+ b 1\n",
    "- I n 1\n",
);

#[test]
fn a_backup_has_these_bytes() {
    let store = store();
    let set = store.set("demo").unwrap();
    let live = Expiration::After(Duration::from_secs(100));
    let policy = WritePolicy::default().expiration(live);
    let list = |order| Value::from(List::new(vec![1.into(), 2.into(), "a".into()], order));
    let bins: [(&str, Value); 11] = [
        ("i", (-7).into()),
        ("f 1", 0.1.into()),
        ("s", "a b\n\\c".into()),
        ("b", (&[0, 1, 255]).into()),
        ("t", true.into()),
        ("u", false.into()),
        ("g", Value::GeoJson(POINT.to_owned())),
        (
            "list",
            List::from(vec![1.into(), 2.into(), 3.into()]).into(),
        ),
        ("ordered", list(ListOrder::Ordered)),
        (
            "map",
            Map::from(vec![("a".into(), 1.into()), (Value::from(0), Value::Nil)]).into(),
        ),
        (
            "by key",
            Map::new(vec![(1.into(), 2.into())], MapOrder::KeyOrdered).into(),
        ),
    ];
    set.put_with(&policy, "key1", bins.clone()).unwrap();
    set.put_with(&policy, "key1", bins).unwrap();
    set.put(-1, [("n", 1)]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("golden.asb");
    let summary = save_all(&store, &out);
    let text = fs::read_to_string(&out).unwrap();
    assert_eq!(text, GOLDEN, "{text}");
    assert_eq!(
        (summary.records, summary.bytes, summary.files),
        (2, GOLDEN.len() as u64, vec![out])
    );
}

#[test]
fn what_was_read_is_written_again_byte_by_byte() {
    let mut reader = Reader::new(GOLDEN.as_bytes()).unwrap();
    assert_eq!(reader.namespace(), Some("test"));
    let mut writer = Writer::new(Vec::new(), "test", true, Blobs::Base64).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        writer.write(&record).unwrap();
    }
    assert_eq!(reader.offset(), GOLDEN.len() as u64);
    assert_eq!(String::from_utf8(writer.into_inner()).unwrap(), GOLDEN);
}

#[test]
fn raw_bytes_are_written_as_they_are() {
    let store = store();
    let blob = Value::Blob(b"a\n- I b 1\n".to_vec());
    store.set("").unwrap().put(b"k\n", [("b", blob)]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("raw.asb");
    let mut raw = BackupOptions::default();
    raw.blobs = Blobs::Raw;
    save(&store, &out, &raw, &mut |_| {}).unwrap();
    let text = fs::read_to_string(&out).unwrap();
    assert!(text.contains("\n+ k B! 2 k\n\n"), "{text}");
    assert!(text.ends_with("\n- B! b 10 a\n- I b 1\n\n"), "{text}");
    let mut reader = Reader::new(text.as_bytes()).unwrap();
    let record = reader.next_record().unwrap().unwrap();
    assert_eq!(record.key(), Some(b"k\n".into()));
    assert_eq!(record.view().len(), 1);
    assert_eq!(reader.next_record().unwrap(), None);
}

#[test]
fn lists_and_maps_are_saved_without_the_index_that_a_store_keeps_of_them() {
    let store = store();
    let set = store.set("demo").unwrap();
    let operations = [
        lists::create_persistent("l", ListOrder::Ordered),
        lists::append(&Default::default(), "l", 5),
        lists::append(&Default::default(), "l", 3),
        maps::create_persistent("m", MapOrder::KeyValueOrdered),
        maps::put(&Default::default(), "m", "a", 2),
        maps::put(&Default::default(), "m", "b", 1),
    ];
    set.operate("k", &operations).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("lists.asb");
    save_all(&store, &out);
    let into = self::store();
    restore(&out, &into, options(|_| {})).unwrap();
    let (before, after) = (set.get("k").unwrap().unwrap(), into.set("demo").unwrap());
    let after = after.get("k").unwrap().unwrap();
    for bin in ["l", "m"] {
        assert_eq!(after.get(bin), before.get(bin));
    }
    // [flags of an ordered list] 3, 5.
    let list = (ParticleType::List, &[0x93, 0xc7, 0, 1, 3, 5][..]);
    assert_eq!(after.view().particle("l"), Some(list));
    assert!(before.view().particle("l").unwrap().1.len() > list.1.len());
}

#[test]
fn sketches_and_foreign_blobs_keep_their_types() {
    let letters = "JCPRHE";
    let bins: String = letters
        .chars()
        .map(|letter| format!("- {letter} bin{letter} 4 AAEC\n"))
        .collect();
    let text = format!(
        "Version 3.1\n+ n test\n+ d 7JEZLUt/jONdXXjTS8ply6qqyWA=\n+ g 1\n+ t 0\n+ b 6\n{bins}"
    );
    let (_dir, path) = file_of(&text);
    let store = store();
    restore(&path, &store, options(|_| {})).unwrap();
    let set = store.set("").unwrap();
    let add = hll::add_with_index_bits(&HllPolicy::default(), "h", vec!["a".into()], 6);
    set.operate("sketch", &[add]).unwrap();
    let out = path.with_file_name("again.asb");
    save_all(&store, &out);
    let saved = fs::read_to_string(&out).unwrap();
    assert!(saved.contains(&bins), "{saved}");
    assert!(saved.contains("\n- Y h "), "{saved}");
    let into = self::store();
    restore(&out, &into, options(|_| {})).unwrap();
    let sketch = |store: &spikelet::Store| {
        let record = store.set("").unwrap().get("sketch").unwrap().unwrap();
        record.get("h").unwrap()
    };
    assert_eq!(sketch(&into), sketch(&store));
}

#[test]
fn files_of_version_3_0_know_no_escapes_and_have_strings_in_base64() {
    let text = "Version 3.0\n# namespace test\n\
        + k X 4 a2V5\n+ n test\n+ d t5gSIrdLRq0fszolFJ3x8LfHzQI=\n+ s a\\b\n+ g 1\n+ t 0\n+ b 1\n- X t\\ 4 YSBi\n";
    let mut reader = Reader::new(text.as_bytes()).unwrap();
    let record = reader.next_record().unwrap().unwrap();
    assert_eq!(
        (record.set.as_str(), record.key()),
        ("a\\b", Some("key".into()))
    );
    assert_eq!(record.view().bin("t\\").unwrap().as_str(), Some("a b"));
    assert_eq!(reader.next_record().unwrap(), None);
}

#[test]
fn modules_and_bins_without_value_are_passed_over_and_counted() {
    let text = "Version 3.1\n# first-file\n# namespace a\\ b\n\
        * i a\\ b people by\\ age N 1 age N\n* i a\\ b  by-tag L 1 tags S\n\
        * u L f.lua 13 -- +\n+ n x\n\n\n\n\
        + n a\\ b\n+ d t5gSIrdLRq0fszolFJ3x8LfHzQI=\n+ g 0\n+ t 7\n+ b 2\n- N nothing\n- D f -inf\n";
    let mut reader = Reader::new(text.as_bytes()).unwrap();
    assert_eq!(reader.namespace(), Some("a b"));
    let record = reader.next_record().unwrap().unwrap();
    assert_eq!((record.namespace.as_str(), record.line), ("a b", 11));
    assert_eq!((record.generation, record.void_time), (1, 7));
    assert_eq!(record.view().len(), 1);
    let float = record.view().bin("f").unwrap().as_f64();
    assert_eq!(float, Some(f64::NEG_INFINITY));
    assert_eq!(reader.next_record().unwrap(), None);
    let skipped = reader.skipped();
    assert_eq!((skipped.modules, skipped.nil_bins), (1, 1));
    assert_eq!(reader.indexes().len(), 2);
}

#[test]
fn text_that_is_not_utf8_stays_as_it_is() {
    let mut text = b"Version 3.1\n+ k S 2 \xff\xfe\n+ n test\n+ d ".to_vec();
    // RIPEMD-160 of the particle type of strings and the two bytes.
    text.extend_from_slice(b"6EGF1V5nmhnOH0GVD150F93AQTI=\n+ g 1\n+ t 0\n+ b 1\n- S s 1 \xfd\n");
    let (_dir, path) = file_of(&text);
    let store = store_of(KeyHash::Xxh3);
    restore(&path, &store, options(|_| {})).unwrap();
    let out = path.with_file_name("again.asb");
    save_all(&store, &out);
    let saved = fs::read(&out).unwrap();
    assert_eq!(saved[saved.len() - text.len() + 12..], text[12..]);
}
