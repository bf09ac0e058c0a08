//! RavenDB's modeling document, Yet Another Bug Tracker: comments embedded in backlog items, users
//! referred to by their ids and shown by their names (looked up, stored in an index, duplicated),
//! and who has modified what, by date.
//!
//! `cargo run --example relations_bug_tracker`

use std::ops::ControlFlow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use spikelet::query::IndexDefinition;
use spikelet::relation::{Includes, Joined, Layout, ManyToMany, OneToMany, Propagate};
use spikelet::{DEFAULT_NAMESPACE, Key, Store, bins};

#[derive(Debug, Serialize, Deserialize)]
struct Comment {
    timestamp: String,
    message: String,
}

/// The list of the backlog: the titles, and the names of the users of three columns. One batch of
/// items, one of users.
fn backlog(store: &Store, list: &Includes) -> spikelet::Result<Vec<String>> {
    let items = [1, 2].map(Key::from);
    let page = list.read(store, "backlog_items", items)?;
    let mut rows = Vec::new();
    for item in page.records.iter().flatten() {
        let name = |bin: &str| {
            let id = item.get(bin)?;
            page.get("users", id.as_str()?)?.get("name")
        };
        let column = |bin: &str| name(bin).map_or_else(String::new, |name| name.to_string());
        let title = item
            .get("title")
            .map(|title| title.to_string())
            .unwrap_or_default();
        rows.push(format!(
            "{title} | {} | {} | {}",
            column("assignee"),
            column("created_by"),
            column("modified_by")
        ));
    }
    Ok(rows)
}

fn main() -> spikelet::Result<()> {
    let store = Store::in_memory()?; // or Store::open("directory")
    let (users, items) = (store.set("users")?, store.set("backlog_items")?);
    for (id, name) in [
        ("users/1-A", "Homer Simpson"),
        ("users/2-A", "Marge Simpson"),
        ("users/3-A", "Ned Flanders"),
    ] {
        users.put(id, [("name", name)])?;
    }
    // 1. Embedded collections: in the bins of a user, and comments in their item.
    let address = ["742 Evergreen Terrace", "430 Spalding Way"];
    users.put("users/1-A", bins! { "addresses" => address })?;
    let titles = [
        "Malfunction at the Springfield Nuclear Power Plant",
        "Broken donut machine",
    ];
    for (id, title) in (1..).zip(titles) {
        items.put(id, bins! {
            "title" => title, "assignee" => "users/1-A", "created_by" => "users/2-A", "modified_by" => "users/3-A",
        })?;
    }
    let comments = OneToMany::new(
        &store,
        "comments",
        ("backlog_items", "comments"),
        Layout::consolidated("comments"),
    )?;
    for (number, timestamp, message) in [
        (1, "2020-01-01T10:15:23", "Homer, what have you done?"),
        (
            2,
            "2020-01-01T11:05:10",
            "Nothing, just left my donuts on the big red button.",
        ),
    ] {
        let comment = Comment {
            timestamp: timestamp.into(),
            message: message.into(),
        };
        comments.put(1, number, &comment)?;
    }
    for comment in comments.page(1, None, 10)?.children {
        let comment: Comment = comment.decode()?;
        println!("{} {}", comment.timestamp, comment.message);
    }
    assert_eq!(comments.len(1)?, 2);

    // 2. References by id, joined when the list is read: a new name is in every row at once.
    let list = Includes::new()
        .path("assignee", "users")?
        .path("created_by", "users")?
        .path("modified_by", "users")?;
    let rows = backlog(&store, &list)?;
    assert_eq!(rows.len(), 2);
    assert!(
        rows.iter()
            .all(|row| row.contains("Homer Simpson") && row.contains("Ned Flanders"))
    );
    users.put("users/1-A", [("name", "H. Simpson")])?;
    for row in backlog(&store, &list)? {
        println!("{row}");
        assert!(row.contains("H. Simpson"));
    }

    // 2, with fields stored in an index: a view of the items with three names each, kept current by
    // the changes of both sets.
    let namespace = store.namespace(DEFAULT_NAMESPACE)?;
    let for_list = Joined::new(&namespace, "backlog_for_list", "backlog_items")
        .keep(["title"])
        .join("assignee", ("users", "name"), "assignee_name")?
        .join("created_by", ("users", "name"), "creator_name")?
        .join("modified_by", ("users", "name"), "modifier_name")?;
    let updater = for_list.updater()?.start()?;
    let view = for_list.view()?;
    view.create_index(IndexDefinition::new(
        "by_assignee",
        ["assignee_name", "title"],
    ))?;
    let renamed = users.put("users/1-A", [("name", "Homer J. Simpson")])?;
    for_list.wait_until(renamed, Duration::from_secs(60))?;
    // No look at the users, and ordered by title.
    for row in view
        .query("by_assignee")?
        .eq("Homer J. Simpson")
        .records()?
    {
        let row = row?.record;
        let bin = |name| {
            row.get(name)
                .map_or_else(String::new, |value| value.to_string())
        };
        println!("{} | {}", bin("title"), bin("modifier_name"));
    }
    assert_eq!(
        view.query("by_assignee")?.eq("Homer J. Simpson").count()?,
        2
    );
    updater.stop()?;

    // 3. Duplicated: the item itself has its assignee's name, and a new name is carried to all
    //    items that still are his.
    let assignees = Propagate::new(&store, "assignees", ("users", "backlog_items"), "assignee")?
        .copy("name", "assignee_name");
    assignees.assign(1, "users/1-A")?;
    assignees.assign(2, "users/3-A")?;
    users.put("users/1-A", [("name", "H. Simpson")])?;
    let report = assignees.propagate("users/1-A", |_| ControlFlow::Continue(()))?;
    println!("{} items renamed, {} failed", report.written, report.failed);
    assert_eq!((report.written, report.failed), (1, 0));
    let name_in = |item: i64| {
        Ok::<_, spikelet::Error>(items.get(item)?.and_then(|it| it.get("assignee_name")))
    };
    assert_eq!(name_in(1)?, Some("H. Simpson".into()));
    assert_eq!(name_in(2)?, Some("Ned Flanders".into()));

    // 4. Many to many, with the dates of modifications: {user: date} in the item, {item: date} in
    //    the user.
    let modified = ManyToMany::new(
        &store,
        "modified",
        ("backlog_items", "modifiers"),
        ("users", "modified"),
    )
    .with_attributes();
    for (item, user, date) in [
        (1, "users/1-A", "2020-01-01"),
        (1, "users/3-A", "2020-03-01"),
        (2, "users/3-A", "2020-02-01"),
    ] {
        modified.link_with(item, user, date)?;
    }
    // Backlog items that a user has modified, the latest first.
    let latest = modified.sources("users/3-A").greatest(10)?;
    println!("Ned has modified {latest:?}");
    let keys: Vec<Key<'_>> = latest.into_iter().map(|(item, _)| item).collect();
    assert_eq!(keys, [1.into(), 2.into()]);
    let date: Option<String> = modified.attributes(1, "users/1-A")?;
    assert_eq!(date.as_deref(), Some("2020-01-01"));
    store.close()
}
