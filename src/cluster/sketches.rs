//! The client's operations on HyperLogLog sketches, by number.

use aerospike::operations::Operation as Theirs;
use aerospike::operations::hll::{self as theirs, HllPolicy, HllWriteFlags};

use super::arguments::{PositionalArguments, unknown};
use crate::hll::code as c;
use crate::{Error, Result};

/// The operation of this number.
pub(super) fn operation(bin: &str, code: i64, a: &PositionalArguments) -> Result<Theirs> {
    let policy = |position| {
        let flags = a.flags(position)?;
        Ok::<_, Error>(HllPolicy::new(HllWriteFlags::from_bits(flags)))
    };
    Ok(match u8::try_from(code).unwrap_or(u8::MAX) {
        c::INIT => theirs::init_with_min_hash(&policy(2)?, bin, a.int(0)?, a.int(1)?),
        c::ADD => theirs::add_with_index_and_min_hash(
            &policy(3)?,
            bin,
            a.values(0)?,
            a.int(1)?,
            a.int(2)?,
        ),
        c::SET_UNION => theirs::set_union(&policy(1)?, bin, a.values(0)?),
        c::REFRESH_COUNT => theirs::refresh_count(bin),
        c::FOLD => theirs::fold(bin, a.int(0)?),
        c::GET_COUNT => theirs::get_count(bin),
        c::GET_UNION => theirs::get_union(bin, a.values(0)?),
        c::GET_UNION_COUNT => theirs::get_union_count(bin, a.values(0)?),
        c::GET_INTERSECT_COUNT => theirs::get_intersect_count(bin, a.values(0)?),
        c::GET_SIMILARITY => theirs::get_similarity(bin, a.values(0)?),
        c::DESCRIBE => theirs::describe(bin),
        _ => return Err(unknown(bin, "sketches", code)),
    })
}
