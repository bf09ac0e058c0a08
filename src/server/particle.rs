//! Values on the wire: stored bytes to wire bytes. The other way is `value::from_wire`.
//!
//! | type | bytes |
//! |---|---|
//! | integer, float | 8 bytes, big-endian |
//! | GeoJSON | flags (0), number of cells (0 in 2 bytes), the text |
//! | list, map | MessagePack without index data |
//! | others | as they are stored |

use crate::value::{CodecError, ParticleType, ValueRef, is_indexed, stored_to_element};

/// Flags and number of cells in front of GeoJSON text: none.
const GEOJSON_HEAD: [u8; 3] = [0; 3];

/// Appends the wire form of a stored value.
pub(crate) fn write_wire(
    kind: ParticleType,
    stored: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    match kind {
        ParticleType::Null => {}
        ParticleType::Integer => {
            let value = ValueRef::stored(kind, stored)?;
            out.extend_from_slice(&value.as_i64().unwrap_or_default().to_be_bytes());
        }
        ParticleType::Float => out.extend(stored.iter().rev()),
        ParticleType::GeoJson => {
            out.extend_from_slice(&GEOJSON_HEAD);
            out.extend_from_slice(stored);
        }
        _ if is_indexed(kind, stored)? => stored_to_element(kind, stored, out)?,
        _ => out.extend_from_slice(stored),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use crate::value::{from_wire, write_stored};

    #[test]
    fn what_goes_out_comes_back_in() {
        let table: [(Value, &[u8]); 7] = [
            ((-2).into(), &[255, 255, 255, 255, 255, 255, 255, 254]),
            (1.5.into(), &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0]),
            ("text".into(), b"text"),
            (b"blob".into(), b"blob"),
            (true.into(), &[1]),
            (Value::GeoJson("{}".into()), b"\0\0\0{}"),
            (
                Value::List(vec![1.into(), "a".into()].into()),
                &[0x92, 1, 0xa2, 3, b'a'],
            ),
        ];
        for (value, wire) in table {
            let mut stored = Vec::new();
            let kind = write_stored(&value, &mut stored).unwrap();
            let mut out = Vec::new();
            write_wire(kind, &stored, &mut out).unwrap();
            assert_eq!(out, wire, "{value:?}");
            let mut again = Vec::new();
            from_wire(kind, &out, &mut again).unwrap();
            assert_eq!(again, stored, "{value:?}");
        }
    }

    #[test]
    fn index_data_and_its_flag_stay_at_home() {
        // A list of one element with a flag for order and index, and a byte of index data.
        let stored = [0x92, 0xc7, 1, 0x11, 0, 5];
        let mut out = Vec::new();
        write_wire(ParticleType::List, &stored, &mut out).unwrap();
        assert_eq!(out, [0x92, 0xc7, 0, 0x01, 5]);
    }
}
