//! The `spikelet` program: the commands ([`cli`]) and the two tools that they open, [`contention`]
//! and [`sizing`], which open their reports with a [`verdict`].
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]
#![forbid(unsafe_code)]

mod cli;
mod contention;
mod failure;
mod random;
mod report;
mod sizing;
mod threads;
mod units;
mod verdict;

fn main() -> std::process::ExitCode {
    cli::run()
}
