//! Secondary indexes: declared, listed, forgotten.

use spikelet_storage::{NAMESPACE_BYTES_MAX, PARTITIONS};

use super::{Ask, InfoAnswer, InfoError};
use crate::Error;
use crate::base64;
use crate::engine::{Index, IndexState};
use crate::index::{CLIENT_PARTS, CLIENT_TYPES, IndexPart, IndexSource};
use crate::query::IndexDefinition;
use crate::record::MAX_SET_NAME_BYTES;
use crate::server::counters::Pairs;
use crate::server::index::{component_of, type_of_name};
use crate::server::operation::bin_name;
use crate::server::result_code;
use crate::server::served::ServedNamespace;

/// The longest name of an index.
const NAME_BYTES_MAX: usize = 63;

/// The longest path or expression in base64.
const BASE64_BYTES_MAX: usize = 16 << 10;

/// The type of an index of a set's records.
const SET_INDEX: &str = "set";

/// `sindex-create:namespace=N;set=S;indexname=I;indextype=default|list|mapkeys|mapvalues;context=B64;bin=B;type=T`,
/// with `exp=B64` instead of a bin, or with `indexdata=B,T` of old clients; or
/// `sindex-create:namespace=N;set=S;indexname=I;indextype=set`.
pub(super) fn create(ask: &mut Ask<'_>) -> InfoAnswer {
    let name = required(ask, "indexname")?;
    let namespace = required(ask, "namespace")?;
    if name.len() > NAME_BYTES_MAX {
        return Err(InfoError::parameter("indexname: at most 63 bytes"));
    }
    if namespace.len() > NAMESPACE_BYTES_MAX {
        let text = format!("namespace {namespace}: at most {NAMESPACE_BYTES_MAX} bytes");
        return Err(InfoError::new(result_code::NAMESPACE, text));
    }
    let set = ask.parameter(&["set"]).unwrap_or_default();
    if set.len() > MAX_SET_NAME_BYTES {
        return Err(InfoError::parameter("set: at most 63 bytes"));
    }
    let definition = match ask.parameter(&["indextype"]) {
        None => of_values(ask, name, IndexPart::Whole)?,
        Some(part) if part.eq_ignore_ascii_case(SET_INDEX) => {
            of_records(ask, name, namespace, set)?
        }
        Some(part) => {
            let part = CLIENT_PARTS.by_name(part).ok_or_else(|| {
                InfoError::parameter("indextype is one of default, list, mapkeys, mapvalues, set")
            })?;
            of_values(ask, name, part)?
        }
    };
    let is_declared = match ask.served(namespace) {
        Some(served) => declare(served, set, definition)?,
        None => ask.shared.elsewhere.declare(namespace, set, definition),
    };
    is_declared.then(|| "ok".to_owned()).ok_or_else(|| {
        let text = format!("index {name} exists with another definition");
        InfoError::new(result_code::INDEX_FOUND, text)
    })
}

/// False: one of another definition has the name.
fn declare(
    served: &ServedNamespace,
    set: &str,
    definition: IndexDefinition,
) -> Result<bool, InfoError> {
    let name = definition.name().to_owned();
    let set = Some(set).filter(|set| !set.is_empty());
    match served.namespace.declare_index(set, definition) {
        Ok(None) => Ok(true),
        Ok(Some(build)) => {
            served.builds.begin(&name, build);
            Ok(true)
        }
        Err(Error::IndexExists(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// An index of the records of a set.
fn of_records(
    ask: &Ask<'_>,
    index: &str,
    namespace: &str,
    set: &str,
) -> Result<IndexDefinition, InfoError> {
    for name in ["context", "indexdata", "type", "bin", "exp"] {
        if ask.parameter(&[name]).is_some() {
            let text = format!("{name}: an index of a set has none");
            return Err(InfoError::parameter(text));
        }
    }
    if set.is_empty() {
        return Err(InfoError::parameter("missing set"));
    }
    if ask.served(namespace).is_none() {
        return Err(InfoError::parameter(format!(
            "unknown namespace {namespace}"
        )));
    }
    let definition = IndexDefinition::of_records(index);
    definition.check_usable().map_err(InfoError::parameter)?;
    Ok(definition)
}

/// An index of values.
fn of_values(ask: &Ask<'_>, name: &str, part: IndexPart) -> Result<IndexDefinition, InfoError> {
    let (bin, kind) = match (ask.parameter(&["indexdata"]), ask.parameter(&["type"])) {
        (None, Some(kind)) => (ask.parameter(&["bin"]), kind),
        (Some(data), None) => {
            let both = data.split_once(',');
            let (bin, kind) = both.ok_or_else(|| InfoError::parameter("indexdata is BIN,TYPE"))?;
            (Some(bin), kind)
        }
        _ => return Err(InfoError::parameter("either type or indexdata is needed")),
    };
    let kind = type_of_name(kind).ok_or_else(|| {
        InfoError::parameter("the type is one of numeric, string, blob, geo2dsphere")
    })?;
    IndexDefinition::of_client(name, source(ask, bin)?, part, kind).map_err(InfoError::parameter)
}

/// Where the values are found.
fn source(ask: &Ask<'_>, bin: Option<&str>) -> Result<IndexSource, InfoError> {
    let decoded = |name: &'static str| {
        let bytes = |text: &str| {
            let text = Some(text).filter(|text| text.len() <= BASE64_BYTES_MAX);
            text.and_then(|text| base64::decode(text.as_bytes()))
                .filter(|bytes| !bytes.is_empty())
        };
        match ask.parameter(&[name]) {
            None => Ok(None),
            Some(text) => bytes(text)
                .map(|bytes| Some(bytes.into_boxed_slice()))
                .ok_or_else(|| InfoError::parameter(format!("{name}: bad base64"))),
        }
    };
    match (bin, decoded("exp")?, decoded("context")?) {
        (Some(bin), None, path) => {
            let bad = || InfoError::parameter("bin: 1 to 15 bytes are expected");
            let name = bin_name(bin.as_bytes()).map_err(|_| bad())?;
            if name.as_str().is_empty() {
                return Err(bad());
            }
            Ok(IndexSource::Bin {
                name: name.as_str().into(),
                path: path.unwrap_or_default(),
            })
        }
        (None, Some(expression), None) => Ok(IndexSource::Expression(expression)),
        _ => Err(InfoError::parameter(
            "either a bin, perhaps with a context, or an expression is needed",
        )),
    }
}

/// `sindex-delete:namespace=N;indexname=I`.
pub(super) fn delete(ask: &mut Ask<'_>) -> InfoAnswer {
    let name = required(ask, "indexname")?;
    let namespace = required(ask, "namespace")?;
    match ask.served(namespace).map(|served| &served.namespace) {
        None => ask.shared.elsewhere.forget(namespace, name),
        Some(namespace) => match namespace.drop_index(name) {
            Ok(()) | Err(Error::IndexNotFound(_)) => {}
            Err(error) => return Err(error.into()),
        },
    }
    Ok("ok".to_owned())
}

/// `sindex-exists:namespace=N;indexname=I`.
pub(super) fn exists(ask: &mut Ask<'_>) -> InfoAnswer {
    let name = required(ask, "indexname")?;
    let namespace = required(ask, "namespace")?;
    let found = known(ask, namespace)?
        .namespace
        .index_by_name(name)
        .is_some();
    Ok(found.to_string())
}

/// `sindex-list`, `sindex-list:namespace=N`, `sindex/N`. `sindex/N/I` asks for one.
pub(super) fn list(ask: &mut Ask<'_>) -> InfoAnswer {
    let path = Some(ask.parameters).filter(|path| !path.is_empty() && !path.contains('='));
    if let Some((namespace, name)) = path.and_then(|path| path.split_once('/')) {
        return stat_of(ask, namespace, name);
    }
    let wanted = ask.namespace_name().or(path);
    if let Some(name) = wanted {
        known(ask, name)?;
    }
    let mut listed = Vec::new();
    for served in &ask.shared.namespaces {
        let name = served.namespace.name();
        if wanted.is_none_or(|wanted| wanted == name) {
            let all = served.namespace.all_indexes();
            listed.extend(all.iter().filter_map(|index| describe(name, index)));
        }
    }
    Ok(listed.join(";"))
}

/// `None`: clients cannot ask by it.
fn describe(namespace: &str, index: &Index) -> Option<String> {
    let definition = index.definition();
    let name = definition.name();
    let set = Some(index.set_name())
        .filter(|set| !set.is_empty())
        .unwrap_or("null");
    if definition.of_records {
        return Some(format!(
            "ns={namespace}:indexname={name}:set={set}:indextype={SET_INDEX}"
        ));
    }
    let component = component_of(&definition)?;
    let null = || "null".to_owned();
    let (bin, context, expression) = match &component.source {
        IndexSource::Bin { name, path } if path.is_empty() => (name.to_string(), null(), null()),
        IndexSource::Bin { name, path } => (name.to_string(), base64::encode(path), null()),
        IndexSource::Expression(bytes) => (null(), null(), base64::encode(bytes)),
    };
    let kind = component.kind.and_then(|kind| CLIENT_TYPES.name(kind));
    let kind = kind.unwrap_or("null");
    let part = CLIENT_PARTS.name(component.part).unwrap_or("default");
    let state = match index.state() {
        IndexState::Ready => "RW",
        IndexState::Building => "WO",
        IndexState::Dropped => "ERROR",
    };
    Some(format!(
        "ns={namespace}:indexname={name}:set={set}:bin={bin}:type={kind}:indextype={part}:context={context}:exp={expression}:state={state}"
    ))
}

/// `sindex-stat:namespace=N;indexname=I`.
pub(super) fn stat(ask: &mut Ask<'_>) -> InfoAnswer {
    let (namespace, name) = match ask.parameters.split_once('/') {
        Some(both) => both,
        None => (required(ask, "namespace")?, required(ask, "indexname")?),
    };
    stat_of(ask, namespace, name)
}

/// One of a set has as many entries as the set has records.
fn stat_of(ask: &Ask<'_>, namespace: &str, name: &str) -> InfoAnswer {
    let served = known(ask, namespace)?;
    let failure = served.builds.failure(name);
    let index = served.namespace.index_by_name(name).ok_or_else(|| {
        let why = failure.map(|why| format!(": its build has failed: {why}"));
        InfoError::new(
            result_code::INDEX_NOT_FOUND,
            format!("no index{}", why.unwrap_or_default()),
        )
    })?;
    let stats = index.stats();
    let load_pct = match index.state() {
        IndexState::Ready => 100,
        _ => (stats.partitions_built * 100 / PARTITIONS as u64).min(99),
    };
    let mut pairs = Pairs::default();
    if index.definition().of_records {
        let mut sets = served.namespace.sets().into_iter();
        let set = sets.find(|usage| usage.name == index.set_name());
        pairs.add("entries", set.map_or(0, |usage| usage.records));
        pairs.add("used_bytes", 0);
        pairs.add("load_pct", load_pct);
        return Ok(pairs.text());
    }
    let per_key = stats.entries.checked_div(stats.distinct_keys).unwrap_or(0);
    let per_record = served.namespace.entries_per_record(&index).round();
    pairs.add("entries", stats.entries);
    pairs.add("used_bytes", stats.memory_bytes);
    pairs.add("entries_per_bval", per_key);
    pairs.add("entries_per_rec", per_record);
    pairs.add("load_pct", load_pct);
    pairs.add("load_time", stats.build_ms.div_ceil(1000));
    pairs.add("stat_gc_recs", stats.cleaned);
    Ok(pairs.text())
}

fn required<'a>(ask: &Ask<'a>, name: &'static str) -> Result<&'a str, InfoError> {
    let value = match name {
        "namespace" => ask.namespace_name(),
        other => ask.parameter(&[other]),
    };
    value
        .filter(|value| !value.is_empty())
        .ok_or_else(|| InfoError::parameter(format!("missing {name}")))
}

fn known<'a>(ask: &Ask<'a>, name: &str) -> Result<&'a ServedNamespace, InfoError> {
    ask.served(name)
        .ok_or_else(|| InfoError::new(result_code::NAMESPACE, format!("unknown namespace {name}")))
}
