//! Secondary indexes beside transactions.

use spikelet::operations::add;
use spikelet::query::IndexDefinition;
use spikelet::{Error, Store, bins};

use crate::{keys, namespace};

#[test]
fn an_index_follows_what_a_transaction_commits_and_nothing_else() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    users
        .create_index(IndexDefinition::new("by_city", ["city"]))
        .unwrap();
    users
        .put("ada", bins! { "city" => "London", "n" => 0 })
        .unwrap();
    users
        .put("eve", bins! { "city" => "Paris", "n" => 0 })
        .unwrap();
    let failed: spikelet::Result<()> = store.transaction(|tx| {
        tx.set("users")?.put("ada", [("city", "Rome")])?;
        Err(Error::Forbidden("no".into()))
    });
    assert!(failed.is_err());
    let of = |city: &str| keys(&users.query("by_city").unwrap().eq(city));
    assert_eq!((of("London"), of("Rome")), (vec!["ada".into()], vec![]));
    store
        .transaction(|tx| {
            let users = tx.set("users")?;
            users.put("ada", [("city", "Rome")])?;
            users.put("bob", [("city", "Rome")])?;
            users.delete("eve")?;
            users.operate("ada", &[add("n", 1)])?;
            Ok(())
        })
        .unwrap();
    assert_eq!((of("London"), of("Paris")), (vec![], vec![]));
    assert_eq!(of("Rome").len(), 2);
    assert_eq!(namespace(&store).indexes().remove(0).entries, 2);
}

#[test]
fn a_unique_index_refuses_a_whole_transaction() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    let by_mail = IndexDefinition::new("by_mail", ["mail"]).unique(true);
    users.create_index(by_mail).unwrap();
    users.put("ada", [("mail", "a")]).unwrap();
    let refused = store.transaction(|tx| {
        let users = tx.set("users")?;
        users.put("bob", [("mail", "b")])?;
        users.put("eve", [("mail", "a")])?;
        Ok(())
    });
    assert!(
        matches!(refused, Err(Error::NotUnique { .. })),
        "{refused:?}"
    );
    assert!(!users.exists("bob").unwrap());
    assert_eq!(namespace(&store).indexes().remove(0).entries, 1);
}

#[test]
fn queries_beside_transactions_find_each_record_at_its_place() {
    let store = Store::in_memory().unwrap();
    let accounts = store.set("accounts").unwrap();
    accounts
        .create_index(IndexDefinition::new("by_group", ["group"]))
        .unwrap();
    for id in 0..20 {
        accounts.put(id, [("group", id % 2)]).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..300 {
                    let (one, other) = ((round + thread) % 10, 10 + round % 10);
                    let _ = store.transaction(|tx| {
                        let accounts = tx.set("accounts")?;
                        let group = accounts.get(one)?.and_then(|found| found.get("group"));
                        let group = i64::try_from(group.unwrap_or(0.into())).unwrap_or(0);
                        accounts.put(one, [("group", 1 - group)])?;
                        accounts.put(other, [("group", group)])?;
                        Ok(())
                    });
                }
            });
        }
    });
    let by_group = accounts.query("by_group").unwrap();
    assert_eq!(namespace(&store).indexes().remove(0).entries, 20);
    for group in 0..2 {
        for found in by_group.clone().eq(group).records().unwrap() {
            assert_eq!(found.unwrap().record.get("group"), Some(group.into()));
        }
    }
    assert_eq!(by_group.count().unwrap(), 20);
}
