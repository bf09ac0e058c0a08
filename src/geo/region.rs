//! Regions of the sphere.

use super::sphere::{Point, Ring};

/// The radius of the sphere that circles are measured on. Aerospike's default.
const EARTH_RADIUS_M: f64 = 6_371_000.0;

/// A region of the sphere.
#[derive(Clone, Debug)]
pub(crate) enum Region {
    Polygons(Vec<Polygon>),
    Circle(Circle),
}

/// The relation of a cell to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    Apart,
    Partial,
    Inside,
}

/// A boundary and its holes. A point is inside if an odd number of rings contains it.
#[derive(Clone, Debug)]
pub(crate) struct Polygon(pub(super) Vec<Ring>);

/// All points within a distance of a centre.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circle {
    centre: Point,
    /// The radius as an angle at the centre of the earth.
    radians: f64,
}

impl Circle {
    pub(super) fn new(centre: Point, radius_m: f64) -> Self {
        Self {
            centre,
            radians: radius_m / EARTH_RADIUS_M,
        }
    }
}

impl Region {
    pub(super) fn contains(&self, point: Point) -> bool {
        match self {
            Self::Polygons(polygons) => polygons.iter().any(|polygon| polygon.contains(point)),
            Self::Circle(circle) => circle.centre.angle_to(point) <= circle.radians,
        }
    }
}

impl Region {
    /// Returns the relation of the cap within an angle of a point to the region; `Partial` also if
    /// an exact answer would take too long.
    pub(super) fn overlap(&self, middle: Point, radians: f64) -> Overlap {
        let polygons = match self {
            Self::Circle(circle) => return circle.overlap(middle, radians),
            Self::Polygons(polygons) => polygons,
        };
        let mut overlap = Overlap::Apart;
        for polygon in polygons {
            match polygon.overlap(middle, radians) {
                Overlap::Apart => {}
                Overlap::Partial => overlap = Overlap::Partial,
                Overlap::Inside => return Overlap::Inside,
            }
        }
        overlap
    }
}

impl Circle {
    fn overlap(&self, middle: Point, radians: f64) -> Overlap {
        let angle = self.centre.angle_to(middle);
        if angle > self.radians + radians {
            Overlap::Apart
        } else if angle + radians <= self.radians {
            Overlap::Inside
        } else {
            Overlap::Partial
        }
    }
}

impl Polygon {
    fn overlap(&self, middle: Point, radians: f64) -> Overlap {
        if self.0.iter().any(|ring| ring.comes_within(middle, radians)) {
            Overlap::Partial
        } else if self.contains(middle) {
            Overlap::Inside
        } else {
            Overlap::Apart
        }
    }

    fn contains(&self, point: Point) -> bool {
        let rings = self.0.iter().filter(|ring| ring.contains(point));
        rings.count() % 2 == 1
    }
}
