//! The keys of companions, and of other records that belong to a root.

use crate::Key;

/// How the keys of a collection's companions are formed from the root's key K.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum KeyForm {
    /// `K:i`: keys of the record's first sharded collection.
    #[default]
    Plain,
    /// `K:BIN:i`: keys of every further one.
    ByBin,
    /// One of the two, and from this shard on `K:~shard:i` or `K:BIN:~shard:i` (`~int-shard` where
    /// K is an integer): another record had the key of one of them.
    Apart { from: u64, by_bin: bool },
}

impl KeyForm {
    /// Returns whether the keys, and the companions' `shard_of`, have the name of the bin.
    pub(crate) const fn by_bin(self) -> bool {
        matches!(self, Self::ByBin | Self::Apart { by_bin: true, .. })
    }

    /// Returns whether the key of a shard is apart from users' keys.
    pub(crate) const fn is_apart(self, shard: u64) -> bool {
        matches!(self, Self::Apart { from, .. } if from <= shard)
    }

    /// Returns the form in which the keys from a shard on stand apart.
    pub(crate) const fn apart(self, from: u64) -> Self {
        let by_bin = self.by_bin();
        match self {
            Self::Apart { from: first, .. } if first < from => self,
            _ => Self::Apart { from, by_bin },
        }
    }
}

/// Returns the part before the number in a key apart from users' keys. The keys of companions of 5
/// and of "5" differ.
const fn apart(root: &Key<'_>) -> &'static str {
    match root {
        Key::Integer(_) => "~int-shard:",
        Key::String(_) | Key::Blob(_) => "~shard:",
    }
}

/// Returns the key of a companion of the collection in this bin.
pub(crate) fn companion_key(root: &Key<'_>, bin: &str, keys: KeyForm, shard: u64) -> Key<'static> {
    let number = if keys.is_apart(shard) {
        format!("{}{shard}", apart(root))
    } else {
        shard.to_string()
    };
    named_companion_key(root, bin, keys, &number)
}

/// Returns the key of the companion with this name, of the collection in this bin.
pub(crate) fn named_companion_key(
    root: &Key<'_>,
    bin: &str,
    keys: KeyForm,
    name: &str,
) -> Key<'static> {
    if keys.by_bin() {
        suffixed_key(root, &format!("{bin}:{name}"))
    } else {
        suffixed_key(root, name)
    }
}

/// Returns the key of a record that belongs to a root: the key of the root, a colon, and `suffix`.
fn suffixed_key(root: &Key<'_>, suffix: &str) -> Key<'static> {
    match root {
        Key::Integer(value) => Key::from(format!("{value}:{suffix}")),
        Key::String(text) => Key::from(format!("{text}:{suffix}")),
        Key::Blob(bytes) => {
            let mut key = bytes.to_vec();
            key.push(b':');
            key.extend_from_slice(suffix.as_bytes());
            Key::from(key)
        }
    }
}

/// Returns a key as messages show it.
pub(crate) fn text(key: &Key<'_>) -> Box<str> {
    key.bare().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_keep_the_type_of_text_and_bytes() {
        let key = |root: Key<'_>, keys, shard| companion_key(&root, "following", keys, shard);
        for (root, plain, by_bin) in [
            (
                Key::from("alice"),
                Key::from("alice:3"),
                Key::from("alice:following:3"),
            ),
            (
                Key::from(-5),
                Key::from("-5:3"),
                Key::from("-5:following:3"),
            ),
            (
                Key::from(b"\xff"),
                Key::from(b"\xff:3"),
                Key::from(b"\xff:following:3"),
            ),
        ] {
            assert_eq!(key(root.clone(), KeyForm::Plain, 3), plain);
            assert_eq!(key(root, KeyForm::ByBin, 3), by_bin);
        }
    }
}
