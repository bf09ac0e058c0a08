//! Runs compared; and how often a comparison raises a false alarm, and whether it sees a change:
//! there, rows come from a queue of one record with the noise that real machines show. Each repeat
//! is slower or faster as a whole, and one in twenty has a stall.

use super::*;
use crate::contention::measure;
use crate::contention::measure::Tally;
use crate::contention::schedule::exponential;
use crate::contention::testing::open;
use crate::random::Random;

fn earlier(rows: Vec<ReportRow>, change: impl FnOnce(&mut Settings)) -> OtherRun {
    let mut settings = crate::contention::testing::settings();
    change(&mut settings);
    OtherRun {
        settings: settings_json(&settings),
        rows,
        judges: true,
    }
}

/// Changes each repeat of a row.
fn with(row: &ReportRow, change: impl Fn(usize, &mut Figures)) -> ReportRow {
    let mut row = row.clone();
    for (place, repeat) in row.repeats.iter_mut().enumerate() {
        change(place, repeat);
    }
    row
}

fn repeated(rate: f64) -> Measurement {
    let repeat = |seed| measure(&open(rate, 1, |settings| settings.seed = seed)).unwrap();
    Measurement::join((1..=5).map(repeat).collect()).unwrap()
}

fn changes(before: &OtherRun, now: &Measurement) -> Vec<FigureChange> {
    let settings = &now.case.settings;
    let now = std::slice::from_ref(now);
    before.compare(settings, now, 0.05).changes
}

fn verdicts(before: &OtherRun, now: &Measurement) -> Vec<(&'static str, ChangeVerdict)> {
    changes(before, now)
        .iter()
        .map(|change| (change.metric, change.verdict))
        .collect()
}

#[test]
fn changes_beyond_noise_and_chance_are_better_or_worse_and_others_are_none() {
    let mut now = repeated(125.0);
    let old = now.row.clone();
    assert_eq!(old.repeats.len(), 5);
    now.row = with(&old, |_, repeat| {
        repeat.goodput_per_s *= 1.2;
        repeat.key_busy_share += 0.0005;
        repeat.p50_us *= 1.001;
        repeat.p99_us *= 1.5;
    });
    let other = ReportRow {
        rate: Some(126.0),
        ..old.clone()
    };
    let before = earlier(vec![other.clone(), old.clone()], |_| {});
    let expected = [
        ("goodput_per_s", ChangeVerdict::Better),
        ("key_busy_share", ChangeVerdict::Unchanged),
        ("p50_us", ChangeVerdict::Unchanged),
        ("p99_us", ChangeVerdict::Worse),
    ];
    assert_eq!(verdicts(&before, &now), expected);
    let found = changes(&before, &now);
    assert!((found[3].change.unwrap() - 0.5).abs() < 1e-9);
    let (from, to) = found[3].interval.unwrap();
    let by = found[3].now.unwrap() - found[3].before.unwrap();
    assert!(from > 0.0 && from < by && by < to, "{found:?}");
    // One repeat that stalled is no change of all.
    now.row = with(&old, |place, repeat| {
        if place == 2 {
            repeat.p99_us *= 4.0;
        }
    });
    let is_unchanged = |(_, verdict): &(_, ChangeVerdict)| *verdict == ChangeVerdict::Unchanged;
    assert!(verdicts(&before, &now).iter().all(is_unchanged));
    assert!(changes(&earlier(vec![other], |_| {}), &now).is_empty());
}

#[test]
fn without_repeats_or_writes_nothing_is_called_better_or_worse() {
    let now = repeated(125.0);
    let old = now.row.clone();
    let twice = |repeat: &mut Figures| {
        repeat.goodput_per_s *= 2.0;
        repeat.p50_us *= 2.0;
        repeat.p99_us = f64::NAN;
    };
    let few = with(&old, |_, repeat| twice(repeat));
    let found = verdicts(&earlier(vec![few.clone()], |_| {}), &now);
    assert_eq!(found[0].1, ChangeVerdict::Worse);
    assert_eq!(found[3].1, ChangeVerdict::TooFew);
    let mut single = few;
    single.repeats.truncate(2);
    let found = verdicts(&earlier(vec![single], |_| {}), &now);
    let is_open = |(_, verdict): &(_, ChangeVerdict)| *verdict == ChangeVerdict::TooFewRepeats;
    assert!(found.iter().all(is_open), "{found:?}");
}

#[test]
fn a_run_with_other_settings_or_without_a_common_row_is_not_compared() {
    let case = open(50.0, 1, |_| {});
    let row = measure(&case).unwrap().row;
    let check = |rows: &[ReportRow], change: fn(&mut Settings)| {
        earlier(rows.to_vec(), change).check(&case.settings, std::slice::from_ref(&case))
    };
    let own = [row.clone()];
    assert_eq!(check(&own, |_| {}), Ok(()));
    assert_eq!(
        check(&own, |settings| {
            settings.seed = 9;
            settings.duration *= 2;
        }),
        Ok(())
    );
    for (name, change) in [
        (
            "limit was 5 and is 20",
            (|of| of.limit = 5) as fn(&mut Settings),
        ),
        ("max_waiters was 6 and is 21", |of| of.limit = 5),
        ("hold_us was 16000.0 and is 8000.0", |of| of.hold.mean *= 2),
        ("mode was \"engine\" and is \"virtual\"", |of| {
            of.is_virtual = false
        }),
        ("operation was \"put\"", |of| {
            of.write = crate::contention::case::Write::Put
        }),
        ("payload was 7", |of| of.payload = 7),
        ("hot_keys was 2", |of| of.hot_keys = 2),
        ("retries was 3", |of| of.retries = 3),
    ] {
        let error = check(&own, change).unwrap_err();
        assert!(error.contains(name), "{name}: {error}");
    }
    let other = ReportRow {
        rate: Some(60.0),
        ..row
    };
    let error = check(&[other], |_| {}).unwrap_err();
    assert!(error.contains("60/s on 1 shard"), "{error}");
}

#[test]
fn an_earlier_run_is_read_back_and_something_else_is_refused() {
    let row = measure(&open(50.0, 1, |_| {})).unwrap().row;
    let before = earlier(vec![row.clone()], |_| {});
    let body = serde_json::json!({ "settings": before.settings, "rows": [row] });
    let json = crate::report::to_json(2, "contention", &body).unwrap();
    assert_eq!(OtherRun::read(json.as_bytes(), 2, true), Ok(before));
    for (version, report, why) in [(2, "sizing", "sizing"), (1, "contention", "version 1")] {
        let json = crate::report::to_json(version, report, &body).unwrap();
        let error = OtherRun::read(json.as_bytes(), 2, true).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    assert!(
        OtherRun::read(b"{", 2, true)
            .unwrap_err()
            .contains("--json")
    );
}

#[test]
fn samples_are_told_apart_only_beyond_their_spread() {
    let (low, high) = (
        [10.0, 11.0, 9.0, 10.0, 10.0],
        [20.0, 21.0, 19.0, 20.0, 20.0],
    );
    let far = Difference::of(&low, &high).unwrap();
    assert!((far.by - 10.0).abs() < 1e-9 && far.chance < 1e-5, "{far:?}");
    // Student's t of 8 degrees of freedom is beyond 2.306 in 5 of 100 cases.
    let reach = 2.306 * (2.0_f64 * 0.5 / 5.0).sqrt();
    assert!((far.interval.1 - far.by - reach).abs() < 1e-3, "{far:?}");
    assert!((far.by - far.interval.0 - reach).abs() < 1e-3, "{far:?}");
    let near = Difference::of(&low, &[11.0, 9.0, 10.0, 12.0, 9.0]).unwrap();
    assert!(near.chance > 0.5 && near.interval.0 < 0.0, "{near:?}");
    let exact = |now: &[f64]| Difference::of(&[1.0; 3], now).unwrap().chance;
    assert_eq!((exact(&[1.0; 3]), exact(&[2.0; 3])), (1.0, 0.0));
    assert_eq!(Difference::of(&[1.0, 2.0], &low), None);
}

#[test]
fn beside_a_run_of_other_settings_nothing_is_judged() {
    let now = repeated(125.0);
    let slower = with(&now.row, |_, repeat| repeat.p99_us *= 9.0);
    let mut beside = earlier(vec![slower], |settings| settings.is_virtual = false);
    beside.judges = false;
    assert_eq!(
        beside.check(&now.case.settings, std::slice::from_ref(&now.case)),
        Ok(())
    );
    let found = changes(&beside, &now);
    let is_open = |change: &FigureChange| change.verdict == ChangeVerdict::NotJudged;
    assert!(found.iter().all(is_open), "{found:?}");
    assert!(found[3].change < Some(-0.8), "{found:?}");
}

const RATES: [f64; 4] = [25.0, 50.0, 100.0, 150.0];
const REPEATS: usize = 5;
/// The default length of a row.
const SECONDS: f64 = 2.0;
const WAITERS_MAX: usize = 21;

/// Runs one repeat: writes come at random, wait for each other, and are refused when too many wait.
fn repeat(random: &mut Random, rate: f64, hold_ms: f64) -> Figures {
    let speed = (0.05 * (random.unit() + random.unit() + random.unit() - 1.5) * 2.0).exp();
    let stall_at = (random.unit() < 0.05).then(|| random.unit() * SECONDS);
    let hold_s = hold_ms / 1e3 * speed;
    let (mut now, mut ends) = (0.0, Vec::<f64>::new());
    let (mut latencies, mut offered, mut stalled) = (Vec::new(), 0_u64, false);
    loop {
        now += exponential(random, 1.0 / rate);
        if now >= SECONDS {
            break;
        }
        offered += 1;
        ends.retain(|end| *end > now);
        if ends.len() > WAITERS_MAX {
            continue;
        }
        let mut begins = ends.last().copied().unwrap_or(now).max(now);
        if !stalled && stall_at.is_some_and(|at| now >= at) {
            begins += 0.06;
            stalled = true;
        }
        ends.push(begins + hold_s);
        latencies.push(begins + hold_s - now);
    }
    latencies.sort_by(f64::total_cmp);
    let acked = latencies.len();
    let at = |share: f64| {
        let rank = ((acked as f64 * share).ceil() as usize).saturating_sub(1);
        latencies
            .get(rank)
            .map_or(f64::NAN, |latency| latency * 1e6)
    };
    Figures {
        acked: acked as u64,
        goodput_per_s: acked as f64 / SECONDS,
        key_busy_share: 1.0 - acked as f64 / offered.max(1) as f64,
        p50_us: at(0.5),
        p99_us: at(0.99),
        ..Figures::of(&Tally::new(), SECONDS)
    }
}

fn run(seed: u64, hold_ms: f64) -> Vec<Vec<Figures>> {
    let mut random = Random::new(seed);
    let mut row = |rate: f64| {
        (0..REPEATS)
            .map(|_| repeat(&mut random, rate, hold_ms))
            .collect()
    };
    RATES.into_iter().map(&mut row).collect()
}

/// Returns whether a comparison calls any figure worse, or better.
fn alarms(before: &[Vec<Figures>], now: &[Vec<Figures>]) -> (bool, bool) {
    let figures = RATES.len() * FIGURES.len();
    let rows = before.iter().zip(now);
    let verdicts: Vec<ChangeVerdict> = rows
        .flat_map(|(before, now)| {
            FIGURES
                .iter()
                .map(move |figure| match (figure.of(before), figure.of(now)) {
                    (Some(before), Some(now)) => figure.judge(&before, &now, 0.05, figures),
                    _ => ChangeVerdict::TooFew,
                })
        })
        .collect();
    let any = |wanted| verdicts.contains(&wanted);
    (any(ChangeVerdict::Worse), any(ChangeVerdict::Better))
}

#[test]
fn of_a_hundred_comparisons_of_a_thing_with_itself_at_most_two_raise_an_alarm() {
    let alarmed = (0..100).filter(|seed| {
        let (worse, better) = alarms(&run(seed * 2 + 1, 8.0), &run(seed * 2 + 2, 8.0));
        worse || better
    });
    let alarmed: Vec<u64> = alarmed.collect();
    assert!(
        alarmed.len() <= 2,
        "false alarms with the seeds {alarmed:?}"
    );
}

#[test]
fn a_hold_half_as_long_again_is_seen() {
    let seen = (0..100).filter(|seed| {
        let (worse, better) = alarms(&run(seed * 2 + 1, 8.0), &run(seed * 2 + 2, 12.0));
        worse && !better
    });
    let seen = seen.count();
    assert!(seen >= 95, "in {seen} of 100");
}
