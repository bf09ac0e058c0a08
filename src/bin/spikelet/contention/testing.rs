//! Cases for tests.

use std::time::Duration;

use super::case::{Arrivals, Case, Hold, Settings, Spread, Write};
use super::layout::RowLayout;
use super::row::ReportRow;

/// Tests change figures of measured rows.
impl std::ops::DerefMut for ReportRow {
    fn deref_mut(&mut self) -> &mut super::measure::Figures {
        &mut self.figures
    }
}

/// Returns a row that is changed.
pub(crate) fn changed(mut row: ReportRow, change: impl FnOnce(&mut ReportRow)) -> ReportRow {
    change(&mut row);
    row
}

/// Returns the settings of a virtual run: limit 20, hold 8 ms.
pub(crate) fn settings() -> Settings {
    Settings {
        is_virtual: true,
        write: Write::Increment,
        limit: 20,
        hold: Hold {
            mean: Duration::from_millis(8),
            spread: Spread::Fixed,
        },
        payload: 0,
        elements: 0,
        hot_keys: 1,
        zipf: 0.0,
        duration: Duration::from_secs(60),
        warm_up: Duration::ZERO,
        seed: 1,
        retries: 0,
        pause: Some(Duration::from_micros(100)),
        activate_at: None,
        dir: None,
        cluster: None,
    }
}

/// Returns a case of an open loop.
pub(crate) fn open(rate: f64, shards: u32, change: impl FnOnce(&mut Settings)) -> Case {
    let mut settings = settings();
    change(&mut settings);
    settings
        .case(Arrivals::Open { rate }, RowLayout::Hashed(shards))
        .unwrap()
}

/// Returns a case of a closed loop.
pub(crate) fn closed(writers: usize, shards: u32, change: impl FnOnce(&mut Settings)) -> Case {
    let mut settings = settings();
    change(&mut settings);
    settings
        .case(Arrivals::Closed { writers }, RowLayout::Hashed(shards))
        .unwrap()
}
