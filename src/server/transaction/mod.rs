//! Transactions over several records, as Aerospike's clients drive them.
//!
//! The client reads and writes by the number of its transaction, asks whether the records that it
//! read are unchanged (*verify*), marks the transaction's *monitor* as committed, rolls each record
//! forward or back, and deletes the monitor. Here all writes are kept in memory, and the mark makes
//! them records at once; the rolls that come after it find nothing to do ([decision
//! 13](../../../docs/decisions/0013-transactions-on-the-wire.md)).

// * `part`: the role of a request in a transaction.
// * `table`: the transactions of a namespace, their writes, and their end.
// * `member`: requests about records. `monitor`: requests about the monitor, the commit among them.
// * `counters`: counts of transactions and of their records.

pub(crate) mod counters;
pub(crate) mod member;
pub(crate) mod monitor;
pub(crate) mod part;
pub(crate) mod table;
