//! How the server and its namespaces are kept.

use std::str::FromStr;

use super::{Ask, InfoAnswer, InfoError, Pairs};
use crate::Durability;
use crate::server::config::pending_limit;
use crate::server::served::ServedNamespace;
use crate::server::shared::{LiveLimits, ServerShared};
use crate::server::transaction::table::DEFAULT_DURATION;
use spikelet_storage::Storage;

/// `get-config:context=service|network|namespace|logging|security`.
pub(super) fn get(ask: &mut Ask<'_>) -> InfoAnswer {
    let mut pairs = Pairs::default();
    match ask.parameter(&["context"]) {
        Some("namespace") => {
            let name = ask
                .namespace_name()
                .ok_or_else(|| InfoError::parameter("missing namespace"))?;
            let served = ask
                .served(name)
                .ok_or_else(|| InfoError::parameter("unknown namespace"))?;
            add_namespace_config(served, &mut pairs);
        }
        Some("service") => add_service_config(ask.shared, &mut pairs),
        Some("network") => add_network_config(ask, &mut pairs),
        Some("logging" | "security") => {}
        None if ask.parameters.is_empty() => {
            add_service_config(ask.shared, &mut pairs);
            add_network_config(ask, &mut pairs);
        }
        _ => return Err(InfoError::parameter("bad context")),
    }
    Ok(pairs.0)
}

/// A limit that can be changed while the server runs. All of them are of the context `service`.
#[derive(Clone, Copy, Debug)]
enum LimitChange {
    BatchRows(u32),
    IdleTimeoutMs(u64),
    Connections(usize),
}

/// The names of what [`LimitChange`] changes.
const CHANGEABLE: &str =
    "batch-max-requests, proto-fd-idle-ms and proto-fd-max of the context service";

impl LimitChange {
    fn of(name: &str, value: &str) -> Result<Self, InfoError> {
        match name {
            "batch-max-requests" => number(name, value).map(Self::BatchRows),
            "proto-fd-idle-ms" => number(name, value).map(Self::IdleTimeoutMs),
            "proto-fd-max" => match number(name, value)? {
                0 => Err(InfoError::parameter(
                    "bad value: proto-fd-max=0 would leave nobody a connection",
                )),
                most => Ok(Self::Connections(most)),
            },
            _ => Err(fixed(name)),
        }
    }

    fn apply(self, limits: &LiveLimits) {
        match self {
            Self::BatchRows(most) => limits.set_max_batch_rows(most),
            Self::IdleTimeoutMs(ms) => limits.set_idle_timeout_ms(ms),
            Self::Connections(most) => limits.set_max_connections(most),
        }
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, InfoError> {
    let wrong = |_| InfoError::parameter(format!("bad value: {name}={value} is no number"));
    value.parse().map_err(wrong)
}

fn fixed(name: &str) -> InfoError {
    InfoError::parameter(format!(
        "bad parameter: {name} cannot be changed while the server runs, only {CHANGEABLE}; set it in the configuration and start again"
    ))
}

/// `set-config:context=service;NAME=VALUE;..`. All is checked before the first is changed.
pub(super) fn set(ask: &mut Ask<'_>) -> InfoAnswer {
    let pairs: Vec<(&str, &str)> = ask
        .parameters
        .split(';')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(name, _)| !matches!(*name, "context" | "id" | "ns" | "namespace"))
        .collect();
    let [(first, _), ..] = pairs.as_slice() else {
        return Err(InfoError::parameter(
            "bad parameter: nothing is to be changed",
        ));
    };
    match ask.parameter(&["context"]) {
        Some("service") => {}
        Some("namespace" | "network" | "logging" | "security") => return Err(fixed(first)),
        _ => return Err(InfoError::parameter("bad context")),
    }
    let changes = pairs
        .iter()
        .map(|(name, value)| LimitChange::of(name, value));
    let changes: Vec<LimitChange> = changes.collect::<Result<_, _>>()?;
    for change in &changes {
        change.apply(&ask.shared.limits);
    }
    let parameters = ask.parameters;
    tracing::info!(parameters, "limits are changed");
    Ok("ok".to_owned())
}

fn add_service_config(shared: &ServerShared, pairs: &mut Pairs) {
    let idle = shared.limits.idle_timeout().unwrap_or_default();
    // A batch runs on its connection's task. With 0 here, or nothing, `asrestore` would write record by record.
    pairs.add("batch-index-threads", 1);
    pairs.add("batch-max-requests", shared.limits.max_batch_rows());
    pairs.add(
        "cluster-name",
        shared.cluster_name.as_deref().unwrap_or("null"),
    );
    pairs.add("node-id", &shared.node);
    pairs.add("proto-fd-idle-ms", idle.as_millis());
    pairs.add("proto-fd-max", shared.limits.max_connections());
    pairs.add("query-max-done", 100);
    pairs.add("query-threads-limit", 128);
    pairs.add("transaction-max-ms", 1000);
}

fn add_network_config(ask: &Ask<'_>, pairs: &mut Pairs) {
    pairs.add("service.address", ask.session.local.ip());
    pairs.add("service.port", ask.shared.port);
}

/// Returns the greatest size of the namespace, in bytes.
pub(crate) fn capacity_bytes(served: &ServedNamespace) -> u64 {
    let options = served.namespace.options();
    let devices = match &options.storage {
        Storage::Memory => 1,
        Storage::Files { devices, .. } => *devices,
        Storage::Devices(devices) => devices.len(),
    };
    options.max_device_bytes.saturating_mul(devices as u64)
}

/// The configuration of a namespace, by Aerospike's names.
pub(super) fn add_namespace_config(served: &ServedNamespace, pairs: &mut Pairs) {
    let namespace = &served.namespace;
    let options = namespace.options();
    let default_ttl = namespace
        .default_time_to_live()
        .unwrap_or_default()
        .as_secs();
    let nsup_period = if served.expires {
        // Whole seconds, and not the number that means never.
        options.expiry_period.as_secs().max(1)
    } else {
        0
    };
    let in_memory = matches!(options.storage, Storage::Memory);
    pairs.add("allow-ttl-without-nsup", "false");
    pairs.add("apply-ttl-reductions", "true");
    pairs.add("background-query-max-rps", 10_000);
    pairs.add("conflict-resolution-policy", "generation");
    pairs.add("default-read-touch-ttl-pct", 0);
    pairs.add("default-ttl", default_ttl);
    pairs.add("disallow-null-setname", "false");
    pairs.add("max-record-size", namespace.max_record_bytes());
    pairs.add("nsup-period", nsup_period);
    pairs.add("replication-factor", 1);
    let default_seconds = DEFAULT_DURATION.as_secs();
    pairs.add("disable-mrt-writes", "false");
    pairs.add("mrt-duration", default_seconds);
    // `allow-expunge` changes nothing here: every delete is durable.
    let consistent = served.is_strongly_consistent;
    pairs.add("strong-consistency", consistent);
    pairs.add("strong-consistency-allow-expunge", consistent);
    pairs.add(
        "transaction-pending-limit",
        pending_limit(options.max_waiters),
    );
    pairs.add(
        "storage-engine",
        if in_memory { "memory" } else { "device" },
    );
    pairs.add("storage-engine.data-size", capacity_bytes(served));
    pairs.add(
        "storage-engine.defrag-lwm-pct",
        options.defrag_threshold_percent,
    );
    pairs.add(
        "storage-engine.commit-to-device",
        options.durability == Durability::Commit,
    );
}
