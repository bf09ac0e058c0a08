//! How the server and its namespaces are kept.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Ask, InfoAnswer, InfoError};
use crate::Durability;
use crate::policy::MAX_TIME_TO_LIVE;
use crate::server::config::{pending_limit, seconds};
use crate::server::counters::Pairs;
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

/// A number that can be changed while the server runs: its name, its values, and its place.
type Setting<'a> = (&'static str, RangeInclusive<u64>, &'a AtomicU64);

fn settings_of_service(shared: &ServerShared) -> [Setting<'_>; 5] {
    let limits = &shared.limits;
    let most_rows = u64::from(u32::MAX);
    [
        ("batch-max-requests", 0..=most_rows, &limits.max_batch_rows),
        ("proto-fd-idle-ms", 0..=u64::MAX, &limits.idle_timeout_ms),
        // 0 would leave nobody a connection.
        ("proto-fd-max", 1..=u64::MAX, &limits.max_connections),
        ("query-max-done", 0..=1000, &limits.max_done_queries),
        ("query-threads-limit", 1..=1024, &limits.max_queries),
    ]
}

fn settings_of_namespace(served: &ServedNamespace) -> [Setting<'_>; 2] {
    let (rps, longest) = (&served.max_background_rps, MAX_TIME_TO_LIVE.as_secs());
    let default_ttl = served.namespace.default_ttl();
    [
        ("background-query-max-rps", 1..=1_000_000, rps),
        ("default-ttl", 0..=longest, default_ttl),
    ]
}

/// Sets values by name. All are checked before the first is changed.
fn change(settings: &[Setting<'_>], values: &[(&str, &str)]) -> Result<(), InfoError> {
    let change = |(name, value): &(&str, &str)| {
        let setting = settings.iter().find(|(known, ..)| known == name);
        let (_, range, place) = setting.ok_or_else(|| fixed(name, settings))?;
        let wrong = |why| InfoError::parameter(format!("bad value: {name}={value}: {why}"));
        let number = match *name {
            "default-ttl" => seconds(value).map_err(wrong)?,
            _ => value.parse().map_err(|_| wrong("no number".to_owned()))?,
        };
        if range.contains(&number) {
            Ok((place, number))
        } else {
            Err(wrong(format!("not {} to {}", range.start(), range.end())))
        }
    };
    let changes: Vec<_> = values.iter().map(change).collect::<Result<_, _>>()?;
    for (place, number) in changes {
        place.store(number, Ordering::Relaxed);
    }
    Ok(())
}

fn fixed(name: &str, settings: &[Setting<'_>]) -> InfoError {
    let names: Vec<&str> = settings.iter().map(|(name, ..)| *name).collect();
    let others = match names[..] {
        [] => String::new(),
        _ => format!(", of its context only {}", names.join(", ")),
    };
    InfoError::parameter(format!(
        "bad parameter: {name} cannot be changed while the server runs{others}; set it in the configuration and start again"
    ))
}

fn add_settings(settings: &[Setting<'_>], pairs: &mut Pairs) {
    for (name, _, place) in settings {
        pairs.add(*name, place.load(Ordering::Relaxed));
    }
}

/// `set-config:context=service;NAME=VALUE;..`,
/// `set-config:context=namespace;id=NAMESPACE;NAME=VALUE;..`.
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
        Some("service") => change(&settings_of_service(ask.shared), &values)?,
        Some("namespace") => change(&settings_of_namespace(ask.named()?), &values)?,
        Some("network" | "logging" | "security") => change(&[], &values)?,
        _ => return Err(InfoError::parameter("bad context")),
    }
    let parameters = ask.parameters;
    tracing::info!(parameters, "limits are changed");
    Ok("ok".to_owned())
}

fn add_service_config(shared: &ServerShared, pairs: &mut Pairs) {
    // A batch runs on its connection's task. With 0 here, or nothing, `asrestore` would write
    // record by record.
    pairs.add("batch-index-threads", 1);
    pairs.add("cluster-name", shared.cluster_name());
    pairs.add("node-id", &shared.node);
    pairs.add("transaction-max-ms", 1000);
    add_settings(&settings_of_service(shared), pairs);
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
    let engine = match options.storage {
        Storage::Memory => "memory",
        _ => "device",
    };
    pairs.add("allow-ttl-without-nsup", "false");
    pairs.add("apply-ttl-reductions", "true");
    pairs.add("conflict-resolution-policy", "generation");
    pairs.add("default-read-touch-ttl-pct", 0);
    pairs.add("disallow-null-setname", "false");
    add_settings(&settings_of_namespace(served), pairs);
    pairs.add("max-record-size", namespace.max_record_bytes());
    pairs.add("nsup-period", nsup_period);
    pairs.add("replication-factor", 1);
    pairs.add("disable-mrt-writes", "false");
    pairs.add("mrt-duration", DEFAULT_DURATION.as_secs());
    // `allow-expunge` changes nothing here: every delete is durable.
    let consistent = served.is_strongly_consistent;
    pairs.add("strong-consistency", consistent);
    pairs.add("strong-consistency-allow-expunge", consistent);
    let pending = pending_limit(options.max_waiters);
    pairs.add("transaction-pending-limit", pending);
    pairs.add("storage-engine", engine);
    pairs.add("storage-engine.data-size", capacity_bytes(served));
    let threshold = options.defrag_threshold_percent;
    pairs.add("storage-engine.defrag-lwm-pct", threshold);
    let commits = options.durability == Durability::Commit;
    pairs.add("storage-engine.commit-to-device", commits);
}
