//! Reading big-endian fields off the front of a slice.

/// The unread rest of some bytes. Every read is checked: `None` means that the bytes end too early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnreadBytes<'a>(pub(crate) &'a [u8]);

impl<'a> UnreadBytes<'a> {
    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// The bytes behind a length of one byte.
    pub(crate) fn short(&mut self) -> Option<&'a [u8]> {
        let len = self.u8()?;
        self.take(len.into())
    }

    /// The bytes behind a length of four bytes.
    pub(crate) fn long(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    /// How many bytes are left.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// True if nothing is left.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes `value` over the bytes at `at`, which must be there.
pub(crate) fn patch(out: &mut [u8], at: usize, value: &[u8]) {
    if let Some(slot) = out.get_mut(at..at + value.len()) {
        slot.copy_from_slice(value);
    }
}
