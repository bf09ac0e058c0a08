//! A leaderboard: one map of scores by player, read by rank.
//!
//! `cargo run --example leaderboard`

use spikelet::operations::maps;
use spikelet::{MapOrder, MapPolicy, MapReturnType, MapWriteFlags, Store};

fn main() -> spikelet::Result<()> {
    let store = Store::in_memory()?;
    let boards = store.set("boards")?;
    // Ordered by key and by value: look-ups by player and by rank are binary searches.
    let policy = MapPolicy::new(MapOrder::KeyValueOrdered, MapWriteFlags::default());
    for (player, score) in [
        ("ada", 310),
        ("bob", 150),
        ("cleo", 480),
        ("dan", 90),
        ("eve", 275),
    ] {
        boards.operate("weekly", &[maps::put(&policy, "scores", player, score)])?;
    }
    // Points are added in place, under the record's own lock.
    boards.operate(
        "weekly",
        &[maps::increment_value(&policy, "scores", "dan", 250)],
    )?;

    let board = boards.operate(
        "weekly",
        &[
            maps::get_by_rank_range_count("scores", -3, 3, MapReturnType::KeyValue),
            maps::get_by_key("scores", "dan", MapReturnType::ReverseRank),
            maps::get_by_value_range("scores", Some(300.into()), None, MapReturnType::Count),
        ],
    )?;
    println!(
        "the best three, the lowest of them first: {:?}",
        board.value(0)
    );
    println!("dan is behind {:?} players", board.value(1));
    println!("with 300 points or more: {:?}", board.value(2));
    assert_eq!(board.value(1), Some(&1.into()));
    assert_eq!(board.value(2), Some(&3.into()));
    store.close()
}
