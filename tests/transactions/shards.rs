//! Sharded collections inside transactions.

use std::cell::Cell;

use spikelet::shard::ShardPolicy;
use spikelet::{ShardedCounter, ShardedList, ShardedMap};

use super::*;

