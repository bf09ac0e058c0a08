//! Who this server is, and which edition and version of Aerospike it says it is.

use super::{Ask, InfoAnswer, InfoError};
use crate::server::counters::Pairs;

/// The version of Aerospike whose dialect is spoken: clients choose by it what they send.
pub(crate) const BUILD: &str = "8.1.2.0";

pub(super) const EDITION: &str = "Aerospike Community Edition";

/// What clients before the days of versions ask for.
pub(super) const FEATURES: &str = "batch-any;batch-index;blob-bits;cdt-index;cdt-list;cdt-map;cluster-stable;float;geo;sindex-exists;peers;pipelining;pquery;pscans;query-show;relaxed-sc;replicas;replicas-all;replicas-master;replicas-max;truncate-namespace;udf";

/// The longest description of a client, in bytes.
const USER_AGENT_BYTES_MAX: usize = 64;

pub(super) fn version(_: &mut Ask<'_>) -> InfoAnswer {
    Ok(format!("{EDITION} build {BUILD}"))
}

pub(super) fn release(_: &mut Ask<'_>) -> InfoAnswer {
    let mut pairs = Pairs::default();
    pairs.add("edition", EDITION);
    pairs.add("version", BUILD);
    pairs.add("os", std::env::consts::OS);
    pairs.add("arch", std::env::consts::ARCH);
    pairs.add("server", concat!("spikelet-", env!("CARGO_PKG_VERSION")));
    Ok(pairs.text())
}

pub(super) fn connection(ask: &mut Ask<'_>) -> InfoAnswer {
    let mut pairs = Pairs::default();
    pairs.add("local", ask.session.local);
    pairs.add("peer", &ask.session.peer);
    pairs.add(
        "user-agent",
        ask.session.user_agent.as_deref().unwrap_or("unknown"),
    );
    Ok(pairs.text())
}

/// There is one sink, the standard error of the process.
pub(super) fn log(ask: &mut Ask<'_>) -> InfoAnswer {
    match ask.parameters {
        "0" => Ok("any:INFO".to_owned()),
        _ => Err(InfoError::parameter("bad id")),
    }
}

pub(super) fn user_agent_set(ask: &mut Ask<'_>) -> InfoAnswer {
    let Some(agent) = ask.parameter(&["value"]) else {
        return Err(InfoError::parameter("missing value"));
    };
    if ask.session.user_agent.is_some() {
        return Err(InfoError::parameter("already set"));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    // Four letters of base64 stand for three bytes.
    if agent.len() > USER_AGENT_BYTES_MAX.div_ceil(3) * 4 || !agent.bytes().all(plain) {
        return Err(InfoError::parameter("bad value"));
    }
    ask.session.user_agent = Some(agent.to_owned());
    Ok("ok".to_owned())
}
