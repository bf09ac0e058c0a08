//! Queries by an index, page by page, as clients ask for them.

use std::collections::BTreeMap;

use super::*;

/// What clients keep of each partition between pages: the digest and the value of its last record.
type Places = std::collections::BTreeMap<u16, (Vec<u8>, Vec<u8>)>;

fn partition(digest: &[u8]) -> u16 {
    u16::from_le_bytes([digest[0], digest[1]]) & 0x0fff
}

/// Cells of geometries are numbers without a sign.
fn paged_unordered(wire: &mut Wire, asked: &Message, most: usize) -> Vec<i64> {
    let number = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap()) as i128;
    let found = paged_by(wire, asked, most, number, || {});
    found.iter().map(|record| record.int("i")).collect()
}

fn paged(wire: &mut Wire, asked: &Message, most: usize, between: impl FnMut()) -> Vec<Answer> {
    let number = |value: &[u8]| i64::from_le_bytes(value.try_into().unwrap()) as i128;
    paged_by(wire, asked, most, number, between)
}

/// All records of a query, page by page as clients ask: partitions that have brought something go
/// on behind their last record, others begin anew. Checks the order inside of partitions.
fn paged_by(
    wire: &mut Wire,
    asked: &Message,
    most: usize,
    number: impl Fn(&[u8]) -> i128,
    mut between: impl FnMut(),
) -> Vec<Answer> {
    let (mut places, mut all) = (Places::new(), Vec::new());
    loop {
        let mut page = asked.clone().field(13, &(most as u64).to_be_bytes());
        let fresh = (0..4096_u16).filter(|partition| !places.contains_key(partition));
        page.fields[2].1 = fresh.flat_map(u16::to_le_bytes).collect();
        if !places.is_empty() {
            let digests: Vec<u8> = places.values().flat_map(|place| place.0.clone()).collect();
            let values: Vec<u8> = places.values().flat_map(|place| place.1.clone()).collect();
            page = page.field(12, &digests).field(15, &values);
        }
        let (records, code) = wire.ask_many(&page);
        assert!(
            code == 0 && records.len() <= most,
            "{code} {}",
            records.len()
        );
        for record in &records {
            let (digest, value) = (record.field(4), record.field(15));
            let before = places.insert(partition(digest), (digest.to_vec(), value.to_vec()));
            assert!(before.is_none_or(|(last, least)| {
                (number(&least), &*last) < (number(value), digest)
            }));
        }
        let is_last = records.len() < most;
        all.extend(records);
        if is_last {
            return all;
        }
        between();
    }
}

#[test]
fn a_query_by_an_index_goes_on_page_by_page() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let set = running.store.set("demo").unwrap();
    for number in 0..5000_i64 {
        let elements = vec![
            Value::from(number / 3),
            (number / 3 + 1).into(),
            (-1).into(),
        ];
        let bins = [
            ("i", Value::from(number)),
            ("third", (number / 3).into()),
            ("l", Value::List(elements.into())),
            ("s", if number % 2 == 0 { "even" } else { "odd" }.into()),
        ];
        set.put(number, bins).unwrap();
    }
    create(
        &mut wire,
        "sindex-create:namespace=test;set=demo;indexname=i;bin=i;type=numeric\n\
         sindex-create:namespace=test;indexname=third;bin=third;type=numeric\n\
         sindex-create:namespace=test;set=demo;indexname=l;bin=l;indextype=list;type=numeric\n\
         sindex-create:namespace=test;set=demo;indexname=s;bin=s;type=string\n",
    );
    let table: [(&str, Message, Vec<i64>); 4] = [
        (
            "different values",
            query().field(22, &integers("i", -5, 2999)),
            (0..3000).collect(),
        ),
        (
            "equal values",
            query().field(22, &integers("third", 100, 199)),
            (300..600).collect(),
        ),
        (
            "several values of a record in the range",
            query().field(26, &[1]).field(22, &integers("l", 101, 200)),
            (300..603).collect(),
        ),
        (
            "one text",
            query().field(22, &value("s", 3, b"even")),
            (0..5000).step_by(2).collect(),
        ),
    ];
    for (what, asked, expected) in table {
        for most in [7, 250, 10_000] {
            if most == 7 && expected.len() > 1000 {
                continue;
            }
            let mut numbers: Vec<i64> = paged(&mut wire, &asked, most, || {})
                .iter()
                .map(|record| record.int("i"))
                .collect();
            numbers.sort_unstable();
            assert_eq!(numbers, expected, "{what}, {most} a page");
        }
    }
}

#[test]
fn pages_miss_nothing_that_is_there_all_the_time() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let set = running.store.set("demo").unwrap();
    for number in 0..600_i64 {
        set.put(number, [("i", number)]).unwrap();
    }
    create(
        &mut wire,
        "sindex-create:namespace=test;set=demo;indexname=i;bin=i;type=numeric\n",
    );
    let mut next = 0;
    let asked = query().field(22, &integers("i", 0, 1000));
    let found = paged(&mut wire, &asked, 50, || {
        // Odd ones go or move, even ones stay.
        for number in (next..next + 100).filter(|number| number % 2 == 1 && *number < 600) {
            if number % 3 == 0 {
                set.delete(number).unwrap();
            } else {
                set.put(number, [("i", 900)]).unwrap();
            }
        }
        next += 100;
    });
    let mut even: Vec<i64> = found
        .iter()
        .map(|record| record.int("i"))
        .filter(|number| number % 2 == 0 && *number < 600)
        .collect();
    even.sort_unstable();
    assert!(even.into_iter().eq((0..600).step_by(2)));
}

#[test]
fn a_query_of_geometries_goes_on_page_by_page() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let set = running.store.set("demo").unwrap();
    for number in 0..300_i64 {
        let (longitude, latitude) = (number % 20 - 10, number / 20 - 8);
        let place = format!(r#"{{"type":"Point","coordinates":[{longitude},{latitude}]}}"#);
        let region =
            format!(r#"{{"type":"AeroCircle","coordinates":[[{longitude},{latitude}],150000]}}"#);
        let bins = [
            ("i", Value::from(number)),
            ("geo", Value::GeoJson(place)),
            ("around", Value::GeoJson(region)),
        ];
        set.put(number, bins).unwrap();
    }
    create(
        &mut wire,
        "sindex-create:namespace=test;set=demo;indexname=geo;bin=geo;type=geo2dsphere\n\
         sindex-create:namespace=test;set=demo;indexname=around;bin=around;type=geo2dsphere\n",
    );
    let square = br#"{"type":"Polygon","coordinates":[[[-3.5,-3.5],[3.5,-3.5],[3.5,3.5],[-3.5,3.5],[-3.5,-3.5]]]}"#;
    let near = br#"{"type":"Point","coordinates":[0.1,0.1]}"#;
    let of = |wanted: &dyn Fn(i64, i64) -> bool| -> Vec<i64> {
        (0..300)
            .filter(|number| wanted(number % 20 - 10, number / 20 - 8))
            .collect()
    };
    let table: [(&str, Message, Vec<i64>); 2] = [
        (
            "points in a region",
            query().field(22, &value("geo", 23, square)),
            of(&|longitude, latitude| longitude.abs() <= 3 && latitude.abs() <= 3),
        ),
        (
            // 150 km are 1.35 degrees.
            "regions around a point",
            query().field(22, &value("around", 23, near)),
            of(&|longitude, latitude| {
                let [x, y] = [longitude, latitude].map(|degrees| degrees as f64 - 0.1);
                x.hypot(y) <= 1.349
            }),
        ),
    ];
    for (what, asked, expected) in table {
        for most in [3, 100] {
            let mut numbers: Vec<i64> = paged_unordered(&mut wire, &asked, most);
            numbers.sort_unstable();
            assert_eq!(numbers, expected, "{what}, {most} a page");
        }
    }
}

#[test]
fn a_page_behind_no_value_of_the_range_begins_the_partition() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let set = running.store.set("demo").unwrap();
    set.put(7, [("i", 150)]).unwrap();
    create(
        &mut wire,
        "sindex-create:namespace=test;set=demo;indexname=i;bin=i;type=numeric\n",
    );
    let mut found_behind = |value: Option<i64>| {
        let mut page = query().field(22, &integers("i", 100, 299));
        page.fields[2].1 = vec![];
        page = page.field(12, digest(7).as_bytes());
        if let Some(value) = value {
            page = page.field(15, &value.to_le_bytes());
        }
        wire.ask_many(&page).0.len()
    };
    assert_eq!(found_behind(Some(150)), 0);
    assert_eq!(found_behind(Some(0)), 1);
    assert_eq!(found_behind(None), 1);
}

#[test]
fn a_query_of_geometries_in_a_list_or_map_has_a_result_for_each_match() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let set = running.store.set("demo").unwrap();
    let places = || {
        // The fourth one is outside, in a cell that is searched.
        let at = [0.0, 1.0, 2.0, 2.500_001];
        (0_i64..).zip(at).map(|(number, at)| {
            let place = format!(r#"{{"type":"Point","coordinates":[{at},{at}]}}"#);
            (number, Value::GeoJson(place))
        })
    };
    let list: Vec<Value> = places().map(|(_, place)| place).collect();
    let map: BTreeMap<i64, Value> = places().collect();
    set.put(1, [("list", Value::from(list)), ("map", Value::from(map))])
        .unwrap();
    create(
        &mut wire,
        "sindex-create:namespace=test;set=demo;indexname=l;indextype=list;bin=list;type=geo2dsphere\n\
         sindex-create:namespace=test;set=demo;indexname=m;indextype=mapvalues;bin=map;type=geo2dsphere\n",
    );
    let square =
        br#"{"type":"Polygon","coordinates":[[[-1,-1],[2.5,-1],[2.5,2.5],[-1,2.5],[-1,-1]]]}"#;
    for (bin, part) in [("list", 1), ("map", 3)] {
        let asked = query()
            .field(22, &value(bin, 23, square))
            .field(26, &[part]);
        let (records, code) = wire.ask_many(&asked);
        assert_eq!((records.len(), code), (3, 0), "{bin}");
    }
}

#[test]
fn a_cursor_outlives_another_name_of_its_index() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let store = namespaces().path(dir.path()).open().unwrap();
        let handle = spikelet::server::Server::builder(&store).start().unwrap();
        Running { store, handle }
    };
    let running = open();
    let mut wire = Wire::to(running.handle.addr());
    let set = running.store.set("demo").unwrap();
    for number in 0..30_i64 {
        set.put(number, [("i", number)]).unwrap();
    }
    let one = |name: &str| {
        format!("sindex-create:namespace=test;set=demo;indexname={name};bin=i;type=numeric\n")
    };
    create(&mut wire, &one("a"));
    let keys = |set: &Set, name: &str, after: Option<&spikelet::query::Cursor>| {
        let mut query = set.query(name).unwrap().limit(10);
        if let Some(after) = after {
            query = query.after(after);
        }
        query.keys().unwrap()
    };
    let first = keys(&set, "a", None).cursor().unwrap().clone();
    create(&mut wire, &one("b"));
    let second = keys(&set, "b", Some(&first)).cursor().unwrap().clone();
    drop(set);
    running.handle.stop();
    running.store.close().unwrap();
    drop(running.store);
    let running = open();
    let set = running.store.set("demo").unwrap();
    let last: Vec<_> = keys(&set, "b", Some(&second))
        .into_iter()
        .map(|found| found.unwrap().key.unwrap())
        .collect();
    assert_eq!(last, (20..30).map(spikelet::Key::from).collect::<Vec<_>>());
}
