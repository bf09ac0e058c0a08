//! A few lines for each handle of `spikelet::relation`: docs/relations.md shows them, and `.ci/pages` checks that both are the
//! same.
//!
//! `cargo run --example relations_handles`

use serde_json::json;
use spikelet::relation::{
    Address, EdgeType, Graph, Includes, Joined, KeyCorrespondence, KeyPattern, Layout, Links,
    ManyToMany, Members, NodeId, OneToMany, Propagate, WalkStep,
};
use spikelet::{Result, Store, WritePolicy, bins};

fn many_to_many(store: &Store) -> Result<()> {
    let ends = [("users", "following"), ("users", "followers")];
    let follows = ManyToMany::new(store, "follows", ends[0], ends[1]);
    follows.link("bart", "lisa")?;
    assert!(follows.contains("bart", "lisa")?);
    let page = follows.sources("lisa").page(0, 50)?; // ["bart"]
    assert_eq!(page.len(), 1);
    Ok(())
}

fn members(store: &Store) -> Result<()> {
    let users = Members::new(store, "users", ("lists", "users", "keys"));
    users.put("homer", bins! { "age" => 39 })?; // the record, and its key in the list
    let keys = users.page(None, 100)?; // ["homer"]
    users.remove("homer")?;
    assert_eq!(keys.len(), 1);
    Ok(())
}

fn one_to_many(store: &Store) -> Result<()> {
    let layout = Layout::key_list("orders");
    let orders = OneToMany::new(store, "orders", ("users", "orders"), layout)?;
    let orders = orders.with_parent_bin("user");
    orders.put("marge", 17, &json!({ "total": 80 }))?;
    orders.set_parent(17, "homer")?; // off marge's list, onto homer's
    assert_eq!(orders.page("homer", None, 10)?.children.len(), 1);
    Ok(())
}

fn links(store: &Store) -> Result<()> {
    let links = Links::new(store, "links").reciprocal("parent", "child");
    let person = |name: &str| Address::new("users", name);
    links.link(&person("bart"), "parent", &person("homer"))?; // and "child" back
    let parents = [WalkStep::new().tag("parent").keep()];
    let kept = links.walk([person("bart")], &parents)?;
    assert_eq!(kept.kept(), [person("homer")]);
    Ok(())
}

fn graph(store: &Store) -> Result<()> {
    let member = EdgeType::new("MEMBER").ranked_by("role", [("LEAD", 500), ("HELPER", 100)]);
    let graph = Graph::new(store, "nodes", ["GOAL", "USER"], [member])?;
    let (goal, user) = (NodeId::new("GOAL", "1"), NodeId::new("USER", "7"));
    graph.put_node(&goal, &json!({ "title": "Ship it" }))?;
    graph.link(&goal, "MEMBER", &user, &json!({ "role": "LEAD" }))?;
    let led = graph.query("MEMBER", &user)?.equal("500-LEAD").nodes()?;
    assert_eq!(led.nodes.len(), 1);
    Ok(())
}

fn key_pattern(store: &Store) -> Result<()> {
    let episode = KeyPattern::<(u32, u32)>::new("season:{season}:episode:{episode:02}")?;
    let episodes = store.set("episodes")?;
    episodes.put(episode.key((4, 12)), [("title", "Marge vs. the Monorail")])?;
    assert_eq!(episode.parse(&"season:4:episode:12".into())?, (4, 12));
    Ok(())
}

fn key_correspondence(store: &Store) -> Result<()> {
    let user = KeyCorrespondence::new()
        .set(store, "profiles", WritePolicy::default())?
        .set(store, "avatars", WritePolicy::default())?;
    user.put("avatars", "lisa", bins! { "png" => [1, 2, 3].as_slice() })?;
    let both = user.get("lisa")?; // the profile, if there is one, and the avatar
    assert_eq!(both.iter().flatten().count(), 1);
    Ok(())
}

fn includes(store: &Store) -> Result<()> {
    let posts = store.set("posts")?;
    posts.put(1, bins! { "title" => "Doh", "author" => "bart" })?;
    let includes = Includes::new()
        .path("author", "users")?
        .only("users", ["name"]);
    let page = includes.read(store, "posts", [1.into()])?; // one batch, and one for the users
    assert!(page.get("users", "bart").is_some());
    Ok(())
}

fn joined(store: &Store) -> Result<()> {
    let namespace = store.namespace("test")?;
    let list = Joined::new(&namespace, "post_list", "posts").keep(["title"]);
    let list = list.join("author", ("users", "name"), "author_name")?;
    list.updater()?.catch_up()?; // or start(), in a thread of its own
    assert!(list.view()?.exists(1)?);
    Ok(())
}

fn propagate(store: &Store) -> Result<()> {
    let sets = ("users", "posts");
    let names = Propagate::new(store, "editors", sets, "editor")?.copy("name", "editor_name");
    names.assign(1, "homer")?; // the reference, and the fields that are copied
    store.set("users")?.put("homer", [("name", "H. Simpson")])?;
    let report = names.propagate("homer", |_| std::ops::ControlFlow::Continue(()))?;
    assert_eq!(report.written, 1);
    Ok(())
}

fn main() -> Result<()> {
    let store = Store::in_memory()?;
    many_to_many(&store)?;
    members(&store)?;
    one_to_many(&store)?;
    links(&store)?;
    graph(&store)?;
    key_pattern(&store)?;
    key_correspondence(&store)?;
    includes(&store)?;
    joined(&store)?;
    propagate(&store)?;
    println!("all handles did what their pages say");
    store.close()
}
