//! Records of a backup in a cluster: the steps of `spikelet move`.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use spikelet::backup::{self, PieceStart, Reader, SavedRecord};
use spikelet::cluster::{Cluster, Comparison};
use spikelet::record::KeyHash;
use spikelet::server::{Server, ServerHandle};
use spikelet::storage::{Clock, SystemClock};
use spikelet::value::ParticleType;
use spikelet::{
    Expiration, Key, NamespaceConfig, RecordSet, RecordStore, Store, Value, WritePolicy,
    operations as ops,
};

use crate::common::{ROW_HEADER, Served, answering};
use crate::moved::store;
use crate::program::json;

/// The records of a store.
fn saved(source: &Store) -> Vec<SavedRecord> {
    let namespace = source.namespace("test").unwrap();
    let (mut saved, mut from) = (Vec::new(), Some(PieceStart::default()));
    while let Some(begin) = from {
        let piece = backup::piece(&namespace, begin).unwrap();
        let mut reader = Reader::new(&piece.text[..]).unwrap();
        saved.extend(std::iter::from_fn(|| reader.next_record().unwrap()));
        from = piece.next;
    }
    saved
}

fn expiring(after_s: u64) -> WritePolicy {
    WritePolicy::default().expiration(Expiration::After(Duration::from_secs(after_s)))
}

#[test]
fn another_expiry_is_told_from_other_bins() {
    let source = store(None, KeyHash::Xxh3);
    let things = source.set("things").unwrap();
    things.put_with(&expiring(3_600), 1, [("i", 1)]).unwrap();
    let saved = saved(&source);
    let cluster = Served::in_memory();
    let served = cluster.cluster();
    let compared = |saved: &[SavedRecord]| served.compare_saved(saved).remove(0).unwrap();
    assert_eq!(compared(&saved), Comparison::Missing);
    served.put_saved(&saved).remove(0).unwrap();
    assert_eq!(compared(&saved), Comparison::Same);
    let mut later = saved.clone();
    later[0].void_time += 5;
    let Comparison::OtherExpiry(seconds) = compared(&later) else {
        panic!("another expiry is not seen");
    };
    assert!((-7..=-3).contains(&seconds), "{seconds}");
    later[0].void_time = 0;
    assert_eq!(compared(&later), Comparison::Different);
}

#[test]
fn deleting_says_whether_there_was_a_record() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let things = cluster.records("things").unwrap();
    let put = [ops::put("i", 1)];
    things
        .operate_on(&WritePolicy::default(), &1.into(), &put)
        .unwrap();
    let digest = KeyHash::Ripemd160.digest("things", &Key::from(1));
    let address = [("things".to_owned(), digest)];
    let found = || cluster.delete_saved(&address).remove(0).unwrap();
    assert!(found() && !found());
}

/// A clock that shows another time than this machine's.
#[derive(Debug)]
struct OtherClock {
    ahead_s: i64,
}

impl Clock for OtherClock {
    fn now_ms(&self) -> u64 {
        SystemClock
            .now_ms()
            .saturating_add_signed(self.ahead_s * 1_000)
    }
}

/// A server of this process.
fn served_ahead(ahead_s: i64) -> ServerHandle {
    let mut config = NamespaceConfig::new("test");
    config.key_hash = KeyHash::Ripemd160;
    let clock = Arc::new(OtherClock { ahead_s });
    let target = Store::builder().namespace(config).clock(clock);
    let target = target.open().unwrap();
    let server = Server::builder(&target).listen("127.0.0.1:0").unwrap();
    server.like_ce().start().unwrap()
}

#[test]
fn clocks_that_differ_are_told_from_records_that_differ() {
    for ahead_s in [-7_200, -60, -3, 3, 60, 7_200] {
        let dir = tempfile::tempdir().unwrap();
        let (path, file) = (dir.path().join("store"), dir.path().join("position"));
        let source = store(Some(&path), KeyHash::Xxh3);
        let things = source.set("things").unwrap();
        for number in 0..40_i64 {
            things.put(number, [("i", number)]).unwrap();
            let policy = expiring(600 + number.unsigned_abs());
            things
                .put_with(&policy, number + 100, [("i", number)])
                .unwrap();
        }
        source.close().unwrap();
        drop((source, things));
        let server = served_ahead(ahead_s);
        let addr = server.addr().to_string();
        let (path, file) = (path.to_str().unwrap(), file.to_str().unwrap());
        let (code, found) = json(&["move", path, "--host", &addr, "--resume", file]);
        let compared = &found["compared"];
        assert_eq!((code, &compared["same"]), (0, &true.into()), "{found:#}");
        // One record, written again, shows how far the clocks are apart.
        let written_again = compared["written_again"].as_u64().unwrap();
        assert!(written_again <= 1, "{ahead_s} s: {found:#}");
        assert_eq!(compared["deleted"], 0, "{ahead_s} s: {found:#}");
        // Each lives on for as long as it would have.
        let cluster = Cluster::builder(&addr).namespace("test").connect().unwrap();
        let records = cluster.records("things").unwrap();
        let now_s = OtherClock { ahead_s }.now_ms() / 1_000;
        for number in 0..40_i64 {
            let read = records.operate_on(
                &WritePolicy::default(),
                &(number + 100).into(),
                &[ops::get()],
            );
            let left = u64::from(read.unwrap().void_time) - now_s;
            let whole = 600 + number.unsigned_abs();
            assert!(
                (whole - 30..=whole + 2).contains(&left),
                "{left} of {whole} s"
            );
        }
        server.stop();
    }
}

#[test]
fn a_batch_of_many_large_records_may_take_longer_than_a_call() {
    let source = store(None, KeyHash::Xxh3);
    let things = source.set("things").unwrap();
    for number in 0..256_i64 {
        let bytes = vec![number as u8; 15_000];
        things.put(number, [("bytes", bytes)]).unwrap();
    }
    let saved = saved(&source);
    assert_eq!(saved.len(), 256);
    let served = Served::in_memory();
    // The end of a batch comes later than the limit of a single call, 1 s.
    let slow = answering(&served.addr, |body| {
        let last_row = body.len() - ROW_HEADER;
        if body[last_row + 3] & 1 == 1 {
            thread::sleep(Duration::from_millis(1_300));
        }
    });
    let cluster = Cluster::builder(&slow).namespace("test").connect().unwrap();
    for result in cluster.put_saved(&saved) {
        result.unwrap();
    }
    for result in cluster.compare_saved(&saved) {
        assert_eq!(result.unwrap(), Comparison::Same);
    }
    let address = |record: &SavedRecord| (record.set.clone(), record.digest);
    let addresses: Vec<_> = saved.iter().map(address).collect();
    for result in cluster.delete_saved(&addresses) {
        assert!(result.unwrap());
    }
}

#[test]
fn an_integer_above_the_signed_ones_is_refused_and_not_sent_as_another() {
    let source = store(None, KeyHash::Xxh3);
    let things = source.set("things").unwrap();
    let big = [0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let map = [&[0x81, 1, 0x91][..], &big].concat();
    let put = ops::put_encoded("m", ParticleType::Map, map);
    things.operate(1, &[put]).unwrap();
    let saved = saved(&source);
    let cluster = Served::in_memory();
    let served = cluster.cluster();
    let refused = served.put_saved(&saved).remove(0).unwrap_err();
    assert_eq!(refused.result_code(), 4, "{refused}");
    assert!(refused.to_string().contains("i64::MAX"), "{refused}");
    let compared = |saved: &[SavedRecord]| served.compare_saved(saved).remove(0).unwrap();
    assert_eq!(compared(&saved), Comparison::Missing);
    // Another program has put there what it is read as.
    let read_as = Value::List(vec![Value::Int(-1)].into());
    let map = Value::Map(vec![(Value::Int(1), read_as)].into());
    let there = served.records("things").unwrap();
    there
        .operate_on(&WritePolicy::default(), &1.into(), &[ops::put("m", map)])
        .unwrap();
    assert_eq!(compared(&saved), Comparison::Different);
}
