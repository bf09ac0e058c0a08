//! The versions that a record may have after a power failure.

/// A payload, or none: deleted, expired, truncated, or never written.
pub type Version = Option<Vec<u8>>;

/// The versions that a record may be found in after a power failure, oldest first; the last is what
/// readers see.
#[derive(Clone, Debug)]
pub struct History {
    versions: Vec<Version>,
    /// In how many of them it cannot be found any more, since a later one was synced.
    lost: usize,
    /// A truncation since may have outlived the versions that it did not concern.
    maybe_truncated: bool,
}

impl History {
    pub fn new(version: Version) -> Self {
        Self {
            versions: vec![version],
            lost: 0,
            maybe_truncated: false,
        }
    }

    pub fn now(&self) -> &Version {
        self.versions.last().unwrap()
    }

    /// Adds a version; returns its place.
    pub fn push(&mut self, version: Version) -> usize {
        self.versions.push(version);
        self.versions.len() - 1
    }

    pub fn truncated(&mut self) {
        self.maybe_truncated = true;
    }

    pub fn synced(&mut self) {
        self.lost = self.versions.len() - 1;
        self.maybe_truncated = false;
    }

    /// The newest version that `found` can be, by its place among all versions.
    pub fn place(&self, found: &Version) -> Option<usize> {
        let known = (self.lost..self.versions.len()).rev();
        let mut known = known.filter(|at| self.versions[*at] == *found);
        let truncated = (found.is_none() && self.maybe_truncated).then_some(self.lost);
        known.next().or(truncated)
    }

    /// Whether a truncation explains that there is nothing.
    pub fn may_be_truncated(&self, found: &Version) -> bool {
        found.is_none() && self.maybe_truncated
    }

    /// The writes that may be found, for a message.
    pub fn allowed(&self) -> Vec<Option<u64>> {
        self.versions[self.lost..].iter().map(write_of).collect()
    }
}

/// The number of the write that made a version.
pub fn write_of(version: &Version) -> Option<u64> {
    let number = |payload: &Vec<u8>| u64::from_le_bytes(payload[..8].try_into().unwrap());
    version.as_ref().map(number)
}
