//! Privileges: permissions of a role, and the place where they count.

use std::collections::BTreeSet;

use bitflags::bitflags;
use serde::{Deserialize, Serialize};
use spikelet_storage::NAMESPACE_BYTES_MAX;

use crate::record::MAX_SET_NAME_BYTES;
use crate::server::bytes::UnreadBytes;
use crate::server::result_code;

bitflags! {
    /// Kinds of request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Permissions: u16 {
        const READ = 0x01;
        const WRITE = 0x02;
        /// Calling functions.
        const CALL = 0x04;
        const TRUNCATE = 0x08;
        /// Registering and removing functions.
        const FUNCTIONS = 0x10;
        const INDEXES = 0x20;
        /// Ending queries of others.
        const JOBS = 0x40;
        /// The configuration of the server.
        const SYSTEM = 0x80;
        const USERS = 0x100;
    }
}

const DATA_ADMIN: Permissions = Permissions::TRUNCATE
    .union(Permissions::FUNCTIONS)
    .union(Permissions::INDEXES)
    .union(Permissions::JOBS);

const READ_WRITE: Permissions = Permissions::READ.union(Permissions::WRITE);

/// Privileges with codes below this one count everywhere; others may be limited to a namespace or
/// set.
const FIRST_SCOPED: u8 = 10;

/// All privileges: code, name, and requests that they allow. Each is a role of its name, too.
const PRIVILEGES: [(u8, &str, Permissions); 10] = [
    (0, "user-admin", Permissions::USERS),
    (1, "sys-admin", DATA_ADMIN.union(Permissions::SYSTEM)),
    (2, "data-admin", DATA_ADMIN),
    (3, "udf-admin", Permissions::FUNCTIONS),
    (4, "sindex-admin", Permissions::INDEXES),
    (10, "read", Permissions::READ),
    (11, "read-write", READ_WRITE),
    (12, "read-write-udf", READ_WRITE.union(Permissions::CALL)),
    (13, "write", Permissions::WRITE),
    (14, "truncate", Permissions::TRUNCATE),
];

/// The role with all privileges.
pub(super) const SUPERUSER: &str = "superuser";

/// A privilege of a role.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(super) struct Privilege {
    code: u8,
    /// Empty: all.
    namespace: Box<str>,
    /// Empty: all.
    set: Box<str>,
}

impl Privilege {
    fn everywhere(code: u8) -> Self {
        Self {
            code,
            namespace: "".into(),
            set: "".into(),
        }
    }

    pub(super) fn permissions(&self) -> Permissions {
        let mut known = PRIVILEGES.iter();
        let found = known.find(|(code, ..)| *code == self.code);
        found.map_or(Permissions::empty(), |(.., permissions)| *permissions)
    }

    /// Whether it counts in this set of a namespace; the empty name stands for the whole namespace.
    pub(super) fn covers(&self, namespace: &[u8], set: &[u8]) -> bool {
        self.reaches(namespace) && (self.set.is_empty() || self.set.as_bytes() == set)
    }

    /// Whether it counts in a part of this namespace.
    pub(super) fn reaches(&self, namespace: &[u8]) -> bool {
        self.namespace.is_empty() || self.namespace.as_bytes() == namespace
    }

    /// Reads one of a list. An error is the code of the answer.
    pub(super) fn read(cursor: &mut UnreadBytes<'_>) -> Result<Self, u8> {
        let field = result_code::SECURITY_FIELD;
        let code = cursor.u8().ok_or(field)?;
        if !PRIVILEGES.iter().any(|(known, ..)| *known == code) {
            return Err(result_code::INVALID_PRIVILEGE);
        }
        if code < FIRST_SCOPED {
            return Ok(Self::everywhere(code));
        }
        let mut name = |most: usize| {
            let name = short_text(cursor)?;
            let fits = name.len() <= most && !name.contains(['\0', ';', ':']);
            fits.then(|| name.into())
                .ok_or(result_code::INVALID_PRIVILEGE)
        };
        let (namespace, set): (Box<str>, Box<str>) =
            (name(NAMESPACE_BYTES_MAX)?, name(MAX_SET_NAME_BYTES)?);
        // A set without its namespace has no meaning.
        if namespace.is_empty() && !set.is_empty() {
            return Err(result_code::INVALID_PRIVILEGE);
        }
        Ok(Self {
            code,
            namespace,
            set,
        })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.code);
        if self.code >= FIRST_SCOPED {
            for name in [&self.namespace, &self.set] {
                out.push(name.len() as u8);
                out.extend_from_slice(name.as_bytes());
            }
        }
    }
}

/// Reads a list: its length in one byte, and its items, which fill it. An error is the code of the
/// answer.
pub(super) fn read_list<'a, T, L: FromIterator<T>>(
    list: &'a [u8],
    mut read: impl FnMut(&mut UnreadBytes<'a>) -> Result<T, u8>,
) -> Result<L, u8> {
    let mut cursor = UnreadBytes(list);
    let count = cursor.u8().ok_or(result_code::SECURITY_FIELD)?;
    let items: Result<_, u8> = (0..count).map(|_| read(&mut cursor)).collect();
    let items = items?;
    let is_whole = cursor.is_empty();
    is_whole.then_some(items).ok_or(result_code::SECURITY_FIELD)
}

/// A length in one byte, and text of this length. An error is the code of the answer.
pub(super) fn short_text<'a>(cursor: &mut UnreadBytes<'a>) -> Result<&'a str, u8> {
    let text = cursor.short().map(std::str::from_utf8);
    text.and_then(Result::ok).ok_or(result_code::SECURITY_FIELD)
}

/// The privileges of a role that is there without being created.
pub(super) fn predefined(role: &str) -> Option<BTreeSet<Privilege>> {
    let of = |(code, ..): &(u8, &str, Permissions)| Privilege::everywhere(*code);
    if role == SUPERUSER {
        return Some(PRIVILEGES.iter().map(of).collect());
    }
    let found = PRIVILEGES.iter().find(|(_, name, _)| *name == role)?;
    Some([of(found)].into())
}

/// The names of [`predefined`] roles.
pub(super) fn predefined_names() -> impl Iterator<Item = &'static str> {
    PRIVILEGES
        .iter()
        .map(|(_, name, _)| *name)
        .chain([SUPERUSER])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_are_read_as_they_were_written() {
        let list = b"\x03\x00\x0a\x04test\x04demo\x0d\x00\x00";
        let all: Vec<Privilege> = read_list(list, Privilege::read).unwrap();
        assert_eq!(all[0], Privilege::everywhere(0));
        assert!(all[1].covers(b"test", b"demo"));
        assert!(!all[1].covers(b"test", b""));
        assert!(!all[1].covers(b"bar", b"demo"));
        assert!(all[2].covers(b"bar", b"demo"));
        let mut out = vec![3];
        all.iter().for_each(|privilege| privilege.write(&mut out));
        assert_eq!(out, list);
    }

    #[test]
    fn malformed_privileges_are_refused_by_their_code() {
        let field = result_code::SECURITY_FIELD;
        let privilege = result_code::INVALID_PRIVILEGE;
        let long = [&[1, 10, 32][..], &[b'x'; 32], &[0]].concat();
        let table: [(&[u8], u8); 8] = [
            (b"", field),
            (b"\x01", field),
            (b"\x01\x0a", field),
            (b"\x01\x0a\xfftest", field),
            (b"\x00\x00", field),
            (b"\x01\x40\x00\x00", privilege),
            (b"\x01\x0a\x00\x04demo", privilege),
            (&long, privilege),
        ];
        for (list, code) in table {
            let read = read_list::<_, BTreeSet<_>>(list, Privilege::read);
            assert_eq!(read, Err(code), "{list:?}");
        }
    }

    #[test]
    fn roles_of_administrators_hold_what_their_names_say() {
        let of = |role: &str| {
            let privileges = predefined(role).unwrap();
            let all = privileges.iter().map(Privilege::permissions);
            all.fold(Permissions::empty(), Permissions::union)
        };
        assert!(of("sys-admin").contains(of("data-admin")));
        assert!(of("data-admin").contains(of("udf-admin") | of("sindex-admin") | of("truncate")));
        assert!(!of("sys-admin").intersects(Permissions::USERS | READ_WRITE));
        assert_eq!(of(SUPERUSER), Permissions::all());
        assert!(predefined("nobody").is_none());
    }
}
