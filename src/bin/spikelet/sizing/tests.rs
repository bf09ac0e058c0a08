//! Tests of whole sizings: known stores have known answers, and any records keep to some rules.

mod known;
mod limits;
mod properties;
mod verdicts;

use std::path::Path;

use super::{SetSizing, Sizing, SizingOptions, size};

/// Sizes the data at a path, which must be possible.
fn sized(path: &Path, options: &SizingOptions) -> Sizing {
    size(path, options, &mut |_, _| {}).unwrap()
}

/// Returns a set by its name.
fn set<'s>(sizing: &'s Sizing, name: &str) -> &'s SetSizing {
    sizing.sets.iter().find(|set| set.set == name).unwrap()
}

impl Default for SizingOptions {
    fn default() -> Self {
        Self {
            writes_per_s: Vec::new(),
            set: None,
            top: 10,
            max_record_bytes: None,
            sample: None,
            seed: 1,
        }
    }
}

/// Returns default options, changed.
fn options(change: impl FnOnce(&mut SizingOptions)) -> SizingOptions {
    let mut options = SizingOptions::default();
    change(&mut options);
    options
}
