//! The changes that a namespace keeps, piece by piece: `/changes.json`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::answers::{json, query_pairs};
use super::sampler::unix_ms;
use crate::changes::{Change, ChangeKind, ChangeOptions, Changes, Delivery, Start};
use crate::http::{HttpRequest, PROGRAM_HEADER, Response};
use crate::storage::SetUsage;
use crate::{Error, Key, Namespace, Result, Store};

/// The most changes of an answer, and how many it has if the query does not say.
const CHANGES_MAX: usize = 1_000;

/// Some changes of a namespace, in order: the form of `/changes.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChangesSnapshot {
    /// The namespace.
    pub namespace: String,
    /// The changes, with whole groups. Empty: there are no more now.
    pub changes: Vec<ChangeSnapshot>,
    /// Up to where the changes have been read: `after` of the next request.
    pub position: String,
    /// The number of the latest change of the namespace: as far as `position` may come now.
    pub latest: u64,
    /// The sets that have records and keep no changes, so that none of theirs are here.
    pub silent_sets: Vec<String>,
}

/// A change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChangeSnapshot {
    /// Its place among all changes of the namespace.
    pub position: String,
    /// Changes committed together have the same number.
    pub group: Option<u64>,
    /// The set; empty: none. `None`: a truncation of all sets.
    pub set: Option<String>,
    /// The digest of the record. `None` for a truncation.
    pub digest: Option<String>,
    /// The user key. `None` where the record does not store it, for a truncation, and for the edit
    /// of a large record that is gone since.
    pub key: Option<KeySnapshot>,
    /// `put`, `delete`, `expire` or `truncate`.
    pub kind: String,
    /// The generation that the change has given the record; 0 for what removes records.
    pub generation: u16,
    /// When it happened, in milliseconds since 1970. `None` for a truncation.
    pub last_update_ms: Option<u64>,
    /// Of a truncation: only records last updated before, in milliseconds since 1970.
    pub before_ms: Option<u64>,
}

/// A user key: a number, a text, or `{"hex": ".."}` for bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeySnapshot {
    /// An integer key.
    Integer(i64),
    /// A string key.
    String(String),
    /// A blob key.
    Blob {
        /// Its bytes, as hexadecimal digits.
        hex: String,
    },
}

impl From<&Key<'_>> for KeySnapshot {
    fn from(key: &Key<'_>) -> Self {
        match key {
            Key::Integer(number) => Self::Integer(*number),
            Key::String(text) => Self::String(text.to_string()),
            Key::Blob(bytes) => Self::Blob {
                hex: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            },
        }
    }
}

impl From<&Change> for ChangeSnapshot {
    fn from(change: &Change) -> Self {
        let (kind, before) = match change.kind {
            ChangeKind::Put => ("put", None),
            ChangeKind::Delete => ("delete", None),
            ChangeKind::Expire => ("expire", None),
            ChangeKind::Truncate { before } => ("truncate", before),
        };
        let is_truncation = matches!(change.kind, ChangeKind::Truncate { .. });
        Self {
            position: change.position.to_string(),
            group: change.group,
            set: change.set.as_deref().map(str::to_owned),
            digest: (!is_truncation).then(|| change.digest.to_string()),
            key: change.key.as_ref().map(KeySnapshot::from),
            kind: kind.to_owned(),
            generation: change.generation,
            last_update_ms: change.last_update.map(unix_ms),
            before_ms: before.map(unix_ms),
        }
    }
}

/// The parameters of the request.
#[derive(Debug, Default, PartialEq, Eq)]
struct ChangesQuery {
    namespace: Option<String>,
    sets: Vec<String>,
    after: Option<String>,
    most: Option<usize>,
    /// The subscription that is to keep the changes behind `after`, or from now on.
    hold: Option<String>,
    /// The subscription that is not needed any more.
    release: Option<String>,
}

impl ChangesQuery {
    fn parse(text: &str) -> Result<Self> {
        let mut query = Self::default();
        for pair in query_pairs(text) {
            let (name, value) = pair?;
            match name {
                "namespace" => query.namespace = Some(value),
                "set" => query.sets.push(value),
                "after" => query.after = Some(value),
                "hold" => query.hold = Some(value),
                "release" => query.release = Some(value),
                "most" => {
                    let most = value.parse().ok();
                    let is_allowed = |most: &usize| (1..=CHANGES_MAX).contains(most);
                    query.most = Some(most.filter(is_allowed).ok_or_else(|| {
                        Error::parameter(format!("most=\"{value}\": 1 to {CHANGES_MAX} is"))
                    })?);
                }
                _ => {
                    return Err(Error::parameter(format!(
                        "\"{name}\" is not asked for here: namespace, set, after, most, hold and release are"
                    )));
                }
            }
        }
        Ok(query)
    }
}

/// Answers a request by its query: `namespace`, any number of `set`, `after`, `most`; and `hold` and
/// `release`, if subscriptions may be made.
pub(super) fn answer(store: &Store, request: &HttpRequest<'_>, may_subscribe: bool) -> Response {
    let read = ChangesQuery::parse(request.query).and_then(|query| {
        let subscribes = query.hold.is_some() || query.release.is_some();
        if subscribes && !may_subscribe {
            return Err(Error::parameter(
                "this monitor keeps no changes for others: MonitorBuilder::serve_records has it do so, or `spikelet serve --monitor-records`",
            ));
        }
        if subscribes && !request.is_of_program {
            return Err(Error::parameter(format!(
                "hold and release need a header {PROGRAM_HEADER}, which a page of another site cannot send"
            )));
        }
        read(store, &query)
    });
    read.map_or_else(|error| Response::from(&error), |read| json(&read))
}

fn read(store: &Store, query: &ChangesQuery) -> Result<ChangesSnapshot> {
    let namespace = namespace_of(store, query.namespace.as_deref())?;
    let changes = namespace.changes();
    if changes.sets().is_empty() {
        return Err(Error::parameter(format!(
            "no set of namespace {} keeps its changes: have that done by Changes::enable, or `spikelet serve --keep-changes SET`",
            namespace.name()
        )));
    }
    let start = match &query.after {
        Some(position) => Start::After(position.parse()?),
        None if query.hold.is_some() => Start::Now,
        None => Start::Beginning,
    };
    let options = ChangeOptions::default().delivery(Delivery::Published);
    if let Some(name) = &query.hold {
        hold(&changes, name, start, &options)?;
    }
    if let Some(name) = &query.release {
        changes.unsubscribe(name)?;
    }
    let options = query
        .sets
        .iter()
        .fold(options, |options, set| options.set(set));
    let kept = changes.sets();
    let is_silent =
        |set: &SetUsage| set.records > 0 && !kept.iter().any(|kept| **kept == *set.name);
    let silent = namespace.sets().into_iter().filter(is_silent);
    let silent_sets = silent.map(|set| set.name).collect();
    // Before they are read, so that a client that has read to the end has missed no change.
    let latest = namespace.last_lsn().get();
    let mut stream = changes.read(start, options)?;
    let batch = stream.next_batch(query.most.unwrap_or(CHANGES_MAX), Duration::ZERO)?;
    Ok(ChangesSnapshot {
        namespace: namespace.name().to_owned(),
        changes: batch.iter().map(ChangeSnapshot::from).collect(),
        position: batch.position().to_string(),
        latest,
        silent_sets,
    })
}

/// Has a subscription keep the changes behind `start`, and none before it.
fn hold(changes: &Changes, name: &str, start: Start, options: &ChangeOptions) -> Result<()> {
    let subscription = changes.subscribe(name, start, options.clone())?;
    let Start::After(position) = start else {
        return Ok(());
    };
    let mut known = changes.subscriptions().into_iter();
    let acknowledged = known.find(|known| &*known.name == name);
    // Each acknowledgement is a write.
    if acknowledged.is_some_and(|known| known.acknowledged.iter().any(|at| *at < position.lsn())) {
        subscription.consumer()?.seek(start)?;
    }
    Ok(())
}

pub(super) fn namespace_of(store: &Store, name: Option<&str>) -> Result<Namespace> {
    if let Some(name) = name {
        return store.namespace(name);
    }
    match store.namespaces().as_slice() {
        [only] => Ok(only.clone()),
        several => {
            let names: Vec<&str> = several.iter().map(Namespace::name).collect();
            Err(Error::parameter(format!(
                "the store has the namespaces {}: say which",
                names.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_strictly() {
        let read =
            ChangesQuery::parse("set=a%20b&after=1207.1&set=%C3%A9&most=5&namespace=test").unwrap();
        let expected = ChangesQuery {
            namespace: Some("test".into()),
            sets: vec!["a b".into(), "é".into()],
            after: Some("1207.1".into()),
            most: Some(5),
            ..ChangesQuery::default()
        };
        assert_eq!(read, expected);
        assert_eq!(ChangesQuery::parse("").unwrap(), ChangesQuery::default());
        for text in ["most=0", "most=1001", "most=x", "set=%ff", "from=1", "most"] {
            assert!(ChangesQuery::parse(text).is_err(), "{text}");
        }
    }
}
