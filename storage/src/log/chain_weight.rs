//! How deltas change the price of emptying a block, and the bytes it wins.

use crate::image::ChainPart;
use crate::log::Log;

impl Log {
    /// Counts the newest delta of a chain in what emptying blocks costs and wins.
    pub(crate) fn chain_grew(&self, parts: &[ChainPart]) {
        self.weigh(parts, 1);
    }

    /// Takes a chain out of what emptying blocks costs and wins, beginning with its newest delta.
    pub(crate) fn chain_ended(&self, parts: &[ChainPart]) {
        for count in (2..=parts.len()).rev() {
            self.weigh(parts.get(..count).unwrap_or_default(), -1);
        }
    }

    /// Weighs the last delta of a chain. Emptying its block writes the record whole, once for all
    /// its deltas there, so the first of them counts. Emptying the block of the whole record wins
    /// the delta.
    fn weigh(&self, parts: &[ChainPart], sign: i64) {
        let [whole, between @ .., delta] = parts else {
            return;
        };
        if let Some(block) = self.block_of(whole.location) {
            block.weigh(0, sign * i64::from(delta.units));
        }
        let id = self.block_id_of(delta.location);
        let mut others = between.iter().rev().chain([whole]);
        if others.all(|part| !id.holds(part.location))
            && let Some(block) = self.block(id)
        {
            block.weigh(sign * i64::from(whole.units), 0);
        }
    }
}
