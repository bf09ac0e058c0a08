//! `contention --host`: rows against a cluster, within limits, and only with `--yes`.

use std::time::Duration;

use spikelet::cluster::Cluster;

use super::ClusterContention;
use crate::contention::{Arrivals, Case, ClusterSettings, Settings};
use crate::failure::{CommandFailure, Result};
use crate::report::{bytes, count, decimal, duration};

/// The `transaction-pending-limit` assumed of servers that do not report theirs.
const PENDING_LIMIT: usize = 20;

impl ClusterContention {
    /// Returns the settings of all rows against the cluster, if one is asked for.
    pub(super) fn settings(&self) -> Option<ClusterSettings> {
        let host = self.host.host()?;
        Some(ClusterSettings {
            place: format!("{host}, set {:?}", self.set),
            rate_max: self.max_rate,
            bytes_max: self.max_size,
        })
    }

    /// Connects to the cluster, if one is asked for, and learns how many writers may wait for a
    /// record.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn connect(&self, mut settings: Settings) -> Result<(Option<Cluster>, Settings)> {
        let Some(host) = self.host.host() else {
            return Ok((None, settings));
        };
        let builder = self.host.builder(host, self.namespace.as_deref())?;
        // Refusals are counted here: the client must not hold calls back for them.
        let cluster = builder.error_rate_max(0).connect()?;
        settings.limit = pending_limit(&cluster)?;
        if let Some(cluster_settings) = &mut settings.cluster {
            let namespace = cluster.namespace();
            cluster_settings.place = format!("{host}, namespace {namespace}, set {:?}", self.set);
        }
        Ok((Some(cluster), settings))
    }

    /// Refuses to write these rows, unless that was allowed.
    ///
    /// # Errors
    /// What they would write.
    pub(super) fn confirm(&self, cluster: &Cluster, cases: &[Case], repeats: usize) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        let extent = self.extent(cluster, cases, repeats);
        Err(CommandFailure::Input(format!(
            "{extent} Nothing was written: give --yes to allow it"
        )))
    }

    /// Says what would be written where.
    fn extent(&self, cluster: &Cluster, cases: &[Case], repeats: usize) -> String {
        let rate = cases.iter().map(|case| match case.load {
            Arrivals::Open { rate } => rate,
            Arrivals::Closed { .. } => self.max_rate,
        });
        let rows = cases.len() * repeats;
        let size = cases.iter().map(Case::estimated_bytes).max().unwrap_or(0);
        let time: Duration = cases
            .iter()
            .map(|case| case.settings.duration + case.settings.warm_up)
            .sum();
        format!(
            "contention writes to set {:?} of namespace {} for {} ({} row{}), up to {} writes a second and {} of records, and deletes them.",
            self.set,
            cluster.namespace(),
            duration(time * u32::try_from(repeats).unwrap_or(u32::MAX)),
            count(rows as u64),
            if rows == 1 { "" } else { "s" },
            decimal(rate.fold(0.0, f64::max), 0),
            bytes(size),
        )
    }
}

/// Asks the cluster how many writers may wait for a record.
fn pending_limit(cluster: &Cluster) -> Result<usize> {
    let answer = cluster.info(&format!("namespace/{}", cluster.namespace()))?;
    let found = answer
        .split(';')
        .find_map(|pair| pair.strip_prefix("transaction-pending-limit="));
    Ok(found
        .and_then(|limit| limit.parse().ok())
        .unwrap_or(PENDING_LIMIT))
}
