//! The client's operations on HyperLogLog sketches, by number.

use aerospike::operations::Operation as Theirs;
use aerospike::operations::hll::{self as theirs, HllPolicy, HllWriteFlags};

use super::arguments::{PositionalArguments, operations, unknown};
use crate::Result;
use crate::hll::code as c;

operations! {
    "sketches", [];
    INIT init_with_min_hash(&hll_policy 2; int 0, int 1);
    ADD add_with_index_and_min_hash(&hll_policy 3; values 0, int 1, int 2);
    SET_UNION set_union(&hll_policy 1; values 0);
    REFRESH_COUNT refresh_count();
    FOLD fold(int 0);
    GET_COUNT get_count();
    GET_UNION get_union(values 0);
    GET_UNION_COUNT get_union_count(values 0);
    GET_INTERSECT_COUNT get_intersect_count(values 0);
    GET_SIMILARITY get_similarity(values 0);
    DESCRIBE describe();
}

impl PositionalArguments {
    fn hll_policy(&self, position: usize) -> Result<HllPolicy> {
        let flags = self.flags(position)?;
        Ok(HllPolicy::new(HllWriteFlags::from_bits(flags)))
    }
}
