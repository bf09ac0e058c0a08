//! How long elements are kept.

use spikelet::Set;

use super::*;

#[test]
fn what_is_past_the_retention_is_gone_and_late_data_is_refused() {
    let (store, clock) = store_at(FEBRUARY_28);
    let said = chat(&store, TimeWidth::Daily).retention(Duration::from_secs(2 * DAY));
    let day = |day: u64| at(FEBRUARY_28 + day * DAY + 100);
    let all = |said: &TimeShards<Set>| said.range(UNIX_EPOCH..day(1_000)).all().unwrap().len();
    for number in 0..10_u64 {
        // Two days late is not too late, three days are.
        said.add(day(number), number as i64).unwrap();
        if number >= 3 {
            assert!(said.add(day(number - 2), -1).unwrap());
            for _ in 0..2 {
                let error = said.add(day(number - 3), -2).unwrap_err();
                assert_eq!(error.result_code(), 22, "{error}");
                assert!(error.to_string().contains("2024-0"), "{error}");
            }
            assert!(
                !said
                    .remove(day(number - 3), &(number as i64 - 3).into())
                    .unwrap()
            );
            // A handle that has never seen the collection knows the same.
            let other = chat(&store, TimeWidth::Daily).retention(Duration::from_secs(2 * DAY));
            assert!(other.add(day(number - 3), -2).is_err());
            assert_eq!(all(&other), all(&said));
        }
        assert!(all(&said) <= 6, "{}", all(&said));
        clock.advance_ms(DAY * 1000);
    }
    // A record can be read during the whole second in which it expires.
    clock.advance_ms(2_000);
    maintain(&store);
    assert_eq!(
        keys(&store),
        ["lobby", "lobby:2024-03-07", "lobby:2024-03-08"]
    );
    // A long silence leaves nothing, and a new beginning.
    clock.advance_ms(100 * DAY * 1000);
    assert_eq!(all(&said), 0);
    assert_eq!(said.page_after(None, 10).unwrap(), []);
    said.add(day(110), 1).unwrap();
    assert_eq!(all(&said), 1);
    maintain(&store);
    assert_eq!(keys(&store), ["lobby", "lobby:2024-06-17"]);
    // The directory of a year expires with its last day.
    assert_eq!(
        all_keys(&store)[1..],
        ["lobby:2024-06-17", "lobby:2024:buckets", "lobby:buckets"]
    );
    clock.advance_ms(365 * DAY * 1000);
    said.add(day(475), 1).unwrap();
    maintain(&store);
    assert_eq!(
        all_keys(&store)[1..],
        ["lobby:2025-06-17", "lobby:2025:buckets", "lobby:buckets"]
    );
    assert_eq!(said.latest(5).unwrap().len(), 1);
}

#[test]
fn a_bucket_expires_at_its_end_and_not_after_its_last_write() {
    let (store, clock) = store_at(FEBRUARY_28);
    let said = chat(&store, TimeWidth::Hourly).retention(Duration::from_secs(HOUR));
    said.add(at(FEBRUARY_28), 1).unwrap();
    clock.advance_ms((2 * HOUR - 1) * 1000);
    assert!(said.add(at(FEBRUARY_28), 2).unwrap());
    assert_eq!(said.page_after(None, 5).unwrap().len(), 2);
    clock.advance_ms(1000);
    assert!(said.add(at(FEBRUARY_28), 3).is_err());
    assert_eq!(said.page_after(None, 5).unwrap(), []);
    clock.advance_ms(2000);
    maintain(&store);
    assert_eq!(keys(&store), ["lobby"]);
}

#[test]
fn buckets_of_every_width_expire_with_their_pages() {
    for width in [
        TimeWidth::minutes(1).unwrap(),
        TimeWidth::minutes(30).unwrap(),
        TimeWidth::Hourly,
        TimeWidth::Daily,
    ] {
        for shards in [1, 4] {
            let (store, clock) = store_at(FEBRUARY_28);
            let said = chat(&store, width)
                .hashed(shards)
                .retention(3 * width.duration());
            let bucket = |number: u32| at(FEBRUARY_28) + number * width.duration();
            for number in 0..10 {
                assert!(said.add(bucket(number), i64::from(number)).unwrap());
                let latest = said.latest(100).unwrap();
                let first = i64::from(number.saturating_sub(3));
                let kept = (first..=number.into()).rev().map(Value::Int);
                let found = latest.into_iter().map(|(_, element)| element);
                assert!(found.eq(kept), "{width}, {shards} shards");
                clock.advance_ms(width.duration().as_millis() as u64);
            }
            assert!(matches!(
                said.add(bucket(6), 0),
                Err(spikelet::Error::PastRetention { .. })
            ));
            assert!(!said.remove(bucket(6), &6.into()).unwrap());
            assert_eq!(said.range(..).len().unwrap(), 3);
            // Two years later there is nothing left but the root and the page of all years.
            clock.advance_ms(2 * 366 * DAY * 1000);
            assert_eq!(said.latest(1).unwrap(), []);
            maintain(&store);
            assert_eq!(all_keys(&store), ["lobby", "lobby:buckets"]);
        }
    }
}

#[test]
fn what_no_record_could_be_kept_for_is_refused_and_nothing_written() {
    let (store, _) = store_at(FEBRUARY_28);
    let years = |years: u64| Duration::from_secs(years * 365 * DAY);
    for retention in [Duration::MAX, years(10)] {
        let said = chat(&store, TimeWidth::Daily).retention(retention);
        let error = said.add(at(FEBRUARY_28), 1).unwrap_err();
        assert_eq!(error.result_code(), 4, "{error}");
        assert!(error.to_string().contains("shorter retention"), "{error}");
        assert_eq!(said.page_after(None, 1).unwrap(), []);
    }
    let nearly = years(10) - Duration::from_secs(DAY + 1);
    let said = chat(&store, TimeWidth::Daily).retention(nearly);
    assert!(said.add(at(FEBRUARY_28 + DAY), 1).is_err());
    assert_eq!(keys(&store), [""; 0]);
    assert!(said.add(at(FEBRUARY_28), 1).unwrap());
}

/// The parts of a second in which a page and its bucket are written decide which of them a clock in
/// whole seconds takes first.
#[test]
fn a_bucket_is_listed_for_as_long_as_it_is_there() {
    let last_minute = FEBRUARY_28 + DAY - 60;
    let (store, clock) = store_at(last_minute);
    let width = TimeWidth::minutes(1).unwrap();
    let said = chat(&store, width).retention(Duration::from_secs(HOUR));
    said.add(at(last_minute), 1).unwrap();
    clock.advance_ms(500);
    // Enters a bucket into the same page, that of the day.
    said.add(at(last_minute - 60), 2).unwrap();
    let end_ms = (FEBRUARY_28 + DAY + HOUR - BEGIN) * 1_000;
    clock.set_ms(end_ms + 1_000);
    maintain(&store);
    clock.set_ms(end_ms - 30_000);
    said.add(at(last_minute), 3).unwrap();
    let found = said.page_after(None, 5).unwrap();
    assert_eq!(found, [1, 3].map(|element| timed(last_minute, element)));
}
