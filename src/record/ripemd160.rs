//! RIPEMD-160 of several short keys at a time.
//!
//! One digest is a chain of 80 steps (two chains side by side), each of which waits for the one
//! before: a processor that could do four operations at once does one or two. Here every operation
//! is done on [`LANES`] keys, as arrays that the compiler turns into vectors.

/// Keys that are hashed together.
pub(super) const LANES: usize = 8;

/// The longest message in bytes that is hashed here: one block less its end mark and the length.
pub(super) const MESSAGE_BYTES_MAX: usize = BLOCK_BYTES - 9;

/// The length of a digest in bytes.
const DIGEST_BYTES: usize = 20;

const BLOCK_BYTES: usize = 64;
const BLOCK_WORDS: usize = BLOCK_BYTES / 4;

/// One word of each of the messages.
type Lanes = [u32; LANES];

/// Up to [`LANES`] messages of one block each, word by word.
#[derive(Debug)]
pub(super) struct Messages {
    words: [Lanes; BLOCK_WORDS],
    count: usize,
}

impl Messages {
    pub(super) const fn new() -> Self {
        Self {
            words: [[0; LANES]; BLOCK_WORDS],
            count: 0,
        }
    }

    /// Adds a message that is the concatenation of these parts. Returns false, and adds nothing, if
    /// it is longer than [`MESSAGE_BYTES_MAX`] or there are [`LANES`] already.
    pub(super) fn push(&mut self, parts: [&[u8]; 3]) -> bool {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > MESSAGE_BYTES_MAX || self.count == LANES {
            return false;
        }
        let mut block = [0; BLOCK_BYTES];
        let mut rest = block.as_mut_slice();
        for part in parts {
            let Some((target, behind)) = rest.split_at_mut_checked(part.len()) else {
                return false;
            };
            target.copy_from_slice(part);
            rest = behind;
        }
        if let Some(end) = rest.first_mut() {
            *end = 0x80;
        }
        if let Some(length) = block.last_chunk_mut::<8>() {
            *length = (8 * bytes as u64).to_le_bytes();
        }
        let (words, _) = block.as_chunks::<4>();
        for (lanes, word) in self.words.iter_mut().zip(words) {
            if let Some(lane) = lanes.get_mut(self.count) {
                *lane = u32::from_le_bytes(*word);
            }
        }
        self.count += 1;
        true
    }

    /// The digests in the order of the messages; those beyond the last message mean nothing.
    pub(super) fn digests(&self) -> [[u8; DIGEST_BYTES]; LANES] {
        let [a, b, c, d, e] = compress(&self.words);
        let mut digests = [[0; DIGEST_BYTES]; LANES];
        for (words, at) in [a, b, c, d, e].iter().zip((0..).step_by(4)) {
            for (word, digest) in words.iter().zip(&mut digests) {
                if let Some(target) = digest.get_mut(at..at + 4) {
                    target.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
        digests
    }
}

const INITIAL: [u32; 5] = [
    0x6745_2301,
    0xefcd_ab89,
    0x98ba_dcfe,
    0x1032_5476,
    0xc3d2_e1f0,
];

/// The state after one block, from the initial one. The loop has no branch and no step that depends
/// on another lane, so the compiler turns it into one pass over vectors.
#[expect(
    clippy::indexing_slicing,
    reason = "hot; lanes and words are constants below the lengths of the arrays"
)]
fn compress(words: &[Lanes; BLOCK_WORDS]) -> [Lanes; 5] {
    let mut state = [[0; LANES]; 5];
    for lane in 0..LANES {
        let [a, b, c, d, e] = compress_one(|word| words[word][lane]);
        state[0][lane] = a;
        state[1][lane] = b;
        state[2][lane] = c;
        state[3][lane] = d;
        state[4][lane] = e;
    }
    state
}

/// The 16 steps of a round in both lines, one after the other: neither waits for the other, so they
/// overlap. Of each: the word that it takes, and by how many bits it turns the sum.
macro_rules! round {
    (
        $word:ident, $left:ident, $right:ident, $mix_left:ident $constant_left:literal, $mix_right:ident $constant_right:literal,
        [$($word_left:literal $turn_left:literal, $word_right:literal $turn_right:literal;)*]
    ) => {
        $(
            $left = step($left, $mix_left, $word($word_left), $constant_left, $turn_left);
            $right = step($right, $mix_right, $word($word_right), $constant_right, $turn_right);
        )*
    };
}

/// Returns the state after one block; `word` gives its words.
#[inline(always)]
fn compress_one(word: impl Fn(usize) -> u32) -> [u32; 5] {
    let (mut left, mut right) = (INITIAL, INITIAL);
    round!(word, left, right, parity 0, last_unless 0x50a2_8be6, [
        0 11, 5 8; 1 14, 14 9; 2 15, 7 9; 3 12, 0 11;
        4 5, 9 13; 5 8, 2 15; 6 7, 11 15; 7 9, 4 5;
        8 11, 13 7; 9 13, 6 7; 10 14, 15 8; 11 15, 8 11;
        12 6, 1 14; 13 7, 10 14; 14 9, 3 12; 15 8, 12 6;
    ]);
    round!(word, left, right, choose 0x5a82_7999, choose_by_last 0x5c4d_d124, [
        7 7, 6 9; 4 6, 11 13; 13 8, 3 15; 1 13, 7 7;
        10 11, 0 12; 6 9, 13 8; 15 7, 5 9; 3 15, 10 11;
        12 7, 14 7; 0 12, 15 7; 9 15, 8 12; 5 9, 12 7;
        2 11, 4 6; 14 7, 9 15; 11 13, 1 13; 8 12, 2 11;
    ]);
    round!(word, left, right, unless 0x6ed9_eba1, unless 0x6d70_3ef3, [
        3 11, 15 9; 10 13, 5 7; 14 6, 1 15; 4 7, 3 11;
        9 14, 7 8; 15 9, 14 6; 8 13, 6 6; 1 15, 9 14;
        2 14, 11 12; 7 8, 8 13; 0 13, 12 5; 6 6, 2 14;
        13 5, 10 13; 11 12, 0 13; 5 7, 4 7; 12 5, 13 5;
    ]);
    round!(word, left, right, choose_by_last 0x8f1b_bcdc, choose 0x7a6d_76e9, [
        1 11, 8 15; 9 12, 6 5; 11 14, 4 8; 10 15, 1 11;
        0 14, 3 14; 8 15, 11 14; 12 9, 15 6; 4 8, 0 14;
        13 9, 5 6; 3 14, 12 9; 7 5, 2 12; 15 6, 13 9;
        14 8, 9 12; 5 6, 7 5; 6 5, 10 15; 2 12, 14 8;
    ]);
    round!(word, left, right, last_unless 0xa953_fd4e, parity 0, [
        4 9, 12 8; 0 15, 15 5; 5 5, 10 12; 9 11, 4 9;
        7 6, 1 12; 12 8, 5 5; 2 13, 8 14; 10 12, 7 6;
        14 5, 6 8; 1 12, 2 13; 3 13, 13 6; 8 14, 14 5;
        11 11, 0 15; 6 8, 3 13; 15 5, 9 11; 13 6, 11 11;
    ]);
    let [a, b, c, d, e] = INITIAL;
    let ([la, lb, lc, ld, le], [ra, rb, rc, rd, re]) = (left, right);
    [
        b.wrapping_add(lc).wrapping_add(rd),
        c.wrapping_add(ld).wrapping_add(re),
        d.wrapping_add(le).wrapping_add(ra),
        e.wrapping_add(la).wrapping_add(rb),
        a.wrapping_add(lb).wrapping_add(rc),
    ]
}

#[inline(always)]
fn step(
    [a, b, c, d, e]: [u32; 5],
    mix: impl Fn(u32, u32, u32) -> u32,
    word: u32,
    constant: u32,
    turn: u32,
) -> [u32; 5] {
    let sum = a
        .wrapping_add(mix(b, c, d))
        .wrapping_add(word)
        .wrapping_add(constant);
    let turned = sum.rotate_left(turn).wrapping_add(e);
    [e, turned, b, c.rotate_left(10), d]
}

const fn parity(x: u32, y: u32, z: u32) -> u32 {
    x ^ y ^ z
}

const fn choose(x: u32, y: u32, z: u32) -> u32 {
    z ^ (x & (y ^ z))
}

const fn unless(x: u32, y: u32, z: u32) -> u32 {
    (x | !y) ^ z
}

const fn choose_by_last(x: u32, y: u32, z: u32) -> u32 {
    y ^ (z & (x ^ y))
}

const fn last_unless(x: u32, y: u32, z: u32) -> u32 {
    x ^ (y | !z)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ripemd::{Digest as _, Ripemd160};

    proptest! {
        #[test]
        fn digests_are_those_of_the_keys_one_by_one(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..=MESSAGE_BYTES_MAX), 0..=LANES),
            cut in 0..20_usize,
        ) {
            let mut lanes = Messages::new();
            for message in &messages {
                let (front, back) = message.split_at(cut.min(message.len()));
                prop_assert!(lanes.push([front, &[], back]));
            }
            for (message, digest) in messages.iter().zip(lanes.digests()) {
                let expected: [u8; DIGEST_BYTES] = Ripemd160::digest(message).into();
                prop_assert_eq!(digest, expected, "{:x?}", message);
            }
        }
    }

    #[test]
    fn messages_beyond_a_block_or_beyond_the_lanes_are_not_taken() {
        let mut lanes = Messages::new();
        assert!(!lanes.push([&[1; MESSAGE_BYTES_MAX], &[1], &[]]));
        for lane in 0..LANES {
            assert!(lanes.push([&[1; MESSAGE_BYTES_MAX - 1], &[lane as u8], &[]]));
        }
        assert!(!lanes.push([&[], &[], &[]]));
    }
}
