//! What the server and its namespaces hold.

use std::sync::atomic::Ordering;

use super::cluster::each;
use super::config::{add_namespace_config, capacity_bytes};
use super::{Ask, InfoAnswer, Pairs};
use crate::server::served::ServedNamespace;
use crate::server::shared::ServerShared;

pub(super) fn names(ask: &mut Ask<'_>) -> InfoAnswer {
    Ok(each(ask, |served| served.namespace.name().to_owned()))
}

pub(super) fn statistics(ask: &mut Ask<'_>) -> InfoAnswer {
    let mut pairs = Pairs::default();
    for (key, value) in node_statistics(ask.shared) {
        pairs.add(key, value);
    }
    Ok(pairs.0)
}

/// Returns the statistics of the node, by Aerospike's names.
pub(crate) fn node_statistics(shared: &ServerShared) -> Vec<(&'static str, String)> {
    let connections = &shared.connections;
    let opened = connections.opened.get();
    let open = connections.open.load(Ordering::Relaxed);
    let objects: u64 = shared
        .namespaces
        .iter()
        .map(|served| served.namespace.stats().records)
        .sum();
    let key = format!("{:X}", shared.cluster_key);
    let counters = &shared.counters;
    let [complete, failed, late] = counters.ended_batches();
    let uptime = shared.started.elapsed().as_secs();
    let mut pairs = vec![
        ("failed_best_practices", "false".to_owned()),
        ("cluster_size", "1".to_owned()),
        ("cluster_key", key),
        ("cluster_generation", "1".to_owned()),
        ("cluster_principal", shared.node.clone()),
        ("cluster_min_compatibility_id", "15".to_owned()),
        ("cluster_max_compatibility_id", "15".to_owned()),
        ("cluster_integrity", "true".to_owned()),
        ("cluster_is_member", "true".to_owned()),
        ("cluster_duplicate_nodes", "null".to_owned()),
        ("cluster_clock_skew_outliers", "null".to_owned()),
        ("paxos_principal", shared.node.clone()),
        ("migrate_allowed", "true".to_owned()),
        // Values of one thread: the batches under way, and no buffers, since each connection sends
        // its answers.
        (
            "batch_index_queue",
            format!("{}:0", counters.batches_under_way()),
        ),
    ];
    let [available_kb, total_kb] =
        ["MemAvailable", "MemTotal"].map(|name| proc_number("meminfo", name));
    let free_pct = available_kb.saturating_mul(100) / total_kb.max(1);
    let numbers = [
        ("cluster_clock_skew_stop_writes_sec", 0),
        ("cluster_clock_skew_ms", 0),
        ("uptime", uptime),
        ("time_since_rebalance", uptime),
        ("objects", objects),
        ("tombstones", 0),
        ("info_queue", 0),
        ("rw_in_progress", 0),
        ("proxy_in_progress", 0),
        ("tree_gc_queue", 0),
        ("system_free_mem_kbytes", available_kb),
        ("system_free_mem_pct", free_pct),
        ("host_free_mem_kbytes", available_kb),
        ("host_free_mem_pct", free_pct),
        ("threads_joinable", proc_number("self/status", "Threads")),
        ("admin_connections", 0),
        ("admin_connections_opened", 0),
        ("admin_connections_closed", 0),
        ("client_connections", open),
        ("client_connections_opened", opened),
        ("client_connections_closed", opened.saturating_sub(open)),
        ("client_connections_refused", connections.refused.get()),
        ("heartbeat_connections", 0),
        ("heartbeat_connections_opened", 0),
        ("heartbeat_connections_closed", 0),
        ("fabric_connections", 0),
        ("fabric_connections_opened", 0),
        ("fabric_connections_closed", 0),
        ("heartbeat_received_self", 0),
        ("heartbeat_received_foreign", 0),
        ("reaped_fds", counters.idle_closes.get()),
        ("info_complete", counters.infos.get()),
        ("info_timeout", 0),
        ("demarshal_error", counters.malformed.get()),
        ("early_tsvc_client_error", counters.early_refusals.get()),
        ("early_tsvc_from_proxy_error", 0),
        ("early_tsvc_from_proxy_batch_sub_error", 0),
        ("long_queries_active", shared.jobs.running() as u64),
        ("batch_index_initiate", counters.batches_begun.get()),
        ("batch_index_complete", complete),
        ("batch_index_error", failed),
        ("batch_index_timeout", late),
        ("batch_index_delay", 0),
        ("deprecated_requests", 0),
        ("migrate_partitions_remaining", 0),
        ("fabric_bulk_send_rate", 0),
        ("fabric_bulk_recv_rate", 0),
        ("fabric_ctrl_send_rate", 0),
        ("fabric_ctrl_recv_rate", 0),
        ("fabric_meta_send_rate", 0),
        ("fabric_meta_recv_rate", 0),
        ("fabric_rw_send_rate", 0),
        ("fabric_rw_recv_rate", 0),
        ("message_memory_bytes", shared.budget.taken() as u64),
    ];
    pairs.extend(numbers.map(|(key, value)| (key, value.to_string())));
    pairs
}

/// A number of the system, such as kilobytes of memory; 0 where there is no such file.
fn proc_number(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{file}")).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let value = lines.find(|(key, _)| *key == name).map(|(_, value)| value);
    let number = value.and_then(|value| value.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Returns the statistics of a namespace, by Aerospike's names.
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
    let counters = &served.counters;
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
    for key in [
        "clock_skew_stop_writes",
        "truncating",
        "pending_quiesce",
        "effective_is_quiesced",
        "effective_prefer_uniform_balance",
    ] {
        add(key, "false".to_owned());
    }
    add("data_compression_ratio", "1.000".to_owned());
    for (key, value) in [
        ("current_time", namespace.now_ms() / 1000),
        ("expired_objects", stats.expired),
        ("evicted_objects", 0),
        ("evict_ttl", 0),
        ("evict_void_time", 0),
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
        ("client_tsvc_error", counters.unexecuted.get()),
        ("client_tsvc_timeout", 0),
        ("udf_sub_tsvc_error", 0),
        ("udf_sub_tsvc_timeout", 0),
        ("ops_sub_tsvc_error", 0),
        ("ops_sub_tsvc_timeout", 0),
        ("fail_generation", counters.generation_refusals.get()),
        ("fail_record_too_big", counters.too_big_refusals.get()),
    ] {
        add(key, value.to_string());
    }
    for key in OF_SEVERAL_NODES {
        add(key, "0".to_owned());
    }
    for (key, count) in counters.by_outcome() {
        add(&key, count.to_string());
    }
    for (key, count) in served.transactions.statistics(namespace) {
        add(&key, count.to_string());
    }
    for (index, queries) in [
        ("pi_query", &counters.primary_queries),
        ("si_query", &counters.index_queries),
    ] {
        for (key, count) in queries.by_name() {
            add(&format!("{index}_{key}"), count.to_string());
        }
    }
    pairs
}

/// What only a cluster of several nodes counts, or Aerospike Enterprise: 0 on one node.
const OF_SEVERAL_NODES: &[&str] = &[
    "xdr_tombstones",
    "xdr_bin_cemeteries",
    "auto_revived_partitions",
    "smd_evict_void_time",
    "nsup_xdr_key_busy",
    "client_proxy_complete",
    "client_proxy_error",
    "client_proxy_timeout",
    "batch_sub_proxy_complete",
    "batch_sub_proxy_error",
    "batch_sub_proxy_timeout",
    "migrate_tx_instances",
    "migrate_rx_instances",
    "migrate_tx_partitions_active",
    "migrate_rx_partitions_active",
    "migrate_tx_partitions_initial",
    "migrate_rx_partitions_initial",
    "migrate_tx_partitions_lead_remaining",
    "migrate_tx_partitions_imbalance",
    "migrate_records_skipped",
    "migrate_records_transmitted",
    "migrate_records_unreadable",
    "effective_active_rack",
    "migrate_record_retransmits",
    "migrate_record_receives",
    "migrate_signals_active",
    "migrate_signals_remaining",
    "migrate_fresh_partitions",
    "appeals_tx_active",
    "appeals_rx_active",
    "appeals_tx_remaining",
    "appeals_records_exonerated",
    "nodes_quiesced",
    "fail_xdr_forbidden",
    "fail_xdr_key_busy",
    "fail_client_lost_conflict",
    "fail_xdr_lost_conflict",
];

pub(super) fn namespace(ask: &mut Ask<'_>) -> InfoAnswer {
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
pub(super) fn sets(ask: &mut Ask<'_>) -> InfoAnswer {
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
