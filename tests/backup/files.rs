//! Where backups are written, and the bytes in them.

use std::fs;
use std::path::{Path, PathBuf};

use spikelet::backup::{self, BackupOptions, BackupSummary, PieceStart, files_of, save};
use spikelet::policy::MAX_TIME_TO_LIVE;
use spikelet::record::KeyHash;
use spikelet::{Expiration, Key, NamespaceConfig, Store, Value, WritePolicy};

use crate::common::{namespace, options, records_of, restore, save_all, store, store_of};

fn filled(store: Store, records: i64) -> Store {
    let set = store.set("demo").unwrap();
    for key in 0..records {
        set.put(key, [("b", Value::Blob(vec![7; 300]))]).unwrap();
    }
    store
}

fn saved(store: &Store, out: &Path, change: impl FnOnce(&mut BackupOptions)) -> BackupSummary {
    let mut options = BackupOptions::default();
    change(&mut options);
    save(store, out, &options, &mut |_| {}).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_directory_is_filled_with_files_of_limited_size() {
    let store = filled(store(), 100);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("deep/backup");
    let mut told = Vec::new();
    let mut few = BackupOptions::default();
    few.file_bytes = 10_000;
    let summary = save(&store, &out, &few, &mut |records| told.push(records)).unwrap();
    assert_eq!(summary.records, 100);
    assert_eq!(told.last(), Some(&100));
    let files = files_of(&out).unwrap();
    assert_eq!(files, summary.files);
    assert_eq!(names(&dir.path().join("deep")), ["backup"]);
    assert!(files[0].ends_with("test_00000.asb") && files.len() > 3);
    let mut bytes = 0;
    for (number, file) in files.iter().enumerate() {
        let text = fs::read_to_string(file).unwrap();
        bytes += text.len() as u64;
        assert!(text.len() < 10_600, "{}", text.len());
        assert!(text.starts_with("Version 3.1\n# namespace test\n"));
        assert_eq!(text.contains("# first-file\n"), number == 0);
    }
    assert_eq!(summary.bytes, bytes);
    let into = self::store();
    assert_eq!(restore(&out, &into, options(|_| {})).unwrap().restored, 100);
}

#[test]
fn the_same_records_give_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let text = |name: &str, keys: &mut dyn Iterator<Item = i64>| {
        let store = store();
        for key in keys {
            store.set("demo").unwrap().put(key, [("n", key)]).unwrap();
        }
        let out = dir.path().join(name);
        save_all(&store, &out);
        fs::read(out).unwrap()
    };
    assert_eq!(
        text("up.asb", &mut (0..500)),
        text("down.asb", &mut (0..500).rev())
    );
}

#[test]
fn nothing_is_written_over() {
    let store = filled(store(), 1);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.asb");
    fs::write(&file, "precious").unwrap();
    let full = dir.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("notes.txt"), "precious").unwrap();
    for out in [&file, &full] {
        let error = save(&store, out, &BackupOptions::default(), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("name another one"), "{error}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    assert_eq!(names(dir.path()), ["a.asb", "full"]);
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    save_all(&store, &empty);
    assert_eq!(names(&empty), ["test_00000.asb"]);
}

#[test]
fn no_backup_goes_into_the_store_that_is_saved() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let store = Store::open(&dir).unwrap();
    std::os::unix::fs::symlink(&dir, home.path().join("alias")).unwrap();
    for out in [
        "store/in.asb",
        "store/in",
        "store/test/in/deeper",
        "store",
        "alias/in.asb",
    ] {
        let out = home.path().join(out);
        let error = save(&store, &out, &BackupOptions::default(), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("is inside the store"), "{error}");
    }
    assert_eq!(names(&dir), ["test"]);
    save_all(&store, &home.path().join("store-saved"));
}

#[test]
fn a_backup_that_fails_leaves_nothing() {
    let store = filled(store(), 10);
    store
        .create_namespace(NamespaceConfig::new("cache"))
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    type Change = fn(&mut BackupOptions);
    let table: [(&str, Change, &str); 4] = [
        (
            "a.asb",
            |_| {},
            "the namespaces cache, test, and a file holds one",
        ),
        (
            "b.asb",
            |options| options.namespace = Some("none".into()),
            "unknown namespace \"none\": the store has cache, test",
        ),
        (
            "c",
            |options| options.sets = vec!["demo".into(), "none".into()],
            "namespace cache has no set \"demo\"",
        ),
        (
            "none/d.asb",
            |options| options.namespace = Some("test".into()),
            "none/d.asb: ",
        ),
    ];
    for (name, change, what) in table {
        let mut options = BackupOptions::default();
        change(&mut options);
        let out = dir.path().join(name);
        let error = save(&store, &out, &options, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!(names(dir.path()), [""; 0], "{name}");
    }
}

#[test]
fn all_namespaces_go_to_a_directory_and_come_back() {
    let store = filled(store(), 3);
    let cache = store
        .create_namespace(NamespaceConfig::new("cache"))
        .unwrap();
    cache.set("").unwrap().put("k", [("n", 1)]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("all");
    let summary = save_all(&store, &out);
    assert_eq!(names(&out), ["cache_00000.asb", "test_00000.asb"]);
    let saved = summary.namespaces.iter();
    let saved: Vec<_> = saved.map(|one| (one.name.as_str(), one.records)).collect();
    assert_eq!(saved, [("cache", 1), ("test", 3)]);
    assert!(summary.leftovers.is_empty());
    let into = self::store();
    let cache = into
        .create_namespace(NamespaceConfig::new("cache"))
        .unwrap();
    restore(&out, &into, options(|_| {})).unwrap();
    assert_eq!(records_of(&into), 3);
    assert!(cache.set("").unwrap().exists("k").unwrap());
}

#[test]
fn what_is_not_wanted_is_left_out() {
    let store = store();
    let live = WritePolicy::default().expiration(Expiration::After(MAX_TIME_TO_LIVE));
    for (set, key) in [("a", 1), ("a", 2), ("b", 1), ("", 1)] {
        let policy = if key == 2 {
            live.clone()
        } else {
            WritePolicy::default()
        };
        let set = store.set(set).unwrap();
        set.put_with(&policy, key, [("n", 1)]).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let out = |name: &str| dir.path().join(name);
    let sets = saved(&store, &out("sets.asb"), |options| {
        options.sets = vec!["a".into(), "".into()];
    });
    assert_eq!(sets.records, 3);
    let lasting = saved(&store, &out("lasting.asb"), |options| {
        options.no_ttl_only = true
    });
    assert_eq!(lasting.records, 3);
    let keys = saved(&store, &out("keys.asb"), |options| options.no_bins = true);
    assert_eq!(keys.records, 4);
    let into = self::store();
    let restored = restore(&out("keys.asb"), &into, options(|_| {})).unwrap();
    assert_eq!((restored.restored, restored.without_bins), (0, 4));
}

#[test]
fn keys_are_saved_with_aerospikes_digest_and_others_are_counted() {
    let store = store_of(KeyHash::Xxh3);
    let set = store.set("demo").unwrap();
    set.put("key1", [("n", 1)]).unwrap();
    let no_key = WritePolicy::default().send_key(false);
    set.put_with(&no_key, "key2", [("n", 2)]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("own.asb");
    let summary = save_all(&store, &out);
    assert_eq!((summary.without_key, summary.foreign_digests), (1, 1));
    let text = fs::read_to_string(&out).unwrap();
    assert!(
        text.contains("+ d 7JEZLUt/jONdXXjTS8ply6qqyWA=\n"),
        "{text}"
    );
    let into = store_of(KeyHash::Xxh3);
    let trusting = options(|options| options.trust_digests = true);
    assert_eq!(restore(&out, &into, trusting).unwrap().restored, 2);
    let found = into.set("demo").unwrap().get(Key::from("key2")).unwrap();
    assert_eq!(found.unwrap().get("n"), Some(2.into()));
}

fn open(dir: &Path) -> Store {
    let builder = Store::builder().namespace(namespace(KeyHash::Ripemd160));
    builder.path(dir).open().unwrap()
}

/// A store on disk. The bin of record `key` has had a byte inverted before this opening.
fn damaged(dir: &Path, key: &str) -> Store {
    let store = open(dir);
    let set = store.set("demo").unwrap();
    for one in ["a", "b", "c"] {
        let text = format!("the text of {one}, which is found again");
        set.put(one, [("text", text.as_str())]).unwrap();
    }
    store.close().unwrap();
    drop((store, set));
    let device: PathBuf = dir.join("test/device-0");
    let mut bytes = fs::read(&device).unwrap();
    let text = format!("the text of {key}, ");
    let at = bytes
        .windows(text.len())
        .position(|window| window == text.as_bytes())
        .unwrap();
    bytes[at] ^= 0xff;
    fs::write(&device, bytes).unwrap();
    open(dir)
}

#[test]
fn pieces_count_damage_and_what_the_opening_has_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = damaged(dir.path(), "b");
    let damage_of = |store: &Store| {
        let namespace = store.namespace("test").unwrap();
        let piece = backup::piece(&namespace, PieceStart::default()).unwrap();
        (piece.passed_over, piece.damaged)
    };
    assert_eq!(damage_of(&store), (0, 1));
    store.close().unwrap();
    drop(store);
    // Without the snapshot of the close, the next opening reads the log.
    fs::remove_file(dir.path().join("test/index.snapshot")).unwrap();
    // The header of the entry is whole, so its record is known, and found damaged when it is read.
    assert_eq!(damage_of(&open(dir.path())), (1, 1));
}

#[test]
fn damaged_records_are_counted_and_a_backup_mends_them() {
    let dir = tempfile::tempdir().unwrap();
    let whole = store();
    for one in ["a", "b", "c"] {
        let set = whole.set("demo").unwrap();
        set.put(one, [("text", one)]).unwrap();
    }
    let good = dir.path().join("good.asb");
    save_all(&whole, &good);
    let store = damaged(&dir.path().join("store"), "b");
    let summary = save_all(&store, &dir.path().join("rest.asb"));
    assert_eq!((summary.records, summary.damaged), (2, 1));
    let [damage] = &summary.damage[..] else {
        panic!("{:?}", summary.damage)
    };
    assert!(
        damage.contains("namespace test") && damage.contains("offset"),
        "{damage}"
    );
    let set = store.set("demo").unwrap();
    assert!(set.get("b").is_err());
    let restored = restore(&good, &store, options(|_| {})).unwrap();
    assert_eq!((restored.restored, restored.fresher), (1, 2));
    assert_eq!(set.get("b").unwrap().unwrap().get("text"), Some("b".into()));
}

#[test]
fn damage_of_a_partition_is_counted_in_the_first_of_its_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let digest = |key: &str| KeyHash::Ripemd160.digest("demo", &Key::from(key));
    let partition = digest("b").partition();
    let same = (0..).map(|n| format!("large {n}"));
    let same = same.filter(|key| digest(key).partition() == partition);
    let store = open(dir.path());
    let set = store.set("demo").unwrap();
    for key in same.take(8) {
        set.put(&*key, [("b", Value::Blob(vec![7; 900 << 10]))])
            .unwrap();
    }
    store.close().unwrap();
    drop((store, set));
    let namespace = damaged(dir.path(), "b").namespace("test").unwrap();
    let (mut pieces, mut damage, mut from) = (0, 0, Some(PieceStart::default()));
    while let Some(begin) = from {
        let piece = backup::piece(&namespace, begin).unwrap();
        pieces += 1;
        damage += piece.damaged;
        from = piece.next;
    }
    assert_eq!((pieces, damage), (3, 1));
}
