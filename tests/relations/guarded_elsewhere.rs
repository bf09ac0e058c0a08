//! Declared relations beside wire clients, backups, expiry and truncation, which know nothing of
//! them.
#![cfg(all(feature = "server", feature = "backup"))]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use spikelet::backup::{BackupOptions, Restore, RestoreOptions, save};
use spikelet::policy::RecordExistsAction;
use spikelet::record::KeyHash;
use spikelet::relation::{ManyToMany, OnDelete, Repair, declared_relations};
use spikelet::server::Server;
use spikelet::shard::ShardPolicy;
use spikelet::storage::{Clock, SystemClock};
use spikelet::{
    Digest, Error, Expiration, Key, Namespace, NamespaceConfig, ShardedList, Store, WritePolicy,
    bins,
};

use super::go_on;
use super::server_client::*;

fn follows(store: &Store) -> ManyToMany<&Store> {
    ManyToMany::new(
        store,
        "follows",
        ("demo", "following"),
        ("demo", "followers"),
    )
}

fn digest_of(key: i64) -> Digest {
    KeyHash::Ripemd160.digest("demo", &Key::Integer(key))
}

/// A store with edges from 1 to 2 and 3, served.
fn served(rule: OnDelete) -> (Running, Wire) {
    let store = namespaces().open().unwrap();
    let follows = follows(&store).on_delete(rule);
    store
        .set("demo")
        .unwrap()
        .put(3, bins! { "name" => "c" })
        .unwrap();
    follows.link(1, 2).unwrap();
    follows.link(1, 3).unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let wire = Wire::to(handle.addr());
    (Running { store, handle }, wire)
}

#[test]
fn a_wire_client_replaces_records_and_leaves_their_edges() {
    let (running, mut wire) = served(OnDelete::Restrict);
    for flags in [CREATE_OR_REPLACE, REPLACE_ONLY] {
        let replace = Message::about(0, WRITE, flags, 1).op(2, 1, "i", &7_i64.to_be_bytes());
        assert_eq!(wire.ask(&replace).code, 0);
        assert_eq!(wire.ask(&Message::get(1)).int("i"), 7);
        assert_eq!(follows(&running.store).targets(1).len().unwrap(), 2);
    }
    let (rows, _) = wire.ask_many(&batch(
        0x0d,
        &[(digest_of(1), {
            let mut replace = row(0, WRITE).op(2, 1, "i", &8_i64.to_be_bytes());
            replace.info[2] = CREATE_OR_REPLACE;
            replace
        })],
    ));
    assert_eq!(rows[0].code, 0);
    assert_eq!(follows(&running.store).targets(1).len().unwrap(), 2);
    // The whole bin is the relation's; its elements are edited as the layout says.
    assert_eq!(wire.ask(&Message::put(1, "following", 1)).code, 22);
    let append = Message::about(0, WRITE, 0, 1).op(4, 4, "following", &[0x94, 1, 9, 1, 0]);
    assert_eq!(wire.ask(&append).code, 0);
    assert!(follows(&running.store).contains(1, 9).unwrap());
}

#[test]
fn a_wire_client_leaves_the_shards_of_edges_alone() {
    for other_elements in [0_u64, 30] {
        let store = namespaces().open().unwrap();
        let policy = ShardPolicy::manual().elements_max(Some(10));
        let follows = follows(&store).shard_policy(policy);
        for id in 2..60 {
            follows.link(1, id).unwrap();
        }
        // A sharded list that belongs to no relation.
        let tags = ShardedList::new(&store, "demo", 1, "tags").unwrap();
        let tags = tags.policy(policy);
        for tag in 0..other_elements {
            tags.add(tag as i64).unwrap();
        }
        let handle = Server::builder(&store).start().unwrap();
        let mut wire = Wire::to(handle.addr());
        let number = 7_i64.to_be_bytes();
        let anew = Message::about(0, WRITE, 0, 1).op(14, 0, "", &[]);
        assert_eq!(wire.ask(&anew.op(2, 1, "i", &number)).code, 22);
        let replace = Message::about(0, WRITE, CREATE_OR_REPLACE, 1).op(2, 1, "i", &number);
        assert_eq!(wire.ask(&replace).code, 0);
        assert_eq!(wire.ask(&Message::get(1)).int("i"), 7);
        assert_eq!(follows.targets(1).len().unwrap(), 58);
        assert!(follows.verify(Repair::No, go_on).unwrap().is_sound());
        assert_eq!(tags.len().unwrap(), other_elements);
        assert_eq!(wire.ask(&Message::about(0, WRITE | DELETE, 0, 1)).code, 22);
    }
}

#[test]
fn a_wire_clients_deletes_obey_the_rules() {
    let delete = |wire: &mut Wire, how: usize| match how {
        0 => wire.ask(&Message::about(0, WRITE | DELETE, 0, 1)).code,
        1 => {
            let rows = [(digest_of(1), row(0, WRITE | DELETE))];
            wire.ask_many(&batch(0x0d, &rows)).0[0].code
        }
        _ => {
            wire.ask(&Message::about(0, WRITE, 0, 1).op(14, 0, "", &[]))
                .code
        }
    };
    for how in 0..3 {
        let (running, mut wire) = served(OnDelete::Restrict);
        assert_eq!(delete(&mut wire, how), 22, "{how}");
        assert_eq!(follows(&running.store).targets(1).len().unwrap(), 2);
        let (running, mut wire) = served(OnDelete::Detach);
        assert_eq!(delete(&mut wire, how), 0, "{how}");
        assert_eq!(delete(&mut wire, how), 2, "{how}");
        assert!(
            follows(&running.store)
                .verify(Repair::No, go_on)
                .unwrap()
                .is_sound()
        );
        let demo = running.store.set("demo").unwrap();
        assert_eq!(demo.len(), 1, "2 was there for its edge alone, 3 was not");
        assert!(demo.get(3).unwrap().is_some());
    }
}

#[test]
fn a_restored_record_keeps_the_edges_that_are_there_and_a_new_one_takes_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.asb");
    let store = Store::in_memory().unwrap();
    let demo = store.set("demo").unwrap();
    demo.put(1, bins! { "name" => "old" }).unwrap();
    follows(&store).link(1, 2).unwrap();
    save(&store, &file, &BackupOptions::default(), &mut |_| {}).unwrap();
    let restore = |into: &Store| {
        let mut options = RestoreOptions::default();
        options.no_generation = true;
        options.replace = true;
        let prepared = Restore::prepare(&file, options, &mut |_, _| {}).unwrap();
        prepared.run(into, &mut |_, _| {}).unwrap();
    };
    follows(&store).link(1, 3).unwrap();
    demo.put(1, bins! { "name" => "new" }).unwrap();
    restore(&store);
    assert_eq!(
        demo.get(1).unwrap().unwrap().get("name"),
        Some("old".into())
    );
    assert_eq!(follows(&store).targets(1).len().unwrap(), 2);
    assert!(
        follows(&store)
            .verify(Repair::No, go_on)
            .unwrap()
            .is_sound()
    );
    // Into an empty store the declaration comes with the records, and guards them.
    let empty = Store::in_memory().unwrap();
    restore(&empty);
    let demo = empty.set("demo").unwrap();
    demo.put(1, [("following", 1)]).unwrap_err();
    demo.delete(2).unwrap_err();
    assert!(follows(&empty).contains(1, 2).unwrap());
}

#[test]
fn expired_and_truncated_records_are_passed_over_and_their_edges_removed_by_an_audit() {
    use spikelet::storage::ManualClock;
    use std::sync::Arc;
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    let store = Store::builder().clock(clock.clone()).open().unwrap();
    let demo = store.set("demo").unwrap();
    let hour = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(3_600)));
    demo.put_with(&hour, 1, bins! { "name" => "a" }).unwrap();
    let follows = follows(&store);
    for id in 2..5 {
        follows.link(id, 1).unwrap();
        follows.link(1, id).unwrap();
    }
    clock.advance_ms(4_000_000);
    let found = follows.targets(2).fetch(0, 10).unwrap();
    assert!(found[0].record.is_none() && found.len() == 1);
    // Written anew, it sees none of its old edges.
    demo.put(1, bins! { "name" => "b" }).unwrap();
    assert_eq!(follows.targets(1).len().unwrap(), 0);
    assert_eq!(follows.verify(Repair::Yes, go_on).unwrap().faults.len(), 6);
    assert!(follows.verify(Repair::No, go_on).unwrap().is_sound());
    follows.link(1, 2).unwrap();
    assert!(demo.truncate(None).unwrap() > 0);
    assert!(follows.verify(Repair::No, go_on).unwrap().is_sound());
    // The declarations are records: a truncation of their set lifts the rules.
    follows.link(1, 2).unwrap();
    demo.delete(1).unwrap_err();
    store.set("<relations").unwrap().truncate(None).unwrap();
    assert!(demo.delete(1).unwrap().is_some());
}

#[test]
fn a_background_operation_on_all_sets_leaves_the_stores_own_alone() {
    use spikelet::operations::put;
    use spikelet::query::BackgroundPolicy;
    use spikelet::storage::ManualClock;
    use spikelet::{Error, NamespaceConfig, TransactionPolicy};
    use std::sync::Arc;
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    let open = || {
        let config = NamespaceConfig::new("test").background(false);
        let config = config.default_time_to_live(Duration::from_secs(60));
        let builder = Store::builder().path(dir.path()).clock(clock.clone());
        builder.namespace(config).open().unwrap()
    };
    let store = open();
    let namespace = store.namespace("test").unwrap();
    let demo = store.set("demo").unwrap();
    follows(&store).link(1, 2).unwrap();
    namespace
        .write_together_once(&TransactionPolicy::default(), "token", |writes| {
            writes.put(&demo, 3, [("n", 1)]);
        })
        .unwrap();
    let policy = BackgroundPolicy::default();
    let running = namespace.query_all().operate(&policy, [put("v", 2)]);
    let done = running.unwrap().wait().unwrap();
    assert_eq!((done.written, done.failed), (3, 0));
    // It has given the records a time to live.
    let never = WritePolicy::default().expiration(Expiration::Never);
    demo.put_with(&never, 1, [("n", 1)]).unwrap();
    clock.advance_ms(61_000);
    store.close().unwrap();
    drop((store, namespace, demo));
    let store = open();
    let demo = store.set("demo").unwrap();
    let refused = demo.delete(1);
    assert!(
        matches!(refused, Err(Error::HasEdges { .. })),
        "{refused:?}"
    );
    // A set that is named is written.
    let own = store.set("<relations").unwrap();
    let running = own.query_all().operate(&policy, [put("v", 2)]).unwrap();
    assert_eq!(running.wait().unwrap().written, 1);
}

#[test]
fn a_wire_clients_background_query_of_all_sets_leaves_the_stores_own_alone() {
    let (running, mut wire) = served(OnDelete::Restrict);
    let background = Message::new(0, WRITE, 0)
        .field(0, b"test")
        .field(7, &5_u64.to_be_bytes())
        .op(2, 1, "v", &2_i64.to_be_bytes());
    assert_eq!(wire.ask_many(&background).1, 0);
    until(|| wire.info("query-show:id=5\n")[0].contains("status=done(ok)"));
    let shown = wire.info("query-show:id=5\n").remove(0);
    assert!(
        shown.contains("recs-succeeded=3") && shown.contains("recs-failed=0"),
        "{shown}"
    );
    let own = running.store.set("<relations").unwrap();
    assert_eq!(own.get("follows").unwrap().unwrap().get("v"), None);
    // Backups of all sets have the declarations.
    let mut all = query();
    all.fields.retain(|(kind, _)| *kind != 1);
    assert_eq!(wire.ask_many(&all).0.len(), 4);
}

#[test]
fn a_declaration_that_is_stored_without_its_key_holds_under_its_own_name_alone() {
    let (from, into) = (Store::in_memory().unwrap(), Store::in_memory().unwrap());
    let follows = |store| {
        let (sources, targets) = (("users", "following"), ("users", "followers"));
        ManyToMany::new(store, "follows", sources, targets)
    };
    follows(&from).declare().unwrap();
    let declaration = from.set("<relations").unwrap().get("follows").unwrap();
    let declaration = declaration.unwrap().into_bins().unwrap();
    let relations = into.set("<relations").unwrap();
    let keyless = WritePolicy::default().send_key(false);
    let other = relations.put_with(&keyless, "likes", declaration.clone());
    assert!(matches!(other.unwrap_err(), Error::Parameter(_)));
    relations
        .put_with(&keyless, "follows", declaration)
        .unwrap();
    let users = into.set("users").unwrap();
    let refused = users.put("a", bins! { "following" => "b" }).unwrap_err();
    assert!(matches!(refused, Error::OwnedBin { .. }), "{refused}");
    let other = keyless.record_exists_action(RecordExistsAction::Replace);
    relations
        .put_with(&other, "follows", bins! { "x" => 1 })
        .unwrap();
    users.put("a", bins! { "following" => "b" }).unwrap();
}

/// Truncates a namespace while it says the time, once.
#[derive(Default, Debug)]
struct TruncatingClock(Mutex<Option<Namespace>>);

impl Clock for TruncatingClock {
    fn now_ms(&self) -> u64 {
        let due = self.0.lock().unwrap().take();
        if let Some(namespace) = due {
            namespace.truncate(None).unwrap();
        }
        SystemClock.now_ms()
    }
}

#[test]
fn an_edge_that_is_made_beside_a_truncation_has_rules() {
    let clock = Arc::new(TruncatingClock::default());
    let config = NamespaceConfig::new("test").background(false);
    let builder = Store::builder().namespace(config).clock(clock.clone());
    let store = builder.open().unwrap();
    let (sources, targets) = (("users", "following"), ("users", "followers"));
    let follows = ManyToMany::new(&store, "follows", sources, targets);
    follows.link("x", "y").unwrap();
    *clock.0.lock().unwrap() = Some(store.namespace("test").unwrap());
    assert!(follows.link("a", "b").unwrap());
    assert!(clock.0.lock().unwrap().is_none());
    assert_eq!(declared_relations(&store).unwrap().len(), 1);
    let deleted = store.set("users").unwrap().delete("a");
    assert!(matches!(deleted, Err(Error::HasEdges { .. })));
    assert!(!follows.contains("x", "y").unwrap());
}
