//! The commands as an operator types them.

use rehome_integration::shell::{Shell, rehome, verbs};
use serde_json::{Value, json};
use std::path::Path;

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:9";

fn shell_with_rows() -> Shell {
    let shell = Shell::start().expect("it starts");
    shell.good("keyspace create flights --shards 3 --buckets 64");
    for row in 0..60 {
        shell.good(&format!("put flights key-{row} sort value-{row}"));
    }
    shell
}

fn job_of(answer: &Value) -> u64 {
    answer["job"].as_u64().unwrap_or_else(|| panic!("{answer} names no job"))
}

#[test]
fn a_second_up_on_the_same_folder_is_refused_with_the_holders_process_id() {
    let shell = Shell::start().expect("it starts");
    let said = rehome(NOWHERE, &format!("up --listen 127.0.0.1:0 --data {}/data", shell.dir().display()));
    assert_eq!(said.exit, 3, "{said:?}");
    assert!(said.err.contains(&shell.pid().to_string()) && said.err.contains("next: "), "{said:?}");
    shell.stop().expect("the first one is unharmed");
}

#[test]
fn explain_tells_a_finished_move_with_its_positions_digests_and_pause() {
    let shell = shell_with_rows();
    let job = job_of(&shell.json("reshard flights --shards 5"));
    shell.good(&format!("wait {job} --timeout 60"));
    let text = shell.good(&format!("explain {job}"));
    for part in ["asked for", "at X = ", "digest ", "switched at F = ", "pause predicted ", "measured ", "completed"] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let story = shell.json(&format!("explain {job}"));
    for one in story["moves"].as_array().expect("moves") {
        assert!(one["snapshot_digest"].is_string() && one["rows"].is_u64() && one["bytes"].is_u64(), "{one}");
        let attempt = one["attempts"].as_array().and_then(|all| all.last()).expect("an attempt");
        assert_eq!(attempt["outcome"], "switched");
        assert!(attempt["fence"].is_u64() && attempt["predicted_pause_ms"].is_f64(), "{attempt}");
        assert!(attempt["measured_pause_ms"].is_u64(), "{attempt}");
        let digests: Vec<_> =
            attempt["reports"].as_array().expect("reports").iter().map(|one| &one["digest"]).collect();
        assert!(digests.len() == 2 && digests[0] == digests[1], "{attempt}");
        let alone = shell.json(&format!("explain --move {}", one["move"]));
        assert_eq!(alone["moves"], json!([one]));
    }
    shell.stop().expect("it stops");
}

#[test]
fn wrong_input_gives_an_exit_code_and_says_what_to_do() {
    let shell = shell_with_rows();
    shell.good("put flights a s v --request 000000000000000000000000000000ff");
    let wrong = [
        ("keyspace create flights --shards 3", 3),
        ("keyspace create other --shards 0", 3),
        ("keyspace create other", 2),
        ("keyspace show nothing", 4),
        ("put nothing a s v", 4),
        ("put flights a s v --if sometimes", 2),
        ("put flights a s v --if absent", 3),
        ("put flights a s other --request 000000000000000000000000000000ff", 3),
        ("put flights a s v --request xyz", 2),
        ("get nothing a s", 4),
        ("get flights nobody nothing", 4),
        ("get flights a s --level someday", 2),
        ("get flights a", 2),
        ("delete nothing a s", 4),
        ("delete flights a s --if 1@999999", 3),
        ("scan nothing", 4),
        ("scan flights --after zz", 2),
        ("import flights /no/such/file.csv --key a", 2),
        ("import flights notes.txt --key a", 2),
        ("reshard nothing --shards 5", 4),
        ("reshard flights --shards 3", 3),
        ("reshard flights --shards 0", 3),
        ("reshard flights --shards 65", 3),
        ("show 999999", 4),
        ("wait 999999", 4),
        ("explain 999999", 4),
        ("explain --move 999999", 4),
        ("cancel 999999", 4),
        ("complete 999999", 4),
        ("demo --plan 3,3", 2),
        ("demo --input flights.csv", 2),
        ("nonsense", 2),
        ("up --listen nowhere", 2),
    ];
    let mut found = Vec::new();
    for (line, exit) in wrong {
        let said = shell.run(line);
        // What clap finds wrong, it answers with the usage and where to read more.
        let helps = said.err.contains("next: rehome ") || said.err.contains("--help");
        if said.exit != exit || !said.out.is_empty() || !helps {
            found.push(format!("rehome {line}: expected exit code {exit} and a command to run next, got {said:?}"));
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    shell.stop().expect("it stops");
}

#[test]
fn without_a_server_every_command_says_how_to_start_one() {
    let verbs =
        ["put k a s v", "get k a s", "delete k a s", "scan k", "export k - --format csv", "reshard k --shards 2"];
    for line in ["status", "list", "wait 1"].into_iter().chain(verbs) {
        let said = rehome(NOWHERE, line);
        assert_eq!(said.exit, 5, "{line}: {said:?}");
        assert!(said.err.contains("next: rehome up"), "{line}: {said:?}");
    }
}

/// Every verb that asks a server, as it may be typed.
const ASKING: [&str; 24] = [
    "keyspace create k --shards 2",
    "keyspace drop k --yes",
    "keyspace list",
    "keyspace show k",
    "put k a s v",
    "get k a s",
    "delete k a s",
    "scan k",
    "import k f.csv --key a",
    "export k - --format csv",
    "plan k --shards 2",
    "reshard k --shards 2",
    "status",
    "list",
    "show 1",
    "wait 1",
    "watch 1",
    "explain 1",
    "pause 1",
    "resume 1",
    "cancel 1",
    "complete 1",
    "rejects list k",
    "rejects retry k",
];

#[test]
fn a_server_that_is_no_address_is_wrong_usage_of_every_verb() {
    // Those ask no server: they are one, or find it by its folder.
    let known = ["up", "serve", "demo", "bench", "stop", "fail-points"].into_iter().chain(ASKING);
    let known: Vec<String> = known.map(|line| format!("{line} ")).collect();
    let missing: Vec<String> =
        verbs().into_iter().filter(|verb| !known.iter().any(|line| line.starts_with(&format!("{verb} ")))).collect();
    assert!(missing.is_empty(), "not in this test's list: {missing:?}");
    let check = |server: &str, line: &str, example: &str| {
        let (said, told) = (rehome(server, line), rehome(server, &format!("{line} --json")));
        assert_eq!((said.exit, told.exit), (2, 2), "{server:?}, {line}: {said:?}, {told:?}");
        assert!(said.out.is_empty(), "{server:?}, {line}: {said:?}");
        let body: Value = serde_json::from_str(&told.out).unwrap_or_else(|error| panic!("{line}: {error}: {told:?}"));
        assert_eq!(body["error"]["code"], "usage", "{server:?}, {line}");
        for text in [said.err.as_str(), body["error"]["message"].as_str().unwrap_or_default()] {
            for part in ["--server", "REHOME_SERVER", "http://HOST:PORT", &format!("for example {example}")] {
                assert!(text.contains(part), "{server:?}, {line}: no {part:?} in {text}");
            }
        }
    };
    for line in ASKING {
        check("127.0.0.1:7000", line, "http://127.0.0.1:7000");
        let flagged = rehome(NOWHERE, &format!("{line} --server 127.0.0.1:7000"));
        assert!(flagged.exit == 2 && flagged.err.contains("for example http://127.0.0.1:7000"), "{line}: {flagged:?}");
    }
    for server in ["", "http://", "no address", "http://host:99999", "/var/lib/rehome"] {
        check(server, "status", "http://127.0.0.1:8090");
    }
    check("https://host:1", "status", "http://host:1");
}

#[test]
fn every_help_has_an_example() {
    let mut seen = 0;
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        let help = rehome(NOWHERE, &format!("{path} --help"));
        assert_eq!(help.exit, 0, "{path}: {help:?}");
        let listed = help.out.split_once("Commands:\n").map(|(_, rest)| rest.split("\n\n").next().unwrap_or_default());
        for line in listed.unwrap_or_default().lines() {
            let name = line.split_whitespace().next().unwrap_or_default();
            if name != "help" && line.starts_with("  ") && !line.starts_with("   ") {
                open.push(format!("{path} {name}"));
            }
        }
        if listed.is_none() {
            seen += 1;
            assert!(
                help.out.contains("Example") && help.out.contains("  rehome"),
                "rehome{path} --help:\n{}",
                help.out
            );
        }
    }
    assert!(seen >= 18, "only {seen} commands were found");
}

#[test]
fn every_verb_answers_in_json_also_when_it_fails() {
    let shell = shell_with_rows();
    let file = shell.dir().join("rows.csv");
    std::fs::write(&file, "origin,date,delay\nORD,2001-01-01,3\nATL,2001-01-02,4\n").expect("a file");
    shell.json("keyspace create other --shards 2 --buckets 16");
    for line in ["keyspace list", "keyspace show flights", "keyspace show flights --key ORD", "status", "list"] {
        shell.json(line);
    }
    for line in ["put flights a s v", "get flights a s", "get flights a --list", "delete flights a s", "scan flights"] {
        shell.json(line);
    }
    shell.json(&format!("import other {} --key origin --sort date", file.display()));
    shell.json(&format!("export other {}/other.jsonl", shell.dir().display()));
    shell.json("reshard flights --shards 5 --dry-run");
    let job = job_of(&shell.json("reshard flights --shards 5 --keep-source"));
    for line in ["wait", "show", "explain", "complete", "wait"] {
        shell.json(&format!("{line} {job}"));
    }
    let late = shell.run(&format!("cancel {job} --json"));
    let refused: Value = serde_json::from_str(&late.out).expect("a refusal is JSON too");
    assert_eq!((late.exit, refused["error"]["code"].as_str()), (3, Some("cancel_too_late")), "{late:?}");
    let other = job_of(&shell.json("reshard flights --shards 2"));
    let cancelled = shell.run(&format!("cancel {other} --json"));
    assert!(serde_json::from_str::<Value>(&cancelled.out).is_ok(), "{cancelled:?}");
    // The last ones are wrong before any server is asked.
    for line in [
        "get flights nobody nothing",
        "show 999999",
        "reshard flights --shards 0",
        "import flights /x.csv --key a",
        "keyspace create other",
        "put flights a s v --request abc",
        "nonsense",
    ] {
        let said = shell.run(&format!("{line} --json"));
        let body: Value = serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{line}: {error}: {said:?}"));
        assert!(body["error"]["code"].is_string(), "{line}: {body}");
        assert!(body["next_steps"][0].as_str().is_some_and(|step| step.starts_with("rehome ")), "{line}: {body}");
    }
    shell.stop().expect("it stops");
}

#[test]
fn a_list_that_has_more_rows_names_the_command_for_the_next_page() {
    let shell = Shell::start().expect("it starts");
    shell.good("keyspace create flights --shards 2 --buckets 64");
    (0..7).for_each(|row| drop(shell.good(&format!("put flights a {row} v"))));
    let (mut line, mut pages) = ("get flights a --list --limit 3 --from 1 --reverse".to_owned(), Vec::new());
    loop {
        let said = shell.run(&line);
        assert_eq!(said.exit, 0, "{line}: {said:?}");
        pages.push(said.out.lines().filter_map(|line| line.split('\t').nth(1)).collect::<Vec<_>>().join(" "));
        match said.err.split_once("next: rehome ") {
            Some((_, next)) => line = next.trim().to_owned(),
            None => break,
        }
    }
    assert_eq!(pages, ["6 5 4", "3 2 1"]);
    shell.stop().expect("it stops");
}

#[test]
fn a_plan_tells_what_would_move_and_the_control_log_does_not_grow() {
    let shell = shell_with_rows();
    let before = shell.json("status")["control_position"].clone();
    let plan = shell.json("plan flights --shards 5");
    let rows: u64 = plan["moves"].as_array().expect("moves").iter().filter_map(|one| one["rows"].as_u64()).sum();
    assert_eq!((&plan["job"], plan["estimate"]["rows"].as_u64()), (&Value::Null, Some(rows)), "{plan}");
    assert!(rows > 0 && rows < 60 && plan["estimate"]["counted"] == true, "some of 60 rows move: {plan}");
    assert!(plan["estimate"]["seconds"].is_number() && plan["estimate"]["warnings"] == json!([]), "{plan}");
    let dry = shell.json("reshard flights --shards 5 --dry-run");
    assert_eq!(dry["estimate"]["bytes"], plan["estimate"]["bytes"]);
    assert_eq!(shell.json("status")["control_position"], before);
    shell.stop().expect("it stops");
}

#[test]
fn a_watch_tells_every_change_once_and_ends_with_its_job() {
    let shell = shell_with_rows();
    let job = job_of(&shell.json("reshard flights --shards 4"));
    let said = shell.run(&format!("watch {job} --json"));
    let lines: Vec<Value> =
        said.out.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect();
    let last = lines.last().expect("some lines");
    assert_eq!((said.exit, &last["state"], &last["ended"]), (0, &json!("completed"), &json!(true)), "{said:?}");
    let of_moves: Vec<(u64, u64)> =
        lines.iter().filter_map(|line| Some((line["position"].as_u64()?, line["move"].as_u64()?))).collect();
    assert!(of_moves.windows(2).all(|pair| pair[0] <= pair[1]), "in the order of the control log: {said:?}");
    let switched = lines.iter().filter(|line| line["what"].as_str().is_some_and(|what| what.contains(" switched: ")));
    assert_eq!(switched.count(), 3, "one line for each move: {said:?}");
    let all = shell.run("watch");
    assert!(all.exit == 0 && all.out.contains("every job has ended"), "{all:?}");
    shell.stop().expect("it stops");
}

#[test]
fn importing_a_file_twice_doubles_nothing() {
    let shell = Shell::start().expect("it starts");
    shell.good("keyspace create flights --shards 3 --buckets 64");
    let file = shell.dir().join("rows.csv");
    let rows: String = (0..3_000).map(|row| format!("key-{},{},{row}\n", row % 40, row % 7)).collect();
    std::fs::write(&file, format!("origin,date,delay\n{rows}")).expect("a file");
    let line = format!("import flights {} --key origin --sort date", file.display());
    let first = shell.json(&line);
    assert_eq!((first["rows"].as_u64(), first["accepted"].as_u64()), (Some(3_000), Some(3_000)), "{first}");
    let before = scan_all(&shell);
    assert_eq!(before.len(), 3_000);
    let again = shell.json(&line);
    assert_eq!((again["accepted"].as_u64(), again["done_before"].as_u64()), (Some(0), Some(3_000)), "{again}");
    let job = job_of(&shell.json("reshard flights --shards 4"));
    shell.good(&format!("wait {job} --timeout 60"));
    let moved = shell.json(&line);
    assert_eq!((moved["accepted"].as_u64(), moved["done_before"].as_u64()), (Some(0), Some(3_000)), "{moved}");
    assert_eq!(scan_all(&shell), before, "same rows, same versions");
    shell.stop().expect("it stops");
}

fn scan_all(shell: &Shell) -> Vec<String> {
    let mut lines: Vec<String> = shell.good("scan flights --all").lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn sources_that_are_kept_hold_their_rows_until_the_job_is_completed() {
    let shell = shell_with_rows();
    let job = job_of(&shell.json("reshard flights --shards 4 --keep-source"));
    let switched = shell.json(&format!("wait {job} --timeout 60"));
    assert_eq!((switched["state"].as_str(), switched["ended"].as_bool()), (Some("switched"), Some(false)));
    let busy = shell.run("reshard flights --shards 3");
    assert!(busy.exit == 3 && busy.err.contains(&format!("rehome complete {job}")), "{busy:?}");
    assert!(files_of(shell.dir()) > 0);
    shell.good(&format!("complete {job}"));
    let completed = shell.json(&format!("wait {job} --timeout 60"));
    // `wait` ends as soon as the job no longer runs; completing is running.
    assert_eq!((completed["state"].as_str(), completed["ended"].as_bool()), (Some("completed"), Some(true)));
    assert_eq!(scan_all(&shell).len(), 60);
    let back = job_of(&shell.json("reshard flights --shards 3"));
    shell.good(&format!("wait {back} --timeout 60"));
    assert_eq!(scan_all(&shell).len(), 60);
    shell.stop().expect("it stops");
}

/// Counts the snapshots that lie there.
fn files_of(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("data/snapshots")).map(Iterator::count).unwrap_or_default()
}
