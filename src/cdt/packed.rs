//! Rows of numbers in 1, 2 or 4 bytes each, little-endian: the offsets and the ranks of an index.

/// Packed numbers, by their width in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Packed<'a> {
    One(&'a [u8]),
    Two(&'a [[u8; 2]]),
    Four(&'a [[u8; 4]]),
}

impl<'a> Packed<'a> {
    /// Takes all of `data` as numbers of a width; `None` if they do not fill it.
    pub(super) fn of(width: usize, data: &'a [u8]) -> Option<Self> {
        match width {
            1 => Some(Self::One(data)),
            2 => match data.as_chunks() {
                (numbers, []) => Some(Self::Two(numbers)),
                _ => None,
            },
            4 => match data.as_chunks() {
                (numbers, []) => Some(Self::Four(numbers)),
                _ => None,
            },
            _ => None,
        }
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
            Self::One(numbers) => numbers.get(at).map(|number| usize::from(*number)),
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
