//! `rehome up --value-bytes-max`: what it lets in and keeps out, over HTTP, in moves, exports and imports.

use anyhow::ensure;
use rehome_integration::memory::BUCKETS;
use rehome_integration::served::{BATCH, ROWS, Served, get, post};
use rehome_integration::shell::{Said, rehome};
use rehome_integration::{KEYSPACE, Medium};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

/// Puts a value of so many bytes, alone and in a batch; tells whether it was taken.
fn is_taken(served: &Served, key: &str, bytes: usize) -> anyhow::Result<bool> {
    let row = json!({ "key": key, "sort": "s", "value": "v".repeat(bytes) });
    let alone = served.api.ask(&post(ROWS, row.clone()))?;
    let mut row = row;
    row["op"] = json!("put");
    let batch = served.api.good(&post(BATCH, json!({ "rows": [row] })))?;
    let in_batch = &batch["results"][0];
    ensure!(in_batch["status"] == alone.status, "alone {}, in a batch {in_batch}", alone.status);
    if alone.status == 200 {
        return Ok(true);
    }
    let told = alone.json()?;
    ensure!((alone.status, &told["error"]["code"]) == (422, &json!("value_too_large")), "{told}");
    ensure!(in_batch["error"]["code"] == "value_too_large", "{in_batch}");
    let message = told["error"]["message"].as_str().unwrap_or_default();
    ensure!(message.contains(&format!("not {bytes}")), "{message}");
    Ok(false)
}

fn limit_told(served: &Served) -> anyhow::Result<Value> {
    Ok(served.api.good(&get("/v1/status", &[]))?["value_bytes_max"].clone())
}

#[test]
fn larger_values_are_taken_where_up_says_so_and_refused_where_not() {
    let run = || {
        for (flags, bytes_max) in [(&[][..], MIB), (&["--value-bytes-max", "3MiB"][..], 3 * MIB)] {
            let served = Served::with_flags(1, flags)?;
            ensure!(limit_told(&served)? == bytes_max, "{flags:?}");
            ensure!(is_taken(&served, "k", bytes_max)?, "{flags:?}");
            ensure!(!is_taken(&served, "k", bytes_max + 1)?, "{flags:?}");
            let found = served.api.good(&get(ROWS, &[("key", "k"), ("sort", "s")]))?;
            ensure!(found["rows"][0]["value"].as_str().is_some_and(|value| value.len() == bytes_max), "{flags:?}");
            served.process.stop()?;
        }
        anyhow::Ok(())
    };
    run().unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn the_largest_values_move_and_stay_under_a_lower_limit() {
    move_and_stay().unwrap_or_else(|error| panic!("{error:#}"));
}

fn move_and_stay() -> anyhow::Result<()> {
    let served = Served::with_flags(1, &["--value-bytes-max", "8MiB"])?;
    let keys: Vec<String> = (0..6).map(|key| format!("k{key}")).collect();
    for key in &keys {
        ensure!(is_taken(&served, key, 8 * MIB)?, "{key}");
    }
    let job = served.reshard(2, false)?;
    served.wait_job(&job)?;
    let Served { process, dir, .. } = served;
    process.stop()?;
    let served = Served::on(dir, &["--value-bytes-max", "1KiB"])?;
    served.wait_ready()?;
    ensure!(is_taken(&served, "small", 1_024)? && !is_taken(&served, "small", 1_025)?, "the lower limit holds");
    let job = served.reshard(3, false)?;
    served.wait_job(&job)?;
    for key in &keys {
        let found = served.api.good(&get(ROWS, &[("key", key), ("sort", "s")]))?;
        ensure!(found["rows"][0]["value"].as_str().is_some_and(|value| value.len() == 8 * MIB), "{key}");
    }
    served.process.stop()
}

#[test]
fn the_largest_values_are_exported_and_imported_where_they_are_taken() {
    exported().unwrap_or_else(|error| panic!("{error:#}"));
}

fn exported() -> anyhow::Result<()> {
    let good = |served: &Served, line: &str| {
        let Said { exit, out, err } = rehome(&served.server, line);
        ensure!(exit == 0, "rehome {line}: {out} {err}");
        Ok(out)
    };
    let served = Served::with_flags(2, &["--value-bytes-max", "8MiB"])?;
    // The value that JSON makes longest.
    let value = "\u{1}".repeat(8 * MIB);
    let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &value);
    for key in ["a", "b", "c"] {
        let body = json!({ "key": base64_of(key), "sort": "", "value": base64, "encoding": "base64" });
        served.api.good(&post(ROWS, body))?;
    }
    let file = served.dir.path().join("rows.jsonl");
    let file = file.display();
    good(&served, &format!("export {KEYSPACE} {file}"))?;
    good(&served, &format!("keyspace create copy --shards 2 --buckets {BUCKETS}"))?;
    let told = good(&served, &format!("import copy {file} --exported --json"))?;
    ensure!(told.contains("\"accepted\":3"), "{told}");
    let found = good(&served, "get copy b '' --json")?;
    let found: Value = serde_json::from_str(&found)?;
    ensure!(found["rows"][0]["value"] == value.as_str(), "the value came back as another one");
    // Where they are not taken, each is a wrong row before it is sent.
    let lower = Served::with_shards(1)?;
    let rejects = lower.dir.path().join("rejects.jsonl");
    let line = format!("import {KEYSPACE} {file} --exported --rejects {} --json", rejects.display());
    let told = good(&lower, &line)?;
    ensure!(told.contains("\"accepted\":0") && told.contains("\"rejected\":3"), "{told}");
    let rejected = std::fs::read_to_string(&rejects)?;
    ensure!(rejected.contains("a value has at most 1048576 bytes, not 8388608"), "{}", &rejected[..200]);
    lower.process.stop()?;
    served.process.stop()
}

fn base64_of(text: &str) -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text)
}

#[test]
fn a_limit_that_cannot_be_is_wrong_usage() {
    let dir = Medium::Memory.make_folder().expect("a folder");
    // No folder can be made below a file: even where the limit is taken, it ends.
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let data = file.join("data");
    for (limit, part) in [
        ("9MiB", "1KiB"),
        ("1023", "8MiB"),
        ("0", "for example 4MiB"),
        ("many", "for example 4194304, 512KiB or 4MiB"),
        ("''", "--value-bytes-max"),
    ] {
        let line = format!("up --listen 127.0.0.1:0 --value-bytes-max {limit} --data {}", data.display());
        let said = rehome("http://127.0.0.1:9", &line);
        assert!(said.exit == 2 && said.err.contains(part), "{limit}: {said:?}");
    }
}
