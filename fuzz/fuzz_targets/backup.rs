//! Backups of any bytes, with and without their first line: refused, or read; records read are
//! written and read again unchanged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spikelet::backup::{Blobs, Reader, SavedRecord, Writer};

/// The records up to the first malformed one.
fn read(text: &[u8]) -> Vec<SavedRecord> {
    let mut records = Vec::new();
    if let Ok(mut reader) = Reader::new(text) {
        while let Ok(Some(record)) = reader.next_record() {
            records.push(record);
        }
        assert!(reader.offset() <= text.len() as u64);
    }
    records
}

/// The comparable content of a record. Bins as text, since a NaN equals nothing; flags of persisted
/// indexes are not saved.
fn kept(record: &SavedRecord) -> impl PartialEq + std::fmt::Debug {
    (
        record.namespace.clone(),
        record.set.clone(),
        record.digest,
        (record.generation, record.void_time),
        record.stored_key().map(<[u8]>::to_vec),
        format!("{:?}", record.view()),
    )
}

fuzz_target!(|data: &[u8]| {
    let headed = [b"Version 3.1\n", data].concat();
    for text in [data, &headed] {
        let records = read(text);
        for blobs in [Blobs::Base64, Blobs::Raw] {
            let mut writer = Writer::new(Vec::new(), "test", true, blobs).expect("writes");
            for record in &records {
                writer.write(record).expect("what was read can be written");
            }
            let again = read(&writer.into_inner());
            assert_eq!(again.len(), records.len());
            for (one, other) in records.iter().zip(&again) {
                assert_eq!(kept(one), kept(other));
            }
        }
    }
});
