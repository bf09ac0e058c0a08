//! A store that was used and closed is sound, with any leftover bytes at the ends of its blocks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use spikelet::{NamespaceConfig, Store, Value};

#[test]
fn a_closed_store_is_sound_however_its_blocks_end() {
    // Records of different sizes leave 0 to 160 bytes at the end of a block, among them less than
    // any entry needs.
    for bytes in [70, 86, 102, 118, 134] {
        let dir = tempfile::tempdir().unwrap();
        let mut config = NamespaceConfig::new("test");
        config.write_lanes = 1;
        config.background = false;
        let builder = || Store::builder().path(dir.path());
        let store = builder().namespace(config).open().unwrap();
        let set = store.set("records").unwrap();
        for key in 0..120_000_i64 {
            set.put(key, [("b", Value::Blob(vec![7; bytes]))]).unwrap();
        }
        store.close().unwrap();
        drop((store, set));
        let found = builder().verify().unwrap();
        let (_, verification) = found.first().unwrap();
        assert!(
            verification.clean && !verification.is_damaged(),
            "{bytes}: {verification:?}"
        );
        assert!(verification.blocks >= 2, "a block has been filled");
        assert_eq!(verification.records, 120_000);
    }
}

#[test]
fn a_closed_store_is_sound_while_blocks_wait_to_be_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let builder = || Store::builder().path(dir.path());
    let store = builder().open().unwrap();
    let set = store.set("records").unwrap();
    // Three quarters of the records are rewritten each time, so blocks are emptied by moving the
    // rest.
    for round in 0..4_u8 {
        for key in (0..4_000_i64).filter(|key| key % 4 != i64::from(round)) {
            // Nothing in common with the version before, which would be written as a small
            // difference.
            let seed = u64::from(round) << 32 | key.cast_unsigned();
            let words =
                (0..500).map(|word| (seed ^ word << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let content = words.flat_map(u64::to_be_bytes).collect();
            set.put(key, [("b", Value::Blob(content))]).unwrap();
        }
        store.namespace("test").unwrap().sync().unwrap();
    }
    let defragmented = || store.namespace("test").unwrap().stats().defragmented_blocks;
    while defragmented() == 0 {
        std::thread::yield_now();
    }
    store.close().unwrap();
    drop((store, set));
    let (_, verification) = builder().verify().unwrap().remove(0);
    assert!(!verification.is_damaged(), "{verification:?}");
    assert_eq!(verification.records, 4_000);
}
