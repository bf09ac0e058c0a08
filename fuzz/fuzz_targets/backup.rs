//! Backups of any bytes, with and without their first line: refused, or read; what is read is written, and read again as
//! it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spikelet::backup::{Blobs, Reader, SavedRecord, Writer};

/// The records up to the first that does not hold.
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

/// What is kept of a record. The bins as text: a NaN equals nothing, and a wish for an index is not saved.
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
