//! Stores in memory, and backups put together by hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spikelet::backup::{
    BackupError, BackupOptions, BackupSummary, Restore, RestoreOptions, RestoreSummary, save,
};
use spikelet::record::KeyHash;
use spikelet::storage::ManualClock;
use spikelet::{Key, NamespaceConfig, Store};
use tempfile::TempDir;

/// 2026-01-01, in seconds since 2010.
pub const NOW_S: u64 = 504_921_600;

/// A point in GeoJSON.
pub const POINT: &str = r#"{"type":"Point","coordinates":[15.4,47.1]}"#;

pub fn namespace(hash: KeyHash) -> NamespaceConfig {
    let mut config = NamespaceConfig::new("test");
    config.key_hash = hash;
    config.background = false;
    config
}

/// An empty store in memory, at a fixed time.
pub fn store_of(hash: KeyHash) -> Store {
    let clock = Arc::new(ManualClock::at(NOW_S * 1000));
    let builder = Store::builder().namespace(namespace(hash)).clock(clock);
    builder.open().unwrap()
}

pub fn store() -> Store {
    store_of(KeyHash::Ripemd160)
}

pub fn records_of(store: &Store) -> u64 {
    store.namespace("test").unwrap().stats().records
}

pub fn save_all(store: &Store, out: &Path) -> BackupSummary {
    save(store, out, &BackupOptions::default(), &mut |_| {}).unwrap()
}

/// A file of this text, in a directory that goes with it.
pub fn file_of(text: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some.asb");
    fs::write(&path, text).unwrap();
    (dir, path)
}

pub fn restore(
    path: &Path,
    store: &Store,
    options: RestoreOptions,
) -> Result<RestoreSummary, BackupError> {
    Restore::prepare(path, options, &mut |_, _| {})?.run(store, &mut |_, _| {})
}

pub fn options(change: impl FnOnce(&mut RestoreOptions)) -> RestoreOptions {
    let mut options = RestoreOptions::default();
    change(&mut options);
    options
}

/// One record with an integer key and these bins.
pub fn record(key: i64, generation: u16, void_time: u64, bins: &[&str]) -> String {
    let digest = KeyHash::Ripemd160.digest("demo", &Key::from(key));
    format!(
        "+ k I {key}\n{}",
        keyless(&base64(digest.as_bytes()), generation, void_time, bins)
    )
}

pub fn keyless(digest: &str, generation: u16, void_time: u64, bins: &[&str]) -> String {
    let count = bins.len();
    let bins: String = bins.iter().map(|bin| format!("- {bin}\n")).collect();
    format!(
        "+ n test\n+ d {digest}\n+ s demo\n+ g {generation}\n+ t {void_time}\n+ b {count}\n{bins}"
    )
}

pub fn backup_of(records: &[String]) -> String {
    format!("Version 3.1\n# namespace test\n{}", records.concat())
}

pub fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let sign = SIGNS[(bits >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= chunk.len() { sign.into() } else { '=' });
        }
    }
    text
}
