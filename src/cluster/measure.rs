//! Records that are measured where they are, without being fetched.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use aerospike::{self as theirs, PartitionFilter};

use super::results;
use super::scan;
use super::set::ClusterSet;
use super::{operation, policy};
use crate::expressions::{ExpReadFlags, list_bin, lists, map_bin, maps, record_size};
use crate::operations::exp::read;
use crate::record::Metadata;
use crate::{Digest, Key, ListReturnType, MapReturnType, Operation, Result, Value, WritePolicy};

/// So many elements of a collection are read to learn what one takes.
const SAMPLED_ELEMENTS: i64 = 8;
/// For each bin: the size of a list, the size of a map, and elements of either.
const READS_PER_BIN: usize = 4;

/// What a record takes, by what the server says of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MeasuredRecord {
    /// The user key, if it is stored.
    pub key: Option<Key<'static>>,
    /// The digest.
    pub digest: Digest,
    /// Generation and expiry. When it was last written is not known: 0.
    pub metadata: Metadata,
    /// What it takes, in bytes.
    pub bytes: u64,
    /// Those of the bins that were asked for that hold a list or map.
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
    /// Shows the records of one of the 4,096 partitions to `each`, as
    /// [`scan_each`](crate::RecordSet::scan_each) does. `records_per_second` limits how fast each server reads; `None`: as fast
    /// as it can. Keys are spread over partitions by a hash: the records of any partition are a fair sample of the set.
    pub fn scan_partition(
        &self,
        partition: u16,
        records_per_second: Option<u32>,
        each: &mut dyn FnMut(Result<crate::Record>) -> ControlFlow<()>,
    ) {
        let partition = PartitionFilter::by_id(partition.into());
        scan::records(self.scanned(records_per_second), partition, each);
    }

    /// Measures the records of a partition without fetching them: their size by the server's expression `record_size`, and for
    /// each of `bins` that holds a list or map how many elements it has, with up to 8 of them. Two small messages a record.
    /// Needs servers from version 7.0 on: see [`Cluster::tells_record_sizes`](super::Cluster::tells_record_sizes).
    pub fn measure_partition(
        &self,
        partition: u16,
        records_per_second: Option<u32>,
        bins: &[String],
        each: &mut dyn FnMut(Result<MeasuredRecord>) -> ControlFlow<()>,
    ) {
        let partition = PartitionFilter::by_id(partition.into());
        let reads = reads_of(bins);
        let scanned = self.scanned(records_per_second);
        let ended = scanned.run(partition, false, &mut |record| {
            match record.and_then(|record| self.measure(record, bins, &reads)) {
                // It is gone since.
                Err(crate::Error::NotFound { .. }) => ControlFlow::Continue(()),
                measured => each(measured),
            }
        });
        if let Err(error) = ended {
            // Why it ended is known to `each`.
            let _: ControlFlow<()> = each(Err(error));
        }
    }

    fn measure(
        &self,
        record: theirs::Record,
        bins: &[String],
        reads: &[Operation],
    ) -> Result<MeasuredRecord> {
        let metadata = scan::metadata_of(&record);
        let key = record
            .key
            .ok_or_else(|| super::link::failed("a server sent a record without its digest"))?;
        let digest = Digest::new(key.digest());
        let user_key = scan::key_of(&key);
        let base = WritePolicy::default();
        let sent_policy = policy::single(&base, false, self.link.read_retries)?;
        let mut sent = Vec::with_capacity(reads.len());
        for read in reads {
            sent.push(operation::encode(read)?);
        }
        let client = Arc::clone(&self.link.client);
        let started = Instant::now();
        let answer = self
            .link
            .wait(async move { client.operate(&sent_policy, &key, &sent).await })?;
        let answer =
            answer.map_err(|error| self.failed_call(&base, reads, started).error(&error))?;
        let answer = results::decode(answer, reads, false)?;
        let number = |at: usize| match answer.value(at) {
            Some(Value::Int(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        let collection = |(at, bin): (usize, &String)| {
            let first = 1 + at * READS_PER_BIN;
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
        Ok(MeasuredRecord {
            key: user_key,
            digest,
            metadata,
            bytes: number(0).unwrap_or_default(),
            collections: bins.iter().enumerate().filter_map(collection).collect(),
        })
    }
}

/// The reads that measure a record. What does not apply to a bin answers nil.
fn reads_of(bins: &[String]) -> Vec<Operation> {
    let flags = ExpReadFlags::EVAL_NO_FAIL;
    let mut reads = vec![read("size", record_size(), flags)];
    for bin in bins {
        let (values, entries) = (ListReturnType::Values, MapReturnType::Value);
        let (list, map) = (|| list_bin(bin), || map_bin(bin));
        let of_list = lists::get_by_index_range_count(values, 0, SAMPLED_ELEMENTS, list(), &[]);
        let of_map = maps::get_by_index_range_count(entries, 0, SAMPLED_ELEMENTS, map(), &[]);
        reads.push(read("count", lists::size(list(), &[]), flags));
        reads.push(read("count", maps::size(map(), &[]), flags));
        reads.push(read("some", of_list, flags));
        reads.push(read("some", of_map, flags));
    }
    reads
}
