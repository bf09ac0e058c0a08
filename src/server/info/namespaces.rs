//! What the server and its namespaces hold.

use std::sync::atomic::Ordering;

use super::config::{add_namespace_config, capacity_bytes};
use super::{Answer, Ask, Pairs};
use crate::server::counters::Outcome;
use crate::server::served::ServedNamespace;
use crate::server::shared::Shared;

pub(super) fn names(ask: &mut Ask<'_>) -> Answer {
    let names: Vec<&str> = ask
        .shared
        .namespaces
        .iter()
        .map(|served| served.namespace.name())
        .collect();
    Ok(names.join(";"))
}

pub(super) fn statistics(ask: &mut Ask<'_>) -> Answer {
    let mut pairs = Pairs::default();
    for (key, value) in node_statistics(ask.shared) {
        pairs.add(key, value);
    }
    Ok(pairs.0)
}

/// What there is to say of the node, by Aerospike's names.
pub(crate) fn node_statistics(shared: &Shared) -> Vec<(&'static str, String)> {
    let connections = &shared.connections;
    let opened = connections.opened.load(Ordering::Relaxed);
    let open = connections.open.load(Ordering::Relaxed);
    let objects: u64 = shared
        .namespaces
        .iter()
        .map(|served| served.namespace.stats().records)
        .sum();
    let key = format!("{:X}", shared.cluster_key);
    vec![
        ("failed_best_practices", "false".to_owned()),
        ("cluster_size", "1".to_owned()),
        ("cluster_key", key),
        ("cluster_generation", "1".to_owned()),
        ("cluster_principal", shared.node.clone()),
        ("cluster_min_compatibility_id", "15".to_owned()),
        ("cluster_max_compatibility_id", "15".to_owned()),
        ("cluster_integrity", "true".to_owned()),
        ("cluster_is_member", "true".to_owned()),
        ("cluster_clock_skew_ms", "0".to_owned()),
        ("uptime", shared.started.elapsed().as_secs().to_string()),
        ("objects", objects.to_string()),
        ("tombstones", "0".to_owned()),
        ("client_connections", open.to_string()),
        ("client_connections_opened", opened.to_string()),
        (
            "client_connections_closed",
            opened.saturating_sub(open).to_string(),
        ),
        (
            "client_connections_refused",
            connections.refused.load(Ordering::Relaxed).to_string(),
        ),
        ("migrate_allowed", "true".to_owned()),
        ("migrate_partitions_remaining", "0".to_owned()),
        ("rw_in_progress", "0".to_owned()),
        ("long_queries_active", shared.jobs.running().to_string()),
        ("batch_index_complete", shared.batches.count().to_string()),
        ("message_memory_bytes", shared.budget.taken().to_string()),
    ]
}

/// What there is to say of a namespace, by Aerospike's names.
pub(crate) fn namespace_statistics(served: &ServedNamespace) -> Vec<(String, String)> {
    let namespace = &served.namespace;
    let stats = namespace.stats();
    let tombstones = stats.index_entries.saturating_sub(stats.records);
    let capacity = capacity_bytes(served);
    let (mut sindex_bytes, mut sindex_cleaned) = (0, 0);
    for index in namespace.all_indexes().iter() {
        sindex_bytes += index.memory_bytes();
        sindex_cleaned += index.cleaned();
    }
    let percent = |part: u64, whole: u64| part.saturating_mul(100) / whole.max(1);
    let used_pct = percent(stats.live_bytes, capacity);
    let all_blocks = stats.used_blocks + stats.available_blocks;
    let avail_pct = percent(stats.available_blocks, all_blocks);
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut add = |key: &str, value: String| pairs.push((key.to_owned(), value));
    for (key, value) in [
        ("ns_cluster_size", 1),
        ("effective_replication_factor", 1),
        ("objects", stats.records),
        ("tombstones", tombstones),
        ("master_objects", stats.records),
        ("master_tombstones", tombstones),
        ("prole_objects", 0),
        ("prole_tombstones", 0),
        ("non_replica_objects", 0),
        ("non_replica_tombstones", 0),
        ("unreplicated_records", 0),
        ("dead_partitions", 0),
        ("unavailable_partitions", 0),
    ] {
        add(key, value.to_string());
    }
    add("stop_writes", stats.stop_writes.to_string());
    add("hwm_breached", "false".to_owned());
    add("clock_skew_stop_writes", "false".to_owned());
    for (key, value) in [
        ("current_time", namespace.now_ms() / 1000),
        ("expired_objects", stats.expired),
        ("evicted_objects", 0),
        ("data_used_bytes", stats.live_bytes),
        ("data_total_bytes", capacity),
        ("data_used_pct", used_pct),
        ("data_avail_pct", avail_pct),
        ("index_used_bytes", stats.index_bytes),
        ("set_index_used_bytes", 0),
        ("sindex_used_bytes", sindex_bytes),
        ("sindex_gc_cleaned", sindex_cleaned),
        ("migrate_tx_partitions_remaining", 0),
        ("migrate_rx_partitions_remaining", 0),
        ("fail_key_busy", stats.key_busy),
        (
            "pi_query_long_basic_complete",
            load(&served.counters.queries_complete),
        ),
        (
            "pi_query_long_basic_abort",
            load(&served.counters.queries_aborted),
        ),
        (
            "pi_query_short_basic_complete",
            load(&served.counters.short_queries_complete),
        ),
        (
            "pi_query_short_basic_timeout",
            load(&served.counters.short_queries_timed_out),
        ),
        (
            "pi_query_short_basic_error",
            load(&served.counters.short_queries_failed),
        ),
    ] {
        add(key, value.to_string());
    }
    for (verb, counts) in served.counters.by_outcome() {
        for (outcome, word) in Outcome::ALL {
            add(&format!("{verb}_{word}"), counts.get(outcome).to_string());
        }
    }
    pairs
}

pub(super) fn namespace(ask: &mut Ask<'_>) -> Answer {
    let name = ask.namespace_name().unwrap_or(ask.parameters);
    let Some(served) = ask.served(name) else {
        return Ok("type=unknown".to_owned());
    };
    let mut pairs = Pairs::default();
    for (key, value) in namespace_statistics(served) {
        pairs.add(key, value);
    }
    add_namespace_config(served, &mut pairs);
    Ok(pairs.0)
}

/// `sets`, `sets/NAMESPACE`, `sets/NAMESPACE/SET`.
pub(super) fn sets(ask: &mut Ask<'_>) -> Answer {
    let (namespace, set) = match ask.namespace_name() {
        Some(namespace) => (namespace, ask.parameter(&["set"])),
        None => match ask.parameters.split_once('/') {
            Some((namespace, set)) => (namespace, Some(set)),
            None => (ask.parameters, None),
        },
    };
    if !namespace.is_empty() && ask.served(namespace).is_none() {
        return Ok("ns_type=unknown".to_owned());
    }
    let mut text = String::new();
    for served in &ask.shared.namespaces {
        let name = served.namespace.name();
        if !namespace.is_empty() && namespace != name {
            continue;
        }
        for usage in served.namespace.sets() {
            if usage.name.is_empty() || set.is_some_and(|set| set != usage.name) {
                continue;
            }
            let indexes = served.namespace.all_indexes();
            let of_set = indexes
                .iter()
                .filter(|index| index.set_name() == usage.name);
            let sindexes = of_set.count();
            text.push_str(&format!(
                "ns={name}:set={}:objects={}:tombstones=0:data_used_bytes={}:truncate_lut=0:sindexes={sindexes}:index_populating=false:truncating=false:default-read-touch-ttl-pct=0:default-ttl=0:disable-eviction=false:enable-index=false:stop-writes-count=0:stop-writes-size=0;",
                usage.name, usage.records, usage.stored_bytes
            ));
        }
    }
    Ok(text)
}
