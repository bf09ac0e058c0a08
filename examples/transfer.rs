//! Transfers between accounts, by many threads: both accounts change or neither, and every reader
//! sees the same sum.
//!
//! `cargo run --release --example transfer`

use spikelet::{Error, Result, Store, TransactionSet, bins};

const ACCOUNTS: i64 = 10;

fn cents(accounts: &TransactionSet<'_>, account: i64) -> Result<i64> {
    let record = accounts.get(account)?;
    let cents = record.as_ref().and_then(|record| record.get("cents"));
    Ok(cents.and_then(|cents| cents.as_i64()).unwrap_or(0))
}

fn transfer(store: &Store, from: i64, to: i64, amount: i64) -> Result<()> {
    store.transaction(|tx| {
        let accounts = tx.set("accounts")?;
        if cents(&accounts, from)? < amount {
            return Err(Error::Forbidden("not enough money".into()));
        }
        accounts.add(from, [("cents", -amount)])?;
        accounts.add(to, [("cents", amount)])
    })
}

fn main() -> Result<()> {
    let store = Store::in_memory()?;
    let accounts = store.set("accounts")?;
    for account in 0..ACCOUNTS {
        accounts.put(account, bins! { "cents" => 1_000 })?;
    }
    let refused: i64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    let turns =
                        (0..10_000).map(|turn| (turn + thread, turn * 7 + 3, 1 + turn % 400));
                    let results = turns.map(|(from, to, amount)| {
                        transfer(store, from % ACCOUNTS, to % ACCOUNTS, amount)
                    });
                    results.filter(Result::is_err).count() as i64
                })
            })
            .collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .sum()
    });
    let sum: i64 = store.snapshot_read(|tx| {
        let accounts = tx.set("accounts")?;
        (0..ACCOUNTS).map(|account| cents(&accounts, account)).sum()
    })?;
    println!(
        "{} transfers, {refused} refused; all accounts hold {sum} cents",
        40_000 - refused
    );
    println!("{:?}", store.namespace("test")?.transaction_stats());
    Ok(())
}
