//! How many shards help the record that is judged.

use spikelet::shard::arithmetic::{SHARDS_MAX, power_of_two};

use super::findings::{relieves, served};
use super::{GOODPUT_MIN, Headline, LoadRows, WORTH_IT, arrow};
use crate::contention::{BUSY_KNEE, ReportRow, RowLayout};
use crate::report::{count, decimal, percent, short};
use crate::verdict::Word;

/// The capacity of the advised shards exceeds the rate by this factor.
const HEADROOM: f64 = 4.0 / 3.0;

impl<'r> LoadRows<'r> {
    /// Returns the writes a second that a record serves: one a hold, or the measured rate of an
    /// overloaded one.
    pub(super) fn capacity(&self) -> Option<f64> {
        let row = self.row;
        let is_full = served(row) < GOODPUT_MIN && self.run.settings.hot_keys == 1;
        let seen = is_full.then(|| row.goodput_per_s / f64::from(self.row.shards.live_shards()));
        let by_hold = row.hold_us.map(|hold_us| 1e6 / hold_us);
        by_hold.or(seen).filter(|capacity| *capacity > 0.0)
    }

    /// Returns the fewest shards with a capacity above the rate of the hottest key by a third.
    fn needed(&self) -> Option<u64> {
        let rate = self.row.rate? * self.hottest();
        Some(power_of_two(
            (rate * HEADROOM / self.capacity()?).ceil() as u64
        ))
    }

    /// Returns a finding about the load that begins with these words, and goes on with what helps.
    pub(super) fn with_remedy(&self, word: Word, begins: &str) -> Headline {
        let found = |helps: String| Headline::new(word, format!("{begins}{helps}")).on(self);
        let advised = |shards: u32, are, after, helps| Headline {
            shards: Some(shards),
            shards_are: Some(are),
            after,
            ..found(helps)
        };
        let capacity = short(self.capacity().unwrap_or(0.0));
        let computed = |shards: u64, after, rest: &str| {
            let helps = format!(
                " Hash-shard it by {shards} (computed from {capacity} writes/s a record{rest}); a read of all of it costs {shards} gets.{}",
                self.by_time()
            );
            advised(shards as u32, "computed", after, helps)
        };
        let is_measured = |shards: u64| self.clean().any(|(_, made, _)| u64::from(made) == shards);
        match (self.enough(), self.needed()) {
            // A computed number yields to a measured one, unless it is smaller and was not
            // measured.
            (Some((place, made, _)), Some(fewer))
                if fewer > 1 && fewer < made.into() && !is_measured(fewer) =>
            {
                let rest = format!("; of those measured, {made} is the fewest that passes");
                computed(fewer, Some(place), &rest)
            }
            (Some((place, made, calm)), _) => {
                let helps = format!(
                    " Hash-shard it by {made} (measured): {}; a read of all of it costs {made} gets.{}",
                    self.gain(calm),
                    self.by_time()
                );
                advised(made, "measured", Some(place), helps)
            }
            (None, Some(shards)) if shards > SHARDS_MAX => found(format!(
                " {} shards would be needed (computed from {capacity} writes/s a record), and {} are possible: divide the key \
                 first.",
                count(shards),
                count(SHARDS_MAX)
            )),
            (None, Some(shards)) if shards > 1 => {
                let rest = match self.clean().last() {
                    Some((_, most, row)) if served(row) < GOODPUT_MIN => format!(
                        "; {most} shards are not enough: {} of the writes are served",
                        percent(served(row), 0)
                    ),
                    Some((_, most, row)) if row.key_busy_share >= BUSY_KNEE => format!(
                        "; {most} shards are not enough: {} are still refused",
                        percent(row.key_busy_share, 1)
                    ),
                    _ => ", not measured".to_owned(),
                };
                computed(shards, None, &rest)
            }
            _ => {
                let most = self.hashed().map(|(_, made, _)| made).max();
                let refused = self.clean().last().filter(|(_, _, row)| row.key_busy > 0);
                let still = refused.map_or_else(String::new, |(_, most, row)| {
                    let still = percent(row.key_busy_share, 1);
                    format!(" {most} shards are not enough: {still} are still refused.")
                });
                let most = most.unwrap_or(1).min(SHARDS_MAX as u32 / 4);
                let more = [2, 4].map(|factor| (most * factor).to_string()).join(",");
                found(format!(
                    "{still} Measure more shards (--shards 1,{more}).{}",
                    self.by_time()
                ))
            }
        }
    }

    /// Writes what these shards bring.
    fn gain(&self, calm: &ReportRow) -> String {
        let row = self.row;
        let p99 = format!("p99 {}", arrow(row.p99_us, calm.p99_us));
        if row.rate.is_none() {
            let (was, is) = (row.goodput_per_s, calm.goodput_per_s);
            return format!("{} -> {} writes/s, {p99}", decimal(was, 0), decimal(is, 0));
        }
        format!("{}, {p99}", percent(calm.key_busy_share, 1))
    }

    /// Returns the fewest measured shards that pass, and more while that halves p99.
    fn enough(&self) -> Option<(usize, u32, &'r ReportRow)> {
        let row = self.row;
        let mut passing = self.clean().filter(|(_, _, other)| {
            other.key_busy_share < BUSY_KNEE && served(other) >= GOODPUT_MIN && relieves(row, other)
        });
        let mut enough = passing.next()?;
        for more in passing {
            if more.2.p99_us > enough.2.p99_us * WORTH_IT {
                break;
            }
            enough = more;
        }
        Some(enough)
    }

    /// Reports the rows of shards by time, if they were measured.
    fn by_time(&self) -> String {
        let timed = |alone: bool| {
            let rows = self.others.iter().map(|(_, row)| *row);
            rows.filter(move |row| {
                let is_timed = matches!(row.shards, RowLayout::Timed(..));
                is_timed && row.shards.is_time_alone() == alone
            })
        };
        let words = |row: &ReportRow| format!("{}: {}", row.shards, percent(row.key_busy_share, 1));
        let refused: Vec<String> = timed(true)
            .filter(|row| row.key_busy_share >= BUSY_KNEE)
            .map(words)
            .collect();
        let calm: Vec<String> = timed(false)
            .filter(|row| row.key_busy_share < BUSY_KNEE)
            .map(words)
            .collect();
        let mut sentence = String::new();
        if !refused.is_empty() {
            sentence += &format!(" Time shards alone do not help ({}).", refused.join(", "));
        }
        if !calm.is_empty() {
            sentence += &format!(" Time with hash shards does ({}).", calm.join(", "));
        }
        sentence
    }
}
