//! Every operation does through a cluster what it does embedded.

use spikelet::operations::bits::{self, BitOverflow, BitPolicy, BitResizeFlags, BitSign};
use spikelet::operations::ctx::{Context, ListPad};
use spikelet::operations::hll::{self, HllPolicy};
use spikelet::operations::{self as ops, lists, maps};
use spikelet::{
    ListOrder, ListPolicy, ListReturnType, ListWriteFlags, MapOrder, MapPolicy, MapReturnType,
    MapWriteFlags, Operation, Value,
};

use crate::common::Both;

#[test]
fn x() {
    let both = Both::new();
    both.agree("put", "a", &[ops::put("n", 1), ops::get_bin("n")]);
    both.same_record("put", "a");
}
