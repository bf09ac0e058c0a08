//! The Aerospike wire protocol: unmodified Aerospike clients connect to a [`Store`] and work.
//!
//! [`Server`] says how to start one inside a program; the program `spikelet` has the command
//! `serve`.

// * `frame`, `message`, `fields`, `ops`, `bytes`: a client's bytes, taken apart into views that
//   cannot be wrong. `compression`: the same, compressed. `reply`, `result_code`, `particle`,
//   `response_buffer`: answers, put together.
// * `operation`, `command`, `execute`: one request about one record. `transaction`: several as one.
//   `batch`: many in one message. `query`, `background`, `job`: partitions, and operations on all
//   records of a set. `index`, `condition`: what queries ask by.
// * `info`: questions and commands as text. `config`: Aerospike's configuration file.
// * `function`, `function_call`: user-defined functions of records. `modules`: their texts. `lua`:
//   running them.
// * `security`: users, roles, and the checks of all requests.
// * `shared`, `served`: what connections share, and a namespace of it. `counters`, `metrics`: what
//   has happened. `memory_budget`: memory for large messages.
// * `waiting`: writes that wait without a thread. `community`: where the Community Edition differs.
//   `stream`: plain or encrypted. `connection`: one client. `builder`: how a server is started.
//   `listener`: accepting and stopping.
//
// It asks the engine by digest (`engine::by_digest`), since digests are what clients send.

mod background;
mod batch;
mod builder;
mod bytes;
mod command;
mod community;
mod compression;
mod condition;
mod config;
mod connection;
mod counters;
mod execute;
mod fields;
mod frame;
mod function;
mod function_call;
#[cfg(fuzzing)]
pub mod fuzz;
mod index;
mod info;
mod job;
mod listener;
#[cfg(feature = "lua")]
mod lua;
#[cfg(not(feature = "lua"))]
#[path = "lua_absent.rs"]
mod lua;
mod memory_budget;
mod message;
mod metrics;
mod modules;
mod operation;
mod ops;
mod particle;
mod query;
mod reply;
mod response_buffer;
mod result_code;
mod security;
mod served;
mod shared;
mod stream;
mod transaction;
mod waiting;

pub use builder::{Server, ServerBuilder};
pub use config::ServerConfig;
pub use listener::ServerHandle;
pub use security::SecurityOptions;

#[cfg(doc)]
use crate::Store;
