//! Parsing of GeoJSON text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::region::{Circle, Polygon, Region};
use super::sphere::{Point, Ring};
use super::{GeoError, Geometry};

/// Longitude and latitude, in degrees.
type Coordinates = [f64; 2];

/// The members of an object that matter.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    coordinates: Option<&'a RawValue>,
    #[serde(borrow)]
    geometry: Option<&'a RawValue>,
}

/// Parses a geometry.
pub(super) fn parse(text: &[u8]) -> Result<Geometry, GeoError> {
    let text = std::str::from_utf8(text).map_err(|_| GeoError::new("the text is not UTF-8"))?;
    let object = Object::parse(text)?;
    if object.kind != "Feature" {
        return object.geometry();
    }
    let geometry = object
        .geometry
        .ok_or_else(|| GeoError::new("a Feature without a geometry"))?;
    Object::parse(geometry.get())?.geometry()
}

impl<'a> Object<'a> {
    fn parse(text: &'a str) -> Result<Self, GeoError> {
        serde_json::from_str(text).map_err(|error| {
            GeoError::new(format!("not an object with a type that is text: {error}"))
        })
    }

    fn geometry(&self) -> Result<Geometry, GeoError> {
        Ok(match &*self.kind {
            "Point" => Geometry::Point(point(self.coordinates()?)?),
            "Polygon" => Geometry::Region(Region::Polygons(vec![polygon(self.coordinates()?)?])),
            "MultiPolygon" => {
                let polygons: Vec<Vec<Vec<Coordinates>>> = self.coordinates()?;
                let polygons: Result<_, _> = polygons.into_iter().map(polygon).collect();
                Geometry::Region(Region::Polygons(polygons?))
            }
            "AeroCircle" => {
                let (centre, radius_m) = self.coordinates()?;
                Geometry::Region(Region::Circle(Circle::new(point(centre)?, radius_m)))
            }
            other => {
                return Err(GeoError::new(format!(
                    "{other:?} cannot be stored: use Point, Polygon, MultiPolygon or AeroCircle"
                )));
            }
        })
    }

    fn coordinates<T: Deserialize<'a>>(&self) -> Result<T, GeoError> {
        let kind = &self.kind;
        let coordinates = self
            .coordinates
            .ok_or_else(|| GeoError::new(format!("a {kind} without coordinates")))?;
        serde_json::from_str(coordinates.get())
            .map_err(|error| GeoError::new(format!("not the coordinates of a {kind}: {error}")))
    }
}

fn point([longitude, latitude]: Coordinates) -> Result<Point, GeoError> {
    if !(-180.0..=180.0).contains(&longitude) || !(-90.0..=90.0).contains(&latitude) {
        return Err(GeoError::new(format!(
            "[{longitude}, {latitude}] is not a place: longitude comes first, -180 to 180, then latitude, -90 to 90"
        )));
    }
    Ok(Point::from_degrees(longitude, latitude))
}

fn polygon(rings: Vec<Vec<Coordinates>>) -> Result<Polygon, GeoError> {
    rings
        .into_iter()
        .map(ring)
        .collect::<Result<_, _>>()
        .map(Polygon)
}

/// Builds a ring: closed, with at least three different points. Adjacent duplicates count once.
fn ring(positions: Vec<Coordinates>) -> Result<Ring, GeoError> {
    let mut points: Vec<Point> = positions.into_iter().map(point).collect::<Result<_, _>>()?;
    points.dedup();
    if points.len() < 4 {
        return Err(GeoError::new(
            "a ring has fewer than four points, the first one repeated at the end",
        ));
    }
    let last = points.pop();
    if points.first() != last.as_ref() {
        return Err(GeoError::new(
            "a ring is not closed: repeat its first point at the end",
        ));
    }
    Ok(Ring::new(points))
}
