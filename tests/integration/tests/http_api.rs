//! The API over real HTTP, held against its own description: every route, wrong questions, limits, readiness, metrics.

use anyhow::{Context, ensure};
use rehome_integration::described::{Ask, Described};
use rehome_integration::memory::BUCKETS;
use rehome_integration::metrics::Page;
use rehome_integration::served::{BATCH, LONG, ROWS, Served, get, of_job, post};
use rehome_integration::{KEYSPACE, wait};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;

#[test]
fn every_route_answers_as_it_is_described() {
    every_route().unwrap_or_else(|error| panic!("{error:#}"));
}

fn every_route() -> anyhow::Result<()> {
    let served = Served::with_shards(2)?;
    let api = &served.api;
    for path in ["/v1/health", "/v1/openapi.json", "/v1/status", "/v1/keyspaces", "/v1/keyspaces/{name}", "/v1/jobs"] {
        api.good(&get(path, &[]))?;
    }
    let ready = served.wait_ready()?;
    ensure!(ready["replicas"].as_array().is_some_and(|all| all.len() == 2), "{ready}");
    api.good(&get("/v1/keyspaces/{name}/key", &[("key", "k")]))?;
    api.good(&post(ROWS, json!({ "key": "k", "sort": "s", "value": "v" })))?;
    api.good(&get(ROWS, &[("key", "k"), ("sort", "s")]))?;
    api.good(&get("/v1/keyspaces/{name}/scan", &[("limit", "10")]))?;
    let rows = json!([{ "op": "put", "key": "b", "value": "1" }, { "op": "delete", "key": "k", "sort": "none", "if": "present" }]);
    let batch = api.good(&post(BATCH, json!({ "rows": rows })))?;
    ensure!(batch["results"][0]["write"]["verdict"] == "accepted" && batch["results"][1]["status"] == 412, "{batch}");
    let query = [("key", "k"), ("sort", "s")];
    api.good(&Ask { method: "delete", idempotency_key: Some("a"), ..get(ROWS, &query) })?;
    let rows = json!([{ "position": 1, "key": "i", "sort": "", "value": "v" }]);
    api.good(&post("/v1/keyspaces/{name}/import", json!({ "source": "a", "rows": rows })))?;

    foreign_routes(api)?;
    let before = api.good(&get("/v1/keyspaces/{name}/routes", &[]))?;
    let kept = served.reshard(3, true)?;
    served.wait_job(&kept)?;
    let in_path = [("job", kept.as_str())];
    let job = api.good(&of_job("get", "/v1/jobs/{job}", &in_path))?;
    api.good(&of_job("get", "/v1/jobs/{job}/explain", &in_path))?;
    let moved = job["moves"][0]["move"].to_string();
    api.good(&of_job("get", "/v1/moves/{move}/explain", &[("move", moved.as_str())]))?;
    api.good(&of_job("post", "/v1/jobs/{job}/complete", &in_path))?;
    served.wait_job(&kept)?;
    let after = api.good(&get("/v1/keyspaces/{name}/routes", &[]))?;
    check_routes(&before, &after)?;
    // Cancelled in time or too late: both are answers, and one of some tries is in time.
    wait::until("a cancelled job", LONG, || {
        let other = served.reshard(2, false)?;
        let in_path = [("job", other.as_str())];
        let pause = Ask { body: Some(json!({})), ..of_job("post", "/v1/jobs/{job}/pause", &in_path) };
        if api.ask(&pause)?.status == 200 {
            api.good(&of_job("post", "/v1/jobs/{job}/resume", &in_path))?;
        }
        let cancel = Ask { body: Some(json!({})), ..of_job("post", "/v1/jobs/{job}/cancel", &in_path) };
        let cancelled = api.ask(&cancel)?.status == 200;
        wait::until("the job to end", LONG, || {
            let job = api.good(&of_job("get", "/v1/jobs/{job}", &in_path))?;
            Ok((job["ended"] == true).then_some(()))
        })?;
        if !cancelled {
            let back = served.reshard(3, false)?;
            served.wait_job(&back)?;
        }
        Ok(cancelled.then_some(()))
    })?;
    check_metrics(&Page::read(&api.ask(&get("/metrics", &[]))?.text)?)?;
    let drop = |dry_run| {
        let query = [("dry_run", dry_run)];
        api.good(&Ask { method: "delete", ..get("/v1/keyspaces/{name}", &query) })
    };
    let (would_go, gone) = (drop("true")?, drop("false")?);
    ensure!(would_go["dropped"] == false && gone["dropped"] == true, "{would_go}, then {gone}");
    ensure!(would_go["rows"] == 2 && gone["rows"] == 2, "{would_go}, then {gone}");
    let after = api.ask(&get("/v1/keyspaces/{name}", &[]))?;
    ensure!((after.status, &after.json()?["error"]["code"]) == (404, &json!("keyspace_unknown")), "{after:?}");
    let unseen = api.unseen();
    ensure!(unseen.is_empty(), "described, and not asked in tests/integration/tests/http_api.rs: {unseen:?}");
    served.process.stop()
}

/// What foreign producers ask. Nothing was rejected here; with a broker something is, in `foreign`.
fn foreign_routes(api: &Described) -> anyhow::Result<()> {
    let rejects = api.good(&get("/v1/keyspaces/{name}/rejects", &[]))?;
    ensure!(rejects["rejects"].as_array().is_some_and(Vec::is_empty), "{rejects}");
    let retry = "/v1/keyspaces/{name}/rejects/retry";
    let told = api.good(&post(retry, json!({ "dry_run": true })))?;
    ensure!(told["sent"] == 0 && told["refused"] == 0, "{told}");
    let unknown = api.ask(&post(retry, json!({ "at": ["data/0@7"] })))?;
    ensure!((unknown.status, &unknown.json()?["error"]["code"]) == (404, &json!("reject_unknown")), "{unknown:?}");
    let written = api.good(&post(ROWS, json!({ "key": "verdict", "value": "v" })))?;
    let (shard, offset) = written["token"].as_str().and_then(|token| token.split_once(':')).context("no token")?;
    let verdicts = "/v1/keyspaces/{name}/verdicts";
    let told = api.good(&get(verdicts, &[("shard", shard), ("offset", offset)]))?;
    ensure!(told["verdict"] == "accepted" && told["version"] == written["version"], "{told} on {written}");
    api.good(&Ask { method: "delete", ..get(ROWS, &[("key", "verdict"), ("sort", "")]) })?;
    Ok(())
}

/// Routes are total before and after, and what moved has a higher epoch.
fn check_routes(before: &Value, after: &Value) -> anyhow::Result<()> {
    let owners = |routes: &Value| -> anyhow::Result<Vec<(u64, u64)>> {
        let mut owners = Vec::new();
        for run in routes["routes"].as_array().context("no routes")? {
            let number = |field: &str| run[field].as_u64().with_context(|| format!("{run} has no {field}"));
            ensure!(number("slot_first")? == owners.len() as u64, "a gap before {run}");
            let slots = number("slot_last")? + 1 - number("slot_first")?;
            owners
                .extend((0..slots).map(|_| (run["shard"].as_u64().unwrap_or(99), run["epoch"].as_u64().unwrap_or(0))));
        }
        ensure!(owners.len() == BUCKETS as usize, "{} slots", owners.len());
        Ok(owners)
    };
    let (before, after) = (owners(before)?, owners(after)?);
    let moved = before.iter().zip(&after).filter(|(old, new)| old.0 != new.0).collect::<Vec<_>>();
    ensure!(moved.len() > 50 && moved.iter().all(|(old, new)| old.1 < new.1 && new.0 == 2), "{moved:?}");
    Ok(())
}

/// Its numbers are those of what was done.
fn check_metrics(page: &Page) -> anyhow::Result<()> {
    ensure!(page.value("rehome_router_writes_acknowledged_total")? >= 5.0);
    ensure!(page.value("rehome_api_refused_total{code=\"condition_failed\"}")? >= 1.0);
    ensure!(page.value("rehome_moves{phase=\"completed\"}")? >= 1.0);
    for sample in ["rehome_log_bytes", "rehome_stores_bytes", "process_resident_memory_bytes", "rehome_uptime_seconds"]
    {
        ensure!(page.value(sample)? > 0.0, "{sample}");
    }
    for shard in 0..3 {
        page.value(&format!("rehome_replica_lag_records{{keyspace=\"{KEYSPACE}\",shard=\"{shard}\"}}"))?;
    }
    page.value("rehome_router_queued_asks").map(drop)
}

#[test]
fn wrong_questions_are_answered_with_one_shape() {
    let served = Served::with_shards(1).expect("it starts");
    let http = rehome_integration::http::Http::default();
    let (rows, json_type) = (format!("/v1/keyspaces/{KEYSPACE}/rows"), [("content-type", "application/json")]);
    let large = vec![b' '; (32 << 20) + 1];
    let value = |bytes: usize| format!(r#"{{"key":"k","value":"{}"}}"#, "v".repeat(bytes));
    let key = |bytes: usize| format!(r#"{{"key":"{}","value":"v"}}"#, "k".repeat(bytes));
    type Case<'a> = (&'a str, String, &'a [(&'a str, &'a str)], Option<Vec<u8>>, u16, &'a str);
    let cases: Vec<Case<'_>> = vec![
        ("GET", "/nothing".into(), &[], None, 404, "route_unknown"),
        ("DELETE", "/v1/status".into(), &[], None, 405, "method_not_allowed"),
        ("POST", rows.clone(), &json_type, Some(b"{".to_vec()), 400, "bad_request"),
        ("POST", rows.clone(), &json_type, Some(br#"{"key":"k"}"#.to_vec()), 400, "bad_request"),
        ("POST", rows.clone(), &json_type, Some(br#"{"key":"k","value":"v","ttl":1}"#.to_vec()), 400, "bad_request"),
        (
            "POST",
            rows.clone(),
            &json_type,
            Some(br#"{"key":"*","value":"","encoding":"base64"}"#.to_vec()),
            400,
            "bad_request",
        ),
        ("POST", rows.clone(), &[], Some(br#"{"key":"k","value":"v"}"#.to_vec()), 415, "media_type_unsupported"),
        ("POST", rows.clone(), &json_type, Some(large), 413, "body_too_large"),
        ("POST", rows.clone(), &json_type, Some(key(0).into_bytes()), 422, "empty_key"),
        ("POST", rows.clone(), &json_type, Some(key(4097).into_bytes()), 422, "key_too_large"),
        ("POST", rows.clone(), &json_type, Some(value(1_048_577).into_bytes()), 422, "value_too_large"),
        (
            "POST",
            format!("/v1/keyspaces/{KEYSPACE}/batch"),
            &json_type,
            Some(br#"{"rows":[]}"#.to_vec()),
            422,
            "empty_batch",
        ),
        ("GET", format!("{rows}?key="), &[], None, 422, "empty_key"),
        ("GET", format!("/v1/keyspaces/{KEYSPACE}/key?key="), &[], None, 422, "empty_key"),
        ("DELETE", format!("{rows}?key="), &[], None, 422, "empty_key"),
        ("DELETE", format!("{rows}?key=k&if=absent"), &[], None, 400, "bad_request"),
        ("GET", rows.clone(), &[], None, 400, "bad_request"),
        ("GET", format!("{rows}?key=k&limit=0"), &[], None, 400, "bad_limit"),
        ("GET", format!("{rows}?key=k&after=zz"), &[], None, 400, "bad_cursor"),
        ("GET", format!("{rows}?key=k&sort=s&limit=1"), &[], None, 400, "bad_request"),
        ("GET", "/v1/jobs/x".into(), &[], None, 400, "bad_request"),
        ("GET", "/v1/jobs/999".into(), &[], None, 404, "job_unknown"),
        ("GET", "/v1/keyspaces/%FF".into(), &[], None, 400, "bad_request"),
        ("GET", "/v1/keyspaces/nothing/rows?key=k".into(), &[], None, 404, "keyspace_unknown"),
    ];
    let mut found = Vec::new();
    for (method, path, headers, body, status, code) in cases {
        let raw = http.raw(method, &format!("{}{path}", served.server), headers, body.as_deref());
        let raw = raw.unwrap_or_else(|error| panic!("{method} {path}: {error:#}"));
        let told = raw.json().unwrap_or_default();
        let shaped = told["error"]["message"].is_string() && told["next_steps"].is_array();
        if raw.status != status || told["error"]["code"] != code || !shaped || raw.content_type != "application/json" {
            found.push(format!("{method} {path}: expected {status} {code}, got {raw:?}"));
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    served.process.stop().expect("it stops");
}

#[test]
fn a_body_that_is_said_to_be_too_large_is_refused_before_any_of_it_comes() {
    let served = Served::with_shards(1).expect("it starts");
    let address = served.server.strip_prefix("http://").expect("an address");
    // With `Expect`, a client waits to hear whether its body is wanted.
    for more in ["", "Expect: 100-continue\r\n"] {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a limit");
        let head = format!(
            "POST /v1/keyspaces/{KEYSPACE}/rows HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
             Content-Length: 10000000000\r\n{more}\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it takes the head");
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("an answer while no body came");
        assert_eq!(line, "HTTP/1.1 413 Payload Too Large\r\n", "{more}");
    }
    served.process.stop().expect("it stops");
}

#[test]
fn what_is_over_a_limit_is_refused_before_anything_is_appended() {
    over_limits().unwrap_or_else(|error| panic!("{error:#}"));
}

fn over_limits() -> anyhow::Result<()> {
    let served = Served::with_shards(1)?;
    let api = &served.api;
    let offset = |body: Value| -> anyhow::Result<u64> {
        let written = api.good(&post(ROWS, body))?;
        let token = written["token"].as_str().and_then(|token| token.split_once(':')).context("no token")?;
        Ok(token.1.parse()?)
    };
    let small = || json!({ "key": "k", "sort": "s", "value": "v" });
    let (first, second) = (offset(small())?, offset(small())?);
    for (key, sort, value, code) in [
        (4_097, 0, 0, "key_too_large"),
        (1, 4_097, 0, "key_too_large"),
        (1, 1, 1_048_577, "value_too_large"),
        (0, 1, 1, "empty_key"),
    ] {
        let body = json!({ "key": "k".repeat(key), "sort": "s".repeat(sort), "value": "v".repeat(value) });
        let alone = api.ask(&post(ROWS, body.clone()))?;
        ensure!((alone.status, &alone.json()?["error"]["code"]) == (422, &json!(code)), "{alone:?}");
        let mut row = body;
        row["op"] = json!("put");
        let batch = api.good(&post(BATCH, json!({ "rows": [row] })))?;
        ensure!(batch["results"][0]["error"]["code"] == code && batch["results"][0]["status"] == 422, "{batch}");
    }
    let third = offset(small())?;
    ensure!(
        third - second == second - first,
        "offsets {first}, {second}, then {third}: something was appended between"
    );
    let largest = json!({ "key": "k".repeat(4_096), "sort": "s".repeat(4_096), "value": "v".repeat(1_048_576) });
    offset(largest)?;
    let (key, sort) = ("k".repeat(4_096), "s".repeat(4_096));
    let found = api.good(&get(ROWS, &[("key", &key), ("sort", &sort)]))?;
    ensure!(found["rows"][0]["value"].as_str().is_some_and(|value| value.len() == 1_048_576), "the largest row");
    served.process.stop()
}

#[test]
fn a_process_whose_replica_has_stopped_lives_and_is_not_ready() {
    not_ready().unwrap_or_else(|error| panic!("{error:#}"));
}

fn not_ready() -> anyhow::Result<()> {
    let served = Served::with_shards(2)?;
    let rows: Vec<Value> = (0..200).map(|row| json!({ "op": "put", "key": format!("k{row}"), "value": "v" })).collect();
    served.api.good(&post(BATCH, json!({ "rows": rows })))?;
    // What comes back to shard 1 was there before, and is in no partition whole.
    for shards in [1, 2] {
        let job = served.reshard(shards, false)?;
        served.wait_job(&job)?;
    }
    served.wait_ready()?;
    let Served { process, dir, .. } = served;
    process.stop()?;
    std::fs::remove_dir_all(newest_store(&dir.path().join("data/stores"))?)?;
    let served = Served::on(dir, &[])?;
    let refused = wait::until("the replica to stop", LONG, || {
        let raw = served.api.ask(&get("/v1/ready", &[]))?;
        Ok(raw.text.contains("has stopped").then_some(raw))
    })?;
    ensure!(refused.status == 503 && refused.retry_after == "1", "{refused:?}");
    ensure!(refused.json()?["error"]["code"] == "not_ready", "{refused:?}");
    served.api.good(&get("/v1/health", &[]))?;
    served.process.stop()
}

/// Returns the folder of the shard with the highest number.
fn newest_store(stores: &Path) -> anyhow::Result<std::path::PathBuf> {
    let folders = std::fs::read_dir(stores)?.collect::<Result<Vec<_>, _>>()?;
    let folders = folders.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir());
    folders.max().with_context(|| format!("no store below {}", stores.display()))
}
