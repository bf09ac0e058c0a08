//! Ranges of positions, as users give them: negative positions count from the end, ranges are clipped.

/// The part of a collection of `len` elements that begins at `start` and has at most `count` elements: first position
/// and number of elements.
///
/// A start before the beginning loses what lies before it; a start at or behind the end selects nothing.
pub(crate) fn clip(len: u32, start: i64, count: u64) -> (u32, u32) {
    let end = i64::from(len);
    let from_front = if start < 0 {
        start.saturating_add(end)
    } else {
        start
    };
    let (first, count) = if from_front < 0 {
        (0, count.saturating_sub(from_front.unsigned_abs()))
    } else {
        (from_front.unsigned_abs(), count)
    };
    let first = u32::try_from(first).map_or(len, |first| first.min(len));
    let count = u32::try_from(count).map_or(len - first, |count| count.min(len - first));
    (first, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clipped_as_in_5_6() {
        let all = u64::MAX;
        let table = [
            (3, -5, 4, (0, 2)),
            (3, -10, 5, (0, 0)),
            (3, 1, all, (1, 2)),
            (3, 0, 2, (0, 2)),
            (3, -1, all, (2, 1)),
            (3, -3, all, (0, 3)),
            (3, -3, 1, (0, 1)),
            (3, 3, all, (3, 0)),
            (3, 100, all, (3, 0)),
            (3, i64::MAX, all, (3, 0)),
            (3, i64::MIN, all, (0, 3)),
            (3, i64::MIN, 1 << 63, (0, 3)),
            (3, 2, 0, (2, 0)),
            (0, 0, all, (0, 0)),
            (0, -1, all, (0, 0)),
        ];
        for (len, start, count, selected) in table {
            assert_eq!(
                clip(len, start, count),
                selected,
                "{count} from {start} of {len}"
            );
        }
    }
}
