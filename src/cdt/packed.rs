//! Rows of numbers in 1, 2 or 4 bytes each, little-endian: the offsets and the ranks of an index.

/// Packed numbers, by their width in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Packed<'a> {
    One(&'a [[u8; 1]]),
    Two(&'a [[u8; 2]]),
    Four(&'a [[u8; 4]]),
}

impl<'a> Packed<'a> {
    /// Takes all of `data` as numbers of a width; `None` if they do not fill it.
    pub(super) fn of(width: usize, data: &'a [u8]) -> Option<Self> {
        let packed = match width {
            1 => Self::One(data.as_chunks().0),
            2 => Self::Two(data.as_chunks().0),
            4 => Self::Four(data.as_chunks().0),
            _ => return None,
        };
        (packed.len() * width == data.len()).then_some(packed)
    }

    pub(super) const fn len(&self) -> usize {
        match self {
            Self::One(numbers) => numbers.len(),
            Self::Two(numbers) => numbers.len(),
            Self::Four(numbers) => numbers.len(),
        }
    }

    #[inline]
    pub(super) fn load(&self, at: usize) -> Option<usize> {
        match self {
            Self::One(numbers) => numbers.get(at).map(|[number]| usize::from(*number)),
            Self::Two(numbers) => numbers
                .get(at)
                .map(|number| usize::from(u16::from_le_bytes(*number))),
            Self::Four(numbers) => numbers
                .get(at)
                .map(|number| u32::from_le_bytes(*number) as usize),
        }
    }
}

/// Returns the least width that holds all numbers up to `greatest`.
pub(super) const fn width_of(greatest: usize) -> usize {
    match greatest {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

/// Appends a number of a width.
pub(super) fn write_number(number: usize, width: usize, out: &mut Vec<u8>) {
    match width {
        1 => out.push(number as u8),
        2 => out.extend_from_slice(&(number as u16).to_le_bytes()),
        _ => out.extend_from_slice(&(number as u32).to_le_bytes()),
    }
}
