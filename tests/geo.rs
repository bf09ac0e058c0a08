//! GeoJSON in bins: the texts that may be written, and the values that a read returns.
//!
//! Tests beside the implementation check which texts are geometries, and which points are in which
//! regions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod support;

use spikelet::operations::{self, lists, put, put_encoded};
use spikelet::value::ParticleType;
use spikelet::{ListPolicy, Set, Value};
use support::{BIN, WRONG_TYPE, check, empty_set, rule};

const GEO_INVALID: u8 = 160;

const POINT: &str = r#"{"type":"Point","coordinates":[-122.4, 37.7]}"#;
const CIRCLE: &str = r#"{"type":"AeroCircle","coordinates":[[-122.4, 37.7], 500]}"#;
const POLYGON: &str = r#"{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]}"#;
const FEATURE: &str =
    r#"{"type":"Feature","geometry":{"type":"Point","coordinates":[1,2]},"properties":{}}"#;
const GEOMETRIES: [&str; 4] = [POINT, CIRCLE, POLYGON, FEATURE];
const OTHERS: [&str; 5] = [
    "",
    "{}",
    r#"{"type":"LineString","coordinates":[[0,0],[1,1]]}"#,
    r#"{"type":"Point","coordinates":[181,0]}"#,
    r#"{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1]]]}"#,
];

fn geo(text: &str) -> Value {
    Value::GeoJson(text.into())
}

/// The form of the wire: flags, no cells, the text.
fn on_the_wire(text: &str) -> Vec<u8> {
    [&[0; 3], text.as_bytes()].concat()
}

fn stored(set: &Set) -> Option<Value> {
    set.get("k").unwrap().and_then(|record| record.get(BIN))
}

#[test]
fn geometries_come_back_as_they_were_written() {
    let set = empty_set();
    for text in GEOMETRIES {
        set.put("k", [(BIN, geo(text))]).unwrap();
        assert_eq!(stored(&set), Some(geo(text)));
        set.delete("k").unwrap();
        let write = put_encoded(BIN, ParticleType::GeoJson, on_the_wire(text));
        set.operate("k", &[write]).unwrap();
        assert_eq!(stored(&set), Some(geo(text)));
    }
}

#[test]
fn other_texts_are_refused_wherever_a_whole_bin_is_written() {
    let set = empty_set();
    let refused = |done: Result<(), spikelet::Error>, text: &str| {
        assert_eq!(
            done.map_err(|error| error.result_code()),
            Err(GEO_INVALID),
            "{text}"
        );
        assert_eq!(stored(&set), None, "{text}");
    };
    for text in OTHERS {
        refused(set.put("k", [(BIN, geo(text))]).map(drop), text);
        refused(set.operate("k", &[put(BIN, geo(text))]).map(drop), text);
        let encoded = put_encoded(BIN, ParticleType::GeoJson, on_the_wire(text));
        refused(set.operate("k", &[encoded]).map(drop), text);
        // Adding to a missing bin, or appending to one, writes the operand; an invalid operand must
        // be refused there, too.
        refused(
            set.operate("k", &[operations::add(BIN, geo(text))])
                .map(drop),
            text,
        );
        refused(
            set.operate("k", &[operations::append(BIN, geo(text))])
                .map(drop),
            text,
        );
    }
}

#[test]
fn texts_inside_lists_and_maps_are_not_looked_at() {
    let set = empty_set();
    for text in OTHERS {
        set.put("k", [(BIN, Value::from(vec![geo(text)]))]).unwrap();
        let more = lists::append(&ListPolicy::default(), BIN, geo(text));
        set.operate("k", &[more]).unwrap();
        assert_eq!(stored(&set), Some(vec![geo(text), geo(text)].into()));
    }
}

#[test]
fn nothing_is_put_before_or_behind_a_geometry() {
    check([
        rule("append", geo(POINT), operations::append(BIN, geo(POINT))).refused(WRONG_TYPE),
        rule("prepend", geo(POINT), operations::prepend(BIN, geo(POINT))).refused(WRONG_TYPE),
        rule("append text", geo(POINT), operations::append(BIN, "x")).refused(WRONG_TYPE),
        rule("add", geo(POINT), operations::add(BIN, 1)).refused(WRONG_TYPE),
    ]);
}
