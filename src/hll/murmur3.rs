//! The 128-bit MurmurHash3 for 64-bit machines, with seed 0: the hash of a sketch's elements.
//!
//! Written from Austin Appleby's description of the algorithm, which is in the public domain. Not
//! for keys chosen by an attacker: collisions are easy to construct.

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// Returns the two halves of the hash. O(bytes).
pub(super) fn murmur3(bytes: &[u8]) -> [u64; 2] {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let (blocks, tail) = bytes.as_chunks::<16>();
    for block in blocks {
        let [k1, k2] = halves(*block);
        h1 = (h1 ^ mix1(k1)).rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ mix2(k2)).rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let mut block = [0; 16];
    for (to, from) in block.iter_mut().zip(tail) {
        *to = *from;
    }
    let [k1, k2] = halves(block);
    h1 ^= mix1(k1) ^ bytes.len() as u64;
    h2 ^= mix2(k2) ^ bytes.len() as u64;

    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    [h1, h2]
}

fn halves(block: [u8; 16]) -> [u64; 2] {
    let block = u128::from_le_bytes(block);
    [block as u64, (block >> 64) as u64]
}

fn mix1(k1: u64) -> u64 {
    k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix2(k2: u64) -> u64 {
    k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut k: u64) -> u64 {
    k = (k ^ (k >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    k = (k ^ (k >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vectors_hold() {
        let table = [
            ("", [0, 0]),
            ("hello", [0xcbd8_a7b3_41bd_9b02, 0x5b1e_906a_48ae_1d19]),
            (
                "hello, world",
                [0x342f_ac62_3a5e_bc8e, 0x4cdc_bc07_9642_414d],
            ),
            (
                "19 Jan 2038 at 3:14:07 AM",
                [0xb89e_5988_b737_affc, 0x664f_c295_0231_b2cb],
            ),
            (
                "The quick brown fox jumps over the lazy dog",
                [0xe34b_bc7b_bc07_1b6c, 0x7a43_3ca9_c49a_9347],
            ),
            (
                "The quick brown fox jumps over the lazy dog.",
                [0xcd99_481f_9ee9_02c9, 0x695d_a1a3_8987_b6e7],
            ),
        ];
        for (text, hash) in table {
            assert_eq!(murmur3(text.as_bytes()), hash, "{text}");
        }
    }
}
