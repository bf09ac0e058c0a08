//! Points and rings on the unit sphere.

use std::f64::consts::PI;
use std::iter::zip;

/// A point on the sphere, as a vector of length 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point(Vector);

/// A vector from the centre of the sphere.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Vector([f64; 3]);

/// The point from which rings are judged. Any point that is on no real border would do; this one is
/// in the sea.
const REFERENCE: Vector = Vector([
    0.309_421_010_899_252_45,
    -0.191_738_728_906_184_2,
    0.931_394_061_529_020_8,
]);

impl Vector {
    fn dot(self, Self([x, y, z]): Self) -> f64 {
        let Self([a, b, c]) = self;
        a * x + b * y + c * z
    }

    fn cross(self, Self([x, y, z]): Self) -> Self {
        let Self([a, b, c]) = self;
        Self([b * z - c * y, c * x - a * z, a * y - b * x])
    }

    fn plus(self, Self([x, y, z]): Self) -> Self {
        let Self([a, b, c]) = self;
        Self([a + x, b + y, c + z])
    }

    fn minus(self, Self([x, y, z]): Self) -> Self {
        let Self([a, b, c]) = self;
        Self([a - x, b - y, c - z])
    }

    fn len(self) -> f64 {
        self.dot(self).sqrt()
    }
}

impl Point {
    pub(super) fn from_degrees(longitude: f64, latitude: f64) -> Self {
        let (sin_longitude, cos_longitude) = longitude.to_radians().sin_cos();
        let (sin_latitude, cos_latitude) = latitude.to_radians().sin_cos();
        Self(Vector([
            cos_latitude * cos_longitude,
            cos_latitude * sin_longitude,
            sin_latitude,
        ]))
    }

    /// Returns the point in a direction from the centre of the sphere; the direction must not be
    /// the zero vector.
    pub(super) fn towards(direction: [f64; 3]) -> Self {
        let len = Vector(direction).len();
        Self(Vector(direction.map(|coordinate| coordinate / len)))
    }

    pub(super) const fn coordinates(self) -> [f64; 3] {
        let Self(Vector(coordinates)) = self;
        coordinates
    }

    /// Returns the angle between two points at the centre of the sphere, in radians; exact also for
    /// small angles.
    pub(super) fn angle_to(self, other: Self) -> f64 {
        let (Self(one), Self(other)) = (self, other);
        2.0 * one.minus(other).len().atan2(one.plus(other).len())
    }
}

/// A closed line of great circles, and the smaller of the two parts of the sphere on its sides.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    /// At least three; the last one connects to the first.
    points: Vec<Point>,
    contains_reference: bool,
}

impl Ring {
    pub(super) fn new(points: Vec<Point>) -> Self {
        let mut ring = Self {
            points,
            contains_reference: false,
        };
        ring.contains_reference = ring.reference_is_on_the_smaller_side();
        ring
    }

    /// Returns whether the ring contains a point. The line from the point to the reference crosses
    /// the ring an odd number of times unless both are on the same side. Points on the ring may
    /// fall on either side. O(points).
    pub(super) fn contains(&self, Point(point): Point) -> bool {
        let crossings = self.sides().filter(|side| crosses(point, *side)).count();
        (crossings % 2 == 1) != self.contains_reference
    }

    /// Returns whether a side passes within an angle of a point. O(points).
    pub(super) fn comes_within(&self, point: Point, radians: f64) -> bool {
        self.sides()
            .any(|side| angle_to_side(point, side) <= radians)
    }

    fn sides(&self) -> impl Iterator<Item = (Vector, Vector)> {
        let next = self.points.iter().cycle().skip(1);
        zip(&self.points, next).map(|(Point(from), Point(to))| (*from, *to))
    }

    /// Goes around the ring once and adds up the angle and the area swept by the line from the
    /// reference to the ring. The angle is a full turn if the ring separates the reference from the
    /// opposite point, else 0. The area is that of the side with the reference after a full turn,
    /// else of the side without it. The smaller side has less than half of the sphere.
    fn reference_is_on_the_smaller_side(&self) -> bool {
        let (mut turn, mut area) = (0.0_f64, 0.0_f64);
        for (from, to) in self.sides() {
            let volume = REFERENCE.dot(from.cross(to));
            let (near_from, near_to) = (REFERENCE.dot(from), REFERENCE.dot(to));
            let across = from.dot(to);
            turn += volume.atan2(across - near_from * near_to);
            area += 2.0 * volume.atan2(1.0 + near_from + near_to + across);
        }
        (turn.abs() > PI) == (area.abs() <= 2.0 * PI)
    }
}

/// Returns whether the line from `point` to the reference crosses a side. A line through a corner
/// that goes from inside to outside must cross exactly one of the two sides there: a corner on the
/// line counts as left of it.
fn crosses(point: Vector, (from, to): (Vector, Vector)) -> bool {
    let line = point.cross(REFERENCE);
    let from_is_left = line.dot(from) >= 0.0;
    if from_is_left == (line.dot(to) >= 0.0) {
        return false;
    }
    // The corners are on different sides of the line's great circle. The line itself crosses only
    // if its ends are on different sides of the side's great circle, in the right order: otherwise
    // the circles meet behind the sphere.
    let point_is_left = from.minus(point).cross(to.minus(point)).dot(point) >= 0.0;
    let reference_is_left = from.cross(to).dot(REFERENCE) >= 0.0;
    point_is_left != from_is_left && reference_is_left == from_is_left
}

/// Returns the angle between a point and the nearest point of a side.
fn angle_to_side(point: Point, (from, to): (Vector, Vector)) -> f64 {
    let normal = from.cross(to);
    let len = normal.len();
    // Opposite points have no unique great circle: the side may pass through any point.
    if len < SHORTEST_SIDE && from.dot(to) < 0.0 {
        return 0.0;
    }
    let Point(place) = point;
    let is_beside = normal.cross(from).dot(place) >= 0.0 && to.cross(normal).dot(place) >= 0.0;
    if is_beside && len >= SHORTEST_SIDE {
        return (place.dot(normal).abs() / len).min(1.0).asin();
    }
    let [to_start, to_end] = [from, to].map(|end| point.angle_to(Point(end)));
    to_start.min(to_end)
}

/// A side shorter than this, in radians, is a point: a fraction of a millimetre.
const SHORTEST_SIDE: f64 = 1e-11;
