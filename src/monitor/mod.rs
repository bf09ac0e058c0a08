//! A small read-only endpoint over HTTP that a program switches on for its store: operations and
//! how long they take, which records are hot, how collections are sharded, and metrics.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::{Store, monitor::Monitor};
//!
//! let store = Store::in_memory()?;
//! let monitor = Monitor::builder(&store).listen("127.0.0.1:0")?.start()?;
//! println!("look at http://{}/", monitor.addr());
//! drop(monitor); // ends it
//! # Ok(())
//! # }
//! ```
//!
//! | path | is |
//! |---|---|
//! | `/` | a page that shows hot records, shards and transitions as they happen |
//! | `/hot.json` | what the page and `spikelet top` show: a [`StoreSnapshot`] |
//! | `/metrics` | metrics for Prometheus, the hottest records among them; as OpenMetrics for a client that accepts it |
//! | `/changes.json` | changes of sets that keep them, which `spikelet changes` shows: a [`ChangesSnapshot`]. Queries: `namespace`, `set` (any number), `after` (a position), `most` (1,000); with [`MonitorBuilder::serve_records`] `hold` (a subscription of this name keeps the changes behind `after`, or from now on) and `release`, both with a header `X-Spikelet` of any value |
//! | `/records.asb` | records as the text of a backup, if [`MonitorBuilder::serve_records`] allows it: all of a piece (`from`; a header `X-Next` names the beginning of the next one), or some by digest (`digest`, up to 100; `X-Next` names the last one of an answer that ends early) |
//!
//! It answers GET only and changes nothing, but for the subscriptions of `hold` and `release`. Once
//! a second it looks at the hottest records (20 unless [`MonitorBuilder::hot_records`] says
//! otherwise) by their digests: no set is scanned. Four threads answer, each one request at a time;
//! a request has 2 s to arrive, in 8 KiB, and a client 5 s to take the answer. Its answers have keys
//! in them: it listens on this machine only, unless the builder says otherwise; elsewhere, use
//! [`MonitorBuilder::logins`], and `MonitorBuilder::tls` (feature `tls`). On this machine, requests
//! under a name that is not its own are refused, so that no page of a foreign site reads it through
//! a browser; nor can such a page send the header that `hold` and `release` need.

// * `snapshot`: the answers as plain data. `sampler`: takes snapshots, and rates from two of them.
// * `metrics`: a snapshot as Prometheus' text. `changes`: kept changes, piece by piece. `records`:
//   whole records. `answers`: JSON, errors, queries. `listener`: start and end.

mod answers;
mod changes;
mod listener;
mod metrics;
#[cfg(feature = "backup")]
mod records;
mod sampler;
mod snapshot;

pub use crate::basic_login::basic_authorization;
pub use changes::{ChangeSnapshot, ChangesSnapshot, KeySnapshot};
pub use listener::{DEFAULT_PORT, Monitor, MonitorBuilder, MonitorLogin};
pub use snapshot::{
    CollectionSnapshot, CompanionOf, ErrorSnapshot, HotRecordSnapshot, NamespaceSnapshot,
    OperationSnapshot, StoreSnapshot, TransitionSnapshot,
};
