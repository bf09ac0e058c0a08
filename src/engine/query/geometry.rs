//! Entries of geometries.

use std::ops::Bound;

use crate::geo::{Geometry, MatchingCells};
use crate::index::{
    AskedGeometry, EntryRange, EntryRanges, EntrySelection, GeometryKey, end_of_prefix,
    geometry_key,
};

/// The entries behind `key` with a next component that may match a geometry.
pub(super) fn matching(key: &[u8], component: usize, geometry: Geometry) -> EntrySelection {
    let form = |kind, cell| [key, &geometry_key(kind, cell)].concat();
    let ranges = match geometry.matching_cells() {
        MatchingCells::Points(cells) => cells
            .into_iter()
            .map(|(first, last)| EntryRange {
                start: Bound::Included(form(GeometryKey::Point, first).into()),
                end: end_of_prefix(&form(GeometryKey::Point, last)),
            })
            .collect(),
        MatchingCells::Regions(cells) => cells
            .into_iter()
            .map(|cell| EntryRange::with_prefix(&form(GeometryKey::Region, cell)))
            .collect(),
    };
    EntrySelection {
        ranges: EntryRanges::new(ranges),
        geometry: Some(AskedGeometry {
            component,
            geometry,
        }),
    }
}
