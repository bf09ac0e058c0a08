//! Secondary indexes: declared, listed, forgotten.

use std::sync::Arc;

use super::{Answer, Ask, InfoError, Pairs};
use crate::base64;
use crate::expression::ExpType;
use crate::server::condition::read_operation;
use crate::server::index::{CannotDeclare, Definition, Index, IndexKind, IndexPart, IndexSubject};
use crate::server::operation::bin_name;
use crate::server::served::Served;
use crate::{Expression, MAX_SET_NAME_BYTES};

/// The longest name of an index.
const NAME_BYTES_MAX: usize = 63;

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
/// `exp=B64` instead of a bin, or with `indexdata=B,T` of old clients.
pub(super) fn create(ask: &mut Ask<'_>) -> Answer {
    let name = required(ask, "indexname")?;
    let served = namespace(ask)?;
    if name.len() > NAME_BYTES_MAX {
        return Err(InfoError::parameter("indexname: at most 63 bytes"));
    }
    let set = ask.parameter(&["set"]).unwrap_or_default();
    if set.len() > MAX_SET_NAME_BYTES {
        return Err(InfoError::parameter("set: at most 63 bytes"));
    }
    let part = match ask.parameter(&["indextype"]) {
        None => IndexPart::Whole,
        Some(part) => IndexPart::from_name(part).ok_or_else(|| {
            InfoError::parameter("indextype is one of default, list, mapkeys, mapvalues")
        })?,
    };
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
    let declared = served.indexes.declare(Index {
        name: name.to_owned(),
        definition: Definition {
            set: set.to_owned(),
            subject,
            part,
            kind,
        },
        base64,
    });
    match declared {
        Ok(()) => Ok("ok".to_owned()),
        Err(CannotDeclare::NameTaken) => {
            let text = format!("index {name} exists with another definition");
            Err(InfoError::new(INDEX_FOUND, text))
        }
        Err(CannotDeclare::TooMany) => Err(InfoError::new(
            TOO_MANY_INDEXES,
            "the namespace has its 256 indexes",
        )),
    }
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
        (IndexPart::Whole, IndexKind::Numeric) => ExpType::Int,
        (IndexPart::Whole, IndexKind::String) => ExpType::String,
        (IndexPart::Whole, IndexKind::Blob) => ExpType::Blob,
        (IndexPart::Whole, IndexKind::Geo) => ExpType::Geo,
    }
}

/// `sindex-delete:namespace=N;indexname=I`.
pub(super) fn delete(ask: &mut Ask<'_>) -> Answer {
    let name = required(ask, "indexname")?;
    namespace(ask)?.indexes.forget(name);
    Ok("ok".to_owned())
}

/// `sindex-exists:namespace=N;indexname=I`.
pub(super) fn exists(ask: &mut Ask<'_>) -> Answer {
    let name = required(ask, "indexname")?;
    let found = namespace(ask)?.indexes.by_name(name).is_some();
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
    let (bin, context, expression) = match &definition.subject {
        IndexSubject::Bin { name, .. } => (name.as_str().to_owned(), base64, null()),
        IndexSubject::Expression(_) => (null(), null(), base64),
    };
    format!(
        "ns={namespace}:indexname={}:set={}:bin={bin}:type={}:indextype={}:context={context}:exp={expression}:state=RW",
        index.name,
        or_null(&definition.set),
        definition.kind.name(),
        definition.part.name(),
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

/// An index holds nothing, and is complete.
fn stat_of(ask: &Ask<'_>, namespace: &str, name: &str) -> Answer {
    if known(ask, namespace)?.indexes.by_name(name).is_none() {
        return Err(InfoError::new(INDEX_NOT_FOUND, "no index"));
    }
    let mut pairs = Pairs::default();
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

/// The namespace that is named, and must be.
fn namespace<'a>(ask: &Ask<'a>) -> Result<&'a Served, InfoError> {
    known(ask, required(ask, "namespace")?)
}

fn known<'a>(ask: &Ask<'a>, name: &str) -> Result<&'a Served, InfoError> {
    ask.served(name)
        .ok_or_else(|| InfoError::new(NAMESPACE_NOT_FOUND, format!("unknown namespace {name}")))
}
