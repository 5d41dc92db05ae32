//! Rows over real HTTP, held against the API's description: orders, pages, repeats, writes during a reshard.

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rehome_integration::described::Ask;
use rehome_integration::http::{Http, Raw};
use rehome_integration::memory::{Fact, Memory, ticks, version};
use rehome_integration::metrics::Page;
use rehome_integration::served::{BATCH, LONG, ROWS, Served, get, of_job, post};
use rehome_integration::{KEYSPACE, wait};
use rehome_keyspace::RequestId;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

const WRITE_PAUSE: &str = "rehome_router_write_pause_seconds";
const READ_PAUSE: &str = "rehome_router_read_pause_seconds";

#[test]
fn keys_of_any_bytes_are_listed_in_order_in_both_directions_a_page_at_a_time() {
    any_bytes().unwrap_or_else(|error| panic!("{error:#}"));
}

fn any_bytes() -> anyhow::Result<()> {
    let served = Served::with_shards(3)?;
    let base64 = |bytes: &[u8]| STANDARD.encode(bytes);
    let mut sorts: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0, 0], vec![0, 1], vec![0, 255], vec![1], b"a".to_vec()];
    sorts.extend([vec![97, 0], vec![97, 255], vec![255], vec![255, 0], vec![255, 255], vec![255; 300]]);
    sorts.sort();
    let keys: [&[u8]; 6] = [b"\0", b"\0\0", b"\0\xff", b"\xff", b"\xff\0", b"\xff\xff"];
    for key in keys {
        // Written in another order than they are read.
        let rows: Vec<Value> = sorts.iter().rev().map(|sort| {
            json!({ "op": "put", "key": base64(key), "sort": base64(sort), "value": base64(&[key, sort.as_slice()].concat()) })
        }).collect();
        let batch = served.api.good(&post(BATCH, json!({ "encoding": "base64", "rows": rows })))?;
        ensure!(batch["results"].as_array().is_some_and(|all| all.iter().all(|one| one["status"] == 200)), "{batch}");
    }
    for key in keys {
        for reverse in ["false", "true"] {
            let mut expected = sorts.clone();
            if reverse == "true" {
                expected.reverse();
            }
            let listed = list(&served, &base64(key), reverse, "3")?;
            let found: Vec<Vec<u8>> = listed.iter().map(|row| bytes_of(row, "sort")).collect::<Result<_, _>>()?;
            ensure!(found == expected, "{key:02x?}, reverse {reverse}: {found:02x?}");
            for row in &listed {
                let value = [key, bytes_of(row, "sort")?.as_slice()].concat();
                ensure!(bytes_of(row, "key")? == key && bytes_of(row, "value")? == value, "{row}");
            }
        }
        let one = served
            .api
            .good(&get(ROWS, &[("key", &base64(key)), ("sort", &base64(&[0, 255])), ("encoding", "base64")]))?;
        ensure!(bytes_of(&one["rows"][0], "value")? == [key, &[0, 255]].concat(), "{one}");
    }
    served.process.stop()
}

fn bytes_of(row: &Value, field: &str) -> anyhow::Result<Vec<u8>> {
    let text = row[field].as_str().with_context(|| format!("{row} has no {field}"))?;
    Ok(if row["encoding"] == "base64" { STANDARD.decode(text)? } else { text.as_bytes().to_vec() })
}

/// Lists the rows of a partition key in base64, page by page.
fn list(served: &Served, key: &str, reverse: &str, limit: &str) -> anyhow::Result<Vec<Value>> {
    let (mut rows, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut query = vec![("key", key), ("encoding", "base64"), ("reverse", reverse), ("limit", limit)];
        query.extend(after.as_deref().map(|after| ("after", after)));
        let page = served.api.good(&get(ROWS, &query))?;
        rows.extend(page["rows"].as_array().context("no rows")?.iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => return Ok(rows),
        }
    }
}

#[test]
fn pages_stay_right_when_rows_change_and_keys_move_between_them() {
    moving_pages().unwrap_or_else(|error| panic!("{error:#}"));
}

fn moving_pages() -> anyhow::Result<()> {
    let served = Served::with_shards(1)?;
    let put = |sort: &str| served.api.good(&post(ROWS, json!({ "key": "k", "sort": sort, "value": "v" })));
    for row in (10..50).step_by(2) {
        put(&row.to_string())?;
    }
    for reverse in ["false", "true"] {
        let first = served.api.good(&get(ROWS, &[("key", "k"), ("limit", "5"), ("reverse", reverse)]))?;
        let mut found: Vec<String> = sorts_of(&first)?;
        let last = found.last().cloned().context("a page")?;
        // The row at which the page ended goes, others come before and after it, and the key moves to another shard.
        served.api.good(&Ask { method: "delete", ..get(ROWS, &[("key", "k"), ("sort", &last)]) })?;
        put("31")?;
        put(if reverse == "true" { "49" } else { "11" })?;
        let before = served.api.good(&get("/v1/keyspaces/{name}/key", &[("key", "k")]))?;
        let shards = if before["shard"] == 0 { 2..20 } else { 1..2 };
        for shards in shards {
            let job = served.reshard(shards, false)?;
            served.wait_job(&job)?;
            let after = served.api.good(&get("/v1/keyspaces/{name}/key", &[("key", "k")]))?;
            if after["shard"] != before["shard"] {
                break;
            }
        }
        let after = served.api.good(&get("/v1/keyspaces/{name}/key", &[("key", "k")]))?;
        ensure!(after["epoch"].as_u64() > before["epoch"].as_u64(), "the key has not moved: {before}, {after}");
        let mut cursor = first["next"].as_str().map(str::to_owned);
        while let Some(next) = cursor {
            let page =
                served.api.good(&get(ROWS, &[("key", "k"), ("limit", "5"), ("reverse", reverse), ("after", &next)]))?;
            found.extend(sorts_of(&page)?);
            cursor = page["next"].as_str().map(str::to_owned);
        }
        let mut expected: Vec<String> = sorts_of(&served.api.good(&get(ROWS, &[("key", "k"), ("limit", "1000")]))?)?;
        expected.retain(|sort| sort != if reverse == "true" { "49" } else { "11" });
        expected.push(last);
        expected.sort();
        if reverse == "true" {
            expected.reverse();
        }
        ensure!(found == expected, "reverse {reverse}: {found:?}, expected {expected:?}");
        let wrong =
            served.api.ask(&get(ROWS, &[("key", "other"), ("after", first["next"].as_str().unwrap_or("x"))]))?;
        ensure!(wrong.json()?["error"]["code"] == "bad_cursor", "{wrong:?}");
    }
    served.process.stop()
}

fn sorts_of(page: &Value) -> anyhow::Result<Vec<String>> {
    let rows = page["rows"].as_array().context("no rows")?;
    Ok(rows.iter().filter_map(|row| row["sort"].as_str().map(str::to_owned)).collect())
}

#[test]
fn a_list_goes_on_behind_any_number_of_deleted_rows() {
    let run = || -> anyhow::Result<()> {
        let served = Served::with_shards(1)?;
        for part in 0..3 {
            let rows: Vec<Value> = (0..10_000)
                .map(|row| json!({ "op": "delete", "key": "k", "sort": format!("{part}-{row:05}") }))
                .collect();
            served.api.good(&post(BATCH, json!({ "rows": rows })))?;
        }
        served.api.good(&post(ROWS, json!({ "key": "k", "sort": "9", "value": "behind" })))?;
        let rows = list(&served, &STANDARD.encode("k"), "false", "10")?;
        ensure!(rows.len() == 1 && rows[0]["value"] == "behind", "{rows:?}");
        served.process.stop()
    };
    run().unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn a_request_that_is_sent_again_is_done_once_and_answered_as_before() {
    sent_again().unwrap_or_else(|error| panic!("{error:#}"));
}

fn sent_again() -> anyhow::Result<()> {
    let served = Served::with_shards(2)?;
    let put = |key: &str, value: &str, condition: Option<&str>, id: &str| {
        let mut body = json!({ "key": key, "sort": "s", "value": value });
        if let Some(condition) = condition {
            body["if"] = json!(condition);
        }
        served.api.ask(&Ask { idempotency_key: Some(id), ..post(ROWS, body) })
    };
    let first = put("k", "v", Some("absent"), "order-17")?.json()?;
    let again = put("k", "v", Some("absent"), "order-17")?.json()?;
    ensure!(first["repeated"] == false && again["repeated"] == true, "{first} {again}");
    ensure!(["verdict", "version", "request"].iter().all(|field| first[*field] == again[*field]), "{first} {again}");
    // A refusal is remembered too: the row has gone meanwhile, and the answer is the first one.
    let refused = put("k", "v", Some("absent"), "order-18")?;
    ensure!(refused.status == 412 && refused.json()?["write"]["version"] == first["version"], "{refused:?}");
    served.api.good(&Ask { method: "delete", ..get(ROWS, &[("key", "k"), ("sort", "s")]) })?;
    let repeated = put("k", "v", Some("absent"), "order-18")?;
    ensure!(repeated.status == 412 && repeated.json()?["write"]["repeated"] == true, "{repeated:?}");
    // Other content is refused; another partition key is another write.
    let other = put("k", "w", Some("absent"), "order-17")?;
    ensure!((other.status, &other.json()?["error"]["code"]) == (422, &json!("request_conflict")), "{other:?}");
    let elsewhere = put("l", "w", Some("absent"), "order-17")?.json()?;
    ensure!(elsewhere["repeated"] == false && elsewhere["verdict"] == "accepted", "{elsewhere}");
    let found = served.api.good(&get(ROWS, &[("key", "k")]))?;
    ensure!(found["rows"] == json!([]), "nothing came back: {found}");
    // A batch: each write has its own id, by its place.
    let rows = json!([{ "op": "put", "key": "a", "value": "1" }, { "op": "put", "key": "a", "value": "2" }]);
    let batch = || served.api.good(&Ask { idempotency_key: Some("batch-1"), ..post(BATCH, json!({ "rows": rows })) });
    let (first, again) = (batch()?, batch()?);
    for place in 0..2 {
        let (first, again) = (&first["results"][place]["write"], &again["results"][place]["write"]);
        ensure!(first["version"] == again["version"] && again["repeated"] == true, "{first} {again}");
    }
    let found = served.api.good(&get(ROWS, &[("key", "a")]))?;
    ensure!(
        found["rows"][0]["value"] == "2" && found["rows"][0]["version"] == first["results"][1]["write"]["version"],
        "{found}"
    );
    served.process.stop()
}

#[test]
fn writes_during_a_reshard_are_answered_under_the_new_epoch_and_none_is_lost() {
    during_a_reshard().unwrap_or_else(|error| panic!("{error:#}"));
}

fn during_a_reshard() -> anyhow::Result<()> {
    let served = Served::with_shards(2)?;
    let keys: Vec<String> = (0..40).map(|key| format!("key-{key}")).collect();
    let mut memory = Memory::default();
    let mut number = 0_u128;
    let mut write = |memory: &mut Memory, key: &str| -> anyhow::Result<u64> {
        number += 1;
        let (id, value) = (RequestId(number.to_be_bytes()), format!("value {number}"));
        let (text, issued_at) = (id.to_string(), ticks());
        let ask =
            Ask { idempotency_key: Some(&text), ..post(ROWS, json!({ "key": key, "sort": "s", "value": value })) };
        let first = served.api.good(&ask)?;
        let fact = Fact { version: version(first["version"].as_str().context("no version")?)?, value: Some(value) };
        memory.wrote(&(key.to_owned(), "s".to_owned()), id, fact, issued_at);
        if number.is_multiple_of(7) {
            let again = served.api.good(&ask)?;
            // A router that sent it twice itself, around a cutover, cannot tell whose first copy it was.
            let is_told = again["repeated"] == true || again["epoch"] != first["epoch"];
            ensure!(again["version"] == first["version"] && is_told, "{first} {again}");
        }
        let epoch = first["epoch"].as_u64().context("no epoch")?;
        ensure!(first["version"].as_str().is_some_and(|version| version.starts_with(&format!("{epoch}@"))), "{first}");
        Ok(epoch)
    };
    let mut epochs = keys.iter().map(|key| write(&mut memory, key)).collect::<anyhow::Result<Vec<u64>>>()?;
    let mut changed = 0;
    for shards in [4, 3] {
        let job = served.reshard(shards, false)?;
        wait::until("the job to end while rows are written", LONG, || {
            for (key, epoch) in keys.iter().zip(&mut epochs) {
                let now = write(&mut memory, key)?;
                ensure!(now >= *epoch, "{key}: epoch {now} after {epoch}");
                changed += u64::from(now > *epoch);
                *epoch = now;
            }
            let job = served.api.good(&of_job("get", "/v1/jobs/{job}", &[("job", job.as_str())]))?;
            ensure!(job["state"] == "running" || job["state"] == "completed", "{job}");
            Ok((job["state"] == "completed").then_some(()))
        })?;
        for (key, epoch) in keys.iter().zip(&mut epochs) {
            let now = write(&mut memory, key)?;
            changed += u64::from(now > *epoch);
            *epoch = now;
            let owner = served.api.good(&get("/v1/keyspaces/{name}/key", &[("key", key)]))?;
            ensure!(owner["epoch"] == now, "{key} was answered under {now}, its route is {owner}");
        }
    }
    ensure!(changed > 10, "only {changed} answers changed their epoch");
    served.conclude(&memory)
}

#[test]
fn pauses_of_writes_and_reads_are_told_by_their_length() {
    pauses().unwrap_or_else(|error| panic!("{error:#}"));
}

fn pauses() -> anyhow::Result<()> {
    let served = Served::with_shards(1)?;
    let rows = format!("{}/v1/keyspaces/{KEYSPACE}/rows", served.server);
    let stop = AtomicBool::new(false);
    // Asks as fast as it is answered, so that some are under way at every cutover.
    let ask_all_along = |ask: &(dyn Fn(&Http, u64) -> anyhow::Result<Raw> + Sync)| -> anyhow::Result<()> {
        let http = Http::default();
        for number in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let raw = ask(&http, number % 64)?;
            ensure!(raw.status == 200, "{raw:?}");
        }
        Ok(())
    };
    let write = |http: &Http, key: u64| {
        let body = json!({ "key": format!("k{key}"), "value": "v" }).to_string();
        http.raw("POST", &rows, &[("content-type", "application/json")], Some(body.as_bytes()))
    };
    let read = |http: &Http, key: u64| http.raw("GET", &format!("{rows}?key=k{key}&sort="), &[], None);
    let page = || Page::read(&served.api.ask(&get("/metrics", &[]))?.text);
    let untouched = page()?;
    for name in [WRITE_PAUSE, READ_PAUSE] {
        let buckets = untouched.histogram(name)?;
        ensure!(buckets.iter().all(|(_, count)| *count == 0.0), "{name} before any move: {buckets:?}");
        let bounds: Vec<f64> = buckets.iter().map(|(bound, _)| *bound).collect();
        ensure!(bounds == [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, f64::INFINITY], "{bounds:?}");
    }
    // Every key is there before it is read.
    (0..64).try_for_each(|key| write(&Http::default(), key).map(drop))?;
    std::thread::scope(|scope| {
        let asking = [scope.spawn(|| ask_all_along(&write)), scope.spawn(|| ask_all_along(&read))];
        let mut shards = [2, 1].into_iter().cycle();
        let paused = wait::until("a write and a read that had to wait", LONG, || {
            let job = served.reshard(shards.next().context("it never ends")?, false)?;
            served.wait_job(&job)?;
            let page = page()?;
            let count = |name| page.value(&format!("{name}_count"));
            Ok((count(WRITE_PAUSE)? > 0.0 && count(READ_PAUSE)? > 0.0).then_some(()))
        });
        stop.store(true, Ordering::Relaxed);
        let asked = asking.map(|thread| thread.join().expect("no panic"));
        paused.and(asked.into_iter().collect::<anyhow::Result<()>>())
    })?;
    let page = page()?;
    let (held, sum) = (page.value("rehome_router_held_seconds_total")?, page.value(&format!("{WRITE_PAUSE}_sum"))?);
    ensure!(held == sum, "held for {held} s, and the pauses add up to {sum} s");
    let (holds, count) = (page.value("rehome_router_holds_total")?, page.value(&format!("{WRITE_PAUSE}_count"))?);
    ensure!(holds == count, "{holds} holds, all over, and {count} pauses");
    for name in [WRITE_PAUSE, READ_PAUSE] {
        let buckets = page.histogram(name)?;
        let within_a_second = buckets.iter().find(|(bound, _)| *bound == 1.0).map(|(_, count)| *count);
        ensure!(within_a_second > Some(0.0), "{name}: {buckets:?}");
    }
    served.process.stop()
}
