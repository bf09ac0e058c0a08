//! Regions of the sphere.

use super::sphere::{Point, Ring};

/// The radius of the sphere that circles are measured on. Aerospike's default.
const EARTH_RADIUS_M: f64 = 6_371_000.0;

/// What points can lie in.
#[derive(Clone, Debug)]
pub(crate) enum Region {
    Polygons(Vec<Polygon>),
    Circle(Circle),
}

/// A boundary and holes. What lies in an odd number of rings is inside.
#[derive(Clone, Debug)]
pub(crate) struct Polygon(pub(super) Vec<Ring>);

/// All points within a distance of a centre.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circle {
    centre: Point,
    /// The radius as seen from the centre of the earth.
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

impl Polygon {
    fn contains(&self, point: Point) -> bool {
        let rings = self.0.iter().filter(|ring| ring.contains(point));
        rings.count() % 2 == 1
    }
}
