//! Connections through TLS, with certificates and logins, of the library and of the program.

use std::process::Command;

use spikelet::cluster::{Cluster, TlsFiles};
use spikelet::{Error, RecordSet, RecordStore, ShardedList, WritePolicy, operations as ops};

use crate::common::Served;
use crate::gateway::{Demands, Gateway, NAME, file};

const USER: &str = "operator";
const PASSWORD: &str = "aerospike";
/// What all Aerospike clients send of that password.
const HASH: &str = "$2a$10$7EqJtq98hPqEX7fNZaFWoOg3vLO9BrDMi.IgzR5fG6wXhnUUDTrIG";

fn gateway(demands: Demands) -> (Gateway, Served) {
    let served = Served::in_memory();
    (Gateway::new(&served.addr, demands), served)
}

#[test]
fn calls_go_through_tls_to_a_server_whose_certificate_and_name_are_right() {
    let (gateway, served) = gateway(Demands::default());
    let builder = Cluster::builder(&gateway.host(NAME));
    let cluster = builder
        .tls(TlsFiles::new(file("ca.pem")))
        .connect()
        .unwrap();
    let records = cluster.records("tls").unwrap();
    let large = vec![7_u8; 300_000];
    let call = [ops::put("v", large.clone())];
    records
        .operate_on(&WritePolicy::default(), &"a".into(), &call)
        .unwrap();
    let list = ShardedList::new(&cluster, "tls", "b", "l").unwrap();
    for element in 0..100 {
        list.add(element).unwrap();
    }
    assert!(gateway.accepted() > 0, "they came this way");
    let plain = served.cluster().records("tls").unwrap();
    let read = [ops::get_bin("v")];
    let read = plain
        .operate_on(&WritePolicy::default(), &"a".into(), &read)
        .unwrap();
    assert_eq!(read.value(0), Some(&large.into()));
}

#[test]
fn a_server_with_another_name_or_authority_is_refused() {
    let (gateway, _served) = gateway(Demands::default());
    let refused = |name: &str, ca: &str| {
        let builder = Cluster::builder(&gateway.host(name));
        let refused = builder.tls(TlsFiles::new(file(ca))).connect().unwrap_err();
        assert!(matches!(refused, Error::Cluster(_)), "{refused:?}");
    };
    refused("another.test", "ca.pem");
    refused(NAME, "other-ca.pem");
    let named = Cluster::connect(&gateway.host(NAME)).unwrap_err();
    assert!(matches!(named, Error::Parameter(_)), "{named:?}");
    let bare = gateway.host(NAME).replace(&format!(":{NAME}"), "");
    let unencrypted = Cluster::connect(&bare).unwrap_err();
    assert!(matches!(unencrypted, Error::Cluster(_)), "{unencrypted:?}");
    assert_eq!(gateway.accepted(), 0);
}

#[test]
fn a_server_that_asks_for_a_certificate_is_shown_one() {
    let (gateway, _served) = gateway(Demands {
        certificate: true,
        ..Demands::default()
    });
    let connect = |files: TlsFiles| Cluster::builder(&gateway.host(NAME)).tls(files).connect();
    let files = || TlsFiles::new(file("ca.pem"));
    let with_certificate = connect(files().client(file("client.pem"), file("client.key")));
    assert_eq!(with_certificate.unwrap().namespace(), "test");
    assert!(connect(files()).is_err());
}

#[test]
fn a_user_logs_in_with_the_hash_of_the_password() {
    let (gateway, _served) = gateway(Demands {
        login: Some((USER, HASH)),
        ..Demands::default()
    });
    let connect = |user: &str, password: &str| {
        Cluster::builder(&gateway.host(NAME))
            .tls(TlsFiles::new(file("ca.pem")))
            .login(user, password)
            .connect()
    };
    assert_eq!(connect(USER, PASSWORD).unwrap().namespace(), "test");
    let before = gateway.accepted();
    for (user, password) in [(USER, "password"), ("somebody", PASSWORD)] {
        let refused = connect(user, password).unwrap_err();
        assert!(matches!(refused, Error::Cluster(_)), "{refused:?}");
    }
    assert_eq!(gateway.accepted(), before);
}

#[test]
fn the_program_connects_through_tls_as_a_user() {
    let (gateway, served) = gateway(Demands {
        certificate: true,
        login: Some((USER, HASH)),
    });
    let list = ShardedList::new(&served.cluster(), "users", "alice", "by").unwrap();
    for element in 0..100 {
        list.add(element).unwrap();
    }
    list.shards().activate(4).unwrap();
    let password = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&password, format!("{PASSWORD}\n")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(["shards", "--json", "--host", &gateway.host(NAME)])
        .args(["--user", USER, "--password-file"])
        .arg(password.path())
        .arg("--tls-ca")
        .arg(file("ca.pem"))
        .arg("--tls-cert")
        .arg(file("client.pem"))
        .arg("--tls-key")
        .arg(file("client.key"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let found: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    assert_eq!(found["collections"][0]["elements"], 100, "{told}");
}
