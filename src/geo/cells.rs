//! Cells of the sphere, which give geometries an order: a cube around the sphere has six faces,
//! each divided into four, and so on.
//!
//! A cell's number is its face, then two bits a level, then a 1 and zeros, so all cells inside
//! another one form a range of numbers. A few cells, large and small, cover a region. Cells only
//! narrow a search: [`Geometry::matches`](super::Geometry::matches) decides whether a region
//! contains a point.

use std::collections::VecDeque;
use std::f64::consts::FRAC_PI_4;

use super::region::{Overlap, Region};
use super::sphere::Point;

/// The level of the cells of points: a few centimetres.
const LEAF_LEVEL: u32 = 30;
/// The finest level of the cells that cover a region: about half a metre. A query for a point looks
/// at each coarser level.
const REGION_LEVEL_MAX: u32 = 24;
/// Added to the size of a cell: far more than rounding errors, far less than the size of a leaf.
const ROUNDING_RADIANS: f64 = 1e-11;

/// A square of a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FaceCell {
    face: u64,
    level: u32,
    column: u64,
    row: u64,
}

impl FaceCell {
    fn of(point: Point, level: u32) -> Self {
        let vector = point.coordinates();
        let mut face = 0;
        for axis in 1..3 {
            if coordinate(vector, axis).abs() > coordinate(vector, face).abs() {
                face = axis;
            }
        }
        let depth = coordinate(vector, face);
        let along = |axis: usize| {
            let side = 1_u64 << level;
            let angle = (coordinate(vector, (face + axis) % 3) / depth.abs()).atan();
            let place = (angle / FRAC_PI_4).midpoint(1.0) * side as f64;
            (place as u64).min(side - 1)
        };
        let (column, row) = (along(1), along(2));
        Self {
            face: face as u64 + if depth < 0.0 { 3 } else { 0 },
            level,
            column,
            row,
        }
    }

    fn number(self) -> u64 {
        let interleaved = spread(self.column) << 1 | spread(self.row);
        let place = interleaved << (61 - 2 * self.level);
        self.face << 61 | place | 1 << (60 - 2 * self.level)
    }

    fn children(self) -> impl Iterator<Item = Self> {
        (0..4).map(move |quarter| Self {
            face: self.face,
            level: self.level + 1,
            column: self.column * 2 + quarter / 2,
            row: self.row * 2 + quarter % 2,
        })
    }

    /// Returns the middle, and the angle from there to the farthest point. That is a corner, since
    /// the sides are great circles.
    fn bounds(self) -> (Point, f64) {
        let at = |column: f64, row: f64| {
            let side = (1_u64 << self.level) as f64;
            let along = |place: f64| (FRAC_PI_4 * (2.0 * place / side - 1.0)).tan();
            let depth = if self.face < 3 { 1.0 } else { -1.0 };
            let face = [
                depth,
                along(self.column as f64 + column),
                along(self.row as f64 + row),
            ];
            let first = (3 - self.face % 3) as usize;
            let axis = |axis: usize| coordinate(face, (first + axis) % 3);
            Point::towards([axis(0), axis(1), axis(2)])
        };
        let middle = at(0.5, 0.5);
        let corners = [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)];
        let radius = corners
            .map(|(column, row)| middle.angle_to(at(column, row)))
            .into_iter()
            .fold(0.0, f64::max);
        (middle, radius + ROUNDING_RADIANS)
    }

    fn overlap(self, region: &Region) -> Overlap {
        let (middle, radius) = self.bounds();
        region.overlap(middle, radius)
    }
}

/// Returns the range of the numbers of all points in a cell.
pub(super) fn points_in(cell: u64) -> (u64, u64) {
    let below = (cell & cell.wrapping_neg()) - 1;
    (cell - below, cell + below)
}

/// Returns the cell of a point.
pub(super) fn of_point(point: Point) -> u64 {
    FaceCell::of(point, LEAF_LEVEL).number()
}

/// Returns all cells around a point that may cover part of a region.
pub(super) fn around(point: Point) -> Vec<u64> {
    let mut cells: Vec<u64> = (0..=REGION_LEVEL_MAX)
        .map(|level| FaceCell::of(point, level).number())
        .collect();
    cells.sort_unstable();
    cells
}

/// Returns at most `most` cells, sorted, that together cover a region; six always suffice.
pub(super) fn covering(region: &Region, most: usize) -> Vec<u64> {
    let faces = (0..6).map(|face| FaceCell {
        face,
        level: 0,
        column: 0,
        row: 0,
    });
    let mut done = Vec::new();
    let mut left = VecDeque::new();
    let sort = |cell: FaceCell, done: &mut Vec<u64>, left: &mut VecDeque<FaceCell>| match cell
        .overlap(region)
    {
        Overlap::Apart => {}
        Overlap::Inside => done.push(cell.number()),
        Overlap::Partial => left.push_back(cell),
    };
    faces.for_each(|face| sort(face, &mut done, &mut left));
    // Breadth first: the largest cells come first.
    while let Some(cell) = left.pop_front() {
        let (cells, behind) = (done.len(), left.len());
        if cell.level < REGION_LEVEL_MAX {
            cell.children()
                .for_each(|child| sort(child, &mut done, &mut left));
            if done.len() + left.len() <= most {
                continue;
            }
        }
        done.truncate(cells);
        left.truncate(behind);
        done.push(cell.number());
    }
    done.sort_unstable();
    done
}

fn coordinate(vector: [f64; 3], axis: usize) -> f64 {
    let [x, y, z] = vector;
    match axis {
        0 => x,
        1 => y,
        _ => z,
    }
}

/// Inserts a zero before each bit of a number.
fn spread(number: u64) -> u64 {
    let steps = [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ];
    steps.into_iter().fold(number, |number, (shift, mask)| {
        (number | number << shift) & mask
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_point_lies_in_its_cells(longitude in -180.0..=180.0_f64, latitude in -90.0..=90.0_f64, level in 0..=24_u32) {
            let point = Point::from_degrees(longitude, latitude);
            let cell = FaceCell::of(point, level);
            let (middle, radius) = cell.bounds();
            prop_assert!(middle.angle_to(point) <= radius, "{cell:?}");
            let (first, last) = points_in(cell.number());
            prop_assert!((first..=last).contains(&of_point(point)));
            prop_assert!(around(point).contains(&cell.number()));
            prop_assert_eq!(FaceCell::of(middle, level), cell);
        }
    }

    #[test]
    fn cells_of_a_level_are_different_numbers() {
        let mut numbers = Vec::new();
        let mut cells: Vec<FaceCell> = (0..6)
            .map(|face| FaceCell {
                face,
                level: 0,
                column: 0,
                row: 0,
            })
            .collect();
        for _ in 0..3 {
            cells = cells.into_iter().flat_map(FaceCell::children).collect();
            numbers.extend(cells.iter().map(|cell| cell.number()));
        }
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }
}
