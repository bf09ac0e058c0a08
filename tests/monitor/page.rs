//! The page in a browser.

use std::collections::HashSet;

use spikelet::{NamespaceConfig, ShardedList};

use super::browser_support::{Browser, CONTRAST, brightness};
use super::{HOT, fight, get, look_until, monitor, store};

/// Questions to the page in its frame, once it has shown the given data.
const QUESTIONS: &str = r#"
setTimeout(() => {
  const tables = [...document.querySelectorAll("table")];
  parent.document.title = JSON.stringify({
    width: innerWidth,
    scroll: document.documentElement.scrollWidth,
    background: getComputedStyle(document.body).backgroundColor,
    text: getComputedStyle(document.body).color,
    captions: tables.map(table => table.caption.textContent),
    first: [...tables[0].tBodies[0].rows[0].cells].map(cell => cell.textContent),
    unscoped: [...document.querySelectorAll("thead th, tbody th")].filter(one => !one.scope).length,
    reachable: [...document.querySelectorAll(".scroll")].every(one => one.tabIndex == 0 && one.ariaLabel),
    regions: [...document.querySelectorAll(".scroll")].map(one => one.ariaLabel),
    contrast: Math.min(...contrasts),
    bold: document.querySelectorAll("b").length,
    charts: document.querySelectorAll("svg[role=img][aria-label]").length,
    state: document.getElementById("state").textContent,
  });
}, 0);
"#;

#[test]
fn hot_keys_shards_and_transitions_are_shown_live() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let store = store();
    let monitor = monitor(&store);
    fight(&store, HOT);
    let list = ShardedList::new(&store, "feed", "bob", "by").unwrap();
    list.add(1).unwrap();
    list.shards().activate(4).unwrap();
    look_until(monitor.addr(), |now| {
        now.interval_ms.is_some()
            && !now.namespaces[0].hot.is_empty()
            && !now.namespaces[0].transitions.is_empty()
    });
    let shown = browser.visit(&format!("http://{}/", monitor.addr()), false, 5_000);
    for expected in [
        "Namespace test",
        "Records that writers fight over",
        // As text, and not as what it would be in HTML.
        "al\"ice\\\n&lt;b&gt;",
        "in 4 shards",
        "activating from one record",
        "4 of 4",
        "Live: looked at once a second.",
        "<polyline",
    ] {
        assert!(shown.dom.contains(expected), "{expected}: {}", shown.dom);
    }
    let (head, _) = get(monitor.addr(), "/");
    assert!(
        head.contains("Content-Security-Policy: default-src 'none'; script-src 'nonce-"),
        "{head}"
    );
}

#[test]
fn it_is_shown_light_and_dark_wide_and_narrow() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let store = store();
    let other = store.create_namespace(NamespaceConfig::new("zoo")).unwrap();
    other.set("animals").unwrap().put(1, [("a", 1)]).unwrap();
    let monitor = monitor(&store);
    fight(&store, HOT);
    let list = ShardedList::new(&store, "feed", "bob", "by").unwrap();
    list.add(1).unwrap();
    list.shards().activate(4).unwrap();
    look_until(monitor.addr(), |now| {
        let test = &now.namespaces[0];
        now.interval_ms.is_some()
            && test.hot.len() == 1
            && test.transitions.len() == 1
            && test.hot[0].writes_per_s.is_some()
    });
    let (_, html) = get(monitor.addr(), "/");
    assert!(!html.contains("{nonce}"));
    let (_, json) = get(monitor.addr(), "/hot.json");
    // A frame cannot fetch: it gets the endpoint's last answer instead, twice, for a chart.
    let given = format!(
        "<script>window.fetch = async () => ({{ok: true, json: async () => ({json})}});</script>",
        json = json.replace('<', "\\u003c")
    );
    let html = html
        .replace("<script nonce", &format!("{given}<script nonce"))
        .replace(
            "</body>",
            &format!("<script>look().then(() => {{ {CONTRAST}{QUESTIONS} }});</script></body>"),
        );
    for (width, dark) in [(1280, false), (1280, true), (360, false), (360, true)] {
        let seen = browser.ask_framed(&html, width, dark);
        assert_eq!(seen["width"], width);
        assert!(
            seen["scroll"].as_u64() <= Some(width.into()),
            "it scrolls sideways: {seen}"
        );
        let (back, text) = (brightness(&seen["background"]), brightness(&seen["text"]));
        assert_eq!(back < 150 && text > 600, dark, "{seen}");
        assert_eq!(back > 700 && text < 150, !dark, "{seen}");
        assert_eq!(seen["captions"].as_array().unwrap().len(), 6, "{seen}");
        let regions = seen["regions"].as_array().unwrap();
        let distinct: HashSet<&str> = regions.iter().filter_map(|one| one.as_str()).collect();
        assert_eq!(distinct.len(), 6, "screen readers list them: {regions:?}");
        assert!(seen["contrast"].as_f64() >= Some(4.5), "{seen}");
        let first = seen["first"].as_array().unwrap();
        assert_eq!(
            (first.len(), &first[0], &first[1]),
            (9, &HOT.into(), &"feed".into())
        );
        assert_eq!(
            (seen["unscoped"].as_u64(), seen["bold"].as_u64()),
            (Some(0), Some(0))
        );
        assert_eq!(
            (seen["reachable"].as_bool(), seen["charts"].as_u64()),
            (Some(true), Some(6)),
            "{seen}"
        );
    }
}
