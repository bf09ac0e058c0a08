//! GeoJSON: validates geometries, and tests whether a region contains a point.
//!
//! As in Aerospike, a geometry is a `Point`, a `Polygon`, a `MultiPolygon`, or an `AeroCircle` (a
//! centre and a radius in metres), bare or inside a `Feature`. Sides of polygons are great circles
//! on a sphere. The inside of a ring is its smaller side, in whichever order its points come.
//!
//! * `json`: from text to geometry. `sphere`: points and rings on the unit sphere. `region`:
//!   polygons and circles.
//! * `cells`: numbers by which indexes find geometries.
//!
//! Takes any bytes and never panics. Must not import values or records.

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

/// The reason why a text is not a geometry.
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

/// A geometry, parsed once for many comparisons.
#[derive(Clone, Debug)]
pub(crate) enum Geometry {
    Point(Point),
    Region(Region),
}

impl Geometry {
    /// Parses a geometry. O(bytes).
    pub(crate) fn parse(text: &[u8]) -> Result<Self, GeoError> {
        json::parse(text)
    }

    /// Returns whether one of the two is a point and the other a region that contains it. Two
    /// points or two regions never match. O(points of the region).
    pub(crate) fn matches(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Point(point), Self::Region(region))
            | (Self::Region(region), Self::Point(point)) => region.contains(*point),
            _ => false,
        }
    }

    /// Returns the cells by which an index finds the geometry.
    pub(crate) fn cells(&self) -> GeometryCells {
        match self {
            Self::Point(point) => GeometryCells::Point(cells::of_point(*point)),
            Self::Region(region) => {
                GeometryCells::Region(cells::covering(region, STORED_CELLS_MAX))
            }
        }
    }

    /// Returns the cells under which an index lists the geometries that may match this one.
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

/// The most cells that an index stores for a region.
const STORED_CELLS_MAX: usize = 16;
/// The most cells that a query for a region searches.
const ASKED_CELLS_MAX: usize = 48;

/// The cells of a geometry, sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GeometryCells {
    Point(u64),
    Region(Vec<u64>),
}

/// Cells of geometries that may match another one, sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MatchingCells {
    /// Points in these ranges of cells, both ends included.
    Points(Vec<(u64, u64)>),
    /// Regions stored under one of these cells.
    Regions(Vec<u64>),
}

/// Fails unless the text is a geometry. For whole bins; texts inside lists and maps are stored
/// unchecked. O(bytes).
pub(crate) fn validate(text: &[u8]) -> Result<(), GeoError> {
    Geometry::parse(text).map(drop)
}
