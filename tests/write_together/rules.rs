//! Groups beside single writes, transactions and unique indexes.

use std::sync::Arc;
use std::time::Duration;

use spikelet::expressions::{ge, int_bin, int_val};
use spikelet::operations::{add, append, put, touch};
use spikelet::query::IndexDefinition;
use spikelet::relation::Members;
use spikelet::storage::ManualClock;
use spikelet::{
    Error, Expiration, NamespaceConfig, Store, TransactionPolicy, TransactionSet, WritePolicy, bins,
};

use crate::{creating, of_generation, open, open_with, refusals};

#[test]
fn limits_count_each_record_once_and_are_reported_alike_beside_a_condition() {
    let (_store, namespace, accounts) = open();
    let (absent, few) = (
        of_generation(0),
        TransactionPolicy::default().max_bytes(2_500),
    );
    let group = |keys: [i64; 4], has_condition: bool| {
        namespace.write_together_with(&few, |writes| {
            keys.into_iter()
                .for_each(|key| writes.put(&accounts, key, [("n", vec![7_u8; 1_000])]));
            if has_condition {
                writes.check(&absent, &accounts, 9);
            }
        })
    };
    for has_condition in [false, true] {
        let refused = group([1, 2, 3, 4], has_condition);
        assert!(
            matches!(refused, Err(Error::TransactionLimit { .. })),
            "{refused:?}"
        );
        assert!(!accounts.exists(1).unwrap());
        group([0, 0, 5, 0], has_condition).unwrap();
    }
    // Superseded versions do not count, and leave the buffer.
    let many = namespace.write_together_with(&few, |writes| {
        for n in 0..300 {
            writes.operate(
                &accounts,
                10 + n % 2,
                vec![put("filler", vec![7_u8; 999]), add("sum", n)],
            );
        }
    });
    let generations = many.unwrap().into_iter().map(|it| it.generation);
    assert_eq!(generations.max(), Some(150));
    for (key, sum) in [(10, 22_350), (11, 22_500)] {
        let account = accounts.get(key).unwrap().unwrap();
        assert_eq!(account.get("sum"), Some(sum.into()));
        assert_eq!(account.get("filler"), Some(vec![7_u8; 999].into()));
    }
}

#[test]
fn a_condition_is_judged_in_the_order_of_a_writes_checks() {
    let (store, _, accounts) = open();
    accounts.put("alice", [("n", 5)]).unwrap();
    let rich = ge(int_bin("n"), int_val(6));
    for (policy, code) in [(creating(), 5), (of_generation(2), 3)] {
        let policy = policy.filter(rich.clone());
        let written = store.write_together(|writes| {
            writes.put_with(&policy, &accounts, "alice", [("n", 1)]);
        });
        let checked = store.write_together(|writes| writes.check(&policy, &accounts, "alice"));
        assert_eq!(
            (refusals(&written), refusals(&checked)),
            (vec![(0, code)], vec![(0, code)])
        );
    }
}

#[test]
fn two_members_that_want_one_unique_key_are_refused_for_that() {
    let (store, _, accounts) = open();
    let unique = IndexDefinition::new("by_name", ["name"]).unique(true);
    accounts.create_index(unique).unwrap();
    // Waiting and trying again would not help: no other writer has the name.
    let twice = store.write_together(|writes| {
        writes.put(&accounts, "dan", [("name", "d")]);
        writes.put(&accounts, "eve", [("name", "d")]);
    });
    assert!(matches!(twice, Err(Error::NotUnique { .. })), "{twice:?}");
    let twice = store.transaction(|tx| {
        let accounts = tx.in_set(&accounts)?;
        accounts.put("dan", [("name", "d")])?;
        accounts.put("eve", [("name", "d")])
    });
    assert!(matches!(twice, Err(Error::NotUnique { .. })), "{twice:?}");
    assert!(!accounts.exists("dan").unwrap());
}

#[test]
fn a_member_takes_the_key_that_another_has_lost_by_expiry() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let mut config = NamespaceConfig::new("test");
    config.background = false;
    let store = Store::builder().clock(clock.clone()).namespace(config);
    let store = store.open().unwrap();
    let accounts = store.set("accounts").unwrap();
    let unique = IndexDefinition::new("by_name", ["name"]).unique(true);
    accounts.create_index(unique).unwrap();
    let soon = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(2)));
    accounts.put_with(&soon, "alice", [("name", "a")]).unwrap();
    clock.advance_ms(5_000);
    let taken = store.write_together(|writes| {
        writes.put(&accounts, "alice", [("name", "b")]);
        writes.put(&accounts, "bob", [("name", "a")]);
    });
    taken.unwrap();
    let by_name = |name| accounts.query("by_name").unwrap().eq(name).count().unwrap();
    assert_eq!((by_name("a"), by_name("b")), (1, 1));
    // So does one beside a deletion that finds nothing.
    accounts.put_with(&soon, "carol", [("name", "c")]).unwrap();
    clock.advance_ms(5_000);
    let taken = store.write_together(|writes| {
        writes.delete(&accounts, "carol");
        writes.put(&accounts, "dave", [("name", "c")]);
    });
    taken.unwrap();
    assert_eq!(by_name("c"), 1);
}

#[test]
fn a_member_that_grows_too_big_leaves_records_and_entries_as_they_are() {
    let mut config = NamespaceConfig::new("test");
    config.max_record_bytes = 4096;
    let (store, _, set) = open_with(config);
    set.create_index(IndexDefinition::new("by_n", ["n"]))
        .unwrap();
    set.put(1, bins! {"n" => 1, "b" => vec![7_u8; 3000]})
        .unwrap();
    let refused = store.write_together(|w| {
        w.operate(&set, 2, vec![add("n", 5)]);
        w.operate(&set, 1, vec![add("n", 5), append("b", vec![1_u8; 2000])]);
    });
    let Err(Error::WritesRefused { reasons }) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        matches!(reasons[..], [(1, Error::RecordTooBig { .. })]),
        "{reasons:?}"
    );
    assert_eq!(set.query("by_n").unwrap().count().unwrap(), 1);
    assert_eq!(set.query("by_n").unwrap().eq(1).count().unwrap(), 1);
    assert!(!set.exists(2).unwrap());
}

#[test]
fn a_kept_time_to_live_ends_with_a_delete_in_the_same_group() {
    let (store, _, set) = open();
    let soon = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(60)));
    set.put_with(&soon, 1, [("n", 1)]).unwrap();
    let keep = WritePolicy::default().expiration(Expiration::DontUpdate);
    let r = store
        .write_together(|w| {
            w.operate_with(&keep, &set, 1, vec![touch()]);
            w.put_with(&keep, &set, 1, [("m", 1)]);
            w.delete(&set, 1);
            w.put_with(&keep, &set, 1, [("m", 1)]);
        })
        .unwrap();
    assert!(r[0].void_time > 0 && r[1].void_time == r[0].void_time);
    assert_eq!(r[3].void_time, 0);
}

#[test]
fn the_generation_behind_65_535_is_1_in_groups_and_transactions() {
    let (store, _, accounts) = open();
    let results = store.write_together(|writes| {
        for _ in 0..65_536 {
            writes.operate(&accounts, "alice", vec![add("n", 1)]);
        }
    });
    let results = results.unwrap();
    let last = results.iter().skip(65_534).map(|it| it.generation);
    assert_eq!(last.collect::<Vec<_>>(), [65_535, 1]);
    let first = of_generation(1);
    let done = store.transaction(|tx| {
        let accounts = tx.in_set(&accounts)?;
        for _ in 0..65_534 {
            accounts.add("alice", [("n", 1)])?;
        }
        assert_eq!(generation_in(&accounts), 65_535);
        accounts.add("alice", [("n", 1)])?;
        accounts.put_with(&first, "alice", [("m", 1)])
    });
    done.unwrap();
    let alice = accounts.get("alice").unwrap().unwrap();
    assert_eq!(
        (alice.generation(), alice.get("n")),
        (2, Some(131_071.into()))
    );
}

fn generation_in(accounts: &TransactionSet<'_>) -> u16 {
    let header = accounts.get_header("alice").unwrap();
    header.map_or(0, |it| it.generation)
}

#[test]
fn a_delete_beside_which_no_record_grows_goes_on_while_writes_are_stopped() {
    let config = NamespaceConfig::new("test").background(false);
    let builder = Store::builder().namespace(config.max_device_bytes(64 << 20));
    let store = builder.open().unwrap();
    let lists = ("lists", "users", "members");
    let members = Members::new(&store, "users", lists);
    let blob = vec![7_u8; 900 << 10];
    let put = |key: i64| members.put(key, [("b", blob.as_slice())]);
    let full = (0..200).find_map(|key| put(key).err()).unwrap();
    assert_eq!(full.result_code(), 8, "{full}");
    let set = store.set("users").unwrap();
    let before = members.len().unwrap();
    assert!(set.delete(1).unwrap().is_some());
    assert!(members.remove(2).unwrap());
    assert_eq!(members.len().unwrap(), before - 2);
    // Writes are stopped still, beside a delete, too.
    let larger = store.namespace("test").unwrap().transaction(|tx| {
        let users = tx.set("users")?;
        users.delete(3)?;
        users.put(4, [("c", 1)])
    });
    assert_eq!(larger.unwrap_err().result_code(), 8);
    assert!(set.exists(3).unwrap());
}
