//! Secondary indexes: declared, listed, forgotten.

use std::sync::Arc;

use super::{Answer, Ask, InfoError, Pairs};
use crate::Expression;
use crate::base64;
use crate::expression::ExpType;
use crate::record::MAX_SET_NAME_BYTES;
use crate::server::condition::read_operation;
use crate::server::index::{CannotDeclare, Definition, Index, IndexKind, IndexPart, IndexSubject};
use crate::server::operation::bin_name;
use crate::server::served::ServedNamespace;

/// The longest name of an index.
const NAME_BYTES_MAX: usize = 63;

/// The longest name of a namespace.
const NAMESPACE_BYTES_MAX: usize = 31;

/// The longest path or expression in base64.
const BASE64_BYTES_MAX: usize = 16 << 10;

/// The code of a namespace that is not there.
const NAMESPACE_NOT_FOUND: u8 = 20;
/// The code of a name that is taken.
const INDEX_FOUND: u8 = 200;
/// The code of an index that is not there.
const INDEX_NOT_FOUND: u8 = 201;
/// The code of too many indexes.
const TOO_MANY_INDEXES: u8 = 206;

/// `sindex-create:namespace=N;set=S;indexname=I;indextype=default|list|mapkeys|mapvalues;context=B64;bin=B;type=T`, with
/// `exp=B64` instead of a bin, or with `indexdata=B,T` of old clients; or
/// `sindex-create:namespace=N;set=S;indexname=I;indextype=set`.
pub(super) fn create(ask: &mut Ask<'_>) -> Answer {
    let name = required(ask, "indexname")?;
    let namespace = required(ask, "namespace")?;
    if name.len() > NAME_BYTES_MAX {
        return Err(InfoError::parameter("indexname: at most 63 bytes"));
    }
    if namespace.len() > NAMESPACE_BYTES_MAX {
        let text = format!("namespace {namespace}: at most 31 bytes");
        return Err(InfoError::new(NAMESPACE_NOT_FOUND, text));
    }
    let set = ask.parameter(&["set"]).unwrap_or_default();
    if set.len() > MAX_SET_NAME_BYTES {
        return Err(InfoError::parameter("set: at most 63 bytes"));
    }
    let part = match ask.parameter(&["indextype"]) {
        None => IndexPart::Whole,
        Some(part) => IndexPart::from_name(part).ok_or_else(|| {
            InfoError::parameter("indextype is one of default, list, mapkeys, mapvalues, set")
        })?,
    };
    let (definition, base64) = if part == IndexPart::Record {
        (of_records(ask, namespace, set)?, String::new())
    } else {
        of_values(ask, set, part)?
    };
    let index = Index {
        name: name.to_owned(),
        definition,
        base64,
    };
    let declared = match ask.served(namespace) {
        Some(served) => served.indexes.declare(index),
        None => ask
            .shared
            .elsewhere
            .of(namespace)
            .map_or(Err(CannotDeclare::TooMany), |indexes| {
                indexes.declare(index)
            }),
    };
    match declared {
        Ok(()) => Ok("ok".to_owned()),
        Err(CannotDeclare::NameTaken) => {
            let text = format!("index {name} exists with another definition");
            Err(InfoError::new(INDEX_FOUND, text))
        }
        Err(CannotDeclare::TooMany) => Err(InfoError::new(
            TOO_MANY_INDEXES,
            "there are as many indexes as there may be",
        )),
    }
}

/// An index of the records of a set.
fn of_records(ask: &Ask<'_>, namespace: &str, set: &str) -> Result<Definition, InfoError> {
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
    Ok(Definition {
        set: set.to_owned(),
        subject: IndexSubject::Record,
        part: IndexPart::Record,
        kind: None,
    })
}

/// An index of values, and the path or expression as it came.
fn of_values(ask: &Ask<'_>, set: &str, part: IndexPart) -> Result<(Definition, String), InfoError> {
    let (bin, kind) = match (ask.parameter(&["indexdata"]), ask.parameter(&["type"])) {
        (None, Some(kind)) => (ask.parameter(&["bin"]), kind),
        (Some(data), None) => {
            let both = data.split_once(',');
            let (bin, kind) = both.ok_or_else(|| InfoError::parameter("indexdata is BIN,TYPE"))?;
            (Some(bin), kind)
        }
        _ => return Err(InfoError::parameter("either type or indexdata is needed")),
    };
    let kind = IndexKind::from_name(kind).ok_or_else(|| {
        InfoError::parameter("the type is one of numeric, string, blob, geo2dsphere")
    })?;
    if part == IndexPart::Keys && kind == IndexKind::Geo {
        return Err(InfoError::parameter("keys of maps are no geometries"));
    }
    let (subject, base64) = subject(ask, bin, part, kind)?;
    let definition = Definition {
        set: set.to_owned(),
        subject,
        part,
        kind: Some(kind),
    };
    Ok((definition, base64))
}

/// What the index is of, and the path or expression as it came.
fn subject(
    ask: &Ask<'_>,
    bin: Option<&str>,
    part: IndexPart,
    kind: IndexKind,
) -> Result<(IndexSubject, String), InfoError> {
    let decoded = |name: &'static str| {
        let bytes = |text: &str| {
            let text = Some(text).filter(|text| text.len() <= BASE64_BYTES_MAX);
            text.and_then(|text| base64::decode(text.as_bytes()))
                .filter(|bytes| !bytes.is_empty())
        };
        match ask.parameter(&[name]) {
            None => Ok(None),
            Some(text) => bytes(text)
                .map(|bytes| Some((bytes.into_boxed_slice(), text.to_owned())))
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
            let (path, base64) = path.unwrap_or_default();
            let subject = IndexSubject::Bin { name, path };
            if read_operation(&subject).is_none() {
                return Err(InfoError::parameter("context: no path of contexts"));
            }
            Ok((subject, base64))
        }
        (None, Some((expression, base64)), None) => {
            let result = Expression::from_bytes(&expression)
                .and_then(|expression| expression.result_type())
                .map_err(|error| InfoError::parameter(format!("exp: {error}")))?;
            if result != Some(type_of(part, kind)) {
                return Err(InfoError::parameter(
                    "exp: its value is not of the index's type",
                ));
            }
            Ok((IndexSubject::Expression(expression), base64))
        }
        _ => Err(InfoError::parameter(
            "either a bin, perhaps with a context, or an expression is needed",
        )),
    }
}

/// The type that an expression must have so that an index can be of its value.
const fn type_of(part: IndexPart, kind: IndexKind) -> ExpType {
    match (part, kind) {
        (IndexPart::Elements, _) => ExpType::List,
        (IndexPart::Keys | IndexPart::Values, _) => ExpType::Map,
        (_, IndexKind::Numeric) => ExpType::Int,
        (_, IndexKind::String) => ExpType::String,
        (_, IndexKind::Blob) => ExpType::Blob,
        (_, IndexKind::Geo) => ExpType::Geo,
    }
}

/// `sindex-delete:namespace=N;indexname=I`.
pub(super) fn delete(ask: &mut Ask<'_>) -> Answer {
    let name = required(ask, "indexname")?;
    let namespace = required(ask, "namespace")?;
    match ask.served(namespace) {
        Some(served) => served.indexes.forget(name),
        None => ask.shared.elsewhere.forget(namespace, name),
    }
    Ok("ok".to_owned())
}

/// `sindex-exists:namespace=N;indexname=I`.
pub(super) fn exists(ask: &mut Ask<'_>) -> Answer {
    let name = required(ask, "indexname")?;
    let namespace = required(ask, "namespace")?;
    let found = known(ask, namespace)?.indexes.by_name(name).is_some();
    Ok(found.to_string())
}

/// `sindex-list`, `sindex-list:namespace=N`, `sindex/N`. `sindex/N/I` asks for one.
pub(super) fn list(ask: &mut Ask<'_>) -> Answer {
    let path = Some(ask.parameters).filter(|path| !path.is_empty() && !path.contains('='));
    if let Some((namespace, name)) = path.and_then(|path| path.split_once('/')) {
        return stat_of(ask, namespace, name);
    }
    let wanted = ask.namespace_name().or(path);
    if let Some(name) = wanted {
        known(ask, name)?;
    }
    let all = ask.shared.namespaces.iter();
    let listed: Vec<String> = all
        .map(|served| (served.namespace.name(), served))
        .filter(|(name, _)| wanted.is_none_or(|wanted| wanted == *name))
        .flat_map(|(name, served)| {
            let describe = |index: Arc<Index>| describe(name, &index);
            served.indexes.all().into_iter().map(describe)
        })
        .collect();
    Ok(listed.join(";"))
}

fn describe(namespace: &str, index: &Index) -> String {
    let definition = &index.definition;
    let or_null = |text: &str| if text.is_empty() { "null" } else { text }.to_owned();
    let base64 = or_null(&index.base64);
    let null = || "null".to_owned();
    let name = &index.name;
    let set = or_null(&definition.set);
    let part = definition.part.name();
    let (bin, context, expression) = match &definition.subject {
        IndexSubject::Bin { name, .. } => (name.as_str().to_owned(), base64, null()),
        IndexSubject::Expression(_) => (null(), null(), base64),
        IndexSubject::Record => {
            return format!("ns={namespace}:indexname={name}:set={set}:indextype={part}");
        }
    };
    let kind = definition.kind.map_or("null", IndexKind::name);
    format!(
        "ns={namespace}:indexname={name}:set={set}:bin={bin}:type={kind}:indextype={part}:context={context}:exp={expression}:state=RW"
    )
}

/// `sindex-stat:namespace=N;indexname=I`.
pub(super) fn stat(ask: &mut Ask<'_>) -> Answer {
    let (namespace, name) = match ask.parameters.split_once('/') {
        Some(both) => both,
        None => (required(ask, "namespace")?, required(ask, "indexname")?),
    };
    stat_of(ask, namespace, name)
}

/// An index holds nothing, and is complete. One of a set has as many entries as the set has records.
fn stat_of(ask: &Ask<'_>, namespace: &str, name: &str) -> Answer {
    let served = known(ask, namespace)?;
    let index = served
        .indexes
        .by_name(name)
        .ok_or_else(|| InfoError::new(INDEX_NOT_FOUND, "no index"))?;
    let mut pairs = Pairs::default();
    let definition = &index.definition;
    if definition.subject == IndexSubject::Record {
        let mut sets = served.namespace.sets().into_iter();
        let set = sets.find(|usage| usage.name == definition.set);
        pairs.add("entries", set.map_or(0, |usage| usage.records));
        pairs.add("used_bytes", 0);
        pairs.add("load_pct", 100);
        return Ok(pairs.0);
    }
    for key in [
        "entries",
        "used_bytes",
        "entries_per_bval",
        "entries_per_rec",
    ] {
        pairs.add(key, 0);
    }
    pairs.add("load_pct", 100);
    pairs.add("load_time", 0);
    pairs.add("stat_gc_recs", 0);
    Ok(pairs.0)
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
        .ok_or_else(|| InfoError::new(NAMESPACE_NOT_FOUND, format!("unknown namespace {name}")))
}
