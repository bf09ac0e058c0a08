use super::*;
use crate::stores::VALUE_BYTES;

fn account(number: u8, balance: i64) -> (Key, Value) {
    let value = with_balance(&[number; VALUE_BYTES], balance).unwrap();
    ([number; 20], value)
}

fn every_store(check: impl Fn(&str, &dyn AccountStore)) {
    for name in TAKE_PART {
        for commit in [Commit::Unsynced, Commit::Synced] {
            let dir = tempfile::tempdir().unwrap();
            let store = name.open_accounts(dir.path(), commit).unwrap();
            let accounts = [account(1, 100), account(2, 50), account(3, -7)];
            store.load(&accounts).unwrap();
            check(&format!("{} {commit:?}", name.name()), store.as_ref());
        }
    }
}

#[test]
fn a_transfer_changes_both_accounts_and_no_other() {
    every_store(|name, store| {
        store.transfer(&[1; 20], &[2; 20], 30).unwrap();
        store.transfer(&[2; 20], &[1; 20], 1).unwrap();
        let balances = [1, 2, 3].map(|number| store.balance(&[number; 20]).unwrap());
        assert_eq!(balances, [71, 79, -7], "{name}");
        store.sync().unwrap();
    });
}

#[test]
fn a_transfer_from_or_to_nobody_changes_nothing() {
    every_store(|name, store| {
        assert!(store.transfer(&[1; 20], &[9; 20], 30).is_err(), "{name}");
        assert!(store.transfer(&[9; 20], &[1; 20], 30).is_err(), "{name}");
        assert_eq!(store.balance(&[1; 20]).unwrap(), 100, "{name}");
        assert!(store.balance(&[9; 20]).is_err(), "{name}");
    });
}

#[test]
fn no_transfer_of_two_threads_is_lost() {
    every_store(|name, store| {
        std::thread::scope(|scope| {
            for (from, to) in [(1, 2), (2, 3)] {
                scope.spawn(move || {
                    for _ in 0..20 {
                        store.transfer(&[from; 20], &[to; 20], 1).unwrap();
                    }
                });
            }
        });
        let balances = [1, 2, 3].map(|number| store.balance(&[number; 20]).unwrap());
        assert_eq!(balances, [80, 50, 13], "{name}");
    });
}
