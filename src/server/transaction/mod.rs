//! Transactions over several records, as Aerospike's clients drive them.
//!
//! The client reads and writes by the number of its transaction, asks whether what it has read is still so (*verify*), marks
//! the transaction's *monitor* as committed, rolls each record forward or back, and deletes the monitor. Here all writes
//! are kept in memory, and the mark makes them records at once; the rolls that come after it find nothing to do
//! ([decision 13](../../../docs/decisions/0013-transactions-on-the-wire.md)).

// * `part`: what a request is in a transaction.
// * `table`: the transactions of a namespace, what they have written, and their end.
// * `member`: requests about records. `monitor`: requests about the monitor, the commit among them.
// * `counters`: what has happened.

pub(crate) mod counters;
pub(crate) mod member;
pub(crate) mod monitor;
pub(crate) mod part;
pub(crate) mod table;
