//! --trace, --stats

use crate::places::everywhere;
use serde_json::Value;

#[test]
fn a_trace_has_a_line_for_each_request() {
    everywhere(|place| {
        place.write("a b", "contents");
        let done = place.run(["--trace", "cat", "/a b"]);
        assert_eq!((done.code, &*done.out), (Some(0), &b"contents"[..]));
        let lines: Vec<_> = done.err.lines().collect();
        assert!(lines[0].starts_with("INIT "), "{}", done.err);
        let lookup = lines.iter().find(|line| line.starts_with("LOOKUP "));
        let lookup = lookup.expect("a LOOKUP");
        assert!(
            lookup.contains("name=\"a b\"") && lookup.ends_with(" ok"),
            "{lookup}"
        );
        assert!(lines.iter().any(|line| line.starts_with("READ ")));
    });
}

#[test]
fn a_json_trace_is_json_and_leads_to_the_same_numbers_as_the_stats() {
    everywhere(|place| {
        place.write("a", "contents");
        let done = place.run(["--trace=json", "--stats=json", "cat", "/a", "/gone"]);
        assert_eq!(done.code, Some(1));
        let objects: Vec<Value> = done
            .err
            .lines()
            .filter(|line| !line.starts_with("fusewire: "))
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let (stats, trace): (Vec<&Value>, Vec<&Value>) = objects
            .iter()
            .partition(|object| object.get("by_opcode").is_some());
        assert_eq!(stats.len(), 1);
        let traced = |opcode: &str, only_failed: bool| {
            let of_opcode = trace.iter().filter(|line| line["opcode"] == opcode);
            of_opcode
                .filter(|line| !only_failed || line["result"] != "ok")
                .count() as u64
        };
        for opcode in ["INIT", "LOOKUP", "OPEN", "READ"] {
            let counted = &stats[0]["by_opcode"][opcode];
            assert!(traced(opcode, false) > 0, "{opcode}: {trace:?}");
            assert_eq!(
                counted["requests"],
                traced(opcode, false),
                "{opcode} on {place}"
            );
            assert_eq!(
                counted["errors"],
                traced(opcode, true),
                "{opcode} on {place}"
            );
        }
        let gone = trace.iter().find(|line| line["name"] == "gone").unwrap();
        assert_eq!(gone["result"], "ENOENT");
        assert_eq!(stats[0]["open_handles"], 0, "{place}");
    });
}

#[test]
fn stats_for_people_name_the_requests() {
    everywhere(|place| {
        let done = place.run(["--stats", "ls"]);
        assert_eq!(done.code, Some(0));
        assert!(done.err.contains("OPENDIR            1\n"), "{}", done.err);
    });
}
