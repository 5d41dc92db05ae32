//! Wrong input to the verbs of a real process: each is refused with a clear text, the next command and its exit code, and
//! changes nothing.

use rehome_integration::shell::rehome;
use rehome_integration::{Bench, Medium};
use serde_json::Value;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// What is wrong, the command, its exit code, a part of the text, and the next command; `JOB` stands for the job's id.
type Case = (&'static str, &'static str, i32, &'static str, &'static str);

/// With keyspace `flights` on 3 shards of 16 buckets, and no job.
const IDLE: &[Case] = &[
    ("unknown keyspace", "reshard nowhere --shards 2", 4, "no keyspace", "rehome keyspace list"),
    ("unknown keyspace", "plan nowhere --shards 2", 4, "no keyspace", "rehome keyspace list"),
    ("unknown keyspace", "keyspace show nowhere", 4, "no keyspace", "rehome keyspace list"),
    ("unknown keyspace", "keyspace drop nowhere --yes", 4, "no keyspace", "rehome keyspace list"),
    ("unknown keyspace", "put nowhere a s v", 4, "no keyspace", "rehome keyspace list"),
    ("unknown job", "show 999", 4, "no job 999", "rehome list"),
    ("unknown job", "wait 999", 4, "no job 999", "rehome list"),
    ("unknown job", "watch 999", 4, "no job 999", "rehome list"),
    ("unknown job", "explain 999", 4, "no job 999", "rehome list"),
    ("unknown job", "pause 999", 4, "no job 999", "rehome list"),
    ("unknown job", "resume 999", 4, "no job 999", "rehome list"),
    ("unknown job", "cancel 999", 4, "no job 999", "rehome list"),
    ("unknown job", "complete 999", 4, "no job 999", "rehome list"),
    ("unknown move", "explain --move 999", 4, "no move 999", "rehome list"),
    ("shard count 0", "reshard flights --shards 0", 3, "shard", "rehome reshard flights --shards 1"),
    ("shard count 0", "plan flights --shards 0", 3, "shard", "rehome reshard flights --shards 1 --dry-run"),
    ("shard count negative", "reshard flights --shards -1", 2, "invalid value '-1'", "--help"),
    ("shard count no number", "reshard flights --shards many", 2, "invalid value 'many'", "--help"),
    ("today's shard count", "reshard flights --shards 3", 3, "", "rehome reshard flights --shards 4"),
    ("above the buckets", "reshard flights --shards 17", 3, "17", "rehome reshard flights --shards 16"),
    ("shard count 0", "keyspace create more --shards 0", 3, "0 shards", "rehome keyspace create more --shards 1"),
    ("name taken", "keyspace create flights --shards 2", 3, "exists", "rehome keyspace show flights"),
    (
        "delete of the absent",
        "delete flights key-1 a --if absent",
        2,
        "is nothing",
        "delete flights key-1 a --if present",
    ),
    (
        "ids kept too short",
        "keyspace create more --shards 1 --request-retention 5s",
        2,
        "1m to 30d",
        "create more --shards 1 --request-retention 1m",
    ),
    ("drop unconfirmed", "keyspace drop flights", 2, "nobody can be asked", "rehome keyspace drop flights --yes"),
];

/// With a job that is paused before it did anything.
const PAUSED: &[Case] = &[
    ("second reshard of moving slots", "reshard flights --shards 2", 3, "paused job", "rehome resume JOB"),
    ("complete too early", "complete JOB", 3, "not switched yet", "rehome wait JOB"),
    ("drop while moving", "keyspace drop flights --yes", 3, "which is", "rehome cancel JOB"),
];

/// With a job completed.
const COMPLETED: &[Case] = &[
    ("pause too late", "pause JOB", 3, "nothing is left to pause", "rehome show JOB"),
    ("resume of what is not paused", "resume JOB", 3, "not paused", "rehome show JOB"),
    ("cancel too late", "cancel JOB", 3, "nothing is left to cancel", "rehome show JOB"),
];

/// With that job cancelled.
const CANCELLED: &[Case] = &[
    ("pause too late", "pause JOB", 3, "nothing is left to pause", "rehome show JOB"),
    ("resume of what is not paused", "resume JOB", 3, "not paused", "rehome show JOB"),
    ("complete too late", "complete JOB", 3, "nothing is left to complete", "rehome show JOB"),
];

#[test]
fn wrong_input_is_refused_with_the_next_command_and_changes_nothing() {
    let mut bench = Bench::empty(1, Medium::Memory).expect("a folder");
    // The controller is held before the first move starts, so that nothing moves while verbs are tried.
    let pipe = bench.start_held("controller.start-move.before").expect("it starts");
    let server = bench.server().expect("it listens");
    good(&server, "keyspace create flights --shards 3 --buckets 16");
    for row in 0..30 {
        good(&server, &format!("put flights key-{row} a value-{row}"));
    }
    check(&server, IDLE, "");
    let job = json(&server, "reshard flights --shards 4")["job"].to_string();
    let held = pipe.wait_held(LIMIT).expect("the first move is about to start");
    good(&server, &format!("pause {job}"));
    check(&server, PAUSED, &job);
    good(&server, &format!("cancel {job}"));
    check(&server, CANCELLED, &job);
    drop(held);
    let job = json(&server, "reshard flights --shards 4")["job"].to_string();
    good(&server, &format!("wait {job} --timeout 60"));
    check(&server, COMPLETED, &job);
    bench.stop().expect("it stops");
    bench.check_log().expect("no errors in the log");
}

fn good(server: &str, line: &str) -> String {
    let said = rehome(server, line);
    assert_eq!(said.exit, 0, "rehome {line}: {said:?}");
    said.out
}

fn json(server: &str, line: &str) -> Value {
    let out = good(server, &format!("{line} --json"));
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("rehome {line} --json: {error}: {out}"))
}

fn check(server: &str, cases: &[Case], job: &str) {
    let mut found = Vec::new();
    for (wrong, line, exit, text, next) in cases {
        let (line, next) = (line.replace("JOB", job), next.replace("JOB", job));
        let before = shown(server);
        let said = rehome(server, &line);
        let told = said.err.contains(text) && said.err.contains(&next) && said.out.is_empty();
        if said.exit != *exit || !told {
            found.push(format!("{wrong}: rehome {line}: expected exit {exit}, {text:?}, `{next}`; got {said:?}"));
        }
        if shown(server) != before {
            found.push(format!("{wrong}: rehome {line} changed something"));
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// Everything that the control log has decided: keyspaces with their routes, jobs with their moves, and every row.
fn shown(server: &str) -> (Vec<Value>, String) {
    let mut jobs = json(server, "list");
    // What moves are doing meanwhile is their own.
    for one in jobs["jobs"].as_array_mut().into_iter().flatten() {
        if let Some(job) = one.as_object_mut() {
            job.remove("moves");
        }
    }
    let keyspaces = json(server, "keyspace list");
    let routes = keyspaces["keyspaces"].as_array().cloned().unwrap_or_default();
    let slots = routes.iter().map(|one| {
        let shards = one["shards"].as_array().cloned().unwrap_or_default();
        let slots = shards.iter().map(|shard| shard["slots"].clone()).collect();
        serde_json::json!([one["name"], one["id"], one["shards_active"], one["routes_position"], Value::Array(slots)])
    });
    let mut state: Vec<Value> = slots.collect();
    state.push(jobs);
    (state, good(server, "scan flights --all"))
}
