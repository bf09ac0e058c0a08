//! Ranges of positions from arguments: negative positions count from the end, ranges are clipped.

/// Returns an index that counts from the front. It may be outside of `len` items.
pub(super) const fn from_front(len: u32, index: i64) -> i64 {
    if index < 0 {
        index.saturating_add(len as i64)
    } else {
        index
    }
}

/// Returns the position that `index` denotes among `len`; a negative index counts from the end.
pub(crate) fn resolve(len: u32, index: i64) -> Option<u32> {
    u32::try_from(from_front(len, index))
        .ok()
        .filter(|at| *at < len)
}

/// Returns the part of `len` items that begins at `start` and has at most `count` items: first
/// position and number of items.
///
/// A start before the beginning shortens the range; a start at or after the end selects nothing.
pub(crate) fn clip(len: u32, start: i64, count: u64) -> (u32, u32) {
    clip_absolute(len, from_front(len, start), count)
}

/// Like [`clip`] for a start of `base + start`, where nothing counts from the end.
pub(crate) fn clip_relative(len: u32, base: u32, start: i64, count: u64) -> (u32, u32) {
    clip_absolute(len, start.saturating_add(i64::from(base)), count)
}

fn clip_absolute(len: u32, start: i64, count: u64) -> (u32, u32) {
    let (first, count) = if start < 0 {
        (0, count.saturating_sub(start.unsigned_abs()))
    } else {
        (start.unsigned_abs(), count)
    };
    let first = u32::try_from(first).map_or(len, |first| first.min(len));
    let count = u32::try_from(count).map_or(len - first, |count| count.min(len - first));
    (first, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clipped_to_what_is_there() {
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

    #[test]
    fn relative_ranges_do_not_count_from_the_end() {
        // Six elements 0, 4, 5, 9, 11, 15: 5 is at position 2, and 3 belongs at 1.
        let all = u64::MAX;
        let table = [
            (2, 0, all, (2, 4)),
            (2, 1, all, (3, 3)),
            (2, -1, all, (1, 5)),
            (1, 0, all, (1, 5)),
            (1, 3, all, (4, 2)),
            (1, -3, all, (0, 6)),
            (2, 0, 2, (2, 2)),
            (2, -1, 2, (1, 2)),
            (1, 3, 7, (4, 2)),
            (1, -3, 2, (0, 0)),
            (1, -3, 3, (0, 1)),
            (6, i64::MAX, all, (6, 0)),
            (0, i64::MIN, all, (0, 6)),
        ];
        for (base, start, count, selected) in table {
            let clipped = clip_relative(6, base, start, count);
            assert_eq!(clipped, selected, "{count} from {start} of {base}");
        }
    }

    #[test]
    fn single_positions_must_exist() {
        let table = [
            (3, 0, Some(0)),
            (3, -1, Some(2)),
            (3, -3, Some(0)),
            (3, 3, None),
            (3, -4, None),
            (0, 0, None),
            (3, i64::MIN, None),
            (3, 1 << 32, None),
        ];
        for (len, index, at) in table {
            assert_eq!(resolve(len, index), at, "{index} of {len}");
        }
    }
}
