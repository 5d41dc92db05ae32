//! Values of 1 MiB from many clients: bounded in memory, whatever moves or stands still meanwhile.

use anyhow::{Context, bail, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rehome_integration::endpoint::Endpoint;
use rehome_integration::http::Http;
use rehome_integration::memory::{Fact, Memory, RowName, ticks, version};
use rehome_integration::{Arming, Bench, KEYSPACE, Medium, wait};
use rehome_keyspace::RequestId;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SEED: u64 = 20_260_716;
const VALUE_BYTES: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(120);

/// Most resident memory of the server, in MiB. Its parts, by their limits: cache and write buffers of the stores 160 and
/// the blocks of merges beside it, newest records of the log 64, its queue 32, its write buffers 64, writes in the
/// router 48, bodies 48 (up to three times while they are parsed), copies on their way into batches 16.
const RESIDENT_MIB_MAX: u64 = 640;

#[test]
fn three_hundred_mib_through_a_reshard_stay_in_bounded_memory() {
    through_a_reshard().unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn a_replica_that_stands_still_makes_clients_come_back_later_in_bounded_memory() {
    standing_still().unwrap_or_else(|error| panic!("{error:#}"));
}

fn through_a_reshard() -> anyhow::Result<()> {
    const CLIENTS: u64 = 32;
    const WRITES_EACH: u64 = 10;
    let mut bench = Bench::empty(SEED, Medium::Memory)?;
    bench.start(&Arming::default())?;
    bench.create_keyspace(2)?;
    let overloaded = AtomicU64::new(0);
    let endpoint = bench.endpoint();
    let (memory, ended) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (endpoint, overloaded) = (endpoint.clone(), &overloaded);
                scope.spawn(move || Writer::new(number).write(&endpoint, WRITES_EACH, overloaded))
            })
            .collect();
        let job = bench.reshard(3);
        let ended = job.and_then(|_| bench.wait_jobs());
        let mut memory = Memory::default();
        for writer in writers {
            memory.extend(writer.join().expect("a client does not panic")?);
        }
        anyhow::Ok((memory, ended?))
    })?;
    ensure!(ended == ["completed"], "the job is {ended:?}");
    ensure!(memory.counts.puts == CLIENTS * WRITES_EACH, "{:?}", memory.counts);
    bench.learn(memory);
    bench.check_scan()?;
    let resident = resident_mib_max(&bench)?;
    let remark = bench.conclude()?;
    println!("{remark}, {overloaded:?} turned away, {resident} MiB resident at most");
    ensure!(resident <= RESIDENT_MIB_MAX, "{resident} MiB were resident");
    Ok(())
}

fn standing_still() -> anyhow::Result<()> {
    /// More than there is room for.
    const CLIENTS: u64 = 120;
    let mut bench = Bench::empty(SEED, Medium::Memory)?;
    bench.start(&Arming::default())?;
    bench.create_keyspace(1)?;
    bench.stop()?;
    let pipe = bench.start_held("node.write.before")?;
    let overloaded = AtomicU64::new(0);
    let endpoint = bench.endpoint();
    let (memory, resident) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (endpoint, overloaded) = (endpoint.clone(), &overloaded);
                scope.spawn(move || Writer::new(number).write(&endpoint, 1, overloaded))
            })
            .collect();
        let held = pipe.wait_held(PATIENCE)?;
        wait::until("clients to be told to come back later", PATIENCE, || {
            Ok((overloaded.load(Ordering::SeqCst) >= 2 * CLIENTS).then_some(()))
        })?;
        let resident = resident_mib_max(&bench)?;
        drop(held);
        let mut memory = Memory::default();
        for writer in writers {
            memory.extend(writer.join().expect("a client does not panic")?);
        }
        anyhow::Ok((memory, resident))
    })?;
    ensure!(memory.counts.puts == CLIENTS, "{:?}", memory.counts);
    bench.learn(memory);
    let remark = bench.conclude()?;
    println!("{remark}, {overloaded:?} turned away, {resident} MiB resident at most");
    ensure!(resident <= RESIDENT_MIB_MAX, "{resident} MiB were resident while the replica stood still");
    Ok(())
}

/// A client that writes the same few rows again and again, one write at a time.
struct Writer {
    number: u64,
    random: SmallRng,
    http: Http,
    memory: Memory,
}

impl Writer {
    fn new(number: u64) -> Writer {
        let random = SmallRng::seed_from_u64(SEED ^ number);
        Writer { number, random, http: Http::default(), memory: Memory::default() }
    }

    fn write(mut self, endpoint: &Endpoint, writes: u64, overloaded: &AtomicU64) -> anyhow::Result<Memory> {
        for write in 0..writes {
            let name = (format!("key {} {}", self.number, write % 3), "large".to_owned());
            let value: String = (0..VALUE_BYTES).map(|_| char::from(self.random.random_range(b'A'..=b'z'))).collect();
            self.put(endpoint, &name, value.replace('\\', "-"), write, overloaded)?;
        }
        Ok(self.memory)
    }

    fn put(
        &mut self,
        endpoint: &Endpoint,
        name: &RowName,
        value: String,
        write: u64,
        overloaded: &AtomicU64,
    ) -> anyhow::Result<()> {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.number.to_be_bytes());
        id[8..].copy_from_slice(&write.to_be_bytes());
        let request: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let body = json!({ "key": name.0, "sort": name.1, "value": value, "request": request });
        let path = format!("/v1/keyspaces/{KEYSPACE}/rows");
        let (deadline, mut last) = (Instant::now() + PATIENCE, None::<String>);
        loop {
            let Some(server) = endpoint.next(last.as_deref(), deadline).filter(|_| Instant::now() < deadline) else {
                bail!("{name:?} was not written within {PATIENCE:?}");
            };
            let issued_at = ticks();
            let answer = self.http.post(&server, &path, &body)?;
            if answer.is_passing() {
                if answer.body["error"]["code"] == "overloaded" {
                    ensure!(answer.body["error"]["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{answer:?}");
                    overloaded.fetch_add(1, Ordering::SeqCst);
                }
                self.memory.counts.retries += 1;
                last = Some(server);
                continue;
            }
            let answer = answer.good()?;
            let version = version(answer["version"].as_str().with_context(|| format!("{answer} has no version"))?)?;
            self.memory.counts.puts += 1;
            self.memory.wrote(name, RequestId(id), Fact { version, value: Some(value) }, issued_at);
            return Ok(());
        }
    }
}

/// Returns the most memory that the process has had resident, in MiB.
fn resident_mib_max(bench: &Bench) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", bench.pid().context("no process")?))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib >> 10)
}
