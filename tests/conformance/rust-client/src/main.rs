//! Drives a served store through the Aerospike Rust client and ends with a panic at the first thing
//! that is not as it should be.
//!
//! Usage: `spikelet-conformance HOST:PORT`

use std::collections::HashMap;
use std::sync::Arc;

use aerospike::expressions::{eq, gt, int_bin, int_val, num_add, record_size};
use aerospike::operations::exp::{ExpReadFlags, read_exp};
use aerospike::operations::lists::{self, ListReturnType};
use aerospike::operations::maps::{self, MapReturnType};
use aerospike::operations::{self, Operation};
use aerospike::query::Filter;
use aerospike::{
    AbortStatus, AdminPolicy, BatchDeletePolicy, BatchOperation, BatchPolicy, BatchReadPolicy,
    BatchWritePolicy, Bins, Client, ClientPolicy, CollectionIndexType, CommitStatus, Error,
    Expiration, GenerationPolicy, IndexType, Key, ListPolicy, MapPolicy, PartitionFilter,
    QueryPolicy, ReadPolicy, Record, RecordExistsAction, Recordset, ResultCode, Statement, Task,
    Txn, Value, WritePolicy, as_bin, as_blob, as_key, as_list, as_map, as_val,
};
use futures::StreamExt;

const NAMESPACE: &str = "test";
const SET: &str = "rust";

/// Whether a request was refused with this code.
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, code: ResultCode) {
    let error = result.expect_err("a refusal");
    assert!(error.matches(&[code]), "{code:?} expected, found {error}");
}

fn value(record: &Record, bin: &str) -> Value {
    record
        .bins
        .get(bin)
        .cloned()
        .unwrap_or_else(|| panic!("no bin {bin} in {record:?}"))
}

fn key(id: impl Into<Value>) -> Key {
    Key::new(NAMESPACE, SET, id.into()).expect("a key")
}

struct Served {
    client: Client,
    read: ReadPolicy,
    write: WritePolicy,
}

impl Served {
    async fn get(&self, key: &Key) -> Result<Record, Error> {
        self.client.get(&self.read, key, Bins::All).await
    }

    async fn operate(&self, key: &Key, operations: &[Operation]) -> Result<Record, Error> {
        self.client.operate(&self.write, key, operations).await
    }

    async fn records(&self) {
        let key = key("record");
        let _ = self.client.delete(&self.write, &key).await;
        let bins = [
            as_bin!("int", -7),
            as_bin!("float", 1.5),
            as_bin!("text", "h\u{e9}llo"),
            as_bin!("blob", as_blob!(vec![0_u8, 255])),
            as_bin!("bool", true),
            as_bin!("list", as_list!(1, "a", as_list!(2))),
            as_bin!("map", as_map!("a" => 1, "b" => as_list!(true))),
        ];
        self.client
            .put(&self.write, &key, &bins)
            .await
            .expect("a put");
        let record = self.get(&key).await.expect("a record");
        for bin in &bins {
            assert_eq!(value(&record, &bin.name), bin.value);
        }
        assert_eq!(record.generation, 1);
        let some = self
            .client
            .get(&self.read, &key, Bins::from(["int", "none"]))
            .await;
        assert_eq!(some.expect("a record").bins.len(), 1);
        let header = self.client.get(&self.read, &key, Bins::None).await;
        assert!(header.expect("a header").bins.is_empty());
        assert!(
            self.client
                .exists(&self.read, &key)
                .await
                .expect("an answer")
        );
        self.client.touch(&self.write, &key).await.expect("a touch");
        assert_eq!(self.get(&key).await.expect("a record").generation, 2);
        assert!(
            self.client
                .delete(&self.write, &key)
                .await
                .expect("an answer")
        );
        assert!(
            !self
                .client
                .delete(&self.write, &key)
                .await
                .expect("an answer")
        );
        refused(self.get(&key).await, ResultCode::KeyNotFoundError);
    }

    async fn policies(&self) {
        let key = key("policies");
        let _ = self.client.delete(&self.write, &key).await;
        let put =
            async |policy: &WritePolicy| self.client.put(policy, &key, &[as_bin!("i", 1)]).await;
        let with = |change: fn(&mut WritePolicy)| {
            let mut policy = WritePolicy::default();
            change(&mut policy);
            policy
        };
        let update_only =
            with(|policy| policy.record_exists_action = RecordExistsAction::UpdateOnly);
        refused(put(&update_only).await, ResultCode::KeyNotFoundError);
        let create_only =
            with(|policy| policy.record_exists_action = RecordExistsAction::CreateOnly);
        put(&create_only).await.expect("a put");
        refused(put(&create_only).await, ResultCode::KeyExistsError);
        let generation = with(|policy| {
            policy.generation_policy = GenerationPolicy::ExpectGenEqual;
            policy.generation = 9;
        });
        refused(put(&generation).await, ResultCode::GenerationError);
        put(&with(|policy| {
            policy.expiration = Expiration::Seconds(1000)
        }))
        .await
        .expect("a put");
        let left = self
            .get(&key)
            .await
            .expect("a record")
            .time_to_live()
            .expect("a time to live");
        assert!((990..=1000).contains(&left.as_secs()), "{left:?}");
        let filter = with(|policy| {
            policy.base_policy.filter_expression = Some(eq(int_bin("i"), int_val(2)));
        });
        refused(put(&filter).await, ResultCode::FilteredOut);
    }

    async fn collections(&self) {
        let key = key("collections");
        let _ = self.client.delete(&self.write, &key).await;
        let (list, map) = (ListPolicy::default(), MapPolicy::default());
        let items = HashMap::from([(as_val!("a"), as_val!(3)), (as_val!("b"), as_val!(1))]);
        let record = self
            .operate(
                &key,
                &[
                    lists::append_items(&list, "l", vec![as_val!(5), as_val!(1), as_val!(4)]),
                    maps::put_items(&map, "m", items),
                ],
            )
            .await
            .expect("an answer");
        assert_eq!(
            (value(&record, "l"), value(&record, "m")),
            (as_val!(3), as_val!(2))
        );
        let table = [
            (lists::size("l"), "l", as_val!(3)),
            (
                lists::get_by_rank("l", 0, ListReturnType::VALUES),
                "l",
                as_val!(1),
            ),
            (
                lists::get_by_index_range("l", 1, ListReturnType::VALUES),
                "l",
                as_list!(1, 4),
            ),
            (
                maps::get_by_key("m", as_val!("a"), MapReturnType::VALUE),
                "m",
                as_val!(3),
            ),
            (
                maps::get_by_rank("m", 0, MapReturnType::KEY),
                "m",
                as_val!("b"),
            ),
            (
                maps::increment_value(&map, "m", as_val!("b"), as_val!(41)),
                "m",
                as_val!(42),
            ),
            (
                maps::remove_by_key("m", as_val!("a"), MapReturnType::COUNT),
                "m",
                as_val!(1),
            ),
            (maps::size("m"), "m", as_val!(1)),
        ];
        for (operation, bin, expected) in table {
            let record = self.operate(&key, &[operation]).await.expect("an answer");
            assert_eq!(value(&record, bin), expected);
        }
        refused(
            self.operate(&key, &[lists::get("l", 99)]).await,
            ResultCode::OpNotApplicable,
        );
        refused(
            self.operate(&key, &[lists::append(&list, "m", as_val!(1))])
                .await,
            ResultCode::BinTypeError,
        );
    }

    async fn expressions(&self) {
        let key = key("expressions");
        self.client
            .put(&self.write, &key, &[as_bin!("i", 7)])
            .await
            .expect("a put");
        let mut policy = ReadPolicy::default();
        policy.base_policy.filter_expression = Some(gt(int_bin("i"), int_val(8)));
        let filtered = self.client.get(&policy, &key, Bins::All).await;
        refused(filtered, ResultCode::FilteredOut);
        let sum = num_add(vec![int_bin("i"), int_val(3)]);
        let record = self
            .operate(&key, &[read_exp("sum", sum, ExpReadFlags::DEFAULT)])
            .await
            .expect("an answer");
        assert_eq!(value(&record, "sum"), as_val!(10));
        let large = as_bin!("large", as_blob!(vec![7_u8; 65_536]));
        self.client
            .put(&self.write, &key, &[large])
            .await
            .expect("a put");
        let size = read_exp("size", record_size(), ExpReadFlags::DEFAULT);
        let record = self.operate(&key, &[size]).await.expect("an answer");
        match value(&record, "size") {
            Value::Int(bytes) => assert!((65_537..66_048).contains(&bytes), "{bytes}"),
            other => panic!("{other:?} is no size"),
        }
    }

    async fn batches(&self) {
        let keys: Vec<Key> = (0..100)
            .map(|n: i64| as_key!(NAMESPACE, "rusts", n))
            .collect();
        let bins: Vec<_> = (0..100).map(|n: i64| as_bin!("n", n)).collect();
        let policy = BatchPolicy::default();
        let (read, write) = (BatchReadPolicy::default(), BatchWritePolicy::default());
        let mut writes: Vec<BatchOperation> = keys
            .iter()
            .zip(&bins)
            .map(|(key, bin)| {
                BatchOperation::write(&write, key.clone(), vec![operations::put(bin)])
            })
            .collect();
        self.client
            .batch(&policy, &mut writes)
            .await
            .expect("a batch");
        let mut reads: Vec<BatchOperation> = keys
            .iter()
            .map(|key| BatchOperation::read(&read, key.clone(), Bins::All))
            .collect();
        reads.push(BatchOperation::read(
            &read,
            as_key!(NAMESPACE, "rusts", -1),
            Bins::All,
        ));
        reads.push(BatchOperation::delete(
            &BatchDeletePolicy::default(),
            keys[99].clone(),
        ));
        self.client
            .batch(&policy, &mut reads)
            .await
            .expect("a batch");
        for (n, operation) in (0..100_i64).zip(&reads) {
            let row = operation.batch_record();
            // The last one is deleted beside its read.
            if n < 99 {
                assert_eq!(
                    value(row.record.as_ref().expect("a record"), "n"),
                    as_val!(n)
                );
            }
        }
        assert!(reads[100].batch_record().record.is_none());
        let mut policy = BatchPolicy::default();
        policy.base_policy.filter_expression = Some(gt(int_bin("n"), int_val(1)));
        let mut filtered: Vec<BatchOperation> = keys[..4]
            .iter()
            .map(|key| BatchOperation::read(&read, key.clone(), Bins::All))
            .collect();
        self.client
            .batch(&policy, &mut filtered)
            .await
            .expect("a batch");
        let found = filtered
            .iter()
            .map(|row| row.batch_record().record.is_some());
        assert_eq!(found.collect::<Vec<_>>(), [false, false, true, true]);
    }

    async fn indexes(&self) {
        let admin = AdminPolicy::default();
        let created = self
            .client
            .create_index_on_bin(
                &admin,
                NAMESPACE,
                "rusts",
                "n",
                "rusts-n",
                IndexType::Numeric,
                CollectionIndexType::Default,
                None,
            )
            .await;
        let task = created.expect("an index");
        task.wait_till_complete(None).await.expect("its end");
        let mut statement = Statement::new(NAMESPACE, "rusts", Bins::All);
        statement.set_filter(Filter::range("n", 10, 19));
        let policy = QueryPolicy::default();
        let records = self
            .client
            .query(&policy, PartitionFilter::all(), statement)
            .await
            .expect("a query");
        let mut found = numbers(&records).await;
        found.sort_unstable();
        assert_eq!(found, (10..20).collect::<Vec<i64>>());
        let range = || Some(Filter::range("n", 10, 49));
        assert_eq!(self.pages(7, range).await, (10..50).collect::<Vec<i64>>());
        let created = self
            .client
            .create_set_index(&admin, NAMESPACE, "rusts", "rusts-all")
            .await;
        let task = created.expect("an index of the set");
        task.wait_till_complete(None).await.expect("its end");
        for name in ["rusts-n", "rusts-all"] {
            let dropped = self.client.drop_index(&admin, NAMESPACE, "rusts", name);
            let task = dropped.await.expect("an answer");
            task.wait_till_complete(None).await.expect("its end");
        }
        let mut statement = Statement::new(NAMESPACE, "rusts", Bins::All);
        statement.set_filter(Filter::range("n", 10, 19));
        let records = self
            .client
            .query(&policy, PartitionFilter::all(), statement)
            .await
            .expect("a query");
        let answer = records.into_stream().next().await.expect("an answer");
        refused(answer, ResultCode::IndexNotFound);
    }

    async fn transactions(&self) {
        let keys = [key("txn 0"), key("txn 1")];
        let begin = || {
            let txn = Arc::new(Txn::new());
            let (mut read, mut write) = (ReadPolicy::default(), WritePolicy::default());
            read.base_policy.txn = Some(Arc::clone(&txn));
            write.base_policy.txn = Some(Arc::clone(&txn));
            (txn, read, write)
        };
        let set = |number: i64| [as_bin!("i", number)];
        for key in &keys {
            self.client
                .put(&self.write, key, &set(0))
                .await
                .expect("a put");
        }
        let (txn, read, write) = begin();
        for key in &keys {
            let seen = self.client.get(&read, key, Bins::All).await;
            assert_eq!(value(&seen.expect("a record"), "i"), as_val!(0));
            self.client.put(&write, key, &set(1)).await.expect("a put");
        }
        let blocked = self.client.put(&self.write, &keys[0], &set(5)).await;
        refused(blocked, ResultCode::MrtBlocked);
        let outside = self.get(&keys[0]).await.expect("a record");
        assert_eq!(value(&outside, "i"), as_val!(0));
        let committed = self.client.commit(&txn).await.expect("a commit");
        assert_eq!(committed, CommitStatus::Ok);
        let inside = self.get(&keys[1]).await.expect("a record");
        assert_eq!(value(&inside, "i"), as_val!(1));

        let (txn, read, write) = begin();
        self.client
            .get(&read, &keys[0], Bins::All)
            .await
            .expect("a record");
        self.client
            .put(&write, &keys[1], &set(2))
            .await
            .expect("a put");
        self.client
            .put(&self.write, &keys[0], &set(5))
            .await
            .expect("a put");
        assert!(self.client.commit(&txn).await.is_err());
        let unchanged = self.get(&keys[1]).await.expect("a record");
        assert_eq!(value(&unchanged, "i"), as_val!(1));

        let (txn, _, write) = begin();
        assert!(
            self.client
                .delete(&write, &keys[1])
                .await
                .expect("a deletion")
        );
        let aborted = self.client.abort(&txn).await.expect("an abort");
        assert_eq!(aborted, AbortStatus::Ok);
        let kept = self.get(&keys[1]).await.expect("a record");
        assert_eq!(value(&kept, "i"), as_val!(1));
    }

    async fn queries(&self) {
        let everything = self.pages(0, || None).await;
        assert_eq!(everything, (0..99).collect::<Vec<i64>>());
        assert_eq!(self.pages(25, || None).await, everything);
        let mut nobody = Statement::new(NAMESPACE, "nobody", Bins::None);
        nobody.set_operations(vec![operations::put(&as_bin!("n", 1))]);
        let task = self.client.query_operate(&self.write, nobody).await;
        let task = task.expect("a background query of a set that is not there");
        task.wait_till_complete(None).await.expect("its end");
        self.client
            .truncate(&AdminPolicy::default(), NAMESPACE, "rusts", 0)
            .await
            .expect("a truncation");
        assert!(self.pages(0, || None).await.is_empty());
    }

    /// The numbers of all records that a filter by an index lets through, in pages of `most`
    /// records, in order.
    async fn pages(&self, most: u64, filter: impl Fn() -> Option<Filter>) -> Vec<i64> {
        let mut policy = QueryPolicy::default();
        policy.max_records = most;
        let mut all = Vec::new();
        let mut rest = PartitionFilter::all();
        while !rest.done() {
            let mut statement = Statement::new(NAMESPACE, "rusts", Bins::All);
            if let Some(filter) = filter() {
                statement.set_filter(filter);
            }
            let records = self
                .client
                .query(&policy, rest, statement)
                .await
                .expect("a query");
            all.extend(numbers(&records).await);
            rest = records.partition_filter().expect("a cursor");
        }
        all.sort_unstable();
        all
    }
}

/// The numbers of the records that a query returns.
async fn numbers(records: &Arc<Recordset>) -> Vec<i64> {
    let mut numbers = Vec::new();
    let mut stream = records.clone().into_stream();
    while let Some(record) = stream.next().await {
        match value(&record.expect("a record"), "n") {
            Value::Int(n) => numbers.push(n),
            other => panic!("{other:?} is no number"),
        }
    }
    numbers
}

#[tokio::main]
async fn main() {
    let host = std::env::args().nth(1).expect("HOST:PORT");
    let client = Client::new(&ClientPolicy::default(), &host)
        .await
        .expect("a connection");
    let served = Served {
        client,
        read: ReadPolicy::default(),
        write: WritePolicy::default(),
    };
    served.records().await;
    served.policies().await;
    served.collections().await;
    served.expressions().await;
    served.batches().await;
    served.indexes().await;
    served.queries().await;
    served.transactions().await;
    served.client.close().await.expect("an end");
    println!("rust: well");
}
