//! A table of nodes and edges, queried as one would in DynamoDB: a partition key, a sort key that
//! is derived from a role, and page tokens; and beside it an index from children to their parent.
//!
//! `cargo run --example records_table`

use spikelet::expressions::{cond, eq, string_bin, string_val};
use spikelet::query::{Cursor, IndexComponent, IndexDefinition, Query};
use spikelet::{Set, Store, Value, bins};

/// "500-LEAD" and so on: text that is derived from the role of an edge, such that higher roles come
/// later.
fn sort_key() -> IndexComponent {
    let role = |name| eq(string_bin("role"), string_val(name));
    IndexComponent::expression(cond([
        role("LEAD"),
        string_val("500-LEAD"),
        role("CONTRIBUTOR"),
        string_val("400-CONTRIBUTOR"),
        string_val("300-TEAM"),
    ]))
}

fn join(records: &Set, goal: &str, member: &str, role: &str) -> spikelet::Result<()> {
    let edge = bins! { "source" => goal, "target" => member, "role" => role };
    records.put(&*format!("{goal}-{member}"), edge)?;
    Ok(())
}

/// The goals of a page of edges, fetched in one batch, with their titles.
fn titles(records: &Set, edges: &Query) -> spikelet::Result<(Vec<Value>, Option<String>)> {
    let page = edges.records()?;
    let token = page.cursor().map(ToString::to_string);
    let edges = page.into_records()?;
    let goals: Vec<_> = edges
        .iter()
        .filter_map(|edge| edge.record.get("source"))
        .collect();
    let keys = goals.iter().filter_map(|goal| goal.as_str());
    let mut titles = Vec::new();
    for goal in records.get_batch(keys) {
        titles.extend(goal?.and_then(|goal| goal.get("title")));
    }
    Ok((titles, token))
}

fn main() -> spikelet::Result<()> {
    let store = Store::in_memory()?;
    let records = store.set("records")?;
    // Nodes have no target, so that only edges are in it.
    let by_member = IndexDefinition::new("by_member", ["target".into(), sort_key()]);
    records.create_index(by_member)?;
    for (goal, title) in [
        ("G1", "Ship it"),
        ("G2", "Grow"),
        ("G3", "Rest"),
        ("G4", "Hire"),
    ] {
        records.put(goal, bins! { "kind" => "goal", "title" => title })?;
    }
    join(&records, "G1", "USER-1", "LEAD")?;
    join(&records, "G2", "USER-1", "CONTRIBUTOR")?;
    join(&records, "G3", "USER-1", "LEAD")?;
    join(&records, "G4", "USER-2", "LEAD")?;
    join(&records, "G4", "TEAM-7", "TEAM")?;

    let of_user = || records.query("by_member").map(|query| query.eq("USER-1"));
    let (led, _) = titles(&records, &of_user()?.eq("500-LEAD"))?;
    println!("user 1 leads: {led:?}");
    assert_eq!(led.len(), 2);

    // "Contributes to or leads" is one range, and a page token goes on where a page has ended.
    let (mut token, mut pages) = (None::<String>, Vec::new());
    loop {
        let mut query = of_user()?.at_least("400-").limit(2);
        if let Some(token) = &token {
            query = query.after(&token.parse::<Cursor>()?);
        }
        let (page, next) = titles(&records, &query)?;
        println!("user 1 contributes to or leads: {page:?}");
        pages.push(page.len());
        token = next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(pages, [2, 1]);
    println!("{:?}", of_user()?.at_least("400-").explain()?);

    // A child that names its parent, and an index on that: who has commented on this post, and on
    // which posts has she?
    let comments = store.set("comments")?;
    comments.create_index(IndexDefinition::new("by_post", ["post", "at"]))?;
    comments.create_index(IndexDefinition::new("by_author", ["author"]))?;
    for (id, post, author, at) in [
        (1, "p1", "ada", 10),
        (2, "p1", "bob", 20),
        (3, "p2", "ada", 30),
    ] {
        comments.put(id, bins! { "post" => post, "author" => author, "at" => at })?;
    }
    let latest = comments.query("by_post")?.eq("p1").descending().limit(1);
    for comment in latest.records()? {
        println!("the latest comment on p1: {:?}", comment?.record);
    }
    assert_eq!(comments.query("by_author")?.eq("ada").count()?, 2);
    store.close()
}
