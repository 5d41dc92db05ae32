//! Producers that are not ours, over a real broker: kcat and Python's confluent-kafka write plain records, in transactions
//! and without, and records that know their routes, while shards move and a process that forwards is killed.
//!
//! Then an oracle in Python folds the topics with its own library: every committed record of the inbox is in the keyspace
//! exactly once, in order per key, and a router shows exactly the rows that the topics say.

use anyhow::{Context, ensure};
use rehome_integration::apart::Apart;
use rehome_integration::folder::records;
use rehome_integration::http::Http;
use rehome_integration::others::{Script, kcat};
use rehome_integration::shell::rehome;
use rehome_integration::wait;
use rehome_records::TopicPartition;
use rehome_records::inbox::InboxProgress;
use serde_json::Value;
use std::time::Duration;

const NAME: &str = "foreign";
const PARTITIONS: u32 = 3;
const ROUNDS: &str = "40";
const KCAT_LINES: u64 = 300;
/// Longest time for what the processes must come to by themselves.
const COME_MAX: Duration = Duration::from_secs(90);

#[test]
fn what_other_clients_write_is_there_once_and_in_order_whatever_moves_and_dies() {
    run().unwrap_or_else(|error| panic!("{error:#}"));
}

fn run() -> anyhow::Result<()> {
    let mut apart = Apart::start(1)?;
    apart.serve("front", "router,controller")?;
    // A second router: each of the two may forward, and this one outlives the other.
    apart.serve("aside", "router")?;
    apart.serve("a", "node")?;
    apart.serve("b", "node")?;
    apart.wait_nodes(2)?;
    let (server, broker) = (apart.server_of("aside")?.to_owned(), apart.broker().address());
    let line = format!("keyspace create {NAME} --shards 3 --buckets 64 --inbox {PARTITIONS} --json");
    let made = typed(&server, &line)?;
    let inbox = made["inbox"]["topic"].as_str().context("no inbox")?.to_owned();
    wait_topic(&apart, &inbox)?;

    let words = ["--broker", &broker, "--keyspace", NAME, "--server", &server, "--rounds", ROUNDS];
    let mut producer = Script::start("produce.py", &words)?;
    producer.until("round 3")?;
    let grown = reshard(&server, 5)?;
    kcat(&broker, &inbox, true, &[], &lines("kcat", 0))?;
    producer.until("round 10")?;
    apart.kill("front")?;
    kcat(&broker, &inbox, true, &["-H", "rh-sort=by-kcat"], &lines("kcat", KCAT_LINES))?;
    apart.serve("front", "router,controller")?;
    wait_completed(&server, grown)?;
    producer.until("round 25")?;
    let shrunk = reshard(&server, 2)?;
    // Without a key; and to the data topic, under an epoch of the past, without a request id.
    kcat(&broker, &inbox, false, &[], "no key at all\n")?;
    let counts = producer.finish()?;
    ensure!(counts["aborted"].as_u64() > Some(0) && counts["aware"].as_u64() > Some(0), "{counts}");
    wait_completed(&server, shrunk)?;
    let data = inbox.replace(".inbox", ".data");
    kcat(&broker, &data, true, &["-p", "0", "-H", "rh-epoch=notanumber"], "astray:v\n")?;
    wait_forwarded(&apart, &inbox)?;

    check_rejects(&server)?;
    let told = Script::start("oracle.py", &["--broker", &broker, "--keyspace", NAME, "--server", &server])?.finish()?;
    let sent = [&counts["plain"], &counts["committed"]].iter().filter_map(|count| count.as_u64()).sum::<u64>();
    ensure!(told["inbox_records"] == sent + 2 * KCAT_LINES, "{told} of {counts}");
    ensure!(told["switched"].as_u64() > Some(3), "{told}");
    apart.stop()
}

fn typed(server: &str, line: &str) -> anyhow::Result<Value> {
    let said = rehome(server, line);
    ensure!(said.exit == 0, "rehome {line}: {said:?}");
    serde_json::from_str(said.out.trim()).with_context(|| format!("rehome {line}: {said:?}"))
}

/// Lines for kcat: a few keys, whose values count up.
fn lines(key: &str, first: u64) -> String {
    (first..first + KCAT_LINES).map(|number| format!("{key}-{}:{number}\n", number % 7)).collect()
}

fn reshard(server: &str, shards: u32) -> anyhow::Result<u64> {
    let answer = typed(server, &format!("reshard {NAME} --shards {shards} --json"))?;
    answer["job"].as_u64().with_context(|| format!("{answer} names no job"))
}

fn wait_completed(server: &str, job: u64) -> anyhow::Result<()> {
    wait::until("the job to complete", COME_MAX, || {
        let seen = Http::default().get(server, &format!("/v1/jobs/{job}"), &[])?.good()?;
        ensure!(seen["ended"] != true || seen["state"] == "completed", "{seen}");
        Ok((seen["ended"] == true).then_some(()))
    })
}

/// Waits until the topic can be written to: a forwarder makes it.
fn wait_topic(apart: &Apart, topic: &str) -> anyhow::Result<()> {
    let log = apart.broker().log()?;
    wait::until("the inbox", COME_MAX, || {
        Ok((rehome_ports::Log::partitions(&*log, topic)? == Some(PARTITIONS)).then_some(()))
    })
}

/// Waits until some forwarder has said that everything in the inbox is judged.
fn wait_forwarded(apart: &Apart, inbox: &str) -> anyhow::Result<()> {
    let log = apart.broker().log()?;
    let mut lasts = Vec::new();
    for partition in 0..PARTITIONS {
        let records = records(&*log, &TopicPartition::new(inbox, partition))?;
        let offsets = records.map(|logged| logged.map(|logged| logged.offset)).collect::<Result<Vec<_>, _>>();
        lasts.push(offsets?.last().copied());
    }
    let progress = TopicPartition::new(format!("{inbox}-progress"), 0);
    wait::until("the inbox to be forwarded", COME_MAX, || {
        let mut is_done = false;
        for logged in records(&*log, &progress)? {
            let said = InboxProgress::read(&logged?.record)?;
            is_done |= said.next.iter().zip(&lasts).all(|(next, last)| last.is_none_or(|last| *next > last));
        }
        Ok(is_done.then_some(()))
    })
}

/// Both records that cannot be applied are listed, neither can be sent again; one that was stale can, and is listed no more.
fn check_rejects(server: &str) -> anyhow::Result<()> {
    let list = || typed(server, &format!("rejects list {NAME} --json"));
    let listed = wait::until("the rejects", COME_MAX, || {
        let listed = list()?;
        Ok((listed["rejects"].as_array().is_some_and(|all| all.len() == 2)).then_some(listed))
    })?;
    let place = |from: &str| -> anyhow::Result<&Value> {
        let all = listed["rejects"].as_array().context("no rejects")?;
        let found = all.iter().find(|one| one["at"].as_str().is_some_and(|at| at.starts_with(from)));
        found.with_context(|| format!("nothing of {from} in {listed}"))
    };
    let (keyless, unreadable) = (place("inbox/")?, place("data/0@")?);
    ensure!(keyless["value"] == "no key at all" && keyless.get("key").is_none(), "{keyless}");
    ensure!(unreadable["key"] == "astray" && unreadable["reason"].as_str().is_some_and(|why| why.contains("rh-epoch")));
    let would = rehome(server, &format!("rejects retry {NAME} --dry-run --json"));
    ensure!(would.exit == 3 && would.out.contains("would_send") && would.out.contains("write_invalid"), "{would:?}");
    let at = unreadable["at"].as_str().context("it lay somewhere")?;
    for _ in 0..2 {
        let sent = rehome(server, &format!("rejects retry {NAME} --at {at} --json"));
        ensure!(sent.exit == 0 || sent.out.contains("reject_unknown"), "{sent:?}");
    }
    let left = list()?;
    ensure!(left["rejects"].as_array().is_some_and(|all| all.len() == 1 && all[0]["at"] == keyless["at"]), "{left}");
    let row = Http::default().get(server, &format!("/v1/keyspaces/{NAME}/rows"), &[("key", "astray"), ("sort", "")])?;
    ensure!(row.good()?["rows"][0]["value"] == "v");
    Ok(())
}
