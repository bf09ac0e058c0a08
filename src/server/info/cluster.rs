//! The cluster of one node that clients look for: peers, and who has which partition.

use spikelet_storage::PARTITIONS;

use super::{Ask, InfoAnswer, InfoError};
use crate::base64;
use crate::server::served::ServedNamespace;

pub(super) fn name(ask: &mut Ask<'_>) -> InfoAnswer {
    Ok(ask.shared.cluster_name().to_owned())
}

pub(super) fn stable(ask: &mut Ask<'_>) -> InfoAnswer {
    if ask.parameter(&["size"]).is_some_and(|size| size != "1") {
        return Err(InfoError::new(7, "unstable cluster"));
    }
    if let Some(name) = ask.namespace_name()
        && ask.served(name).is_none()
    {
        return Err(InfoError::parameter("unknown namespace"));
    }
    Ok(format!("{:X}", ask.shared.cluster_key))
}

pub(super) fn peers(ask: &mut Ask<'_>) -> InfoAnswer {
    Ok(format!("0,{},[]", ask.session.local.port()))
}

/// The address that this client has reached: others may not lead here.
pub(super) fn service(ask: &mut Ask<'_>) -> InfoAnswer {
    Ok(ask.session.local.to_string())
}

/// Everything is in one rack.
pub(super) fn rack_ids(ask: &mut Ask<'_>) -> InfoAnswer {
    Ok(each(ask, |served| format!("{}:0", served.namespace.name())))
}

/// The regime (0: no strong consistency; it never changes), one copy, and its map.
pub(super) fn replicas(ask: &mut Ask<'_>) -> InfoAnswer {
    ask.maps(|served| {
        if served.is_strongly_consistent {
            "1,1,"
        } else {
            "0,1,"
        }
    })
}

impl Ask<'_> {
    /// The address that this client has reached, if its stream is of this kind: clients look for
    /// the address of the kind that they use.
    pub(super) fn address(&mut self, is_encrypted: bool) -> InfoAnswer {
        if self.session.is_encrypted == is_encrypted {
            service(self)
        } else {
            Ok(String::new())
        }
    }

    /// Each namespace with its map, behind what `head` says.
    pub(super) fn maps(&self, head: fn(&ServedNamespace) -> &'static str) -> InfoAnswer {
        // The map of a node that has all 4,096 partitions.
        let map = base64::encode(&[u8::MAX; PARTITIONS / 8]);
        let shown = |served: &ServedNamespace| {
            let name = served.namespace.name();
            format!("{name}:{}{map}", head(served))
        };
        Ok(each(self, shown))
    }
}

pub(super) fn each(ask: &Ask<'_>, of: impl Fn(&ServedNamespace) -> String) -> String {
    let namespaces = ask.shared.namespaces.iter();
    let all: Vec<String> = namespaces.map(|served| of(served)).collect();
    all.join(";")
}

/// The columns of `partition-info`.
const PARTITION_COLUMNS: &str = "namespace:partition:state:n_replicas:replica:n_dupl:working_master:emigrates:lead_emigrates:immigrates:records:tombstones:regime:version:final_version";

/// A row for each partition of each namespace: in sync, one copy, this node is its master, and no
/// data moves. Visits all records. Tombstones are not told apart by partition, and Aerospike
/// Community has none: 0.
#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
pub(super) fn partition_info(ask: &mut Ask<'_>) -> InfoAnswer {
    use std::fmt::Write;
    let mut text = PARTITION_COLUMNS.to_owned();
    let node = &ask.shared.node;
    // Like Aerospike's: the state of the cluster, no family, master.
    let version = format!("{:x}.0.m", ask.shared.cluster_key & 0xffff_ffff_ffff);
    for served in &ask.shared.namespaces {
        let namespace = &served.namespace;
        let name = namespace.name();
        for partition in 0..PARTITIONS {
            let digests = namespace.digests_in(partition, None, None, |error| {
                tracing::warn!(namespace = name, %error, "partition-info passes over a record");
            });
            // Writing to a string does not fail.
            let _ = write!(
                text,
                ";{name}:{partition}:S:1:0:0:{node}:0:0:0:{}:0:0:{version}:{version}",
                digests.len()
            );
        }
    }
    Ok(text)
}
