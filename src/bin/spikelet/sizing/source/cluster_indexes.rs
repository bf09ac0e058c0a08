//! The secondary indexes of a cluster, as its nodes report them by info commands.

use spikelet::Result;
use spikelet::cluster::Cluster;

use crate::sizing::secondary_index::SecondaryIndexSizing;

/// A node's figures of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct NodeStats {
    entries: u64,
    used_bytes: Option<u64>,
    /// The mean number of entries of a value, rounded by the node; `None` where it has entries
    /// and does not say.
    entries_per_value: Option<f64>,
}

/// Returns the indexes of the cluster's namespace, in the order in which a node lists them.
///
/// # Errors
/// [`spikelet::Error::Cluster`] if a node does not answer.
pub(super) fn told_by(cluster: &Cluster) -> Result<Vec<SecondaryIndexSizing>> {
    let namespace = cluster.namespace();
    let listed = cluster.info(&format!("sindex-list:ns={namespace}"))?;
    let mut indexes = Vec::new();
    for (name, set) in names_in(&listed) {
        let asked = format!("sindex-stat:ns={namespace};indexname={name}");
        let answers = cluster.info_of_nodes(&asked)?;
        // An index that was dropped meanwhile is on no node any more.
        let stats: Vec<NodeStats> = answers.iter().filter_map(|text| stats_in(text)).collect();
        if !stats.is_empty() {
            indexes.push(joined(name, set, &stats));
        }
    }
    Ok(indexes)
}

/// The name and the set of each index of a list: `ns=N:indexname=I:set=S:..;..`, with `null` where
/// there is no set. Later fields may hold anything, so the first of each counts.
fn names_in(listed: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    listed.split(';').filter_map(|index| {
        let field = |prefix| {
            index
                .split(':')
                .find_map(|field| field.strip_prefix(prefix))
        };
        let set = field("set=").filter(|set| !set.eq_ignore_ascii_case("null"));
        Some((field("indexname=")?, set))
    })
}

/// A node's answer: `entries=..;used_bytes=..;entries_per_bval=..;..`; `None` if it has no number
/// of entries.
fn stats_in(text: &str) -> Option<NodeStats> {
    let field = |wanted| {
        let mut pairs = text.split(';').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(name, value)| (name == wanted).then_some(value)?.parse::<u64>().ok())
    };
    let entries = field("entries")?;
    let per_value = field("entries_per_bval").unwrap_or(0);
    Some(NodeStats {
        entries,
        used_bytes: field("used_bytes"),
        entries_per_value: (entries == 0 || per_value > 0).then_some(per_value as f64),
    })
}

/// The sums of all nodes. The entries of a value are spread over them, as records are.
fn joined(name: &str, set: Option<&str>, stats: &[NodeStats]) -> SecondaryIndexSizing {
    let entries: u64 = stats.iter().map(|node| node.entries).sum();
    let per_value: Option<f64> = stats.iter().map(|node| node.entries_per_value).sum();
    let per_value = per_value.filter(|_| entries > 0);
    SecondaryIndexSizing {
        name: name.to_owned(),
        set: set.map(str::to_owned),
        entries,
        memory_bytes: stats.iter().map(|node| node.used_bytes).sum(),
        distinct_keys: None,
        entries_per_key: per_value,
        selectivity: per_value.map(|per_value| per_value / entries as f64),
        unreadable: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sets_are_found_in_lists() {
        let listed = "ns=test:indexname=by_age:set=users:bin=age:type=numeric:exp=null:state=RW;\
                      ns=test:indexname=by_city:set=null:bin=m:context=[map_key(<x>):set=x]:state=RW;\
                      ns=test:indexname=all:set=users:indextype=set";
        let names: Vec<_> = names_in(listed).collect();
        assert_eq!(
            names,
            [
                ("by_age", Some("users")),
                ("by_city", None),
                ("all", Some("users"))
            ]
        );
        assert_eq!(names_in("").count(), 0);
        assert_eq!(names_in("ERROR:4:unknown").count(), 0);
    }

    #[test]
    fn what_nodes_say_is_added_up_and_what_one_does_not_say_is_unknown() {
        let node = |text| stats_in(text).unwrap();
        let one =
            node("entries=90;used_bytes=4096;entries_per_bval=9;entries_per_rec=1;load_pct=100");
        let other = node("entries=10;used_bytes=1024;entries_per_bval=1;load_pct=100");
        let index = joined("i", Some("s"), &[one, other]);
        assert_eq!((index.entries, index.memory_bytes), (100, Some(5120)));
        assert_eq!(
            (index.entries_per_key, index.selectivity),
            (Some(10.0), Some(0.1))
        );
        // A set index, or a node that does not know its mean yet.
        let silent = node("entries=7;load_pct=100");
        let index = joined("i", None, &[one, silent]);
        assert_eq!((index.entries, index.memory_bytes), (97, None));
        assert_eq!((index.entries_per_key, index.selectivity), (None, None));
        let unknown = node("entries=7;used_bytes=0;entries_per_bval=0");
        assert_eq!(joined("i", None, &[one, unknown]).entries_per_key, None);
        // Of a value that one node has, the other has nothing.
        let empty = node("entries=0;used_bytes=0;entries_per_bval=0");
        assert_eq!(joined("i", None, &[one, empty]).entries_per_key, Some(9.0));
        assert_eq!(joined("i", None, &[empty]).selectivity, None);
        assert_eq!(stats_in("ERROR:201:no index"), None);
        assert_eq!(stats_in(""), None);
    }
}
