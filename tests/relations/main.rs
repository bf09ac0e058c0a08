//! Relations between records: the answers of each handle, its cost in record operations, and the
//! records after a process dies between any two of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod bulk;
mod cascades;
mod damaged;
mod declared;
mod graph;
mod graph_maps;
mod groups;
mod guarded;
mod guarded_deletes;
mod guarded_edges;
mod guarded_elsewhere;
mod guarded_kills;
mod includes;
mod joined;
mod key_pattern;
mod kill;
mod killed;
mod killed_updaters;
mod links;
mod many_to_many;
mod members;
mod moves;
mod one_to_many;
mod pairs;
mod propagate;
mod reads;
mod side_by_side;
mod to_one;
mod traversal;
mod updaters;
mod watched;

#[cfg(feature = "server")]
#[path = "../server_client/mod.rs"]
mod server_client;

use std::ops::ControlFlow;

use spikelet::relation::RelationProgress;

fn go_on(_: RelationProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
