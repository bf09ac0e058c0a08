//! A process that writes records, while a view of them and copies in them are kept current, is
//! killed in the middle of it: what was not applied yet is applied after the next opening, and
//! nothing is left that differs.

use std::ops::ControlFlow;

use spikelet::Store;
use spikelet::relation::Repair;

use crate::joined::{item_list, namespace};
use crate::kill::{child_dir, killed_after, tell_progress};
use crate::killed::next;
use crate::propagate::assignees;

const USERS: u64 = 8;
const ITEMS: u64 = 60;
/// Kills until one leaves changes that were not applied.
const KILLS_MAX: usize = 100;

#[test]
fn child() {
    let Some(dir) = child_dir() else {
        return;
    };
    let store = Store::open(&dir).unwrap();
    let names = assignees(namespace(&store));
    let _list = item_list(&namespace(&store))
        .updater()
        .unwrap()
        .start()
        .unwrap();
    let _names = names.updater().unwrap().start().unwrap();
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    let mut state = u64::from(std::process::id());
    for turn in 0_u64.. {
        let (user, item) = (
            (next(&mut state) % USERS) as i64,
            (next(&mut state) % ITEMS) as i64,
        );
        let written = match next(&mut state) % 8 {
            0 => users.put(user, [("name", turn as i64)]).map(drop),
            1 => items.delete(item).map(drop),
            2 => items.put(item, [("title", turn as i64)]).map(drop),
            3 => namespace(&store).transaction(|transaction| {
                let (users, items) = (transaction.set("users")?, transaction.set("items")?);
                for user in 0..USERS as i64 {
                    users.put(user, [("name", turn as i64)])?;
                }
                items.put(item, [("title", turn as i64)])
            }),
            _ => names.assign(item, user),
        };
        match written {
            Ok(()) => {}
            // A user without a name yet, or others were faster, time and again.
            Err(error) if error.is_retryable() || error.result_code() == 2 => {}
            Err(error) => panic!("{error}"),
        }
        if turn % 64 == 0 {
            tell_progress();
        }
    }
}

#[test]
fn kills_leave_no_view_and_no_copy_that_is_not_made_current() {
    let dir = tempfile::tempdir().unwrap();
    let kills = if std::env::var_os("SPIKELET_LONG").is_some() {
        50
    } else {
        8
    };
    // Updaters may have kept up with the writer at a kill, or at some.
    let (mut applied, mut kill) = (0, 0);
    while kill < kills || applied == 0 && kill < KILLS_MAX {
        kill += 1;
        killed_after(5 + kill % 7, "killed_updaters::child", dir.path());
        let store = Store::open(dir.path()).unwrap();
        let (list, names) = (item_list(&namespace(&store)), assignees(namespace(&store)));
        names.updater().unwrap().catch_up().unwrap();
        let caught_up = list.updater().unwrap().catch_up().unwrap();
        applied += caught_up.changes;
        let audit = names
            .verify(Repair::No, |_| ControlFlow::Continue(()))
            .unwrap();
        assert!(audit.is_sound(), "kill {kill}: {:?}", audit.faults);
        let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
        let view = list.view().unwrap();
        assert_eq!(view.len(), items.len(), "kill {kill}");
        for item in 0..ITEMS as i64 {
            let Some(record) = items.get(item).unwrap() else {
                continue;
            };
            let user = record.get("assignee").and_then(|user| user.as_i64());
            let user = user.and_then(|user| users.get(user).unwrap());
            let name = user.and_then(|user| user.get("name"));
            let row = view.get(item).unwrap().unwrap();
            assert_eq!(
                row.get("title"),
                record.get("title"),
                "kill {kill}, item {item}"
            );
            assert_eq!(row.get("assignee_name"), name, "kill {kill}, item {item}");
        }
        store.close().unwrap();
    }
    assert!(
        applied > 0,
        "the updater was never killed with changes before it"
    );
}
