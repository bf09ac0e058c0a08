//! The `spikelet` program: see [`cli`].
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]
#![forbid(unsafe_code)]

mod cli;
mod place;
mod random;

fn main() -> std::process::ExitCode {
    cli::run()
}
