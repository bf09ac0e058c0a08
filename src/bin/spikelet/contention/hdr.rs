//! Files that HdrHistogram's tools read, and make percentiles of: a log (V2, compressed) a row.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::case::name_of;
use super::row::Measurement;

/// The maximum is in milliseconds.
const NS_PER_MS: f64 = 1e6;

/// Writes the file of a row into a directory. `began`: when the row began.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write(dir: &Path, measured: &Measurement, began: SystemTime) -> io::Result<()> {
    let name = format!("{}.hdrhist", measured.case.file_name());
    std::fs::write(dir.join(name), log(measured, began)?)
}

/// Writes the histogram in nanoseconds as a log of one interval.
fn log(measured: &Measurement, began: SystemTime) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("spikelet contention: latency of acknowledged writes from the intended time, in nanoseconds; maximum in milliseconds")
        .with_start_time(began)
        .with_base_time(began)
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(&mut text, &mut serializer)?;
    log.write_histogram(
        &measured.tally.latency,
        Duration::ZERO,
        measured.case.settings.duration,
        Tag::new(&name_of(measured.case.settings.write)),
    )
    .map_err(io::Error::other)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;
    use crate::contention::measure;
    use crate::contention::testing::open;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    fn measured() -> Measurement {
        measure(&open(110.0, 1, |_| {})).unwrap()
    }

    #[test]
    fn a_log_is_read_back_as_what_was_measured() {
        let measured = measured();
        let log = log(&measured, SystemTime::UNIX_EPOCH).unwrap();
        let intervals: Vec<_> = IntervalLogIterator::new(&log)
            .filter_map(|entry| match entry.unwrap() {
                LogEntry::Interval(interval) => Some(interval),
                _ => None,
            })
            .collect();
        let [interval] = &intervals[..] else {
            panic!("{intervals:?}");
        };
        assert_eq!(interval.tag().unwrap().as_str(), "increment");
        assert_eq!(interval.duration(), measured.case.settings.duration);
        let bytes = base64_decoded(interval.encoded_histogram());
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
        assert_eq!(read, measured.tally.latency);
    }

    fn base64_decoded(text: &str) -> Vec<u8> {
        let digit = |byte: u8| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let padding = text.bytes().filter(|byte| *byte == b'=').count();
        let mut bytes = Vec::new();
        for four in text.as_bytes().chunks(4) {
            let bits = four
                .iter()
                .fold(0u32, |bits, byte| bits << 6 | u32::from(digit(*byte) & 63));
            bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
        }
        bytes.truncate(bytes.len() - padding);
        bytes
    }

    #[test]
    fn files_are_named_by_their_row() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &measured(), SystemTime::UNIX_EPOCH).unwrap();
        let files: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(files, ["open-110_shards-1.hdrhist"]);
    }
}
