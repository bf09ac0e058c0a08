//! Files that HdrHistogram's tools read: a log (V2, compressed) and the percentiles as text
//! (`.hgrm`), one pair a row.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::row::Measurement;

/// Steps of each halving of the distance to 100 %, as the other implementations have it.
const TICKS: u32 = 5;
/// The text is in milliseconds.
const NS_PER_MS: f64 = 1e6;

/// Writes both files of a row into a directory, and returns their common name. `began`: when the
/// row began.
///
/// # Errors
/// If they cannot be written.
pub(crate) fn write(dir: &Path, measured: &Measurement, began: SystemTime) -> io::Result<String> {
    let name = measured.case.file_name();
    std::fs::write(dir.join(format!("{name}.hdrhist")), log(measured, began)?)?;
    std::fs::write(
        dir.join(format!("{name}.hgrm")),
        percentiles(measured.latency()),
    )?;
    Ok(name)
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
        measured.latency(),
        Duration::ZERO,
        measured.case.settings.duration,
        Tag::new(&measured.case.settings.write.to_string()),
    )
    .map_err(io::Error::other)?;
    Ok(text)
}

/// Writes the percentiles, in milliseconds.
fn percentiles(latency: &Histogram<u64>) -> String {
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut total = 0;
    for step in latency.iter_quantiles(TICKS) {
        total += step.count_since_last_iteration();
        let (value, quantile) = (
            step.value_iterated_to() as f64 / NS_PER_MS,
            step.quantile_iterated_to(),
        );
        let _ = write!(text, "{value:12.6} {quantile:2.12} {total:10}");
        let _ = match 1.0 / (1.0 - quantile) {
            rest if rest.is_finite() => writeln!(text, " {rest:14.2}"),
            _ => writeln!(text),
        };
    }
    let _ = writeln!(
        text,
        "#[Mean    = {:12.6}, StdDeviation   = {:12.6}]\n#[Max     = {:12.6}, Total count    = {:12}]\n#[Buckets = {:12}, SubBuckets     = {:12}]",
        latency.mean() / NS_PER_MS,
        latency.stdev() / NS_PER_MS,
        latency.max() as f64 / NS_PER_MS,
        latency.len(),
        latency.buckets(),
        latency.distinct_values() / (usize::from(latency.buckets()) + 1) * 2,
    );
    text
}

#[cfg(test)]
mod tests {
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
        assert_eq!(&read, measured.latency());
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
    fn the_percentiles_end_at_all_writes_and_the_longest() {
        let measured = measured();
        let text = percentiles(measured.latency());
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with(' ') && !line.contains("Value"))
            .map(|line| line.split_whitespace().collect())
            .collect();
        let last = rows.last().unwrap();
        assert_eq!(
            last[1..],
            ["1.000000000000", &measured.row.acked.to_string()]
        );
        assert!(last[0].parse::<f64>().unwrap() >= measured.row.max_us / 1e3);
        let values: Vec<f64> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
        assert!(values.is_sorted());
        assert!(text.contains(&format!("Total count    = {:12}", measured.row.acked)));
    }

    #[test]
    fn files_are_named_by_their_row() {
        let dir = tempfile::tempdir().unwrap();
        let name = write(dir.path(), &measured(), SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(name, "open-110_shards-1");
        let mut files: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        assert_eq!(
            files,
            ["open-110_shards-1.hdrhist", "open-110_shards-1.hgrm"]
        );
    }
}
