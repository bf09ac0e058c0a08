//! Metrics as text in Prometheus' form, over HTTP.
//!
//! Values that Aerospike's exporter knows have its names (`aerospike_namespace_*`,
//! `aerospike_node_stats_*`, `aerospike_sets_*`, `aerospike_latencies_*`), so that its dashboards
//! work. Other names begin with `spikelet_`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::counters::Latency;
use super::info::{BUILD, namespace_statistics, node_statistics};
use super::security::Permissions;
use super::served::ServedNamespace;
use super::shared::ServerShared;
use crate::Result;
use crate::basic_login::BasicLogin;
use crate::http::{Endpoint, EndpointOptions, HttpRequest, Response};
use crate::prometheus::{Metric, MetricsForm, MetricsText, OF_STORAGE, escaped};
use crate::storage::SetUsage;

/// Answers scrapers.
///
/// # Errors
/// As for [`Endpoint::start`].
pub(crate) fn serve(
    shared: &Arc<ServerShared>,
    addr: SocketAddr,
    options: &EndpointOptions,
) -> Result<Endpoint> {
    let shared = Arc::clone(shared);
    Endpoint::start(addr, options, move |request, peer| {
        if !may_read(&shared, request, peer) {
            return Response::unauthorized("users of this server read metrics");
        }
        match request.path {
            "/metrics" | "/" => Response::ok(MetricsForm::Classic.content_type(), render(&shared)),
            _ => Response::refused("404 Not Found", "GET /metrics"),
        }
    })
}

/// Whether a request may read metrics: where the server has users, it is one's own.
fn may_read(shared: &ServerShared, request: &HttpRequest<'_>, peer: IpAddr) -> bool {
    let Some(security) = &shared.security else {
        return true;
    };
    BasicLogin::parse(request.authorization).is_some_and(|login| {
        security.allows(&login.user, &login.password, peer, &[Permissions::empty()])
    })
}

/// All metrics.
fn render(shared: &ServerShared) -> String {
    let mut metrics = MetricsText::default();
    let cluster = escaped(shared.cluster_name());
    let node = format!("cluster_name=\"{cluster}\",service=\"{}\"", shared.node);
    let up = format!("{node},build=\"{BUILD}\"");
    metrics.add("aerospike_node_up", "gauge", &up, 1);
    for (key, value) in &node_statistics(shared).0 {
        if let Some(value) = number(value) {
            let name = format!("aerospike_node_stats_{key}");
            metrics.add(&name, kind(key), &node, value);
        }
    }
    render_namespaces(shared, &node, &mut metrics);
    render_sets(shared, &node, &mut metrics);
    render_latencies(shared, &node, &mut metrics);
    metrics.into_text()
}

fn labels_of(node: &str, served: &ServedNamespace) -> String {
    format!("{node},ns=\"{}\"", escaped(served.namespace.name()))
}

fn render_namespaces(shared: &ServerShared, node: &str, metrics: &mut MetricsText) {
    let all: Vec<_> = shared
        .namespaces
        .iter()
        .map(|served| (labels_of(node, served), namespace_statistics(served).0))
        .collect();
    let keys = all.first().map_or(&[][..], |(_, pairs)| pairs);
    for (at, (key, _)) in keys.iter().enumerate() {
        for (labels, pairs) in &all {
            if let Some(value) = pairs.get(at).and_then(|(_, value)| number(value)) {
                let name = format!("aerospike_namespace_{key}");
                metrics.add(&name, kind(key), labels, value);
            }
        }
    }
    let all = shared.namespaces.iter();
    let stats: Vec<_> = all
        .map(|served| (labels_of(node, served), served.namespace.stats().storage))
        .collect();
    metrics.add_all(&OF_STORAGE, &stats);
}

fn render_sets(shared: &ServerShared, node: &str, metrics: &mut MetricsText) {
    let metrics_of_sets: [Metric<SetUsage>; 2] = [
        ("objects", |usage| usage.records as f64),
        ("data_used_bytes", |usage| usage.stored_bytes as f64),
    ];
    let sets_of = |served: &Arc<ServedNamespace>| {
        let labels = labels_of(node, served);
        let sets = served.namespace.sets().into_iter();
        let named = sets.filter(|usage| !usage.name.is_empty());
        named.map(move |usage| (format!("{labels},set=\"{}\"", escaped(&usage.name)), usage))
    };
    let sets: Vec<_> = shared.namespaces.iter().flat_map(sets_of).collect();
    for (name, of) in metrics_of_sets {
        let name = format!("aerospike_sets_{name}");
        for (labels, usage) in &sets {
            metrics.add(&name, "gauge", labels, of(usage));
        }
    }
}

fn render_latencies(shared: &ServerShared, node: &str, metrics: &mut MetricsText) {
    type Of = fn(&ServedNamespace) -> &Latency;
    let all: [(&str, Of); 3] = [
        ("read", |served| &served.reads),
        ("write", |served| &served.writes),
        ("pi_query", |served| &served.queries),
    ];
    for (what, of) in all {
        let namespaces = shared.namespaces.iter();
        let latencies: Vec<_> = namespaces
            .map(|served| (labels_of(node, served), of(served)))
            .collect();
        let name = format!("aerospike_latencies_{what}_ms_bucket");
        for (labels, latency) in &latencies {
            let count = latency.count();
            for (bucket, longer) in latency.at_least().into_iter().enumerate() {
                let labels = format!("{labels},le=\"{}\"", 1_u64 << bucket);
                metrics.add(&name, "counter", &labels, count.saturating_sub(longer));
            }
            metrics.add(&name, "counter", &format!("{labels},le=\"+Inf\""), count);
        }
        let name = format!("aerospike_latencies_{what}_ms_count");
        for (labels, latency) in &latencies {
            metrics.add(&name, "counter", labels, latency.count());
        }
        let name = format!("spikelet_{what}_seconds_total");
        for (labels, latency) in &latencies {
            metrics.add(&name, "counter", labels, latency.micros() as f64 / 1e6);
        }
    }
}

/// The value as a number, if it is one or a truth value.
fn number(text: &str) -> Option<u64> {
    match text {
        "true" => Some(1),
        "false" => Some(0),
        other => other.parse().ok(),
    }
}

/// The names of values that only ever grow, or the ends of their names.
const GROWING: &str = "_success _error _timeout _not_found _filtered_out _complete _abort uptime \
expired_objects evicted_objects fail_key_busy client_connections_opened client_connections_closed \
client_connections_refused fail_generation fail_record_too_big reaped_fds batch_index_initiate";

fn kind(key: &str) -> &'static str {
    let grows = GROWING.split(' ').any(|end| key.ends_with(end));
    if grows { "counter" } else { "gauge" }
}
