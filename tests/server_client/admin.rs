//! Security messages, as clients send them.

use super::{Wire, frame};

pub const USER: u8 = 0;
pub const PASSWORD: u8 = 1;
pub const OLD_PASSWORD: u8 = 2;
pub const CREDENTIAL: u8 = 3;
pub const CLEAR_PASSWORD: u8 = 4;
pub const SESSION_TOKEN: u8 = 5;
pub const SESSION_TTL: u8 = 6;
pub const ROLES: u8 = 10;
pub const ROLE: u8 = 11;
pub const PRIVILEGES: u8 = 12;
pub const ALLOWLIST: u8 = 13;
pub const READ_QUOTA: u8 = 14;
pub const WRITE_QUOTA: u8 = 15;
pub const CONNECTIONS: u8 = 18;

pub const AUTHENTICATE: u8 = 0;
pub const CREATE_USER: u8 = 1;
pub const DROP_USER: u8 = 2;
pub const SET_PASSWORD: u8 = 3;
pub const CHANGE_PASSWORD: u8 = 4;
pub const GRANT_ROLES: u8 = 5;
pub const REVOKE_ROLES: u8 = 6;
pub const QUERY_USERS: u8 = 9;
pub const CREATE_ROLE: u8 = 10;
pub const DROP_ROLE: u8 = 11;
pub const GRANT_PRIVILEGES: u8 = 12;
pub const REVOKE_PRIVILEGES: u8 = 13;
pub const SET_ALLOWLIST: u8 = 14;
pub const SET_QUOTAS: u8 = 15;
pub const QUERY_ROLES: u8 = 16;
pub const LOGIN: u8 = 20;

/// What clients make of the password `admin`.
pub const ADMIN: &str = "$2a$10$7EqJtq98hPqEX7fNZaFWoO1mVO/4MLpGzsqojz6E9Gef6iXDjXdDa";

/// What clients make of the password `better than admin`.
pub const BETTER: &str = "$2a$10$7EqJtq98hPqEX7fNZaFWoOwr8zdRFl6sf/QM03F8dFJD6UZESldPK";

/// A hash as clients make them, of another password for each word.
pub fn hash(word: &str) -> String {
    format!("$2a$10$7EqJtq98hPqEX7fNZaFWoO{word:.<31}")
}

/// A row of an answer: its code and its fields.
pub type Row = (u8, Vec<(u8, Vec<u8>)>);

pub fn body(command: u8, fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut body = vec![0; 16];
    (body[2], body[3]) = (command, fields.len() as u8);
    for (id, value) in fields {
        body.extend((value.len() as u32 + 1).to_be_bytes());
        body.push(*id);
        body.extend(*value);
    }
    body
}

/// The rows of an answer.
pub fn rows(mut body: &[u8]) -> Vec<Row> {
    let mut rows = Vec::new();
    while !body.is_empty() {
        let (head, mut rest) = body.split_at(16);
        let mut fields = Vec::new();
        for _ in 0..head[3] {
            let len = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
            fields.push((rest[4], rest[5..4 + len].to_vec()));
            rest = &rest[4 + len..];
        }
        rows.push((head[1], fields));
        body = rest;
    }
    rows
}

/// A list of names.
pub fn names(names: &[&str]) -> Vec<u8> {
    let mut list = vec![names.len() as u8];
    for name in names {
        list.push(name.len() as u8);
        list.extend(name.as_bytes());
    }
    list
}

/// A list of privileges: code, namespace, set.
pub fn privileges(all: &[(u8, &str, &str)]) -> Vec<u8> {
    let mut list = vec![all.len() as u8];
    for (code, namespace, set) in all {
        list.push(*code);
        if *code >= 10 {
            for name in [namespace, set] {
                list.push(name.len() as u8);
                list.extend(name.as_bytes());
            }
        }
    }
    list
}

impl Wire {
    pub fn administer_rows(&mut self, command: u8, fields: &[(u8, &[u8])]) -> Vec<Row> {
        self.send(&frame(2, &body(command, fields)));
        let (kind, body) = self.receive().expect("an answer");
        assert_eq!(kind, 2);
        rows(&body)
    }

    /// The code of an answer of one row.
    pub fn administer(&mut self, command: u8, fields: &[(u8, &[u8])]) -> u8 {
        let rows = self.administer_rows(command, fields);
        assert_eq!(rows.len(), 1);
        rows[0].0
    }

    /// Logs in. Returns the code and the token.
    pub fn log_in(&mut self, user: &str, hash: &str) -> (u8, Vec<u8>) {
        let fields = [(USER, user.as_bytes()), (CREDENTIAL, hash.as_bytes())];
        let (code, fields) = self.administer_rows(LOGIN, &fields).remove(0);
        let mut tokens = fields.into_iter().filter(|field| field.0 == SESSION_TOKEN);
        (code, tokens.next().map(|token| token.1).unwrap_or_default())
    }

    /// Creates a user with a role of these privileges, all of the same name. The password is the
    /// name.
    pub fn create(&mut self, user: &str, all: &[(u8, &str, &str)]) {
        let (name, hash) = (user.as_bytes(), hash(user));
        let privileges = privileges(all);
        let role = [(ROLE, name), (PRIVILEGES, &privileges)];
        assert_eq!(self.administer(CREATE_ROLE, &role), 0);
        let roles = names(&[user]);
        let fields = [(USER, name), (PASSWORD, hash.as_bytes()), (ROLES, &roles)];
        assert_eq!(self.administer(CREATE_USER, &fields), 0);
    }
}
