//! Checks of values written as whole bins: GeoJSON and sketches are parsed, every other type is
//! valid by its form. Elements of lists and maps are not checked, as in Aerospike.

use crate::value::{ParticleType, Value};
use crate::{Error, Result, geo, hll};

/// Refuses a value that its type does not allow. O(1) but for GeoJSON.
#[inline]
pub(crate) fn check_bin_value(value: &Value) -> Result<()> {
    match value {
        Value::GeoJson(text) => check_stored_bin_value(ParticleType::GeoJson, text.as_bytes()),
        Value::Hll(sketch) => check_stored_bin_value(ParticleType::Hll, sketch),
        _ => Ok(()),
    }
}

/// Refuses a value in its stored form that its type does not allow. O(1) but for GeoJSON.
pub(super) fn check_stored_bin_value(kind: ParticleType, bytes: &[u8]) -> Result<()> {
    match kind {
        ParticleType::GeoJson => {
            geo::validate(bytes).map_err(|why| Error::GeoJson(why.to_string().into()))
        }
        ParticleType::Hll => hll::validate(bytes).map_err(|why| {
            Error::parameter(format!(
                "a HyperLogLog value that is none: {why}; make them with operations::hll"
            ))
        }),
        _ => Ok(()),
    }
}
