//! Servers are started, stopped, and refuse what they cannot serve.

use crate::server_client::*;
use spikelet::server::Server;
use spikelet::{NamespaceConfig, Store};

#[test]
fn several_servers_run_side_by_side_and_stop_by_themselves() {
    let one = serve();
    let other = serve();
    let mut to_one = Wire::to(one.handle.addr());
    let mut to_other = Wire::to(other.handle.addr());
    assert_ne!(to_one.info("node\n"), to_other.info("node\n"));
    to_one.ask(&Message::put(1, "i", 1));
    assert_eq!(to_other.ask(&Message::get(1)).code, 2);
    one.handle.stop();
    assert_eq!(to_one.receive(), None);
    assert!(to_other.is_alive());
    // The store outlives its server, and can be served again.
    let handle = Server::builder(&one.store).start().unwrap();
    assert_eq!(Wire::to(handle.addr()).ask(&Message::get(1)).code, 0);
}

#[test]
fn a_store_whose_digests_clients_do_not_know_is_refused() {
    let store = Store::builder()
        .namespace(NamespaceConfig::new("test"))
        .open()
        .unwrap();
    let error = Server::builder(&store).start().unwrap_err().to_string();
    assert!(error.contains("KeyHash::Ripemd160"), "{error}");
}
