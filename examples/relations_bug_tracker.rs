//! RavenDB's modeling document, Yet Another Bug Tracker: comments embedded in backlog items, users referred to by their ids and
//! shown by their names, and who has modified what, by date.
//!
//! `cargo run --example relations_bug_tracker`

use serde::{Deserialize, Serialize};
use spikelet::relation::{Includes, Layout, ManyToMany, OneToMany};
use spikelet::{Key, Store, bins};

#[derive(Debug, Serialize, Deserialize)]
struct Comment {
    timestamp: String,
    message: String,
}

/// The list of the backlog: the titles, and the names of the users of three columns. One batch of items, one of users.
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

    // 4. Many to many, with the dates of modifications: {user: date} in the item, {item: date} in the user.
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
