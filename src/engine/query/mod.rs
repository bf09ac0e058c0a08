//! Queries: records of a set by a secondary index, or all of them, page by page.
//!
//! * `conditions`: the conditions on an index, as a range of entries.
//! * `run`: entries are copied out a few at a time, and their records looked at without a lock.
//! * `standing`: how an entry fits its record.
//! * `background`: operations on all records that a query finds.
//! * `by_partition`: queries of wire clients; `bound`: what they ask of an index. `geometry`:
//!   entries of geometries.
//! * `sharded`: records with entries of their companions.
//! * `parallel`: a query by several threads.
//! * `records`: all records of a query, page by page.
//! * `page`: what a query returns; `cursor`: where a page has ended, as text.

mod background;
#[cfg(feature = "server")]
mod bound;
#[cfg(feature = "server")]
mod by_partition;
mod conditions;
mod cursor;
mod geometry;
mod page;
mod parallel;
mod records;
mod run;
mod saved_position;
mod sharded;
mod standing;

use std::ops::{ControlFlow, RangeBounds};
use std::sync::Arc;

use super::core::{NamespaceCore, ScannedRecord};
use super::indexes::Index;
use crate::expression::Expression;
use crate::record::{Key, Record};
use crate::setters::setters;
use crate::value::Value;
use crate::{Error, Result};
pub use background::{BackgroundOperation, BackgroundPolicy, BackgroundProgress, FailedRecord};
#[cfg(feature = "server")]
pub(crate) use bound::IndexBound;
#[cfg(feature = "server")]
pub(crate) use by_partition::{NextEntry, PartitionQuery, PartitionStart};
use conditions::{Conditions, QueryCondition};
pub use cursor::Cursor;
pub use page::{Explanation, Page, QueriedKey, QueriedRecord};
pub use records::QueryRecords;

/// A query by a secondary index ([`Set::query`](crate::Set::query)), or over all records of a set
/// ([`Set::query_all`](crate::Set::query_all)).
///
/// Conditions go to the components of the index in their order: [`Query::eq`] for the first ones,
/// then at most one range of the next. The rest is in the order of the index, or in the order of
/// digests without one.
///
/// A query reads each record when it meets it. It returns no record that does not fit, and misses
/// none that fitted all the time; of a record that is written meanwhile it sees one version or the
/// other. Nothing is held between pages, and no more than a page is held in memory.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::query::{Cursor, IndexDefinition};
/// let posts = spikelet::Store::in_memory()?.set("posts")?;
/// posts.create_index(IndexDefinition::new("by_author", ["author", "day"]))?;
/// for day in 1..=5 {
///     posts.put(day, spikelet::bins! { "author" => "ada", "day" => day })?;
/// }
/// // The latest two, then the next two, by a cursor that may have been with a client meanwhile.
/// let latest = posts.query("by_author")?.eq("ada").descending().limit(2);
/// let page = latest.clone().keys()?;
/// let token = page.cursor().expect("there are more").to_string();
/// let next = latest.after(&token.parse()?).records()?.into_records()?;
/// let days: Vec<_> = next.iter().map(|found| found.record.get("day").unwrap()).collect();
/// assert_eq!(days, [3.into(), 2.into()]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a query does nothing before it is asked for keys, records, or a count"]
pub struct Query {
    core: Arc<NamespaceCore>,
    source: QuerySource,
    /// `None`: of all sets; [`NO_SET`]: of one that was not there when the query was made. See
    /// [`Query::set_id`].
    set_id: Option<u16>,
    /// The name of that set; empty for all sets.
    set_name: Box<str>,
    conditions: Conditions,
    filter: Option<Expression>,
    descending: bool,
    limit: usize,
    after: Option<Cursor>,
    companions: bool,
    /// Shows a record at each of its geometries that matches, and not at the first of its entries
    /// alone.
    at_each: bool,
}

/// Stands for the number of a set that does not exist.
const NO_SET: u16 = u16::MAX;

/// A set that a query is of: its name, and its number if it exists.
type QueriedSet<'a> = (&'a str, Option<u16>);

/// Where records are found.
#[derive(Clone, Debug)]
enum QuerySource {
    Index(Arc<Index>),
    /// The primary index, in the order of digests.
    Primary,
}

impl Query {
    /// `set`: `None` for all sets.
    pub(super) fn by_index(
        core: &Arc<NamespaceCore>,
        name: &str,
        set: Option<QueriedSet<'_>>,
        filter: Option<&Expression>,
    ) -> Result<Self> {
        let index = core.readable_index(name)?;
        if set.is_some_and(|(_, id)| !index.is_of(id.unwrap_or(NO_SET))) {
            return Err(Error::IndexNotFound(name.into()));
        }
        if !index.definition.of_records {
            return Ok(Self::new(core, QuerySource::Index(index), set, filter));
        }
        let of_index = index.set.as_deref();
        let of_index = of_index.map(|name| (name, core.storage.set_id(name)));
        Ok(Self::over_all(core, set.or(of_index), filter))
    }

    /// `set`: as for [`Query::by_index`].
    pub(super) fn over_all(
        core: &Arc<NamespaceCore>,
        set: Option<QueriedSet<'_>>,
        filter: Option<&Expression>,
    ) -> Self {
        Self::new(core, QuerySource::Primary, set, filter)
    }

    fn new(
        core: &Arc<NamespaceCore>,
        source: QuerySource,
        set: Option<QueriedSet<'_>>,
        filter: Option<&Expression>,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            source,
            set_id: set.map(|(_, id)| id.unwrap_or(NO_SET)),
            set_name: set.map_or("", |(name, _)| name).into(),
            conditions: Conditions::default(),
            filter: filter.cloned(),
            descending: false,
            limit: usize::MAX,
            after: None,
            companions: false,
            at_each: false,
        }
    }

    /// The number of its set; `None`: of all sets. A set that was not there when the query was made
    /// may be by now.
    fn set_id(&self) -> Option<u16> {
        match self.set_id {
            Some(NO_SET) => self.core.storage.set_id(&self.set_name).or(self.set_id),
            known => known,
        }
    }

    /// The next component of the key is this value.
    pub fn eq(mut self, value: impl Into<Value>) -> Self {
        self.conditions.push(QueryCondition::Equal(value.into()));
        self
    }

    /// The next component is a value of this range, of the same type as its bounds. A range without
    /// bounds leaves it as it is.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// # let posts = spikelet::Store::in_memory()?.set("posts")?;
    /// # posts.create_index(spikelet::query::IndexDefinition::new("by_day", ["day"]))?;
    /// # posts.put(1, [("day", 3)])?;
    /// assert_eq!(posts.query("by_day")?.range(1..5).count()?, 1);
    /// assert_eq!(posts.query("by_day")?.range(1..3).count()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range<V: Into<Value> + Clone>(mut self, range: impl RangeBounds<V>) -> Self {
        let value = |bound: &V| bound.clone().into();
        let (start, end) = (range.start_bound().map(value), range.end_bound().map(value));
        self.conditions.push(QueryCondition::Range(start, end));
        self
    }

    /// The next component is this value or a greater one of its type.
    pub fn at_least(self, value: impl Into<Value>) -> Self {
        self.range(value.into()..)
    }

    /// The next component is this value or a smaller one of its type.
    pub fn at_most(self, value: impl Into<Value>) -> Self {
        self.range(..=value.into())
    }

    /// The next component is text, or bytes, that begin with these.
    pub fn begins_with(mut self, prefix: impl Into<Value>) -> Self {
        self.conditions.push(QueryCondition::Prefix(prefix.into()));
        self
    }

    /// The next component is a point in a region, both GeoJSON: a `Polygon`, `MultiPolygon` or
    /// `AeroCircle`. The component must be of
    /// [`IndexType::GeoJson`](crate::query::IndexType::GeoJson), and no condition may follow.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::Value;
    /// use spikelet::query::{IndexComponent, IndexDefinition, IndexType};
    /// let shops = spikelet::Store::in_memory()?.set("shops")?;
    /// let place = IndexComponent::bin("place").of_type(IndexType::GeoJson);
    /// shops.create_index(IndexDefinition::new("by_place", [place]))?;
    /// let graz = Value::GeoJson(r#"{"type":"Point","coordinates":[15.44,47.07]}"#.into());
    /// shops.put("bakery", [("place", graz)])?;
    /// let around = r#"{"type":"AeroCircle","coordinates":[[15.4,47.0],10000]}"#;
    /// assert_eq!(shops.query("by_place")?.within(around).count()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn within(mut self, region: &str) -> Self {
        self.conditions.push(QueryCondition::Within(region.into()));
        self
    }

    /// The next component is a region that contains a point, both GeoJSON: as [`Query::within`],
    /// the other way round.
    pub fn containing(mut self, point: &str) -> Self {
        self.conditions
            .push(QueryCondition::Containing(point.into()));
        self
    }

    setters! { in
        /// Returns only records for which this expression holds, in place of the set's filter.
        filter(filter: impl Into<Expression>) => filter = Some(filter.into()),
        /// Goes on where a page of the same query has ended.
        after(cursor: &Cursor) => after = Some(cursor.clone()),
    }

    setters! { in const
        /// Shows the records that hold shards of collections, too. Of a query over all records
        /// only: by an index, the root is shown for what they hold.
        with_companions() => companions = true,
        /// Goes from the end of the order to its beginning. By an index only.
        descending() => descending = true,
        /// Returns at most this many records. Without it, all of them: keep an eye on memory.
        limit(records: usize) => limit = records,
    }

    /// The keys of the records. Looks at the records, and copies nothing else of them.
    ///
    /// # Errors
    /// [`Error::Parameter`] for conditions that do not fit the index, a malformed filter, or a
    /// cursor of another query. A record that is damaged is an error in its place on the page.
    pub fn keys(&self) -> Result<Page<QueriedKey>> {
        self.page(|record| {
            Ok(QueriedKey {
                digest: record.digest,
                key: record.key().map(Key::into_owned),
            })
        })
    }

    /// The records with all their bins.
    ///
    /// # Errors
    /// As for [`Query::keys`].
    pub fn records(&self) -> Result<Page<QueriedRecord>> {
        self.page(|record| {
            Ok(QueriedRecord {
                digest: record.digest,
                record: record.to_record()?,
            })
        })
    }

    /// Returns the records one after the other, up to the limit: owned, and read page by page, so
    /// that they may be written meanwhile. [`Query::for_each`] lends them, which costs less.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// let users = spikelet::Store::in_memory()?.set("users")?;
    /// users.put("alice", [("age", 42)])?;
    /// for user in users.query_all().limit(10).iter() {
    ///     assert_eq!(user?.record.get("age"), Some(42.into()));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> QueryRecords {
        QueryRecords::new(self.clone())
    }

    /// The records with the wanted bins that they have.
    ///
    /// # Errors
    /// As for [`Query::keys`].
    pub fn bins(&self, bins: &[&str]) -> Result<Page<QueriedRecord>> {
        self.page(|record| {
            Ok(QueriedRecord {
                digest: record.digest,
                record: Record::with_bins(
                    record.metadata,
                    record.stored_key(),
                    record.view.as_bytes(),
                    bins,
                )?,
            })
        })
    }

    /// How many records there are, up to the limit. Looks at each of them.
    ///
    /// # Errors
    /// As for [`Query::keys`], and that of the first record that is damaged.
    pub fn count(&self) -> Result<u64> {
        let mut count = 0;
        let ended = self.for_each(|record| match record {
            Ok(_) => {
                count += 1;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        })?;
        ended.break_value().map_or(Ok(count), Err)
    }

    /// Lends the records to `each`, up to the limit, until it breaks off; returns what it breaks
    /// off with. Damaged records come as errors in their places. Keep `each` short: space cannot be
    /// used again while it runs.
    ///
    /// # Errors
    /// As for [`Query::keys`].
    pub fn for_each<B>(
        &self,
        mut each: impl FnMut(Result<ScannedRecord<'_>>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>> {
        let mut left = self.limit;
        if left == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        let ended = self.run(&mut |place, record| {
            left -= usize::from(place.is_some());
            match each(record) {
                ControlFlow::Break(broken) => ControlFlow::Break(Some(broken)),
                ControlFlow::Continue(()) if left == 0 => ControlFlow::Break(None),
                ControlFlow::Continue(()) => ControlFlow::Continue(()),
            }
        })?;
        Ok(match ended {
            ControlFlow::Break(Some(broken)) => ControlFlow::Break(broken),
            _ => ControlFlow::Continue(()),
        })
    }

    /// What the query will look at: for a person, and for tests that count.
    ///
    /// # Errors
    /// As for [`Query::keys`].
    pub fn explain(&self) -> Result<Explanation> {
        self.filter
            .as_ref()
            .map_or(Ok(()), |filter| filter.check())?;
        let (index, entries, components) = match &self.source {
            QuerySource::Index(index) => {
                let asked = self.conditions.selection(&index.definition)?;
                let rest = self.rest_of(index, asked.ranges)?;
                let entries = match self.set_id() {
                    Some(NO_SET) => 0,
                    _ => rest.count(&index.entries),
                };
                let name = index.name().as_ref().into();
                (
                    Some(name),
                    entries,
                    self.conditions.describe(&index.definition),
                )
            }
            QuerySource::Primary => {
                self.conditions.check_none()?;
                let entries = match self.set_id() {
                    Some(id) => self.core.storage.set_usage(id).0,
                    None => self.core.storage.sets().iter().map(|set| set.records).sum(),
                };
                (None, entries, Vec::new())
            }
        };
        Ok(Explanation {
            index,
            conditions: components,
            is_filtered: self.filter.is_some(),
            entries,
        })
    }
}
