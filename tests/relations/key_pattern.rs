use proptest::prelude::*;
use spikelet::policy::RecordExistsAction;
use spikelet::relation::{KeyCorrespondence, KeyPattern};
use spikelet::{Key, Store, WritePolicy, bins};

#[test]
fn keys_are_written_as_the_modeling_document_names_them() {
    let user = KeyPattern::<String>::new("user_{name}").unwrap();
    assert_eq!(user.key("coderoshi".into()), "user_coderoshi".into());
    let reading = KeyPattern::<(u32, String)>::new("sensor{number}_{time}").unwrap();
    let key = reading.key((1, "2013-11-05T08:15:30-05:00".into()));
    assert_eq!(key, "sensor1_2013-11-05T08:15:30-05:00".into());
    assert_eq!(
        reading.parse(&key).unwrap(),
        (1, "2013-11-05T08:15:30-05:00".into())
    );
}

#[test]
fn a_key_that_is_not_of_the_pattern_is_refused_by_name() {
    let episode = KeyPattern::<(u8, u8)>::new("s{season}e{episode:02}").unwrap();
    assert_eq!(episode.key((4, 7)), "s4e07".into());
    let foreign: [Key<'_>; 8] = [
        "s4e7".into(),
        "s04e07".into(),
        "s4e07x".into(),
        "xs4e07".into(),
        "s4".into(),
        "s400e07".into(),
        "s+4e07".into(),
        4.into(),
    ];
    for key in foreign {
        let refused = episode.parse(&key).unwrap_err();
        assert_eq!(refused.result_code(), 4, "{key}");
        assert!(refused.to_string().contains(&key.to_string()), "{refused}");
        assert!(!episode.matches(&key));
    }
}

#[test]
fn a_pattern_by_which_two_lists_of_parts_could_have_one_key_is_refused() {
    assert!(KeyPattern::<(String, String)>::new("{a}{b}").is_err());
    assert!(KeyPattern::<(u32, u32)>::new("{a}0{b}").is_err());
    assert!(KeyPattern::<(i32, i32)>::new("{a}-{b}").is_err());
    assert!(KeyPattern::<(String, String)>::new("{a}b{c}").is_err());
    for wrong in ["{a", "a}", "{a}}", "{a:x}", "no parts", "{a}-{b}"] {
        assert!(KeyPattern::<String>::new(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn what_is_parsed_is_what_was_written(a in ".*", b in any::<i64>(), c in "[:%/0-9a-f]*") {
        let pattern = KeyPattern::<(String, i64, String)>::new("{a}:{b:05}/{c}:end").unwrap();
        let key = pattern.key((a.clone(), b, c.clone()));
        prop_assert_eq!(pattern.parse(&key).unwrap(), (a, b, c));
    }

    #[test]
    fn a_text_is_refused_or_is_the_key_of_its_parts(text in "[a:%0-9]{0,8}") {
        let pattern = KeyPattern::<(String, u8)>::new("{a}:{b}").unwrap();
        let key = Key::from(text);
        if let Ok(parts) = pattern.parse(&key) {
            prop_assert_eq!(pattern.key(parts), key);
        }
    }
}

#[test]
fn records_of_one_key_are_read_and_deleted_together() {
    let store = Store::in_memory().unwrap();
    let user = KeyCorrespondence::new()
        .set(&store, "users", WritePolicy::default())
        .unwrap()
        .set(&store, "following", WritePolicy::default())
        .unwrap();
    user.put("users", "sean", bins! { "name" => "Sean Cribbs" })
        .unwrap();
    let found = user.get("sean").unwrap();
    assert!(found[0].is_some() && found[1].is_none());
    user.put("following", "sean", bins! { "keys" => ["alice"] })
        .unwrap();
    assert!(user.put("avatars", "sean", bins! { "png" => 1 }).is_err());
    assert_eq!(user.delete("sean").unwrap(), 2);
    assert_eq!(user.delete("sean").unwrap(), 0);
    assert!(user.set(&store, "users", WritePolicy::default()).is_err());
}

#[test]
fn records_of_one_key_are_deleted_whatever_their_policy_says_of_puts() {
    let actions = [
        RecordExistsAction::Replace,
        RecordExistsAction::ReplaceOnly,
        RecordExistsAction::CreateOnly,
    ];
    for action in actions {
        let store = Store::in_memory().unwrap();
        store.set("users").unwrap().put("sean", [("n", 1)]).unwrap();
        let policy = WritePolicy::default().record_exists_action(action);
        let user = KeyCorrespondence::new()
            .set(&store, "users", policy)
            .unwrap();
        assert_eq!(user.delete("sean").unwrap(), 1, "{action:?}");
        assert_eq!(user.delete("sean").unwrap(), 0, "{action:?}");
    }
}

#[test]
fn the_last_text_of_a_key_stands_as_it_is() {
    let sensor = KeyPattern::<(String, u32)>::new("{sensor}_{day:02}").unwrap();
    let key = sensor.key(("temp_sensor1".into(), 7));
    assert_eq!(key, "temp_sensor1_07".into());
    assert_eq!(sensor.parse(&key).unwrap(), ("temp_sensor1".into(), 7));
    let named = KeyPattern::<(u32, String)>::new("site:{site}:{name}_end").unwrap();
    let key = named.key((3, "a_end_b".into()));
    assert_eq!(key, "site:3:a_end_b_end".into());
    assert_eq!(named.parse(&key).unwrap(), (3, "a_end_b".into()));
    // Where more text follows, or a sign could be that of a number, a key would be that of other
    // parts, too.
    let both = KeyPattern::<(String, String)>::new("{kind}_{name}").unwrap();
    assert_eq!(
        both.key(("temp_x".into(), "a_b".into())),
        "temp%5fx_a_b".into()
    );
    let signed = KeyPattern::<(String, i64)>::new("{name}-{n}").unwrap();
    for parts in [("a-".to_owned(), 5), ("a".to_owned(), -5)] {
        let key = signed.key(parts.clone());
        assert_eq!(signed.parse(&key).unwrap(), parts, "{key}");
    }
    assert!(sensor.parse(&"temp%5fsensor1_07".into()).is_err());
}
