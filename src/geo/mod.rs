//! GeoJSON: whether a text is a geometry that can be stored, and whether a point lies in a region.
//!
//! As in Aerospike, a geometry is a `Point`, a `Polygon`, a `MultiPolygon`, or an `AeroCircle` (a centre and a radius in
//! metres), bare or inside a `Feature`. Sides of polygons are great circles on a sphere. Which side of a ring is its
//! inside does not depend on the order of its points: it is the smaller one.
//!
//! * `json`: from text to geometry. `sphere`: points and rings on the unit sphere. `region`: polygons and circles.
//!
//! Takes bytes and never panics, whatever they are. Knows nothing of values or records.

mod json;
mod region;
mod sphere;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::region::Region;
use self::sphere::Point;
use crate::Error;

/// Why a text is not a geometry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct GeoError(Cow<'static, str>);

impl GeoError {
    fn new(why: impl Into<Cow<'static, str>>) -> Self {
        Self(why.into())
    }
}

impl From<GeoError> for Error {
    fn from(GeoError(why): GeoError) -> Self {
        Self::GeoJson(why)
    }
}

/// A geometry, read once so that it can be compared many times.
#[derive(Clone, Debug)]
pub(crate) enum Geometry {
    Point(Point),
    Region(Region),
}

impl Geometry {
    /// The geometry that a text describes. O(bytes).
    pub(crate) fn parse(text: &[u8]) -> Result<Self, GeoError> {
        json::parse(text)
    }

    /// Whether one of the two is a point and the other a region that contains it; two points or two regions never
    /// match. O(points of the region).
    pub(crate) fn matches(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Point(point), Self::Region(region))
            | (Self::Region(region), Self::Point(point)) => region.contains(*point),
            _ => false,
        }
    }
}

/// Fails unless the text is a geometry. For whole bins; texts inside lists and maps are not looked at. O(bytes).
pub(crate) fn validate(text: &[u8]) -> Result<(), GeoError> {
    Geometry::parse(text).map(drop)
}
