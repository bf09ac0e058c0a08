//! DynamoDB's modeling document, Koan's records table: a team's goals with their leads and teams,
//! in three batches.
//!
//! `cargo run --example relations_goals`

use serde::{Deserialize, Serialize};
use serde_json::json;
use spikelet::Store;
use spikelet::relation::{EdgeType, Graph, NodeId};

#[derive(Debug, Serialize, Deserialize)]
struct Named {
    name: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Goal {
    title: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Membership<'a> {
    member_role: &'a str,
    date: &'a str,
}

fn node(kind: &str, id: &str) -> NodeId {
    NodeId::new(kind, id)
}

fn main() -> spikelet::Result<()> {
    let store = Store::in_memory()?; // or Store::open("directory")
    // gsi0 is the role with its rank, gsi1 the date. Subscribers may be thousands, and are not
    // shown with a goal.
    let membership = EdgeType::new("GOALMEMBERSHIP")
        .ranked_by(
            "memberRole",
            [("LEAD", 500), ("CONTRIBUTOR", 400), ("TEAM", 300)],
        )
        .sort_key(|edge| Some(edge.get("date")?.as_str()?.to_owned()));
    let subscriber = EdgeType::new("GOALSUBSCRIBER").omitted();
    let graph = Graph::new(
        &store,
        "records",
        ["GOAL", "USER", "TEAM"],
        [membership, subscriber],
    )?;

    let marketing = node("TEAM", "T1");
    graph.put_node(&marketing, &json!({ "name": "Marketing" }))?;
    for (id, name) in [
        ("U1", "Dora Campos"),
        ("U2", "Marvin Hale"),
        ("U3", "Ana Silva"),
    ] {
        graph.put_node(&node("USER", id), &Named { name: name.into() })?;
    }
    for (id, title, lead, contributor) in [
        (
            "G1",
            "Release Next-Generation Augmented Reality Platform",
            "U1",
            "U2",
        ),
        ("G2", "10 nationwide press events", "U1", "U3"),
        ("G3", "Be the best place to work", "U3", "U1"),
    ] {
        let goal = node("GOAL", id);
        graph.put_node(
            &goal,
            &Goal {
                title: title.into(),
            },
        )?;
        for (role, target) in [
            ("TEAM", marketing.clone()),
            ("LEAD", node("USER", lead)),
            ("CONTRIBUTOR", node("USER", contributor)),
        ] {
            // The edge and the edge set of the goal, in one transaction.
            let member = Membership {
                member_role: role,
                date: "2020-07-01",
            };
            graph.link(&goal, "GOALMEMBERSHIP", &target, &member)?;
        }
    }

    // The list: edges of the team, their goals, and the goals' leads and teams.
    let mut token: Option<String> = None;
    let mut goals = 0;
    loop {
        let mut query = graph.query("GOALMEMBERSHIP", &marketing)?.limit(2);
        if let Some(token) = &token {
            query = query.after(token);
        }
        let page = query.nodes_with(&["USER", "TEAM"])?;
        for found in &page.nodes {
            let leads = found
                .edges
                .iter()
                .filter(|edge| &*edge.sort_key == "500-LEAD");
            let names = leads.filter_map(|edge| page.related.get(&edge.target));
            let names: Vec<String> = names
                .map(|user| Ok(user.decode::<Named>()?.name))
                .collect::<spikelet::Result<_>>()?;
            println!("{}: {}", found.decode::<Goal>()?.title, names.join(", "));
            assert_eq!(names.len(), 1);
            goals += 1;
        }
        match page.next {
            Some(next) => token = Some(next),
            None => break,
        }
    }
    assert_eq!(goals, 3);

    // "All goals that a user leads", and "contributes to or leads".
    let dora = node("USER", "U1");
    let (led, _) = graph
        .query("GOALMEMBERSHIP", &dora)?
        .equal("500-LEAD")
        .sources()?;
    let (works_on, _) = graph
        .query("GOALMEMBERSHIP", &dora)?
        .at_least("400-")
        .sources()?;
    println!(
        "Dora leads {} goals and works on {}",
        led.len(),
        works_on.len()
    );
    assert_eq!((led.len(), works_on.len()), (2, 3));
    let (since, _) = graph
        .query("GOALMEMBERSHIP", &dora)?
        .sort(1)
        .at_least("2020-07-02")
        .sources()?;
    assert!(since.is_empty());

    graph.link(
        &node("GOAL", "G1"),
        "GOALSUBSCRIBER",
        &dora,
        &json!({ "date": "2020-07-03" }),
    )?;
    graph.unlink(&node("GOAL", "G1"), "GOALMEMBERSHIP", &dora)?;
    let page = graph
        .query("GOALMEMBERSHIP", &marketing)?
        .limit(10)
        .nodes()?;
    let edges: usize = page.nodes.iter().map(|goal| goal.edges.len()).sum();
    assert_eq!(edges, 8);
    store.close()
}
