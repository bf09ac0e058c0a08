//! A program that serves its own store to clients of Aerospike, with users. It creates the first password itself, keeps an
//! audit log beside the store, and goes on using the store by the library meanwhile.
//!
//! `cargo run --example secure_server --features server`, and end it by Enter. With `--features tls`,
//! `ServerBuilder::listen_tls` adds a port for encrypted connections.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use spikelet::Store;
use spikelet::server::{SecurityOptions, Server, ServerConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?; // a program's own directory
    let store = Store::builder()
        .path(dir.path().join("store"))
        // It hashes keys as clients do.
        .namespace(ServerConfig::namespace_of("app"))
        .open()?;
    let password = first_password()?;
    let security = SecurityOptions::default()
        .first_password(&password)
        .audit_file(dir.path().join("audit.log"))
        // Requests about the records of one set are noted, too.
        .audit_data("app", "accounts");
    let server = Server::builder(&store)
        // With `security` and a password of one's own, "0.0.0.0:3000" would do as well.
        .listen("127.0.0.1:0")?
        .security(security)
        .start()?;
    println!("{} serves; user admin, password {password}", server.addr());

    // The program itself needs no login.
    let accounts = store.namespace("app")?.set("accounts")?;
    accounts.put("ada", [("credit", 10)])?;
    println!(
        "a client without a login: {}",
        ask_without_login(server.addr())?
    );

    io::stdin().read_line(&mut String::new())?;
    server.stop();
    Ok(())
}

/// 32 hexadecimal digits from the system.
fn first_password() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The answer to an info command: version 2, type 1, a length of 48 bits, the text.
fn ask_without_login(addr: std::net::SocketAddr) -> io::Result<String> {
    let mut client = TcpStream::connect(addr)?;
    client.write_all(b"\x02\x01\0\0\0\0\0\x0bnamespaces\n")?;
    let mut head = [0; 8];
    client.read_exact(&mut head)?;
    let mut answer = vec![0; usize::from(head[7])];
    client.read_exact(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer)
        .trim()
        .replace('\t', " -> "))
}
