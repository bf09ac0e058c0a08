use spikelet::relation::{Address, Includes, Joined};
use spikelet::value::Map;
use spikelet::{MapOrder, ShardedList, Store, Value, bins};

use crate::watched::{Calls, Watched};

fn map(entries: &[(&str, &str)]) -> Value {
    let entries = entries
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()));
    Map::new(entries.collect(), MapOrder::KeyOrdered).into()
}

#[test]
fn a_page_with_its_references_is_one_batch_and_one_a_set() {
    let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
    for id in ["u1", "u2", "u3", "u4"] {
        store.set("users").unwrap().put(id, [("name", id)]).unwrap();
    }
    store
        .set("teams")
        .unwrap()
        .put("t1", [("name", "t1")])
        .unwrap();
    let items = store.set("items").unwrap();
    let comments = Value::from(vec![
        map(&[("user", "u2")]),
        map(&[("user", "u3")]),
        map(&[("text", "none")]),
    ]);
    items.put(1, bins! { "assignee" => map(&[("id", "u1"), ("name", "x")]), "comments" => comments, "team" => "t1" }).unwrap();
    items
        .put(
            2,
            bins! { "modified_by" => map(&[("u4", "2020"), ("u9", "2021")]) },
        )
        .unwrap();
    let includes = Includes::new()
        .path("assignee.id", "users")
        .unwrap()
        .path("comments[].user", "users")
        .unwrap()
        .path("modified_by{}", "users")
        .unwrap()
        .path("team", "teams")
        .unwrap();
    let read = includes
        .read(
            &Watched::new(&store, &calls),
            "items",
            [1.into(), 2.into(), 3.into()],
        )
        .unwrap();
    assert_eq!(calls.take(), (0, 3));
    assert_eq!(
        read.records.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, true, false]
    );
    let related: Vec<String> = read
        .related
        .keys()
        .map(|address| address.key.bare_text())
        .collect();
    assert_eq!(related, ["t1", "u1", "u2", "u3", "u4"]);
    assert_eq!(read.dangling, [Address::new("users", "u9")]);
    assert_eq!(
        read.get("users", "u2").unwrap().get("name"),
        Some("u2".into())
    );
}

trait BareText {
    fn bare_text(&self) -> String;
}

impl BareText for spikelet::Key<'_> {
    fn bare_text(&self) -> String {
        self.to_string().trim_matches('"').to_owned()
    }
}

#[test]
fn a_path_or_a_reference_that_cannot_be_read_is_refused() {
    for wrong in ["", ".id", "a..b", "a[0]", "a{b}", "[]"] {
        assert!(Includes::new().path(wrong, "users").is_err(), "{wrong:?}");
    }
    let store = Store::in_memory().unwrap();
    store
        .set("items")
        .unwrap()
        .put(1, bins! { "assignee" => 1.5 })
        .unwrap();
    let includes = Includes::new().path("assignee", "users").unwrap();
    let refused = includes.read(&store, "items", [1.into()]).unwrap_err();
    assert_eq!(refused.result_code(), 4);
}

#[test]
fn references_in_a_sharded_collection_are_not_passed_over() {
    let store = Store::in_memory().unwrap();
    store
        .set("users")
        .unwrap()
        .put("bob", [("name", "Bob")])
        .unwrap();
    let authors = ShardedList::new(&store, "posts", 1, "authors").unwrap();
    authors.add("bob").unwrap();
    let all = Includes::new().path("authors[]", "users").unwrap();
    let some = all.clone().only("posts", ["title"]);
    let view = Joined::new(&store.namespace("test").unwrap(), "view", "posts");
    let view = view.join("authors[]", ("users", "name"), "names").unwrap();
    let mut updater = view.updater().unwrap();
    for shards in [0, 2] {
        if shards > 0 {
            authors.shards().activate(shards).unwrap();
        }
        for includes in [&all, &some] {
            match includes.read(&store, "posts", [1.into()]) {
                Ok(read) => assert_eq!((shards, read.related.len()), (0, 1)),
                Err(error) => assert_eq!((shards, error.result_code()), (2, 4), "{error}"),
            }
        }
        updater.catch_up().unwrap();
        assert_eq!(updater.take_failures().is_empty(), shards == 0);
        // What it showed last stays.
        let row = view.view().unwrap().get(1).unwrap().unwrap();
        assert!(
            row.get("names")
                .is_some_and(|names| names.to_string().contains("Bob"))
        );
    }
}

#[test]
fn only_the_bins_that_are_asked_for_are_read() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    users
        .put(
            "u1",
            bins! { "name" => "Homer", "photo" => vec![7_u8; 100] },
        )
        .unwrap();
    let items = store.set("items").unwrap();
    items
        .put(
            1,
            bins! { "title" => "Malfunction", "text" => "long", "assignee" => "u1" },
        )
        .unwrap();
    let list = Includes::new().path("assignee", "users").unwrap();
    let list = list.only("users", ["name"]).only("items", ["title"]);
    let read = list.read(&store, "items", [1.into()]).unwrap();
    let names = |record: &spikelet::Record| {
        let mut names: Vec<String> = record.bins().map(|(name, _)| name.to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(
        names(read.records[0].as_ref().unwrap()),
        ["assignee", "title"]
    );
    assert_eq!(names(read.get("users", "u1").unwrap()), ["name"]);
}
