//! Regions and points by an index against a look at every record.

use std::collections::BTreeSet;

use proptest::prelude::*;
use spikelet::expressions::{geo_bin, geo_compare, geo_val};
use spikelet::query::{Cursor, IndexComponent, IndexDefinition, IndexType, Query};
use spikelet::{Error, Key, Set, Store, Value, bins};

use crate::keys;

/// Longitude and latitude, in degrees.
type Place = (f64, f64);

fn point((longitude, latitude): Place) -> String {
    format!(r#"{{"type":"Point","coordinates":[{longitude},{latitude}]}}"#)
}

fn circle((longitude, latitude): Place, metres: f64) -> String {
    format!(r#"{{"type":"AeroCircle","coordinates":[[{longitude},{latitude}],{metres}]}}"#)
}

/// A ring of corners around a place, which may go around a pole or across the date line.
fn ring((longitude, latitude): Place, degrees: f64, corners: u32) -> String {
    let (sin_latitude, cos_latitude) = latitude.to_radians().sin_cos();
    let (sin_distance, cos_distance) = degrees.to_radians().sin_cos();
    let corner = |number: u32| {
        let direction = std::f64::consts::TAU * f64::from(number % corners) / f64::from(corners);
        let sine = sin_latitude * cos_distance + cos_latitude * sin_distance * direction.cos();
        let turn = (direction.sin() * sin_distance * cos_latitude)
            .atan2(cos_distance - sin_latitude * sine);
        let longitude = (longitude + turn.to_degrees() + 540.0).rem_euclid(360.0) - 180.0;
        format!(
            "[{longitude},{}]",
            sine.clamp(-1.0, 1.0).asin().to_degrees()
        )
    };
    let corners: Vec<String> = (0..=corners).map(corner).collect();
    format!("[{}]", corners.join(","))
}

fn polygon(rings: &[String]) -> String {
    format!(
        r#"{{"type":"Polygon","coordinates":[{}]}}"#,
        rings.join(",")
    )
}

fn place() -> impl Strategy<Value = Place> {
    let longitude = prop_oneof![
        -180.0..=180.0_f64,
        179.0..=180.0_f64,
        Just(-180.0),
        -1.0..1.0_f64
    ];
    let latitude = prop_oneof![
        -90.0..=90.0_f64,
        88.0..=90.0_f64,
        Just(-90.0),
        -1.0..1.0_f64
    ];
    (longitude, latitude)
}

fn region() -> impl Strategy<Value = String> {
    let metres = prop_oneof![
        0.0..100.0_f64,
        100.0..200_000.0_f64,
        200_000.0..21_000_000.0_f64
    ];
    let round = (place(), metres).prop_map(|(centre, metres)| circle(centre, metres));
    let angular = (place(), 0.01..80.0_f64, 3..9_u32, any::<bool>()).prop_map(
        |(centre, degrees, corners, has_hole)| {
            let mut rings = vec![ring(centre, degrees, corners)];
            if has_hole {
                rings.push(ring(centre, degrees / 4.0, corners));
            }
            polygon(&rings)
        },
    );
    prop_oneof![round, angular]
}

fn fill(places: &[Place], regions: &[String]) -> Set {
    let set = Store::in_memory().unwrap().set("places").unwrap();
    for bin in ["place", "region"] {
        let component = IndexComponent::bin(bin).of_type(IndexType::GeoJson);
        set.create_index(IndexDefinition::new(bin, [component]))
            .unwrap();
    }
    for (number, place) in places.iter().enumerate() {
        let bins = bins! { "place" => Value::GeoJson(point(*place)) };
        set.put(number as i64, bins).unwrap();
    }
    for (number, region) in regions.iter().enumerate() {
        let bins = bins! { "region" => Value::GeoJson(region.clone()) };
        set.put(-1 - number as i64, bins).unwrap();
    }
    set
}

fn found(query: &Query) -> BTreeSet<Key<'static>> {
    let keys = keys(query);
    let distinct: BTreeSet<_> = keys.iter().cloned().collect();
    assert_eq!(distinct.len(), keys.len(), "a record came twice");
    distinct
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_index_finds_what_a_look_at_all_finds(
        places in prop::collection::vec(place(), 0..60),
        regions in prop::collection::vec(region(), 0..12),
        asked_region in region(),
        asked_place in place(),
    ) {
        let set = fill(&places, &regions);
        let scanned = |bin: &str, geometry: &str| {
            let filter = geo_compare(geo_bin(bin), geo_val(geometry));
            found(&set.query_all().filter(filter))
        };
        let by_region = set.query("place").unwrap().within(&asked_region);
        prop_assert_eq!(found(&by_region), scanned("place", &asked_region));
        let asked = point(asked_place);
        let by_point = set.query("region").unwrap().containing(&asked);
        prop_assert_eq!(found(&by_point), scanned("region", &asked));
        prop_assert_eq!(found(&by_region.descending()), scanned("place", &asked_region));
        // An edge of a region, and each place of a record, are asked for too.
        for place in &places {
            let around = circle(*place, 1.0);
            let by_circle = set.query("place").unwrap().within(&around);
            prop_assert_eq!(found(&by_circle), scanned("place", &around));
        }
        // Few entries a region, for any form.
        let entries = set.query("region").unwrap().explain().unwrap().entries;
        prop_assert!(entries <= 16 * regions.len() as u64, "{} entries", entries);
    }
}

#[test]
fn pages_of_geometries_go_on_where_they_ended() {
    let places: Vec<Place> = (0..500)
        .map(|number| (f64::from(number % 25) - 12.0, f64::from(number / 25) - 10.0))
        .collect();
    let set = fill(&places, &[]);
    let region = polygon(&[ring((0.0, 0.0), 9.0, 8)]);
    let query = set.query("place").unwrap().within(&region);
    let all = keys(&query);
    assert!(all.len() > 100, "{}", all.len());
    let (mut paged, mut cursor) = (Vec::new(), None::<Cursor>);
    loop {
        let mut page = query.clone().limit(7);
        if let Some(cursor) = &cursor {
            page = page.after(cursor);
        }
        let page = page.keys().unwrap();
        cursor = page.cursor().cloned();
        paged.extend(
            page.into_records()
                .unwrap()
                .into_iter()
                .map(|found| found.key.unwrap()),
        );
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(paged, all);
    // Cells narrow: far fewer entries are looked at than there are.
    let looked_at = query.explain().unwrap().entries;
    assert!(looked_at < 400, "{looked_at} for {}", all.len());
}

#[test]
fn a_record_follows_its_geometry() {
    let set = fill(&[(15.4, 47.1)], &[]);
    let around = |longitude| circle((longitude, 47.0), 20_000.0);
    let count = |region: &str| set.query("place").unwrap().within(region).count().unwrap();
    assert_eq!((count(&around(15.4)), count(&around(16.4))), (1, 0));
    set.put(0, bins! { "place" => Value::GeoJson(point((16.4, 47.1))) })
        .unwrap();
    assert_eq!((count(&around(15.4)), count(&around(16.4))), (0, 1));
    set.delete(0).unwrap();
    assert_eq!(count(&around(16.4)), 0);
}

#[test]
fn what_is_no_region_or_point_is_refused() {
    let set = fill(&[], &[]);
    let query = || set.query("place").unwrap();
    let region = circle((0.0, 0.0), 1.0);
    let place = point((0.0, 0.0));
    for query in [
        query().within(&place),
        query().containing(&region),
        query().within(&region).eq(1),
    ] {
        assert!(matches!(query.count(), Err(Error::Parameter(_))));
    }
    assert!(matches!(
        query().within("{}").count(),
        Err(Error::GeoJson(_))
    ));
    set.create_index(IndexDefinition::new("number", ["number"]))
        .unwrap();
    let by_number = set.query("number").unwrap().within(&region);
    assert!(matches!(by_number.count(), Err(Error::Parameter(_))));
    // Two geometries may share a cell.
    let unique = IndexComponent::bin("place").of_type(IndexType::GeoJson);
    let unique = set.create_index(IndexDefinition::new("unique", [unique]).unique(true));
    assert!(matches!(unique, Err(Error::Parameter(_))), "{unique:?}");
    let keys = IndexComponent::bin("m").map_keys();
    let refused = IndexDefinition::new("keys", [keys.of_type(IndexType::GeoJson)]);
    assert!(matches!(
        set.create_index(refused),
        Err(Error::Parameter(_))
    ));
}
