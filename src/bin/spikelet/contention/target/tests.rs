use super::*;
use crate::contention::case::Arrivals;
use crate::contention::routing::INITIAL_FROM;
use crate::contention::testing::settings;

#[test]
fn an_element_is_in_the_record_of_its_place_and_where_its_handle_looks() {
    for layout in ["1", "4", "hourly", "daily+4"] {
        let mut settings = settings();
        settings.write = Write::AddUnique;
        settings.elements = 60;
        settings.hot_keys = 2;
        let load = Arrivals::Open { rate: 1.0 };
        let case = settings.case(load, layout.parse().unwrap()).unwrap();
        let target = HotTarget::new(&case, &RowPlace::Embedded).unwrap();
        for id in (0..60).chain(INITIAL_FROM..INITIAL_FROM + 60) {
            let route = target.route(1, id);
            if id < INITIAL_FROM {
                let mut ledger = Ledger::default();
                target.write(route, id, &mut ledger).unwrap();
                assert_eq!(ledger.acked[&route], 1);
            }
            let find = lists::get_by_value(BIN, route.child(id), ListReturnType::Count);
            let name = route.record_key();
            let found = target
                .records()
                .operate_on(&WritePolicy::default(), &name.as_str().into(), &[find])
                .unwrap();
            assert_eq!(found.value(0), Some(&Value::Int(1)), "{layout} {id} {name}");
            assert!(target.collections[1].seen(&route, id).unwrap());
        }
        assert_eq!(target.collections[1].numbers().unwrap().len(), 120);
    }
}

#[test]
fn an_element_of_beforehand_that_is_gone_is_lost_and_one_that_is_there_twice_is_doubled() {
    for layout in ["1", "4", "daily+4"] {
        let mut settings = settings();
        settings.write = Write::AddUnique;
        settings.elements = 60;
        settings.hot_keys = 2;
        let load = Arrivals::Open { rate: 1.0 };
        let case = settings.case(load, layout.parse().unwrap()).unwrap();
        let target = HotTarget::new(&case, &RowPlace::Embedded).unwrap();
        let ledger = Ledger::default();
        assert!(target.check(&ledger).unwrap().holds(), "{layout}");
        let id = INITIAL_FROM + 9;
        let route = target.route(1, id);
        let name = route.record_key();
        let by_force = WritePolicy::default().override_shards(true);
        let change = |operation| {
            let records = target.records();
            records.operate_on(&by_force, &name.as_str().into(), &[operation])
        };
        let of = || {
            let found = target.check(&ledger).unwrap();
            (found.lost, found.duplicates)
        };
        let policy = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty());
        change(lists::append_items(&policy, BIN, vec![route.child(id)])).unwrap();
        assert_eq!(of(), (0, 1), "{layout}");
        change(lists::remove_by_value(
            BIN,
            route.child(id),
            ListReturnType::None,
        ))
        .unwrap();
        assert_eq!(of(), (1, 0), "{layout}");
    }
}

#[test]
fn a_put_that_another_had_replaced_is_no_last_value_and_is_not_seen_by_its_successor() {
    for layout in ["1", "hourly"] {
        let mut settings = settings();
        settings.write = Write::Put;
        settings.payload = 16;
        let load = Arrivals::Open { rate: 1.0 };
        let case = settings.case(load, layout.parse().unwrap()).unwrap();
        let target = HotTarget::new(&case, &RowPlace::Embedded).unwrap();
        let mut ledger = Ledger::default();
        let route = target.route(0, 0);
        for id in 70..73 {
            target.write(route, id, &mut ledger).unwrap();
            target.read_back(&route, id, &mut ledger).unwrap();
        }
        assert!(target.check(&ledger).unwrap().holds(), "{layout}");
        let name = route.record_key();
        let stale = put(BIN, put_history::value(&target.payload, 71));
        target
            .records()
            .operate_on(&WritePolicy::default(), &name.as_str().into(), &[stale])
            .unwrap();
        // Its generation is that of four puts.
        ledger.in_doubt.push(73);
        let found = target.check(&ledger).unwrap();
        assert_eq!((found.found, found.lost, found.duplicates), (2, 1, 0));
        assert_eq!(found.invisible, 0);
        target.read_back(&route, 72, &mut ledger).unwrap();
        assert_eq!(target.check(&ledger).unwrap().invisible, 1);
        ledger.in_doubt.push(71);
        assert_eq!(target.check(&ledger).unwrap().lost, 0);
    }
}
