//! The edition and version of Aerospike that this server says it is.

/// The version of Aerospike whose dialect is spoken: clients choose by it what they send.
pub(crate) const BUILD: &str = "8.1.2.0";

pub(super) const EDITION: &str = "Aerospike Community Edition";

/// What clients before the days of versions ask for.
pub(super) const FEATURES: &str = "batch-any;batch-index;blob-bits;cdt-index;cdt-list;cdt-map;cluster-stable;float;geo;sindex-exists;peers;pipelining;pquery;pscans;query-show;relaxed-sc;replicas;replicas-all;replicas-master;replicas-max;truncate-namespace;udf";
