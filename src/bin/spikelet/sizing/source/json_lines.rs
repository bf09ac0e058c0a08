//! Records from JSON lines.

use std::collections::HashSet;
use std::io::{BufRead, Read};
use std::path::Path;

use spikelet::record::MAX_SET_NAME_BYTES;
use spikelet::value::Map;
use spikelet::{Key, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::input::Input;
use super::{ProgressSink, shown, unreadable};
use crate::failure::{CommandFailure, Result};
use crate::report::shortened;
use crate::sizing::measure::RecordMeasure;
use crate::sizing::set_stats::StatsBySet;
use crate::sizing::summarize::RecordOrigin;

/// A longer line is no record: none has more than 8 MiB, and JSON makes of a byte six at most.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// The longest quotation of a malformed line, in characters.
const QUOTED_CHARS: usize = 60;
/// Lines between reports of progress.
const TELL_EVERY: u64 = 1024;

/// A record as its line gives it.
#[derive(Default)]
struct RecordLine {
    set: String,
    key: Option<Key<'static>>,
    bins: Vec<(String, Value)>,
}

/// Reads every line.
pub(super) fn read(
    path: &Path,
    mut file: Input,
    stats: &mut StatsBySet<'_>,
    progress: &mut ProgressSink<'_>,
) -> Result<RecordOrigin> {
    let failed = unreadable(path);
    let mut text = Vec::new();
    let mut keys = HashSet::new();
    let mut number = 0;
    loop {
        text.clear();
        // One byte beyond the limit: a longer line is noticed, and never held as a whole.
        let read = file
            .text
            .by_ref()
            .take(LINE_BYTES_MAX + 1)
            .read_until(b'\n', &mut text)
            .map_err(&failed)?;
        if read == 0 {
            break;
        }
        number += 1;
        let malformed = |what| CommandFailure::at(format!("{}:{number}", shown(path)), what);
        if read as u64 > LINE_BYTES_MAX {
            return Err(malformed(format!(
                "the line is longer than {LINE_BYTES_MAX} bytes"
            )));
        }
        let text = text
            .strip_prefix("\u{feff}".as_bytes())
            .unwrap_or(&text)
            .trim_ascii();
        if text.is_empty() {
            continue;
        }
        let line = parse(text).map_err(malformed)?;
        if let Some(set) = stats.set("", &line.set) {
            set.meet(|most| RecordMeasure::given(line.key.as_ref(), line.bins, most))
                .map_err(|error| {
                    malformed(format!(
                        "no record can hold this: {error}, in {}",
                        quoted(text)
                    ))
                })?;
            let is_new = line
                .key
                .as_ref()
                .is_none_or(|key| keys.insert(identity(&line.set, key)));
            set.note("repeated_key", !is_new);
        }
        if number % TELL_EVERY == 0 {
            progress(file.read.get(), file.length);
        }
    }
    Ok(RecordOrigin {
        source: shown(path),
        kind: "json-lines",
        ..RecordOrigin::default()
    })
}

/// Returns the hash by which records are distinguished.
fn identity(set: &str, key: &Key<'_>) -> u64 {
    let mut bytes = set.as_bytes().to_vec();
    bytes.push(0);
    key.write_stored(&mut bytes);
    xxh3_64(&bytes)
}

/// Quotes the beginning of a text, so that it cannot break a line.
fn quoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).into_owned();
    format!("{:?}", shortened(text, QUOTED_CHARS))
}

fn parse(text: &[u8]) -> Result<RecordLine, String> {
    let wrong = || format!("expected one JSON object a line, found {}", quoted(text));
    let object = serde_json::from_slice(text)
        .map_err(|error| format!("{} (column {}: {error})", wrong(), error.column()))?;
    let Value::Map(fields) = object else {
        return Err(wrong());
    };
    let mut line = RecordLine {
        bins: named(fields),
        ..RecordLine::default()
    };
    let is_bins =
        |(name, value): &mut (String, Value)| name == "bins" && matches!(value, Value::Map(_));
    let bins = line.bins.extract_if(.., is_bins).next();
    let Some((_, Value::Map(bins))) = bins else {
        return Ok(line);
    };
    for (name, value) in std::mem::replace(&mut line.bins, named(bins)) {
        let expected = |what| {
            let found = quoted(&serde_json::to_vec(&value).unwrap_or_default());
            Err(format!("\"{name}\": expected {what}, found {found}"))
        };
        match (name.as_str(), &value) {
            ("set", Value::String(set)) if set.len() > MAX_SET_NAME_BYTES => {
                return Err(format!(
                    "\"set\": {} bytes are more than the {MAX_SET_NAME_BYTES} that the name of a set may have, in {}",
                    set.len(),
                    quoted(set.as_bytes())
                ));
            }
            ("set", Value::String(set)) => line.set.clone_from(set),
            ("key", Value::String(key)) => line.key = Some(key.clone().into()),
            ("key", Value::Int(key)) => line.key = Some((*key).into()),
            ("set" | "key", Value::Nil) => {}
            ("set", _) => return expected("text"),
            ("key", _) => return expected("text or an integer"),
            // Generation, time to live and the like say nothing about sizes.
            _ => {}
        }
    }
    Ok(line)
}

fn named(fields: Map) -> Vec<(String, Value)> {
    let named = |(name, value)| match name {
        Value::String(name) => Some((name, value)),
        _ => None,
    };
    fields
        .into_entries()
        .into_iter()
        .filter_map(named)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_record_with_set_and_key_or_just_its_bins() {
        let line = parse(br#"{"set":"users","key":7,"bins":{"a":1,"b":[1,2]},"ttl":5}"#).unwrap();
        assert_eq!(
            (line.set.as_str(), line.key, line.bins.len()),
            ("users", Some(7.into()), 2)
        );
        let line = parse(br#"{"set":null,"key":"k","bins":{}}"#).unwrap();
        assert_eq!(
            (line.set.as_str(), line.key, line.bins.len()),
            ("", Some("k".into()), 0)
        );
        let line = parse(br#"{"key":"not a key","bins":7,"set":"s"}"#).unwrap();
        assert_eq!(
            (line.set.as_str(), line.key, line.bins.len()),
            ("", None, 3)
        );
    }

    #[test]
    fn a_line_that_is_none_is_told() {
        let long = format!("{{\"set\":\"{}\",\"bins\":{{}}}}", "s".repeat(64));
        let table: [(&[u8], &str); 6] = [
            (long.as_bytes(), "64 bytes are more than the 63"),
            (b"[1]", "one JSON object"),
            (b"{\"a\":", "column"),
            (b"{\"set\":1,\"bins\":{}}", "\"set\": expected text"),
            (
                b"{\"key\":1.5,\"bins\":{}}",
                "\"key\": expected text or an integer",
            ),
            (b"{\"a\":18446744073709551615}", "64-bit"),
        ];
        for (text, expected) in table {
            let Err(found) = parse(text) else {
                panic!("{expected}")
            };
            assert!(found.contains(expected), "{found}");
        }
    }
}
