//! Snapshots that a killed process leaves on disk, and that no move will ever take, are gone after the next start.

use anyhow::{Context, ensure};
use rehome_integration::pipe::Pipe;
use rehome_integration::{Arming, Bench, Folder, Medium, wait};
use rehome_records::ControlEvent;
use std::path::Path;
use std::time::Duration;

const SEED: u64 = 20_260_715;
const REACHED_MAX: Duration = Duration::from_secs(30);

#[test]
fn snapshots_that_no_move_needs_are_removed_at_the_start() {
    left_over().unwrap_or_else(|error| panic!("{error:#}"));
}

/// The first copy is altered and given up. The process dies when it is about to remove it, and the job is cancelled
/// before the next life: from then on only the second copy is anybody's business.
fn left_over() -> anyhow::Result<()> {
    let mut bench = Bench::filled(SEED, Medium::Memory, 1)?;
    let pipe = Pipe::make(bench.dir().join("pipe"))?;
    let held = Arming::hold_at("node.seal-snapshot.after", pipe.path());
    bench.start(&Arming { fail_at: Some("node.remove-snapshot.before".into()), ..held })?;
    let job = bench.reshard(2)?;
    let held = pipe.wait_held(REACHED_MAX)?;
    let snapshots = bench.dir().join("data/snapshots");
    let first = names(&snapshots)?.pop().context("no snapshot was taken")?;
    let run = snapshots.join(&first).join("000-000000.sst");
    ensure!(run.exists(), "{} is not there", run.display());
    std::fs::write(run, "nonsense")?;
    drop(held);
    bench.wait_killed(REACHED_MAX)?;
    ensure!(names(&snapshots)?.contains(&first), "the first copy is gone already");
    let folder = Folder::open(bench.dir())?;
    let job = folder.story()?.moves.values().next().context("no move")?.job.min(rehome_keyspace::JobId(job));
    folder.propose(ControlEvent::CancelRequested { job, reason: "a test asked for it".into() })?;
    folder.close()?;
    std::fs::create_dir(snapshots.join("of-somebody-else"))?;
    bench.start(&Arming::default())?;
    let ended = bench.wait_jobs()?;
    ensure!(ended == ["cancelled"], "the job is {ended:?}");
    wait::until("nothing to be left but what is somebody else's", REACHED_MAX, || {
        Ok((names(&snapshots)? == ["of-somebody-else"]).then_some(()))
    })?;
    bench.conclude().map(drop)
}

fn names(dir: &Path) -> anyhow::Result<Vec<String>> {
    let names = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<anyhow::Result<_>>()?;
    names.sort_unstable();
    Ok(names)
}
