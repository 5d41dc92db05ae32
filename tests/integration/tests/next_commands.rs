//! The command that comes next, as every answer names it: it is the one that was meant, and it works as it stands there.

use rehome_integration::shell::{Shell, rehome};
use serde_json::{Value, json};

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:9";

fn shell_with(rows: usize) -> Shell {
    let shell = Shell::start().expect("it starts");
    shell.good("keyspace create flights --shards 3 --buckets 64");
    (0..rows).for_each(|row| drop(shell.good(&format!("put flights a {row} value-{row}"))));
    shell
}

/// Returns the only next step, without `rehome`.
fn next(answer: &Value) -> Option<&str> {
    let steps = answer["next_steps"].as_array().expect("every answer has next steps");
    assert!(steps.len() <= 1, "{answer}");
    steps.first().map(|step| step.as_str().and_then(|step| step.strip_prefix("rehome ")).expect("a command"))
}

#[test]
fn a_wrong_command_line_ends_with_a_right_one_of_its_verb() {
    for (line, next) in [
        ("get flights alice", "rehome get flights alice --list"),
        ("get flights alice bob --nonsense", "rehome get flights ORD 2001-01-01"),
        ("put flights alice hello", "rehome put flights ORD 2001-01-01 '{\"delay\":3}'"),
        ("delete flights alice", "rehome delete flights ORD 2001-01-01"),
        ("delete flights a s --if absent", "rehome delete flights a s --if present"),
        ("keyspace create flights", "rehome keyspace create flights --shards 3"),
        ("reshard flights --shards many", "rehome reshard flights --shards 5 --dry-run"),
        ("import flights f.csv", "rehome import flights flights.parquet --key origin --sort date"),
        ("wait soon", "rehome wait 12 --timeout 600"),
        ("nonsense", "rehome --help"),
    ] {
        let (said, told) = (rehome(NOWHERE, line), rehome(NOWHERE, &format!("{line} --json")));
        assert!(said.exit == 2 && said.out.is_empty(), "{line}: {said:?}");
        assert_eq!(said.err.lines().last(), Some(&*format!("  next: {next}")), "{line}");
        let told: Value = serde_json::from_str(&told.out).expect("one object");
        assert_eq!((&told["error"]["code"], &told["next_steps"]), (&json!("usage"), &json!([next])), "{line}");
    }
}

#[test]
fn pages_as_json_name_the_command_for_the_next_one() {
    let shell = shell_with(7);
    for first in ["get flights a --list --limit 3 --level eventual", "scan flights --limit 3 --level eventual"] {
        let (mut line, mut sizes) = (first.to_owned(), Vec::new());
        loop {
            let page = shell.json(&line);
            sizes.push(page["rows"].as_array().expect("rows").len());
            assert_eq!(page["next"].is_string(), next(&page).is_some(), "{page}");
            let Some(more) = next(&page) else { break };
            assert!(more.contains(" --level eventual"), "{more}");
            line = more.to_owned();
        }
        sizes.retain(|size| *size > 0);
        assert_eq!(sizes, [3, 3, 1], "{first}");
    }
    let all = shell.good("scan flights --all --json");
    assert!(all.lines().all(|page| page.contains("\"next_steps\":[],")), "it goes on by itself: {all}");
    shell.stop().expect("it stops");
}

#[test]
fn a_status_and_a_new_keyspace_name_commands_that_work() {
    let shell = Shell::start().expect("it starts");
    for verb in ["keyspace create", "put", "plan"] {
        let line = next(&shell.json("status")).expect("a next step").to_owned();
        let line = if verb == "put" {
            next(&shell.json("keyspace create other --shards 1")).expect("a put").into()
        } else {
            line
        };
        assert!(line.starts_with(verb), "{line}");
        shell.good(&line);
    }
    shell.stop().expect("it stops");
}

#[test]
fn a_refused_write_tells_as_json_what_was_found() {
    let shell = shell_with(1);
    let found = shell.json("get flights a 0")["rows"][0]["version"].clone();
    for line in ["put flights a 0 other --if absent", "delete flights a 0 --if 1@999999"] {
        let said = shell.run(&format!("{line} --json"));
        let told: Value = serde_json::from_str(&said.out).expect("one object");
        assert_eq!((said.exit, &told["error"]["code"]), (3, &json!("condition_failed")), "{line}: {told}");
        assert_eq!((&told["write"]["version"], next(&told)), (&found, Some("get flights a 0")), "{line}: {told}");
        assert!(told["write"]["token"].is_string() && told["write"]["request"].is_string(), "{told}");
    }
    shell.stop().expect("it stops");
}

#[test]
fn jobs_of_a_dropped_keyspace_are_told_from_those_of_a_new_one_of_its_name() {
    let shell = shell_with(1);
    let reshard = || {
        let job = shell.json("reshard flights --shards 4")["job"].to_string();
        shell.good(&format!("wait {job} --timeout 60"));
        job
    };
    let old = reshard();
    assert!(shell.good("keyspace drop flights --dry-run").starts_with("would be dropped: 1 row, "));
    shell.good("keyspace drop flights --yes");
    shell.good("keyspace create flights --shards 3 --buckets 64");
    let new = reshard();
    let list = shell.good("list");
    for (job, is_dropped) in [(old, true), (new, false)] {
        let line = list.lines().find(|line| line.split_whitespace().next() == Some(&job)).expect("the job");
        assert_eq!(line.contains("flights (dropped)"), is_dropped, "{list}");
        assert_eq!(shell.good(&format!("show {job}")).contains("(dropped)"), is_dropped);
        assert_eq!(shell.json(&format!("show {job}"))["keyspace_dropped"], is_dropped);
    }
    shell.stop().expect("it stops");
}

#[test]
fn how_long_request_ids_are_kept_is_chosen_within_bounds_and_shown() {
    let shell = shell_with(0);
    assert_eq!(shell.json("keyspace show flights")["request_retention_ms"], 86_400_000);
    assert!(shell.good("keyspace show flights").contains(", request ids kept 24h, "));
    for (wished, possible) in [("5s", "1m"), ("31d", "30d")] {
        let line =
            |span: &str| format!("keyspace create kept-{wished} --shards 2 --buckets 16 --request-retention {span}");
        let said = shell.run(&line(wished));
        assert!(said.exit == 2 && said.err.contains("1m to 30d (60000 to 2592000000 ms)"), "{said:?}");
        assert_eq!(said.err.lines().last(), Some(&*format!("  next: rehome {}", line(possible))));
        shell.good(&line(possible));
        assert!(shell.good(&format!("keyspace show kept-{wished}")).contains(&format!("ids kept {possible}, ")));
    }
    let said = shell.run("keyspace create more --shards 2 --request-retention soon");
    assert!(said.exit == 2 && said.err.contains("for example 90s, 30m, 24h or 7d"), "{said:?}");
    shell.stop().expect("it stops");
}

#[test]
fn a_demo_ends_with_what_it_showed_and_a_command() {
    let said = rehome(NOWHERE, "demo --input zipf --rows 3000 --plan 2,3 --writers 2");
    let last: Vec<&str> = said.out.lines().rev().take(2).collect();
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(last[1].starts_with("Shown: while clients wrote, the shards went 2 -> 3 in 2 moves; "), "{said:?}");
    assert!(last[0].starts_with("next: ") && last[0].ends_with(" up"), "{said:?}");
}
