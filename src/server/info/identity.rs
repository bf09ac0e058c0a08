//! Who this server is.

use super::edition::{BUILD, EDITION};
use super::{Ask, InfoAnswer, InfoError};
use crate::server::counter::Pairs;

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
