//! Arguments that cannot be run.

use super::{run, stderr, stdout, text};

#[test]
fn wrong_arguments_are_told_and_nothing_runs() {
    for (arguments, why) in [
        ("--rate 0", "--rate"),
        ("--rate 400..10", "write 10..400"),
        ("--rate -5", "no number above 0"),
        ("--writers 0", "no number above 0"),
        ("--writers -1", "no number above 0"),
        ("--rate fast", "--rate"),
        ("--rate 2000000", "1000000"),
        ("--writers 2.5", "whole number"),
        ("--writers 5000", "1024"),
        ("--shards 3", "power of two"),
        ("--shards -1", "power of two"),
        ("--limit -1", "--limit"),
        ("--limit x", "a whole number, 0 or more"),
        ("--seed -1", "a whole number, 0 to"),
        ("--elements -1", "--elements"),
        ("--shards weekly", "hourly"),
        ("--hold-ms -1", "milliseconds"),
        ("--duration soon", "500ms"),
        ("--duration 0", "--duration"),
        ("--hot-keys 0", "--hot-keys"),
        ("--zipf -1", "--zipf"),
        ("--burst -1", "above 0"),
        ("--duration -1", "500ms"),
        ("--fail-if busy>1", "no metric"),
        ("--threshold p99<30", "us, ms or s"),
        ("--html /no/such/dir/page.html", "/no/such/dir/page.html"),
        ("--html /", "/"),
        ("--hdr-hist /dev/null/dir", "/dev/null/dir"),
        ("--baseline /no/such/file", "/no/such/file"),
        ("--virtual --hold-ms 0", "--hold-ms"),
        ("--virtual --writers 30 --pause-us 0", "--pause-us"),
        ("--virtual --activate-at 1", "--virtual"),
        ("--activate-at 1 --shards 1", "nothing would be activated"),
        ("--activate-at 1 --operation put", "add-unique"),
        ("--activate-at 9", "--duration"),
        ("--json --csv", "--csv"),
        ("--pause-us -1", "microseconds, 0 to 60000000"),
        ("--check run --fail-if lost>0", "cannot be used"),
        ("--check run --repeats 3", "cannot be used"),
        ("--check run --limit 3", "cannot be used"),
    ] {
        let output = run(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments}: {}",
            stdout(&output)
        );
        assert!(
            stderr(&output).contains(why),
            "{arguments}: {}",
            stderr(&output)
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_row_that_is_asked_for_twice_is_measured_once() {
    let csv = text("--virtual --rate 50,20,50 --shards 1,1 --duration 10 --csv");
    assert_eq!(csv.lines().count(), 3, "{csv}");
}

#[test]
fn a_run_that_is_refused_leaves_the_earlier_page() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("page.html");
    let earlier = "earlier ".repeat(100_000);
    std::fs::write(&file, &earlier).unwrap();
    let name = file.to_str().unwrap();
    let refused = run(&format!("--virtual --hot-keys 0 --html {name}"));
    assert_eq!(refused.status.code(), Some(2));
    assert!(std::fs::read_to_string(&file).unwrap() == earlier);
    text(&format!(
        "--virtual --rate 50 --shards 1 --duration 10 --html {name}"
    ));
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("<!") && page.trim_end().ends_with("</html>"));
}

#[test]
fn the_help_has_groups_examples_and_each_default_once() {
    let help = text("--help");
    for part in [
        "\nArrivals:\n",
        "\nShards:\n",
        "\nLimits:\n",
        "\nOutput:\n",
        "[default: 2s; 600s with --virtual]",
    ] {
        assert_eq!(help.matches(part).count(), 1, "{part}: {help}");
    }
    assert!(!help.contains("[default: 2s]"), "{help}");
    assert_eq!(
        help.matches("\n  spikelet contention ").count(),
        3,
        "{help}"
    );
}
