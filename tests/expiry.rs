//! How writes change a record's remaining time to live.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::Duration;

use spikelet::operations::add;
use spikelet::storage::ManualClock;
use spikelet::{Expiration, NamespaceConfig, Set, Store, WritePolicy};

const HOUR: Duration = Duration::from_secs(3_600);

/// A set with the record "alice", which has lived for half of its hour, and the namespace's
/// default.
fn half_an_hour_left(default: Option<Duration>) -> (Set, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let store = Store::builder()
        .clock(clock.clone())
        .namespace(NamespaceConfig::new("test").default_time_to_live(default))
        .open()
        .unwrap();
    let set = store.set("sessions").unwrap();
    set.put_with(&after(HOUR), "alice", [("visits", 1)])
        .unwrap();
    clock.advance_ms(HOUR.as_millis() as u64 / 2);
    (set, clock)
}

fn after(live: Duration) -> WritePolicy {
    WritePolicy::default().expiration(Expiration::After(live))
}

fn keep() -> WritePolicy {
    WritePolicy::default().expiration(Expiration::DontUpdate)
}

/// How long the record lives from now on; `None`: for ever.
fn left(set: &Set, clock: &ManualClock) -> Option<Duration> {
    let metadata = set.get_header("alice").unwrap().unwrap();
    let expires_at = metadata.expires_at()?;
    let now = spikelet::storage::Clock::now_ms(clock);
    let now =
        std::time::UNIX_EPOCH + Duration::from_secs(1_262_304_000) + Duration::from_millis(now);
    expires_at.duration_since(now).ok()
}

#[test]
fn a_plain_write_gives_the_namespaces_default_whatever_time_was_left() {
    type Write = fn(&Set);
    let writes: [(&str, Write); 6] = [
        ("put", |set| {
            set.put("alice", [("visits", 2)]).unwrap();
        }),
        ("add", |set| {
            set.add("alice", [("visits", 1)]).unwrap();
        }),
        ("operate", |set| {
            set.operate("alice", &[add("visits", 1)]).unwrap();
        }),
        ("update", |set| {
            set.update("alice", |bins| bins.set("visits", 2)).unwrap();
        }),
        ("touch", |set| {
            set.touch("alice").unwrap();
        }),
        ("put_as", |set| {
            let bins = std::collections::BTreeMap::from([("visits", 2)]);
            set.put_as("alice", &bins).unwrap();
        }),
    ];
    for (name, write) in writes {
        for default in [None, Some(2 * HOUR)] {
            let (set, clock) = half_an_hour_left(default);
            assert_eq!(left(&set, &clock), Some(HOUR / 2));
            write(&set);
            assert_eq!(left(&set, &clock), default, "{name}");
        }
    }
}

#[test]
fn a_write_that_keeps_the_time_changes_nothing_about_it() {
    for default in [None, Some(2 * HOUR)] {
        let (set, clock) = half_an_hour_left(default);
        set.put_with(&keep(), "alice", [("visits", 2)]).unwrap();
        set.operate_with(&keep(), "alice", &[add("visits", 1)])
            .unwrap();
        set.touch_with(&keep(), "alice").unwrap();
        assert_eq!(left(&set, &clock), Some(HOUR / 2));
        let alice = set.get("alice").unwrap().unwrap();
        assert_eq!(alice.get("visits"), Some(3.into()));
        clock.advance_ms(HOUR.as_millis() as u64);
        assert!(!set.exists("alice").unwrap());
    }
}

#[test]
fn a_new_record_has_no_time_to_keep_and_takes_the_default() {
    for default in [None, Some(2 * HOUR)] {
        let (set, clock) = half_an_hour_left(default);
        set.delete("alice").unwrap();
        set.put_with(&keep(), "alice", [("visits", 1)]).unwrap();
        assert_eq!(left(&set, &clock), default);
    }
}

#[test]
fn a_record_that_never_expires_keeps_that_too() {
    let (set, clock) = half_an_hour_left(Some(2 * HOUR));
    let never = WritePolicy::default().expiration(Expiration::Never);
    set.put_with(&never, "alice", [("visits", 2)]).unwrap();
    set.put_with(&keep(), "alice", [("visits", 3)]).unwrap();
    assert_eq!(left(&set, &clock), None);
}

#[test]
fn the_time_of_the_last_update_stays_at_its_greatest_value() {
    let greatest = (1_u64 << 40) - 1; // November 2044
    let clock = Arc::new(ManualClock::at(greatest - 1_000));
    let store = Store::builder().clock(clock.clone()).open().unwrap();
    let set = store.set("x").unwrap();
    for (passed_ms, last_update_ms) in [(0, greatest - 1_000), (2_000, greatest), (5_000, greatest)]
    {
        clock.advance_ms(passed_ms);
        set.put("k", [("b", 1)]).unwrap();
        let header = set.get_header("k").unwrap().unwrap();
        assert_eq!(header.last_update_ms, last_update_ms);
    }
}
