//! Looks at the store by every face it has, and compares what they show.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::ControlFlow;

use super::naive::Naive;
use super::store::{Handles, NOTES, PEOPLE, Subject, person};
use super::{CHILDREN, PERSONS, TAGS};
use crate::query::Query;
use crate::record::SHARD_OF;
use crate::relation::{Layout, LayoutKind, RelationFault, RelationProgress, Repair};
use crate::shard::sharded_collections;
use crate::{Key, Namespace, Set, Value};

type Look = Result<(), String>;

fn same<T: PartialEq + Debug>(shown: &T, expected: &T, what: impl FnOnce() -> String) -> Look {
    if shown == expected {
        return Ok(());
    }
    let what = what();
    Err(format!("{what}\n     is {shown:?}\nmust be {expected:?}"))
}

fn number(key: &Key<'_>) -> i64 {
    match key {
        Key::Integer(number) => *number,
        other => panic!("a companion is shown, or a stranger: {other}"),
    }
}

fn numbers(keys: &[Key<'static>]) -> Vec<i64> {
    keys.iter().map(number).collect()
}

/// The records of people with their plain bins. A record without any is shown with no bins.
fn records(people: &Set) -> BTreeMap<i64, BTreeMap<&'static str, i64>> {
    let mut found = BTreeMap::new();
    let _: ControlFlow<()> = people.scan(|record| {
        let record = record.unwrap();
        let mut bins = BTreeMap::new();
        for name in ["n", "name"] {
            if let Some(value) = record.view.bin(name) {
                bins.insert(name, value.as_i64().unwrap());
            }
        }
        let is_new = found.insert(number(&record.key().unwrap()), bins).is_none();
        assert!(is_new, "a scan shows a record twice");
        ControlFlow::Continue(())
    });
    found
}

impl Naive {
    /// Lists the differences of another state.
    pub(super) fn differs_from(&self, seen: &Self) -> String {
        let mut differences = String::new();
        let mut sets = |what: &str, expected: BTreeSet<String>, seen: BTreeSet<String>| {
            for (sign, one, other) in [("lacks", &expected, &seen), ("has", &seen, &expected)] {
                for item in one.difference(other) {
                    differences += &format!("{sign} {what} {item}; ");
                }
            }
        };
        fn texts(items: impl Iterator<Item = impl Debug>) -> BTreeSet<String> {
            items.map(|item| format!("{item:?}")).collect()
        }
        sets("bins", texts(self.bins.iter()), texts(seen.bins.iter()));
        sets("tag", texts(self.tags.iter()), texts(seen.tags.iter()));
        sets(
            "follow",
            texts(self.follows.iter()),
            texts(seen.follows.iter()),
        );
        sets("link", texts(self.links.iter()), texts(seen.links.iter()));
        sets(
            "member",
            texts(self.members.iter()),
            texts(seen.members.iter()),
        );
        sets(
            "child",
            texts(self.children.iter()),
            texts(seen.children.iter()),
        );
        differences
    }
}

impl Subject {
    /// The state as pages show it.
    pub(super) fn observe(&self) -> Naive {
        let handles = self.handles();
        let (follows, links, children) = (handles.follows(), handles.links(), handles.children());
        let mut seen = Naive {
            layout: Some(kind_of(&self.layout)),
            ..Naive::default()
        };
        for (key, bins) in records(&self.people()) {
            if !bins.is_empty() {
                seen.bins.insert(key, bins);
            }
        }
        let members = handles.members().page(None, 100).unwrap();
        seen.members.extend(members.iter().map(number));
        for key in 0..PERSONS {
            let targets = follows.targets(key).page(0, 100).unwrap();
            seen.follows
                .extend(targets.iter().map(|target| (key, number(target))));
            for link in links.page(&person(key), None, None, 100).unwrap() {
                let tag = if &*link.tag == "friend" {
                    "friend"
                } else {
                    "sees"
                };
                seen.links.insert((key, tag, number(&link.to.key)));
            }
            for child in children.page(key, None, 100).unwrap().children {
                let text = child.bins.get("text").and_then(Value::as_i64).unwrap();
                seen.children.insert((key, number(&child.key)), text);
            }
            for tag in handles.list(key, "tags").page(0, 100).unwrap() {
                seen.tags.insert((key, tag.as_i64().unwrap()));
            }
        }
        seen
    }

    /// The last second of each person that expires.
    pub(super) fn last_seconds(&self) -> BTreeMap<i64, u64> {
        let people = self.people();
        let last_second = |key| {
            let found = people.get_header(key).unwrap()?;
            (found.void_time != 0).then_some((key, u64::from(found.void_time)))
        };
        (0..PERSONS).filter_map(last_second).collect()
    }

    fn people(&self) -> Set {
        self.namespace.set(PEOPLE).unwrap()
    }

    /// Compares all other faces with what pages show.
    pub(super) fn check(&self, now: &Naive) -> Look {
        let handles = self.handles();
        for key in 0..PERSONS {
            check_follows(&handles, now, key)?;
            check_links(&handles, now, key)?;
            self.check_children(&handles, now, key)?;
            check_tags(&handles, now, key)?;
        }
        self.check_members(&handles, now)?;
        self.check_records(now)?;
        self.check_indexes(now)?;
        self.check_audits(&handles, now)
    }

    fn check_children(&self, handles: &Handles<'_, &Namespace>, now: &Naive, key: i64) -> Look {
        let (children, expected) = (handles.children(), now.children_of(key));
        let (mut paged, mut token) = (Vec::new(), None);
        loop {
            let page = children.page(key, token.as_deref(), 2).unwrap();
            let text = |bins: &crate::Bins| bins.get("text").and_then(Value::as_i64).unwrap();
            let shown = page.children.iter();
            paged.extend(shown.map(|child| (number(&child.key), text(&child.bins))));
            match page.next {
                Some(next) => token = Some(next),
                None => break,
            }
        }
        // By reference, pages come in the order of digests.
        if matches!(self.layout, Layout::Reference { .. }) {
            paged.sort_unstable();
        }
        same(&paged, &expected, || {
            format!("pages of the children of {key}")
        })?;
        let count = children.len(key).unwrap();
        same(&count, &(expected.len() as u64), || {
            format!("children of {key}")
        })?;
        for child in 0..CHILDREN {
            let found: Option<BTreeMap<String, i64>> = children.get(key, child).unwrap();
            let text = found.map(|bins| bins["text"]);
            let wanted = now.children.get(&(key, child)).copied();
            same(&text, &wanted, || format!("child {child} of {key}"))?;
        }
        Ok(())
    }

    fn check_members(&self, handles: &Handles<'_, &Namespace>, now: &Naive) -> Look {
        let members = handles.members();
        let expected: Vec<i64> = now.members.iter().copied().collect();
        let fetched = members.fetch(None, 100).unwrap();
        let fetched: Vec<i64> = fetched.iter().map(|(key, _)| number(key)).collect();
        same(&fetched, &expected, || "members with their records".into())?;
        let count = members.len().unwrap();
        same(&count, &(expected.len() as u64), || {
            "count of members".into()
        })?;
        for key in 0..PERSONS {
            let found = members.contains(key).unwrap();
            let wanted = now.members.contains(&key);
            same(&found, &wanted, || format!("member {key}"))?;
        }
        Ok(())
    }

    fn check_records(&self, now: &Naive) -> Look {
        let people = self.people();
        let shown: BTreeSet<i64> = records(&people).into_keys().collect();
        for key in 0..PERSONS {
            let exists = people.exists(key).unwrap();
            same(&exists, &shown.contains(&key), || {
                format!("exists({key}), by the scan")
            })?;
            if now.exists(key) {
                same(&exists, &true, || format!("exists({key})"))?;
            }
        }
        let all = query_keys(&people.query_all());
        same(&all.iter().copied().collect(), &shown, || {
            "query_all".into()
        })?;
        same(&all.len(), &shown.len(), || "query_all, each once".into())?;
        same(&people.len(), &(shown.len() as u64), || {
            "len of the set".into()
        })?;
        let count = people.query_all().count().unwrap();
        same(&count, &(shown.len() as u64), || "count of all".into())?;
        let notes = self.namespace.set(NOTES).unwrap();
        let records = if matches!(self.layout, Layout::Consolidated { .. }) {
            0
        } else {
            now.children.len() as u64
        };
        same(&notes.len(), &records, || {
            "len of the children's set".into()
        })
    }

    fn check_indexes(&self, now: &Naive) -> Look {
        let people = self.people();
        let query = |index| people.query(index).unwrap();
        let with_n = |n: std::ops::RangeInclusive<i64>| -> BTreeSet<i64> {
            let bins = now.bins.iter();
            let hits = bins.filter(|(_, bins)| bins.get("n").is_some_and(|it| n.contains(it)));
            hits.map(|(key, _)| *key).collect()
        };
        for n in 0..4 {
            check_query(&query("by_n").eq(n), &with_n(n..=n), n)?;
            check_query(&query("by_n").range(n..=3), &with_n(n..=3), n)?;
        }
        for tag in 0..TAGS {
            check_query(&query("tags").eq(tag), &now.tagged(tag..=tag), tag)?;
        }
        for from in [0, 3, TAGS / 2] {
            let to = from + TAGS / 2;
            let hits = now.tagged(from..=to);
            check_query(&query("tags").range(from..=to), &hits, from)?;
            check_query(&query("tags").range(from..=to).descending(), &hits, from)?;
        }
        for key in 0..PERSONS {
            let sources = now.sources(key).into_iter().collect();
            check_query(&query("out").eq(key), &sources, key)?;
            let targets = now.targets(key).into_iter().collect();
            check_query(&query("in").eq(key), &targets, key)?;
        }
        let sources = now.follows.iter().map(|(from, _)| *from).collect();
        check_query(&query("out").range(0..=PERSONS), &sources, 0)
    }

    fn check_audits(&self, handles: &Handles<'_, &Namespace>, now: &Naive) -> Look {
        let go_on = |_: RelationProgress| ControlFlow::Continue(());
        let audit = handles.follows().verify(Repair::No, go_on).unwrap();
        same(&audit.faults, &vec![], || "faults of follows".into())?;
        same(&audit.edges, &(2 * now.follows.len() as u64), || {
            "edges of follows".into()
        })?;
        let audit = handles.children().verify(Repair::No, go_on).unwrap();
        same(&audit.faults, &vec![], || "faults of children".into())?;
        let audit = handles.links().verify([PEOPLE], Repair::No, go_on).unwrap();
        for fault in audit.faults {
            // A link one way may lead to a record that is gone.
            let RelationFault::DanglingLink { link, .. } = &fault else {
                return Err(format!("fault of links: {fault}"));
            };
            let is_gone = !now.exists(number(&link.to.key));
            same(&is_gone, &true, || format!("fault of links: {fault}"))?;
        }
        for collection in sharded_collections(&self.people()).unwrap() {
            same(&collection.missing.is_empty(), &true, || {
                format!("{collection:?}")
            })?;
            for left in collection.leftovers() {
                same(&left.elements, &0, || format!("left over: {left:?}"))?;
            }
        }
        let mut companions = 0;
        let _: ControlFlow<()> = self.people().with_companions().scan(|record| {
            companions += u64::from(record.unwrap().view.bin(SHARD_OF).is_some());
            ControlFlow::Continue(())
        });
        let all = self.people().with_companions().len();
        same(&all, &(companions + self.people().len()), || {
            "len with companions".into()
        })
    }
}

fn check_follows(handles: &Handles<'_, &Namespace>, now: &Naive, key: i64) -> Look {
    let follows = handles.follows();
    for (near, expected, what) in [
        (follows.targets(key), now.targets(key), "targets"),
        (follows.sources(key), now.sources(key), "sources"),
    ] {
        let what = |face: &str| format!("{face} of the {what} of {key}");
        let (mut by_offset, mut by_cursor) = (Vec::new(), Vec::new());
        loop {
            let page = near.page(by_offset.len() as u64, 2).unwrap();
            by_offset.extend(numbers(&page));
            if page.is_empty() {
                break;
            }
        }
        loop {
            let after = by_cursor.last().map(|key| Key::Integer(*key));
            let page = near.page_after(after.as_ref(), 3).unwrap();
            by_cursor.extend(numbers(&page));
            if page.len() < 3 {
                break;
            }
        }
        same(&by_offset, &expected, || what("pages by offset"))?;
        same(&by_cursor, &expected, || what("pages by key"))?;
        same(&near.len().unwrap(), &(expected.len() as u64), || {
            what("len")
        })?;
        let fetched = near.fetch(0, 100).unwrap();
        let fetched: Vec<i64> = fetched.iter().map(|related| number(&related.key)).collect();
        same(&fetched, &expected, || what("fetch"))?;
    }
    for other in 0..PERSONS {
        let wanted = now.follows.contains(&(key, other));
        let found = follows.contains(key, other).unwrap();
        same(&found, &wanted, || format!("contains({key}, {other})"))?;
        let found = follows.sources(other).contains(key).unwrap();
        same(&found, &wanted, || {
            format!("sources({other}).contains({key})")
        })?;
    }
    Ok(())
}

fn check_links(handles: &Handles<'_, &Namespace>, now: &Naive, key: i64) -> Look {
    let (links, from) = (handles.links(), person(key));
    for tag in ["friend", "sees"] {
        let mut paged = Vec::new();
        loop {
            let page = links.page(&from, Some(tag), paged.last(), 2).unwrap();
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        let shown: Vec<i64> = paged.iter().map(|link| number(&link.to.key)).collect();
        let own = now
            .links
            .iter()
            .filter(|link| (link.0, link.1) == (key, tag));
        let expected: Vec<i64> = own.map(|link| link.2).collect();
        same(&shown, &expected, || {
            format!("pages of links {tag} of {key}")
        })?;
        for other in 0..PERSONS {
            let found = links.contains(&from, tag, &person(other)).unwrap();
            let wanted = now.links.contains(&(key, tag, other));
            same(&found, &wanted, || {
                format!("link {tag} from {key} to {other}")
            })?;
        }
    }
    Ok(())
}

fn check_tags(handles: &Handles<'_, &Namespace>, now: &Naive, key: i64) -> Look {
    let list = handles.list(key, "tags");
    let own = now.tags.iter().filter(|(tagged, _)| *tagged == key);
    let expected: Vec<i64> = own.map(|(_, tag)| *tag).collect();
    let all: Vec<i64> = list
        .iter()
        .map(|tag| tag.unwrap().as_i64().unwrap())
        .collect();
    same(&all, &expected, || format!("tags of {key}"))?;
    same(&list.len().unwrap(), &(expected.len() as u64), || {
        format!("count of tags of {key}")
    })?;
    let middle = list.page(1, 2).unwrap();
    let middle: Vec<i64> = middle.iter().map(|tag| tag.as_i64().unwrap()).collect();
    let wanted: Vec<i64> = expected.iter().copied().skip(1).take(2).collect();
    same(&middle, &wanted, || {
        format!("second page of the tags of {key}")
    })
}

fn query_keys(query: &Query) -> Vec<i64> {
    let (mut found, mut query) = (Vec::new(), query.clone().limit(2));
    loop {
        let page = query.keys().unwrap();
        found.extend(page.iter().map(|hit| {
            let key = hit.as_ref().unwrap().key.clone();
            number(&key.unwrap())
        }));
        match page.cursor() {
            Some(cursor) => query = query.after(cursor),
            None => return found,
        }
    }
}

fn check_query(query: &Query, expected: &BTreeSet<i64>, asked: i64) -> Look {
    let what = |face: &str| format!("{face} for {asked}: {query:?}");
    let mut paged = query_keys(query);
    paged.sort_unstable();
    let wanted: Vec<i64> = expected.iter().copied().collect();
    same(&paged, &wanted, || what("pages of a query"))?;
    let count = query.count().unwrap();
    same(&count, &(wanted.len() as u64), || what("count of a query"))
}

fn kind_of(layout: &Layout) -> LayoutKind {
    match layout {
        Layout::KeyList { .. } => LayoutKind::KeyList,
        Layout::Consolidated { .. } => LayoutKind::Consolidated,
        Layout::Reference { .. } => LayoutKind::Reference,
    }
}
