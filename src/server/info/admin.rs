//! Truncation, and commands about jobs.

use std::time::{Duration, SystemTime};

use super::{Ask, InfoAnswer, InfoError};
use crate::engine::declaration::is_own_set;
use crate::server::result_code;

/// `truncate:namespace=N;set=S;lut=NANOSECONDS`.
pub(super) fn truncate(ask: &mut Ask<'_>) -> InfoAnswer {
    match ask.parameter(&["set"]) {
        None | Some("") => Err(InfoError::parameter("missing set")),
        set => run_truncate(ask, set),
    }
}

/// `truncate-namespace:namespace=N;lut=NANOSECONDS`.
pub(super) fn truncate_all(ask: &mut Ask<'_>) -> InfoAnswer {
    match ask.parameter(&["set"]) {
        Some(_) => Err(InfoError::parameter("a set: use truncate")),
        None => run_truncate(ask, None),
    }
}

fn run_truncate(ask: &Ask<'_>, set: Option<&str>) -> InfoAnswer {
    let name = ask
        .namespace_name()
        .ok_or_else(|| InfoError::parameter("missing namespace"))?;
    if name.is_empty() {
        return Err(InfoError::new(
            result_code::NAMESPACE,
            "a namespace without a name",
        ));
    }
    let before = ask.parameter(&["lut"]).map(time_of).transpose()?;
    let ok = || Ok("ok".to_owned());
    // A namespace that does not exist has nothing to truncate.
    let Some(served) = ask.served(name) else {
        return ok();
    };
    // Rules, tokens, modules and transactions: what reads them relies on finding all of them.
    if let Some(own) = set.filter(|set| is_own_set(set)) {
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
    let named = ask.parameter(&["id", "trid"]);
    let only = named.map(job_id).transpose()?;
    let jobs = ask.shared.jobs.describe(only);
    if only.is_some() && jobs.is_empty() {
        return Err(no_job());
    }
    Ok(jobs.join(";"))
}

pub(super) fn query_abort(ask: &mut Ask<'_>) -> InfoAnswer {
    let named = ask.parameter(&["id", "trid"]);
    let id = named.ok_or_else(no_job).and_then(job_id)?;
    match ask.shared.jobs.abort(Some(id)) {
        0 => Err(no_job()),
        _ => Ok("ok".to_owned()),
    }
}

pub(super) fn query_abort_all(ask: &mut Ask<'_>) -> InfoAnswer {
    let count = ask.shared.jobs.abort(None);
    Ok(format!("number-of-queries-killed:{count}"))
}

fn job_id(text: &str) -> Result<u64, InfoError> {
    text.parse().map_err(|_| no_job())
}

fn no_job() -> InfoError {
    InfoError::new(result_code::NOT_FOUND, "job not found")
}
