//! A life from its start to its end by a signal, for clients that retry, for a service manager, for users' own tests.

use anyhow::ensure;
use rehome_integration::http::{Answer, Http};
use rehome_integration::process::Signal;
use rehome_integration::shell::Shell;
use rehome_integration::{Arming, Bench, Ephemeral, KEYSPACE, Medium, binaries};
use rustix::process::{Pid, kill_process};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SEED: u64 = 20_260_713;
const HELD_MAX: Duration = Duration::from_secs(30);
/// Things that clients do in each life before it is ended.
const DONE_PER_LIFE: u64 = 400;
const LIVES: u32 = 6;

#[test]
fn clients_that_retry_see_no_error_when_the_process_is_ended_by_signals_and_started_again() {
    end_under_load().unwrap_or_else(|error| panic!("{error:#}"));
}

fn end_under_load() -> anyhow::Result<()> {
    let mut bench = Bench::filled(SEED, Medium::Disk, 3)?;
    bench.work();
    for life in 0..LIVES {
        bench.start(&Arming::default())?;
        if life % 2 == 0 {
            // The last one may still be under way.
            let _ = bench.reshard([5, 2, 4][life as usize / 2]);
        }
        bench.wait_done(DONE_PER_LIFE)?;
        bench.stop_under_load(if life % 3 == 2 { Signal::INT } else { Signal::TERM })?;
    }
    bench.start(&Arming::default())?;
    let ended = bench.wait_jobs()?;
    ensure!(!ended.is_empty() && ended.iter().all(|state| state == "completed"), "jobs are {ended:?}");
    bench.rest()?;
    let retries = bench.memory().counts.retries;
    ensure!(retries > 0, "no client ever met a process that was ending");
    bench.check_every_row()?;
    bench.conclude().map(drop)
}

#[test]
fn who_only_waits_is_told_at_once_to_ask_again() {
    let ask = |server: &str, job: u64| {
        Http::default().get(server, &format!("/v1/jobs/{job}/wait"), &[("timeout_ms", "30000")])
    };
    let (answer, after) =
        end_while_held("controller.start-move.before", ask).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!((answer.status, &answer.body["error"]["code"]), (503, &json!("stopping")), "{answer:?}");
    assert!(answer.body["error"]["retry_after_ms"].as_u64().is_some_and(|after_ms| after_ms > 0), "{answer:?}");
    assert!(after < Duration::from_secs(5), "told after {after:?}");
}

#[test]
fn a_write_that_cannot_be_answered_any_more_is_said_to_be_unknown() {
    let ask = |server: &str, _: u64| {
        let row = json!({ "key": "own", "sort": "own", "value": "x", "if": "absent" });
        Http::default().post(server, &format!("/v1/keyspaces/{KEYSPACE}/rows"), &row)
    };
    let (answer, _) = end_while_held("router.append.before", ask).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!((answer.status, &answer.body["error"]["code"]), (504, &json!("outcome_unknown")), "{answer:?}");
    assert!(answer.body["error"]["retry_after_ms"].as_u64().is_some_and(|after_ms| after_ms > 0), "{answer:?}");
}

/// Asks a process one of whose threads stands still for good, ends the process by SIGTERM, and returns what was answered,
/// and when. The end comes in time whatever hangs, and the next life does what was left.
fn end_while_held(
    point: &str,
    ask: impl FnOnce(&str, u64) -> anyhow::Result<Answer> + Send + 'static,
) -> anyhow::Result<(Answer, Duration)> {
    let mut bench = Bench::filled(SEED, Medium::Memory, 3)?;
    let pipe = bench.start_held(point)?;
    let server = bench.server()?;
    let job = bench.reshard(5)?;
    let asked = std::thread::spawn(move || ask(&server, job));
    let held = pipe.wait_held(HELD_MAX)?;
    // What was asked before is under way by then.
    (0..20).try_for_each(|_| bench.jobs().map(drop))?;
    let began = Instant::now();
    let ending = bench.begin_end(Signal::TERM)?;
    let answer = asked.join().expect("it does not panic")?;
    let after = began.elapsed();
    ending.wait()?;
    drop(held);
    bench.start(&Arming::default())?;
    ensure!(bench.wait_jobs()? == ["completed"], "the job goes on in the next life");
    Ok((answer, after))
}

#[test]
fn an_ephemeral_server_prints_its_address_serves_and_leaves_nothing() {
    for signal in [Signal::TERM, Signal::INT] {
        ephemeral(signal).unwrap_or_else(|error| panic!("{error:#}"));
    }
}

fn ephemeral(signal: Signal) -> anyhow::Result<()> {
    let server = Ephemeral::start()?;
    let (http, url) = (Http::default(), server.url());
    http.post(url, "/v1/keyspaces", &json!({ "name": KEYSPACE, "shards": 2, "buckets": 64 }))?.good()?;
    let rows = format!("/v1/keyspaces/{KEYSPACE}/rows");
    http.post(url, &rows, &json!({ "key": "a", "sort": "1", "value": "x" }))?.good()?;
    let found = http.get(url, &rows, &[("key", "a"), ("sort", "1")])?.good()?;
    ensure!(found["rows"][0]["value"] == "x", "{found}");
    let data = server.data().to_owned();
    ensure!(data.is_dir(), "{} is not there", data.display());
    // Two never meet: neither folder nor port.
    let other = Ephemeral::start()?;
    ensure!(other.url() != server.url() && other.data() != data, "both are {}", other.url());
    other.stop(Signal::TERM)?;
    let said = server.stop(signal)?;
    ensure!(said.lines().count() == 1, "more than one line on standard output: {said}");
    ensure!(!data.exists(), "{} is left", data.display());
    Ok(())
}

#[test]
fn stop_ends_the_process_that_holds_a_folder_and_says_when_none_does() {
    let shell = Shell::start().expect("it starts");
    let data = shell.dir().join("data");
    let line = format!("stop --data {} --json", data.display());
    let told: Value = serde_json::from_str(&shell.good(&line)).expect("JSON");
    assert_eq!(told["pid"], shell.pid(), "{told}");
    let again = shell.run(&line);
    assert!(again.exit == 4 && again.out.contains("rehome up --data"), "{again:?}");
    shell.wait().expect("it has ended well");
}

/// Returns the words that the service's unit starts, as they stand in it.
fn unit() -> (String, Vec<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/rehome.service");
    let text = std::fs::read_to_string(path).expect("the unit is there");
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("it starts something");
    let words = line.split(' ').map(str::to_owned).collect();
    (text, words)
}

#[test]
fn the_service_starts_as_its_unit_says_and_tells_its_manager_when_it_is_ready_and_when_it_ends() {
    let (_, words) = unit();
    let dir = Medium::Memory.make_folder().expect("a folder");
    let socket = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
    socket.set_read_timeout(Some(HELD_MAX)).expect("a limit");
    let data = dir.path().join("data").display().to_string();
    let here = |word: &String| match word.as_str() {
        "/var/lib/rehome" => data.clone(),
        "127.0.0.1:8090" => "127.0.0.1:0".into(),
        word => word.to_owned(),
    };
    let mut child = Command::new(binaries::plain())
        .args(words[1..].iter().map(here))
        .env("NOTIFY_SOCKET", dir.path().join("notify"))
        .env("REHOME_LOG", "error")
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let heard = || {
        let mut text = [0; 64];
        socket.recv(&mut text).map(|length| String::from_utf8_lossy(&text[..length]).into_owned())
    };
    let ready = heard();
    let told = kill_process(Pid::from_child(&child), Signal::TERM);
    let (stopping, status) = (heard(), child.wait().expect("it was started here"));
    assert_eq!((ready.expect("it says").as_str(), stopping.expect("it says").as_str()), ("READY=1", "STOPPING=1"));
    assert!(told.is_ok() && status.success(), "{status}");
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let (text, words) = unit();
    let dir = Medium::Memory.make_folder().expect("a folder");
    let path = dir.path().join("rehome.service");
    std::fs::write(&path, text.replace(&words[0], &binaries::plain().display().to_string())).expect("a file");
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output();
    match verified {
        Ok(verified) => {
            let said = String::from_utf8_lossy(&verified.stderr);
            assert!(verified.status.success() && said.trim().is_empty(), "{said}");
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "\nno systemd-analyze here, so the unit is not verified: {error}");
        }
    }
}
