//! A follow graph: who follows whom, both ways, in ordered lists without duplicates.
//!
//! `cargo run --example follow_graph`

use spikelet::operations::lists;
use spikelet::{ListOrder, ListPolicy, ListReturnType, ListWriteFlags, Set, Store};

/// Adds an edge to both records. Following twice is not an error and changes nothing.
fn follow(users: &Set, follower: &str, followed: &str) -> spikelet::Result<()> {
    let unique = ListWriteFlags::ADD_UNIQUE | ListWriteFlags::NO_FAIL;
    let policy = ListPolicy::new(ListOrder::Ordered, unique);
    users.operate(follower, &[lists::append(&policy, "following", followed)])?;
    users.operate(followed, &[lists::append(&policy, "followers", follower)])?;
    Ok(())
}

fn main() -> spikelet::Result<()> {
    let store = Store::in_memory()?; // or Store::open("directory")
    let users = store.set("users")?;
    for (follower, followed) in [
        ("bart", "lisa"),
        ("homer", "lisa"),
        ("marge", "lisa"),
        ("lisa", "marge"),
        ("homer", "marge"),
        ("bart", "lisa"),
    ] {
        follow(&users, follower, followed)?;
    }

    // Several questions about one record are one operation: one look-up, one consistent state.
    let lisa = users.operate(
        "lisa",
        &[
            lists::size("followers"),
            lists::get_by_value("followers", "homer", ListReturnType::Exists),
            lists::get_by_index_range_count("followers", 0, 2, ListReturnType::Values),
        ],
    )?;
    println!("lisa's followers: {:?}", lisa.value(0));
    println!("does homer follow lisa? {:?}", lisa.value(1));
    println!("the first page: {:?}", lisa.value(2));

    assert_eq!(lisa.value(0), Some(&3.into()));
    assert_eq!(lisa.value(1), Some(&true.into()));
    store.close()
}
