//! What the server and its namespaces hold.

use super::cluster::each;
use super::config::{add_namespace_config, capacity_bytes};
use super::{Ask, InfoAnswer};
use crate::server::counters::Pairs;
use crate::server::served::ServedNamespace;
use crate::server::shared::ServerShared;

pub(super) fn names(ask: &mut Ask<'_>) -> InfoAnswer {
    Ok(each(ask, |served| served.namespace.name().to_owned()))
}

pub(super) fn statistics(ask: &mut Ask<'_>) -> InfoAnswer {
    Ok(node_statistics(ask.shared).text())
}

/// Statistics that a node by itself answers by a constant, a line each: they count
/// events of a cluster of several nodes, or of the Enterprise Edition.
const OF_ONE_NODE: &str = include_str!("statistics_of_node.txt");

/// The same of a namespace.
const OF_ONE_NAMESPACE: &str = include_str!("statistics_of_namespace.txt");

/// Splits a table of constants into names and values.
fn constants(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    table.lines().filter_map(|line| line.split_once(' '))
}

/// Returns the statistics of the node, by Aerospike's names.
pub(crate) fn node_statistics(shared: &ServerShared) -> Pairs {
    let counters = &shared.counters;
    let (open, opened) = (counters.open.get(), counters.opened.get());
    let objects: u64 = shared
        .namespaces
        .iter()
        .map(|served| served.namespace.stats().records)
        .sum();
    let [complete, failed, late] = counters.ended_batches();
    let uptime = shared.started.elapsed().as_secs();
    let mut pairs = Pairs::default();
    pairs.add_all(constants(OF_ONE_NODE));
    // Values of one thread: the batches under way, and no buffers, since each connection sends its
    // answers.
    let batches_begun = counters.batches_begun.get();
    let under_way = batches_begun.saturating_sub(complete + failed + late);
    pairs.add("cluster_key", format!("{:X}", shared.cluster_key));
    pairs.add("cluster_principal", &shared.node);
    pairs.add("paxos_principal", &shared.node);
    pairs.add("batch_index_queue", format!("{under_way}:0"));
    let [available_kb, total_kb] =
        ["MemAvailable", "MemTotal"].map(|name| proc_number("meminfo", name));
    let free_pct = available_kb.saturating_mul(100) / total_kb.max(1);
    pairs.add_all([
        ("uptime", uptime),
        ("time_since_rebalance", uptime),
        ("objects", objects),
        ("system_free_mem_kbytes", available_kb),
        ("system_free_mem_pct", free_pct),
        ("host_free_mem_kbytes", available_kb),
        ("host_free_mem_pct", free_pct),
        ("threads_joinable", proc_number("self/status", "Threads")),
        ("client_connections", open),
        ("client_connections_opened", opened),
        ("client_connections_closed", opened.saturating_sub(open)),
        ("client_connections_refused", counters.refused.get()),
        ("reaped_fds", counters.idle_closes.get()),
        ("info_complete", counters.infos.get()),
        ("demarshal_error", counters.malformed.get()),
        ("early_tsvc_client_error", counters.early_refusals.get()),
        ("long_queries_active", shared.jobs.running() as u64),
        ("batch_index_initiate", batches_begun),
        ("batch_index_complete", complete),
        ("batch_index_error", failed),
        ("batch_index_timeout", late),
        ("message_memory_bytes", shared.budget.taken() as u64),
    ]);
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
pub(crate) fn namespace_statistics(served: &ServedNamespace) -> Pairs {
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
    let mut pairs = Pairs::default();
    pairs.add_all(constants(OF_ONE_NAMESPACE));
    pairs.add("stop_writes", stats.stop_writes);
    pairs.add_all([
        ("objects", stats.records),
        ("tombstones", tombstones),
        ("master_objects", stats.records),
        ("master_tombstones", tombstones),
        ("current_time", namespace.now_ms() / 1000),
        ("expired_objects", stats.expired),
        ("data_used_bytes", stats.live_bytes),
        ("data_total_bytes", capacity),
        ("data_used_pct", used_pct),
        ("data_avail_pct", avail_pct),
        ("index_used_bytes", stats.index_bytes),
        ("sindex_used_bytes", sindex_bytes),
        ("sindex_gc_cleaned", sindex_cleaned),
        ("fail_key_busy", stats.key_busy),
        ("client_tsvc_error", counters.unexecuted.get()),
        ("fail_generation", counters.generation_refusals.get()),
        ("fail_record_too_big", counters.too_big_refusals.get()),
    ]);
    counters.add_outcomes_to(&mut pairs);
    served.transactions.add_statistics_to(&mut pairs);
    counters.primary_queries.add_to(&mut pairs, "pi_query");
    counters.index_queries.add_to(&mut pairs, "si_query");
    pairs
}

pub(super) fn namespace(ask: &mut Ask<'_>) -> InfoAnswer {
    let name = ask.namespace_name().unwrap_or(ask.parameters);
    let Some(served) = ask.served(name) else {
        return Ok("type=unknown".to_owned());
    };
    let mut pairs = namespace_statistics(served);
    add_namespace_config(served, &mut pairs);
    Ok(pairs.text())
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
