//! A snapshot whose files were altered or lost between export and ingest: it is refused, another copy is taken, and the
//! move completes.

use anyhow::{Context, ensure};
use rehome_integration::{Bench, Medium, Prepared, pairs};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SEED: u64 = 20_260_713;
const HELD_MAX: Duration = Duration::from_secs(30);
const MANIFEST: &str = "manifest";
/// The first run of the first part.
const RUN: &str = "000-000000.sst";

#[derive(Clone, Copy, Debug)]
enum Harm {
    OneByte,
    CutShort,
    Emptied,
    Removed,
}

#[test]
fn an_altered_snapshot_is_refused_and_another_copy_is_taken() {
    let rows = Bench::filled(SEED, Medium::Memory, 1).and_then(Bench::freeze).expect("a folder with rows");
    let harms = [Harm::OneByte, Harm::CutShort, Harm::Emptied, Harm::Removed];
    let all = harms.iter().flat_map(|harm| [(RUN, *harm), (MANIFEST, *harm)]);
    let all: Vec<_> = all.map(|(file, harm)| (format!("{file:10} {harm:?}"), (file, harm))).collect();
    pairs::run("snapshots altered between export and ingest", &all, |(file, harm)| refused(&rows, file, *harm));
}

fn refused(rows: &Prepared, file: &str, harm: Harm) -> anyhow::Result<String> {
    let mut bench = rows.bench()?;
    let pipe = bench.start_held("node.seal-snapshot.after")?;
    bench.work();
    // One move, so that the copy that is held is the one that is altered.
    let job = bench.reshard(2)?;
    let held = pipe.wait_held(HELD_MAX)?;
    let snapshot = whole_snapshot(&bench.dir().join("data/snapshots"))?;
    alter(&snapshot.join(file), harm)?;
    drop(held);
    let ended = bench.wait_jobs()?;
    ensure!(ended == ["completed"], "the job is {ended:?}");
    let story = bench.explain(job)?;
    let lines = story["moves"].as_array().into_iter().flatten().flat_map(|one| one["story"].as_array());
    let given_up: Vec<&str> = lines
        .flatten()
        .filter_map(|line| line["what"].as_str())
        .filter(|what| what.starts_with("copy 1 is given up"))
        .collect();
    ensure!(given_up.len() == 1, "one first copy of the job is given up: {given_up:?}");
    let why = given_up[0].to_owned();
    let left = std::fs::read_dir(bench.dir().join("data/snapshots"))?.count();
    let remark = bench.conclude()?;
    ensure!(left == 0, "{left} snapshots are left on disk");
    Ok(format!("{remark}; {why}"))
}

/// Returns the folder of a snapshot that has its manifest.
fn whole_snapshot(dir: &Path) -> anyhow::Result<PathBuf> {
    let folders = std::fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    let mut whole = folders.iter().map(std::fs::DirEntry::path).filter(|folder| folder.join(MANIFEST).exists());
    whole.next().context("no snapshot is sealed")
}

fn alter(path: &Path, harm: Harm) -> anyhow::Result<()> {
    let mut bytes = std::fs::read(path).with_context(|| format!("no file {}", path.display()))?;
    match harm {
        Harm::OneByte => {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        Harm::CutShort => bytes.truncate(bytes.len() - 1),
        Harm::Emptied => bytes.clear(),
        Harm::Removed => return Ok(std::fs::remove_file(path)?),
    }
    Ok(std::fs::write(path, bytes)?)
}
