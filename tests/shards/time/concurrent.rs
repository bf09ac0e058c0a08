//! Several writers at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

#[test]
fn of_many_first_writers_none_is_lost() {
    for shards in [1, 4] {
        let (store, _) = store_at(FEBRUARY_28);
        let shared = chat(&store, TimeWidth::Hourly).hashed(shards);
        let barrier = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (store, shared, barrier) = (&store, &shared, &barrier);
                scope.spawn(move || {
                    let own = chat(store, TimeWidth::Hourly).hashed(shards);
                    let said = if thread % 2 == 0 { shared } else { &own };
                    for hour in 0..40 {
                        barrier.wait();
                        let when = at(FEBRUARY_28 + hour * HOUR + thread);
                        assert!(said.add(when, thread as i64).unwrap());
                        assert!(!said.add(when, thread as i64).unwrap());
                    }
                });
            }
        });
        let all = shared.range(at(0)..at(FEBRUARY_28 * 2)).all().unwrap();
        let expected = (0..40 * 8)
            .map(|number| (number / 8, number % 8))
            .map(|(hour, thread)| timed(FEBRUARY_28 + hour * HOUR + thread, thread as i64));
        assert_eq!(all, expected.collect::<Vec<_>>());
    }
}

/// Elements added beside no deletion are there; the remaining ones are in records of the last
/// collection.
#[test]
fn additions_between_deletions_are_there() {
    let (store, _) = store_at(FEBRUARY_28);
    let (begun, ended) = (AtomicU64::new(0), AtomicU64::new(0));
    let done = AtomicBool::new(false);
    let (added, checked) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let adders: Vec<_> = (0..4_u64)
            .map(|thread| {
                let (store, begun, ended) = (&store, &begun, &ended);
                let (added, checked) = (&added, &checked);
                scope.spawn(move || {
                    let said = chat(store, TimeWidth::Hourly).hashed(2);
                    let mut number = 0;
                    while number < 3_000 || checked.load(Ordering::SeqCst) < 50 {
                        number += 1;
                        let when = at(FEBRUARY_28 + number % 3 * HOUR + thread);
                        let deleted = ended.load(Ordering::SeqCst);
                        said.add(when, number as i64).unwrap();
                        added.fetch_add(1, Ordering::SeqCst);
                        let element = (when, Value::Int(number as i64));
                        let found = said
                            .range(when..when + Duration::from_secs(1))
                            .all()
                            .unwrap();
                        // No deletion began after the last one that had ended before the addition.
                        if begun.load(Ordering::SeqCst) == deleted {
                            assert!(found.contains(&element), "{element:?} in {found:?}");
                            checked.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                })
            })
            .collect();
        let (store, begun, ended, added, done) = (&store, &begun, &ended, &added, &done);
        scope.spawn(move || {
            let said = chat(store, TimeWidth::Hourly).hashed(2);
            while !done.load(Ordering::SeqCst) {
                begun.fetch_add(1, Ordering::SeqCst);
                said.delete().unwrap();
                ended.fetch_add(1, Ordering::SeqCst);
                // Something is added between two deletions.
                let before = added.load(Ordering::SeqCst);
                while added.load(Ordering::SeqCst) < before + 8 && !done.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            }
        });
        for adder in adders {
            adder.join().unwrap();
        }
        done.store(true, Ordering::SeqCst);
    });
    chat(&store, TimeWidth::Hourly).hashed(2).delete().unwrap();
    // Leftovers of late writers, if any, are closed and empty.
    for key in keys(&store).iter().filter(|key| *key != "lobby") {
        let record = store
            .set("chats")
            .unwrap()
            .get(key.as_str())
            .unwrap()
            .unwrap();
        assert!(record.get("frozen").is_some(), "{record:?}");
        assert!(record.get("said").is_none(), "{record:?}");
    }
}
