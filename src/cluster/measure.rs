//! Records that are measured where they are, without being fetched.

use std::ops::{ControlFlow, Range};

use aerospike::{self as theirs, PartitionFilter};

use super::batch::{self, Prepared};
use super::scan::without_digest;
use super::set::ClusterSet;
use super::{link, results, scan};
use crate::expressions::{ExpReadFlags, bin_exists, list_bin, lists, map_bin, maps, record_size};
use crate::operations::exp::read;
use crate::rate_limit::{Due, RateLimit};
use crate::record::{Metadata, SHARD_OF};
use crate::{Digest, Key, ListReturnType, MapReturnType, Operation, Result, Value, WritePolicy};

/// The number of elements of a collection that are read to learn the size of one.
const SAMPLED_ELEMENTS: i64 = 8;
/// For each bin: whether the record has it, the size of a list, the size of a map, and elements of
/// either.
const READS_PER_BIN: usize = 5;
/// The most bins that a record is asked for.
const BINS_MAX: usize = 32;

/// The size of a record, by the server's expressions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MeasuredRecord {
    /// The user key, if it is stored.
    pub key: Option<Key<'static>>,
    /// The digest.
    pub digest: Digest,
    /// Generation and expiry. When it was last written is not known: 0.
    pub metadata: Metadata,
    /// Its size, in bytes.
    pub bytes: u64,
    /// The bins that were asked for and hold a list or map.
    pub collections: Vec<MeasuredCollection>,
}

/// A list or map of a measured record.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MeasuredCollection {
    /// The bin.
    pub bin: String,
    /// Elements of a list, entries of a map.
    pub count: u64,
    /// Whether it is a map.
    pub is_map: bool,
    /// Some of its elements; of a map, of its values: the first ones.
    pub elements: Vec<Value>,
}

impl ClusterSet {
    /// Shows the records of some of the 4,096 partitions to `each` with their digests, as
    /// [`scan_each`](crate::RecordSet::scan_each) does: one request to each node that has any of
    /// them. `records_per_second` limits how fast each server reads; `None`: as fast as it can.
    /// Keys are spread over partitions by a hash: the records of any partitions are a fair sample
    /// of the set. A record may come twice where a node is lost meanwhile.
    pub fn scan_partitions(
        &self,
        partitions: Range<u16>,
        records_per_second: Option<u32>,
        each: &mut dyn FnMut(Result<(Digest, crate::Record)>) -> ControlFlow<()>,
    ) {
        let filter = filter_of(&partitions);
        let scanned = self.scanned(records_per_second);
        link::wait(scanned.run(filter, true, |record| {
            each(record.and_then(|record| {
                let key = record.key.as_ref().ok_or_else(without_digest)?;
                let digest = Digest::new(key.digest());
                Ok((digest, scan::record_of(record)?))
            }))
        }));
    }

    /// Measures the records of some partitions without fetching them: their size by the server's
    /// expression `record_size`, and for each of `bins` that holds a list or map how many elements
    /// it has, with up to 8 of them. `records_per_second` limits both the scan that finds the
    /// records and the calls that measure them, one for each record.
    ///
    /// No expression has the names of a record's bins. A record that has none of `bins`, or of them
    /// only the one by which a companion describes itself, is fetched, and the names of its bins
    /// are added, up to 32 in all. So few records are fetched, but for companions that are empty.
    ///
    /// Needs servers from version 7.0 on: see
    /// [`Cluster::tells_record_sizes`](super::Cluster::tells_record_sizes).
    pub fn measure_partitions(
        &self,
        partitions: Range<u16>,
        records_per_second: Option<u32>,
        bins: &mut Vec<String>,
        each: &mut dyn FnMut(Result<MeasuredRecord>) -> ControlFlow<()>,
    ) {
        let filter = filter_of(&partitions);
        // The scan is over before the first call, so that slow calls hold no scan open.
        let mut found = Vec::new();
        let scanned = self.scanned(records_per_second);
        link::wait(scanned.run(filter, false, |record| {
            found.push(record);
            ControlFlow::Continue(())
        }));
        let limit = records_per_second.and_then(|rate| RateLimit::new(rate.max(1), Due::default()));
        for record in found {
            match record.and_then(|record| self.measure(&record, bins, limit.as_ref())) {
                // It is gone since.
                Err(crate::Error::NotFound { .. }) => {}
                measured => {
                    if each(measured).is_break() {
                        break;
                    }
                }
            }
        }
    }

    /// Measures a record by the bins that are known, and learns its bins where it has none of
    /// these.
    fn measure(
        &self,
        record: &theirs::Record,
        bins: &mut Vec<String>,
        limit: Option<&RateLimit>,
    ) -> Result<MeasuredRecord> {
        let key = record.key.as_ref().ok_or_else(without_digest)?;
        let keep_pace = || {
            if let Some(limit) = limit {
                limit.take();
            }
        };
        keep_pace();
        let (measured, has_any) = self.measure_known(record, key, bins)?;
        if has_any || bins.len() >= BINS_MAX {
            return Ok(measured);
        }
        keep_pace();
        let fetch = [crate::operations::get()];
        let mut names: Vec<String> = self.call(key, &fetch)?.bins.into_keys().collect();
        names.retain(|name| !bins.contains(name));
        names.sort_unstable();
        names.truncate(BINS_MAX - bins.len());
        bins.append(&mut names);
        keep_pace();
        Ok(self.measure_known(record, key, bins)?.0)
    }

    /// Makes a call that only reads.
    fn call(&self, key: &theirs::Key, reads: &[Operation]) -> Result<theirs::Record> {
        let sent = Prepared::new(key.clone(), reads)?;
        let policy = WritePolicy::default();
        link::wait(batch::send_one(&self.link, &policy, reads, &sent))
    }

    /// Measures a record by these bins. Returns whether it has any of them, too.
    fn measure_known(
        &self,
        record: &theirs::Record,
        key: &theirs::Key,
        bins: &[String],
    ) -> Result<(MeasuredRecord, bool)> {
        let metadata = scan::metadata_of(record);
        let digest = Digest::new(key.digest());
        let user_key = scan::key_of(key);
        let reads = reads_of(bins);
        let answer = results::decode(self.call(key, &reads)?, &reads, false)?;
        // The numbers of the results follow `reads_of`: the size, then five for each bin.
        let has = |at: usize| {
            let exists = answer.value(1 + at * READS_PER_BIN);
            matches!(exists, Some(Value::Bool(true) | Value::Int(1)))
        };
        // Every companion describes itself: the bin of its collection may be unknown still.
        let mut known = bins.iter().enumerate();
        let has_any = known.any(|(at, bin)| bin != SHARD_OF && has(at));
        let number = |at: usize| match answer.value(at) {
            Some(Value::Int(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        let collection = |(at, bin): (usize, &String)| {
            let first = 2 + at * READS_PER_BIN;
            let (list, map) = (number(first), number(first + 1));
            let (count, is_map, elements) = match (list, map) {
                (Some(count), _) => (count, false, answer.value(first + 2)),
                (None, Some(count)) => (count, true, answer.value(first + 3)),
                (None, None) => return None,
            };
            Some(MeasuredCollection {
                bin: bin.clone(),
                count,
                is_map,
                elements: match elements {
                    Some(Value::List(list)) => list.to_vec(),
                    _ => Vec::new(),
                },
            })
        };
        let bytes =
            number(0).ok_or_else(|| link::failed("a server did not tell the size of a record"))?;
        let measured = MeasuredRecord {
            key: user_key,
            digest,
            metadata,
            bytes,
            collections: bins.iter().enumerate().filter_map(collection).collect(),
        };
        Ok((measured, has_any))
    }
}

pub(super) fn filter_of(partitions: &Range<u16>) -> PartitionFilter {
    PartitionFilter::by_range(partitions.start.into(), partitions.len())
}

/// The reads that measure a record. A read that does not apply to a bin answers nil.
fn reads_of(bins: &[String]) -> Vec<Operation> {
    let flags = ExpReadFlags::EVAL_NO_FAIL;
    let mut reads = vec![read("size", record_size(), flags)];
    for bin in bins {
        let (values, entries) = (ListReturnType::Values, MapReturnType::Value);
        let (list, map) = (|| list_bin(bin), || map_bin(bin));
        let of_list = lists::get_by_index_range_count(values, 0, SAMPLED_ELEMENTS, list(), &[]);
        let of_map = maps::get_by_index_range_count(entries, 0, SAMPLED_ELEMENTS, map(), &[]);
        reads.push(read("has", bin_exists(bin), flags));
        reads.push(read("count", lists::size(list(), &[]), flags));
        reads.push(read("count", maps::size(map(), &[]), flags));
        reads.push(read("some", of_list, flags));
        reads.push(read("some", of_map, flags));
    }
    reads
}
