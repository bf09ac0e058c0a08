//! GeoJSON: whether a text is a geometry that can be stored, and whether a point lies in a region.
//!
//! As in Aerospike, a geometry is a `Point`, a `Polygon`, a `MultiPolygon`, or an `AeroCircle` (a centre and a radius in
//! metres), bare or inside a `Feature`. Sides of polygons are great circles on a sphere. Which side of a ring is its
//! inside does not depend on the order of its points: it is the smaller one.
//!
//! * `json`: from text to geometry. `sphere`: points and rings on the unit sphere. `region`: polygons and circles.
//! * `cells`: numbers by which indexes find geometries.
//!
//! Takes bytes and never panics, whatever they are. Knows nothing of values or records.

mod cells;
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

    /// The cells by which an index finds it.
    pub(crate) fn cells(&self) -> GeometryCells {
        match self {
            Self::Point(point) => GeometryCells::Point(cells::of_point(*point)),
            Self::Region(region) => {
                GeometryCells::Region(cells::covering(region, STORED_CELLS_MAX))
            }
        }
    }

    /// Among which cells an index has those geometries that may match.
    pub(crate) fn matching_cells(&self) -> MatchingCells {
        match self {
            Self::Point(point) => MatchingCells::Regions(cells::around(*point)),
            Self::Region(region) => {
                let cells = cells::covering(region, ASKED_CELLS_MAX);
                MatchingCells::Points(cells.into_iter().map(cells::points_in).collect())
            }
        }
    }
}

/// The most cells of a region in an index.
const STORED_CELLS_MAX: usize = 16;
/// The most cells of a region that a query asks for.
const ASKED_CELLS_MAX: usize = 48;

/// The cells of a geometry, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GeometryCells {
    Point(u64),
    Region(Vec<u64>),
}

/// Cells of geometries that may match another one, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MatchingCells {
    /// Points in these ranges of cells, both ends included.
    Points(Vec<(u64, u64)>),
    /// Regions that have one of these.
    Regions(Vec<u64>),
}

/// Fails unless the text is a geometry. For whole bins; texts inside lists and maps are not looked at. O(bytes).
pub(crate) fn validate(text: &[u8]) -> Result<(), GeoError> {
    Geometry::parse(text).map(drop)
}
