//! Users and roles: logging in, sessions, administration, and persistence.

use std::sync::Arc;
use std::time::Duration;

use spikelet::Store;
use spikelet::server::{SecurityOptions, Server, ServerConfig, ServerHandle};
use spikelet::storage::ManualClock;

use crate::server_client::admin::*;
use crate::server_client::*;

pub fn secured() -> Running {
    serve_with(|server| server.security(SecurityOptions::default()))
}

/// A connection of the first user, or of one with the name as password.
pub fn connected(running: &Running, user: &str) -> Wire {
    let mut wire = Wire::to(running.handle.addr());
    let hash = if user == "admin" {
        ADMIN.to_owned()
    } else {
        hash(user)
    };
    assert_eq!(wire.log_in(user, &hash).0, 0, "{user}");
    wire
}

#[test]
fn nothing_is_served_before_a_login_but_what_clients_ask_first() {
    let running = secured();
    let mut wire = Wire::to(running.handle.addr());
    assert_eq!(wire.ask(&Message::get(1)).code, 80);
    assert_eq!(wire.ask(&Message::put(1, "i", 7)).code, 80);
    assert_eq!(wire.ask(&query()).code, 80);
    for namespace in ["nope", ""] {
        let mut nowhere = Message::get(1);
        nowhere.fields[0].1 = namespace.as_bytes().to_vec();
        assert_eq!(wire.ask(&nowhere).code, 80, "{namespace:?}");
    }
    let rows = [(digest(1), row(READ | GET_ALL, 0))];
    assert_eq!(wire.ask_many(&batch(0, &rows)).1, 80);
    for command in [QUERY_USERS, CREATE_USER, CHANGE_PASSWORD, QUERY_ROLES] {
        assert_eq!(wire.administer(command, &[]), 80, "{command}");
    }
    let first = "node\nbuild\nfeatures\npeers-clear-std\npartition-generation\nservice-clear-std\n";
    for value in wire.info(first) {
        assert!(!value.starts_with("ERROR"), "{value}");
    }
    for command in [
        "namespaces",
        "replicas",
        "statistics",
        "sets",
        "udf-list",
        "get-config:",
    ] {
        assert_eq!(
            wire.info(&format!("{command}\n"))[0],
            "ERROR:80:not authenticated",
            "{command}"
        );
    }
    assert_eq!(wire.log_in("admin", ADMIN).0, 0);
    assert_eq!(wire.info("namespaces\n")[0], "bar;test");
}

#[test]
fn long_messages_before_a_login_end_the_connection() {
    let running = secured();
    for kind in [2, 3, 4] {
        let mut wire = Wire::to(running.handle.addr());
        wire.send(&(2_u64 << 56 | kind << 48 | 65_537).to_be_bytes());
        assert!(wire.receive().is_none(), "{kind}");
    }
    // Compressed messages are not looked into.
    let mut wire = Wire::to(running.handle.addr());
    wire.send(&(2_u64 << 56 | 4 << 48 | 20).to_be_bytes());
    wire.send(&[7; 20]);
    assert_eq!(wire.receive().unwrap().1[5], 80);
    let mut wire = connected(&running, "admin");
    let put = Message::about(0, WRITE, 0, 1).op(2, 4, "blob", &vec![7; 100_000]);
    assert_eq!(wire.ask(&put).code, 81);
}

#[test]
fn a_server_without_security_says_so_to_every_login() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    assert_eq!(wire.log_in("admin", ADMIN).0, 51);
    assert_eq!(wire.ask(&Message::put(1, "i", 7)).code, 0);
}

#[test]
fn logins_are_refused_by_their_reason() {
    let running = secured();
    let mut wire = Wire::to(running.handle.addr());
    // No client learns who has an account.
    assert_eq!(wire.log_in("nobody", ADMIN).0, 65);
    assert_eq!(wire.log_in("admin", &hash("other")).0, 65);
    assert_eq!(wire.log_in("admin", "").0, 65);
    let clear = [
        (USER, &b"admin"[..]),
        (CREDENTIAL, ADMIN.as_bytes()),
        (CLEAR_PASSWORD, b"admin"),
    ];
    assert_eq!(wire.administer(LOGIN, &clear), 53);
    assert_eq!(wire.administer(LOGIN, &[]), 53);
    assert_eq!(wire.administer(LOGIN, &[(USER, b"admin")]), 55);
    assert_eq!(wire.administer(7, &[]), 54);
    assert_eq!(wire.ask(&Message::get(1)).code, 80);
    // Clients before the days of sessions authenticate by the password.
    let old = [(USER, &b"admin"[..]), (CREDENTIAL, ADMIN.as_bytes())];
    assert_eq!(wire.administer(AUTHENTICATE, &old), 0);
    assert_eq!(wire.info("namespaces\n")[0], "bar;test");
}

#[test]
fn a_session_opens_connections_until_its_time_has_passed() {
    let clock = Arc::new(ManualClock::at(509_760_000_000));
    let store = namespaces().clock(clock.clone()).open().unwrap();
    let options = SecurityOptions::default().session_time(Duration::from_secs(60));
    let handle = Server::builder(&store).security(options).start().unwrap();
    let mut first = Wire::to(handle.addr());
    let fields = [(USER, &b"admin"[..]), (CREDENTIAL, ADMIN.as_bytes())];
    let (code, fields) = first.administer_rows(LOGIN, &fields).remove(0);
    assert_eq!(code, 0);
    assert_eq!(fields[1], (SESSION_TTL, 60_u32.to_be_bytes().to_vec()));
    let token = fields[0].1.clone();
    let again = |user: &str, token: &[u8]| {
        let fields = [(USER, user.as_bytes()), (SESSION_TOKEN, token)];
        Wire::to(handle.addr()).administer(AUTHENTICATE, &fields)
    };
    clock.advance_ms(59_999);
    assert_eq!(again("admin", &token), 0);
    assert_eq!(again("nobody", &token), 65);
    assert_eq!(again("admin", &token[1..]), 65);
    assert_eq!(again("admin", &[]), 65);
    clock.advance_ms(1);
    assert_eq!(again("admin", &token), 66);
    assert_eq!(first.info("namespaces\n")[0], "bar;test");
}

#[test]
fn a_session_ends_with_its_user_and_with_its_password() {
    let running = secured();
    let mut admin = connected(&running, "admin");
    admin.create("ann", &[(11, "", "")]);
    admin.create("bob", &[(11, "", "")]);
    let mut ann = connected(&running, "ann");
    let mut bob = connected(&running, "bob");
    let (_, token) = Wire::to(running.handle.addr()).log_in("ann", &hash("ann"));
    assert_eq!(ann.ask(&Message::put(1, "i", 7)).code, 0);
    assert_eq!(bob.ask(&Message::get(1)).int("i"), 7);

    let new = hash("new");
    let fields = [(USER, &b"ann"[..]), (PASSWORD, new.as_bytes())];
    assert_eq!(admin.administer(SET_PASSWORD, &fields), 0);
    assert_eq!(ann.ask(&Message::get(1)).code, 80);
    let session = [(USER, &b"ann"[..]), (SESSION_TOKEN, &token)];
    assert_eq!(
        Wire::to(running.handle.addr()).administer(AUTHENTICATE, &session),
        65
    );
    assert_eq!(ann.log_in("ann", &hash("ann")).0, 65);
    assert_eq!(ann.log_in("ann", &new).0, 0);
    assert_eq!(ann.ask(&Message::get(1)).code, 0);

    assert_eq!(admin.administer(DROP_USER, &[(USER, b"bob")]), 0);
    assert_eq!(bob.ask(&Message::get(1)).code, 80);
    // A user of the same name and password is another user.
    let roles = names(&["bob"]);
    let password = hash("bob");
    let again = [
        (USER, &b"bob"[..]),
        (PASSWORD, password.as_bytes()),
        (ROLES, &roles),
    ];
    assert_eq!(admin.administer(CREATE_USER, &again), 0);
    assert_eq!(bob.ask(&Message::get(1)).code, 80);
}

#[test]
fn users_change_their_own_password_and_no_other() {
    let running = secured();
    let mut admin = connected(&running, "admin");
    admin.create("ann", &[(10, "", "")]);
    let mut ann = connected(&running, "ann");
    let (old, new) = (hash("ann"), hash("new"));
    let change = |user: &'static str, old: &str, new: &str| {
        let (old, new) = (old.as_bytes().to_vec(), new.as_bytes().to_vec());
        move |wire: &mut Wire| {
            let fields = [
                (USER, user.as_bytes()),
                (OLD_PASSWORD, &old[..]),
                (PASSWORD, &new[..]),
            ];
            wire.administer(CHANGE_PASSWORD, &fields)
        }
    };
    assert_eq!(change("admin", ADMIN, &new)(&mut ann), 81);
    assert_eq!(change("ann", &new, &new)(&mut ann), 62);
    assert_eq!(change("ann", &old, "plain")(&mut ann), 62);
    assert_eq!(change("ann", &old, &new)(&mut ann), 0);
    // The connection that asked goes on.
    assert_eq!(ann.ask(&Message::get(1)).code, 2);
    let set = [(USER, &b"admin"[..]), (PASSWORD, new.as_bytes())];
    assert_eq!(ann.administer(SET_PASSWORD, &set), 81);
}

#[test]
fn administration_answers_with_aerospikes_codes() {
    let running = secured();
    let mut admin = connected(&running, "admin");
    admin.create("ann", &[(10, "test", "demo")]);
    let password = hash("x");
    let (read, unknown) = (names(&["read"]), names(&["nothing"]));
    let user = |name: &str, roles: &[u8]| {
        vec![
            (USER, name.as_bytes().to_vec()),
            (PASSWORD, password.as_bytes().to_vec()),
            (ROLES, roles.to_vec()),
        ]
    };
    let some = privileges(&[(10, "", "")]);
    let role = |name: &str, privileges: &[u8]| {
        vec![
            (ROLE, name.as_bytes().to_vec()),
            (PRIVILEGES, privileges.to_vec()),
        ]
    };
    let with = |mut fields: Vec<(u8, Vec<u8>)>, id: u8, value: &[u8]| {
        fields.push((id, value.to_vec()));
        fields
    };
    let long = "x".repeat(64);
    let table = [
        (CREATE_USER, user("ann", &read), 61),
        (CREATE_USER, user("", &read), 60),
        (CREATE_USER, user(&long, &read), 60),
        (CREATE_USER, user("bob", &unknown), 70),
        (CREATE_USER, user("bob", &read)[..2].to_vec(), 55),
        (DROP_USER, vec![(USER, b"bob".to_vec())], 60),
        (DROP_USER, vec![], 55),
        (DROP_USER, vec![(USER, b"admin".to_vec())], 56),
        (SET_PASSWORD, user("bob", &read)[..2].to_vec(), 60),
        (
            GRANT_ROLES,
            vec![(USER, b"ann".to_vec()), (ROLES, unknown.clone())],
            70,
        ),
        (
            GRANT_ROLES,
            vec![(USER, b"bob".to_vec()), (ROLES, read.clone())],
            60,
        ),
        (
            GRANT_ROLES,
            vec![(USER, b"ann".to_vec()), (ROLES, vec![2, 4, b'r'])],
            55,
        ),
        (
            REVOKE_ROLES,
            vec![(USER, b"admin".to_vec()), (ROLES, names(&["user-admin"]))],
            56,
        ),
        (CREATE_ROLE, role("ann", &some), 71),
        (CREATE_ROLE, role("read", &some), 71),
        (CREATE_ROLE, role(&long, &some), 70),
        (CREATE_ROLE, role("new", &[1, 64, 0, 0]), 72),
        (
            CREATE_ROLE,
            with(role("new", &some), ALLOWLIST, b"nowhere"),
            73,
        ),
        (CREATE_ROLE, with(role("new", &some), READ_QUOTA, &[1]), 75),
        (DROP_ROLE, vec![(ROLE, b"new".to_vec())], 70),
        (DROP_ROLE, vec![(ROLE, b"read".to_vec())], 70),
        (GRANT_PRIVILEGES, role("new", &some), 70),
        (GRANT_PRIVILEGES, role("read", &some), 70),
        (
            SET_ALLOWLIST,
            with(role("ann", &some), ALLOWLIST, b"10.0.0.1/64"),
            73,
        ),
        (SET_QUOTAS, vec![(ROLE, b"new".to_vec())], 70),
        (QUERY_USERS, vec![(USER, b"bob".to_vec())], 60),
        (QUERY_ROLES, vec![(ROLE, b"new".to_vec())], 70),
    ];
    for (command, fields, code) in &table {
        let fields: Vec<_> = fields.iter().map(|(id, value)| (*id, &value[..])).collect();
        assert_eq!(
            admin.administer(*command, &fields),
            *code,
            "{command} {fields:?}"
        );
    }
}

#[test]
fn users_and_roles_are_listed_to_those_who_may_see_them() {
    let running = secured();
    let mut admin = connected(&running, "admin");
    admin.create("ann", &[(13, "bar", ""), (10, "test", "demo")]);
    let quotas = [(ROLE, &b"ann"[..]), (WRITE_QUOTA, &[0, 0, 0, 9])];
    assert_eq!(admin.administer(SET_QUOTAS, &quotas), 0);
    let allowlist = [(ROLE, &b"ann"[..]), (ALLOWLIST, b"127.0.0.1,10.0.0.0/8")];
    assert_eq!(admin.administer(SET_ALLOWLIST, &allowlist), 0);
    let mut ann = connected(&running, "ann");

    let rows = admin.administer_rows(QUERY_USERS, &[]);
    let codes: Vec<u8> = rows.iter().map(|row| row.0).collect();
    assert_eq!(codes, [0, 0, 50]);
    let users: Vec<&[u8]> = rows[..2].iter().map(|row| &row.1[0].1[..]).collect();
    assert_eq!(users, [&b"admin"[..], b"ann"]);
    let own = ann.administer_rows(QUERY_USERS, &[]);
    assert_eq!(own.len(), 2);
    assert_eq!(
        own[0].1[..2],
        [(USER, b"ann".to_vec()), (ROLES, names(&["ann"]))]
    );
    assert_eq!(own[0].1[4], (CONNECTIONS, vec![0, 0, 0, 1]));
    assert_eq!(ann.administer(QUERY_USERS, &[(USER, b"admin")]), 81);

    let mut rows = ann.administer_rows(QUERY_ROLES, &[]);
    assert_eq!(rows.pop(), Some((50, Vec::new())));
    let expected = vec![
        (ROLE, b"ann".to_vec()),
        (
            PRIVILEGES,
            privileges(&[(10, "test", "demo"), (13, "bar", "")]),
        ),
        (ALLOWLIST, b"127.0.0.1,10.0.0.0/8".to_vec()),
        (READ_QUOTA, vec![0; 4]),
        (WRITE_QUOTA, vec![0, 0, 0, 9]),
    ];
    assert_eq!(rows, [(0, expected)]);
    assert_eq!(ann.administer(QUERY_ROLES, &[(ROLE, b"read")]), 81);
    assert_eq!(admin.administer_rows(QUERY_ROLES, &[]).len(), 13);
}

#[test]
fn users_and_roles_are_there_after_a_restart_and_a_truncation() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let config = ServerConfig::namespace_of("test");
        let store = Store::builder().path(dir.path()).namespace(config);
        let store = store.open().unwrap();
        let options = SecurityOptions::default();
        let handle = Server::builder(&store).security(options).start().unwrap();
        Running { store, handle }
    };
    let close = |running: Running| {
        running.handle.stop();
        running.store.close().unwrap();
    };
    let new = hash("new");
    let running = open();
    let mut admin = connected(&running, "admin");
    admin.create("ann", &[(10, "test", "demo")]);
    let fields = [(USER, &b"admin"[..]), (PASSWORD, new.as_bytes())];
    assert_eq!(admin.administer(SET_PASSWORD, &fields), 0);
    let debug = format!("{:?} {:?}", running.handle, running.store);
    assert!(!debug.contains("$2a$"), "{debug}");
    close(running);

    let running = open();
    assert_eq!(Wire::to(running.handle.addr()).log_in("admin", ADMIN).0, 65);
    running
        .store
        .namespace("test")
        .unwrap()
        .truncate(None)
        .unwrap();
    close(running);

    let running = open();
    let mut admin = Wire::to(running.handle.addr());
    assert_eq!(admin.log_in("admin", ADMIN).0, 65);
    assert_eq!(admin.log_in("admin", &new).0, 0);
    let mut ann = connected(&running, "ann");
    assert_eq!(ann.ask(&Message::get(1)).code, 2);
    assert_eq!(ann.ask(&Message::put(1, "i", 7)).code, 81);
    close(running);
    let device = std::fs::read(dir.path().join("test/device-0")).unwrap();
    assert!(device.windows(3).any(|window| window == b"ann"));
    assert!(!device.windows(7).any(|window| window == b"$2a$10$"));
}

#[test]
fn the_first_password_counts_for_a_store_without_users() {
    let store = namespaces().open().unwrap();
    for password in ["better than admin", "another"] {
        let options = SecurityOptions::default().first_password(password);
        assert!(!format!("{options:?}").contains(password));
        let remote = Server::builder(&store).listen("0.0.0.0:0").unwrap();
        let handle = remote.security(options).start().unwrap();
        let mut admin = Wire::to(([127, 0, 0, 1], handle.addr().port()).into());
        assert_eq!(admin.log_in("admin", ADMIN).0, 65);
        assert_eq!(admin.log_in("admin", BETTER).0, 0);
        handle.stop();
    }
}

#[test]
fn a_remote_address_needs_security_and_another_password_than_the_first() {
    let store = namespaces().open().unwrap();
    let remote = || Server::builder(&store).listen("0.0.0.0:0").unwrap();
    let open = remote().start().unwrap_err().to_string();
    assert!(
        open.contains("--security") && open.contains("--allow-remote"),
        "{open}"
    );
    let first = remote().security(SecurityOptions::default()).start();
    let first = first.unwrap_err().to_string();
    assert!(first.contains("first password"), "{first}");
    let metrics = Server::builder(&store)
        .metrics("0.0.0.0:0")
        .unwrap()
        .start();
    assert!(metrics.is_err());

    let handle = Server::builder(&store)
        .security(SecurityOptions::default())
        .start()
        .unwrap();
    let mut admin = Wire::to(handle.addr());
    assert_eq!(admin.log_in("admin", ADMIN).0, 0);
    let new = hash("new");
    let fields = [
        (USER, &b"admin"[..]),
        (OLD_PASSWORD, ADMIN.as_bytes()),
        (PASSWORD, new.as_bytes()),
    ];
    assert_eq!(admin.administer(CHANGE_PASSWORD, &fields), 0);
    handle.stop();
    let handle = remote()
        .security(SecurityOptions::default())
        .start()
        .unwrap();
    handle.stop();
    let handle = remote().allow_remote_without_security().start().unwrap();
    handle.stop();
}

#[test]
fn truncated_and_absurd_messages_are_answered() {
    let running = secured();
    let mut wire = Wire::to(running.handle.addr());
    let roles = names(&["read", "write"]);
    let granted = privileges(&[(10, "test", "demo"), (0, "", "")]);
    let everything = [
        (USER, &b"ann"[..]),
        (PASSWORD, ADMIN.as_bytes()),
        (OLD_PASSWORD, ADMIN.as_bytes()),
        (ROLES, &roles),
        (ROLE, b"role"),
        (PRIVILEGES, &granted),
        (ALLOWLIST, b"127.0.0.1"),
        (READ_QUOTA, &[0, 0, 0, 1]),
    ];
    for logged_in in [false, true] {
        if logged_in {
            assert_eq!(wire.log_in("admin", ADMIN).0, 0);
        }
        for command in 0..=21_u8 {
            if command == LOGIN || command == AUTHENTICATE {
                continue;
            }
            let whole = body(command, &everything);
            for len in (0..whole.len()).step_by(if command == CREATE_USER { 1 } else { 13 }) {
                wire.send(&frame(2, &whole[..len]));
                let (kind, answer) = wire.receive().expect("an answer");
                assert!(kind == 2 && answer.len() >= 16);
            }
            for count in [0, 7, 9, 255] {
                let mut absurd = whole.clone();
                absurd[3] = count;
                wire.send(&frame(2, &absurd));
                assert!(wire.receive().is_some());
            }
            for len in [0_u32, 1 << 31, u32::MAX] {
                let mut absurd = whole.clone();
                absurd[16..20].copy_from_slice(&len.to_be_bytes());
                wire.send(&frame(2, &absurd));
                let (_, answer) = wire.receive().expect("an answer");
                assert_ne!(rows(&answer)[0].0, 0);
            }
        }
    }
    assert!(wire.is_alive());
}

#[test]
fn servers_of_one_store_have_the_same_users() {
    let store = namespaces().open().unwrap();
    let start = || {
        let server = Server::builder(&store).security(SecurityOptions::default());
        server.start().unwrap()
    };
    let log_in = |handle: &ServerHandle, user: &str| {
        let hash = if user == "admin" {
            ADMIN.to_owned()
        } else {
            hash(user)
        };
        let mut wire = Wire::to(handle.addr());
        (wire.log_in(user, &hash).0, wire)
    };
    let servers = [start(), start()];
    for (handle, user) in servers.iter().zip(["bob", "carl"]) {
        let (code, mut admin) = log_in(handle, "admin");
        assert_eq!(code, 0);
        let password = hash(user);
        let fields = [(USER, user.as_bytes()), (PASSWORD, password.as_bytes())];
        let roles = names(&["read"]);
        let fields = [&fields[..], &[(ROLES, &roles[..])]].concat();
        assert_eq!(admin.administer(CREATE_USER, &fields), 0);
        for other in &servers {
            assert_eq!(log_in(other, user).0, 0, "{user}");
        }
    }
    drop(servers);
    let alone = start();
    for user in ["bob", "carl"] {
        assert_eq!(log_in(&alone, user).0, 0, "{user}");
    }
}
