//! Truncation, and commands about jobs.

use std::time::{Duration, SystemTime};

use super::{Ask, InfoAnswer, InfoError};
use crate::server::result_code;

/// Sets of the store itself have names that begin so.
const OWN_SETS_BEGIN: char = '<';

/// `truncate:namespace=N;set=S;lut=NANOSECONDS`.
pub(super) fn truncate(ask: &mut Ask<'_>) -> InfoAnswer {
    let Some(set) = ask.parameter(&["set"]).filter(|set| !set.is_empty()) else {
        return Err(InfoError::parameter("missing set"));
    };
    run_truncate(ask, Some(set))
}

/// `truncate-namespace:namespace=N;lut=NANOSECONDS`.
pub(super) fn truncate_namespace(ask: &mut Ask<'_>) -> InfoAnswer {
    if ask.parameter(&["set"]).is_some() {
        return Err(InfoError::parameter("a set: use truncate"));
    }
    run_truncate(ask, None)
}

fn run_truncate(ask: &Ask<'_>, set: Option<&str>) -> InfoAnswer {
    let name = ask
        .namespace_name()
        .ok_or_else(|| InfoError::parameter("missing namespace"))?;
    if name.is_empty() {
        return Err(InfoError::new(20, "a namespace without a name"));
    }
    let before = ask.parameter(&["lut"]).map(time_of).transpose()?;
    let ok = || Ok("ok".to_owned());
    // A namespace that does not exist has nothing to truncate.
    let Some(served) = ask.served(name) else {
        return ok();
    };
    // Rules, tokens, modules and transactions: what reads them relies on finding all of them.
    if let Some(own) = set.filter(|set| set.starts_with(OWN_SETS_BEGIN)) {
        let text = format!("set \"{own}\" is the store's own and not truncated by itself");
        return Err(InfoError::new(result_code::FORBIDDEN, text));
    }
    match set {
        Some(set) => drop(served.namespace.set(set)?.truncate(before)?),
        None => {
            served.namespace.truncate(before)?;
            ask.shared.functions.modules.store_again()?;
        }
    }
    ok()
}

/// A time in nanoseconds since 1970.
fn time_of(text: &str) -> Result<SystemTime, InfoError> {
    let bad = || InfoError::parameter("bad lut: nanoseconds since 1970 are expected");
    let nanos = text.parse().map_err(|_| bad())?;
    SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_nanos(nanos))
        .ok_or_else(bad)
}

/// All jobs, or the one that is named.
pub(super) fn jobs(ask: &mut Ask<'_>) -> InfoAnswer {
    if ask.parameter(&["id", "trid"]).is_none() {
        return Ok(ask.shared.jobs.describe_all());
    }
    job_id(ask)
        .and_then(|id| ask.shared.jobs.describe(id))
        .ok_or_else(no_job)
}

pub(super) fn query_abort(ask: &mut Ask<'_>) -> InfoAnswer {
    match job_id(ask) {
        Some(id) if ask.shared.jobs.abort(id) => Ok("ok".to_owned()),
        _ => Err(no_job()),
    }
}

pub(super) fn query_abort_all(ask: &mut Ask<'_>) -> InfoAnswer {
    let count = ask.shared.jobs.abort_all();
    Ok(format!("number-of-queries-killed:{count}"))
}

fn job_id(ask: &Ask<'_>) -> Option<u64> {
    ask.parameter(&["id", "trid"])?.parse().ok()
}

fn no_job() -> InfoError {
    InfoError::new(2, "job not found")
}
