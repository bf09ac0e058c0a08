//! Messages of any bytes, executed by a server of a store in memory: every answer is well-formed.
//!
//! The first byte chooses a prefix for the rest: nothing, or the head and fields of a read, a
//! write, a batch, a query or a call of a function; or it makes the rest the text of info commands, the parameters of
//! an index, or a security message, after a login or before. The other bytes then reach deeper code.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spikelet::fuzzing::FuzzTarget;
use spikelet::record::KeyHash;
use spikelet::{NamespaceConfig, Store};

const DIGEST: &[u8; 20] = &[7; 20];

/// In base64, a module whose function `f` stores and returns its arguments, and whose stream `s` gathers a bin in a list.
const MODULE: &str = "\
    ZnVuY3Rpb24gZihyLCAuLi4pCiAgZm9yIF8sIHYgaW4gaXBhaXJzey4uLn0gZG8gci5iID0gdiBhZXJvc3Bpa2U6dXBkYXRlKHIp\
    IGxpc3QuYXBwZW5kKGxpc3R7MX0sIHYpIG1hcHthID0gdn0gdG9zdHJpbmcodikgZW5kCiAgaWYgbm90IGFlcm9zcGlrZTpleGlz\
    dHMocikgdGhlbiByLmIgPSAuLi4gYWVyb3NwaWtlOmNyZWF0ZShyKSBlbmQKICByZXR1cm4gci5iCmVuZApmdW5jdGlvbiBzKHQs\
    IHYpIHJldHVybiB0IDogbWFwKGZ1bmN0aW9uKHIpIHJldHVybiByLmIgZW5kKSA6IGFnZ3JlZ2F0ZShsaXN0KCksIGZ1bmN0aW9u\
    KGwsIHgpIGxpc3QuYXBwZW5kKGwsIHgpIHJldHVybiBsIGVuZCkgZW5kCg==";

thread_local! {
    static TARGET: (Store, FuzzTarget) = {
        let mut config = NamespaceConfig::new("test");
        config.key_hash = KeyHash::Ripemd160;
        let store = Store::builder().namespace(config).open().expect("a store in memory opens");
        let target = FuzzTarget::new(&store).expect("its namespace can be served");
        for part in ["default", "list", "mapkeys", "mapvalues"] {
            for kind in ["numeric", "string", "blob", "geo2dsphere"] {
                let _ = target.info(
                    format!("sindex-create:namespace=test;indexname={part}-{kind};bin=b;indextype={part};type={kind}").as_bytes(),
                );
            }
        }
        let _ = target.info(format!("udf-put:filename=m.lua;udf-type=LUA;content={MODULE}").as_bytes());
        (store, target)
    };
}

/// The body of a message with these flags, fields, and operations.
fn body(info: [u8; 3], fields: &[(u8, &[u8])], op_count: u16, ops: &[u8]) -> Vec<u8> {
    let mut body = vec![22, info[0], info[1], info[2], 0, 0];
    body.extend([0; 12]);
    body.extend((fields.len() as u16).to_be_bytes());
    body.extend(op_count.to_be_bytes());
    for (kind, data) in fields {
        body.extend((data.len() as u32 + 1).to_be_bytes());
        body.push(*kind);
        body.extend_from_slice(data);
    }
    body.extend_from_slice(ops);
    body
}

/// One operation of the code that is the first byte, on the type that is the second.
fn op(rest: &[u8]) -> Vec<u8> {
    let (head, value) = rest.split_at(rest.len().min(2));
    let mut op = (value.len() as u32 + 5).to_be_bytes().to_vec();
    op.extend([
        head.first().copied().unwrap_or(1),
        head.get(1).copied().unwrap_or(4),
        0,
        1,
        b'b',
    ]);
    op.extend_from_slice(value);
    op
}

/// A login of the first user with the first password.
fn login() -> Vec<u8> {
    let mut login = vec![0; 16];
    (login[2], login[3]) = (20, 2);
    let credential = b"$2a$10$7EqJtq98hPqEX7fNZaFWoO1mVO/4MLpGzsqojz6E9Gef6iXDjXdDa";
    for (kind, value) in [(0, &b"admin"[..]), (3, credential)] {
        login.extend((value.len() as u32 + 1).to_be_bytes());
        login.push(kind);
        login.extend_from_slice(value);
    }
    login
}

/// A security message: the command is the first byte, the number of fields the second, and each field has a byte for its
/// type and one for its length.
fn security(rest: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 16];
    let mut rest = rest.iter();
    message[2] = rest.next().map_or(0, |command| command % 22);
    message[3] = rest.next().map_or(0, |count| count % 8);
    while let (Some(kind), Some(len)) = (rest.next(), rest.next()) {
        let value: Vec<u8> = rest.by_ref().take(usize::from(*len)).copied().collect();
        message.extend((value.len() as u32 + 1).to_be_bytes());
        message.push(kind % 20);
        message.extend(value);
    }
    message
}

fuzz_target!(|data: &[u8]| {
    let Some((shape, rest)) = data.split_first() else {
        return;
    };
    let namespace = (0, &b"test"[..]);
    let one = [namespace, (4, DIGEST)];
    let all: Vec<u8> = (0..4096_u16).flat_map(u16::to_le_bytes).collect();
    let partitions = (11, &all[..]);
    let message = match shape % 14 {
        0 => rest.to_vec(),
        1 => body([1, 0x80, 0], &one, 1, &op(rest)),
        2 => body([1, 0x81, 0], &one, 1, &op(rest)),
        3 => body([3, 0, 0], &[one[0], one[1], (43, rest)], 0, &[]),
        4 => body([8, 0, 0], &[(41, rest)], 0, &[]),
        5 => body([1, 0, 4], &[namespace, partitions, (43, rest)], 0, &[]),
        6 => body([1, 0, 4], &[namespace, partitions, (22, rest)], 0, &[]),
        7 => body([0, 1, 0], &[namespace, (7, &[1; 8])], 1, &op(rest)),
        8 => {
            let _ = TARGET.with(|(_, target)| target.info(rest));
            return;
        }
        9 => body(
            [0, 1, 0],
            &[one[0], one[1], (30, b"m"), (31, b"f"), (32, rest)],
            0,
            &[],
        ),
        10 => {
            let kind = 1 + shape / 14 % 2;
            let call = [namespace, (30, b"m"), (31, b"s"), (32, rest), (33, &[kind])];
            body([1, 0, 0], &call, 0, &[])
        }
        12 | 13 => {
            let before = if shape / 14 % 2 == 0 {
                login()
            } else {
                Vec::new()
            };
            let message = if shape % 14 == 12 {
                security(rest)
            } else {
                rest.to_vec()
            };
            let _ = TARGET.with(|(_, target)| target.administer(&before, &message));
            return;
        }
        _ => {
            let create = [b"sindex-create:namespace=test;indexname=x;", rest].concat();
            let _ = TARGET.with(|(_, target)| target.info(&create));
            return;
        }
    };
    TARGET.with(|(_, target)| {
        let _ = target.execute(&message);
    });
});
