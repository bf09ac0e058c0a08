//! Aerospike's modeling document, 1:N: posts with their comments in one record, orders with a list
//! of line items, and comments that are found from their user; a relation that outgrows its layout
//! moves to another one while it is used.
//!
//! `cargo run --example relations_posts`

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use spikelet::relation::{
    Layout, LayoutKind, ManyToMany, OnDelete, OneToMany, Repair, suggest_layout,
};
use spikelet::{Store, bins};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Comment {
    user: String,
    message: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct LineItem {
    product: String,
    count: u32,
}

fn comment(user: &str, message: &str) -> Comment {
    Comment {
        user: user.into(),
        message: message.into(),
    }
}

/// Pattern 1: an order has the keys of its line items, which are records of their own.
fn orders(store: &Store) -> spikelet::Result<()> {
    let items = OneToMany::new(
        store,
        "items",
        ("orders", "line_items"),
        Layout::key_list("items"),
    )?
    .with_parent_bin("order");
    for (item, product) in [(1, "donuts"), (2, "duff"), (3, "coffee")] {
        let item_of_order = LineItem {
            product: product.into(),
            count: 12,
        };
        items.put("order:1001", item, &item_of_order)?;
    }
    for item in items.page("order:1001", None, 50)?.children {
        println!("order 1001: {:?}", item.decode::<LineItem>()?);
    }
    assert_eq!(items.len("order:1001")?, 3);
    assert_eq!(items.parent_of(2)?, Some("order:1001".into()));
    Ok(())
}

/// Pattern 2: a post and its comments are one record; and the inverse path, by a relation of its
/// own.
fn posts(store: &Store) -> spikelet::Result<()> {
    let layout = Layout::consolidated("comments");
    let comments = OneToMany::new(store, "comments", ("posts", "comments"), layout)?;
    let commented = ManyToMany::new(
        store,
        "commented",
        ("users", "commented"),
        ("posts", "commenters"),
    );
    for (post, id, user, message) in [
        ("post:1", 1, "homer", "Doh!"),
        (
            "post:1",
            2,
            "lisa",
            "If anyone wants me, I'll be in my room.",
        ),
        ("post:2", 1, "homer", "Mmm, donuts."),
    ] {
        comments.put(post, id, &comment(user, message))?;
        commented.link(user, post)?;
    }
    store
        .set("posts")?
        .put("post:1", bins! { "title" => "Springfield" })?;
    assert_eq!(comments.len("post:1")?, 2);
    // Homer deletes his account: all posts that he has commented on are found from him.
    for post in commented.targets("homer").page(0, 100)? {
        for child in comments.page(&post, None, 100)?.children {
            if child.decode::<Comment>()?.user == "homer" {
                comments.remove(&post, &child.key)?;
            }
        }
    }
    commented.delete_with_edges("homer", OnDelete::Detach, |_| ControlFlow::Continue(()))?;
    println!(
        "comments that are left of post 1: {}",
        comments.len("post:1")?
    );
    assert_eq!((comments.len("post:1")?, comments.len("post:2")?), (1, 0));
    Ok(())
}

/// From pattern 2 to pattern 3, child by child, when there are too many for one record.
fn outgrown(store: &Store) -> spikelet::Result<()> {
    let consolidated = Layout::consolidated("reviews");
    let reviews = OneToMany::new(
        store,
        "reviews",
        ("products", "reviews"),
        consolidated.clone(),
    )?;
    for id in 0..700 {
        reviews.put("donut", id, &comment("homer", &"good ".repeat(60)))?;
    }
    let advice = reviews.suggest()?;
    println!(
        "{} reviews of {} bytes: {}",
        advice.children_p99, advice.child_bytes, advice.layout
    );
    assert_eq!(advice.layout, LayoutKind::Reference);
    let reference = Layout::reference("product", "reviews_by_product");
    let moving = OneToMany::new(store, "reviews", ("products", "reviews"), reference.clone())?
        .moving_from(consolidated)?;
    // Stopped in the middle, as a process may be: all reviews are found all the time.
    moving.move_children(|progress| match progress.edges {
        300 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })?;
    assert_eq!(moving.len("donut")?, 700);
    assert!(moving.move_children(|_| ControlFlow::Continue(()))?);
    let reviews = OneToMany::new(store, "reviews", ("products", "reviews"), reference)?;
    assert_eq!(reviews.len("donut")?, 700);
    let audit = reviews.verify(Repair::No, |_| ControlFlow::Continue(()))?;
    assert!(audit.is_sound());
    Ok(())
}

fn main() -> spikelet::Result<()> {
    let store = Store::in_memory()?; // or Store::open("directory")
    // children_p99 * bytes of a child, against 128 KiB.
    assert_eq!(suggest_layout(200, 150), LayoutKind::Consolidated);
    orders(&store)?;
    posts(&store)?;
    outgrown(&store)?;
    store.close()
}
