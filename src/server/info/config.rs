//! How the server and its namespaces are kept.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Ask, InfoAnswer, InfoError};
use crate::Durability;
use crate::policy::MAX_TIME_TO_LIVE;
use crate::server::config::{pending_limit, seconds};
use crate::server::counter::Pairs;
use crate::server::served::ServedNamespace;
use crate::server::shared::ServerShared;
use crate::server::transaction::table::DEFAULT_DURATION;
use spikelet_storage::Storage;

/// `get-config:context=service|network|namespace|logging|security`.
pub(super) fn get(ask: &mut Ask<'_>) -> InfoAnswer {
    let mut pairs = Pairs::default();
    match ask.parameter(&["context"]) {
        Some("namespace") => {
            add_namespace_config(ask.named()?, &mut pairs);
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
    Ok(pairs.text())
}

/// A number of the server, or of a namespace, that can be changed while the server runs.
struct Setting<T> {
    name: &'static str,
    range: RangeInclusive<u64>,
    cell: fn(&T) -> &AtomicU64,
}

const fn setting<T>(
    name: &'static str,
    range: RangeInclusive<u64>,
    cell: fn(&T) -> &AtomicU64,
) -> Setting<T> {
    Setting { name, range, cell }
}

const OF_SERVICE: &[Setting<ServerShared>] = &[
    setting("batch-max-requests", 0..=u32::MAX as u64, |shared| {
        &shared.limits.max_batch_rows
    }),
    setting("proto-fd-idle-ms", 0..=u64::MAX, |shared| {
        &shared.limits.idle_timeout_ms
    }),
    // 0 would leave nobody a connection.
    setting("proto-fd-max", 1..=u64::MAX, |shared| {
        &shared.limits.max_connections
    }),
    setting("query-max-done", 0..=1000, |shared| &shared.jobs.max_done),
    setting("query-threads-limit", 1..=1024, |shared| {
        &shared.limits.max_queries
    }),
];

const OF_NAMESPACE: &[Setting<ServedNamespace>] = &[
    setting("background-query-max-rps", 1..=1_000_000, |served| {
        &served.max_background_rps
    }),
    setting("default-ttl", 0..=MAX_TIME_TO_LIVE.as_secs(), |served| {
        served.namespace.default_ttl()
    }),
];

/// Sets values by name. All are checked before the first is changed.
fn change<T>(settings: &[Setting<T>], of: &T, values: &[(&str, &str)]) -> Result<(), InfoError> {
    let change = |(name, value): &(&str, &str)| {
        let setting = settings.iter().find(|setting| setting.name == *name);
        let setting = setting.ok_or_else(|| fixed(name, settings))?;
        let wrong = |why| InfoError::parameter(format!("bad value: {name}={value}: {why}"));
        let range = &setting.range;
        let number = match *name {
            "default-ttl" => seconds(value).map_err(wrong)?,
            _ => value.parse().map_err(|_| wrong("no number".to_owned()))?,
        };
        match number {
            number if range.contains(&number) => Ok((setting, number)),
            _ => Err(wrong(format!("not {} to {}", range.start(), range.end()))),
        }
    };
    let changes: Vec<_> = values.iter().map(change).collect::<Result<_, _>>()?;
    for (setting, number) in changes {
        (setting.cell)(of).store(number, Ordering::Relaxed);
    }
    Ok(())
}

fn fixed<T>(name: &str, settings: &[Setting<T>]) -> InfoError {
    let names: Vec<&str> = settings.iter().map(|setting| setting.name).collect();
    let others = match names[..] {
        [] => String::new(),
        _ => format!(", of its context only {}", names.join(", ")),
    };
    InfoError::parameter(format!(
        "bad parameter: {name} cannot be changed while the server runs{others}; set it in the configuration and start again"
    ))
}

fn add_settings<T>(settings: &[Setting<T>], of: &T, pairs: &mut Pairs) {
    for setting in settings {
        pairs.add(setting.name, (setting.cell)(of).load(Ordering::Relaxed));
    }
}

/// `set-config:context=service;NAME=VALUE;..`, `set-config:context=namespace;id=NAMESPACE;NAME=VALUE;..`.
pub(super) fn set(ask: &mut Ask<'_>) -> InfoAnswer {
    let values: Vec<(&str, &str)> = ask
        .parameters
        .split(';')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(name, _)| !matches!(*name, "context" | "id" | "ns" | "namespace"))
        .collect();
    if values.is_empty() {
        return Err(InfoError::parameter(
            "bad parameter: nothing is to be changed",
        ));
    }
    match ask.parameter(&["context"]) {
        Some("service") => change(OF_SERVICE, ask.shared, &values)?,
        Some("namespace") => change(OF_NAMESPACE, ask.named()?, &values)?,
        Some("network" | "logging" | "security") => change(&[], &(), &values)?,
        _ => return Err(InfoError::parameter("bad context")),
    }
    let parameters = ask.parameters;
    tracing::info!(parameters, "limits are changed");
    Ok("ok".to_owned())
}

fn add_service_config(shared: &ServerShared, pairs: &mut Pairs) {
    // A batch runs on its connection's task. With 0 here, or nothing, `asrestore` would write record by record.
    pairs.add("batch-index-threads", 1);
    pairs.add("cluster-name", shared.cluster_name());
    pairs.add("node-id", &shared.node);
    pairs.add("transaction-max-ms", 1000);
    add_settings(OF_SERVICE, shared, pairs);
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
    let nsup_period = if served.expires {
        // Whole seconds, and not the number that means never.
        options.expiry_period.as_secs().max(1)
    } else {
        0
    };
    let in_memory = matches!(options.storage, Storage::Memory);
    pairs.add("allow-ttl-without-nsup", "false");
    pairs.add("apply-ttl-reductions", "true");
    pairs.add("conflict-resolution-policy", "generation");
    pairs.add("default-read-touch-ttl-pct", 0);
    pairs.add("disallow-null-setname", "false");
    add_settings(OF_NAMESPACE, served, pairs);
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
