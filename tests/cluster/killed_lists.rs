//! Calls that change a list and a record, or two lists, for processes that die at each of their
//! steps.

use serde_json::json;
use spikelet::cluster::Cluster;
use spikelet::operations::put;
use spikelet::relation::{Address, Layout, Links, Members, OnDelete, OneToMany, Repair};
use spikelet::{IndexedRecordSet, Record, RecordSet, RecordStore, WritePolicy};

use crate::killed_handles::{Case, go_on};

pub const CASES: &[Case] = &[
    Case {
        name: "child",
        prepare: |cluster, set| {
            children(cluster, set)
                .put(1, 1, &json!({ "n": 1 }))
                .unwrap()
        },
        act: |store, set| children(store, set).put(1, 2, &json!({ "n": 2 })).unwrap(),
        check: |cluster, set, is_done| check_children(cluster, set, is_done.then_some(2)),
    },
    Case {
        name: "orphan",
        prepare: |cluster, set| {
            for id in 1..3 {
                children(cluster, set)
                    .put(1, id, &json!({ "n": id }))
                    .unwrap();
            }
        },
        act: |store, set| assert!(children(store, set).remove(1, 2).unwrap()),
        check: |cluster, set, is_done| check_children(cluster, set, is_done.then_some(1)),
    },
    Case {
        name: "adopt",
        prepare: |cluster, set| put_child(&named(cluster, set), 1, 2),
        act: |store, set| {
            let former = named(store, set).set_parent(2, 3).unwrap();
            assert_eq!(former, Some(1.into()));
        },
        check: |cluster, set, is_done| check_moved(&named(cluster, set), set, is_done),
    },
    Case {
        name: "put-elsewhere",
        prepare: |cluster, set| put_child(&named(cluster, set), 1, 2),
        act: |store, set| put_child(&named(store, set), 3, 2),
        check: |cluster, set, is_done| check_moved(&named(cluster, set), set, is_done),
    },
    Case {
        name: "refer-elsewhere",
        prepare: |cluster, set| put_child(&referring(cluster, set), 1, 2),
        act: |store, set| put_child(&referring(store, set), 3, 2),
        check: |cluster, set, is_done| check_moved(&referring(cluster, set), set, is_done),
    },
    Case {
        name: "orphan-named",
        prepare: |cluster, set| put_child(&named(cluster, set), 1, 2),
        act: |store, set| assert!(named(store, set).remove(1, 2).unwrap()),
        check: |cluster, set, is_done| check_removed(&named(cluster, set), set, is_done),
    },
    Case {
        name: "orphan-referring",
        prepare: |cluster, set| put_child(&referring(cluster, set), 1, 2),
        act: |store, set| assert!(referring(store, set).remove(1, 2).unwrap()),
        check: |cluster, set, is_done| check_removed(&referring(cluster, set), set, is_done),
    },
    Case {
        name: "family",
        prepare: |cluster, set| (1..4).for_each(|id| put_child(&named(cluster, set), 1, id)),
        act: |store, set| {
            let deleted = named(store, set).delete_with_edges(1, OnDelete::Cascade, go_on);
            assert!(deleted.unwrap());
        },
        check: |cluster, set, is_done| {
            let children = named(cluster, set);
            assert!(children.verify(Repair::Yes, go_on).unwrap().complete);
            assert!(children.verify(Repair::No, go_on).unwrap().is_sound());
            let page = children.page(1, None, 9).unwrap().children;
            assert!(page.is_empty() || !is_done, "{set}: {page:?}");
            let deleted = children.delete_with_edges(1, OnDelete::Cascade, go_on);
            assert!(deleted.unwrap());
            assert_eq!(children.len(1).unwrap(), 0);
            assert_eq!(records_of(cluster, &format!("{set}-c")), 0);
        },
    },
    Case {
        name: "family-referring",
        prepare: |cluster, set| {
            let parents = cluster.records(&format!("{set}-p")).unwrap();
            let name = [put("name", "ann")];
            parents
                .operate_on(&WritePolicy::default(), &1.into(), &name)
                .unwrap();
            (1..4).for_each(|id| put_child(&referring(cluster, set), 1, id));
        },
        act: |store, set| {
            let deleted = referring(store, set).delete_with_edges(1, OnDelete::Cascade, go_on);
            assert!(deleted.unwrap());
        },
        check: |cluster, set, is_done| {
            let children = referring(cluster, set);
            if !is_done {
                let deleted = children.delete_with_edges(1, OnDelete::Cascade, go_on);
                assert!(deleted.unwrap());
            }
            assert_eq!(children.len(1).unwrap(), 0);
            assert_eq!(records_of(cluster, &format!("{set}-c")), 0);
            assert_eq!(records_of(cluster, &format!("{set}-p")), 0);
        },
    },
    Case {
        name: "new-layout",
        prepare: |cluster, set| {
            (1..4).for_each(|id| put_child(&children(cluster, set), 1, id));
        },
        act: |store, set| assert!(moving(store, set).move_children(go_on).unwrap()),
        check: |cluster, set, _| {
            let children = moving(cluster, set);
            assert!(children.verify(Repair::Yes, go_on).unwrap().complete);
            assert!(children.move_children(go_on).unwrap());
            // The pages of the former layout come first.
            let (mut numbers, mut token) = (Vec::new(), Some(String::new()));
            while let Some(behind) = token {
                let behind = Some(&*behind).filter(|token| !token.is_empty());
                let page = children.page(1, behind, 9).unwrap();
                numbers.extend(
                    page.children
                        .iter()
                        .map(|child| child.bins.get("n").cloned()),
                );
                token = page.next;
            }
            assert_eq!(numbers, [1, 2, 3].map(|number| Some(number.into())));
        },
    },
    Case {
        name: "member",
        prepare: |cluster, set| put_member(cluster, set, 1),
        act: |store, set| put_member(store, set, 2),
        check: |cluster, set, is_done| check_members(cluster, set, is_done.then_some(2)),
    },
    Case {
        name: "leave",
        prepare: |cluster, set| (1..3).for_each(|id| put_member(cluster, set, id)),
        act: |store, set| assert!(members(store, set).remove(2).unwrap()),
        check: |cluster, set, is_done| check_members(cluster, set, is_done.then_some(1)),
    },
    Case {
        name: "link",
        prepare: |cluster, set| {
            let new = links(cluster).link(&at_key(set, 1), UP, &at_key(set, 2));
            assert!(new.unwrap());
        },
        act: |store, set| {
            assert!(
                links(store)
                    .link(&at_key(set, 1), UP, &at_key(set, 3))
                    .unwrap()
            )
        },
        check: |cluster, set, is_done| check_links(cluster, set, is_done.then_some(&[2, 3])),
    },
    Case {
        name: "unlink",
        prepare: |cluster, set| {
            (2..4).for_each(|id| {
                links(cluster)
                    .link(&at_key(set, 1), UP, &at_key(set, id))
                    .unwrap();
            });
        },
        act: |store, set| {
            assert!(
                links(store)
                    .unlink(&at_key(set, 1), UP, &at_key(set, 3))
                    .unwrap()
            )
        },
        check: |cluster, set, is_done| check_links(cluster, set, is_done.then_some(&[2])),
    },
    Case {
        name: "relink",
        prepare: |cluster, set| {
            (2..4).for_each(|id| {
                links(cluster)
                    .link(&at_key(set, 1), UP, &at_key(set, id))
                    .unwrap();
            });
        },
        act: |store, set| {
            let replaced = links(store)
                .set(&at_key(set, 1), UP, &at_key(set, 4))
                .unwrap();
            assert_eq!(replaced.len(), 2);
        },
        check: |cluster, set, is_done| check_links(cluster, set, is_done.then_some(&[4])),
    },
];

fn children<'s, S: RecordStore<Records: IndexedRecordSet>>(
    store: &'s S,
    set: &str,
) -> OneToMany<&'s S> {
    let sets = (&*format!("{set}-p"), &*format!("{set}-c"));
    OneToMany::new(store, set, sets, Layout::key_list("children")).unwrap()
}

fn check_children(cluster: &Cluster, set: &str, count: Option<usize>) {
    let children = children(cluster, set);
    let audit = children.verify(Repair::Yes, go_on).unwrap();
    assert!(audit.is_sound() || count.is_none(), "{set}: {audit:?}");
    assert!(children.verify(Repair::No, go_on).unwrap().is_sound());
    let page = children.page(1, None, 9).unwrap().children;
    assert_eq!(page[0].bins.get("n"), Some(&1.into()));
    assert!(
        count.is_none_or(|count| page.len() == count),
        "{set}: {page:?}"
    );
}

fn named<'s, S: RecordStore<Records: IndexedRecordSet>>(
    store: &'s S,
    set: &str,
) -> OneToMany<&'s S> {
    children(store, set).with_parent_bin("parent")
}

fn referring<'s, S: RecordStore<Records: IndexedRecordSet>>(
    store: &'s S,
    set: &str,
) -> OneToMany<&'s S> {
    let sets = (&*format!("{set}-p"), &*format!("{set}-c"));
    let index = format!("{set}-by-parent");
    OneToMany::new(store, set, sets, Layout::reference("parent", &index)).unwrap()
}

fn moving<'s, S: RecordStore<Records: IndexedRecordSet>>(
    store: &'s S,
    set: &str,
) -> OneToMany<&'s S> {
    let sets = (&*format!("{set}-p"), &*format!("{set}-c"));
    let children = OneToMany::new(store, set, sets, Layout::consolidated("kids")).unwrap();
    children.moving_from(Layout::key_list("children")).unwrap()
}

fn put_child<S: RecordStore<Records: IndexedRecordSet>>(
    children: &OneToMany<S>,
    parent: i64,
    child: i64,
) {
    children.put(parent, child, &json!({ "n": child })).unwrap();
}

fn check_moved<S: RecordStore<Records: IndexedRecordSet>>(
    children: &OneToMany<S>,
    set: &str,
    is_done: bool,
) {
    let pages = || -> Vec<i64> {
        let has_child =
            |parent: &i64| !children.page(*parent, None, 9).unwrap().children.is_empty();
        [1, 3].into_iter().filter(has_child).collect()
    };
    // Also before the repair, it is a child of the parent that it names.
    for _ in 0..2 {
        let parent = children.parent_of(2).unwrap().unwrap();
        assert!(parent == 3.into() || !is_done, "{set}: {parent}");
        let named = if parent == 3.into() { 3 } else { 1 };
        assert_eq!(pages(), [named], "{set}");
        children.verify(Repair::Yes, go_on).unwrap();
    }
    assert!(children.verify(Repair::No, go_on).unwrap().is_sound());
}

fn check_removed<S: RecordStore<Records: IndexedRecordSet>>(
    children: &OneToMany<S>,
    set: &str,
    is_done: bool,
) {
    for _ in 0..2 {
        let named = children.parent_of(2).unwrap();
        let page = children.page(1, None, 9).unwrap().children;
        assert_eq!(page.len(), usize::from(named.is_some()), "{set}");
        assert!(named.is_none() || !is_done, "{set}");
        children.verify(Repair::Yes, go_on).unwrap();
    }
    assert!(children.verify(Repair::No, go_on).unwrap().is_sound());
}

/// How many records of a set are not about to be deleted.
fn records_of(cluster: &Cluster, set: &str) -> usize {
    let mut count = 0;
    let records = cluster.records(set).unwrap();
    let mut add = |record: &Record| count += usize::from(record.get("~removed").is_none());
    records.scan_records(&mut add).unwrap();
    count
}

fn members<'s, S: RecordStore>(store: &'s S, set: &str) -> Members<&'s S> {
    Members::new(store, set, (&format!("{set}-l"), "all", "keys"))
}

fn put_member<S: RecordStore>(store: &S, set: &str, id: i64) {
    let member = json!({ "n": id });
    assert!(members(store, set).put_as(id, &member).unwrap());
}

fn check_members(cluster: &Cluster, set: &str, count: Option<usize>) {
    let members = members(cluster, set);
    let audit = members.verify(Repair::Yes, go_on).unwrap();
    assert!(audit.is_sound() || count.is_none(), "{set}: {audit:?}");
    assert!(members.verify(Repair::No, go_on).unwrap().is_sound());
    let found = members.fetch(None, 9).unwrap();
    assert_eq!(found[0].0, 1.into(), "{set}");
    assert!(
        count.is_none_or(|count| found.len() == count),
        "{set}: {found:?}"
    );
    assert_eq!(records_of(cluster, set), found.len(), "{set}");
}

const UP: &str = "parent";

fn links<S: RecordStore>(store: &S) -> Links<&S> {
    Links::new(store, "links").reciprocal(UP, "child")
}

fn at_key(set: &str, key: i64) -> Address {
    Address::new(set, key)
}

fn check_links(cluster: &Cluster, set: &str, wanted: Option<&[i64]>) {
    let links = links(cluster);
    for id in 2..5 {
        let policy = WritePolicy::default();
        let records = cluster.records(set).unwrap();
        let there = [put("n", id)];
        records.operate_on(&policy, &id.into(), &there).unwrap();
    }
    let audit = links.verify([set], Repair::Yes, go_on).unwrap();
    assert!(audit.is_sound() || wanted.is_none(), "{set}: {audit:?}");
    assert!(links.verify([set], Repair::No, go_on).unwrap().is_sound());
    let is_linked = |id: &i64| {
        links
            .contains(&at_key(set, 1), UP, &at_key(set, *id))
            .unwrap()
    };
    let found: Vec<i64> = (2..5).filter(is_linked).collect();
    for id in 2..5 {
        let back = links
            .contains(&at_key(set, id), "child", &at_key(set, 1))
            .unwrap();
        assert_eq!(back, found.contains(&id), "{set}: {id}");
    }
    assert!(
        wanted.is_none_or(|wanted| found == wanted),
        "{set}: {found:?}"
    );
    assert!(!found.is_empty(), "{set}");
}
