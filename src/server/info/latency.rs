//! How long requests took, how large records are, and how long they will live.

use std::ops::ControlFlow;

use super::{Ask, InfoAnswer, InfoError};
use crate::ScannedRecord;
use crate::server::counters::Latency;
use crate::server::served::ServedNamespace;

/// How many buckets a histogram of times to live has.
const TTL_BUCKETS: usize = 100;

/// `latencies:`, or `latencies:hist=NAME`.
pub(super) fn latencies(ask: &mut Ask<'_>) -> InfoAnswer {
    let mut all = vec![("batch-index".to_owned(), &ask.shared.batches)];
    for served in &ask.shared.namespaces {
        let name = served.namespace.name();
        all.push((format!("{{{name}}}-read"), &served.reads));
        all.push((format!("{{{name}}}-write"), &served.writes));
        all.push((format!("{{{name}}}-pi-query"), &served.queries));
    }
    let seconds = ask.shared.started.elapsed().as_secs_f64();
    let wanted = ask.parameter(&["hist"]);
    let texts: Vec<String> = all
        .iter()
        .filter(|(name, _)| wanted.is_none_or(|wanted| wanted == name))
        .map(|(name, latency)| describe(name, latency, seconds))
        .collect();
    if texts.is_empty() {
        return Err(InfoError::parameter("bad hist name"));
    }
    Ok(texts.join(";"))
}

/// Requests a second, and how many percent took longer than 1, 2, 4 .. 65,536 ms.
fn describe(name: &str, latency: &Latency, seconds: f64) -> String {
    let count = latency.count();
    if count == 0 {
        return format!("{name}:");
    }
    let mut text = format!("{name}:msec,{:.1}", count as f64 / seconds.max(1e-3));
    for longer in latency.at_least() {
        let percent = longer as f64 * 100.0 / count as f64;
        text.push_str(&format!(",{percent:.2}"));
    }
    text
}

/// `histogram:namespace=NAME;type=object-size|ttl`. Visits all records.
pub(super) fn histogram(ask: &mut Ask<'_>) -> InfoAnswer {
    let served = ask.named()?;
    match ask.parameter(&["type"]) {
        Some("object-size") => Ok(sizes(served)),
        Some("ttl") => Ok(times_to_live(served)),
        _ => Err(InfoError::parameter(
            "bad type: object-size and ttl are known",
        )),
    }
}

/// Lends every record to `read`. Damaged records go to the server's log, since the answer has no
/// place for them.
fn scan(served: &ServedNamespace, mut read: impl FnMut(&ScannedRecord<'_>)) {
    let _: ControlFlow<()> = served.namespace.scan(|record| {
        match record {
            Ok(record) => read(&record),
            Err(error) => {
                let namespace = served.namespace.name();
                tracing::warn!(namespace, %error, "a histogram passes over a record");
            }
        }
        ControlFlow::Continue(())
    });
}

/// How many records take from 2^n to 2^(n+1) bytes.
fn sizes(served: &ServedNamespace) -> String {
    let mut counts = [0_u64; u64::BITS as usize];
    scan(served, |record| {
        let bucket = record.stored_bytes.max(1).ilog2() as usize;
        if let Some(count) = counts.get_mut(bucket) {
            *count += 1;
        }
    });
    let mut text = "units=bytes".to_owned();
    for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let low = 1_u64 << bucket;
        text.push_str(&format!(":[{low}-{})={count}", low.saturating_mul(2)));
    }
    text
}

/// Returns a histogram of times to live: the number of records for each range of seconds, in equal
/// steps.
fn times_to_live(served: &ServedNamespace) -> String {
    let now = (served.namespace.now_ms() / 1000) as u32;
    let mut left = Vec::new();
    scan(served, |record| {
        if record.metadata.void_time != 0 {
            left.push(record.metadata.void_time.saturating_sub(now));
        }
    });
    let longest = left.iter().copied().max().unwrap_or_default();
    let width = (longest / TTL_BUCKETS as u32 + 1).max(1);
    let mut counts = [0_u64; TTL_BUCKETS];
    for seconds in left {
        if let Some(count) = counts.get_mut((seconds / width) as usize) {
            *count += 1;
        }
    }
    let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
    format!(
        "units=seconds:hist-width={}:bucket-width={width}:buckets={}",
        u64::from(width) * TTL_BUCKETS as u64,
        counts.join(",")
    )
}
