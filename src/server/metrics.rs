//! Metrics as text in Prometheus' form, over HTTP.
//!
//! Values that Aerospike's exporter knows have its names (`aerospike_namespace_*`, `aerospike_node_stats_*`,
//! `aerospike_sets_*`, `aerospike_latencies_*`), so that its dashboards work. Other names begin with `spikelet_`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;
use zeroize::Zeroize;

use super::counters::Latency;
use super::info::{BUILD, namespace_statistics, node_statistics};
use super::security::Permissions;
use super::served::ServedNamespace;
use super::shared::ServerShared;
use super::stream::{Acceptor, ResultStream};
use crate::basic_login::{BASIC_CHALLENGE, BasicLogin};
use crate::prometheus::{MetricsForm, MetricsText, OF_STORAGE, escaped};

/// How long a scraper may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest request that is read.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// How long accepting pauses when the process has no more files to open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers scrapers, one after the other, until the runtime ends.
pub(crate) async fn serve(shared: Arc<ServerShared>, listener: TcpListener, acceptor: Acceptor) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // A scraper that stalls or goes away delays the next one by `PATIENCE` at most.
                let answered = async {
                    let stream = acceptor.begin(stream).await?;
                    answer(&shared, stream, peer.ip()).await
                };
                let _ = timeout(PATIENCE, answered).await;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a scraper");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn answer(
    shared: &Arc<ServerShared>,
    mut stream: ResultStream,
    peer: IpAddr,
) -> std::io::Result<()> {
    let mut request = Vec::with_capacity(1024);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() >= REQUEST_BYTES_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let is_known = request.starts_with(b"GET /metrics ") || request.starts_with(b"GET / ");
    let (status, headers, body) = if !may_read(shared, &request, peer).await {
        let body = "users of this server read metrics\n".to_owned();
        ("401 Unauthorized", BASIC_CHALLENGE, body)
    } else if is_known {
        ("200 OK", "", render(shared))
    } else {
        ("404 Not Found", "", "GET /metrics\n".to_owned())
    };
    request.zeroize();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        MetricsForm::Classic.content_type(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// Whether a request may read metrics: where the server has users, it is one's own.
async fn may_read(shared: &Arc<ServerShared>, request: &[u8], peer: IpAddr) -> bool {
    let Some(security) = shared.security.clone() else {
        return true;
    };
    let head = String::from_utf8_lossy(request);
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    let header = headers.find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let Some(login) = header.and_then(|(_, value)| BasicLogin::parse(value)) else {
        return false;
    };
    let checked = tokio::task::spawn_blocking(move || {
        security.allows(&login.user, &login.password, peer, &[Permissions::empty()])
    });
    checked.await.unwrap_or(false)
}

/// All metrics.
fn render(shared: &ServerShared) -> String {
    let mut metrics = MetricsText::default();
    let cluster = shared.cluster_name.as_deref().unwrap_or("null");
    let node = format!(
        "cluster_name=\"{}\",service=\"{}\"",
        escaped(cluster),
        escaped(&shared.node)
    );
    let up = format!("{node},build=\"{BUILD}\"");
    metrics.add("aerospike_node_up", "gauge", &up, 1);
    for (key, value) in node_statistics(shared) {
        if let Some(value) = number(&value) {
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
        .map(|served| (labels_of(node, served), namespace_statistics(served)))
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
    let stats: Vec<_> = shared
        .namespaces
        .iter()
        .map(|served| (labels_of(node, served), served.namespace.stats()))
        .collect();
    let stats: Vec<_> = stats
        .iter()
        .map(|(labels, stats)| (labels.clone(), &stats.storage))
        .collect();
    metrics.add_all(&OF_STORAGE, &stats);
}

fn render_sets(shared: &ServerShared, node: &str, metrics: &mut MetricsText) {
    let mut sets = Vec::new();
    for served in &shared.namespaces {
        for usage in served.namespace.sets() {
            if !usage.name.is_empty() {
                let labels = format!(
                    "{},set=\"{}\"",
                    labels_of(node, served),
                    escaped(&usage.name)
                );
                sets.push((labels, usage));
            }
        }
    }
    for (labels, usage) in &sets {
        metrics.add("aerospike_sets_objects", "gauge", labels, usage.records);
    }
    for (labels, usage) in &sets {
        let name = "aerospike_sets_data_used_bytes";
        metrics.add(name, "gauge", labels, usage.stored_bytes);
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
        let name = format!("aerospike_latencies_{what}_ms_bucket");
        for served in &shared.namespaces {
            let labels = labels_of(node, served);
            let latency = of(served);
            let count = latency.count();
            for (bucket, longer) in latency.at_least().into_iter().enumerate() {
                let labels = format!("{labels},le=\"{}\"", 1_u64 << bucket);
                metrics.add(&name, "counter", &labels, count.saturating_sub(longer));
            }
            metrics.add(&name, "counter", &format!("{labels},le=\"+Inf\""), count);
        }
        let name = format!("aerospike_latencies_{what}_ms_count");
        for served in &shared.namespaces {
            metrics.add(
                &name,
                "counter",
                &labels_of(node, served),
                of(served).count(),
            );
        }
        let name = format!("spikelet_{what}_seconds_total");
        for served in &shared.namespaces {
            let seconds = of(served).micros() as f64 / 1e6;
            metrics.add(&name, "counter", &labels_of(node, served), seconds);
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

/// Whether a value only ever grows.
fn kind(key: &str) -> &'static str {
    let counts = [
        "_success",
        "_error",
        "_timeout",
        "_not_found",
        "_filtered_out",
        "_complete",
        "_abort",
    ];
    let grows = counts.iter().any(|end| key.ends_with(end))
        || matches!(
            key,
            "uptime"
                | "expired_objects"
                | "evicted_objects"
                | "fail_key_busy"
                | "client_connections_opened"
                | "client_connections_closed"
                | "client_connections_refused"
                | "fail_generation"
                | "fail_record_too_big"
                | "reaped_fds"
                | "batch_index_initiate"
        );
    if grows { "counter" } else { "gauge" }
}
