//! Records of a set, one after the other.

use std::ops::ControlFlow;
use std::pin::pin;

use aerospike::query::RecordStream;
use aerospike::{self as theirs, Bins as TheirBins, PartitionFilter, QueryPolicy, Statement};
use futures_util::{FutureExt, StreamExt};

use super::failure::of_cluster;
use super::link::{self, Link, pinnable};
use super::value::received;
use crate::expressions::{and, eq, set_name};
use crate::record::{Bins, Key, Metadata};
use crate::{Expression, Record, Result};

/// The most records that are taken at once from the arrived ones.
const TAKEN_AT_ONCE: usize = 256;

/// The records to show: the records of a set that pass a filter.
#[derive(Clone, Debug)]
pub(super) struct Scanned<'a> {
    pub(super) link: &'a Link,
    pub(super) set: &'a str,
    pub(super) filter: Option<&'a Expression>,
    /// How many records a server reads a second; `None`: as fast as it can.
    pub(super) records_per_second: Option<u32>,
    /// Only records that an index has under this value.
    pub(super) equal: Option<theirs::query::Filter>,
}

impl Scanned<'_> {
    /// Shows the records of partitions to `each`.
    pub(super) async fn records(
        &self,
        partitions: PartitionFilter,
        mut each: impl FnMut(Result<Record>) -> ControlFlow<()>,
    ) {
        self.run(partitions, true, |record| each(record.and_then(record_of)))
            .await;
    }

    /// Shows the keys of the records of partitions to `each`, until it breaks.
    ///
    /// # Errors
    /// The first error ends it.
    pub(super) fn keys(
        &self,
        partitions: PartitionFilter,
        mut each: impl FnMut(theirs::Key) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut ended = Ok(());
        link::wait(self.run(partitions, false, |record| {
            match record.and_then(|record| record.key.ok_or_else(without_digest)) {
                Ok(key) => each(key),
                Err(error) => {
                    ended = Err(error);
                    ControlFlow::Break(())
                }
            }
        }));
        ended
    }

    /// The filter that is sent. A query without a set is for all records of the namespace, of
    /// whichever set.
    fn whole_filter(&self) -> Option<Expression> {
        let is_without_set = || eq(set_name(), "");
        match (self.filter, self.set) {
            (None, "") => Some(is_without_set()),
            (Some(filter), "") => Some(and([is_without_set(), filter.clone()])),
            (filter, _) => filter.cloned(),
        }
    }

    fn policy(&self, with_bins: bool) -> Result<QueryPolicy> {
        let mut policy = QueryPolicy {
            records_per_second: self.records_per_second.unwrap_or_default(),
            include_bin_data: with_bins,
            ..QueryPolicy::default()
        };
        if let Some(filter) = self.whole_filter() {
            let filter = filter.encoded_bytes()?.to_vec();
            policy.base_policy.filter_expression =
                Some(theirs::expressions::from_packed_bytes(filter));
        }
        Ok(policy)
    }

    /// Runs a query over partitions, and shows its results to `each`: whole records, or records
    /// without their bins. An error that ends it comes last.
    pub(super) async fn run(
        &self,
        partitions: PartitionFilter,
        with_bins: bool,
        mut each: impl FnMut(Result<theirs::Record>) -> ControlFlow<()>,
    ) {
        if let Err(error) = self.pass(partitions, with_bins, &mut each).await {
            let _: ControlFlow<()> = each(Err(error));
        }
    }

    async fn pass(
        &self,
        partitions: PartitionFilter,
        with_bins: bool,
        each: &mut impl FnMut(Result<theirs::Record>) -> ControlFlow<()>,
    ) -> Result<()> {
        let refused = |error: &theirs::Error| of_cluster(error, &self.link.namespace);
        let mut statement = Statement::new(&*self.link.namespace, self.set, TheirBins::All);
        if let Some(equal) = &self.equal {
            statement.set_filter(equal.clone());
        }
        let policy = self.policy(with_bins)?;
        let query = self.link.client.query(&policy, partitions, statement);
        let begun = self.link.run(pin!(pinnable(query))).await?;
        let mut stream = begun.map_err(|error| refused(&error))?.into_stream();
        loop {
            let taken = self.link.run(pin!(pinnable(take(&mut stream)))).await?;
            if taken.is_empty() {
                return Ok(());
            }
            for record in taken {
                if each(record.map_err(|error| refused(&error))).is_break() {
                    return Ok(());
                }
            }
        }
    }
}

/// Returns the next records: waits for one, and takes the others that have come with it. No record:
/// the end.
async fn take(stream: &mut RecordStream) -> Vec<theirs::errors::Result<theirs::Record>> {
    let mut taken: Vec<_> = stream.next().await.into_iter().collect();
    while !taken.is_empty() && taken.len() < TAKEN_AT_ONCE {
        match stream.next().now_or_never() {
            Some(Some(record)) => taken.push(record),
            _ => break,
        }
    }
    taken
}

pub(super) fn without_digest() -> crate::Error {
    link::failed("a server sent a record without its digest")
}

/// A record as this crate has it.
pub(super) fn record_of(record: theirs::Record) -> Result<Record> {
    let metadata = metadata_of(&record);
    let mut key = Vec::new();
    if let Some(user_key) = record.key.as_ref().and_then(key_of) {
        user_key.write_stored(&mut key);
    }
    let mut bins = Bins::new();
    for (name, value) in record.bins {
        bins.set(&name, received(value)?)?;
    }
    let mut body = Vec::new();
    bins.write_body(&mut body)?;
    Record::new(metadata, (!key.is_empty()).then_some(&key), &body)
}

/// When a record was last written no server says.
pub(super) fn metadata_of(record: &theirs::Record) -> Metadata {
    Metadata {
        generation: u16::try_from(record.generation).unwrap_or(u16::MAX),
        void_time: record.expiration(),
        last_update_ms: 0,
    }
}

/// The user key, if the server has it.
pub(super) fn key_of(key: &theirs::Key) -> Option<Key<'static>> {
    Some(match key.user_key()? {
        theirs::Value::Int(number) => Key::from(*number),
        theirs::Value::String(text) => Key::from(text.as_str()).into_owned(),
        theirs::Value::Blob(bytes) => Key::from(bytes.as_slice()).into_owned(),
        _ => return None,
    })
}
