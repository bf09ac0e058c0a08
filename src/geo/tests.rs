use proptest::prelude::*;

use super::*;

fn contains(one: &[u8], other: &[u8]) -> Result<bool, GeoError> {
    Ok(Geometry::parse(one)?.matches(&Geometry::parse(other)?))
}

/// Longitude and latitude.
type Place = (f64, f64);

fn point((longitude, latitude): Place) -> String {
    format!(r#"{{"type": "Point", "coordinates": [{longitude}, {latitude}]}}"#)
}

fn circle((longitude, latitude): Place, radius_m: f64) -> String {
    format!(r#"{{"type":"AeroCircle","coordinates":[[{longitude},{latitude}],{radius_m}]}}"#)
}

/// Returns the coordinates of a ring, closing it.
fn ring(places: &[Place]) -> String {
    let positions: Vec<_> = places
        .iter()
        .chain(places.first())
        .map(|(longitude, latitude)| format!("[{longitude},{latitude}]"))
        .collect();
    format!("[{}]", positions.join(","))
}

fn polygon(rings: &[&[Place]]) -> String {
    let rings: Vec<_> = rings.iter().map(|places| ring(places)).collect();
    format!(
        r#"{{"type":"Polygon","coordinates":[{}]}}"#,
        rings.join(",")
    )
}

fn is_in(place: Place, region: &str) -> bool {
    let point = point(place);
    let found = contains(point.as_bytes(), region.as_bytes()).unwrap();
    let other_way_round = contains(region.as_bytes(), point.as_bytes()).unwrap();
    assert_eq!(found, other_way_round);
    found
}

#[test]
fn geometries_are_told_from_other_texts() {
    let square = "[[0,0],[1,0],[1,1],[0,1],[0,0]]";
    let of = |kind: &str, coordinates: &str| {
        format!(r#"{{"type":"{kind}","coordinates":{coordinates}}}"#)
    };
    let feature = |geometry: &str| {
        format!(r#"{{"type":"Feature","properties":{{"a":[1]}},"geometry":{geometry}}}"#)
    };
    let table = [
        (of("Point", "[1,2]"), true),
        (of("Point", "[-180.0,9e1]"), true),
        (
            r#" {"coordinates":[1.5,2],"more":{"x":null},"type":"Poin\u0074"} "#.into(),
            true,
        ),
        (of("Polygon", &format!("[{square}]")), true),
        (of("Polygon", "[]"), true),
        (of("Polygon", "[[[0,0],[1,0],[1,0],[1,1],[0,0]]]"), true),
        (
            of("MultiPolygon", &format!("[[{square}],[{square},{square}]]")),
            true,
        ),
        (of("AeroCircle", "[[1,2],300]"), true),
        (feature(&of("Point", "[1,2]")), true),
        (feature(&of("AeroCircle", "[[1,2],3.5]")), true),
        (String::new(), false),
        ("{}".into(), false),
        ("[1,2]".into(), false),
        (r#"{"type":3,"coordinates":[1,2]}"#.into(), false),
        (r#"{"type":"Point"}"#.into(), false),
        (of("Point", "[1,2]") + "x", false),
        (of("Point", "[1]"), false),
        (of("Point", "[1,2,3]"), false),
        (of("Point", r#"["1","2"]"#), false),
        (of("Point", "[1,null]"), false),
        (of("Point", "[180.1,0]"), false),
        (of("Point", "[0,-90.1]"), false),
        (of("Point", "[1e999,0]"), false),
        (of("MultiPoint", "[[1,2]]"), false),
        (of("LineString", "[[1,2],[3,4]]"), false),
        (of("point", "[1,2]"), false),
        (of("Polygon", square), false),
        (of("Polygon", "[[[0,0],[1,0],[1,1],[0,1]]]"), false),
        (of("Polygon", "[[[0,0],[1,0],[0,0]]]"), false),
        (of("Polygon", "[[[0,0],[1,0],[1,0],[0,0]]]"), false),
        (of("Polygon", "[[[0,0],[1,0],[1,91],[0,0]]]"), false),
        (of("MultiPolygon", &format!("[{square}]")), false),
        (of("AeroCircle", "[[1,2]]"), false),
        (of("AeroCircle", r#"[[1,2],"3"]"#), false),
        (of("AeroCircle", "[1,2,3]"), false),
        (feature("null"), false),
        (feature(&feature(&of("Point", "[1,2]"))), false),
        (
            r#"{"type":"FeatureCollection","features":[]}"#.into(),
            false,
        ),
        (
            format!("{}{}", "[".repeat(50_000), "]".repeat(50_000)),
            false,
        ),
        (of("Polygon", &"[".repeat(50_000)), false),
    ];
    for (text, valid) in table {
        let result = validate(text.as_bytes());
        assert_eq!(result.is_ok(), valid, "{text:.80}: {result:?}");
    }
    assert!(validate(b"{\"type\":\"\xff\"}").is_err());
    let error = Error::from(validate(b"{}").unwrap_err());
    assert_eq!(error.result_code(), 160);
}

#[test]
fn circles_are_measured_in_metres_on_the_sphere() {
    let (london, paris, san_francisco) =
        ((-0.1276, 51.5072), (2.3522, 48.8566), (-122.4194, 37.7749));
    // Great-circle distances on a sphere of 6,371 km: 343.6 km, and 8,617 km.
    let table = [
        (london, paris, 343_000.0, 344_500.0),
        (london, san_francisco, 8_614_000.0, 8_620_000.0),
        ((179.9995, 0.0), (-179.9995, 0.0), 111.0, 111.3),
        ((0.0, 90.0), (77.0, 89.999), 111.1, 111.3),
        ((10.0, 20.0), (10.000_01, 20.0), 1.04, 1.05),
        ((0.0, 0.0), (180.0, 0.0), 20_015_000.0, 20_015_100.0),
    ];
    for (centre, place, too_short, enough) in table {
        assert!(!is_in(place, &circle(centre, too_short)), "{place:?}");
        assert!(is_in(place, &circle(centre, enough)), "{place:?}");
    }
    assert!(is_in(paris, &circle(paris, 0.0)));
    assert!(!is_in(paris, &circle(paris, -1.0)));
}

#[test]
fn sides_are_great_circles() {
    // From 60 degrees west to 60 degrees east on the 60th parallel, the shortest way reaches 73.9
    // degrees north.
    let region = polygon(&[&[(-60.0, 50.0), (60.0, 50.0), (60.0, 60.0), (-60.0, 60.0)]]);
    for (latitude, inside) in [(61.0, false), (68.0, true), (73.8, true), (74.0, false)] {
        assert_eq!(is_in((0.0, latitude), &region), inside, "{latitude}");
    }
}

#[test]
fn holes_are_outside_and_islands_in_them_inside() {
    let square = |half: f64| [(-half, -half), (half, -half), (half, half), (-half, half)];
    let region = polygon(&[&square(10.0), &square(5.0), &square(1.0)]);
    for (longitude, inside) in [(0.0, true), (3.0, false), (7.0, true), (12.0, false)] {
        assert_eq!(is_in((longitude, 0.1), &region), inside, "{longitude}");
    }
    let two = r#"{"type":"MultiPolygon","coordinates":
        [[[[0,0],[2,0],[2,2],[0,2],[0,0]]],[[[10,0],[12,0],[12,2],[10,2],[10,0]]]]}"#;
    for (longitude, inside) in [(1.0, true), (5.0, false), (11.0, true)] {
        assert_eq!(is_in((longitude, 1.0), two), inside, "{longitude}");
    }
    assert!(!is_in((0.0, 0.0), r#"{"type":"Polygon","coordinates":[]}"#));
}

#[test]
fn rings_may_go_around_a_pole_and_across_the_date_line() {
    let arctic = polygon(&[&[(0.0, 70.0), (90.0, 70.0), (180.0, 70.0), (-90.0, 70.0)]]);
    let antarctic = polygon(&[&[(0.0, -70.0), (90.0, -70.0), (180.0, -70.0), (-90.0, -70.0)]]);
    for longitude in [-170.0, -31.785, 0.0, 45.0, 180.0] {
        assert!(is_in((longitude, 80.0), &arctic));
        assert!(!is_in((longitude, 60.0), &arctic));
        assert!(is_in((longitude, -90.0), &antarctic));
        assert!(!is_in((longitude, 0.0), &antarctic));
    }
    let fiji = polygon(&[&[
        (177.0, -20.0),
        (-178.0, -20.0),
        (-178.0, -15.0),
        (177.0, -15.0),
    ]]);
    for (longitude, inside) in [
        (176.0, false),
        (178.0, true),
        (180.0, true),
        (-179.0, true),
        (-177.0, false),
    ] {
        assert_eq!(is_in((longitude, -17.0), &fiji), inside, "{longitude}");
    }
}

#[test]
fn the_smaller_side_of_a_ring_is_its_inside() {
    // A band around half of the world, wide enough to hold places opposite one another.
    let mut band: Vec<Place> = (0..=19)
        .map(|step| (f64::from(step) * 10.0 - 95.0, -10.0))
        .collect();
    band.extend(
        (0..=19)
            .rev()
            .map(|step| (f64::from(step) * 10.0 - 95.0, 10.0)),
    );
    let region = polygon(&[&band]);
    band.reverse();
    for region in [region, polygon(&[&band])] {
        for (longitude, inside) in [
            (-91.0, true),
            (0.0, true),
            (91.0, true),
            (100.0, false),
            (180.0, false),
        ] {
            assert_eq!(is_in((longitude, 2.0), &region), inside, "{longitude}");
        }
        assert!(!is_in((0.0, 89.0), &region));
        assert!(!is_in((0.0, -89.0), &region));
    }
}

#[test]
fn two_points_or_two_regions_never_match() {
    let (point, region) = (point((1.0, 1.0)), circle((1.0, 1.0), 10.0));
    assert_eq!(contains(point.as_bytes(), point.as_bytes()), Ok(false));
    assert_eq!(contains(region.as_bytes(), region.as_bytes()), Ok(false));
    assert!(contains(b"", region.as_bytes()).is_err());
    assert!(contains(region.as_bytes(), b"{").is_err());
}

/// Returns the point at a distance and in a direction from another one, all in degrees; and its
/// vector.
fn from_here((longitude, latitude): Place, distance: f64, direction: f64) -> (Place, [f64; 3]) {
    let (sin_distance, cos_distance) = distance.to_radians().sin_cos();
    let (sin_direction, cos_direction) = direction.to_radians().sin_cos();
    let (sin_latitude, cos_latitude) = latitude.to_radians().sin_cos();
    let there = sin_latitude * cos_distance + cos_latitude * sin_distance * cos_direction;
    let turn =
        (sin_direction * sin_distance * cos_latitude).atan2(cos_distance - sin_latitude * there);
    let longitude = (longitude + turn.to_degrees() + 540.0).rem_euclid(360.0) - 180.0;
    let latitude = there.clamp(-1.0, 1.0).asin();
    let (sin_longitude, cos_longitude) = longitude.to_radians().sin_cos();
    let vector = [
        latitude.cos() * cos_longitude,
        latitude.cos() * sin_longitude,
        latitude.sin(),
    ];
    ((longitude, latitude.to_degrees()), vector)
}

fn volume([a, b, c]: [[f64; 3]; 3]) -> f64 {
    a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
        + a[2] * (b[0] * c[1] - b[1] * c[0])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Stars around a point, anywhere on the sphere: between two arms, a point is inside if it is
    /// on the same side of the line between their ends as the middle.
    #[test]
    fn stars_anywhere_match_their_triangles(
        middle in (-180.0..180.0, -90.0..90.0),
        arms in prop::collection::vec((0.05..0.9_f64, 1.0..70.0_f64), 4..12),
        backwards: bool,
        places in prop::collection::vec((0.0..80.0_f64, 0.0..1.0_f64), 20),
    ) {
        let arm_count = arms.len() as f64;
        let directions: Vec<f64> = arms
            .iter()
            .enumerate()
            .map(|(arm, (within, _))| (arm as f64 + within) * 360.0 / arm_count)
            .collect();
        let ends: Vec<_> = arms
            .iter()
            .zip(&directions)
            .map(|((_, len), direction)| from_here(middle, *len, *direction))
            .collect();
        let mut star: Vec<Place> = ends.iter().map(|(place, _)| *place).collect();
        if backwards {
            star.reverse();
        }
        let region = polygon(&[&star]);
        let (_, centre) = from_here(middle, 0.0, 0.0);
        prop_assert!(is_in(middle, &region));
        for (distance, between) in places {
            for (arm, (_, end)) in ends.iter().enumerate() {
                let next = (arm + 1) % ends.len();
                let wide = (directions[next] - directions[arm]).rem_euclid(360.0);
                let (place, vector) = from_here(middle, distance, directions[arm] + between * wide);
                let next = ends[next].1;
                let (here, there) = (volume([*end, next, vector]), volume([*end, next, centre]));
                if here.abs() > 1e-9 && wide < 175.0 && between > 0.01 && between < 0.99 {
                    let inside = (here > 0.0) == (there > 0.0);
                    prop_assert_eq!(is_in(place, &region), inside, "{:?} in {}", place, region);
                }
            }
        }
    }

    #[test]
    fn no_text_panics(
        text in r#"[\[\]{}",:0-9.eE -]{0,40}|.{0,20}"#,
        kind in prop::sample::select(vec!["Point", "Polygon", "MultiPolygon", "AeroCircle", "Feature"]),
        poles in prop::collection::vec((prop::sample::select(vec![-180, -90, 0, 90, 180]), prop::sample::select(vec![-90, 0, 90])), 3..7),
    ) {
        let _ = validate(text.as_bytes());
        let text = format!(r#"{{"type":"{kind}","coordinates":{text}}}"#);
        let _ = contains(text.as_bytes(), point((0.0, 90.0)).as_bytes());
        let poles: Vec<Place> = poles.into_iter().map(|(x, y)| (x.into(), y.into())).collect();
        let _ = contains(polygon(&[&poles]).as_bytes(), point((180.0, 0.0)).as_bytes());
    }
}
