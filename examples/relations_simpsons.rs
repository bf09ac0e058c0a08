//! Riak's modeling documents: episodes by structured keys, a set of the keys of all users, and
//! tagged links that are walked.
//!
//! `cargo run --example relations_simpsons`

use serde::{Deserialize, Serialize};
use spikelet::relation::{Address, KeyCorrespondence, KeyPattern, Links, Members, WalkStep};
use spikelet::{Store, WritePolicy, bins};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct User {
    info: String,
}

/// "Simpsons Roasting on an Open Fire" is season 1, episode 1. The third layer, good or bad, is a
/// set of its own.
fn episodes(store: &Store) -> spikelet::Result<()> {
    let episode = KeyPattern::<(u32, u32)>::new("season:{season}:episode:{episode:02}")?;
    let (good, bad) = (store.set("good")?, store.set("bad")?);
    for (season, number, title) in [
        (1, 1, "Simpsons Roasting on an Open Fire"),
        (1, 2, "Bart the Genius"),
        (2, 1, "Bart Gets an \"F\""),
        (4, 12, "Marge vs. the Monorail"),
        (8, 6, "A Milhouse Divided"),
    ] {
        good.put(episode.key((season, number)), [("title", title)])?;
    }
    bad.put(
        episode.key((9, 2)),
        [("title", "The Principal and the Pauper")],
    )?;
    let title = |record: spikelet::Record| record.get("title").map(|title| title.to_string());
    let found = good.get(episode.key((4, 12)))?.and_then(title);
    println!("season 4, episode 12: {found:?}");
    assert_eq!(found.as_deref(), Some("\"Marge vs. the Monorail\""));
    let first_season = episode.read_each(&good, [(1, 1), (1, 2), (1, 3)])?;
    assert_eq!(first_season.iter().flatten().count(), 2);
    // The key's form identifies an episode; a key of another form does not parse.
    assert_eq!(episode.parse(&"season:8:episode:06".into())?, (8, 6));
    assert!(!episode.matches(&"season:8:episode:6".into()));
    Ok(())
}

/// Which users are there? A set lists their keys, and all of them are fetched.
fn users(store: &Store) -> spikelet::Result<()> {
    let users = Members::new(store, "users", ("user_info_sets", "usernames", "members"));
    let key = KeyPattern::<String>::new("user_{name}")?;
    for name in ["coderoshi", "macintux", "RiakWhisperer123"] {
        let user = User {
            info: format!("about {name}"),
        };
        users.put_as(key.key(name.into()), &user)?;
    }
    for (user, record) in users.fetch(None, 100)? {
        println!("{}: {}", key.parse(&user)?, record.decode::<User>()?.info);
    }
    assert_eq!(users.len()?, 3);
    users.remove("user_macintux")?;
    assert!(!users.contains("user_macintux")?);
    Ok(())
}

/// A profile and a list of followed users share one key in two sets, since one changes more often
/// than the other.
fn correspondence(store: &Store) -> spikelet::Result<()> {
    let sean = KeyCorrespondence::new()
        .set(store, "profiles", WritePolicy::default())?
        .set(store, "following", WritePolicy::default())?;
    sean.put("profiles", "seancribbs", bins! { "name" => "Sean Cribbs" })?;
    sean.put("following", "seancribbs", bins! { "users" => ["basho"] })?;
    assert_eq!(sean.get("seancribbs")?.iter().flatten().count(), 2);
    Ok(())
}

/// Links with tags: family, with the way back, and a walk over two of them.
fn family(store: &Store) -> spikelet::Result<()> {
    let links = Links::new(store, "links")
        .reciprocal("parent", "child")
        .reciprocal("friend", "friend");
    let person = |name: &str| Address::new("people", name);
    for name in ["abe", "homer", "marge", "bart", "lisa", "milhouse"] {
        store.set("people")?.put(name, [("name", name)])?;
    }
    for (child, parent) in [
        ("homer", "abe"),
        ("bart", "homer"),
        ("bart", "marge"),
        ("lisa", "homer"),
        ("lisa", "marge"),
    ] {
        links.link(&person(child), "parent", &person(parent))?;
    }
    links.link(&person("milhouse"), "friend", &person("bart"))?;
    // The grandparents of the friends of milhouse, and the friends themselves.
    let steps = [
        WalkStep::new().tag("friend").set("people").keep(),
        WalkStep::new().tag("parent"),
        WalkStep::new().tag("parent").keep(),
    ];
    let walk = links.walk([person("milhouse")], &steps)?;
    println!("friends of milhouse: {:?}", walk.steps.first());
    assert_eq!(walk.kept(), [person("bart"), person("abe")]);
    assert!(links.fetch(&walk.kept())?.iter().all(Option::is_some));
    // The links from parents to children were not written: they are the way back.
    let children = links.page(&person("homer"), Some("child"), None, 10)?;
    assert_eq!(children.len(), 2);
    Ok(())
}

fn main() -> spikelet::Result<()> {
    let store = Store::in_memory()?; // or Store::open("directory")
    episodes(&store)?;
    users(&store)?;
    correspondence(&store)?;
    family(&store)?;
    store.close()
}
