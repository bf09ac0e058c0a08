//! Undoing a single flipped bit: where a checksum does not hold, the one flip under which it does is found by trial.

/// The result of `accept` for the bytes before one of their bits was flipped. `None`: no single flip explains them.
/// Costs up to `8 * N` calls.
pub(crate) fn before_one_flip<const N: usize, T>(
    bytes: &[u8; N],
    accept: impl Fn(&[u8; N]) -> Option<T>,
) -> Option<T> {
    let mut trial = *bytes;
    (0..N * 8).find_map(|bit| {
        let mask = 1u8 << (bit % 8);
        *trial.get_mut(bit / 8)? ^= mask;
        let accepted = accept(&trial);
        *trial.get_mut(bit / 8)? ^= mask;
        accepted
    })
}

#[cfg(test)]
mod tests {
    use super::before_one_flip;

    #[test]
    fn every_single_flip_is_undone_and_no_double_one() {
        let whole = [7u8, 0, 255, 18];
        let accept = |bytes: &[u8; 4]| (*bytes == whole).then_some(*bytes);
        for bit in 0..32 {
            let mut flipped = whole;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(before_one_flip(&flipped, accept), Some(whole), "bit {bit}");
            flipped[(bit + 9) % 32 / 8] ^= 1 << ((bit + 9) % 8);
            assert_eq!(
                before_one_flip(&flipped, accept),
                None,
                "bits {bit} and {}",
                bit + 9
            );
        }
    }
}
