//! Secondary indexes of a cluster: the records with one value in a bin, or at a path in it.
//!
//! Servers index values of one type and keep them in no order, so a query asks for one value. Keys,
//! which relations look for, are integers or text: each of these has its own index. Pages go from
//! partition to partition.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use aerospike::operations::cdt_context::{CdtContext, ctx_from_bytes};
use aerospike::query::Filter;
use aerospike::task::{Status, Task};
use aerospike::{self as theirs, AdminPolicy, CollectionIndexType, ResultCode};

use super::failure::of_cluster;
use super::measure::filter_of;
use super::scan;
use super::set::ClusterSet;
use crate::base64;
use crate::index::{IndexPart, IndexSource};
use crate::query::{IndexComponent, IndexDefinition};
use crate::store::without_key;
use crate::{Digest, Error, IndexQuery, IndexRange, IndexedRecordSet, Key, KeyPage, Result, Value};

/// The types of values that are indexed, their names, and the ends of their indexes' names.
const TYPES: [(theirs::IndexType, &str, &str); 2] = [
    (theirs::IndexType::Numeric, "numeric", "integers"),
    (theirs::IndexType::String, "string", "texts"),
];

const PARTITIONS: u16 = 4096;
/// How often servers are asked whether an index is complete.
const POLL: Duration = Duration::from_millis(20);

/// A record's address, in the order of pages: its partition, then its digest.
type PagePosition = (u16, Digest);

impl ClusterSet {
    fn refuse(&self, index: &str) -> Error {
        let why = format!(
            "index {index:?} of set {:?}: a cluster's indexes are over one bin of integers or texts, and are in no order, so they \
             answer for one value",
            self.name
        );
        Error::Forbidden(why.into())
    }

    /// The bin of a component, and the path in it.
    fn indexed<'c>(
        &self,
        index: &str,
        component: &'c IndexComponent,
    ) -> Result<(&'c str, Vec<CdtContext>)> {
        match &component.source {
            IndexSource::Bin { name, path } if component.part == IndexPart::Whole => {
                let path = (!path.is_empty()).then(|| ctx_from_bytes(path));
                let path = path.transpose().map_err(|_| self.refuse(index))?;
                Ok((name, path.unwrap_or_default()))
            }
            _ => Err(self.refuse(index)),
        }
    }

    /// Creates an index, and waits until all servers have completed it. False: there is one of this
    /// name, or over these values.
    async fn create_index(
        &self,
        name: &str,
        kind: theirs::IndexType,
        (bin, path): &(&str, Vec<CdtContext>),
    ) -> theirs::Result<bool> {
        let policy = AdminPolicy::default();
        let created = self.link.client.create_index_on_bin(
            &policy,
            &self.link.namespace,
            &self.name,
            bin,
            name,
            kind,
            CollectionIndexType::Default,
            Some(path),
        );
        let task = match created.await {
            Err(error) if error.matches(&[ResultCode::IndexFound]) => return Ok(false),
            created => created?,
        };
        while !matches!(task.query_status().await?, Status::Complete) {
            tokio::time::sleep(POLL).await;
        }
        Ok(true)
    }

    /// Waits until all servers have completed an index that another program has created, or is
    /// creating: until then they refuse queries.
    ///
    /// # Errors
    /// [`Error::IndexExists`] if the one of this name is over other values.
    fn await_index(&self, name: &str, of: &str, component: &IndexComponent) -> Result<()> {
        loop {
            let listed = format!("sindex-list:ns={}", self.link.namespace);
            let mut is_complete = true;
            for node in self.link.info_of_nodes(&listed)? {
                for index in node.split(';').filter_map(ListedIndex::parse) {
                    let is_same = index.is_over(&self.name, of, component);
                    if index.name == name && !is_same {
                        return Err(Error::IndexExists(name.into()));
                    }
                    is_complete &= !is_same || index.state != BUILDING;
                }
            }
            if is_complete {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Returns the records of some partitions with this value, at most `limit` and one more.
    fn addresses(
        &self,
        equal: &Filter,
        partitions: Range<u16>,
        limit: usize,
    ) -> Result<Vec<(PagePosition, Option<Key<'static>>)>> {
        let mut scanned = self.scanned(None);
        scanned.equal = Some(equal.clone());
        let partitions = filter_of(&partitions);
        let mut found = Vec::new();
        scanned.keys(partitions, |key| {
            // A server's partition of a record is a part of its digest.
            let partition = u16::try_from(key.partition_id()).unwrap_or_default();
            found.push(((partition, Digest::new(key.digest())), scan::key_of(&key)));
            if found.len() > limit {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(found)
    }
}

/// The state of an index that is being built.
const BUILDING: &str = "WO";

/// An index, as a server lists it:
/// `ns=N:indexname=I:set=S:bin=B:type=T:indextype=P:context=C:..:state=S`, with `null` for what it
/// has not.
struct ListedIndex<'l> {
    name: &'l str,
    set: &'l str,
    bin: &'l str,
    of: &'l str,
    part: &'l str,
    has_path: bool,
    state: &'l str,
}

impl<'l> ListedIndex<'l> {
    /// `None`: it is over no bin.
    fn parse(listed: &'l str) -> Option<Self> {
        // A context may hold any text, so the first of each field counts.
        let field = |wanted: &str| {
            let mut pairs = listed.split(':').filter_map(|pair| pair.split_once('='));
            pairs.find_map(|(name, value)| (name == wanted).then_some(value))
        };
        let is_null = |value: &str| value.eq_ignore_ascii_case("null");
        Some(Self {
            name: field("indexname")?,
            set: field("set")?,
            bin: field("bin")?,
            of: field("type")?,
            part: field("indextype").unwrap_or_default(),
            has_path: field("context").is_some_and(|path| !is_null(path)),
            state: field("state").unwrap_or_default(),
        })
    }

    /// Whether it is over the values of a component that are of this type. Servers write paths in
    /// several ways, so of these only their presence is compared.
    fn is_over(&self, set: &str, of: &str, component: &IndexComponent) -> bool {
        let IndexSource::Bin { name, path } = &component.source else {
            return false;
        };
        (self.set, self.bin, self.has_path) == (set, &**name, !path.is_empty())
            && self.of.eq_ignore_ascii_case(of)
            && ["default", "none"].contains(&self.part)
    }
}

impl IndexedRecordSet for ClusterSet {
    /// False: a query asks for one value, and finds records in no particular order.
    fn has_ordered_indexes(&self) -> bool {
        false
    }

    /// Declares two indexes, one of integers and one of texts, named `{name}_integers` and
    /// `{name}_texts`, and waits until all servers have completed them, also where another program
    /// has begun it. An index of another program over the same values is used.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for other indexes than those over the whole value of one bin, or of a
    /// path in it; [`Error::IndexExists`] where the servers have an index of such a name over other
    /// values.
    fn ensure_index(&self, definition: IndexDefinition) -> Result<()> {
        let name = definition.name();
        let [component] = definition.components() else {
            return Err(self.refuse(name));
        };
        let known = (Arc::clone(&self.name), Box::from(name));
        if self.link.indexes.lock().get(&known) == Some(component) {
            return Ok(());
        }
        let indexed = self.indexed(name, component)?;
        for (kind, type_name, suffix) in TYPES {
            let name = format!("{name}_{suffix}");
            let created = self.link.wait(self.create_index(&name, kind, &indexed))?;
            if !created.map_err(|error| of_cluster(&error, &self.link.namespace))? {
                self.await_index(&name, type_name, component)?;
            }
        }
        self.link.indexes.lock().insert(known, component.clone());
        Ok(())
    }

    /// One round trip to each node, and more where there are more records than `limit`: to find a
    /// range of partitions that has no more.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for a query of anything else than one integer or text;
    /// [`Error::IndexNotFound`] for an index that no handle of this [`Cluster`](super::Cluster) has
    /// declared; [`Error::Parameter`] for an invalid cursor.
    fn query_keys(&self, query: &IndexQuery<'_>) -> Result<KeyPage> {
        let ([value], IndexRange::Any) = (query.equal, query.range) else {
            return Err(self.refuse(query.index));
        };
        let known = (Arc::clone(&self.name), Box::from(query.index));
        let component = self.link.indexes.lock().get(&known).cloned();
        let component = component.ok_or_else(|| Error::IndexNotFound(query.index.into()))?;
        let (bin, path) = self.indexed(query.index, &component)?;
        let equal = match value {
            Value::Int(number) => Filter::equal(bin, *number),
            Value::String(text) => Filter::equal(bin, text.as_str()),
            _ => return Err(self.refuse(query.index)),
        };
        let equal = equal.context(path);
        let mut start = query
            .after
            .map_or(Ok(IndexStart::default()), IndexStart::parse)?;
        if query.limit == 0 {
            return Ok(KeyPage::default());
        }
        loop {
            // A server answers in no order, so a page is right only if all of its partitions'
            // records are here: beyond `limit` the partitions are halved, and a single one is read
            // whole.
            let end = (start.partition + start.partitions).min(PARTITIONS);
            let is_one = end - start.partition == 1;
            let limit = if is_one { usize::MAX - 1 } else { query.limit };
            let mut found = self.addresses(&equal, start.partition..end, limit)?;
            if found.len() > limit {
                start.partitions = (end - start.partition) / 2;
                continue;
            }
            found.sort_unstable_by_key(|(position, _)| *position);
            if let Some(last) = start.behind {
                found.retain(|((_, digest), _)| *digest > last);
            }
            let next = match found.get(..query.limit).and_then(<[_]>::last) {
                Some(((_, last), _)) if found.len() > query.limit => Some(IndexStart {
                    behind: Some(*last),
                    ..start
                }),
                _ if end < PARTITIONS => {
                    let has_room = found.len() < query.limit / 2;
                    Some(IndexStart {
                        partition: end,
                        partitions: start.partitions << u16::from(has_room),
                        behind: None,
                    })
                }
                _ => None,
            };
            match next {
                Some(next) if found.is_empty() => start = next,
                next => {
                    found.truncate(query.limit);
                    let key = |((_, digest), key): (PagePosition, Option<Key<'static>>)| {
                        key.ok_or_else(|| without_key(digest))
                    };
                    return Ok(KeyPage {
                        keys: found.into_iter().map(key).collect::<Result<_>>()?,
                        cursor: next.map(IndexStart::to_cursor),
                    });
                }
            }
        }
    }
}

/// Where a page begins.
#[derive(Clone, Copy, Debug)]
struct IndexStart {
    partition: u16,
    /// How many partitions are asked at first.
    partitions: u16,
    /// Behind this record of the partition.
    behind: Option<Digest>,
}

impl Default for IndexStart {
    fn default() -> Self {
        Self {
            partition: 0,
            partitions: PARTITIONS,
            behind: None,
        }
    }
}

impl IndexStart {
    fn to_cursor(self) -> String {
        let behind = self.behind.map(|digest| base64::encode(digest.as_bytes()));
        let (partition, partitions) = (self.partition, self.partitions);
        format!("{partition}.{partitions}.{}", behind.unwrap_or_default())
    }

    /// # Errors
    /// [`Error::Parameter`] for a text that is not a cursor.
    fn parse(cursor: &str) -> Result<Self> {
        let mut parts = cursor.splitn(3, '.');
        let mut number = || parts.next()?.parse().ok().filter(|it| *it <= PARTITIONS);
        let (partition, partitions) = (number(), number());
        let behind = parts
            .next()
            .and_then(|text| base64::decode(text.as_bytes()));
        let behind = behind.map(|digest| <[u8; 20]>::try_from(digest).ok());
        match (partition, partitions, behind) {
            (Some(partition @ ..PARTITIONS), Some(partitions @ 1..), Some(behind)) => Ok(Self {
                partition,
                partitions,
                behind: behind.map(Digest::new),
            }),
            _ => Err(Error::parameter(format!(
                "{cursor:?} is no cursor of a query"
            ))),
        }
    }
}
