//! Seeded chance: the same seed gives the same power failure.

/// Seeded chance (the SplitMix64 sequence).
#[derive(Clone)]
pub(super) struct Coin {
    state: u64,
    /// How many of 8 tosses come out, 0 to 8: some seeds keep all or nothing.
    odds: u64,
}

impl Coin {
    pub(super) fn new(seed: u64) -> Self {
        let mut coin = Self {
            state: seed,
            odds: 0,
        };
        coin.odds = coin.below(9);
        coin
    }

    pub(super) fn fair(seed: u64) -> Self {
        Self {
            state: seed,
            odds: 4,
        }
    }

    pub(super) fn toss(&mut self) -> bool {
        self.below(8) < self.odds
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }
}
