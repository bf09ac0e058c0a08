//! Sizing: known stores have known answers, its forms agree with each other, and its page is one that browsers show.
//!
//! The browser's part needs a Chromium (`browser`): without one it is passed over, unless `SPIKELET_BROWSER` says otherwise.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod browser;
mod golden;
mod known;
mod page;
mod program;
mod properties;

use std::path::Path;

use spikelet::sizing::{Options, SetSizing, Sizing, size};

/// Sizes what is at a path, which must be possible.
fn sized(path: &Path, options: &Options) -> Sizing {
    size(path, options, &mut |_, _| {}).unwrap()
}

/// A set by its name.
fn set<'s>(sizing: &'s Sizing, name: &str) -> &'s SetSizing {
    sizing.sets.iter().find(|set| set.set == name).unwrap()
}

/// Default options, changed.
fn options(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::default();
    change(&mut options);
    options
}
