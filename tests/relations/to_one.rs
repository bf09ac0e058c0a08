//! References to one record: set again, they leave the old one at both ends.

use spikelet::relation::{Address, Layout, Links, OneToMany, RelationFault, Repair};
use spikelet::{Error, Expiration, Result, Store, WritePolicy};

use serde_json::json;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::watched::{Calls, Watched};

fn person(name: &str) -> Address {
    Address::new("people", name)
}

fn bosses<S: spikelet::RecordStore>(store: S) -> Links<S> {
    Links::new(store, "links").reciprocal("boss", "report")
}

#[test]
fn a_link_that_is_set_is_the_only_one_of_its_tag() {
    let store = Store::in_memory().unwrap();
    let links = bosses(&store);
    let homer = person("homer");
    for boss in ["frank", "mindy"] {
        links.link(&homer, "boss", &person(boss)).unwrap();
    }
    links.link(&homer, "friend", &person("lenny")).unwrap();
    links
        .link(&person("carl"), "boss", &person("frank"))
        .unwrap();
    let replaced = links.set(&homer, "boss", &person("burns")).unwrap();
    assert_eq!(replaced, [person("frank"), person("mindy")]);
    let all = links.page(&homer, None, None, 10).unwrap();
    let all: Vec<_> = all
        .iter()
        .map(|link| (&*link.tag, link.to.clone()))
        .collect();
    assert_eq!(
        all,
        [("boss", person("burns")), ("friend", person("lenny"))]
    );
    let reports = links
        .page(&person("frank"), Some("report"), None, 10)
        .unwrap();
    assert_eq!(reports.len(), 1, "carl stays: {reports:?}");
    // Once more changes nothing.
    assert_eq!(links.set(&homer, "boss", &person("burns")).unwrap(), []);
}

#[test]
fn setting_a_link_that_was_cut_short_leaves_one_or_more_and_is_completed() {
    let mut cut = 0;
    for operations in 0.. {
        let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
        let links = bosses(&store);
        links
            .link(&person("homer"), "boss", &person("frank"))
            .unwrap();
        let dying = bosses(Watched::new(&store, &calls));
        calls.die_after(operations);
        let set = dying.set(&person("homer"), "boss", &person("burns"));
        let page = links
            .page(&person("homer"), Some("boss"), None, 10)
            .unwrap();
        assert!(!page.is_empty(), "after {operations} operations");
        links
            .set(&person("homer"), "boss", &person("burns"))
            .unwrap();
        let page = links
            .page(&person("homer"), Some("boss"), None, 10)
            .unwrap();
        assert_eq!(page.len(), 1);
        if set.is_ok() {
            break;
        }
        cut += 1;
    }
    assert!(cut > 3);
}

fn tasks(store: &Store, layout: Layout) -> OneToMany<&Store> {
    let tasks = OneToMany::new(store, "tasks", ("people", "tasks"), layout).unwrap();
    tasks.with_parent_bin("owner")
}

#[test]
fn a_child_that_gets_another_parent_keeps_its_bins_and_its_time() {
    for layout in [
        Layout::key_list("tasks"),
        Layout::reference("owner", "by_owner"),
    ] {
        let store = Store::in_memory().unwrap();
        let tasks = tasks(&store, layout);
        tasks.put("ann", 7, &json!({ "title": "paint" })).unwrap();
        let hour = Expiration::After(Duration::from_secs(3_600));
        let records = store.set("tasks").unwrap();
        records
            .touch_with(&WritePolicy::default().expiration(hour), 7)
            .unwrap();
        assert_eq!(tasks.set_parent(7, "bob").unwrap(), Some("ann".into()));
        assert_eq!(tasks.set_parent(7, "bob").unwrap(), Some("bob".into()));
        assert_eq!(
            (tasks.len("ann").unwrap(), tasks.len("bob").unwrap()),
            (0, 1)
        );
        let task: serde_json::Value = tasks.get("bob", 7).unwrap().unwrap();
        assert_eq!(task, json!({ "title": "paint" }));
        assert!(
            records
                .get_header(7)
                .unwrap()
                .unwrap()
                .expires_at()
                .is_some()
        );
        let audit = tasks
            .verify(Repair::No, |_| ControlFlow::Continue(()))
            .unwrap();
        assert!(audit.is_sound(), "{:?}", audit.faults);
        let nobody = tasks.set_parent(8, "bob");
        assert!(nobody.is_err(), "{nobody:?}");
        let strict = tasks.ends_must_exist();
        store
            .set("people")
            .unwrap()
            .put("cid", [("age", 1)])
            .unwrap();
        let refused = strict.set_parent(7, "dan");
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(store.set("people").unwrap().get("dan").unwrap(), None);
        assert_eq!(strict.parent_of(7).unwrap(), Some("bob".into()));
        strict.set_parent(7, "cid").unwrap();
        assert_eq!(
            (strict.len("cid").unwrap(), strict.len("bob").unwrap()),
            (1, 0)
        );
    }
}

#[test]
fn a_page_leaves_out_a_child_that_its_transaction_has_given_away() {
    let store = Store::in_memory().unwrap();
    let tasks = tasks(&store, Layout::reference("owner", "by_owner"));
    tasks.put("ann", 7, &json!({ "title": "paint" })).unwrap();
    let seen = store.transaction(|tx| {
        let tasks = tasks.within(tx);
        tasks.set_parent(7, "bob")?;
        tasks.page("ann", None, 10)
    });
    assert_eq!(seen.unwrap().children, []);
}

#[test]
fn children_that_do_not_name_their_parent_are_not_moved() {
    let store = Store::in_memory().unwrap();
    for layout in [Layout::key_list("tasks"), Layout::consolidated("tasks")] {
        let tasks = OneToMany::new(&store, "tasks", ("people", "tasks"), layout).unwrap();
        let moved: Result<_> = tasks.set_parent(7, "bob");
        assert!(matches!(moved, Err(Error::Parameter(_))), "{moved:?}");
    }
}

#[test]
fn a_child_that_is_removed_while_it_moves_to_another_parent_is_not_lost() {
    race_of_removals(Layout::key_list("tasks"));
    race_of_removals(Layout::reference("owner", "by_owner"));
}

fn race_of_removals(layout: Layout) {
    let store = Store::in_memory().unwrap();
    let tasks = OneToMany::new(&store, "tasks", ("people", "tasks"), layout).unwrap();
    let tasks = tasks.with_parent_bin("owner");
    const ROUNDS: i64 = 2_000;
    for child in 0..ROUNDS {
        let title = serde_json::json!({ "title": child });
        tasks.put("ann", child, &title).unwrap();
    }
    let start = std::sync::Barrier::new(2);
    let removed: Vec<bool> = std::thread::scope(|scope| {
        scope.spawn(|| {
            for child in 0..ROUNDS {
                start.wait();
                drop(tasks.set_parent(child, "bob"));
            }
        });
        let remove = |child| {
            start.wait();
            tasks.remove("ann", child).unwrap()
        };
        (0..ROUNDS).map(remove).collect()
    });
    // One of the two came first: the child is gone, or bob has it.
    let of_bob = tasks.page("bob", None, ROUNDS as usize).unwrap().children;
    let removed = removed.iter().filter(|removed| **removed).count();
    assert_eq!(of_bob.len(), ROUNDS as usize - removed);
    assert!(tasks.page("ann", None, 10).unwrap().children.is_empty());
    assert!(
        tasks
            .verify(Repair::No, |_| ControlFlow::Continue(()))
            .unwrap()
            .is_sound()
    );
}

#[test]
fn a_handle_without_the_parent_bin_that_is_declared_is_refused() {
    let store = Store::in_memory().unwrap();
    let tasks = || {
        let layout = Layout::key_list("tasks");
        OneToMany::new(&store, "tasks", ("people", "tasks"), layout).unwrap()
    };
    let title = json!({ "title": "paint" });
    let declared = tasks().with_parent_bin("owner");
    declared.put("marge", 17, &title).unwrap();
    let refused = tasks().put("homer", 17, &title).unwrap_err().to_string();
    assert!(refused.contains("is declared with"), "{refused}");
    assert!(tasks().remove("marge", 17).is_err());
    let of_marge = declared.page("marge", None, 10).unwrap().children;
    assert_eq!(of_marge.len(), 1);
}

#[test]
fn a_link_that_takes_the_place_of_thousands_is_set_in_steps() {
    let store = Store::in_memory().unwrap();
    let links = bosses(&store);
    let homer = person("homer");
    const BOSSES: usize = 4_200;
    for boss in 0..BOSSES {
        let boss = person(&format!("boss {boss}"));
        links.link(&homer, "boss", &boss).unwrap();
    }
    let before = links.set(&homer, "boss", &person("burns")).unwrap();
    assert_eq!(before.len(), BOSSES);
    let left = links.page(&homer, Some("boss"), None, 10).unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].to, person("burns"));
    let reports = links.page(&person("boss 7"), None, None, 10).unwrap();
    assert!(reports.is_empty(), "{reports:?}");
}

#[test]
fn an_audit_takes_a_child_off_the_list_of_a_parent_that_it_does_not_name() {
    use spikelet::operations::lists;
    use spikelet::{ListOrder, ListPolicy, ListWriteFlags};
    let store = Store::in_memory().unwrap();
    let tasks = tasks(&store, Layout::key_list("tasks"));
    tasks.put("ann", 7, &json!({ "title": "paint" })).unwrap();
    let ordered = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE);
    let people = store.set("people").unwrap();
    people
        .operate("bob", &[lists::append(&ordered, "tasks", 7)])
        .unwrap();
    let verify = |repair| tasks.verify(repair, |_| ControlFlow::Continue(()));
    let found = verify(Repair::Yes).unwrap();
    let fault = RelationFault::OfAnother {
        parent: "bob".into(),
        key: 7.into(),
    };
    assert_eq!((found.faults, found.repaired), (vec![fault], 1));
    assert!(verify(Repair::No).unwrap().is_sound());
    assert_eq!(
        (tasks.len("ann").unwrap(), tasks.len("bob").unwrap()),
        (1, 0)
    );
}

#[test]
fn a_child_that_only_names_its_parent_is_not_deleted_by_a_move() {
    let store = Store::in_memory().unwrap();
    let from = Layout::reference("parent", "by_parent");
    let children = OneToMany::new(&store, "children", ("a", "b"), from.clone()).unwrap();
    children.put("ann", 1, &json!({})).unwrap();
    let go_on = |_| ControlFlow::Continue(());
    let keys_of = |children: &OneToMany<&Store>| {
        let page = children.page("ann", None, 10).unwrap();
        let keys: Vec<_> = page.children.into_iter().map(|child| child.key).collect();
        keys
    };
    let to = Layout::key_list("keys");
    let moving = OneToMany::new(&store, "children", ("a", "b"), to).unwrap();
    let moving = moving.moving_from(from).unwrap();
    assert_eq!(moving.move_children(go_on).unwrap_err().result_code(), 4);
    assert_eq!(keys_of(&moving), [1.into()]);
    // As the error advises.
    moving.put("ann", 1, &json!({ "n": 1 })).unwrap();
    assert_eq!(keys_of(&moving), [1.into()]);
    assert!(moving.move_children(go_on).unwrap());
    let to = Layout::key_list("keys");
    let moved = OneToMany::new(&store, "children", ("a", "b"), to).unwrap();
    assert_eq!(keys_of(&moved), [1.into()]);
    let child = store.set("b").unwrap().get(1).unwrap().unwrap();
    assert_eq!(
        (child.get("n"), child.get("parent")),
        (Some(1.into()), None)
    );
}

#[test]
fn children_that_name_no_parent_are_moved_to_a_list_of_children_that_do() {
    let store = Store::in_memory().unwrap();
    let go_on = |_| ControlFlow::Continue(());
    let children = |bin| OneToMany::new(&store, "kin", ("a", "b"), Layout::key_list(bin)).unwrap();
    let value = json!({ "n": 1 });
    children("keys").put("ann", 1, &value).unwrap();
    let named = || children("children").with_parent_bin("parent");
    let moving = named().moving_from(Layout::key_list("keys")).unwrap();
    let check = |children: &OneToMany<&Store>| {
        let found: Option<serde_json::Value> = children.get("ann", 1).unwrap();
        assert_eq!(found.as_ref(), Some(&value));
        let page = children.page("ann", None, 10).unwrap();
        assert_eq!((page.children.len(), children.len("ann").unwrap()), (1, 1));
        let audit = children.verify(Repair::No, go_on).unwrap();
        assert!(audit.is_sound(), "{:?}", audit.faults);
    };
    check(&moving);
    assert!(moving.move_children(go_on).unwrap());
    check(&moving);
    check(&named());
    assert_eq!(named().set_parent(1, "bob").unwrap(), Some("ann".into()));
}
